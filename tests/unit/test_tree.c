/* SPDX-License-Identifier: Apache-2.0
 *
 * Call trees: building, the k-way merge against adding everything to one builder, projection,
 * limit, subtree, table.
 */
#include "lib/base/alloc.h"
#include "lib/prof/profile.h"
#include "lib/tree/tree.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static uint64_t rng = 88172645463325252ULL;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

/* Every invariant of tree.h. */
static void check_tree(const struct tree *t)
{
	int64_t below[4096] = {};
	bool has_value[4096] = {};

	assert_true(t->n >= 1 && t->n <= 4096);
	assert_int_equal(t->parent[0], 0);
	for (size_t i = t->n; i-- > 0;) {
		has_value[i] |= t->self[i] != 0;
		assert_int_equal(t->total[i], t->self[i] + below[i]);
		if (i) {
			assert_true(t->parent[i] < i);
			assert_true(has_value[i]);
			has_value[t->parent[i]] = true;
			below[t->parent[i]] += t->total[i];
		}
	}
	for (size_t i = 1; i < t->n; i++) {
		size_t up =
			i -
			1; /* preorder: the parent is the previous node or one of its ancestors */

		while (up != t->parent[i]) {
			assert_true(up > 0);
			up = t->parent[up];
		}
		for (size_t j = i + 1; j < t->n; j++)
			if (t->parent[j] == t->parent[i])
				assert_true(t->frame[j] > t->frame[i]);
	}
}

static void assert_same(const struct tree *a, const struct tree *b)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->parent, b->parent, a->n * sizeof(*a->parent));
	assert_memory_equal(a->frame, b->frame, a->n * sizeof(*a->frame));
	assert_memory_equal(a->self, b->self, a->n * sizeof(*a->self));
	assert_memory_equal(a->total, b->total, a->n * sizeof(*a->total));
}

static void random_stacks(struct tree_builder *a, struct tree_builder *b, unsigned n_stacks,
	unsigned n_frames, unsigned max_depth)
{
	for (unsigned i = 0; i < n_stacks; i++) {
		uint32_t stack[32], n = random_below(max_depth + 1);
		int64_t value = random_below(8) ? 1 + random_below(100) : 0;

		for (uint32_t k = 0; k < n; k++)
			stack[k] = random_below(n_frames);
		tree_builder_stack(a, stack, n, value);
		tree_builder_stack(b, stack, n, value);
	}
}

static void test_builder(void **state)
{
	static const uint32_t abc[] = {3, 2, 1}, ab[] = {2, 1}, a[] = {1}, zero[] = {9, 1};
	struct tree_builder b;
	struct tree t;

	(void)state;
	tree_builder_init(&b, NULL);
	tree_init(&t, NULL);
	tree_builder_stack(&b, ab, 2, 10);
	tree_builder_stack(&b, abc, 3, 5);
	tree_builder_stack(&b, abc, 3, 2);
	tree_builder_stack(&b, a, 1, 1);
	tree_builder_stack(&b, zero, 2, 0);
	assert_int_equal(tree_builder_finish(&b, &t, NULL), 0);
	check_tree(&t);
	assert_int_equal(t.n, 4);
	assert_int_equal(t.total[0], 18);
	assert_int_equal(t.self[1], 1);
	assert_int_equal(t.total[2], 17);
	assert_int_equal(t.self[3], 7);
	/* buffers are sized by it: no allocation that fails may make it smaller */
	alloc_fail_after(1);
	assert_int_equal(tree_max_depth(&t), 3);
	assert_int_equal(alloc_fail_after(0), 1);
	tree_builder_done(&b);
	tree_done(&t);
}

