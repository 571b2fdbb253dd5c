/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exporter says of what does not answer: the keeper, a thread.
 */
#include "exporter/serve/internal.h"
#include "lib/base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* A keeper that is silent for a minute, or answers. */
struct fake_keeper {
	struct keeper keeper;
	bool is_silent;
};

static int64_t silent_since_ns(const struct keeper *k)
{
	return ((const struct fake_keeper *)k)->is_silent ? 39 * NS_PER_S : 0;
}

static void stats(struct keeper *k, struct keeper_stats *ret)
{
	ret->requests = 9;
	ret->silent = 7;
	ret->silent_since_ns = silent_since_ns(k);
}

struct fixture {
	struct fake_keeper keeper;
	struct keeper_setup setup;
	struct clock_virtual clock;
	struct threads threads;
	struct profile_source source;
	struct serve serve;
};

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture) {
		.keeper = {.keeper = {.stats = stats, .silent_since_ns = silent_since_ns}}};
	clock_virtual_init(&f.clock, 0);
	clock_virtual_advance(&f.clock, 100 * NS_PER_S - clock_monotonic_ns(&f.clock.clock));
	f.setup.keeper = &f.keeper.keeper;
	f.serve.o = (struct serve_options) {.setup = &f.setup,
		.clock = &f.clock.clock,
		.threads = &f.threads,
		.source = &f.source};
	*state = &f;
	return 0;
}

/* One thread in a step of that many seconds, with a patience of 10. */
static void work_for(struct fixture *f, int64_t seconds, bool is_vital)
{
	f->threads.n = 1;
	f->threads.list[0].row = (struct thread_row) {
		.name = "worker", .patience_ns = 10 * NS_PER_S, .is_vital = is_vital};
	f->threads.list[0].began_ns = clock_monotonic_ns(&clock_system) - seconds * NS_PER_S;
}

static void test_state(void **state)
{
	static const char silent[] =
		"Sonde exporter goes on without its keeper, which has not answered for 61 s: names "
		"of new programs are missing.";
	static const struct {
		bool is_silent, is_vital;
		int64_t step_s;
		unsigned code;
		const char *text;
	} cases[] = {
		{false, true, 1, 200, "Sonde exporter is Healthy."},
		{true, true, 1, 200, silent},
		{true, false, 20, 200, silent},
		{false, false, 20, 200,
			"Sonde exporter goes on without all its threads: the thread \"worker\" has "
			"been in one step for 20 s."},
		{false, true, 20, 503,
			"Sonde exporter is stuck: the thread \"worker\" has been in one step for "
			"20 "
			"s."},
		{true, true, 20, 503,
			"Sonde exporter is stuck: the thread \"worker\" has been in one step for "
			"20 "
			"s."},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[SERVE_STATE_BYTES];

		f->keeper.is_silent = cases[i].is_silent;
		work_for(f, cases[i].step_s, cases[i].is_vital);
		assert_int_equal(serve_state(&f->serve, text), cases[i].code);
		assert_string_equal(text, cases[i].text);
	}
}

static void collect(struct metrics_writer *w, void *arg)
{
	serve_collect_reads(w, arg);
}

static void test_metrics_and_page(void **state)
{
	struct fixture *f = *state;
	struct metrics *m = metrics_new();

	metrics_add_collector(m, collect, &f->serve);
	for (int is_silent = 0; is_silent < 2; is_silent++) {
		_cleanup_bytes_ struct bytes metrics = {.len = 0}, page = {.len = 0};

		f->keeper.is_silent = is_silent;
		metrics_print(m, &metrics);
		serve_put_hanging(&f->serve, &page);
		bytes_put_u8(&metrics, 0);
		bytes_put_u8(&page, 0);
		assert_non_null(strstr((char *)metrics.data,
			"sonde_keeper_requests_total{result=\"answered\"} 2\n"));
		assert_non_null(strstr((char *)metrics.data,
			"sonde_keeper_requests_total{result=\"silent\"} 7\n"));
		assert_non_null(strstr(
			(char *)metrics.data, is_silent ? "sonde_keeper_silent_seconds 61\n"
							: "sonde_keeper_silent_seconds 0\n"));
		if (is_silent)
			assert_non_null(
				strstr((char *)page.data, "The keeper has not answered for 61 s"));
		else
			assert_string_equal((char *)page.data, "");
	}
	metrics_freep(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_state, set_up),
		cmocka_unit_test_setup(test_metrics_and_page, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
