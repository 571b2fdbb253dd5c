/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots: appending, closing, merging, dropping. Reading is in log_read.c.
 */
#include "exporter/sample/log_internal.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
#include <string.h>

/* Clocks read one after the other differ by microseconds; suspends last longer. */
#define SUSPEND_MIN_NS (10 * NS_PER_MS)
/* A record from further ahead than this is taken for one with a broken clock. */
enum { MAX_AHEAD_S = 600, MIN_ROWS = 64 };

static size_t row_bytes(const struct slot *s)
{
	return sizeof(*s->stack) + sizeof(*s->task) + (s->period ? sizeof(*s->period) : 0) +
	       (s->ms ? sizeof(*s->ms) : 0) + (s->value ? sizeof(*s->value) : 0) +
	       (s->value_2 ? sizeof(*s->value_2) : 0) + (s->count ? sizeof(*s->count) : 0) +
	       (s->cpu ? sizeof(*s->cpu) : 0);
}

void sample_slot_free(struct sample_log *l, struct slot *s)
{
	if (!s)
		return;
	if (l->o.budget)
		budget_release(l->o.budget, s->charged_bytes);
	l->bytes -= s->charged_bytes;
	l->rows -= s->n;
	free(s->stack);
	free(s->task);
	free(s->ms);
	free(s->period);
	free(s->periods);
	free(s->value);
	free(s->value_2);
	free(s->count);
	free(s->cpu);
	free(s);
}

/* Accounts for the slot's arrays; -ENOMEM when the budget refuses a larger sum. */
static int slot_charge(struct sample_log *l, struct slot *s, uint64_t bytes)
{
	if (bytes > s->charged_bytes && l->o.budget) {
		int r = budget_charge(l->o.budget, bytes - s->charged_bytes, NULL);

		if (r < 0)
			return r;
	} else if (l->o.budget) {
		budget_release(l->o.budget, s->charged_bytes - bytes);
	}
	l->bytes += bytes - s->charged_bytes;
	s->charged_bytes = bytes;
	return 0;
}

#define RESIZE(column, n)                                                          \
	({                                                                         \
		__typeof__(column) p_ = try_realloc(column, n, sizeof(*(column))); \
		if (p_)                                                            \
			(column) = p_;                                             \
		p_ != NULL;                                                        \
	})

/* Room for `cap` rows in every column that the slot has. A failure half-way leaves some columns
 * with more room. */
int sample_slot_resize(struct sample_log *l, struct slot *s, uint32_t cap)
{
	uint64_t bytes = sizeof(*s) + (uint64_t)cap * row_bytes(s) +
			 (uint64_t)s->n_periods * sizeof(*s->periods);
	int r = slot_charge(l, s, bytes);

	if (r < 0)
		return r;
	if (!RESIZE(s->stack, cap) || !RESIZE(s->task, cap) ||
		(s->period && !RESIZE(s->period, cap)) || (s->ms && !RESIZE(s->ms, cap)) ||
		(s->value && !RESIZE(s->value, cap)) || (s->value_2 && !RESIZE(s->value_2, cap)) ||
		(s->count && !RESIZE(s->count, cap)) || (s->cpu && !RESIZE(s->cpu, cap)))
		return -ENOMEM;
	s->cap = cap;
	return 0;
}

/* A refused shrinking leaves more room than needed. */
void sample_slot_shrink(struct sample_log *l, struct slot *s)
{
	(void)!sample_slot_resize(l, s, MAX(s->n, 1));
}

#define NEW_COLUMN(column, is_wanted) \
	((column) = (is_wanted) ? xcalloc(1, sizeof(*(column))) : NULL)

struct slot *sample_slot_new(
	const struct sample_log *l, uint64_t index, int64_t start_ns, bool is_merged)
{
	struct slot *s = xcalloc(1, sizeof(*s));

	NEW_COLUMN(s->ms, !is_merged);
	NEW_COLUMN(s->period, !l->o.own_weights);
	NEW_COLUMN(s->value, l->o.own_weights || is_merged);
	NEW_COLUMN(s->value_2, l->o.second_weight);
	NEW_COLUMN(s->count, is_merged);
	NEW_COLUMN(s->cpu, l->o.with_cpu);
	s->closed = s->merged = is_merged;
	s->first = s->last = index;
	s->start_ns = start_ns;
	s->end_ns = ((int64_t)index + 1) * NS_PER_S;
	return s;
}

void sample_log_options_by_event(struct sample_log_options *o, const struct event_source *type)
{
	o->own_weights = type->has_own_weights;
	o->second_weight = event_source_has(type, EVENT_WEIGHT_2);
}

struct sample_log *sample_log_new(const struct sample_log_options *o)
{
	struct sample_log *l = xcalloc(1, sizeof(*l));

