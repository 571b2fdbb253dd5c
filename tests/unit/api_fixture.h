/* SPDX-License-Identifier: Apache-2.0
 *
 * The API over real HTTP on loopback, with fake parts and a fake store behind it, and a client of a few lines.
 */
#pragma once
#include "lib/base/alloc.h"
#include "lib/gzip/gzip.h"
#include "lib/json/read.h"
#include "lib/prof/profile.h"
#include "scraper/api/api.h"
#include "scraper/store/store.h"
#include "tests/unit/fake_part.h"
#include <netinet/in.h>
#include <sys/socket.h>

/* ---- a fake store ---- */

struct store {
	int n_taken;
};

int store_parts_get(struct store *s, int64_t from, int64_t to, struct store_parts *ret)
{
	(void)from;
	(void)to;
	__atomic_add_fetch(&s->n_taken, 1, __ATOMIC_SEQ_CST);
	*ret = (struct store_parts) {.items = fakes, .n = n_fakes};
	return 0;
}

void store_parts_put(struct store *s, struct store_parts *parts)
{
	__atomic_sub_fetch(&s->n_taken, 1, __ATOMIC_SEQ_CST);
	*parts = (struct store_parts) {};
}

void store_stats(struct store *s, struct store_stats *ret)
{
	(void)s;
	*ret = (struct store_stats) {
		.head_streams = 7, .head_pages = 5, .min_time_ns = 1, .max_time_ns = 2};
}

/* The admin API is tests/e2e/test_admin.py's. */
int store_each_quarantined(
	struct store *s, void (*fn)(void *arg, const char *name, const char *reason), void *arg)
{
	(void)s;
	fn(arg, "01NAME", "why <so>");
	return 0;
}

void store_each_lost(struct store *s, int64_t from_ns, int64_t to_ns,
	void (*fn)(void *arg, const char *name, int64_t min_ns, int64_t max_ns), void *arg)
{
	(void)s;
	(void)from_ns;
	(void)to_ns;
	(void)fn;
	(void)arg;
}

void store_each_block(
	struct store *s, void (*fn)(void *arg, const struct store_block_info *b), void *arg)
{
	(void)s;
	fn(arg, &(struct store_block_info) {
			.ulid = "01BLOCK", .level = 2, .bytes = 4096, .rows = 7});
}

int store_snapshot(
	struct store *s, bool with_head, char name[STORE_SNAPSHOT_NAME], struct errbuf *eb)
{
	(void)s;
	(void)with_head;
	(void)name;
	return err_set(eb, -EIO, "no snapshot");
}

int store_clean_tombstones(struct store *s, struct errbuf *eb)
{
	(void)s;
	return err_set(eb, -EIO, "no cleaning");
}

int store_delete(struct store *s, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, uint64_t *ret_n, struct errbuf *eb)
{
	(void)s;
	(void)m;
	(void)n;
	(void)min_ns;
	(void)max_ns;
	*ret_n = 0;
	return err_set(eb, -EIO, "no deletion");
}

/* Keeps what it was given last; refuses the times 1 and 2. */
static struct {
	size_t n_streams, n_rows;
	int64_t time_ns;
	char labels[256];
} imported;

int store_import(struct store *s, const struct store_scrape *scrapes, size_t n,
	struct store_result *ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes text = {};

	(void)s;
	*ret = (struct store_result) {};
	if (n != 1 || scrapes->time_ns == 1)
		return err_set(eb, -ERANGE, "timestamp: too old");
	if (scrapes->time_ns == 2)
		return err_set(eb, -EEXIST, "other content");
	labels_print(scrapes->streams[0], &text);
	bytes_put_u8(&text, 0);
	snprintf(imported.labels, sizeof(imported.labels), "%s", (const char *)text.data);
	imported.n_streams = scrapes->n_streams;
	imported.n_rows = scrapes->n_rows;
	imported.time_ns = scrapes->time_ns;
	ret->n_streams = (uint32_t)scrapes->n_streams;
	ret->n_rows = (uint32_t)scrapes->n_rows;
	return 0;
}

/* ---- the server under test ---- */

static const char evil[] = "<script>alert(1)</script>\"'&";

