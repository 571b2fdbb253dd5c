/* SPDX-License-Identifier: Apache-2.0
 *
 * The selector parser: one pass over the bytes, errors by position.
 */
#include "scraper/query/selector.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include <string.h>

struct parser {
	const char *text;
	size_t pos, len;
	size_t wrong; /* where a failure was */
	struct errbuf *eb;
};

static int fail(struct parser *p, size_t at, const char *what)
{
	p->wrong = at;
	return err_set(p->eb, -EINVAL, "%s", what);
}

static void skip_space(struct parser *p)
{
	while (p->pos < p->len && strchr(" \t\r\n", p->text[p->pos]))
		p->pos++;
}

static char peek(const struct parser *p)
{
	return p->pos < p->len ? p->text[p->pos] : 0;
}

static bool is_label_char(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

/* Type names come from other programs' profiles, so more than PromQL's letters is taken. */
static bool is_type_char(char c)
{
	return is_label_char(c, false) || (c && strchr(":.-/", c)) || (unsigned char)c >= 0x80;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void put_rune(struct bytes *out, uint32_t r)
{
	if (r < 0x80) {
		bytes_put_u8(out, (uint8_t)r);
	} else if (r < 0x800) {
		bytes_put_u8(out, (uint8_t)(0xc0 | r >> 6));
		bytes_put_u8(out, (uint8_t)(0x80 | (r & 0x3f)));
	} else if (r < 0x10000) {
		bytes_put_u8(out, (uint8_t)(0xe0 | r >> 12));
		bytes_put_u8(out, (uint8_t)(0x80 | (r >> 6 & 0x3f)));
		bytes_put_u8(out, (uint8_t)(0x80 | (r & 0x3f)));
	} else {
		bytes_put_u8(out, (uint8_t)(0xf0 | r >> 18));
		bytes_put_u8(out, (uint8_t)(0x80 | (r >> 12 & 0x3f)));
		bytes_put_u8(out, (uint8_t)(0x80 | (r >> 6 & 0x3f)));
		bytes_put_u8(out, (uint8_t)(0x80 | (r & 0x3f)));
	}
}

/* `n` digits in `base` after the escape's letter. */
static int parse_number(struct parser *p, size_t at, unsigned n, unsigned base, uint32_t *ret)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++) {
		int d = hex_digit(peek(p));

		if (d < 0 || (unsigned)d >= base)
			return fail(p, at, "bad escape sequence");
		v = v * base + (uint32_t)d;
		p->pos++;
	}
	*ret = v;
	return v ? 0 : fail(p, at, "a NUL character is not allowed");
}

/* After the backslash. */
static int parse_escape(struct parser *p, char quote, struct bytes *out)
{
	static const char letters[] = "abfnrtv\\", bytes[] = "\a\b\f\n\r\t\v\\";
	size_t at = p->pos - 1;
	char c = peek(p);
	const char *found = c ? strchr(letters, c) : NULL;
	uint32_t v;
	int r;

	if (found || c == quote) {
		p->pos++;
		bytes_put_u8(out, (uint8_t)(found ? bytes[found - letters] : quote));
		return 0;
	}
	if (c >= '0' && c <= '7') {
		r = parse_number(p, at, 3, 8, &v);
		if (!r && v > 255)
			r = fail(p, at, "octal escape above 255");
		if (!r)
			bytes_put_u8(out, (uint8_t)v);
		return r;
	}
	if (!c || !strchr("xuU", c))
		return fail(p, at, "unknown escape sequence");
	p->pos++;
	r = parse_number(p, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, &v);
	if (r)
		return r;
	if (c == 'x')
		bytes_put_u8(out, (uint8_t)v);
	else if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return fail(p, at, "escape is no valid Unicode code point");
	else
		put_rune(out, v);
	return 0;
}

