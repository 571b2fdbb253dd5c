/* SPDX-License-Identifier: Apache-2.0
 *
 * Damage and want: the WAL cut at every byte of its last records, every byte of a WAL and of a block flipped, a disk that is full at the
 * n-th wish for space, a sync that fails, the n-th allocation
 * refused. An error or the same answer, never a crash or another one; and what can
 * be done again is done again.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum { TARGETS = 1, STEPS = 4 };

static struct sim_inode *only_file(struct run *r, const char *dir)
{
	struct sim_inode *d = sim_walk(&r->fs, dir, NULL, NULL);

	ASSERT(d);
	assert_int_equal(d->entries.n, 1);
	return d->entries.items[0].inode;
}

static void must_open(struct run *r)
{
	struct errbuf eb = {.text = ""};

	if (run_open(r, &eb) < 0)
		fail_msg("store_open: %s", eb.text);
}

/* A run of STEPS scrapes; sizes[i]: length of the log after i of them, texts[i]: what the store answers then. */
static void prepare(struct run *r, size_t *sizes, char **texts, bool flush)
{
	struct errbuf eb = {.text = ""};

	run_init(r, 5, TARGETS, STEPS);
	r->shape.max_rows = 3;
	r->shape.max_depth = 3;
	must_open(r);
	for (unsigned i = 0; i <= STEPS; i++) {
		if (texts)
			texts[i] = gen_dump_store(r->s, true);
		if (sizes) {
			struct sim_inode *d = sim_walk(&r->fs, "/data/wal", NULL, NULL);

			ASSERT(d);
			sizes[i] = d->entries.n ? d->entries.items[0].inode->now_size : 0;
			while (sizes[i] && !d->entries.items[0].inode->now[sizes[i] - 1])
				sizes[i]--;
		}
		if (i < STEPS)
			assert_int_equal(run_one(r, 0, &eb), 0);
	}
	if (flush)
		assert_int_equal(store_flush(r->s, &eb), 0);
	store_close(TAKE(r->s));
	simfs_restart(&r->fs);
}

static void set_content(struct sim_inode *f, const uint8_t *p, size_t n)
{
	sim_size(&f->now, &f->now_size, &f->now_cap, n);
	if (n)
		memcpy(f->now, p, n);
	f->dirty = true;
}

static void test_truncated_wal(void **state)
{
	char *texts[STEPS + 1], *text;
	size_t sizes[STEPS + 1];
	_cleanup_free_ uint8_t *whole = NULL;
	struct sim_inode *f;
	struct run r;

	(void)state;
	prepare(&r, sizes, texts, false);
	f = only_file(&r, "/data/wal");
	whole = xmalloc(f->now_size);
	memcpy(whole, f->now, f->now_size);
	for (size_t n = sizes[STEPS - 2]; n <= sizes[STEPS]; n++) {
		/* Trailing zeros of a record's padding are not part of it. */
		unsigned complete = n >= sizes[STEPS]	    ? STEPS
				    : n >= sizes[STEPS - 1] ? STEPS - 1
							    : STEPS - 2;

		set_content(f, whole, n);
		must_open(&r);
		assert_int_equal(run_next(&r, 0), complete);
		text = gen_dump_store(r.s, true);
		assert_string_equal(text, texts[complete]);
		free(text);
		store_close(TAKE(r.s));
		/* Start-up began nothing new: the one file is there again. */
		simfs_restart(&r.fs);
	}
	for (unsigned i = 0; i <= STEPS; i++)
		free(texts[i]);
	run_done(&r);
}

/* The answer, or NULL when a reader met damage. */
static char *try_dump(struct store *s)
{
	struct store_parts parts;
	struct store_stats st;
	int r = store_parts_get(s, INT64_MIN, INT64_MAX, &parts);

	assert_int_equal(r, 0);
	for (size_t i = 0; i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *reader = NULL;
		struct dump_counts counts;
		struct errbuf eb = {.text = ""};

		r = part_reader_open(parts.items[i], NULL, &reader, &eb);
		r = r ? r : dump_check(reader, &counts);
		if (r)
			break;
	}
	store_parts_put(s, &parts);
	if (r)
		return NULL;
	store_stats(s, &st);
	return gen_dump_store(s, true);
}

