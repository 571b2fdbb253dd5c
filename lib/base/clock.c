/* SPDX-License-Identifier: Apache-2.0
 *
 * The system clock and a virtual one.
 */
#include "lib/base/clock.h"
#include <errno.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64_t sys_monotonic(struct clock *c)
{
	(void)c;
	return read_ns(CLOCK_MONOTONIC);
}

static int64_t sys_boottime(struct clock *c)
{
	(void)c;
	return read_ns(CLOCK_BOOTTIME);
}

static int64_t sys_realtime(struct clock *c)
{
	(void)c;
	return read_ns(CLOCK_REALTIME);
}

static void sys_sleep_until(struct clock *c, int64_t at_ns)
{
	struct timespec ts = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};

	(void)c;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

struct clock clock_system = {
	.monotonic_ns = sys_monotonic,
	.boottime_ns = sys_boottime,
	.realtime_ns = sys_realtime,
	.sleep_until_ns = sys_sleep_until,
};

int64_t clock_thread_cpu_ns(void)
{
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t virt_monotonic(struct clock *c)
{
	return ((struct clock_virtual *)c)->mono_ns;
}

static int64_t virt_boottime(struct clock *c)
{
	return ((struct clock_virtual *)c)->boot_ns;
}

static int64_t virt_realtime(struct clock *c)
{
	return ((struct clock_virtual *)c)->real_ns;
}

static void virt_sleep_until(struct clock *c, int64_t at_ns)
{
	struct clock_virtual *v = (struct clock_virtual *)c;

	if (at_ns > v->mono_ns)
		clock_virtual_advance(v, at_ns - v->mono_ns);
}

void clock_virtual_init(struct clock_virtual *v, int64_t real_ns)
{
	*v = (struct clock_virtual) {
		.clock = {virt_monotonic, virt_boottime, virt_realtime, virt_sleep_until},
		.mono_ns = NS_PER_S,
		.boot_ns = NS_PER_S,
		.real_ns = real_ns,
	};
}

void clock_virtual_advance(struct clock_virtual *v, int64_t ns)
{
	v->mono_ns += ns;
	v->boot_ns += ns;
	v->real_ns += ns;
}

void clock_virtual_step(struct clock_virtual *v, int64_t ns)
{
	v->real_ns += ns;
}

enum { DIFFERENCE_TRIES = 8, DIFFERENCE_GOOD_NS = 20000 };

/* a − b, by the closest of a few pairs of readings of b around one of a. */
static int64_t difference_ns(
	struct clock *c, int64_t (*a)(struct clock *), int64_t (*b)(struct clock *))
{
	int64_t best_gap_ns = INT64_MAX, best_ns = 0;

	for (int i = 0; i < DIFFERENCE_TRIES && best_gap_ns > DIFFERENCE_GOOD_NS; i++) {
		int64_t before_ns = b(c), at_ns = a(c), gap_ns = b(c) - before_ns;

		if (gap_ns < best_gap_ns) {
			best_gap_ns = gap_ns;
			best_ns = at_ns - before_ns - gap_ns / 2;
		}
	}
	return best_ns;
}

int64_t clock_boot_offset_ns(struct clock *c)
{
	return difference_ns(c, c->boottime_ns, c->monotonic_ns);
}

int64_t clock_wall_offset_ns(struct clock *c)
{
	return difference_ns(c, c->realtime_ns, c->boottime_ns);
}
