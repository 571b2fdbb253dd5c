/* SPDX-License-Identifier: Apache-2.0
 *
 * The API over real HTTP on loopback, with fake parts and a fake store behind it: shapes, formats, errors, readiness,
 * lifecycle, pages with hostile label values.
 */
#include "proto/flamegraph.pb-c.h"
#include "tests/unit/api_fixture.h"

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D"
#define RANGE "&start=0&end=2000"

static struct json_doc *read_json(const struct answer *a)
{
	struct json_doc *doc = NULL;
	struct errbuf eb = {};

	if (json_read(a->body.data, a->body.len, 1 << 24, &doc, &eb) < 0)
		fail_msg("%s in %s", eb.text, (const char *)a->body.data);
	return doc;
}

static const struct json_value *member(const struct json_value *v, const char *path)
{
	char key[64];

	while (*path) {
		size_t n = strcspn(path, ".");

		snprintf(key, sizeof(key), "%.*s", (int)n, path);
		v = json_value_kind(v) == JSON_KIND_ARRAY ? json_value_at(v, (size_t)atol(key))
							  : json_value_get(v, key);
		if (!v)
			fail_msg("no member %s", key);
		path += n + (path[n] == '.');
	}
	return v;
}

static void test_json(void **state)
{
	static const struct {
		const char *path;
		struct {
			const char *member, *text; /* text NULL: the number */
			int64_t number;
		} want[7];
	} cases[] = {
		{"/api/v1/profile_types?start=0&end=2000",
			{{"status", "success", 0},
				{"data.0.id", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 0},
				{"data.0.kind", "delta", 0}, {"data.1.sample_type", "samples", 0},
				{"stats.parts", NULL, 2}}},
		{"/api/v1/flamegraph?query=" CPU RANGE,
			{{"data.total", NULL, 320000000}, {"data.unit", "nanoseconds", 0},
				{"data.parent.2", NULL, 1}, {"data.functions.name.2", "f1", 0},
				{"stats.rows", NULL, 32}}},
		{"/api/v1/flamegraph?query=" CPU RANGE "&at=f1&at=f2",
			{{"data.total", NULL, 320000000},
				{"data.total_by_node.0", NULL, 160000000}}},
		{"/api/v1/flamegraph?query=" CPU RANGE "&focus=f3&ignore=nothing",
			{{"data.total", NULL, 160000000}}},
		{"/api/v1/flamegraph?query=" CPU RANGE "&max_nodes=2",
			{{"data.total", NULL, 320000000}, {"data.kind.2", NULL, 7},
				{"data.cut.2", NULL, 2}}},
		{"/api/v1/flamegraph?query=" CPU RANGE "&group_by=job",
			{{"data.total", NULL, 320000000}}},
		{"/api/v1/top?query=" CPU RANGE "&limit=1",
			{{"data.n_rows", NULL, 3}, {"data.rows.0.self", NULL, 160000000},
				{"data.rows.0.function", "f2", 0}}},
		{"/api/v1/query_series?query=up&start=1000&end=1020&step=10&group_by=",
			{{"data.resultType", "matrix", 0}, {"data.result.0.values.0.0", NULL, 1010},
				{"data.result.0.values.0.1", "2", 0}}},
		{"/api/v1/labels?start=0&end=2000",
			{{"data.0", "__name__", 0}, {"data.1", "job", 0}}},
		{"/api/v1/label/job/values?start=0&end=2000", {{"data.1", "api", 0}}},
		{"/api/v1/label/U__job/values?start=0&end=2000", {{"data.1", "api", 0}}},
		{"/api/v1/label/__name__/values?start=0&end=2000",
			{{"data.0", "process_cpu_cpu_nanoseconds_total", 0}, {"data.2", "up", 0}}},
		{"/api/v1/series?match%5B%5D=up&start=0&end=2000", {{"data.0.__name__", "up", 0}}},
		{"/api/v1/targets",
			{{"data.activeTargets.0.health", "up", 0},
				{"data.activeTargets.1.scrapeInterval", "1m30s", 0},
				{"data.activeTargets.0.collapsedLabels", "", 0},
				{"data.activeTargets.1.collapsedLabels", "comm, pid", 0},
				{"data.activeTargets.1.lastScrape", "0001-01-01T00:00:00Z", 0},
				{"data.droppedTargets.0.scrapePool", "job2", 0},
				{"data.droppedTargetCounts.job2", NULL, 1}}},
		{"/api/v1/targets?state=active&scrapePool=job2",
			{{"data.activeTargets.0.scrapePool", "job2", 0}}},
		{"/api/v1/scrape_pools", {{"data.scrapePools.1", "job2", 0}}},
		{"/api/v1/status/config", {{"data.yaml", "scrape_configs: [] # <b>\n", 0}}},
		{"/api/v1/status/flags", {{"data.web\1listen-address", "127.0.0.1:0", 0}}},
		{"/api/v1/status/runtimeinfo", {{"data.reloadConfigSuccess", NULL, 0}}},
		{"/api/v1/status/buildinfo", {{"data.version", "1.2.3", 0}}},
		{"/api/v1/status/tsdb?start=0&end=2000&limit=1",
			{{"data.headStats.numSeries", NULL, 7},
				{"data.headStats.chunkCount", NULL, 5},
				{"data.seriesCountByMetricName.0.name",
					"process_cpu_cpu_nanoseconds_total", 0},
				{"data.labelValueCountByLabelName.0.name", "__name__", 0}}},
		{"/api/v1/status/tsdb/blocks",
			{{"data.blocks.0.ulid", "01BLOCK", 0},
				{"data.blocks.0.stats.numBytes", NULL, 4096},
				{"data.blocks.0.compaction.level", NULL, 2},
				{"data.quarantined.0.reason", "why <so>", 0}}},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_answer_ struct answer a = ask(f, "GET", cases[i].path);
		struct json_doc *doc = read_json(&a);

		if (a.status != 200)
			fail_msg("%s: %s", cases[i].path, (char *)a.body.data);
		assert_non_null(strstr(a.head, "application/json"));
		for (size_t k = 0; k < ARRAY_SIZE(cases[i].want) && cases[i].want[k].member; k++) {
			const struct json_value *v;

			if (strchr(cases[i].want[k].member, '\1')) /* a name with a dot */
				v = json_value_get(
					member(json_doc_root(doc), "data"), "web.listen-address");
			else
				v = member(json_doc_root(doc), cases[i].want[k].member);
			assert_non_null(v);
			if (cases[i].want[k].text)
				assert_string_equal(json_value_str(v), cases[i].want[k].text);
			else if (json_value_int(v) != cases[i].want[k].number &&
				 json_value_double(v) != (double)cases[i].want[k].number)
				fail_msg("%s: %s is %lld", cases[i].path, cases[i].want[k].member,
					(long long)json_value_int(v));
		}
		json_doc_freep(&doc);
	}
}

