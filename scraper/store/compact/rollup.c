/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets: rows are added up in a table, sorted when the bucket is complete, written, and handed to the next coarser rollup.
 */
#include "scraper/store/compact/rollup.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/prof/profile.h"
#include <string.h>

enum { MIN_SLOTS = 4096 };

int rollup_open(struct rollup *u, struct budget *budget, struct fs *fs, const char *dir,
	enum part_resolution resolution, struct rollup *coarser)
{
	*u = (struct rollup) {.width_ns = (resolution == PART_10M ? 600 : 3600) * NS_PER_S,
		.source = STORE_NONE,
		.n_values = STORE_NONE,
		.budget = budget,
		.coarser = coarser};
	table_init(&u->by_key, budget);
	return row_writer_open(&u->out, fs, dir, resolution, FRAME_LEVEL_COMPACTED);
}

void rollup_done(struct rollup *u)
{
	row_writer_done(&u->out);
	table_done(&u->by_key);
	alloc_free_in(u->budget, &u->streams, &u->cap_streams, sizeof(*u->streams));
	alloc_free_in(u->budget, &u->rows, &u->cap_rows, sizeof(*u->rows));
	alloc_free_in(u->budget, &u->values, &u->cap_values, sizeof(*u->values));
}

/* The end of the bucket that this time lies in. */
static int64_t bucket_end(int64_t time_ns, int64_t width)
{
	int64_t over = time_ns % width, end;

	if (!over)
		return time_ns;
	if (over < 0)
		over += width;
	return __builtin_add_overflow(time_ns, width - over, &end) ? INT64_MAX : end;
}

static int by_key(const void *a, const void *b)
{
	const struct rollup_row *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int feed_coarser(struct rollup *u, const struct part_stream *stream)
{
	struct rollup *to = u->coarser;
	int r = rollup_profile(to, u->source, stream, u->n_values, &u->bucket);

	for (size_t i = 0; !r && i < u->n_rows; i++)
		r = rollup_row(to, (uint32_t)(u->rows[i].key >> 32), (uint32_t)u->rows[i].key,
			u->values + u->rows[i].at);
	return r;
}

static int end_bucket(struct rollup *u)
{
	struct part_stream *s = u->n_streams ? &u->streams[u->n_streams - 1] : NULL;
	uint32_t stream = (uint32_t)u->n_streams - 1;
	struct row_writer_profile *b = &u->bucket;
	int r = 0;

	if (!b->n_profiles || !s)
		return 0;
	if (u->n_rows)
		qsort(u->rows, u->n_rows, sizeof(*u->rows), by_key);
	b->n_rows = (uint32_t)u->n_rows;
	b->period = u->mixed_period ? 0 : b->period;
	b->totals = u->totals;
	row_writer_profile(&u->out, stream, b);
	for (size_t i = 0; i < u->n_rows; i++)
		row_writer_row(&u->out, stream, b->time_ns, (uint32_t)(u->rows[i].key >> 32),
			(uint32_t)u->rows[i].key, u->values + u->rows[i].at);
	s->min_time_ns = s->n_profiles ? s->min_time_ns : b->time_ns;
	s->max_time_ns = b->time_ns;
	s->max_duration_ns = MAX(s->max_duration_ns, b->duration_ns);
	s->n_profiles++;
	if (u->coarser)
		r = feed_coarser(u, s);
	b->n_profiles = 0;
	u->n_rows = 0;
	if (u->by_key.n_slots > MIN_SLOTS && u->by_key.n_slots > 16 * u->by_key.n_used) {
		table_done(&u->by_key);
		table_init(&u->by_key, u->budget);
	} else {
		table_clear(&u->by_key);
	}
	return r;
}

static int begin_stream(
	struct rollup *u, uint32_t source, const struct part_stream *stream, uint32_t n_values)
{
	int r = 0;

	if (u->n_values != n_values ||
		(u->n_streams && u->streams[u->n_streams - 1].schema != stream->schema))
		r = row_writer_schema(&u->out, n_values);
	r = r ? r
	      : alloc_grow_in(u->budget, &u->streams, &u->cap_streams, u->n_streams + 1,
			sizeof(*u->streams), NULL);
	if (r < 0)
		return r;
	u->streams[u->n_streams++] =
		(struct part_stream) {.schema = stream->schema, .label_set = stream->label_set};
	u->source = source;
	u->n_values = n_values;
	return 0;
}

int rollup_profile(struct rollup *u, uint32_t source, const struct part_stream *stream,
	uint32_t n_values, const struct row_writer_profile *p)
{
	int64_t end = bucket_end(p->time_ns, u->width_ns);
	struct row_writer_profile *b = &u->bucket;
	int r = 0;

	if (b->n_profiles && (u->source != source || b->time_ns != end))
		r = end_bucket(u);
	if (!r && u->source != source)
		r = begin_stream(u, source, stream, n_values);
	if (r < 0)
		return r;
	if (!b->n_profiles) {
		*b = (struct row_writer_profile) {.time_ns = end,
			.period = p->period,
			.begin_ns = p->begin_ns,
			.last_ns = p->last_ns};
		u->mixed_period = false;
		memset(u->totals, 0, sizeof(u->totals));
	}
	b->begin_ns = MIN(b->begin_ns, p->begin_ns);
	b->last_ns = MAX(b->last_ns, p->last_ns);
	b->duration_ns =
		(int64_t)((uint64_t)b->duration_ns + (uint64_t)MAX(p->duration_ns, (int64_t)0));
	b->n_profiles += p->n_profiles;
	u->mixed_period |= b->period != p->period;
	for (uint32_t k = 0; k < n_values; k++)
		u->totals[k] = prof_add(u->totals[k], p->totals[k]);
	return 0;
}

int rollup_row(struct rollup *u, uint32_t label_set, uint32_t node, const int64_t *values)
{
	uint64_t key = (uint64_t)label_set << 32 | node, *at;
	bool is_new = false;
	int64_t *to;

	at = table_insert(&u->by_key, key, &is_new);
	if (!at)
		return -ENOMEM;
	if (is_new) {
		size_t first = u->n_rows * u->n_values;

		if (alloc_grow_in(u->budget, &u->rows, &u->cap_rows, u->n_rows + 1,
			    sizeof(*u->rows), NULL) < 0 ||
			alloc_grow_in(u->budget, &u->values, &u->cap_values,
				first + u->n_values + 1, sizeof(*u->values), NULL) < 0)
			return -ENOMEM;
		*at = first;
		memcpy(u->values + first, values, u->n_values * sizeof(*values));
		u->rows[u->n_rows++] = (struct rollup_row) {.key = key, .at = (uint32_t)first};
		return 0;
	}
	to = u->values + *at;
	for (uint32_t k = 0; k < u->n_values; k++)
		to[k] = prof_add(to[k], values[k]);
	return 0;
}

int rollup_flush(struct rollup *u)
{
	int r = end_bucket(u);

	return r || !u->coarser ? r : rollup_flush(u->coarser);
}
