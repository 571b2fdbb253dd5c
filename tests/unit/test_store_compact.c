/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction changes no answer: over random stores, what they say before and after, across deletions and restarts; rollups against the
 * raw rows of the same block; and that symbols leave with what used them.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

static void must(int r, const struct errbuf *eb)
{
	if (r < 0)
		fail_msg("%s", err_text(eb, r));
}

/* Scrapes with flushes in between, so that there are several blocks of level 1. */
static void fill(struct run *r, uint64_t seed, unsigned n_targets, uint64_t n_steps, unsigned every)
{
	struct gen g = {.state = seed};
	struct errbuf eb = {.text = ""};

	run_init(r, seed, n_targets, n_steps);
	r->o.no_compaction = r->o.all_rollups = true;
	r->o.block_ns = 1000000 * NS_PER_S;
	r->o.max_nodes = 1 << 14;
	r->shape = (struct gen) {.n_functions = 60, .max_depth = 9, .max_rows = 9, .n_streams = 3};
	must(run_open(r, &eb), &eb);
	for (uint64_t step = 0; step < n_steps; step++) {
		for (unsigned t = 0; t < n_targets; t++)
			must(run_one(r, t, &eb), &eb);
		clock_virtual_advance(&r->clock, 15 * NS_PER_S);
		if (gen_below(&g, every) == 0)
			must(store_flush(r->s, &eb), &eb);
	}
	must(store_flush(r->s, &eb), &eb);
}

static void reopen(struct run *r)
{
	struct errbuf eb = {.text = ""};

	store_close(TAKE(r->s));
	simfs_restart(&r->fs);
	must(run_open(r, &eb), &eb);
}

static void same(struct run *r, const char *want, uint64_t seed, const char *when)
{
	char *have = gen_dump_store(r->s, true);

	if (strcmp(have, want))
		fail_msg("seed %" PRIu64 ": another answer %s", seed, when);
	free(have);
}

static void test_no_other_answer(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 25; seed++) {
		struct errbuf eb = {.text = ""};
		struct store_stats before, after;
		struct run r;
		char *want;

		fill(&r, seed, 3, 60, 4);
		store_stats(r.s, &before);
		assert_true(before.blocks >= 3);
		want = gen_dump_store(r.s, true);
		must(store_compact(r.s, &eb), &eb);
		store_stats(r.s, &after);
		assert_true(after.compactions > 0 && after.blocks < before.blocks);
		same(&r, want, seed, "after compaction");
		reopen(&r);
		same(&r, want, seed, "after a restart");
		store_stats(r.s, &after);
		assert_int_equal(after.blocks_quarantined, 0);
		free(want);
		run_done(&r);
	}
}

/* ---- rollups ---- */

struct cell {
	uint32_t schema, set, row_set, node;
	int64_t time_ns, values[2];
};
struct cells {
	struct cell *items;
	size_t n, cap;
};

static int by_cell(const void *a, const void *b)
{
	const struct cell *x = a, *y = b;

	return memcmp(x, y, offsetof(struct cell, values));
}

static void add_cell(struct cells *c, const struct cell *x)
{
	int r = alloc_grow(&c->items, &c->cap, c->n + 1, sizeof(*c->items));

	ASSERT(!r);
	c->items[c->n++] = *x;
}

/* Sorts and sums equal cells. */
static void sum_cells(struct cells *c)
{
	size_t n = 0;

	if (c->n)
		qsort(c->items, c->n, sizeof(*c->items), by_cell);
	for (size_t i = 0; i < c->n; i++) {
		if (n && !by_cell(&c->items[n - 1], &c->items[i])) {
			c->items[n - 1].values[0] += c->items[i].values[0];
			c->items[n - 1].values[1] += c->items[i].values[1];
		} else {
			c->items[n++] = c->items[i];
		}
	}
	c->n = n;
}

/* The label set without thread_name: gen's row labels have nothing else. */
static uint32_t reduced(struct part_reader *r, uint32_t set)
{
	struct part_label_sets sets;
	struct prof_str name;

	assert_int_equal(part_label_sets(r, &sets), 0);
	if (sets.first[set] == sets.first[set + 1])
		return 0;
	assert_int_equal(sets.first[set + 1] - sets.first[set], 1);
	assert_int_equal(part_strings(r, &sets.pairs[sets.first[set]].name, 1, &name), 0);
	assert_memory_equal(name.p, "thread_name", 11);
	return 0;
}

