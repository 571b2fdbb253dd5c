/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server against our client and against raw sockets that misbehave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/net/client/client.h"
#include "lib/net/server/impl.h"
#include "lib/base/alloc.h"
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/un.h>

struct env {
	struct http_server *server;
	struct metrics *metrics;
	struct budget budget;
	char url[96], unix_path[64];
	_Atomic int n_cancelled, n_freed, n_running;
	_Atomic bool released;
};

/* ---- handlers ---- */

static void echo(struct http_request *r, void *arg)
{
	const struct url_params *p = http_request_params(r);
	_cleanup_bytes_ struct bytes out = {0};
	size_t n;

	(void)arg;
	bytes_printf(&out, "%s %s", r->method, http_request_path(r));
	for (size_t i = 0; http_request_wildcard(r, i); i++)
		bytes_printf(&out, " *%s", http_request_wildcard(r, i));
	for (size_t i = 0; i < p->n; i++)
		bytes_printf(&out, " %s=%s", p->items[i].name, p->items[i].value);
	(void)http_request_body(r, &n);
	bytes_printf(&out, " body=%zu", n);
	http_reply_bytes(r, 200, "text/plain", &out);
}

static void large(struct http_request *r, void *arg)
{
	struct env *e = arg;
	struct bytes out;

	bytes_init(&out, &e->budget, 0);
	for (int i = 0; i < 400000; i++)
		bytes_printf(&out, "line %07d\n", i);
	http_reply_bytes(r, 200,
		http_request_param(r, "bin") ? "application/octet-stream" : "text/plain", &out);
}

static void count_free(void *data)
{
	struct env *e = data;

	e->n_freed++;
}

static void late(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_text(r, 200, "late");
}

static void wait_a_while(struct http_request *r, void *arg)
{
	int64_t ms = atoi(http_request_param(r, "ms"));

	http_request_set_data(r, arg, count_free);
	if (http_request_param(r, "deadline"))
		http_job_set_deadline(
			r, clock_monotonic_ns(&clock_system) +
				   atoi(http_request_param(r, "deadline")) * NS_PER_MS);
	http_job_run_at(r, clock_monotonic_ns(&clock_system) + ms * NS_PER_MS, late);
}

/* Runs until it is cancelled. */
static void compute(struct http_request *r, void *arg)
{
	struct env *e = arg;

	e->n_running++;
	while (!http_job_cancelled(r) && !e->released)
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + NS_PER_MS);
	e->n_running--;
	if (http_job_cancelled(r))
		e->n_cancelled++;
	http_reply_text(r, http_job_cancelled(r) ? 503 : 200, "done");
}

static void again(struct http_request *r, void *arg)
{
	uintptr_t n = (uintptr_t)http_request_data(r);

	(void)arg;
	http_request_set_data(r, (void *)(n + 1), NULL);
	if (n < 5)
		http_job_run_at(r, clock_monotonic_ns(&clock_system) + NS_PER_MS, again);
	else
		http_reply_text(r, 200, "%zu", (size_t)n);
}

static void too_large(struct http_request *r, void *arg)
{
	struct bytes b;

	(void)arg;
	bytes_init(&b, NULL, 4);
	bytes_put_str(&b, "larger than four");
	http_reply_header(r, "X-Bad", "a\r\nInjected: yes");
	http_reply_bytes(r, 200, "text/plain", &b);
}

