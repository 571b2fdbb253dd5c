/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers and printers of scalar values, lists of text, label sets and parameters.
 */
#include "scraper/config/value.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool config_value_takes_null(enum config_type type)
{
	return type == CONFIG_TYPE_REGEX || type == CONFIG_TYPE_ACTION;
}

static int fail_kind(struct config_reader *r, const struct conf_node *node, const char *expected)
{
	if (node->kind != CONF_SCALAR || conf_node_is_null(node) || node->is_not_text)
		return config_fail(
			r, node, NULL, "expected %s, got %s", expected, conf_node_kind_name(node));
	return config_fail(r, node, NULL, "expected %s, got \"%.80s\"", expected, node->text);
}

static const char *keep(struct config_reader *r, const char *text)
{
	return arena_strdup(config_mem_arena(r->mem), text);
}

static int read_string(struct config_reader *r, const struct conf_node *node, const char **ret)
{
	if (node->kind != CONF_SCALAR)
		return fail_kind(r, node, "text");
	*ret = keep(r, node->text);
	return *ret ? 0 : config_out_of_memory(r);
}

const char *config_join_path(struct config_reader *r, const char *path)
{
	const char *slash = strrchr(r->file, '/');

	if (*path == '/' || !*path || !slash)
		return keep(r, path);
	return arena_printf(
		config_mem_arena(r->mem), "%.*s/%s", (int)(slash - r->file), r->file, path);
}

static int read_path(struct config_reader *r, const struct conf_node *node, const char **ret)
{
	if (node->kind != CONF_SCALAR)
		return fail_kind(r, node, "a path");
	*ret = config_join_path(r, node->text);
	return *ret ? 0 : config_out_of_memory(r);
}

/* No message shows the value. */
static int read_secret(struct config_reader *r, const struct conf_node *node, const char **ret)
{
	if (node->kind != CONF_SCALAR)
		return config_fail(
			r, node, NULL, "expected text, got %s", conf_node_kind_name(node));
	*ret = keep(r, node->text);
	return *ret ? 0 : config_out_of_memory(r);
}

static int read_url(
	struct config_reader *r, const struct conf_node *node, bool needs_scheme, const char **ret)
{
	_cleanup_free_ char *whole = NULL;
	_cleanup_url_ struct url u = {0};
	struct errbuf eb = {0};
	int e = read_secret(r, node, ret);

	if (e < 0 || !**ret)
		return e;
	if (str_starts_with(*ret, "socks5://") || str_starts_with(*ret, "socks5h://"))
		return 0; /* a proxy's */
	whole = xasprintf("%s%s", needs_scheme || strstr(*ret, "://") ? "" : "http://", *ret);
	if (url_parse(whole, &u, &eb) < 0)
		return config_fail(r, node, NULL, "expected a URL such as http://host:3128: %s",
			err_text(&eb, -EINVAL));
	return 0;
}

static int read_bool(struct config_reader *r, const struct conf_node *node, bool *ret)
{
	static const char *const words[2][4] = {
		{"false", "no", "off", "n"}, {"true", "yes", "on", "y"}};

	for (int value = 0; value < 2 && node->kind == CONF_SCALAR && node->is_plain; value++) {
		for (size_t i = 0; i < ARRAY_SIZE(words[0]); i++) {
			if (strcasecmp(node->text, words[value][i]))
				continue;
			*ret = value;
			return 0;
		}
	}
	return fail_kind(r, node, "true or false");
}

