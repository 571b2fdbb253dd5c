/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout that the kernel half, user space and captured bundles share (docs/formats/abi.md). A failure here means that
 * ABI_VERSION must be raised.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "bpf/abi.h"
#include "lib/base/cleanup.h"

#define FIELD(type, field, offset, size)                                                           \
	{                                                                                          \
#type "." #field, offsetof(struct type, field), sizeof(((struct type *)0)->field), \
			offset, size                                                               \
	}

static void record_layout(void **state)
{
	static const struct {
		const char *name;
		size_t offset, size, want_offset, want_size;
	} fields[] = {
		FIELD(abi_record, type, 0, 1),
		FIELD(abi_record, event, 1, 1),
		FIELD(abi_record, flags, 2, 2),
		FIELD(abi_record, n_kernel, 4, 2),
		FIELD(abi_record, n_user, 6, 2),
		FIELD(abi_record, time_ns, 8, 8),
		FIELD(abi_record, weight, 16, 16),
		FIELD(abi_record, start_ns, 32, 8),
		FIELD(abi_record, pid, 40, 4),
		FIELD(abi_record, tid, 44, 4),
		FIELD(abi_record, exec_id, 48, 4),
		FIELD(abi_record, cpu, 52, 4),
		FIELD(abi_record, cgroup_id, 56, 8),
		FIELD(abi_record, comm, 64, 16),
		FIELD(abi_record, leader_comm, 80, 16),
		FIELD(abi_stack, type, 0, 1),
		FIELD(abi_stack, event, 1, 1),
		FIELD(abi_stack, bytes, 4, 4),
		FIELD(abi_stack, time_ns, 8, 8),
		FIELD(abi_stack, pid, 16, 4),
		FIELD(abi_stack, tid, 20, 4),
		FIELD(abi_stack, cpu, 24, 4),
		FIELD(abi_stack, pc, 32, 8),
		FIELD(abi_stack, regs, 40, 128),
		FIELD(abi_config, version, 0, 4),
		FIELD(abi_config, cost_interval, 4, 4),
		FIELD(abi_config, bucket_mask, 8, 4),
		FIELD(abi_config, shadow, 12, 4),
		FIELD(abi_config, file_mask, 16, 4),
		FIELD(abi_config, by_fp, 20, 4),
		FIELD(abi_config, interp, 24, 4),
		FIELD(abi_code, type, 0, 1),
		FIELD(abi_code, event, 1, 1),
		FIELD(abi_code, flags, 2, 2),
		FIELD(abi_code, cpu, 4, 4),
		FIELD(abi_code, time_ns, 8, 8),
		FIELD(abi_code, start_ns, 16, 8),
		FIELD(abi_code, pid, 24, 4),
		FIELD(abi_code, exec_id, 28, 4),
		FIELD(abi_code, object, 32, 8),
		FIELD(abi_code, check, 40, 8),
		FIELD(abi_code, context, 48, 8),
	};

	(void)state;
	assert_int_equal(ABI_VERSION, 8);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i].offset != fields[i].want_offset ||
			fields[i].size != fields[i].want_size)
			fail_msg("%s is %zu bytes at %zu", fields[i].name, fields[i].size,
				fields[i].offset);
	}
	assert_int_equal(sizeof(struct abi_record), 96);
	assert_int_equal(sizeof(struct abi_stack), 168);
	assert_int_equal(sizeof(struct abi_code), 56);
	assert_int_equal(ABI_CODE_MACHINE, 1);
	assert_int_equal(ABI_CODE_EXACT, 2);
	assert_int_equal(ABI_INTERP_RUNS, 1);
	assert_int_equal(ABI_INTERP_FRAMES, 2);
	assert_int_equal(offsetof(struct abi_record, frames), 96);
	assert_int_equal(ABI_MAX_RECORD_BYTES, 96 + 8 * (127 + 1026));
}

static void frame_words(void **state)
{
	(void)state;
	assert_int_equal(ABI_FRAME_NATIVE, 1);
	assert_int_equal(ABI_FRAME_KERNEL, 2);
	assert_int_equal(ABI_FRAME_RAW, 3);
	assert_int_equal(ABI_FRAME_JIT, 4);
	assert_int_equal(ABI_FRAME_INTERP, 5);
	assert_int_equal(ABI_FRAME_REPEAT, 6);
	assert_int_equal(ABI_FRAME_ELIDED, 7);
	assert_int_equal(ABI_FRAME_TRUNCATED, 8);
	assert_int_equal(ABI_NATIVE(5, 0x1234), 0x1000000000000000ULL | 5ULL << 38 | 0x1234);
	assert_int_equal(ABI_NATIVE_BINARY(ABI_NATIVE(ABI_BINARY_MAX, 7)), ABI_BINARY_MAX);
	assert_int_equal(
		ABI_NATIVE_OFF(ABI_NATIVE(ABI_BINARY_MAX, (1ULL << 38) - 1)), (1ULL << 38) - 1);
	assert_int_equal(ABI_INTERP(0xabcdef, 0x1234), 0x500000abcdef1234ULL);
	assert_int_equal(ABI_INTERP_OBJECT(ABI_INTERP((1ULL << 44) - 1, 9)), (1ULL << 44) - 1);
	assert_int_equal(ABI_INTERP_POSITION(ABI_INTERP(1, 0xffff)), 0xffff);
	/* a kernel address loses its top four bits, which are all ones */
	assert_int_equal(ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000000ULL), 0x2fffffff81000000ULL);
	assert_int_equal(
		ABI_FRAME_KIND(ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_DEPTH)), ABI_FRAME_TRUNCATED);
	assert_int_equal(
		ABI_FRAME_VALUE(ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_DEPTH)), ABI_CUT_DEPTH);
}

/* Numbers of cut reasons are in bundles: rows may only be added at the end. */
static void cut_numbers(void **state)
{
	(void)state;
	assert_int_equal(ABI_CUT_NONE, 0);
	assert_int_equal(ABI_CUT_NO_USER_REGS, 1);
	assert_int_equal(ABI_CUT_COMPAT32, 2);
	assert_int_equal(ABI_CUT_READ_FAULT, 3);
	assert_int_equal(ABI_CUT_FP_INSANE, 4);
	assert_int_equal(ABI_CUT_BAD_PC, 5);
	assert_int_equal(ABI_CUT_DEPTH, 6);
	assert_true((int)ABI_N_COUNTERS <= (int)ABI_EVENT_COUNTERS_AT);
	assert_true((int)ABI_N_EVENT_COUNTERS <= (int)ABI_EVENT_COUNTERS_STRIDE);
	assert_true((int)ABI_N_EVENTS <= (int)ABI_MAX_EVENTS);
	assert_int_equal(ABI_EVENT_COUNTERS(0), 96);
	assert_int_equal(ABI_EVENT_COUNTERS(1), 120);
	assert_int_equal(ABI_EVENT_COUNTERS(ABI_MAX_EVENTS), ABI_COUNTERS_STRIDE);
	assert_int_equal(ABI_COUNTERS_STRIDE, 864);
	/* blocks and rows do not share cache lines */
	assert_int_equal(ABI_EVENT_COUNTERS_AT * sizeof(uint64_t) % 64, 0);
	assert_int_equal(ABI_EVENT_COUNTERS_STRIDE * sizeof(uint64_t) % 64, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_layout),
		cmocka_unit_test(frame_words),
		cmocka_unit_test(cut_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