static int64_t ceil_to(int64_t t, int64_t width)
{
	return (t + width - 1) / width * width;
}

/* What a query sums: rows of a reader by bucket; profile counts and durations go along as node UINT32_MAX. */
static void gather(struct part_reader *r, int64_t width, struct cells *c)
{
	const struct part_info *info = part_reader_info(r);
	const struct part_stream *streams;
	const struct part_schema *schemas;
	const struct part_page *pages;

	assert_int_equal(part_streams(r, &streams), 0);
	assert_int_equal(part_schemas(r, &schemas), 0);
	assert_int_equal(part_pages(r, &pages), 0);
	for (uint32_t s = 0; s < info->n_streams; s++) {
		struct part_profiles p;

		if (schemas[streams[s].schema].kind != STORE_PROFILE)
			continue;
		assert_int_equal(part_profiles(r, s, INT64_MIN, INT64_MAX, &p), 0);
		for (size_t i = 0; i < p.n; i++) {
			struct cell x = {.schema = streams[s].schema,
				.set = streams[s].label_set,
				.node = UINT32_MAX,
				.time_ns = ceil_to(p.time_ns[i], width),
				.values = {p.n_profiles[i], p.duration_ns[i]}};

			if (info->resolution != PART_RAW)
				assert_int_equal(p.time_ns[i], x.time_ns);
			add_cell(c, &x);
			x.row_set = UINT32_MAX;
			x.values[0] = p.total[0][i];
			x.values[1] = p.total[1][i];
			add_cell(c, &x);
			for (uint64_t row = p.first_row[i]; row < p.first_row[i] + p.n_rows[i];
				row++) {
				uint32_t page = part_page_of(pages, info->n_pages, row);
				size_t at = (size_t)(row - pages[page].first_row);
				struct part_rows rows;

				assert_int_equal(part_rows(r, page, 3, &rows), 0);
				x.node = rows.nodes[at];
				x.row_set = rows.label_sets ? rows.label_sets[at]
							    : rows.const_label_set;
				if (info->resolution == PART_RAW)
					x.row_set = reduced(r, x.row_set);
				x.values[0] = rows.values[0][at];
				x.values[1] = rows.values[1][at];
				add_cell(c, &x);
			}
		}
	}
	sum_cells(c);
}

static void check_range(struct part_reader *raw, struct part_reader *rolled, int64_t width)
{
	const struct part_stream *streams, *raw_streams;
	const struct part_schema *schemas;

	assert_int_equal(part_streams(rolled, &streams), 0);
	assert_int_equal(part_streams(raw, &raw_streams), 0);
	assert_int_equal(part_schemas(raw, &schemas), 0);
	for (uint32_t s = 0; s < part_reader_info(rolled)->n_streams; s++) {
		struct part_profiles u, p;
		uint32_t k = 0;

		while (raw_streams[k].schema != streams[s].schema ||
			raw_streams[k].label_set != streams[s].label_set)
			k++;
		assert_int_equal(part_profiles(rolled, s, INT64_MIN, INT64_MAX, &u), 0);
		for (size_t i = 0; i < u.n; i++) {
			assert_int_equal(
				part_profiles(raw, k, u.time_ns[i] - width + 1, u.time_ns[i], &p),
				0);
			assert_true(p.n > 0);
			assert_int_equal(u.last_ns[i], p.time_ns[p.n - 1]);
			assert_int_equal(u.begin_ns[i], p.time_ns[0] - p.duration_ns[0]);
			assert_int_equal(u.period[i], p.period[0]);
		}
	}
}

static void check_rollup(struct part *part, enum part_resolution resolution)
{
	const int64_t width = (resolution == PART_10M ? 600 : 3600) * NS_PER_S;
	_cleanup_part_reader_ struct part_reader *raw = NULL, *rolled = NULL;
	struct cells a = {.n = 0}, b = {.n = 0};
	struct dump_counts counts;
	struct errbuf eb = {.text = ""};

	must(part_reader_open(part, NULL, &raw, &eb), &eb);
	must(part_reader_open_at(part, resolution, NULL, &rolled, &eb), &eb);
	assert_int_equal(dump_check(rolled, &counts), 0);
	assert_true(part_reader_info(rolled)->n_rows < part_reader_info(raw)->n_rows);
	gather(raw, width, &a);
	gather(rolled, width, &b);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.items, b.items, a.n * sizeof(*a.items));
	check_range(raw, rolled, width);
	free(a.items);
	free(b.items);
}