/* What YAML libraries take for a whole number: 1000, 1_000, +1000, 0x3e8, 0o1750, 01750, 0b1111101000, 1e3 and 1000.0. */
static bool parse_yaml_uint(const char *text, uint64_t *ret)
{
	static const struct {
		const char *prefix;
		int base;
	} forms[] = {{"0x", 16}, {"0X", 16}, {"0o", 8}, {"0b", 2}, {"0", 8}, {"", 10}};
	char plain[80], *digits, *end;
	size_t n = 0, i = 0;
	double d;

	for (const char *p = text + (*text == '+'); *p; p++) {
		if (*p != '_' && n < sizeof(plain) - 1)
			plain[n++] = *p;
	}
	plain[n] = '\0';
	if (plain[0] < '0' || plain[0] > '9' || strlen(text) >= sizeof(plain))
		return false;
	while (!str_starts_with(plain, forms[i].prefix))
		i++;
	digits = plain + strlen(forms[i].prefix);
	errno = 0;
	*ret = strtoull(digits, &end, forms[i].base);
	if (!*end && (isxdigit((unsigned char)*digits) || !strcmp(plain, "0")))
		return !errno && *ret <= INT64_MAX;
	if (str_parse_double(plain, &d, NULL) < 0 || !(d < 0x1p63) || d != floor(d))
		return false;
	*ret = (uint64_t)d;
	return true;
}

static int read_uint(
	struct config_reader *r, const struct conf_node *node, const char *expected, uint64_t *ret)
{
	if (node->kind != CONF_SCALAR || !node->is_plain || !parse_yaml_uint(node->text, ret))
		return fail_kind(r, node, expected);
	return 0;
}

static int read_double(struct config_reader *r, const struct conf_node *node, double *ret)
{
	double v;

	if (node->kind != CONF_SCALAR || !node->is_plain ||
		str_parse_double(node->text, &v, NULL) < 0 || !(v >= 0))
		return fail_kind(r, node, "a number, zero or more");
	*ret = v;
	return 0;
}

static int read_duration(struct config_reader *r, const struct conf_node *node, int64_t *ret)
{
	static const char expected[] = "a duration such as 15s or 1h30m";

	if (node->kind != CONF_SCALAR)
		return fail_kind(r, node, expected);
	if (node->text[0] == '-')
		return config_fail(
			r, node, NULL, "\"%.80s\" is negative, expected %s", node->text, expected);
	if (str_parse_duration_ms(node->text, ret, NULL) < 0)
		return fail_kind(r, node, expected);
	return 0;
}

static int read_bytes(struct config_reader *r, const struct conf_node *node, uint64_t *ret)
{
	if (node->kind != CONF_SCALAR || str_parse_bytes(node->text, ret, NULL) < 0)
		return fail_kind(
			r, node, "a size with a unit such as 32MB (32 × 1024 × 1024 bytes)");
	return 0;
}

static int read_enum(struct config_reader *r, const struct config_key *key,
	const struct conf_node *node, int *ret)
{
	char expected[128] = "one of";

	for (int i = 0; key->names[i]; i++) {
		size_t len = strlen(expected);

		if (node->kind == CONF_SCALAR &&
			!(key->is_any_case ? strcasecmp : strcmp)(node->text, key->names[i])) {
			*ret = i;
			return 0;
		}
		if (*key->names[i])
			snprintf(expected + len, sizeof(expected) - len, "%s %s",
				len > strlen("one of") ? "," : "", key->names[i]);
	}
	return fail_kind(r, node, key->names[1] ? expected : key->names[0]);
}

static int read_action(
	struct config_reader *r, const struct conf_node *node, enum relabel_action *ret)
{
	struct errbuf eb = {0};

	if (node->kind != CONF_SCALAR)
		return fail_kind(r, node, "a relabel action");
	if (relabel_action_parse(conf_node_is_null(node) ? "" : node->text, ret, &eb) < 0)
		return config_fail(r, node, NULL, "%s", eb.text);
	return 0;
}

static int read_regex(struct config_reader *r, const struct conf_node *node, struct regex **ret)
{
	_cleanup_(regex_freep)
	struct regex *re = NULL;
	struct errbuf eb = {0};
	int e;

	if (node->kind != CONF_SCALAR)
		return fail_kind(r, node, "a regular expression");
	e = regex_compile(conf_node_is_null(node) ? "" : node->text, REGEX_ANCHORED, &re, &eb);
	if (e == -ENOMEM)
		return config_out_of_memory(r);
	if (e < 0)
		return config_fail(r, node, NULL,
			"\"%.100s\" is not a regular expression of RE2: %s", node->text, eb.text);
	*ret = re;
	return config_mem_keep_regex(r->mem, &re) < 0 ? config_out_of_memory(r) : 0;
}

