/* SPDX-License-Identifier: Apache-2.0
 *
 * Start-up, retention and snapshots under every fault: the process or the power gone at each operation, no space and no memory at each
 * wish. A start that fails takes nothing with it; what retention keeps stays; a snapshot is whole or not there.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum { STEPS = 14, FLUSH_EVERY = 3, N_FLUSHED = 12 };

/* A compacted block with a deletion, a flushed one and a log of more than one segment, closed; and what they answer. */
static struct run base;
static char *want;

static void must(int r, const struct errbuf *eb)
{
	if (r < 0)
		fail_msg("%s", err_text(eb, r));
}

static void delete_step(struct run *r, unsigned step)
{
	const struct store_matcher m = {.op = STORE_EQ, .name = "job", .value = "node"};
	const int64_t at = run_start_ns + (int64_t)step * 15 * NS_PER_S;
	struct errbuf eb = {.text = ""};
	uint64_t n;

	must(store_delete(r->s, &m, 1, at, at, &n, &eb), &eb);
}

static int setup(void **state)
{
	struct errbuf eb = {.text = ""};

	(void)state;
	run_init(&base, 12, 1, STEPS);
	base.o.no_compaction = base.o.all_rollups = true;
	base.o.block_ns = 1000000 * NS_PER_S;
	base.o.segment_bytes = 4 << 10;
	must(run_open(&base, &eb), &eb);
	for (unsigned i = 0; i < STEPS; i++) {
		must(run_one(&base, 0, &eb), &eb);
		clock_virtual_advance(&base.clock, 15 * NS_PER_S);
		if (i < N_FLUSHED && i % FLUSH_EVERY == FLUSH_EVERY - 1)
			must(store_flush(base.s, &eb), &eb);
		if (i == N_FLUSHED - FLUSH_EVERY - 1)
			must(store_compact(base.s, &eb), &eb);
		if (i == N_FLUSHED - 1)
			delete_step(&base, 1);
	}
	want = gen_dump_store(base.s, true);
	store_close(TAKE(base.s));
	simfs_restart(&base.fs);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(want);
	run_done(&base);
	return 0;
}

static void same(struct run *r, const char *what, unsigned n)
{
	struct store_stats st;
	char *have = gen_dump_store(r->s, true);

	store_stats(r->s, &st);
	if (strcmp(have, want) || st.blocks_quarantined || st.replay_damaged_records)
		fail_msg("%s at %u: another answer, %" PRIu64 " blocks in quarantine, %" PRIu64
			 " damaged records",
			what, n, st.blocks_quarantined, st.replay_damaged_records);
	free(have);
}

static void open_again(struct run *r, bool power)
{
	struct errbuf eb = {.text = ""};

	store_close(TAKE(r->s));
	if (power)
		simfs_power_cut(&r->fs);
	else
		simfs_restart(&r->fs);
	must(run_open(r, &eb), &eb);
}

static void test_start_without_memory(void **state)
{
	bool over = false;
	unsigned n;

	(void)state;
	for (n = 1; !over; n++) {
		struct errbuf eb = {.text = ""};
		struct run r;
		int e;

		run_copy(&r, &base);
		alloc_fail_after(n);
		e = run_open(&r, &eb);
		over = alloc_fail_after(0) > 0;
		if (e < 0) {
			r.s = NULL;
			assert_int_equal(e, -ENOMEM);
			simfs_restart(&r.fs);
			must(run_open(&r, &eb), &eb);
		}
		same(&r, "a start without memory", n);
		open_again(&r, n % 2);
		same(&r, "the start after one without memory", n);
		run_done(&r);
	}
	assert_true(n > 100);
}

/* ---- a bad sector ---- */

/* True when all lines of a dump are among the expected ones. */
static bool is_subset(const char *have)
{
	for (const char *line = have; *line; line = strchr(line, '\n') + 1) {
		_cleanup_free_ char *one = xstrndup(line, (size_t)(strchr(line, '\n') + 1 - line));

		if (!strstr(want, one))
			return false;
	}
	return true;
}

