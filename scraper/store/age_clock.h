/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that ages are counted from when something is to be thrown away for its age: this machine's clock, but not before it has stayed
 * where it is. A clock that was set wrong for a while (a bad time server, a machine that starts before it knows the time) must not make old
 * what is not.
 */
#pragma once
#include "lib/base/clock.h"
#include <stdatomic.h>
#include <stdbool.h>

struct age_clock {
	struct clock *clock;
	int64_t wait_ns;	   /* how long a clock has to stay ahead before it is trusted */
	_Atomic int64_t offset_ns; /* trusted: realtime − boottime */
	int64_t last_ns;	   /* the same, as it was the last time */
	int64_t ahead_since_ns;	   /* boottime; INT64_MAX: it is not ahead */
};

/* `newest_ns`: the newest time trusted before, INT64_MAX where none is known. */
void age_clock_init(struct age_clock *a, struct clock *clock, int64_t wait_ns, int64_t newest_ns);
/* Looks at the clock; one thread at a time, every now and then. Returns by how much it was set since the last time, 0 below the slack. */
int64_t age_clock_look(struct age_clock *a);
/* Never ahead of the time trusted at the last look by more than the time since; never ahead of the clock at that look. Any thread. */
int64_t age_clock_now_ns(struct age_clock *a);
