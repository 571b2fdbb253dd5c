/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the lock is taken.
 */
#include "exporter/profile/source.h"
#include <stdio.h>

bool profile_source_is_on(const struct profile_source *s, enum abi_event event)
{
	return event < ABI_N_EVENTS && s->tables.logs[event] != NULL;
}

int64_t profile_source_covered_ns(const struct profile_source *s)
{
	int64_t covered_ns = INT64_MAX;

	lock_take(s->lock);
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		if (s->tables.logs[i])
			covered_ns = MIN(covered_ns, sample_log_covered_ns(s->tables.logs[i]));
	lock_release(s->lock);
	return covered_ns;
}

void profile_source_hurry(const struct profile_source *s)
{
	if (s->drain_bell)
		bell_ring(s->drain_bell);
}

/* "rate: 99 Hz (--profile.frequency)"; NULL where no rate governs, as in a replay. */
static const char *rate_comment(
	const struct profile_source *s, enum abi_event event, char *buf, size_t cap)
{
	struct governor_stats g;
	int n;

	if (!s->drain_bell)
		return NULL;
	governor_stats(s->governor, &g);
	if (!g.events[event].is_governed)
		return NULL;
	n = snprintf(buf, cap, "rate: ");
	governor_describe(&g.events[event], buf + n, cap - (size_t)n);
	return buf;
}

static int take_locked(const struct profile_source *s, const struct profile_query *q,
	struct arena *arena, struct profile_snapshot *ret, struct errbuf *eb)
{
	const struct sample_log *log = s->tables.logs[q->event];
	struct sample_range range;
	uint64_t *tasks = NULL;
	int r = 0;

	ASSERT_HELD(s->lock);
	if (q->cursor)
		r = sample_log_since(log, q->cursor, q->span_s, &range, eb);
	else
		sample_log_window(log, q->from_ns, q->to_ns, &range);
	if (r >= 0 && q->filter)
		r = profile_filter_tasks(q->filter, s->tables.procs, arena, &tasks, eb);
	if (r < 0)
		return r;
	return profile_snapshot_take(&s->tables, log, &range, tasks, s->with_cpu, arena, ret, eb);
}

int profile_source_take(const struct profile_source *s, const struct profile_query *q,
	struct arena *arena, struct profile *profile, struct sample_range *ret_range,
	struct errbuf *eb)
{
	char comment[GOVERNOR_TEXT_BYTES + 8];
	const struct event_source *type = event_source(q->event);
	const struct profile_build_options o = {
		.comment = rate_comment(s, q->event, comment, sizeof(comment)),
		.type = type,
		.constants = s->constants,
		.symbolizer = s->symbolizer,
		.binaries = s->binaries,
		.mode = q->mode,
		.fold = q->fold,
		.deadline_ns = clock_monotonic_ns(s->clock) + PROFILE_SYMBOLS_WAIT_NS,
		/* What a sample of the clock stands for; of others that is known from samples only. */
		.period = type->is_clock ? (uint64_t)NS_PER_S / s->hz : 1,
	};
	struct profile_snapshot snapshot;
	int r;

	if (s->jit && q->mode != SYMBOLIZE_NONE)
		jit_await_round(s->jit, o.deadline_ns);
	if (s->interp_names)
		interp_names_await_round(s->interp_names, o.deadline_ns);
	lock_take(s->lock);
	r = take_locked(s, q, arena, &snapshot, eb);
	lock_release(s->lock);
	if (r < 0)
		return r;
	*ret_range = snapshot.range;
	return profile_build(&snapshot, &o, arena, profile, eb);
}
