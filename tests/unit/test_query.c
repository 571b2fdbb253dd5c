/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries against a second implementation that walks a plain list of records, on random data in fake parts.
 */
#include "lib/base/alloc.h"
#include "scraper/query/query.h"
#include "scraper/query/workers.h"
#include "tests/unit/fake_part.h"
#include <math.h>

static struct query_workers *workers;
static uint64_t rng = 0x2545f4914f6cdd1dULL;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

/* ---- random records ---- */

static const char *pick(const char *const *values, uint32_t n)
{
	return values[random_below(n)];
}

static struct set random_series(enum store_column_kind kind)
{
	static const char *const jobs[] = {"api", "db"}, *const comms[] = {"sh", "cc1", "ld", NULL},
				 *const nodes[] = {"n1", NULL};
	struct set s = {};

	s.value[NAME] = kind == STORE_GAUGE	? "up"
			: kind == STORE_INSTANT ? "goroutine"
						: "process_cpu";
	s.value[1] = pick(comms, 4);
	s.value[2] = pick(jobs, 2);
	s.value[3] = pick(nodes, 2);
	return s;
}

static void random_rows(struct record *r)
{
	static const char *const threads[] = {"main", "gc", NULL}, *const comms[] = {
									   "sh", "ld", NULL};

	r->n_rows = random_below(12);
	r->rows = calloc(r->n_rows + 1, sizeof(*r->rows));
	assert_non_null(r->rows);
	for (size_t i = 0; i < r->n_rows; i++) {
		struct row *row = &r->rows[i];

		row->labels.value[4] = pick(threads, 3);
		if (!r->series.value[1])
			row->labels.value[1] = pick(comms, 3);
		row->depth = random_below(MAX_DEPTH + 1);
		for (unsigned d = 0; d < row->depth; d++)
			row->stack[d] = (uint8_t)random_below(N_FUNCTIONS);
		row->value[0] = 1 + random_below(5);
		row->value[1] = (int64_t)random_below(1000) * 52631579;
	}
}

static void make_records(void)
{
	struct set series[12];
	int64_t t = 1000 * SEC;

	n_records = 0;
	n_fakes = 1 + random_below(4);
	for (unsigned i = 0; i < ARRAY_SIZE(series); i++)
		series[i] = random_series((enum store_column_kind)(i % 3));
	for (int i = 0; i < 150; i++) {
		struct record *r = &records[n_records++];
		unsigned s = random_below(ARRAY_SIZE(series));

		t += random_below(4) * SEC + 1;
		*r = (struct record) {.part = random_below(n_fakes),
			.series = series[s],
			.kind = (enum store_column_kind)(s % 3),
			.time = t,
			.duration = random_below(3) ? (int64_t)random_below(20) * SEC : 0,
			.gauge = random_below(10)};
		if (r->kind != STORE_GAUGE)
			random_rows(r);
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
}

static void drop_records(void)
{
	for (size_t i = 0; i < n_records; i++)
		free(records[i].rows);
	for (unsigned i = 0; i < n_fakes; i++)
		free(fakes[i]);
}

/* ---- the naive side ---- */

struct want {
	const char *selector;
	int kind;
	int column;
	/* wanted values per label, with '!' first for "not"; NULL: any */
	const char *match[N_NAMES];
	const char *group_by[2];
	size_t n_group_by;
	bool group;
};

static const char *value_of(const struct set *series, const struct set *row, int name)
{
	if (series->value[name])
		return series->value[name];
	return row && row->value[name] ? row->value[name] : "";
}

static bool naive_matches(const struct want *w, const struct set *series, const struct set *row)
{
	for (int i = 0; i < N_NAMES; i++) {
		const char *m = w->match[i], *v = value_of(series, row, i);

		if (m && (m[0] == '!' ? !strcmp(m + 1, v) : strcmp(m, v) != 0))
			return false;
	}
	return true;
}

/* "job=api,comm=sh" of the grouping labels that are there; of the whole series when not grouped. */
static void naive_group(
	const struct want *w, const struct set *series, const struct set *row, char *out)
{
	out[0] = 0;
	for (int i = 0; i < N_NAMES; i++) {
		bool wanted = !w->group;
		const char *v = value_of(series, w->group ? row : NULL, i);

		for (size_t k = 0; k < w->n_group_by; k++)
			wanted |= !strcmp(w->group_by[k], label_names[i]);
		if (wanted && *v)
			sprintf(out + strlen(out), "%s=%s,", label_names[i], v);
	}
}

static void print_labels(const struct labels *l, char *out)
{
	out[0] = 0;
	for (size_t i = 0; i < l->n; i++)
		sprintf(out + strlen(out), "%s=%s,", l->items[i].name, l->items[i].value);
}

struct sums {
	struct {
		char key[256];
		double value;
	} items[4096];
	size_t n;
};

static void add_sum(struct sums *s, const char *key, double value)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->items[i].key, key) != 0)
		i++;
	assert_true(i < ARRAY_SIZE(s->items));
	if (i == s->n)
		snprintf(s->items[s->n++].key, sizeof(s->items[0].key), "%s", key);
	s->items[i].value += value;
}

