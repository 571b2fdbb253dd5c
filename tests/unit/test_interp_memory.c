/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's memory for readers of its runtime: what one request serves, what is read from the process again, and when its
 * time is over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/interp/reader/memory.h"
#include "lib/base/cleanup.h"

enum { BASE = 0x10000, BYTES = 200000, PID = 7, START = 99 };

/* A process with memory from BASE on. A byte there is the number of requests that have copied it. */
struct process {
	struct keeper keeper;
	uint8_t memory[BYTES];
	uint64_t requests, largest;
	int error;
	struct clock_virtual clock;
	int64_t takes_ns; /* each request */
};

static int fake_copy(
	struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges, size_t n)
{
	struct process *p = (struct process *)k;

	assert_int_equal(pid, PID);
	assert_int_equal(start_ns, START);
	p->requests++;
	clock_virtual_advance(&p->clock, p->takes_ns);
	for (size_t i = 0; i < n && !p->error; i++) {
		uint64_t off = ranges[i].addr - BASE;

		assert_true(ranges[i].bytes <= KEEPER_COPY_BYTES);
		p->largest = MAX(p->largest, ranges[i].bytes);
		ranges[i].copied = off < BYTES ? (uint32_t)MIN(ranges[i].bytes, BYTES - off) : 0;
		memcpy(ranges[i].to, p->memory + MIN(off, (uint64_t)BYTES), ranges[i].copied);
		for (uint32_t at = 0; at < ranges[i].copied; at++)
			p->memory[off + at]++;
	}
	return p->error;
}