/* The whole store starts, but for what stands there; what it answers is right. */
static void test_bad_sector_at_start(void **state)
{
	bool over = false;
	unsigned n, n_quarantined = 0;

	(void)state;
	for (n = 1; !over; n++) {
		struct errbuf eb = {.text = ""};
		struct store_stats st;
		struct run r;
		char *have;

		run_copy(&r, &base);
		r.fs.fail_read_at = n;
		must(run_open(&r, &eb), &eb);
		over = r.fs.n_reads < n;
		r.fs.fail_read_at = 0;
		store_stats(r.s, &st);
		have = gen_dump_store(r.s, true);
		assert_true(is_subset(have));
		if (strcmp(have, want) != 0)
			assert_true(st.blocks_quarantined || st.replay_damaged_records ||
				    st.replay_truncated_bytes);
		n_quarantined += st.blocks_quarantined > 0;
		free(have);
		run_done(&r);
	}
	assert_true(n > 30 && n_quarantined > 10);
}

/* 0, or the first error of a reader of the whole store. */
static int read_all(struct store *s, struct errbuf *eb)
{
	struct store_parts parts;
	int r = store_parts_get(s, INT64_MIN, INT64_MAX, &parts);

	for (size_t i = 0; !r && i < parts.n; i++) {
		struct dump_counts counts;

		r = dump_check_part(parts.items[i], &counts, eb);
	}
	store_parts_put(s, &parts);
	return r;
}

/* The file with this number in the log, or where it was set aside. */
static const struct sim_inode *segment(struct run *r, unsigned number)
{
	const struct sim_inode *f;
	char path[64];

	snprintf(path, sizeof(path), "/data/wal/%08u", number);
	f = sim_walk(&r->fs, path, NULL, NULL);
	if (f)
		return f;
	snprintf(path, sizeof(path), "/data/quarantine/wal-%08u", number);
	return sim_walk(&r->fs, path, NULL, NULL);
}

/* How many steps from the first on have all of their lines of `all` in `have`. */
static unsigned whole_steps(const char *all, const char *have)
{
	unsigned least = UINT32_MAX;

	for (const char *line = all; *line; line = strchr(line, '\n') + 1) {
		_cleanup_free_ char *one = xstrndup(line, (size_t)(strchr(line, '\n') + 1 - line));
		int64_t at = strtoll(strstr(one, "  time=") + 7, NULL, 10) - run_start_ns;

		if (!strstr(have, one))
			least = MIN(least, (unsigned)(at / (15 * NS_PER_S)));
	}
	return least;
}

/*
 * A sector of the log that the disk never gives back. The store starts with what stands before it and after it, says so, cuts nothing off, and
 * once the rest is safe sets the segment aside as it is.
 */
static void lose_sector(const struct run *from, const char *all, unsigned number, uint64_t at,
	unsigned *ret_whole, bool *ret_kept)
{
	struct errbuf eb = {.text = ""};
	_cleanup_free_ uint8_t *bytes = NULL;
	const struct sim_inode *f;
	struct store_stats st;
	struct run r;
	char *have;
	size_t size;

	run_copy(&r, from);
	f = segment(&r, number);
	size = f->now_size;
	bytes = xmalloc(size);
	memcpy(bytes, f->now, size);
	r.fs.bad_file = f;
	r.fs.bad_at = at;
	must(run_open(&r, &eb), &eb);
	have = gen_dump_store(r.s, true);
	*ret_whole = whole_steps(all, have);
	*ret_kept = !strcmp(have, all);
	store_stats(r.s, &st);
	assert_true(st.replay_damaged_records > 0);
	assert_int_equal(st.replay_truncated_bytes, 0);
	free(have);
	r.n_steps++;
	while (run_one(&r, 0, &eb) == 0)
		;
	must(store_maintain(r.s, &eb), &eb);
	store_stats(r.s, &st);
	assert_true(st.blocks_quarantined > 0);
	f = segment(&r, number);
	assert_true(f == r.fs.bad_file && f->now_size == size);
	assert_memory_equal(f->now, bytes, size);
	r.fs.bad_file = NULL;
	open_again(&r, at % 1024);
	assert_int_equal(read_all(r.s, &eb), 0);
	run_done(&r);
}

