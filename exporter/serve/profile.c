/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /debug/pprof/profile: parameters, waiting, making, answering.
 */
#include "exporter/serve/internal.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include "lib/gzip/gzip.h"
#include "lib/render/render.h"
#include <inttypes.h>
#include <string.h>

enum {
	DEFAULT_SECONDS = 30, /* as net/http/pprof; `go tool pprof` waits for 60 */
	MAX_RESPONSE_BYTES = 256 << 20,
};
/* After the window's end a drain has to come round, which is asked for. A stalled one is waited for. */
#define DRAIN_WAIT_NS (SAMPLE_HOLD_NS + 2 * NS_PER_MS)
#define RETRY_NS (20 * NS_PER_MS)
#define STALL_NS (5 * NS_PER_S)

enum format { FORMAT_PPROF, FORMAT_FOLDED, FORMAT_SVG, FORMAT_HTML, FORMAT_TEXT };
static const char *const format_names[] = {"pprof", "folded", "svg", "html", "text"};

struct request {
	const struct serve *serve;
	enum abi_event event;
	struct profile_filter *filter;
	char *cursor; /* NULL: a window */
	uint64_t seconds, span_s;
	uint32_t hz; /* 0: not raised */
	enum format format;
	enum symbolize_mode mode;
	enum fold_frames fold;
	int64_t from_ns, to_ns;
	int64_t ask_again_ns, give_up_ns; /* monotonic */
};

static void request_free(void *p)
{
	struct request *q = p;

	if (q->hz)
		governor_release(q->serve->o.source->governor, q->event, q->hz);
	profile_filter_freep(&q->filter);
	free(q->cursor);
	free(q);
}

static int parse_number(
	const char *name, const char *value, uint64_t max, uint64_t *ret, struct errbuf *eb)
{
	if (str_parse_u64(value, ret, NULL) < 0 || *ret > max)
		return err_set(eb, -EINVAL, "%s=%.64s: expected a whole number from 0 to %" PRIu64,
			name, value, max);
	return 0;
}

static int parse_choice(const char *name, const char *value, const char *const *words, size_t n,
	unsigned *ret, struct errbuf *eb)
{
	char valid[64] = "";

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(valid);

		if (!strcmp(value, words[i])) {
			*ret = (unsigned)i;
			return 0;
		}
		snprintf(valid + len, sizeof(valid) - len, "%s%s", i ? ", " : "", words[i]);
	}
	return err_set(eb, -EINVAL, "%s=%.64s: expected one of %s", name, value, valid);
}

static int parse_seconds(struct request *q, const char *value, struct errbuf *eb)
{
	uint32_t retention_s = q->serve->o.source->retention_s;
	int r = parse_number("seconds", value, UINT32_MAX, &q->seconds, eb);

	if (r < 0)
		return r;
	if (q->seconds > retention_s)
		return err_set(eb, -EINVAL,
			"seconds=%" PRIu64 " is above --profile.retention (%" PRIu32
			"s): ask for less, or raise the flag",
			q->seconds, retention_s);
	if (!q->seconds)
		q->seconds = MIN((uint32_t)DEFAULT_SECONDS, retention_s);
	return 0;
}

static int parse_hz(struct request *q, const char *value, struct errbuf *eb)
{
	uint32_t max_hz = q->serve->o.max_frequency_hz;
	const struct event_source *type = event_source(q->event);
	uint64_t hz;

	if (!event_follows_rate(type))
		return err_set(
			eb, -EINVAL, "hz=%.64s: %s has no rate: leave hz= out", value, type->name);
	if (str_parse_u64(value, &hz, NULL) < 0 || !hz || hz > max_hz)
		return err_set(eb, -EINVAL,
			"hz=%.64s: expected a rate from 1 to %" PRIu32 " (--profile.max-frequency)",
			value, max_hz);
	q->hz = (uint32_t)hz;
	return 0;
}

