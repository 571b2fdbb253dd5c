/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde tsdb stats, compact, repair, snapshot: sizes, and the upkeep of a store that no scraper has open.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/tsdb.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "scraper/store/part/dump.h"
#include <inttypes.h>
#include <string.h>

#define NOT_IN_USE                                                                             \
	"DIRECTORY is what --storage.path of sonde-scraper names; a scraper that has it open " \
	"keeps this command out."

static const struct option_program stats_program = {
	.name = "sonde tsdb stats",
	.summary = "print the size of each file of a store",
	.arguments = "DIRECTORY",
	.description = "Prints the bytes of each file of each block, also per profile and per row. "
		       "DIRECTORY is what --storage.path of sonde-scraper names. It may be in use.",
	.exit_status = "1      the directory could not be read",
	.examples = "sonde tsdb stats data\n",
};
static const struct option_spec compact_specs[] = {
	{"storage.rollup.without", OPTION_STRING, offsetof(struct cli_tsdb_options, without),
		.value = "LABELS", .fallback = "pid,tid,thread_name,cpu",
		.help = "Row labels that rollups do not keep."},
};
static const struct option_program compact_program = {
	.name = "sonde tsdb compact",
	.summary = "compact a store now",
	.arguments = "DIRECTORY",
	.description = "Writes the head that only the log holds as a block, then compacts until "
		       "nothing is left to do. " NOT_IN_USE,
	.specs = compact_specs,
	.n_specs = ARRAY_SIZE(compact_specs),
	.exit_status = "1      it failed; the old blocks are still there",
	.examples = "sonde tsdb compact data\n",
};
static const struct option_program repair_program = {
	.name = "sonde tsdb repair",
	.summary = "move damaged blocks of a store to quarantine",
	.arguments = "DIRECTORY",
	.description = "Reads everything as sonde tsdb verify does and moves each damaged block to "
		       "quarantine/, with the reason. Everything else stays and is "
		       "served. " NOT_IN_USE,
	.exit_status = "1      the directory could not be repaired",
	.examples = "sonde tsdb repair data\n",
};
static const struct option_program snapshot_program = {
	.name = "sonde tsdb snapshot",
	.summary = "link all blocks into a directory of their own",
	.arguments = "DIRECTORY",
	.description = "Writes the head that only the log holds as a block, makes hard links of "
		       "all blocks in DIRECTORY/snapshots/ and prints the name of the snapshot, "
		       "which opens as a data directory. " NOT_IN_USE
		       " Ask that scraper instead: POST /api/v1/admin/tsdb/snapshot.",
	.exit_status = "1      it failed; nothing stays behind",
	.examples = "sonde tsdb snapshot data\n",
};

/* Retention is the scraper's: nothing is deleted here. */
static int open_store(const char *path, const struct cli_tsdb_options *o, bool read_only,
	struct store **ret, struct errbuf *eb)
{
	const struct store_options so = {.path = path,
		.read_only = read_only,
		.no_compaction = true, /* but when asked */
		.retention_ns = INT64_MAX,
		.rollup_without = o->without};

	return cli_tsdb_open(&so, ret, eb);
}

/* ---- stats ---- */

static const char *const files[] = {"symbols", "stacks", "index", "profiles", "rows",
	"profiles_10m", "rows_10m", "profiles_1h", "rows_1h", "meta.json"};

static uint64_t file_bytes(const char *dir, const char *ulid, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/blocks/%s/%s", dir, ulid, name);
	struct fs_stat st;

	return fs_system.stat(&fs_system, path, &st) < 0 ? 0 : st.size_bytes;
}

static void put_files(struct bytes *out, const char *title, const uint64_t bytes[],
	uint64_t n_profiles, uint64_t n_rows)
{
	uint64_t all = 0;

	bytes_printf(
		out, "%s: %" PRIu64 " profiles, %" PRIu64 " rows\n", title, n_profiles, n_rows);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		all += bytes[i];
		if (bytes[i])
			bytes_printf(out, "  %-12s  %12" PRIu64 "  %9.1f a profile  %8.3f a row\n",
				files[i], bytes[i],
				(double)bytes[i] / (double)MAX(n_profiles, 1ULL),
				(double)bytes[i] / (double)MAX(n_rows, 1ULL));
	}
	bytes_printf(out, "  %-12s  %12" PRIu64 "  %9.1f a profile  %8.3f a row\n", "all", all,
		(double)all / (double)MAX(n_profiles, 1ULL),
		(double)all / (double)MAX(n_rows, 1ULL));
}