static void test_empty(void **state)
{
	struct tree_builder b;
	struct tree t, merged;
	const struct tree *in[] = {&t, &t};

	(void)state;
	tree_builder_init(&b, NULL);
	tree_init(&t, NULL);
	tree_init(&merged, NULL);
	assert_int_equal(tree_builder_finish(&b, &t, NULL), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.total[0], 0);
	assert_int_equal(tree_merge(in, 2, &merged, NULL), 0);
	assert_same(&t, &merged);
	tree_done(&merged);
	tree_init(&merged, NULL);
	assert_int_equal(tree_merge(in, 0, &merged, NULL), 0);
	assert_int_equal(merged.n, 1);
	tree_builder_done(&b);
	tree_done(&t);
	tree_done(&merged);
}

/* Values that cancel leave nothing behind. */
static void test_merge_cancels(void **state)
{
	static const uint32_t ab[] = {2, 1};
	struct tree_builder b;
	struct tree in[2], merged;
	const struct tree *trees[] = {&in[0], &in[1]};

	(void)state;
	for (int i = 0; i < 2; i++) {
		tree_builder_init(&b, NULL);
		tree_init(&in[i], NULL);
		tree_builder_stack(&b, ab, 2, i ? -5 : 5);
		assert_int_equal(tree_builder_finish(&b, &in[i], NULL), 0);
		tree_builder_done(&b);
	}
	tree_init(&merged, NULL);
	assert_int_equal(tree_merge(trees, 2, &merged, NULL), 0);
	assert_int_equal(merged.n, 1);
	tree_done(&merged);
	tree_done(&in[0]);
	tree_done(&in[1]);
}

/* Also more than the merge looks at together. */
enum { MANY = 40 }; /* trees of a merge */
/* In pieces, of which some may be empty: the tree that one pass makes. */
static void merge_in_pieces(
	const struct tree *const *trees, unsigned k, unsigned n_pieces, struct tree *ret)
{
	struct tree_nodes in[MANY];
	uint32_t depths[MANY][1024], places[9 * MANY];
	struct tree pieces[8];

	for (unsigned i = 0; i < k; i++) {
		assert_true(trees[i]->n <= 1024);
		tree_depths(trees[i], depths[i]);
		in[i] = (struct tree_nodes) {
			trees[i]->n, depths[i], trees[i]->frame, trees[i]->self, NULL};
	}
	assert_int_equal(tree_merge_cut(in, k, n_pieces, places, NULL), 0);
	for (unsigned p = 0; p < n_pieces; p++) {
		tree_init(&pieces[p], NULL);
		assert_int_equal(tree_merge_piece(in, k, places + p * k, places + (p + 1) * k,
					 &pieces[p], NULL),
			0);
	}
	assert_int_equal(tree_merge_join(in, k, pieces, n_pieces, ret, NULL), 0);
	for (unsigned p = 0; p < n_pieces; p++)
		tree_done(&pieces[p]);
}

static void test_merge_random(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		unsigned k = random_below(MANY), n_frames = 1 + random_below(12);
		struct tree in[MANY], merged, in_pieces, want;
		const struct tree *trees[MANY];
		struct tree_builder all, one;

		tree_builder_init(&all, NULL);
		for (unsigned i = 0; i < k; i++) {
			tree_builder_init(&one, NULL);
			tree_init(&in[i], NULL);
			random_stacks(&one, &all, random_below(60), n_frames, random_below(10));
			assert_int_equal(tree_builder_finish(&one, &in[i], NULL), 0);
			check_tree(&in[i]);
			tree_builder_done(&one);
			trees[i] = &in[i];
		}
		tree_init(&merged, NULL);
		tree_init(&want, NULL);
		tree_init(&in_pieces, NULL);
		assert_int_equal(tree_merge(trees, k, &merged, NULL), 0);
		merge_in_pieces(trees, k, 1 + random_below(8), &in_pieces);
		assert_int_equal(tree_builder_finish(&all, &want, NULL), 0);
		check_tree(&merged);
		assert_same(&merged, &want);
		assert_same(&in_pieces, &want);
		tree_builder_done(&all);
		tree_done(&merged);
		tree_done(&in_pieces);
		tree_done(&want);
		for (unsigned i = 0; i < k; i++)
			tree_done(&in[i]);
	}
}

