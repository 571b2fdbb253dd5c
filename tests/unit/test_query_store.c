/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over the real store against sums kept while appending: from the head, from a block beside a head, after a reopening.
 */
#include "tests/unit/store_gen.h"
#include "scraper/query/query.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <math.h>

static const int64_t start_ns = 1700000000LL * NS_PER_S;

/* One appended row, as text: what a query may ask for. */
struct row {
	uint32_t path, instance, comm, thread; /* strings */
	int64_t time_ns, value;
};

struct fixture {
	char path[64];
	struct clock_virtual clock;
	struct store_options o;
	struct store *s;
	struct gen g;
	struct interner strings;
	struct row *rows;
	size_t n_rows, cap_rows;
};

static uint32_t string(struct fixture *f, const char *s)
{
	uint32_t id = interner_add(&f->strings, s, strlen(s), NULL);

	assert_true(id != INTERNER_NONE);
	return id;
}

/* Names without an address: the store rewrites addresses of nameless locations to those within the file. */
static void put_name(struct bytes *path, const char *s, size_t n)
{
	const char *plus = memmem(s, n, "+0x", 3);

	bytes_put_u8(path, ';');
	if (plus)
		bytes_put_str(path, "?");
	else
		bytes_put(path, s, n);
}

static uint32_t path_of_sample(struct fixture *f, const struct profile *p, size_t sample)
{
	_cleanup_bytes_ struct bytes path = {.data = NULL};

	for (uint64_t i = p->stack_first[sample + 1]; i-- > p->stack_first[sample];) {
		const struct prof_location *l = &p->locations[p->stacks[i]];

		if (!l->n_lines)
			put_name(&path, "+0x", 3);
		for (uint32_t k = l->n_lines; k-- > 0;) {
			struct prof_str name = profile_str(
				p, p->functions[p->lines[l->first_line + k].function].name);

			put_name(&path, name.p, name.len);
		}
	}
	bytes_put_u8(&path, 0);
	return string(f, (const char *)path.data);
}

static void remember(struct fixture *f, const struct gen_scrape *x)
{
	for (size_t i = 0; i < x->s.n_rows; i++) {
		const struct labels *stream = &x->streams[x->row_stream[i]];
		uint32_t set = x->row_labels[i];

		assert_int_equal(
			alloc_grow(&f->rows, &f->cap_rows, f->n_rows + 1, sizeof(*f->rows)), 0);
		f->rows[f->n_rows++] = (struct row) {
			.path = path_of_sample(f, &x->profile, x->row_sample[i]),
			.instance = string(f, labels_get(stream, "instance")),
			.comm = string(f, labels_get(stream, "comm")),
			.thread = string(f,
				set == STORE_NONE ? "" : labels_get(&x->sets[set], "thread_name")),
			.time_ns = x->s.time_ns,
			.value = x->values[2 * i + 1]};
	}
}

static void append_rounds(struct fixture *f, unsigned n_targets, uint64_t first, uint64_t n)
{
	for (uint64_t step = first; step < first + n; step++)
		for (unsigned t = 0; t < n_targets; t++) {
			int64_t time = start_ns + (int64_t)step * 15 * NS_PER_S + t;
			struct gen_scrape *x = gen_scrape(&f->g, t, step, time);
			struct store_result result;
			struct errbuf eb = {.text = ""};

			f->clock.real_ns = time;
			if (store_append(f->s, &x->s, &result, &eb) < 0)
				fail_msg("store_append: %s", eb.text);
			remember(f, x);
			gen_scrape_free(x);
		}
}

