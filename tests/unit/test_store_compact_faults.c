/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction under every fault: the process or the power gone at each of its operations, no space and no memory at each wish, each byte of
 * its result flipped. The store answers as before, or says what is damaged; and what failed is done when it is tried again.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum { STEPS = 9, FLUSH_EVERY = 3, RETRY_S = 11 * 60 };

static void must(int r, const struct errbuf *eb)
{
	if (r < 0)
		fail_msg("%s", err_text(eb, r));
}

/* Three small blocks, not compacted yet, closed; and what they answer. */
static struct run base;
static char *want;

static int setup(void **state)
{
	struct errbuf eb = {.text = ""};

	(void)state;
	run_init(&base, 11, 1, STEPS);
	base.o.no_compaction = base.o.all_rollups = true;
	base.o.block_ns = 1000000 * NS_PER_S;
	base.shape =
		(struct gen) {.n_functions = 12, .max_depth = 3, .max_rows = 3, .n_streams = 1};
	must(run_open(&base, &eb), &eb);
	for (unsigned i = 0; i < STEPS; i++) {
		must(run_one(&base, 0, &eb), &eb);
		clock_virtual_advance(&base.clock, 15 * NS_PER_S);
		if (i % FLUSH_EVERY == FLUSH_EVERY - 1)
			must(store_flush(base.s, &eb), &eb);
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

static void start(struct run *r)
{
	struct errbuf eb = {.text = ""};

	run_copy(r, &base);
	must(run_open(r, &eb), &eb);
}

static void same(struct run *r, const char *what, unsigned n)
{
	struct store_stats st;
	char *have = gen_dump_store(r->s, true);

	store_stats(r->s, &st);
	if (strcmp(have, want) || st.blocks_quarantined)
		fail_msg("%s at %u: another answer, %" PRIu64 " blocks in quarantine", what, n,
			st.blocks_quarantined);
	free(have);
}

static void test_death(void **state)
{
	(void)state;
	for (unsigned power = 0; power < 2; power++) {
		bool done = false;
		unsigned n;

		for (n = 1; !done; n++) {
			struct errbuf eb = {.text = ""};
			struct run r;
			int e;

			start(&r);
			r.fs.die_at = n;
			e = store_compact(r.s, &eb);
			done = !e && r.fs.n_ops < n;
			store_close(TAKE(r.s));
			if (power)
				simfs_power_cut(&r.fs);
			else
				simfs_restart(&r.fs);
			must(run_open(&r, &eb), &eb);
			same(&r, power ? "power cut" : "death", n);
			must(store_compact(r.s, &eb), &eb);
			same(&r, "compaction after a death", n);
			run_done(&r);
		}
		assert_true(n > 40);
	}
}

/* What failed is tried again after a while. */
static void again(struct run *r, const char *what, unsigned n)
{
	struct errbuf eb = {.text = ""};
	struct store_stats st;

	same(r, what, n);
	clock_virtual_advance(&r->clock, RETRY_S * NS_PER_S);
	must(store_compact(r->s, &eb), &eb);
	store_stats(r->s, &st);
	assert_int_equal(st.blocks, 1);
	same(r, "compaction after it", n);
	store_close(TAKE(r->s));
	simfs_restart(&r->fs);
	must(run_open(r, &eb), &eb);
	same(r, "a restart after it", n);
}

static void test_no_space(void **state)
{
	bool done = false;

	(void)state;
	for (unsigned n = 1; !done; n++) {
		struct errbuf eb = {.text = ""};
		struct store_stats st;
		struct run r;
		int e;

		start(&r);
		r.fs.n_space_ops = 0;
		r.fs.no_space_from = n;
		r.fs.no_space_to = UINT64_MAX;
		e = store_compact(r.s, &eb);
		done = e == 0;
		r.fs.no_space_from = 0;
		store_stats(r.s, &st);
		assert_int_equal(st.compaction_failures, !done);
		again(&r, "no space", n);
		run_done(&r);
	}
}

static void test_no_memory(void **state)
{
	bool done = false;
	unsigned n;

	(void)state;
	for (n = 1; !done; n++) {
		struct errbuf eb = {.text = ""};
		struct run r;
		int e;

		start(&r);
		alloc_fail_after(n);
		e = store_compact(r.s, &eb);
		alloc_fail_after(0);
		done = e == 0 && n > 300;
		again(&r, "no memory", n);
		run_done(&r);
		/* Beyond the first hundreds in growing steps, as they repeat. */
		n += n > 400 ? n / 20 : 0;
	}
	assert_true(n > 300);
}

/* The directory of the block with rollups: only the compacted one has them. */
static struct sim_inode *compacted_dir(struct run *r, size_t n_blocks)
{
	struct sim_inode *dir = sim_walk(&r->fs, "/data/blocks", NULL, NULL);
	struct sim_inode *found = NULL;

	ASSERT(dir);
	assert_int_equal(dir->entries.n, n_blocks);
	for (size_t i = 0; i < n_blocks; i++)
		if (sim_find(&dir->entries.items[i].inode->entries, "rows_10m", 8))
			found = dir->entries.items[i].inode;
	ASSERT(found);
	return found;
}

/* Reads everything, as someone would who looks for damage. */
static void read_all(struct store *s)
{
	struct store_parts parts;

	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	for (size_t i = 0; i < parts.n; i++) {
		struct errbuf eb = {.text = ""};
		struct dump_counts counts;
		int r = dump_check_part(parts.items[i], &counts, &eb);

		assert_true(!r || r == -EBADMSG || r == -ENOTSUP);
	}
	store_parts_put(s, &parts);
}

/* Each byte of the compacted block, which stands beside as many others. `make test-crash` takes each. */
static void flip_all(const struct run *compacted, size_t n_others)
{
	static const char *const files[] = {"meta.json", "index", "symbols", "stacks", "profiles",
		"rows", "profiles_10m", "rows_10m", "profiles_1h", "rows_1h"};
	const size_t step = getenv("SONDE_CRASH_ROUNDS") ? 1 : 7;

	for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
		size_t size = 1;

		for (size_t i = 0; i < size; i += step) {
			struct errbuf eb = {.text = ""};
			struct sim_inode *dir, *f;
			struct store_stats st;
			struct run r;

			run_copy(&r, compacted);
			dir = compacted_dir(&r, n_others + 1);
			f = sim_find(&dir->entries, files[k], strlen(files[k]));
			ASSERT(f);
			size = f->now_size;
			f->now[i] ^= (uint8_t)(1 << i % 8);
			must(run_open(&r, &eb), &eb);
			store_stats(r.s, &st);
			/* Beside what it replaces it is looked at before it is believed. */
			if (n_others)
				assert_int_equal(st.blocks_quarantined, 1);
			read_all(r.s);
			must(store_flush(r.s, &eb), &eb);
			store_stats(r.s, &st);
			assert_int_equal(st.blocks, n_others);
			assert_int_equal(st.blocks_quarantined, 1);
			if (n_others) {
				char *have = gen_dump_store(r.s, true);

				assert_string_equal(have, want);
				free(have);
			}
			run_done(&r);
		}
	}
}

static void test_flipped(void **state)
{
	struct errbuf eb = {.text = ""};
	struct run compacted;

	(void)state;
	start(&compacted);
	must(store_compact(compacted.s, &eb), &eb);
	store_close(TAKE(compacted.s));
	simfs_restart(&compacted.fs);
	flip_all(&compacted, 0);
	run_done(&compacted);
}

static bool is_beside_others(struct run *r)
{
	struct sim_inode *dir = sim_walk(&r->fs, "/data/blocks", NULL, NULL);
	bool tmp = false;

	ASSERT(dir);
	for (size_t i = 0; i < dir->entries.n; i++)
		tmp |= strstr(dir->entries.items[i].name, ".tmp") != NULL;
	return dir->entries.n == 4 && !tmp;
}

/* The process died when the block had its name and the others were there yet. */
static void test_flipped_beside_others(void **state)
{
	struct run dead;
	unsigned n = 0;

	(void)state;
	do {
		struct errbuf eb = {.text = ""};

		if (n)
			run_done(&dead);
		start(&dead);
		dead.fs.die_at = ++n;
		(void)!store_compact(dead.s, &eb);
		store_close(TAKE(dead.s));
		simfs_restart(&dead.fs);
	} while (!is_beside_others(&dead));
	flip_all(&dead, 3);
	run_done(&dead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_flipped_beside_others),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