static void test_divide(void **state)
{
	static const struct {
		int64_t self, divisor, want;
	} cases[] = {{14, 10, 1}, {15, 10, 2}, {-15, 10, -2}, {-14, 10, -1}, {4, 10, 0},
		{-4, 10, 0}, {INT64_MAX, 1024, INT64_MAX / 1024 + 1},
		{INT64_MIN, 1024, INT64_MIN / 1024}, {3, 2, 2}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static const uint32_t stack[] = {2, 1};
		struct tree_builder b;
		struct tree t;

		tree_builder_init(&b, NULL);
		tree_init(&t, NULL);
		tree_builder_stack(&b, stack, 2, cases[i].self);
		assert_int_equal(tree_builder_finish(&b, &t, NULL), 0);
		assert_int_equal(tree_divide(&t, cases[i].divisor, NULL), 0);
		check_tree(&t);
		assert_int_equal(t.n, cases[i].want ? 3 : 1);
		assert_int_equal(t.total[0], cases[i].want);
		tree_builder_done(&b);
		tree_done(&t);
	}
}

/* Equal siblings add up, order of children does not matter. */
static void test_from_nodes(void **state)
{
	static const uint32_t parent[] = {0, 0, 0, 1, 2, 0}, frame[] = {0, 7, 7, 3, 3, 1};
	static const int64_t self[] = {1, 2, 3, 4, 5, 0};
	struct tree t;

	(void)state;
	tree_init(&t, NULL);
	assert_int_equal(tree_from_nodes(parent, frame, self, 6, &t, NULL), 0);
	check_tree(&t);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.self[1], 5);
	assert_int_equal(t.self[2], 9);
	assert_int_equal(t.total[0], 15);
	tree_done(&t);
}

/* The same paths as children that are looked up, and as new ones that the end makes one: the same tree, with the same lines. */
static void test_append(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		unsigned n_paths = random_below(120), n_frames = 1 + random_below(9);
		struct tree_builder looked_up, appended;
		struct tree want, t;

		tree_builder_init(&looked_up, NULL);
		tree_builder_init(&appended, NULL);
		tree_init(&want, NULL);
		tree_init(&t, NULL);
		for (unsigned i = 0; i < n_paths; i++) {
			uint32_t a = 0, b = 0;
			int64_t value = (int64_t)random_below(7) - 3;

			for (uint32_t n = value ? random_below(9) : 0; n; n--) {
				uint32_t frame = random_below(n_frames);
				int64_t line = tree_line_of(1 + random_below(2), random_below(2));

				a = tree_builder_child(&looked_up, a, frame, line);
				b = tree_builder_append(&appended, b, frame, line);
			}
			tree_builder_add(&looked_up, a, value);
			tree_builder_add(&appended, b, value);
		}
		assert_int_equal(tree_builder_finish(&looked_up, &want, NULL), 0);
		assert_int_equal(tree_builder_finish(&appended, &t, NULL), 0);
		check_tree(&t);
		assert_same(&t, &want);
		assert_memory_equal(t.line, want.line, t.n * sizeof(*t.line));
		tree_builder_done(&looked_up);
		tree_builder_done(&appended);
		tree_done(&want);
		tree_done(&t);
	}
}

static void check_limit(const struct tree *t, const struct tree *limited, size_t max_nodes)
{
	size_t n_real = 0, n_cut = 0;

	for (size_t i = 0; i < limited->n; i++) {
		int64_t total = limited->self[i];

		for (size_t j = i + 1; j < limited->n; j++)
			if (limited->parent[j] == i)
				total += limited->total[j];
		assert_int_equal(limited->total[i], total);
		if (tree_is_cut(limited, i)) {
			n_cut += limited->n_cut[i];
			assert_int_equal(limited->frame[i], TREE_NONE);
		} else {
			n_real++;
		}
	}
	assert_int_equal(n_real, MIN(max_nodes, t->n));
	assert_int_equal(n_real + n_cut, t->n);
	assert_int_equal(limited->total[0], t->total[0]);
}