static double scrapes_of(const struct record *of, int64_t from, int64_t to)
{
	double n = 0;

	for (size_t i = 0; i < n_records; i++)
		n += records[i].kind == of->kind && same_set(&records[i].series, &of->series) &&
		     records[i].time >= from && records[i].time <= to;
	return n;
}

static void naive_merge(const struct want *w, int64_t from, int64_t to, struct sums *out)
{
	for (size_t i = 0; i < n_records; i++) {
		const struct record *r = &records[i];

		if (r->kind != w->kind || r->time < from || r->time > to)
			continue;
		for (size_t k = 0; k < r->n_rows; k++) {
			const struct row *row = &r->rows[k];
			double v = (double)row->value[w->column];
			char key[256];

			if (!naive_matches(w, &r->series, &row->labels))
				continue;
			naive_group(w, &r->series, &row->labels, key);
			strcat(key, "|");
			for (unsigned d = 0; d < row->depth; d++)
				sprintf(key + strlen(key), ";f%u", row->stack[d]);
			add_sum(out, key,
				w->kind == STORE_INSTANT ? v / scrapes_of(r, from, to) : v);
		}
	}
}

static const struct want wants[] = {
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", STORE_DELTA, 1, {}, {}, 0, true},
	{"process_cpu:samples:count:cpu:nanoseconds{job=\"api\"}", STORE_DELTA, 0, {[2] = "api"},
		{}, 0, true},
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm=\"sh\"}", STORE_DELTA, 1, {[1] = "sh"},
		{}, 0, true},
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{thread_name=~\"main\",comm!=\"ld\"}",
		STORE_DELTA, 1, {[4] = "main", [1] = "!ld"}, {"job"}, 1, true},
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{thread_name=\"\"}", STORE_DELTA, 1,
		{[4] = ""}, {"comm", "thread_name"}, 2, true},
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{node!~\"n1\"}", STORE_DELTA, 1, {[3] = "!n1"},
		{"node"}, 1, true},
	{"process_cpu:samples:count:cpu:nanoseconds{comm=~\"ld|nothing\"}", STORE_DELTA, 0,
		{[1] = "ld"}, {}, 0, false},
	{"goroutine:samples:count:cpu:nanoseconds{}", STORE_INSTANT, 0, {}, {}, 0, true},
	{"goroutine:cpu:nanoseconds:cpu:nanoseconds{comm=\"sh\"}", STORE_INSTANT, 1, {[1] = "sh"},
		{"job"}, 1, true},
	{"goroutine:cpu:nanoseconds:cpu:nanoseconds{thread_name=\"gc\"}", STORE_INSTANT, 1,
		{[4] = "gc"}, {}, 0, false},
	{"{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\",job=\"db\"}",
		STORE_DELTA, 1, {[2] = "db"}, {}, 0, true},
	{"{__name__=\"process_cpu\",__type__=~\"c.*\"}", STORE_DELTA, 1, {}, {}, 0, true},
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{job=\"nowhere\"}", STORE_DELTA, 1,
		{[2] = "nowhere"}, {}, 0, true},
	{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{missing=\"\"}", STORE_DELTA, 1, {},
		{"missing"}, 1, true},
};

