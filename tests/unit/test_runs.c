/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings as the kernel half reads them: runs and heads in plain memory, written by exporter/proc/runs.c and read by
 * bpf/process/heads.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "bpf/process/recent.h"
#include "bpf/process/search.h"
#include "exporter/proc/maps.h"
#include "exporter/proc/runs.h"
#include "lib/base/cleanup.h"

enum { N_BUCKETS = 4, N_WORDS = 3000 };
static struct process_bucket buckets[N_BUCKETS];
static __u64 words[N_WORDS];

static const __u64 *process_word_at(__u32 i)
{
	return i < N_WORDS ? &words[i] : NULL;
}

static struct runs *fresh(void)
{
	memset(buckets, 0, sizeof(buckets));
	memset(words, 0, sizeof(words));
	return runs_new(&(struct runs_memory) {.buckets = buckets,
		.n_buckets = N_BUCKETS,
		.words = (uint64_t *)words,
		.n_words = N_WORDS});
}

/* The word of an address, as the walker finds it; 0 when no mapping holds it. */
static uint64_t look_up(struct process_place *p, uint64_t addr)
{
	p->addr = addr;
	if (addr - p->start >= p->end - p->start) {
		p->lo = 0;
		p->hi = p->n;
		for (int i = 0; i < PROCESS_SEARCH_STEPS; i++)
			if (process_search_turn(p))
				break;
		if (!p->n || !process_take(p))
			return 0;
	}
	return process_word(p, addr);
}

static void every_address_of_a_run_is_found(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 70; n++) {
		struct runs *r = fresh();
		struct maps *m = NULL;
		struct process_place place;
		uint64_t run;

		for (uint64_t i = 0; i < n; i++)
			assert_int_equal(
				maps_add(&m,
					&(struct mapping) {.start = 0x1000 + i * 0x3000,
						.end = 0x2000 + i * 0x3000,
						.file_off = i * 0x100,
						.binary = (uint32_t)i,
						.kind = i % 5 == 4 ? MAPPING_JIT : MAPPING_FILE}),
				0);
		run = maps_run(m, r);
		assert_int_equal(PROCESS_RUN_N(run), n);
		assert_true(maps_run(m, r) == run);
		process_place_init(&place, run);
		assert_true(look_up(&place, 0xfff) == 0);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t at = 0x1000 + i * 0x3000;
			uint64_t want = i % 5 == 4 ? ABI_FRAME(ABI_FRAME_JIT, at)
					: i	   ? ABI_NATIVE(i, i * 0x100)
						   : ABI_FRAME(ABI_FRAME_RAW, at);

			assert_true(look_up(&place, at) == want);
			assert_true(look_up(&place, at + 0xfff) == want + 0xfff);
			assert_true(look_up(&place, at + 0x1000) == 0);
		}
		maps_put(&m);
		runs_freep(&r);
	}
}

static void a_changed_array_gets_another_run(void **state)
{
	struct runs *r = fresh();
	struct maps *m = NULL, *child;
	struct runs_stats s;
	uint64_t run, second;

	(void)state;
	runs_expire(r, 1000);
	assert_int_equal(maps_add(&m, &(struct mapping) {.start = 1, .end = 2}), 0);
	run = maps_run(m, r);
	child = maps_ref(m);
	assert_int_equal(maps_add(&m, &(struct mapping) {.start = 3, .end = 4}), 0);
	assert_true(maps_run(child, r) == run);
	second = maps_run(m, r);
	assert_true(second != run);
	maps_put(&child);
	maps_put(&m);
	runs_stats(r, &s);
	assert_int_equal(s.runs, 2); /* a walk may still be reading them */
	runs_expire(r, 999 + PROCESS_GRACE_NS);
	runs_stats(r, &s);
	assert_int_equal(s.runs, 2);
	runs_expire(r, 1000 + PROCESS_GRACE_NS);
	runs_stats(r, &s);
	assert_int_equal(s.runs, 0);
	assert_int_equal(s.words, 0);
	runs_freep(&r);
}

static void words_run_out_and_come_back(void **state)
{
	struct runs *r = fresh();
	struct runs_stats s;
	uint64_t run[300], *at;
	int n = 0;

	(void)state;
	while ((run[n] = runs_alloc(r, 4, &at)))
		n++;
	assert_int_equal(n, (N_WORDS - 3) / 12);
	runs_stats(r, &s);
	assert_int_equal(s.no_words, 1);
	for (int i = 0; i < n; i++)
		runs_release(r, run[i]);
	assert_true(runs_alloc(r, 4, &at) == 0);
	runs_expire(r, PROCESS_GRACE_NS + 1);
	for (int i = 0; i < n; i++)
		assert_true(runs_alloc(r, 4, &at) != 0);
	assert_true(runs_alloc(r, PROCESS_MAX_MAPPINGS + 1, &at) == 0);
	runs_freep(&r);
}

