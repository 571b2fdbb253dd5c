/* SPDX-License-Identifier: Apache-2.0
 *
 * What surrounds the drain and needs no kernel: the order in which held records go on, CPU lists, coverage, the governor in
 * virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/sample/coverage.h"
#include "exporter/sample/cpus.h"
#include "exporter/sample/governor.h"
#include "exporter/sample/hold.h"
#include "exporter/sample/run_cost.h"
#include "lib/base/clock.h"
#include "tests/unit/sideband_records.h"

/* What the sink saw, as text: "m5" side-band at 5, "s6" sample at 6, "s4!" late. */
struct seen {
	char text[4096];
};

static void see(struct seen *s, char kind, uint64_t t, bool late)
{
	size_t n = strlen(s->text);

	snprintf(s->text + n, sizeof(s->text) - n, "%s%c%llu%s", n ? " " : "", kind,
		(unsigned long long)t, late ? "!" : "");
}

static void see_sideband(void *ctx, const struct sideband *e)
{
	see(ctx, e->kind == SIDEBAND_LOST ? 'l' : 'm', e->time_ns, false);
}

static void see_sample(void *ctx, const struct abi_record *r, bool late)
{
	assert_int_equal(r->pid, 7);
	see(ctx, 's', r->time_ns, late);
}

static void see_code(void *ctx, const struct abi_code *c, bool early)
{
	assert_false(early);
	assert_int_equal(c->object, 0x123);
	see(ctx, 'c', c->time_ns, false);
}

static struct sample_sink sink_of(struct seen *s)
{
	return (struct sample_sink) {
		.ctx = s, .sideband = see_sideband, .code = see_code, .sample = see_sample};
}

static void add_sample(struct hold *h, uint64_t t, uint16_t n_user, enum abi_cut cut)
{
	union {
		struct abi_record r;
		uint64_t words[32];
	} u = {.r = {.type = ABI_RECORD_SAMPLE, .time_ns = t, .pid = 7, .n_user = n_user}};

	if (cut != ABI_CUT_NONE)
		u.r.frames[n_user - 1] = ABI_FRAME(ABI_FRAME_TRUNCATED, cut);
	hold_add(h, HOLD_SAMPLE, &u, sizeof(struct abi_record) + n_user * 8U);
}

static void add_sideband(struct hold *h, uint64_t t)
{
	_cleanup_bytes_ struct bytes b = {0};
	size_t len = record_comm(&b, t, 7, 7, "x", false);

	hold_add(h, HOLD_SIDEBAND, b.data, len);
}

static void merged_by_time(void **state)
{
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct hold h;

	(void)state;
	hold_init(&h, &sink, NULL, 1 << 20);
	add_sample(&h, 5, 2, ABI_CUT_NONE);
	add_sample(&h, 3, 2, ABI_CUT_FP_INSANE);
	add_sideband(&h, 3); /* arrived later, yet before the sample of the same time */
	add_sample(&h, 9, 1, ABI_CUT_NONE);
	add_sideband(&h, 1);
	hold_flush(&h, 0);
	assert_string_equal(seen.text, "");
	hold_flush(&h, 5);
	assert_string_equal(seen.text, "m1 m3 s3 s5");
	assert_int_equal(h.n, 1);
	add_sample(&h, 7, 2, ABI_CUT_NONE);
	hold_flush(&h, 8);
	add_sample(&h, 4, 2, ABI_CUT_NONE); /* too late for its place */
	add_sideband(&h, 6);
	hold_flush(&h, 10);
	assert_string_equal(seen.text, "m1 m3 s3 s5 s7 s4! m6 s9");
	assert_int_equal(h.stats.samples, 5);
	assert_int_equal(h.stats.sideband, 3);
	assert_int_equal(h.stats.late_samples, 1);
	assert_int_equal(h.stats.late_sideband, 1);
	assert_int_equal(h.stats.stacks[ABI_CUT_FP_INSANE], 1);
	assert_int_equal(h.stats.stacks[ABI_CUT_NONE], 4);
	hold_done(&h);
}

