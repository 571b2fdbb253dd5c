/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP side over a real server on loopback, with a log that the test fills. The stages that need a kernel are stand-ins.
 */
#include "tests/unit/serve_fixture.h"

static void test_wrong_parameters(void **state)
{
	static const struct {
		const char *query, *text;
	} cases[] = {
		{"seconds=x", "seconds=x: expected a whole number from 0 to"},
		{"seconds=-1", "seconds=-1: expected a whole number"},
		{"seconds=1.5", "expected a whole number"},
		{"seconds=301", "seconds=301 is above --profile.retention (300s)"},
		{"hz=0", "hz=0: expected a rate from 1 to 999 (--profile.max-frequency)"},
		{"hz=1000", "hz=1000: expected a rate"},
		{"span=0", "span=0: expected at least 1"},
		{"span=x", "span=x: expected"},
		{"debug=3", "debug=3: expected a whole number from 0 to 2"},
		{"gc=x", "gc=x: expected"},
		{"format=pdf", "format=pdf: expected one of pprof, folded, svg, html"},
		{"interp=all", "interp=all: expected one of fold, keep, only"},
		{"symbolize=yes", "symbolize=yes: expected one of none, functions, lines"},
		{"pid=one", "pid=one: expected a process id"},
		{"comm=~%28", "comm=~(: position"},
		{"label.x=1", "unknown label \"x\": valid ones are comm thread_name"},
		{"frequency=5", "unknown parameter \"frequency\": valid ones are seconds since "
				"span debug gc hz symbolize interp format pid children"},
		{"since=zz", "malformed cursor"},
		{"since=0000000000000abc.99999999999", "ahead of the sample log"},
	};
	struct governor_stats g;
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *path =
			xasprintf("/debug/pprof/profile?hz=99&%s", cases[i].query);
		_cleanup_bytes_ struct bytes a = {.len = 0};

		get(f, path, &a);
		if (code_of(&a) != 400 || !strstr(body_of(&a), cases[i].text))
			fail_msg("%s: %s", cases[i].query, (char *)a.data);
		assert_true(has(&a, "X-Go-Pprof: 1"));
		assert_true(has(&a, "Content-Type: text/plain"));
	}
	governor_stats(f->source.governor, &g);
	assert_int_equal(g.events[ABI_EVENT_CPU].n_requests, 0);
}

/* Where threads come faster than samples can be taken in, the answer is short and says so. */
static void test_lost_samples(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0}, b = {.len = 0};
	struct fixture *f = *state;
	char value[64];

	fill(f);
	get(f, "/debug/pprof/profile?since=0000000000000000.1&span=300", &a);
	header_of(&a, "Sonde-Lost-Samples", value);
	assert_string_equal(value, "");
	lock_take(&f->lock);
	sample_log_lose(f->source.tables.logs[ABI_EVENT_CPU], 2500);
	lock_release(&f->lock);
	for (int i = 8; i < 10;
		i++) /* the second closes the last that the first drain has a part of */
		drained(f, clock_monotonic_ns(&clock_system) + i * NS_PER_S);
	get(f, "/debug/pprof/profile?since=0000000000000000.1&span=300", &b);
	header_of(&b, "Sonde-Lost-Samples", value);
	assert_string_equal(value, "2500");
}

static void test_cursor_answers(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0}, b = {.len = 0}, c = {.len = 0};
	struct fixture *f = *state;
	char cursor[64], value[64], path[128];

	fill(f);
	get(f, "/debug/pprof/profile?since=0000000000000000.1&span=2", &a);
	header_of(&a, "Sonde-Restarted", value);
	assert_string_equal(value, "1");
	header_of(&a, "Sonde-Types", value);
	assert_string_equal(value, "process_cpu=profile");
	header_of(&a, "Sonde-Labels", value);
	assert_string_equal(value, "node, rack");
	header_of(&a, "Sonde-Retention-Seconds", value);
	assert_string_equal(value, "300");
	/* without coverage, which is not known yet */
	assert_non_null(strstr((const char *)a.data, "\r\nSonde-Health: overhead=0.0"));
	assert_non_null(strstr((const char *)a.data,
		", ring_full=0, scratch_busy=0, held_full=0, log_full=0, cpus=2\r\n"));
	header_of(&a, "Content-Type", value);
	assert_string_equal(value, "application/octet-stream");
	header_of(&a, "Content-Encoding", value);
	assert_string_equal(value, "");
	header_of(&a, "Sonde-Behind-Seconds", value);
	assert_true(strtol(value, NULL, 10) >= 2);
	header_of(&a, "Sonde-Cursor", cursor);
	snprintf(path, sizeof(path), "/debug/pprof/profile?since=%s&span=300", cursor);
	get(f, path, &b);
	header_of(&b, "Sonde-Behind-Seconds", value);
	assert_string_equal(value, "0");
	assert_int_equal(total_of(&a) + total_of(&b), 3 * 11111);

	header_of(&b, "Sonde-Cursor", cursor);
	snprintf(path, sizeof(path), "/debug/pprof/profile?since=%s", cursor);
	get(f, path, &c);
	header_of(&c, "Sonde-Cursor", value);
	assert_string_equal(value, cursor);
	assert_int_equal(total_of(&c), 0);
}

