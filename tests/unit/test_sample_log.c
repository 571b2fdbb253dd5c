/* SPDX-License-Identifier: Apache-2.0
 *
 * The sample log: slots, lateness, wall time, retention, merging, windows. Cursors under random
 * histories: test_cursor.c.
 */
#include "exporter/sample/log.h"
#include "lib/base/alloc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define REAL0 (1700000000LL * NS_PER_S)
#define BOOT0 (1000LL * NS_PER_S)

struct fixture {
	struct clock_virtual clock;
	struct stacks *stacks;
	struct sample_log *log;
};

static void set_up_with(struct fixture *f, const struct sample_log_options *with)
{
	struct sample_log_options o = *with;

	o.retention_s = 300;
	o.window_s = 10;
	o.start_id = 0xabc;
	clock_virtual_init(&f->clock, REAL0);
	f->clock.boot_ns = BOOT0;
	f->clock.mono_ns = BOOT0 - 5 * NS_PER_S;
	f->stacks = stacks_new(NULL);
	o.stacks = f->stacks;
	o.clock = &f->clock.clock;
	f->log = sample_log_new(&o);
}

static void set_up(struct fixture *f, uint64_t retention_bytes)
{
	set_up_with(f, &(struct sample_log_options) {.retention_bytes = retention_bytes});
}

static void tear_down(struct fixture *f)
{
	sample_log_freep(&f->log);
	stacks_freep(&f->stacks);
}

static int64_t offset(const struct fixture *f)
{
	return f->clock.boot_ns - f->clock.mono_ns;
}

/* A row at a time of CLOCK_BOOTTIME. */
static void put(struct fixture *f, int64_t boot_ns, uint32_t stack, uint32_t task, uint64_t weight)
{
	struct sample_row row = {.time_ns = (uint64_t)(boot_ns - offset(f)),
		.stack = stack,
		.task = task,
		.weight = weight};

	assert_int_equal(sample_log_append(f->log, &row), 0);
}

/* Everything before now is in. */
static void drained(struct fixture *f)
{
	sample_log_drained(f->log, f->clock.mono_ns, offset(f));
}

static struct sample_log_stats log_stats(const struct fixture *f)
{
	struct sample_log_stats s;

	sample_log_stats(f->log, &s);
	return s;
}

struct totals {
	uint64_t rows, samples, weight, task_sum;
};

static struct totals sum(const struct fixture *f, const struct sample_range *range)
{
	struct totals t = {.rows = 0};
	struct sample_rows rows;
	size_t pos = 0;

	while (sample_log_next(f->log, range, &pos, &rows))
		for (uint32_t i = 0; i < rows.n; i++) {
			uint32_t count = rows.count ? rows.count[i] : 1;

			if (rows.ms && (rows.ms[i] < rows.from_ms || rows.ms[i] >= rows.to_ms))
				continue;
			t.rows++;
			t.samples += count;
			t.weight += sample_rows_weight(&rows, i);
			t.task_sum += (uint64_t)rows.task[i] * count;
		}
	return t;
}

static void since(
	const struct fixture *f, const char *cursor, uint32_t span_s, struct sample_range *ret)
{
	assert_int_equal(sample_log_since(f->log, cursor, span_s, ret, NULL), 0);
}

static void test_slots_close_and_take_wall_time(void **state)
{
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	since(&f, "", 10, &r);
	assert_int_equal(r.duration_ns, 0);
	assert_int_equal(sum(&f, &r).rows, 0);

	put(&f, BOOT0 + 100, 1, 1, 10);
	put(&f, BOOT0 + NS_PER_S - 1, 1, 2, 10);
	put(&f, BOOT0 + NS_PER_S, 1, 4, 10); /* the next slot */
	clock_virtual_advance(&f.clock, NS_PER_S - 1);
	drained(&f);
	since(&f, "", 10, &r);
	assert_int_equal(sum(&f, &r).rows, 0); /* still open */
	clock_virtual_advance(&f.clock, 1);
	drained(&f);
	since(&f, "", 10, &r);
	assert_int_equal(sum(&f, &r).task_sum, 3);
	assert_int_equal(r.wall_ns, REAL0);
	assert_int_equal(r.duration_ns, NS_PER_S);
	assert_int_equal(r.from_ns, BOOT0);
	assert_string_equal(r.cursor, "0000000000000abc.1000");
	assert_int_equal(r.behind_s, 0);
	tear_down(&f);
}

