/* SPDX-License-Identifier: Apache-2.0
 *
 * The scrape stage against an HTTP server of lib/net/server that plays an exporter, a Go program and every kind of bad target, with a sink
 * that records what a store would get and answers what the test wants.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the three above first. */
#include <cmocka.h>
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/gzip/gzip.h"
#include "lib/net/server/server.h"
#include "scraper/config/config.h"
#include "scraper/discover/discover.h"
#include "scraper/scrape/scrape.h"
#include <pthread.h>
#include <string.h>

enum { MAX_RECORDS = 256, WAIT_MS = 60000 /* a machine may be slow */ };

/* What the sink keeps of one record. */
struct record {
	char cursor_key[256], before[64], after[64];
	size_t n_streams, n_rows, n_coverage;
	uint32_t n_cpus;
	int64_t total, lost_ns, covered_ns, duration_ns, time_ns;
	char stream[1024];				/* of stream 0, printed */
	int up;						/* −1: not reported */
	double overhead, taken, dropped, watched, lost; /* the same */
	char gauges[512];
};

struct env {
	struct http_server *server;
	struct metrics *metrics;
	struct budget budget;
	struct scrape *scrape;
	struct discover *discover;
	struct config *config;
	char address[64];

	pthread_mutex_t lock;
	struct record records[MAX_RECORDS];
	size_t n_records;
	char cursor_key[256], cursor[64]; /* what is stored durably, the last key only */
	size_t n_key;
	/* what it answers to a record with streams; `refusal`: the text */
	int answer;
	const char *refusal;
	struct store_result stored;

	/* the fake exporter: a clock of slots that the test moves */
	_Atomic int slot, oldest, n_asks;
	char start_id[16];
	char asked[16][64];
	_Atomic int mode;
	_Atomic int64_t allocs, skew_ns; /* by which its clock is ahead */
};

/* ---- profiles ---- */

static inline void put_sample(struct prof_builder *b, const char *name, int64_t value,
	size_t n_types, const char *key, const char *text)
{
	struct prof_function f = {.name = prof_builder_string(b, name, strlen(name))};
	struct prof_line line = {.function = prof_builder_function(b, &f), .line = 7};
	uint32_t location =
		prof_builder_location(b, 0x1000 + (uint64_t)name[0], PROF_NONE, &line, 1);
	int64_t values[4] = {value, value * 10, value * 100, value * 1000};
	struct prof_label label = {.key = prof_builder_string(b, key, strlen(key)),
		.str = prof_builder_string(b, text, strlen(text))};

	(void)n_types;
	prof_builder_sample(b, &location, 1, values, &label, *key ? 1 : 0, 0);
}

static inline void make_cpu(
	struct bytes *out, int64_t time_ns, int64_t duration_ns, int64_t value, const char *comm)
{
	_cleanup_profile_ struct profile p;
	_cleanup_(prof_builder_freep)
	struct prof_builder *b = NULL;

	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	if (value)
		put_sample(b, "work", value, 2, "comm", comm);
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	p.time_ns = time_ns;
	p.duration_ns = duration_ns;
	assert_int_equal(prof_encode(&p, out), 0);
}

static inline void make_allocs(struct bytes *out, int64_t time_ns, int64_t n)
{
	_cleanup_profile_ struct profile p;
	_cleanup_(prof_builder_freep)
	struct prof_builder *b = NULL;

	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "alloc_objects", "count");
	prof_builder_type(b, "alloc_space", "bytes");
	prof_builder_type(b, "inuse_objects", "count");
	prof_builder_type(b, "inuse_space", "bytes");
	put_sample(b, "alloc", n, 4, "", "");
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	p.time_ns = time_ns;
	assert_int_equal(prof_encode(&p, out), 0);
}

/* ---- targets ---- */

enum {
	MODE_OK,
	MODE_404,
	MODE_HTML,
	MODE_EMPTY,
	MODE_TRUNCATED,
	MODE_BOMB,
	MODE_GARBAGE,
	MODE_BIG,
	MODE_SLOW,
	MODE_JSON,
	MODE_BAD_UTF8,
	MODE_BUSY,
	MODE_WRITE_TIMEOUT,
	MODE_NO_WINDOW, /* a CPU profile that says neither when it was taken nor how long it took */
};