static void add_tree(struct query_trees *t, const struct query_group *g, struct sums *s)
{
	struct tree functions;
	char group[128];

	tree_init(&functions, NULL);
	assert_int_equal(tree_project(&g->tree, NULL, &t->symbols, &functions, NULL), 0);
	print_labels(&g->labels, group);
	for (size_t i = 0; i < functions.n; i++) {
		const char *names[64];
		char key[256];
		size_t n = 0;

		if (!functions.self[i])
			continue;
		for (size_t k = i; k; k = functions.parent[k])
			names[n++] = tree_symbols_text(
				&t->symbols, t->symbols.frames[functions.frame[k]].name, NULL);
		snprintf(key, sizeof(key), "%s|", group);
		while (n-- > 0)
			sprintf(key + strlen(key), ";%s", names[n]);
		add_sum(s, key, -(double)functions.self[i]);
	}
	tree_done(&functions);
}

static void check_merge(const struct want *w, int64_t from, int64_t to)
{
	struct query_selector selector;
	struct query_env env = {.parts = fakes,
		.n_parts = n_fakes,
		.workers = random_below(2) ? workers : NULL,
		.share_rows = 1 + random_below(40)};
	struct sums *sums = calloc(1, sizeof(*sums));
	struct query_trees trees;
	struct errbuf eb = {};
	struct want grouped = *w;

	assert_non_null(sums);
	grouped.group = true; /* a merge without labels is one tree */
	assert_int_equal(query_selector_parse(w->selector, &selector, &eb), 0);
	struct query_spec spec = {.selector = &selector,
		.start_ns = from,
		.end_ns = to,
		.group_by = w->group_by,
		.n_group_by = w->n_group_by,
		.group = true};
	if (query_merge(&env, &spec, &trees, &eb) < 0)
		fail_msg("%s: %s", w->selector, eb.text);
	naive_merge(&grouped, from, to, sums);
	for (size_t i = 0; i < trees.n_groups; i++)
		add_tree(&trees, &trees.groups[i], sums);
	for (size_t i = 0; i < sums->n; i++) /* exact, but for the rounding of means */
		if (fabs(sums->items[i].value) > (w->kind == STORE_DELTA ? 0 : 0.503))
			fail_msg("%s: %s differs by %g", w->selector, sums->items[i].key,
				sums->items[i].value);
	query_trees_done(&trees);
	query_selector_done(&selector);
	free(sums);
}

static void test_merge_random(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		make_records();
		for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
			int64_t from = 1000 * SEC + random_below(200) * SEC;

			check_merge(&wants[i], 0, INT64_MAX / 2);
			check_merge(&wants[i], from, from + random_below(100) * SEC);
		}
		drop_records();
	}
}

/* ---- series over time ---- */

/* Share of the window (time − duration, time] that lies in (t − window, t]. */
static double share(const struct record *r, int64_t t, int64_t window)
{
	int64_t from = MAX(r->time - r->duration, t - window), to = MIN(r->time, t);

	if (!r->duration || r->kind != STORE_DELTA)
		return r->time > t - window && r->time <= t;
	return to > from ? (double)(to - from) / (double)r->duration : 0;
}

static double naive_value(const struct record *r, const struct row *row, const struct want *w)
{
	return row ? (double)row->value[w->column] : r->gauge;
}

/* Adds one value to every bucket it touches; *present marks them. */
static void naive_spread(const struct want *w, const struct record *r, const struct row *row,
	int64_t start, int64_t step, int64_t window, size_t n_points, struct sums *out,
	struct sums *present)
{
	char line[128], key[256];

	naive_group(w, &r->series, row ? &row->labels : NULL, line);
	for (size_t k = 0; k < n_points; k++) {
		int64_t t = start + (int64_t)k * step;
		double s = share(r, t, window), v = naive_value(r, row, w) * s;

		if (s == 0)
			continue;
		if (w->kind != STORE_DELTA)
			v /= scrapes_of(r, t - window + 1, t);
		snprintf(key, sizeof(key), "%s|%zu", line, k);
		add_sum(out, key, v);
		add_sum(present, key, 1);
	}
}

static void naive_over_time(const struct want *w, int64_t start, int64_t step, int64_t window,
	size_t n_points, struct sums *out, struct sums *present)
{
	for (size_t i = 0; i < n_records; i++) {
		const struct record *r = &records[i];

		if (r->kind != w->kind)
			continue;
		if (r->kind == STORE_GAUGE && naive_matches(w, &r->series, NULL))
			naive_spread(w, r, NULL, start, step, window, n_points, out, present);
		for (size_t k = 0; k < r->n_rows; k++)
			if (naive_matches(w, &r->series, &r->rows[k].labels))
				naive_spread(w, r, &r->rows[k], start, step, window, n_points, out,
					present);
	}
}