	l->o = *o;
	l->offset_ns = clock_boot_offset_ns(o->clock);
	l->start_ns = l->origin_ns = l->covered_ns = clock_boottime_ns(o->clock);
	l->open_index = (uint64_t)(l->covered_ns / NS_PER_S);
	return l;
}

void sample_log_freep(struct sample_log **lp)
{
	struct sample_log *l = *lp;

	if (!l)
		return;
	for (size_t i = 0; i < l->n_slots; i++)
		sample_slot_free(l, l->slots[i]);
	free(l->slots);
	free(l);
	*lp = NULL;
}

/* Position of the first slot at or after `index`. */
static size_t position(const struct sample_log *l, uint64_t index)
{
	size_t i = l->n_slots;

	while (i && l->slots[i - 1]->last >= index)
		i--;
	return i;
}

/* The open slot with this index, made when absent. */
static struct slot *open_slot(struct sample_log *l, uint64_t index)
{
	size_t at = position(l, index);
	int64_t start_ns = MAX((int64_t)index * NS_PER_S, l->origin_ns);

	if (at < l->n_slots && l->slots[at]->first == index)
		return l->slots[at];
	if (l->n_slots == l->cap_slots) {
		l->cap_slots = l->cap_slots ? 2 * l->cap_slots : 64;
		l->slots = xrealloc(l->slots, l->cap_slots * sizeof(*l->slots));
	}
	memmove(&l->slots[at + 1], &l->slots[at], (l->n_slots - at) * sizeof(*l->slots));
	l->n_slots++;
	l->slots[at] = sample_slot_new(l, index, start_ns, false);
	return l->slots[at];
}

/* A column of exact values, for a slot that has seen more than 256 different weights. */
static int slot_add_values(struct slot *s)
{
	s->value = try_malloc(MAX(s->cap, 1) * sizeof(*s->value));
	if (!s->value)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++)
		s->value[i] = s->periods[s->period[i]];
	return 0;
}

int sample_slot_period(struct slot *s, uint64_t weight, uint8_t *ret)
{
	if (!s->period) {
		*ret = 0;
		return 0;
	}
	for (uint32_t i = s->n_periods; i > 0; i--)
		if (s->periods[i - 1] == weight) {
			*ret = (uint8_t)(i - 1);
			return 0;
		}
	if (s->n_periods == 256) {
		*ret = 0;
		return s->value ? 0 : slot_add_values(s);
	}
	if (!RESIZE(s->periods, s->n_periods + 1))
		return -ENOMEM;
	s->periods[s->n_periods] = weight;
	*ret = (uint8_t)s->n_periods++;
	return 0;
}

static int slot_put(struct sample_log *l, struct slot *s, const struct sample_row *row, uint32_t ms)
{
	uint8_t period;
	int r = sample_slot_period(s, row->weight, &period);

	if (r < 0)
		return r;
	if (s->n == s->cap) {
		r = sample_slot_resize(l, s, s->cap ? 2 * s->cap : MIN_ROWS);
		if (r < 0)
			return r;
	}
	s->stack[s->n] = row->stack;
	s->task[s->n] = row->task;
	s->ms[s->n] = (uint16_t)ms;
	if (s->period)
		s->period[s->n] = period;
	if (s->value)
		s->value[s->n] = row->weight;
	if (s->value_2)
		s->value_2[s->n] = row->weight_2;
	if (s->cpu)
		s->cpu[s->n] = row->cpu;
	s->n++;
	l->rows++;
	return 0;
}

int sample_log_append(struct sample_log *l, const struct sample_row *row)
{
	int64_t boot_ns = (int64_t)row->time_ns + l->offset_ns;
	uint64_t index = boot_ns < 0 ? 0 : (uint64_t)(boot_ns / NS_PER_S);
	struct slot *s;
	int r;

	if (boot_ns < l->covered_ns || index > l->open_index + MAX_AHEAD_S) {
		boot_ns = l->covered_ns;
		index = l->open_index;
		l->late++;
	}
	s = open_slot(l, index);
	r = slot_put(l, s, row, (uint32_t)(boot_ns / NS_PER_MS - (int64_t)index * 1000));
	if (r < 0)
		l->refused++;
	else
		l->appended++;
	s->lost_samples += r < 0;
	return r;
}

void sample_log_lose(struct sample_log *l, uint64_t n)
{
	l->lost_samples += n;
}

/* What was lost since the last drain: an equal part in each second since then, so that none that nothing came from is without a word. */
static void spread_lost(struct sample_log *l, uint64_t last)
{
	uint64_t first = MAX(l->open_index, last - MIN(last, l->o.retention_s));
	uint64_t n = last - first + 1;

	for (uint64_t i = 0; l->lost_samples && i < n; i++)
		open_slot(l, first + i)->lost_samples +=
			(i + 1) * l->lost_samples / n - i * l->lost_samples / n;
	l->lost_samples = 0;
}

