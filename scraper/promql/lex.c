/* SPDX-License-Identifier: Apache-2.0
 *
 * One token at a time; strings inside braces are the selector parser's business.
 */
#include "scraper/promql/lex.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
	       (!first && is_digit(c));
}

static size_t skip_blank(const char *text, size_t n, size_t pos)
{
	while (pos < n) {
		if (text[pos] == '#')
			while (pos < n && text[pos] != '\n')
				pos++;
		else if (strchr(" \t\r\n", text[pos]))
			pos++;
		else
			break;
	}
	return pos;
}

/* A number of Go's kind in `s`: 0x and leading zeros count as other bases. */
static bool read_number(const char *s, double *ret)
{
	bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	bool octal = s[0] == '0' && s[1] && strspn(s, "01234567") == strlen(s);
	unsigned base = hex ? 16 : 8;

	if (!hex && !octal)
		return str_parse_double(s, ret, NULL) == 0;
	*ret = 0;
	for (s += hex ? 2 : 1; *s; s++)
		*ret = *ret * base + (is_digit(*s) ? *s - '0' : (*s | 0x20) - 'a' + 10);
	return true;
}

static size_t number_end(const char *text, size_t n, size_t pos)
{
	bool hex = pos + 1 < n && text[pos] == '0' && (text[pos + 1] | 0x20) == 'x';
	size_t i = pos + (hex ? 2 : 0);

	if (hex) {
		while (i < n &&
			(is_digit(text[i]) || ((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'f')))
			i++;
		return i;
	}
	while (i < n && is_digit(text[i]))
		i++;
	if (i < n && text[i] == '.')
		for (i++; i < n && is_digit(text[i]);)
			i++;
	if (i < n && (text[i] | 0x20) == 'e') {
		i++;
		if (i < n && (text[i] == '+' || text[i] == '-'))
			i++;
		while (i < n && is_digit(text[i]))
			i++;
	}
	return i;
}

static struct lex_token number_or_duration(const char *text, size_t n, size_t pos)
{
	struct lex_token t = {.kind = LEX_NUMBER, .pos = pos};
	size_t end = number_end(text, n, pos), all = end;
	_cleanup_free_ char *s = NULL;
	int64_t ms;

	while (all < n && is_name_char(text[all], false) && text[all] != ':')
		all++;
	t.len = all - pos;
	s = xstrndup(text + pos, t.len);
	if (all == end && read_number(s, &t.number))
		return t;
	if (all > end && str_parse_duration_ms(s, &ms, NULL) == 0 && ms <= INT64_MAX / 1000000) {
		t.kind = LEX_DURATION;
		t.duration_ns = ms * 1000000;
		return t;
	}
	t.kind = LEX_BAD;
	t.why = "bad number or duration syntax";
	return t;
}

static size_t string_end(const char *text, size_t n, size_t pos)
{
	char quote = text[pos];

	for (pos++; pos < n && text[pos] != quote; pos++) {
		if (text[pos] == '\\' && quote != '`' && pos + 1 < n)
			pos++;
		else if (text[pos] == '\n' && quote != '`')
			return n;
	}
	return pos < n ? pos + 1 : n;
}

size_t lex_braces_end(const char *text, size_t n, size_t pos)
{
	while (pos < n && text[pos] != '}')
		pos = strchr("\"'`", text[pos]) ? string_end(text, n, pos) : pos + 1;
	return pos < n ? pos + 1 : n;
}

static struct lex_token name(const char *text, size_t n, size_t pos)
{
	struct lex_token t = {.kind = LEX_NAME, .pos = pos};

	while (pos < n && is_name_char(text[pos], false))
		pos++;
	t.len = pos - t.pos;
	if (lex_is_word(text, &t, "inf") || lex_is_word(text, &t, "nan")) {
		t.kind = LEX_NUMBER;
		t.number = (text[t.pos] | 0x20) == 'i' ? (double)INFINITY : (double)NAN;
	}
	return t;
}

struct lex_token lex_next(const char *text, size_t n, size_t pos)
{
	static const char *const twos[] = {"==", "!=", "<=", ">=", "=~", "!~"};
	struct lex_token t = {.pos = skip_blank(text, n, pos), .len = 1};
	char c = t.pos < n ? text[t.pos] : '\0', d = t.pos + 1 < n ? text[t.pos + 1] : '\0';

	if (t.pos >= n) {
		t.len = 0;
		return t;
	}
	if (is_digit(c) || (c == '.' && is_digit(d)))
		return number_or_duration(text, n, t.pos);
	/* A colon alone belongs to a subquery; names that begin with one are recording rules. */
	if (is_name_char(c, true) && (c != ':' || is_name_char(d, true)))
		return name(text, n, t.pos);
	if (c == '"' || c == '\'' || c == '`') {
		t.kind = LEX_STRING;
		t.len = string_end(text, n, t.pos) - t.pos;
		if (t.len < 2 || text[t.pos + t.len - 1] != c) {
			t.kind = LEX_BAD;
			t.why = "unterminated quoted string";
		}
		return t;
	}
	t.kind = LEX_OP;
	for (size_t i = 0; i < ARRAY_SIZE(twos); i++)
		if (c == twos[i][0] && d == twos[i][1])
			t.len = 2;
	if (c && strchr("+-*/%^(){}[],:@=<>", c))
		return t;
	if (t.len == 1) {
		t.kind = LEX_BAD;
		t.why = "unexpected character";
	}
	return t;
}

bool lex_is(const char *text, const struct lex_token *t, const char *op)
{
	return t->kind == LEX_OP && strlen(op) == t->len && !memcmp(text + t->pos, op, t->len);
}

bool lex_is_word(const char *text, const struct lex_token *t, const char *word)
{
	return (t->kind == LEX_NAME || t->kind == LEX_NUMBER) && strlen(word) == t->len &&
	       !strncasecmp(text + t->pos, word, t->len);
}
