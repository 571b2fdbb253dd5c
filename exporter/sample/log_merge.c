/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to the oldest slots when the log is larger than --profile.retention-bytes: the slots
 * of a window become one, whose rows are sums per (stack, task, weight, CPU).
 */
#include "exporter/sample/log_internal.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

struct merge_key {
	uint32_t stack, task;
	uint16_t cpu;
	uint8_t period;
};

/* Rows of `out` by key: row + 1, 0 is free. */
struct merge_index {
	uint32_t *rows;
	uint32_t mask;
};

static uint32_t *find_row(
	const struct merge_index *ix, const struct slot *out, const struct merge_key *k)
{
	uint64_t key = ((uint64_t)k->stack << 32 | k->task) ^ (uint64_t)k->period << 20 ^
		       (uint64_t)k->cpu << 44;

	for (uint32_t i = (uint32_t)hash_mix(key) & ix->mask;; i = (i + 1) & ix->mask) {
		uint32_t row = ix->rows[i] - 1;

		if (!ix->rows[i] || (out->stack[row] == k->stack && out->task[row] == k->task &&
					    (!out->period || out->period[row] == k->period) &&
					    (!out->cpu || out->cpu[row] == k->cpu)))
			return &ix->rows[i];
	}
}

static void add_row(struct slot *out, const struct merge_key *k)
{
	uint32_t row = out->n++;

	out->stack[row] = k->stack;
	out->task[row] = k->task;
	if (out->period)
		out->period[row] = k->period;
	out->value[row] = 0;
	if (out->value_2)
		out->value_2[row] = 0;
	out->count[row] = 0;
	if (out->cpu)
		out->cpu[row] = k->cpu;
}

static int merge_rows(struct slot *out, const struct slot *in, const struct merge_index *ix)
{
	for (uint32_t i = 0; i < in->n; i++) {
		struct merge_key k = {.stack = in->stack[i],
			.task = in->task[i],
			.cpu = in->cpu ? in->cpu[i] : 0};
		uint32_t *at;
		int r = sample_slot_period(
			out, in->period ? in->periods[in->period[i]] : 0, &k.period);

		if (r < 0)
			return r;
		at = find_row(ix, out, &k);
		if (!*at) {
			add_row(out, &k);
			*at = out->n;
		}
		out->value[*at - 1] += in->value ? in->value[i] : in->periods[in->period[i]];
		if (out->value_2)
			out->value_2[*at - 1] += in->value_2[i];
		out->count[*at - 1] += 1;
	}
	return 0;
}

static int merge_slots(struct sample_log *l, struct slot *const *in, size_t n, struct slot *out)
{
	_cleanup_free_ uint32_t *rows = NULL;
	uint32_t total = 0, n_index = 64;
	int r;

	for (size_t i = 0; i < n; i++)
		total += in[i]->n;
	while (n_index < total * 2)
		n_index *= 2;
	rows = try_malloc(n_index * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	memset(rows, 0, n_index * sizeof(*rows));
	r = sample_slot_resize(l, out, MAX(total, 1));
	for (size_t i = 0; i < n && r >= 0; i++)
		r = merge_rows(
			out, in[i], &(struct merge_index) {.rows = rows, .mask = n_index - 1});
	l->rows += out->n;
	return r;
}

/* The oldest run of at least two slots that can be merged: closed, never tried, of one window,
 * without a gap. */
static size_t find_run(const struct sample_log *l, size_t *ret_first)
{
	uint64_t open_window = l->open_index / l->o.window_s;

	for (size_t i = 0, n; i < l->n_slots; i += n) {
		uint64_t window = l->slots[i]->first / l->o.window_s;

		n = 1;
		if (window == open_window || !l->slots[i]->closed)
			break;
		if (l->slots[i]->merged || l->slots[i]->tried)
			continue;
		while (i + n < l->n_slots && l->slots[i + n]->first / l->o.window_s == window &&
			!l->slots[i + n]->merged && !l->slots[i + n]->tried &&
			l->slots[i + n]->start_ns == l->slots[i + n - 1]->end_ns)
			n++;
		if (n > 1) {
			*ret_first = i;
			return n;
		}
	}
	return 0;
}

bool sample_log_merge_oldest(struct sample_log *l)
{
	size_t first, n = find_run(l, &first);
	struct slot **in, *out;
	uint64_t before = 0;

	if (!n)
		return false;
	in = &l->slots[first];
	out = sample_slot_new(l, in[0]->first, in[0]->start_ns, true);
	out->last = in[n - 1]->last;
	out->end_ns = in[n - 1]->end_ns;
	out->wall_end_ns = in[n - 1]->wall_end_ns;
	for (size_t i = 0; i < n; i++) {
		out->lost_ns += in[i]->lost_ns;
		out->lost_samples += in[i]->lost_samples;
		before += in[i]->charged_bytes;
		in[i]->tried = true;
	}
	if (merge_slots(l, in, n, out) >= 0)
		sample_slot_shrink(l, out);
	if (out->charged_bytes >= before || !out->cap) {
		sample_slot_free(l, out); /* no memory, or stacks that hardly repeat: a row of sums
					     is twice as wide */
		return true;
	}
	for (size_t i = 0; i < n; i++)
		sample_slot_free(l, in[i]);
	in[0] = out;
	memmove(&in[1], &in[n], (l->n_slots - first - n) * sizeof(*in));
	l->n_slots -= n - 1;
	l->merged_slots += n;
	return true;
}
