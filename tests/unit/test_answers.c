/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared answers: what is kept, what is dropped, who waits for whom, whichever way a run ends.
 */
#include "scraper/api/answers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { LIMIT = 64 << 10 };

struct asked {
	struct answers *a;
	const char *key;
	uint64_t stamp;
	bool immutable;
	struct answers_wait wait;
	int n_woken;
	struct answer got;
	struct answers_run *run;
	struct errbuf eb;
	int r;
};

static void wake(void *arg)
{
	((struct asked *)arg)->n_woken++;
}

static void ask(struct asked *q)
{
	struct bytes key = {};

	bytes_put_str(&key, q->key);
	bytes_done(&q->got.body);
	q->wait.wake = wake;
	q->wait.arg = q;
	q->r = answers_begin(
		q->a, &key, q->stamp, q->immutable, &q->wait, &q->got, &q->run, &q->eb);
	bytes_done(&key);
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

enum { N_OTHERS = 4 };

/* However a run ends, no thread waits for it: those that asked the same meanwhile are woken once and get its answer or error, or begin
 * anew when its own client had gone. */
static void test_shared(void **state)
{
	static const struct {
		int end, r;
	} cases[] = {{0, 0}, {-EIO, -EIO}, {-ECANCELED, -EAGAIN}, {-ETIMEDOUT, -EAGAIN}};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct metrics *metrics = metrics_new();
		struct answers *a = answers_new(NULL, metrics);
		struct asked first = {.a = a, .key = "k", .stamp = 1}, other[N_OTHERS];
		_cleanup_bytes_ struct bytes text = {};

		ask(&first);
		assert_int_equal(first.r, ANSWERS_RUN);
		for (int i = 0; i < N_OTHERS; i++) {
			other[i] = first;
			ask(&other[i]);
			assert_int_equal(other[i].r, ANSWERS_WAIT);
			assert_int_equal(other[i].n_woken, 0);
		}
		if (cases[c].end)
			answers_fail(a, &first.run, cases[c].end, "its text");
		else
			publish(&first, "all", 0);
		for (int i = 0; i < N_OTHERS; i++) {
			struct asked *o = &other[i];

			assert_int_equal(o->n_woken, 1);
			assert_int_equal(answers_take(a, &o->wait, &o->got, &o->eb), cases[c].r);
			assert_null(o->wait.run);
			if (!cases[c].r)
				assert_true(says(o, "all"));
			if (cases[c].r == -EIO)
				assert_string_equal(o->eb.text, "its text");
			bytes_done(&o->got.body);
		}
		/* The first that begins anew runs, the rest wait for it. */
		for (int i = 0; i < N_OTHERS; i++) {
			ask(&other[i]);
			assert_int_equal(other[i].r, i ? ANSWERS_WAIT : ANSWERS_RUN);
		}
		publish(&other[0], "anew", 0);
		for (int i = 1; i < N_OTHERS; i++) {
			assert_int_equal(other[i].n_woken, 2);
			assert_int_equal(answers_take(a, &other[i].wait, &other[i].got, NULL), 0);
			assert_true(says(&other[i], "anew"));
			bytes_done(&other[i].got.body);
		}
		metrics_print(metrics, &text);
		bytes_put_u8(&text, 0);
		assert_non_null(strstr((char *)text.data,
			cases[c].r == -EAGAIN ? "sonde_queries_shared_total 3\n"
					      : "sonde_queries_shared_total 7\n"));
		answers_freep(&a);
		metrics_freep(&metrics);
	}
}

/* Whoever leaves is not woken, whether the run has ended or not; nothing stays behind (the debug build sees leaks). */
static void test_leave(void **state)
{
	struct answers *a = answers_new(NULL, NULL);
	struct asked first = {.a = a, .key = "k", .stamp = 1}, second = first, third = first,
		     fourth = first;

	(void)state;
	answers_leave(a, &second.wait); /* waits for nothing */
	ask(&first);
	ask(&second);
	ask(&third);
	answers_leave(a, &second.wait);
	/* Other parts are another query. */
	fourth.stamp = 2;
	ask(&fourth);
	assert_int_equal(fourth.r, ANSWERS_RUN);
	publish(&fourth, "x", 0);
	publish(&first, "x", 0);
	assert_int_equal(second.n_woken, 0);
	assert_int_equal(third.n_woken, 1);
	answers_leave(a, &third.wait);
	answers_leave(a, &third.wait);
	assert_null(third.wait.run);
	answers_freep(&a);
}

/* The answer that was there is lost to one whose budget has no room, not to the others. */
static void test_no_memory(void **state)
{
	struct answers *a = answers_new(NULL, NULL);
	struct asked first = {.a = a, .key = "k", .stamp = 1}, second = first, third = first;
	struct budget budget;

	(void)state;
	budget_init(&budget, NULL, "query", "--query.max-memory", 100);
	ask(&first);
	ask(&second);
	ask(&third);
	publish(&first, "large", 1000);
	bytes_init(&second.got.body, &budget, 0);
	assert_int_equal(answers_take(a, &second.wait, &second.got, &second.eb), -ENOMEM);
	assert_int_equal(answers_take(a, &third.wait, &third.got, &third.eb), 0);
	assert_true(says(&third, "large"));
	bytes_done(&second.got.body);
	bytes_done(&third.got.body);
	assert_int_equal(budget.used_bytes, 0);
	answers_freep(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_leave),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
