/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a head and what its appending thread asks.
 */
#include "scraper/store/head/head.h"
#include "lib/base/alloc.h"
#include <string.h>

enum {
	PROFILES_PER_NODE =
		2, /* caps of the profile arrays follow from the node cap: address space only */
	TOTALS_PER_PROFILE = 4,
};

void head_free(struct part *p)
{
	struct head *h = (struct head *)p;

	dict_done(&h->dict);
	varr_done(&h->profiles);
	varr_done(&h->windows);
	varr_done(&h->totals);
	varr_done(&h->streams);
	varr_done(&h->pages);
	varr_done(&h->page_data);
	arena_done(&h->bytes);
	page_writer_free(h->writer);
	lock_done(&h->lock);
	free(h);
}

int head_new(const uint8_t generation[16], uint32_t max_nodes, struct budget *budget,
	uint32_t part_id, struct head **ret)
{
	size_t cap = (size_t)max_nodes * PROFILES_PER_NODE + 64;
	struct head *h = xcalloc(1, sizeof(*h));
	int r;

	part_init(&h->part, &head_part_ops, part_id);
	memcpy(h->generation, generation, sizeof(h->generation));
	h->budget = budget;
	h->writer = page_writer_new(false);
	lock_init(&h->lock);
	arena_init(&h->bytes, budget);
	r = dict_init(&h->dict, max_nodes, budget);
	r = r ? r : varr_init(&h->profiles, sizeof(struct head_profile), cap, budget);
	r = r ? r : varr_init(&h->windows, sizeof(struct head_window), cap, budget);
	r = r ? r : varr_init(&h->totals, sizeof(int64_t), cap * TOTALS_PER_PROFILE, budget);
	r = r ? r : varr_init(&h->streams, sizeof(struct head_stream), h->dict.streams.cap, budget);
	r = r ? r : varr_init(&h->pages, sizeof(struct part_page), cap, budget);
	r = r ? r : varr_init(&h->page_data, sizeof(struct head_page), cap, budget);
	if (r < 0) {
		part_put(&h->part);
		return r;
	}
	/* What every dictionary starts with is not written to the WAL. */
	record_mark_take(&h->mark, &h->dict);
	h->published = (struct head_published) {.min_time_ns = INT64_MAX, .max_time_ns = INT64_MIN};
	memcpy(h->published.n, h->mark.n, sizeof(h->published.n));
	*ret = h;
	return 0;
}

uint64_t head_bytes(const struct head *h)
{
	return dict_bytes(&h->dict) + h->profiles.charged_bytes + h->windows.charged_bytes +
	       h->totals.charged_bytes + h->streams.charged_bytes + h->pages.charged_bytes +
	       h->page_data.charged_bytes + h->bytes.total_bytes;
}

int head_reserve(struct head *h, size_t n_profiles, size_t n_windows, size_t n_totals,
	size_t n_pages, size_t n_bytes)
{
	size_t n_streams = h->dict.streams.n - h->streams.n;
	int r = 0;
	char *room;

	if (!varr_room(&h->profiles, n_profiles, &r) || !varr_room(&h->windows, n_windows, &r) ||
		!varr_room(&h->totals, n_totals, &r) || !varr_room(&h->streams, n_streams, &r) ||
		!varr_room(&h->pages, n_pages, &r) || !varr_room(&h->page_data, n_pages, &r))
		return r;
	/* Forces a chunk with this much left, then gives it back to the bump pointer. Pages are
	 * rounded to 16 bytes. */
	n_bytes += n_pages * 16;
	if (!n_bytes)
		return 0;
	room = arena_alloc(&h->bytes, n_bytes);
	if (!room) {
		h->bytes.error = 0;
		return -ENOMEM;
	}
	h->bytes.next = room;
	return 0;
}

uint32_t head_find_profile(struct head *h, uint32_t stream, int64_t time_ns)
{
	const struct head_stream *s;

	if (stream >= h->streams.n)
		return STORE_NONE;
	s = &head_streams(h)[stream];
	if (!s->n_profiles || time_ns > s->max_time_ns || time_ns < s->min_time_ns)
		return STORE_NONE;
	for (uint32_t i = s->last_profile - 1; i != STORE_NONE; i = head_profiles(h)[i].previous)
		if (head_windows(h)[head_profiles(h)[i].window].time_ns == time_ns)
			return i;
	return STORE_NONE;
}
