/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of memory budgets: process → head, page cache, scrape, query, symbols, log. Arenas and
 * large buffers charge one; the limits are the caps a person sets by flags, and /metrics prints the
 * tree.
 *
 * Invariants:
 *  1. a node's `used` is the sum of its own charges and of those of all nodes below it;
 *  2. no charge succeeds that would push a node or any ancestor above its limit;
 *  3. all operations are thread-safe; creation is not (do it at start);
 *  4. a refused charge was never visible in the node that refused it: others are not refused for it;
 *  5. charges of BUDGET_LARGE_BYTES or more leave `reserve_bytes` of the limit to smaller ones.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { BUDGET_LARGE_BYTES = 1 << 20 };

struct budget {
	const char *name; /* static, as shown on /metrics */
	const char *flag; /* static, the flag that sets the limit; NULL when it has none */
	struct budget *parent;
	_Atomic uint64_t used_bytes, peak_bytes, refused_total;
	uint64_t limit_bytes;	/* 0: none of its own */
	uint64_t reserve_bytes; /* of the limit, for small charges alone */
};

void budget_init(struct budget *b, struct budget *parent, const char *name, const char *flag,
	uint64_t limit_bytes);
/* Charges `bytes` to `b` (NULL: to nothing) and its ancestors, all or nothing. -ENOMEM with a text naming limit, flag
 * and amount. */
int budget_charge(struct budget *b, uint64_t bytes, struct errbuf *eb) _must_check_;
/* Gives back what was charged; more than that is our mistake and aborts. */
void budget_release(struct budget *b, uint64_t bytes);
/* free() of an array of `cap` items that alloc_grow_in charged to `b` (NULL: none). */
void budget_free(struct budget *b, void *p, size_t cap, size_t elem);
