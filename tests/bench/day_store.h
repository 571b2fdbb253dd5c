/* SPDX-License-Identifier: Apache-2.0
 *
 * A day of 100 targets scraped each 10 s, 150 rows a scrape (864,000 scrapes, 130 M rows), as a store of twelve blocks: written once
 * through store_append and kept outside the tree. Stacks are those of a compile (corpus.py), drawn with its skew; a scrape is one
 * stream, or 50 streams (processes of a node) that share its rows.
 */
#pragma once
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include "lib/gzip/gzip.h"
#include "lib/prof/decode.h"
#include "lib/prof/labels.h"
#include "scraper/store/store.h"
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	DAY_TARGETS = 100,
	DAY_STEPS = 8640,
	DAY_STEP_S = 10,
	DAY_ROWS = 150,
	DAY_STEPS_A_BLOCK = 720,
	DAY_PERIOD = 10101010
};
static const int64_t day_start_ns = 1763640000LL * NS_PER_S;
static const int64_t day_end_ns = (1763640000LL + (int64_t)DAY_STEPS * DAY_STEP_S) * NS_PER_S;

struct day {
	struct clock_virtual clock;
	struct store *store;
	unsigned n_targets, n_steps, n_streams; /* n_streams: of a scrape */
	uint64_t random;
	struct bytes raw;
	struct profile pool;
	uint32_t *by_rank; /* sample of the k-th most frequent stack */
	struct labels *labels;
};

static inline void day_check(int r, const struct errbuf *eb, const char *what)
{
	if (r < 0)
		err_panic("%s: %s", what, err_text(eb, r));
}

/* Where data sets are kept: $SONDE_BENCH_DATA, else /var/tmp/sonde-bench. */
static inline const char *day_data_dir(void)
{
	const char *dir = getenv("SONDE_BENCH_DATA");

	return dir && *dir ? dir : "/var/tmp/sonde-bench";
}

static inline int day_compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static inline double day_uniform(struct day *d)
{
	return (double)(hash_mix(d->random += 0x9e3779b97f4a7c15ULL) >> 11) / 9007199254740992.0;
}

/* corpus.draw's skew: a third from the head, the rest from anywhere. */
static inline uint32_t day_draw(struct day *d)
{
	size_t n = d->pool.n_samples;
	double rank = day_uniform(d) < .35 ? pow(1 - day_uniform(d), -1 / .35) - 1
					   : day_uniform(d) * (double)n;

	return d->by_rank[MIN((size_t)rank, n - 1)];
}

/* All stacks as one pprof, sorted so that neighbours share their roots; the counts are the ranks. */
static inline void day_load_pool(struct day *d)
{
	static const char script[] =
		"import sys; sys.path.insert(0, 'tests/bench'); import corpus, os\n"
		"stacks = [(s, i + 1) for i, (s, n) in enumerate(corpus.pool())]\n"
		"stacks.sort(key=lambda x: x[0][::-1])\n"
		"open('build/bench/pool.pb', 'wb').write(corpus.encode(stacks, 1))\n";
	char *argv[] = {xstrdup("python3"), xstrdup("-c"), xstrdup(script), NULL};
	struct errbuf eb = {.text = ""};
	int status = 0;
	pid_t pid;

	if (access("build/bench/pool.pb", R_OK) &&
		(posix_spawnp(&pid, "python3", NULL, NULL, argv, environ) != 0 ||
			waitpid(pid, &status, 0) < 0 || status))
		err_panic("cannot make build/bench/pool.pb (perf, clang and python3 are needed)");
	for (int i = 0; i < 3; i++)
		free(argv[i]);
	day_check(fs_read_file(&fs_system, "build/bench/pool.pb", 1 << 28, &d->raw, &eb), &eb,
		"pool");
	profile_init(&d->pool, NULL);
	day_check(prof_decode(d->raw.data, d->raw.len, &d->pool, &eb), &eb, "pool");
	d->by_rank = xcalloc(d->pool.n_samples, sizeof(*d->by_rank));
	for (uint32_t i = 0; i < d->pool.n_samples; i++)
		d->by_rank[d->pool.values[(size_t)i * d->pool.n_types] - 1] = i;
}

static inline void day_make_labels(struct day *d)
{
	d->labels = xcalloc((size_t)d->n_targets * d->n_streams, sizeof(*d->labels));
	for (unsigned i = 0; i < d->n_targets * d->n_streams; i++) {
		_cleanup_labels_builder_ struct labels_builder b;
		char text[64];

		labels_builder_init(&b);
		labels_builder_set(&b, "__name__", "process_cpu");
		labels_builder_set(&b, "job", "node");
		snprintf(text, sizeof(text), "host-%u:7273", i / d->n_streams);
		labels_builder_set(&b, "instance", text);
		if (d->n_streams > 1) {
			snprintf(text, sizeof(text), "proc-%u", i % d->n_streams);
			labels_builder_set(&b, "comm", text);
			labels_builder_set(&b, "service_name", text);
		}
		day_check(labels_builder_finish(&b, &d->labels[i]), NULL, "labels");
	}
}

