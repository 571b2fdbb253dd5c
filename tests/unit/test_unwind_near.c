/* SPDX-License-Identifier: Apache-2.0
 *
 * What a CPU's last walks found (bpf/unwind/near.h): rules as one word and back; an answer is never another key's; a stack that
 * repeats is found whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include "bpf/unwind/near.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t random_state = 7;

static uint32_t rnd(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(random_state >> 33) % below;
}

static struct unwind_rule usual(void)
{
	return (struct unwind_rule) {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_SP,
		.ra = UNWIND_AT_CFA,
		.fp = UNWIND_AT_CFA,
		.off = 48,
		.ra_off = -8,
		.fp_off = -16};
}

static void test_usual_rules_come_back_from_a_word(void **state)
{
	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct unwind_rule r = {.cfa = UNWIND_CFA_REG,
			.reg = rnd(2) ? UNWIND_SP : UNWIND_FP,
			.ra = UNWIND_AT_CFA,
			.fp = (uint8_t)rnd(2),
			.bx = (uint8_t)rnd(2),
			.off = ((int32_t)rnd(1 << 16) - (1 << 15)) * 8,
			.ra_off = ((int32_t)rnd(128) - 128) * 8,
			.fp_off = ((int32_t)rnd(256) - 128) * 8,
			.bx_off = ((int32_t)rnd(256) - 128) * 8};
		uint64_t plain = unwind_plain(&r);

		assert_true(plain && !(plain >> UNWIND_PLAIN_BITS));
		assert_int_equal(!!(plain & UNWIND_PLAIN_BY_FP), r.reg == UNWIND_FP);
		assert_int_equal(!!(plain & UNWIND_PLAIN_FP), r.fp);
		assert_int_equal(!!(plain & UNWIND_PLAIN_BX), r.bx);
		assert_int_equal(UNWIND_PLAIN_OFF(plain), r.off);
		assert_int_equal(UNWIND_PLAIN_RA_OFF(plain), r.ra_off);
		assert_int_equal(UNWIND_PLAIN_FP_OFF(plain), r.fp_off);
		assert_int_equal(UNWIND_PLAIN_BX_OFF(plain), r.bx_off);
	}
}

static void test_other_rules_are_none(void **state)
{
	struct unwind_rule r;

	(void)state;
	r = usual();
	assert_true(unwind_plain(&r));
#define REFUSED(field, value)                   \
	do {                                    \
		r = usual();                    \
		r.field = value;                \
		assert_false(unwind_plain(&r)); \
	} while (0)
	for (uint8_t cfa = UNWIND_CFA_DEREF; cfa < UNWIND_N_CFAS; cfa++)
		REFUSED(cfa, cfa);
	REFUSED(reg, 0);
	REFUSED(ra, UNWIND_AT_FP);
	REFUSED(fp, UNWIND_AT_SP);
	REFUSED(fp, UNWIND_GONE);
	REFUSED(bx, UNWIND_AT_FP);
	REFUSED(bx, UNWIND_IN_REG);
	REFUSED(off, 44);
	REFUSED(off, 8 << 15);
	REFUSED(off, -(8 << 15) - 8);
	REFUSED(off, INT32_MIN);
	REFUSED(off, INT32_MAX & ~7);
	REFUSED(ra_off, 128 * 8);
	REFUSED(ra_off, 0);
	REFUSED(fp_off, -129 * 8);
	REFUSED(bx_off, 4);
}

static void test_a_root_is_a_word(void **state)
{
	struct unwind_rule r = {.ra = UNWIND_GONE}; /* as tables have it */

	(void)state;
	assert_int_equal(unwind_plain(&r), UNWIND_PLAIN);
	r = usual();
	r.ra = UNWIND_GONE;
	assert_int_equal(unwind_plain(&r), UNWIND_PLAIN);
	assert_int_equal(UNWIND_PLAIN_RA_OFF(UNWIND_PLAIN), 0);
	r.cfa = UNWIND_CFA_UNKNOWN;
	assert_false(unwind_plain(&r));
}

enum { N_KEYS = 1500 };

/* The rule that a table of that generation has for a key: no two generations' are the same. */
static uint64_t rule_of(uint32_t k, uint32_t seq)
{
	struct unwind_rule r = usual();

	r.off = (int32_t)((k + seq * 7) % 30011) * 8;
	return unwind_plain(&r);
}

