/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code of one process, each piece read once for the addresses in it that wait for their frames. It is kept for as long as that takes,
 * not longer: a runtime moves its code and throws it away.
 */
#pragma once
#include "exporter/interp/interp.h"

enum {
	INTERP_CODES = 64,		  /* pieces kept, those used last, */
	INTERP_CODES_MAX_BYTES = 4 << 20, /* and bytes of them; one piece may be larger, alone */
};

struct interp_codes {
	const struct interp_machine_reader *reader;
	const struct interp_memory *memory;
	const struct runtime_record *record;
	/* The rest is its own. */
	struct {
		struct interp_machine code;
		uint64_t check, used;
	} codes[INTERP_CODES];
	size_t n, bytes;
	uint64_t clock;
};
void interp_codes_done(struct interp_codes *c);

/*
 * The frames of an address, as interp_machine_reader has it; they stay until the next call. What was read for one check serves no other: the
 * code of a frame that says it runs something else has to be read again. -ENOENT where the code has no frames.
 */
int interp_codes_frames(struct interp_codes *c, uint64_t pc, bool is_return, uint64_t check,
	struct interp_frame ret[INTERP_MAX_MACHINE_FRAMES], size_t *ret_n);
