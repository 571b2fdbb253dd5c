/* SPDX-License-Identifier: Apache-2.0
 *
 * The eleven relabel actions. Each function follows its case in Prometheus's
 * model/relabel/relabel.go.
 */
#include "scraper/relabel/relabel.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/base/ucase.h"
#include <inttypes.h>
#include <string.h>
#include <strings.h>

static const char *const action_names[RELABEL_N_ACTIONS] = {
	[RELABEL_REPLACE] = "replace",
	[RELABEL_KEEP] = "keep",
	[RELABEL_DROP] = "drop",
	[RELABEL_KEEPEQUAL] = "keepequal",
	[RELABEL_DROPEQUAL] = "dropequal",
	[RELABEL_HASHMOD] = "hashmod",
	[RELABEL_LABELMAP] = "labelmap",
	[RELABEL_LABELDROP] = "labeldrop",
	[RELABEL_LABELKEEP] = "labelkeep",
	[RELABEL_LOWERCASE] = "lowercase",
	[RELABEL_UPPERCASE] = "uppercase",
};

const char *relabel_action_name(enum relabel_action action)
{
	return action_names[action];
}

int relabel_action_parse(const char *name, enum relabel_action *ret, struct errbuf *eb)
{
	char valid[160] = "";

	for (unsigned i = 0; i < RELABEL_N_ACTIONS; i++) {
		size_t len = strlen(valid);

		if (!strcasecmp(name, action_names[i])) {
			*ret = (enum relabel_action)i;
			return 0;
		}
		snprintf(valid + len, sizeof(valid) - len, "%s%s", i ? ", " : "", action_names[i]);
	}
	if (!*name)
		return err_set(
			eb, -EINVAL, "relabel action cannot be empty, expected one of %s", valid);
	return err_set(
		eb, -EINVAL, "unknown relabel action \"%s\", expected one of %s", name, valid);
}

/* What the actions need and refuse: bits of enum relabel_key. */
static const struct {
	unsigned needs, refuses;
} action_keys[RELABEL_N_ACTIONS] = {
	[RELABEL_REPLACE] = {RELABEL_KEY_TARGET_LABEL, 0},
	[RELABEL_KEEPEQUAL] = {RELABEL_KEY_TARGET_LABEL, RELABEL_KEY_REGEX | RELABEL_KEY_MODULUS |
								 RELABEL_KEY_SEPARATOR |
								 RELABEL_KEY_REPLACEMENT},
	[RELABEL_DROPEQUAL] = {RELABEL_KEY_TARGET_LABEL, RELABEL_KEY_REGEX | RELABEL_KEY_MODULUS |
								 RELABEL_KEY_SEPARATOR |
								 RELABEL_KEY_REPLACEMENT},
	[RELABEL_HASHMOD] = {RELABEL_KEY_TARGET_LABEL | RELABEL_KEY_MODULUS, 0},
	[RELABEL_LABELDROP] = {0, RELABEL_KEY_SOURCE_LABELS | RELABEL_KEY_TARGET_LABEL |
					  RELABEL_KEY_MODULUS | RELABEL_KEY_SEPARATOR |
					  RELABEL_KEY_REPLACEMENT},
	[RELABEL_LABELKEEP] = {0, RELABEL_KEY_SOURCE_LABELS | RELABEL_KEY_TARGET_LABEL |
					  RELABEL_KEY_MODULUS | RELABEL_KEY_SEPARATOR |
					  RELABEL_KEY_REPLACEMENT},
	[RELABEL_LOWERCASE] = {RELABEL_KEY_TARGET_LABEL, RELABEL_KEY_REPLACEMENT},
	[RELABEL_UPPERCASE] = {RELABEL_KEY_TARGET_LABEL, RELABEL_KEY_REPLACEMENT},
};

static const struct {
	enum relabel_key key;
	const char *name;
} key_names[] = {
	{RELABEL_KEY_SOURCE_LABELS, "source_labels"},
	{RELABEL_KEY_SEPARATOR, "separator"},
	{RELABEL_KEY_TARGET_LABEL, "target_label"},
	{RELABEL_KEY_REGEX, "regex"},
	{RELABEL_KEY_MODULUS, "modulus"},
	{RELABEL_KEY_REPLACEMENT, "replacement"},
};

/* Keys whose value differs from the default; writing a default is harmless, except for regex, as in
 * Prometheus. */
static unsigned keys_that_say_something(const struct relabel_rule *rule, unsigned written)
{
	unsigned keys = written & (RELABEL_KEY_REGEX | RELABEL_KEY_SOURCE_LABELS);

	if (strcmp(rule->separator, RELABEL_DEFAULT_SEPARATOR))
		keys |= RELABEL_KEY_SEPARATOR;
	if (*rule->target_label)
		keys |= RELABEL_KEY_TARGET_LABEL;
	if (rule->modulus)
		keys |= RELABEL_KEY_MODULUS;
	if (strcmp(rule->replacement, RELABEL_DEFAULT_REPLACEMENT))
		keys |= RELABEL_KEY_REPLACEMENT;
	return keys;
}

