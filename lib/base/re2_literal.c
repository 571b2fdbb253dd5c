/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions that need no engine. Of the anchored expressions that people write most are a text,
 * `a|b|c`, `prefix.*` or `.*part.*`: the first two become a set of texts, the others lists of
 * pieces with gaps.
 */
#include "lib/base/re2.h"
#include "lib/base/ucase.h"
#include <string.h>

/* Products of alternatives inside one alternative of the whole, and members of a class, above which
 * the engine is better. */
enum { MAX_PRODUCT = 256, MAX_CLASS = 16, MAX_GLOBS = 64, MAX_DEPTH = 100 };

struct text {
	const char *p;
	size_t len;
	struct text *next;
};

/* An ordered list of texts, without duplicates removed. */
struct texts {
	struct text *first, **tail;
	size_t n;
};

static void texts_init(struct texts *t)
{
	*t = (struct texts) {.tail = &t->first};
}

static bool texts_add(
	struct texts *t, struct arena *a, const char *x, size_t nx, const char *y, size_t ny)
{
	struct text *item = arena_alloc(a, sizeof(*item));
	char *p = arena_alloc(a, nx + ny + 1);

	if (!item || !p)
		return false;
	memcpy(p, x, nx);
	memcpy(p + nx, y, ny);
	p[nx + ny] = 0;
	*item = (struct text) {p, nx + ny, NULL};
	*t->tail = item;
	t->tail = &item->next;
	t->n++;
	return true;
}

static bool texts_add_rune(struct texts *t, struct arena *a, uint32_t c)
{
	_cleanup_bytes_ struct bytes utf8 = {0};

	if (c == 0 || (c >= 0xd800 && c <= 0xdfff)) /* the list is made of NUL-terminated UTF-8 */
		return false;
	ucase_encode(c, &utf8);
	return !bytes_error(&utf8) && texts_add(t, a, (char *)utf8.data, utf8.len, "", 0);
}

static bool expand(const struct re2_node *n, struct arena *a, struct texts *ret, unsigned depth);

static bool expand_class(const struct re2_class *c, struct arena *a, struct texts *ret)
{
	size_t n = 0;

	if (!re2_class_is_plain(c))
		return false;
	for (size_t i = 0; i < c->n; i++) {
		n += (size_t)c->ranges[i].hi - c->ranges[i].lo + 1;
		if (n > MAX_CLASS)
			return false;
	}
	for (size_t i = 0; i < c->n; i++) {
		for (uint32_t x = c->ranges[i].lo; x <= c->ranges[i].hi; x++) {
			if (!texts_add_rune(ret, a, x))
				return false;
		}
	}
	return n > 0;
}

/* A run of plain characters is one text; anything else multiplies. */
static bool expand_concat(
	const struct re2_node *n, struct arena *a, struct texts *ret, unsigned depth)
{
	struct texts product, factor, next;

	texts_init(&product);
	if (!texts_add(&product, a, "", 0, "", 0))
		return false;
	for (const struct re2_node *c = n->child; c;) {
		_cleanup_bytes_ struct bytes run = {0};

		texts_init(&factor);
		for (; c && c->op == RE2_RUNE && !c->fold && c->rune &&
			(c->rune < 0xd800 || c->rune > 0xdfff);
			c = c->next)
			ucase_encode(c->rune, &run);
		if (bytes_error(&run))
			return false;
		if (run.len) {
			if (!texts_add(&factor, a, (char *)run.data, run.len, "", 0))
				return false;
		} else {
			if (!expand(c, a, &factor, depth))
				return false;
			c = c->next;
		}
		if (product.n * factor.n > MAX_PRODUCT)
			return false;
		texts_init(&next);
		for (const struct text *x = product.first; x; x = x->next) {
			for (const struct text *y = factor.first; y; y = y->next) {
				if (!texts_add(&next, a, x->p, x->len, y->p, y->len))
					return false;
			}
		}
		product.first = next.first;
		product.n = next.n;
	}
	for (const struct text *x = product.first; x; x = x->next) {
		if (!texts_add(ret, a, x->p, x->len, "", 0))
			return false;
	}
	return true;
}

/* All texts that the node matches, or false when they are too many or not a list (or memory is out:
 * the arena knows). */
static bool expand(const struct re2_node *n, struct arena *a, struct texts *ret, unsigned depth)
{
	if (depth > MAX_DEPTH)
		return false;
	switch (n->op) {
	case RE2_EMPTY: return texts_add(ret, a, "", 0, "", 0);
	case RE2_RUNE: return !n->fold && texts_add_rune(ret, a, n->rune);
	case RE2_CLASS: return expand_class(n->class, a, ret);
	case RE2_CAPTURE: return expand(n->child, a, ret, depth + 1);
	case RE2_CONCAT: return expand_concat(n, a, ret, depth + 1);
	case RE2_ALTERNATE:
		for (const struct re2_node *c = n->child; c; c = c->next) {
			if (!expand(c, a, ret, depth + 1))
				return false;
		}
		return true;
	case RE2_REPEAT:
		return n->min == 0 && n->max == 1 && expand(n->child, a, ret, depth + 1) &&
		       texts_add(ret, a, "", 0, "", 0);
	default: return false;
	}
}

/* `.*` or `.+` that also takes newlines, through groups. */
static const struct re2_node *as_gap(const struct re2_node *n)
{
	while (n->op == RE2_CAPTURE)
		n = n->child;
	return n->op == RE2_REPEAT && n->child->op == RE2_ANY && n->max < 0 && n->min <= 1 ? n
											   : NULL;
}

static bool is_plain_rune(const struct re2_node *n)
{
	return n->op == RE2_RUNE && !n->fold && (n->rune < 0xd800 || n->rune > 0xdfff);
}

