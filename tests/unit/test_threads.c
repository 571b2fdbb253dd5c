/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that is stuck is named, and the end does not wait for it.
 */
#include "lib/base/threads.h"
#include "lib/base/bell.h"
#include "lib/base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct fixture {
	struct threads threads;
	_Atomic unsigned n_turns;
	_Atomic bool may_go_on; /* those that are stuck */
};

static void sleep_ns(int64_t ns)
{
	struct errbuf eb;
	struct bell b;

	assert_int_equal(bell_init(&b, &eb), 0);
	bell_wait(&b, -1, 0, clock_monotonic_ns(&clock_system) + ns);
	bell_done(&b);
}

static void turn(void *ctx)
{
	((struct fixture *)ctx)->n_turns++;
	sleep_ns(NS_PER_MS);
}

static void hang(void *ctx)
{
	while (!((struct fixture *)ctx)->may_go_on)
		sleep_ns(NS_PER_MS);
}

static void start(struct fixture *f, const struct thread_row *rows, size_t n)
{
	struct errbuf eb = {.text = ""};

	*f = (struct fixture) {.threads = {.ctx = f}};
	for (size_t i = 0; i < n; i++)
		assert_int_equal(threads_start(&f->threads, &rows[i], &eb), 0);
}

static void test_threads_go_round_and_end(void **state)
{
	static const struct thread_row rows[] = {
		{"turn", turn, 60 * NS_PER_S, true}, {"other", turn, 0, false}};
	struct fixture f;

	(void)state;
	start(&f, rows, ARRAY_SIZE(rows));
	while (f.n_turns < 20)
		sleep_ns(NS_PER_MS);
	assert_int_equal(threads_stuck(&f.threads).n, 0);
	assert_null(threads_stuck(&f.threads).first);
	threads_stop(&f.threads);
	assert_int_equal(threads_join(&f.threads, 60 * NS_PER_S), 0);
}

static void test_one_that_is_stuck_is_named(void **state)
{
	static const struct thread_row rows[] = {{"patient", hang, 0, false},
		{"turn", turn, 60 * NS_PER_S, true}, {"minor", hang, NS_PER_MS, false},
		{"vital", hang, 2 * NS_PER_MS, true}};
	struct threads_stuck stuck;
	struct fixture f;

	(void)state;
	start(&f, rows, ARRAY_SIZE(rows));
	do
		stuck = threads_stuck(&f.threads);
	while (stuck.n < 2);
	assert_int_equal(stuck.n, 2);
	assert_string_equal(stuck.first->name, "vital");
	assert_true(stuck.for_ns > 2 * NS_PER_MS);
	threads_stop(&f.threads);
	/* The other one may need a while on a busy machine. */
	assert_int_equal(threads_join(&f.threads, 2 * NS_PER_S), 3);
	f.may_go_on = true;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].step == hang)
			pthread_join(f.threads.list[i].id, NULL);
	assert_int_equal(threads_stuck(&f.threads).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_go_round_and_end),
		cmocka_unit_test(test_one_that_is_stuck_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
