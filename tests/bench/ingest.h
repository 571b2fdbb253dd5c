/* SPDX-License-Identifier: Apache-2.0
 *
 * Gzipped profiles through the scraper's own stages into a store: inflate, decode, relabel into series and rows, append. Shared by the
 * benchmarks of ingest and of size.
 */
#pragma once
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include "lib/gzip/gzip.h"
#include "scraper/scrape/series.h"
#include "scraper/store/store.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct ingest {
	struct config *config;
	struct scrape_limit *limit;
	struct scrape_specs specs;
	struct labels *targets;
	size_t n_targets;
	struct bytes *files;
	size_t n_files;
	uint64_t gz_bytes; /* of what was ingested */
	struct store *store;
	/* of the profile in hand */
	struct bytes raw;
	struct profile profile;
	struct arena arena;
	uint64_t n_rows, n_streams;
};

static inline void ingest_check(int r, const struct errbuf *eb)
{
	if (r < 0)
		err_panic("%s", err_text(eb, r));
}

static inline int ingest_python(const char *script)
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

/* All files of a directory in order of name, and n_targets targets; `dir` also takes the configuration. */
static inline void ingest_init(struct ingest *b, const char *dir, size_t n_targets, bool is_node)
{
	static const char config[] =
		"scrape_configs:\n- job_name: bench\n  static_configs: [{targets: ['h:1']}]\n";
	_cleanup_free_ char *path = xasprintf("%s/scraper.yml", dir);
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	struct errbuf eb = {.text = ""};

	*b = (struct ingest) {.n_targets = n_targets};
	bytes_init(&b->raw, NULL, 0);
	profile_init(&b->profile, NULL);
	arena_init(&b->arena, NULL);
	ingest_check(fs_system.list(&fs_system, dir, &names), NULL);
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		_cleanup_free_ char *file = xasprintf("%s/%s", dir, name);

		if (!strstr(name, ".pb.gz"))
			continue;
		b->files = xrealloc(b->files, (b->n_files + 1) * sizeof(*b->files));
		bytes_init(&b->files[b->n_files], NULL, 0);
		ingest_check(
			fs_read_file(&fs_system, file, 1 << 24, &b->files[b->n_files++], &eb), &eb);
	}
	ingest_check(fs_write_file(&fs_system, path, config, strlen(config), 0600, &eb), &eb);
	ingest_check(config_load(&fs_system, path, NULL, &b->config, &eb), &eb);
	ingest_check(scrape_specs_build(&b->config->jobs[0].profiling,
			     is_node ? SCRAPE_PRESET_NODE : SCRAPE_PRESET_GO, NULL, 15000,
			     &b->specs, &eb),
		&eb);
	b->limit = scrape_limit_new(50000, NS_PER_S * 7200);
	b->targets = xcalloc(n_targets, sizeof(*b->targets));
	for (size_t i = 0; i < n_targets; i++) {
		_cleanup_labels_builder_ struct labels_builder lb;
		_cleanup_free_ char *instance = xasprintf("host-%zu:7273", i);

		labels_builder_init(&lb);
		labels_builder_set(&lb, "__name__", "process_cpu");
		labels_builder_set(&lb, "job", "bench");
		labels_builder_set(&lb, "instance", instance);
		ingest_check(labels_builder_finish(&lb, &b->targets[i]), NULL);
	}
}

static inline void ingest_done(struct ingest *b)
{
	profile_done(&b->profile);
	arena_done(&b->arena);
	bytes_done(&b->raw);
	for (size_t i = 0; i < b->n_files; i++)
		bytes_done(&b->files[i]);
	free(b->files);
	for (size_t i = 0; i < b->n_targets; i++)
		labels_done(&b->targets[i]);
	free(b->targets);
	scrape_specs_done(&b->specs);
	scrape_limit_put(b->limit);
	config_put(b->config);
}

static inline void ingest_one(struct ingest *b, size_t file, size_t target, int64_t time_ns,
	int64_t duration_ns, bool is_node)
{
	struct store_scrape out = {.profile = NULL};
	struct scrape_series_result series = {.n_streams = 0};
	struct store_result result;
	struct errbuf eb = {.text = ""};
	struct scrape_series_input in = {.profile = &b->profile,
		.job = &b->config->jobs[0],
		.spec = &b->specs.items[0],
		.preset = is_node ? SCRAPE_PRESET_NODE : SCRAPE_PRESET_GO,
		.target = &b->targets[target],
		.limit = b->limit};

	bytes_reset(&b->raw);
	profile_reset(&b->profile);
	arena_reset(&b->arena);
	ingest_check(
		gzip_inflate(b->files[file].data, b->files[file].len, 1 << 28, &b->raw, &eb), &eb);
	ingest_check(prof_decode(b->raw.data, b->raw.len, &b->profile, &eb), &eb);
	out.time_ns = time_ns;
	out.duration_ns = duration_ns;
	if (scrape_series_build(&in, &b->arena, &out, &series, &eb) != SCRAPE_OK)
		err_panic("%s", eb.text);
	ingest_check(store_append(b->store, &out, &result, &eb), &eb);
	b->gz_bytes += b->files[file].len;
	b->n_rows += result.n_rows;
	b->n_streams += result.n_streams;
	scrape_series_done(&series);
}

static inline uint64_t ingest_directory_bytes(const char *path, const char *only)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	uint64_t sum = 0;

	if (fs_system.list(&fs_system, path, &names) < 0)
		return 0;
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		_cleanup_free_ char *full = xasprintf("%s/%s", path, name);
		struct fs_stat st;

		if (fs_system.stat(&fs_system, full, &st) < 0)
			continue;
		if (st.is_dir)
			sum += ingest_directory_bytes(full, only);
		else if (!only || !strcmp(name, only))
			sum += st.size_bytes;
	}
	return sum;
}

static inline double ingest_cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
