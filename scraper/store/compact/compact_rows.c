/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles and rows of the result: each input is read stream by stream in the order of the result, front to back as a rule; the profile that is next in (stream, time) is copied with its rows
 * renumbered, and given to the rollups. Renumbering keeps order, so nothing is sorted.
 */
#include "lib/base/alloc.h"
#include "scraper/store/compact/compact_impl.h"
#include "scraper/store/compact/rollup.h"
#include <string.h>

struct source {
	struct compact_input *in;
	struct compact_profiles profiles;
	struct compact_row_pages rows;
	uint32_t hint; /* of placed */
};

struct copying {
	struct compaction *c;
	struct source sources[COMPACT_MAX_INPUTS];
	struct row_writer out;
	struct rollup by_10m, by_1h;
	bool has_rollups;
	struct part_stream *streams;
	uint32_t stream; /* of the profile before, or STORE_NONE */
};

static void copying_done(struct copying *w)
{
	for (size_t i = 0; i < w->c->n; i++) {
		compact_profiles_close(&w->sources[i].profiles);
		compact_row_pages_close(&w->sources[i].rows);
	}
	row_writer_done(&w->out);
	if (w->has_rollups) {
		rollup_done(&w->by_10m);
		rollup_done(&w->by_1h);
	}
}

static int open_sources(struct copying *w)
{
	struct compaction *c = w->c;
	int r = 0;

	for (size_t i = 0; !r && i < c->n; i++) {
		struct source *s = &w->sources[i];

		s->in = &c->inputs[i];
		r = compact_profiles_open(&s->profiles, s->in, true, c->eb);
		r = r ? r : compact_profiles_next(&s->profiles, c->eb);
		r = r ? r : compact_row_pages_open(&s->rows, s->in, c->eb);
	}
	return r;
}

static int64_t time_of(const struct source *s)
{
	return s->profiles.page->time_ns[s->profiles.at];
}

static uint32_t stream_of(const struct source *s)
{
	return s->in->stream_ids[s->profiles.stream];
}

static struct source *next_source(struct copying *w)
{
	struct source *best = NULL;

	for (size_t i = 0; i < w->c->n; i++) {
		struct source *s = &w->sources[i];

		if (s->profiles.done)
			continue;
		if (!best || stream_of(s) < stream_of(best) ||
			(stream_of(s) == stream_of(best) && time_of(s) < time_of(best)))
			best = s;
	}
	return best;
}

static uint32_t node_of(struct source *s, uint32_t old)
{
	const struct bitmap *has = &s->in->has_nodes;
	uint32_t rank = has->n_set == has->n ? old : bitmap_rank(has, old);

	return bitmap_select(&s->in->placed, rank, &s->hint);
}

static int copy_page(struct copying *w, struct source *s, uint32_t stream, int64_t time_ns,
	uint32_t first, uint32_t n, bool to_rollups)
{
	const uint32_t n_values = s->rows.n_values;
	int64_t values[STORE_MAX_COLUMNS];
	int r = 0;

	for (uint32_t i = first; !r && i < first + n; i++) {
		uint32_t set = s->in->set_ids[s->rows.label_set[i]],
			 node = node_of(s, s->rows.node[i]);

		for (uint32_t k = 0; k < n_values; k++)
			values[k] = s->rows.value[(size_t)k * PAGE_MAX_ROWS + i];
		row_writer_row(&w->out, stream, time_ns, set, node, values);
		if (to_rollups)
			r = rollup_row(&w->by_10m, w->c->reduced_set[set], node, values);
	}
	return r ? r : compact_tick(w->c, n);
}

static int copy_rows(
	struct copying *w, struct source *s, uint32_t stream, uint32_t n_values, bool to_rollups)
{
	const struct profile_page *p = s->profiles.page;
	uint64_t row = p->first_row[s->profiles.at], end = row + p->n_rows[s->profiles.at];
	int r = 0;

	while (!r && row < end) {
		uint32_t at = 0, n = 0;

		r = compact_row_pages_seek(&s->rows, s->in, n_values, row, &at, &n, w->c->eb);
		n = (uint32_t)MIN((uint64_t)n, end - row);
		r = r ? r : copy_page(w, s, stream, time_of(s), at, n, to_rollups);
		row += n;
	}
	return r;
}

static int begin_stream(struct copying *w, uint32_t stream)
{
	const uint32_t schema = w->streams[stream].schema;
	bool same = w->stream != STORE_NONE && w->streams[w->stream].schema == schema;

	if (w->stream != STORE_NONE && stream < w->stream)
		return err_set(w->c->eb, -EBADMSG, "streams are not in order");
	w->stream = stream;
	return same ? 0 : row_writer_schema(&w->out, w->c->schemas[schema].n_columns);
}

