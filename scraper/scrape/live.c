/* SPDX-License-Identifier: Apache-2.0
 *
 * Series that have not come for the lookback are forgotten: nobody sees them any more.
 */
#include "scraper/scrape/live.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"

static const int64_t LOOKBACK_NS = 300 * NS_PER_S;

void scrape_live_init(struct scrape_live *l)
{
	*l = (struct scrape_live) {};
	table_init(&l->index, NULL);
}

static void forget(struct scrape_live *l, size_t i)
{
	labels_done(&l->items[i].labels);
	table_remove(&l->index, l->items[i].hash);
	l->items[i] = l->items[--l->n];
	if (i < l->n)
		*table_find(&l->index, l->items[i].hash) = i;
}

void scrape_live_done(struct scrape_live *l)
{
	while (l->n)
		forget(l, l->n - 1);
	free(l->items);
	table_done(&l->index);
	*l = (struct scrape_live) {};
}

/* The place of a series, made when it is new; NULL when memory is out: it then ends only with the lookback. */
static struct scrape_live_series *series_at(
	struct scrape_live *l, const struct labels *labels, uint64_t hash)
{
	bool is_new;
	uint64_t *slot = table_insert(&l->index, hash, &is_new);
	struct labels copy;

	if (!slot || !is_new)
		return slot ? &l->items[*slot] : NULL;
	*slot = l->n;
	if (alloc_grow(&l->items, &l->cap, l->n + 1, sizeof(*l->items)) ||
		labels_copy(labels, &copy) < 0) {
		table_remove(&l->index, hash);
		return NULL;
	}
	l->items[l->n] = (struct scrape_live_series) {.labels = copy, .hash = hash};
	return &l->items[l->n++];
}

uint64_t scrape_live_update(struct scrape_live *l, const struct labels *streams,
	const uint64_t *hashes, size_t n, int64_t time_ns, int64_t now_mono_ns)
{
	uint64_t added = 0, before = l->round++;

	l->time_ns = time_ns;
	for (size_t i = 0; i < n; i++) {
		struct scrape_live_series *s = series_at(l, &streams[i], hashes[i]);

		added += !s || !before || s->round != before;
		if (!s)
			continue;
		s->round = l->round;
		s->seen_ns = now_mono_ns;
	}
	for (size_t i = l->n; i-- > 0;)
		if (l->items[i].seen_ns < now_mono_ns - LOOKBACK_NS)
			forget(l, i);
	return added;
}

int64_t scrape_live_take(struct scrape_live *l, int64_t time_ns, struct labels **ret, size_t *ret_n)
{
	*ret = xcalloc(l->n + 1, sizeof(**ret));
	*ret_n = l->n;
	for (size_t i = 0; i < l->n; i++) {
		(*ret)[i] = l->items[i].labels;
		l->items[i].labels = (struct labels) {};
	}
	while (l->n)
		forget(l, l->n - 1);
	return MAX(time_ns, l->time_ns + 1);
}
