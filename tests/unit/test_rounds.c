/* SPDX-License-Identifier: Apache-2.0
 *
 * lib/base/rounds: who asks gets a round that begins after the question, or has its time over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include "lib/base/clock.h"
#include "lib/base/rounds.h"

#define LONG_NS (60 * NS_PER_S)
#define SHORT_NS (30 * NS_PER_MS)

/* The thread that works, as long as its bell is not closed. A round lasts while `is_blocked`. */
struct fixture {
	struct rounds rounds;
	struct bell bell;
	_Atomic int n_rounds;
	_Atomic bool is_blocked;
	pthread_t thread;
};

static int64_t now(void)
{
	return clock_monotonic_ns(&clock_system);
}

static void *work(void *arg)
{
	const struct timespec step = {.tv_nsec = NS_PER_MS};
	struct fixture *f = arg;

	while (bell_wait(&f->bell, -1, 0, BELL_NEVER) == BELL_RUNG && !f->bell.is_closed) {
		rounds_begin(&f->rounds);
		f->n_rounds++;
		while (f->is_blocked)
			nanosleep(&step, NULL);
		rounds_end(&f->rounds);
	}
	return NULL;
}

static int set_up(void **state)
{
	static struct fixture fixture;

	fixture = (struct fixture) {.n_rounds = 0};
	rounds_init(&fixture.rounds);
	*state = &fixture;
	return bell_init(&fixture.bell, NULL) ||
	       pthread_create(&fixture.thread, NULL, work, &fixture);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	f->is_blocked = false;
	bell_close(&f->bell);
	pthread_join(f->thread, NULL);
	bell_done(&f->bell);
	rounds_done(&f->rounds);
	return 0;
}

static void a_round_is_done(void **state)
{
	struct fixture *f = *state;

	assert_true(rounds_ask(&f->rounds, &f->bell, now() + LONG_NS));
	assert_int_equal(f->n_rounds, 1);
	assert_true(rounds_ask(&f->rounds, &f->bell, now() + LONG_NS));
	assert_int_equal(f->n_rounds, 2);
}

static void a_round_that_blocks(void **state)
{
	struct fixture *f = *state;
	int64_t until = now() + SHORT_NS;

	f->is_blocked = true;
	assert_false(rounds_ask(&f->rounds, &f->bell, until));
	assert_true(now() >= until && now() < until + LONG_NS);
	assert_false(rounds_ask(&f->rounds, &f->bell, 0)); /* over already */
	assert_int_equal(f->n_rounds, 1);
	/* That round began before: who asks now wants another. */
	f->is_blocked = false;
	assert_true(rounds_ask(&f->rounds, &f->bell, now() + LONG_NS));
	assert_int_equal(f->n_rounds, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_round_is_done, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_round_that_blocks, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