static inline void reply_gzip(struct http_request *r, const struct bytes *raw, size_t cut)
{
	struct bytes gz;

	bytes_init(&gz, NULL, 0);
	assert_int_equal(gzip_deflate(raw->data, raw->len, 1, &gz, NULL), 0);
	gz.len -= cut;
	http_reply_bytes(r, 200, "application/octet-stream", &gz);
}

static inline void reply_slow(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_text(r, 200, "late");
}

static inline bool reply_bad(struct http_request *r, int mode, struct bytes *raw)
{
	static const char html[] = "<!DOCTYPE html><html><body>Sign in</body></html>";
	static const char json[] = "{\"status\":\"ok\"}";

	switch (mode) {
	case MODE_404: http_reply_text(r, 404, "404 page not found"); return true;
	/* as net/http/pprof says it */
	case MODE_BUSY:
		http_reply_text(
			r, 500, "Could not enable CPU profiling: cpu profiling already in use");
		return true;
	case MODE_WRITE_TIMEOUT:
		http_reply_text(r, 400, "profile duration exceeds server's WriteTimeout");
		return true;
	case MODE_HTML: http_reply_static(r, 200, "text/html", html, sizeof(html) - 1); return true;
	case MODE_JSON:
		http_reply_static(r, 200, "application/json", json, sizeof(json) - 1);
		return true;
	case MODE_EMPTY: http_reply_static(r, 200, "application/octet-stream", "", 0); return true;
	case MODE_GARBAGE:
		http_reply_static(
			r, 200, "application/octet-stream", "\x0a\xff\xff\xff\xff\xff\xff", 7);
		return true;
	case MODE_TRUNCATED: reply_gzip(r, raw, 9); return true;
	case MODE_BOMB:
		bytes_reset(raw);
		memset(bytes_reserve(raw, 4 << 20), 0, 4 << 20);
		raw->len = 4 << 20;
		reply_gzip(r, raw, 0);
		return true;
	case MODE_BIG:
		bytes_reset(raw);
		memset(bytes_reserve(raw, 2 << 20), 1, 2 << 20);
		raw->len = 2 << 20;
		http_reply_bytes(r, 200, "application/octet-stream", raw);
		return true;
	case MODE_SLOW:
		http_job_run_at(r, clock_monotonic_ns(&clock_system) + 60 * NS_PER_S, reply_slow);
		return true;
	default: return false;
	}
}

static inline void go_profile(struct http_request *r, void *arg)
{
	struct env *e = arg;
	_cleanup_bytes_ struct bytes raw = {0};

	bytes_init(&raw, NULL, 0);
	if (e->mode == MODE_NO_WINDOW)
		make_cpu(&raw, 0, 0, 5, "app");
	else
		make_cpu(&raw, clock_realtime_ns(&clock_system) - NS_PER_S, NS_PER_S, 5,
			e->mode == MODE_BAD_UTF8 ? "\xff\xfe" : "app");
	if (!reply_bad(r, e->mode, &raw))
		reply_gzip(r, &raw, 0);
}

static inline void go_allocs(struct http_request *r, void *arg)
{
	struct env *e = arg;
	_cleanup_bytes_ struct bytes raw = {0};

	bytes_init(&raw, NULL, 0);
	make_allocs(&raw, clock_realtime_ns(&clock_system) + e->skew_ns, e->allocs);
	http_reply_bytes(r, 200, "application/octet-stream", &raw);
}

