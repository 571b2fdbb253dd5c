/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread sleeps by its bell: until a time, until another thread rings, or until a descriptor is ready. Times are
 * CLOCK_MONOTONIC.
 */
#pragma once
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>

#define BELL_NEVER INT64_MAX

struct bell {
	int fd; /* an eventfd, readable when rung; -1: not made */
	_Atomic bool is_closed;
};

/* Negative errno of eventfd(2) with a text; bell_done is allowed then too. */
int bell_init(struct bell *b, struct errbuf *eb) _must_check_;
void bell_done(struct bell *b);

/* Any thread, also a signal handler. However often it is rung before the sleeper looks, it wakes once. */
void bell_ring(struct bell *b);
/* From now on every wait ends at once with BELL_RUNG. Any thread. */
void bell_close(struct bell *b);

enum bell_end {
	BELL_TIME_OVER,
	BELL_RUNG, /* or closed */
	BELL_FD_READY,
};

/* One thread only. Sleeps until `until_ns` (BELL_NEVER: until rung), less when `fd` (-1: none) is ready to be read or when the bell was rung since the
 * last wait, though then not to before `earliest_ns`. */
enum bell_end bell_wait(struct bell *b, int fd, int64_t earliest_ns, int64_t until_ns);
