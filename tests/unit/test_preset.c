/* SPDX-License-Identifier: Apache-2.0
 *
 * Presets with overrides, label tiers, slots, the label set limit, and from samples to series.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "scraper/scrape/offset.h"
#include "scraper/scrape/series.h"
#include "scraper/scrape/window.h"
#include <stdio.h>
#include <string.h>

static struct config *config_of(const char *profiling)
{
	_cleanup_free_ char *text = xasprintf("scrape_configs:\n- job_name: j\n%s", profiling);
	struct config *c = NULL;
	struct errbuf eb = {0};

	if (config_parse(NULL, "t.yml", text, strlen(text), NULL, &c, &eb) < 0)
		fail_msg("%s", eb.text);
	return c;
}

/* "name:path:flags seconds;…": w windowed, c cumulative, s since */
static void print_specs(const struct scrape_specs *s, char *ret, size_t n)
{
	size_t len = 0;

	ret[0] = 0;
	for (size_t i = 0; i < s->n; i++)
		len += (size_t)snprintf(ret + len, n - len, "%s%s %s %s%s%s%lld", i ? "; " : "",
			s->items[i].name, s->items[i].path, s->items[i].is_windowed ? "w" : "",
			s->items[i].is_cumulative ? "c" : "", s->items[i].has_cursor ? "s" : "",
			(long long)s->items[i].seconds);
}

