/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock seam: programs pass a struct clock down; tests pass a virtual one that moves only when
 * the test says so. All times are int64 nanoseconds. Monotonic stops in suspend, boottime does not, realtime
 * can jump.
 */
#pragma once
#include <stdint.h>

#define NS_PER_MS 1000000LL
#define NS_PER_S 1000000000LL

struct clock {
	int64_t (*monotonic_ns)(struct clock *c);
	int64_t (*boottime_ns)(struct clock *c);
	int64_t (*realtime_ns)(struct clock *c);
	/* Sleeps until the monotonic time or a little later. The virtual clock jumps there. */
	void (*sleep_until_ns)(struct clock *c, int64_t monotonic_ns);
};

/* The kernel's clocks (clock_gettime(2)). Any thread. */
extern struct clock clock_system;

/* Starts at real_ns, with monotonic and boottime at one second. All three advance together by clock_virtual_advance, realtime alone by
 * _step. One thread at a time. */
struct clock_virtual {
	struct clock clock;
	int64_t mono_ns, boot_ns, real_ns;
};
void clock_virtual_init(struct clock_virtual *v, int64_t real_ns);
void clock_virtual_advance(struct clock_virtual *v, int64_t ns);
void clock_virtual_step(struct clock_virtual *v, int64_t ns);

static inline int64_t clock_monotonic_ns(struct clock *c)
{
	return c->monotonic_ns(c);
}
static inline int64_t clock_boottime_ns(struct clock *c)
{
	return c->boottime_ns(c);
}
static inline int64_t clock_realtime_ns(struct clock *c)
{
	return c->realtime_ns(c);
}

/* CPU time of the calling thread: of what a piece of work costs, whoever else runs meanwhile. */
int64_t clock_thread_cpu_ns(void);

/* Differences of two clocks as of one instant: two plain reads lie apart by as long as the thread was off its CPU between them. */
int64_t clock_boot_offset_ns(struct clock *c); /* boottime − monotonic */
int64_t clock_wall_offset_ns(struct clock *c); /* realtime − boottime */