/* Code objects come before the sample that was recorded behind them. */
static void code_objects_keep_their_place(void **state)
{
	struct abi_code c = {
		.type = ABI_RECORD_CODE, .time_ns = 5, .pid = 7, .object = 0x123, .check = 1};
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct hold h;

	(void)state;
	hold_init(&h, &sink, NULL, 1 << 20);
	add_sample(&h, 7, 1, ABI_CUT_NONE);
	hold_add(&h, HOLD_SAMPLE, &c, sizeof(c));
	add_sample(&h, 5, 1, ABI_CUT_NONE);
	add_sideband(&h, 5);
	hold_flush(&h, 5);
	assert_string_equal(seen.text, "m5 c5 s5");
	hold_add(&h, HOLD_SAMPLE, &c, sizeof(c) - 1);
	c.event = ABI_N_EVENTS;
	hold_add(&h, HOLD_SAMPLE, &c, sizeof(c));
	assert_int_equal(h.stats.bad_records, 2);
	assert_int_equal(h.stats.samples, 1);
	h.sink.code = NULL;
	c.event = 0;
	hold_add(&h, HOLD_SAMPLE, &c, sizeof(c));
	hold_flush(&h, 10);
	assert_string_equal(seen.text, "m5 c5 s5 s7");
	hold_done(&h);
}

/* What should not wait is known as long as it is held, however many drains read rings meanwhile. */
static void what_is_unknown_is_known_while_held(void **state)
{
	struct abi_code c = {
		.type = ABI_RECORD_CODE, .time_ns = 8, .pid = 7, .object = 0x123, .check = 1};
	struct abi_record r = {
		.type = ABI_RECORD_SAMPLE, .time_ns = 6, .pid = 7, .flags = ABI_FLAG_COPIED};
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct hold h;

	(void)state;
	hold_init(&h, &sink, NULL, 1 << 20);
	assert_int_equal(hold_unknown_ns(&h), UINT64_MAX);
	add_sample(&h, 4, 1, ABI_CUT_NONE);
	add_sideband(&h, 3);
	assert_int_equal(hold_unknown_ns(&h), UINT64_MAX);
	hold_add(&h, HOLD_SAMPLE, &c, sizeof(c));
	hold_add(&h, HOLD_SAMPLE, &r, sizeof(r));
	assert_int_equal(hold_unknown_ns(&h), 6);
	hold_flush(&h, 5);
	assert_int_equal(hold_unknown_ns(&h), 6);
	hold_flush(&h, 7);
	assert_int_equal(hold_unknown_ns(&h), 8);
	hold_flush(&h, 8);
	assert_int_equal(hold_unknown_ns(&h), UINT64_MAX);
	hold_done(&h);
}

static void bad_records_are_dropped(void **state)
{
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct abi_record r = {.type = ABI_RECORD_SAMPLE, .time_ns = 5, .n_user = 1};
	struct hold h;

	(void)state;
	hold_init(&h, &sink, NULL, 1 << 20);
	hold_add(&h, HOLD_SAMPLE, &r, sizeof(r));     /* a word is missing */
	hold_add(&h, HOLD_SAMPLE, &r, sizeof(r) - 1); /* cut */
	r.n_user = 0;
	r.type = 99;
	hold_add(&h, HOLD_SAMPLE, &r, sizeof(r));
	r.type = ABI_RECORD_PACKED_SAMPLE; /* could not be unpacked */
	hold_add(&h, HOLD_SAMPLE, &r, sizeof(r));
	hold_add(&h, HOLD_SIDEBAND, "nonsense", 8);
	hold_flush(&h, UINT64_MAX);
	assert_string_equal(seen.text, "");
	assert_int_equal(h.stats.bad_records, 5);
	hold_done(&h);
}