static void test_presets(void **state)
{
	static const struct {
		const char *profiling, *types;
		enum scrape_preset preset;
		const char *specs;
	} cases[] = {
		{"", NULL, SCRAPE_PRESET_AUTO, "process_cpu /debug/pprof/profile ws14"},
		{"", NULL, SCRAPE_PRESET_NODE, "process_cpu /debug/pprof/profile ws14"},
		{"", "offcpu=offcpu, process_cpu=profile", SCRAPE_PRESET_NODE,
			"process_cpu /debug/pprof/profile ws14; offcpu /debug/pprof/offcpu ws14"},
		{"", NULL, SCRAPE_PRESET_GO,
			"process_cpu /debug/pprof/profile w14; memory /debug/pprof/allocs c0; "
			"mutex /debug/pprof/mutex c0; "
			"block /debug/pprof/block c0; goroutine /debug/pprof/goroutine 0"},
		{"  scrape_interval: 1s\n", NULL, SCRAPE_PRESET_AUTO,
			"process_cpu /debug/pprof/profile ws1"},
		{"  profiling_config: {pprof_config: {mutex: {enabled: false}, block: {enabled: "
		 "false}, process_cpu: {enabled: false}, memory: {path: "
		 "/x/heap, delta: false}, goroutine: {seconds: 5}}}\n",
			NULL, SCRAPE_PRESET_GO,
			"memory /x/heap 0; goroutine /debug/pprof/goroutine w5"},
		{"  profiling_config: {pprof_config: {mutex: {enabled: false}, block: {enabled: "
		 "false}, memory: {enabled: false}, threadcreate: {enabled: true}, goroutineleak: "
		 "{}}}\n",
			NULL, SCRAPE_PRESET_GO,
			"process_cpu /debug/pprof/profile w14; goroutine /debug/pprof/goroutine 0; "
			"threadcreate /debug/pprof/threadcreate 0; "
			"goroutineleak /debug/pprof/goroutineleak 0"},
		{"  profiling_config: {pprof_config: {threadcreate: {enabled: true}}}\n", NULL,
			SCRAPE_PRESET_AUTO, "process_cpu /debug/pprof/profile ws14"},
		{"  profiling_config: {pprof_config: {fgprof: {path: /debug/fgprof, delta: true}, "
		 "custom: {path: /c}, process_cpu: {seconds: 7}}}\n",
			NULL, SCRAPE_PRESET_AUTO,
			"process_cpu /debug/pprof/profile ws7; fgprof /debug/fgprof w14; custom /c "
			"0"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(config_putp)
		struct config *c = config_of(cases[i].profiling);
		_cleanup_scrape_specs_ struct scrape_specs s = {0};
		struct errbuf eb = {0};
		char text[1024];

		if (scrape_specs_build(&c->jobs[0].profiling, cases[i].preset, cases[i].types,
			    c->jobs[0].scrape_interval_ms, &s, &eb) < 0)
			fail_msg("%s", eb.text);
		print_specs(&s, text, sizeof(text));
		assert_string_equal(text, cases[i].specs);
	}
}

/* A profile of one sample with a column of this type. */
static void make_answer(struct profile *ret, const char *type, int64_t value, int64_t duration_ns)
{
	_cleanup_prof_builder_ struct prof_builder *b = NULL;

	profile_init(ret, NULL);
	b = prof_builder_new(ret);
	prof_builder_type(b, type, "bytes");
	prof_builder_sample(b, NULL, 0, &value, NULL, 0, false);
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	ret->duration_ns = duration_ns;
}

static void test_states_and_amounts(void **state)
{
	static const struct scrape_spec plain = {.is_cumulative = false},
					totals = {.is_cumulative = true},
					asked = {.is_windowed = true, .seconds = 2},
					pushed = {.is_windowed = true};
	static const struct {
		const char *type;
		const struct scrape_spec *spec;
		int64_t value, duration_ns;
		bool is_instant;
	} cases[] = {
		{"inuse_space", &plain, 5, 0, true},
		{"inuse_space", &totals, 5, 0, true},
		{"alloc_space", &totals, 5, 0, false},
		{"space", &totals, 5, 0, true}, /* Node.js, tcmalloc: no totals among their types */
		{"objects", &totals, 5, 0, true},
		{"space", &pushed, 5, 0, true},
		{"space", &pushed, 5, NS_PER_S, false},
		{"space", &asked, 5, 0, true}, /* seconds are asked for in vain */
		{"goroutine", &asked, 5, 0, true},
		{"goroutine", &asked, 5, 2 * NS_PER_S, false},
		{"inuse_space", &asked, 5, 2 * NS_PER_S, false}, /* Go's heap?seconds=2 */
		{"inuse_space", &asked, -5, 2 * NS_PER_S, false},
		{"inuse_space", &pushed, 5, 2 * NS_PER_S, true},
		{"inuse_space", &pushed, -5, 2 * NS_PER_S, false},
		{"cpu", &asked, 5, 0, false},
		{"cpu", &pushed, 5, 0, false},
		{"cpu", &plain, 5, 0, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_profile_ struct profile p;

		make_answer(&p, cases[i].type, cases[i].value, cases[i].duration_ns);
		if (scrape_column_is_instant(cases[i].spec, &p, 0) != cases[i].is_instant)
			fail_msg("case %zu: %s", i, cases[i].type);
	}
}

static void test_bad_types_header(void **state)
{
	static const char *const bad[] = {"x", "a=b/c", "=p", "a=", "a b=c", "a=../../etc"};
	_cleanup_(config_putp)
	struct config *c = config_of("");
	struct scrape_specs s = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(scrape_specs_build(&c->jobs[0].profiling, SCRAPE_PRESET_NODE,
					 bad[i], 1000, &s, NULL),
			-EPROTO);
}

static void test_window_of_url(void **state)
{
	static const struct {
		const char *url, *rest;
		int64_t seconds;
	} cases[] = {
		{"http://h/p", "http://h/p", 0},
		{"http://h/p?a=1", "http://h/p?a=1", 0},
		{"http://h/p?seconds=6", "http://h/p", 6},
		{"http://h/p?seconds=6&seconds=7", "http://h/p", 6},
		{"http://h/p?a=1&seconds=6&b=2", "http://h/p?a=1&b=2", 6},
		{"http://h/p?seconds=6&b=2", "http://h/p?b=2", 6},
		{"http://h/p?a=1&seconds=86400", "http://h/p?a=1", 86400},
		{"http://h/p?seconds=x&seconds=3&seconds", "http://h/p", 3},
		{"http://h/p?seconds=86401&seconds=", "http://h/p", 0},
		{"http://h/p?seconds=00000000000000000000000000000006", "http://h/p", 0},
		{"http://h/p?secondsx=1&xseconds=2&second=3",
			"http://h/p?secondsx=1&xseconds=2&second=3", 0},
		{"http://h/seconds=4?", "http://h/seconds=4", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *url = xstrdup(cases[i].url);

		assert_int_equal(scrape_window_take(url), cases[i].seconds);
		assert_string_equal(url, cases[i].rest);
	}
}

static void test_tiers(void **state)
{
	static const struct {
		const char *profiling;
		enum scrape_preset preset;
		const char *name;
		enum scrape_tier tier;
	} cases[] = {
		{"", SCRAPE_PRESET_NODE, "comm", SCRAPE_TIER_SERIES},
		{"", SCRAPE_PRESET_NODE, "pid", SCRAPE_TIER_DROP},
		{"", SCRAPE_PRESET_NODE, "thread_name", SCRAPE_TIER_ROW},
		{"", SCRAPE_PRESET_NODE, "rack", SCRAPE_TIER_SERIES}, /* in Sonde-Labels */
		{"", SCRAPE_PRESET_NODE, "rac", SCRAPE_TIER_ROW},
		{"", SCRAPE_PRESET_GO, "comm", SCRAPE_TIER_ROW},
		{"", SCRAPE_PRESET_GO, "pid", SCRAPE_TIER_ROW},
		{"  profiling_config: {sample_labels: [thread_name], drop_labels: []}\n",
			SCRAPE_PRESET_NODE, "thread_name", SCRAPE_TIER_SERIES},
		{"  profiling_config: {sample_labels: [thread_name], drop_labels: []}\n",
			SCRAPE_PRESET_NODE, "comm", SCRAPE_TIER_ROW},
		{"  profiling_config: {sample_labels: [thread_name], drop_labels: []}\n",
			SCRAPE_PRESET_NODE, "pid", SCRAPE_TIER_ROW},
		{"  profiling_config: {drop_labels: [x]}\n", SCRAPE_PRESET_GO, "x",
			SCRAPE_TIER_DROP},
		{"  profiling_config: {sample_labels: []}\n", SCRAPE_PRESET_NODE, "node",
			SCRAPE_TIER_SERIES},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(config_putp)
		struct config *c = config_of(cases[i].profiling);

		assert_int_equal(scrape_label_tier(&c->jobs[0].profiling, cases[i].preset,
					 "node, rack", cases[i].name, strlen(cases[i].name)),
			cases[i].tier);
	}
}

/* 10,000 targets over 10 s: each second holds its share; slots are pinned to absolute time. */
static void test_slots(void **state)
{
	struct label zones[] = {{"zone", "a"}, {"zone", "b"}};
	const struct labels none = {0}, a = {.items = &zones[0], .n = 1},
			    b = {.items = &zones[1], .n = 1};
	uint64_t seed = scrape_offset_seed("host", &none);
	int64_t interval_ns = 10 * NS_PER_S, now_ns = 1795258903 * NS_PER_S + 123456789;
	unsigned buckets[10] = {0};

	(void)state;
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t hash = hash_mix(i + 1);
		int64_t slot = scrape_next_slot(now_ns, interval_ns, hash, seed);

		assert_true(slot > now_ns && slot <= now_ns + interval_ns);
		assert_int_equal(scrape_next_slot(slot - 1, interval_ns, hash, seed), slot);
		assert_int_equal(
			scrape_next_slot(slot, interval_ns, hash, seed), slot + interval_ns);
		buckets[slot / NS_PER_S % 10]++;
	}
	for (size_t i = 0; i < 10; i++)
		assert_in_range(buckets[i], 850, 1150);
	assert_true(seed != scrape_offset_seed("other", &none));
	/* nor do scrapers on hosts of one name that external_labels tell apart */
	assert_true(seed != scrape_offset_seed("host", &a));
	assert_true(scrape_offset_seed("host", &a) != scrape_offset_seed("host", &b));
	assert_true(scrape_offset_seed("host", &a) == scrape_offset_seed("host", &a));
}

/* A slot follows within two intervals whatever the clock did in between; none comes twice. */
static void test_slots_and_wrong_clock(void **state)
{
	const int64_t interval_ns = 10 * NS_PER_S, now_ns = 1795258903 * NS_PER_S + 123456789,
		      day_ns = 86400 * NS_PER_S,
		      slot_ns = scrape_next_slot(now_ns, interval_ns, 7, 5);
	const struct {
		int64_t now_ns, want_ns;
	} cases[] = {
		{slot_ns, slot_ns + interval_ns},
		{slot_ns - NS_PER_MS, slot_ns + interval_ns}, /* the timer was early */
		{slot_ns + NS_PER_MS, slot_ns + interval_ns},
		{slot_ns + interval_ns, slot_ns + 2 * interval_ns}, /* one was missed */
		{slot_ns - 5 * NS_PER_S, slot_ns + interval_ns},    /* back by half an interval */
		{slot_ns - interval_ns, slot_ns},
		{slot_ns - day_ns, slot_ns - day_ns + interval_ns},
		{slot_ns - 3600 * NS_PER_S - 1, slot_ns - 3600 * NS_PER_S},
		{slot_ns + day_ns, slot_ns + day_ns + interval_ns},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(scrape_slot_after(slot_ns, cases[i].now_ns, interval_ns, 7, 5),
			cases[i].want_ns);
}

static void test_limit(void **state)
{
	struct scrape_limit *l = scrape_limit_new(10, NS_PER_S);
	char text[64];

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 20; i++) {
			char id[16];
			struct label labels[] = {{"kind", i % 2 ? "a" : "b"}, {"request", id}};
			struct scrape_limit_set set = {.labels = labels, .n = 2};
			bool admitted;

			snprintf(id, sizeof(id), "%d", i);
			if (scrape_limit_is_collapsed(l, "request", 7))
				labels[1].value = SCRAPE_OTHER;
			set.hash = hash_mix((uint64_t)(labels[1].value == id ? i + 10 : i % 2) + 1);
			admitted =
				scrape_limit_admit(l, &set, 1, NS_PER_S / 2 + round * 2 * NS_PER_S);
			assert_int_equal(admitted, i != 10);
		}
		scrape_limit_describe(l, text, sizeof(text));
		assert_string_equal(text, "request");
		assert_false(scrape_limit_is_collapsed(l, "kind", 4));
	}
	assert_int_equal(l->n_collapsed_total, 2);
	scrape_limit_put(l);
}

/* An answer of another name and another value in each of its sets takes no more memory and time than one of few. */
static void test_limit_of_many_names(void **state)
{
	enum { SETS = 20000 };
	struct scrape_limit *l = scrape_limit_new(100, NS_PER_S),
			    *none = scrape_limit_new(0, NS_PER_S);
	_cleanup_free_ struct scrape_limit_set *sets = xcalloc(SETS, sizeof(*sets));
	_cleanup_free_ struct label *labels = xcalloc(2 * SETS, sizeof(*labels));
	_cleanup_free_ char *texts = xmalloc(SETS * 16);
	int n_rounds = 1;

	(void)state;
	for (size_t i = 0; i < SETS; i++) {
		char *text = texts + i * 16;

		snprintf(text, 16, "x%zu", i);
		labels[2 * i] = (struct label) {text, "1"};
		labels[2 * i + 1] = (struct label) {"request", text};
		sets[i] = (struct scrape_limit_set) {
			.hash = hash_mix(i + 1), .labels = labels + 2 * i, .n = 2};
	}
	assert_true(scrape_limit_admit(none, sets, SETS, 1));
	assert_int_equal(none->sets.n_used + none->n_names, 0);
	while (!scrape_limit_admit(l, sets, SETS, 1))
		n_rounds++;
	assert_int_equal(n_rounds, 2);
	assert_true(scrape_limit_is_collapsed(l, "request", 7));
	assert_in_range(l->n_names, 2, 4096);
	assert_in_range(l->sets.n_used, 100, 200);
	scrape_limit_put(l);
	scrape_limit_put(none);
}

/* ---- series ---- */

static const char *const base_pairs[][2] = {
	{"__name__", "process_cpu"}, {"instance", "i:1"}, {"job", "j"}};

struct fixture {
	struct config *config;
	struct labels target;
	struct profile profile;
	struct arena arena;
	struct scrape_limit *limit;
	struct store_scrape out;
	struct scrape_series_result res;
	struct errbuf eb;
	enum scrape_reason reason;
};

/* samples: rows of "key=value,key=value"; value of sample i is i + 1 */
static void run(struct fixture *f, const char *job, const char *const *samples, size_t n)
{
	_cleanup_(prof_builder_freep)
	struct prof_builder *b = NULL;
	_cleanup_labels_builder_ struct labels_builder lb;
	static char spec_name[] = "process_cpu";
	static struct scrape_spec spec = {.name = spec_name, .is_windowed = true};
	struct scrape_series_input in;

	*f = (struct fixture) {.config = config_of(job), .limit = NULL};
	labels_builder_init(&lb);
	for (size_t i = 0; i < ARRAY_SIZE(base_pairs); i++)
		labels_builder_set(&lb, base_pairs[i][0], base_pairs[i][1]);
	assert_int_equal(labels_builder_finish(&lb, &f->target), 0);
	f->limit = scrape_limit_new(f->config->jobs[0].profiling.label_set_limit, 3600 * NS_PER_S);
	arena_init(&f->arena, NULL);
	profile_init(&f->profile, NULL);
	b = prof_builder_new(&f->profile);
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	for (size_t i = 0; i < n; i++) {
		struct prof_label labels[8];
		size_t n_labels = 0;
		_cleanup_free_ char *copy = xstrdup(samples[i]);
		char *save = NULL;

		for (char *pair = strtok_r(copy, ",", &save); pair;
			pair = strtok_r(NULL, ",", &save)) {
			char *eq = strchr(pair, '=');

			labels[n_labels++] = (struct prof_label) {
				.key = prof_builder_string(b, pair, (size_t)(eq - pair)),
				.str = prof_builder_string(b, eq + 1, strlen(eq + 1))};
		}
		prof_builder_sample(b, NULL, 0,
			(const int64_t[]) {(int64_t)i + 1, ((int64_t)i + 1) * 1000}, labels,
			n_labels, 0);
	}
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	in = (struct scrape_series_input) {
		.profile = &f->profile,
		.job = &f->config->jobs[0],
		.spec = &spec,
		.preset = SCRAPE_PRESET_NODE,
		.target = &f->target,
		.limit = f->limit,
	};
	f->reason = scrape_series_build(&in, &f->arena, &f->out, &f->res, &f->eb);
}

static void done(struct fixture *f)
{
	scrape_series_done(&f->res);
	arena_done(&f->arena);
	profile_done(&f->profile);
	labels_done(&f->target);
	scrape_limit_put(f->limit);
	config_put(f->config);
}

/* "STREAM|ROW LABELS|samples" per row, by line */
static void expect_rows(struct fixture *f, const char *want)
{
	_cleanup_bytes_ struct bytes out = {0};

	if (f->reason)
		fail_msg("%s", f->eb.text);
	for (size_t i = 0; i < f->out.n_rows; i++) {
		labels_print(f->out.streams[f->out.row_stream[i]], &out);
		bytes_put_str(&out, "|");
		if (f->out.row_labels[i] != STORE_NONE)
			labels_print(&f->out.label_sets[f->out.row_labels[i]], &out);
		bytes_printf(&out, "|%lld\n", (long long)f->out.values[i * f->out.n_columns]);
	}
	bytes_put_u8(&out, 0);
	assert_string_equal((char *)out.data, want);
}

static void test_series(void **state)
{
	static const char *const samples[] = {"comm=a,pid=1,thread_name=t",
		"comm=a,pid=2,thread_name=t", "comm=b,job=theirs,tid=9",
		"node=n,exported_job=x,job=y"};
	struct fixture f;

	(void)state;
	run(&f, "", samples, 4);
	expect_rows(&f, "{__name__=\"process_cpu\",comm=\"a\",instance=\"i:1\",job=\"j\",service_"
			"name=\"a\"}|{thread_name=\"t\"}|1\n"
			"{__name__=\"process_cpu\",comm=\"a\",instance=\"i:1\",job=\"j\",service_"
			"name=\"a\"}|{thread_name=\"t\"}|2\n"
			"{__name__=\"process_cpu\",comm=\"b\",instance=\"i:1\",job=\"j\",service_"
			"name=\"b\"}|{exported_job=\"theirs\"}|3\n"
			"{__name__=\"process_cpu\",instance=\"i:1\",job=\"j\",node=\"n\",service_"
			"name=\"j\"}|{exported_exported_job=\"y\",exported_job=\"x\"}|4\n");
	assert_int_equal(f.res.n_samples, 8);
	assert_int_equal(f.out.columns[0].kind, STORE_DELTA);
	done(&f);
	run(&f, "  honor_labels: true\n", samples + 2, 1);
	expect_rows(&f, "{__name__=\"process_cpu\",comm=\"b\",instance=\"i:1\",job=\"theirs\","
			"service_name=\"b\"}||1\n");
	done(&f);
	run(&f,
		"  metric_relabel_configs: [{action: drop, source_labels: [comm], regex: a}, "
		"{action: labeldrop, regex: comm}]\n",
		samples, 4);
	assert_int_equal(f.out.n_rows, 2);
	assert_int_equal(f.res.n_dropped_series, 1);
	assert_int_equal(f.out.n_streams, 2);
	assert_int_equal(f.res.n_kept, 4);
	done(&f);
	/* rules that make two series equal: one stream */
	run(&f, "  metric_relabel_configs: [{action: labeldrop, regex: comm}]\n", samples, 3);
	assert_int_equal(f.out.n_streams, 1);
	assert_int_equal(f.out.n_rows, 3);
	done(&f);
}

static void test_series_limits(void **state)
{
	static const char *const samples[] = {
		"comm=a", "comm=b", "comm=c", "comm=a,x=1", "comm=a,x=2", "comm=a,x=3"};
	static const struct {
		const char *job, *error;
		enum scrape_reason reason;
	} cases[] = {
		{"  sample_limit: 11\n", "sample_limit exceeded: 12 samples",
			SCRAPE_FAIL_SAMPLE_LIMIT},
		{"  label_limit: 3\n", "label_limit exceeded", SCRAPE_FAIL_LABELS},
		{"  label_name_length_limit: 5\n", "label_name_length_limit exceeded",
			SCRAPE_FAIL_LABELS},
		{"  label_value_length_limit: 5\n", "label_value_length_limit exceeded",
			SCRAPE_FAIL_LABELS},
		{"  profiling_config: {pprof_config: {process_cpu: {keep_sample_type: [{type: x, "
		 "unit: y}]}}}\n",
			"keep_sample_type matches none", SCRAPE_FAIL_PPROF},
	};
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		run(&f, cases[i].job, samples, 6);
		assert_int_equal(f.reason, cases[i].reason);
		assert_non_null(strstr(f.eb.text, cases[i].error));
		done(&f);
	}
	/* what rules drop does not count; what is too much is told */
	run(&f,
		"  sample_limit: 10\n  metric_relabel_configs: [{action: drop, source_labels: "
		"[comm], "
		"regex: c}]\n",
		samples, 6);
	assert_int_equal(f.reason, SCRAPE_OK);
	assert_int_equal(f.res.n_kept, 10);
	done(&f);
	run(&f,
		"  sample_limit: 9\n  metric_relabel_configs: [{action: drop, source_labels: "
		"[comm], "
		"regex: c}]\n",
		samples, 6);
	assert_int_equal(f.reason, SCRAPE_FAIL_SAMPLE_LIMIT);
	assert_non_null(strstr(f.eb.text, "sample_limit exceeded: 10 samples"));
	assert_int_equal(f.res.n_samples, 12);
	assert_int_equal(f.res.n_kept, 10);
	done(&f);
	run(&f, "  profiling_config: {max_series: 2}\n", samples, 3);
	assert_int_equal(f.reason, SCRAPE_OK);
	assert_int_equal(f.out.n_streams, 2); /* a, and b with c without their label */
	assert_int_equal(f.res.n_joined_series, 2);
	assert_int_equal(f.out.n_rows, 3);
	done(&f);
	run(&f,
		"  profiling_config: {pprof_config: {process_cpu: {keep_sample_type: [{type: cpu, "
		"unit: nanoseconds}]}}}\n",
		samples, 2);
	assert_int_equal(f.out.n_columns, 1);
	assert_int_equal(f.out.values[1], 2000);
	done(&f);
	run(&f, "  profiling_config: {label_set_limit: 6}\n", samples, 6);
	assert_int_equal(f.reason, SCRAPE_OK);
	assert_int_equal(f.limit->n_collapsed_total, 1);
	assert_int_equal(f.out.n_rows, 6);
	done(&f);
}