static void open_store(struct fixture *f)
{
	struct errbuf eb = {.text = ""};

	if (f->s)
		store_close(TAKE(f->s));
	if (store_open(&f->o, &f->s, &eb) < 0)
		fail_msg("store_open: %s", eb.text);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	snprintf(f->path, sizeof(f->path), "/tmp/sonde-query-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	clock_virtual_init(&f->clock, start_ns);
	interner_init(&f->strings, NULL);
	f->o = (struct store_options) {.path = f->path,
		.clock = &f->clock.clock,
		.segment_bytes = 1 << 20,
		.max_nodes = 1 << 16,
		.seed = 7,
		.fsync = STORE_FSYNC_NEVER};
	f->g = (struct gen) {
		.state = 7, .n_functions = 60, .max_depth = 12, .max_rows = 40, .n_streams = 3};
	open_store(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->s);
	assert_int_equal(fs_remove_all(&fs_system, f->path), 0);
	interner_done(&f->strings);
	free(f->rows);
	free(f);
	return 0;
}

/* What to ask, and which rows answer: NULL any, else the value. */
struct ask {
	const char *matchers, *instance, *comm, *thread;
	const char *group_by; /* "thread_name", or NULL */
};

static bool answers(const struct fixture *f, const struct row *r, const struct ask *a)
{
	return (!a->instance || !strcmp(a->instance, interner_str(&f->strings, r->instance))) &&
	       (!a->comm || !strcmp(a->comm, interner_str(&f->strings, r->comm))) &&
	       (!a->thread || !strcmp(a->thread, interner_str(&f->strings, r->thread)));
}

/* Sums per "thread|path" key; ids of f->strings index them. */
struct sums {
	int64_t *by_key;
	size_t cap;
};

static void add(
	struct fixture *f, struct sums *s, const char *group, const char *path, int64_t value)
{
	_cleanup_free_ char *key = xasprintf("%s|%s", group, path);
	size_t old = s->cap;
	uint32_t id = string(f, key);

	assert_int_equal(alloc_grow(&s->by_key, &s->cap, id + 1UL, sizeof(*s->by_key)), 0);
	memset(s->by_key + old, 0, (s->cap - old) * sizeof(*s->by_key));
	s->by_key[id] += value;
}

static void subtract_tree(struct fixture *f, struct sums *s, const struct query_group *g,
	struct tree_symbols *symbols)
{
	_cleanup_tree_ struct tree t = {.n = 0};

	tree_init(&t, NULL);
	assert_int_equal(tree_project(&g->tree, NULL, symbols, &t, NULL), 0);
	for (size_t i = 0; i < t.n; i++) {
		_cleanup_bytes_ struct bytes path = {.data = NULL};
		uint32_t up[512], n = 0;

		if (!t.self[i])
			continue;
		for (size_t k = i; k; k = t.parent[k])
			up[n++] = t.frame[k];
		while (n-- > 0) {
			size_t len;
			const char *name =
				tree_symbols_text(symbols, symbols->frames[up[n]].name, &len);

			put_name(&path, name, len);
		}
		bytes_put_u8(&path, 0);
		add(f, s, labels_get(&g->labels, "thread_name"), (const char *)path.data,
			-t.self[i]);
	}
}

static void check(struct fixture *f, const struct ask *a, int64_t from, int64_t to)
{
	_cleanup_free_ char *text =
		xasprintf("process_cpu:cpu:nanoseconds:cpu:nanoseconds{%s}", a->matchers);
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_trees_ struct query_trees trees = {.n_groups = 0};
	_cleanup_query_matrix_ struct query_matrix matrix = {.n_lines = 0};
	struct query_spec spec = {.selector = &selector,
		.start_ns = from,
		.end_ns = to,
		.group = true,
		.group_by = &a->group_by,
		.n_group_by = a->group_by != NULL,
		.step_ns = to - from + 1};
	struct store_parts parts;
	struct query_env env = {.budget = NULL};
	struct sums s = {.by_key = NULL};
	struct errbuf eb = {.text = ""};
	int64_t total = 0;
	double points = 0;

	assert_int_equal(query_selector_parse(text, &selector, &eb), 0);
	assert_int_equal(store_parts_get(f->s, from, to, &parts), 0);
	env.parts = parts.items;
	env.n_parts = parts.n;
	if (query_merge(&env, &spec, &trees, &eb) < 0)
		fail_msg("%s: %s", text, eb.text);
	for (size_t i = 0; i < f->n_rows; i++) {
		const struct row *r = &f->rows[i];

		if (r->time_ns < from || r->time_ns > to || !answers(f, r, a))
			continue;
		total += r->value;
		/* `string` may move the texts of the interner's table, never the bytes. */
		add(f, &s, a->group_by ? interner_str(&f->strings, r->thread) : "",
			interner_str(&f->strings, r->path), r->value);
	}
	for (size_t i = 0; i < trees.n_groups; i++) {
		total -= trees.groups[i].tree.total[0];
		subtract_tree(f, &s, &trees.groups[i], &trees.symbols);
	}
	assert_int_equal(total, 0);
	for (size_t i = 0; i < s.cap; i++)
		if (s.by_key[i])
			fail_msg("%s: %s differs by %lld", text,
				interner_str(&f->strings, (uint32_t)i), (long long)s.by_key[i]);
	/* One bucket over everything holds the same sum, windows cut at its ends aside. */
	spec.start_ns = to + 15 * NS_PER_S;
	spec.end_ns = spec.start_ns;
	spec.step_ns = to - from + 60 * NS_PER_S;
	assert_int_equal(query_over_time(&env, &spec, &matrix, &eb), 0);
	for (size_t i = 0; i < matrix.n_lines; i++)
		points += matrix.lines[i].sum;
	for (size_t i = 0; i < f->n_rows; i++)
		if (answers(f, &f->rows[i], a) && from == INT64_MIN / 4)
			points -= (double)f->rows[i].value;
	if (from == INT64_MIN / 4)
		assert_true(fabs(points) < 1);
	store_parts_put(f->s, &parts);
	free(s.by_key);
}

static void check_all(struct fixture *f)
{
	static const struct ask asks[] = {
		{"", NULL, NULL, NULL, NULL},
		{"comm=\"comm-1\"", NULL, "comm-1", NULL, NULL},
		{"comm=~\"comm-(2|9)\",instance=\"host-1:7273\"", "host-1:7273", "comm-2", NULL,
			NULL},
		{"thread_name=\"thread_name-3\"", NULL, NULL, "thread_name-3", NULL},
		{"thread_name=\"\"", NULL, NULL, "", NULL},
		{"instance=~\"host-0.*\"", "host-0:7273", NULL, NULL, "thread_name"},
		{"comm=\"none\"", NULL, "none", NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(asks); i++) {
		check(f, &asks[i], INT64_MIN / 4, INT64_MAX / 4);
		check(f, &asks[i], start_ns + 100 * NS_PER_S, start_ns + 300 * NS_PER_S);
	}
}

static void test_head_and_blocks(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};

	append_rounds(f, 3, 0, 20);
	check_all(f);
	if (store_flush(f->s, &eb) < 0)
		fail_msg("store_flush: %s", eb.text);
	check_all(f);
	append_rounds(f, 3, 20, 15); /* a block and a head that share most of their stacks */
	check_all(f);
	assert_int_equal(store_flush(f->s, &eb), 0);
	append_rounds(f, 3, 35, 5);
	check_all(f);
	open_store(f);
	check_all(f);
}

/* How much of an answer rollups gave. */
static uint64_t rollups_of(struct fixture *f, const char *text, int64_t from, int64_t to)
{
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_trees_ struct query_trees coarse = {.n_groups = 0}, raw = {.n_groups = 0};
	struct query_spec spec = {
		.selector = &selector, .start_ns = from, .end_ns = to, .group = true};
	struct query_env env = {.budget = NULL}, raw_env = {.without_rollups = true};
	struct store_parts parts;

	assert_int_equal(query_selector_parse(text, &selector, NULL), 0);
	assert_int_equal(store_parts_get(f->s, from, to, &parts), 0);
	env.parts = raw_env.parts = parts.items;
	env.n_parts = raw_env.n_parts = parts.n;
	assert_int_equal(query_merge(&env, &spec, &coarse, NULL), 0);
	assert_int_equal(query_merge(&raw_env, &spec, &raw, NULL), 0);
	store_parts_put(f->s, &parts);
	assert_int_equal(raw_env.stats.rollups, 0);
	assert_true(env.stats.rows <= raw_env.stats.rows);
	/* The sums are compared by check(); here what is told beside them. */
	assert_int_equal(coarse.n_profiles, raw.n_profiles);
	assert_int_equal(coarse.n_series, raw.n_series);
	assert_int_equal(coarse.duration_ns, raw.duration_ns);
	assert_int_equal(coarse.min_time_ns, raw.min_time_ns);
	assert_int_equal(coarse.max_time_ns, raw.max_time_ns);
	return env.stats.rollups;
}

static void test_rollups(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	uint64_t served = 0;

	f->o.no_compaction = true;
	open_store(f);
	f->g.max_rows = 8;
	/* few different stacks, else a rollup would save too little to be kept */
	f->g.n_functions = 3;
	f->g.max_depth = 2;
	for (unsigned i = 0; i < 6; i++) {
		append_rounds(f, 2, i * 90, 90);
		assert_int_equal(store_flush(f->s, &eb), 0);
	}
	if (store_compact(f->s, &eb) < 0)
		fail_msg("store_compact: %s", eb.text);
	append_rounds(f, 2, 540, 5);
	check_all(f);
	for (unsigned i = 0; i < 60; i++) {
		int64_t from = start_ns + (int64_t)gen_below(&f->g, 9000) * NS_PER_S;
		int64_t to = from + (int64_t)gen_below(&f->g, 9000) * NS_PER_S;
		struct ask a = {"comm=~\"comm-(1|2)\"", NULL, NULL, NULL, NULL};

		if (i % 3 == 0) { /* on the edge of a bucket, or next to it */
			from -= from % (600 * NS_PER_S) + (int64_t)gen_below(&f->g, 3) - 1;
			to -= to % (3600 * NS_PER_S) + (int64_t)gen_below(&f->g, 3) - 1;
		}
		if (from > to)
			continue;
		a.matchers = "";
		check(f, &a, from, to);
		served += rollups_of(f, "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", from, to);
		/* thread_name is what rollups do not keep. */
		assert_int_equal(
			rollups_of(f,
				"process_cpu:cpu:nanoseconds:cpu:nanoseconds{thread_name!=\"x\"}",
				from, to),
			0);
	}
	assert_true(served > 30);
}

static void test_gauges(void **state)
{
	struct fixture *f = *state;
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_matrix_ struct query_matrix m = {.n_lines = 0};
	struct query_spec spec = {.selector = &selector,
		.start_ns = start_ns + 600 * NS_PER_S,
		.end_ns = start_ns + 600 * NS_PER_S,
		.step_ns = 1000 * NS_PER_S};
	struct query_env env = {.budget = NULL};
	struct store_parts parts;

	append_rounds(f, 3, 0, 10);
	assert_int_equal(
		query_selector_parse("up{instance=~\"host-[01]:.*\"}", &selector, NULL), 0);
	assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
	env.parts = parts.items;
	env.n_parts = parts.n;
	assert_int_equal(query_over_time(&env, &spec, &m, NULL), 0);
	assert_int_equal(m.n_lines, 2);
	assert_string_equal(labels_get(&m.lines[1].labels, "instance"), "host-1:7273");
	assert_int_equal(m.lines[0].n_points, 1);
	assert_true(m.lines[0].points[0].value == 1);
	assert_int_equal(m.type.kind, STORE_GAUGE);
	store_parts_put(f->s, &parts);
}

/* The value of the only line at the query's only point; −1 without one. */
static double value_at(struct fixture *f, const char *text, int64_t t_ns, bool sum)
{
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_matrix_ struct query_matrix m = {.n_lines = 0};
	struct query_spec spec = {.selector = &selector,
		.terms = QUERY_PROMETHEUS_TERMS,
		.group = sum,
		.start_ns = t_ns - 600 * NS_PER_S,
		.end_ns = t_ns,
		.step_ns = 10 * NS_PER_S,
		.lookback_ns = 300 * NS_PER_S};
	struct query_env env = {.budget = NULL};
	struct store_parts parts;
	double value = -1;

	assert_int_equal(query_selector_parse(text, &selector, NULL), 0);
	assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
	env.parts = parts.items;
	env.n_parts = parts.n;
	assert_int_equal(query_over_time(&env, &spec, &m, NULL), 0);
	assert_true(m.n_lines <= 1);
	if (m.n_lines && m.lines[0].points[m.lines[0].n_points - 1].time_ns == t_ns)
		value = m.lines[0].points[m.lines[0].n_points - 1].value;
	store_parts_put(f->s, &parts);
	return value;
}

static void put_gauge(
	struct fixture *f, const char *instance, int64_t at_s, double value, bool ends)
{
	_cleanup_labels_builder_ struct labels_builder b;
	_cleanup_labels_ struct labels l = {.n = 0};
	int64_t t = start_ns + at_s * NS_PER_S;
	const struct store_gauge gauge = {&l, t, value};
	const struct store_end end = {&l, t};
	struct store_scrape scrape = {.period_type = "", .period_unit = ""};
	struct store_result result;
	struct errbuf eb = {.text = ""};

	labels_builder_init(&b);
	labels_builder_set(&b, "__name__", "up");
	labels_builder_set(&b, "instance", instance);
	assert_int_equal(labels_builder_finish(&b, &l), 0);
	f->clock.real_ns = t;
	scrape.gauges = &gauge;
	scrape.n_gauges = !ends;
	scrape.ends = &end;
	scrape.n_ends = ends;
	if (store_append(f->s, &scrape, &result, &eb) < 0)
		fail_msg("%s", eb.text);
}

static void test_ends(void **state)
{
	static const struct {
		int64_t at_s;
		double value, sum;
	} cases[] = {
		{0, 2, 5},
		{295, 2, 5},  /* within the lookback */
		{310, -1, 3}, /* ended at 305 */
		{320, 4, 7},  /* came again */
		{330, -1, 3}, /* scraped and ended in one step: the end came later */
		{340, 6, 9},  /* the other way round */
		{600, 6, 9},
		{638, 6, 6}, /* the other series was last seen at 338 */
		{640, -1, -1},
	};
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};

	open_store(f);
	put_gauge(f, "a", 0, 2, false);
	put_gauge(f, "b", 0, 3, false);
	put_gauge(f, "b", 300, 3, false);
	put_gauge(f, "a", 305, 0, true);
	put_gauge(f, "a", 320, 4, false);
	assert_int_equal(store_flush(f->s, &eb), 0); /* ends in another part than what they end */
	put_gauge(f, "a", 322, 5, false);
	put_gauge(f, "a", 325, 0, true);
	put_gauge(f, "a", 331, 0, true);
	put_gauge(f, "b", 338, 3, false);
	put_gauge(f, "a", 340, 6, false);
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			int64_t t = start_ns + cases[i].at_s * NS_PER_S;

			assert_true(value_at(f, "up{instance=\"a\"}", t, false) == cases[i].value);
			assert_true(value_at(f, "up", t, true) == cases[i].sum);
		}
		/* the same from the log alone */
		open_store(f);
	}
}

