/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of parked requests ordered by what happens to each next: its start time or its
 * deadline.
 */
#include "lib/net/server/impl.h"
#include "lib/base/alloc.h"

int64_t http_heap_key(const struct http_request *r)
{
	int64_t at = r->state == HTTP_WAITING ? r->at_ns : HTTP_NEVER;

	if (at == HTTP_NEVER)
		return r->deadline_ns;
	return r->deadline_ns == HTTP_NEVER ? at : MIN(at, r->deadline_ns);
}

static void place(struct http_server *s, size_t i, struct http_request *r)
{
	s->heap[i] = r;
	r->heap_idx = i + 1;
}

static void sift_up(struct http_server *s, size_t i, struct http_request *r)
{
	while (i > 0 && http_heap_key(s->heap[(i - 1) / 2]) > http_heap_key(r)) {
		place(s, i, s->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(s, i, r);
}

static void sift_down(struct http_server *s, size_t i, struct http_request *r)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= s->n_heap)
			break;
		if (child + 1 < s->n_heap &&
			http_heap_key(s->heap[child + 1]) < http_heap_key(s->heap[child]))
			child++;
		if (http_heap_key(s->heap[child]) >= http_heap_key(r))
			break;
		place(s, i, s->heap[child]);
		i = child;
	}
	place(s, i, r);
}

void http_heap_add_locked(struct http_server *s, struct http_request *r)
{
	ASSERT_HELD(&s->lock);
	ASSERT(!r->heap_idx);
	if (http_heap_key(r) == HTTP_NEVER)
		return;
	if (alloc_grow(&s->heap, &s->cap_heap, s->n_heap + 1, sizeof(struct http_request *)) < 0)
		err_panic("out of memory for timers");
	s->n_heap++;
	sift_up(s, s->n_heap - 1, r);
}

void http_heap_remove_locked(struct http_server *s, struct http_request *r)
{
	size_t i;
	struct http_request *last;

	ASSERT_HELD(&s->lock);
	if (!r->heap_idx)
		return;
	i = r->heap_idx - 1;
	r->heap_idx = 0;
	last = s->heap[--s->n_heap];
	if (last == r)
		return;
	if (i > 0 && http_heap_key(s->heap[(i - 1) / 2]) > http_heap_key(last))
		sift_up(s, i, last);
	else
		sift_down(s, i, last);
}