struct fixture {
	struct store store;
	struct api *api;
	struct metrics *metrics;
	struct budget budget, cache;
	struct clock_virtual clock;
	struct http_server *server;
	int port;
	bool ready;
	int n_reloads, n_quits;
};

static void each_target(void *arg, api_target_fn *fn, void *ctx)
{
	static struct label discovered[] = {{"__address__", "a:1"}, {"__meta_x", evil}};
	static struct label labels[] = {{"instance", "a:1"}, {"job", evil}};
	static const struct labels d = {discovered, 2, NULL}, l = {labels, 2, NULL};
	const struct api_target_profile profile = {.name = "process_cpu",
		.url = "http://a:1/debug/pprof/profile",
		.last_error = "",
		.health = API_UP,
		.last_scrape_ns = 1700000000000000000};
	const struct api_target up = {.discovered = &d,
		.labels = &l,
		.pool = "job1",
		.url = "http://a:1/",
		.last_error = "",
		.health = API_UP,
		.last_scrape_ns = 1700000000000000000,
		.last_duration_ns = 5000000,
		.interval_ms = 15000,
		.timeout_ms = 10000,
		.profiles = &profile,
		.n_profiles = 1};
	const struct api_target down = {.discovered = &d,
		.labels = &l,
		.pool = "job2",
		.url = "http://b:1/",
		.last_error = evil,
		.health = API_DOWN,
		.interval_ms = 90000,
		.timeout_ms = 10000,
		.collapsed = "comm, pid"};
	const struct api_target dropped = {.discovered = &d, .pool = "job2", .dropped = true};

	(void)arg;
	fn(&up, ctx);
	fn(&down, ctx);
	fn(&dropped, ctx);
}

static void each_pool(void *arg, void (*fn)(const char *, uint64_t, void *), void *ctx)
{
	(void)arg;
	fn("job1", 0, ctx);
	fn("job2", 1, ctx);
}

static void config_yaml(void *arg, struct bytes *out)
{
	(void)arg;
	bytes_put_str(out, "scrape_configs: [] # <b>\n");
}

static bool is_ready(void *arg, char ret_reason[256])
{
	struct fixture *f = arg;

	snprintf(ret_reason, 256, "replaying");
	return f->ready;
}

static int reload(void *arg, struct errbuf *eb)
{
	struct fixture *f = arg;

	return ++f->n_reloads > 1 ? err_set(eb, -EINVAL, "bad.yml:1:2: no") : 0;
}

static void quit(void *arg)
{
	((struct fixture *)arg)->n_quits++;
}

/* Two parts; a profile of one second every second, a heap, `up`. */
static void records_for_api(void)
{
	n_records = 0;
	n_fakes = 2;
	for (int i = 0; i < 20; i++) {
		struct record *r = &records[n_records++];

		*r = (struct record) {.part = (unsigned)i / 10,
			.time = (1000 + i) * SEC,
			.duration = SEC,
			.gauge = 1,
			.kind = i % 5 == 4 ? STORE_GAUGE : STORE_DELTA};
		r->series.value[NAME] = r->kind == STORE_GAUGE ? "up" : "process_cpu";
		r->series.value[2] = i % 2 ? "api" : evil;
		if (r->kind == STORE_GAUGE)
			continue;
		r->n_rows = 2;
		r->rows = xcalloc(2, sizeof(*r->rows));
		for (int k = 0; k < 2; k++) {
			r->rows[k].depth = 2;
			r->rows[k].stack[0] = 1;
			r->rows[k].stack[1] = (uint8_t)(2 + k);
			r->rows[k].value[0] = 1;
			r->rows[k].value[1] = 10000000;
		}
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
}

static const struct api_flag flags[] = {{"web.listen-address", "127.0.0.1:0"}};

static int setup_server(
	void **state, uint64_t cache_bytes, uint64_t query_bytes, uint32_t job_timeout_ms)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct api_options o = {.clock = &f->clock.clock,
		.budget = &f->budget,
		.cache_budget = &f->cache,
		.max_query_bytes = query_bytes,
		.flags = flags,
		.n_flags = 1,
		.enable_lifecycle = true,
		.version = "1.2.3"};
	const char *listen = "127.0.0.1:0";
	struct http_server_options so = {.listen = &listen,
		.n_listen = 1,
		.n_workers = 2,
		.job_timeout_ms = job_timeout_ms,
		.refuse = api_refuse,
		.clock = &clock_system};
	const struct http_route *routes;
	struct errbuf eb = {};
	size_t n;

	records_for_api();
	f->ready = true;
	clock_virtual_init(&f->clock, 1020 * SEC);
	budget_init(&f->budget, NULL, "query", "--query.max-memory", 64 << 20);
	budget_init(&f->cache, NULL, "query_cache", "--query.cache-bytes", cache_bytes);
	f->metrics = metrics_new();
	o.metrics = so.metrics = f->metrics;
	o.callbacks = (struct api_callbacks) {.arg = f,
		.each_target = each_target,
		.each_pool = each_pool,
		.config_yaml = config_yaml,
		.ready = is_ready,
		.reload = reload,
		.quit = quit};
	assert_int_equal(api_new(&o, &f->api, &eb), 0);
	api_set_store(f->api, &f->store);
	routes = api_routes(f->api, &n);
	if (http_server_open(&so, routes, n, f->api, &f->server, &eb) < 0)
		fail_msg("%s", eb.text);
	assert_int_equal(http_server_start(f->server, &eb), 0);
	assert_int_equal(sscanf(http_server_address(f->server, 0), "127.0.0.1:%d", &f->port), 1);
	*state = f;
	return 0;
}

