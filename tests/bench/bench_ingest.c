/* SPDX-License-Identifier: Apache-2.0
 *
 * Ingest on one core: gzipped profiles of 285 samples (corpus.py: real stacks of a compile, drawn with a seed) through the
 * scraper's own stages — inflate, decode, relabel into series and rows, append to the store with its WAL on disk, blocks
 * written when the head is full. 100 targets in turn. Then the size of the directory beside the sum of the gzipped profiles.
 *
 * One line a figure: name value unit goal value ratio.
 */
#include "tests/bench/ingest.h"

enum { N_PROFILES = 3000, N_TARGETS = 100, SAMPLES = 285, INTERVAL_S = 15, GOAL = 1500 };
#define DIRECTORY "build/bench/ingest"
#define DATA DIRECTORY "/data"

static void make_corpus(void)
{
	if (access(DIRECTORY "/02999.pb.gz", R_OK) &&
		ingest_python(
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

static void run(struct ingest *b)
{
	const struct store_options o = {.path = DATA};
	struct errbuf eb = {.text = ""};
	int64_t start_ns = clock_realtime_ns(&clock_system) -
			   (int64_t)(N_PROFILES / N_TARGETS) * INTERVAL_S * NS_PER_S,
		wall_ns;
	double cpu;

	ingest_check(fs_remove_all(&fs_system, DATA), NULL);
	ingest_check(store_open(&o, &b->store, &eb), &eb);
	wall_ns = clock_monotonic_ns(&clock_system);
	cpu = ingest_cpu_seconds();
	for (size_t i = 0; i < N_PROFILES; i++) {
		ingest_one(b, i, i % N_TARGETS,
			start_ns + (int64_t)(i / N_TARGETS) * INTERVAL_S * NS_PER_S,
			INTERVAL_S * NS_PER_S, false);
		if (i % 500 == 499)
			ingest_check(store_maintain(b->store, &eb), &eb);
	}
	ingest_check(store_sync(b->store), NULL);
	cpu = ingest_cpu_seconds() - cpu;
	wall_ns = clock_monotonic_ns(&clock_system) - wall_ns;
	printf("ingest_cpu %.0f profiles/s/core goal %d %.1fx\n", N_PROFILES / cpu, GOAL,
		N_PROFILES / cpu / GOAL);
	printf("ingest_wall %.0f profiles/s goal %d %.1fx\n", N_PROFILES * 1e9 / (double)wall_ns,
		GOAL, N_PROFILES * 1e9 / (double)wall_ns / GOAL);
	ingest_check(store_flush(b->store, &eb), &eb);
	store_closep(&b->store);
	printf("store_bytes %llu bytes gzipped-profiles %llu %.3fx\n",
		(unsigned long long)ingest_directory_bytes(DATA "/blocks", NULL),
		(unsigned long long)b->gz_bytes,
		(double)ingest_directory_bytes(DATA "/blocks", NULL) / (double)b->gz_bytes);
	printf("store_bytes_per_row %.2f bytes goal 3 %.2fx\n",
		(double)ingest_directory_bytes(DATA "/blocks", NULL) / (double)b->n_rows,
		(double)ingest_directory_bytes(DATA "/blocks", NULL) / (double)b->n_rows / 3);
}

int main(void)
{
	static struct ingest b;

	make_corpus();
	ingest_init(&b, DIRECTORY, N_TARGETS, false);
	run(&b);
	ingest_done(&b);
	ingest_check(fs_remove_all(&fs_system, DATA), NULL);
	return 0;
}
