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

static struct sim_inode *compacted_file(struct run *r, const char *name)
{
	struct sim_inode *dir = sim_walk(&r->fs, "/data/blocks", NULL, NULL);

	ASSERT(dir);
	assert_int_equal(dir->entries.n, 1);
	dir = dir->entries.items[0].inode;
	return sim_find(&dir->entries, name, strlen(name));
}

static void test_flipped(void **state)
{
	static const char *const files[] = {"meta.json", "index", "symbols", "stacks", "profiles",
		"rows", "profiles_10m", "rows_10m", "profiles_1h", "rows_1h"};

	/* `make test-crash` takes each byte. */
	const size_t step = getenv("SONDE_CRASH_ROUNDS") ? 1 : 7;

	struct errbuf eb = {.text = ""};
	struct run compacted;

	(void)state;
	start(&compacted);
	must(store_compact(compacted.s, &eb), &eb);
	store_close(TAKE(compacted.s));
	simfs_restart(&compacted.fs);
	for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
		size_t size = 1;

		for (size_t i = 0; i < size; i += step) {
			struct sim_inode *f;
			struct store_stats st;
			struct run r;

			run_copy(&r, &compacted);
			f = compacted_file(&r, files[k]);
			ASSERT(f);
			size = f->now_size;
			f->now[i] ^= (uint8_t)(1 << i % 8);
			must(run_open(&r, &eb), &eb);
			store_stats(r.s, &st);
			/* It replaces others, so every byte of it is looked at. */
			assert_int_equal(st.blocks, 0);
			assert_int_equal(st.blocks_quarantined, 1);
			run_done(&r);
		}
	}
	run_done(&compacted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_flipped),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