/* fs_system, with the names of the blocks whose files are opened. */
struct watching_fs {
	struct fs fs;
	char blocks[8][27];
	size_t n_blocks;
};

static int watch_open(struct fs *fs, const char *path, int flags, mode_t mode)
{
	struct watching_fs *w = (struct watching_fs *)fs; /* its first member */
	const char *blocks = strstr(path, "/blocks/");
	char ulid[27] = "";
	size_t i = 0;

	if (blocks && sscanf(blocks, "/blocks/%26[0-9A-Z]/", ulid) == 1) {
		while (i < w->n_blocks && strcmp(w->blocks[i], ulid) != 0)
			i++;
		assert_true(i < ARRAY_SIZE(w->blocks));
		if (i == w->n_blocks)
			memcpy(w->blocks[w->n_blocks++], ulid, sizeof(ulid));
	}
	return fs_system.open(&fs_system, path, flags, mode);
}

enum cold { COLD_MERGE, COLD_OVER_TIME, COLD_PROFILES, COLD_VALUES, COLD_SERIES, N_COLD };

static void ask_cold(struct query_env *env, enum cold what, int64_t from, int64_t to)
{
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_trees_ struct query_trees trees = {.n_groups = 0};
	_cleanup_query_matrix_ struct query_matrix matrix = {.n_lines = 0};
	_cleanup_query_profiles_ struct query_profiles profiles = {.n = 0};
	_cleanup_query_strings_ struct query_strings values = {.n = 0};
	struct query_spec spec = {.selector = &selector,
		.start_ns = from,
		.end_ns = to,
		.step_ns = 15 * NS_PER_S,
		.group = true};
	_cleanup_query_series_list_ struct query_series_list series = {.n = 0};
	const struct query_catalog catalog = {.env = env,
		.start_ns = from,
		.end_ns = to,
		.selectors = &selector,
		.n_selectors = 1};

	assert_int_equal(query_selector_parse(
				 "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", &selector, NULL),
		0);
	switch (what) {
	case COLD_MERGE:
		assert_int_equal(query_merge(env, &spec, &trees, NULL), 0);
		assert_true(trees.n_profiles > 0);
		break;
	case COLD_OVER_TIME:
		assert_int_equal(query_over_time(env, &spec, &matrix, NULL), 0);
		assert_true(matrix.n_lines > 0);
		break;
	case COLD_PROFILES:
		assert_int_equal(query_profiles(env, &spec, 0, &profiles, NULL), 0);
		assert_true(profiles.n > 0);
		break;
	case COLD_VALUES:
		assert_int_equal(query_label_values(&catalog, "instance", &values, NULL), 0);
		assert_true(values.n > 0);
		break;
	default:
		assert_int_equal(query_series(&catalog, 0, &series, NULL), 0);
		assert_true(series.n > 0);
	}
}

