/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder's short cuts: packed ids eight at a time, and room for stacks and labels guessed from the first samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include "lib/prof/packed.h"
#include "lib/prof/profile.h"
#include <string.h>

enum { MAX_NUMBERS = 40 };

static uint64_t next_random(uint64_t *state)
{
	return hash_mix(*state += 0x9e3779b97f4a7c15ULL);
}

/* Numbers of one or two bytes, here and there a longer one; what follows the end looks like more of them. */
static void test_packed_rows(void **state)
{
	uint64_t seed = 1;

	(void)state;
	if (!packed_is_fast())
		skip();
	for (int round = 0; round < 200000; round++) {
		uint32_t numbers[MAX_NUMBERS], rows[MAX_NUMBERS + PACKED_WRITE_SLACK], *w = rows;
		size_t n = next_random(&seed) % MAX_NUMBERS, first_long = n, ends[MAX_NUMBERS];
		_cleanup_bytes_ struct bytes b;
		const uint8_t *p;
		size_t len;

		bytes_init(&b, NULL, 0);
		for (size_t i = 0; i < n; i++) {
			unsigned kind = (unsigned)(next_random(&seed) % 32);

			numbers[i] = (uint32_t)next_random(&seed) % (kind == 0	       ? UINT32_MAX
									    : kind < 9 ? 1U << 14
										       : 1U << 7);
			bytes_put_varint(&b, numbers[i]);
			ends[i] = b.len;
			if (numbers[i] >= 1U << 14 && first_long == n)
				first_long = i;
		}
		len = b.len;
		for (unsigned i = 0; i < PACKED_READ_SLACK; i++)
			bytes_put_u8(&b, (uint8_t)next_random(&seed));
		p = packed_rows(b.data, b.data + len, &w);
		if (w != rows + first_long || p != b.data + (first_long ? ends[first_long - 1] : 0))
			fail_msg("round %d: %zu of %zu numbers, %zu expected", round,
				(size_t)(w - rows), n, first_long);
		for (size_t i = 0; i < first_long; i++)
			assert_int_equal(rows[i], numbers[i] - 1);
	}
}

/* A number that the end cuts in two is not taken. */
static void test_cut(void **state)
{
	const uint8_t bytes[32] = {5, 0x81, 1, 0x82, 1};
	uint32_t rows[16], *w = rows;

	(void)state;
	if (!packed_is_fast())
		skip();
	assert_ptr_equal(packed_rows(bytes, bytes + 4, &w), bytes + 3);
	assert_int_equal(w - rows, 2);
	assert_int_equal(rows[0], 4);
	assert_int_equal(rows[1], 128);
}

static void add_sample(struct prof_builder *b, uint32_t first, size_t depth, size_t n_labels)
{
	uint32_t stack[400], key = prof_builder_string(b, "k", 1);
	struct prof_label labels[8];
	const int64_t value = (int64_t)(1 + first + depth + n_labels);

	for (size_t i = 0; i < depth; i++)
		stack[i] = prof_builder_location(b, 1 + (first + i) % 20000, PROF_NONE, NULL, 0);
	for (size_t i = 0; i < n_labels; i++)
		labels[i] = (struct prof_label) {.key = key, .num = (int64_t)(1 + i + first)};
	prof_builder_sample(b, stack, depth, &value, labels, n_labels, 0);
}

static void expect_same(const struct profile *a, const struct profile *b)
{
	assert_int_equal(a->n_samples, b->n_samples);
	assert_int_equal(a->n_stack_words, b->n_stack_words);
	assert_int_equal(a->n_labels, b->n_labels);
	assert_memory_equal(a->stacks, b->stacks, a->n_stack_words * sizeof(*a->stacks));
	assert_memory_equal(
		a->stack_first, b->stack_first, (a->n_samples + 1) * sizeof(*a->stack_first));
	assert_memory_equal(
		a->label_first, b->label_first, (a->n_samples + 1) * sizeof(*a->label_first));
	for (size_t i = 0; i < a->n_labels; i++)
		assert_int_equal(a->labels[i].num, b->labels[i].num);
	assert_memory_equal(a->values, b->values, a->n_samples * sizeof(*a->values));
}

/* The first samples are no sample of the others: few frames with long ids and no labels, then many short ids and labels, or the reverse. */
static void test_guesses(void **state)
{
	(void)state;
	for (int reverse = 0; reverse < 2; reverse++) {
		_cleanup_profile_ struct profile p, q;
		_cleanup_prof_builder_ struct prof_builder *b = NULL;
		_cleanup_bytes_ struct bytes raw;
		struct errbuf eb = {.text = ""};

		profile_init(&p, NULL);
		profile_init(&q, NULL);
		bytes_init(&raw, NULL, 0);
		b = prof_builder_new(&p);
		prof_builder_type(b, "n", "count");
		/* so that ids of three bytes exist */
		for (uint32_t i = 0; i < 20000; i++)
			prof_builder_location(b, 1 + i, PROF_NONE, NULL, 0);
		for (uint32_t i = 0; i < 300; i++)
			if ((i < 50) ^ reverse)
				add_sample(b, 19000 + i, 1, 0);
			else
				add_sample(b, i % 7, 300, 1 + i % 8);
		assert_int_equal(prof_builder_finish(b, &eb), 0);
		assert_int_equal(prof_encode(&p, &raw), 0);
		assert_int_equal(prof_decode(raw.data, raw.len, &q, &eb), 0);
		expect_same(&p, &q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packed_rows),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_guesses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