static void test_limit(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 100; round++) {
		struct tree_builder b, unused;
		struct tree t;

		tree_builder_init(&b, NULL);
		tree_builder_init(&unused, NULL);
		tree_init(&t, NULL);
		random_stacks(&b, &unused, 40, 5, 8);
		assert_int_equal(tree_builder_finish(&b, &t, NULL), 0);
		for (size_t max = 1; max < t.n + 2; max += 1 + max / 3) {
			struct tree limited;

			tree_init(&limited, NULL);
			assert_int_equal(tree_limit(&t, max, &limited, NULL), 0);
			check_limit(&t, &limited, max);
			tree_done(&limited);
		}
		tree_builder_done(&b);
		tree_builder_done(&unused);
		tree_done(&t);
	}
}

/* Children of one root with values of every size, many of them equal or nearly so: none that is cut is larger than one that is kept. */
static void test_limit_keeps_the_largest(void **state)
{
	enum { CHILDREN = 500 };
	uint32_t parent[CHILDREN + 1] = {0}, frame[CHILDREN + 1];
	int64_t self[CHILDREN + 1] = {0};
	uint64_t random = 1;

	(void)state;
	for (unsigned width = 1; width < 54; width++) {
		struct tree t;

		for (uint32_t i = 1; i <= CHILDREN; i++) {
			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			frame[i] = i;
			self[i] = 1 + (int64_t)(random >> (64 - width) >> (random >> 20 & 3));
			if (width > 20 && i % 3) /* of one bin */
				self[i] = ((int64_t)1 << width) + (int64_t)(random >> 50 & 7);
		}
		frame[0] = 0;
		tree_init(&t, NULL);
		assert_int_equal(tree_from_nodes(parent, frame, self, CHILDREN + 1, &t, NULL), 0);
		for (size_t max = 1; max <= CHILDREN; max += 1 + max / 3) {
			bool kept[CHILDREN + 1] = {false};
			int64_t least = INT64_MAX, most = 0;
			struct tree limited;

			tree_init(&limited, NULL);
			assert_int_equal(tree_limit(&t, max, &limited, NULL), 0);
			check_limit(&t, &limited, max);
			for (size_t i = 1; i < limited.n; i++)
				if (!tree_is_cut(&limited, i)) {
					kept[limited.frame[i]] = true;
					least = MIN(least, limited.self[i]);
				}
			for (size_t i = 1; i <= CHILDREN; i++)
				most = kept[i] ? most : MAX(most, self[i]);
			assert_true(most <= least);
			tree_done(&limited);
		}
		tree_done(&t);
	}
}

static uint32_t location(
	struct tree_symbols *s, const char *mapping, const char *const *names, size_t n)
{
	struct tree_line lines[8] = {};
	struct tree_mapping m = {};

	for (size_t i = 0; i < n; i++) {
		struct tree_function f = {
			.name = tree_symbols_string(s, names[i], strlen(names[i])),
			.file = tree_symbols_string(s, "f.c", 3)};

		lines[i].function = tree_symbols_function(s, &f);
		lines[i].line = (int64_t)(10 + i);
	}
	m.file = tree_symbols_string(s, mapping, strlen(mapping));
	m.kind = tree_kind_of_mapping(mapping);
	return tree_symbols_location(s, n ? 0 : 0x1234, tree_symbols_mapping(s, &m), lines, n);
}

/* Renders "name(self)" in preorder with a bracket pair per level. */
static void print_tree(const struct tree *t, const struct tree_symbols *s, char *out, size_t n)
{
	size_t len = 0;

	for (size_t i = 1; i < t->n; i++) {
		unsigned depth = 0;

		for (size_t j = i; j; j = t->parent[j])
			depth++;
		len += (size_t)snprintf(out + len, n - len, "%s%.*s%s=%lld", i > 1 ? " " : "",
			(int)depth - 1, "........",
			tree_symbols_text(s, s->frames[t->frame[i]].name, NULL),
			(long long)t->self[i]);
	}
}

struct fixture {
	struct tree_symbols symbols;
	struct tree locations, functions;
};