/* Slots of one second; a cursor names the next slot to give. Each slot holds one sample of value 1. */
static inline void node_profile(struct http_request *r, void *arg)
{
	struct env *e = arg;
	const char *since = http_request_param(r, "since"),
		   *dot = since ? strrchr(since, '.') : NULL;
	int span = atoi(http_request_param(r, "span")), first, last;
	char cursor[64], behind[32], health[128];
	_cleanup_bytes_ struct bytes raw = {0};

	pthread_mutex_lock(&e->lock);
	snprintf(e->asked[e->n_asks++ % 16], 64, "%s", since);
	first = !*since ? MAX(e->slot - span, e->oldest) : atoi(dot + 1);
	if (*since && (strncmp(since, e->start_id, strlen(e->start_id)) ||
			      since[strlen(e->start_id)] != '.')) {
		http_reply_header(r, "Sonde-Restarted", "1");
		first = e->oldest;
	}
	if (first < e->oldest) {
		http_reply_header(r, "Sonde-Lost-Seconds", "3");
		first = e->oldest;
	}
	last = MIN(e->slot, first + span);
	snprintf(cursor, sizeof(cursor), "%s.%d", e->start_id, last);
	snprintf(behind, sizeof(behind), "%d", e->slot - last);
	/* Two samples a slot, of which one in all was lost; the last name is of a newer exporter. */
	snprintf(health, sizeof(health),
		"overhead=0.0025, cpus=12, samples=%d, ring_full=%d, news=1", 2 * last, last > 0);
	pthread_mutex_unlock(&e->lock);
	http_reply_header(r, "Sonde-Exporter", "0.1");
	http_reply_header(r, "Sonde-Types", "process_cpu=profile, offcpu=offcpu");
	http_reply_header(r, "Sonde-Labels", "rack");
	http_reply_header(r, "Sonde-Health", health);
	http_reply_header(r, "Sonde-Cursor", cursor);
	http_reply_header(r, "Sonde-Behind-Seconds", behind);
	bytes_init(&raw, NULL, 0);
	make_cpu(&raw, clock_realtime_ns(&clock_system) - 1000 * NS_PER_S + first * NS_PER_S,
		(last - first) * NS_PER_S, last - first, "postgres");
	reply_gzip(r, &raw, 0);
}

static const struct http_route routes[] = {
	{HTTP_GET, "/debug/pprof/profile", go_profile, 0, 0},
	{HTTP_GET, "/debug/pprof/allocs", go_allocs, 0, 0},
	{HTTP_GET, "/node/debug/pprof/profile", node_profile, 0, 0},
};

/* ---- sink ---- */

static inline int sink_append(
	void *arg, const struct store_scrape *s, struct store_result *ret, struct errbuf *eb)
{
	struct env *e = arg;
	struct record *rec = &e->records[MIN(e->n_records, (size_t)MAX_RECORDS - 1)];
	_cleanup_bytes_ struct bytes text = {0};

	pthread_mutex_lock(&e->lock);
	*ret = s->n_streams ? e->stored : (struct store_result) {.sequence = 1};
	if (s->n_streams && e->answer) {
		int r = err_set(eb, e->answer, "%s", e->refusal);

		pthread_mutex_unlock(&e->lock);
		return r;
	}
	if (s->cursor_key.len) {
		bool same = e->n_key == s->cursor_key.len &&
			    !memcmp(e->cursor_key, s->cursor_key.p, e->n_key);

		if ((same ? strlen(e->cursor) : 0) != s->cursor_before.len ||
			(same && memcmp(e->cursor, s->cursor_before.p, s->cursor_before.len))) {
			pthread_mutex_unlock(&e->lock);
			return err_set(eb, -ESTALE, "cursor moved");
		}
		memcpy(e->cursor_key, s->cursor_key.p, s->cursor_key.len);
		e->n_key = s->cursor_key.len;
		memcpy(e->cursor, s->cursor_after.p, s->cursor_after.len);
		e->cursor[s->cursor_after.len] = 0;
	}
	*rec = (struct record) {.n_streams = s->n_streams,
		.n_rows = s->n_rows,
		.n_coverage = s->n_coverage,
		.up = -1,
		.taken = -1,
		.dropped = -1};
	rec->duration_ns = s->duration_ns;
	rec->time_ns = s->time_ns;
	if (s->n_coverage) {
		rec->lost_ns = s->coverage[0].lost_ns;
		rec->covered_ns = s->coverage[0].duration_ns;
		rec->n_cpus = s->coverage[0].n_cpus;
	}
	snprintf(rec->before, sizeof(rec->before), "%.*s", (int)s->cursor_before.len,
		s->cursor_before.len ? (const char *)s->cursor_before.p : "");
	snprintf(rec->after, sizeof(rec->after), "%.*s", (int)s->cursor_after.len,
		s->cursor_after.len ? (const char *)s->cursor_after.p : "");
	for (size_t i = 0; i < s->n_rows; i++)
		rec->total += s->values[i * s->n_columns];
	bytes_init(&text, NULL, 0);
	if (s->n_streams)
		labels_print(s->streams[0], &text);
	snprintf(rec->stream, sizeof(rec->stream), "%.*s", (int)text.len,
		text.len ? (const char *)text.data : "");
	for (size_t i = 0; i < s->n_gauges; i++) {
		const char *name = labels_get(s->gauges[i].labels, "__name__");

		if (!strcmp(name, "up"))
			rec->up = (int)s->gauges[i].value;
		if (!strcmp(name, "sonde_overhead_ratio"))
			rec->overhead = s->gauges[i].value;
		if (!strcmp(name, "sonde_scrape_watched_seconds"))
			rec->watched = s->gauges[i].value;
		if (!strcmp(name, "sonde_scrape_lost_seconds"))
			rec->lost = s->gauges[i].value;
		if (!strcmp(name, "sonde_samples_taken"))
			rec->taken = s->gauges[i].value;
		if (!strcmp(labels_get(s->gauges[i].labels, "reason"), "ring_full"))
			rec->dropped = s->gauges[i].value;
		snprintf(rec->gauges + strlen(rec->gauges),
			sizeof(rec->gauges) - strlen(rec->gauges), "%s ", name);
	}
	e->n_records++;
	pthread_mutex_unlock(&e->lock);
	return 0;
}