/* A log of some segments, closed, and what it answers. */
static char *make_log(struct run *r)
{
	struct errbuf eb = {.text = ""};
	char *all;

	run_init(r, 13, 1, 40);
	r->o.block_ns = 1000000 * NS_PER_S;
	r->o.segment_bytes = 32 << 10;
	must(run_open(r, &eb), &eb);
	while (run_one(r, 0, &eb) == 0)
		clock_virtual_advance(&r->clock, 15 * NS_PER_S);
	all = gen_dump_store(r->s, true);
	store_close(TAKE(r->s));
	simfs_restart(&r->fs);
	return all;
}

/* How many names a file has in quarantine. */
static unsigned n_set_aside(struct run *r, const struct sim_inode *f)
{
	const struct sim_inode *dir = sim_walk(&r->fs, "/data/quarantine", NULL, NULL);
	unsigned n = 0;

	for (size_t i = 0; dir && i < dir->entries.n; i++)
		n += dir->entries.items[i].inode == f;
	return n;
}

/*
 * A start that meets a bad sector dies at operation n; the next one reads that sector (`heals`) or not. Then either all is answered or
 * the segment is set aside as it is, once. True when the first start did not die.
 */
static bool die_with_bad_sector(
	const struct run *from, const char *all, unsigned n, bool power, bool heals)
{
	struct errbuf eb = {.text = ""};
	const struct sim_inode *f;
	bool over;
	char *have;
	struct run r;
	int e;

	run_copy(&r, from);
	f = segment(&r, 1);
	r.fs.bad_file = f;
	r.fs.bad_at = 8192;
	r.fs.die_at = n;
	e = run_open(&r, &eb);
	over = !e && r.fs.n_ops < n;
	if (e < 0)
		r.s = NULL;
	store_close(TAKE(r.s));
	if (power)
		simfs_power_cut(&r.fs);
	else
		simfs_restart(&r.fs);
	r.fs.bad_file = heals ? NULL : f;
	must(run_open(&r, &eb), &eb);
	must(store_maintain(r.s, &eb), &eb);
	have = gen_dump_store(r.s, true);
	if (strcmp(have, all) != 0 && n_set_aside(&r, f) != 1)
		fail_msg("died at %u, %s, the sector %s: the segment is %u times in quarantine", n,
			power ? "power cut" : "killed", heals ? "is read" : "stays bad",
			n_set_aside(&r, f));
	assert_true(n_set_aside(&r, f) <= 1);
	free(have);
	run_done(&r);
	return over;
}

static void test_death_after_a_bad_sector(void **state)
{
	struct run r;
	char *all = make_log(&r);

	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		unsigned n = 1;

		while (!die_with_bad_sector(&r, all, n, kind & 1, kind & 2))
			n++;
		assert_true(n > 20);
	}
	free(all);
	run_done(&r);
}

static void test_bad_sector_of_the_log(void **state)
{
	unsigned n_kept = 0, whole = 0, n_used = 0;
	const struct sim_inode *f;
	struct run r;
	char *all = make_log(&r);

	(void)state;
	for (unsigned number = 0; number < 8; number++) {
		f = segment(&r, number);
		for (uint64_t at = 0; f && at < f->now_size; at += SIM_SECTOR) {
			unsigned before = whole;
			bool kept;

			lose_sector(&r, all, number, at, &whole, &kept);
			n_kept += kept;
			n_used += !kept;
			/* What stands pages before it is there. */
			if (at % 4096 == 0 && at && !kept)
				assert_true(whole && whole >= before);
		}
	}
	/* The end of the last segment was never written to. */
	assert_true(n_kept > 0 && n_used > 16);
	free(all);
	run_done(&r);
}

/* A reader that meets one says so, and the block goes to quarantine: what is left can be read. */
static void test_bad_sector_while_reading(void **state)
{
	bool over = false;
	unsigned n;

	(void)state;
	for (n = 1; !over; n++) {
		struct errbuf eb = {.text = ""};
		struct store_stats st;
		struct run r;
		char *have;
		int e;

		run_copy(&r, &base);
		must(run_open(&r, &eb), &eb);
		r.fs.n_reads = 0;
		r.fs.fail_read_at = n;
		e = read_all(r.s, &eb);
		over = r.fs.n_reads < n;
		r.fs.fail_read_at = 0;
		assert_int_equal(e < 0, !over);
		must(store_maintain(r.s, &eb), &eb);
		store_stats(r.s, &st);
		assert_int_equal(st.blocks_quarantined, !over);
		assert_int_equal(read_all(r.s, &eb), 0);
		have = gen_dump_store(r.s, true);
		assert_true(is_subset(have));
		assert_int_equal(strcmp(have, want) == 0, over);
		free(have);
		run_done(&r);
	}
	assert_true(n > 30);
}