/* One call of upkeep compacts once, or as long as it may: the clock stands still meanwhile. */
static void test_backlog(void **state)
{
	struct errbuf eb = {.text = ""};
	struct store_stats one, all, after;
	struct run r;
	char *want;

	(void)state;
	fill(&r, 7, 3, 300, 4);
	want = gen_dump_store(r.s, true);
	r.o.no_compaction = false;
	reopen(&r);
	must(store_maintain(r.s, &eb), &eb);
	store_stats(r.s, &one);
	assert_int_equal(one.compactions, 1);
	r.o.upkeep_ns = NS_PER_S;
	reopen(&r);
	must(store_maintain(r.s, &eb), &eb);
	store_stats(r.s, &all);
	assert_true(all.compactions > 3);
	must(store_maintain(r.s, &eb), &eb);
	store_stats(r.s, &after);
	assert_int_equal(after.compactions, all.compactions);
	same(&r, want, 7, "after a backlog");
	free(want);
	run_done(&r);
}

static void test_rollups(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct errbuf eb = {.text = ""};
		struct store_parts parts;
		unsigned n = 0;
		struct run r;

		fill(&r, seed, 2, 300, 12);
		must(store_compact(r.s, &eb), &eb);
		assert_int_equal(store_parts_get(r.s, INT64_MIN, INT64_MAX, &parts), 0);
		for (size_t i = 0; i < parts.n; i++) {
			_cleanup_part_reader_ struct part_reader *reader = NULL;
			uint32_t rollups;

			must(part_reader_open(parts.items[i], NULL, &reader, &eb), &eb);
			rollups = part_reader_info(reader)->rollups;
			assert_true(!rollups || rollups == (1U << PART_10M | 1U << PART_1H));
			if (!rollups)
				continue;
			assert_int_equal(part_reader_info(reader)->n_rollup_without, 4);
			check_rollup(parts.items[i], PART_10M);
			check_rollup(parts.items[i], PART_1H);
			n++;
		}
		assert_true(n > 0);
		store_parts_put(r.s, &parts);
		run_done(&r);
	}
}

/* ---- deletions ---- */

/* The lines of a dump that a deletion leaves: those of other instances, or other times. */
static char *without_lines(const char *text, const char *with)
{
	struct bytes out = {.data = NULL};
	char *ret;

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n") + 1;
		_cleanup_free_ char *line = xstrndup(p, n);

		if (!strstr(line, with))
			bytes_put(&out, p, n);
		p += n;
	}
	bytes_put_u8(&out, 0);
	ret = xstrdup((char *)out.data);
	bytes_done(&out);
	return ret;
}

static uint64_t total_of(struct store *s, bool strings)
{
	struct store_parts parts;
	uint64_t n = 0;

	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	for (size_t i = 0; i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *r = NULL;
		struct errbuf eb = {.text = ""};

		must(part_reader_open(parts.items[i], NULL, &r, &eb), &eb);
		n += strings ? part_reader_info(r)->n_strings : part_reader_info(r)->n_nodes;
	}
	store_parts_put(s, &parts);
	return n;
}

