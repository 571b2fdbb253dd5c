/* SPDX-License-Identifier: Apache-2.0
 *
 * Relabel rules as in Prometheus 3 (model/relabel/relabel.go): pure functions from labels to labels
 * or to "dropped". Used on targets, on profile types and on series. Where labelmap gives two labels
 * one name, the one whose old name sorts last wins.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/prof/labels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct regex;

#define RELABEL_DEFAULT_SEPARATOR ";"
#define RELABEL_DEFAULT_REGEX "(.*)"
#define RELABEL_DEFAULT_REPLACEMENT "$1"

enum relabel_action {
	RELABEL_REPLACE,
	RELABEL_KEEP,
	RELABEL_DROP,
	RELABEL_KEEPEQUAL,
	RELABEL_DROPEQUAL,
	RELABEL_HASHMOD,
	RELABEL_LABELMAP,
	RELABEL_LABELDROP,
	RELABEL_LABELKEEP,
	RELABEL_LOWERCASE,
	RELABEL_UPPERCASE,
	RELABEL_N_ACTIONS,
};

/* One rule with the defaults filled in. Strings and regex belong to whoever made the rule (struct
 * config). */
struct relabel_rule {
	enum relabel_action action;
	const char **source_labels;
	size_t n_source_labels;
	const char *separator;
	const char *target_label;
	const char *replacement;
	struct regex *regex; /* anchored */
	uint64_t modulus;
	bool regex_is_default; /* "(.*)": the constant assignment needs no match */
	bool legacy_names; /* a name made by `replace` that is not [a-zA-Z_][a-zA-Z0-9_]* is left out */
};

/* "replace", … as users write it; and back, ignoring case: -EINVAL with the valid names. */
const char *relabel_action_name(enum relabel_action action);
int relabel_action_parse(
	const char *name, enum relabel_action *ret, struct errbuf *eb) _must_check_;

/* Which keys of a rule were written, for relabel_rule_check: some actions refuse keys that they
 * would ignore. */
enum relabel_key {
	RELABEL_KEY_SOURCE_LABELS = 1 << 0,
	RELABEL_KEY_SEPARATOR = 1 << 1,
	RELABEL_KEY_TARGET_LABEL = 1 << 2,
	RELABEL_KEY_REGEX = 1 << 3,
	RELABEL_KEY_MODULUS = 1 << 4,
	RELABEL_KEY_REPLACEMENT = 1 << 5,
};
/*
 * What Prometheus checks when it loads a rule: -EINVAL with a text; *ret_key is the key (one bit)
 * that the text is about, 0 when it is the rule as a whole.
 */
int relabel_rule_check(const struct relabel_rule *rule, unsigned written, unsigned *ret_key,
	struct errbuf *eb) _must_check_;
/* Whether a rule of that action may not have the key. */
bool relabel_action_refuses(enum relabel_action action, enum relabel_key key);

/* What it checks beside that under the legacy scheme of names. */
int relabel_rule_check_legacy(const struct relabel_rule *rule, struct errbuf *eb) _must_check_;
/* [a-zA-Z_][a-zA-Z0-9_]* */
bool relabel_is_legacy_name(const char *name);

/*
 * Applies n rules in order. 1: kept, `lb` holds the result; 0: dropped, *ret_rule (may be NULL) is
 * the index of the rule that dropped it; negative: a regular expression passed its step limit
 * (-ENOMEM; the text names the rule).
 */
int relabel_apply(const struct relabel_rule *rules, size_t n, struct labels_builder *lb,
	size_t *ret_rule, struct errbuf *eb) _must_check_;
/* Applies one rule: 1 kept, 0 dropped, negative as above. */
int relabel_apply_rule(
	const struct relabel_rule *rule, struct labels_builder *lb, struct errbuf *eb) _must_check_;
