/* SPDX-License-Identifier: Apache-2.0
 *
 * The store under the threads that the pipeline gives it: one appends, one syncs, one maintains, two read. MODE=tsan finds races; here the
 * readers check that every part is whole at any moment, and at the end everything is there once.
 */
#include "tests/unit/store_gen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <pthread.h>

enum { TARGETS = 4, STEPS = 60 };

struct shared {
	struct store *s;
	_Atomic bool stop;
	_Atomic unsigned reads;
};

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
		usleep(2000);
	}
	return NULL;
}

static void *read_thread(void *arg)
{
	struct shared *x = arg;

	while (!x->stop) {
		struct store_stats st;

		free(gen_dump_store(x->s, true));
		store_stats(x->s, &st);
		x->reads++;
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

static void test_threads(void **state)
{
	char path[] = "/tmp/sonde-threads-XXXXXX";
	struct store_options o = {.segment_bytes = 64 << 10,
		.max_nodes = 1 << 12,
		.block_ns = 150 * NS_PER_MS,
		.fsync_ns = 20 * NS_PER_MS};
	struct gen g = {
		.state = 3, .n_functions = 50, .max_depth = 8, .max_rows = 10, .n_streams = 2};
	void *(*const bodies[])(void *) = {sync_thread, maintain_thread, read_thread, read_thread};
	pthread_t threads[ARRAY_SIZE(bodies)];
	struct shared x = {.stop = false};
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	char *text;

	(void)state;
	assert_non_null(mkdtemp(path));
	o.path = path;
	assert_int_equal(store_open(&o, &x.s, &eb), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, bodies[i], &x), 0);
	append_all(x.s, &g, clock_realtime_ns(&clock_system) - 120 * NS_PER_S);
	x.stop = true;
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(store_flush(x.s, &eb), 0);
	store_stats(x.s, &st);
	text = gen_dump_store(x.s, true);
	/* Two streams, two gauges and one coverage entry a scrape, and a line a row. */
	assert_int_equal(count_lines(text), TARGETS * STEPS * 5 + st.appended_rows);
	assert_true(x.reads > 0 && st.blocks > 0);
	free(text);
	store_close(x.s);
	assert_int_equal(fs_remove_all(&fs_system, path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