static int copy_profile(struct copying *w, struct source *s)
{
	const struct profile_page *p = s->profiles.page;
	const uint32_t at = s->profiles.at, stream = stream_of(s);
	struct part_stream *st = &w->streams[stream];
	const struct part_schema *schema = &w->c->schemas[st->schema];
	int64_t totals[STORE_MAX_COLUMNS];
	const struct row_writer_profile out = {
		.time_ns = p->time_ns[at],
		.duration_ns = p->duration_ns[at],
		.period = p->period[at],
		.begin_ns = (int64_t)((uint64_t)p->time_ns[at] -
				      (uint64_t)MAX(p->duration_ns[at], (int64_t)0)),
		.last_ns = p->time_ns[at],
		.n_profiles = p->n_profiles[at],
		.n_rows = p->n_rows[at],
		.totals = totals,
	};
	bool to_rollups = w->has_rollups && schema->kind == STORE_PROFILE;
	int r = stream == w->stream ? 0 : begin_stream(w, stream);

	if (r < 0)
		return r;
	for (uint32_t k = 0; k < schema->n_columns; k++)
		totals[k] = p->total[k][at];
	st->min_time_ns = st->n_profiles ? MIN(st->min_time_ns, out.time_ns) : out.time_ns;
	st->max_time_ns = st->n_profiles ? MAX(st->max_time_ns, out.time_ns) : out.time_ns;
	st->max_duration_ns = MAX(st->max_duration_ns, out.duration_ns);
	st->n_profiles++;
	row_writer_profile(&w->out, stream, &out);
	if (to_rollups)
		r = rollup_profile(&w->by_10m, stream, st, schema->n_columns, &out);
	return r ? r : copy_rows(w, s, stream, schema->n_columns, to_rollups);
}

/* A rollup that saves little is not worth its space: a third of the rows it stands for at most, and an hour's a third less than ten minutes'. */
static bool is_worth_it(const struct copying *w, const struct rollup *u, const struct rollup *finer)
{
	const uint64_t rows = u->out.n_rows;

	if (w->c->o->keep_all)
		return true;
	return rows * 3 <= w->out.n_rows && (!finer || rows * 3 <= finer->out.n_rows * 2);
}

static int drop_rollup(struct copying *w, struct rollup *u)
{
	struct fs *fs = w->c->o->fs;
	_cleanup_free_ char *profiles = xstrdup(u->out.profiles_file.path),
			    *rows = xstrdup(u->out.rows_file.path);
	int r;

	row_writer_done(&u->out);
	u->out = (struct row_writer) {.rows_file = {.fd = -1}, .profiles_file = {.fd = -1}};
	r = fs->unlink(fs, profiles);
	return r < 0 ? r : fs->unlink(fs, rows);
}

static int finish_rollup(struct copying *w, struct rollup *u, bool keep)
{
	return keep ? row_writer_finish(
			      &u->out, u->streams, (uint32_t)u->n_streams, &w->c->meta, w->c->eb)
		    : drop_rollup(w, u);
}

static int finish_rollups(struct copying *w)
{
	int r = rollup_flush(&w->by_10m);
	bool keep_10m = is_worth_it(w, &w->by_10m, NULL);
	bool keep_1h = is_worth_it(w, &w->by_1h, keep_10m ? &w->by_10m : NULL);

	r = r ? r : finish_rollup(w, &w->by_10m, keep_10m);
	return r ? r : finish_rollup(w, &w->by_1h, keep_1h);
}

static int open_rollups(struct copying *w)
{
	const struct compact_options *o = w->c->o;
	int r;

	if (!o->rollups)
		return 0;
	w->has_rollups = true;
	/* Both are initialised, whatever fails. */
	r = rollup_open(&w->by_1h, w->c->budget, o->fs, w->c->tmp, PART_1H, NULL);
	return rollup_open(&w->by_10m, w->c->budget, o->fs, w->c->tmp, PART_10M, &w->by_1h) < 0 ||
			       r < 0
		       ? (r < 0 ? r : -EIO)
		       : 0;
}

int compact_rows(struct compaction *c, struct part_stream *streams)
{
	_cleanup_(copying_done)
	struct copying w = {.c = c,
		.streams = streams,
		.stream = STORE_NONE,
		.out = {.rows_file = {.fd = -1}, .profiles_file = {.fd = -1}}};
	struct source *s;
	int r = open_sources(&w);

	for (size_t i = 0; i < c->n_streams_in; i++) {
		const struct compact_stream *from = &c->streams[i];

		streams[c->inputs[from->input].stream_ids[from->stream]] =
			(struct part_stream) {.schema = from->schema, .label_set = from->label_set};
	}
	r = r ? r : row_writer_open(&w.out, c->o->fs, c->tmp, PART_RAW, FRAME_LEVEL_COMPACTED);
	r = r ? r : open_rollups(&w);
	while (!r && (s = next_source(&w)) != NULL) {
		r = copy_profile(&w, s);
		r = r ? r : compact_profiles_next(&s->profiles, c->eb);
	}
	r = r ? r : row_writer_finish(&w.out, NULL, 0, &c->meta, c->eb);
	return r || !w.has_rollups ? r : finish_rollups(&w);
}