/* The first query after a start opens files of the block in its range and of no other, whatever parts it was given. */
static void test_cold_query_opens_its_blocks(void **state)
{
	struct fixture *f = *state;
	struct watching_fs w = {.fs = fs_system};
	struct errbuf eb = {.text = ""};

	f->o.no_compaction = true;
	open_store(f);
	for (uint64_t block = 0; block < 4; block++) {
		append_rounds(f, 2, block * 20, 20);
		assert_int_equal(store_flush(f->s, &eb), 0);
	}
	w.fs.open = watch_open;
	f->o.fs = &w.fs;
	for (enum cold what = 0; what < N_COLD; what++)
		for (uint64_t block = 0; block < 4; block++) {
			int64_t from = start_ns + (int64_t)block * 20 * 15 * NS_PER_S;
			struct query_env env = {.budget = NULL};
			struct store_parts parts;

			open_store(f);
			w.n_blocks = 0;
			assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
			env.parts = parts.items;
			env.n_parts = parts.n;
			assert_true(parts.n >= 4);
			ask_cold(&env, what, from + 30 * NS_PER_S, from + 120 * NS_PER_S);
			assert_int_equal(w.n_blocks, 1);
			assert_int_equal(env.stats.parts, 1);
			store_parts_put(f->s, &parts);
		}
	store_close(TAKE(f->s)); /* before its fs goes */
	f->o.fs = NULL;
	open_store(f);
}