static void test_formats(void **state)
{
	static const struct {
		const char *format, *type, *text;
	} cases[] = {
		{"folded", "text/plain", "f1;f2 160000000\n"},
		{"speedscope", "application/json", "\"type\":\"sampled\""},
		{"svg", "image/svg+xml", "<svg class=\"fg\" xmlns"},
		{"html", "text/html", "<!DOCTYPE html>"},
		{"dot", "text/vnd.graphviz", "digraph"},
		{"csv", "text/csv", "function,file,mapping"},
		{"text", "text/plain", "Showing 3 of 3 functions"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *path = xasprintf(
			"/api/v1/flamegraph?query=%s&format=%s", CPU RANGE, cases[i].format);
		_cleanup_answer_ struct answer a = ask(f, "GET", path);

		assert_int_equal(a.status, 200);
		assert_non_null(strstr(a.head, cases[i].type));
		assert_non_null(strstr(a.head, "Sonde-Stats: parts=2 "));
		assert_true(has(&a, cases[i].text));
		/* Only pages have a script, the one that their policy names. */
		assert_int_equal(has(&a, "<script"), !strcmp(cases[i].format, "html"));
		assert_int_equal(strstr(a.head, "script-src 'sha256-") != NULL,
			!strcmp(cases[i].format, "html"));
	}
	_cleanup_answer_ struct answer csv = ask(
		f, "GET", "/api/v1/query_series?query=up&start=1000&end=1020&step=10&format=csv");
	assert_true(has(&csv, "\"{__name__=\"\"up\"\",job=\"\"api\"\"}\",1010.000,1\r\n"));
}

/* What go tool pprof gets: valid by pprof's rules, whatever the groups and filters. */
static void test_pprof(void **state)
{
	static const struct {
		const char *query;
		size_t n_samples, n_labels;
		int64_t total;
	} cases[] = {
		{"", 2, 0, 320000000},
		{"&group_by=job", 4, 4, 320000000},
		{"&focus=f2", 1, 0, 160000000},
		{"&max_nodes=2", 1, 0, 320000000},
		{"&seconds=5", 2, 0, 80000000},
		{"&start=0&end=1", 0, 0, 0},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *path = xasprintf("/api/v1/profile?query=%s%s%s", CPU,
			cases[i].query,
			strchr(cases[i].query, 's') == cases[i].query + 1 ? ""
									  : "&start=0&end=2000");
		_cleanup_answer_ struct answer a = ask(f, "GET", path);
		_cleanup_bytes_ struct bytes raw = {};
		_cleanup_profile_ struct profile p;
		struct errbuf eb = {};
		int64_t total = 0;

		profile_init(&p, NULL);
		assert_int_equal(a.status, 200);
		assert_non_null(strstr(a.head, "application/octet-stream"));
		assert_int_equal(gzip_inflate(a.body.data, a.body.len, 1 << 20, &raw, &eb), 0);
		if (prof_decode(raw.data, raw.len, &p, &eb) < 0)
			fail_msg("%s: %s", cases[i].query, eb.text);
		for (size_t k = 0; k < p.n_samples; k++)
			total += p.values[k];
		assert_int_equal(total, cases[i].total);
		assert_int_equal(p.n_samples, cases[i].n_samples);
		assert_int_equal(p.n_labels, cases[i].n_labels);
		assert_int_equal(p.n_types, 1);
		assert_true(profile_str_is(&p, p.types[0].type, "cpu"));
		assert_true(profile_str_is(&p, p.period_type.unit, "nanoseconds"));
		if (total && !strcmp(cases[i].query, "&seconds=5")) {
			assert_int_equal(p.time_ns, 1014 * SEC);
			assert_int_equal(p.duration_ns, 4 * SEC);
		}
	}
}

static void test_errors(void **state)
{
	static const struct {
		const char *path;
		unsigned status;
		const char *text;
	} cases[] = {
		{"/api/v1/flamegraph", 400,
			"{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"query: "
			"missing; "
			"for example process_cpu:cpu:nanoseconds:cpu:nanoseconds{}\"}"},
		{"/api/v1/flamegraph?query=%7B", 400,
			"\"error\":\"query: selector, position 1: { is not closed\""},
		{"/api/v1/flamegraph?query=process_cpu" RANGE, 400,
			"the selector means 2 profile types"},
		{"/api/v1/flamegraph?query=up" RANGE, 400, "is a number over time"},
		{"/api/v1/flamegraph?query=" CPU "&format=pprof&at=x" RANGE, 400,
			"at: not with format=pprof"},
		{"/api/v1/query_series?query=" CPU "&start=0&end=1000000&step=1", 400,
			"11,000 points"},
		{"/api/v1/query_series?query=" CPU "&format=svg", 400,
			"query_series answers json and csv"},
		{"/api/v1/targets?state=x", 400, "state: is none of"},
		{"/api/v1/format_query?query=up", 404,
			"{\"status\":\"error\",\"errorType\":\"not_found\","
			"\"error\":\"/api/v1/format_query is not served here\"}"},
		{"/api/v1/import", 405,
			"{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"method GET "
			"is not allowed here, use POST, PUT\"}"},
		{"/pyroscope/nothing", 404, "{\"code\":\"unimplemented\",\"message\":"},
		{"/querier.v1.QuerierService/ProfileTypes", 405,
			"{\"code\":\"unimplemented\",\"message\":\"method GET"},
		{"/none.v1.NoneService/None", 404, "{\"code\":\"unimplemented\""},
		{"/nothing", 404, "404 page not found\n"},
		{"/.service", 404, "404 page not found\n"},
		{"/api/v1/profile?query=%7B", 400,
			"query: selector, position 1: { is not closed\n"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_answer_ struct answer a = ask(f, "GET", cases[i].path);

		if (a.status != cases[i].status || !has(&a, cases[i].text))
			fail_msg("%s: %u %s", cases[i].path, a.status, (char *)a.body.data);
	}
	_cleanup_answer_ struct answer pprof = ask(f, "GET", "/api/v1/profile?query=%7B");
	assert_non_null(strstr(pprof.head, "X-Go-Pprof: 1"));
	assert_non_null(strstr(pprof.head, "text/plain"));
	/* Wherever the budget ends, also in the middle of the answer. */
	for (uint64_t limit = 3000; limit < 400000; limit += limit / 4) {
		static const char *const formats[] = {
			"json", "folded", "svg", "pprof", "speedscope", "csv"};

		for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
			_cleanup_free_ char *path = xasprintf(
				"/api/v1/flamegraph?query=%s&format=%s", CPU RANGE, formats[i]);
			_cleanup_answer_ struct answer big = {};

			f->budget.limit_bytes = limit;
			big = ask(f, "GET", path);
			if (big.status != 200 &&
				(big.status != 422 || !has(&big, "--query.max-memory")))
				fail_msg("%s at %llu: %u %s", formats[i], (unsigned long long)limit,
					big.status, (char *)big.body.data);
			assert_true(limit > 3000 || big.status == 422);
		}
	}
	f->budget.limit_bytes = 0;
}

static void test_lifecycle(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *method, *path;
		unsigned status;
		const char *text;
	} cases[] = {
		{"GET", "/-/healthy", 200, "healthy"},
		{"GET", "/-/ready", 200, "ready"},
		{"GET", "/-/reload", 405, ""},
		{"POST", "/-/reload", 200, ""},
		{"PUT", "/-/reload", 500, "failed to reload config: bad.yml:1:2: no"},
		{"POST", "/-/quit", 200, "termination"},
		{"GET", "/metrics", 200, "sonde_queries_total"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_answer_ struct answer a = ask(f, cases[i].method, cases[i].path);

		if (a.status != cases[i].status || !has(&a, cases[i].text))
			fail_msg("%s %s: %u %s", cases[i].method, cases[i].path, a.status,
				(char *)a.body.data);
	}
	assert_int_equal(f->n_quits, 1);
	f->ready = false;
	api_set_store(f->api, NULL);
	_cleanup_answer_ struct answer ready = ask(f, "GET", "/-/ready");
	assert_int_equal(ready.status, 503);
	assert_true(has(&ready, "replaying"));
	_cleanup_answer_ struct answer query = ask(f, "GET", "/api/v1/flamegraph?query=" CPU);
	assert_int_equal(query.status, 503);
	assert_true(
		has(&query, "\"errorType\":\"unavailable\",\"error\":\"not ready: replaying\""));
	_cleanup_answer_ struct answer page = ask(f, "GET", "/plain");
	assert_int_equal(page.status, 200);
	assert_true(has(&page, "not ready: replaying"));
}

static void test_pages(void **state)
{
	static const struct {
		const char *path, *text;
	} cases[] = {
		{"/plain?start=0&end=2000", "<svg class=\"fg\" xmlns"},
		{"/plain?query=" CPU "&start=0&end=2000&group_by=job", "Flame graph"},
		{"/plain?query=%3Cscript%3E", "&lt;script&gt;"},
		{"/plain/targets", "&lt;script&gt;alert(1)"},
		{"/plain/config", "scrape_configs: [] # &lt;b&gt;"},
		{"/plain/flags", "web.listen-address"},
		{"/plain/status", "Head streams"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_answer_ struct answer a = ask(f, "GET", cases[i].path);

		assert_int_equal(a.status, 200);
		if (!has(&a, cases[i].text))
			fail_msg("%s lacks %s", cases[i].path, cases[i].text);
		assert_non_null(strstr(a.head, "Content-Security-Policy: default-src 'none'"));
		assert_false(has(&a, "<script"));
		assert_true(has(&a, "</html>"));
	}
}

/* The same question over the same parts is answered once; "now" is another question each time, and other parts another answer. */
static void test_cache(void **state)
{
	static const char *const paths[] = {
		"/api/v1/flamegraph?query=" CPU RANGE,
		"/api/v1/top?query=" CPU RANGE,
		"/api/v1/top?query=" CPU RANGE "&limit=1",
		"/api/v1/flamegraph?query=" CPU RANGE "&format=folded",
		"/api/v1/profile?query=" CPU RANGE,
		"/api/v1/labels?start=0&end=2000",
		"/api/v1/label/job/values?start=0&end=2000",
		"/api/v1/diff?query=" CPU "&start_a=0&end_a=1009&start_b=1010&end_b=2000",
		"/api/v1/diff?query=" CPU "&start_a=0&end_a=1000&start_b=1010&end_b=2000",
		"/api/v1/query_series?query=up&start=1000&end=1020&step=10",
	};
	struct fixture *f = *state;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
			_cleanup_answer_ struct answer a = ask(f, "GET", paths[i]);
			_cleanup_answer_ struct answer b = ask(f, "GET", paths[i]);
			const char *mark = strstr((char *)a.body.data, ",\"stats\"");
			size_t n = mark ? (size_t)(mark - (char *)a.body.data) : a.body.len;

			assert_int_equal(a.status, 200);
			assert_int_equal(b.status, 200);
			assert_true(mark ? has(&a, "\"source\":\"run\"")
					 : strstr(a.head, "source=run") != NULL);
			assert_true(mark ? has(&b, "\"source\":\"cache\"")
					 : strstr(b.head, "source=cache") != NULL);
			assert_true(mark || a.body.len == b.body.len);
			assert_memory_equal(a.body.data, b.body.data, n);
		}
		fakes[0]->info.id++; /* as after a deletion or compaction */
	}
	for (int i = 0; i < 2; i++) {
		_cleanup_answer_ struct answer a =
			ask(f, "GET", "/api/v1/top?query=" CPU "&start=now-10m&end=now");

		assert_true(has(&a, "\"source\":\"run\""));
		clock_virtual_step(&f->clock, 1);
	}
	fakes[0]->info.is_head = true; /* it may grow */
	for (int i = 0; i < 2; i++) {
		_cleanup_answer_ struct answer a = ask(f, "GET", paths[0]);

		assert_true(has(&a, "\"source\":\"run\""));
	}
	_cleanup_answer_ struct answer m = ask(f, "GET", "/metrics");
	assert_true(has(&m, "sonde_query_cache_hits_total 20\n"));
	assert_true(has(&m, "sonde_query_cache_evictions_total 10\n"));
}

