/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde tsdb list | verify | dump: looks into a store's directory without a scraper, also while one runs. Nothing is locked,
 * written or removed.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/tsdb.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/json/write.h"
#include "scraper/store/part/dump.h"
#include <inttypes.h>
#include <time.h>

#define DIRECTORY_TEXT "DIRECTORY is what --storage.path of sonde-scraper names. It may be in use."

static const struct option_spec list_specs[] = {
	{"format", OPTION_CHOICE, offsetof(struct cli_tsdb_options, format), .value = "text|json",
		.fallback = "text", .help = "A table for people, or a JSON array."},
};
static const struct option_program list_program = {
	.name = "sonde tsdb list",
	.summary = "list the parts of a store",
	.arguments = "DIRECTORY",
	.description = "Prints a line for each part, oldest first: each block, and each head that "
		       "only the write-ahead log holds. " DIRECTORY_TEXT,
	.specs = list_specs,
	.n_specs = ARRAY_SIZE(list_specs),
	.exit_status = "1      the directory could not be read",
	.examples = "sonde tsdb list data\n",
};

static const struct option_program verify_program = {
	.name = "sonde tsdb verify",
	.summary = "check every byte of a store",
	.arguments = "DIRECTORY",
	.description = "Reads every table and page of every part, checks all checksums, and that "
		       "the rows of each profile are in order "
		       "and add up to its totals. " DIRECTORY_TEXT,
	.exit_status = "1      something is damaged or in quarantine (stderr names it), or could "
		       "not be read",
	.examples = "sonde tsdb verify data\n",
};

static const struct option_spec dump_specs[] = {
	{"rows", OPTION_BOOL, offsetof(struct cli_tsdb_options, rows),
		.help = "Print each row with its stack, not only the profiles and their totals."},
	{"part", OPTION_STRING, offsetof(struct cli_tsdb_options, part), .value = "ULID",
		.help = "Only this part, as sonde tsdb list names it."},
};
static const struct option_program dump_program = {
	.name = "sonde tsdb dump",
	.summary = "print what a store holds",
	.arguments = "DIRECTORY",
	.description = "Prints streams in order of their labels, with their profiles in order of "
		       "time. The text depends on content alone: "
		       "a head and the block it becomes give the same. " DIRECTORY_TEXT,
	.specs = dump_specs,
	.n_specs = ARRAY_SIZE(dump_specs),
	.exit_status = "1      something is damaged or could not be read, or there is no such part",
	.examples = "sonde tsdb dump --rows data | less\n",
};

/* The store and its parts, opened for reading. */
struct view {
	struct store *s;
	struct store_parts parts;
};

static void view_done(struct view *v)
{
	if (v->s)
		store_parts_put(v->s, &v->parts);
	store_closep(&v->s);
}
#define _cleanup_view_ _cleanup_(view_done)

static bool is_directory(const char *path, const char *below)
{
	_cleanup_free_ char *full = xasprintf("%s/%s", path, below);
	struct fs_stat st;

	return !fs_system.stat(&fs_system, full, &st) && st.is_dir;
}

int cli_tsdb_open(const struct store_options *o, struct store **ret, struct errbuf *eb)
{
	struct fs_stat st;
	int r = fs_system.stat(&fs_system, o->path, &st);

	if (r < 0)
		return err_set(eb, r, "%s: %s", o->path, strerror(-r));
	if (!st.is_dir)
		return err_set(eb, -ENOTDIR, "%s is no directory", o->path);
	if (!is_directory(o->path, "wal") && !is_directory(o->path, "blocks"))
		return err_set(
			eb, -ENOENT, "%s holds no store: it has neither wal/ nor blocks/", o->path);
	return store_open(o, ret, eb);
}

static int view_open(struct view *v, const char *path, struct errbuf *eb)
{
	const struct store_options o = {.path = path, .read_only = true};
	int r = cli_tsdb_open(&o, &v->s, eb);

	return r < 0 ? r : store_parts_get(v->s, INT64_MIN, INT64_MAX, &v->parts);
}