static void full_room_hands_on_early(void **state)
{
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct hold h;

	(void)state;
	hold_init(&h, &sink, NULL, 3 * sizeof(struct abi_record));
	for (uint64_t t = 1; t <= 4; t++)
		add_sample(&h, t, 0, ABI_CUT_NONE);
	assert_string_equal(seen.text, "s1 s2 s3");
	assert_int_equal(h.stats.overflowed, 3);
	hold_flush(&h, 10);
	assert_string_equal(seen.text, "s1 s2 s3 s4");
	assert_int_equal(h.stats.dropped[ABI_EVENT_CPU], 0);
	hold_done(&h);
}

static void refused_memory_drops_counted(void **state)
{
	struct budget budget;
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct hold h;

	(void)state;
	budget_init(&budget, NULL, "test", "--test", 2048);
	hold_init(&h, &sink, &budget, 1 << 20);
	for (uint64_t t = 1; t <= 200; t++)
		add_sample(&h, t, 0, ABI_CUT_NONE);
	hold_flush(&h, UINT64_MAX);
	assert_true(h.stats.overflowed > 0);
	assert_int_equal(h.stats.samples + h.stats.dropped[ABI_EVENT_CPU], 200);
	assert_int_equal(h.stats.samples, 200);
	hold_done(&h);
}

/* A sample without its code object or its copied stack is still one. */
static void only_samples_count_as_dropped(void **state)
{
	struct abi_code c = {
		.type = ABI_RECORD_CODE, .time_ns = 8, .pid = 7, .object = 0x123, .check = 1};
	struct abi_stack s = {.type = ABI_RECORD_STACK, .time_ns = 8};
	struct budget budget;
	struct seen seen = {""};
	struct sample_sink sink = sink_of(&seen);
	struct hold h;

	(void)state;
	budget_init(&budget, NULL, "test", "--test", 8);
	hold_init(&h, &sink, &budget, 1 << 20);
	hold_add(&h, HOLD_SAMPLE, &c, sizeof(c));
	hold_add(&h, HOLD_SAMPLE, &s, sizeof(s));
	assert_int_equal(h.stats.bad_records, 0);
	assert_int_equal(h.stats.dropped[ABI_EVENT_CPU], 0);
	add_sample(&h, 8, 0, ABI_CUT_NONE);
	assert_int_equal(h.stats.dropped[ABI_EVENT_CPU], 1);
	hold_done(&h);
}