static const struct http_route routes[] = {
	{HTTP_GET | HTTP_POST, "/echo", echo, 0, 64},
	{HTTP_GET, "/label/*/values", echo, 0, 0},
	{HTTP_GET, "/files/*", echo, 0, 0},
	{HTTP_POST | HTTP_PUT, "/reload", echo, HTTP_CHANGES_STATE, 0},
	{HTTP_GET, "/large", large, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/wait", wait_a_while, 0, 0},
	{HTTP_GET, "/compute", compute, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/again", again, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/fail", too_large, 0, 0},
};

static struct env *env_start(struct http_server_options o)
{
	struct env *e = xcalloc(1, sizeof(*e));
	struct errbuf eb = {0};
	const char *listen[2] = {"127.0.0.1:0"};
	_cleanup_free_ char *unix_text = NULL;

	snprintf(e->unix_path, sizeof(e->unix_path), "/tmp/sonde-test-%d.sock", getpid());
	unix_text = xasprintf("unix:%s", e->unix_path);
	listen[1] = unix_text;
	e->metrics = metrics_new();
	budget_init(&e->budget, NULL, "http", NULL, 0);
	o.listen = listen;
	o.n_listen = 2;
	o.n_workers = o.n_workers ? o.n_workers : 2;
	o.metrics = e->metrics;
	o.budget = &e->budget;
	if (http_server_open(&o, routes, ARRAY_SIZE(routes), e, &e->server, &eb) < 0 ||
		http_server_start(e->server, &eb) < 0)
		fail_msg("%s", eb.text);
	snprintf(e->url, sizeof(e->url), "http://%s", http_server_address(e->server, 0));
	assert_string_equal(http_server_address(e->server, 1), unix_text);
	assert_null(http_server_address(e->server, 2));
	return e;
}

static void env_stop(struct env *e)
{
	http_server_freep(&e->server);
	assert_int_equal(e->budget.used_bytes, 0);
	assert_int_not_equal(access(e->unix_path, F_OK), 0);
	metrics_freep(&e->metrics);
	free(e);
}

static double metric_of(struct env *e, const char *series)
{
	_cleanup_bytes_ struct bytes page = {0};
	_cleanup_free_ char *want = xasprintf("\n%s ", series);
	const char *at;

	metrics_print(e->metrics, &page);
	bytes_put_u8(&page, 0);
	at = strstr((const char *)page.data, want);
	return at ? strtod(at + strlen(want), NULL) : 0;
}

/* One request; the body as text in `ret` (4096 bytes). Returns the status, or the client's error. */
static int get_with(struct env *e, const char *path, const struct http_fetch *extra, char *ret,
	struct http_response *ret_response)
{
	_cleanup_free_ char *url = xasprintf("%s%s", e->url, path);
	struct http_fetch f = extra ? *extra : (struct http_fetch) {0};
	struct http_response r;
	int status;

	f.url = url;
	f.timeout_ms = f.timeout_ms ? f.timeout_ms : 10000;
	status = http_client_fetch(&f, "test/1", &r, NULL);
	if (status == 0)
		status = (int)r.status;
	if (ret)
		snprintf(ret, 4096, "%.*s", (int)MIN(r.body.len, (size_t)4000),
			r.body.len ? (const char *)r.body.data : "");
	if (ret_response)
		*ret_response = r;
	else
		http_response_done(&r);
	return status;
}

static void expect(
	struct env *e, const char *path, const struct http_fetch *f, int status, const char *body)
{
	char text[4096];
	int got = get_with(e, path, f, text, NULL);

	if (got != status || (body && !strstr(text, body)))
		fail_msg("%s: %d \"%.500s\", expected %d \"%.300s\"", path, got, text, status,
			body ? body : "");
}

/* ---- raw sockets ---- */

static int dial(struct env *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval timeout = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(e->url, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until the end or until `part` has come. */
static void hear(int fd, const char *part)
{
	char text[8192];
	size_t n = 0;

	while (n < sizeof(text) - 1) {
		ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, 0);

		if (got <= 0)
			break;
		n += (size_t)got;
		text[n] = 0;
		if (strstr(text, part))
			return;
	}
	fail_msg("expected \"%s\"", part);
}

/* True when the peer closes (or resets) within the socket's timeout. */
static bool is_closed(int fd)
{
	char text[4096];
	ssize_t got;

	while ((got = recv(fd, text, sizeof(text), 0)) > 0)
		;
	return got == 0 || errno == ECONNRESET;
}

static void wait_for(_Atomic int *v, int want)
{
	for (int i = 0; i < 5000 && *v != want; i++)
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + NS_PER_MS);
	assert_int_equal(*v, want);
}

/* ---- tests ---- */

static void test_routes(void **state)
{
	struct env *e = env_start((struct http_server_options) {.server_name = "sonde-test/1"});
	const struct http_fetch post = {.method = "POST", .body = "c=3", .n_body = 3};
	const struct http_fetch head = {.method = "HEAD"}, put = {.method = "PUT"},
				del = {.method = "DELETE"};
	const char *const form_headers[] = {
		"Content-Type: application/x-www-form-urlencoded", NULL};
	const struct http_fetch form = {
		.method = "POST", .body = "a=9&z=%20", .n_body = 9, .headers = form_headers};
	struct http_response r;

	(void)state;
	expect(e, "/echo?a=1&b=x%26y&a=2", NULL, 200, "GET /echo a=1 b=x&y a=2 body=0");
	expect(e, "/echo?a=1", &form, 200, "POST /echo a=9 z=  a=1 body=9");
	expect(e, "/label/na%2fme/values", NULL, 200, "*na/me");
	expect(e, "/label//values", NULL, 404, "404 page not found");
	expect(e, "/files/", NULL, 200, "* body");
	expect(e, "/files/a/b%20c", NULL, 200, "*a/b c");
	expect(e, "/files", NULL, 404, NULL);
	expect(e, "/nothing", NULL, 404, "404 page not found");
	expect(e, "/label/%zz/values", NULL, 400, "bad escape");
	expect(e, "/echo?a=%zz", NULL, 400, "bad escape");
	expect(e, "/fail", NULL, 503, "does not fit");
	expect(e, "/again", NULL, 200, "5");
	expect(e, "/echo", &del, 405, "use GET, HEAD, POST");
	assert_int_equal(get_with(e, "/wait", &post, NULL, &r), 405);
	assert_string_equal(http_response_header(&r, "allow"), "GET, HEAD");
	http_response_done(&r);
	assert_int_equal(get_with(e, "/echo", &head, NULL, &r), 200);
	assert_int_equal(r.body.len, 0);
	assert_string_equal(http_response_header(&r, "content-length"), "16");
	assert_string_equal(http_response_header(&r, "server"), "sonde-test/1");
	http_response_done(&r);
	expect(e, "/reload", &put, 200, "PUT /reload");
	assert_true(metric_of(e, "sonde_http_requests_total{handler=\"/echo\",code=\"200\"}") == 3);
	assert_true(metric_of(e, "sonde_http_requests_total{handler=\"none\",code=\"404\"}") == 3);
	env_stop(e);
}

static void test_security(void **state)
{
	struct env *e = env_start((struct http_server_options) {
		.cors_origin = "https://grafana.example", .external_host = "sonde.example"});
	static const struct {
		const char *host;
		int status;
	} hosts[] = {
		{"Host: evil.example", 403},
		{"Host: localhost:1", 200},
		{"Host: LOCALHOST", 200},
		{"Host: a.localhost:80", 200},
		{"Host: 127.9.9.9", 200},
		{"Host: [::1]:80", 200},
		{"Host: sonde.example:443", 200},
		{"Host: 127.0.0.1.evil.example", 403},
		{"Host: 10.0.0.1", 403},
		{"Host: localhost.evil.example", 403},
		{"Host: [::1].evil.example", 403},
		{"Host: [::1]evil.example:80", 403},
		{"Host: localhost:80.evil.example", 403},
		{"Host: evil.example#localhost", 403},
	};
	static const struct {
		const char *origin;
		int status;
	} origins[] = {{"Origin: http://evil.example", 403}, {"Origin: null", 403},
		{"Origin: http://localhost:7", 200}, {"Origin: https://grafana.example", 200}};
	struct http_response r;
	char text[4096];
	const char *const allowed[] = {"Origin: https://grafana.example", NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		const char *const headers[] = {hosts[i].host, NULL};

		expect(e, "/echo", &(struct http_fetch) {.headers = headers}, hosts[i].status,
			NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
		const char *const headers[] = {"Host: localhost:7", origins[i].origin, NULL};

		expect(e, "/reload", &(struct http_fetch) {.method = "POST", .headers = headers},
			origins[i].status, NULL);
	}
	assert_int_equal(
		get_with(e, "/echo", &(struct http_fetch) {.headers = allowed}, text, &r), 200);
	assert_string_equal(
		http_response_header(&r, "access-control-allow-origin"), "https://grafana.example");
	http_response_done(&r);
	assert_int_equal(
		get_with(e, "/echo", &(struct http_fetch) {.headers = allowed, .method = "OPTIONS"},
			text, &r),
		204);
	assert_non_null(http_response_header(&r, "access-control-allow-methods"));
	http_response_done(&r);
	/* no browser reaches a Unix socket: any Host will do */
	expect(e, "/echo",
		&(struct http_fetch) {.unix_socket = e->unix_path,
			.headers = (const char *const[]) {"Host: x", NULL}},
		200, NULL);
	env_stop(e);
}

static void test_prefix(void **state)
{
	struct env *e = env_start((struct http_server_options) {.route_prefix = "/sonde"});
	struct http_response r;
	struct http_server *s = NULL;
	struct errbuf eb = {0};
	const char *const bad[] = {"127.0.0.1:0"};
	const struct http_transport stay = {0};
	static const struct {
		const char *path, *location;
	} redirects[] = {{"/", "/sonde/"}, {"/sonde", "/sonde/"}, {"/?a=1", "/sonde/?a=1"},
		{"/sonde?query=up%7B%7D&x", "/sonde/?query=up%7B%7D&x"}};

	(void)state;
	expect(e, "/sonde/echo", NULL, 200, "GET /echo");
	expect(e, "/echo", NULL, 404, NULL);
	expect(e, "/sondecho", NULL, 404, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(redirects); i++) {
		assert_int_equal(get_with(e, redirects[i].path,
					 &(struct http_fetch) {.transport = &stay}, NULL, &r),
			302);
		assert_string_equal(http_response_header(&r, "location"), redirects[i].location);
		http_response_done(&r);
	}
	expect(e, "/sonde", &(struct http_fetch) {.transport = &stay, .method = "POST"}, 404, NULL);
	assert_int_equal(http_server_open(
				 &(struct http_server_options) {
					 .listen = bad, .n_listen = 1, .route_prefix = "x/"},
				 routes, 1, NULL, &s, &eb),
		-EINVAL);
	env_stop(e);
}

static void test_listen_errors(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	static const struct {
		const char *address, *error;
	} cases[] = {
		{"127.0.0.1", "missing port"},
		{"127.0.0.1:x", "bad port"},
		{"192.0.2.1:0", "cannot listen on \"192.0.2.1:0\""},
		{"unix:", "unix socket path"},
		{"nosuch.invalid:1", "cannot resolve"},
	};
	const char *taken[2] = {
		http_server_address(e->server, 0), http_server_address(e->server, 1)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases) + 2; i++) {
		const char *address =
			i < ARRAY_SIZE(cases) ? cases[i].address : taken[i - ARRAY_SIZE(cases)];
		const char *error = i < ARRAY_SIZE(cases) ? cases[i].error : "in use";
		const char *const listen[] = {address};
		struct http_server *s = NULL;
		struct errbuf eb = {0};

		assert_true(http_server_open(
				    &(struct http_server_options) {.listen = listen, .n_listen = 1},
				    routes, 1, NULL, &s, &eb) < 0);
		if (!strstr(eb.text, error))
			fail_msg("%s: \"%s\", expected \"%s\"", address, eb.text, error);
	}
	env_stop(e);
}

static void test_body_limits(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	char body[100];
	int fd = dial(e);

	(void)state;
	memset(body, 'x', sizeof(body));
	expect(e, "/echo", &(struct http_fetch) {.method = "POST", .body = body, .n_body = 64}, 200,
		"body=64");
	expect(e, "/echo", &(struct http_fetch) {.method = "POST", .body = body, .n_body = 65}, 413,
		"request body too large");
	/* chunked: the length shows only as it comes */
	say(fd, "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 3; i++)
		say(fd, "20\r\n0123456789abcdef0123456789abcdef\r\n");
	say(fd, "0\r\n\r\n");
	hear(fd, "413 ");
	close(fd);
	fd = dial(e);
	say(fd, "GET /echo HTTP/1.1\r\nHost: localhost\r\nX: ");
	for (int i = 0; i < 600; i++)
		if (send(fd, body, sizeof(body), MSG_NOSIGNAL) < 0)
			break;
	assert_true(is_closed(fd));
	close(fd);
	env_stop(e);
}

static void test_large(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	struct http_response r;

	(void)state;
	assert_int_equal(get_with(e, "/large", NULL, NULL, &r), 200);
	assert_int_equal(r.body.len, 400000 * 13);
	assert_memory_equal(r.body.data + 399999 * 13, "line 0399999\n", 13);
	http_response_done(&r);
	assert_int_equal(
		get_with(e, "/large", &(struct http_fetch) {.accept_gzip = true}, NULL, &r), 200);
	assert_string_equal(http_response_header(&r, "content-encoding"), "gzip");
	assert_true(r.body.len < 2000000);
	http_response_done(&r);
	assert_int_equal(
		get_with(e, "/large?bin=1", &(struct http_fetch) {.accept_gzip = true}, NULL, &r),
		200);
	assert_null(http_response_header(&r, "content-encoding"));
	http_response_done(&r);
	env_stop(e);
}

static void *fetch_wait(void *arg)
{
	struct env *e = arg;
	char text[4096];

	assert_int_equal(get_with(e, "/wait?ms=300", NULL, text, NULL), 200);
	assert_string_equal(text, "late\n");
	return NULL;
}

/* Many waits at the same time cost no thread: 40 of 300 ms on two workers end together. */
static void test_parked(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	int64_t start_ns = clock_monotonic_ns(&clock_system);
	pthread_t t[40];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, fetch_wait, e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_true(clock_monotonic_ns(&clock_system) - start_ns < 3 * NS_PER_S);
	expect(e, "/wait?ms=5000&deadline=50", NULL, 503, "deadline passed");
	wait_for(&e->n_freed, 41);
	env_stop(e);
}

static void test_client_leaves(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	int fd = dial(e);

	(void)state;
	say(fd, "GET /wait?ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
	while (metric_of(e, "sonde_http_parked_requests") < 1)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger) {1, 0}, sizeof(struct linger));
	close(fd); /* by a reset: its reply cannot even be begun */
	wait_for(&e->n_freed, 1);
	fd = dial(e);
	say(fd, "GET /compute HTTP/1.1\r\nHost: localhost\r\n\r\n");
	wait_for(&e->n_running, 1);
	close(fd);
	wait_for(&e->n_cancelled, 1);
	assert_true(metric_of(e, "sonde_http_aborted_requests_total") == 2);
	env_stop(e);
}

static void test_job_deadline(void **state)
{
	struct env *e =
		env_start((struct http_server_options) {.job_timeout_ms = 100, .n_workers = 1});

	(void)state;
	expect(e, "/compute", NULL, 503, "done");
	assert_int_equal(e->n_cancelled, 1);
	assert_true(metric_of(e, "sonde_http_timeouts_total{what=\"job\"}") == 1);
	env_stop(e);
}

static void *fetch_text(void *arg)
{
	void **a = arg;

	return (void *)(intptr_t)get_with(a[0], a[1], NULL, a[2], NULL);
}

/* Parked requests end with a reply, running ones get their grace, then everything is gone. */
static void test_stop(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	char parked[4096], running[4096];
	void *a[] = {e, (void *)(uintptr_t) "/wait?ms=60000", parked};
	void *b[] = {e, (void *)(uintptr_t) "/compute", running};
	pthread_t ta, tb;
	void *status;

	(void)state;
	assert_int_equal(pthread_create(&ta, NULL, fetch_text, a), 0);
	assert_int_equal(pthread_create(&tb, NULL, fetch_text, b), 0);
	wait_for(&e->n_running, 1);
	while (metric_of(e, "sonde_http_parked_requests") < 2)
		;
	http_server_stop(e->server, 200);
	pthread_join(ta, &status);
	assert_int_equal((intptr_t)status, 503);
	assert_string_equal(parked, "the server is shutting down\n");
	pthread_join(tb, &status);
	assert_int_equal((intptr_t)status, 503);
	assert_int_equal(e->n_cancelled, 1);
	expect(e, "/echo", NULL, -ECONNREFUSED, NULL);
	env_stop(e);
}

/* A header that comes byte by byte, a request that never starts, and one after a good request. */
static void test_slow_writers(void **state)
{
	struct env *e = env_start((struct http_server_options) {.read_timeout_ms = 300});
	int header = dial(e), silent = dial(e), second = dial(e), body = dial(e);

	(void)state;
	say(header, "GET /echo HTTP/1.1\r\nHost: local");
	say(second, "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
	hear(second, "GET /echo");
	say(body, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nabc");
	clock_system.sleep_until_ns(
		&clock_system, clock_monotonic_ns(&clock_system) + 1500 * NS_PER_MS);
	say(second, "GET /ec");
	assert_true(is_closed(header));
	assert_true(is_closed(silent));
	assert_true(is_closed(body));
	assert_true(is_closed(second));
	close(header);
	close(silent);
	close(second);
	close(body);
	assert_true(metric_of(e, "sonde_http_timeouts_total{what=\"read\"}") == 4);
	env_stop(e);
}

/* A client that takes nothing: 400,000 lines do not fit into the sockets' buffers. */
static void test_slow_reader(void **state)
{
	struct env *e = env_start(
		(struct http_server_options) {.write_timeout_ms = 1, .min_write_rate = 1 << 30});
	int fd = dial(e), size = 4096;

	(void)state;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	say(fd, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
	for (int i = 0; i < 50 && metric_of(e, "sonde_http_timeouts_total{what=\"write\"}") < 1;
		i++)
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + 100 * NS_PER_MS);
	assert_true(metric_of(e, "sonde_http_timeouts_total{what=\"write\"}") == 1);
	close(fd);
	env_stop(e);
}

static void test_connection_caps(void **state)
{
	const struct http_server_options o = {.max_connections = 3, .max_jobs = 3};
	struct env *e = env_start(o);
	int fds[5];

	(void)state;
	for (int i = 0; i < 3; i++) {
		fds[i] = dial(e);
		say(fds[i], "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
		hear(fds[i], "GET /echo");
	}
	/* the one that has been idle longest, then the one that is slow with its header, make room */
	say(fds[1], "GET /wait?ms=600000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
	say(fds[2], "GET /echo?half HTTP/1.1\r\nHost: local");
	while (metric_of(e, "sonde_http_parked_requests") < 1)
		;
	for (int i = 0; i < 3; i += 2) {
		int fd = dial(e);

		say(fd, "GET /wait?ms=600000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
		assert_true(is_closed(fds[i]));
		close(fds[i]);
		fds[i] = fd;
		while (metric_of(e, "sonde_http_parked_requests") < 2 + i / 2)
			;
	}
	assert_true(metric_of(e, "sonde_http_connections_displaced_total") == 2);
	while (metric_of(e, "sonde_http_connections") > 3)
		;
	/* now all are at work */
	fds[3] = dial(e);
	hear(fds[3], "503 Service Unavailable");
	assert_true(
		metric_of(e, "sonde_http_connections_refused_total{reason=\"connections\"}") == 1);
	close(fds[0]);
	while (metric_of(e, "sonde_http_connections") > 2)
		;
	expect(e, "/echo", NULL, 200, NULL);
	for (int i = 1; i < 4; i++)
		close(fds[i]);
	env_stop(e);
	e = env_start((struct http_server_options) {.max_connections_per_ip = 2});
	for (int i = 0; i < 2; i++) {
		fds[i] = dial(e);
		say(fds[i], "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
		hear(fds[i], "GET /echo");
	}
	fds[2] = dial(e);
	assert_true(is_closed(fds[2]));
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	env_stop(e);
}

static void test_pipelining(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});
	int fd = dial(e);

	(void)state;
	say(fd, "GET /wait?ms=50 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /echo?last=1 "
		"HTTP/1.1\r\nHost: localhost\r\n\r\n");
	hear(fd, "last=1");
	say(fd, "GET http://localhost/echo?absolute=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
	hear(fd, "GET /echo absolute=1");
	close(fd);
	env_stop(e);
}

/* What a proxy before us may end elsewhere, or send to another host, is refused, and the connection with it. */
static void test_ambiguous(void **state)
{
	static const char *const headers[] = {
		"Content-Length: 5\r\nContent-Length: 40\r\n",
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked, identity\r\n",
		"Transfer-Encoding: xchunked\r\n",
		"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n",
		"Host: elsewhere\r\n",
		"X: one\rTransfer-Encoding: chunked\r\n",
	};
	struct env *e = env_start((struct http_server_options) {0});
	int old;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		_cleanup_free_ char *text =
			xasprintf("POST /echo?first HTTP/1.1\r\nHost: localhost\r\n%s\r\n0\r\n\r\n"
				  "GET /echo?smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
				headers[i]);
		int fd = dial(e);

		say(fd, text);
		hear(fd, "400 ");
		assert_true(is_closed(fd));
		close(fd);
	}
	assert_true(metric_of(e, "sonde_http_requests_total{handler=\"none\",code=\"400\"}") ==
		    ARRAY_SIZE(headers));
	/* HTTP/1.0 has no Host yet, 1.1 no request without */
	for (int minor = 0; minor < 2; minor++) {
		old = dial(e);
		say(old, minor ? "GET /echo HTTP/1.1\r\n\r\n" : "GET /echo HTTP/1.0\r\n\r\n");
		hear(old, minor ? "400 " : "200 ");
		assert_true(is_closed(old));
		close(old);
	}
	env_stop(e);
}

/* Parameters are few, but their refusal is an answer, however many come. */
static void test_many_parameters(void **state)
{
	struct env *e = env_start((struct http_server_options) {0});

	(void)state;
	for (size_t n = 500; n <= 8000; n *= 4) {
		_cleanup_bytes_ struct bytes b = {0};
		int fd = dial(e);

		bytes_printf(&b, "GET /echo?");
		for (size_t i = 0; i < n; i++)
			bytes_printf(&b, "a&");
		bytes_printf(&b, "end HTTP/1.1\r\nHost: localhost\r\n\r\n");
		bytes_put(&b, "", 1);
		assert_int_equal(bytes_error(&b), 0);
		say(fd, (const char *)b.data);
		hear(fd, n < 1000 ? " end=" : "more than 1000 parameters");
		close(fd);
	}
	env_stop(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_security),
		cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_listen_errors),
		cmocka_unit_test(test_body_limits),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_parked),
		cmocka_unit_test(test_client_leaves),
		cmocka_unit_test(test_job_deadline),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_slow_writers),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_connection_caps),
		cmocka_unit_test(test_pipelining),
		cmocka_unit_test(test_ambiguous),
		cmocka_unit_test(test_many_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
