/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of work that may block. One thread does them; others ask for one and wait for it, but only for as long as they like,
 * and nobody holds a lock meanwhile.
 */
#pragma once
#include "lib/base/bell.h"
#include "lib/base/lock.h"

struct rounds {
	struct lock lock; /* what follows; a leaf */
	pthread_cond_t ended;
	uint64_t n_begun, n_ended;
};

void rounds_init(struct rounds *r);
void rounds_done(struct rounds *r);

/* What the thread that works calls before each round, and after it. */
void rounds_begin(struct rounds *r);
void rounds_end(struct rounds *r);

/* Rings for a round and waits for the end of one that begins from now on, until `until_ns` (CLOCK_MONOTONIC) at most: false
 * when that time is over. */
bool rounds_ask(struct rounds *r, struct bell *b, int64_t until_ns);
