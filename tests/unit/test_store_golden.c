/* SPDX-License-Identifier: Apache-2.0
 *
 * tests/data/store/v1 was written once by the first version of the format: a block and a generation in the WAL. It must open for
 * ever and give the text in tests/golden/store_v1.txt. So must tests/data/store/v1_compacted: a compacted block with rollups, one with
 * tombstones, and tests/golden/store_v1_compacted.txt; and v1_by_labels, whose streams stand in the order of versions before 2026-11-22.
 * SONDE_WRITE_GOLDEN=DIR writes such directories (for a version to come).
 */
#include "scraper/store/block/block.h"
#include "scraper/store/compact/compact.h"
#include "tests/unit/store_gen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

struct golden {
	const char *dir, *text;
	void (*write)(const char *dir); /* NULL: this version writes it otherwise */
	size_t n_parts;
};

/* Three blocks become one; a fourth has a deletion. */
static void write_compacted(const char *dir)
{
	const struct store_matcher m = {.op = STORE_RE, .name = "comm", .value = "comm-1"};
	struct gen g = {
		.state = 2, .n_functions = 40, .max_depth = 10, .max_rows = 12, .n_streams = 2};
	struct clock_virtual clock;
	struct store_options o = {.path = dir,
		.clock = &clock.clock,
		.segment_bytes = 16 << 10,
		.max_nodes = 4096,
		.no_compaction = true,
		.all_rollups = true,
		.seed = 1};
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_result res;
	uint64_t n;

	clock_virtual_init(&clock, 1700000000LL * NS_PER_S);
	assert_int_equal(store_open(&o, &s, &eb), 0);
	for (uint64_t step = 0; step < 16; step++) {
		struct gen_scrape *x = gen_scrape(&g, 0, step, clock.real_ns);

		assert_int_equal(store_append(s, &x->s, &res, &eb), 0);
		gen_scrape_free(x);
		clock_virtual_advance(&clock, 120 * NS_PER_S);
		if (step % 4 == 3)
			assert_int_equal(store_flush(s, &eb), 0);
		if (step == 11)
			assert_int_equal(store_compact(s, &eb), 0);
	}
	assert_int_equal(store_delete(s, &m, 1, 1700000000LL * NS_PER_S + 1500 * NS_PER_S,
				 INT64_MAX, &n, &eb),
		0);
	assert_int_equal(n, 1);
	store_close(s);
}

static void write_golden(const char *dir)
{
	struct gen g = {
		.state = 1, .n_functions = 40, .max_depth = 10, .max_rows = 12, .n_streams = 2};
	struct clock_virtual clock;
	struct store_options o = {.path = dir,
		.clock = &clock.clock,
		.segment_bytes = 16 << 10,
		.max_nodes = 4096,
		.seed = 1};
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_result res;

	clock_virtual_init(&clock, 1700000000LL * NS_PER_S);
	assert_int_equal(store_open(&o, &s, &eb), 0);
	for (uint64_t step = 0; step < 6; step++) {
		struct gen_scrape *x = gen_scrape(&g, 0, step, clock.real_ns);

		assert_int_equal(store_append(s, &x->s, &res, &eb), 0);
		gen_scrape_free(x);
		clock_virtual_advance(&clock, 15 * NS_PER_S);
		if (step == 3)
			assert_int_equal(store_flush(s, &eb), 0);
	}
	store_close(s);
}

static const struct golden goldens[] = {
	{"tests/data/store/v1", "tests/golden/store_v1.txt", write_golden, 2},
	{"tests/data/store/v1_compacted", "tests/golden/store_v1_compacted.txt", write_compacted,
		3},
	{"tests/data/store/v1_by_labels", "tests/golden/store_v1_by_labels.txt", NULL, 1},
};

static void dump_at(struct part *p, enum part_resolution resolution, struct bytes *out)
{
	_cleanup_part_reader_ struct part_reader *r = NULL;
	struct dump_options all = {.rows = true};
	struct dump_counts counts;
	struct errbuf eb = {.text = ""};
	int e = part_reader_open_at(p, resolution, NULL, &r, &eb);

	if (e == -ENOENT && resolution != PART_RAW)
		return;
	assert_int_equal(e, 0);
	if (resolution != PART_RAW)
		bytes_printf(out, "# rollup %d\n", (int)resolution);
	assert_int_equal(dump_check(r, &counts), 0);
	assert_int_equal(dump_part(r, &all, out), 0);
}

/* The parts of a directory in order of time, dumped and checked, without changing anything. */
static void dump_directory(const char *dir, size_t n_parts, struct bytes *out)
{
	struct store_options o = {.path = dir, .max_nodes = 4096, .read_only = true};
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_parts parts;

	assert_int_equal(store_open(&o, &s, &eb), 0);
	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	assert_int_equal(parts.n, n_parts);
	for (size_t i = 0; i < parts.n; i++)
		for (enum part_resolution k = PART_RAW; k <= PART_1H; k++)
			dump_at(parts.items[i], k, out);
	store_parts_put(s, &parts);
	store_close(s);
}

