/* SPDX-License-Identifier: Apache-2.0
 *
 * Parser of the grammar of Go's regexp/syntax with the flags of syntax.Perl. Accepts what Go 1.26
 * accepts (so also
 * `(?<name>`) and says of everything else where it stands and why, naming the constructs that
 * people bring from Perl and PCRE.
 */
#include "lib/base/re2.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/base/ucase.h"
#include <stdarg.h>
#include <string.h>

enum { RE2_MAX_REPEAT = 1000, RE2_MAX_HEIGHT = 1000 };

int re2_fail(struct re2_parser *p, const char *at, const char *fmt, ...)
{
	struct errbuf text = {0};
	va_list ap;

	va_start(ap, fmt);
	err_vset(&text, -EINVAL, fmt, ap);
	va_end(ap);
	return err_set(p->eb, -EINVAL, "position %td: %s", at - p->text + 1, text.text);
}

uint32_t re2_next_rune(struct re2_parser *p)
{
	size_t len = str_utf8_len(p->pos, (size_t)(p->end - p->pos));
	uint32_t c = ucase_decode(p->pos, len);

	p->pos += len;
	return c;
}

static struct re2_node *node_new(struct re2_parser *p, enum re2_op op)
{
	struct re2_node *n = arena_zalloc(p->tree->arena, sizeof(*n));

	if (n) {
		n->op = op;
		n->height = 1;
		n->repeats = 1;
	}
	return n;
}

static void node_add(struct re2_node *parent, struct re2_node *child)
{
	if (parent->last_child)
		parent->last_child->next = child;
	else
		parent->child = child;
	parent->last_child = child;
	parent->height = MAX(parent->height, child->height + 1);
	parent->repeats = MAX(parent->repeats, child->repeats);
}

static bool looking_at(const struct re2_parser *p, const char *s)
{
	size_t n = strlen(s);

	return (size_t)(p->end - p->pos) >= n && !memcmp(p->pos, s, n);
}

/* Decimal without leading zeros; *ret is -1 when too large. */
static bool parse_count(const char **pos, const char *end, int32_t *ret)
{
	const char *s = *pos;
	int32_t v = 0;

	if (s == end || *s < '0' || *s > '9')
		return false;
	if (*s == '0' && s + 1 < end && s[1] >= '0' && s[1] <= '9')
		return false;
	for (; s < end && *s >= '0' && *s <= '9'; s++)
		v = v < 0 || v > RE2_MAX_REPEAT ? -1 : v * 10 + (*s - '0');
	*pos = s;
	*ret = v;
	return true;
}

/* `{n}`, `{n,}`, `{n,m}` at p->pos: false when it is something else, and then the brace stands for
 * itself. */
static bool parse_braces(
	struct re2_parser *p, int32_t *ret_min, int32_t *ret_max, bool *ret_too_big)
{
	const char *s = p->pos + 1;
	int32_t min, max;

	if (!parse_count(&s, p->end, &min))
		return false;
	max = min;
	*ret_too_big = min < 0;
	if (s < p->end && *s == ',') {
		s++;
		max = -1;
		if (s < p->end && *s != '}') {
			if (!parse_count(&s, p->end, &max))
				return false;
			*ret_too_big |= max < 0;
		}
	}
	if (s == p->end || *s != '}')
		return false;
	p->pos = s + 1;
	*ret_min = min;
	*ret_max = max;
	return true;
}

/* Wraps the last item of `concat`. The node itself becomes the repeat so that its neighbours need
 * no change. */
static int apply_repeat(
	struct re2_parser *p, struct re2_node *concat, const char *at, int32_t min, int32_t max)
{
	struct re2_node *item = concat->last_child, *sub;
	uint32_t times = max < 0 ? (uint32_t)min : (uint32_t)max;
	bool lazy = p->non_greedy;

