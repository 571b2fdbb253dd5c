/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over a day of 100 targets at 10 s (day_store.h), warm, result cache off: the whole day to one flame graph beside a bare loop
 * that reads, decodes and adds the same columns; one target of the hundred; label values; series over time.
 *
 * One line a figure: name value unit peer value ratio. usage: bench_day [STORE [small|first|parts|one_target|one_program]]
 */
#include "scraper/query/query.h"
#include "scraper/query/workers.h"
#include "tests/bench/day_store.h"
#include <sys/resource.h>
#include <time.h>

enum { ROUNDS = 5, FIRST_ROUNDS = 15, PART_ROUNDS = 51 };

struct timing {
	double wall, cpu;
};

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct timing now(void)
{
	return (struct timing) {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
}

static struct timing since(struct timing t)
{
	struct timing n = now();

	return (struct timing) {n.wall - t.wall, n.cpu - t.cpu};
}

static int compare_wall(const void *a, const void *b)
{
	const struct timing *x = a, *y = b;

	return (x->wall > y->wall) - (x->wall < y->wall);
}

static struct timing median(struct timing *t, size_t n)
{
	qsort(t, n, sizeof(*t), compare_wall);
	return t[n / 2];
}

static struct query_workers *workers;

struct query {
	const char *selector;
	struct query_stats stats;
	int64_t total;
	size_t n;
};

static struct timing merge_once(struct day *d, struct query *q)
{
	_cleanup_query_selector_ struct query_selector s = {.n_matchers = 0};
	_cleanup_query_trees_ struct query_trees t = {.n_groups = 0};
	struct query_env env = {.workers = workers};
	struct query_spec spec = {
		.selector = &s, .start_ns = day_start_ns, .end_ns = day_end_ns, .group = true};
	struct errbuf eb = {.text = ""};
	struct store_parts parts;
	struct timing begin = now(), took;

	day_check(query_selector_parse(q->selector, &s, &eb), &eb, "parse");
	day_check(store_parts_get(d->store, INT64_MIN, INT64_MAX, &parts), &eb, "parts");
	env.parts = parts.items;
	env.n_parts = parts.n;
	day_check(query_merge(&env, &spec, &t, &eb), &eb, "merge");
	took = since(begin);
	store_parts_put(d->store, &parts);
	q->stats = env.stats;
	q->total = t.groups[0].tree.total[0];
	q->n = t.groups[0].tree.n;
	return took;
}

/* Every row page: read, checked, decompressed, node and cpu columns decoded, added into a dense array. One thread. */
static struct timing bare_once(struct day *d, uint64_t *ret_rows, int64_t *ret_total)
{
	struct timing begin = now(), took;
	struct store_parts parts;
	uint64_t rows = 0, total = 0;

	day_check(store_parts_get(d->store, INT64_MIN, INT64_MAX, &parts), NULL, "parts");
	for (size_t i = 0; i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *r = NULL;
		_cleanup_free_ uint64_t *sums = NULL;
		const struct part_info *info;
		const struct part_page *pages;

		day_check(part_reader_open(parts.items[i], NULL, &r, NULL), NULL, "reader");
		info = part_reader_info(r);
		sums = xcalloc(info->n_nodes + 1UL, sizeof(*sums));
		day_check(part_pages(r, &pages), NULL, "pages");
		for (uint32_t p = 0; p < info->n_pages; p++) {
			struct part_rows page;

			day_check(part_rows(r, p, 2, &page), NULL, "rows");
			for (uint32_t k = 0; k < page.n_rows; k++)
				sums[page.nodes[k]] += (uint64_t)page.values[1][k];
			rows += page.n_rows;
		}
		for (uint32_t k = 0; k < info->n_nodes; k++)
			total += sums[k];
	}
	took = since(begin);
	store_parts_put(d->store, &parts);
	*ret_rows = rows;
	*ret_total = (int64_t)total;
	return took;
}

static void bench_whole(struct day *d, const char *name)
{
	struct query q = {.selector = "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}"};
	struct timing merge[ROUNDS], bare[ROUNDS], m, b;
	uint64_t rows = 0;
	int64_t total = 0;

	for (int i = 0; i < ROUNDS; i++) {
		bare[i] = bare_once(d, &rows, &total);
		merge[i] = merge_once(d, &q);
	}
	if (total != q.total || rows != q.stats.rows)
		err_panic("bench_day: the merge has %lld in %llu rows, the bare loop %lld in %llu",
			(long long)q.total, (unsigned long long)q.stats.rows, (long long)total,
			(unsigned long long)rows);
	m = median(merge, ROUNDS);
	b = median(bare, ROUNDS);
	printf("%s_merge_wall %.3f s rows %llu nodes %zu\n", name, m.wall, (unsigned long long)rows,
		q.n);
	printf("%s_merge_cpu %.1f Mrows/s/core bare_loop %.1f %.2fx\n", name,
		(double)rows / m.cpu / 1e6, (double)rows / b.cpu / 1e6, b.cpu / m.cpu);
}

/* Little of what there is: one target of the hundred; one program of each, which lies in the rows of all of them. */
static void bench_part(struct day *d, const char *name, const char *what, const char *selector)
{
	struct query q = {.selector = selector};
	struct timing t[PART_ROUNDS], first = merge_once(d, &q), m;

	for (int i = 0; i < PART_ROUNDS; i++)
		t[i] = merge_once(d, &q);
	m = median(t, PART_ROUNDS);
	printf("%s_%s %.2f ms least %.2f cpu_ms %.2f first %.2f rows %llu pages %llu\n", name, what,
		m.wall * 1e3, t[0].wall * 1e3, m.cpu * 1e3, first.wall * 1e3,
		(unsigned long long)q.stats.rows, (unsigned long long)q.stats.pages);
}

static void bench_parts(struct day *d, const char *name, const char *only)
{
	if (!only || strcmp(only, "one_program") != 0)
		bench_part(d, name, "one_target",
			"process_cpu:cpu:nanoseconds:cpu:nanoseconds{instance=\"host-42:7273\"}");
	if (d->n_streams > 1 && (!only || strcmp(only, "one_target") != 0))
		bench_part(d, name, "one_program",
			"process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm=\"proc-7\"}");
}

/* Label values, or all series, of what begins this much later than the day: what blocks kept of a range serves it as a whole only. */
static struct timing catalog_once(struct day *d, bool series, int64_t later_ns, size_t *ret)
{
	_cleanup_query_strings_ struct query_strings s = {.n = 0};
	_cleanup_query_series_list_ struct query_series_list l = {.n = 0};
	struct query_env env = {.workers = workers};
	const struct query_catalog what = {
		.env = &env, .start_ns = day_start_ns + later_ns, .end_ns = day_end_ns};
	struct timing begin = now(), took;
	struct store_parts parts;

	day_check(store_parts_get(d->store, INT64_MIN, INT64_MAX, &parts), NULL, "parts");
	env.parts = parts.items;
	env.n_parts = parts.n;
	day_check(series ? query_series(&what, 0, &l, NULL)
			 : query_label_values(&what, "instance", &s, NULL),
		NULL, "catalog");
	took = since(begin);
	store_parts_put(d->store, &parts);
	*ret = s.n + l.n;
	return took;
}

/* Asked for the first time, again, and for a range that cuts the first block. */
static void bench_catalog(struct day *d, const char *name, bool series)
{
	struct timing first, again[ROUNDS], cut[ROUNDS];
	size_t n = 0;

	first = catalog_once(d, series, 0, &n);
	for (int i = 0; i < ROUNDS; i++) {
		again[i] = catalog_once(d, series, 0, &n);
		cut[i] = catalog_once(d, series, (i + 1) * 60 * NS_PER_S, &n);
	}
	printf("%s_%s %.2f ms cpu_ms %.2f first_cpu_ms %.2f cut_cpu_ms %.2f n %zu\n", name,
		series ? "all_series" : "label_values", median(again, ROUNDS).wall * 1e3,
		median(again, ROUNDS).cpu * 1e3, first.cpu * 1e3, median(cut, ROUNDS).cpu * 1e3, n);
}

/* Right after a start each time, or after the first round of upkeep. */
static void bench_first(
	unsigned n_steps, unsigned n_streams, bool compacted, bool upkeep, const char *name)
{
	for (int series = 0; series < 2; series++) {
		struct timing t[FIRST_ROUNDS], m;
		size_t n = 0;

		for (int i = 0; i < FIRST_ROUNDS; i++) {
			struct day d;

			day_open(&d, DAY_TARGETS, n_steps, n_streams, compacted);
			if (upkeep)
				day_check(store_maintain(d.store, NULL), NULL, "upkeep");
			t[i] = catalog_once(&d, series, 0, &n);
			store_close(d.store);
		}
		m = median(t, FIRST_ROUNDS);
		printf("%s_%s_%s %.2f ms least %.2f cpu_ms %.2f n %zu\n", name,
			upkeep ? "after_upkeep" : "first", series ? "all_series" : "label_values",
			m.wall * 1e3, t[0].wall * 1e3, m.cpu * 1e3, n);
	}
}

static struct timing series_once(struct day *d, const char *group, size_t *ret)
{
	_cleanup_query_selector_ struct query_selector s = {.n_matchers = 0};
	_cleanup_query_matrix_ struct query_matrix m = {.n_lines = 0};
	struct query_env env = {.workers = workers};
	struct query_spec spec = {.selector = &s,
		.start_ns = day_start_ns,
		.end_ns = day_end_ns,
		.step_ns = 345600 * NS_PER_MS,
		.group_by = &group,
		.n_group_by = group != NULL,
		.group = true};
	struct timing begin = now(), took;
	struct store_parts parts;
	struct errbuf eb = {.text = ""};

	day_check(query_selector_parse("process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", &s, &eb),
		&eb, "parse");
	day_check(store_parts_get(d->store, INT64_MIN, INT64_MAX, &parts), NULL, "parts");
	env.parts = parts.items;
	env.n_parts = parts.n;
	day_check(query_over_time(&env, &spec, &m, &eb), &eb, "series");
	took = since(begin);
	store_parts_put(d->store, &parts);
	*ret = m.n_lines;
	return took;
}

static void bench_small(struct day *d, const char *name)
{
	struct timing s[ROUNDS];
	size_t n_lines = 0;

	bench_catalog(d, name, false);
	bench_catalog(d, name, true);
	for (int i = 0; i < ROUNDS; i++)
		s[i] = series_once(d, "instance", &n_lines);
	printf("%s_series_over_time %.2f ms cpu_ms %.2f lines %zu\n", name,
		median(s, ROUNDS).wall * 1e3, median(s, ROUNDS).cpu * 1e3, n_lines);
}

static void bench_rollups(struct day *d, const char *name)
{
	struct query q = {.selector = "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}"};
	struct timing t[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		t[i] = merge_once(d, &q);
	printf("%s_merge_wall %.1f ms cpu_ms %.1f rows %llu\n", name, median(t, ROUNDS).wall * 1e3,
		median(t, ROUNDS).cpu * 1e3, (unsigned long long)q.stats.rows);
}

static void bench_store(
	unsigned n_steps, unsigned n_streams, bool compacted, const char *name, const char *only)
{
	struct rusage u;
	struct day d;

	if (only && !strcmp(only, "first")) {
		bench_first(n_steps, n_streams, compacted, false, name);
		bench_first(n_steps, n_streams, compacted, true, name);
		return;
	}
	day_open(&d, DAY_TARGETS, n_steps, n_streams, compacted);
	if (!only || !strcmp(only, "small"))
		bench_small(&d, name);
	if (!only || strcmp(only, "small") != 0)
		bench_parts(&d, name, only);
	if (only)
		;
	else if (compacted)
		bench_rollups(&d, name);
	else
		bench_whole(&d, name);
	getrusage(RUSAGE_SELF, &u);
	printf("%s_peak_rss %ld MB -\n", name, u.ru_maxrss / 1024);
	store_close(d.store);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned n_steps, n_streams;
		bool compacted;
	} stores[] = {{"corpus", 20, 1, false}, {"block50", DAY_STEPS_A_BLOCK, 50, false},
		{"day", DAY_STEPS, 1, false}, {"day50", DAY_STEPS, 50, false},
		{"day_rollups", DAY_STEPS, 1, true}, {"day50_rollups", DAY_STEPS, 50, true}};
	const char *threads = getenv("SONDE_BENCH_THREADS");
	long n = threads ? atol(threads) : sysconf(_SC_NPROCESSORS_ONLN);

	alloc_keep_freed(); /* as the scraper does */
	day_check(
		query_workers_new(n > 1 ? (unsigned)n - 1 : 0, 0, &workers, NULL), NULL, "workers");
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++)
		if (argc < 2 || !strcmp(argv[1], stores[i].name))
			bench_store(stores[i].n_steps, stores[i].n_streams, stores[i].compacted,
				stores[i].name, argc > 2 ? argv[2] : NULL);
	query_workers_freep(&workers);
	return 0;
}
