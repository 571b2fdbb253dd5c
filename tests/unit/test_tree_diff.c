/* SPDX-License-Identifier: Apache-2.0
 *
 * The difference of two call trees against sums over their paths.
 */
#include "lib/base/hash.h"
#include "lib/tree/diff.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* A random tree over frames 0 … 5 by name "f0" …; values may be negative. */
static void random_tree(struct tree_builder *b, uint64_t *random, uint32_t n_stacks)
{
	for (uint32_t i = 0; i < n_stacks; i++) {
		uint32_t stack[5], depth;

		*random = hash_mix(*random + 1);
		depth = (uint32_t)(*random % 5);
		for (uint32_t k = 0; k < depth; k++)
			stack[k] = (uint32_t)(*random >> (8 + 3 * k)) % 6;
		tree_builder_stack(b, stack, depth, (int64_t)(*random >> 40 & 255) - 20);
	}
}

/* Sum of a tree's selfs at or below the path of node `n` of `like`, or of the node alone. */
static int64_t sum_at(const struct tree *t, const struct tree *like, size_t n, bool below)
{
	int64_t sum = 0;

	for (size_t i = 0; i < t->n; i++) {
		size_t up[8], mine[8], n_up = 0, n_mine = 0, k = 0;

		for (size_t p = n; p; p = like->parent[p])
			up[n_up++] = like->frame[p];
		for (size_t p = i; p; p = t->parent[p])
			mine[n_mine++] = t->frame[p];
		while (k < n_up && k < n_mine && up[n_up - 1 - k] == mine[n_mine - 1 - k])
			k++;
		if (k == n_up && (below || n_mine == n_up))
			sum += t->self[i];
	}
	return sum;
}

static void check_diff(const struct tree *a, const struct tree *b, size_t max_nodes)
{
	_cleanup_tree_diff_ struct tree_diff d = {.total_a = NULL};
	int64_t cut_a = 0, cut_b = 0;

	assert_int_equal(tree_diff_make(a, b, max_nodes, NULL, &d, NULL), 0);
	assert_int_equal(d.total_a[0], a->total[0]);
	assert_int_equal(d.total_b[0], b->total[0]);
	for (size_t i = 0; i < d.shape.n; i++) {
		cut_a += tree_is_cut(&d.shape, i) ? d.self_a[i] : 0;
		cut_b += tree_is_cut(&d.shape, i) ? d.self_b[i] : 0;
		if (tree_is_cut(&d.shape, i))
			continue;
		assert_int_equal(d.total_a[i], sum_at(a, &d.shape, i, true));
		assert_int_equal(d.total_b[i], sum_at(b, &d.shape, i, true));
		assert_int_equal(d.self_a[i], sum_at(a, &d.shape, i, false));
		assert_int_equal(d.self_b[i], sum_at(b, &d.shape, i, false));
	}
	assert_true(max_nodes || (!cut_a && !cut_b));
}

static void test_diff(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		_cleanup_tree_builder_ struct tree_builder of_a = {.n = 0}, of_b = {.n = 0};
		_cleanup_tree_ struct tree a, b;

		tree_init(&a, NULL);
		tree_init(&b, NULL);
		tree_builder_init(&of_a, NULL);
		tree_builder_init(&of_b, NULL);
		random_tree(&of_a, &random, round % 40);
		random_tree(&of_b, &random, round % 7 ? round % 50 : 0);
		assert_int_equal(tree_builder_finish(&of_a, &a, NULL), 0);
		assert_int_equal(tree_builder_finish(&of_b, &b, NULL), 0);
		check_diff(&a, &b, 0);
		check_diff(&a, &b, 1 + round % 30);
	}
	assert_int_equal(tree_mark_of(0, 5, 1, 1), TREE_NEW);
	assert_int_equal(tree_mark_of(5, 0, 1, 1), TREE_GONE);
	assert_int_equal(tree_mark_of(10, 20, 2, 1), TREE_SAME);
	assert_int_equal(tree_mark_of(10, 21, 2, 1), TREE_CHANGED);
	assert_int_equal(tree_mark_of(0, 0, 1, 1), TREE_SAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_diff),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