static int parse_param(struct request *q, const char *name, const char *value, struct errbuf *eb)
{
	static const char *const modes[] = {"none", "functions", "lines"};
	uint64_t number;
	unsigned choice;
	int r;

	if (!strcmp(name, "seconds"))
		return parse_seconds(q, value, eb);
	if (!strcmp(name, "hz"))
		return parse_hz(q, value, eb);
	if (!strcmp(name, "since")) {
		free(q->cursor);
		q->cursor = xstrdup(value);
		return 0;
	}
	if (!strcmp(name, "span")) {
		r = parse_number(name, value, UINT32_MAX, &q->span_s, eb);
		return r < 0 || q->span_s ? r : err_set(eb, -EINVAL, "span=0: expected at least 1");
	}
	if (!strcmp(name, "debug")) {
		r = parse_number(name, value, 2, &number, eb);
		if (r >= 0 && number)
			q->format = FORMAT_TEXT;
		return r;
	}
	if (!strcmp(name, "gc")) /* as on a heap profile; there is nothing to collect */
		return parse_number(name, value, UINT32_MAX, &number, eb);
	if (!strcmp(name, "format")) {
		r = parse_choice(name, value, format_names, FORMAT_TEXT, &choice, eb);
		if (r >= 0)
			q->format = (enum format)choice;
		return r;
	}
	if (!strcmp(name, "symbolize")) {
		r = parse_choice(name, value, modes, ARRAY_SIZE(modes), &choice, eb);
		if (r >= 0)
			q->mode = (enum symbolize_mode)choice;
		return r;
	}
	if (!strcmp(name, "interp")) {
		r = parse_choice(name, value, fold_names, FOLD_N_WAYS, &choice, eb);
		if (r >= 0)
			q->fold = (enum fold_frames)choice;
		return r;
	}
	r = profile_filter_add(q->filter, name, value, eb);
	if (r)
		return MIN(r, 0);
	return err_set(eb, -EINVAL,
		"unknown parameter \"%.64s\": valid ones are seconds since span debug gc hz "
		"symbolize interp format %s",
		name, profile_filter_names);
}

static struct request *request_new(const struct serve *s, enum abi_event event,
	const struct url_params *params, struct errbuf *eb)
{
	struct request *q = xcalloc(1, sizeof(*q));
	const struct profile_source *source = s->o.source;
	uint32_t hz = 0;
	int r = 0;

	*q = (struct request) {
		.serve = s,
		.event = event,
		.filter = profile_filter_new(
			source->constants, source->tables.pod_labels, source->tables.n_pod_labels),
		.seconds = MIN(DEFAULT_SECONDS, source->retention_s),
		.span_s = source->window_s,
		.mode = SYMBOLIZE_FUNCTIONS,
		.fold = source->fold,
	};
	for (size_t i = 0; i < params->n && r >= 0; i++)
		r = parse_param(q, params->items[i].name, params->items[i].value, eb);
	/* The rate counts as asked for only once the request is known to be good. */
	hz = q->cursor ? 0 : q->hz;
	q->hz = 0;
	if (r < 0) {
		request_free(q);
		return NULL;
	}
	if (hz) {
		governor_request(source->governor, event, hz);
		profile_source_hurry(source);
	}
	q->hz = hz;
	return q;
}

static void put_range_headers(struct http_request *r, const struct sample_range *range)
{
	char number[24];

	if (range->cursor[0]) {
		http_reply_header(r, "Sonde-Cursor", range->cursor);
		snprintf(number, sizeof(number), "%" PRIu64, range->behind_s);
		http_reply_header(r, "Sonde-Behind-Seconds", number);
	}
	if (range->restarted)
		http_reply_header(r, "Sonde-Restarted", "1");
	if (range->lost_ns > 0) {
		snprintf(number, sizeof(number), "%" PRIu64,
			(uint64_t)((range->lost_ns + NS_PER_S - 1) / NS_PER_S));
		http_reply_header(r, "Sonde-Lost-Seconds", number);
	}
	if (range->lost_samples) {
		snprintf(number, sizeof(number), "%" PRIu64, range->lost_samples);
		http_reply_header(r, "Sonde-Lost-Samples", number);
	}
}

/* debug=1: what the profile is, then its functions. */
static int print_text(const struct profile *p, const struct event_source *source,
	const struct sample_range *range, struct bytes *out, struct errbuf *eb)
{
	size_t column = event_count_value(source);
	struct prof_str type = profile_str(p, p->types[p->n_types - 1].type),
			unit = profile_str(p, p->types[p->n_types - 1].unit),
			period_unit = profile_str(p, p->period_type.unit);
	int64_t count = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		count += p->values[i * p->n_types + column];
	bytes_printf(out,
		"# %.*s profile in %.*s: %zu stacks of %" PRId64
		" samples in %.3f s, one per %" PRId64 " %.*s\n",
		(int)type.len, type.p, (int)unit.len, unit.p, p->n_samples, count,
		(double)range->duration_ns / 1e9, p->period, (int)period_unit.len, period_unit.p);
	return render_profile_text(p, p->n_types - 1, NULL, 0, RENDER_NAMES_DEFAULT, out, eb);
}