/* Series of the CPU time that a catalog lists, and what was read for it. */
static uint64_t count_series(
	struct fixture *f, const char *matchers, int64_t from, int64_t to, struct query_stats *ret)
{
	_cleanup_free_ char *text =
		xasprintf("process_cpu:cpu:nanoseconds:cpu:nanoseconds{%s}", matchers);
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_series_list_ struct query_series_list series = {.n = 0};
	_cleanup_query_strings_ struct query_strings values = {.n = 0};
	struct query_env env = {.budget = NULL};
	const struct query_catalog what = {.env = &env,
		.start_ns = from,
		.end_ns = to,
		.selectors = &selector,
		.n_selectors = 1};
	struct store_parts parts;
	size_t n = 0;

	assert_int_equal(query_selector_parse(text, &selector, NULL), 0);
	assert_int_equal(store_parts_get(f->s, from, to, &parts), 0);
	env.parts = parts.items;
	env.n_parts = parts.n;
	assert_int_equal(query_series(&what, 0, &series, NULL), 0);
	*ret = env.stats;
	assert_int_equal(query_label_values(&what, "instance", &values, NULL), 0);
	for (size_t i = 0; i < series.n; i++)
		n += !i || strcmp(labels_get(&series.items[i], "instance"),
				   labels_get(&series.items[i - 1], "instance")) != 0;
	assert_true(values.n <= n);
	store_parts_put(f->s, &parts);
	return series.n;
}

