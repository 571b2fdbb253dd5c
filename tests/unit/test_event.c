/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of event sources: what every row must keep to, and the list that chooses among them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/event/event.h"
#include "lib/base/str.h"

/* Names go into flags, URLs, headers and symbols of programs. */
static bool is_plain(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return n && !name[n] && n < EVENT_NAME_MAX;
}

static void rows_are_whole(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		const struct event_source *s = event_source(i);

		assert_true(is_plain(s->name) && is_plain(s->endpoint) && is_plain(s->store_name));
		assert_true(s->description && str_ends_with(s->description, "."));
		assert_in_range(s->n_values, 1, EVENT_MAX_VALUES);
		assert_non_null(s->period_type);
		assert_non_null(s->period_unit);
		/* One value counts samples: sonde record and debug=1 go by it. */
		assert_in_range(event_count_value(s), 0, s->n_values - 1);
		for (size_t v = 0; v < s->n_values; v++)
			assert_int_equal(
				s->values[v].value == EVENT_COUNT, v == event_count_value(s));
		/* go tool pprof takes the last value unless told otherwise: it is no count of samples. */
		assert_int_not_equal(s->values[s->n_values - 1].value, EVENT_COUNT);
		/* Perf events of CPUs come as interrupts, places in files in whatever task. */
		if (s->target != EVENT_AT_LOAD)
			assert_int_equal(event_is_preemptible(i), s->target == EVENT_PER_FILE);
		for (size_t v = 0; v < s->n_values; v++)
			assert_true(s->values[v].type && s->values[v].unit);
		assert_int_equal(s->is_clock, s->target == EVENT_PER_CPU && !s->perf.each);
		/* What no rate governs has no part; of the others the clock has the largest. */
		assert_int_equal(s->cost_share > 0, event_follows_rate(s));
		assert_true(s->is_clock || s->cost_share < event_source(ABI_EVENT_CPU)->cost_share);
		for (unsigned k = 0; k < i; k++) {
			assert_string_not_equal(s->name, event_source(k)->name);
			assert_string_not_equal(s->endpoint, event_source(k)->endpoint);
			assert_string_not_equal(s->store_name, event_source(k)->store_name);
		}
	}
	assert_true(event_default_set() & EVENT_BIT(ABI_EVENT_CPU));
	assert_true(event_source_has(event_source(ABI_EVENT_CPU), EVENT_WEIGHT));
	assert_false(event_source_has(event_source(ABI_EVENT_CPU), EVENT_WEIGHT_2));
}

static void sets_are_lists_of_names(void **state)
{
	static const struct {
		const char *text;
		uint32_t set;	   /* 0: refused */
		const char *error; /* its beginning */
	} cases[] = {
		{"cpu", EVENT_BIT(ABI_EVENT_CPU), NULL},
		{"page_faults", EVENT_BIT(ABI_EVENT_PAGE_FAULTS), NULL},
		{"page_faults,cpu", EVENT_BIT(ABI_EVENT_CPU) | EVENT_BIT(ABI_EVENT_PAGE_FAULTS),
			NULL},
		{"", 0, "\"\" is no profile type: the profile types are cpu"},
		{"cpu,", 0, "\"\" is no profile type"},
		{",cpu", 0, "\"\" is no profile type"},
		{"cpu,cpu", 0, "\"cpu\" is named twice"},
		{"CPU", 0, "\"CPU\" is no profile type"},
		{"cpu ", 0, "\"cpu \" is no profile type"},
		{"cpux", 0, "\"cpux\" is no profile type"},
		{"cp", 0, "\"cp\" is no profile type"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct errbuf eb = {.text = ""};
		uint32_t set = 0;
		int r = event_parse_set(cases[i].text, &set, &eb);

		assert_int_equal(r, cases[i].set ? 0 : -EINVAL);
		assert_int_equal(set, cases[i].set);
		if (cases[i].error && !str_starts_with(eb.text, cases[i].error))
			fail_msg("%s: %s", cases[i].text, eb.text);
	}
}

static void names_are_found(void **state)
{
	struct errbuf eb = {.text = ""};

	(void)state;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		assert_int_equal(event_find(event_source(i)->name, NULL), i);
	assert_int_equal(event_find("cpu,cpu", &eb), -EINVAL);
	assert_true(str_starts_with(
		eb.text, "\"cpu,cpu\" is no profile type: the profile types are cpu"));
}

/* Wherever it stands, whatever its name. */
static void samples_are_counted_by_one_value(void **state)
{
	const struct event_source s = {
		.values = {{"delay", "nanoseconds", EVENT_WEIGHT}, {"waits", "count", EVENT_COUNT},
			{"bytes", "bytes", EVENT_WEIGHT_2}},
		.n_values = 3};

	(void)state;
	assert_int_equal(event_count_value(&s), 1);
}

static void periods_follow_the_rate(void **state)
{
	struct event_source s = {.perf = {.each = 4096}};

	(void)state;
	assert_int_equal(event_period(&s, EVENT_REFERENCE_HZ), 4096);
	assert_int_equal(event_period(&s, 2 * EVENT_REFERENCE_HZ), 2048);
	assert_int_equal(event_period(&s, 1), 4096 * EVENT_REFERENCE_HZ);
	assert_int_equal(event_period(&s, 1000000), 1);
	s.perf.each = 0;
	assert_int_equal(event_period(&s, 100), 10000000);
	assert_int_equal(event_period(&s, 0), 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_whole),
		cmocka_unit_test(sets_are_lists_of_names),
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(samples_are_counted_by_one_value),
		cmocka_unit_test(periods_follow_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