static void check_over_time(
	const struct want *w, int64_t start, int64_t end, int64_t step, int64_t window)
{
	struct query_selector selector;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes};
	struct sums *sums = calloc(1, sizeof(*sums)), *present = calloc(1, sizeof(*present));
	struct query_matrix m;
	struct errbuf eb = {};

	assert_true(sums && present);
	assert_int_equal(query_selector_parse(w->selector, &selector, &eb), 0);
	struct query_spec spec = {.selector = &selector,
		.start_ns = start,
		.end_ns = end,
		.step_ns = step,
		.window_ns = window,
		.group_by = w->group_by,
		.n_group_by = w->n_group_by,
		.group = w->group};
	if (query_over_time(&env, &spec, &m, &eb) < 0)
		fail_msg("%s: %s", w->selector, eb.text);
	naive_over_time(w, start, step, window ? window : step, (size_t)((end - start) / step) + 1,
		sums, present);
	for (size_t i = 0; i < m.n_lines; i++) {
		char line[128], key[256];

		print_labels(&m.lines[i].labels, line);
		for (size_t k = 0; k < m.lines[i].n_points; k++) {
			const struct query_point *p = &m.lines[i].points[k];

			assert_int_equal((p->time_ns - start) % step, 0);
			snprintf(key, sizeof(key), "%s|%lld", line,
				(long long)((p->time_ns - start) / step));
			add_sum(sums, key, -p->value);
			add_sum(present, key, 0);
		}
		assert_true(i == 0 || m.lines[i - 1].sum >= m.lines[i].sum);
	}
	for (size_t i = 0; i < sums->n; i++)
		if (fabs(sums->items[i].value) > 1e-3)
			fail_msg("%s step %lld: %s differs by %g", w->selector, (long long)step,
				sums->items[i].key, sums->items[i].value);
	query_matrix_done(&m);
	query_selector_done(&selector);
	free(sums);
	free(present);
}

static void test_over_time_random(void **state)
{
	static const struct want gauges[] = {
		{"up{}", STORE_GAUGE, 0, {}, {}, 0, false},
		{"up{job=\"api\"}", STORE_GAUGE, 0, {[2] = "api"}, {"comm"}, 1, true},
		{"{__name__=\"up\",node=\"\"}", STORE_GAUGE, 0, {[3] = ""}, {}, 0, true},
	};
	static const int64_t steps[] = {1, 7, 15, 60, 1000};

	(void)state;
	for (int round = 0; round < 12; round++) {
		make_records();
		for (size_t i = 0; i < ARRAY_SIZE(wants) + ARRAY_SIZE(gauges); i++) {
			const struct want *w =
				i < ARRAY_SIZE(wants) ? &wants[i] : &gauges[i - ARRAY_SIZE(wants)];
			int64_t step = steps[random_below(ARRAY_SIZE(steps))] * SEC;
			int64_t start = 980 * SEC + random_below(150) * SEC;

			check_over_time(w, start, start + random_below(120) * SEC, step,
				random_below(2) ? 0 : (1 + random_below(200)) * SEC / 2);
		}
		drop_records();
	}
}

/* A window of 30 s seen in steps of 10 s is flat. */
static void test_spread(void **state)
{
	struct query_selector selector;
	struct query_env env = {.parts = fakes, .n_parts = 1};
	struct query_matrix m;
	struct row *row;

	(void)state;
	n_records = n_fakes = 1;
	row = calloc(1, sizeof(*row));
	assert_non_null(row);
	row->depth = 1;
	row->value[1] = 3000;
	records[0] = (struct record) {.series.value[NAME] = "process_cpu",
		.kind = STORE_DELTA,
		.time = 100 * SEC,
		.duration = 30 * SEC,
		.rows = row,
		.n_rows = 1};
	fakes[0] = fake_new(0);
	assert_int_equal(query_selector_parse(wants[0].selector, &selector, NULL), 0);
	struct query_spec spec = {.selector = &selector,
		.start_ns = 70 * SEC,
		.end_ns = 120 * SEC,
		.step_ns = 10 * SEC};
	assert_int_equal(query_over_time(&env, &spec, &m, NULL), 0);
	assert_int_equal(m.n_lines, 1);
	assert_int_equal(m.lines[0].n_points, 3);
	for (int k = 0; k < 3; k++) {
		assert_int_equal(m.lines[0].points[k].time_ns, (80 + 10 * k) * SEC);
		assert_true(fabs(m.lines[0].points[k].value - 1000) < 1e-9);
	}
	assert_string_equal(m.type.id, "process_cpu:cpu:nanoseconds:cpu:nanoseconds");
	assert_string_equal(m.type.metric, "process_cpu_cpu_nanoseconds_total");
	query_matrix_done(&m);
	query_selector_done(&selector);
	drop_records();
}

