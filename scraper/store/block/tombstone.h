/* SPDX-License-Identifier: Apache-2.0
 *
 * Deleted series: (matchers, time range) in a block's meta.json, applied on read and gone after the block was written anew
 * (docs/formats/block.md, "Tombstones"). A profile is deleted when the labels of its stream match all matchers and its time lies in the
 * range.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/prof/labels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct json_value;
struct regex;

/* As in selectors: = != =~ !~, anchored; a label that is absent is "". */
enum store_matcher_op { STORE_EQ, STORE_NE, STORE_RE, STORE_NRE };
struct store_matcher {
	enum store_matcher_op op;
	const char *name, *value;
};

struct tombstone_matcher {
	enum store_matcher_op op;
	char *name, *value;
	struct regex *re; /* of STORE_RE and STORE_NRE */
};
struct tombstone {
	struct tombstone_matcher *matchers;
	size_t n_matchers;
	int64_t min_time_ns, max_time_ns;
};
struct tombstones {
	struct tombstone *items;
	size_t n;
};

void tombstone_done(struct tombstones *t);
/* Names and values are copied. -EINVAL: an expression that does not compile; -EFBIG: more tombstones or matchers than a block takes; -ENOMEM.
 * `t` is as before then. */
int tombstone_add(struct tombstones *t, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, struct errbuf *eb) _must_check_;
/* Adds copies. The same errors; some may have been added then. */
int tombstone_copy(
	struct tombstones *to, const struct tombstones *from, struct errbuf *eb) _must_check_;

/* The same matchers in the same order, the same range. */
bool tombstone_equal(const struct tombstone *a, const struct tombstone *b);

/* The value of a label that is not there is an empty text. */
struct prof_str;
struct tombstone_labels {
	struct prof_str (*value)(void *arg, const char *name);
	void *arg;
};
/* 1, 0, or -ENOMEM when an expression needs more than REGEX_MATCH_STEPS. */
int tombstone_matches(const struct tombstone *t, const struct tombstone_labels *l,
	struct errbuf *eb) _must_check_;

/* The member "tombstones" of meta.json: key and array; reading takes NULL for none and gives -EBADMSG for what is no such
 * array, and the errors of tombstone_add. */
void tombstone_write(struct json *j, const struct tombstones *t);
int tombstone_read(
	const struct json_value *v, struct tombstones *ret, struct errbuf *eb) _must_check_;
