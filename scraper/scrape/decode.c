/* SPDX-License-Identifier: Apache-2.0
 *
 * From an answer to a record: status, headers, cursor, content, pprof, time, differences, series, report. Each step may refuse with a
 * reason; a refused answer still makes a record with `up` 0.
 */
#include "scraper/scrape/check.h"
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

enum { MENDED_NAME_MAX = 128 }; /* bytes of a label's name in a message */

static uint64_t inflated_limit(const struct scrape *s, const struct config_job *job)
{
	uint64_t limit = s->o.max_inflated_bytes;

	return job->limits.body_size_bytes ? MIN(limit, job->limits.body_size_bytes) : limit;
}

/* The trailer does not give the whole size (several members, two layers): what passes the small size without its turn starts again in its turn. */
static enum scrape_reason inflate_body(
	struct scrape *s, struct scrape_request *r, const uint8_t **ret_p, size_t *ret_n)
{
	uint64_t limit = inflated_limit(s, r->job);
	uint64_t max = r->is_large ? limit : MIN(limit, (uint64_t)SCRAPE_LARGE_BYTES);
	enum scrape_reason reason = scrape_check_body(
		&r->response, &r->response.body, max, &r->inflated, ret_p, ret_n, &r->error);

	if (reason != SCRAPE_FAIL_INFLATED_SIZE || max == limit)
		return reason;
	scrape_room_enter(s, r);
	r->error = (struct errbuf) {0};
	bytes_done(&r->inflated);
	bytes_init(&r->inflated, s->o.budget, 0);
	return scrape_check_body(
		&r->response, &r->response.body, limit, &r->inflated, ret_p, ret_n, &r->error);
}

static enum scrape_reason decode_body(struct scrape *s, struct scrape_request *r)
{
	const uint8_t *p = NULL;
	size_t n = 0;
	int res;
	enum scrape_reason reason = inflate_body(s, r, &p, &n);

	if (reason)
		return reason;
	metric_add(s->m.bytes, (double)r->response.body.len);
	res = prof_decode(p, n, &r->profile, &r->error);
	if (res == -ENOMEM)
		return SCRAPE_FAIL_MEMORY;
	if (res < 0)
		err_prefix(&r->error, res, "not a valid pprof profile");
	return res < 0 ? SCRAPE_FAIL_PPROF : SCRAPE_OK;
}

/* Older fgprof and endpoints written by hand say nothing of the window: it is then what the request asked for. */
static int64_t window_ns(const struct scrape_request *r)
{
	const struct scrape_spec *spec = &r->type->spec;

	if (r->profile.duration_ns || !spec->is_windowed || r->is_sonde)
		return r->profile.duration_ns;
	return spec->seconds * NS_PER_S;
}

/* A row's time is the end of its window. */
static enum scrape_reason set_time(struct scrape_request *r)
{
	const struct profile *p = &r->profile;
	int64_t took_ns = r->end_mono_ns - r->start_mono_ns;

	if (p->time_ns < 0 || p->duration_ns < 0 ||
		__builtin_add_overflow(p->time_ns, p->duration_ns, &r->out.time_ns)) {
		err_set(&r->error, -EBADMSG,
			"not a valid pprof profile: time_nanos %lld with duration_nanos %lld",
			(long long)p->time_ns, (long long)p->duration_ns);
		return SCRAPE_FAIL_PPROF;
	}
	if (!p->time_ns || !r->job->honor_timestamps)
		r->out.time_ns = r->start_real_ns + took_ns;
	r->out.duration_ns = window_ns(r);
	return SCRAPE_OK;
}

/* Between the instants at which two totals were taken there is as much time as our own clock leaves, whatever the target's, or ours, was set
 * to in between. */
static int64_t delta_window_ns(const struct scrape_request *r)
{
	const struct scrape_type *t = r->type;
	int64_t least_ns = MAX(r->start_mono_ns - t->delta_end_mono_ns, (int64_t)0);
	int64_t most_ns = MAX(r->end_mono_ns - t->delta_start_mono_ns, (int64_t)0);

	return MIN(MAX(r->out.duration_ns, least_ns), most_ns);
}

static enum scrape_reason subtract(struct scrape *s, struct scrape_request *r)
{
	bool is_cumulative[STORE_MAX_COLUMNS] = {false};
	struct profile *p = &r->profile;

	if (!r->type->spec.is_cumulative || p->n_types > STORE_MAX_COLUMNS)
		return SCRAPE_OK;
	for (size_t c = 0; c < p->n_types; c++)
		is_cumulative[c] = !scrape_column_is_instant(&r->type->spec, p, c);
	if (scrape_delta_apply(&r->type->delta, p, is_cumulative, r->out.time_ns, &r->delta_result,
		    &r->out.duration_ns, &r->delta_evicted, &r->error) < 0)
		return SCRAPE_FAIL_MEMORY;
	if (r->delta_result != SCRAPE_DELTA_FIRST)
		r->out.duration_ns = delta_window_ns(r);
	r->type->delta_start_mono_ns = r->start_mono_ns;
	r->type->delta_end_mono_ns = r->end_mono_ns;
	if (r->delta_result == SCRAPE_DELTA_RESET)
		metric_inc(s->m.resets);
	if (r->delta_evicted)
		metric_inc(s->m.evictions);
	return SCRAPE_OK;
}

