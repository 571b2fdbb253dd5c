/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging stored profiles to one flame graph, on one core, warm: rows per second of CPU time, beside `go tool pprof -proto` merging files
 * with the same kind of profiles. 20 targets × 360 scrapes × 300 rows over 5,000 stacks that share their roots, in blocks.
 *
 * One line a figure: name value unit peer value ratio.
 */
#include "tests/unit/store_gen.h"
#include "lib/base/clock.h"
#include "lib/json/write.h"
#include "lib/gzip/gzip.h"
#include "lib/render/render.h"
#include "scraper/query/query.h"
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { TARGETS = 20, SCRAPES = 360, ROWS = 300, STACKS = 5000, FILES = 100, ROUNDS = 7 };
static const int64_t start_ns = 1700000000LL * NS_PER_S;

struct bench {
	char dir[64];
	struct store *store;
	struct gen g;
	struct profile pool; /* STACKS samples that all scrapes draw from */
	struct clock_virtual clock;
};

static void check(int r, const struct errbuf *eb, const char *what)
{
	if (r < 0)
		err_panic("bench_query: %s: %s", what, err_text(eb, r));
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Few stacks are hot: the square of a uniform number. */
static uint32_t pick(struct gen *g)
{
	uint64_t u = gen_below(g, 1 << 16);

	return (uint32_t)((u * u >> 16) * STACKS >> 16);
}

static void append(struct bench *b, unsigned target, unsigned step)
{
	static uint32_t samples[ROWS], streams[ROWS], no_labels[ROWS];
	static int64_t values[ROWS * 2];
	struct labels labels;
	const struct labels *stream = &labels;
	const struct store_column columns[] = {
		{"samples", "count", STORE_DELTA}, {"cpu", "nanoseconds", STORE_DELTA}};
	struct store_result result;
	struct errbuf eb = {.text = ""};
	int64_t time = start_ns + (int64_t)step * 15 * NS_PER_S + target;

	gen_labels(&labels, "process_cpu", target, NULL, 0);
	for (size_t i = 0; i < ROWS; i++) {
		samples[i] = pick(&b->g);
		no_labels[i] = STORE_NONE;
		values[2 * i] = 1 + (int64_t)gen_below(&b->g, 4);
		values[2 * i + 1] = values[2 * i] * 52631579;
	}
	qsort(samples, ROWS, sizeof(*samples), compare_u32);
	b->clock.real_ns = time;
	check(store_append(b->store,
		      &(struct store_scrape) {.profile = &b->pool,
			      .period_type = "cpu",
			      .period_unit = "nanoseconds",
			      .period = 52631579,
			      .time_ns = time,
			      .duration_ns = 15 * NS_PER_S,
			      .columns = columns,
			      .n_columns = 2,
			      .streams = &stream,
			      .n_streams = 1,
			      .row_sample = samples,
			      .row_stream = streams,
			      .row_labels = no_labels,
			      .values = values,
			      .n_rows = ROWS},
		      &result, &eb),
		&eb, "append");
	labels_done(&labels);
}

static void fill(struct bench *b)
{
	struct errbuf eb = {.text = ""};
	struct store_options o = {.path = b->dir,
		.clock = &b->clock.clock,
		.fsync = STORE_FSYNC_NEVER,
		.head_bytes = 512 << 20,
		.cache_bytes = 512 << 20,
		.seed = 1};

	snprintf(b->dir, sizeof(b->dir), "/tmp/sonde-bench-query-XXXXXX");
	if (!mkdtemp(b->dir))
		err_panic("bench_query: no temporary directory");
	clock_virtual_init(&b->clock, start_ns);
	check(store_open(&o, &b->store, &eb), &eb, "open");
	b->g = (struct gen) {.state = 3, .n_functions = 2000, .max_depth = 40};
	gen_profile(&b->g, &b->pool, STACKS);
	for (unsigned step = 0; step < SCRAPES; step++) {
		for (unsigned t = 0; t < TARGETS; t++)
			append(b, t, step);
		if (step % (SCRAPES / 3) == SCRAPES / 3 - 1)
			check(store_flush(b->store, &eb), &eb, "flush");
	}
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* CPU seconds of this thread or of ended children: other work on the machine does not count. */
static double cpu_seconds(int who)
{
	struct rusage u;

	if (getrusage(who, &u) != 0)
		err_panic("bench_query: getrusage");
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Seconds of one query; how much it read; seconds of making the answer from the merged tree. */
static double query_once(
	struct bench *b, const char *group_by, struct query_stats *ret, double *ret_render)
{
	_cleanup_query_selector_ struct query_selector s = {.n_matchers = 0};
	_cleanup_query_trees_ struct query_trees t = {.n_groups = 0};
	_cleanup_tree_ struct tree functions = {.n = 0}, limited = {.n = 0};
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	struct json j = json_to(&out);
	struct query_env env = {.budget = NULL};
	struct query_spec spec = {.selector = &s,
		.end_ns = INT64_MAX / 4,
		.group = true,
		.group_by = &group_by,
		.n_group_by = group_by != NULL};
	struct errbuf eb = {.text = ""};
	struct store_parts parts;
	double begin, seconds;

	check(query_selector_parse("process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", &s, &eb), &eb,
		"parse");
	check(store_parts_get(b->store, INT64_MIN, INT64_MAX, &parts), &eb, "parts");
	env.parts = parts.items;
	env.n_parts = parts.n;
	begin = cpu_seconds(RUSAGE_THREAD);
	check(query_merge(&env, &spec, &t, &eb), &eb, "merge");
	seconds = cpu_seconds(RUSAGE_THREAD) - begin;
	store_parts_put(b->store, &parts);
	begin = cpu_seconds(RUSAGE_THREAD);
	tree_init(&functions, NULL);
	tree_init(&limited, NULL);
	check(tree_project(&t.groups[0].tree, NULL, &t.symbols, &functions, &eb), &eb, "project");
	check(tree_limit(&functions, 8192, &limited, &eb), &eb, "limit");
	json_object_begin(&j);
	check(render_json_members(
		      &(struct render_input) {.tree = &limited, .symbols = &t.symbols}, &j),
		&eb, "render");
	*ret_render = cpu_seconds(RUSAGE_THREAD) - begin;
	*ret = env.stats;
	return seconds;
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare_double);
	return v[ROUNDS / 2];
}

/* Files with ROWS samples each, merged by Go's pprof: rows per second, 0 when it is not there. */
static double peer(struct bench *b)
{
	char *argv[FILES + 9] = {NULL}, out[96];
	size_t n = 0;
	double begin;
	int status = 1;
	pid_t pid;

	argv[n++] = xstrdup("go");
	argv[n++] = xstrdup("tool");
	argv[n++] = xstrdup("pprof");
	argv[n++] = xstrdup("-proto");
	argv[n++] = xstrdup("-symbolize=none");
	snprintf(out, sizeof(out), "-output=%s/merged.pb.gz", b->dir);
	argv[n++] = xstrdup(out);
	for (int i = 0; i < FILES; i++) {
		_cleanup_bytes_ struct bytes raw = {.data = NULL}, gz = {.data = NULL};
		_cleanup_profile_ struct profile p;
		struct errbuf eb = {.text = ""};

		gen_profile(&b->g, &p, ROWS);
		check(prof_encode(&p, &raw), &eb, "encode");
		check(gzip_deflate(raw.data, raw.len, GZIP_LEVEL_FAST, &gz, &eb), &eb, "gzip");
		argv[n] = xasprintf("%s/%d.pb.gz", b->dir, i);
		check(fs_write_file(&fs_system, argv[n], gz.data, gz.len, 0600, &eb), &eb, "write");
		n++;
	}
	begin = cpu_seconds(RUSAGE_CHILDREN);
	if (posix_spawnp(&pid, "go", NULL, NULL, argv, environ) != 0 ||
		waitpid(pid, &status, 0) < 0 || status)
		begin = -1;
	for (size_t i = 0; i < n; i++)
		free(argv[i]);
	return begin >= 0 ? (double)FILES * ROWS / (cpu_seconds(RUSAGE_CHILDREN) - begin) : 0;
}

int main(void)
{
	struct bench b = {.dir = ""};
	double plain[ROUNDS], grouped[ROUNDS], render[ROUNDS], go;
	struct query_stats stats = {.parts = 0};

	fill(&b);
	for (int i = 0; i < ROUNDS; i++) {
		double unused;

		grouped[i] = query_once(&b, "instance", &stats, &unused);
		plain[i] = query_once(&b, NULL, &stats, &render[i]);
	}
	go = peer(&b);
	printf("query_merge %.0f rows/s go_tool_pprof %.0f %.0f\n",
		(double)stats.rows / median(plain), go,
		go > 0 ? (double)stats.rows / median(plain) / go : 0);
	printf("query_merge_by_instance %.0f rows/s go_tool_pprof %.0f %.0f\n",
		(double)stats.rows / median(grouped), go,
		go > 0 ? (double)stats.rows / median(grouped) / go : 0);
	printf("query_merge_seconds %.4f s rows %llu -\n", median(plain),
		(unsigned long long)stats.rows);
	printf("flamegraph_json %.2f ms nodes %llu -\n", median(render) * 1e3,
		(unsigned long long)stats.nodes);
	profile_done(&b.pool);
	store_close(b.store);
	return fs_remove_all(&fs_system, b.dir) < 0;
}