static int parse_string(struct parser *p, char **ret)
{
	_cleanup_bytes_ struct bytes out = {};
	size_t start = p->pos;
	char quote = p->text[p->pos++], c;
	int r = 0;

	while ((c = peek(p)) != quote) {
		if (!c)
			return fail(p, start, "string is not closed");
		if (c == '\n' && quote != '`')
			return fail(p, p->pos, "line break in a quoted string");
		p->pos++;
		if (c == '\\' && quote != '`')
			r = parse_escape(p, quote, &out);
		else
			bytes_put_u8(&out, (uint8_t)c);
		if (r)
			return r;
	}
	p->pos++;
	bytes_put_u8(&out, 0);
	r = bytes_error(&out);
	if (!r)
		*ret = (char *)TAKE(out.data);
	return r;
}

static bool at_string(const struct parser *p)
{
	char c = peek(p);

	return c == '"' || c == '\'' || c == '`';
}

static int parse_op(struct parser *p, enum query_op *ret)
{
	char a = peek(p), b = p->pos + 1 < p->len ? p->text[p->pos + 1] : 0;

	if (a == '=' && b == '~')
		*ret = QUERY_RE;
	else if (a == '!' && b == '~')
		*ret = QUERY_NRE;
	else if (a == '!' && b == '=')
		*ret = QUERY_NE;
	else if (a == '=')
		*ret = QUERY_EQ;
	else
		return fail(p, p->pos, "expected one of = != =~ !~");
	p->pos += *ret == QUERY_EQ ? 1 : 2;
	return 0;
}

static int add_matcher(struct parser *p, struct query_selector *s, size_t at, char *name,
	enum query_op op, char *value)
{
	struct query_matcher *m = &s->matchers[s->n_matchers++];
	struct errbuf reason = {};
	int r = 0;

	*m = (struct query_matcher) {.op = op, .name = name, .value = value};
	if (!str_is_utf8(value, strlen(value)) || !str_is_utf8(name, strlen(name)))
		return fail(p, at, "not valid UTF-8");
	if (op == QUERY_RE || op == QUERY_NRE)
		r = regex_compile(value, REGEX_ANCHORED, &m->re, &reason);
	if (r)
		p->wrong = at;
	if (r)
		return err_set(p->eb, r, "regular expression: %s", err_text(&reason, r));
	return 0;
}

static int set_name(struct parser *p, struct query_selector *s, size_t at, char *name, bool *seen)
{
	_cleanup_free_ char *owned = name;
	size_t colons = 0;
	int r;

	if (*seen)
		return fail(p, at, "a second profile type or metric name");
	*seen = true;
	for (const char *c = name; *c; c++)
		colons += *c == ':';
	if (colons < 4)
		return add_matcher(p, s, at, xstrdup("__name__"), QUERY_EQ, TAKE(owned));
	r = query_type_id_parse(name, strlen(name), &s->type, NULL);
	if (r)
		return fail(p, at,
			"a profile type is name:sample_type:sample_unit:period_type:period_unit");
	s->has_type = true;
	return 0;
}

static int parse_matcher(struct parser *p, struct query_selector *s, bool *seen_name)
{
	_cleanup_free_ char *name = NULL, *value = NULL;
	size_t start = p->pos, at;
	enum query_op op = QUERY_EQ;
	bool quoted = at_string(p);
	int r = 0;

	if (s->n_matchers == QUERY_MAX_MATCHERS - 1)
		return fail(p, start, "more matchers than 31");
	if (quoted)
		r = parse_string(p, &name);
	else
		while (is_label_char(peek(p), p->pos == start))
			p->pos++;
	if (r)
		return r;
	if (!quoted && p->pos == start)
		return fail(p, start, "expected a label name, a quoted name or }");
	if (!name)
		name = xstrndup(p->text + start, p->pos - start);
	skip_space(p);
	if (quoted && (peek(p) == ',' || peek(p) == '}'))
		return set_name(p, s, start, TAKE(name), seen_name);
	if (!*name)
		return fail(p, start, "empty label name");
	if (!quoted && peek(p) && strchr(".-/", peek(p)))
		return fail(p, p->pos, "a label name with this character must be quoted");
	r = parse_op(p, &op);
	if (r)
		return r;
	skip_space(p);
	at = p->pos;
	if (!at_string(p))
		return fail(p, at, "expected a quoted value");
	r = parse_string(p, &value);
	return r ? r : add_matcher(p, s, at, TAKE(name), op, TAKE(value));
}

