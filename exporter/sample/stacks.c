/* SPDX-License-Identifier: Apache-2.0
 *
 * Two columns (parent, frame), 12 bytes a node. A stack's new nodes come one after the other, so a node's first child mostly lies
 * right behind it and is looked for there; only children that lie elsewhere are in the open-addressed index from (parent, frame) to
 * the child. At a few samples a second all of this is cold: walking down a known stack reads along two columns, adding to it writes
 * along them.
 *
 * Invariants:
 *  1. parent[i] < i for i > 0;
 *  2. `slots` has a power of two of entries, at most three quarters used; each holds a node id, 0 is free;
 *  3. node i is in the index when parent[i] != i - 1, and only then;
 *  4. (parent, frame) is unique.
 */
#include "exporter/sample/stacks.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
#include <string.h>

enum { STACKS_MIN_SLOTS = 256, STACKS_MIN_NODES = 512, STACKS_MAX_NODES = 1U << 30 };

struct stacks {
	struct budget *budget;
	uint32_t *parent;
	uint64_t *frame;
	uint32_t n, cap;
	uint32_t *slots;
	uint32_t n_slots, n_indexed;
	uint64_t charged_bytes, refused;
};

static uint64_t bytes_of(uint32_t cap, uint32_t n_slots)
{
	return (uint64_t)cap * (sizeof(uint32_t) + sizeof(uint64_t)) +
	       (uint64_t)n_slots * sizeof(uint32_t);
}

static uint32_t slot_of(const struct stacks *s, uint32_t parent, uint64_t frame)
{
	return (uint32_t)hash_mix(frame ^ (uint64_t)parent * 0x9e3779b97f4a7c15ULL) &
	       (s->n_slots - 1);
}

static void index_node(struct stacks *s, uint32_t id)
{
	uint32_t i = slot_of(s, s->parent[id], s->frame[id]);

	while (s->slots[i])
		i = (i + 1) & (s->n_slots - 1);
	s->slots[i] = id;
}

static void index_all(struct stacks *s)
{
	memset(s->slots, 0, (size_t)s->n_slots * sizeof(*s->slots));
	for (uint32_t id = 1; id < s->n; id++)
		if (s->parent[id] != id - 1)
			index_node(s, id);
}

struct stacks *stacks_new(struct budget *budget)
{
	struct stacks *s = xcalloc(1, sizeof(*s));

	s->budget = budget;
	s->cap = STACKS_MIN_NODES;
	s->n_slots = STACKS_MIN_SLOTS;
	s->parent = xcalloc(s->cap, sizeof(*s->parent));
	s->frame = xcalloc(s->cap, sizeof(*s->frame));
	s->slots = xcalloc(s->n_slots, sizeof(*s->slots));
	s->n = 1;
	if (budget && budget_charge(budget, bytes_of(s->cap, s->n_slots), NULL) == 0)
		s->charged_bytes = bytes_of(s->cap, s->n_slots);
	return s;
}

void stacks_freep(struct stacks **sp)
{
	struct stacks *s = *sp;

	if (!s)
		return;
	if (s->budget)
		budget_release(s->budget, s->charged_bytes);
	free(s->parent);
	free(s->frame);
	free(s->slots);
	free(s);
	*sp = NULL;
}

/* Grows columns to `cap` and the index to `n_slots`; on failure nothing but spare room has changed.
 */
