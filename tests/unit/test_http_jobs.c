/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of the HTTP server: requests that wait to be woken, and the worker that is for monitoring alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/net/client/client.h"
#include "lib/net/server/server.h"
#include "lib/base/alloc.h"
#include <netinet/in.h>
#include <string.h>

struct env {
	struct http_server *server;
	struct metrics *metrics;
	char url[96];
	struct http_ticket ticket; /* of the last /wait */
	_Atomic int n_waiting, n_running, n_woken;
	_Atomic bool is_released;
};

/* Until it is woken, without a worker. */
static void woken(struct http_request *r, void *arg)
{
	struct env *e = arg;

	e->n_woken++;
	http_reply_text(r, 200, "woken");
}

static void wait_to_be_woken(struct http_request *r, void *arg)
{
	struct env *e = arg;

	e->ticket = http_job_ticket(r);
	if (http_request_param(r, "early"))
		http_job_wake(&e->ticket);
	http_job_wait(r, woken);
	e->n_waiting++;
}

/* Holds a worker until it is released. */
static void compute(struct http_request *r, void *arg)
{
	struct env *e = arg;

	e->n_running++;
	while (!e->is_released && !http_job_cancelled(r))
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + NS_PER_MS);
	http_reply_text(r, 200, "computed");
}

static void at_once(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_text(r, 200, "at once");
}

static const struct http_route routes[] = {
	{HTTP_GET, "/wait", wait_to_be_woken, 0, 0},
	{HTTP_GET, "/wait-on-worker", wait_to_be_woken, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/compute", compute, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/work", at_once, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/metrics", at_once, HTTP_ON_WORKER | HTTP_MONITORING, 0},
};

static void env_start(struct env *e, struct http_server_options o)
{
	const char *listen = "127.0.0.1:0";
	struct errbuf eb = {};

	*e = (struct env) {.metrics = metrics_new()};
	o.listen = &listen;
	o.n_listen = 1;
	o.n_workers = 1;
	o.metrics = e->metrics;
	if (http_server_open(&o, routes, ARRAY_SIZE(routes), e, &e->server, &eb) < 0 ||
		http_server_start(e->server, &eb) < 0)
		fail_msg("%s", eb.text);
	snprintf(e->url, sizeof(e->url), "http://%s", http_server_address(e->server, 0));
}

static void env_stop(struct env *e)
{
	e->is_released = true;
	http_server_freep(&e->server);
	metrics_freep(&e->metrics);
}

static double metric_of(struct env *e, const char *series)
{
	_cleanup_bytes_ struct bytes page = {};
	_cleanup_free_ char *want = xasprintf("\n%s ", series);
	const char *at;

	metrics_print(e->metrics, &page);
	bytes_put_u8(&page, 0);
	at = strstr((const char *)page.data, want);
	return at ? strtod(at + strlen(want), NULL) : 0;
}

static void expect(struct env *e, const char *path, const char *authorization, unsigned status,
	const char *body)
{
	_cleanup_free_ char *url = xasprintf("%s%s", e->url, path);
	const char *const headers[] = {authorization, NULL};
	_cleanup_http_response_ struct http_response r = {};
	const struct http_fetch f = {.url = url, .timeout_ms = 10000, .headers = headers};
	int error = http_client_fetch(&f, "test/1", &r, NULL);

	if (error || r.status != status || r.body.len < strlen(body) ||
		memcmp(r.body.data, body, strlen(body)) != 0)
		fail_msg("%s: %d, status %u \"%.*s\", expected %u \"%s\"", path, error, r.status,
			(int)r.body.len, (const char *)r.body.data, status, body);
}

/* A request on a connection that stays open; what it is answered is read later, or never. */
static int begin(struct env *e, const char *path, const char *header)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(strrchr(e->url, ':') + 1)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval timeout = {.tv_sec = 10};
	_cleanup_free_ char *text =
		xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, header);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

static void hear(int fd, const char *part)
{
	char text[4096];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(text) - 1 && (got = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0) {
		n += (size_t)got;
		text[n] = 0;
		if (strstr(text, part))
			return;
	}
	fail_msg("expected \"%s\"", part);
}

static void wait_for(const _Atomic int *v, int want)
{
	for (int i = 0; i < 10000 && *v != want; i++)
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + NS_PER_MS);
	assert_int_equal(*v, want);
}

static void wait_until_parked(struct env *e, int n)
{
	for (int i = 0; i < 10000 && metric_of(e, "sonde_http_parked_requests") != n; i++)
		clock_system.sleep_until_ns(
			&clock_system, clock_monotonic_ns(&clock_system) + NS_PER_MS);
	assert_true(metric_of(e, "sonde_http_parked_requests") == n);
}

/* ---- waiting ---- */

static void test_woken(void **state)
{
	static const char *const paths[] = {"/wait", "/wait-on-worker"};
	struct env e;

	(void)state;
	env_start(&e, (struct http_server_options) {});
	/* woken before it waits */
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_free_ char *path = xasprintf("%s?early=1", paths[i]);

		expect(&e, path, NULL, 200, "woken");
	}
	assert_int_equal(e.n_woken, 2);
	e.n_waiting = 0;
	/* woken later, by calls of which the first counts; it held no worker meanwhile */
	for (int i = 0; i < 2; i++) {
		int fd = begin(&e, paths[i], "");

		wait_for(&e.n_waiting, i + 1);
		wait_until_parked(&e, 1);
		expect(&e, "/work", NULL, 200, "at once");
		assert_int_equal(e.n_woken, 2 + i);
		for (int k = 0; k < 3; k++)
			http_job_wake(&e.ticket);
		hear(fd, "woken");
		assert_int_equal(e.n_woken, 3 + i);
		close(fd);
	}
	env_stop(&e);
}