static int read_strings(struct config_reader *r, const struct conf_node *node, bool names,
	struct config_strings *ret)
{
	const char *expected = names ? "a list of label names" : "a list of texts";

	if (node->kind != CONF_SEQUENCE)
		return fail_kind(r, node, expected);
	ret->items =
		arena_alloc_array(config_mem_arena(r->mem), MAX(node->n, 1U), sizeof(*ret->items));
	if (!ret->items)
		return config_out_of_memory(r);
	for (size_t i = 0; i < node->n; i++) {
		const struct conf_node *item = node->items[i];
		size_t mark = config_path_push(r, "[%zu]", i);
		int e = 0;

		if (item->kind != CONF_SCALAR || item->is_not_text || conf_node_is_null(item))
			e = fail_kind(r, item, names ? "a label name" : "text");
		else if (names && !*item->text)
			e = config_fail(r, item, NULL, "a label name cannot be empty");
		config_path_pop(r, mark);
		if (e < 0)
			return e;
		ret->items[i] = keep(r, item->text);
		if (!ret->items[i])
			return config_out_of_memory(r);
	}
	ret->n = node->n;
	return 0;
}

static int read_paths(
	struct config_reader *r, const struct conf_node *node, struct config_strings *ret)
{
	int e = read_strings(r, node, false, ret);

	for (size_t i = 0; e == 0 && i < ret->n; i++) {
		ret->items[i] = config_join_path(r, ret->items[i]);
		if (!ret->items[i])
			return config_out_of_memory(r);
	}
	return e;
}

/* Length of the variable's name behind '$' at s[-1], as Go's os.Expand sees it; 0 when there is
 * none. */
static size_t env_name(const char *s, const char **ret_name, size_t *ret_len)
{
	size_t n = 0;

	if (*s == '{') {
		const char *end = strchr(s, '}');

		if (!end || end == s + 1)
			return 0;
		*ret_name = s + 1;
		*ret_len = (size_t)(end - s - 1);
		return (size_t)(end + 1 - s);
	}
	while ((s[n] >= '0' && s[n] <= '9') || ((s[n] | 32) >= 'a' && (s[n] | 32) <= 'z') ||
		s[n] == '_')
		n++;
	*ret_name = s;
	*ret_len = n;
	return n;
}

/* $VAR and ${VAR} from the environment, $$ for $. */
static int expand_env(struct config_reader *r, const struct conf_node *node, struct bytes *out)
{
	for (const char *s = node->text; *s;) {
		const char *dollar = strchrnul(s, '$'), *name_at, *value = NULL;
		char name[128];
		size_t len, skip;

		bytes_put(out, s, (size_t)(dollar - s));
		if (!*dollar)
			break;
		s = dollar + 1;
		if (*s == '$') {
			bytes_put_u8(out, '$');
			s++;
			continue;
		}
		skip = env_name(s, &name_at, &len);
		if (!skip && *s == '{')
			return config_fail(r, node, NULL,
				"${ without a name and }, expected ${VAR}, $VAR or $$");
		if (!skip) {
			bytes_put_u8(out, '$');
			continue;
		}
		if (len >= sizeof(name))
			return config_fail(
				r, node, NULL, "the name of an environment variable is too long");
		snprintf(name, sizeof(name), "%.*s", (int)len, name_at);
		if (r->opts && r->opts->getenv)
			value = r->opts->getenv(name, r->opts->getenv_ctx);
		if (!value &&
			config_warn(r, node, NULL,
				"environment variable %s is not set, taken as empty", name) < 0)
			return -ENOMEM;
		bytes_put_str(out, value ? value : "");
		s += skip;
	}
	bytes_put_u8(out, 0);
	return bytes_error(out) < 0 ? config_out_of_memory(r) : 0;
}

static int read_labels(
	struct config_reader *r, const struct conf_node *node, bool env, struct labels *ret)
{
	_cleanup_labels_builder_ struct labels_builder b;