/* Leaves `p` empty: its memory is not wanted beside that of the compressor. */
static int encode_pprof(
	struct profile *p, struct budget *budget, struct bytes *out, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes raw;
	int r;

	bytes_init(&raw, budget, MAX_RESPONSE_BYTES);
	r = prof_encode(p, &raw);
	profile_done(p);
	if (r < 0)
		return err_set(eb, r, "the profile is larger than its budget");
	return gzip_deflate(raw.data, raw.len, GZIP_LEVEL_FAST, out, eb);
}

static int render(const struct request *q, struct profile *p, const struct sample_range *range,
	struct bytes *out, struct errbuf *eb)
{
	size_t main_value = p->n_types - 1;

	switch (q->format) {
	case FORMAT_PPROF: return encode_pprof(p, q->serve->o.budget, out, eb);
	case FORMAT_FOLDED: return render_profile_folded(p, main_value, out, eb);
	case FORMAT_SVG:
		return render_profile_svg(p, main_value, event_source(q->event)->store_name,
			RENDER_NAMES_DEFAULT, NULL, out, eb);
	case FORMAT_HTML:
		return render_profile_html(p, main_value, event_source(q->event)->store_name,
			RENDER_NAMES_DEFAULT, out, eb);
	case FORMAT_TEXT: return print_text(p, event_source(q->event), range, out, eb);
	}
	return -EINVAL;
}

static const char picture_policy[] = "default-src 'none'; style-src 'unsafe-inline'";

static void reply(struct http_request *r, const struct request *q, struct bytes *body)
{
	static const char *const types[] = {
		[FORMAT_PPROF] = "application/octet-stream",
		[FORMAT_FOLDED] = "text/plain; charset=utf-8",
		[FORMAT_SVG] = "image/svg+xml",
		[FORMAT_HTML] = "text/html; charset=utf-8",
		[FORMAT_TEXT] = "text/plain; charset=utf-8",
	};

	if (q->format == FORMAT_PPROF)
		http_reply_header(r, "Content-Disposition", "attachment; filename=\"profile\"");
	if (q->format == FORMAT_HTML || q->format == FORMAT_SVG)
		http_reply_header(r, "Content-Security-Policy",
			q->format == FORMAT_HTML ? render_page_policy : picture_policy);
	metric_inc(metric_cell(q->serve->profiles, format_names[q->format]));
	http_reply_bytes(r, 200, types[q->format], body);
}

/* What is taken, built and written needs memory one after the other, and gives it back in between. */
static int try_profile(const struct request *q, uint32_t span_s, struct sample_range *range,
	struct bytes *body, struct errbuf *eb)
{
	const struct serve *s = q->serve;
	const struct profile_query query = {
		.event = q->event,
		.filter = q->filter,
		.mode = q->mode,
		.fold = q->fold,
		.cursor = q->cursor,
		.span_s = span_s,
		.from_ns = q->from_ns,
		.to_ns = q->to_ns,
	};
	_cleanup_profile_ struct profile profile;
	struct arena arena;
	int r;

	profile_init(&profile, s->o.budget);
	arena_init(&arena, s->o.budget);
	r = profile_source_take(s->o.source, &query, &arena, &profile, range, eb);
	arena_done(&arena);
	return r < 0 ? r : render(q, &profile, range, body, eb);
}

static bool is_too_large(int e)
{
	return e == -ENOMEM || e == -EFBIG;
}

/*
 * A client that comes back for the rest gets less at once where the budget leaves no room for all: a busy machine of many CPUs
 * has more stacks in a scrape's interval than there is memory for, and would never be read otherwise.
 */