static void test_late_rows_go_to_the_open_slot(void **state)
{
	struct sample_log_stats stats;
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	clock_virtual_advance(&f.clock, 2500 * NS_PER_MS);
	drained(&f);
	put(&f, BOOT0 + NS_PER_S, 1, 7, 10);
	put(&f, BOOT0 + 10000 * NS_PER_S, 1, 8, 10); /* a broken clock */
	sample_log_stats(f.log, &stats);
	assert_int_equal(stats.late, 2);
	since(&f, "", 10, &r);
	assert_int_equal(sum(&f, &r).rows, 0);
	clock_virtual_advance(&f.clock, NS_PER_S);
	drained(&f);
	since(&f, r.cursor, 10, &r);
	assert_int_equal(sum(&f, &r).task_sum, 15);
	tear_down(&f);
}

static void test_clock_step_moves_only_later_slots(void **state)
{
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	clock_virtual_advance(&f.clock, NS_PER_S);
	drained(&f);
	clock_virtual_step(&f.clock, -3600 * NS_PER_S);
	since(&f, "", 10, &r);
	assert_int_equal(r.wall_ns, REAL0);
	clock_virtual_advance(&f.clock, NS_PER_S);
	drained(&f);
	since(&f, r.cursor, 10, &r);
	assert_int_equal(r.wall_ns, REAL0 + NS_PER_S - 3600 * NS_PER_S);
	assert_int_equal(r.lost_ns, 0);
	tear_down(&f);
}

static void test_suspend_is_lost_and_parts_answers(void **state)
{
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	put(&f, BOOT0 + 1, 1, 1, 10);
	clock_virtual_advance(&f.clock, 300 * NS_PER_MS);
	f.clock.boot_ns += 20400 * NS_PER_MS; /* suspended; realtime goes on */
	f.clock.real_ns += 20400 * NS_PER_MS;
	drained(&f);
	put(&f, f.clock.boot_ns + 1, 1, 2, 10);
	clock_virtual_advance(&f.clock, 300 * NS_PER_MS);
	drained(&f);
	since(&f, "", 100, &r);
	assert_int_equal(sum(&f, &r).task_sum, 1);
	assert_int_equal(r.duration_ns, 300 * NS_PER_MS);
	assert_int_equal(r.wall_ns, REAL0);
	assert_int_equal(r.behind_s, 1);
	since(&f, r.cursor, 100, &r);
	assert_int_equal(sum(&f, &r).task_sum, 2);
	assert_int_equal(r.lost_ns, 20400 * NS_PER_MS);
	assert_int_equal(r.duration_ns, 300 * NS_PER_MS);
	assert_int_equal(r.wall_ns, REAL0 + 20700 * NS_PER_MS);
	assert_int_equal(r.behind_s, 0);
	sample_log_window(f.log, BOOT0, BOOT0 + 21 * NS_PER_S, &r);
	assert_int_equal(sum(&f, &r).task_sum, 3);
	assert_int_equal(r.duration_ns, 600 * NS_PER_MS);
	assert_int_equal(r.lost_ns, 20400 * NS_PER_MS);
	tear_down(&f);
}

static void test_short_suspend_within_a_second(void **state)
{
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	clock_virtual_advance(&f.clock, 300 * NS_PER_MS);
	drained(&f);
	f.clock.boot_ns += 200 * NS_PER_MS;
	f.clock.real_ns += 200 * NS_PER_MS;
	clock_virtual_advance(&f.clock, 100 * NS_PER_MS);
	drained(&f);
	clock_virtual_advance(&f.clock, 400 * NS_PER_MS);
	drained(&f);
	since(&f, "", 10, &r);
	assert_int_equal(r.duration_ns, 800 * NS_PER_MS);
	assert_int_equal(r.lost_ns, 200 * NS_PER_MS);
	tear_down(&f);
}

/* A clock whose reader loses its CPU for 30 ms between every third pair of readings. */
static int64_t preempted_monotonic(struct clock *c)
{
	static unsigned reads;
	struct clock_virtual *v = (struct clock_virtual *)c;

	if (++reads % 3 == 0)
		clock_virtual_advance(v, 30 * NS_PER_MS);
	return v->mono_ns;
}

static void test_lost_cpu_between_clocks_is_no_suspend(void **state)
{
	struct clock_virtual clock;

	(void)state;
	clock_virtual_init(&clock, REAL0);
	clock.boot_ns += 7777;
	clock.clock.monotonic_ns = preempted_monotonic;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(clock_boot_offset_ns(&clock.clock), 7777);
		assert_int_equal(clock_wall_offset_ns(&clock.clock), REAL0 - NS_PER_S - 7777);
	}
}