/* Rows fit exactly from here on; wall time is what the clock says now, less the time since the
 * slot's end. */
static void slot_close(struct sample_log *l, struct slot *s)
{
	s->wall_end_ns = s->end_ns + clock_wall_offset_ns(l->o.clock);
	s->closed = true;
	if (s->n < s->cap)
		sample_slot_shrink(l, s);
}

/* Closes every slot below `limit`; those of a second in which nothing happened are made first,
 * unless in suspend. */
static void close_until(struct sample_log *l, uint64_t limit, bool running)
{
	uint64_t from = l->open_index;

	if (limit > from + l->o.retention_s + 1)
		from = limit - l->o.retention_s - 1;
	for (uint64_t i = from; running && i < limit; i++)
		open_slot(l, i);
	for (size_t i = position(l, l->open_index); i < l->n_slots && l->slots[i]->first < limit;
		i++)
		slot_close(l, l->slots[i]);
	l->open_index = limit;
}

static void drop_oldest(struct sample_log *l)
{
	sample_slot_free(l, l->slots[0]);
	l->n_slots--;
	memmove(&l->slots[0], &l->slots[1], l->n_slots * sizeof(*l->slots));
	l->dropped_slots++;
}

/* Above --profile.retention-bytes history first loses its resolution, then its oldest part. */
static void obey_retention(struct sample_log *l)
{
	while (l->n_slots && l->slots[0]->closed &&
		l->slots[0]->last + l->o.retention_s < l->open_index)
		drop_oldest(l);
	while (l->bytes > l->o.retention_bytes && l->n_slots && l->slots[0]->closed) {
		if (sample_log_merge_oldest(l))
			continue;
		l->lost_seconds += l->slots[0]->last - l->slots[0]->first + 1;
		drop_oldest(l);
	}
}

/* The clock stood for `suspended_ns` after covered_ns: the slot it stopped in ends there, and the
 * next begins where it went on. */
static void skip_suspend(struct sample_log *l, int64_t suspended_ns)
{
	int64_t resumed_ns = l->covered_ns + suspended_ns;
	uint64_t index = (uint64_t)(resumed_ns / NS_PER_S);
	struct slot *stopped = open_slot(l, l->open_index);

	l->suspended_ns += (uint64_t)suspended_ns;
	if (index == l->open_index) {
		stopped->lost_ns += suspended_ns;
	} else {
		stopped->end_ns = MAX(l->covered_ns, stopped->start_ns);
		close_until(l, index, false);
		l->origin_ns = resumed_ns;
	}
	l->covered_ns = resumed_ns;
}

void sample_log_drained(struct sample_log *l, int64_t up_to_ns, int64_t boot_offset_ns)
{
	int64_t suspended_ns = boot_offset_ns - l->offset_ns;

	if (up_to_ns + l->offset_ns > l->covered_ns) {
		/* The open slot exists from its first instant on, so that it knows where it began.
		 */
		open_slot(l, l->open_index);
		l->covered_ns = up_to_ns + l->offset_ns;
		spread_lost(l, MAX(l->open_index, (uint64_t)(l->covered_ns - 1) / NS_PER_S));
		close_until(l, (uint64_t)(l->covered_ns / NS_PER_S), true);
	}
	if (suspended_ns >= SUSPEND_MIN_NS) {
		skip_suspend(l, suspended_ns);
		l->offset_ns = boot_offset_ns;
	}
	obey_retention(l);
}

void sample_log_mark(const struct sample_log *l, uint64_t *tasks, uint64_t *stacks)
{
	for (size_t i = 0; i < l->n_slots; i++) {
		const struct slot *s = l->slots[i];

		for (uint32_t row = 0; row < s->n; row++) {
			bits_set(tasks, s->task[row]);
			stacks_mark(l->o.stacks, s->stack[row], stacks);
		}
	}
}

void sample_log_remap_stacks(struct sample_log *l, const uint32_t *remap)
{
	for (size_t i = 0; i < l->n_slots; i++)
		for (uint32_t row = 0; row < l->slots[i]->n; row++)
			l->slots[i]->stack[row] = remap[l->slots[i]->stack[row]];
}

void sample_log_stats(const struct sample_log *l, struct sample_log_stats *ret)
{
	*ret = (struct sample_log_stats) {
		.appended = l->appended,
		.late = l->late,
		.refused = l->refused,
		.merged_slots = l->merged_slots,
		.dropped_slots = l->dropped_slots,
		.lost_seconds = l->lost_seconds,
		.suspended_ns = l->suspended_ns,
		.rows = l->rows,
		.bytes = l->bytes,
		.slots = l->n_slots,
	};
}
