/* SPDX-License-Identifier: Apache-2.0
 *
 * The scrape stage as a whole: cursors, kinds of targets, bad ones, reloads, limits.
 */
#include "tests/unit/scrape_fixture.h"

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

/* The window is then as long as the one that was asked for. */
static void test_no_duration(void **state)
{
	struct env *e = env_new();

	(void)state;
	e->mode = MODE_NO_WINDOW;
	env_apply(e, "  scrape_interval: 1s\n  profiling_config: {pprof_config: {memory: "
		     "{enabled: false}, mutex: {enabled: false}, block: {enabled: false}, "
		     "goroutine: {enabled: false}}}\n");
	run_until(e, 2);
	assert_int_equal(e->records[0].total, 5);
	assert_int_equal(e->records[0].duration_ns, NS_PER_S);
	assert_int_equal(e->records[0].covered_ns, NS_PER_S);
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

/* A label that is no text costs itself: the profile is stored, the target is up and says so until its labels are texts. */
static void test_mended_labels(void **state)
{
	_cleanup_bytes_ struct bytes page = {0};
	struct env *e = env_new();

	(void)state;
	e->mode = MODE_BAD_UTF8;
	env_apply(e, "  profiling_config: {pprof_config: {memory: "
		     "{enabled: false}, mutex: {enabled: false}, block: {enabled: false}, "
		     "goroutine: {enabled: false}}}\n");
	run_until_status(e, SCRAPE_UP,
		"1 texts of sample labels are not UTF-8, the first of label \"comm\"", NULL);
	assert_int_equal(e->records[n_records(e) - 1].up, 1);
	assert_true(e->records[n_records(e) - 1].n_streams > 0);
	metrics_print(e->metrics, &page);
	bytes_put_u8(&page, 0);
	assert_non_null(
		strstr((const char *)page.data, "sonde_scrape_labels_mended_total{job=\"j\"} "));
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
		cmocka_unit_test(test_no_duration),
		cmocka_unit_test(test_bad_targets),
		cmocka_unit_test(test_mended_labels),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_target_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
