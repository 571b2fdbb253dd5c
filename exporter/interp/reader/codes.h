/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of processes between rounds of readings: machine code, each piece read once for all addresses in it, and scripts, whose lines
 * are counted once for all their functions. A runtime moves its code and throws it away, so that what was read in an earlier round is asked for
 * whether it is still there; scripts are known by their fields.
 */
#pragma once
#include "exporter/interp/hotspot_vm.h"
#include "exporter/interp/interp.h"
#include "exporter/interp/v8_script.h"

enum {
	INTERP_CODES = 256,		   /* pieces kept of a process, those used last, */
	INTERP_CODES_MAX_BYTES = 1 << 20,  /* and bytes of them; a larger piece is not read */
	INTERP_CODES_PROCESSES = 64,	   /* those with names read last, */
	INTERP_CODES_ALL_BYTES = 16 << 20, /* and bytes of all of them */
};

/* Of one process. */
struct interp_codes {
	uint32_t pid;
	uint64_t start_ns;
	const struct interp_machine_reader *reader;
	const struct interp_memory *memory;
	const struct runtime_record *record;
	struct v8_scripts scripts;
	struct hotspot_vm hotspot;
	/* The rest is its own. */
	struct interp_piece *pieces; /* INTERP_CODES; NULL: none was read */
	size_t n, bytes;
	uint64_t clock, used;
	uint64_t round_at; /* clock: pieces used since then are known to be there */
};

struct interp_codes_all {
	struct interp_codes processes[INTERP_CODES_PROCESSES];
	uint64_t clock;
};
/* Gives back what is too much, of the processes that were read longest ago; nothing of those since that clock. Between readings. */
void interp_codes_trim(struct interp_codes_all *all, uint64_t since);
/* Nobody will ask for those of that process again. */
void interp_codes_drop(struct interp_codes *c);
void interp_codes_done(struct interp_codes_all *all);

/* Those of a process, for a round of readings. It stays until the next call; its memory and record until the round is over. */
struct interp_codes *interp_codes_begin(struct interp_codes_all *all, uint32_t pid,
	uint64_t start_ns, const struct interp_machine_reader *reader,
	const struct interp_memory *memory, const struct runtime_record *record);

/*
 * The frames of an address, as interp_machine_reader has it; they stay until the next call. What was read for one check serves no other: the
 * code of a frame that says it runs something else has to be read again. -ENOENT where the code has no frames, -EFBIG where a piece would be
 * larger than all are to be.
 */
int interp_codes_frames(struct interp_codes *c, uint64_t pc, bool is_return, uint64_t check,
	struct interp_frame ret[INTERP_MAX_MACHINE_FRAMES], size_t *ret_n);