static int fit_profile(
	const struct request *q, struct sample_range *range, struct bytes *body, struct errbuf *eb)
{
	uint32_t span_s = (uint32_t)q->span_s;
	int r = try_profile(q, span_s, range, body, eb);

	while (is_too_large(r) && q->cursor && span_s > 1) {
		span_s /= 2;
		bytes_done(body);
		bytes_init(body, q->serve->o.budget, MAX_RESPONSE_BYTES);
		*eb = (struct errbuf) {.text = ""};
		r = try_profile(q, span_s, range, body, eb);
		if (r >= 0)
			metric_inc(metric_only(q->serve->shortened));
	}
	return r;
}

static void make_profile(struct http_request *r, void *arg)
{
	struct serve *s = arg;
	struct request *q = http_request_data(r);
	_cleanup_bytes_ struct bytes body;
	struct errbuf eb = {.text = ""};
	struct sample_range range;
	int e;

	bytes_init(&body, s->o.budget, MAX_RESPONSE_BYTES);
	e = fit_profile(q, &range, &body, &eb);
	if (is_too_large(e)) {
		struct errbuf why = eb;

		e = err_set(&eb, e, "the profile does not fit in what --web.max-bytes leaves: %s",
			err_text(&why, e));
	}
	if (e < 0) {
		serve_reply_error(r, http_code_of_error(e), err_text(&eb, e));
		return;
	}
	http_reply_header(r, "Sonde-Exporter", version_number());
	http_reply_header(r, "Sonde-Types", s->types);
	http_reply_header(r, "Sonde-Labels", s->labels);
	http_reply_header(r, "Sonde-Retention-Seconds", s->retention);
	serve_put_health(r, s, q->event);
	put_range_headers(r, &range);
	reply(r, q, &body);
}

/* On a worker once the window is over: the last samples come with the next drain. */
static void finish_window(struct http_request *r, void *arg)
{
	struct serve *s = arg;
	struct request *q = http_request_data(r);
	int64_t now_ns = clock_monotonic_ns(s->o.clock);

	if (profile_source_covered_ns(s->o.source) < q->to_ns && now_ns < q->give_up_ns) {
		if (now_ns >= q->ask_again_ns) {
			profile_source_hurry(s->o.source);
			q->ask_again_ns = now_ns + SAMPLE_DRAIN_INTERVAL_NS;
		}
		http_job_run_at(r, now_ns + RETRY_NS, finish_window);
		return;
	}
	make_profile(r, arg);
}

/* The event behind an endpoint; -ENOENT with a text that lists those that are on. */
static int find_event(const struct profile_source *source, const char *endpoint, struct errbuf *eb)
{
	char known[ABI_N_EVENTS * (sizeof("/debug/pprof/, ") + EVENT_NAME_MAX)] = "";

	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		const struct event_source *type = event_source(i);
		bool is_on = profile_source_is_on(source, i);
		size_t at = strlen(known);

		if (!strcmp(type->endpoint, endpoint))
			return is_on ? (int)i
				     : err_set(eb, -ENOENT,
					       "/debug/pprof/%s is off: start the exporter with %s "
					       "in "
					       "--profile.types",
					       endpoint, type->name);
		if (is_on)
			snprintf(known + at, sizeof(known) - at, "%s/debug/pprof/%s",
				at ? ", " : "", type->endpoint);
	}
	return err_set(eb, -ENOENT, "Unknown profile: this exporter has %s", known);
}

void serve_profile(struct http_request *r, void *arg)
{
	struct serve *s = arg;
	struct errbuf eb = {.text = ""};
	int event;
	struct request *q;
	int64_t now_ns = clock_monotonic_ns(s->o.clock), end_ns;

	event = find_event(s->o.source, http_request_wildcard(r, 0), &eb);
	if (event < 0) {
		serve_reply_error(r, 404, eb.text);
		return;
	}
	q = request_new(s, (enum abi_event)event, http_request_params(r), &eb);
	if (!q) {
		serve_reply_error(r, 400, eb.text);
		return;
	}
	http_request_set_data(r, q, request_free);
	if (q->cursor) {
		http_job_run(r, make_profile);
		return;
	}
	q->from_ns = clock_boottime_ns(s->o.clock);
	q->to_ns = q->from_ns + (int64_t)q->seconds * NS_PER_S;
	end_ns = now_ns + (int64_t)q->seconds * NS_PER_S;
	q->give_up_ns = end_ns + STALL_NS;
	http_job_set_deadline(r, q->give_up_ns + 60 * NS_PER_S);
	http_job_run_at(r, end_ns + DRAIN_WAIT_NS, finish_window);
}
