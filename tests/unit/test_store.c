/* SPDX-License-Identifier: Apache-2.0
 *
 * The store as a whole, single-threaded, on the real file system and a virtual clock: what was appended is found again from the head,
 * after a replay, from a block, and after a reopening.
 */
#include "scraper/store/wal/cursors.h"
#include "tests/unit/store_gen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <fcntl.h>

static const int64_t start_ns = 1700000000LL * NS_PER_S;

struct fixture {
	char path[64];
	struct clock_virtual clock;
	struct store_options o;
	struct store *s;
	struct gen g;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	snprintf(f->path, sizeof(f->path), "/tmp/sonde-store-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	clock_virtual_init(&f->clock, start_ns);
	f->o = (struct store_options) {
		.path = f->path,
		.clock = &f->clock.clock,
		.segment_bytes = 1 << 20,
		.max_nodes = 1 << 16,
		.seed = 7,
		.fsync = STORE_FSYNC_NEVER,
	};
	f->g = (struct gen) {
		.state = 42, .n_functions = 60, .max_depth = 12, .max_rows = 30, .n_streams = 3};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->s);
	assert_int_equal(fs_remove_all(&fs_system, f->path), 0);
	free(f);
	return 0;
}

static void open_store(struct fixture *f)
{
	struct errbuf eb = {.text = ""};
	int r;

	if (f->s)
		store_close(TAKE(f->s));
	r = store_open(&f->o, &f->s, &eb);
	if (r)
		print_error("store_open: %s\n", eb.text);
	assert_int_equal(r, 0);
}

static int append(struct fixture *f, unsigned target, uint64_t step, int64_t time_ns,
	struct store_result *ret, struct errbuf *eb)
{
	struct gen_scrape *x = gen_scrape(&f->g, target, step, time_ns);
	int r = store_append(f->s, &x->s, ret, eb);

	gen_scrape_free(x);
	return r;
}

static void append_rounds(struct fixture *f, unsigned n_targets, uint64_t first, uint64_t n)
{
	struct store_result res;
	struct errbuf eb = {.text = ""};

	for (uint64_t step = first; step < first + n; step++) {
		for (unsigned t = 0; t < n_targets; t++) {
			int r = append(f, t, step, start_ns + (int64_t)step * 15 * NS_PER_S + t,
				&res, &eb);

			if (r)
				print_error("append: %s\n", eb.text);
			assert_int_equal(r, 0);
		}
		clock_virtual_advance(&f->clock, 15 * NS_PER_S);
	}
}

