/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared answers: what is kept, what is dropped, who waits for whom, whichever way a run ends.
 */
#include "scraper/api/answers.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

enum { LIMIT = 64 << 10 };

struct asked {
	struct answers *a;
	const char *key;
	uint64_t stamp;
	bool immutable;
	_Atomic bool cancel;
	struct answer got;
	struct answers_run *run;
	struct errbuf eb;
	int r;
};

static void ask(struct asked *q)
{
	struct bytes key = {};

	bytes_put_str(&key, q->key);
	bytes_done(&q->got.body);
	q->r = answers_begin(
		q->a, &key, q->stamp, q->immutable, &q->cancel, &q->got, &q->run, &q->eb);
	bytes_done(&key);
}

static void *ask_thread(void *arg)
{
	ask(arg);
	return NULL;
}

static void publish(struct asked *q, const char *text, size_t pad)
{
	struct answer done = {.file_name = "name"};

	bytes_put_str(&done.body, text);
	for (size_t i = 0; i < pad; i++)
		bytes_put_u8(&done.body, 'x');
	answers_publish(q->a, &q->run, &done);
	bytes_done(&done.body);
}

static bool says(const struct asked *q, const char *text)
{
	return q->got.body.len >= strlen(text) && !memcmp(q->got.body.data, text, strlen(text)) &&
	       !strcmp(q->got.file_name, "name");
}

/* Until `n` threads wait or have gone past it: what follows must hold in both cases, so this only makes the waiting one likely. */
static void let_wait(void)
{
	usleep(20000);
}

static void test_kept(void **state)
{
	struct budget budget;
	struct metrics *metrics = metrics_new();
	struct answers *a;
	struct asked q = {.key = "k", .stamp = 1, .immutable = true};

	(void)state;
	budget_init(&budget, NULL, "query_cache", "--query.cache-bytes", LIMIT);
	a = q.a = answers_new(&budget, metrics);
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	publish(&q, "first", 0);
	assert_null(q.run);
	assert_true(budget.used_bytes > 0);
	ask(&q);
	assert_int_equal(q.r, ANSWERS_KEPT);
	assert_true(says(&q, "first"));
	/* Another question, and the same over other parts, which drops what was kept. */
	q.key = "l";
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	answers_fail(a, &q.run, -EIO, "the disk");
	q.key = "k";
	q.stamp = 2;
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	assert_int_equal(budget.used_bytes, 0);
	publish(&q, "second", 0);
	q.stamp = 1;
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	/* Over a head nothing is kept, and nothing that was kept is looked for. */
	publish(&q, "third", 0);
	q.immutable = false;
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	publish(&q, "fourth", 0);
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	publish(&q, "fifth", 0);
	bytes_done(&q.got.body);
	answers_freep(&a);
	assert_int_equal(budget.used_bytes, 0);
	metrics_freep(&metrics);
}

/* The limit holds with any number of answers; the one that is asked again and again stays. */
static void test_limit(void **state)
{
	struct budget budget;
	struct asked q = {.stamp = 1, .immutable = true};
	struct answers *a;
	char key[16];

	(void)state;
	budget_init(&budget, NULL, "query_cache", "--query.cache-bytes", LIMIT);
	a = q.a = answers_new(&budget, NULL);
	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		q.key = key;
		ask(&q);
		assert_int_equal(q.r, ANSWERS_RUN);
		publish(&q, key, i < 1500 ? 0 : 3000);
		assert_true(budget.used_bytes <= LIMIT);
		q.key = "0";
		ask(&q);
		assert_int_equal(q.r, ANSWERS_KEPT);
	}
	/* Larger than its share: not kept, and nothing went for it. */
	q.key = "large";
	ask(&q);
	publish(&q, "large", LIMIT / 2);
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	answers_fail(a, &q.run, -EIO, "");
	q.key = "0";
	ask(&q);
	assert_int_equal(q.r, ANSWERS_KEPT);
	bytes_done(&q.got.body);
	answers_freep(&a);
	assert_int_equal(budget.used_bytes, 0);
	/* Without bytes nothing is kept. */
	budget_init(&budget, NULL, "query_cache", "--query.cache-bytes", 0);
	a = q.a = answers_new(&budget, NULL);
	ask(&q);
	publish(&q, "0", 0);
	ask(&q);
	assert_int_equal(q.r, ANSWERS_RUN);
	answers_fail(a, &q.run, -EIO, "");
	answers_freep(&a);
}

enum { N_THREADS = 4 };

/* However a run ends: those that asked the same meanwhile get that, or one of them runs when its client had gone. */
static void test_shared(void **state)
{
	static const int ends[] = {0, -EIO, -ECANCELED, -ETIMEDOUT};

	(void)state;
	for (size_t e = 0; e < 4; e++) {
		struct answers *a = answers_new(NULL, NULL);
		struct asked first = {.a = a, .key = "k", .stamp = 1}, other[N_THREADS];
		pthread_t threads[N_THREADS];
		unsigned n_runs = 0;

		ask(&first);
		assert_int_equal(first.r, ANSWERS_RUN);
		for (int i = 0; i < N_THREADS; i++) {
			other[i] = (struct asked) {.a = a, .key = "k", .stamp = 1};
			pthread_create(&threads[i], NULL, ask_thread, &other[i]);
		}
		let_wait();
		if (ends[e])
			answers_fail(a, &first.run, ends[e], "its text");
		else
			publish(&first, "all", 0);
		/* Each that has to run ends, so that the next may. */
		for (int i = 0; i < N_THREADS; i++) {
			struct timespec until;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += 200000000;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
			while (pthread_timedjoin_np(threads[i], NULL, &until) != 0)
				for (int k = 0; k < N_THREADS; k++)
					if (__atomic_load_n(&other[k].run, __ATOMIC_ACQUIRE)) {
						publish(&other[k], "all", 0);
						n_runs++;
					}
		}
		for (int i = 0; i < N_THREADS; i++) {
			if (other[i].run) {
				publish(&other[i], "all", 0);
				n_runs++;
			}
			if (other[i].r == ANSWERS_SHARED)
				assert_true(says(&other[i], "all"));
			else if (other[i].r < 0)
				assert_true(
					ends[e] == -EIO && strstr(other[i].eb.text, "its text"));
			bytes_done(&other[i].got.body);
		}
		if (ends[e] == -ECANCELED || ends[e] == -ETIMEDOUT)
			assert_true(n_runs >= 1);
		answers_freep(&a);
	}
}

static void test_cancelled_while_waiting(void **state)
{
	struct answers *a = answers_new(NULL, NULL);
	struct asked first = {.a = a, .key = "k", .stamp = 1},
		     second = {.a = a, .key = "k", .stamp = 1}, third = second;
	pthread_t thread;

	(void)state;
	ask(&first);
	pthread_create(&thread, NULL, ask_thread, &second);
	atomic_store(&second.cancel, true);
	pthread_join(thread, NULL);
	assert_int_equal(second.r, -ECANCELED);
	/* Other parts are another query. */
	third.stamp = 2;
	ask(&third);
	assert_int_equal(third.r, ANSWERS_RUN);
	publish(&third, "x", 0);
	publish(&first, "x", 0);
	answers_freep(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_cancelled_while_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