/* A file that goes away or is cut while the store is open is a damaged block, not an error for ever or nothing found. */
static void test_lost_files(void **state)
{
	static const char *const files[] = {"index", "symbols", "stacks", "profiles", "rows",
		"profiles_10m", "rows_10m", "profiles_1h", "rows_1h"};

	(void)state;
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(files); i++) {
		const char *name = files[i / 2];
		struct errbuf eb = {.text = ""};
		struct sim_inode *dir, *f;
		struct store_stats st;
		char file[64], has[64];
		struct run r;
		size_t k = 0, whole;

		run_copy(&r, &base);
		must(run_open(&r, &eb), &eb);
		must(store_clean_tombstones(r.s, &eb), &eb); /* the rollups serve */
		dir = sim_walk(&r.fs, "/data/blocks", NULL, NULL);
		while (!(f = sim_find(&dir->entries.items[k].inode->entries, name, strlen(name))))
			ASSERT(++k < dir->entries.n);
		whole = f->now_size;
		if (i % 2)
			f->now_size /= 2;
		else
			sim_remove(&dir->entries.items[k].inode->entries, name);
		assert_true(read_all(r.s, &eb) < 0);
		snprintf(file, sizeof(file), "/%s: ", name);
		assert_non_null(strstr(eb.text, file));
		if (i % 2) {
			/* What is there, and what is expected. */
			snprintf(has, sizeof(has), "has %zu bytes, at least ", whole / 2);
			assert_non_null(strstr(eb.text, has));
			assert_null(strstr(eb.text, "Input/output"));
		}
		must(store_maintain(r.s, &eb), &eb);
		store_stats(r.s, &st);
		assert_int_equal(st.blocks_quarantined, 1);
		assert_int_equal(read_all(r.s, &eb), 0);
		run_done(&r);
	}
}

/* ---- retention ---- */

/* Only the first block is older. */
static void keep_less(struct run *r)
{
	r->o.retention_ns = 40 * NS_PER_S;
}

/* The lines of the blocks that stay. */
static char *kept_lines(const char *text)
{
	struct bytes out = {.data = NULL};

	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		const char *time = strstr(line, "  time=");
		int64_t at = strtoll(time + 7, NULL, 10) - run_start_ns;

		if (at >= (N_FLUSHED - FLUSH_EVERY) * 15 * NS_PER_S)
			bytes_put(&out, line, (size_t)(strchr(line, '\n') + 1 - line));
	}
	bytes_put_u8(&out, 0);
	return (char *)out.data;
}

static void test_retention_dies(void **state)
{
	char *kept = kept_lines(want);

	(void)state;
	for (unsigned power = 0; power < 2; power++) {
		unsigned n = 0;

		for (bool over = false; !over;) {
			struct errbuf eb = {.text = ""};
			struct store_stats st;
			struct run r;
			char *have;
			int e;

			run_copy(&r, &base);
			keep_less(&r);
			must(run_open(&r, &eb), &eb);
			r.fs.die_at = ++n;
			e = store_maintain(r.s, &eb);
			over = !e && r.fs.n_ops < n;
			open_again(&r, power);
			store_stats(r.s, &st);
			have = gen_dump_store(r.s, true);
			/* The old block is there as a whole or not. */
			assert_true(!strcmp(have, want) || !strcmp(have, kept));
			assert_int_equal(st.blocks_quarantined, 0);
			free(have);
			must(store_maintain(r.s, &eb), &eb);
			have = gen_dump_store(r.s, true);
			assert_string_equal(have, kept);
			free(have);
			run_done(&r);
		}
		assert_true(n > 5);
	}
	free(kept);
}

/* ---- snapshots ---- */