static void test_flipped_wal(void **state)
{
	char *texts[STEPS + 1], *text;
	struct store_stats st;
	struct sim_inode *f;
	size_t sizes[STEPS + 1];
	struct run base, r;

	(void)state;
	prepare(&base, sizes, texts, false);
	for (size_t i = 0; i < sizes[STEPS]; i++) {
		run_copy(&r, &base);
		f = only_file(&r, "/data/wal");
		f->now[i] ^= (uint8_t)(1 << i % 8);
		f->dirty = true;
		must_open(&r);
		store_stats(r.s, &st);
		text = try_dump(r.s);
		assert_non_null(text);
		if (!st.replay_damaged_records && !st.replay_truncated_bytes &&
			run_next(&r, 0) == STEPS)
			assert_string_equal(text, texts[STEPS]);
		else
			assert_true(strlen(text) < strlen(texts[STEPS]));
		free(text);
		run_done(&r);
	}
	for (unsigned i = 0; i <= STEPS; i++)
		free(texts[i]);
	run_done(&base);
}

static void flip_one(const struct run *base, const char *name, size_t i, const char *want,
	size_t *ret_size, unsigned *ret_same)
{
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct sim_inode *dir, *f;
	struct run r;
	char *text;

	run_copy(&r, base);
	dir = only_file(&r, "/data/blocks");
	f = sim_find(&dir->entries, name, strlen(name));
	ASSERT(f);
	*ret_size = f->now_size;
	f->now[i] ^= (uint8_t)(1 << i % 8);
	must_open(&r);
	text = try_dump(r.s);
	assert_int_equal(store_maintain(r.s, &eb), 0);
	store_stats(r.s, &st);
	if (text && !st.blocks_quarantined) {
		assert_string_equal(text, want);
		++*ret_same;
	} else {
		assert_int_equal(st.blocks, 0);
		assert_int_equal(st.blocks_quarantined, 1);
	}
	free(text);
	run_done(&r);
}

static void test_flipped_block(void **state)
{
	static const char *const files[] = {
		"meta.json", "index", "symbols", "stacks", "profiles", "rows"};
	char *texts[STEPS + 1];
	struct run base;

	(void)state;
	prepare(&base, NULL, texts, true);
	for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
		size_t size = 1;
		unsigned same = 0;

		for (size_t i = 0; i < size; i++)
			flip_one(&base, files[k], i, texts[STEPS], &size, &same);
		/* Every byte is covered by a checksum that was looked at. */
		assert_int_equal(same, 0);
	}
	for (unsigned i = 0; i <= STEPS; i++)
		free(texts[i]);
	run_done(&base);
}

/* Everything is tried until it is done, with a second between the tries. */
static void work_off(struct run *r, unsigned flush_every)
{
	struct errbuf eb = {.text = ""};
	int e = 0;

	for (unsigned tries = 0; e != 1; tries++) {
		assert_true(tries < 500);
		if (!r->s && run_open(r, &eb) < 0) {
			r->s = NULL;
			continue;
		}
		e = run_one(r, 0, &eb);
		if (flush_every && tries % flush_every == 0)
			e = store_flush(r->s, &eb) < 0 ? -EAGAIN : e;
		else if (store_maintain(r->s, &eb) < 0)
			e = -EAGAIN;
		clock_virtual_advance(&r->clock, 11 * NS_PER_S);
	}
}

static void test_no_space(void **state)
{
	char *want = run_reference(9, 1, 8), *text;
	bool over = false;

	(void)state;
	for (unsigned from = 1; !over; from++) {
		struct store_stats st;
		struct run r;

		run_init(&r, 9, 1, 8);
		r.fs.no_space_from = from;
		r.fs.no_space_to = from + 1 + from % 5;
		work_off(&r, 3);
		over = r.fs.n_space_ops < from;
		store_stats(r.s, &st);
		assert_false(st.stopped);
		text = gen_dump_store(r.s, true);
		assert_string_equal(text, want);
		free(text);
		store_close(TAKE(r.s));
		simfs_restart(&r.fs);
		must_open(&r);
		text = gen_dump_store(r.s, true);
		assert_string_equal(text, want);
		free(text);
		run_done(&r);
	}
	free(want);
}

