/* SPDX-License-Identifier: Apache-2.0
 *
 * A sorted array of ranges: programs come and go seldom, compared with look-ups.
 */
#include "exporter/symbolize/kernel_code.h"
#include "bpf/abi.h"
#include "lib/base/alloc.h"
#include <string.h>

enum { TURN_SHIFT = 48, TURN_MASK = 0xfff };

void kernel_code_init(struct kernel_code *k)
{
	*k = (struct kernel_code) {.n = 0};
	lock_init(&k->lock);
}

void kernel_code_done(struct kernel_code *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->items[i].name);
	for (size_t i = 0; i < k->n_past; i++)
		free(k->past[i].name);
	free(k->items);
	free(k->past);
	lock_done(&k->lock);
}

static unsigned turn_of(uint64_t frame)
{
	return TURN_MASK - (ABI_FRAME_VALUE(frame) >> TURN_SHIFT & TURN_MASK);
}

uint64_t kernel_code_address(uint64_t frame)
{
	/* All bits above those of the turn are ones too. */
	return frame | ~((1ULL << TURN_SHIFT) - 1);
}

/* The first range that ends above `addr`, or n. */
static size_t first_above_locked(const struct kernel_code *k, uint64_t addr)
{
	size_t low = 0, high = k->n;

	ASSERT_HELD(&k->lock);
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (k->items[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct kernel_code_range *last_at_locked(const struct kernel_code *k, uint64_t addr)
{
	size_t at = first_above_locked(k, addr);

	ASSERT_HELD(&k->lock);
	return at < k->n && k->items[at].start <= addr ? &k->items[at] : NULL;
}

static bool overlap(const struct kernel_code_range *a, const struct kernel_code_range *b)
{
	return a->start < b->end && b->start < a->end;
}

/* Takes the name over. */
static void add_past_locked(struct kernel_code *k, const struct kernel_code_range *range)
{
	ASSERT_HELD(&k->lock);
	if (k->n_past == KERNEL_CODE_MAX_PAST) {
		free(k->past[0].name);
		memmove(k->past, k->past + 1, --k->n_past * sizeof(*k->past));
	}
	if (alloc_grow(&k->past, &k->cap_past, k->n_past + 1, sizeof(*k->past)) < 0)
		free(range->name);
	else
		k->past[k->n_past++] = *range;
}

static void forget_past_at_locked(struct kernel_code *k, const struct kernel_code_range *range)
{
	size_t kept = 0;

	ASSERT_HELD(&k->lock);
	for (size_t i = 0; i < k->n_past; i++)
		if (overlap(&k->past[i], range))
			free(k->past[i].name);
		else
			k->past[kept++] = k->past[i];
	k->n_past = kept;
}

/* After that of all that lay there. */
static uint16_t next_turn_locked(struct kernel_code *k, const struct kernel_code_range *range)
{
	unsigned turn = 0;

	ASSERT_HELD(&k->lock);
	for (size_t i = 0; i < k->n_past; i++)
		if (overlap(&k->past[i], range))
			turn = MAX(turn, k->past[i].turn + 1U);
	if (turn <= KERNEL_CODE_MAX_TURN)
		return (uint16_t)turn;
	forget_past_at_locked(k, range);
	return 0;
}

static void forget_gone_locked(struct kernel_code *k)
{
	size_t kept = 0;

	ASSERT_HELD(&k->lock);
	for (size_t i = 0; i < k->n; i++)
		if (k->items[i].is_gone)
			free(k->items[i].name);
		else
			k->items[kept++] = k->items[i];
	k->n = kept;
}

/* What lies where the range is to lie becomes the past. Returns where it belongs. */
static size_t make_way_locked(struct kernel_code *k, const struct kernel_code_range *range)
{
	size_t at = first_above_locked(k, range->start), last = at;

	ASSERT_HELD(&k->lock);
	while (last < k->n && k->items[last].start < range->end)
		add_past_locked(k, &k->items[last++]);
	if (last > at)
		memmove(&k->items[at], &k->items[last], (k->n - last) * sizeof(*k->items));
	k->n -= last - at;
	if (k->n < KERNEL_CODE_MAX)
		return at;
	forget_gone_locked(k);
	return first_above_locked(k, range->start);
}

static void add_locked(struct kernel_code *k, const struct kernel_code_record *r, uint64_t since_ns,
	uint64_t end, bool is_gone)
{
	struct kernel_code_range range = {.start = r->start,
		.end = end,
		.since_ns = since_ns,
		.is_bpf = r->is_bpf,
		.is_gone = is_gone};
	size_t at = make_way_locked(k, &range);

	ASSERT_HELD(&k->lock);
	if (k->n == KERNEL_CODE_MAX ||
		alloc_grow(&k->items, &k->cap, k->n + 1, sizeof(*k->items)) < 0) {
		k->is_incomplete = true;
		return;
	}
	range.turn = next_turn_locked(k, &range);
	range.name = xstrndup(r->name, KERNEL_CODE_NAME_MAX - 1);
	memmove(&k->items[at + 1], &k->items[at], (k->n - at) * sizeof(*k->items));
	k->items[at] = range;
	k->n++;
	if (range.turn)
		k->any_turn = true;
}

static bool ends_at(const struct kernel_code_record *r, uint64_t *ret_end)
{
	return r->len && !__builtin_add_overflow(r->start, r->len, ret_end) && *r->name;
}

void kernel_code_add(struct kernel_code *k, const struct kernel_code_record *r)
{
	uint64_t end;

	if (!ends_at(r, &end))
		return;
	lock_take(&k->lock);
	k->n_records++;
	add_locked(k, r, r->time_ns, end, false);
	lock_release(&k->lock);
}

void kernel_code_remove(struct kernel_code *k, const struct kernel_code_record *r)
{
	uint64_t end;
	size_t at;

	lock_take(&k->lock);
	k->n_records++;
	at = first_above_locked(k, r->start);
	if (at < k->n && k->items[at].start == r->start) {
		k->items[at].is_gone = true;
		if (!k->items[at].name)
			k->items[at].name = xstrndup(r->name, KERNEL_CODE_NAME_MAX - 1);
	} else if (ends_at(r, &end) && (at == k->n || k->items[at].start >= end)) {
		add_locked(k, r, 0, end, true); /* it was loaded before anybody listened */
	}
	lock_release(&k->lock);
}

/* From now on something else may lie anywhere: a turn whose name kallsyms has, or its end will tell. */
void kernel_code_lost(struct kernel_code *k, uint64_t time_ns)
{
	lock_take(&k->lock);
	k->is_incomplete = true;
	for (size_t i = 0; i < k->n; i++) {
		struct kernel_code_range *range = &k->items[i];

		if (!range->name)
			continue;
		add_past_locked(k, range);
		range->turn = next_turn_locked(k, range);
		range->since_ns = time_ns;
		range->name = NULL;
		k->any_turn = true;
	}
	lock_release(&k->lock);
}

bool kernel_code_take_incomplete(struct kernel_code *k)
{
	bool was;

	lock_take(&k->lock);
	was = k->is_incomplete;
	k->is_incomplete = false;
	lock_release(&k->lock);
	return was;
}

/* What lay at an address at a time. */
static const struct kernel_code_range *then_at_locked(
	const struct kernel_code *k, uint64_t addr, uint64_t time_ns)
{
	const struct kernel_code_range *last = last_at_locked(k, addr);

	ASSERT_HELD(&k->lock);
	if (last && last->since_ns <= time_ns)
		return last;
	for (size_t i = k->n_past; i-- > 0;)
		if (k->past[i].start <= addr && addr < k->past[i].end &&
			k->past[i].since_ns <= time_ns)
			return &k->past[i];
	return NULL;
}

void kernel_code_mark(struct kernel_code *k, uint64_t *frames, size_t n, uint64_t time_ns)
{
	/* Addresses are used again on few machines. */
	if (!k->any_turn)
		return;
	lock_take(&k->lock);
	for (size_t i = 0; i < n; i++) {
		const struct kernel_code_range *range =
			then_at_locked(k, kernel_code_address(frames[i]), time_ns);

		if (range && !turn_of(frames[i]))
			frames[i] -= (uint64_t)range->turn << TURN_SHIFT;
	}
	lock_release(&k->lock);
}

static const struct kernel_code_range *of_turn_locked(
	const struct kernel_code *k, uint64_t addr, unsigned turn)
{
	const struct kernel_code_range *last = last_at_locked(k, addr);

	ASSERT_HELD(&k->lock);
	if (last && last->turn == turn)
		return last;
	for (size_t i = k->n_past; i-- > 0;)
		if (k->past[i].start <= addr && addr < k->past[i].end && k->past[i].turn == turn)
			return &k->past[i];
	return NULL;
}

enum kernel_code_known kernel_code_find(struct kernel_code *k, uint64_t frame, uint64_t addr,
	char ret_name[KERNEL_CODE_NAME_MAX], bool *ret_is_bpf)
{
	enum kernel_code_known known = turn_of(frame) ? KERNEL_CODE_FORGOTTEN : KERNEL_CODE_UNKNOWN;
	const struct kernel_code_range *range;

	lock_take(&k->lock);
	range = of_turn_locked(k, addr, turn_of(frame));
	if (range && range->name) {
		memcpy(ret_name, range->name, strlen(range->name) + 1);
		*ret_is_bpf = range->is_bpf;
		known = KERNEL_CODE_NAMED;
	} else if (range) {
		known = KERNEL_CODE_UNKNOWN;
	}
	lock_release(&k->lock);
	return known;
}

uint64_t kernel_code_records(struct kernel_code *k)
{
	uint64_t n;

	lock_take(&k->lock);
	n = k->n_records;
	lock_release(&k->lock);
	return n;
}