/* One query may be refused while all together have room; the text names the flag to raise. */
static void test_query_bytes(void **state)
{
	static const char *const paths[] = {"/api/v1/flamegraph?query=" CPU RANGE,
		"/api/v1/profile?query=" CPU RANGE, "/api/v1/top?query=" CPU RANGE "&format=text",
		"/api/v1/diff?query=" CPU RANGE};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_answer_ struct answer a = ask(f, "GET", paths[i]);

		if (a.status != 422 || !has(&a, "--query.max-bytes"))
			fail_msg("%s: %u %s", paths[i], a.status, (char *)a.body.data);
	}
}

static int64_t number_at(const struct json_doc *doc, const char *array, size_t i)
{
	_cleanup_free_ char *path = xasprintf("data.%s.%zu", array, i);

	return (int64_t)json_value_double(member(json_doc_root(doc), path));
}

/* The packed arrays of a difference are those of its JSON. */
static void test_diff_protobuf(void **state)
{
	static const char path[] =
		"/api/v1/diff?query=" CPU "&start_a=0&end_a=1000&start_b=1001&end_b=2000";
	struct fixture *f = *state;
	_cleanup_free_ char *packed = xasprintf("%s&format=protobuf", path);
	_cleanup_answer_ struct answer j = ask(f, "GET", path), p = ask(f, "GET", packed);
	struct json_doc *doc = read_json(&j);
	Sonde__FlameGraph *g = sonde__flame_graph__unpack(NULL, p.body.len, p.body.data);

	assert_non_null(g);
	assert_true(g->n_parent > 1);
	assert_int_equal(g->n_self_a, g->n_parent);
	assert_int_equal(g->n_mark, g->n_parent);
	assert_int_equal(g->n_marks, 4);
	for (size_t i = 0; i < g->n_parent; i++) {
		assert_int_equal(g->parent[i], number_at(doc, "parent", i));
		assert_int_equal(g->self_a[i], number_at(doc, "self_a", i));
		assert_int_equal(g->self_b[i], number_at(doc, "self_b", i));
		assert_int_equal(g->total_a[i], number_at(doc, "total_a", i));
		assert_int_equal(g->total_b[i], number_at(doc, "total_b", i));
		assert_int_equal(g->mark[i], number_at(doc, "mark", i));
	}
	sonde__flame_graph__free_unpacked(g, NULL);
	json_doc_freep(&doc);
}