static void test_found_again(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	char *head, *replayed, *block, *reopened;

	open_store(f);
	append_rounds(f, 4, 0, 10);
	head = gen_dump_store(f->s, true);
	assert_true(strlen(head) > 10000);
	open_store(f);
	replayed = gen_dump_store(f->s, true);
	assert_string_equal(head, replayed);
	store_stats(f->s, &st);
	assert_int_equal(st.replay_damaged_records, 0);
	assert_int_equal(st.replayed_records, 41); /* and the cursors */
	assert_int_equal(store_flush(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 1);
	assert_int_equal(st.head_rows, 0);
	block = gen_dump_store(f->s, true);
	assert_string_equal(head, block);
	open_store(f);
	reopened = gen_dump_store(f->s, true);
	assert_string_equal(head, reopened);
	free(head);
	free(replayed);
	free(block);
	free(reopened);
}

/* The same scrape again is dropped, another one at the same time refused; from the head, a sealed generation and a block. */
static void test_duplicates(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct gen_scrape *first, *other;
	struct store_stats st;
	char *before, *after;

	open_store(f);
	f->g.max_rows = 20;
	first = gen_scrape(&f->g, 1, 0, start_ns);
	other = gen_scrape(&f->g, 1, 0, start_ns);
	first->s.cursor_key.len = other->s.cursor_key.len = 0;
	assert_int_equal(store_append(f->s, &first->s, &res, &eb), 0);
	assert_int_equal(res.n_streams, 3);
	before = gen_dump_store(f->s, true);
	for (unsigned round = 0; round < 3; round++) {
		assert_int_equal(store_append(f->s, &first->s, &res, &eb), 0);
		assert_int_equal(res.n_duplicates, 3);
		assert_int_equal(res.n_streams, 0);
		assert_int_equal(store_append(f->s, &other->s, &res, &eb), -EEXIST);
		after = gen_dump_store(f->s, true);
		assert_string_equal(before, after);
		free(after);
		if (round == 0)
			assert_int_equal(store_flush(f->s, &eb), 0);
		if (round == 1)
			open_store(f);
	}
	store_stats(f->s, &st);
	assert_int_equal(st.refused[STORE_REFUSED_CONFLICT], 3); /* since the reopening */
	gen_scrape_free(first);
	gen_scrape_free(other);
	free(before);
}

/* Beside a series that is new, two that are there with other content are refused, told and counted. */
static void test_some_conflict(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct gen_scrape *two, *three;
	struct store_stats st;

	open_store(f);
	f->g.n_streams = 2;
	f->g.max_rows = 20;
	two = gen_scrape(&f->g, 1, 0, start_ns);
	f->g.n_streams = 3;
	three = gen_scrape(&f->g, 1, 0, start_ns);
	two->s.cursor_key.len = three->s.cursor_key.len = 0;
	assert_int_equal(store_append(f->s, &two->s, &res, &eb), 0);
	assert_int_equal(res.n_streams, 2);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(store_append(f->s, &three->s, &res, &eb), 0);
		assert_int_equal(res.n_streams, round == 0);
		assert_int_equal(res.n_duplicates, round);
		assert_int_equal(res.n_conflicts, 2);
		store_stats(f->s, &st);
		assert_int_equal(st.refused[STORE_REFUSED_CONFLICT], 2 * (round + 1));
	}
	assert_int_equal(st.appended_profiles, 3);
	gen_scrape_free(two);
	gen_scrape_free(three);
}

static void test_time_rules(void **state)
{
	static const struct {
		int64_t off_s;
		int r;
		const char *text;
	} cases[] = {
		{0, 0, ""},
		{-3600, 0, ""},
		{-3601, -ERANGE, "3601.000 s old"},
		{600, 0, ""},
		{601, -ERANGE, "601.000 s ahead"},
	};
	struct fixture *f = *state;
	struct store_result res;

	open_store(f);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {.text = ""};

		assert_int_equal(append(f, i, 0, start_ns + cases[i].off_s * NS_PER_S, &res, &eb),
			cases[i].r);
		assert_non_null(strstr(eb.text, cases[i].text));
	}
}

static void test_cursors(void **state)
{
	struct fixture *f = *state;
	_cleanup_bytes_ struct bytes value = {.data = NULL};
	struct errbuf eb = {.text = ""};
	struct store_result res;

	open_store(f);
	assert_int_equal(
		store_cursor_get(f->s, (struct store_blob) {"node/0", 6}, &value), -ENOENT);
	assert_int_equal(append(f, 0, 7, start_ns, &res, &eb), 0);
	assert_int_equal(append(f, 0, 7, start_ns + NS_PER_S, &res, &eb), -ESTALE);
	assert_int_equal(append(f, 0, 8, start_ns + NS_PER_S, &res, &eb), 0);
	assert_int_equal(store_flush(f->s, &eb), 0);
	open_store(f);
	assert_int_equal(store_cursor_get(f->s, (struct store_blob) {"node/0", 6}, &value), 0);
	assert_int_equal(value.len, 1);
	assert_int_equal(value.data[0], '9');
	/* A cursor that nobody moves for a day is forgotten with the next generation. */
	clock_virtual_advance(&f->clock, 25 * 3600 * NS_PER_S);
	assert_int_equal(append(f, 1, 0, f->clock.real_ns, &res, &eb), 0);
	assert_int_equal(store_flush(f->s, &eb), 0);
	assert_int_equal(
		store_cursor_get(f->s, (struct store_blob) {"node/0", 6}, &value), -ENOENT);
	assert_int_equal(store_cursor_get(f->s, (struct store_blob) {"node/1", 6}, &value), 0);
}

