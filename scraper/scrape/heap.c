/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of targets ordered by their next slot.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"

static void place(struct scrape *s, size_t i, struct scrape_target *t)
{
	s->heap[i] = t;
	t->heap_idx = i + 1;
}

static void sift_up(struct scrape *s, size_t i, struct scrape_target *t)
{
	while (i > 0 && s->heap[(i - 1) / 2]->slot_mono_ns > t->slot_mono_ns) {
		place(s, i, s->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(s, i, t);
}

static void sift_down(struct scrape *s, size_t i, struct scrape_target *t)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= s->n_heap)
			break;
		if (child + 1 < s->n_heap &&
			s->heap[child + 1]->slot_mono_ns < s->heap[child]->slot_mono_ns)
			child++;
		if (s->heap[child]->slot_mono_ns >= t->slot_mono_ns)
			break;
		place(s, i, s->heap[child]);
		i = child;
	}
	place(s, i, t);
}

void scrape_heap_insert(struct scrape *s, struct scrape_target *t)
{
	ASSERT(!t->heap_idx);
	if (alloc_grow(&s->heap, &s->cap_heap, s->n_heap + 1, sizeof(struct scrape_target *)) < 0)
		err_panic("out of memory for scrape timers");
	s->n_heap++;
	sift_up(s, s->n_heap - 1, t);
}

void scrape_heap_remove(struct scrape *s, struct scrape_target *t)
{
	struct scrape_target *last;
	size_t i;

	if (!t->heap_idx)
		return;
	i = t->heap_idx - 1;
	t->heap_idx = 0;
	last = s->heap[--s->n_heap];
	if (last == t)
		return;
	if (i > 0 && s->heap[(i - 1) / 2]->slot_mono_ns > last->slot_mono_ns)
		sift_up(s, i, last);
	else
		sift_down(s, i, last);
}
