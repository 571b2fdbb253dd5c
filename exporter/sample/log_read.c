/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the sample log: cursors, windows, rows.
 */
#include "exporter/sample/log_internal.h"
#include "lib/base/str.h"
#include <inttypes.h>
#include <string.h>

enum { START_ID_LEN = 16 };

static void cursor_print(const struct sample_log *l, uint64_t slot, struct sample_range *ret)
{
	snprintf(ret->cursor, sizeof(ret->cursor), "%016" PRIx64 ".%" PRIu64, l->o.start_id, slot);
}

/* "<16 hex digits>.<number>"; the caller compares the id. */
static int cursor_parse(const char *text, uint64_t *ret_id, uint64_t *ret_slot, struct errbuf *eb)
{
	uint64_t id = 0;

	for (int i = 0; i < START_ID_LEN; i++) {
		char c = text[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return err_set(eb, -EINVAL,
				"malformed cursor: pass the value of a Sonde-Cursor header, or "
				"nothing");
		id = id << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (text[START_ID_LEN] != '.' || strlen(text) > SAMPLE_CURSOR_MAX ||
		str_parse_u64(text + START_ID_LEN + 1, ret_slot, NULL) < 0)
		return err_set(eb, -EINVAL,
			"malformed cursor: pass the value of a Sonde-Cursor header, or nothing");
	*ret_id = id;
	return 0;
}

static uint64_t slot_seconds(const struct slot *s)
{
	return s->last - s->first + 1;
}

/* First closed slot with rows after second `after`, and the time lost between the two. A merged
 * slot that a cursor was in the middle of cannot be split any more: its rest is lost to that
 * cursor. */
static size_t first_after(const struct sample_log *l, uint64_t after, int64_t *ret_lost_ns)
{
	int64_t from_ns = MAX(((int64_t)after + 1) * NS_PER_S, l->start_ns);
	size_t i = 0;

	for (; i < l->n_slots && l->slots[i]->first <= after; i++)
		if (l->slots[i]->last == after)
			from_ns = l->slots[i]->end_ns;
	*ret_lost_ns =
		i < l->n_slots && l->slots[i]->closed ? MAX(l->slots[i]->start_ns - from_ns, 0) : 0;
	return i;
}

/* Extends from slot `i` over slots without a gap. */
static size_t take_slots(
	const struct sample_log *l, size_t i, uint32_t span_s, struct sample_range *ret)
{
	const struct slot *first = l->slots[i], *s = first;
	uint64_t seconds = 0;

	ret->from_ns = first->start_ns;
	ret->wall_ns = first->wall_end_ns - (first->end_ns - first->start_ns);
	for (; i < l->n_slots && l->slots[i]->closed; i++) {
		if (l->slots[i] != first && (seconds + slot_seconds(l->slots[i]) > span_s ||
						    l->slots[i]->start_ns != s->end_ns))
			break;
		s = l->slots[i];
		seconds += slot_seconds(s);
		ret->lost_ns += s->lost_ns;
		ret->lost_samples += s->lost_samples;
		ret->duration_ns += s->end_ns - s->start_ns - s->lost_ns;
	}
	ret->to_ns = s->end_ns;
	ret->whole_slots = true;
	ret->first_slot = first->first;
	ret->last_slot = s->last;
	cursor_print(l, s->last, ret);
	return i;
}

int sample_log_since(const struct sample_log *l, const char *cursor, uint32_t span_s,
	struct sample_range *ret, struct errbuf *eb)
{
	struct sample_range out = {.wall_ns = clock_realtime_ns(l->o.clock)};
	uint64_t newest = l->open_index - 1, after, id = 0;
	size_t i = 0;

	if (!*cursor) {
		after = newest - MIN(newest, span_s);
		while (i < l->n_slots && l->slots[i]->first <= after)
			i++;
	} else {
		int r = cursor_parse(cursor, &id, &after, eb);

		if (r < 0)
			return r;
		if (id != l->o.start_id) {
			out.restarted = true;
			after = newest;
		} else if (after > newest) {
			return err_set(eb, -EINVAL, "the cursor is ahead of the sample log");
		} else {
			i = first_after(l, after, &out.lost_ns);
		}
	}
	out.from_ns = out.to_ns = l->covered_ns;
	if (i < l->n_slots && l->slots[i]->closed)
		i = take_slots(l, i, span_s, &out);
	else
		cursor_print(l, *cursor ? after : newest, &out);
	for (; i < l->n_slots && l->slots[i]->closed; i++)
		out.behind_s += slot_seconds(l->slots[i]);
	*ret = out; /* `cursor` may lie in it */
	return 0;
}

/* Wall time of an instant: by the closed slot it lies in, which a later clock step does not move.
 */
static int64_t wall_of(const struct sample_log *l, int64_t boot_ns)
{
	for (size_t i = l->n_slots; i > 0; i--) {
		const struct slot *s = l->slots[i - 1];

		if (s->closed && s->start_ns <= boot_ns && boot_ns < s->end_ns)
			return s->wall_end_ns - (s->end_ns - boot_ns);
	}
	return boot_ns + clock_wall_offset_ns(l->o.clock);
}

static bool partly_inside(const struct slot *s, int64_t from_ns, int64_t to_ns)
{
	return s->start_ns < to_ns && s->end_ns > from_ns &&
	       (s->start_ns < from_ns || s->end_ns > to_ns);
}

void sample_log_window(
	const struct sample_log *l, int64_t from_ns, int64_t to_ns, struct sample_range *ret)
{
	int64_t at_ns, sampled_ns = 0;

	from_ns -= from_ns % NS_PER_MS;
	to_ns = MIN(to_ns, l->covered_ns);
	to_ns = MAX(to_ns - to_ns % NS_PER_MS, from_ns);
	*ret = (struct sample_range) {
		.from_ns = from_ns, .to_ns = to_ns, .wall_ns = wall_of(l, from_ns)};
	/* The open part counts as sampled; before it only what slots cover does. */
	at_ns = from_ns;
	for (size_t i = 0; i < l->n_slots; i++) {
		const struct slot *s = l->slots[i];
		int64_t start_ns = MAX(s->start_ns, from_ns), end_ns = MIN(s->end_ns, to_ns);

		if (start_ns >= end_ns || (s->merged && partly_inside(s, from_ns, to_ns)))
			continue;
		ret->lost_samples += s->lost_samples;
		sampled_ns += end_ns - start_ns - MIN(s->lost_ns, end_ns - start_ns);
		at_ns = end_ns;
	}
	if (at_ns < to_ns && at_ns >= (int64_t)l->open_index * NS_PER_S)
		sampled_ns += to_ns - at_ns;
	ret->duration_ns = sampled_ns;
	ret->lost_ns = to_ns - from_ns - sampled_ns;
}

int64_t sample_log_covered_ns(const struct sample_log *l)
{
	return l->covered_ns;
}

static bool slot_rows(
	const struct slot *s, const struct sample_range *range, struct sample_rows *ret)
{
	int64_t base_ns = (int64_t)s->first * NS_PER_S;

	*ret = (struct sample_rows) {
		.stack = s->stack,
		.task = s->task,
		.ms = s->ms,
		.period = s->period,
		.periods = s->periods,
		.value = s->value,
		.value_2 = s->value_2,
		.count = s->count,
		.cpu = s->cpu,
		.n = s->n,
		.to_ms = UINT32_MAX,
	};
	if (range->whole_slots)
		return s->closed && s->first >= range->first_slot && s->last <= range->last_slot;
	if (s->merged)
		return s->start_ns >= range->from_ns && s->end_ns <= range->to_ns;
	if (base_ns >= range->to_ns || base_ns + NS_PER_S <= range->from_ns)
		return false;
	if (range->from_ns > base_ns)
		ret->from_ms = (uint32_t)((range->from_ns - base_ns) / NS_PER_MS);
	if (range->to_ns < base_ns + NS_PER_S)
		ret->to_ms = (uint32_t)((range->to_ns - base_ns) / NS_PER_MS);
	return true;
}

bool sample_log_next(const struct sample_log *l, const struct sample_range *range, size_t *pos,
	struct sample_rows *ret)
{
	if (range->from_ns == range->to_ns && !range->whole_slots)
		return false;
	while (*pos < l->n_slots)
		if (slot_rows(l->slots[(*pos)++], range, ret) && ret->n)
			return true;
	return false;
}