/* A ticket is one request's: it wakes neither the next one of the connection nor one that is gone. */
static void test_stale_ticket(void **state)
{
	static const char again[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct http_ticket first;
	struct env e;
	int fd;

	(void)state;
	env_start(&e, (struct http_server_options) {});
	fd = begin(&e, "/wait", "");
	wait_until_parked(&e, 1);
	first = e.ticket;
	http_job_wake(&first);
	hear(fd, "woken");
	assert_int_equal(send(fd, again, strlen(again), MSG_NOSIGNAL), strlen(again));
	wait_for(&e.n_waiting, 2);
	wait_until_parked(&e, 1);
	assert_int_equal(e.ticket.conn_id, first.conn_id);
	http_job_wake(&first);
	expect(&e, "/work", NULL, 200, "at once"); /* the worker is past anything that was queued */
	assert_int_equal(e.n_woken, 1);
	close(fd);
	wait_until_parked(&e, 0);
	assert_true(metric_of(&e, "sonde_http_aborted_requests_total") == 1);
	http_job_wake(&e.ticket);
	env_stop(&e);
}

static void test_wait_ends(void **state)
{
	struct env e;
	int fd;

	(void)state;
	env_start(&e, (struct http_server_options) {.job_timeout_ms = 50});
	expect(&e, "/wait", NULL, 503, "deadline passed");
	assert_true(metric_of(&e, "sonde_http_timeouts_total{what=\"job\"}") == 1);
	env_stop(&e);
	env_start(&e, (struct http_server_options) {});
	fd = begin(&e, "/wait", "");
	wait_until_parked(&e, 1);
	http_server_stop(e.server, 1000);
	hear(fd, "503 ");
	assert_int_equal(e.n_woken, 0);
	close(fd);
	env_stop(&e);
}

/* ---- monitoring ---- */

/* Neither busy workers nor as many parked requests as may be delay it; nor do connections that wait for jobs take all there are. */
static void test_monitoring(void **state)
{
	enum { N_CONNECTIONS = 16, N_JOBS = 14 };
	int fds[N_JOBS];
	struct env e;

	(void)state;
	env_start(&e, (struct http_server_options) {.max_connections = N_CONNECTIONS});
	for (int i = 0; i < N_JOBS; i++)
		fds[i] = begin(&e, "/compute", "");
	wait_for(&e.n_running, 1);
	wait_until_parked(&e, N_JOBS);
	expect(&e, "/work", NULL, 503, "too many requests are waiting");
	for (int i = 0; i < 3; i++)
		expect(&e, "/metrics", NULL, 200, "at once");
	assert_int_equal(e.n_running, 1);
	e.is_released = true;
	for (int i = 0; i < N_JOBS; i++) {
		hear(fds[i], "computed");
		close(fds[i]);
	}
	env_stop(&e);
}

static void test_job_cap(void **state)
{
	struct env e;
	int fd;

	(void)state;
	env_start(&e, (struct http_server_options) {.max_jobs = 1});
	fd = begin(&e, "/wait", "");
	wait_until_parked(&e, 1);
	expect(&e, "/work", NULL, 503, "too many requests are waiting");
	expect(&e, "/metrics", NULL, 200, "at once");
	http_job_wake(&e.ticket);
	hear(fd, "woken");
	expect(&e, "/work", NULL, 200, "at once");
	close(fd);
	env_stop(&e);
}

/* Checking a password takes long on purpose. Many wrong ones before it do not hold up a user who is known. */
static void test_known_user(void **state)
{
	/* user:pass in base64; the hash of "pass", bcrypt of 2^10 rounds */
	static const char known[] = "Authorization: Basic dXNlcjpwYXNz";
	static const char text[] =
		"basic_auth_users:\n"
		"  user: $2b$10$iDlI9a26AFeV2PM8f4Th5.JDfRAniEeDmfL8GCiFoueSLgqUKUMOK\n";
	enum { N_WRONG = 60 };
	char path[] = "/tmp/sonde-test-web-XXXXXX";
	int config = mkstemp(path), fds[N_WRONG];
	struct env e;

	(void)state;
	assert_int_equal(write(config, text, strlen(text)), strlen(text));
	close(config);
	env_start(&e, (struct http_server_options) {.web_config_file = path});
	expect(&e, "/metrics", known, 200, "at once");
	for (int i = 0; i < N_WRONG; i++) {
		/* "user:AAA" … all different */
		_cleanup_free_ char *header = xasprintf(
			"Authorization: Basic dXNlcjp%c%cQUE=\r\n", "lmno"[i / 16], 'A' + i % 16);

		fds[i] = begin(&e, "/metrics", header);
	}
	expect(&e, "/metrics", known, 200, "at once");
	assert_true(metric_of(&e, "sonde_http_requests_total{handler=\"/metrics\",code=\"401\"}") <
		    N_WRONG / 2);
	for (int i = 0; i < N_WRONG; i++)
		close(fds[i]);
	unlink(path);
	env_stop(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_woken),
		cmocka_unit_test(test_stale_ticket),
		cmocka_unit_test(test_wait_ends),
		cmocka_unit_test(test_monitoring),
		cmocka_unit_test(test_job_cap),
		cmocka_unit_test(test_known_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