static void test_deletion(void **state)
{
	const struct store_matcher m[] = {
		{.op = STORE_RE, .name = "instance", .value = "host-[01]:.*"},
		{.op = STORE_NE, .name = "job", .value = "other"},
	};

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct errbuf eb = {.text = ""};
		char *all, *some, *want;
		struct store_stats st;
		uint64_t n, nodes, strings;
		struct run r;

		fill(&r, seed, 3, 60, 6);
		all = gen_dump_store(r.s, true);
		some = without_lines(all, "host-0:");
		want = without_lines(some, "host-1:");
		assert_true(strlen(want) > 0 && strlen(want) < strlen(all));
		if (seed % 2) {
			must(store_compact(r.s, &eb), &eb);
			must(store_flush(r.s, &eb), &eb);
		}
		nodes = total_of(r.s, false);
		strings = total_of(r.s, true);
		must(store_delete(r.s, m, ARRAY_SIZE(m), INT64_MIN, INT64_MAX, &n, &eb), &eb);
		assert_true(n > 0);
		store_stats(r.s, &st);
		assert_int_equal(st.tombstones, n);
		same(&r, want, seed, "after a deletion");
		reopen(&r);
		same(&r, want, seed, "after a deletion and a restart");
		/* The same again finds nothing. */
		must(store_delete(r.s, m, ARRAY_SIZE(m), INT64_MIN, INT64_MAX, &n, &eb), &eb);
		assert_int_equal(n, 0);
		/* Who stops waits for no block, and who asked is told that not all is done. */
		store_cancel(r.s);
		assert_int_equal(store_clean_tombstones(r.s, &eb), -ECANCELED);
		store_stats(r.s, &st);
		assert_true(st.tombstones > 0);
		reopen(&r);
		must(store_clean_tombstones(r.s, &eb), &eb);
		store_stats(r.s, &st);
		assert_int_equal(st.tombstones, 0);
		same(&r, want, seed, "after the blocks were written anew");
		/* Symbols leave with what used them. */
		assert_true(total_of(r.s, false) < nodes);
		assert_true(total_of(r.s, true) < strings);
		must(store_compact(r.s, &eb), &eb);
		same(&r, want, seed, "after compaction of them");
		reopen(&r);
		same(&r, want, seed, "at the end");
		free(all);
		free(some);
		free(want);
		run_done(&r);
	}
}

static void test_deletion_by_time(void **state)
{
	const struct store_matcher m = {.op = STORE_NE, .name = "job", .value = "none"};
	const int64_t from = run_start_ns + 20 * 15 * NS_PER_S,
		      to = run_start_ns + 30 * 15 * NS_PER_S;
	struct errbuf eb = {.text = ""};
	struct store_parts parts;
	struct run r;
	uint64_t n;

	(void)state;
	fill(&r, 3, 2, 60, 6);
	must(store_delete(r.s, &m, 1, from, to, &n, &eb), &eb);
	assert_true(n > 0);
	for (unsigned round = 0; round < 2; round++) {
		uint64_t in = 0, out = 0;

		assert_int_equal(store_parts_get(r.s, INT64_MIN, INT64_MAX, &parts), 0);
		for (size_t i = 0; i < parts.n; i++) {
			_cleanup_part_reader_ struct part_reader *reader = NULL;
			const struct part_stream *streams;
			struct part_profiles p;

			must(part_reader_open(parts.items[i], NULL, &reader, &eb), &eb);
			assert_int_equal(part_streams(reader, &streams), 0);
			for (uint32_t s = 0; s < part_reader_info(reader)->n_streams; s++) {
				assert_int_equal(part_profiles(reader, s, from, to, &p), 0);
				in += p.n;
				assert_int_equal(
					part_profiles(reader, s, INT64_MIN, INT64_MAX, &p), 0);
				assert_int_equal(p.n, streams[s].n_profiles);
				out += p.n;
			}
		}
		store_parts_put(r.s, &parts);
		assert_int_equal(in, 0);
		/* 60 steps of 2 targets less 11 or 10, 3 streams + 2 gauges + coverage each. */
		assert_int_equal(out, (60 - 11 + 60 - 10) * 6);
		must(store_clean_tombstones(r.s, &eb), &eb);
	}
	run_done(&r);
}

static size_t n_directories(struct run *r)
{
	const struct sim_inode *dir = sim_walk(&r->fs, "/data/blocks", NULL, NULL);

	return dir ? dir->entries.n : 0;
}

/* Who reads blocks last that are replaced does not wait for the disk: the upkeep removes them, or the end does. */
static void test_last_reader_removes_nothing(void **state)
{
	(void)state;
	for (unsigned by_close = 0; by_close < 2; by_close++) {
		struct errbuf eb = {.text = ""};
		struct store_parts parts;
		struct store_stats st;
		uint64_t ops;
		size_t n;
		struct run r;

		fill(&r, 5, 1, 40, 4);
		assert_int_equal(store_parts_get(r.s, INT64_MIN, INT64_MAX, &parts), 0);
		must(store_compact(r.s, &eb), &eb);
		store_stats(r.s, &st);
		n = n_directories(&r);
		assert_true(st.compactions && n > st.blocks);
		ops = r.fs.n_ops;
		store_parts_put(r.s, &parts);
		assert_int_equal(r.fs.n_ops, ops);
		assert_int_equal(n_directories(&r), n);
		if (by_close)
			store_close(TAKE(r.s));
		else
			must(store_maintain(r.s, &eb), &eb);
		assert_int_equal(n_directories(&r), st.blocks);
		run_done(&r);
	}
}