static inline int sink_cursor_get(void *arg, struct store_blob key, struct bytes *ret)
{
	struct env *e = arg;
	int r = -ENOENT;

	pthread_mutex_lock(&e->lock);
	if (e->n_key == key.len && !memcmp(e->cursor_key, key.p, key.len)) {
		bytes_put_str(ret, e->cursor);
		r = 0;
	}
	pthread_mutex_unlock(&e->lock);
	return r;
}

/* ---- running ---- */

static inline void env_start(struct env *e)
{
	static const char *const listen[] = {"127.0.0.1:0"};
	const struct http_server_options so = {.listen = listen, .n_listen = 1, .n_workers = 1};
	const struct scrape_options o = {
		.clock = &clock_system,
		.budget = &e->budget,
		.metrics = e->metrics,
		.sink = {.arg = e, .append = sink_append, .cursor_get = sink_cursor_get},
		.user_agent = "sonde/test",
		.host_name = "host",
		.max_body_bytes = 1 << 20,
		.max_inflated_bytes = 2 << 20,
		.n_decoders = 2,
	};
	struct errbuf eb = {0};

	assert_int_equal(http_server_open(&so, routes, ARRAY_SIZE(routes), e, &e->server, &eb), 0);
	assert_int_equal(http_server_start(e->server, &eb), 0);
	snprintf(e->address, sizeof(e->address), "%s", http_server_address(e->server, 0));
	assert_int_equal(scrape_new(&o, &e->scrape, &eb), 0);
	assert_int_equal(discover_new(&(struct discover_options) {.fs = &fs_system,
					      .clock = &clock_system,
					      .update = scrape_update,
					      .ctx = e->scrape,
					      .user_agent = "test"},
				 &e->discover, &eb),
		0);
	assert_int_equal(scrape_start(e->scrape, &eb), 0);
}

static inline struct env *env_new(void)
{
	struct env *e = xcalloc(1, sizeof(*e));

	pthread_mutex_init(&e->lock, NULL);
	e->metrics = metrics_new();
	budget_init(&e->budget, NULL, "scrape", "--scrape.max-memory", 64 << 20);
	snprintf(e->start_id, sizeof(e->start_id), "aaaa");
	e->slot = 10;
	e->allocs = 100;
	env_start(e);
	return e;
}

static inline void env_apply(struct env *e, const char *job)
{
	_cleanup_free_ char *text =
		xasprintf("global:\n  scrape_interval: 250ms\n  scrape_timeout: "
			  "200ms\nscrape_configs:\n- job_name: j\n"
			  "  static_configs:\n  - targets: ['%s']\n%s",
			e->address, job);
	struct errbuf eb = {0};

	config_putp(&e->config);
	e->config = NULL;
	if (config_parse(NULL, "test.yml", text, strlen(text), NULL, &e->config, &eb) < 0)
		fail_msg("%s", eb.text);
	scrape_apply(e->scrape, e->config);
	discover_apply(e->discover, e->config);
}

