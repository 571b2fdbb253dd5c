/* SPDX-License-Identifier: Apache-2.0
 *
 * Ingest on one core: gzipped profiles of 285 samples (corpus.py: real stacks of a compile, drawn with a seed) through the
 * scraper's own stages — inflate, decode, relabel into series and rows, append to the store with its WAL on disk, blocks
 * written when the head is full. 100 targets in turn. Then the size of the directory beside the sum of the gzipped profiles.
 *
 * One line a figure: name value unit goal value ratio.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/net/gzip.h"
#include "scraper/scrape/series.h"
#include "scraper/store/store.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { N_PROFILES = 3000, N_TARGETS = 100, SAMPLES = 285, INTERVAL_S = 15, GOAL = 1500 };
#define DIRECTORY "build/bench/ingest"
#define CONFIG DIRECTORY "/scraper.yml"
#define DATA DIRECTORY "/data"

static int run_python(const char *script)
{
	_cleanup_free_ char *text = xstrdup(script), *python = xstrdup("python3"),
			    *flag = xstrdup("-c");
	char *argv[] = {python, flag, text, NULL};
	int status = -1;
	pid_t pid;

	if (posix_spawnp(&pid, "python3", NULL, NULL, argv, environ) != 0 ||
		waitpid(pid, &status, 0) < 0)
		return -1;
	return status;
}

static void check(int r, const struct errbuf *eb)
{
	if (r < 0)
		err_panic("bench_ingest: %s", err_text(eb, r));
}

static void make_corpus(void)
{
	if (access(DIRECTORY "/02999.pb.gz", R_OK) &&
		run_python(
			"import sys, os, gzip; sys.path.insert(0, 'tests/bench'); import corpus\n"
			"os.makedirs('" DIRECTORY "', exist_ok=True)\n"
			"stacks = corpus.pool()\n"
			"for i in range(3000):\n"
			"    open(f'" DIRECTORY
			"/{i:05}.pb.gz', 'wb').write(gzip.compress(corpus.profile(285, i, stacks), "
			"6))\n"))
		err_panic("bench_ingest: cannot make the corpus (perf, clang and python3 are "
			  "needed)");
}

struct bench {
	struct config *config;
	struct scrape_limit *limit;
	struct scrape_specs specs;
	struct labels targets[N_TARGETS];
	struct bytes files[N_PROFILES];
	uint64_t gz_bytes;
	struct store *store;
	/* of the profile in hand */
	struct bytes raw;
	struct profile profile;
	struct arena arena;
	uint64_t rows;
};

static void load(struct bench *b)
{
	static const char config[] =
		"scrape_configs:\n- job_name: bench\n  static_configs: [{targets: ['h:1']}]\n";
	struct errbuf eb = {.text = ""};

	for (size_t i = 0; i < N_PROFILES; i++) {
		_cleanup_free_ char *path = xasprintf(DIRECTORY "/%05zu.pb.gz", i);

		bytes_init(&b->files[i], NULL, 0);
		check(fs_read_file(&fs_system, path, 1 << 20, &b->files[i], &eb), &eb);
		b->gz_bytes += b->files[i].len;
	}
	check(fs_write_file(&fs_system, CONFIG, config, strlen(config), 0600, &eb), &eb);
	check(config_load(&fs_system, CONFIG, NULL, &b->config, &eb), &eb);
	check(scrape_specs_build(&b->config->jobs[0].profiling, SCRAPE_PRESET_GO, NULL,
		      INTERVAL_S * 1000, &b->specs, &eb),
		&eb);
	b->limit = scrape_limit_new(50000, NS_PER_S * 7200);
	for (size_t i = 0; i < N_TARGETS; i++) {
		_cleanup_labels_builder_ struct labels_builder lb;
		_cleanup_free_ char *instance = xasprintf("host-%zu:7273", i);

		labels_builder_init(&lb);
		labels_builder_set(&lb, "__name__", "process_cpu");
		labels_builder_set(&lb, "job", "bench");
		labels_builder_set(&lb, "instance", instance);
		check(labels_builder_finish(&lb, &b->targets[i]), NULL);
	}
}