static int stats(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	uint64_t sum[ARRAY_SIZE(files)] = {0}, n_profiles = 0, n_rows = 0;
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	_cleanup_(store_closep)
	struct store *s = NULL;
	struct store_parts parts = {.n = 0};
	int r = open_store(path, o, true, &s, eb);

	r = r < 0 ? r : store_parts_get(s, INT64_MIN, INT64_MAX, &parts);
	for (size_t i = 0; r >= 0 && i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *reader = NULL;
		uint64_t bytes[ARRAY_SIZE(files)];
		const struct part_info *info;

		r = part_reader_open(parts.items[i], NULL, &reader, eb);
		if (r < 0)
			break;
		info = part_reader_info(reader);
		if (info->is_head)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
			bytes[k] = file_bytes(path, info->ulid, files[k]);
			sum[k] += bytes[k];
		}
		n_profiles += info->n_profiles;
		n_rows += info->n_rows;
		put_files(&out, info->ulid, bytes, info->n_profiles, info->n_rows);
	}
	put_files(&out, "all blocks", sum, n_profiles, n_rows);
	if (s)
		store_parts_put(s, &parts);
	return r < 0 ? r : cli_write_output("-", &out, eb);
}

/* ---- upkeep ---- */

static int compact(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	_cleanup_(store_closep)
	struct store *s = NULL;
	struct store_stats before, after;
	int r = open_store(path, o, false, &s, eb);

	if (r < 0)
		return r;
	r = store_flush(s, eb);
	store_stats(s, &before);
	r = r < 0 ? r : store_compact(s, eb);
	store_stats(s, &after);
	if (r >= 0)
		printf("%" PRIu64 " blocks of %" PRIu64 " bytes became %" PRIu64 " of %" PRIu64
		       "\n",
			before.blocks, before.block_bytes, after.blocks, after.block_bytes);
	return r;
}

/* Reading everything finds the damaged blocks: the upkeep moves them. */
static int read_all(struct store *s, struct errbuf *eb)
{
	struct store_parts parts = {.n = 0};
	int r = store_parts_get(s, INT64_MIN, INT64_MAX, &parts);

	for (size_t i = 0; r >= 0 && i < parts.n; i++) {
		struct dump_counts counts;

		r = dump_check_part(parts.items[i], &counts, eb);
		if (part_is_damage(r))
			r = 0;
	}
	store_parts_put(s, &parts);
	return r < 0 ? r : 0;
}

static void print_quarantined(void *arg, const char *name, const char *reason)
{
	(void)arg;
	printf("in quarantine: %s: %s\n", name, reason);
}

static int repair(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	_cleanup_(store_closep)
	struct store *s = NULL;
	struct store_stats st;
	int r = open_store(path, o, false, &s, eb);

	r = r < 0 ? r : read_all(s, eb);
	r = r < 0 ? r : store_flush(s, eb);
	if (r < 0)
		return r;
	store_stats(s, &st);
	if (st.replay_damaged_records || st.replay_dropped_rows || st.replay_truncated_bytes)
		printf("log: %" PRIu64 " damaged records, %" PRIu64 " rows with them lost, %" PRIu64
		       " bytes of a torn tail cut\n",
			st.replay_damaged_records, st.replay_dropped_rows,
			st.replay_truncated_bytes);
	r = store_each_quarantined(s, print_quarantined, NULL);
	printf("%" PRIu64 " blocks are good\n", st.blocks);
	return r;
}

static int snapshot(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	_cleanup_(store_closep)
	struct store *s = NULL;
	char name[STORE_SNAPSHOT_NAME];
	int r = open_store(path, o, false, &s, eb);

	r = r < 0 ? r : store_snapshot(s, true, name, eb);
	if (r >= 0)
		printf("%s/snapshots/%s\n", path, name);
	return r;
}

int cli_tsdb_stats(int argc, char **argv)
{
	return cli_tsdb_run(&stats_program, stats, argc, argv);
}

int cli_tsdb_compact(int argc, char **argv)
{
	return cli_tsdb_run(&compact_program, compact, argc, argv);
}

int cli_tsdb_repair(int argc, char **argv)
{
	return cli_tsdb_run(&repair_program, repair, argc, argv);
}

int cli_tsdb_snapshot(int argc, char **argv)
{
	return cli_tsdb_run(&snapshot_program, snapshot, argc, argv);
}