/* What has a name is whole and answers as the store; nothing else is left. Returns how many there are. */
static size_t check_snapshots(struct run *r, const char *what, unsigned n)
{
	struct sim_inode *dir = sim_walk(&r->fs, "/data/snapshots", NULL, NULL);
	size_t n_there = dir ? dir->entries.n : 0;

	for (size_t i = 0; i < n_there; i++) {
		struct errbuf eb = {.text = ""};
		struct run copy = *r;
		char path[SIM_NAME + 32];

		copy.s = NULL;
		snprintf(path, sizeof(path), "/data/snapshots/%s", dir->entries.items[i].name);
		copy.o.path = path;
		copy.o.fs = &r->fs.fs;
		copy.o.read_only = true;
		must(store_open(&copy.o, &copy.s, &eb), &eb);
		same(&copy, what, n);
		store_close(copy.s);
	}
	return n_there;
}

static void test_snapshot_dies(void **state)
{
	(void)state;
	for (unsigned power = 0; power < 2; power++) {
		unsigned n = 0, n_whole = 0;

		for (bool over = false; !over;) {
			char name[STORE_SNAPSHOT_NAME];
			struct errbuf eb = {.text = ""};
			struct run r;
			size_t n_there;
			int e;

			run_copy(&r, &base);
			must(run_open(&r, &eb), &eb);
			r.fs.die_at = ++n;
			e = store_snapshot(r.s, true, name, &eb);
			over = !e && r.fs.n_ops < n;
			open_again(&r, power);
			same(&r, "a snapshot that died", n);
			n_there = check_snapshots(&r, "a snapshot after a death", n);
			assert_true(n_there <= 1 && (e < 0 || n_there == 1));
			n_whole += n_there == 1;
			must(store_snapshot(r.s, true, name, &eb), &eb);
			open_again(&r, power);
			assert_int_equal(check_snapshots(&r, "another snapshot", n), n_there + 1);
			run_done(&r);
		}
		assert_true(n > 40 && n_whole < n / 4);
	}
}

/* One that fails leaves nothing, and the next one works. */
static void failed_snapshot(struct run *r, int e, const char *what, unsigned n)
{
	char name[STORE_SNAPSHOT_NAME];
	struct errbuf eb = {.text = ""};

	same(r, what, n);
	assert_int_equal(check_snapshots(r, what, n), !e);
	must(store_snapshot(r->s, true, name, &eb), &eb);
	assert_int_equal(check_snapshots(r, "the next snapshot", n), 1 + !e);
	run_done(r);
}

static void test_snapshot_without_space(void **state)
{
	bool over = false;

	(void)state;
	for (unsigned n = 1; !over; n++) {
		char name[STORE_SNAPSHOT_NAME];
		struct errbuf eb = {.text = ""};
		struct run r;
		int e;

		run_copy(&r, &base);
		must(run_open(&r, &eb), &eb);
		r.fs.n_space_ops = 0;
		r.fs.no_space_from = n;
		r.fs.no_space_to = UINT64_MAX;
		e = store_snapshot(r.s, true, name, &eb);
		over = !e;
		r.fs.no_space_from = 0;
		failed_snapshot(&r, e, "a snapshot without space", n);
	}
}

static void test_snapshot_without_memory(void **state)
{
	bool over = false;
	unsigned n;

	(void)state;
	for (n = 1; !over; n++) {
		char name[STORE_SNAPSHOT_NAME];
		struct errbuf eb = {.text = ""};
		struct run r;
		int e;

		run_copy(&r, &base);
		must(run_open(&r, &eb), &eb);
		alloc_fail_after(n);
		e = store_snapshot(r.s, true, name, &eb);
		over = alloc_fail_after(0) > 0;
		failed_snapshot(&r, e, "a snapshot without memory", n);
	}
	assert_true(n > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_without_memory),
		cmocka_unit_test(test_bad_sector_at_start),
		cmocka_unit_test(test_bad_sector_of_the_log),
		cmocka_unit_test(test_death_after_a_bad_sector),
		cmocka_unit_test(test_bad_sector_while_reading),
		cmocka_unit_test(test_lost_files),
		cmocka_unit_test(test_retention_dies),
		cmocka_unit_test(test_snapshot_dies),
		cmocka_unit_test(test_snapshot_without_space),
		cmocka_unit_test(test_snapshot_without_memory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