static int parse_braces(struct parser *p, struct query_selector *s, bool *seen_name)
{
	size_t open = p->pos++;

	skip_space(p);
	while (peek(p) != '}') {
		int r;

		if (!peek(p))
			return fail(p, open, "{ is not closed");
		r = parse_matcher(p, s, seen_name);
		if (r)
			return r;
		skip_space(p);
		if (peek(p) == ',')
			p->pos++;
		else if (peek(p) != '}')
			return fail(p, p->pos, "expected , or }");
		skip_space(p);
	}
	p->pos++;
	return 0;
}

static int parse(struct parser *p, struct query_selector *s)
{
	bool seen_name = false;
	size_t start;
	int r = 0;

	if (p->len > QUERY_MAX_SELECTOR_BYTES)
		return fail(p, QUERY_MAX_SELECTOR_BYTES, "longer than 64 KiB");
	if (!str_is_utf8(p->text, p->len))
		return fail(p, 0, "not valid UTF-8");
	skip_space(p);
	start = p->pos;
	while (is_type_char(peek(p)))
		p->pos++;
	if (p->pos > start)
		r = set_name(p, s, start, xstrndup(p->text + start, p->pos - start), &seen_name);
	if (r)
		return r;
	skip_space(p);
	if (peek(p) == '{')
		r = parse_braces(p, s, &seen_name);
	if (r)
		return r;
	skip_space(p);
	return p->pos == p->len ? 0 : fail(p, p->pos, "unexpected text after the selector");
}

int query_selector_parse_at(
	const char *text, struct query_selector *ret, size_t *ret_wrong, struct errbuf *eb)
{
	_cleanup_query_selector_ struct query_selector s = {};
	struct parser p = {.text = text, .len = strlen(text), .eb = eb};
	int r;

	s.matchers = xcalloc(QUERY_MAX_MATCHERS, sizeof(*s.matchers));
	r = parse(&p, &s);
	*ret_wrong = p.wrong;
	if (r)
		return r;
	*ret = s;
	s = (struct query_selector) {};
	return 0;
}

int query_selector_parse(const char *text, struct query_selector *ret, struct errbuf *eb)
{
	size_t wrong;
	int r = query_selector_parse_at(text, ret, &wrong, eb);

	return r ? err_prefix(eb, r, "selector, position %zu", wrong + 1) : 0;
}

void query_selector_done(struct query_selector *s)
{
	for (size_t i = 0; i < s->n_matchers; i++) {
		free(s->matchers[i].name);
		free(s->matchers[i].value);
		regex_free(s->matchers[i].re);
	}
	free(s->matchers);
	query_type_id_done(&s->type);
	*s = (struct query_selector) {};
}

int query_type_id_parse(const char *text, size_t n, struct query_type_id *ret, struct errbuf *eb)
{
	_cleanup_free_ char *block = xstrndup(text, n);
	char *parts[6] = {block};
	size_t n_parts = 1;

	for (char *c = block; *c; c++) {
		if (*c != ':')
			continue;
		*c = 0;
		if (n_parts == 6)
			return err_set(eb, -EINVAL, "a profile type has five parts");
		parts[n_parts++] = c + 1;
	}
	if (n_parts < 5 || (n_parts == 6 && strcmp(parts[5], "delta") != 0))
		return err_set(eb, -EINVAL,
			"a profile type is name:sample_type:sample_unit:period_type:period_unit");
	*ret = (struct query_type_id) {
		parts[0], parts[1], parts[2], parts[3], parts[4], TAKE(block)};
	return 0;
}

void query_type_id_done(struct query_type_id *t)
{
	free(t->block);
	*t = (struct query_type_id) {};
}

int query_matcher_matches(
	const struct query_matcher *m, const char *value, size_t n, struct errbuf *eb)
{
	int r;

	if (m->re) {
		r = regex_match(m->re, value, n, eb);
		return r < 0 ? r : (r > 0) == (m->op == QUERY_RE);
	}
	return (strlen(m->value) == n && !memcmp(m->value, value, n)) == (m->op == QUERY_EQ);
}