/* Any order of finding and adding, keys that share index entries, tables that change: what is found is what was added. */
static void test_answers_are_of_their_key(void **state)
{
	struct unwind_near *n = calloc(1, sizeof(*n));
	uint32_t *seq = calloc(N_KEYS, sizeof(*seq));
	uint32_t at = 0, found = 0;

	(void)state;
	for (uint32_t i = 0; i < 2000000; i++) {
		uint32_t k = rnd(4) ? rnd(40) : rnd(N_KEYS);
		/* The generation is in the key up to 4,096 and beside it from there. */
		uint64_t key = (uint64_t)(k + 1) << 42 | (uint64_t)(seq[k] >> 1 & 4095) << 30 | k;
		uint64_t got = unwind_near_find(n, &at, key, seq[k]);

		if (got) {
			assert_int_equal(got, rule_of(k, seq[k]));
			found++;
		} else {
			unwind_near_add(n, &at, key, rule_of(k, seq[k]), seq[k]);
		}
		if (!rnd(50))
			seq[k] += rnd(2) ? 2 : 8192;
		if (!rnd(100))
			at = rnd(UINT32_MAX);
	}
	assert_true(found > 1000000);
	free(n);
	free(seq);
}

/* Stacks that have their root frames in common, as those of a program have: what was walked once is here the next time. */
static void test_stacks_that_repeat_are_found(void **state)
{
	struct unwind_near *n = calloc(1, sizeof(*n));
	struct unwind_rule r = usual();
	uint64_t plain = unwind_plain(&r);
	uint32_t missed = 0;

	(void)state;
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t stack = 0; stack < 20; stack++) {
			uint32_t at = 0;

			for (uint32_t frame = 0; frame < 40; frame++) {
				uint64_t key =
					1ULL << 42 | (frame < 20 ? stack * 100 + frame : frame);

				if (unwind_near_find(n, &at, key * 31, 2))
					continue;
				unwind_near_add(n, &at, key * 31, plain, 2);
				missed += round > 0;
			}
		}
	/* Frames that lost their index entries to others are found behind the one before them. */
	assert_true(missed < 20);
	free(n);
}

/* A program that goes from the same frame to another caller than before finds it without the index the next time. */
static void test_what_followed_last_is_asked_first(void **state)
{
	struct unwind_near *n = calloc(1, sizeof(*n));
	struct unwind_rule r = usual();
	uint64_t plain = unwind_plain(&r), key[3] = {1ULL << 42, 2ULL << 42, 3ULL << 42};
	uint32_t at = 0;

	(void)state;
	for (int i = 0; i < 3; i++)
		unwind_near_add(n, &at, key[i], plain, 2);
	at = 0; /* where the first one lies */
	assert_true(unwind_near_find(n, &at, key[2], 2) == plain);
	memset(n->index, 0xff, sizeof(n->index));
	at = 0;
	assert_true(unwind_near_find(n, &at, key[2], 2) == plain);
	at = 0;
	assert_false(unwind_near_find(n, &at, key[1], 2));
	free(n);
}

static void test_leaves_take_no_others_place(void **state)
{
	struct unwind_near *n = calloc(1, sizeof(*n));
	struct unwind_rule r = usual();
	uint64_t plain = unwind_plain(&r), key;
	uint32_t at = 0, found = 0;

	(void)state;
	unwind_near_add(n, &at, 1ULL << 42, plain, 2);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t seq = 2 + 2 * rnd(2) * 4096;

		/* The same key of another generation, and others with its hash, are not it. */
		key = 2ULL << 42 | rnd(300);
		r.off = (int32_t)(8 * ((key & 1023) + seq));
		if (!rnd(4))
			unwind_near_add_leaf(n, key, unwind_plain(&r), seq);
		else if (unwind_near_find_leaf(n, key, seq)) {
			assert_true(unwind_near_find_leaf(n, key, seq) == unwind_plain(&r));
			found++;
		}
	}
	assert_true(found > 1000);
	at = 0;
	assert_true(unwind_near_find(n, &at, 1ULL << 42, 2) == plain);
	free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usual_rules_come_back_from_a_word),
		cmocka_unit_test(test_other_rules_are_none),
		cmocka_unit_test(test_a_root_is_a_word),
		cmocka_unit_test(test_answers_are_of_their_key),
		cmocka_unit_test(test_stacks_that_repeat_are_found),
		cmocka_unit_test(test_what_followed_last_is_asked_first),
		cmocka_unit_test(test_leaves_take_no_others_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
