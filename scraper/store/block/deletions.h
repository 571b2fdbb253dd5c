/* SPDX-License-Identifier: Apache-2.0
 *
 * The tombstones of a block, worked out for its streams.
 */
#pragma once
#include "lib/base/bitmap.h"
#include "scraper/store/block/tombstone.h"
#include "scraper/store/part/part.h"

struct deletions {
	const struct tombstones *tombstones; /* the block's */
	struct bitmap *streams;		     /* per tombstone: streams that match */
};

/* `streams` as written. Reads labels through `r`. `t` outlives *ret, which needs deletions_done in any case. -ENOMEM, also when an
 * expression needs too many steps; errors of part.h. */
int deletions_make(struct part_reader *r, const struct part_stream *streams,
	const struct tombstones *t, struct deletions *ret, struct errbuf *eb) _must_check_;
void deletions_done(struct deletions *d);
static inline bool deletions_has(const struct deletions *d, uint32_t stream, int64_t time_ns)
{
	for (size_t i = 0; d->streams && i < d->tombstones->n; i++) {
		const struct tombstone *t = &d->tombstones->items[i];

		if (time_ns >= t->min_time_ns && time_ns <= t->max_time_ns &&
			bitmap_has(&d->streams[i], stream))
			return true;
	}
	return false;
}
/* Whether any profile of the stream may be deleted. */
static inline bool deletions_touch(const struct deletions *d, uint32_t stream)
{
	for (size_t i = 0; d->streams && i < d->tombstones->n; i++)
		if (bitmap_has(&d->streams[i], stream))
			return true;
	return false;
}
