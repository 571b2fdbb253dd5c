/* SPDX-License-Identifier: Apache-2.0
 *
 * Query strings through the exporter's filters, and their since= through a sample log of a minute: a cursor that is accepted gives a range
 * inside the log and a next cursor that is accepted too and never goes back.
 */
#include "exporter/profile/filter.h"
#include "exporter/sample/log.h"
#include "exporter/sample/stacks.h"
#include "lib/base/cleanup.h"
#include "lib/net/url/url.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SECONDS = 60 };

static struct sample_log *new_log(struct stacks *stacks, struct clock_virtual *clock)
{
	struct sample_log_options o = {
		.stacks = stacks,
		.clock = &clock->clock,
		.retention_s = 30,
		.window_s = 10,
		.retention_bytes = 1 << 20,
		.start_id = 0x1234,
	};
	struct sample_log *log = sample_log_new(&o);

	for (int s = 0; s < SECONDS; s++) {
		struct sample_row row = {
			.time_ns = (uint64_t)clock_monotonic_ns(&clock->clock), .weight = 1000};

		if (sample_log_append(log, &row) < 0)
			return log;
		clock_virtual_advance(clock, NS_PER_S);
		sample_log_drained(log, clock_monotonic_ns(&clock->clock), 0);
	}
	return log;
}

static void try_cursor(const struct sample_log *log, const char *cursor)
{
	struct sample_range range, next;
	struct errbuf eb = {.text = ""};

	if (sample_log_since(log, cursor, 10, &range, &eb) < 0) {
		ASSERT(eb.text[0]);
		return;
	}
	ASSERT(range.from_ns <= range.to_ns && strlen(range.cursor) <= SAMPLE_CURSOR_MAX);
	ASSERT(range.duration_ns >= 0 && range.lost_ns >= 0);
	ASSERT(sample_log_since(log, range.cursor, 10, &next, &eb) == 0);
	ASSERT(next.from_ns >= range.to_ns || next.from_ns == next.to_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_url_params_ struct url_params params = {};
	_cleanup_labels_ struct labels none = {};
	_cleanup_(stacks_freep)
	struct stacks *stacks = stacks_new(NULL);
	_cleanup_(sample_log_freep)
	struct sample_log *log = NULL;
	_cleanup_(profile_filter_freep)
	struct profile_filter *filter = NULL;
	struct clock_virtual clock;

	if (url_params_parse(&params, (const char *)data, size, 100, NULL) < 0)
		return 0;
	clock_virtual_init(&clock, 1795000000 * NS_PER_S);
	log = new_log(stacks, &clock);
	filter = profile_filter_new(&none, NULL, 0);
	for (size_t i = 0; i < params.n; i++) {
		struct errbuf eb = {.text = ""};
		int r;

		if (!strcmp(params.items[i].name, "since")) {
			try_cursor(log, params.items[i].value);
			continue;
		}
		r = profile_filter_add(filter, params.items[i].name, params.items[i].value, &eb);
		ASSERT(r >= 0 || eb.text[0]);
	}
	return 0;
}
