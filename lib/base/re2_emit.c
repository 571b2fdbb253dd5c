/* SPDX-License-Identifier: Apache-2.0
 *
 * From the syntax tree to a pattern for PCRE2 with the same meaning. Only constructs whose meaning
 * is equal are used: classes as explicit ranges, assertions spelled out, no names, no flags but
 * case folding of single characters.
 */
#include "lib/base/re2.h"
#include "lib/base/re2_pcre.h"
#include "lib/base/ucase.h"
#include <string.h>

struct fold_memo {
	const char *name, *ranges;
	struct fold_memo *next;
};

struct emitter {
	struct bytes *out;
	struct arena *arena;
	struct fold_memo *memos;
	int error;
};

static void emit_node(struct emitter *e, const struct re2_node *n);

static void emit_rune(struct bytes *out, uint32_t c)
{
	if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_')
		bytes_put_u8(out, (uint8_t)c);
	else if (c >= 0xd800 && c <= 0xdfff) /* in no text */
		bytes_put_str(out, "(?!)");
	else
		bytes_printf(out, "\\x{%x}", c);
}

static void emit_range(struct bytes *out, struct re2_range r)
{
	bytes_printf(out, r.lo == r.hi ? "\\x{%x}" : "\\x{%x}-\\x{%x}", r.lo, r.hi);
}

static bool in_property(struct re2_pcre *property, uint32_t c, struct bytes *tmp)
{
	bytes_reset(tmp);
	ucase_encode(c, tmp);
	return !bytes_error(tmp) &&
	       re2_pcre_match(property, (const char *)tmp->data, tmp->len, 0, NULL, 0, NULL) > 0;
}

/* Appends the characters outside the property that equal one inside it when case is ignored, as
 * ranges. */
static void put_partners(struct bytes *out, struct re2_pcre *property, struct bytes *tmp)
{
	struct re2_range run = {1, 0};
	uint32_t lo, hi;
	size_t pos = 0;

	while (ucase_next_range(&pos, &lo, &hi)) {
		for (uint32_t c = lo; c <= hi; c++) {
			bool partner = false;

			if (in_property(property, c, tmp))
				continue;
			for (uint32_t y = ucase_next_fold(c); y != c && !partner;
				y = ucase_next_fold(y))
				partner = in_property(property, y, tmp);
			if (!partner)
				continue;
			if (run.lo <= run.hi && run.hi + 1 == c) {
				run.hi = c;
				continue;
			}
			if (run.lo <= run.hi)
				emit_range(out, run);
			run = (struct re2_range) {c, c};
		}
	}
	if (run.lo <= run.hi)
		emit_range(out, run);
}

/* The same, remembered by name: an expression may name a property ten thousand times. */
static void emit_fold_partners(struct emitter *e, const struct re2_property *property)
{
	_cleanup_bytes_ struct bytes partners = {0}, tmp = {0}, pattern = {0};
	_cleanup_(re2_pcre_freep)
	struct re2_pcre *probe = NULL;
	struct fold_memo *memo = e->memos;
	int r;

	while (memo && strcmp(memo->name, property->name))
		memo = memo->next;
	if (!memo) {
		bytes_printf(&pattern, "\\p{%s}", property->name);
		r = bytes_error(&pattern);
		if (r == 0)
			r = re2_pcre_new(pattern.data, pattern.len, &probe, NULL);
		if (r == 0)
			put_partners(&partners, probe, &tmp);
		bytes_put_u8(&partners, 0);
		memo = arena_alloc(e->arena, sizeof(*memo));
		if (r < 0 || bytes_error(&partners) < 0 || !memo) {
			e->error = -ENOMEM;
			return;
		}
		*memo = (struct fold_memo) {
			property->name, arena_strdup(e->arena, (char *)partners.data), e->memos};
		if (!memo->ranges) {
			e->error = -ENOMEM;
			return;
		}
		e->memos = memo;
	}
	bytes_put_str(e->out, memo->ranges);
}

/* The union of ranges and properties. A negated folded property cannot stand inside brackets with
 * others. */
static void emit_class_union(struct emitter *e, const struct re2_class *c)
{
	bool empty = true;

	bytes_put_str(e->out, "(?:");
	for (const struct re2_property *p = c->properties; p; p = p->next) {
		if (!p->negated || !p->folded)
			continue;
		bytes_printf(e->out, "[^\\p{%s}", p->name);
		emit_fold_partners(e, p);
		bytes_put_str(e->out, "]|");
	}
	for (const struct re2_property *p = c->properties; p; p = p->next) {
		if (p->negated && p->folded)
			continue;
		bytes_printf(
			e->out, "%s\\%c{%s}", empty ? "[" : "", p->negated ? 'P' : 'p', p->name);
		if (p->folded)
			emit_fold_partners(e, p);
		empty = false;
	}
	for (size_t i = 0; i < c->n; i++) {
		if (empty)
			bytes_put_u8(e->out, '[');
		emit_range(e->out, c->ranges[i]);
		empty = false;
	}
	bytes_put_str(e->out, empty ? "(?!))" : "])");
}