static int setup_with(void **state, uint64_t cache_bytes, uint64_t query_bytes)
{
	return setup_server(state, cache_bytes, query_bytes, 0);
}

static int setup(void **state)
{
	return setup_with(state, 0, 0);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	fake_is_slow = false;
	http_server_stop(f->server, 1000);
	http_server_freep(&f->server);
	assert_int_equal(f->store.n_taken, 0); /* every query gave its parts back */
	assert_int_equal(f->budget.used_bytes, 0);
	api_freep(&f->api);
	assert_int_equal(f->cache.used_bytes, 0);
	metrics_freep(&f->metrics);
	for (size_t i = 0; i < n_records; i++)
		free(records[i].rows);
	for (unsigned i = 0; i < n_fakes; i++)
		free(fakes[i]);
	free(f);
	return 0;
}

/* ---- a client of a few lines ---- */

struct answer {
	unsigned status;
	char *head;
	struct bytes body;
};

static void answer_done(struct answer *a)
{
	free(a->head);
	bytes_done(&a->body);
}

#define _cleanup_answer_ _cleanup_(answer_done)

static void write_request(struct fixture *f, int fd, const char *method, const char *path,
	const char *header, const void *body, size_t n_body)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)f->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_free_ char *request =
		xasprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
			  "%sContent-Length: %zu\r\n\r\n",
			method, path, f->port, header, n_body);

	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	if (n_body)
		assert_int_equal(write(fd, body, n_body), n_body);
}

static struct answer read_answer(int fd)
{
	struct answer a = {};
	struct bytes all = {};
	char *end;
	ssize_t n;

	while ((n = read(fd, bytes_reserve(&all, 65536), 65536)) > 0)
		all.len += (size_t)n;
	bytes_put_u8(&all, 0);
	end = strstr((char *)all.data, "\r\n\r\n");
	assert_non_null(end);
	assert_int_equal(sscanf((char *)all.data, "HTTP/1.1 %u", &a.status), 1);
	a.head = xstrndup((char *)all.data, (size_t)(end - (char *)all.data));
	bytes_put(&a.body, end + 4, all.len - 1 - (size_t)(end + 4 - (char *)all.data));
	bytes_put_u8(&a.body, 0);
	a.body.len--;
	bytes_done(&all);
	return a;
}

static struct answer send_body(struct fixture *f, const char *method, const char *path,
	const char *header, const void *body, size_t n_body)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	write_request(f, fd, method, path, header, body, n_body);
	return read_answer(fd);
}

static struct answer ask(struct fixture *f, const char *method, const char *path)
{
	return send_body(f, method, path, "", NULL, 0);
}

static bool has(const struct answer *a, const char *text)
{
	return memmem(a->body.data, a->body.len, text, strlen(text)) != NULL;
}
