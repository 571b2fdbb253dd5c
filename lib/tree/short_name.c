/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions as people say them: one pass over the name copies what stays and skips balanced brackets that go.
 */
#include "lib/tree/short_name.h"
#include "lib/base/str.h"
#include "lib/tree/canon.h"
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"
/* Four characters go at least, so that the ellipsis has room for its bytes. */
enum { HEAD_CHARS = TREE_SHORT_CHARS / 2, TAIL_CHARS = TREE_SHORT_CHARS - HEAD_CHARS - 3 };

struct shortener {
	const char *p, *end;
	char *out;
	size_t n;
	size_t begin;	  /* of the name itself: behind a return type */
	int depth;	  /* of brackets that stay */
	bool has_list;	  /* of parameters: what precedes the name is then its type */
	bool is_operator; /* from here on blanks belong to the name */
	bool is_symbol;	  /* the last thing was an operator's symbol */
};

static bool is_word(unsigned char c)
{
	return isalnum(c) || c == '_' || c == '$' || c >= 0x80;
}

static bool starts(const struct shortener *s, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(s->end - s->p) >= n && !memcmp(s->p, with, n);
}

static bool follows_word(const struct shortener *s)
{
	return s->n && is_word((unsigned char)s->out[s->n - 1]);
}

static void copy(struct shortener *s, size_t n)
{
	memmove(s->out + s->n, s->p, n);
	s->n += n;
	s->p += n;
	s->is_symbol = false;
}

/* The end of what the bracket at p opens, behind its close; NULL without one. Arrows and what stands in parentheses close no "<". */
static const char *close_of(const char *p, const char *end)
{
	char open = *p, close = open == '<' ? '>' : open == '(' ? ')' : ']';
	int depth = 0, parentheses = 0;

	for (; p < end; p++) {
		if (open == '<' && *p == '(')
			parentheses++;
		else if (open == '<' && *p == ')')
			parentheses--;
		else if (parentheses || (*p == '>' && p[-1] == '-'))
			continue;
		else if (*p == open)
			depth++;
		else if (*p == close && --depth == 0)
			return p + 1;
	}
	return NULL;
}

/* Skips the bracket at p; false: it is never closed. */
static bool skip_bracket(struct shortener *s)
{
	const char *end = close_of(s->p, s->end);

	if (end)
		s->p = end;
	return end != NULL;
}

/* "std::__cxx11::basic_string<char, …>" begins here: "std::string". */
static bool take_std(struct shortener *s)
{
	static const char *const versions[] = {"__cxx11::", "__1::", "__ndk1::"};
	const char *q;

	if (!starts(s, "std::") || follows_word(s))
		return false;
	copy(s, strlen("std::"));
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (starts(s, versions[i])) {
			s->p += strlen(versions[i]);
			i = (size_t)-1; /* once more */
		}
	if (!starts(s, "basic_"))
		return true;
	for (q = s->p; q < s->end && is_word((unsigned char)*q); q++)
		;
	if (s->end - q > 5 && !memcmp(q, "<char", 5) && !is_word((unsigned char)q[5])) {
		s->p += strlen("basic_");
	} else if (s->end - q > 8 && !memcmp(q, "<wchar_t", 8) && !is_word((unsigned char)q[8])) {
		s->p += strlen("basic_");
		s->out[s->n++] = 'w';
	}
	return true;
}

/* "operator<<" begins here. */
static bool take_operator(struct shortener *s)
{
	static const char *const symbols[] = {"<=>", "<<=", ">>=", "->*", "<<", ">>",
		"<=", ">=", "==", "!=", "&&", "||", "++", "--",
		"+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "->", "()", "[]", "<", ">", "=",
		"!", "+", "-", "*", "/", "%", "^", "&", "|", "~", ","};
	size_t n = strlen("operator");

	if (!starts(s, "operator") || follows_word(s) || s->end - s->p <= (ptrdiff_t)n ||
		is_word((unsigned char)s->p[n]))
		return false;
	copy(s, n);
	s->is_operator |= !s->depth;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (starts(s, symbols[i])) {
			copy(s, strlen(symbols[i]));
			s->is_symbol = true;
			if (starts(s, " <")) /* its template arguments */
				s->p++;
			break;
		}
	return true;
}

