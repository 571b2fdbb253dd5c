/* SPDX-License-Identifier: Apache-2.0
 *
 * The store under the threads that the pipeline gives it: one appends, one syncs, one maintains, two read; and with an administrator beside
 * them who deletes a target, links snapshots and writes blocks anew, under a cap on the size. MODE=tsan finds races; here the readers check
 * that every part is whole at any moment, and at the end everything is there once.
 */
#include "tests/unit/store_gen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <pthread.h>

enum { TARGETS = 4, STEPS = 60, MAX_THREADS = 5 };

struct shared {
	struct store *s;
	char path[32];
	_Atomic bool stop;
	_Atomic unsigned reads, rounds;
};
#define DELETED_INSTANCE "host-3:7273"

static void *sync_thread(void *arg)
{
	struct shared *x = arg;

	while (!x->stop)
		if (store_sync_wait(x->s, 5 * NS_PER_MS) && store_sync(x->s) < 0)
			err_panic("sync failed");
	return NULL;
}

static void *maintain_thread(void *arg)
{
	struct shared *x = arg;
	struct errbuf eb = {.text = ""};

	while (!x->stop) {
		if (store_maintain(x->s, &eb) < 0)
			err_panic("maintain: %s", eb.text);
		usleep(2000); /* the others get the lock, too */
	}
	return NULL;
}

static void *read_thread(void *arg)
{
	struct shared *x = arg;

	while (!x->stop || !x->reads) {
		struct store_stats st;

		free(gen_dump_store(x->s, true));
		store_stats(x->s, &st);
		x->reads++;
	}
	return NULL;
}

/* A snapshot can be read as a whole, whatever went on while it was made; it is not kept. */
static void take_snapshot(struct shared *x)
{
	char name[STORE_SNAPSHOT_NAME];
	struct errbuf eb = {.text = ""};
	_cleanup_free_ char *path = NULL;
	struct store *s;

	if (store_snapshot(x->s, x->rounds % 2, name, &eb) < 0)
		err_panic("snapshot: %s", eb.text);
	path = xasprintf("%s/snapshots/%s", x->path, name);
	if (store_open(&(struct store_options) {.path = path, .read_only = true}, &s, &eb) < 0)
		err_panic("open of a snapshot: %s", eb.text);
	free(gen_dump_store(s, true));
	store_close(s);
	if (fs_remove_all(&fs_system, path) < 0)
		err_panic("remove %s", path);
}

static void delete_target(struct shared *x)
{
	const struct store_matcher m = {
		.op = STORE_EQ, .name = "instance", .value = DELETED_INSTANCE};
	struct errbuf eb = {.text = ""};
	uint64_t n;

	if (store_delete(x->s, &m, 1, INT64_MIN + 1, INT64_MAX - 1, &n, &eb) < 0)
		err_panic("delete: %s", eb.text);
}

static void *admin_thread(void *arg)
{
	struct shared *x = arg;
	struct errbuf eb = {.text = ""};

	while (!x->stop || x->rounds < 3) {
		delete_target(x);
		take_snapshot(x);
		if (x->rounds % 3 == 0 && store_clean_tombstones(x->s, &eb) < 0)
			err_panic("clean: %s", eb.text);
		x->rounds++;
	}
	return NULL;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')) != NULL; text++)
		n++;
	return n;
}

static void append_all(struct store *s, struct gen *g, int64_t start_ns)
{
	struct errbuf eb = {.text = ""};
	struct store_result res;

	for (uint64_t step = 0; step < STEPS; step++)
		for (unsigned t = 0; t < TARGETS; t++) {
			struct gen_scrape *x =
				gen_scrape(g, t, step, start_ns + (int64_t)step * NS_PER_S);

			if (store_append(s, &x->s, &res, &eb) < 0)
				fail_msg("append: %s", eb.text);
			gen_scrape_free(x);
		}
}

/* Opens a store, works with all `bodies` beside the appends and ends them; the directory is x->path. */
static void work(
	struct shared *x, struct store_options *o, void *(*const bodies[])(void *), size_t n)
{
	struct gen g = {
		.state = 3, .n_functions = 50, .max_depth = 8, .max_rows = 10, .n_streams = 2};
	pthread_t threads[MAX_THREADS];
	struct errbuf eb = {.text = ""};

	assert_non_null(mkdtemp(x->path));
	o->path = x->path;
	assert_int_equal(store_open(o, &x->s, &eb), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, bodies[i], x), 0);
	append_all(x->s, &g, clock_realtime_ns(&clock_system) - 120 * NS_PER_S);
	x->stop = true;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(store_flush(x->s, &eb), 0);
}

static void finish(struct shared *x)
{
	store_close(x->s);
	assert_int_equal(fs_remove_all(&fs_system, x->path), 0);
}

/* Small blocks, so that there are many; nothing is old or much enough to be dropped, but that is looked at. */
static struct store_options options(int64_t block_ns)
{
	return (struct store_options) {.segment_bytes = 64 << 10,
		.max_nodes = 1 << 12,
		.block_ns = block_ns,
		.fsync_ns = 20 * NS_PER_MS,
		.retention_bytes = 1ULL << 30};
}

static void test_threads(void **state)
{
	struct store_options o = options(150 * NS_PER_MS);
	void *(*const bodies[])(void *) = {sync_thread, maintain_thread, read_thread, read_thread};
	struct shared x = {.path = "/tmp/sonde-threads-XXXXXX"};
	struct store_stats st;
	char *text;

	(void)state;
	work(&x, &o, bodies, ARRAY_SIZE(bodies));
	store_stats(x.s, &st);
	text = gen_dump_store(x.s, true);
	/* Two streams, two gauges and one coverage entry a scrape, and a line a row. */
	assert_int_equal(count_lines(text), TARGETS * STEPS * 5 + st.appended_rows);
	assert_true(x.reads > 0 && st.blocks > 0);
	free(text);
	finish(&x);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		n++;
	return n;
}

static void test_threads_with_admin(void **state)
{
	struct store_options o = options(100 * NS_PER_MS);
	void *(*const bodies[])(void *) = {
		sync_thread, maintain_thread, read_thread, read_thread, admin_thread};
	struct shared x = {.path = "/tmp/sonde-threads-XXXXXX"};
	struct store_stats st;
	char *text;

	(void)state;
	work(&x, &o, bodies, ARRAY_SIZE(bodies));
	delete_target(&x);
	store_stats(x.s, &st);
	text = gen_dump_store(x.s, true);
	/* Nothing is left of one target, the others are there as a whole. */
	assert_int_equal(count(text, DELETED_INSTANCE), 0);
	for (unsigned t = 0; t < TARGETS - 1; t++) {
		_cleanup_free_ char *name = xasprintf("host-%u:7273", t);

		assert_true(count(text, name) >= STEPS * 5);
	}
	assert_true(x.reads > 0 && x.rounds >= 3 && st.blocks_quarantined == 0);
	free(text);
	finish(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads), cmocka_unit_test(test_threads_with_admin)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
