/* SPDX-License-Identifier: Apache-2.0
 *
 * The scrape stage as a whole, against an HTTP server of lib/net/server that plays an exporter, a Go program and every kind of bad target, with a
 * sink that records what a store would get.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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
	int64_t total, lost_ns, duration_ns, time_ns;
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

	/* the fake exporter: a clock of slots that the test moves */
	_Atomic int slot, oldest, n_asks;
	char start_id[16];
	char asked[16][64];
	_Atomic int mode;
	_Atomic int64_t allocs, skew_ns; /* by which its clock is ahead */
};

/* ---- profiles ---- */

static void put_sample(struct prof_builder *b, const char *name, int64_t value, size_t n_types,
	const char *key, const char *text)
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

static void make_cpu(
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

static void make_allocs(struct bytes *out, int64_t time_ns, int64_t n)
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
	MODE_WRITE_TIMEOUT
};

static void reply_gzip(struct http_request *r, const struct bytes *raw, size_t cut)
{
	struct bytes gz;

	bytes_init(&gz, NULL, 0);
	assert_int_equal(gzip_deflate(raw->data, raw->len, 1, &gz, NULL), 0);
	gz.len -= cut;
	http_reply_bytes(r, 200, "application/octet-stream", &gz);
}

static void reply_slow(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_text(r, 200, "late");
}

static bool reply_bad(struct http_request *r, int mode, struct bytes *raw)
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

static void go_profile(struct http_request *r, void *arg)
{
	struct env *e = arg;
	_cleanup_bytes_ struct bytes raw = {0};

	bytes_init(&raw, NULL, 0);
	make_cpu(&raw, clock_realtime_ns(&clock_system) - NS_PER_S, NS_PER_S, 5,
		e->mode == MODE_BAD_UTF8 ? "\xff\xfe" : "app");
	if (!reply_bad(r, e->mode, &raw))
		reply_gzip(r, &raw, 0);
}

static void go_allocs(struct http_request *r, void *arg)
{
	struct env *e = arg;
	_cleanup_bytes_ struct bytes raw = {0};

	bytes_init(&raw, NULL, 0);
	make_allocs(&raw, clock_realtime_ns(&clock_system) + e->skew_ns, e->allocs);
	http_reply_bytes(r, 200, "application/octet-stream", &raw);
}

/* Slots of one second; a cursor names the next slot to give. Each slot holds one sample of value 1. */
static void node_profile(struct http_request *r, void *arg)
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

static int sink_append(
	void *arg, const struct store_scrape *s, struct store_result *ret, struct errbuf *eb)
{
	struct env *e = arg;
	struct record *rec = &e->records[MIN(e->n_records, (size_t)MAX_RECORDS - 1)];
	_cleanup_bytes_ struct bytes text = {0};

	(void)ret;
	pthread_mutex_lock(&e->lock);
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

static int sink_cursor_get(void *arg, struct store_blob key, struct bytes *ret)
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

static void env_start(struct env *e)
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

static struct env *env_new(void)
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

static void env_apply(struct env *e, const char *job)
{
	_cleanup_free_ char *text =
		xasprintf("global:\n  scrape_interval: 250ms\n  scrape_timeout: "
			  "200ms\nscrape_configs:\n- job_name: j\n"
			  "  static_configs:\n  - targets: ['%s']\n%s",
			e->address, job);
	struct errbuf eb = {0};

	config_putp(&e->config);
	e->config = NULL;
	if (config_parse("test.yml", text, strlen(text), NULL, &e->config, &eb) < 0)
		fail_msg("%s", eb.text);
	scrape_apply(e->scrape, e->config);
	discover_apply(e->discover, e->config);
}

static void env_free(struct env *e)
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

static size_t n_records(struct env *e)
{
	size_t n;

	pthread_mutex_lock(&e->lock);
	n = e->n_records;
	pthread_mutex_unlock(&e->lock);
	return n;
}

/* The i-th record that moved a cursor, or NULL; slots without news make records without one. */
static const struct record *find_moved(struct env *e, size_t i)
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
static const struct record *moved(struct env *e, size_t i)
{
	static const struct record none;
	const struct record *r = find_moved(e, i);

	assert_non_null(r);
	return r ? r : &none;
}

static void step(struct env *e)
{
	int64_t now_ns = clock_monotonic_ns(&clock_system), next_ns = discover_run(e->discover);

	assert_int_equal(scrape_run(e->scrape, MIN(next_ns, now_ns + 20 * NS_PER_MS)), 0);
}

static void settle(struct env *e)
{
	/* the loop has to see what the sink has seen */
	for (int i = 0; i < 10; i++)
		assert_int_equal(
			scrape_run(e->scrape, clock_monotonic_ns(&clock_system) + 5 * NS_PER_MS),
			0);
}

/* Runs the loop until n records have come in all. */
static void run_until(struct env *e, size_t n)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + WAIT_MS * NS_PER_MS;

	for (; n_records(e) < n; step(e))
		if (clock_monotonic_ns(&clock_system) > end_ns)
			fail_msg("%zu records, expected %zu", n_records(e), n);
	settle(e);
}