static void test_windows_are_exact_to_the_millisecond(void **state)
{
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	for (int ms = 0; ms < 5000; ms++)
		put(&f, BOOT0 + ms * NS_PER_MS + 500, 1, 1, 1);
	clock_virtual_advance(&f.clock, 4500 * NS_PER_MS);
	drained(&f);
	for (int64_t from = 0; from < 4500; from += 37)
		for (int64_t len = 1; from + len <= 4500; len += 391) {
			sample_log_window(f.log, BOOT0 + from * NS_PER_MS,
				BOOT0 + (from + len) * NS_PER_MS, &r);
			assert_int_equal(sum(&f, &r).rows, len);
			assert_int_equal(r.duration_ns, len * NS_PER_MS);
			assert_int_equal(r.wall_ns, REAL0 + from * NS_PER_MS);
		}
	/* What has not been drained is not served. */
	sample_log_window(f.log, BOOT0 + 4000 * NS_PER_MS, BOOT0 + 5000 * NS_PER_MS, &r);
	assert_int_equal(sum(&f, &r).rows, 500);
	assert_int_equal(r.duration_ns, 500 * NS_PER_MS);
	tear_down(&f);
}

static void test_retention_drops_without_loss(void **state)
{
	struct sample_log_stats stats;
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	for (int i = 0; i < 1000; i++) {
		put(&f, f.clock.boot_ns, 1, 1, 1);
		clock_virtual_advance(&f.clock, NS_PER_S);
		drained(&f);
	}
	sample_log_stats(f.log, &stats);
	assert_int_equal(stats.slots, 300);
	assert_int_equal(stats.rows, 300);
	assert_int_equal(stats.lost_seconds, 0);
	since(&f, "0000000000000000.5", 1000, &r);
	assert_true(r.restarted);
	assert_int_equal(sum(&f, &r).rows, 300);
	since(&f, "0000000000000abc.1199", 1000, &r);
	assert_false(r.restarted);
	assert_int_equal(r.lost_ns, 500 * NS_PER_S);
	tear_down(&f);
}

static void test_merging_keeps_totals(void **state)
{
	struct sample_log_stats stats;
	struct sample_range r;
	struct totals t;
	struct fixture f;
	uint64_t weight = 0;

	(void)state;
	set_up(&f, 40000);
	for (uint32_t i = 0; i < 100; i++) {
		for (uint32_t k = 0; k < 100; k++) {
			put(&f, f.clock.boot_ns + k, k % 5, k % 3, 10 + k % 2);
			weight += 10 + k % 2;
		}
		clock_virtual_advance(&f.clock, NS_PER_S);
		drained(&f);
	}
	sample_log_stats(f.log, &stats);
	assert_true(stats.merged_slots >= 50);
	assert_true(stats.bytes <= 40000);
	assert_int_equal(stats.lost_seconds, 0);
	since(&f, "0000000000000000.5", 1000, &r);
	t = sum(&f, &r);
	assert_int_equal(t.samples, 10000);
	assert_int_equal(t.weight, weight);
	assert_true(t.rows < 10000);
	assert_int_equal(r.duration_ns, 100 * NS_PER_S);
	assert_int_equal(r.wall_ns, REAL0);

	/* A cursor in the middle of a merged slot loses its rest, and says so. */
	since(&f, "0000000000000abc.1004", 10, &r);
	assert_int_equal(r.lost_ns, 5 * NS_PER_S);
	assert_int_equal(sum(&f, &r).samples, 1000);

	/* A window that cuts a merged slot leaves it out. */
	sample_log_window(f.log, BOOT0 + 5 * NS_PER_S, BOOT0 + 20 * NS_PER_S, &r);
	assert_int_equal(sum(&f, &r).samples, 1000);
	assert_int_equal(r.lost_ns, 5 * NS_PER_S);
	assert_int_equal(r.duration_ns, 10 * NS_PER_S);
	tear_down(&f);
}

static void test_above_the_cap_the_oldest_go(void **state)
{
	struct sample_log_stats stats;
	struct fixture f;
	uint32_t stack = 1;

	(void)state;
	set_up(&f, 40000);
	for (int i = 0; i < 100; i++) {
		for (uint32_t k = 0; k < 100; k++)
			put(&f, f.clock.boot_ns + k, stack++, k,
				10); /* no two alike: merging gains nothing */
		clock_virtual_advance(&f.clock, NS_PER_S);
		drained(&f);
	}
	sample_log_stats(f.log, &stats);
	assert_true(stats.bytes <= 40000 && stats.bytes > 20000);
	assert_int_equal(stats.merged_slots, 0);
	assert_int_equal(stats.lost_seconds + stats.slots, 100);
	tear_down(&f);
}