/* main > inl1 inlined into work > leaf; main > ??? in libx.so; main > main (recursion). */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct tree_builder b;
	uint32_t main_, work, leaf, nameless;

	assert_non_null(f);
	tree_symbols_init(&f->symbols, NULL);
	main_ = location(&f->symbols, "/bin/app", (const char *[]) {"main"}, 1);
	work = location(&f->symbols, "/bin/app", (const char *[]) {"inl1", "work"}, 2);
	leaf = location(&f->symbols, "[kernel.kallsyms]", (const char *[]) {"leaf"}, 1);
	nameless = location(&f->symbols, "/lib/libx.so", NULL, 0);
	tree_builder_init(&b, NULL);
	tree_builder_stack(&b, (uint32_t[]) {leaf, work, main_}, 3, 5);
	tree_builder_stack(&b, (uint32_t[]) {work, main_}, 2, 3);
	tree_builder_stack(&b, (uint32_t[]) {nameless, main_}, 2, 2);
	tree_builder_stack(&b, (uint32_t[]) {main_, main_}, 2, 7);
	tree_init(&f->locations, NULL);
	tree_init(&f->functions, NULL);
	assert_int_equal(tree_builder_finish(&b, &f->locations, NULL), 0);
	assert_int_equal(tree_project(&f->locations, NULL, &f->symbols, &f->functions, NULL), 0);
	tree_builder_done(&b);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	tree_done(&f->locations);
	tree_done(&f->functions);
	tree_symbols_done(&f->symbols);
	free(f);
	return 0;
}

static void test_project(void **state)
{
	struct fixture *f = *state;
	char text[512];

	check_tree(&f->functions);
	print_tree(&f->functions, &f->symbols, text, sizeof(text));
	assert_string_equal(text, "main=0 .main=7 .work=0 ..inl1=3 ...leaf=5 .libx.so+0x1234=2");
	for (size_t i = 1; i < f->functions.n; i++) {
		const struct tree_frame *fr = &f->symbols.frames[f->functions.frame[i]];
		const char *name = tree_symbols_text(&f->symbols, fr->name, NULL);

		assert_int_equal(fr->kind, !strcmp(name, "leaf")	     ? TREE_KERNEL
					   : !strcmp(name, "libx.so+0x1234") ? TREE_UNKNOWN
									     : TREE_NATIVE);
		if (!strcmp(name, "work"))
			assert_int_equal(f->functions.line[i], 11);
		assert_int_equal(tree_line_is_inlined(f->functions.line[i]), !strcmp(name, "inl1"));
		if (!strcmp(name, "inl1"))
			assert_int_equal(tree_line_number(f->functions.line[i]), 10);
	}
}

/* A node is inlined where all that it stands for is, whatever the lines are; a cut stack ends in a frame of a kind of its own. */
static void test_inlined_and_truncated(void **state)
{
	static const struct {
		int64_t a, b, number;
		bool a_inlined, b_inlined, inlined;
	} cases[] = {{7, 7, 7, true, true, true}, {7, 8, 0, true, true, true},
		{7, 7, 0, true, false, false}, {7, 7, 7, false, false, false},
		{-1, INT64_MAX, 0, true, true, true}};
	static const char *const names[] = {"[truncated: no_table]", "[truncated]", "truncate"};
	struct tree_symbols s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t both = tree_line_join(tree_line_of(cases[i].a, cases[i].a_inlined),
			tree_line_of(cases[i].b, cases[i].b_inlined));

		assert_int_equal(tree_line_number(both), cases[i].number);
		assert_int_equal(tree_line_is_inlined(both), cases[i].inlined);
	}
	tree_symbols_init(&s, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint32_t stack = location(&s, "/bin/app", &names[i], 1);
		struct tree_builder b;
		struct tree in, out;

		tree_builder_init(&b, NULL);
		tree_builder_stack(&b, &stack, 1, 1);
		tree_init(&in, NULL);
		tree_init(&out, NULL);
		assert_int_equal(tree_builder_finish(&b, &in, NULL), 0);
		assert_int_equal(tree_project(&in, NULL, &s, &out, NULL), 0);
		assert_int_equal(s.frames[out.frame[1]].kind, i < 2 ? TREE_TRUNCATED : TREE_NATIVE);
		tree_builder_done(&b);
		tree_done(&in);
		tree_done(&out);
	}
	tree_symbols_done(&s);
}