/* The same until n cursors have moved; returns the last of them. */
static const struct record *run_until_moved(struct env *e, size_t n)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + WAIT_MS * NS_PER_MS;

	for (; !find_moved(e, n - 1); step(e))
		if (clock_monotonic_ns(&clock_system) > end_ns)
			fail_msg("fewer than %zu records that move a cursor", n);
	settle(e);
	return moved(e, n - 1);
}

static void expect_status(
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

static bool has_status(struct env *e, enum scrape_health health, const char *error_part)
{
	struct scrape_status st;
	_cleanup_arena_ struct arena a = {0};

	arena_init(&a, NULL);
	assert_int_equal(scrape_status_get(e->scrape, &a, &st), 0);
	return st.n_active == 1 && st.targets[0].health == health &&
	       strstr(st.targets[0].last_error, error_part);
}

/* Runs the loop until the target has this status; a slot that was under way when the target changed may end with the one before. */
static void run_until_status(
	struct env *e, enum scrape_health health, const char *error_part, const char *preset)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + WAIT_MS * NS_PER_MS;

	while (!has_status(e, health, error_part) && clock_monotonic_ns(&clock_system) < end_ns)
		step(e);
	expect_status(e, health, error_part, preset);
}

/* ---- tests ---- */

static void test_cursor(void **state)
{
	struct env *e = env_new();
	const struct record *rec;
	bool seen_quiet = false;

	(void)state;
	env_apply(e, "  profiling_config: {path_prefix: /node, pprof_config: {offcpu: {enabled: "
		     "false}}}\n");
	rec = run_until_moved(e, 1);
	assert_string_equal(e->asked[0], "");
	assert_string_equal(rec->after, "aaaa.10");
	assert_int_equal(rec->total, 1);
	assert_int_equal(rec->up, 1);
	assert_int_equal(rec->n_coverage, 1);
	assert_int_equal(rec->n_cpus, 12);
	/* what the exporter said of itself; totals need a second answer */
	assert_true(rec->overhead == 0.0025);
	assert_true(rec->taken == -1 && rec->dropped == -1);
	/* comm is a series label of a node by default */
	assert_non_null(strstr(rec->stream, "comm=\"postgres\""));
	assert_non_null(strstr(rec->stream, "service_name=\"postgres\""));
	expect_status(e, SCRAPE_UP, "", "node");
	/* three seconds behind: asked again at once until level, gauges once at the end */
	e->slot = 13;
	rec = run_until_moved(e, 4);
	assert_string_equal(moved(e, 1)->before, "aaaa.10");
	assert_string_equal(rec->after, "aaaa.13");
	assert_int_equal(moved(e, 1)->up, -1);
	assert_int_equal(moved(e, 2)->up, -1);
	assert_int_equal(rec->up, 1);
	assert_true(moved(e, 1)->taken == -1 && moved(e, 2)->taken == -1);
	assert_true(rec->taken == 6 && rec->dropped == 0);
	/* nothing new: alive, but no coverage and no rows */
	run_until(e, n_records(e) + 2);
	for (size_t i = 0; i < e->n_records; i++)
		seen_quiet |= !e->records[i].after[0] && !e->records[i].n_coverage &&
			      !e->records[i].n_streams && e->records[i].up == 1;
	assert_true(seen_quiet);
	/* the exporter starts anew: from its oldest slot, nothing stored under the new id yet */
	pthread_mutex_lock(&e->lock);
	e->slot = 2;
	snprintf(e->start_id, sizeof(e->start_id), "bbbb");
	pthread_mutex_unlock(&e->lock);
	run_until_moved(e, 6);
	assert_string_equal(moved(e, 4)->before, "");
	assert_string_equal(moved(e, 5)->after, "bbbb.2");
	/* totals that fell are those of the new start */
	assert_true(moved(e, 5)->taken == 4 && moved(e, 5)->dropped == 1);
	/* slots that are gone are counted as lost */
	pthread_mutex_lock(&e->lock);
	e->oldest = 20;
	e->slot = 21;
	pthread_mutex_unlock(&e->lock);
	rec = run_until_moved(e, 7);
	assert_int_equal(rec->lost_ns, 3 * NS_PER_S);
	assert_true(rec->lost == 3 && rec->watched == 1);
	env_free(e);
}

