/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows, by enum abi_event.
 */
#include "exporter/event/event.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

static const struct event_source sources[] = {
	[ABI_EVENT_CPU] =
		{
			.name = "cpu",
			.endpoint = "profile",
			.store_name = "process_cpu",
			.description = "On-CPU time of all processes and of the kernel, sampled by "
				       "a clock on every CPU.",
			.values = {{"samples", "count", EVENT_COUNT},
				{"cpu", "nanoseconds", EVENT_WEIGHT}},
			.n_values = 2,
			.period_type = "cpu",
			.period_unit = "nanoseconds",
			.target = EVENT_PER_CPU,
			.perf = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK},
			.cost_share = 8,
			.is_default = true,
			.is_clock = true,
		},
	[ABI_EVENT_PAGE_FAULTS] =
		{
			.name = "page_faults",
			.endpoint = "page_faults",
			.store_name = "page_faults",
			.description = "Page faults of all processes: where memory is touched for "
				       "the first time, or again after it was taken away.",
			.values = {{"samples", "count", EVENT_COUNT},
				{"page_faults", "count", EVENT_WEIGHT}},
			.n_values = 2,
			.period_type = "page_faults",
			.period_unit = "count",
			.target = EVENT_PER_CPU,
			.perf = {.type = PERF_TYPE_SOFTWARE,
				.config = PERF_COUNT_SW_PAGE_FAULTS,
				.each = 4096},
			.cost_share = 2,
		},
};
_Static_assert(sizeof(sources) / sizeof(sources[0]) == ABI_N_EVENTS, "a row for each event");

const struct event_source *event_source(enum abi_event event)
{
	ASSERT(event < ABI_N_EVENTS);
	return &sources[event];
}

bool event_is_preemptible(enum abi_event event)
{
	enum { ATOMIC, PREEMPTIBLE };
	static const bool rows[] = {
#define EVENT(NAME, name, CONTEXT) [ABI_EVENT_##NAME] = (CONTEXT) == PREEMPTIBLE,
#include "bpf/events.def"
#undef EVENT
	};

	ASSERT(event < ABI_N_EVENTS);
	return rows[event];
}

bool event_source_has(const struct event_source *s, enum event_value value)
{
	for (size_t i = 0; i < s->n_values; i++)
		if (s->values[i].value == value)
			return true;
	return false;
}

size_t event_count_value(const struct event_source *s)
{
	size_t i = 0;

	while (s->values[i].value != EVENT_COUNT)
		ASSERT(++i < s->n_values);
	return i;
}

uint32_t event_default_set(void)
{
	uint32_t set = 0;

	for (int i = 0; i < ABI_N_EVENTS; i++)
		set |= sources[i].is_default ? EVENT_BIT(i) : 0;
	return set;
}

static int find_name(const char *name, size_t len)
{
	for (int i = 0; i < ABI_N_EVENTS; i++)
		if (strlen(sources[i].name) == len && memcmp(sources[i].name, name, len) == 0)
			return i;
	return -ENOENT;
}

static int refuse_name(const char *name, size_t len, const char *why, struct errbuf *eb)
{
	char known[ABI_MAX_EVENTS * (EVENT_NAME_MAX + 2)] = "";

	for (int i = 0; i < ABI_N_EVENTS; i++) {
		size_t at = strlen(known);

		snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", sources[i].name);
	}
	return err_set(eb, -EINVAL, "\"%.*s\" %s: the profile types are %s",
		(int)(len > EVENT_NAME_MAX ? EVENT_NAME_MAX : len), name, why, known);
}

int event_find(const char *name, struct errbuf *eb)
{
	size_t len = strlen(name);
	int event = find_name(name, len);

	return event < 0 ? refuse_name(name, len, "is no profile type", eb) : event;
}

int event_parse_set(const char *text, uint32_t *ret, struct errbuf *eb)
{
	uint32_t set = 0;

	for (;;) {
		size_t len = strcspn(text, ",");
		int event = find_name(text, len);

		if (event < 0)
			return refuse_name(text, len, "is no profile type", eb);
		if (set & EVENT_BIT(event))
			return refuse_name(text, len, "is named twice", eb);
		set |= EVENT_BIT(event);
		if (!text[len])
			break;
		text += len + 1;
	}
	*ret = set;
	return 0;
}

bool event_follows_rate(const struct event_source *s)
{
	return s->target == EVENT_PER_CPU;
}

uint64_t event_period(const struct event_source *s, uint32_t hz)
{
	uint64_t all =
		s->perf.each ? (uint64_t)s->perf.each * EVENT_REFERENCE_HZ : (uint64_t)NS_PER_S;

	return MAX(all / MAX(hz, 1U), 1ULL);
}