static int resize(struct stacks *s, uint32_t cap, uint32_t n_slots)
{
	uint64_t bytes = bytes_of(cap, n_slots);
	uint32_t *slots = NULL, *parent;
	uint64_t *frame;

	if (s->budget && bytes > s->charged_bytes) {
		if (budget_charge(s->budget, bytes - s->charged_bytes, NULL) < 0)
			return -ENOMEM;
		s->charged_bytes = bytes;
	}
	parent = try_realloc(s->parent, cap, sizeof(*parent));
	if (!parent)
		return -ENOMEM;
	s->parent = parent;
	frame = try_realloc(s->frame, cap, sizeof(*frame));
	if (!frame)
		return -ENOMEM;
	s->frame = frame;
	s->cap = cap;
	if (n_slots == s->n_slots)
		return 0;
	slots = try_malloc((size_t)n_slots * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(s->slots);
	s->slots = slots;
	s->n_slots = n_slots;
	index_all(s);
	return 0;
}

/* For `n` nodes more, of which the first may have to go into the index. */
static int make_room(struct stacks *s, uint32_t n)
{
	uint32_t cap = s->cap, n_slots = s->n_slots;

	if (n > STACKS_MAX_NODES - s->n)
		return -ENOMEM;
	if (n > cap - s->n)
		cap = MAX(cap + cap / 2, s->n + n);
	if ((uint64_t)(s->n_indexed + 1) * 4 > (uint64_t)n_slots * 3)
		n_slots *= 2;
	return cap == s->cap && n_slots == s->n_slots ? 0 : resize(s, cap, n_slots);
}

/* 0: there is no such child. */
static uint32_t find_child(const struct stacks *s, uint32_t parent, uint64_t frame)
{
	uint32_t id = parent + 1, i;

	if (id < s->n && s->parent[id] == parent && s->frame[id] == frame)
		return id;
	for (i = slot_of(s, parent, frame); (id = s->slots[i]) != 0; i = (i + 1) & (s->n_slots - 1))
		if (s->parent[id] == parent && s->frame[id] == frame)
			break;
	return id;
}

/* A chain of n > 0 new nodes below `parent`, which has no child like the first; its end. */
static uint32_t append(struct stacks *s, uint32_t parent, const uint64_t *frames, uint32_t n)
{
	uint32_t first = s->n;

	for (uint32_t i = 0; i < n; i++) {
		s->parent[first + i] = i ? first + i - 1 : parent;
		s->frame[first + i] = frames[i];
	}
	s->n += n;
	if (parent != first - 1) {
		index_node(s, first);
		s->n_indexed++;
	}
	return s->n - 1;
}

int stacks_add(struct stacks *s, const uint64_t *frames_root_first, uint32_t n, uint32_t *ret_id)
{
	uint32_t id = 0, known = 0, child;

	while (known < n && (child = find_child(s, id, frames_root_first[known])) != 0) {
		id = child;
		known++;
	}
	if (known < n) {
		int r = make_room(s, n - known);

		if (r < 0) {
			s->refused++;
			return r;
		}
		id = append(s, id, frames_root_first + known, n - known);
	}
	*ret_id = id;
	return 0;
}

uint64_t stacks_frame(const struct stacks *s, uint32_t id)
{
	return s->frame[id];
}

uint32_t stacks_parent(const struct stacks *s, uint32_t id)
{
	return s->parent[id];
}

uint32_t stacks_count(const struct stacks *s)
{
	return s->n;
}

uint64_t stacks_bytes(const struct stacks *s)
{
	return bytes_of(s->cap, s->n_slots);
}

uint64_t stacks_refused(const struct stacks *s)
{
	return s->refused;
}

uint32_t stacks_mark(const struct stacks *s, uint32_t id, uint64_t *live)
{
	uint32_t n_new = 0;

	for (;; id = s->parent[id]) {
		if (bits_has(live, id))
			return n_new;
		bits_set(live, id);
		n_new++;
		if (!id)
			return n_new;
	}
}

/* Gives memory back. A refused shrinking leaves the larger block, which serves as well. */
static void shrink(struct stacks *s, uint32_t cap, uint32_t n_slots)
{
	uint32_t *parent = try_realloc(s->parent, cap, sizeof(*parent));
	uint64_t *frame = try_realloc(s->frame, cap, sizeof(*frame));
	uint32_t *slots = try_realloc(s->slots, n_slots, sizeof(*slots));
	uint64_t bytes = bytes_of(cap, n_slots);

	s->parent = parent ? parent : s->parent;
	s->frame = frame ? frame : s->frame;
	s->slots = slots ? slots : s->slots;
	s->cap = cap;
	s->n_slots = n_slots;
	if (s->charged_bytes > bytes) {
		budget_release(s->budget, s->charged_bytes - bytes);
		s->charged_bytes = bytes;
	}
}

void stacks_compact(struct stacks *s, const uint64_t *live, uint32_t *ret_remap)
{
	uint32_t n = 1, cap, n_slots = STACKS_MIN_SLOTS;

	s->n_indexed = 0;
	ret_remap[0] = 0;
	for (uint32_t id = 1; id < s->n; id++) {
		if (!bits_has(live, id))
			continue;
		ret_remap[id] = n;
		s->parent[n] = ret_remap[s->parent[id]];
		s->frame[n] = s->frame[id];
		s->n_indexed += s->parent[n] != n - 1;
		n++;
	}
	s->n = n;
	cap = MAX(n + n / 2, STACKS_MIN_NODES);
	while ((uint64_t)(s->n_indexed + s->n_indexed / 2) * 4 > (uint64_t)n_slots * 3)
		n_slots *= 2;
	if (cap <= s->cap && n_slots <= s->n_slots)
		shrink(s, cap, n_slots);
	index_all(s);
}
