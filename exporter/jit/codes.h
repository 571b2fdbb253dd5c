/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a process's JIT code lies: a sorted array of pieces that do not overlap. A piece that is
 * reported later takes the place of all that it overlaps: that code is gone. Names stay in the file;
 * a piece knows where. Not thread-safe.
 */
#pragma once
#include "lib/base/budget.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit_code {
	uint64_t start;
	uint64_t where;	  /* offset in its file */
	uint32_t size;	  /* 0: up to the next piece, JIT_UNSIZED_BYTES at most */
	uint32_t serial;  /* order of telling; set by jit_codes_merge */
	uint32_t to_line; /* a dump's lines lie so many bytes before `where`; 0: none */
	uint8_t of_dump;
};

enum { JIT_UNSIZED_BYTES = 64 << 10 };

struct jit_codes {
	struct jit_code *items;
	size_t n;
	struct jit_code *fresh; /* read, not merged yet */
	size_t n_fresh, cap_fresh;
	uint32_t serial;
	size_t max; /* pieces; above it the oldest go */
	uint64_t n_dropped;
	struct budget *budget; /* may be NULL */
	uint64_t charged_bytes;
};

void jit_codes_init(struct jit_codes *c, size_t max, struct budget *budget);
void jit_codes_done(struct jit_codes *c);
/* Tells of a piece; -ENOMEM. */
int jit_codes_add(struct jit_codes *c, const struct jit_code *code);
/* So many wait that they should be merged before more are added. */
enum { JIT_MAX_FRESH = 1 << 16 };
/* Takes in the codes added since the last call. -ENOMEM: the array stays as it was. */
int jit_codes_merge(struct jit_codes *c);
/* The piece that covers an address, NULL when none does. Valid until the next merge. */
const struct jit_code *jit_codes_find(const struct jit_codes *c, uint64_t addr);
void jit_codes_clear(struct jit_codes *c);