/* Stacks are cut to their leaves; lines of the innermost function fall together, those of its callers do not. */
static void test_trim(void **state)
{
	static const struct {
		size_t keep;
		bool merge;
		size_t n; /* nodes beside the root */
	} cases[] = {{0, false, 5}, {1, false, 3}, {2, false, 5}, {0, true, 5}, {1, true, 2},
		{2, true, 5}, {9, false, 5}};
	struct tree_symbols s;
	struct tree_builder b;
	struct tree in;
	uint32_t at[2][2]; /* function, line */

	(void)state;
	tree_symbols_init(&s, NULL);
	tree_builder_init(&b, NULL);
	tree_init(&in, NULL);
	for (uint32_t f = 0; f < 2; f++)
		for (uint32_t l = 0; l < 2; l++) {
			struct tree_function function = {
				.name = tree_symbols_string(&s, f ? "leaf" : "main", 4)};
			struct tree_line line = {
				.function = tree_symbols_function(&s, &function), .line = 10 + l};

			at[f][l] = tree_symbols_location(&s, 100 * f + l, TREE_NONE, &line, 1);
		}
	/* leaf:10 and leaf:11 below main:10, leaf:10 below main:11; main:10 is a leaf itself */
	tree_builder_stack(&b, (uint32_t[]) {at[1][0], at[0][0]}, 2, 1);
	tree_builder_stack(&b, (uint32_t[]) {at[1][1], at[0][0]}, 2, 2);
	tree_builder_stack(&b, (uint32_t[]) {at[1][0], at[0][1]}, 2, 4);
	tree_builder_stack(&b, (uint32_t[]) {at[0][0]}, 1, 8);
	assert_int_equal(tree_builder_finish(&b, &in, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tree t;
		uint32_t depth;

		tree_init(&t, NULL);
		assert_int_equal(tree_trim(&in, &s, cases[i].keep, cases[i].merge, &t, NULL), 0);
		check_tree(&t);
		depth = tree_max_depth(&t);
		assert_int_equal(t.total[0], 15);
		assert_int_equal(depth, cases[i].keep == 1 ? 1 : 2);
		if (t.n - 1 != cases[i].n)
			fail_msg("case %zu: %zu nodes", i, t.n - 1);
		for (size_t k = 1; cases[i].merge && k < t.n; k++)
			if (t.self[k])
				assert_int_equal(
					s.lines[s.locations[t.frame[k]].first_line].line, 0);
		tree_done(&t);
	}
	tree_builder_done(&b);
	tree_done(&in);
	tree_symbols_done(&s);
}

static void test_at(void **state)
{
	static const char *const path[] = {"main", "work"}, *const wrong[] = {"work"};
	struct fixture *f = *state;
	struct tree t;
	char text[512];

	tree_init(&t, NULL);
	assert_int_equal(tree_at(&f->functions, &f->symbols, path, 2, &t, NULL), 0);
	check_tree(&t);
	print_tree(&t, &f->symbols, text, sizeof(text));
	assert_string_equal(text, "main=0 .work=0 ..inl1=3 ...leaf=5");
	assert_int_equal(t.total[0], 8);
	tree_done(&t);
	tree_init(&t, NULL);
	assert_int_equal(tree_at(&f->functions, &f->symbols, wrong, 1, &t, NULL), 0);
	assert_int_equal(t.n, 1);
	tree_done(&t);
	tree_init(&t, NULL);
	assert_int_equal(tree_at(&f->functions, &f->symbols, path, 0, &t, NULL), 0);
	assert_same(&t, &f->functions);
	tree_done(&t);
}

static void test_top(void **state)
{
	static const struct {
		const char *name;
		int64_t self, total;
	} want[] = {{"main", 7, 17}, {"leaf", 5, 5}, {"inl1", 3, 8}, {"libx.so+0x1234", 2, 2},
		{"work", 0, 8}};
	struct fixture *f = *state;
	struct tree_row *rows;
	struct arena arena;
	size_t n;

	arena_init(&arena, NULL);
	assert_int_equal(tree_top(&f->functions, &f->symbols, &arena, &rows, &n, NULL), 0);
	assert_int_equal(n, ARRAY_SIZE(want));
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(
			tree_symbols_text(&f->symbols, f->symbols.frames[rows[i].frame].name, NULL),
			want[i].name);
		assert_int_equal(rows[i].self, want[i].self);
		assert_int_equal(rows[i].total, want[i].total);
	}
	arena_done(&arena);
}