/* Series with a row that answers. */
static uint64_t naive_series(const struct fixture *f, const struct ask *a, int64_t from, int64_t to)
{
	_cleanup_(table_done)
	struct table seen;
	uint64_t n = 0;

	table_init(&seen, NULL);
	for (size_t i = 0; i < f->n_rows; i++) {
		const struct row *r = &f->rows[i];
		bool is_new = false;

		if (r->time_ns < from || r->time_ns > to || !answers(f, r, a))
			continue;
		assert_non_null(
			table_insert(&seen, (uint64_t)r->instance << 32 | r->comm, &is_new));
		n += is_new;
	}
	return n;
}

/* Scrapes whose one series has no `comm`, and whose rows have no labels. */
static void append_plain(struct fixture *f, unsigned target, uint64_t n)
{
	f->g.n_streams = 1;
	for (uint64_t step = 0; step < n; step++) {
		int64_t time = start_ns + (int64_t)step * 15 * NS_PER_S + target;
		struct gen_scrape *x = gen_scrape(&f->g, target, step, time);
		struct store_result result;
		struct errbuf eb = {.text = ""};

		labels_done(&x->streams[0]);
		gen_labels(&x->streams[0], "process_cpu", target, NULL, 0);
		for (size_t i = 0; i < x->s.n_rows; i++)
			x->row_labels[i] = STORE_NONE;
		f->clock.real_ns = MAX(f->clock.real_ns, time);
		if (store_append(f->s, &x->s, &result, &eb) < 0)
			fail_msg("store_append: %s", eb.text);
		remember(f, x);
		gen_scrape_free(x);
	}
	f->g.n_streams = 3;
}