/* Qualifiers behind parameters. */
static void skip_qualifiers(struct shortener *s)
{
	static const char *const words[] = {" const", " volatile", " noexcept", " &&", " &"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (starts(s, words[i]) &&
			(s->p + n == s->end || !is_word((unsigned char)s->p[n]))) {
			s->p += n;
			i = (size_t)-1; /* once more */
		}
	}
}

/* The bracket at p goes, or is copied; false: it is never closed. */
static bool take_bracket(struct shortener *s)
{
	bool is_list = follows_word(s) || s->is_symbol;

	if (is_list && starts(s, "[]")) { /* "operator new[]" */
		copy(s, 2);
		s->is_symbol = true;
		return true;
	}
	if (*s->p == '[' && is_list)
		return skip_bracket(s);
	if (*s->p == '<' && is_list)
		return skip_bracket(s);
	/* Rust's arguments of a path; "<impl T>" and "<lambda()>" are parts of it. */
	if (*s->p == '<' && s->n > 2 && s->out[s->n - 1] == ':' && s->out[s->n - 2] == ':' &&
		is_word((unsigned char)s->out[s->n - 3]) && !starts(s, "<impl ") &&
		!starts(s, "<lambda")) {
		s->n -= 2;
		return skip_bracket(s);
	}
	if (*s->p == '(' && is_list) {
		if (!skip_bracket(s))
			return false;
		s->has_list |= !s->depth;
		skip_qualifiers(s);
		return true;
	}
	s->depth++;
	copy(s, 1);
	return true;
}

static bool shorten(struct shortener *s)
{
	while (s->p < s->end) {
		char c = *s->p;

		if (take_std(s) || take_operator(s))
			continue;
		if (c == '(' || c == '<' || c == '[') {
			if (!take_bracket(s))
				return false;
			continue;
		}
		if (c == '{')
			s->depth++;
		else if (s->depth && (c == ')' || c == ']' || c == '}' || c == '>'))
			s->depth--;
		copy(s, 1);
		if (c == ' ' && !s->depth && !s->is_operator && !s->has_list)
			s->begin = s->n;
	}
	return true;
}

/* Is what precedes the name a type? "virtual thunk to f" is all name. */
static bool has_type(const struct shortener *s)
{
	return s->has_list && s->begin && s->begin < s->n &&
	       !(s->begin >= 4 && !memcmp(s->out + s->begin - 4, " to ", 4)) &&
	       !(s->begin >= 5 && !memcmp(s->out + s->begin - 5, " for ", 5));
}

/* Without clones and hashes. */
static size_t strip_clones(const char *name, size_t len, char *ret)
{
	const char *end = name + len;
	size_t n = 0;

	for (const char *p = name, *next; p < end; p = next ? next : p + 1) {
		next = tree_skip_clone(p, end);
		if (!next)
			ret[n++] = *p;
	}
	if (n > 3 && !memcmp(ret + n - 3, " ()", 3)) /* "f() (.cold)" */
		n -= 3;
	n = tree_without_rust_hash(ret, n);
	if (!n) /* nothing else */
		memcpy(ret, name, n = len);
	return n;
}

/* The byte behind `chars` characters from p on, or before them from the end. */
static size_t forward(const char *s, size_t n, size_t chars)
{
	size_t i = 0;

	for (; i < n; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80 && !chars--)
			break;
	return i;
}

static size_t characters(const char *s, size_t n)
{
	size_t chars = 0;

	for (size_t i = 0; i < n; i++)
		chars += ((unsigned char)s[i] & 0xc0) != 0x80;
	return chars;
}

static size_t elide(char *s, size_t n)
{
	size_t chars = characters(s, n), head, tail;

	if (chars <= TREE_SHORT_CHARS)
		return n;
	head = forward(s, n, HEAD_CHARS);
	tail = forward(s, n, chars - TAIL_CHARS);
	memcpy(s + head, ELLIPSIS, strlen(ELLIPSIS));
	memmove(s + head + strlen(ELLIPSIS), s + tail, n - tail);
	return head + strlen(ELLIPSIS) + n - tail;
}

size_t tree_short_name(const char *name, size_t len, char *ret)
{
	/* In place: what is written never overtakes what is read. */
	size_t n = strip_clones(name, len, ret);
	struct shortener s = {.p = ret, .end = ret + n, .out = ret};

	if (!shorten(&s) || !s.n) {
		n = strip_clones(name, len, ret);
	} else {
		n = has_type(&s) ? s.n - s.begin : s.n;
		memmove(ret, ret + s.n - n, n);
	}
	return elide(ret, n);
}