static void each_publication_has_a_number(void **state)
{
	struct runs *r = fresh();
	uint64_t image = process_image(1000, 1), *at, run = runs_alloc(r, 2, &at);
	const struct process_head *h;
	uint32_t flags;

	(void)state;
	assert_true(runs_set(r, 5, image, run, PROCESS_JIT_NO_FP, NULL));
	h = &buckets[1].heads[process_find(&buckets[1], 5)];
	flags = h->flags;
	assert_true(flags & PROCESS_JIT_NO_FP);
	assert_true(runs_set(r, 9, image, run, 0, NULL));
	assert_true(runs_set(r, 5, image, run, PROCESS_JIT_NO_FP, NULL));
	assert_true(h->flags != flags && h->flags & PROCESS_JIT_NO_FP);
	runs_freep(&r);
}

/* What was found in a run is known without it as long as the head says the same. */
static void mappings_are_kept_for_the_next_walk(void **state)
{
	struct process_recent r = {0};
	struct process_place p = {0};
	uint64_t image = 7, run = 8, now = 1000;
	uint32_t flags = 256;

	(void)state;
	process_recent_begin(&r, image, run, flags, now);
	for (uint64_t i = 0; i <= PROCESS_RECENT; i++) {
		p = (struct process_place) {
			.start = i * 0x1000, .end = i * 0x1000 + 0x800, .base = i << 40};
		process_remember(&r, &p);
	}
	for (int change = 0; change < 5; change++) {
		struct process_recent later = r;

		process_recent_begin(&later, image + (change == 1), run + (change == 2),
			flags + (change == 3) * 256, now + PROCESS_GRACE_NS - (change != 4));
		p.addr = 0x17ff;
		assert_int_equal(process_recall(&later, &p), change == 0);
		if (change == 0) {
			assert_true(process_word(&p, 0x1123) == (1ULL << 40) + 0x123);
			p.addr = 0x1800;
			assert_false(process_recall(&later, &p));
			p.addr = 0; /* the seventh took its place */
			assert_false(process_recall(&later, &p));
			p.addr = PROCESS_RECENT * 0x1000;
			assert_true(process_recall(&later, &p));
		}
	}
}

static void heads_tell_images_apart(void **state)
{
	struct runs *r = fresh();
	uint64_t first = process_image(1000, 1), second = process_image(1000, 2), *at, run;
	struct process_head *h;
	struct runs_stats s;

	(void)state;
	assert_int_equal(process_image_start(second, 2), 1000);
	run = runs_alloc(r, 2, &at);
	assert_true(runs_set(r, 5, first, run, 0, NULL));
	h = &buckets[1].heads[process_find(&buckets[1], 5)];
	assert_true((process_run(h, first) & ~PROCESS_RUN_TAG_MASK) == run);
	assert_true(process_run(h, second) == 0);
	/* the kernel half sees the next image and makes the head its own, then a late writer comes */
	process_begin(h, second);
	process_set_run(h, first, run);
	assert_true(process_run(h, second) == 0);
	runs_clear(r, 5, first);
	assert_true(runs_image(r, 5) == second);
	runs_clear(r, 5, second);
	assert_true(runs_image(r, 5) == 0);
	/* a bucket has four heads */
	for (uint32_t pid = 4; pid <= 16; pid += 4)
		assert_true(runs_set(r, pid, first, run, 0, NULL));
	assert_false(runs_set(r, 20, first, run, 0, NULL));
	assert_true(runs_set(r, 21, first, run, 0, NULL));
	runs_stats(r, &s);
	assert_int_equal(s.no_head, 1);
	runs_freep(&r);
}

static void copies_are_rationed(void **state)
{
	uint64_t full = 0;
	int n = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		n += process_may_copy((__u64 *)&full, 1000000, 1000, 32);
	assert_int_equal(n, 32);
	for (int i = 0; i < 100; i++)
		n += process_may_copy((__u64 *)&full, 1000000 + (uint64_t)i * 100, 1000, 32);
	assert_int_equal(n, 32 + 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_address_of_a_run_is_found),
		cmocka_unit_test(a_changed_array_gets_another_run),
		cmocka_unit_test(words_run_out_and_come_back),
		cmocka_unit_test(heads_tell_images_apart),
		cmocka_unit_test(each_publication_has_a_number),
		cmocka_unit_test(mappings_are_kept_for_the_next_walk),
		cmocka_unit_test(copies_are_rationed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