static void test_failed_sync(void **state)
{
	char *want = run_reference(9, 1, 8), *text;
	bool over = false;

	(void)state;
	for (unsigned at = 1; !over; at++) {
		struct errbuf eb = {.text = ""};
		struct run r;
		int e = 0;

		run_init(&r, 9, 1, 8);
		r.o.fsync = STORE_FSYNC_ALWAYS;
		r.fs.fail_sync_at = at;
		work_off(&r, 0);
		over = r.fs.n_syncs < at;
		r.fs.fail_sync_at = 0;
		for (unsigned tries = 0; tries < 3; tries++) {
			e = store_maintain(r.s, &eb);
			if (e)
				print_message("sync %u, try %u: %s\n", at, tries, eb.text);
			clock_virtual_advance(&r.clock, 11 * NS_PER_S);
		}
		assert_int_equal(e, 0);
		assert_int_equal(store_sync(r.s), 0);
		store_close(TAKE(r.s));
		/* What the failed sync dropped is on disk by another way. */
		simfs_power_cut(&r.fs);
		must_open(&r);
		text = gen_dump_store(r.s, true);
		assert_string_equal(text, want);
		free(text);
		run_done(&r);
	}
	free(want);
}

/* With `always` an append whose sync fails says so; what it wrote is there once, whether the scrape is tried again or not, before the
 * block that makes up for the sync and after it. */
static void test_always_tells(void **state)
{
	char *want = run_reference(9, 1, 2), *text;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct gen_scrape *x;
	struct store_stats st;
	struct run r;

	(void)state;
	run_init(&r, 9, 1, 2);
	r.o.fsync = STORE_FSYNC_ALWAYS;
	must_open(&r);
	assert_int_equal(run_one(&r, 0, &eb), 0);
	clock_virtual_advance(&r.clock, 15 * NS_PER_S);
	r.fs.fail_sync_at = r.fs.n_syncs + 1;
	x = run_scrape(&r, 0, 1);
	x->s.cursor_key.len = 0; /* as a target that can only be asked for what comes next */
	assert_int_equal(store_append(r.s, &x->s, &res, &eb), -EIO);
	assert_non_null(strstr(eb.text, "not durable yet"));
	assert_int_not_equal(res.sequence, 0);
	assert_int_not_equal(res.n_streams, 0);
	store_stats(r.s, &st);
	assert_int_equal(st.appended_records, 2);
	assert_int_equal(st.wal_sync_failures, 1);
	assert_true(st.stopped);
	/* Until it is a block nothing is taken in. */
	assert_int_equal(store_append(r.s, &x->s, &res, &eb), -EIO);
	assert_non_null(strstr(eb.text, "ingest is stopped"));
	assert_int_equal(res.sequence, 0);
	assert_int_equal(store_maintain(r.s, &eb), 0);
	assert_int_equal(store_append(r.s, &x->s, &res, &eb), 0);
	assert_int_equal(res.n_streams, 0);
	assert_int_not_equal(res.n_duplicates, 0);
	gen_scrape_free(x);
	store_close(TAKE(r.s));
	simfs_power_cut(&r.fs);
	must_open(&r);
	text = gen_dump_store(r.s, true);
	assert_string_equal(text, want);
	free(text);
	free(want);
	run_done(&r);
}

static void test_no_memory(void **state)
{
	char *want = run_reference(9, 1, 4), *text;
	bool over = false;
	unsigned n;

	(void)state;
	/* In growing steps, as they repeat, and on past the last one. */
	for (n = 1; !over; n += 1 + n / 40) {
		struct run r;

		run_init(&r, 9, 1, 4);
		run_make_ready(&r);
		alloc_fail_after(n);
		work_off(&r, 2);
		over = alloc_fail_after(0) > 0;
		text = gen_dump_store(r.s, true);
		assert_string_equal(text, want);
		free(text);
		run_done(&r);
	}
	assert_true(n > 1000);
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truncated_wal),
		cmocka_unit_test(test_flipped_wal),
		cmocka_unit_test(test_flipped_block),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_failed_sync),
		cmocka_unit_test(test_always_tells),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
