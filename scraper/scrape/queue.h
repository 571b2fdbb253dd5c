/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests on their way from one thread to another, first in, first out. Thread-safe; they belong to who takes them.
 */
#pragma once
#include "lib/base/lock.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct scrape_request;

struct scrape_queue {
	struct lock lock; /* leaf */
	pthread_cond_t ready;
	struct scrape_request *head, **tail;
	size_t n, n_max;	 /* n_max 0: any number */
	pthread_cond_t has_room; /* n fell below n_max */
	bool closed;
};

void scrape_queue_init(struct scrape_queue *q, size_t n_max);
/* What stands in it is not freed. */
void scrape_queue_done(struct scrape_queue *q);
/* Waits while n_max stand in it and it is open; a closed queue takes any number. */
void scrape_queue_add(struct scrape_queue *q, struct scrape_request *r);
/* Waits for a request; NULL once the queue is closed and empty. */
struct scrape_request *scrape_queue_take(struct scrape_queue *q);
/* Takes the head, or NULL; q->lock is held. */
struct scrape_request *scrape_queue_pop_locked(struct scrape_queue *q);
/* Takes the head without waiting, or NULL. */
struct scrape_request *scrape_queue_poll(struct scrape_queue *q);
/* Ends all waits. */
void scrape_queue_close(struct scrape_queue *q);