static int setup_cached(void **state)
{
	return setup_with(state, 1 << 20, 0);
}

static int setup_small(void **state)
{
	return setup_with(state, 0, 8192);
}

#define WITH_SERVER(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

/* ---- imports ---- */

static void make_pprof(struct bytes *out, int64_t time_ns, const char *thread)
{
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b;
	struct prof_function fn = {};
	struct prof_line line = {};
	struct prof_label label = {};
	const int64_t values[2] = {3, 30};
	struct errbuf eb = {};
	uint32_t at;

	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	fn.name = prof_builder_string(b, "main", 4);
	line.function = prof_builder_function(b, &fn);
	at = prof_builder_location(b, 0, PROF_NONE, &line, 1);
	label.key = prof_builder_string(b, "thread_name", 11);
	label.str = prof_builder_string(b, thread, strlen(thread));
	prof_builder_sample(b, &at, 1, values, &label, 1, 0);
	label.str = prof_builder_string(b, "other", 5);
	prof_builder_sample(b, &at, 1, values, &label, 1, 0);
	p.time_ns = time_ns;
	assert_int_equal(prof_builder_finish(b, &eb), 0);
	assert_int_equal(prof_encode(&p, out), 0);
}

static void test_import(void **state)
{
	static const char form[] = "Content-Type: application/x-www-form-urlencoded\r\n";
	static const char zipped[] = "Content-Encoding: gzip\r\n";
	static const struct {
		const char *query, *header;
		int64_t time_ns;
		int layers; /* of gzip; -1: a damaged one */
		unsigned status;
		const char *text;
	} cases[] = {
		{"", form, 9, 0, 200, "\"profiles\":1,\"rows\":2,\"duplicates\":0"},
		{"?name=wall", "", 9, 1, 200, "\"wall:cpu:nanoseconds:"},
		{"?label.job=x", zipped, 9, 2, 200, "\"profiles\":1"},
		{"?sample_labels=a,thread_name", "", 9, 1, 200, "\"profiles\":2"},
		{"", "", 9, -1, 400, "bad_data"},
		{"", "", 0, 1, 400, "time_nanos"},
		{"", "", 1, 1, 422, "\"errorType\":\"timestamp\""},
		{"", "", 2, 1, 409, "\"errorType\":\"conflict\""},
		{"?label.=x", "", 9, 1, 400, "label."},
		{"?label.1a=x", "", 9, 1, 400, "label.1a"},
		{"?label.__name__=x", "", 9, 1, 400, "label.__name__"},
		{"?label.a=x&label.a=y", "", 9, 1, 400, "given twice"},
		{"?label.a=%ff", "", 9, 1, 400, "UTF-8"},
		{"?name=a:b", "", 9, 1, 400, "name:"},
		{"?labels.a=x", "", 9, 1, 400, "unknown parameter"},
		{"", "Content-Encoding: br\r\n", 9, 1, 400, "Content-Encoding"},
		{"", "Origin: http://elsewhere.example\r\n", 9, 1, 403, "rigin"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *path = xasprintf("/api/v1/import%s", cases[i].query);
		_cleanup_answer_ struct answer a = {};
		_cleanup_bytes_ struct bytes body = {};
		struct errbuf eb = {};

		make_pprof(&body, cases[i].time_ns, "main");
		for (int layer = 0; layer < abs(cases[i].layers); layer++) {
			struct bytes out = {};

			assert_int_equal(gzip_deflate(body.data, body.len, 1, &out, &eb), 0);
			bytes_done(&body);
			body = out;
		}
		if (cases[i].layers < 0)
			body.len -= 9;
		a = send_body(f, "POST", path, cases[i].header, body.data, body.len);
		if (a.status != cases[i].status || !has(&a, cases[i].text))
			fail_msg("case %zu: %u %s", i, a.status, (const char *)a.body.data);
	}
}

static void test_import_labels(void **state)
{
	struct fixture *f = *state;
	_cleanup_answer_ struct answer a = {}, empty = {}, junk = {}, get = {};
	_cleanup_bytes_ struct bytes body = {};

	make_pprof(&body, 9, "same");
	a = send_body(f, "PUT", "/api/v1/import?label.job=nightly&label.comm=cc", "", body.data,
		body.len);
	assert_int_equal(a.status, 200);
	assert_string_equal(imported.labels,
		"{__name__=\"process_cpu\",comm=\"cc\",job=\"nightly\",service_name=\"cc\"}");
	assert_int_equal(imported.time_ns, 9);
	empty = ask(f, "POST", "/api/v1/import");
	assert_int_equal(empty.status, 400);
	junk = send_body(f, "POST", "/api/v1/import", "", "<html>", 6);
	assert_int_equal(junk.status, 400);
	assert_true(has(&junk, "not a valid pprof profile"));
	get = ask(f, "GET", "/api/v1/import");
	assert_int_equal(get.status, 405);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(test_json),
		WITH_SERVER(test_formats),
		WITH_SERVER(test_pprof),
		WITH_SERVER(test_errors),
		cmocka_unit_test_setup_teardown(test_cache, setup_cached, teardown),
		WITH_SERVER(test_diff_protobuf),
		cmocka_unit_test_setup_teardown(test_query_bytes, setup_small, teardown),
		WITH_SERVER(test_lifecycle),
		WITH_SERVER(test_pages),
		cmocka_unit_test_setup_teardown(test_import, setup, teardown),
		cmocka_unit_test_setup_teardown(test_import_labels, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