/* Rows are read where they can decide, and only there. */
static void check_reading(struct fixture *f, int64_t from, int64_t to)
{
	static const struct {
		struct ask ask;
		bool reads;
	} cases[] = {
		{{"", NULL, NULL, NULL, NULL}, false},
		{{"comm=\"comm-1\"", NULL, "comm-1", NULL, NULL}, false},
		{{"comm=\"\"", NULL, "", NULL, NULL}, false},
		{{"thread_name=\"nobody\"", NULL, NULL, "nobody", NULL}, false},
		{{"thread_name!=\"nobody\"", NULL, NULL, NULL, NULL}, false},
		{{"thread_name=\"thread_name-3\"", NULL, NULL, "thread_name-3", NULL}, true},
		{{"thread_name=\"thread_name-1\",comm=\"comm-2\"", NULL, "comm-2", "thread_name-1",
			 NULL},
			true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct ask *a = &cases[i].ask;
		struct query_stats stats;

		assert_int_equal(count_series(f, a->matchers, from, to, &stats),
			naive_series(f, a, from, to));
		if ((stats.pages > 0) != cases[i].reads)
			fail_msg("%s: %llu pages were read", a->matchers,
				(unsigned long long)stats.pages);
		check(f, a, from, to);
	}
}

/* A merge reads rows of the series that it is about, not of those that lack a label which others have. */
static uint64_t rows_of(struct fixture *f, const char *matchers, uint64_t *ret_own)
{
	_cleanup_free_ char *text =
		xasprintf("process_cpu:cpu:nanoseconds:cpu:nanoseconds{%s}", matchers);
	_cleanup_query_selector_ struct query_selector selector = {.n_matchers = 0};
	_cleanup_query_trees_ struct query_trees trees = {.n_groups = 0};
	struct query_spec spec = {.selector = &selector, .end_ns = INT64_MAX / 4, .group = true};
	struct query_env env = {.budget = NULL, .without_rollups = true};
	struct store_parts parts;

	assert_int_equal(query_selector_parse(text, &selector, NULL), 0);
	assert_int_equal(store_parts_get(f->s, 0, INT64_MAX, &parts), 0);
	env.parts = parts.items;
	env.n_parts = parts.n;
	assert_int_equal(query_merge(&env, &spec, &trees, NULL), 0);
	store_parts_put(f->s, &parts);
	*ret_own = 0;
	for (size_t i = 0; i < f->n_rows; i++)
		*ret_own += !strcmp(interner_str(&f->strings, f->rows[i].comm), "comm-1");
	return env.stats.rows;
}

static void test_rows_that_decide(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	uint64_t own, read;

	append_plain(f, 9, 20);
	append_rounds(f, 3, 0, 20);
	for (unsigned round = 0; round < 3; round++) {
		check_reading(f, INT64_MIN / 4, INT64_MAX / 4);
		check_reading(f, start_ns + 100 * NS_PER_S, start_ns + 130 * NS_PER_S);
		read = rows_of(f, "comm=\"comm-1\"", &own);
		/* Equal stacks of a scrape are one row. */
		assert_true(read > 0 && read <= own);
		assert_int_equal(rows_of(f, "thread_name=\"nobody\"", &own), 0);
		assert_int_equal(store_flush(f->s, &eb), 0); /* a block, then a block and a head */
		if (round == 1)
			append_rounds(f, 3, 20, 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_head_and_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rollups, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gauges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cold_query_opens_its_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rows_that_decide, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