static void test_filters_and_formats(void **state)
{
	static const struct {
		const char *query;
		int64_t total;
	} filters[] = {
		{"comm=app", 33},
		{"comm=app&thread=io", 30},
		{"pid=20", 300},
		{"pid=10&children=1", 333},
		{"container=c0ffee00c0ff", 300},
		{"unit=app.service", 33},
		{"comm=~app%7Cweb", 333},
		{"comm=app&comm=web", 333},
		{"label.executable=%2Fbin%2Fweb", 300},
		{"comm=none", 0},
	};
	_cleanup_bytes_ struct bytes folded = {.len = 0}, svg = {.len = 0}, html = {.len = 0},
				     text = {.len = 0};
	struct fixture *f = *state;

	fill(f);
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		_cleanup_free_ char *path =
			xasprintf("/debug/pprof/profile?since=&%s", filters[i].query);
		_cleanup_bytes_ struct bytes a = {.len = 0};

		get(f, path, &a);
		assert_int_equal(total_of(&a), filters[i].total);
	}
	get(f, "/debug/pprof/profile?since=&format=folded&comm=app", &folded);
	assert_string_equal(body_of(&folded), "f7;f8 3\nf7;f9 30\n");
	get(f, "/debug/pprof/profile?since=&format=svg", &svg);
	assert_true(has(&svg, "Content-Type: image/svg+xml") && has(&svg, "<svg"));
	assert_true(has(&svg, "Content-Security-Policy: default-src 'none'; style-src"));
	get(f, "/debug/pprof/profile?since=&format=html", &html);
	assert_true(has(&html, "Content-Type: text/html") && has(&html, "f12"));
	assert_true(has(&html, "Content-Security-Policy: default-src 'none'; script-src 'sha256-"));
	get(f, "/debug/pprof/profile?since=&debug=1", &text);
	assert_int_equal(strncmp(body_of(&text),
				 "# cpu profile in nanoseconds: 5 stacks of 15 samples in ", 56),
		0);
	assert_true(has(&text, "f12"));
}

/* Of the profile that was asked for, and no rate where none governs it. */
static void test_health_is_of_the_profile(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0}, b = {.len = 0}, c = {.len = 0};
	struct fixture *f = *state;

	fill(f);
	get(f, "/debug/pprof/profile?since=", &a);
	assert_true(has(&a, ", hz=19, wanted_hz=19, samples=1200, ring_full=0"));
	assert_true(has(&a, "Sonde-Rate: 19 Hz (--profile.frequency)"));
	governor_freep(&f->source.governor);
	f->source.governor = governor_new(&(struct governor_options) {.base_hz = 19});
	get(f, "/debug/pprof/profile?since=", &b);
	assert_non_null(
		strstr((const char *)b.data, "\r\nSonde-Health: overhead=0.000000, samples=1200"));
	assert_false(has(&b, "Sonde-Rate"));
	get(f, "/metrics", &c);
	assert_true(has(&c, "sonde_profile_frequency_hz gauge"));
	assert_false(has(&c, "sonde_profile_frequency_hz{"));
}

