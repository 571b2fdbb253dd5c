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
	pthread_mutex_lock(&s->to_decode.lock);
	s->large.ends_ns = ends_ns;
	pthread_mutex_unlock(&s->to_decode.lock);
	scrape_queue_close(&s->to_decode);
	pthread_mutex_lock(&s->to_decode.lock);
	pthread_cond_broadcast(&s->large.given_back);
	pthread_mutex_unlock(&s->to_decode.lock);
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
	r->next = NULL;
	*s->large.tail = r;
	s->large.tail = &r->next;
}

/* NULL: nothing may run now. */
static struct scrape_request *next_locked(struct scrape *s)
{
	struct scrape_request *r;

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

	pthread_mutex_lock(&q->lock);
	while (!(r = next_locked(s)) && !q->closed)
		pthread_cond_wait(&q->ready, &q->lock);
	pthread_mutex_unlock(&q->lock);
	return r;
}

void scrape_room_enter(struct scrape *s, struct scrape_request *r)
{
	struct scrape_queue *q = &s->to_decode;

	pthread_mutex_lock(&q->lock);
	/* at the end nobody gives it back any more */
	while (s->large.is_taken && !q->closed)
		pthread_cond_wait(&s->large.given_back, &q->lock);
	if (!s->large.is_taken)
		s->large.is_taken = r->is_large = true;
	pthread_mutex_unlock(&q->lock);
}

void scrape_room_leave(struct scrape *s, struct scrape_request *r)
{
	if (!r->is_large)
		return;
	r->is_large = false;
	pthread_mutex_lock(&s->to_decode.lock);
	s->large.is_taken = false;
	pthread_cond_signal(&s->large.given_back);
	pthread_cond_signal(&s->to_decode.ready);
	pthread_mutex_unlock(&s->to_decode.lock);
}

struct scrape_request *scrape_room_poll(struct scrape *s)
{
	struct scrape_request *r;

	pthread_mutex_lock(&s->to_decode.lock);
	r = pop_large_locked(s);
	pthread_mutex_unlock(&s->to_decode.lock);
	return r;
}
