/* SPDX-License-Identifier: Apache-2.0
 *
 * How stacks ended, by program and binary.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/sample/outcomes.h"
#include "lib/base/cleanup.h"

#define N(binary) ABI_NATIVE(binary, 0x1000)
#define CUT(why) ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_##why)

static void stacks_are_counted_where_they_were_cut(void **state)
{
	_cleanup_(outcomes_freep)
	struct outcomes *o = outcomes_new(ABI_EVENT_CPU);
	const uint64_t whole[] = {N(1), N(2), N(1)}, cut[] = {CUT(NO_TABLE), N(2), N(2), N(1)},
		       jit[] = {CUT(FP_INSANE), ABI_FRAME(ABI_FRAME_JIT, 5)};
	uint64_t total[ABI_N_CUTS];

	(void)state;
	outcomes_add(o, ABI_EVENT_CPU, "a", whole, 3);
	outcomes_add(o, ABI_EVENT_CPU, "a", cut, 4);
	outcomes_add(o, ABI_EVENT_CPU, "b", jit, 2);
	outcomes_add(o, ABI_EVENT_CPU, "b", NULL, 0);
	/* another event has a total and no rows */
	outcomes_add(o, ABI_EVENT_PAGE_FAULTS, "a", cut, 4);
	outcomes_add(o, ABI_EVENT_PAGE_FAULTS, "c", cut, 4);
	assert_int_equal(outcomes_event(o), ABI_EVENT_CPU);
	outcomes_total(o, ABI_EVENT_PAGE_FAULTS, total);
	assert_int_equal(total[ABI_CUT_NO_TABLE], 2);
	outcomes_total(o, ABI_EVENT_CPU, total);
	assert_int_equal(total[ABI_CUT_NONE], 2);
	assert_int_equal(total[ABI_CUT_NO_TABLE], 1);
	assert_int_equal(total[ABI_CUT_FP_INSANE], 1);
	assert_string_equal(outcomes_program(o, 1)->comm, "a");
	assert_int_equal(outcomes_program(o, 1)->stacks, 2);
	assert_int_equal(outcomes_program(o, 1)->cut[ABI_CUT_NO_TABLE], 1);
	assert_int_equal(outcomes_program(o, 2)->cut[ABI_CUT_FP_INSANE], 1);
	assert_null(outcomes_program(o, 3));
	/* of each stack the binary nearest to the root comes first */
	assert_int_equal(outcomes_binary(o, 0)->binary, 1);
	assert_int_equal(outcomes_binary(o, 0)->stacks, 2);
	assert_int_equal(outcomes_binary(o, 0)->cut[ABI_CUT_NO_TABLE], 0);
	assert_int_equal(outcomes_binary(o, 1)->binary, 2);
	assert_int_equal(outcomes_binary(o, 1)->cut[ABI_CUT_NO_TABLE], 1);
	assert_null(outcomes_binary(o, 2));
}

static void ids_that_are_given_back_are_forgotten(void **state)
{
	_cleanup_(outcomes_freep)
	struct outcomes *o = outcomes_new(ABI_EVENT_CPU);
	const uint64_t stack[] = {N(1), N(2), N(3)};
	const uint64_t used = 1 << 1 | 1 << 3;

	(void)state;
	outcomes_add(o, ABI_EVENT_CPU, "a", stack, 3);
	outcomes_retain(o, &used, 64);
	assert_int_equal(outcomes_binary(o, 0)->binary, 1);
	assert_int_equal(outcomes_binary(o, 1)->binary, 3);
	assert_null(outcomes_binary(o, 2));
	outcomes_add(o, ABI_EVENT_CPU, "a", stack, 3);
	assert_int_equal(outcomes_binary(o, 1)->stacks, 2);
	assert_int_equal(outcomes_binary(o, 2)->binary, 2);
	assert_int_equal(outcomes_binary(o, 2)->stacks, 1);
}

static void programs_above_the_cap_are_one(void **state)
{
	_cleanup_(outcomes_freep)
	struct outcomes *o = outcomes_new(ABI_EVENT_CPU);
	char comm[ABI_COMM_LEN * 2];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		snprintf(comm, sizeof(comm), "program%d", i);
		outcomes_add(o, ABI_EVENT_CPU, comm, NULL, 0);
	}
	assert_int_equal(outcomes_program(o, 0)->stacks, 3000 - 1023);
	assert_non_null(outcomes_program(o, 1023));
	assert_null(outcomes_program(o, 1024));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_counted_where_they_were_cut),
		cmocka_unit_test(ids_that_are_given_back_are_forgotten),
		cmocka_unit_test(programs_above_the_cap_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
