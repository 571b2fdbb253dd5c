/* SPDX-License-Identifier: Apache-2.0
 *
 * Large answers have their turn one at a time, small ones pass them, and memory is kept for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/gzip/gzip.h"
#include "scraper/scrape/scrape_impl.h"
#include <string.h>

static struct scrape *stage_new(void)
{
	struct scrape *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->o.clock = &clock_system;
	scrape_queue_init(&s->to_decode, 0);
	scrape_room_init(s);
	return s;
}

static void stage_free(struct scrape *s)
{
	scrape_room_done(s);
	scrape_queue_done(&s->to_decode);
	free(s);
}

/* An answer of so many zeros, gzipped. */
static void answer(struct scrape_request *r, size_t n)
{
	uint8_t *raw = calloc(1, n);

	*r = (struct scrape_request) {.response = {.status = 200}};
	bytes_init(&r->response.body, NULL, 0);
	assert_int_equal(gzip_deflate(raw, n, 1, &r->response.body, NULL), 0);
	free(raw);
}

static void test_turns(void **state)
{
	struct scrape *s = stage_new();
	struct scrape_request big[3], small[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(big); i++) {
		answer(&big[i], SCRAPE_LARGE_BYTES + 1);
		scrape_queue_add(&s->to_decode, &big[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
		answer(&small[i], 1000);
		scrape_queue_add(&s->to_decode, &small[i]);
	}
	/* small ones go first, then one large one */
	assert_ptr_equal(scrape_room_take(s), &small[0]);
	assert_ptr_equal(scrape_room_take(s), &small[1]);
	assert_ptr_equal(scrape_room_take(s), &big[0]);
	assert_true(big[0].is_large);
	assert_false(small[0].is_large);
	/* while it is held a decoder that asks finds small ones alone */
	scrape_queue_add(&s->to_decode, &small[0]);
	assert_ptr_equal(scrape_room_take(s), &small[0]);
	scrape_room_leave(s, &small[0]);
	assert_true(s->large.is_taken);
	scrape_room_leave(s, &big[0]);
	assert_ptr_equal(scrape_room_take(s), &big[1]);
	/* at the end nobody waits for a turn that will not come */
	scrape_room_close(s, INT64_MAX);
	assert_null(scrape_room_take(s));
	scrape_room_enter(s, &small[1]);
	assert_false(small[1].is_large);
	assert_ptr_equal(scrape_room_poll(s), &big[2]);
	assert_null(scrape_room_poll(s));
	for (size_t i = 0; i < ARRAY_SIZE(big); i++)
		http_response_done(&big[i].response);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		http_response_done(&small[i].response);
	stage_free(s);
}

/* A backlog is decoded at the end for as long as the end may take. */
static void test_end(void **state)
{
	struct scrape *s = stage_new();
	struct scrape_request r[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		answer(&r[i], 1000);
		scrape_queue_add(&s->to_decode, &r[i]);
	}
	scrape_room_close(s, INT64_MAX);
	assert_ptr_equal(scrape_room_take(s), &r[0]);
	scrape_room_close(s, clock_monotonic_ns(&clock_system));
	assert_null(scrape_room_take(s));
	assert_ptr_equal(scrape_queue_poll(&s->to_decode), &r[1]);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		http_response_done(&r[i].response);
	stage_free(s);
}

struct liar {
	struct scrape *s;
	struct scrape_request r;
	_Atomic bool has_entered;
};

static void *liar_main(void *arg)
{
	struct liar *l = arg;

	scrape_room_enter(l->s, &l->r);
	l->has_entered = true;
	return NULL;
}

/* One that did not say that it is large waits as well. */
static void test_liar(void **state)
{
	struct scrape *s = stage_new();
	struct scrape_request big;
	struct liar l = {.s = s};
	pthread_t t;

	(void)state;
	answer(&big, SCRAPE_LARGE_BYTES + 1);
	scrape_queue_add(&s->to_decode, &big);
	assert_ptr_equal(scrape_room_take(s), &big);
	assert_int_equal(pthread_create(&t, NULL, liar_main, &l), 0);
	assert_false(l.has_entered);
	scrape_room_leave(s, &big);
	pthread_join(t, NULL);
	assert_true(l.has_entered);
	assert_true(l.r.is_large);
	assert_true(s->large.is_taken);
	http_response_done(&big.response);
	stage_free(s);
}

/* Charges of large answers end below the reserve; small ones still fit, and a refused charge refuses nobody else. */
static void test_reserve(void **state)
{
	struct budget process, scrape;
	enum { MIB = 1 << 20 };

	(void)state;
	budget_init(&process, NULL, "process", NULL, 0);
	budget_init(&scrape, &process, "scrape", "--scrape.max-memory", 16 * MIB);
	scrape.reserve_bytes = 4 * MIB;
	assert_int_equal(budget_charge(&scrape, 12 * MIB, NULL), 0);
	assert_int_equal(budget_charge(&scrape, BUDGET_LARGE_BYTES, NULL), -ENOMEM);
	assert_int_equal(budget_charge(&scrape, UINT64_MAX, NULL), -ENOMEM);
	assert_int_equal(process.used_bytes, 12 * MIB);
	for (int i = 0; i < 8; i++)
		assert_int_equal(budget_charge(&scrape, MIB / 2, NULL), 0);
	assert_int_equal(budget_charge(&scrape, 1, NULL), -ENOMEM);
	assert_int_equal(scrape.refused_total, 3);
	assert_int_equal(process.refused_total, 0);
	budget_release(&scrape, 16 * MIB);
	assert_int_equal(process.used_bytes, 0);
	assert_int_equal(scrape.peak_bytes, 16 * MIB);
}

/* What was decoded is given back once it is appended, and the turn of a large answer with it; what the loop wants to know stays. */
static void test_shed(void **state)
{
	struct scrape *s = stage_new();
	struct scrape_request *r = calloc(1, sizeof(*r));
	struct budget budget;
	uint64_t body;

	(void)state;
	assert_non_null(r);
	budget_init(&budget, NULL, "scrape", NULL, 0);
	r->is_last = true; /* it refers to no job */
	r->is_large = s->large.is_taken = true;
	r->response.body.budget = &budget;
	bytes_put(&r->response.body, "body", 4);
	body = budget.used_bytes;
	bytes_init(&r->inflated, &budget, 0);
	assert_non_null(bytes_reserve(&r->inflated, 1000));
	r->inflated.len = SCRAPE_LARGE_BYTES;
	arena_init(&r->arena, &budget);
	profile_init(&r->profile, &budget);
	assert_non_null(arena_alloc(&r->arena, 1000));
	assert_non_null(arena_alloc(&r->profile.arena, 1000));
	r->series.n_samples = 7;
	assert_true(budget.used_bytes > body);
	scrape_request_shed(s, r);
	assert_int_equal(budget.used_bytes, body);
	assert_int_equal(r->n_samples, 7);
	assert_int_equal(r->n_series, 0);
	assert_true(r->size_bytes > SCRAPE_LARGE_BYTES + 2000);
	assert_false(s->large.is_taken);
	scrape_request_free(s, r);
	assert_int_equal(budget.used_bytes, 0);
	stage_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_liar),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_shed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
