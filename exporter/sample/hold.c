/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting room of the drain.
 */
#include "exporter/sample/hold.h"
#include "exporter/sample/sideband.h"
#include "lib/base/alloc.h"
#include <stddef.h>
#include <string.h>

void hold_init(
	struct hold *h, const struct sample_sink *sink, struct budget *budget, uint64_t max_bytes)
{
	memset(h, 0, sizeof(*h));
	h->sink = *sink;
	h->max_bytes = max_bytes;
	bytes_init(&h->bytes, budget, 0);
}

void hold_done(struct hold *h)
{
	bytes_done(&h->bytes);
	free(h->entries);
	memset(h, 0, sizeof(*h));
}

_Static_assert(offsetof(struct abi_stack, event) == offsetof(struct abi_record, event) &&
		       offsetof(struct abi_code, event) == offsetof(struct abi_record, event),
	"one place");

static uint64_t stack_time(const void *rec, size_t len)
{
	struct abi_stack s;

	if (len < sizeof(s))
		return 0;
	memcpy(&s, rec, sizeof(s));
	if (s.event >= ABI_N_EVENTS || s.bytes > ABI_MAX_STACK_BYTES || len != sizeof(s) + s.bytes)
		return 0;
	return s.time_ns;
}

static uint64_t code_time(const void *rec, size_t len)
{
	struct abi_code c;

	if (len != sizeof(c))
		return 0;
	memcpy(&c, rec, sizeof(c));
	return c.event < ABI_N_EVENTS ? c.time_ns : 0;
}

/* The record's time, or 0 when it does not follow the ABI. */
static uint64_t sample_time(const void *rec, size_t len)
{
	struct abi_record r;

	if (len && *(const uint8_t *)rec == ABI_RECORD_CODE)
		return code_time(rec, len);
	if (len < sizeof(r))
		return 0;
	memcpy(&r, rec, sizeof(r));
	if (r.type == ABI_RECORD_STACK)
		return stack_time(rec, len);
	if (r.type != ABI_RECORD_SAMPLE || r.event >= ABI_N_EVENTS ||
		r.n_kernel > ABI_MAX_KERNEL_FRAMES || r.n_user > ABI_MAX_USER_WORDS ||
		len != sizeof(r) + (r.n_kernel + (size_t)r.n_user) * sizeof(uint64_t))
		return 0;
	return r.time_ns;
}

static uint64_t sideband_time(struct hold *h, const void *rec, size_t len)
{
	struct sideband s;
	int r = sideband_parse(rec, len, h->build_ids, &s);

	if (r == -EBADMSG)
		h->stats.bad_records++;
	return r < 0 ? 0 : s.time_ns;
}

static bool add_entry(
	struct hold *h, enum hold_kind kind, uint64_t time_ns, const void *rec, size_t len)
{
	if (alloc_grow(&h->entries, &h->cap, h->n + 1, sizeof(*h->entries)) < 0)
		return false;
	h->entries[h->n] = (struct hold_entry) {.time_ns = time_ns,
		.order = (uint64_t)kind << 63 | h->n_arrived,
		.off = (uint32_t)h->bytes.len,
		.len = (uint32_t)len};
	bytes_put(&h->bytes, rec, len);
	bytes_put(&h->bytes, "\0\0\0\0\0\0\0", -len & 7);
	if (bytes_error(&h->bytes)) {
		h->bytes.error = 0;
		h->bytes.len = h->entries[h->n].off;
		return false;
	}
	h->n++;
	h->n_arrived++;
	return true;
}

void hold_add(struct hold *h, enum hold_kind kind, const void *rec, size_t len)
{
	uint64_t t = kind == HOLD_SAMPLE ? sample_time(rec, len) : sideband_time(h, rec, len);

	if (!t) {
		h->stats.bad_records += kind == HOLD_SAMPLE;
		return;
	}
	if (h->bytes.len + len > h->max_bytes || h->bytes.len > UINT32_MAX / 2) {
		h->stats.overflowed += h->n;
		hold_flush(h, UINT64_MAX);
	}
	if (add_entry(h, kind, t, rec, len))
		return;
	/* The budget refused to let the buffer grow: make room in it. */
	h->stats.overflowed += h->n;
	hold_flush(h, UINT64_MAX);
	if (add_entry(h, kind, t, rec, len))
		return;
	if (kind == HOLD_SIDEBAND)
		h->stats.sideband_dropped++;
	else if (*(const uint8_t *)rec == ABI_RECORD_SAMPLE)
		h->stats.dropped[((const uint8_t *)rec)[offsetof(struct abi_record, event)]]++;
}

