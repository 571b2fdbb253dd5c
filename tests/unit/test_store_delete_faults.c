/* SPDX-License-Identifier: Apache-2.0
 *
 * A deletion over several blocks and the head under every fault: the process or the power gone at each of its operations, no space and
 * no memory at each wish, each byte of its log flipped. What was acknowledged stays; what was not is done as a whole or not at all.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum { STEPS = 8, FLUSH_EVERY = 3, RETRY_S = 11 * 60 };

/* Two blocks and a log, closed; what it answers, and what it answers after the deletion. */
static struct run base;
static char *before, *after;

static void must(int r, const struct errbuf *eb)
{
	if (r < 0)
		fail_msg("%s", err_text(eb, r));
}

/* Steps 1 to 6: some of each block, and of what is in memory. */
static int delete_steps(struct run *r, struct errbuf *eb)
{
	const struct store_matcher m = {.op = STORE_EQ, .name = "job", .value = "node"};
	const int64_t step_ns = 15 * NS_PER_S;
	uint64_t n;

	return store_delete(
		r->s, &m, 1, run_start_ns + step_ns, run_start_ns + 6 * step_ns, &n, eb);
}

static void start(struct run *r)
{
	struct errbuf eb = {.text = ""};

	run_copy(r, &base);
	must(run_open(r, &eb), &eb);
}

static int setup(void **state)
{
	struct errbuf eb = {.text = ""};
	struct run r;

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
	before = gen_dump_store(base.s, true);
	store_close(TAKE(base.s));
	simfs_restart(&base.fs);
	start(&r);
	must(delete_steps(&r, &eb), &eb);
	after = gen_dump_store(r.s, true);
	run_done(&r);
	assert_true(strlen(after) > 0 && strlen(after) < strlen(before));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(before);
	free(after);
	run_done(&base);
	return 0;
}

/* True when it answers as after the deletion. */
static bool is_done(struct run *r, const char *what, unsigned n)
{
	char *have = gen_dump_store(r->s, true);
	bool done = !strcmp(have, after);
	struct store_stats st;

	store_stats(r->s, &st);
	if ((!done && strcmp(have, before) != 0) || st.blocks_quarantined)
		fail_msg("%s at %u: a part of a deletion", what, n);
	free(have);
	return done;
}

static void restart(struct run *r, bool power)
{
	struct errbuf eb = {.text = ""};

	store_close(TAKE(r->s));
	if (power)
		simfs_power_cut(&r->fs);
	else
		simfs_restart(&r->fs);
	must(run_open(r, &eb), &eb);
}

/* Whatever came before: the same deletion works, and the blocks can be written anew. */
static void finish(struct run *r, const char *what, unsigned n)
{
	struct errbuf eb = {.text = ""};
	struct store_stats st;

	must(delete_steps(r, &eb), &eb);
	assert_true(is_done(r, what, n));
	clock_virtual_advance(&r->clock, RETRY_S * NS_PER_S);
	must(store_clean_tombstones(r->s, &eb), &eb);
	store_stats(r->s, &st);
	assert_int_equal(st.tombstones, 0);
	assert_true(is_done(r, what, n));
	restart(r, true);
	assert_true(is_done(r, what, n));
	run_done(r);
}

static void test_death(void **state)
{
	unsigned n_done = 0, n_not = 0;

	(void)state;
	for (unsigned power = 0; power < 2; power++) {
		bool over = false;

		for (unsigned n = 1; !over; n++) {
			struct errbuf eb = {.text = ""};
			struct run r;
			bool done;
			int e;

			start(&r);
			r.fs.die_at = n;
			e = delete_steps(&r, &eb);
			over = !e && r.fs.n_ops < n;
			done = is_done(&r, "death", n);
			assert_int_equal(done, !e);
			restart(&r, power);
			done = is_done(&r, power ? "power cut" : "death", n);
			if (!e)
				assert_true(done);
			else
				*(done ? &n_done : &n_not) += 1;
			finish(&r, "after a death", n);
		}
	}
	/* Both happen. */
	assert_true(n_done > 0 && n_not > 20);
}

/* Fails in a process that lives on: nothing happened, now and after a restart. */
static void failed(struct run *r, int e, const char *what, unsigned n)
{
	assert_int_equal(is_done(r, what, n), !e);
	restart(r, n % 2);
	assert_int_equal(is_done(r, what, n), !e);
}

static void test_no_space(void **state)
{
	(void)state;
	for (unsigned restarts = 0; restarts < 2; restarts++) {
		bool over = false;

		for (unsigned n = 1; !over; n++) {
			struct errbuf eb = {.text = ""};
			struct run r;
			int e;

			start(&r);
			r.fs.n_space_ops = 0;
			r.fs.no_space_from = n;
			r.fs.no_space_to = UINT64_MAX;
			e = delete_steps(&r, &eb);
			over = !e && r.fs.n_space_ops < n;
			if (restarts)
				failed(&r, e, "no space", n);
			r.fs.no_space_from = 0;
			finish(&r, "after no space", n);
		}
	}
}

