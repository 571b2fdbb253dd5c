/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds by number.
 */
#include "lib/base/rounds.h"

void rounds_init(struct rounds *r)
{
	*r = (struct rounds) {.n_begun = 0};
	lock_init(&r->lock);
	lock_cond_init(&r->ended);
}

void rounds_done(struct rounds *r)
{
	pthread_cond_destroy(&r->ended);
	lock_done(&r->lock);
}

void rounds_begin(struct rounds *r)
{
	lock_take(&r->lock);
	ASSERT(r->n_begun == r->n_ended);
	r->n_begun++;
	lock_release(&r->lock);
}

void rounds_end(struct rounds *r)
{
	lock_take(&r->lock);
	r->n_ended = r->n_begun;
	pthread_cond_broadcast(&r->ended);
	lock_release(&r->lock);
}

bool rounds_ask(struct rounds *r, struct bell *b, int64_t until_ns)
{
	uint64_t wanted;
	bool in_time = true;

	lock_take(&r->lock);
	wanted = r->n_begun + 1;
	lock_release(&r->lock);
	bell_ring(b);
	lock_take(&r->lock);
	while (r->n_ended < wanted && in_time)
		in_time = lock_wait_until(&r->lock, &r->ended, until_ns);
	in_time = r->n_ended >= wanted;
	lock_release(&r->lock);
	return in_time;
}