/* How often the disk is read for what questions about labels begin with, of all parts. */
static uint64_t reads_of_tables(struct run *r)
{
	struct store_parts parts;

	r->fs.fail_read_at = UINT64_MAX; /* they are counted */
	r->fs.n_reads = 0;
	assert_int_equal(store_parts_get(r->s, INT64_MIN, INT64_MAX, &parts), 0);
	for (size_t i = 0; i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *reader = NULL;
		const struct part_schema *schemas;
		const struct part_stream *streams;
		const struct prof_str *strings;
		struct part_label_sets sets;

		assert_int_equal(part_reader_open(parts.items[i], NULL, &reader, NULL), 0);
		assert_int_equal(part_schemas(reader, &schemas), 0);
		assert_int_equal(part_streams(reader, &streams), 0);
		assert_int_equal(part_label_sets(reader, &sets), 0);
		assert_int_equal(part_label_strings(reader, &strings), 0);
	}
	store_parts_put(r->s, &parts);
	return r->fs.n_reads;
}

/* After a start, upkeep reads them ahead of the first question, but fills no more than a part of the cache with them. */
static void test_tables_are_warm(void **state)
{
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct run r;

	(void)state;
	fill(&r, 6, 1, 60, 6);
	r.o.cache_bytes = 64 << 20;
	reopen(&r);
	assert_true(reads_of_tables(&r) > 0);
	reopen(&r);
	must(store_maintain(r.s, &eb), &eb);
	assert_int_equal(reads_of_tables(&r), 0);
	r.o.cache_bytes = 600 << 10;
	reopen(&r);
	must(store_maintain(r.s, &eb), &eb);
	store_stats(r.s, &st);
	assert_true(st.cache_bytes > 0 && st.cache_bytes <= r.o.cache_bytes / 4);
	assert_true(st.blocks > 4 && reads_of_tables(&r) > 0);
	run_done(&r);
}

/* Totals of a column alone are those of whole profiles, also of streams that go over a page's end, in every range and from the cache. */
static void test_totals(void **state)
{
	const int64_t from = run_start_ns + 1000 * 15 * NS_PER_S, to = INT64_MAX - 1;
	const int64_t ranges[][2] = {
		{INT64_MIN, INT64_MAX}, {from, from + 100 * NS_PER_S}, {from, to}};
	struct errbuf eb = {.text = ""};
	struct store_parts parts;
	uint64_t n = 0;
	struct run r;

	(void)state;
	fill(&r, 4, 1, 4200, 4200);
	must(store_flush(r.s, &eb), &eb);
	assert_int_equal(store_parts_get(r.s, INT64_MIN, INT64_MAX, &parts), 0);
	for (size_t i = 0; i < parts.n * ARRAY_SIZE(ranges); i++) {
		const int64_t *range = ranges[i % ARRAY_SIZE(ranges)];
		_cleanup_part_reader_ struct part_reader *whole = NULL, *some = NULL;
		struct part *part = parts.items[i / ARRAY_SIZE(ranges)];
		const struct part_schema *schemas;
		const struct part_stream *streams;
		struct part_profiles p, t;

		must(part_reader_open(part, NULL, &some, &eb), &eb);
		must(part_reader_open(part, NULL, &whole, &eb), &eb);
		assert_int_equal(part_streams(some, &streams), 0);
		assert_int_equal(part_schemas(some, &schemas), 0);
		/* a wrong id is the caller's mistake, and no damage of the block */
		assert_int_equal(part_totals(some, part_reader_info(some)->n_streams, 0, range[0],
					 range[1], &t),
			-EINVAL);
		/* The totals first, while the cache holds no whole page. */
		for (uint32_t k = 0; k < 2 * part_reader_info(some)->n_streams; k++) {
			const uint32_t s = k / 2, c = k % 2;

			if (c >= schemas[streams[s].schema].n_columns)
				continue;
			assert_int_equal(part_totals(some, s, c, range[0], range[1], &t), 0);
			assert_int_equal(part_profiles(whole, s, range[0], range[1], &p), 0);
			assert_int_equal(t.n, p.n);
			n += p.n;
			if (!p.n)
				continue;
			assert_memory_equal(t.time_ns, p.time_ns, p.n * 8);
			assert_memory_equal(t.duration_ns, p.duration_ns, p.n * 8);
			assert_memory_equal(t.resolution, p.resolution, p.n);
			assert_memory_equal(t.n_profiles, p.n_profiles, p.n * 4);
			assert_memory_equal(t.total[c], p.total[c], p.n * 8);
		}
	}
	store_parts_put(r.s, &parts);
	assert_true(n > 2 * 8192);
	run_done(&r);
}

