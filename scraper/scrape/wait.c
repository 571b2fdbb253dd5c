/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits and gates. Thousands may wait at once when targets or the disk are slow, so nothing here looks at all of them: a wait is put in from
 * the end of its list, where deadlines are latest, and each gate has a list of its own.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"

void scrape_wait_add(struct scrape_waits *list, struct scrape_gate *gate, struct scrape_wait *w)
{
	struct scrape_wait *before = list->last;

	ASSERT(!w->list);
	while (before && before->deadline_mono_ns > w->deadline_mono_ns)
		before = before->previous;
	w->list = list;
	w->gate = gate;
	w->previous = before;
	w->next = before ? before->next : list->first;
	*(w->next ? &w->next->previous : &list->last) = w;
	*(before ? &before->next : &list->first) = w;
}

struct scrape_gate *scrape_gate_find(struct scrape *s, uint64_t key)
{
	const uint64_t *slot = table_find(&s->gates, key);

	return slot ? (struct scrape_gate *)(uintptr_t)*slot : NULL;
}

struct scrape_gate *scrape_gate_get(struct scrape *s, uint64_t key, unsigned n_max)
{
	uint64_t *slot = table_insert(&s->gates, key, NULL);
	struct scrape_gate *g;

	if (!slot)
		err_panic("out of memory for gates");
	if (*slot)
		return (struct scrape_gate *)(uintptr_t)*slot;
	g = xcalloc(1, sizeof(*g));
	g->key = key;
	g->n_max = n_max;
	*slot = (uint64_t)(uintptr_t)g;
	return g;
}

static void free_unused(struct scrape *s, struct scrape_gate *g)
{
	if (!g || g->n_held || g->is_leaving || g->waits.first)
		return;
	table_remove(&s->gates, g->key);
	free(g);
}

static void take_out(struct scrape_wait *w)
{
	struct scrape_waits *list = w->list;

	if (!list)
		return;
	*(w->next ? &w->next->previous : &list->last) = w->previous;
	*(w->previous ? &w->previous->next : &list->first) = w->next;
	w->next = w->previous = NULL;
	w->list = NULL;
}

void scrape_wait_take(struct scrape *s, struct scrape_wait *w)
{
	take_out(w);
	free_unused(s, TAKE(w->gate));
}

void scrape_wait_free(struct scrape *s, struct scrape_wait *w)
{
	if (!w)
		return;
	scrape_wait_take(s, w);
	w->type->wait = NULL;
	free(w);
}

static void leave(struct scrape *s, struct scrape_gate *g)
{
	struct scrape_wait *w;

	if (!g)
		return;
	g->n_held--;
	/* called by a request that failed to start: the loop below goes on with the next */
	if (g->is_leaving)
		return;
	g->is_leaving = true;
	while (!s->stopping && g->n_held < g->n_max && (w = g->waits.first)) {
		take_out(w);
		w->gate = NULL;
		scrape_wait_retry(w);
	}
	g->is_leaving = false;
	free_unused(s, g);
}

void scrape_gates_leave(struct scrape *s, struct scrape_request *r)
{
	leave(s, TAKE(r->profiler));
	leave(s, TAKE(r->host));
}