/* 2026-11-21T10:15:30Z, "-" when there is none */
static void print_time(int64_t ns, bool is_there, char ret[32])
{
	time_t s = (time_t)(ns / 1000000000);
	struct tm tm;

	snprintf(ret, 32, "-");
	if (is_there && gmtime_r(&s, &tm))
		strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void list_text(const struct part_info *info, struct bytes *out)
{
	const bool any = info->min_time_ns <= info->max_time_ns;
	char from[32], to[32];

	print_time(info->min_time_ns, any, from);
	print_time(info->max_time_ns, any, to);
	if (!out->len)
		bytes_printf(out, "%-26s  %-5s  %-20s  %-20s  %8s  %9s  %11s  %9s\n", "PART",
			"KIND", "FROM", "TO", "STREAMS", "PROFILES", "ROWS", "NODES");
	bytes_printf(out, "%-26s  %-5s  %-20s  %-20s  %8u  %9" PRIu64 "  %11" PRIu64 "  %9u\n",
		info->ulid, info->is_head ? "head" : "block", from, to, info->n_streams,
		info->n_profiles, info->n_rows, info->n_nodes);
}

static void list_json(const struct part_info *info, struct json *j)
{
	json_object_begin(j);
	json_kv_string(j, "ulid", info->ulid);
	json_kv_string(j, "kind", info->is_head ? "head" : "block");
	json_kv_int(j, "min_time_ns", info->min_time_ns);
	json_kv_int(j, "max_time_ns", info->max_time_ns);
	json_kv_uint(j, "streams", info->n_streams);
	json_kv_uint(j, "profiles", info->n_profiles);
	json_kv_uint(j, "rows", info->n_rows);
	json_kv_uint(j, "nodes", info->n_nodes);
	json_kv_uint(j, "label_sets", info->n_label_sets);
	json_kv_uint(j, "pages", info->n_pages);
	json_object_end(j);
}

static int list(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	_cleanup_view_ struct view v = {.s = NULL};
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	struct json j = json_to(&out);
	const bool json = !strcmp(o->format, "json");
	int r = view_open(&v, path, eb);

	if (r < 0)
		return r;
	if (json)
		json_array_begin(&j);
	for (size_t i = 0; i < v.parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *reader = NULL;

		r = part_reader_open(v.parts.items[i], NULL, &reader, eb);
		if (r < 0)
			return r;
		if (json)
			list_json(part_reader_info(reader), &j);
		else
			list_text(part_reader_info(reader), &out);
	}
	if (json)
		json_array_end(&j);
	bytes_put_str(&out, json ? "\n" : "");
	return cli_write_output("-", &out, eb);
}

/* Number of damaged parts; each is named on stderr. */
static unsigned verify_parts(const struct view *v)
{
	unsigned n_damaged = 0;

	for (size_t i = 0; i < v->parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *reader = NULL;
		struct dump_counts counts = {.rows = 0};
		struct errbuf eb = {.text = ""};
		int r = dump_check_part(v->parts.items[i], &counts, &eb);

		r = r ? r : part_reader_open(v->parts.items[i], NULL, &reader, &eb);
		if (r < 0) {
			fprintf(stderr, "sonde: %s\n", err_text(&eb, r));
			n_damaged++;
			continue;
		}
		printf("%s %s: %" PRIu64 " streams, %" PRIu64 " profiles, %" PRIu64
		       " rows, %" PRIu64 " nodes: good\n",
			part_reader_info(reader)->is_head ? "head" : "block",
			part_reader_info(reader)->ulid, counts.streams, counts.profiles,
			counts.rows, counts.nodes);
	}
	return n_damaged;
}

static int verify(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	_cleanup_view_ struct view v = {.s = NULL};
	_cleanup_bytes_ struct bytes quarantine = {.data = NULL};
	struct store_stats stats;
	unsigned n_damaged;
	int r = view_open(&v, path, eb);

	(void)o;
	if (r < 0)
		return r;
	n_damaged = verify_parts(&v);
	store_stats(v.s, &stats);
	r = store_quarantine_json(v.s, &quarantine);
	if (r < 0)
		return err_set(eb, r, "%s/quarantine: %s", path, strerror(-r));
	if (stats.blocks_quarantined || stats.replay_damaged_records || stats.replay_dropped_rows)
		return err_set(eb, -EBADMSG,
			"%" PRIu64 " blocks cannot be opened, %" PRIu64
			" log records are damaged, %" PRIu64 " rows with them are lost",
			stats.blocks_quarantined, stats.replay_damaged_records,
			stats.replay_dropped_rows);
	if (quarantine.len > strlen("[]"))
		return err_set(eb, -EBADMSG, "in quarantine: %.*s", (int)quarantine.len,
			(char *)quarantine.data);
	return n_damaged
		       ? err_set(eb, -EBADMSG, "%u of %zu parts are damaged", n_damaged, v.parts.n)
		       : 0;
}

static int write_text(void *arg, struct bytes *out)
{
	int r = cli_write_output("-", out, arg);

	bytes_reset(out);
	return r;
}

static int dump_one(
	struct part *p, const struct cli_tsdb_options *o, bool *found, struct errbuf *eb)
{
	const struct dump_options options = {.rows = o->rows, .flush = write_text, .arg = eb};
	_cleanup_part_reader_ struct part_reader *reader = NULL;
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	int r = part_reader_open(p, NULL, &reader, eb);

	if (r < 0 || (o->part && strcmp(part_reader_info(reader)->ulid, o->part) != 0))
		return r;
	*found = true;
	r = dump_part(reader, &options, &out);
	if (r < 0)
		return eb->text[0] ? r
				   : err_set(eb, r, "%s: %s", part_reader_info(reader)->ulid,
					     part_reader_error(reader));
	return write_text(eb, &out);
}

static int dump(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb)
{
	_cleanup_view_ struct view v = {.s = NULL};
	bool found = !o->part;
	int r = view_open(&v, path, eb);

	for (size_t i = 0; r >= 0 && i < v.parts.n; i++)
		r = dump_one(v.parts.items[i], o, &found, eb);
	if (r >= 0 && !found)
		return err_set(eb, -ENOENT, "%s has no part %s", path, o->part);
	return r;
}

int cli_tsdb_run(const struct option_program *program, cli_tsdb_fn *command, int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list args = {.n = 0};
	struct cli_tsdb_options o = {.format = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(program, argc, argv, &o, &args), r;

	if (status >= 0)
		return status;
	if (args.n != 1) {
		fprintf(stderr, "%s: one DIRECTORY; see %s --help\n", program->name, program->name);
		return CLI_USAGE;
	}
	r = command(args.items[0], &o, &eb);
	return r < 0 ? cli_fail(&eb, r) : CLI_OK;
}

int cli_tsdb_list(int argc, char **argv)
{
	return cli_tsdb_run(&list_program, list, argc, argv);
}

int cli_tsdb_verify(int argc, char **argv)
{
	return cli_tsdb_run(&verify_program, verify, argc, argv);
}

int cli_tsdb_dump(int argc, char **argv)
{
	return cli_tsdb_run(&dump_program, dump, argc, argv);
}