static void test_more_weights_than_a_byte_can_count(void **state)
{
	struct sample_range r;
	struct fixture f;
	uint64_t weight = 0;

	(void)state;
	set_up(&f, 1 << 20);
	for (uint64_t k = 0; k < 1000; k++) {
		put(&f, BOOT0 + (int64_t)k, 1, 1, k % 400 + 1000);
		weight += k % 400 + 1000;
	}
	clock_virtual_advance(&f.clock, NS_PER_S);
	drained(&f);
	since(&f, "", 10, &r);
	assert_int_equal(sum(&f, &r).weight, weight);
	tear_down(&f);
}

static void test_refused_rows_are_counted(void **state)
{
	struct sample_log_options o = {
		.retention_s = 10, .window_s = 10, .retention_bytes = 1 << 20};
	struct sample_row row = {.weight = 1};
	_cleanup_(sample_log_freep)
	struct sample_log *log = NULL;
	struct sample_log_stats stats;
	struct clock_virtual clock;
	struct sample_range range;
	struct budget budget;
	int n = 0;

	(void)state;
	clock_virtual_init(&clock, REAL0);
	budget_init(&budget, NULL, "log", NULL, 10000);
	o.clock = &clock.clock;
	o.budget = &budget;
	log = sample_log_new(&o);
	row.time_ns = (uint64_t)clock.mono_ns;
	while (sample_log_append(log, &row) == 0)
		n++;
	assert_true(n >= 256 && n < 1000);
	sample_log_stats(log, &stats);
	assert_int_equal(stats.appended, n);
	assert_int_equal(stats.refused, 1);
	clock_virtual_advance(&clock, NS_PER_S);
	sample_log_drained(log, clock.mono_ns, clock.boot_ns - clock.mono_ns);
	assert_int_equal(sample_log_since(log, "", 10, &range, NULL), 0);
	assert_int_equal(range.lost_samples, 1);
	assert_int_equal(stats.rows, n);
	assert_true(budget.used_bytes <= 10000);
	sample_log_freep(&log);
	assert_int_equal(budget.used_bytes, 0);
}

/* An answer counts what was lost in its own seconds, and no more. */
static void test_lost_samples_are_of_their_seconds(void **state)
{
	static const struct {
		int64_t from_ms, to_ms;
		uint64_t want;
	} windows[] = {{0, 1000, 5}, {1000, 2000, 0}, {500, 2500, 12}, {2000, 3000, 7},
		{0, 4000, 12},
		/* while no drain came round */
		{4000, 5000, 2}, {5000, 6000, 3}, {6000, 7000, 2}, {7000, 8000, 3},
		{8000, 9000, 0}};
	struct sample_range r;
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	sample_log_lose(f.log, 2);
	sample_log_lose(f.log, 3);
	for (int i = 0; i < 2; i++) {
		clock_virtual_advance(&f.clock, NS_PER_S);
		drained(&f);
	}
	sample_log_lose(f.log, 7);
	for (int i = 0; i < 2; i++) {
		clock_virtual_advance(&f.clock, NS_PER_S);
		drained(&f);
	}
	sample_log_lose(f.log, 10);
	clock_virtual_advance(&f.clock, 4 * NS_PER_S);
	drained(&f);
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		sample_log_window(f.log, BOOT0 + windows[i].from_ms * NS_PER_MS,
			BOOT0 + windows[i].to_ms * NS_PER_MS, &r);
		if (r.lost_samples != windows[i].want)
			fail_msg("window %zu: %llu", i, (unsigned long long)r.lost_samples);
	}
	since(&f, "", 10, &r);
	assert_int_equal(r.lost_samples, 22);
	since(&f, "0000000000000abc.1001", 10, &r);
	assert_int_equal(r.lost_samples, 17);
	since(&f, r.cursor, 10, &r);
	assert_int_equal(r.lost_samples, 0);
	tear_down(&f);
}