/* Everything deleted: the blocks go. */
static void test_delete_all(void **state)
{
	const struct store_matcher m = {.op = STORE_RE, .name = "nothing", .value = ".*"};
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct run r;
	uint64_t n;
	char *text;

	(void)state;
	fill(&r, 5, 2, 20, 6);
	must(store_delete(r.s, &m, 1, INT64_MIN, INT64_MAX, &n, &eb), &eb);
	must(store_clean_tombstones(r.s, &eb), &eb);
	store_stats(r.s, &st);
	assert_int_equal(st.blocks, 0);
	text = gen_dump_store(r.s, true);
	assert_string_equal(text, "");
	free(text);
	reopen(&r);
	store_stats(r.s, &st);
	assert_int_equal(st.blocks, 0);
	run_done(&r);
}

/* The peak of compacting a store with this many scrapes. */
static uint64_t peak_of(uint64_t n_steps, unsigned every)
{
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct run r;

	fill(&r, 4, 2, n_steps, every);
	must(store_compact(r.s, &eb), &eb);
	store_stats(r.s, &st);
	assert_true(st.compactions > 0);
	assert_int_equal(st.compaction_bytes, 0);
	run_done(&r);
	return st.compaction_peak_bytes;
}

/* What compaction needs is charged, does not grow with the rows, and can be refused. */
static void test_memory(void **state)
{
	const uint64_t small = peak_of(60, 8), large = peak_of(600, 80);
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct run r;
	char *want;

	(void)state;
	assert_true(large < small + small / 20);
	fill(&r, 4, 2, 60, 8);
	want = gen_dump_store(r.s, true);
	r.o.compact_bytes = small - small / 20;
	reopen(&r);
	assert_int_equal(store_compact(r.s, &eb), -ENOMEM);
	assert_non_null(strstr(eb.text, "--storage.compaction.max-memory"));
	store_stats(r.s, &st);
	assert_int_equal(st.compaction_failures, 1);
	assert_int_equal(st.compaction_bytes, 0);
	same(&r, want, 4, "after a compaction that was refused");
	r.o.compact_bytes = small;
	reopen(&r);
	must(store_compact(r.s, &eb), &eb);
	same(&r, want, 4, "after one that had room");
	store_stats(r.s, &st);
	assert_true(st.compactions > 0);
	free(want);
	run_done(&r);
}

static void test_snapshot(void **state)
{
	char name[STORE_SNAPSHOT_NAME], *want;
	struct errbuf eb = {.text = ""};
	struct run r, copy;
	uint64_t n;

	(void)state;
	fill(&r, 7, 2, 40, 6);
	want = gen_dump_store(r.s, true);
	must(store_snapshot(r.s, true, name, &eb), &eb);
	/* What happens to the store later is nothing to the snapshot. */
	must(store_delete(r.s, &(struct store_matcher) {.op = STORE_RE, .name = "x", .value = ".*"},
		     1, INT64_MIN, INT64_MAX, &n, &eb),
		&eb);
	must(store_clean_tombstones(r.s, &eb), &eb);
	copy = r;
	copy.o.path = xasprintf("/data/snapshots/%s", name);
	copy.s = NULL;
	must(store_open(&copy.o, &copy.s, &eb), &eb);
	same(&copy, want, 7, "in the snapshot");
	store_close(copy.s);
	free((void *)(uintptr_t)copy.o.path);
	free(want);
	run_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_other_answer),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_rollups),
		cmocka_unit_test(test_deletion),
		cmocka_unit_test(test_deletion_by_time),
		cmocka_unit_test(test_last_reader_removes_nothing),
		cmocka_unit_test(test_tables_are_warm),
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_delete_all),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_snapshot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
