/* SPDX-License-Identifier: Apache-2.0
 *
 * lib/base/bell: who sleeps by it wakes when rung, when its time is over, when it is closed, and not otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include "lib/base/bell.h"
#include "lib/base/clock.h"

#define LONG_NS (60 * NS_PER_S)
#define SHORT_NS (30 * NS_PER_MS)

static int64_t now(void)
{
	return clock_monotonic_ns(&clock_system);
}

static void time_ends_a_wait(void **state)
{
	int64_t until = now() + SHORT_NS;
	struct bell b;

	(void)state;
	assert_int_equal(bell_init(&b, NULL), 0);
	bell_wait(&b, -1, 0, until);
	assert_true(now() >= until);
	bell_wait(&b, -1, 0, until); /* over already */
	bell_done(&b);
}

static void rung_before_the_wait(void **state)
{
	int64_t began = now(), until;
	struct bell b;

	(void)state;
	assert_int_equal(bell_init(&b, NULL), 0);
	for (int i = 0; i < 3; i++)
		bell_ring(&b);
	bell_wait(&b, -1, 0, began + LONG_NS);
	assert_true(now() < began + LONG_NS);
	until = now() + SHORT_NS; /* three rings were one */
	bell_wait(&b, -1, 0, until);
	assert_true(now() >= until);
	bell_done(&b);
}

static void not_before_the_earliest_time(void **state)
{
	int64_t earliest = now() + SHORT_NS;
	struct bell b;

	(void)state;
	assert_int_equal(bell_init(&b, NULL), 0);
	bell_ring(&b);
	bell_wait(&b, -1, earliest, earliest + LONG_NS);
	assert_in_range(now(), earliest, earliest + LONG_NS - 1);
	bell_done(&b);
}

struct ringer {
	struct bell *bell;
	void (*act)(struct bell *b);
};

static void *ring_later(void *arg)
{
	const struct ringer *r = arg;

	clock_system.sleep_until_ns(&clock_system, now() + SHORT_NS);
	r->act(r->bell);
	return NULL;
}

static void another_thread_ends_a_wait(void **state)
{
	void (*const acts[])(struct bell *) = {bell_ring, bell_close};

	(void)state;
	for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++) {
		struct ringer r = {.act = acts[i]};
		struct bell b;
		pthread_t t;

		assert_int_equal(bell_init(&b, NULL), 0);
		r.bell = &b;
		assert_int_equal(pthread_create(&t, NULL, ring_later, &r), 0);
		bell_wait(&b, -1, 0, BELL_NEVER);
		pthread_join(t, NULL);
		bell_done(&b);
	}
}

static void closed_is_closed(void **state)
{
	int64_t began = now();
	struct bell b;

	(void)state;
	assert_int_equal(bell_init(&b, NULL), 0);
	bell_ring(&b);
	bell_close(&b);
	bell_wait(&b, -1, began + LONG_NS, BELL_NEVER);
	bell_wait(&b, -1, began + LONG_NS, BELL_NEVER);
	assert_true(now() < began + LONG_NS);
	bell_done(&b);
}

static void a_descriptor_ends_a_wait(void **state)
{
	int64_t until = now() + SHORT_NS;
	struct bell b, other;

	(void)state;
	assert_int_equal(bell_init(&b, NULL), 0);
	assert_int_equal(bell_init(&other, NULL), 0);
	assert_int_equal(bell_wait(&b, other.fd, 0, until), BELL_TIME_OVER);
	assert_true(now() >= until);
	bell_ring(&other);
	assert_int_equal(bell_wait(&b, other.fd, now() + LONG_NS, BELL_NEVER), BELL_FD_READY);
	bell_ring(&b); /* who rings comes first */
	assert_int_equal(bell_wait(&b, other.fd, 0, BELL_NEVER), BELL_RUNG);
	assert_int_equal(bell_wait(&b, other.fd, 0, BELL_NEVER), BELL_FD_READY);
	bell_done(&other);
	bell_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_ends_a_wait),
		cmocka_unit_test(rung_before_the_wait),
		cmocka_unit_test(not_before_the_earliest_time),
		cmocka_unit_test(another_thread_ends_a_wait),
		cmocka_unit_test(closed_is_closed),
		cmocka_unit_test(a_descriptor_ends_a_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