/* A series seen in two of the four scrapes of its target, and one whose target cannot be told. */
static void check_coverage(const char *const selector, int64_t want, int64_t ns, int64_t cpu_ns)
{
	struct query_env env = {.parts = fakes, .n_parts = n_fakes};
	struct query_selector s;
	struct query_trees trees;
	struct query_matrix m;

	assert_int_equal(query_selector_parse(selector, &s, NULL), 0);
	struct query_spec spec = {.selector = &s,
		.want_coverage = true,
		.start_ns = 200 * SEC,
		.end_ns = 200 * SEC,
		.step_ns = 150 * SEC,
		.group = true};
	assert_int_equal(query_over_time(&env, &spec, &m, NULL), 0);
	assert_int_equal(m.n_lines, 1);
	assert_true(m.lines[0].points[0].value == (double)want);
	query_matrix_done(&m);
	spec.start_ns = 0;
	assert_int_equal(query_merge(&env, &spec, &trees, NULL), 0);
	assert_int_equal(trees.groups[0].tree.total[0], want);
	assert_int_equal(trees.covered.ns, ns);
	assert_int_equal(trees.covered.cpu_ns, cpu_ns);
	assert_int_equal(trees.groups[0].covered.ns, ns);
	assert_int_equal(trees.groups[0].covered.cpu_ns, cpu_ns);
	query_trees_done(&trees);
	query_selector_done(&s);
}

