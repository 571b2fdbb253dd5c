/* SPDX-License-Identifier: Apache-2.0
 *
 * The turn of large answers. A decoder never waits for an answer that says that it is large: it sets it aside and takes the next one.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/gzip/gzip.h"

void scrape_room_init(struct scrape *s)
{
	s->large = (struct scrape_room) {.tail = &s->large.head};
	pthread_cond_init(&s->large.given_back, NULL);
}

void scrape_room_done(struct scrape *s)
{
	pthread_cond_destroy(&s->large.given_back);
}

void scrape_room_close(struct scrape *s, int64_t ends_ns)
{
	lock_take(&s->to_decode.lock);
	s->large.ends_ns = ends_ns;
	lock_release(&s->to_decode.lock);
	scrape_queue_close(&s->to_decode);
	lock_take(&s->to_decode.lock);
	pthread_cond_broadcast(&s->large.given_back);
	lock_release(&s->to_decode.lock);
}

static bool says_large(const struct scrape_request *r)
{
	const struct bytes *body = &r->response.body;

	if (r->reason || r->response.error || r->response.status != 200)
		return false;
	return MAX(body->len, gzip_stated_size(body->data, body->len)) > SCRAPE_LARGE_BYTES;
}

static struct scrape_request *pop_large_locked(struct scrape *s)
{
	struct scrape_request *r = s->large.head;

	ASSERT_HELD(&s->to_decode.lock);
	if (!r)
		return NULL;
	s->large.head = r->next;
	if (!s->large.head)
		s->large.tail = &s->large.head;
	r->next = NULL;
	return r;
}

static void set_aside_locked(struct scrape *s, struct scrape_request *r)
{
	ASSERT_HELD(&s->to_decode.lock);
	r->next = NULL;
	*s->large.tail = r;
	s->large.tail = &r->next;
}

/* NULL: nothing may run now. */
static struct scrape_request *next_locked(struct scrape *s)
{
	struct scrape_request *r;

	ASSERT_HELD(&s->to_decode.lock);
	if (s->to_decode.closed && clock_monotonic_ns(s->o.clock) >= s->large.ends_ns)
		return NULL;
	while ((r = scrape_queue_pop_locked(&s->to_decode))) {
		if (!says_large(r))
			return r;
		set_aside_locked(s, r);
	}
	if (s->large.is_taken)
		return NULL;
	r = pop_large_locked(s);
	if (r)
		s->large.is_taken = r->is_large = true;
	return r;
}

struct scrape_request *scrape_room_take(struct scrape *s)
{
	struct scrape_queue *q = &s->to_decode;
	struct scrape_request *r;

	lock_take(&q->lock);
	while (!(r = next_locked(s)) && !q->closed)
		lock_wait(&q->lock, &q->ready);
	lock_release(&q->lock);
	return r;
}

void scrape_room_enter(struct scrape *s, struct scrape_request *r)
{
	struct scrape_queue *q = &s->to_decode;

	lock_take(&q->lock);
	/* at the end nobody gives it back any more */
	while (s->large.is_taken && !q->closed)
		lock_wait(&q->lock, &s->large.given_back);
	if (!s->large.is_taken)
		s->large.is_taken = r->is_large = true;
	lock_release(&q->lock);
}

void scrape_room_leave(struct scrape *s, struct scrape_request *r)
{
	if (!r->is_large)
		return;
	r->is_large = false;
	lock_take(&s->to_decode.lock);
	ASSERT(s->large.is_taken);
	s->large.is_taken = false;
	pthread_cond_signal(&s->large.given_back);
	pthread_cond_signal(&s->to_decode.ready);
	lock_release(&s->to_decode.lock);
}

struct scrape_request *scrape_room_poll(struct scrape *s)
{
	struct scrape_request *r;

	lock_take(&s->to_decode.lock);
	r = pop_large_locked(s);
	lock_release(&s->to_decode.lock);
	return r;
}