/* Cuts one alternative into pieces and gaps. False when it has something else. */
static bool glob_of(const struct re2_node *n, struct arena *a, struct re2_glob *ret)
{
	const struct re2_node *c = n->op == RE2_CONCAT ? n->child : n, *gap;
	struct re2_piece *piece;
	size_t max = 2;

	for (const struct re2_node *x = c; x; x = n->op == RE2_CONCAT ? x->next : NULL)
		max += as_gap(x) != NULL;
	ret->pieces = arena_alloc_array(a, max, sizeof(*ret->pieces));
	if (!ret->pieces)
		return false;
	ret->n_pieces = 0;
	do {
		_cleanup_bytes_ struct bytes run = {0};

		piece = &ret->pieces[ret->n_pieces++];
		for (; c && is_plain_rune(c); c = n->op == RE2_CONCAT ? c->next : NULL)
			ucase_encode(c->rune, &run);
		*piece = (struct re2_piece) {
			arena_strndup(a, run.data ? (char *)run.data : "", run.len), run.len, false,
			false};
		if (bytes_error(&run) || !piece->text || strlen(piece->text) != run.len)
			return false;
		if (!c)
			return true;
		gap = as_gap(c);
		if (!gap)
			return false;
		piece->gap = true;
		piece->gap_is_plus = gap->min == 1;
		c = n->op == RE2_CONCAT ? c->next : NULL;
	} while (ret->n_pieces < max);
	return false;
}

static int find_globs(const struct re2_node *root, struct arena *a, struct re2_literals *ret)
{
	const struct re2_node *first = root->op == RE2_ALTERNATE ? root->child : root;
	size_t n = 1;

	if (root->op == RE2_ALTERNATE)
		for (const struct re2_node *c = first->next; c; c = c->next)
			n++;
	if (n > MAX_GLOBS)
		return 0;
	ret->globs = arena_alloc_array(a, n, sizeof(*ret->globs));
	if (!ret->globs)
		return -ENOMEM;
	for (const struct re2_node *c = first; ret->n_globs < n; c = c->next) {
		if (!glob_of(c, a, &ret->globs[ret->n_globs]))
			return arena_error(a, NULL);
		ret->n_globs++;
	}
	ret->is_globs = true;
	return 0;
}

static int keep_texts(const struct texts *texts, struct re2_literals *ret)
{
	bool is_new;

	for (const struct text *t = texts->first; t; t = t->next) {
		if (interner_add(&ret->texts, t->p, t->len, &is_new) == INTERNER_NONE)
			return -ENOMEM;
	}
	ret->is_exact = true;
	return 0;
}

/* ^ and $ at the ends of an anchored expression say nothing; people write them all the same. */
static void drop_outer_anchors(struct re2_node *n)
{
	struct re2_node *last = NULL;

	if (n->op != RE2_CONCAT)
		return;
	while (n->child && n->child->op == RE2_BEGIN_TEXT)
		n->child = n->child->next;
	for (struct re2_node *c = n->child; c; c = c->next) {
		if (c->op != RE2_END_TEXT)
			last = c;
	}
	if (last)
		last->next = NULL;
	else
		n->child = NULL;
	n->last_child = last;
}

int re2_find_literals(const struct re2_tree *tree, struct arena *arena, struct re2_literals *ret)
{
	_cleanup_arena_ struct arena scratch;
	struct re2_node *root = tree->root;
	struct texts texts;
	int r;

	arena_init(&scratch, NULL);
	*ret = (struct re2_literals) {0};
	interner_init(&ret->texts, NULL);
	if (root->op == RE2_ALTERNATE) {
		for (struct re2_node *c = root->child; c; c = c->next)
			drop_outer_anchors(c);
	} else {
		drop_outer_anchors(root);
	}
	texts_init(&texts);
	if (expand(root, &scratch, &texts, 0))
		return keep_texts(&texts, ret);
	r = arena_error(&scratch, NULL);
	return r < 0 ? r : find_globs(root, arena, ret);
}

void re2_literals_done(struct re2_literals *l)
{
	interner_done(&l->texts);
}

/* Length of the first character, which a `.+` gap takes at least. */
static size_t gap_min(const struct re2_piece *p, const char *s, size_t n)
{
	size_t len = 1;

	if (!p->gap_is_plus)
		return 0;
	while (len < n && ((uint8_t)s[len] & 0xc0) == 0x80)
		len++;
	return n ? len : 1;
}

static bool glob_matches(const struct re2_glob *g, const char *s, size_t n)
{
	const struct re2_piece *last = &g->pieces[g->n_pieces - 1];

	if (n < g->pieces[0].len || memcmp(s, g->pieces[0].text, g->pieces[0].len))
		return false;
	s += g->pieces[0].len;
	n -= g->pieces[0].len;
	if (g->n_pieces == 1)
		return n == 0;
	for (size_t i = 0; i + 1 < g->n_pieces; i++) {
		const struct re2_piece *piece = &g->pieces[i + 1];
		size_t skip = gap_min(&g->pieces[i], s, n);
		const char *found;

		if (skip > n)
			return false;
		s += skip;
		n -= skip;
		if (piece == last)
			return n >= last->len && !memcmp(s + n - last->len, last->text, last->len);
		found = memmem(s, n, piece->text, piece->len);
		if (!found)
			return false;
		n -= (size_t)(found - s) + piece->len;
		s = found + piece->len;
	}
	return true;
}

bool re2_literals_match(const struct re2_literals *l, const char *s, size_t n)
{
	if (l->is_exact)
		return n <= UINT32_MAX && interner_find(&l->texts, s, n) != INTERNER_NONE;
	for (size_t i = 0; i < l->n_globs; i++) {
		if (glob_matches(&l->globs[i], s, n))
			return true;
	}
	return false;
}