static void test_graft(void **state)
{
	struct fixture *f = *state;
	struct tree_frame a = {.name = tree_symbols_string(&f->symbols, "a", 1),
		.mapping = TREE_NONE,
		.kind = TREE_LABEL};
	struct tree_frame b = {.name = tree_symbols_string(&f->symbols, "b", 1),
		.mapping = TREE_NONE,
		.kind = TREE_LABEL};
	const struct tree *trees[] = {&f->functions, &f->functions, &f->functions};
	uint32_t frames[] = {
		tree_symbols_frame(&f->symbols, &b), tree_symbols_frame(&f->symbols, &a), 0};
	struct tree t;

	frames[2] = frames[0];
	tree_init(&t, NULL);
	assert_int_equal(tree_graft(trees, frames, 3, &t, NULL), 0);
	check_tree(&t);
	assert_int_equal(t.total[0], 3 * 17);
	assert_int_equal(t.n, 1 + 2 * f->functions.n);
	for (size_t i = 1; i < t.n; i++)
		if (t.frame[i] == frames[0])
			assert_int_equal(t.total[i], 2 * 17);
	tree_done(&t);
}

static void test_saturates(void **state)
{
	static const uint32_t a[] = {1}, b[] = {2};
	struct tree_builder builder;
	struct tree t;

	(void)state;
	tree_builder_init(&builder, NULL);
	tree_init(&t, NULL);
	tree_builder_stack(&builder, a, 1, INT64_MAX);
	tree_builder_stack(&builder, a, 1, 5);
	tree_builder_stack(&builder, b, 1, INT64_MAX);
	assert_int_equal(tree_builder_finish(&builder, &t, NULL), 0);
	assert_int_equal(t.total[0], INT64_MAX);
	tree_builder_done(&builder);
	tree_done(&t);
}

static void test_budget(void **state)
{
	struct budget budget;
	struct tree_builder b;
	struct errbuf eb = {};
	struct tree t;

	(void)state;
	budget_init(&budget, NULL, "query", "--query.max-memory", 20000);
	tree_builder_init(&b, &budget);
	for (uint32_t i = 0; i < 5000; i++)
		tree_builder_stack(&b, &i, 1, 1);
	tree_init(&t, &budget);
	assert_int_equal(tree_builder_finish(&b, &t, &eb), -ENOMEM);
	tree_builder_done(&b);
	tree_done(&t);
	assert_int_equal(budget.used_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_builder),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_merge_cancels),
		cmocka_unit_test(test_merge_random),
		cmocka_unit_test(test_from_nodes),
		cmocka_unit_test(test_append),
		cmocka_unit_test(test_divide),
		cmocka_unit_test(test_inlined_and_truncated),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_limit_keeps_the_largest),
		cmocka_unit_test_setup_teardown(test_project, setup, teardown),
		cmocka_unit_test_setup_teardown(test_at, setup, teardown),
		cmocka_unit_test_setup_teardown(test_top, setup, teardown),
		cmocka_unit_test_setup_teardown(test_graft, setup, teardown),
		cmocka_unit_test(test_saturates),
		cmocka_unit_test(test_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