static void ingest(struct bench *b, size_t i, int64_t start_ns)
{
	struct store_scrape out = {.profile = NULL};
	struct scrape_series_result series = {.n_streams = 0};
	struct store_result result;
	struct errbuf eb = {.text = ""};
	struct scrape_series_input in = {.profile = &b->profile,
		.job = &b->config->jobs[0],
		.spec = &b->specs.items[0],
		.preset = SCRAPE_PRESET_GO,
		.target = &b->targets[i % N_TARGETS],
		.limit = b->limit};

	bytes_reset(&b->raw);
	profile_reset(&b->profile);
	arena_reset(&b->arena);
	check(gzip_inflate(b->files[i].data, b->files[i].len, 1 << 28, &b->raw, &eb), &eb);
	check(prof_decode(b->raw.data, b->raw.len, &b->profile, &eb), &eb);
	out.time_ns = start_ns + (int64_t)(i / N_TARGETS) * INTERVAL_S * NS_PER_S;
	out.duration_ns = INTERVAL_S * NS_PER_S;
	if (scrape_series_build(&in, &b->arena, &out, &series, &eb) != SCRAPE_OK)
		err_panic("bench_ingest: %s", eb.text);
	check(store_append(b->store, &out, &result, &eb), &eb);
	b->rows += result.n_rows;
	scrape_series_done(&series);
}

static uint64_t directory_bytes(const char *path)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	uint64_t sum = 0;

	if (fs_system.list(&fs_system, path, &names) < 0)
		return 0;
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		_cleanup_free_ char *full = xasprintf("%s/%s", path, (char *)names.data + at);
		struct fs_stat st;

		if (!fs_system.stat(&fs_system, full, &st))
			sum += st.is_dir ? directory_bytes(full) : st.size_bytes;
	}
	return sum;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run(struct bench *b)
{
	const struct store_options o = {.path = DATA};
	struct errbuf eb = {.text = ""};
	int64_t now_ns = clock_realtime_ns(&clock_system), wall_ns;
	double cpu;

	check(fs_remove_all(&fs_system, DATA), NULL);
	check(store_open(&o, &b->store, &eb), &eb);
	wall_ns = clock_monotonic_ns(&clock_system);
	cpu = cpu_seconds();
	for (size_t i = 0; i < N_PROFILES; i++) {
		ingest(b, i, now_ns - (int64_t)(N_PROFILES / N_TARGETS) * INTERVAL_S * NS_PER_S);
		if (i % 500 == 499)
			check(store_maintain(b->store, &eb), &eb);
	}
	check(store_sync(b->store), NULL);
	cpu = cpu_seconds() - cpu;
	wall_ns = clock_monotonic_ns(&clock_system) - wall_ns;
	printf("ingest_cpu %.0f profiles/s/core goal %d %.1fx\n", N_PROFILES / cpu, GOAL,
		N_PROFILES / cpu / GOAL);
	printf("ingest_wall %.0f profiles/s goal %d %.1fx\n", N_PROFILES * 1e9 / (double)wall_ns,
		GOAL, N_PROFILES * 1e9 / (double)wall_ns / GOAL);
	check(store_flush(b->store, &eb), &eb);
	store_closep(&b->store);
	printf("store_bytes %llu bytes gzipped-profiles %llu %.3fx\n",
		(unsigned long long)directory_bytes(DATA "/blocks"),
		(unsigned long long)b->gz_bytes,
		(double)directory_bytes(DATA "/blocks") / (double)b->gz_bytes);
	printf("store_bytes_per_row %.2f bytes goal 3 %.2fx\n",
		(double)directory_bytes(DATA "/blocks") / (double)b->rows,
		(double)directory_bytes(DATA "/blocks") / (double)b->rows / 3);
}

int main(void)
{
	static struct bench b;

	make_corpus();
	bytes_init(&b.raw, NULL, 0);
	profile_init(&b.profile, NULL);
	arena_init(&b.arena, NULL);
	load(&b);
	run(&b);
	profile_done(&b.profile);
	arena_done(&b.arena);
	bytes_done(&b.raw);
	for (size_t i = 0; i < N_PROFILES; i++)
		bytes_done(&b.files[i]);
	for (size_t i = 0; i < N_TARGETS; i++)
		labels_done(&b.targets[i]);
	scrape_specs_done(&b.specs);
	scrape_limit_put(b.limit);
	config_put(b.config);
	check(fs_remove_all(&fs_system, DATA), NULL);
	return 0;
}