static int setup(void **state)
{
	struct process *p = calloc(1, sizeof(*p));

	p->keeper.copy = fake_copy;
	clock_virtual_init(&p->clock, NS_PER_S);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* Reads; all bytes had been copied so often before. */
static void expect(struct interp_window *w, uint64_t off, size_t n, unsigned copied)
{
	uint8_t got[1024];

	assert_int_equal(w->memory.read(w->memory.arg, BASE + off, got, n), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(got[i], copied);
}

static void what_is_near_costs_no_request(void **state)
{
	struct process *p = *state;
	struct interp_window w;

	interp_window_init(&w, &p->keeper, PID, START, 0x1234);
	assert_int_equal(w.memory.bias, 0x1234);
	expect(&w, 900, 48, 0);
	expect(&w, 948, 20, 0);
	expect(&w, INTERP_BLOCK_BYTES - 8, 8, 0);
	expect(&w, 0, 8, 0);
	assert_int_equal(p->requests, 1);
	expect(&w, INTERP_BLOCK_BYTES, 8, 0);
	/* The first one is still there. */
	expect(&w, 8, 8, 0);
	assert_int_equal(p->requests, 2);
	assert_int_equal(w.requests, 2);
	assert_int_equal(w.bytes, 2 * INTERP_BLOCK_BYTES);
	/* Of another object it says nothing. */
	interp_window_forget(&w);
	expect(&w, 16, 8, 1);
	interp_window_done(&w);
}

static void the_block_that_was_used_least_lately_goes(void **state)
{
	struct process *p = *state;
	struct interp_window w;

	interp_window_init(&w, &p->keeper, PID, START, 0);
	for (uint64_t i = 0; i < INTERP_BLOCKS; i++)
		expect(&w, i * INTERP_BLOCK_BYTES, 8, 0);
	expect(&w, 8, 8, 0);
	expect(&w, INTERP_BLOCKS * INTERP_BLOCK_BYTES, 8, 0);
	expect(&w, 16, 8, 0);
	assert_int_equal(p->requests, INTERP_BLOCKS + 1);
	expect(&w, INTERP_BLOCK_BYTES + 8, 8, 1);
	assert_int_equal(p->requests, INTERP_BLOCKS + 2);
	interp_window_done(&w);
}

static void a_second_reading_is_one_of_the_process(void **state)
{
	struct process *p = *state;
	struct interp_window w;

	interp_window_init(&w, &p->keeper, PID, START, 0);
	expect(&w, 900, 48, 0);
	expect(&w, 900, 48, 1);
	expect(&w, 947, 2, 2); /* in part, and a third time */
	assert_int_equal(p->requests, 3);
	interp_window_done(&w);
}

/* Copies of all that is checked are younger than all that was read for the first time. */
static void what_is_checked_together_comes_together(void **state)
{
	struct process *p = *state;
	struct interp_window w;

	interp_window_init(&w, &p->keeper, PID, START, 0);
	expect(&w, 100, 8, 0);
	expect(&w, 200, 8, 0);
	expect(&w, 50000, 8, 0);
	expect(&w, 100, 8, 1);
	expect(&w, 200, 8, 1);
	assert_int_equal(p->requests, 3);
	/* Something new was read meanwhile. */
	expect(&w, 300, 8, 1);
	expect(&w, 208, 4, 1);
	expect(&w, 100, 8, 2);
	expect(&w, 200, 8, 2);
	expect(&w, 50000, 8, 1);
	assert_int_equal(p->requests, 5);
	interp_window_done(&w);
}

static void large_pieces_come_by_themselves(void **state)
{
	struct process *p = *state;
	_cleanup_free_ uint8_t *got = calloc(1, BYTES);
	struct interp_window w;

	interp_window_init(&w, &p->keeper, PID, START, 0);
	assert_int_equal(w.memory.read(w.memory.arg, BASE, got, BYTES), 0);
	assert_int_equal(p->requests, (BYTES + KEEPER_COPY_BYTES - 1) / KEEPER_COPY_BYTES);
	assert_int_equal(p->largest, KEEPER_COPY_BYTES);
	expect(&w, 90000, 8, 1);
	interp_window_done(&w);
}

static void what_cannot_be_read(void **state)
{
	struct process *p = *state;
	struct interp_window w;
	uint8_t got[BYTES];

	interp_window_init(&w, &p->keeper, PID, START, 0);
	/* the end of memory is within the window, behind what was asked for; then within that */
	expect(&w, BYTES - 48, 48, 0);
	assert_int_equal(w.memory.read(w.memory.arg, BASE + BYTES - 47, got, 48), -EFAULT);
	assert_int_equal(w.memory.read(w.memory.arg, BASE + 1, got, BYTES), -EFAULT);
	assert_int_equal(w.memory.read(w.memory.arg, BASE - 4096, got, 8), -EFAULT);
	p->error = -ESRCH;
	assert_int_equal(w.memory.read(w.memory.arg, BASE + 1000, got, 8), -ESRCH);
	/* nothing of a window is left that could not be filled */
	assert_int_equal(w.memory.read(w.memory.arg, BASE + 1100, got, 8), -ESRCH);
	p->keeper.copy = NULL;
	assert_int_equal(w.memory.read(w.memory.arg, BASE, got, 8), -ENOTSUP);
	interp_window_done(&w);
}

static void its_time_is_over(void **state)
{
	struct process *p = *state;
	struct interp_window w;
	uint8_t got[BYTES];
	int64_t began_ns = clock_monotonic_ns(&p->clock.clock);

	p->takes_ns = 10 * NS_PER_MS;
	interp_window_init(&w, &p->keeper, PID, START, 0);
	interp_window_limit(&w, &p->clock.clock, began_ns + 3 * p->takes_ns);
	expect(&w, 1000, 8, 0);
	expect(&w, 5000, 8, 0);
	expect(&w, 9000, 8, 0);
	assert_false(w.is_over);
	expect(&w, 9008, 8, 0); /* nothing is asked for it */
	assert_int_equal(w.memory.read(w.memory.arg, BASE + 20000, got, 8), -ETIMEDOUT);
	assert_true(w.is_over);
	assert_int_equal(w.memory.read(w.memory.arg, BASE, got, BYTES), -ETIMEDOUT);
	assert_int_equal(p->requests, 3);
	/* amid a large piece */
	interp_window_limit(&w, &p->clock.clock, clock_monotonic_ns(&p->clock.clock) + 1);
	w.is_over = false;
	assert_int_equal(w.memory.read(w.memory.arg, BASE, got, BYTES), -ETIMEDOUT);
	assert_int_equal(p->requests, 4);
	interp_window_done(&w);
	interp_window_init(&w, &p->keeper, PID, START, 0);
	for (unsigned i = 0; i < 10; i++)
		expect(&w, 90000, 8, i);
	interp_window_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_near_costs_no_request, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_block_that_was_used_least_lately_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_second_reading_is_one_of_the_process, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_checked_together_comes_together, setup, teardown),
		cmocka_unit_test_setup_teardown(large_pieces_come_by_themselves, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(its_time_is_over, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