static inline void env_free(struct env *e)
{
	discover_free(e->discover);
	scrape_freep(&e->scrape);
	config_putp(&e->config);
	http_server_freep(&e->server);
	metrics_freep(&e->metrics);
	assert_int_equal(e->budget.used_bytes, 0);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static inline size_t n_records(struct env *e)
{
	size_t n;

	pthread_mutex_lock(&e->lock);
	n = e->n_records;
	pthread_mutex_unlock(&e->lock);
	return n;
}

/* The i-th record that moved a cursor, or NULL; slots without news make records without one. */
static inline const struct record *find_moved(struct env *e, size_t i)
{
	const struct record *found = NULL;

	pthread_mutex_lock(&e->lock);
	for (size_t k = 0; k < e->n_records && !found; k++)
		if (e->records[k].after[0] && i-- == 0)
			found = &e->records[k];
	pthread_mutex_unlock(&e->lock);
	return found;
}

/* The same, which must be there. */
static inline const struct record *moved(struct env *e, size_t i)
{
	static const struct record none;
	const struct record *r = find_moved(e, i);

	assert_non_null(r);
	return r ? r : &none;
}

static inline void step(struct env *e)
{
	int64_t now_ns = clock_monotonic_ns(&clock_system), next_ns = discover_run(e->discover);

	assert_int_equal(scrape_run(e->scrape, MIN(next_ns, now_ns + 20 * NS_PER_MS)), 0);
}

static inline void settle(struct env *e)
{
	/* the loop has to see what the sink has seen */
	for (int i = 0; i < 10; i++)
		assert_int_equal(
			scrape_run(e->scrape, clock_monotonic_ns(&clock_system) + 5 * NS_PER_MS),
			0);
}

/* Runs the loop until n records have come in all. */
static inline void run_until(struct env *e, size_t n)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + WAIT_MS * NS_PER_MS;

	for (; n_records(e) < n; step(e))
		if (clock_monotonic_ns(&clock_system) > end_ns)
			fail_msg("%zu records, expected %zu", n_records(e), n);
	settle(e);
}

/* The same until n cursors have moved; returns the last of them. */
static inline const struct record *run_until_moved(struct env *e, size_t n)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + WAIT_MS * NS_PER_MS;

	for (; !find_moved(e, n - 1); step(e))
		if (clock_monotonic_ns(&clock_system) > end_ns)
			fail_msg("fewer than %zu records that move a cursor", n);
	settle(e);
	return moved(e, n - 1);
}

static inline void expect_status(
	struct env *e, enum scrape_health health, const char *error_part, const char *preset)
{
	struct scrape_status st;
	_cleanup_arena_ struct arena a = {0};

	arena_init(&a, NULL);
	assert_int_equal(scrape_status_get(e->scrape, &a, &st), 0);
	assert_int_equal(st.n_active, 1);
	assert_int_equal(st.targets[0].health, health);
	if (!strstr(st.targets[0].last_error, error_part) ||
		(!*error_part && *st.targets[0].last_error))
		fail_msg("lastError \"%s\", expected \"%s\"", st.targets[0].last_error, error_part);
	if (preset)
		assert_string_equal(st.targets[0].preset, preset);
}

static inline bool has_status(struct env *e, enum scrape_health health, const char *error_part)
{
	struct scrape_status st;
	_cleanup_arena_ struct arena a = {0};

	arena_init(&a, NULL);
	assert_int_equal(scrape_status_get(e->scrape, &a, &st), 0);
	return st.n_active == 1 && st.targets[0].health == health &&
	       strstr(st.targets[0].last_error, error_part);
}

/* Runs the loop until the target has this status; a slot that was under way when the target changed may end with the one before. */
static inline void run_until_status(
	struct env *e, enum scrape_health health, const char *error_part, const char *preset)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + WAIT_MS * NS_PER_MS;

	while (!has_status(e, health, error_part) && clock_monotonic_ns(&clock_system) < end_ns)
		step(e);
	expect_status(e, health, error_part, preset);
}
