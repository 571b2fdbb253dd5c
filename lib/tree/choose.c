/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks take the same way as those of a tree that is shown: filters, then functions; what counts is decided there and carried back.
 */
#include "lib/tree/choose.h"
#include "lib/base/alloc.h"
#include <string.h>

struct choosing {
	const struct tree_choice *choice;
	struct tree_symbols *symbols;
	struct arena arena;
	struct tree_builder filtered, functions;
	uint32_t *to_filtered, *to_function;
	uint8_t *class_of; /* per frame: index in choice->frames + 1 */
	uint64_t *classes; /* per node of `functions` */
};

static void choosing_done(struct choosing *c)
{
	tree_builder_done(&c->filtered);
	tree_builder_done(&c->functions);
	arena_done(&c->arena);
}

/* A builder's nodes, read as a tree without values. */
static struct tree view_of(const struct tree_builder *b)
{
	return (struct tree) {.n = b->n, .parent = b->parent, .frame = b->frame, .line = b->line};
}

static int filter(struct choosing *c, const struct tree *in, struct tree *ret, struct errbuf *eb)
{
	int r;

	if (tree_filter_is_empty(&c->choice->filter)) {
		*ret = *in;
		return 0;
	}
	c->to_filtered = arena_alloc_array(&c->arena, in->n, sizeof(*c->to_filtered));
	r = arena_error(&c->arena, eb);
	if (!r)
		r = tree_filter_stacks(
			in, &c->choice->filter, c->symbols, &c->filtered, c->to_filtered, eb);
	if (!r && c->filtered.error)
		r = err_set(eb, c->filtered.error, "out of memory while filtering frames");
	*ret = view_of(&c->filtered);
	return r;
}

static int project(struct choosing *c, const struct tree *in, struct errbuf *eb)
{
	int r;

	c->to_function = arena_alloc_array(&c->arena, in->n + 1, sizeof(*c->to_function));
	r = arena_error(&c->arena, eb);
	if (!r)
		r = tree_project_stacks(
			in, &c->choice->identity, c->symbols, &c->functions, c->to_function, eb);
	if (!r && c->functions.error)
		r = err_set(eb, c->functions.error, "out of memory for a call tree");
	return r;
}

/* How many functions of `at` the path to node i answers, given how many its parent's does; TREE_NONE once off it. */
static uint32_t follow(const struct choosing *c, size_t i, uint32_t up)
{
	const struct tree_symbols *s = c->symbols;
	const char *name;

	if (up == TREE_NONE || up == c->choice->n_at)
		return up;
	name = tree_symbols_text(s, s->frames[c->functions.frame[i]].name, NULL);
	return !strcmp(name, c->choice->at[up]) ? up + 1 : TREE_NONE;
}

static int classify(struct choosing *c, struct errbuf *eb)
{
	const struct tree_choice *q = c->choice;
	const struct tree_builder *b = &c->functions;
	uint64_t none = 1ULL << q->n_frames, *on_path;
	uint32_t *at = arena_alloc_array(&c->arena, b->n, sizeof(*at));
	int r;

	on_path = arena_zalloc(&c->arena, b->n * sizeof(*on_path));
	c->classes = arena_zalloc(&c->arena, b->n * sizeof(*c->classes));
	c->class_of = arena_zalloc(&c->arena, c->symbols->n_frames + 1);
	r = arena_error(&c->arena, eb);
	if (r)
		return r;
	for (size_t k = 0; k < q->n_frames; k++)
		c->class_of[q->frames[k]] = (uint8_t)(k + 1);
	at[0] = 0;
	c->classes[0] = q->n_at ? 0 : none;
	for (size_t i = 1; i < b->n; i++) {
		uint8_t class = c->class_of[b->frame[i]];
		uint64_t own = class ? 1ULL << (class - 1) : 0;

		at[i] = follow(c, i, at[b->parent[i]]);
		on_path[i] = q->by_self ? own : own | on_path[b->parent[i]];
		if (at[i] == q->n_at)
			c->classes[i] = on_path[i] ? on_path[i] : none;
	}
	return 0;
}

int tree_choose(const uint32_t *parent, const uint32_t *location, size_t n,
	const struct tree_choice *choice, struct tree_symbols *symbols, struct budget *budget,
	uint64_t *ret, struct errbuf *eb)
{
	_cleanup_(choosing_done)
	struct choosing c = {.choice = choice, .symbols = symbols};
	struct tree in = {.n = n}, filtered = {};
	int r;

	arena_init(&c.arena, budget);
	tree_builder_init(&c.filtered, budget);
	tree_builder_init(&c.functions, budget);
	tree_builder_add(&c.filtered, 0, 0); /* both have a root */
	tree_builder_add(&c.functions, 0, 0);
	in.line = arena_zalloc(&c.arena, (n + 1) * sizeof(*in.line));
	in.parent = (uint32_t *)(uintptr_t)parent; /* only read */
	in.frame = (uint32_t *)(uintptr_t)location;
	r = arena_error(&c.arena, eb);
	if (!r && (c.filtered.error || c.functions.error))
		r = err_set(eb, -ENOMEM, "out of memory for a call tree");
	if (!r)
		r = filter(&c, &in, &filtered, eb);
	if (!r)
		r = project(&c, &filtered, eb);
	if (!r)
		r = classify(&c, eb);
	for (size_t i = 0; !r && i < n; i++) {
		uint32_t at = c.to_filtered ? c.to_filtered[i] : (uint32_t)i;

		ret[i] = at == TREE_NONE ? 0 : c.classes[c.to_function[at]];
	}
	return r;
}