	labels_builder_init(&b);
	if (node->kind != CONF_MAPPING)
		return fail_kind(r, node, "a mapping of label names to values");
	for (size_t i = 0; i < node->n; i += 2) {
		_cleanup_bytes_ struct bytes expanded = {0};
		const struct conf_node *name = node->items[i], *value = node->items[i + 1];
		size_t mark = config_path_push(r, ".%s", name->text);
		int e = 0;

		if (!*name->text)
			e = config_fail(r, name, NULL, "a label name cannot be empty");
		else if (value->kind != CONF_SCALAR || value->is_not_text)
			e = fail_kind(r, value, "text");
		else if (env)
			e = expand_env(r, value, &expanded);
		config_path_pop(r, mark);
		if (e < 0)
			return e;
		if (!conf_node_is_null(value))
			labels_builder_set(
				&b, name->text, env ? (char *)expanded.data : value->text);
	}
	if (b.error || config_mem_keep_labels(r->mem, &b, ret) < 0)
		return config_out_of_memory(r);
	return 0;
}

static int read_params(struct config_reader *r, const struct conf_node *node,
	struct config_param **ret, size_t *ret_n)
{
	struct config_param *params;

	if (node->kind != CONF_MAPPING)
		return fail_kind(r, node, "a mapping of parameter names to lists of values");
	params = arena_alloc_array(config_mem_arena(r->mem), MAX(node->n / 2, 1U), sizeof(*params));
	if (!params)
		return config_out_of_memory(r);
	for (size_t i = 0; i < node->n / 2; i++) {
		const struct conf_node *values = node->items[2 * i + 1];
		size_t mark = config_path_push(r, ".%s", node->items[2 * i]->text);
		int e = 0;

		params[i] = (struct config_param) {.name = keep(r, node->items[2 * i]->text)};
		if (!params[i].name)
			return config_out_of_memory(r);
		if (!conf_node_is_null(values))
			e = read_strings(r, values, false, &params[i].values);
		config_path_pop(r, mark);
		if (e < 0)
			return e;
	}
	*ret = params;
	*ret_n = node->n / 2;
	return 0;
}

int config_value_read(struct config_reader *r, const struct config_key *key,
	const struct conf_node *node, void *object)
{
	struct conf_node standard = {
		.kind = CONF_SCALAR, .is_plain = true, .text = key->default_text};
	void *at = (char *)object + key->offset, *n_at = (char *)object + key->n_offset;
	struct config_strings sources;
	uint64_t seconds;
	bool value;
	int e;

	if (key->type == CONFIG_TYPE_TRISTATE)
		*(enum config_tristate *)at = CONFIG_UNSET;
	if (!node && !key->default_text)
		return 0;
	if (!node)
		node = &standard;
	switch (key->type) {
	case CONFIG_TYPE_STRING: return read_string(r, node, at);
	case CONFIG_TYPE_SECRET: return read_secret(r, node, at);
	case CONFIG_TYPE_PATH: return read_path(r, node, at);
	case CONFIG_TYPE_URL: return read_url(r, node, true, at);
	case CONFIG_TYPE_SERVER: return read_url(r, node, false, at);
	case CONFIG_TYPE_BOOL: return read_bool(r, node, at);
	case CONFIG_TYPE_TRISTATE:
		e = read_bool(r, node, &value);
		if (e == 0)
			*(enum config_tristate *)at = value ? CONFIG_TRUE : CONFIG_FALSE;
		return e;
	case CONFIG_TYPE_UINT: return read_uint(r, node, "a whole number, zero or more", at);
	case CONFIG_TYPE_DOUBLE: return read_double(r, node, at);
	case CONFIG_TYPE_SECONDS:
		e = read_uint(r, node, "a whole number of seconds", &seconds);
		if (e == 0)
			*(int64_t *)at = (int64_t)seconds;
		return e;
	case CONFIG_TYPE_DURATION: return read_duration(r, node, at);
	case CONFIG_TYPE_BYTES: return read_bytes(r, node, at);
	case CONFIG_TYPE_ENUM: return read_enum(r, key, node, at);
	case CONFIG_TYPE_ACTION: return read_action(r, node, at);
	case CONFIG_TYPE_REGEX: return read_regex(r, node, at);
	case CONFIG_TYPE_PATHS: return read_paths(r, node, at);
	case CONFIG_TYPE_STRINGS:
	case CONFIG_TYPE_SECRETS:
	case CONFIG_TYPE_NAMES: return read_strings(r, node, key->type == CONFIG_TYPE_NAMES, at);
	case CONFIG_TYPE_SOURCES:
		e = read_strings(r, node, true, &sources);
		if (e == 0) {
			*(const char ***)at = sources.items;
			*(size_t *)n_at = sources.n;
		}
		return e;
	case CONFIG_TYPE_LABELS:
	case CONFIG_TYPE_ENV_LABELS:
		return read_labels(r, node, key->type == CONFIG_TYPE_ENV_LABELS, at);
	case CONFIG_TYPE_PARAMS:
	case CONFIG_TYPE_SECRET_PARAMS: return read_params(r, node, at, n_at);
	case CONFIG_TYPE_SECTION:
	case CONFIG_TYPE_LIST:
	case CONFIG_TYPE_MAP: break;
	}
	err_panic("configuration key %s has no reader", key->name);
}