bool relabel_action_refuses(enum relabel_action action, enum relabel_key key)
{
	return action_keys[action].refuses & key;
}

int relabel_rule_check(
	const struct relabel_rule *rule, unsigned written, unsigned *ret_key, struct errbuf *eb)
{
	const char *action = action_names[rule->action];
	unsigned says = keys_that_say_something(rule, written);
	unsigned missing = action_keys[rule->action].needs & ~says;
	unsigned refused = action_keys[rule->action].refuses & says;

	*ret_key = 0;
	for (size_t i = 0; i < ARRAY_SIZE(key_names); i++) {
		if (missing & key_names[i].key)
			return err_set(eb, -EINVAL, "action %s requires %s%s", action,
				key_names[i].key == RELABEL_KEY_MODULUS ? "a non-zero " : "",
				key_names[i].name);
		if (refused & key_names[i].key) {
			*ret_key = key_names[i].key;
			return err_set(eb, -EINVAL, "%s can not be set for action %s",
				key_names[i].name, action);
		}
	}
	if (rule->action == RELABEL_LABELMAP && !*rule->replacement) {
		*ret_key = RELABEL_KEY_REPLACEMENT;
		return err_set(eb, -EINVAL, "action labelmap requires a label name as replacement");
	}
	return 0;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static size_t word_len(const char *s)
{
	size_t n = 0;

	while (is_word(s[n]))
		n++;
	return n;
}

bool relabel_is_legacy_name(const char *name)
{
	return *name && !(*name >= '0' && *name <= '9') && !name[word_len(name)];
}

/* ^(?:(?:[a-zA-Z_]|\$(?:\{\w+\}|\w+))+\w*)+$ */
static bool is_legacy_template(const char *s)
{
	const char *start = s;

	while (*s) {
		bool in_braces = s[0] == '$' && s[1] == '{';
		size_t n = *s == '$' ? word_len(s + 1 + in_braces) : 0;

		if (*s == '$' && (!n || (in_braces && s[2 + n] != '}')))
			return false;
		if (*s != '$' && (!is_word(*s) || (s == start && *s >= '0' && *s <= '9')))
			return false;
		s += *s == '$' ? 1 + n + 2U * in_braces : 1;
	}
	return s > start;
}

int relabel_rule_check_legacy(const struct relabel_rule *rule, struct errbuf *eb)
{
	bool is_map = rule->action == RELABEL_LABELMAP;
	const char *name = is_map ? rule->replacement : rule->target_label;
	bool is_template = is_map || rule->action == RELABEL_REPLACE;

	if (!*name || (is_template ? is_legacy_template(name) : relabel_is_legacy_name(name)))
		return 0;
	return err_set(eb, -EINVAL,
		"%s \"%.100s\" is not a label name of the legacy scheme, expected letters, digits, "
		"_%s",
		is_map ? "replacement" : "target_label", name,
		is_template ? " and references" : "");
}

/* The values of the source labels, joined; NUL-terminated in `out`. */
static int join_sources(
	const struct relabel_rule *rule, const struct labels_builder *lb, struct bytes *out)
{
	for (size_t i = 0; i < rule->n_source_labels; i++) {
		if (i)
			bytes_put_str(out, rule->separator);
		bytes_put_str(out, labels_builder_get(lb, rule->source_labels[i]));
	}
	bytes_put_u8(out, 0);
	return bytes_error(out);
}

static int expand(const struct relabel_rule *rule, const char *template, const char *value,
	const struct regex_span *spans, struct bytes *out)
{
	regex_expand(rule->regex, template, value, spans, out);
	bytes_put_u8(out, 0);
	return bytes_error(out);
}

static bool is_name(const struct relabel_rule *rule, const char *s)
{
	return rule->legacy_names ? relabel_is_legacy_name(s) : *s && str_is_utf8(s, strlen(s));
}

static int replace(const struct relabel_rule *rule, const char *value, struct labels_builder *lb,
	struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes target = {0}, replacement = {0};
	struct regex_span spans[REGEX_MAX_GROUPS + 1];
	int r;

	if (!*value && rule->regex_is_default && !strchr(rule->target_label, '$') &&
		!strchr(rule->replacement, '$')) {
		labels_builder_set(lb, rule->target_label, rule->replacement);
		return 1;
	}
	r = regex_match_groups(
		rule->regex, value, strlen(value), 0, spans, regex_n_groups(rule->regex) + 1, eb);
	if (r <= 0)
		return r < 0 ? r : 1;
	if (expand(rule, rule->target_label, value, spans, &target) < 0 ||
		expand(rule, rule->replacement, value, spans, &replacement) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	if (is_name(rule, (char *)target.data))
		labels_builder_set(lb, (char *)target.data, (char *)replacement.data);
	return 1;
}

/* MD5, its last eight bytes big-endian. */
static void hashmod(const struct relabel_rule *rule, const char *value, struct labels_builder *lb)
{
	uint8_t digest[16];
	uint64_t v = 0;
	char text[24];

	hash_md5(value, strlen(value), digest);
	for (size_t i = 8; i < sizeof(digest); i++)
		v = v << 8 | digest[i];
	snprintf(text, sizeof(text), "%" PRIu64, v % rule->modulus);
	labels_builder_set(lb, rule->target_label, text);
}

/* All loops over labels run over those that were there when the rule began. */
static int labelmap(const struct relabel_rule *rule, struct labels_builder *lb, struct errbuf *eb)
{
	_cleanup_labels_ struct labels before = {0};
	struct regex_span spans[REGEX_MAX_GROUPS + 1];

	if (labels_builder_finish(lb, &before) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	for (size_t i = 0; i < before.n; i++) {
		_cleanup_bytes_ struct bytes name = {0};
		const char *old = before.items[i].name;
		int r = regex_match_groups(rule->regex, old, strlen(old), 0, spans,
			regex_n_groups(rule->regex) + 1, eb);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (expand(rule, rule->replacement, old, spans, &name) < 0)
			return err_set(eb, -ENOMEM, "out of memory");
		if (name.data[0])
			labels_builder_set(lb, (char *)name.data, before.items[i].value);
	}
	return 1;
}

static int drop_labels(const struct relabel_rule *rule, bool those_that_match,
	struct labels_builder *lb, struct errbuf *eb)
{
	for (size_t i = lb->n; i > 0; i--) {
		const char *name = lb->items[i - 1].name;
		int r = regex_match(rule->regex, name, strlen(name), eb);

		if (r < 0)
			return r;
		if ((r > 0) == those_that_match)
			labels_builder_set(lb, name, "");
	}
	return 1;
}

static int map_case(const struct relabel_rule *rule, const char *value, struct labels_builder *lb,
	struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes mapped = {0};

	ucase_map(value, strlen(value), rule->action == RELABEL_UPPERCASE, &mapped);
	bytes_put_u8(&mapped, 0);
	if (bytes_error(&mapped) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	labels_builder_set(lb, rule->target_label, (char *)mapped.data);
	return 1;
}

static int apply(const struct relabel_rule *rule, const char *value, struct labels_builder *lb,
	struct errbuf *eb)
{
	int r;

	switch (rule->action) {
	case RELABEL_REPLACE: return replace(rule, value, lb, eb);
	case RELABEL_KEEP: return regex_match(rule->regex, value, strlen(value), eb);
	case RELABEL_DROP:
		r = regex_match(rule->regex, value, strlen(value), eb);
		return r < 0 ? r : !r;
	case RELABEL_KEEPEQUAL: return !strcmp(labels_builder_get(lb, rule->target_label), value);
	case RELABEL_DROPEQUAL:
		return strcmp(labels_builder_get(lb, rule->target_label), value) != 0;
	case RELABEL_HASHMOD: hashmod(rule, value, lb); return 1;
	case RELABEL_LABELMAP: return labelmap(rule, lb, eb);
	case RELABEL_LABELDROP: return drop_labels(rule, true, lb, eb);
	case RELABEL_LABELKEEP: return drop_labels(rule, false, lb, eb);
	case RELABEL_LOWERCASE:
	case RELABEL_UPPERCASE: return map_case(rule, value, lb, eb);
	case RELABEL_N_ACTIONS: break;
	}
	err_panic("relabel action %d", rule->action);
}

int relabel_apply_rule(
	const struct relabel_rule *rule, struct labels_builder *lb, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes value = {0};
	int r;

	if (join_sources(rule, lb, &value) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	r = apply(rule, (char *)value.data, lb, eb);
	if (r >= 0 && lb->error)
		return err_set(eb, -ENOMEM, "out of memory");
	return r;
}

int relabel_apply(const struct relabel_rule *rules, size_t n, struct labels_builder *lb,
	size_t *ret_rule, struct errbuf *eb)
{
	for (size_t i = 0; i < n; i++) {
		int r = relabel_apply_rule(&rules[i], lb, eb);

		if (r < 0)
			return err_prefix(eb, r, "relabel rule %zu", i + 1);
		if (r == 0) {
			if (ret_rule)
				*ret_rule = i;
			return 0;
		}
	}
	return 1;
}