static int compare_entries(const void *a, const void *b)
{
	const struct hold_entry *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static enum abi_cut cut_of(const struct abi_record *r)
{
	uint64_t last = r->n_user ? r->frames[r->n_kernel + r->n_user - 1] : 0;
	uint64_t why = ABI_FRAME_VALUE(last);

	return ABI_FRAME_KIND(last) == ABI_FRAME_TRUNCATED && why < ABI_N_CUTS ? (enum abi_cut)why
									       : ABI_CUT_NONE;
}

static void hand_on(struct hold *h, const struct hold_entry *e)
{
	const uint8_t *rec = h->bytes.data + e->off;
	bool late = e->time_ns < h->handed_ns;
	struct sideband s;

	if (e->order >> 63 == HOLD_SAMPLE && *rec == ABI_RECORD_STACK) {
		if (h->sink.stack)
			h->sink.stack(h->sink.ctx, (const void *)rec);
	} else if (e->order >> 63 == HOLD_SAMPLE && *rec == ABI_RECORD_CODE) {
		if (h->sink.code)
			h->sink.code(h->sink.ctx, (const void *)rec, false);
	} else if (e->order >> 63 == HOLD_SAMPLE) {
		const struct abi_record *r =
			(const void *)rec; /* aligned, checked by sample_time */

		h->stats.samples++;
		h->stats.late_samples += late;
		if (!(r->flags & ABI_FLAG_KTHREAD))
			h->stats.stacks[cut_of(r)]++;
		h->sink.sample(h->sink.ctx, r, late);
	} else if (sideband_parse(rec, e->len, h->build_ids, &s) == 0) {
		h->stats.sideband++;
		h->stats.late_sideband += late;
		if (s.kind == SIDEBAND_LOST)
			h->stats.sideband_lost += s.lost;
		h->sink.sideband(h->sink.ctx, &s);
	}
	h->handed_ns = MAX(h->handed_ns, e->time_ns);
}

static int compare_offsets(const void *a, const void *b)
{
	const struct hold_entry *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off);
}

/* Moves what stays to the front of the buffer. */
static void keep_rest(struct hold *h, size_t from)
{
	size_t n = h->n - from, to = 0;

	memmove(h->entries, h->entries + from, n * sizeof(*h->entries));
	qsort(h->entries, n, sizeof(*h->entries), compare_offsets);
	for (size_t i = 0; i < n; i++) {
		struct hold_entry *e = &h->entries[i];
		size_t len = (e->len + 7) & ~(size_t)7;

		memmove(h->bytes.data + to, h->bytes.data + e->off, len);
		e->off = (uint32_t)to;
		to += len;
	}
	h->n = n;
	h->bytes.len = to;
}

void hold_flush(struct hold *h, uint64_t up_to_ns)
{
	size_t i = 0;

	if (!h->n)
		return;
	qsort(h->entries, h->n, sizeof(*h->entries), compare_entries);
	while (i < h->n && h->entries[i].time_ns <= up_to_ns)
		hand_on(h, &h->entries[i++]);
	if (i)
		keep_rest(h, i);
}

static bool is_unknown(const uint8_t *rec)
{
	const struct abi_record *r = (const void *)rec; /* aligned, checked by sample_time */

	return *rec == ABI_RECORD_CODE || (*rec == ABI_RECORD_SAMPLE && r->flags & ABI_FLAG_COPIED);
}

uint64_t hold_unknown_ns(const struct hold *h)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < h->n; i++)
		if (h->entries[i].order >> 63 == HOLD_SAMPLE &&
			is_unknown(h->bytes.data + h->entries[i].off))
			first = MIN(first, h->entries[i].time_ns);
	return first;
}