static void test_no_memory(void **state)
{
	bool over = false;
	unsigned n;

	(void)state;
	for (n = 1; !over; n++) {
		struct errbuf eb = {.text = ""};
		struct run r;
		int e;

		start(&r);
		alloc_fail_after(n);
		e = delete_steps(&r, &eb);
		alloc_fail_after(0);
		over = !e && n > 500;
		failed(&r, e, "no memory", n);
		finish(&r, "after no memory", n);
		n += n > 200 ? n / 20 : 0;
	}
	assert_true(n > 200);
}

/* The log is there after a death between its name and the blocks; a damaged one goes to quarantine and what it asked is not done. */
static void test_flipped_log(void **state)
{
	struct sim_inode *data, *log;
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	struct run dead, r;
	unsigned n = 0;

	(void)state;
	do {
		if (n)
			run_done(&dead);
		start(&dead);
		dead.fs.die_at = ++n;
		must(delete_steps(&dead, &eb) == -EIO ? 0 : -EINVAL, &eb);
		store_close(TAKE(dead.s));
		simfs_restart(&dead.fs);
		data = sim_walk(&dead.fs, "/data", NULL, NULL);
		ASSERT(data);
		log = sim_find(&data->entries, "deletion.json", 13);
	} while (!log);
	for (size_t i = 0; i < log->now_size; i++) {
		log->now[i] ^= (uint8_t)(1 << i % 8);
		run_copy(&r, &dead);
		log->now[i] ^= (uint8_t)(1 << i % 8);
		must(run_open(&r, &eb), &eb);
		store_stats(r.s, &st);
		assert_int_equal(st.blocks_quarantined, 1);
		assert_int_equal(st.tombstones, 0);
		run_done(&r);
	}
	run_done(&dead);
}

/* Every block loses a byte, so that only the log could say what was in it. */
static void damage_blocks(struct run *r)
{
	struct sim_inode *blocks = sim_walk(&r->fs, "/data/blocks", NULL, NULL);

	for (size_t i = 0; blocks && i < blocks->entries.n; i++) {
		struct sim_inode *dir = blocks->entries.items[i].inode;
		struct sim_inode *meta =
			dir->is_dir ? sim_find(&dir->entries, "meta.json", 9) : NULL;

		if (meta && meta->now_size)
			meta->now[meta->now_size / 2] ^= 1;
	}
}

/* With the power gone, segments whose removal was not durable are there again, and the damaged blocks do not stand for them. */
static void never_back(struct run *r, const char *what, unsigned n)
{
	struct errbuf eb = {.text = ""};
	char *have;

	store_close(TAKE(r->s));
	simfs_power_cut(&r->fs);
	damage_blocks(r);
	must(run_open(r, &eb), &eb);
	have = gen_dump_store(r->s, true);
	for (const char *line = have; *line; line = strchr(line, '\n') + 1) {
		_cleanup_free_ char *one = xstrndup(line, (size_t)(strchr(line, '\n') + 1 - line));

		if (!strstr(after, one))
			fail_msg("%s at %u: deleted and there again: %s", what, n, one);
	}
	free(have);
	run_done(r);
}

/* Until it is done, as someone would who is told that it is not. */
static void delete_at_last(struct run *r)
{
	struct errbuf eb = {.text = ""};
	int e = -EAGAIN;

	for (unsigned i = 0; e < 0 && i < 4; i++) {
		e = delete_steps(r, &eb);
		clock_virtual_advance(&r->clock, RETRY_S * NS_PER_S);
	}
	must(e, &eb);
}

static void test_never_back(void **state)
{
	uint64_t n_syncs = 1;

	(void)state;
	/* A sync of a directory fails once. Each cut draws anew what it keeps of what was not synced. */
	for (unsigned n = 1; n <= n_syncs; n++)
		for (unsigned cut = 0; cut < 8; cut++) {
			struct run r;

			start(&r);
			r.fs.random = hash_mix(n * 8 + cut);
			r.fs.n_dir_syncs = 0;
			r.fs.fail_dir_sync_at = n;
			delete_at_last(&r);
			n_syncs = MAX(n_syncs, r.fs.n_dir_syncs);
			never_back(&r, "a failed sync of a directory", n);
		}
	assert_true(n_syncs > 5);
	/* The process dies, the next one deletes. */
	for (unsigned n = 1, n_ops = 1; n <= n_ops; n++) {
		struct errbuf eb = {.text = ""};
		struct run r;

		start(&r);
		r.fs.random = hash_mix(n);
		r.fs.die_at = n;
		if (delete_steps(&r, &eb) < 0)
			n_ops = n + 1;
		restart(&r, false);
		delete_at_last(&r);
		never_back(&r, "a death before", n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_flipped_log),
		cmocka_unit_test(test_never_back),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