static void test_malformed_cursors(void **state)
{
	static const char *const bad[] = {"x", ".", "0000000000000abc", "0000000000000abc.",
		"0000000000000abc.-1", "0000000000000ABC.1", "0000000000000abc.1x",
		"0000000000000abc 1", "0000000000000abc.99999999999999999999999",
		"0000000000000abc.2000", "0000000000000abc.18446744073709551615"};
	struct fixture f;

	(void)state;
	set_up(&f, 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct errbuf eb = {.text = ""};
		struct sample_range r;

		assert_int_equal(sample_log_since(f.log, bad[i], 10, &r, &eb), -EINVAL);
		assert_non_null(strstr(eb.text, "cursor"));
	}
	tear_down(&f);
}

static void test_tree_is_rebuilt_below_the_log(void **state)
{
	_cleanup_free_ uint64_t *live = NULL;
	_cleanup_free_ uint32_t *remap = NULL;
	uint64_t tasks[1] = {0};
	struct sample_range r;
	struct sample_rows rows;
	struct fixture f;
	size_t pos = 0;
	uint32_t id = 0;

	(void)state;
	set_up(&f, 1 << 20);
	for (uint64_t frame = 1; frame <= 100; frame++)
		assert_int_equal(stacks_add(f.stacks, &frame, 1, &id), 0);
	put(&f, BOOT0, id, 5, 1);
	clock_virtual_advance(&f.clock, NS_PER_S);
	drained(&f);
	live = xcalloc(2, sizeof(*live));
	remap = xcalloc(stacks_count(f.stacks), sizeof(*remap));
	sample_log_mark(f.log, tasks, live);
	assert_int_equal(tasks[0], 1 << 5);
	stacks_compact(f.stacks, live, remap);
	sample_log_remap_stacks(f.log, remap);
	assert_int_equal(stacks_count(f.stacks), 2);
	since(&f, "", 10, &r);
	assert_true(sample_log_next(f.log, &r, &pos, &rows));
	assert_int_equal(stacks_frame(f.stacks, rows.stack[0]), 100);
	tear_down(&f);
}

/* Of an event whose weights never repeat, with two values: in open, closed and merged slots. */
static void test_own_and_second_weights(void **state)
{
	struct sample_range r;
	struct sample_rows rows;
	uint64_t weight = 0, weight_2 = 0, first = 0, second = 0;
	struct fixture f;
	size_t pos = 0;

	(void)state;
	set_up_with(
		&f, &(struct sample_log_options) {
			    .retention_bytes = 20000, .own_weights = true, .second_weight = true});
	for (uint32_t i = 0; i < 1000; i++) {
		struct sample_row row = {
			.time_ns = (uint64_t)(BOOT0 + i * (NS_PER_S / 100) - offset(&f)),
			.stack = 1 + i % 3,
			.task = 1,
			.weight = 1000003ULL * i,
			.weight_2 = 7 * i};

		assert_int_equal(sample_log_append(f.log, &row), 0);
		weight += row.weight;
		weight_2 += row.weight_2;
	}
	clock_virtual_advance(&f.clock, 25 * NS_PER_S);
	drained(&f);
	since(&f, "", 300, &r);
	while (sample_log_next(f.log, &r, &pos, &rows)) {
		assert_null(rows.period);
		for (uint32_t i = 0; i < rows.n; i++) {
			first += sample_rows_weight(&rows, i);
			second += rows.value_2[i];
		}
	}
	assert_int_equal(first, weight);
	assert_int_equal(second, weight_2);
	assert_true(log_stats(&f).merged_slots > 0);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots_close_and_take_wall_time),
		cmocka_unit_test(test_late_rows_go_to_the_open_slot),
		cmocka_unit_test(test_clock_step_moves_only_later_slots),
		cmocka_unit_test(test_suspend_is_lost_and_parts_answers),
		cmocka_unit_test(test_short_suspend_within_a_second),
		cmocka_unit_test(test_lost_cpu_between_clocks_is_no_suspend),
		cmocka_unit_test(test_windows_are_exact_to_the_millisecond),
		cmocka_unit_test(test_retention_drops_without_loss),
		cmocka_unit_test(test_merging_keeps_totals),
		cmocka_unit_test(test_above_the_cap_the_oldest_go),
		cmocka_unit_test(test_more_weights_than_a_byte_can_count),
		cmocka_unit_test(test_own_and_second_weights),
		cmocka_unit_test(test_refused_rows_are_counted),
		cmocka_unit_test(test_lost_samples_are_of_their_seconds),
		cmocka_unit_test(test_malformed_cursors),
		cmocka_unit_test(test_tree_is_rebuilt_below_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
