/* SPDX-License-Identifier: Apache-2.0
 *
 * Two growing tables of counts.
 */
#include "exporter/sample/outcomes.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
#include "lib/base/table.h"
#include <string.h>

enum { MAX_PROGRAMS = 1024, MAX_BINARIES = 1 << 16, MAX_SEEN = 32 };

struct rows {
	struct outcome *items;
	size_t n, cap;
	struct table by_key; /* hash of the name, or binary id → index */
};

struct outcomes {
	uint64_t total[ABI_N_EVENTS][ABI_N_CUTS];
	enum abi_event event; /* of the rows */
	struct rows programs, binaries;
};

struct outcomes *outcomes_new(enum abi_event event)
{
	struct outcomes *o = xcalloc(1, sizeof(*o));

	o->event = event;
	table_init(&o->programs.by_key, NULL);
	table_init(&o->binaries.by_key, NULL);
	o->programs.items = xcalloc(1, sizeof(*o->programs.items));
	o->programs.n = o->programs.cap = 1;
	memcpy(o->programs.items[0].comm, "(others)", sizeof("(others)"));
	return o;
}

void outcomes_freep(struct outcomes **op)
{
	struct outcomes *o = *op;

	if (!o)
		return;
	table_done(&o->programs.by_key);
	table_done(&o->binaries.by_key);
	free(o->programs.items);
	free(o->binaries.items);
	free(o);
	*op = NULL;
}

/* The row of a key, made when new; NULL when there is no room. */
static struct outcome *row_of(struct rows *r, uint64_t key, size_t max)
{
	uint64_t *slot = table_find(&r->by_key, key);

	if (slot)
		return &r->items[*slot];
	if (r->n >= max || alloc_grow(&r->items, &r->cap, r->n + 1, sizeof(*r->items)) < 0)
		return NULL;
	slot = table_insert(&r->by_key, key, NULL);
	if (!slot)
		return NULL;
	*slot = r->n;
	r->items[r->n] = (struct outcome) {.stacks = 0};
	return &r->items[r->n++];
}

enum abi_cut outcomes_cut(const uint64_t *words, uint32_t n)
{
	uint64_t why = n ? ABI_FRAME_VALUE(words[0]) : 0;

	if (!n || ABI_FRAME_KIND(words[0]) != ABI_FRAME_TRUNCATED)
		return ABI_CUT_NONE;
	return why < ABI_N_CUTS ? (enum abi_cut)why : ABI_CUT_NONE;
}

static void count(struct outcome *row, enum abi_cut cut)
{
	if (!row)
		return;
	row->stacks++;
	row->cut[cut] += cut != ABI_CUT_NONE;
}

/* Each binary of the stack once; the cut belongs to the one nearest to the root. */
static void count_binaries(struct outcomes *o, const uint64_t *words, uint32_t n, enum abi_cut cut)
{
	uint32_t seen[MAX_SEEN], n_seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t binary = ABI_NATIVE_BINARY(words[i]), k = 0;
		struct outcome *row;

		if (ABI_FRAME_KIND(words[i]) != ABI_FRAME_NATIVE)
			continue;
		while (k < n_seen && seen[k] != binary)
			k++;
		if (k < n_seen || n_seen == MAX_SEEN)
			continue;
		seen[n_seen++] = binary;
		row = row_of(&o->binaries, binary, MAX_BINARIES);
		if (row)
			row->binary = binary;
		count(row, n_seen == 1 ? cut : ABI_CUT_NONE);
	}
}

void outcomes_add(struct outcomes *o, enum abi_event event, const char *comm, const uint64_t *words,
	uint32_t n)
{
	enum abi_cut cut = outcomes_cut(words, n);
	size_t len = strnlen(comm, ABI_COMM_LEN - 1);
	struct outcome *program;

	o->total[event][cut]++;
	if (event != o->event)
		return;
	program = row_of(&o->programs, hash_xxh3(comm, len), MAX_PROGRAMS);
	if (!program)
		program = &o->programs.items[0];
	else if (!program->stacks)
		memcpy(program->comm, comm, len);
	count(program, cut);
	count_binaries(o, words, n, cut);
}

enum abi_event outcomes_event(const struct outcomes *o)
{
	return o->event;
}

void outcomes_total(const struct outcomes *o, enum abi_event event, uint64_t ret[ABI_N_CUTS])
{
	memcpy(ret, o->total[event], sizeof(o->total[event]));
}

static const struct outcome *row_at(const struct rows *r, uint32_t i)
{
	return i < r->n ? &r->items[i] : NULL;
}

const struct outcome *outcomes_program(const struct outcomes *o, uint32_t i)
{
	return row_at(&o->programs, i);
}

const struct outcome *outcomes_binary(const struct outcomes *o, uint32_t i)
{
	return row_at(&o->binaries, i);
}

void outcomes_retain(struct outcomes *o, const uint64_t *used_bitmap, uint32_t n_bits)
{
	struct rows *r = &o->binaries;
	size_t n = 0;

	table_clear(&r->by_key);
	for (size_t i = 0; i < r->n; i++) {
		uint32_t id = r->items[i].binary;
		uint64_t *slot;

		if (id >= n_bits || !bits_has(used_bitmap, id))
			continue;
		r->items[n] = r->items[i];
		slot = table_insert(&r->by_key, id, NULL);
		if (!slot)
			continue;
		*slot = n++;
	}
	r->n = n;
}