static void test_service_name(void **state)
{
	static const struct {
		const char *pairs[6], *want;
	} cases[] = {
		{{"namespace", "ns", "container_name", "c"}, "ns/c"},
		{{"container_name", "c", "systemd_unit", "u"}, "c"},
		{{"namespace", "ns", "systemd_unit", "u"}, "u"},
		{{"executable", "/usr/bin/x", "comm", "y"}, "x"},
		{{"comm", "y", "job", "j"}, "y"},
		{{"job", "j"}, "j"},
		{{"service_name", "own", "comm", "y"}, "own"},
		{{"x", "y"}, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_labels_builder_ struct labels_builder b;

		labels_builder_init(&b);
		for (size_t k = 0; k < 6 && cases[i].pairs[k]; k += 2)
			labels_builder_set(&b, cases[i].pairs[k], cases[i].pairs[k + 1]);
		scrape_series_set_service(&b);
		assert_string_equal(labels_builder_get(&b, "service_name"), cases[i].want);
	}
}

/* A long one is cut between characters. */
static void test_long_service_name(void **state)
{
	_cleanup_labels_builder_ struct labels_builder b;
	char executable[2048] = "/x";
	const char *name;

	(void)state;
	for (size_t i = 2; i + 2 < sizeof(executable); i += 2)
		memcpy(executable + i, "ß", 3);
	labels_builder_init(&b);
	labels_builder_set(&b, "executable", executable);
	scrape_series_set_service(&b);
	name = labels_builder_get(&b, "service_name");
	assert_true(strlen(name) > 1000 && str_is_utf8(name, strlen(name)));
	assert_memory_equal(name, executable + 1, strlen(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_presets),
		cmocka_unit_test(test_states_and_amounts),
		cmocka_unit_test(test_bad_types_header),
		cmocka_unit_test(test_window_of_url),
		cmocka_unit_test(test_tiers),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_slots_and_wrong_clock),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_limit_of_many_names),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_series_limits),
		cmocka_unit_test(test_service_name),
		cmocka_unit_test(test_long_service_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
