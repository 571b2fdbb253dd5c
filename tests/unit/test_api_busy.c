/* SPDX-License-Identifier: Apache-2.0
 *
 * The API while every worker has a query in hand: what watches the scraper is answered all the same, and the same question asked many
 * times holds one worker.
 */
#include "tests/unit/api_fixture.h"

enum { N_WORKERS = 2, N_SAME = 6, MONITORING_MS = 100 };

#define QUERY "/api/v1/flamegraph?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{}&start=0&end="

/* A request whose answer is read later, or never. */
static int begin(struct fixture *f, const char *path)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	write_request(f, fd, "GET", path, "", NULL, 0);
	return fd;
}

static int begin_query(struct fixture *f, int end)
{
	_cleanup_free_ char *path = xasprintf(QUERY "%d", end);

	return begin(f, path);
}

static struct answer finish(int *fd)
{
	struct answer a = read_answer(*fd);

	close(*fd);
	*fd = -1;
	return a;
}

/* Looks every millisecond, for ten seconds. */
static void wait_for(struct fixture *f, bool (*is_so)(struct fixture *f, int n), int n)
{
	for (int i = 0; !is_so(f, n); i++) {
		if (i == 10000)
			fail_msg("waited ten seconds for %d", n);
		usleep(1000);
	}
}

static bool are_slow(struct fixture *f, int n)
{
	(void)f;
	return n_fake_slow == n;
}

static uint64_t metric_of(struct fixture *f, const char *name)
{
	_cleanup_bytes_ struct bytes text = {};
	const char *at;

	metrics_print(f->metrics, &text);
	bytes_put_u8(&text, 0);
	at = strstr((char *)text.data, name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static bool have_begun(struct fixture *f, int n)
{
	return metric_of(f, "\nsonde_queries_total{endpoint=\"flamegraph\"} ") == (uint64_t)n;
}

static bool have_left(struct fixture *f, int n)
{
	return metric_of(f, "\nsonde_http_aborted_requests_total ") == (uint64_t)n;
}

/* The shortest of a few tries: a machine that is busy otherwise may delay one. */
static int64_t shortest_ms(struct fixture *f, const char *path)
{
	int64_t shortest = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t begun_ns = clock_monotonic_ns(&clock_system);
		_cleanup_answer_ struct answer a = ask(f, "GET", path);

		if (a.status != 200)
			fail_msg("%s: %u", path, a.status);
		shortest =
			MIN(shortest, (clock_monotonic_ns(&clock_system) - begun_ns) / NS_PER_MS);
	}
	return shortest;
}

static void test_monitoring(void **state)
{
	static const char *const paths[] = {"/metrics", "/-/healthy", "/-/ready", "/ready",
		"/api/v1/targets", "/api/v1/scrape_pools", "/api/v1/status/config",
		"/api/v1/status/flags", "/api/v1/status/runtimeinfo", "/api/v1/status/buildinfo",
		"/plain/targets", "/plain/status"};
	struct fixture *f = *state;
	int slow[2 * N_WORKERS];

	fake_is_slow = true;
	for (int i = 0; i < 2 * N_WORKERS; i++)
		slow[i] = begin_query(f, 2000 + i);
	wait_for(f, are_slow, N_WORKERS);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int64_t ms = shortest_ms(f, paths[i]);

		if (ms >= MONITORING_MS)
			fail_msg("%s took %d ms beside slow queries", paths[i], (int)ms);
	}
	assert_int_equal(n_fake_slow, N_WORKERS);
	fake_is_slow = false;
	for (int i = 0; i < 2 * N_WORKERS; i++) {
		_cleanup_answer_ struct answer a = finish(&slow[i]);

		assert_int_equal(a.status, 200);
	}
}

/* All ask the same: one runs, a worker is free for another question, and all get the one answer. */
static void test_identical(void **state)
{
	struct fixture *f = *state;
	int same[N_SAME];
	size_t n_shared = 0;

	fake_is_slow = true;
	for (int i = 0; i < N_SAME; i++)
		same[i] = begin_query(f, 2000);
	wait_for(f, have_begun, N_SAME);
	{
		_cleanup_answer_ struct answer other = ask(f, "GET", "/api/v1/profile_types");

		assert_int_equal(other.status, 200);
	}
	assert_int_equal(n_fake_slow, 1);
	fake_is_slow = false;
	for (int i = 0; i < N_SAME; i++) {
		_cleanup_answer_ struct answer a = finish(&same[i]);

		assert_int_equal(a.status, 200);
		assert_true(has(&a, "\"f1\""));
		n_shared += has(&a, "\"source\":\"shared\"");
	}
	assert_int_equal(n_shared, N_SAME - 1);
	assert_int_equal(metric_of(f, "\nsonde_queries_shared_total "), N_SAME - 1);
	assert_true(have_begun(f, N_SAME));
}

/* One that waits and leaves is gone at once; when the one that runs leaves, another runs in its place and is not counted twice. */
static void test_leaving(void **state)
{
	struct fixture *f = *state;
	int same[3];

	fake_is_slow = true;
	same[0] = begin_query(f, 2000);
	wait_for(f, are_slow, 1);
	for (int i = 1; i < 3; i++)
		same[i] = begin_query(f, 2000);
	wait_for(f, have_begun, 3);
	close(same[1]);
	wait_for(f, have_left, 1);
	close(same[0]);
	wait_for(f, have_left, 2);
	fake_is_slow = false;
	{
		_cleanup_answer_ struct answer a = finish(&same[2]);

		assert_int_equal(a.status, 200);
		assert_true(has(&a, "\"f1\""));
		assert_true(has(&a, "\"source\":\"run\""));
	}
	assert_true(have_begun(f, 3));
	assert_int_equal(metric_of(f, "\nsonde_queries_shared_total "), 0);
}

/* The deadline of a query counts while it waits for another one's answer. */
static void test_deadline(void **state)
{
	struct fixture *f = *state;
	int first;

	fake_is_slow = true;
	first = begin(f, QUERY "2000");
	wait_for(f, are_slow, 1);
	{
		_cleanup_answer_ struct answer a = ask(f, "GET", QUERY "2000");

		assert_int_equal(a.status, 503);
		assert_true(has(&a, "deadline"));
	}
	fake_is_slow = false;
	close(first);
}

static int setup_hasty(void **state)
{
	return setup_server(state, 0, 0, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_monitoring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_identical, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaving, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadline, setup_hasty, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