static void emit_class(struct emitter *e, const struct re2_class *c)
{
	if (c->negated && c->properties) {
		bytes_put_str(e->out, "(?:(?!");
		emit_class_union(e, c);
		bytes_put_str(e->out, ").)");
	} else if (re2_class_is_plain(c) && c->n) {
		bytes_put_u8(e->out, '[');
		for (size_t i = 0; i < c->n; i++)
			emit_range(e->out, c->ranges[i]);
		bytes_put_u8(e->out, ']');
	} else {
		emit_class_union(e, c);
	}
}

static void emit_repeat(struct emitter *e, const struct re2_node *n)
{
	bytes_put_str(e->out, "(?:");
	emit_node(e, n->child);
	bytes_put_u8(e->out, ')');
	if (n->min == 0 && n->max < 0)
		bytes_put_u8(e->out, '*');
	else if (n->min == 1 && n->max < 0)
		bytes_put_u8(e->out, '+');
	else if (n->min == 0 && n->max == 1)
		bytes_put_u8(e->out, '?');
	else if (n->max < 0)
		bytes_printf(e->out, "{%d,}", n->min);
	else
		bytes_printf(e->out, "{%d,%d}", n->min, n->max);
	if (!n->greedy)
		bytes_put_u8(e->out, '?');
}

static bool is_folded_rune(const struct re2_node *n)
{
	return n && n->op == RE2_RUNE && n->fold;
}

/* Runs of folded characters share one group. */
static void emit_concat(struct emitter *e, const struct re2_node *n)
{
	const struct re2_node *previous = NULL;

	for (const struct re2_node *c = n->child; c; previous = c, c = c->next) {
		if (!is_folded_rune(c)) {
			emit_node(e, c);
			continue;
		}
		if (!is_folded_rune(previous))
			bytes_put_str(e->out, "(?i:");
		emit_rune(e->out, c->rune);
		if (!is_folded_rune(c->next))
			bytes_put_u8(e->out, ')');
	}
}

static void emit_alternate(struct emitter *e, const struct re2_node *n)
{
	bytes_put_str(e->out, "(?:");
	for (const struct re2_node *c = n->child; c; c = c->next) {
		emit_node(e, c);
		if (c->next)
			bytes_put_u8(e->out, '|');
	}
	bytes_put_u8(e->out, ')');
}

static void emit_node(struct emitter *e, const struct re2_node *n)
{
	switch (n->op) {
	case RE2_EMPTY: break;
	case RE2_RUNE:
		bytes_put_str(e->out, n->fold ? "(?i:" : "");
		emit_rune(e->out, n->rune);
		bytes_put_str(e->out, n->fold ? ")" : "");
		break;
	case RE2_CLASS: emit_class(e, n->class); break;
	case RE2_ANY: bytes_put_u8(e->out, '.'); break;
	case RE2_ANY_NOT_NL: bytes_put_str(e->out, "\\N"); break;
	case RE2_BEGIN_TEXT: bytes_put_str(e->out, "\\A"); break;
	case RE2_END_TEXT: bytes_put_str(e->out, "\\z"); break;
	case RE2_BEGIN_LINE: bytes_put_str(e->out, "(?<![^\\n])"); break;
	case RE2_END_LINE: bytes_put_str(e->out, "(?![^\\n])"); break;
	case RE2_WORD_BOUNDARY: bytes_put_str(e->out, "\\b"); break;
	case RE2_NO_WORD_BOUNDARY: bytes_put_str(e->out, "\\B"); break;
	case RE2_CAPTURE:
		bytes_put_u8(e->out, '(');
		emit_node(e, n->child);
		bytes_put_u8(e->out, ')');
		break;
	case RE2_REPEAT: emit_repeat(e, n); break;
	case RE2_CONCAT: emit_concat(e, n); break;
	case RE2_ALTERNATE: emit_alternate(e, n); break;
	}
}

int re2_emit(const struct re2_tree *tree, struct bytes *out, struct errbuf *eb)
{
	struct emitter e = {.out = out, .arena = tree->arena};

	emit_node(&e, tree->root);
	if (bytes_error(out) == -EFBIG)
		return err_set(eb, -EINVAL, "position 1: the expression is too large");
	if (bytes_error(out) < 0 || e.error < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	return 0;
}
