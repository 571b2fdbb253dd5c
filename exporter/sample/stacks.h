/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix tree that every sample log's stacks live in. A node = (parent, frame); a stack is its
 * leaf node. Node 0 is the empty stack. Parents have smaller ids than their children. One owner;
 * readers hold the owner's lock.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include <stdint.h>

struct stacks;
/* Arrays and hash table are charged to `budget`. */
struct stacks *stacks_new(struct budget *budget);
void stacks_freep(struct stacks **s);

/* Interns a stack: the frames of an abi_record, user root first, kernel leaf last. Repeat, elided
 * and truncated words are nodes like any other. -ENOMEM when memory or budget refuse; then nothing
 * was added. */
int stacks_add(struct stacks *s, const uint64_t *frames_root_first, uint32_t n,
	uint32_t *ret_id) _must_check_;
uint64_t stacks_frame(const struct stacks *s, uint32_t id);
uint32_t stacks_parent(const struct stacks *s, uint32_t id);
/* Nodes, the empty stack included: ids are below it. */
uint32_t stacks_count(const struct stacks *s);
uint64_t stacks_bytes(const struct stacks *s);
/* Times that stacks_add gave -ENOMEM. */
uint64_t stacks_refused(const struct stacks *s);

/* Sets the bit of `id` and of all its ancestors in `live` (stacks_count bits); returns how many
 * were clear. */
uint32_t stacks_mark(const struct stacks *s, uint32_t id, uint64_t *live);
/* Keeps the nodes whose bit is set (with every node its parents) and renumbers them in order:
 * ret_remap[old] = new id, for live nodes. Never fails. */
void stacks_compact(struct stacks *s, const uint64_t *live, uint32_t *ret_remap);