static void test_coverage(void **state)
{
	(void)state;
	n_records = 0;
	n_fakes = 2;
	for (int i = 0; i < 8; i++) { /* four seconds watched; the target's CPUs become four */
		struct record *r = &records[n_records++];

		*r = (struct record) {.part = (unsigned)i / 4,
			.time = (100 + i / 2) * SEC,
			.duration = i % 2 ? 0 : SEC,
			.cpus = i < 4 ? 2 : 4,
			.kind = i % 2 ? STORE_INSTANT : COVERAGE};
		r->series.value[NAME] = "goroutine";
		r->series.value[2] = "api";
		if (!(i % 2))
			continue;
		r->series.value[2] = i < 5 ? "api" : "db";
		r->series.value[1] = "sh";
		r->n_rows = 1;
		r->rows = calloc(1, sizeof(*r->rows));
		assert_non_null(r->rows);
		r->rows[0].depth = 1;
		r->rows[0].value[0] = 20;
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
	check_coverage(
		"goroutine:samples:count:cpu:nanoseconds{job=\"api\"}", 10, 4 * SEC, 12 * SEC);
	check_coverage("goroutine:samples:count:cpu:nanoseconds{job=\"db\"}", 20, 0, 0);
	check_coverage("goroutine:samples:count:cpu:nanoseconds{}", 30, 4 * SEC, 12 * SEC);
	free(fakes[0]);
	records[2].cpus = 0; /* this once it was not told */
	fakes[0] = fake_new(0);
	check_coverage("goroutine:samples:count:cpu:nanoseconds{}", 30, 4 * SEC, -1);
	drop_records();
}

static void test_errors(void **state)
{
	struct query_selector selector;
	struct query_env env = {.parts = fakes};
	struct query_trees trees;
	struct query_matrix m;
	_Atomic bool cancel = true;
	struct budget small;

	(void)state;
	make_records();
	env.n_parts = n_fakes;
	struct query_spec spec = {.selector = &selector, .end_ns = INT64_MAX / 2, .step_ns = SEC};
	static const struct {
		const char *selector, *want;
	} cases[] = {
		{"process_cpu{}", "the selector means 2 profile types, name one of: "},
		{"up", "up is a number over time and has no stacks; ask /api/v1/query_series"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {};

		assert_int_equal(query_selector_parse(cases[i].selector, &selector, NULL), 0);
		assert_int_equal(query_merge(&env, &spec, &trees, &eb), -EINVAL);
		assert_memory_equal(eb.text, cases[i].want, strlen(cases[i].want));
		query_selector_done(&selector);
	}
	assert_int_equal(query_selector_parse(wants[0].selector, &selector, NULL), 0);
	struct errbuf eb = {};
	assert_int_equal(query_over_time(&env, &spec, &m, &eb), -EINVAL);
	assert_non_null(strstr(eb.text, "exceeded maximum resolution of 11,000 points"));
	env.cancel = &cancel;
	assert_int_equal(query_merge(&env, &spec, &trees, &eb), -ECANCELED);
	env.cancel = NULL;
	for (uint64_t limit = 1; limit < 200000;
		limit += 1 + limit / 2) { /* wherever the budget ends */
		int r;

		budget_init(&small, NULL, "query", "--query.max-memory", limit);
		env.budget = &small;
		r = query_merge(&env, &spec, &trees, &eb);
		assert_true(r == 0 || r == -ENOMEM);
		if (!r)
			query_trees_done(&trees);
		assert_int_equal(small.used_bytes, 0);
	}
	env.budget = NULL;
	for (unsigned n = 1; n < 3000; n += 1 + n / 8) { /* whichever allocation fails */
		int r;

		alloc_fail_after(n);
		r = query_merge(&env, &spec, &trees, &eb);
		assert_true(r == 0 || r == -ENOMEM);
		if (!r)
			query_trees_done(&trees);
		alloc_fail_after(n);
		spec.end_ns = 2000 * SEC;
		r = query_over_time(&env, &spec, &m, &eb);
		assert_true(r == 0 || r == -ENOMEM);
		if (!r)
			query_matrix_done(&m);
		spec.end_ns = INT64_MAX / 2;
	}
	alloc_fail_after(0);
	query_selector_done(&selector);
	drop_records();
}

/* ---- catalogue ---- */

static void join(const struct query_strings *s, char *out)
{
	out[0] = 0;
	for (size_t i = 0; i < s->n; i++)
		sprintf(out + strlen(out), "%s%s", i ? "," : "", s->items[i]);
}

static void catalogue_records(void)
{
	n_records = 0;
	n_fakes = 2;
	for (int i = 0; i < 4; i++) {
		struct record *r = &records[n_records++];

		*r = (struct record) {.part = (unsigned)i % 2,
			.time = (100 + i) * SEC,
			.duration = SEC,
			.kind = i == 3 ? STORE_GAUGE : (enum store_column_kind)(i % 2)};
		r->series.value[NAME] = i == 3 ? "up" : i % 2 ? "goroutine" : "process_cpu";
		r->series.value[2] = i ? "api" : "db";
		if (i == 3)
			continue;
		r->rows = calloc(1, sizeof(*r->rows));
		assert_non_null(r->rows);
		r->n_rows = 1;
		r->rows[0].labels.value[4] = i ? "main" : "gc";
		r->rows[0].value[0] = 1;
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
}

static void test_types(void **state)
{
	static const char *const want[] = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
		"process_cpu:samples:count:cpu:nanoseconds",
		"goroutine:cpu:nanoseconds:cpu:nanoseconds",
		"goroutine:samples:count:cpu:nanoseconds"};
	struct query_env env = {.parts = fakes, .n_parts = 2};
	struct query_type_list types;

	(void)state;
	catalogue_records();
	assert_int_equal(query_types(&(struct query_catalog) {.env = &env, .end_ns = 1000 * SEC},
				 &types, NULL),
		0);
	assert_int_equal(types.n, 4);
	for (size_t i = 0; i < types.n; i++)
		assert_string_equal(types.items[i].id, want[i]);
	query_type_list_done(&types);
	assert_int_equal(query_types(
				 &(struct query_catalog) {
					 .env = &env, .start_ns = 101 * SEC, .end_ns = 101 * SEC},
				 &types, NULL),
		0);
	assert_int_equal(types.n, 2);
	query_type_list_done(&types);
	drop_records();
}

static void test_labels(void **state)
{
	static const struct {
		const char *selector, *name;
		enum query_terms terms;
		const char *want; /* of values, or of names when name is NULL */
	} cases[] = {
		{NULL, NULL, QUERY_PROFILE_TERMS,
			"__name__,__period_type__,__period_unit__,__profile_type__,__type__,__unit_"
			"_,job,"
			"thread_name"},
		{NULL, NULL, QUERY_PROMETHEUS_TERMS, "__name__,job,thread_name"},
		{"up", NULL, QUERY_PROFILE_TERMS, "__name__,job"},
		{"up", "thread_name", QUERY_PROFILE_TERMS, ""},
		/* labels of rows are those of the series' own rows */
		{"{job=\"db\"}", "thread_name", QUERY_PROFILE_TERMS, "gc"},
		{"{job=\"api\"}", "thread_name", QUERY_PROMETHEUS_TERMS, "main"},
		{"goroutine", "thread_name", QUERY_PROFILE_TERMS, "main"},
		{"{job=~\"a.*\",thread_name=\"gc\"}", "thread_name", QUERY_PROFILE_TERMS, ""},
		{NULL, "__name__", QUERY_PROFILE_TERMS, "goroutine,process_cpu,up"},
		{NULL, "__name__", QUERY_PROMETHEUS_TERMS,
			"goroutine_cpu_nanoseconds,goroutine_samples_count,"
			"process_cpu_cpu_nanoseconds_total,process_cpu_samples_count_total,up"},
		{NULL, "job", QUERY_PROFILE_TERMS, "api,db"},
		{"{__name__=\"process_cpu_cpu_nanoseconds_total\"}", "__name__",
			QUERY_PROMETHEUS_TERMS, "process_cpu_cpu_nanoseconds_total"},
		{"process_cpu", "job", QUERY_PROFILE_TERMS, "api,db"},
		{"goroutine", "job", QUERY_PROFILE_TERMS, "api"},
		{"{thread_name=\"gc\"}", "thread_name", QUERY_PROFILE_TERMS, "gc"},
		{NULL, "__type__", QUERY_PROFILE_TERMS, "cpu,samples"},
		{NULL, "nothing", QUERY_PROFILE_TERMS, ""},
	};
	struct query_env env = {.parts = fakes, .n_parts = 2};

	(void)state;
	catalogue_records();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct query_selector s = {};
		struct query_strings strings = {};
		size_t n = cases[i].selector != NULL;
		const struct query_catalog what = {.env = &env,
			.end_ns = 1000 * SEC,
			.selectors = &s,
			.n_selectors = n,
			.terms = cases[i].terms};
		char text[512];

		if (n)
			assert_int_equal(query_selector_parse(cases[i].selector, &s, NULL), 0);
		if (cases[i].name)
			assert_int_equal(
				query_label_values(&what, cases[i].name, &strings, NULL), 0);
		else
			assert_int_equal(query_label_names(&what, &strings, NULL), 0);
		join(&strings, text);
		assert_string_equal(text, cases[i].want);
		query_strings_done(&strings);
		query_selector_done(&s);
	}
	drop_records();
}

static void test_series(void **state)
{
	struct query_env env = {.parts = fakes, .n_parts = 2};
	struct query_series_list series;

	(void)state;
	catalogue_records();
	assert_int_equal(query_series(&(struct query_catalog) {.env = &env,
					      .end_ns = 1000 * SEC,
					      .terms = QUERY_PROMETHEUS_TERMS},
				 0, &series, NULL),
		0);
	assert_int_equal(series.n, 7); /* three profile series of two columns, one gauge */
	assert_string_equal(labels_get(&series.items[0], "__name__"), "goroutine_cpu_nanoseconds");
	query_series_list_done(&series);
	assert_int_equal(query_series(&(struct query_catalog) {.env = &env, .end_ns = 1000 * SEC},
				 3, &series, NULL),
		0);
	assert_int_equal(series.n, 3);
	query_series_list_done(&series);
	drop_records();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge_random),
		cmocka_unit_test(test_over_time_random),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_series),
	};

	int failed;

	if (query_workers_new(3, 0, &workers, NULL) < 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	query_workers_freep(&workers);
	return failed;
}