static void test_aborted_cursors(void **state)
{
	const struct store_blob key = {"node/0", 6}, value = {"1", 1};
	struct cursors_pending pending;
	struct cursors c;

	(void)state;
	cursors_init(&c);
	assert_int_equal(cursors_prepare(&c, key, value, start_ns, &pending), 0);
	cursors_abort(&pending);
	assert_int_equal(cursors_count(&c), 0);
	cursors_expire(&c, start_ns);
	assert_int_equal(c.n, 0); /* its place is given back */
	assert_int_equal(cursors_prepare(&c, key, value, start_ns, &pending), 0);
	cursors_commit(&c, &pending);
	cursors_expire(&c, start_ns);
	assert_int_equal(cursors_count(&c), 1);
	assert_int_equal(cursors_prepare(&c, key, value, start_ns + 1, &pending), 0);
	cursors_abort(&pending);
	cursors_expire(&c, start_ns);
	assert_int_equal(cursors_check(&c, key, value), 0);
	cursors_done(&c);
}

static void test_one_writer(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store *second = NULL;
	char pid[32];

	open_store(f);
	assert_int_equal(store_open(&f->o, &second, &eb), -EWOULDBLOCK);
	snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	assert_non_null(strstr(eb.text, pid));
	/* A reader needs no lock. */
	f->o.read_only = true;
	assert_int_equal(store_open(&f->o, &second, &eb), 0);
	store_close(second);
	f->o.read_only = false;
}

