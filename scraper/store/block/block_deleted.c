/* SPDX-License-Identifier: Apache-2.0
 *
 * Tombstones applied on read: profiles that they cover are not there, and streams that have no others are empty. Only blocks with
 * tombstones come here, and they are written anew soon.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/block_read.h"
#include "scraper/store/block/deletions.h"
#include <string.h>

static int need_deletions(struct part_reader *r)
{
	const struct block *b = (const struct block *)r->part;
	const struct part_stream *streams;
	struct deletions *d;
	int x = 0;

	if (r->deletions)
		return 0;
	x = block_streams_written(r, &streams);
	if (x < 0)
		return x;
	d = xcalloc(1, sizeof(*d));
	x = deletions_make(r, streams, &b->meta.tombstones, d, &r->errbuf);
	if (x < 0) {
		deletions_done(d);
		free(d);
		return x;
	}
	r->deletions = d;
	return 0;
}

void block_deletions_free(struct part_reader *r)
{
	if (r->deletions)
		deletions_done(r->deletions);
	free(TAKE(r->deletions));
}

/* The arrays of a view lie in the cache: what is left is copied. */
static int copy_left(struct part_reader *r, uint32_t stream, struct part_profiles *p, size_t left)
{
	struct part_profiles all = *p;
	int64_t *wide[3 + STORE_MAX_COLUMNS] = {NULL};
	uint32_t *narrow[2];
	uint64_t *first_row = arena_alloc_array(&r->profiles, left + 1, sizeof(*first_row));
	uint8_t *resolution = arena_alloc(&r->profiles, left + 1);
	unsigned n_wide = 3;
	size_t to = 0;

	while (n_wide < ARRAY_SIZE(wide) && all.total[n_wide - 3])
		n_wide++;
	for (unsigned k = 0; k < n_wide; k++)
		wide[k] = arena_alloc_array(&r->profiles, left + 1, sizeof(**wide));
	for (unsigned k = 0; k < 2; k++)
		narrow[k] = arena_alloc_array(&r->profiles, left + 1, sizeof(**narrow));
	if (arena_error(&r->profiles, &r->errbuf) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < all.n; i++) {
		if (deletions_has(r->deletions, stream, all.time_ns[i]))
			continue;
		wide[0][to] = all.time_ns[i];
		wide[1][to] = all.duration_ns[i];
		wide[2][to] = all.period[i];
		for (unsigned k = 3; k < n_wide; k++)
			wide[k][to] = all.total[k - 3][i];
		narrow[0][to] = all.n_profiles[i];
		narrow[1][to] = all.n_rows[i];
		first_row[to] = all.first_row[i];
		resolution[to++] = all.resolution[i];
	}
	*p = (struct part_profiles) {.n = left,
		.time_ns = wide[0],
		.duration_ns = wide[1],
		.period = wide[2],
		.resolution = resolution,
		.n_profiles = narrow[0],
		.n_rows = narrow[1],
		.first_row = first_row};
	for (unsigned k = 3; k < n_wide; k++)
		p->total[k - 3] = wide[k];
	return 0;
}

int block_profiles_left(struct part_reader *r, uint32_t stream, struct part_profiles *p)
{
	size_t left = 0;
	int x = need_deletions(r);

	if (x < 0 || !deletions_touch(r->deletions, stream))
		return x;
	for (size_t i = 0; i < p->n; i++)
		left += !deletions_has(r->deletions, stream, p->time_ns[i]);
	return left == p->n ? 0 : copy_left(r, stream, p, left);
}

static int count_left(struct part_reader *r, uint32_t stream, struct part_stream *s)
{
	struct part_profiles p;
	int x = block_profiles_written(r, stream, INT64_MIN, INT64_MAX, &p);

	x = x < 0 ? x : block_profiles_left(r, stream, &p);
	if (x < 0)
		return x;
	s->n_profiles = (uint32_t)p.n;
	s->min_time_ns = p.n ? p.time_ns[0] : INT64_MAX;
	s->max_time_ns = p.n ? p.time_ns[p.n - 1] : INT64_MIN;
	s->max_duration_ns = 0;
	for (size_t i = 0; i < p.n; i++)
		s->max_duration_ns = MAX(s->max_duration_ns, p.duration_ns[i]);
	return 0;
}

int block_streams_left(struct part_reader *r, const struct part_stream **ret)
{
	struct part_stream *left;
	int x = need_deletions(r);

	if (x < 0 || r->streams) {
		*ret = r->streams;
		return x;
	}
	left = arena_alloc_array(&r->arena, r->info.n_streams + 1UL, sizeof(*left));
	if (!left)
		return arena_error(&r->arena, &r->errbuf);
	memcpy(left, *ret, r->info.n_streams * sizeof(*left));
	for (uint32_t i = 0; i < r->info.n_streams && x >= 0; i++)
		if (deletions_touch(r->deletions, i))
			x = count_left(r, i, &left[i]);
	*ret = r->streams = left;
	return x;
}