static void print_list(const char *const *items, size_t n, struct bytes *out)
{
	bytes_put_u8(out, '[');
	for (size_t i = 0; i < n; i++) {
		bytes_put_str(out, i ? ", " : "");
		conf_print_scalar(items[i], out);
	}
	bytes_put_u8(out, ']');
}

static void print_labels(const struct labels *l, struct bytes *out)
{
	bytes_put_u8(out, '{');
	for (size_t i = 0; i < l->n; i++) {
		bytes_put_str(out, i ? ", " : "");
		conf_print_scalar(l->items[i].name, out);
		bytes_put_str(out, ": ");
		conf_print_scalar(l->items[i].value, out);
	}
	bytes_put_u8(out, '}');
}

static const char secret_text[] = "<secret>";

/* As many of them as there are values. */
static void print_secrets(size_t n, struct bytes *out)
{
	bytes_put_u8(out, '[');
	for (size_t i = 0; i < n; i++)
		bytes_printf(out, "%s%s", i ? ", " : "", secret_text);
	bytes_put_u8(out, ']');
}

/* The length of the URL before its password, 0 without one; *ret_rest begins with '@'. */
static size_t before_password(const char *url, const char **ret_rest)
{
	const char *start = strstr(url, "://"), *colon;

	start = start ? start + 3 : url;
	*ret_rest = start + strcspn(start, "/?#@");
	colon = memchr(start, ':', (size_t)(*ret_rest - start));
	return **ret_rest == '@' && colon ? (size_t)(colon - url) : 0;
}

const char *config_redact_url(struct config_reader *r, const char *url)
{
	const char *rest;
	size_t n = before_password(url, &rest);

	return n ? arena_printf(config_mem_arena(r->mem), "%.*s:xxxxx%s", (int)n, url, rest) : url;
}

static void print_url(const char *url, enum config_print how, struct bytes *out)
{
	const char *rest;
	size_t n = before_password(url, &rest);
	_cleanup_free_ char *redacted = n && how == CONFIG_HIDE_SECRETS
						? xasprintf("%.*s:xxxxx%s", (int)n, url, rest)
						: NULL;

	conf_print_scalar(redacted ? redacted : url, out);
}

static void print_params(const struct config_param *params, size_t n, bool hide, struct bytes *out)
{
	bytes_put_u8(out, '{');
	for (size_t i = 0; i < n; i++) {
		bytes_put_str(out, i ? ", " : "");
		conf_print_scalar(params[i].name, out);
		bytes_put_str(out, ": ");
		if (hide)
			print_secrets(params[i].values.n, out);
		else
			print_list(params[i].values.items, params[i].values.n, out);
	}
	bytes_put_u8(out, '}');
}