/* A scraper that was killed: the first, empty ask overlaps what is stored, so its answer is not stored again. */
static void test_known_exporter(void **state)
{
	struct env *e = env_new();

	(void)state;
	e->n_key = sizeof("j\0aaaa\0process_cpu\0") - 1;
	memcpy(e->cursor_key, "j\0aaaa\0process_cpu\0", e->n_key);
	snprintf(e->cursor, sizeof(e->cursor), "aaaa.7");
	env_apply(e, "  profiling_config: {path_prefix: /node, pprof_config: {offcpu: {enabled: "
		     "false}}}\n");
	run_until_moved(e, 3);
	assert_string_equal(e->asked[0], "");
	assert_string_equal(e->asked[1], "aaaa.7");
	assert_string_equal(moved(e, 0)->before, "aaaa.7");
	assert_string_equal(moved(e, 0)->after, "aaaa.8");
	assert_string_equal(moved(e, 2)->after, "aaaa.10");
	assert_int_equal(moved(e, 0)->total + moved(e, 1)->total + moved(e, 2)->total, 3);
	env_free(e);
}

static void test_go(void **state)
{
	struct env *e = env_new();
	size_t seen = 0, steps = 0;

	(void)state;
	env_apply(e, "  profiling_config: {pprof_config: {mutex: {enabled: false}, block: "
		     "{enabled: false}, goroutine: {enabled: false}}}\n");
	run_until(e, 1);
	expect_status(e, SCRAPE_UP, "", "go");
	assert_int_equal(e->records[0].total, 5);
	assert_non_null(strstr(e->records[0].stream, "service_name=\"j\""));
	/* the next slots ask for memory too: first nothing to subtract from, then a difference, then a reset */
	run_until(e, 3);
	e->allocs = 130;
	run_until(e, 5);
	e->allocs = 10;
	run_until(e, 7);
	/* its clock is set ahead, and back: neither lasts a day */
	e->allocs = 50;
	e->skew_ns = 86400 * NS_PER_S;
	run_until(e, 9);
	e->allocs = 120;
	e->skew_ns = 0;
	run_until(e, 11);
	for (size_t i = 0; i < e->n_records; i++) {
		const struct record *rec = &e->records[i];

		if (!strstr(rec->stream, "__name__=\"memory\""))
			continue;
		if (seen == 0)
			assert_int_equal(rec->total, 0); /* in-use columns only */
		if (rec->total == 30 || rec->total == 10 || rec->total == 40 || rec->total == 70)
			assert_in_range(rec->duration_ns, 1, 600 * NS_PER_S);
		steps += rec->total == 40 || rec->total == 70;
		seen++;
	}
	assert_true(seen >= 2);
	assert_int_equal(steps, 2);
	env_free(e);
}