static void test_window_waits_for_its_samples(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0};
	_cleanup_bytes_ struct bytes raw = {.len = 0};
	_cleanup_profile_ struct profile p = {.n_samples = 0};
	struct fixture *f = *state;
	int64_t start_ns = clock_monotonic_ns(&clock_system) + 2 * NS_PER_MS;
	struct governor_cost none = {.all_ns = 0};
	struct governor_stats g;
	int fd;

	/* A window is whole milliseconds: its first one must not have begun before the log did. */
	clock_system.sleep_until_ns(&clock_system, start_ns);
	drained(f, start_ns);
	fd = send_request(f, "GET", "/debug/pprof/profile?seconds=1&hz=499");
	do {
		governor_stats(f->source.governor, &g);
	} while (!g.events[ABI_EVENT_CPU].n_requests);
	assert_int_equal(
		governor_step(f->source.governor, start_ns, &none, 2).hz[ABI_EVENT_CPU], 499);
	/* Samples of its second, drained long after its end. */
	put(f, start_ns + 700 * NS_PER_MS, 0, 5);
	put(f, start_ns + 3000 * NS_PER_MS, 0, 50);
	clock_system.sleep_until_ns(&clock_system, start_ns + 1500 * NS_PER_MS);
	drained(f, start_ns + 5 * NS_PER_S);
	read_answer(fd, &a);
	decode(&a, &raw, &p);
	assert_int_equal(p.duration_ns, NS_PER_S);
	assert_int_equal(p.n_samples, 1);
	assert_int_equal(p.values[1], 5);
	do {
		governor_stats(f->source.governor, &g);
	} while (g.events[ABI_EVENT_CPU].n_requests);
}

/* The default is no longer than what is kept, whether it is asked for by 0 or by nothing. */
static void test_default_window(void **state)
{
	static const char *const paths[] = {
		"/debug/pprof/profile", "/debug/pprof/profile?seconds=0"};
	struct fixture *f = *state;
	int64_t start_ns = clock_monotonic_ns(&clock_system) + 2 * NS_PER_MS;
	int fds[ARRAY_SIZE(paths)];

	f->source.retention_s = 1;
	clock_system.sleep_until_ns(&clock_system, start_ns);
	drained(f, start_ns);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		fds[i] = send_request(f, "GET", paths[i]);
	clock_system.sleep_until_ns(&clock_system, start_ns + 1500 * NS_PER_MS);
	drained(f, start_ns + 5 * NS_PER_S);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_bytes_ struct bytes a = {.len = 0}, raw = {.len = 0};
		_cleanup_profile_ struct profile p = {.n_samples = 0};

		read_answer(fds[i], &a);
		decode(&a, &raw, &p);
		assert_int_equal(p.duration_ns, NS_PER_S);
	}
}

static void test_stopping_ends_waiting_requests(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0};
	struct fixture *f = *state;
	struct governor_stats g;
	int fd = send_request(f, "GET", "/debug/pprof/profile?seconds=200&hz=99");

	do {
		governor_stats(f->source.governor, &g);
	} while (!g.events[ABI_EVENT_CPU].n_requests);
	serve_stop(f->serve);
	read_answer(fd, &a);
	assert_int_equal(code_of(&a), 503);
	assert_true(has(&a, "shutting down"));
}

static void test_targets(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0}, b = {.len = 0}, c = {.len = 0}, d = {.len = 0};
	struct fixture *f = *state;

	fill(f);
	get(f, "/targets", &a);
	assert_true(has(&a, "Content-Type: application/json"));
	assert_true(has(&a, "\"__param_pid\":\"10\"") && has(&a, "\"__param_pid\":\"20\""));
	assert_false(has(&a, "\"__param_pid\":\"2\"") || has(&a, "\"__param_pid\":\"30\""));
	assert_true(has(&a, "\"__meta_process_cmdline\":\"/bin/app -x \\\"q\\\"\""));
	assert_true(has(&a, "\"targets\":[\"localhost:"));
	get(f, "/targets?by=container", &b);
	assert_true(has(&b, "[{\"targets\":[\"localhost:") &&
		    has(&b, "\"__param_container\":\"c0ffee00c0ffee00\""));
	assert_true(has(&b, "\"__meta_container_name\":\"w\""));
	assert_false(has(&b, "__param_pid"));
	get(f, "/targets?by=unit&min_cpu=0", &c);
	assert_true(has(
		&c, "{\"__param_unit\":\"app.service\",\"__meta_systemd_unit\":\"app.service\"}"));
	get(f, "/targets?min_cpu=nan", &d);
	assert_int_equal(code_of(&d), 400);
}