static void check_text(const struct golden *g, const char *dir)
{
	_cleanup_bytes_ struct bytes want = {.data = NULL}, have = {.data = NULL};
	struct errbuf eb = {.text = ""};

	assert_int_equal(fs_read_file(&fs_system, g->text, 1 << 20, &want, &eb), 0);
	dump_directory(dir, g->n_parts, &have);
	assert_int_equal(have.len, want.len);
	assert_memory_equal(have.data, want.data, want.len);
}

static void test_golden(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(goldens); i++)
		check_text(&goldens[i], goldens[i].dir);
}

/* What this version writes of the same content reads the same. (Bytes may differ by zstd's version.) */
static void test_same_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(goldens); i++) {
		char dir[] = "/tmp/sonde-golden-XXXXXX";

		if (!goldens[i].write)
			continue;
		assert_non_null(mkdtemp(dir));
		goldens[i].write(dir);
		check_text(&goldens[i], dir);
		assert_int_equal(fs_remove_all(&fs_system, dir), 0);
	}
}

/* A label's value of a stream; "" where it has none. */
static char *label_of(struct part_reader *r, const struct part_stream *s, const char *name)
{
	struct part_label_sets sets;

	assert_int_equal(part_label_sets(r, &sets), 0);
	for (uint32_t i = sets.first[s->label_set]; i < sets.first[s->label_set + 1]; i++) {
		const uint32_t ids[2] = {sets.pairs[i].name, sets.pairs[i].value};
		struct prof_str text[2];

		assert_int_equal(part_strings(r, ids, 2, text), 0);
		if (text[0].len == strlen(name) && !memcmp(text[0].p, name, text[0].len))
			return xstrndup(text[1].p, text[1].len);
	}
	return xstrdup("");
}

/* How often the instance changes from one stream to the next. */
static unsigned count_changes(struct part *p)
{
	_cleanup_part_reader_ struct part_reader *r = NULL;
	const struct part_stream *streams;
	struct errbuf eb = {.text = ""};
	char *last = xstrdup("");
	unsigned n = 0;

	assert_int_equal(part_reader_open(p, NULL, &r, &eb), 0);
	assert_int_equal(part_streams(r, &streams), 0);
	for (uint32_t i = 0; i < part_reader_info(r)->n_streams; i++) {
		char *now = label_of(r, &streams[i], "instance");

		n += strcmp(now, last) != 0;
		free(last);
		last = now;
	}
	free(last);
	return n;
}

/* Streams in another order than this version's: what compaction makes of them says the same, in this version's. */
static void test_compact_by_labels(void **state)
{
	static const char from[] = "tests/data/store/v1_by_labels";
	char dir[] = "/tmp/sonde-golden-XXXXXX";
	_cleanup_free_ char *blocks = NULL, *before = NULL, *after = NULL;
	struct store_options o = {.path = from, .read_only = true};
	struct compact_options c = {.fs = &fs_system, .ulid = {2}, .n_inputs = 1, .level = 2};
	struct errbuf eb = {.text = ""};
	struct store_parts parts;
	struct store *s = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	blocks = xasprintf("%s/blocks", dir);
	c.dir = blocks;
	assert_int_equal(fs_make_dirs(&fs_system, blocks, 0755), 0);
	assert_int_equal(store_open(&o, &s, &eb), 0);
	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	assert_int_equal(parts.n, 1);
	assert_true(count_changes(parts.items[0]) > 12);
	c.inputs = (struct block **)parts.items;
	assert_int_equal(compact_write(&c, &eb), 0);
	assert_int_equal(block_commit(&fs_system, blocks, c.ulid, &eb), 0);
	store_parts_put(s, &parts);
	before = gen_dump_store(s, true);
	store_closep(&s);
	o.path = dir;
	assert_int_equal(store_open(&o, &s, &eb), 0);
	after = gen_dump_store(s, true);
	/* Three targets, each with all its streams of one schema and name: profiles, coverage, two gauges. */
	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	assert_int_equal(count_changes(parts.items[0]), 12);
	store_parts_put(s, &parts);
	store_close(s);
	assert_string_equal(after, before);
	assert_int_equal(fs_remove_all(&fs_system, dir), 0);
}

static void write_all(const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(goldens); i++) {
		_cleanup_free_ char *to = xasprintf("%s%s", dir, strrchr(goldens[i].dir, '/'));
		_cleanup_free_ char *text = xasprintf("%s.txt", to);
		_cleanup_bytes_ struct bytes out = {.data = NULL};
		struct errbuf eb = {.text = ""};

		if (!goldens[i].write)
			continue;
		assert_int_equal(fs_make_dirs(&fs_system, to, 0755), 0);
		goldens[i].write(to);
		dump_directory(to, goldens[i].n_parts, &out);
		assert_int_equal(fs_write_file(&fs_system, text, out.data, out.len, 0644, &eb), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
		cmocka_unit_test(test_same_text), cmocka_unit_test(test_compact_by_labels)};

	if (getenv("SONDE_WRITE_GOLDEN")) {
		write_all(getenv("SONDE_WRITE_GOLDEN"));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
