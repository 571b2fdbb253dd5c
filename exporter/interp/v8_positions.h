/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of V8 from code to source: V8's own (source positions of bytecode and of machine code, bytecode offsets of baseline code), and
 * the one made of them for a function's bytecode, which outlives the process.
 */
#pragma once
#include "exporter/interp/v8_script.h"
#include "lib/base/bytes.h"
#include "lib/base/cursor.h"

/* An entry of V8's table: from `code` on, the source is at `source` of the function `inlined`. */
struct v8_position {
	uint32_t code;
	uint32_t source; /* UINT32_MAX: nowhere */
	uint32_t
		inlined; /* one more than its number among the inlined ones; 0: the code's own function */
};

struct v8_positions {
	struct cursor c;
	int64_t code, raw;
	bool is_flagged;
};
/* The table `bytes` of a version whose record is `r`. */
struct v8_positions v8_positions_of(const struct runtime_record *r, const uint8_t *bytes, size_t n);
/* False: there are no more, or it is malformed. `code` never falls; what comes before
 * the code counts as its start. */
bool v8_positions_next(struct v8_positions *p, struct v8_position *ret);
/* A number of the same form that stands elsewhere: of an inlined call. */
struct v8_position v8_position_of(uint64_t raw);

/* Bytecode offsets of baseline code: how many bytes of machine code each bytecode has. */
struct v8_baseline {
	struct cursor table, bytecode;
	const uint8_t *lengths; /* of a bytecode with its operands, by scale and bytecode */
	uint32_t n_bytecodes;
	uint32_t end;	 /* of the machine code of what stands here */
	uint32_t offset; /* of the bytecode; UINT32_MAX: before the first */
	uint32_t next;
};
/* `code` is the whole bytecode, `lengths` 3 * n_bytecodes numbers. */
struct v8_baseline v8_baseline_of(
	struct cursor table, struct cursor code, const uint8_t *lengths, uint32_t n_bytecodes);
/* The next bytecode; false: there are no more. */
bool v8_baseline_next(struct v8_baseline *b);

/* A place in a function by bytecode offset, from such entries in ascending order. */
void v8_lines_put(struct bytes *b, uint32_t *at, struct v8_place *last, uint32_t offset,
	struct v8_place place);
struct v8_place v8_lines_find(const uint8_t *lines, size_t n, uint32_t offset);