static void test_small_answers(void **state)
{
	static const struct {
		const char *path;
		int code;
		const char *text;
	} cases[] = {
		{"/-/healthy", 200, "Healthy"},
		{"/-/ready", 503, "starting"},
		{"/debug/pprof", 302, "Location: /debug/pprof/"},
		{"/debug/pprof/", 200, "href=\"profile\""},
		{"/debug/pprof/symbol", 200, "num_symbols: 0\n"},
		{"/debug/pprof/goroutine", 404, "Unknown profile"},
		{"/nothing", 404, ""},
		{"/", 200, "CAP_&lt;X&gt;</td><td>no &quot;y&quot;"},
		{"/", 200,
			"truncated:read_fault</td><td class=\"n\">2</td><td class=\"n\">40.0 "
			"%</td><td>A stack page"},
		{"/flags", 200, "<td>--profile.window</td><td>10s</td>"},
		{"/metrics", 200, "sonde_unsymbolized_frames_total{binary=\"/lib/libc.so.6\"} 8\n"},
		{"/metrics", 200, "sonde_stacks_total{event=\"cpu\",result=\"read_fault\"} 2\n"},
		{"/metrics", 200,
			"sonde_truncated_by_binary_total{event=\"cpu\",binary=\"/lib/"
			"four\",reason=\"read_fault\"} "
			"2\n"},
		{"/unwind", 200, "<th>cpu</th><th></th><th></th></tr>\n<tr><td>complete</td>"},
		{"/unwind", 200, "<h2>By program, stacks of cpu</h2>"},
		{"/unwind", 200,
			"<tr><td>app</td><td class=\"n\">4</td><td class=\"n\">75.0 "
			"%</td><td>read_fault 1</td></tr>\n"},
		{"/unwind", 200,
			"<tr><td>/lib/three</td><td class=\"n\">3</td><td class=\"n\">100.0 "
			"%</td><td></td></tr>\n"},
		{"/unwind", 200,
			"<tr><td>/lib/four</td><td class=\"n\">4</td><td class=\"n\">75.0 "
			"%</td><td>read_fault 1</td></tr>\n"},
		{"/unwind", 200,
			"<tr><td class=\"n\">77</td><td>a&lt;b</td><td>/bin/a</td><td "
			"class=\"n\">4</td><td class=\"n\">75.0 "
			"%</td><td>read_fault</td></tr>\n"},
		{"/unwind", 200, "<tr><td>match</td><td class=\"n\">999</td></tr>\n"},
		{"/unwind", 200,
			"<tr><td class=\"n\">88</td><td>x&lt;y</td><td>frame 1, "
			"/bin/b+0x12</td><td><pre>0 b+0x12\n1 b+0x34</pre></td><td><pre>0 "
			"b+0x12\n1 b+0x56</pre></td></tr>\n"},
		{"/metrics", 200, "sonde_shadow_total{result=\"mismatch\"} 1\n"},
		{"/metrics", 200, "sonde_shadow_total{result=\"skipped\"} 3\n"},
		{"/metrics", 200,
			"sonde_capability_missing{cap=\"CAP_<X>\",effect=\"no \\\"y\\\"\"} 1\n"},
		{"/metrics", 200,
			"sonde_samples_dropped_total{event=\"cpu\",reason=\"log_full\"} 0\n"},
	};
	_cleanup_bytes_ struct bytes a = {.len = 0}, b = {.len = 0};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes answer = {.len = 0};

		get(f, cases[i].path, &answer);
		if (code_of(&answer) != cases[i].code || !has(&answer, cases[i].text))
			fail_msg("%s: %s", cases[i].path, (char *)answer.data);
	}
	fill(f);
	get(f, "/-/ready", &a);
	assert_int_equal(code_of(&a), 200);
	get(f, "/debug/pprof/cmdline", &b);
	assert_memory_equal(body_of(&b), "sonde-exporter\0--x", 19);
}

static void test_memory_cap_is_told(void **state)
{
	_cleanup_bytes_ struct bytes a = {.len = 0};
	struct fixture *f = *state;

	fill(f);
	f->budget.limit_bytes = f->budget.used_bytes + 9000;
	get(f, "/debug/pprof/profile?since=", &a);
	assert_int_equal(code_of(&a), 503);
	assert_true(has(&a, "--web.max-bytes"));
	f->budget.limit_bytes = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_wrong_parameters, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lost_samples, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cursor_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_health_is_of_the_profile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_filters_and_formats, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_window_waits_for_its_samples, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_stopping_ends_waiting_requests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_default_window, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_targets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_small_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_cap_is_told, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