static void test_bad_targets(void **state)
{
	static const struct {
		int mode;
		const char *error, *reason;
	} cases[] = {
		{MODE_404, "server returned HTTP status 404: 404 page not found", "http_status"},
		{MODE_BUSY,
			"server returned HTTP status 500: Could not enable CPU profiling: cpu "
			"profiling already in use (another tool or the program itself is taking a "
			"CPU profile; a Go program gives one at a time)",
			"http_status"},
		{MODE_WRITE_TIMEOUT,
			"status 400: profile duration exceeds server's WriteTimeout (set seconds "
			"of "
			"this type below the WriteTimeout",
			"http_status"},
		{MODE_HTML, "the answer is an HTML or XML page, not a pprof profile", "content"},
		{MODE_JSON, "the answer is JSON, not a pprof profile", "content"},
		{MODE_EMPTY, "empty answer (0 bytes)", "empty"},
		{MODE_TRUNCATED, "gzip: truncated", "gzip"},
		{MODE_BOMB, "decompressed body over its limit", "inflated_size"},
		{MODE_GARBAGE, "not a valid pprof profile", "pprof"},
		{MODE_BIG, "body larger than 1048576 bytes as sent", "body_size"},
		{MODE_SLOW, "timed out after 1s200ms while waiting for the answer", "timeout"},
		{MODE_BAD_UTF8, "the value of a label (string 7) is not UTF-8", "pprof"},
	};
	struct env *e = env_new();
	size_t n;

	(void)state;
	e->mode = cases[0].mode;
	env_apply(e, "  profiling_config: {pprof_config: {memory: "
		     "{enabled: false}, mutex: {enabled: false}, block: {enabled: false}, "
		     "goroutine: {enabled: false}}}\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes page = {0};
		_cleanup_free_ char *counter = xasprintf(
			"sonde_scrape_failures_total{job=\"j\",reason=\"%s\"}", cases[i].reason);

		e->mode = cases[i].mode;
		run_until_status(e, SCRAPE_DOWN, cases[i].error, "auto");
		n = n_records(e);
		assert_in_range(n, 1, MAX_RECORDS);
		assert_int_equal(e->records[n - 1].up, 0);
		assert_int_equal(e->records[n - 1].n_streams, 0);
		bytes_init(&page, NULL, 0);
		metrics_print(e->metrics, &page);
		bytes_put_u8(&page, 0);
		if (!strstr((const char *)page.data, counter))
			fail_msg("no %s", counter);
	}
	e->mode = MODE_OK;
	run_until_status(e, SCRAPE_UP, "", NULL);
	env_free(e);
}

static void test_reload(void **state)
{
	struct env *e = env_new();
	struct scrape_status st;
	_cleanup_arena_ struct arena a = {0};
	size_t n;

	(void)state;
	env_apply(e, "  profiling_config: {path_prefix: /node, pprof_config: {offcpu: {enabled: "
		     "false}}}\n");
	run_until_moved(e, 1);
	/* the same job under another configuration keeps its target, cursor and preset */
	env_apply(e, "  profiling_config: {path_prefix: /node, pprof_config: {offcpu: {enabled: "
		     "false}}}\n- job_name: other\n");
	e->slot = 11;
	assert_string_equal(run_until_moved(e, 2)->before, "aaaa.10");
	expect_status(e, SCRAPE_UP, "", "node");
	/* a dropped target shows as such, nothing is scraped any more */
	env_apply(e,
		"  relabel_configs: [{action: drop, source_labels: [__address__], regex: '.*'}]\n");
	for (int i = 0; i < 30; i++) {
		discover_run(e->discover);
		assert_int_equal(
			scrape_run(e->scrape, clock_monotonic_ns(&clock_system) + 10 * NS_PER_MS),
			0);
	}
	n = n_records(e);
	arena_init(&a, NULL);
	assert_int_equal(scrape_status_get(e->scrape, &a, &st), 0);
	assert_int_equal(st.n_active, 0);
	assert_int_equal(st.n_targets, 1);
	assert_true(st.targets[0].dropped);
	assert_string_equal(labels_get(&st.targets[0].discovered, "__address__"), e->address);
	for (int i = 0; i < 60; i++)
		assert_int_equal(
			scrape_run(e->scrape, clock_monotonic_ns(&clock_system) + 10 * NS_PER_MS),
			0);
	assert_int_equal(n_records(e), n);
	env_free(e);
}

static void test_target_limit(void **state)
{
	struct env *e = env_new();

	(void)state;
	env_apply(e, "  target_limit: 1\n  relabel_configs: [{target_label: x, replacement: y}]\n  "
		     "profiling_config: {path_prefix: /node}\n");
	run_until(e, 1);
	assert_int_equal(e->records[0].up, 1);
	env_free(e);
	e = env_new();
	env_apply(e, "  - {targets: ['127.0.0.1:1'], labels: {a: b}}\n  target_limit: 1\n");
	run_until(e, 2);
	assert_int_equal(e->records[0].up, 0);
	assert_int_equal(e->records[1].up, 0);
	env_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_known_exporter),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_bad_targets),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_target_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
