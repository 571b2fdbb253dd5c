/* SPDX-License-Identifier: Apache-2.0
 *
 * Ingest, size and start-up of the store.
 *
 *   bench_store                        100,000 profiles of 150 rows (corpus.py: real stacks of a compile, drawn with a seed) as 1,000 series:
 *                                      profiles a second of one core with the log, blocks and compactions on disk; then bytes after
 *                                      compaction, stacks and symbols apart; then the replay of a log of 256 MB
 *   bench_store DIR [SERIES [SECONDS]] the gzipped profiles of a directory (scrapes of one exporter, say), SECONDS apart, as many series
 *
 *   bench_store replay                 the last of these alone
 *
 * One line a figure: name value unit goal value.
 */
#include "tests/bench/ingest.h"

enum { N_FILES = 4000, N_PROFILES = 100000, N_SERIES = 1000, ROWS = 150, REPLAY_MB = 256 };
#define DIRECTORY "build/bench/store"
#define DATA "build/bench/store-data"

static void make_corpus(void)
{
	if (access(DIRECTORY "/03999.pb.gz", R_OK) &&
		ingest_python(
			"import sys, os, gzip; sys.path.insert(0, 'tests/bench'); import corpus\n"
			"os.makedirs('" DIRECTORY "', exist_ok=True)\n"
			"stacks = corpus.pool()\n"
			"for i in range(4000):\n"
			"    open(f'" DIRECTORY
			"/{i:05}.pb.gz', 'wb').write(gzip.compress(corpus.profile(150, i, "
			"stacks), 6))\n"))
		err_panic(
			"bench_store: cannot make the corpus (perf, clang and python3 are needed)");
}

static void print_files(const struct ingest *b, uint64_t n_profiles)
{
	static const char *const files[] = {"index", "symbols", "stacks", "profiles", "rows",
		"profiles_10m", "rows_10m", "profiles_1h", "rows_1h", "meta.json"};
	uint64_t all = ingest_directory_bytes(DATA "/blocks", NULL), apart = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		uint64_t n = ingest_directory_bytes(DATA "/blocks", files[i]);

		if (i == 1 || i == 2)
			apart += n;
		printf("  %-12s %10llu bytes, %8.1f a profile, %6.3f a row\n", files[i],
			(unsigned long long)n, (double)n / (double)n_profiles,
			(double)n / (double)b->n_rows);
	}
	printf("store_bytes_per_profile %.1f bytes goal 400 (stacks and symbols apart: %llu "
	       "bytes)\n",
		(double)(all - apart) / (double)n_profiles, (unsigned long long)apart);
	printf("store_bytes_per_row %.3f bytes goal 2.5\n",
		(double)(all - apart) / (double)b->n_rows);
	printf("store_bytes %llu bytes all in, gzipped profiles %llu %.4fx\n",
		(unsigned long long)all, (unsigned long long)b->gz_bytes,
		(double)all / (double)b->gz_bytes);
}

static void open_store(struct ingest *b, const struct store_options *o)
{
	struct errbuf eb = {.text = ""};

	ingest_check(store_open(o, &b->store, &eb), &eb);
}

/* Time moves with the profiles: a scrape of each series every `seconds`. */
static void fill(struct ingest *b, struct clock_virtual *clock, size_t n, int64_t seconds,
	bool in_turn, bool is_node)
{
	struct errbuf eb = {.text = ""};

	for (size_t i = 0; i < n; i++) {
		size_t target = i % b->n_targets,
		       file = in_turn ? i % b->n_files : hash_mix(i) % b->n_files;

		ingest_one(b, file, target, clock->real_ns, seconds * NS_PER_S, is_node);
		if (target + 1 == b->n_targets)
			clock_virtual_advance(clock, seconds * NS_PER_S);
		if (i % 1000 == 999)
			ingest_check(store_maintain(b->store, &eb), &eb);
		/* Three blocks at least, as three times --storage.head-bytes would give. */
		if (i % (n / 3 + 1) == n / 3)
			ingest_check(store_flush(b->store, &eb), &eb);
	}
	ingest_check(store_flush(b->store, &eb), &eb);
}

