/* SPDX-License-Identifier: Apache-2.0
 *
 * New pieces are sorted and merged into the array, then one sweep lets later ones win.
 */
#include "exporter/jit/codes.h"
#include "lib/base/alloc.h"
#include "lib/base/cleanup.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void jit_codes_init(struct jit_codes *c, size_t max, struct budget *budget)
{
	*c = (struct jit_codes) {.max = max, .budget = budget};
}

void jit_codes_clear(struct jit_codes *c)
{
	free(TAKE(c->items));
	free(TAKE(c->fresh));
	c->n = c->n_fresh = c->cap_fresh = 0;
	if (c->charged_bytes)
		budget_release(c->budget, c->charged_bytes);
	c->charged_bytes = 0;
}

void jit_codes_done(struct jit_codes *c)
{
	jit_codes_clear(c);
}

int jit_codes_add(struct jit_codes *c, const struct jit_code *code)
{
	int r = alloc_grow(&c->fresh, &c->cap_fresh, c->n_fresh + 1, sizeof(*c->fresh));

	if (r < 0)
		return r;
	c->fresh[c->n_fresh] = *code;
	c->fresh[c->n_fresh++].serial = ++c->serial;
	return 0;
}

static int by_start(const void *pa, const void *pb)
{
	const struct jit_code *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

static uint64_t end_of(const struct jit_code *a)
{
	return a->start + a->size;
}

/* Puts a piece behind those of `out`, which start no later. */
static size_t put(struct jit_code *out, size_t n, const struct jit_code *code)
{
	while (n && end_of(&out[n - 1]) > code->start) {
		/* What has no size marks a place in the other piece. */
		if (out[n - 1].serial > code->serial || !code->size)
			return n;
		n--;
	}
	out[n++] = *code;
	return n;
}

static int by_serial(const void *pa, const void *pb)
{
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	return a < b ? -1 : a > b;
}

/* Only the newest c->max stay. */
static size_t drop_oldest(struct jit_codes *c, struct jit_code *items, size_t n)
{
	_cleanup_free_ uint32_t *serials = try_realloc(NULL, n, sizeof(*serials));
	size_t kept = 0;
	uint32_t first;

	if (!serials)
		return c->max;
	for (size_t i = 0; i < n; i++)
		serials[i] = items[i].serial;
	qsort(serials, n, sizeof(*serials), by_serial);
	first = serials[n - c->max];
	for (size_t i = 0; i < n; i++)
		if (items[i].serial >= first)
			items[kept++] = items[i];
	c->n_dropped += n - kept;
	return kept;
}

int jit_codes_merge(struct jit_codes *c)
{
	size_t cap = c->n + c->n_fresh, n = 0, a = 0, b = 0;
	struct jit_code *items;

	if (!c->n_fresh)
		return 0;
	if (c->budget && budget_charge(c->budget, cap * sizeof(*items), NULL) < 0)
		return -ENOMEM;
	items = try_realloc(NULL, cap, sizeof(*items));
	if (!items) {
		if (c->budget)
			budget_release(c->budget, cap * sizeof(*items));
		return -ENOMEM;
	}
	qsort(c->fresh, c->n_fresh, sizeof(*c->fresh), by_start);
	while (a < c->n || b < c->n_fresh) {
		if (b == c->n_fresh || (a < c->n && by_start(&c->items[a], &c->fresh[b]) < 0))
			n = put(items, n, &c->items[a++]);
		else
			n = put(items, n, &c->fresh[b++]);
	}
	if (n > c->max)
		n = drop_oldest(c, items, n);
	jit_codes_clear(c);
	c->items = realloc(items, n * sizeof(*items)); /* smaller */
	c->items = c->items ? c->items : items;
	c->n = n;
	if (c->budget)
		budget_release(c->budget, (cap - n) * sizeof(*items));
	c->charged_bytes = c->budget ? n * sizeof(*items) : 0;
	return 0;
}

/* How far from its start it may reach; the next piece has what it begins with. */
static uint64_t room_of(const struct jit_code *a)
{
	return a->size ? a->size : JIT_UNSIZED_BYTES;
}

const struct jit_code *jit_codes_find(const struct jit_codes *c, uint64_t addr)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->items[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr - c->items[low - 1].start < room_of(&c->items[low - 1])
		       ? &c->items[low - 1]
		       : NULL;
}