	if (p->pos < p->end && *p->pos == '?') {
		p->pos++;
		lazy = !lazy;
	}
	if (!item)
		return re2_fail(p, at, "\"%.*s\" has nothing to repeat", (int)(p->pos - at), at);
	sub = node_new(p, RE2_EMPTY);
	if (!sub)
		return -ENOMEM;
	*sub = *item;
	sub->next = NULL;
	*item = (struct re2_node) {
		.op = RE2_REPEAT,
		.min = min,
		.max = max,
		.greedy = !lazy,
		.child = sub,
		.last_child = sub,
		.height = sub->height + 1,
		.repeats = max == 0 ? 1 : MAX(times, 1U) * sub->repeats,
	};
	if (item->repeats > RE2_MAX_REPEAT)
		return re2_fail(
			p, at, "nested repetitions multiply to more than %d", RE2_MAX_REPEAT);
	if (item->height > RE2_MAX_HEIGHT)
		return re2_fail(p, at, "nested deeper than %d", RE2_MAX_HEIGHT);
	concat->height = MAX(concat->height, item->height + 1);
	concat->repeats = MAX(concat->repeats, item->repeats);
	return 0;
}

/* One of * + ? {…} at p->pos. 1 when it was one, 0 when a brace is a literal. `after_repeat`:
 * another one stands right before. */
static int parse_repeat(struct re2_parser *p, struct re2_node *concat, bool after_repeat)
{
	const char *at = p->pos;
	bool too_big = false;
	int32_t min, max;
	int r;

	if (*at == '{') {
		if (!parse_braces(p, &min, &max, &too_big))
			return 0;
		if (too_big || min > RE2_MAX_REPEAT || max > RE2_MAX_REPEAT)
			return re2_fail(p, at, "repetition count above %d", RE2_MAX_REPEAT);
		if (max >= 0 && min > max)
			return re2_fail(p, at, "repetition counts in the wrong order");
	} else {
		min = *at == '+';
		max = *at == '?' ? 1 : -1;
		p->pos++;
	}
	if (after_repeat && *at == '+')
		return re2_fail(p, at, "possessive repetition is not supported");
	if (after_repeat)
		return re2_fail(p, at, "repetition of a repetition");
	r = apply_repeat(p, concat, at, min, max);
	return r < 0 ? r : 1;
}