static void measure(struct ingest *b, size_t n, int64_t seconds, bool in_turn, bool is_node)
{
	struct clock_virtual clock;
	const struct store_options o = {.path = DATA, .clock = &clock.clock};
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	double cpu;

	clock_virtual_init(&clock, 1700000000LL * NS_PER_S);
	ingest_check(fs_remove_all(&fs_system, DATA), NULL);
	ingest_check(fs_make_dirs(&fs_system, DATA, 0755), NULL);
	open_store(b, &o);
	cpu = ingest_cpu_seconds();
	fill(b, &clock, n, seconds, in_turn, is_node);
	cpu = ingest_cpu_seconds() - cpu;
	printf("store_ingest %.0f profiles/s/core goal 1500 (%zu profiles, %llu rows, all upkeep "
	       "included)\n",
		(double)n / cpu, n, (unsigned long long)b->n_rows);
	ingest_check(store_compact(b->store, &eb), &eb);
	store_stats(b->store, &st);
	printf("%llu blocks after %llu compactions\n", (unsigned long long)st.blocks,
		(unsigned long long)st.compactions);
	print_files(b, b->n_streams);
	store_closep(&b->store);
}

/* A log of 256 MB, and the time until the store is open again. */
static void replay(struct ingest *b)
{
	struct clock_virtual clock;
	const struct store_options o = {.path = DATA,
		.clock = &clock.clock,
		.head_bytes = 4ULL << 30,
		.max_nodes = 1 << 24,
		.fsync = STORE_FSYNC_NEVER};
	struct store_stats st = {.wal_bytes = 0};
	int64_t wall_ns;
	double cpu;

	clock_virtual_init(&clock, 1700000000LL * NS_PER_S);
	ingest_check(fs_remove_all(&fs_system, DATA), NULL);
	open_store(b, &o);
	for (size_t i = 0; st.appended_bytes < (uint64_t)REPLAY_MB << 20; i++) {
		ingest_one(b, hash_mix(i) % b->n_files, i % b->n_targets, clock.real_ns,
			10 * NS_PER_S, false);
		if (i % b->n_targets == b->n_targets - 1)
			clock_virtual_advance(&clock, 10 * NS_PER_S / 100);
		store_stats(b->store, &st);
	}
	store_closep(&b->store);
	wall_ns = clock_monotonic_ns(&clock_system);
	cpu = ingest_cpu_seconds();
	open_store(b, &o);
	cpu = ingest_cpu_seconds() - cpu;
	wall_ns = clock_monotonic_ns(&clock_system) - wall_ns;
	store_stats(b->store, &st);
	printf("store_replay %.2f s goal 2 (%d MB of log, %.2f s of CPU, %llu records)\n",
		(double)wall_ns / 1e9, REPLAY_MB, cpu, (unsigned long long)st.replayed_records);
	store_closep(&b->store);
}

int main(int argc, char **argv)
{
	static struct ingest b;

	if (argc > 1 && !strcmp(argv[1], "replay")) {
		make_corpus();
		ingest_init(&b, DIRECTORY, N_SERIES, false);
		replay(&b);
	} else if (argc > 1) {
		ingest_init(&b, argv[1], argc > 2 ? strtoul(argv[2], NULL, 10) : 1, true);
		measure(&b, b.n_files, argc > 3 ? strtol(argv[3], NULL, 10) : 10, true, true);
	} else {
		make_corpus();
		ingest_init(&b, DIRECTORY, N_SERIES, false);
		measure(&b, N_PROFILES, 10, false, false);
		replay(&b);
	}
	ingest_done(&b);
	return getenv("SONDE_BENCH_KEEP") ? 0 : fs_remove_all(&fs_system, DATA) < 0;
}
