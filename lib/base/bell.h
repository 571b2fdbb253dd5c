/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread sleeps by: until a time, or until another thread has something for it. Times are CLOCK_MONOTONIC.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BELL_NEVER INT64_MAX

struct bell {
	pthread_mutex_t mutex; /* a leaf */
	pthread_cond_t cond;
	bool is_rung, is_closed;
};

void bell_init(struct bell *b);
void bell_done(struct bell *b);

/* Any thread. However often it is rung before the sleeper looks, it wakes once. */
void bell_ring(struct bell *b);
/* From now on no wait lasts: it is time to stop. */
void bell_close(struct bell *b);
/* Sleeps until `until_ns` (BELL_NEVER: until rung), less when the bell was rung since the last wait, though then not to before
 * `earliest_ns`. */
void bell_wait(struct bell *b, int64_t earliest_ns, int64_t until_ns);