static void test_retention_by_time(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_stats st;

	f->o.retention_ns = 600 * NS_PER_S;
	open_store(f);
	append_rounds(f, 1, 0, 10);
	assert_int_equal(store_flush(f->s, &eb), 0);
	append_rounds(f, 1, 10, 30);
	assert_int_equal(store_maintain(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 1);
	append_rounds(f, 1, 40, 11);
	assert_int_equal(store_flush(f->s, &eb), 0); /* its newest is 615 s after the first one's */
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 1);
	assert_int_equal(st.blocks_deleted, 1);
	assert_int_equal(st.min_time_ns, start_ns + 150 * NS_PER_S);
	/* A clock that jumps a year ahead removes nothing. */
	clock_virtual_step(&f->clock, 365LL * 86400 * NS_PER_S);
	assert_int_equal(store_flush(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 1);
}

/* What is stored while the clock is a year ahead for a while makes nothing old, neither then nor when it is right again. */
static void test_retention_and_wrong_clock(void **state)
{
	const int64_t year_ns = 365LL * 86400 * NS_PER_S;
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;

	f->o.retention_ns = 600 * NS_PER_S;
	f->o.no_compaction = true;
	open_store(f);
	append_rounds(f, 1, 0, 10);
	assert_int_equal(store_flush(f->s, &eb), 0);
	clock_virtual_step(&f->clock, year_ns);
	assert_int_equal(append(f, 0, 10, clock_realtime_ns(&f->clock.clock), &res, &eb), 0);
	assert_int_equal(store_maintain(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 1);
	clock_virtual_step(&f->clock, -year_ns);
	assert_int_equal(store_flush(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 2);
	clock_virtual_advance(&f->clock, 15 * NS_PER_S);
	append_rounds(f, 1, 11, 10);
	assert_int_equal(store_flush(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 3);
	assert_int_equal(st.min_time_ns, start_ns);
}

/* Nor when it becomes a block then, however often it happens, nor when the store is opened while it is wrong. One that stays is believed. */
static void test_retention_and_wrong_clocks(void **state)
{
	const int64_t year_ns = 365LL * 86400 * NS_PER_S, hour_ns = 3600 * NS_PER_S;
	_cleanup_bytes_ struct bytes value = {.data = NULL};
	const struct store_blob cursor = {"node/0", 6};
	struct fixture *f = *state;
	unsigned step = 0;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;

	f->o.retention_ns = 24 * hour_ns;
	f->o.no_compaction = true;
	open_store(f);
	append_rounds(f, 1, 0, 10);
	assert_int_equal(store_flush(f->s, &eb), 0);
	for (unsigned i = 0; i < 3; i++) {
		/* the process that was started in between does not know what the clock was before */
		const uint64_t steps[] = {2, 1, 3};

		assert_int_equal(store_maintain(f->s, &eb), 0);
		clock_virtual_step(&f->clock, year_ns);
		if (i == 1)
			open_store(f);
		assert_int_equal(append(f, 1, step++, f->clock.real_ns, &res, &eb), 0);
		assert_int_equal(store_flush(f->s, &eb), 0);
		assert_int_equal(append(f, 1, step++, f->clock.real_ns + 1, &res, &eb), 0);
		assert_int_equal(store_flush(f->s, &eb), 0);
		if (i == 1)
			open_store(f);
		assert_int_equal(store_maintain(f->s, &eb), 0);
		clock_virtual_step(&f->clock, -year_ns);
		clock_virtual_advance(&f->clock, 60 * NS_PER_S);
		assert_int_equal(append(f, 1, step++, f->clock.real_ns, &res, &eb), 0);
		assert_int_equal(store_flush(f->s, &eb), 0);
		store_stats(f->s, &st);
		assert_int_equal(st.blocks_deleted, 0);
		assert_int_equal(st.min_time_ns, start_ns);
		assert_int_equal(st.clock_steps, steps[i]);
	}
	assert_int_equal(store_cursor_get(f->s, cursor, &value), 0);
	clock_virtual_step(&f->clock, year_ns);
	clock_virtual_advance(&f->clock, 10 * NS_PER_S);
	assert_int_equal(append(f, 1, step++, f->clock.real_ns, &res, &eb), 0);
	assert_int_equal(store_flush(f->s, &eb), 0);
	clock_virtual_advance(&f->clock, 2 * hour_ns - NS_PER_S);
	assert_int_equal(store_maintain(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks_deleted, 0);
	clock_virtual_advance(&f->clock, NS_PER_S);
	assert_int_equal(store_maintain(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_true(st.blocks_deleted > 0);
	assert_true(st.min_time_ns > start_ns);
}

/* Generations that nobody writes out take the memory of the next one: that is what is said, and again until it is tried again. */
static void test_no_memory_for_heads(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;
	uint64_t step = 0;
	int r = 0;

	f->o.block_ns = NS_PER_S;
	f->o.head_bytes = 64 << 10;
	open_store(f);
	for (; !r && step < 2000; step++) {
		clock_virtual_advance(&f->clock, 15 * NS_PER_S);
		r = append(f, 0, step, f->clock.real_ns, &res, &eb);
	}
	step--;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(r, -ENOMEM);
		assert_non_null(strstr(eb.text, "--storage.head-bytes"));
		store_stats(f->s, &st);
		assert_false(st.stopped);
		assert_int_equal(st.refused[STORE_REFUSED_MEMORY], 1 + i);
		assert_int_equal(st.refused[STORE_REFUSED_SPACE], 0);
		r = append(f, 0, step, f->clock.real_ns, &res, &eb);
	}
	assert_int_equal(store_maintain(f->s, &eb), 0);
	clock_virtual_advance(&f->clock, NS_PER_S);
	assert_int_equal(append(f, 0, step, f->clock.real_ns, &res, &eb), 0);
}

static int open_error;

static int refuse_to_create(struct fs *fs, const char *path, int flags, mode_t mode)
{
	return flags & O_CREAT ? open_error : fs_system.open(fs, path, flags, mode);
}

/* Whatever keeps the log from being written is said where people look, and ingest goes on by itself. */
static void test_disk_refuses(void **state)
{
	const int errors[] = {-EROFS, -EMFILE, -EDQUOT, -EACCES, -EIO};
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;
	struct fs fs = fs_system;
	uint64_t step = 0;

	f->o.fs = &fs;
	f->o.block_ns = NS_PER_S;
	open_store(f);
	assert_int_equal(append(f, 0, step++, f->clock.real_ns, &res, &eb), 0);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		clock_virtual_advance(&f->clock, 15 * NS_PER_S);
		open_error = errors[i];
		fs.open = refuse_to_create;
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(
				append(f, 0, step, f->clock.real_ns, &res, &eb), errors[i]);
			store_stats(f->s, &st);
			assert_true(st.stopped);
			assert_non_null(strstr(st.stop_reason, strerror(-errors[i])));
			assert_non_null(strstr(st.stop_reason, "/wal/"));
		}
		fs.open = fs_system.open;
		clock_virtual_advance(&f->clock, NS_PER_S);
		assert_int_equal(append(f, 0, step++, f->clock.real_ns, &res, &eb), 0);
		store_stats(f->s, &st);
		assert_false(st.stopped);
	}
	store_close(TAKE(f->s));
}

static int no_links(struct fs *fs, const char *from, const char *to)
{
	(void)fs;
	(void)from;
	(void)to;
	return -EPERM; /* what vfat answers */
}

/* A snapshot says what it lacks, not that something is not permitted, and leaves nothing. */
static void test_snapshot_without_links(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *path = xasprintf("%s/snapshots", f->path);
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	char name[STORE_SNAPSHOT_NAME];
	struct errbuf eb = {.text = ""};
	struct fs fs = fs_system;

	fs.link = no_links;
	f->o.fs = &fs;
	open_store(f);
	append_rounds(f, 1, 0, 3);
	assert_int_equal(store_snapshot(f->s, true, name, &eb), -EOPNOTSUPP);
	assert_non_null(strstr(eb.text, "no hard links"));
	assert_int_equal(fs_system.list(&fs_system, path, &names), 0);
	assert_int_equal(names.len, 0);
	store_close(TAKE(f->s));
}

static void test_retention_by_size(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *junk = xasprintf("%s/quarantine/old", f->path);
	struct errbuf eb = {.text = ""};
	struct store_stats st;

	f->o.no_compaction = true;	   /* many blocks, not few small ones */
	f->o.retention_bytes = 1200 << 10; /* a segment of 1 MiB is allocated at any time */
	open_store(f);
	assert_int_equal(fs_write_file(&fs_system, junk, f->path, 60, 0644, &eb), 0);
	for (unsigned i = 0; i < 20; i++) {
		append_rounds(f, 2, 5 * i, 5);
		assert_int_equal(store_flush(f->s, &eb), 0);
		store_stats(f->s, &st);
		assert_true(st.wal_bytes + st.block_bytes + st.quarantine_bytes <=
			    f->o.retention_bytes);
	}
	assert_true(st.blocks > 2 && st.blocks < 20);
	assert_int_equal(st.quarantine_bytes, 0); /* it went first */
	assert_true(st.blocks_deleted > 0);
}

static void read_everything(struct store *s)
{
	struct store_parts parts;
	struct dump_counts counts;
	struct errbuf eb = {.text = ""};

	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	for (size_t i = 0; i < parts.n; i++)
		assert_int_equal(dump_check_part(parts.items[i], &counts, &eb), 0);
	store_parts_put(s, &parts);
}

/* Head and page cache hold their caps, and ten times the data needs no more than the data did. */
static void test_caps(void **state)
{
	struct fixture *f = *state;
	struct budget all;
	struct errbuf eb = {.text = ""};
	struct store_stats end;
	uint64_t small = 0;

	budget_init(&all, NULL, "all", NULL, 0);
	f->o.budget = &all;
	f->g.max_rows = 300;
	f->o.head_bytes = 3 << 20;
	f->o.cache_bytes = 512 << 10;
	f->o.block_ns = 1000000 * NS_PER_S;
	open_store(f);
	for (unsigned tenth = 0; tenth < 10; tenth++) {
		struct store_stats st;

		for (unsigned i = 0; i < 12; i++) {
			append_rounds(f, 3, tenth * 60ULL + i * 5, 5);
			assert_int_equal(store_maintain(f->s, &eb), 0);
		}
		read_everything(f->s);
		store_stats(f->s, &st);
		assert_true(st.cache_bytes <= f->o.cache_bytes);
		assert_true(st.head_bytes <= 2 * f->o.head_bytes + (16 << 20));
		small = tenth ? small : all.peak_bytes;
	}
	store_stats(f->s, &end);
	assert_true(end.flushes > 1 && end.blocks >= 1);
	assert_int_equal(end.refused[STORE_REFUSED_MEMORY], 0);
	/* A compaction's share is bounded by itself: symbols, not rows (test_store_compact.c). */
	assert_true(end.compactions > 0 && end.compaction_peak_bytes < 32 << 20);
	assert_true(all.peak_bytes <=
		    small + f->o.head_bytes + f->o.cache_bytes + end.compaction_peak_bytes);
	store_close(TAKE(f->s));
	assert_int_equal(all.used_bytes, 0);
}

/* A dictionary that is full ends the generation; nothing is lost. */
static void test_full_dictionary(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_stats st;

	f->o.max_nodes = 600;
	f->g.n_functions = 400;
	open_store(f);
	append_rounds(f, 2, 0, 12);
	assert_int_equal(store_maintain(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_true(st.blocks >= 1 && st.head_rows > 0);
	assert_int_equal(st.refused[STORE_REFUSED_SIZE], 0);
	assert_int_equal(st.appended_profiles, 2 * 12 * 3);
}

static void test_quarantine_while_running(void **state)
{
	struct fixture *f = *state;
	_cleanup_bytes_ struct bytes names = {.data = NULL}, json = {.data = NULL},
				     rows = {.data = NULL};
	_cleanup_free_ char *dir = xasprintf("%s/blocks", f->path), *path = NULL;
	struct errbuf eb = {.text = ""};
	struct part_reader *reader = NULL;
	struct dump_counts counts;
	struct store_parts parts;
	struct store_stats st;

	open_store(f);
	append_rounds(f, 1, 0, 5);
	assert_int_equal(store_flush(f->s, &eb), 0);
	append_rounds(f, 1, 5, 5);
	assert_int_equal(fs_system.list(&fs_system, dir, &names), 0);
	path = xasprintf("%s/%s/rows", dir, (char *)names.data);
	assert_int_equal(fs_read_file(&fs_system, path, 1 << 20, &rows, &eb), 0);
	rows.data[20] ^= 1;
	assert_int_equal(fs_write_file(&fs_system, path, rows.data, rows.len, 0644, &eb), 0);
	assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
	assert_int_equal(parts.n, 2);
	assert_int_equal(part_reader_open(parts.items[0], NULL, &reader, &eb), 0);
	assert_int_equal(dump_check(reader, &counts), -EBADMSG);
	part_reader_close(reader);
	store_parts_put(f->s, &parts);
	assert_int_equal(store_maintain(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 0);
	assert_int_equal(st.blocks_quarantined, 1);
	assert_int_equal(store_quarantine_json(f->s, &json), 0);
	bytes_put_u8(&json, 0);
	assert_non_null(strstr((char *)json.data, (char *)names.data));
	assert_non_null(strstr((char *)json.data, "wrong checksum"));
	/* Everything else is served. */
	assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
	assert_int_equal(parts.n, 1);
	store_parts_put(f->s, &parts);
}

static void test_fsync_flag(void **state)
{
	struct store_options o = {.fsync = STORE_FSYNC_NEVER};
	struct errbuf eb = {.text = ""};

	(void)state;
	assert_int_equal(store_parse_fsync("always", &o, &eb), 0);
	assert_int_equal(o.fsync, STORE_FSYNC_ALWAYS);
	assert_int_equal(store_parse_fsync("250ms", &o, &eb), 0);
	assert_int_equal(o.fsync, STORE_FSYNC_DURATION);
	assert_int_equal(o.fsync_ns, 250 * NS_PER_MS);
	assert_int_equal(store_parse_fsync("sometimes", &o, &eb), -EINVAL);
	assert_int_equal(store_parse_fsync("0s", &o, &eb), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_duplicates, setup, teardown),
		cmocka_unit_test_setup_teardown(test_some_conflict, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time_rules, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cursors, setup, teardown),
		cmocka_unit_test(test_aborted_cursors),
		cmocka_unit_test_setup_teardown(test_one_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retention_by_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retention_and_wrong_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retention_and_wrong_clocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memory_for_heads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_snapshot_without_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retention_by_size, setup, teardown),
		cmocka_unit_test_setup_teardown(test_caps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_dictionary, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quarantine_while_running, setup, teardown),
		cmocka_unit_test(test_fsync_flag),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
