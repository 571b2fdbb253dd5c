/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix tree: interning, order of ids, marking and compaction against a model, refusals.
 */
#include "exporter/sample/stacks.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
	seed = hash_mix(seed + 0x9e3779b97f4a7c15ULL);
	return (uint32_t)(seed >> 33) % n;
}

static void test_interning(void **state)
{
	_cleanup_(stacks_freep)
	struct stacks *s = stacks_new(NULL);
	const uint64_t ab[] = {1, 2}, abc[] = {1, 2, 3}, cb[] = {3, 2};
	uint32_t a, b, c, d;

	(void)state;
	assert_int_equal(stacks_add(s, abc, 3, &a), 0);
	assert_int_equal(stacks_add(s, ab, 2, &b), 0);
	assert_int_equal(stacks_add(s, cb, 2, &c), 0);
	assert_int_equal(stacks_add(s, NULL, 0, &d), 0);
	assert_int_equal(d, 0);
	assert_int_equal(stacks_count(s), 6);
	assert_int_equal(stacks_parent(s, a), b);
	assert_int_equal(stacks_frame(s, a), 3);
	assert_int_equal(stacks_frame(s, b), 2);
	assert_int_not_equal(b, c);
	assert_int_equal(stacks_add(s, abc, 3, &d), 0);
	assert_int_equal(d, a);
	assert_int_equal(stacks_count(s), 6);
}

enum { N_STACKS = 3000, MAX_DEPTH = 12 };
static uint64_t frames[N_STACKS][MAX_DEPTH];
static uint32_t depth[N_STACKS], ids[N_STACKS];

static void check_stack(const struct stacks *s, uint32_t i)
{
	uint32_t id = ids[i];

	for (uint32_t k = depth[i]; k > 0; k--) {
		assert_true(stacks_parent(s, id) < id);
		assert_int_equal(stacks_frame(s, id), frames[i][k - 1]);
		id = stacks_parent(s, id);
	}
	assert_int_equal(id, 0);
}

static void test_compaction_keeps_live_stacks(void **state)
{
	struct budget budget;
	_cleanup_(stacks_freep)
	struct stacks *s = NULL;

	(void)state;
	budget_init(&budget, NULL, "test", NULL, 0);
	s = stacks_new(&budget);
	for (int round = 0; round < 5; round++) {
		_cleanup_free_ uint64_t *live = NULL;
		_cleanup_free_ uint32_t *remap = NULL;
		uint32_t n_live = 1, n_before;

		for (uint32_t i = 0; i < N_STACKS; i++) {
			depth[i] = random_below(MAX_DEPTH + 1);
			for (uint32_t k = 0; k < depth[i]; k++)
				frames[i][k] = random_below(4 + 10 * k) + (uint64_t)round * 1000;
			assert_int_equal(stacks_add(s, frames[i], depth[i], &ids[i]), 0);
		}
		n_before = stacks_count(s);
		for (uint32_t i = 0; i < N_STACKS; i++) {
			uint32_t again;

			check_stack(s, i);
			assert_int_equal(stacks_add(s, frames[i], depth[i], &again), 0);
			assert_int_equal(again, ids[i]);
		}
		assert_int_equal(stacks_count(s), n_before);
		live = xcalloc(n_before / 64 + 1, sizeof(*live));
		remap = xcalloc(n_before, sizeof(*remap));
		live[0] = 1;
		for (uint32_t i = 0; i < N_STACKS; i += 3)
			n_live += stacks_mark(s, ids[i], live);
		stacks_compact(s, live, remap);
		assert_int_equal(stacks_count(s), n_live);
		assert_true(n_live < n_before);
		for (uint32_t i = 0; i < N_STACKS; i += 3) {
			uint32_t again;

			ids[i] = remap[ids[i]];
			check_stack(s, i);
			assert_int_equal(stacks_add(s, frames[i], depth[i], &again), 0);
			assert_int_equal(again, ids[i]);
		}
		assert_int_equal(stacks_count(s), n_live);
		assert_int_equal(budget.used_bytes, stacks_bytes(s));
	}
	stacks_freep(&s);
	assert_int_equal(budget.used_bytes, 0);
}

static void test_refusals_change_nothing(void **state)
{
	struct budget budget;
	_cleanup_(stacks_freep)
	struct stacks *s = NULL;
	uint64_t deep[MAX_DEPTH];
	uint32_t id, n = 0, count;
	int r = 0;

	(void)state;
	budget_init(&budget, NULL, "test", NULL, 64 << 10);
	s = stacks_new(&budget);
	for (uint64_t frame = 1; r == 0; frame++, n++)
		r = stacks_add(s, &frame, 1, &id);
	assert_int_equal(r, -ENOMEM);
	assert_int_equal(stacks_refused(s), 1);
	assert_true(n > 1000);
	for (uint64_t frame = 1; frame < n; frame++) {
		assert_int_equal(stacks_add(s, &frame, 1, &id), 0);
		assert_int_equal(stacks_frame(s, id), frame);
	}
	assert_true(budget.used_bytes <= 64 << 10);

	/* The first frames of this one are there, for the others there is no room. */
	for (uint32_t i = 0; i < MAX_DEPTH; i++)
		deep[i] = i ? n + 1000 + i : 1;
	count = stacks_count(s);
	while (stacks_add(s, deep, MAX_DEPTH, &id) == 0) {
		assert_int_equal(stacks_count(s), count + MAX_DEPTH - 1);
		count = stacks_count(s);
		deep[1]++;
	}
	assert_int_equal(stacks_count(s), count);
	assert_int_equal(stacks_refused(s), 2);

	/* Every allocation of a growth fails once. */
	for (unsigned k = 1; k <= 4; k++) {
		_cleanup_(stacks_freep)
		struct stacks *t = stacks_new(NULL);
		uint64_t frame = 0;

		alloc_fail_after(k);
		do {
			frame++;
		} while (frame < 100000 && stacks_add(t, &frame, 1, &id) == 0);
		alloc_fail_after(0);
		assert_true(frame < 100000);
		for (uint64_t f = 1; f <= frame + 5000; f++) {
			assert_int_equal(stacks_add(t, &f, 1, &id), 0);
			assert_int_equal(id, f);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interning),
		cmocka_unit_test(test_compaction_keeps_live_stacks),
		cmocka_unit_test(test_refusals_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