static void cpu_lists(void **state)
{
	static const struct {
		const char *list, *want; /* want: NULL for an error */
	} cases[] = {
		{"0-1\n", "1100000000"},
		{"0", "1000000000"},
		{"0-2,4,8-9\n", "1110100011"},
		{"8-4096", "0000000011"},
		{"", "0000000000"},
		{"\n", "0000000000"},
		{"x", NULL},
		{"0-", NULL},
		{"3-1", NULL},
		{"1;2", NULL},
		{"0,,1", NULL},
		{"-1", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool up[10];
		int r = cpus_parse_list(cases[i].list, up, 10);

		assert_int_equal(r, cases[i].want ? 0 : -EBADMSG);
		for (size_t k = 0; cases[i].want && k < 10; k++)
			if (up[k] != (cases[i].want[k] == '1'))
				fail_msg("\"%s\": CPU %zu", cases[i].list, k);
	}
}

static void observe(
	struct coverage *c, unsigned busy0, unsigned busy1, uint64_t s0, uint64_t s1, int64_t t)
{
	uint64_t sampled[2] = {s0, s1};
	char text[512];

	/* user 1 of 4 parts, nice, system and irq the rest; idle, iowait, steal and guest do not count */
	snprintf(text, sizeof(text),
		"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 %u 1 2 77777 66666 3 4 5555 444 33\ncpu1 %u 0 0 0 "
		"0 0 0 0 0 0\nintr 1 2 3\nctxt 5\n",
		busy0, busy1);
	coverage_observe(c, text, strlen(text), sampled, t);
}

static void coverage_tells_missing_ticks(void **state)
{
	struct coverage *c = coverage_new(2);

	(void)state;
	observe(c, 100, 100, 500, 500, 1 * NS_PER_S);
	assert_true(coverage_ratio(c) == 0);
	assert_int_equal(coverage_busy_ns(c, 0), (100 + 1 + 2 + 3 + 4) * 10 * NS_PER_MS);
	observe(c, 200, 200, 500 + NS_PER_S, 500 + NS_PER_S / 2, 2 * NS_PER_S);
	observe(c, 400, 400, 500 + 3 * NS_PER_S, 500 + NS_PER_S * 3 / 2, 4 * NS_PER_S);
	assert_true(coverage_ratio(c) > 0.74 && coverage_ratio(c) < 0.76);
	assert_true(coverage_worst_ratio(c) > 0.49 && coverage_worst_ratio(c) < 0.51);
	/* much later the old gap has faded */
	observe(c, 400, 400, 500 + 3 * NS_PER_S, 500 + NS_PER_S * 3 / 2, 600 * NS_PER_S);
	observe(c, 1400, 1400, 500 + 13 * NS_PER_S, 500 + NS_PER_S * 23 / 2, 610 * NS_PER_S);
	assert_true(coverage_worst_ratio(c) > 0.99);
	coverage_freep(&c);
}

static void intervals(void **state)
{
	static const struct {
		uint32_t hz;
		bool is_calm;
		int64_t want_ms;
	} cases[] = {
		{19, false, 100}, /* processes come and go */
		{19, true, 1000},
		{1, true, 1000},
		{0, true, 1000},
		{99, true, 1000},
		{200, true, 500},
		{400, true, 250},
		{500, true, 200},
		{1000, true, 100},
		{5000, true, 100},
		{999, false, 100},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(drain_interval_ns(cases[i].hz, cases[i].is_calm),
			cases[i].want_ms * NS_PER_MS);
}

/* A tenfold cost shows at once and as such, also after a day. */
static void run_cost_is_that_of_the_last_runs(void **state)
{
	const uint64_t day_runs = 86400ULL * 38, minutes_runs = 600 * 38;
	struct run_cost c = {.runs = 0};
	uint64_t runs = 0, measured = 0, ns = 0, before;

	(void)state;
	for (uint64_t i = 0; i < day_runs / 64; i++) {
		runs += 64;
		measured++;
		ns += 3000;
		run_cost_update(&c, runs, measured, ns);
	}
	assert_int_equal(c.ns, runs * 3000);
	before = c.ns;
	for (uint64_t i = 0; i < minutes_runs / 64; i++) {
		runs += 64;
		measured++;
		ns += 30000;
		run_cost_update(&c, runs, measured, ns);
	}
	assert_int_equal(c.ns - before, minutes_runs / 64 * 64 * 30000);
}

static void run_cost_waits_for_a_measured_run(void **state)
{
	struct run_cost c = {.runs = 0};

	(void)state;
	run_cost_update(&c, 0, 0, 0);
	run_cost_update(&c, 20, 0, 0);
	assert_int_equal(c.ns, 0);
	run_cost_update(&c, 64, 1, 5000);
	assert_int_equal(c.ns, 64 * 5000);
	run_cost_update(&c, 100, 1, 5000);
	assert_int_equal(c.ns, 64 * 5000);
	run_cost_update(&c, 164, 3, 5000 + 2 * 7000);
	assert_int_equal(c.ns, 64 * 5000 + 100 * 7000);
}

static const enum abi_event CPU = ABI_EVENT_CPU, FAULTS = ABI_EVENT_PAGE_FAULTS;

/* What an exporter costs, by stream: only samples follow the rates. */
struct world {
	int64_t now;
	double per_tick_ns;   /* of a sample of the clock */
	double per_fault_ns;  /* of a sample of page faults: one a period of a CPU, at most */
	double churn_ratio;   /* of side-band records and /proc, of all CPUs' time */
	double symbols_ratio; /* of making tables */
	struct governor_cost cost;
	uint32_t n_online, hz; /* of the clock */
	struct governor_rates rates;
};

static struct governor *governor_of_clock(uint32_t base_hz, double max_overhead)
{
	return governor_new(&(struct governor_options) {.base_hz = base_hz,
		.max_hz = 999,
		.max_overhead = max_overhead,
		.shares = {[ABI_EVENT_CPU] = 8}});
}

static struct governor_rate rate_of(struct governor *g, enum abi_event event)
{
	struct governor_stats s;

	governor_stats(g, &s);
	return s.events[event];
}

static uint32_t step(struct governor *g, struct world *w)
{
	w->rates = governor_step(g, w->now, &w->cost, w->n_online);
	return w->hz = w->rates.hz[CPU];
}

/* Lets time pass in steps of 100 ms as the drain does. */
static void pass(struct governor *g, struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds * 10; i++) {
		uint64_t ticks_ns = (uint64_t)(w->per_tick_ns * w->hz * w->n_online / 10);
		uint64_t faults_ns =
			(uint64_t)(w->per_fault_ns * w->rates.hz[FAULTS] * w->n_online / 10);
		double others = w->churn_ratio + w->symbols_ratio;

		w->now += NS_PER_S / 10;
		w->cost.rate_ns[CPU] += ticks_ns;
		w->cost.rate_ns[FAULTS] += faults_ns;
		w->cost.all_ns += ticks_ns + faults_ns +
				  (uint64_t)(others * w->n_online * (double)NS_PER_S / 10);
		step(g, w);
	}
}

static void governor_lowers_and_raises(void **state)
{
	struct governor *g = governor_of_clock(100, 0.005);
	struct world w = {.now = 50, .n_online = 4, .per_tick_ns = 10000};
	struct governor_rate s;

	(void)state;
	assert_int_equal(step(g, &w), 100);
	pass(g, &w, 200); /* 100 Hz × 10 µs = 0.1 % */
	s = rate_of(g, CPU);
	assert_int_equal(s.hz, 100);
	assert_int_equal(s.lowered, 0);
	assert_int_equal(s.reason, GOVERNOR_FREQUENCY);
	assert_true(s.rate_ratio > 0.00099 && s.rate_ratio < 0.00101);

	w.per_tick_ns = 150000; /* 1.5 %: 50 Hz is 0.75 %, 25 Hz 0.375 % */
	pass(g, &w, 300);
	s = rate_of(g, CPU);
	assert_int_equal(w.hz, 25);
	assert_int_equal(s.wanted_hz, 100);
	assert_int_equal(s.reason, GOVERNOR_OVERHEAD);
	assert_true(s.rate_ratio < 0.005);

	w.per_tick_ns = 10000;
	pass(g, &w, 300);
	assert_int_equal(w.hz, 100);
	governor_freep(&g);
}

static void governor_reacts_within_a_window(void **state)
{
	struct governor *g = governor_of_clock(100, 0.005);
	struct world w = {.now = 50, .n_online = 2, .per_tick_ns = 1e6}; /* 10 % */

	(void)state;
	step(g, &w);
	pass(g, &w, 4); /* a window's allowance of 0.3 s a CPU is used up in 3 s */
	assert_int_equal(w.hz, 50);
	pass(g, &w, 300);
	assert_true(w.hz >= 3 && w.hz <= 6);
	governor_freep(&g);
	g = governor_of_clock(100, 0); /* no limit */
	step(g, &w);
	pass(g, &w, 100);
	assert_int_equal(w.hz, 100);
	governor_freep(&g);
}

/* What a lower rate does not save does not lower it. The streams are those of two compilers, and of a storm of processes. */
static void governor_keeps_the_rate_beside_other_costs(void **state)
{
	static const struct {
		const char *name;
		double per_tick_ns, churn_ratio, symbols_ratio;
		unsigned symbols_s;
	} cases[] = {
		{"tables at the start", 23000, 0.001, 0.017, 10},
		{"churn just below the cap", 20000, 0.0045, 0, 0},
		{"a storm of processes", 25000, 0.057, 0, 0},
		{"all of them", 25000, 0.057, 0.05, 300},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct governor *g = governor_of_clock(99, 0.005);
		struct world w = {.now = 50,
			.n_online = 2,
			.per_tick_ns = cases[i].per_tick_ns,
			.churn_ratio = cases[i].churn_ratio,
			.symbols_ratio = cases[i].symbols_ratio};
		struct governor_rate s;

		step(g, &w);
		pass(g, &w, cases[i].symbols_s);
		w.symbols_ratio = 0;
		pass(g, &w, 3600);
		s = rate_of(g, CPU);
		if (s.lowered || w.hz != 99 || s.rate_ratio > 0.0026)
			fail_msg("%s: %u Hz, lowered %u times, %f", cases[i].name, w.hz,
				(unsigned)s.lowered, s.rate_ratio);
		governor_freep(&g);
	}
}

/* A storm hides neither a rate that costs too much, nor that a higher one has room again. */
static void governor_judges_the_rate_within_a_storm(void **state)
{
	struct governor *g = governor_of_clock(99, 0.005);
	struct world w = {.now = 50, .n_online = 2, .per_tick_ns = 80000, .churn_ratio = 0.057};

	(void)state;
	step(g, &w);
	pass(g, &w, 300);
	assert_int_equal(w.hz, 49); /* 99 Hz are 0.79 % */
	w.per_tick_ns = 40000;
	pass(g, &w, 130);
	assert_int_equal(w.hz, 99); /* 0.4 % */
	governor_freep(&g);
}

static void governor_says_why(void **state)
{
	static const struct {
		struct governor_rate s;
		const char *name, *text;
	} cases[] = {
		{{.hz = 99, .wanted_hz = 99, .reason = GOVERNOR_FREQUENCY}, "frequency",
			"99 Hz (--profile.frequency)"},
		{{.hz = 499, .wanted_hz = 499, .reason = GOVERNOR_REQUEST}, "request",
			"499 Hz (asked for by a request with hz=)"},
		{{.hz = 49, .wanted_hz = 99, .reason = GOVERNOR_OVERHEAD}, "overhead",
			"49 Hz (lowered from 99 Hz for --profile.max-overhead)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[GOVERNOR_TEXT_BYTES];

		governor_describe(&cases[i].s, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
		assert_string_equal(governor_reason_name(cases[i].s.reason), cases[i].name);
	}
}

static void governor_requests(void **state)
{
	struct governor *g = governor_of_clock(19, 0.005);
	struct world w = {.now = 50, .n_online = 2};
	struct governor_rate s;

	(void)state;
	step(g, &w);
	governor_request(g, CPU, 99);
	governor_request(g, CPU, 5000);
	governor_request(g, CPU, 5);
	pass(g, &w, 1);
	assert_int_equal(w.hz, 999);
	s = rate_of(g, CPU);
	assert_int_equal(s.reason, GOVERNOR_REQUEST);
	governor_release(g, CPU, 5000);
	pass(g, &w, 1);
	assert_int_equal(w.hz, 99);
	governor_release(g, CPU, 99);
	governor_release(g, CPU, 12345); /* never asked for */
	pass(g, &w, 1);
	s = rate_of(g, CPU);
	assert_int_equal(w.hz, 19);
	assert_int_equal(s.n_requests, 1);
	governor_freep(&g);
}

/* Of 0.5 % the clock has 0.4, page faults have 0.1, whatever the other does. A rate that costs more than its part is lowered, and no other. */
static void governor_shares_the_budget(void **state)
{
	static const struct {
		const char *name;
		double per_tick_ns, per_fault_ns;
		uint32_t want_hz, want_faults_hz;
	} cases[] = {
		{"both cheap", 10000, 5000, 99, 99},
		{"faults above their part, little in all", 5000, 20000, 99, 49},
		{"faults far above it", 25000, 1e6, 99, 1},
		{"the clock above its part, with what faults leave", 48000, 1000, 99, 99},
		{"the same, and faults leave nothing", 48000, 10000, 49, 99},
		{"the clock above all", 80000, 5000, 49, 99},
		{"both", 80000, 80000, 49, 12},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct governor *g = governor_new(&(struct governor_options) {.base_hz = 99,
			.max_hz = 999,
			.max_overhead = 0.005,
			.shares = {[ABI_EVENT_CPU] = 8, [ABI_EVENT_PAGE_FAULTS] = 2}});
		struct world w = {.now = 50,
			.n_online = 4,
			.per_tick_ns = cases[i].per_tick_ns,
			.per_fault_ns = cases[i].per_fault_ns};
		struct governor_rate clock, faults;

		step(g, &w);
		pass(g, &w, 1200);
		clock = rate_of(g, CPU);
		faults = rate_of(g, FAULTS);
		if (clock.hz != cases[i].want_hz || faults.hz != cases[i].want_faults_hz)
			fail_msg("%s: %u and %u Hz, cost %f and %f", cases[i].name, clock.hz,
				faults.hz, clock.rate_ratio, faults.rate_ratio);
		assert_true(clock.limit_ratio > 0.00399 && clock.limit_ratio < 0.00401);
		assert_true(faults.limit_ratio > 0.00099 && faults.limit_ratio < 0.00101);
		assert_int_equal(faults.lowered > 0, faults.hz < 99);
		assert_int_equal(clock.lowered > 0, clock.hz < 99);
		/* Again, once it is over. */
		w.per_tick_ns = w.per_fault_ns = 1000;
		pass(g, &w, 1200);
		assert_int_equal(w.rates.hz[CPU], 99);
		assert_int_equal(w.rates.hz[FAULTS], 99);
		governor_freep(&g);
	}
}

/* A request raises the rate of the profile that it asks for; what has no part has no rate. */
static void governor_requests_are_of_an_event(void **state)
{
	struct governor *g = governor_new(&(struct governor_options) {.base_hz = 19,
		.max_hz = 999,
		.shares = {[ABI_EVENT_CPU] = 8, [ABI_EVENT_PAGE_FAULTS] = 2}});
	struct world w = {.now = 50, .n_online = 2};

	(void)state;
	governor_request(g, FAULTS, 99);
	step(g, &w);
	assert_int_equal(w.rates.hz[CPU], 19);
	assert_int_equal(w.rates.hz[FAULTS], 99);
	assert_int_equal(rate_of(g, CPU).n_requests, 0);
	assert_int_equal(rate_of(g, FAULTS).reason, GOVERNOR_REQUEST);
	governor_freep(&g);
	g = governor_of_clock(19, 0.005);
	step(g, &w);
	assert_int_equal(w.rates.hz[FAULTS], 0);
	assert_false(rate_of(g, FAULTS).is_governed);
	assert_true(rate_of(g, CPU).limit_ratio > 0.00499);
	governor_freep(&g);
}

static void shares_are_those_of_the_rows(void **state)
{
	uint32_t shares[ABI_N_EVENTS];

	(void)state;
	governor_shares(EVENT_BIT(FAULTS), shares);
	assert_int_equal(shares[CPU], 0);
	assert_int_equal(shares[FAULTS], event_source(FAULTS)->cost_share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merged_by_time),
		cmocka_unit_test(code_objects_keep_their_place),
		cmocka_unit_test(what_is_unknown_is_known_while_held),
		cmocka_unit_test(bad_records_are_dropped),
		cmocka_unit_test(full_room_hands_on_early),
		cmocka_unit_test(refused_memory_drops_counted),
		cmocka_unit_test(only_samples_count_as_dropped),
		cmocka_unit_test(cpu_lists),
		cmocka_unit_test(coverage_tells_missing_ticks),
		cmocka_unit_test(intervals),
		cmocka_unit_test(run_cost_is_that_of_the_last_runs),
		cmocka_unit_test(run_cost_waits_for_a_measured_run),
		cmocka_unit_test(governor_lowers_and_raises),
		cmocka_unit_test(governor_reacts_within_a_window),
		cmocka_unit_test(governor_keeps_the_rate_beside_other_costs),
		cmocka_unit_test(governor_judges_the_rate_within_a_storm),
		cmocka_unit_test(governor_says_why),
		cmocka_unit_test(governor_requests),
		cmocka_unit_test(governor_shares_the_budget),
		cmocka_unit_test(governor_requests_are_of_an_event),
		cmocka_unit_test(shares_are_those_of_the_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