static enum scrape_reason make_series(struct scrape *s, struct scrape_request *r)
{
	const struct scrape_series_input in = {
		.profile = &r->profile,
		.job = r->job,
		.spec = &r->type->spec,
		.preset = r->is_sonde ? SCRAPE_PRESET_NODE : r->preset,
		.labels_header = r->answer_labels ? r->answer_labels : r->labels_header,
		.target = &r->type->t.labels,
		.limit = r->limit,
		.now_ns = r->end_mono_ns,
	};
	uint64_t collapsed = r->limit->n_collapsed_total;
	enum scrape_reason reason =
		scrape_series_build(&in, &r->arena, &r->out, &r->series, &r->error);

	if (reason)
		return reason;
	r->n_series_added = scrape_live_update(&r->type->live, r->series.streams,
		r->series.stream_hashes, r->series.n_streams, r->out.time_ns, r->end_mono_ns);
	metric_add(metric_cell(s->m.samples, r->job->name, r->type->spec.name),
		(double)r->series.n_samples);
	metric_add(metric_cell(s->m.relabel_dropped, r->job->name),
		(double)r->series.n_dropped_series);
	metric_add(metric_cell(s->m.joined, r->job->name), (double)r->series.n_joined_series);
	metric_add(metric_cell(s->m.collapsed, r->job->name),
		(double)(r->limit->n_collapsed_total - collapsed));
	return SCRAPE_OK;
}

/* The target is up and all of its samples are stored; the text is for its lastError. */
static void note_mended_texts(struct scrape *s, struct scrape_request *r)
{
	const struct profile *p = &r->profile;
	struct prof_str key = profile_str(p, p->mended_key);

	r->n_mended_texts = p->n_mended_texts;
	if (!r->n_mended_texts)
		return;
	metric_add(metric_cell(s->m.mended, r->job->name), (double)r->n_mended_texts);
	err_set(&r->error, 0,
		"%zu texts of sample labels are not UTF-8, the first of label \"%.*s\": their "
		"bytes "
		"are stored as \\xNN",
		r->n_mended_texts, (int)str_utf8_fit(key.p, key.len, MENDED_NAME_MAX), key.p);
}

static enum scrape_reason decode(struct scrape *s, struct scrape_request *r)
{
	enum scrape_reason reason = r->reason;

	if (!reason)
		reason = scrape_check_transfer(&r->response, &r->error);
	if (!reason)
		reason = scrape_cursor_read(s, r);
	if (reason || r->discard)
		return reason;
	if (r->is_unchanged)
		r->out.cursor_key = r->out.cursor_before = r->out.cursor_after =
			(struct store_blob) {0};
	r->skip_report = r->behind_s > 0 && r->type->n_asks < SCRAPE_MAX_ASKS;
	reason = decode_body(s, r);
	if (!reason)
		reason = set_time(r);
	if (!reason && !r->is_unchanged)
		reason = subtract(s, r);
	if (!reason && !r->is_unchanged)
		reason = make_series(s, r);
	if (!reason)
		note_mended_texts(s, r);
	return reason;
}

/* A refused answer leaves nothing of itself in the record but how much it was; its cursor stays where it was. */
static void clear_record(struct scrape_request *r)
{
	const struct scrape_series_result counts = {
		.n_samples = r->series.n_samples, .n_kept = r->series.n_kept};

	scrape_series_done(&r->series);
	r->series = counts;
	r->out = (struct store_scrape) {.period_type = "", .period_unit = ""};
	r->skip_report = false;
}

void scrape_decode(struct scrape *s, struct scrape_request *r)
{
	int64_t start_ns = clock_monotonic_ns(s->o.clock);

	r->out.period_type = r->out.period_unit = "";
	if (r->is_last) {
		scrape_report_ends(r);
		return;
	}
	r->reason = decode(s, r);
	if (r->reason)
		clear_record(r);
	/* first answer of a cumulative type: instant columns count, differences need a second one */
	if (!r->discard && !scrape_report_fill(s, r)) {
		r->has_record = false;
		r->reason = SCRAPE_FAIL_MEMORY;
		err_set(&r->error, -ENOMEM, "no memory for the scrape's own series");
	}
	if (r->reason && !r->discard)
		scrape_report_ends(r);
	metric_add(s->m.decode_seconds, (double)(clock_monotonic_ns(s->o.clock) - start_ns) / 1e9);
}