static inline void day_append(struct day *d, unsigned target, unsigned step)
{
	static uint32_t samples[DAY_ROWS], streams[DAY_ROWS], no_labels[DAY_ROWS];
	static int64_t values[DAY_ROWS * 2];
	static const struct labels *list[64];
	static const struct store_column columns[] = {
		{"samples", "count", STORE_DELTA}, {"cpu", "nanoseconds", STORE_DELTA}};
	int64_t time = day_start_ns + ((int64_t)step + 1) * DAY_STEP_S * NS_PER_S -
		       (int64_t)target * 1000003;
	_cleanup_free_ uint8_t *picked = xcalloc(d->pool.n_samples + 1, 1);
	struct store_result result;
	struct errbuf eb = {.text = ""};

	for (unsigned i = 0; i < d->n_streams; i++)
		list[i] = &d->labels[target * d->n_streams + i];
	memset(picked, 0, d->pool.n_samples);
	for (size_t i = 0; i < DAY_ROWS;) {
		samples[i] = day_draw(d);
		if (d->pool.n_samples > DAY_ROWS && picked[samples[i]])
			continue;
		picked[samples[i]] = 1;
		no_labels[i++] = STORE_NONE;
	}
	qsort(samples, DAY_ROWS, sizeof(*samples), day_compare_u32);
	for (size_t i = 0; i < DAY_ROWS; i++) {
		streams[i] = (uint32_t)(day_uniform(d) * d->n_streams);
		values[2 * i] = 1 + (int64_t)-log(1 - day_uniform(d));
		values[2 * i + 1] = values[2 * i] * DAY_PERIOD;
	}
	d->clock.real_ns = time;
	day_check(store_append(d->store,
			  &(struct store_scrape) {.profile = &d->pool,
				  .period_type = "cpu",
				  .period_unit = "nanoseconds",
				  .period = DAY_PERIOD,
				  .time_ns = time,
				  .duration_ns = DAY_STEP_S * NS_PER_S,
				  .columns = columns,
				  .n_columns = 2,
				  .streams = list,
				  .n_streams = d->n_streams,
				  .row_sample = samples,
				  .row_stream = streams,
				  .row_labels = no_labels,
				  .values = values,
				  .n_rows = DAY_ROWS},
			  &result, &eb),
		&eb, "append");
}

static inline void day_open_store(struct day *d, const char *path, uint64_t cache_bytes)
{
	struct store_options o = {.path = path,
		.clock = &d->clock.clock,
		.fsync = STORE_FSYNC_NEVER,
		.head_bytes = 1ULL << 30,
		.cache_bytes = cache_bytes,
		.retention_ns = INT64_MAX,
		.no_compaction = true,
		.seed = 1};
	struct errbuf eb = {.text = ""};

	clock_virtual_init(&d->clock, day_end_ns);
	day_check(store_open(&o, &d->store, &eb), &eb, path);
}

static inline void day_write(struct day *d, const char *path)
{
	struct errbuf eb = {.text = ""};

	day_check(fs_remove_all(&fs_system, path), NULL, path);
	day_load_pool(d);
	day_make_labels(d);
	day_open_store(d, path, 0);
	for (unsigned step = 0; step < d->n_steps; step++) {
		for (unsigned t = 0; t < d->n_targets; t++)
			day_append(d, t, step);
		if ((step + 1) % DAY_STEPS_A_BLOCK == 0 || step + 1 == d->n_steps)
			day_check(store_flush(d->store, &eb), &eb, "flush");
	}
	store_closep(&d->store);
	for (size_t i = 0; i < (size_t)d->n_targets * d->n_streams; i++)
		labels_done(&d->labels[i]);
	free(d->labels);
	free(d->by_rank);
	profile_done(&d->pool);
	bytes_done(&d->raw);
}

/* A copy of a data set, compacted: it has rollups. */
static inline void day_write_compacted(struct day *d, const char *from, const char *path)
{
	char *argv[] = {xstrdup("cp"), xstrdup("-a"), xstrdup(from), xstrdup(path), NULL};
	struct errbuf eb = {.text = ""};
	int status = 0;
	pid_t pid;

	day_check(fs_remove_all(&fs_system, path), NULL, path);
	if (posix_spawnp(&pid, "cp", NULL, NULL, argv, environ) != 0 ||
		waitpid(pid, &status, 0) < 0 || status)
		err_panic("cannot copy %s", from);
	for (int i = 0; i < 4; i++)
		free(argv[i]);
	day_open_store(d, path, 0);
	day_check(store_compact(d->store, &eb), &eb, "compact");
	store_closep(&d->store);
}

/*
 * Part of a data set's name, so that one of an older layout is not measured: raised whenever what a flush or a compaction writes of the same
 * profiles changes (order, codecs, rollups), or what day_write makes up. 2: streams by job and instance.
 */
enum { DAY_LAYOUT = 2 };

/* Opens the data set, writing it first when it is not there: some minutes for a whole day. */
static inline void day_open(
	struct day *d, unsigned n_targets, unsigned n_steps, unsigned n_streams, bool compacted)
{
	_cleanup_free_ char *raw = xasprintf("%s/day-layout%d-%u-%u-%u", day_data_dir(), DAY_LAYOUT,
				    n_targets, n_steps, n_streams),
			    *path = xasprintf("%s%s", raw, compacted ? "-compacted" : ""),
			    *mark = xasprintf("%s.complete", path);
	struct errbuf eb = {.text = ""};

	*d = (struct day) {
		.n_targets = n_targets, .n_steps = n_steps, .n_streams = n_streams, .random = 1};
	bytes_init(&d->raw, NULL, 0);
	if (access(mark, R_OK)) {
		fprintf(stderr, "%s: writing the data set, some minutes\n", path);
		if (mkdir(day_data_dir(), 0755) < 0 && errno != EEXIST)
			err_panic("%s: %m", day_data_dir());
		if (compacted)
			day_write_compacted(d, raw, path);
		else
			day_write(d, path);
		day_check(fs_write_file(&fs_system, mark, "", 0, 0644, &eb), &eb, mark);
	}
	day_open_store(d, path, 0);
}