/* In the largest unit that leaves no remainder, so that it reads back equal. */
static void print_bytes(uint64_t v, struct bytes *out)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
	size_t unit = 0;

	while (v && v % 1024 == 0 && unit + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		unit++;
	}
	if (v)
		bytes_printf(out, "%" PRIu64 "%s", v, units[unit]);
	else
		bytes_put_str(out, "0");
}

bool config_value_print(
	const struct config_key *key, const void *object, enum config_print how, struct bytes *out)
{
	bool hide = how == CONFIG_HIDE_SECRETS;
	const void *at = (const char *)object + key->offset,
		   *n_at = (const char *)object + key->n_offset;
	const struct config_strings *strings = at;
	char duration[64];

	switch (key->type) {
	case CONFIG_TYPE_SECRET:
		if (*(const char *const *)at)
			conf_print_scalar(hide ? secret_text : *(const char *const *)at, out);
		return *(const char *const *)at;
	case CONFIG_TYPE_URL:
	case CONFIG_TYPE_SERVER:
		if (*(const char *const *)at)
			print_url(*(const char *const *)at, how, out);
		return *(const char *const *)at;
	case CONFIG_TYPE_PATH:
	case CONFIG_TYPE_STRING:
		if (*(const char *const *)at)
			conf_print_scalar(*(const char *const *)at, out);
		return *(const char *const *)at;
	case CONFIG_TYPE_BOOL:
		bytes_put_str(out, *(const bool *)at ? "true" : "false");
		return true;
	case CONFIG_TYPE_TRISTATE:
		bytes_put_str(
			out, *(const enum config_tristate *)at == CONFIG_TRUE ? "true" : "false");
		return *(const enum config_tristate *)at != CONFIG_UNSET;
	case CONFIG_TYPE_UINT: bytes_printf(out, "%" PRIu64, *(const uint64_t *)at); return true;
	case CONFIG_TYPE_DOUBLE: bytes_printf(out, "%.15g", *(const double *)at); return true;
	case CONFIG_TYPE_SECONDS:
		bytes_printf(out, "%" PRId64, *(const int64_t *)at);
		return *(const int64_t *)at;
	case CONFIG_TYPE_DURATION:
		str_format_duration_ms(*(const int64_t *)at, duration);
		bytes_put_str(out, duration);
		return true;
	case CONFIG_TYPE_BYTES: print_bytes(*(const uint64_t *)at, out); return true;
	case CONFIG_TYPE_ENUM:
		bytes_put_str(out, key->names[*(const int *)at]);
		return *key->names[*(const int *)at];
	case CONFIG_TYPE_ACTION:
		bytes_put_str(out, relabel_action_name(*(const enum relabel_action *)at));
		return true;
	case CONFIG_TYPE_REGEX: /* of a rule, some of which refuse it where it is written */
		if (relabel_action_refuses(
			    ((const struct relabel_rule *)object)->action, RELABEL_KEY_REGEX))
			return false;
		conf_print_scalar(regex_text(*(struct regex *const *)at), out);
		return true;
	case CONFIG_TYPE_SECRETS:
		if (hide)
			print_secrets(strings->n, out);
		else
			print_list(strings->items, strings->n, out);
		return strings->items;
	case CONFIG_TYPE_STRINGS:
	case CONFIG_TYPE_PATHS:
	case CONFIG_TYPE_NAMES: print_list(strings->items, strings->n, out); return strings->items;
	case CONFIG_TYPE_SOURCES:
		print_list(*(const char *const *const *)at, *(const size_t *)n_at, out);
		return *(const size_t *)n_at;
	case CONFIG_TYPE_LABELS:
	case CONFIG_TYPE_ENV_LABELS: print_labels(at, out); return ((const struct labels *)at)->n;
	case CONFIG_TYPE_PARAMS:
	case CONFIG_TYPE_SECRET_PARAMS:
		print_params(*(const struct config_param *const *)at, *(const size_t *)n_at,
			hide && key->type == CONFIG_TYPE_SECRET_PARAMS, out);
		return *(const size_t *)n_at;
	case CONFIG_TYPE_SECTION:
	case CONFIG_TYPE_LIST:
	case CONFIG_TYPE_MAP: break;
	}
	return false;
}
