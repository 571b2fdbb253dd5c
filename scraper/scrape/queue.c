/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of requests between threads. They need no own byte bound: what stands in them is charged to the scrape budget, and the loop
 * starts nothing that does not fit there.
 */
#include "scraper/scrape/scrape_impl.h"

void scrape_queue_init(struct scrape_queue *q, size_t n_max)
{
	*q = (struct scrape_queue) {.n_max = n_max};
	q->tail = &q->head;
	lock_init(&q->lock);
	pthread_cond_init(&q->ready, NULL);
	pthread_cond_init(&q->has_room, NULL);
}

void scrape_queue_done(struct scrape_queue *q)
{
	lock_done(&q->lock);
	pthread_cond_destroy(&q->ready);
	pthread_cond_destroy(&q->has_room);
}

void scrape_queue_add(struct scrape_queue *q, struct scrape_request *r)
{
	lock_take(&q->lock);
	while (q->n_max && q->n >= q->n_max && !q->closed)
		lock_wait(&q->lock, &q->has_room);
	r->next = NULL;
	*q->tail = r;
	q->tail = &r->next;
	q->n++;
	pthread_cond_signal(&q->ready);
	lock_release(&q->lock);
}

struct scrape_request *scrape_queue_pop_locked(struct scrape_queue *q)
{
	struct scrape_request *r = q->head;

	ASSERT_HELD(&q->lock);
	ASSERT(!r == !q->n);
	if (!r)
		return NULL;
	q->head = r->next;
	if (!q->head)
		q->tail = &q->head;
	q->n--;
	if (q->n_max)
		pthread_cond_signal(&q->has_room);
	r->next = NULL;
	return r;
}

struct scrape_request *scrape_queue_take(struct scrape_queue *q)
{
	struct scrape_request *r;

	lock_take(&q->lock);
	while (!q->head && !q->closed)
		lock_wait(&q->lock, &q->ready);
	r = scrape_queue_pop_locked(q);
	lock_release(&q->lock);
	return r;
}

struct scrape_request *scrape_queue_poll(struct scrape_queue *q)
{
	struct scrape_request *r;

	lock_take(&q->lock);
	r = scrape_queue_pop_locked(q);
	lock_release(&q->lock);
	return r;
}

void scrape_queue_close(struct scrape_queue *q)
{
	lock_take(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->ready);
	pthread_cond_broadcast(&q->has_room);
	lock_release(&q->lock);
}