static int add_group_name(struct re2_parser *p, const char *at, const char *name, const char *end)
{
	struct re2_group_name **tail = &p->tree->names, *g;

	if (name == end)
		return re2_fail(p, at, "group without a name");
	for (const char *s = name; s < end; s++) {
		if (*s != '_' && !(*s >= '0' && *s <= '9') &&
			!((*s | 32) >= 'a' && (*s | 32) <= 'z'))
			return re2_fail(p, s, "group names consist of letters, digits and _");
	}
	g = arena_zalloc(p->tree->arena, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->name = arena_strndup(p->tree->arena, name, (size_t)(end - name));
	g->len = (size_t)(end - name);
	g->group = p->tree->n_groups + 1;
	while (*tail)
		tail = &(*tail)->next;
	*tail = g;
	return g->name ? 0 : -ENOMEM;
}

/* Why "(?…" at p->pos is not Go's. */
static int fail_group(struct re2_parser *p)
{
	static const struct {
		const char *start, *what;
	} known[] = {
		{"(?=", "lookahead"},
		{"(?!", "lookahead"},
		{"(?<=", "lookbehind"},
		{"(?<!", "lookbehind"},
		{"(?>", "an atomic group"},
		{"(?#", "a comment"},
		{"(?|", "a branch reset"},
		{"(?(", "a condition"},
		{"(?R", "recursion"},
		{"(?&", "a subroutine call"},
		{"(?P>", "a subroutine call"},
		{"(?P=", "a backreference"},
		{"(?'", "a group named with quotes"},
		{"(?x", "the flag x"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (looking_at(p, known[i].start))
			return re2_fail(p, p->pos, "%s is not supported", known[i].what);
	}
	return re2_fail(p, p->pos,
		"unknown group \"%.*s\"; expected (?:, (?P<name> or flags out of imsU",
		(int)MIN(p->end - p->pos, 3), p->pos);
}

/* After "(?": flags up to ':' (*ret_opens is then set) or ')'. */
static int parse_flags(struct re2_parser *p, bool *ret_opens)
{
	bool fold = p->fold, multi_line = p->multi_line, dot_nl = p->dot_nl,
	     non_greedy = p->non_greedy;
	bool value = true, saw_flag = false;
	const char *s = p->pos + 2;

	for (; s < p->end; s++) {
		switch (*s) {
		case 'i': fold = value; break;
		case 'm': multi_line = value; break;
		case 's': dot_nl = value; break;
		case 'U': non_greedy = value; break;
		case '-':
			if (!value)
				return fail_group(p);
			value = false;
			saw_flag = false;
			continue;
		case ':':
		case ')':
			if (!value && !saw_flag)
				return fail_group(p);
			*ret_opens = *s == ':';
			p->pos = s + 1;
			p->fold = fold;
			p->multi_line = multi_line;
			p->dot_nl = dot_nl;
			p->non_greedy = non_greedy;
			return 0;
		default: return fail_group(p);
		}
		saw_flag = true;
	}
	return re2_fail(p, p->pos, "missing )");
}

static int parse_alternation(struct re2_parser *p, struct re2_node **ret);

/* The inside of a group up to its ')'. */
static int parse_group_body(
	struct re2_parser *p, const char *at, struct re2_node *concat, uint32_t group)
{
	struct re2_node *body, *capture;
	int r;

	if (++p->depth > REGEX_MAX_DEPTH)
		return re2_fail(p, at, "groups nested deeper than %d", REGEX_MAX_DEPTH);
	r = parse_alternation(p, &body);
	if (r < 0)
		return r;
	if (p->pos == p->end)
		return re2_fail(p, at, "missing ) of this group");
	p->pos++;
	p->depth--;
	if (group) {
		capture = node_new(p, RE2_CAPTURE);
		if (!capture)
			return -ENOMEM;
		capture->group = group;
		node_add(capture, body);
		body = capture;
	}
	if (body->height > RE2_MAX_HEIGHT)
		return re2_fail(p, at, "nested deeper than %d", RE2_MAX_HEIGHT);
	node_add(concat, body);
	return 0;
}

/* '(' at p->pos: a group, or flags for the rest of the enclosing one. */
static int parse_group(struct re2_parser *p, struct re2_node *concat)
{
	bool fold = p->fold, multi_line = p->multi_line, dot_nl = p->dot_nl,
	     non_greedy = p->non_greedy;
	const char *at = p->pos, *name_end;
	bool is_named = looking_at(p, "(?P<") ||
			(looking_at(p, "(?<") && !looking_at(p, "(?<=") && !looking_at(p, "(?<!"));
	bool opens = true;
	uint32_t group = 0;
	int r = 0;

	if (is_named) {
		const char *name = at + (at[2] == 'P' ? 4 : 3);

		name_end = memchr(name, '>', (size_t)(p->end - name));
		if (!name_end)
			return re2_fail(p, at, "missing > of the group's name");
		r = add_group_name(p, at, name, name_end);
		p->pos = name_end + 1;
	} else if (looking_at(p, "(?")) {
		r = parse_flags(p, &opens);
	} else {
		p->pos++;
	}
	if (r < 0 || !opens)
		return r;
	if (is_named || at[1] != '?') {
		group = ++p->tree->n_groups;
		if (group > REGEX_MAX_GROUPS)
			return re2_fail(p, at, "more than %d groups", REGEX_MAX_GROUPS);
	}
	r = parse_group_body(p, at, concat, group);
	p->fold = fold;
	p->multi_line = multi_line;
	p->dot_nl = dot_nl;
	p->non_greedy = non_greedy;
	return r;
}

static int add_op(struct re2_parser *p, struct re2_node *concat, enum re2_op op)
{
	struct re2_node *n = node_new(p, op);

	if (!n)
		return -ENOMEM;
	node_add(concat, n);
	return 0;
}

static int add_rune(struct re2_parser *p, struct re2_node *concat, uint32_t rune)
{
	int r = add_op(p, concat, RE2_RUNE);

	if (r < 0)
		return r;
	concat->last_child->rune = rune;
	concat->last_child->fold = p->fold && ucase_next_fold(rune) != rune;
	return 0;
}

static int add_class(struct re2_parser *p, struct re2_node *concat, struct re2_class *class)
{
	int r = add_op(p, concat, RE2_CLASS);

	if (r < 0)
		return r;
	concat->last_child->class = class;
	return 0;
}

/* \Q…\E, up to the end without \E. */
static int parse_quoted(struct re2_parser *p, struct re2_node *concat)
{
	int r = 0;

	p->pos += 2;
	while (p->pos < p->end && !looking_at(p, "\\E") && r == 0)
		r = add_rune(p, concat, re2_next_rune(p));
	if (p->pos < p->end)
		p->pos += 2;
	return r;
}

static int parse_backslash(struct re2_parser *p, struct re2_node *concat)
{
	struct re2_class *class;
	uint32_t rune;
	enum re2_op op = RE2_EMPTY;
	int r;

	if (p->end - p->pos >= 2) {
		switch (p->pos[1]) {
		case 'A': op = RE2_BEGIN_TEXT; break;
		case 'z': op = RE2_END_TEXT; break;
		case 'b': op = RE2_WORD_BOUNDARY; break;
		case 'B': op = RE2_NO_WORD_BOUNDARY; break;
		case 'Q': return parse_quoted(p, concat);
		default: break;
		}
	}
	if (op != RE2_EMPTY) {
		p->pos += 2;
		return add_op(p, concat, op);
	}
	r = re2_parse_class_escape(p, &class);
	if (r != 0)
		return r < 0 ? r : add_class(p, concat, class);
	r = re2_parse_escape(p, &rune);
	return r < 0 ? r : add_rune(p, concat, rune);
}

/* One item that is not a repetition. */
static int parse_item(struct re2_parser *p, struct re2_node *concat)
{
	struct re2_class *class;
	int r;

	switch (*p->pos) {
	case '(': return parse_group(p, concat);
	case '\\': return parse_backslash(p, concat);
	case '[': r = re2_parse_class(p, &class); return r < 0 ? r : add_class(p, concat, class);
	case '^':
		p->pos++;
		return add_op(p, concat, p->multi_line ? RE2_BEGIN_LINE : RE2_BEGIN_TEXT);
	case '$': p->pos++; return add_op(p, concat, p->multi_line ? RE2_END_LINE : RE2_END_TEXT);
	case '.': p->pos++; return add_op(p, concat, p->dot_nl ? RE2_ANY : RE2_ANY_NOT_NL);
	default: return add_rune(p, concat, re2_next_rune(p));
	}
}

/* Items up to '|', ')' or the end. */
static int parse_concat(struct re2_parser *p, struct re2_node **ret)
{
	struct re2_node *concat = node_new(p, RE2_CONCAT);
	bool after_repeat = false;

	if (!concat)
		return -ENOMEM;
	while (p->pos < p->end && *p->pos != '|' && *p->pos != ')') {
		int r = 0;

		if (strchr("*+?{", *p->pos))
			r = parse_repeat(p, concat, after_repeat);
		after_repeat = r > 0;
		if (r == 0 && *p->pos == '{')
			r = add_rune(p, concat, re2_next_rune(p));
		else if (r == 0)
			r = parse_item(p, concat);
		if (r < 0)
			return r;
	}
	*ret = concat->child && !concat->child->next ? concat->child : concat;
	return 0;
}

static int parse_alternation(struct re2_parser *p, struct re2_node **ret)
{
	struct re2_node *alt = NULL, *concat;
	int r = parse_concat(p, &concat);

	while (r == 0 && p->pos < p->end && *p->pos == '|') {
		if (!alt) {
			alt = node_new(p, RE2_ALTERNATE);
			if (!alt)
				return -ENOMEM;
			node_add(alt, concat);
		}
		p->pos++;
		r = parse_concat(p, &concat);
		if (r == 0)
			node_add(alt, concat);
	}
	if (r == 0)
		*ret = alt ? alt : concat;
	return r;
}

int re2_parse(
	const char *text, bool dot_nl, struct arena *arena, struct re2_tree *ret, struct errbuf *eb)
{
	size_t len = strlen(text);
	struct re2_parser p = {.tree = ret,
		.text = text,
		.pos = text,
		.end = text + len,
		.dot_nl = dot_nl,
		.eb = eb};
	int r;

	*ret = (struct re2_tree) {.arena = arena};
	if (len > REGEX_MAX_BYTES)
		return err_set(eb, -EINVAL, "position %d: longer than %d bytes",
			REGEX_MAX_BYTES + 1, REGEX_MAX_BYTES);
	for (const char *s = text; s < p.end;) {
		size_t n = str_utf8_len(s, (size_t)(p.end - s));

		if (!n)
			return re2_fail(&p, s, "not valid UTF-8");
		s += n;
	}
	r = parse_alternation(&p, &ret->root);
	if (r == -ENOMEM)
		return err_set(eb, r, "out of memory");
	if (r < 0)
		return r;
	if (p.pos < p.end)
		return re2_fail(&p, p.pos, "unexpected )");
	return 0;
}
