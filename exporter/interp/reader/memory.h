/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's memory for readers of its runtime, through the keeper. A request brings a block, which serves other readings of the same
 * object, since names and tables lie in many small pieces. What is read a second time, as a check, is read from the process again: not
 * before all that was read for the first time, as long as its block is kept.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/keeper/keeper.h"
#include "lib/base/clock.h"

enum {
	INTERP_BLOCK_BYTES = 1024,
	INTERP_BLOCK_WORDS = INTERP_BLOCK_BYTES / 64, /* a bit for each byte */
	INTERP_BLOCKS = 128,			      /* kept while an object is read */
};

struct interp_block {
	uint64_t addr;			    /* a multiple of its size */
	uint64_t filled;		    /* number of the reading that brought it; 0: none has */
	int64_t filled_ns;		    /* and when */
	uint64_t used;			    /* of the last one that it served */
	uint64_t read[INTERP_BLOCK_WORDS];  /* of this object, before */
	uint64_t again[INTERP_BLOCK_WORDS]; /* and a second time since it was brought */
	uint32_t n;			    /* bytes */
	uint8_t bytes[INTERP_BLOCK_BYTES];
};

struct interp_window {
	struct interp_memory
		memory; /* what readers get; it points here, so that the struct does not move */
	struct keeper *keeper;
	uint32_t pid;
	uint64_t start_ns;
	struct clock *clock;
	int64_t deadline_ns; /* 0: none */
	int64_t keep_ns; /* so long a block serves all readings, of other objects too; 0: as above */
	bool is_over;	 /* something was not read since its time was over */
	uint64_t requests, asked_bytes, bytes; /* bytes: that came from the process */
	/* The rest is its own. */
	uint64_t n_readings, newest; /* the last one of something for the first time */
	struct interp_block *blocks; /* INTERP_BLOCKS; NULL: nothing was read yet */
};

/*
 * Of the process that started then; bias: of the runtime's file there. One thread at a time; a reading blocks as keeper_copy does. It gives
 * -EFAULT where not all bytes can be read, else the errors of keeper_copy.
 */
void interp_window_init(struct interp_window *w, struct keeper *keeper, uint32_t pid,
	uint64_t start_ns, uint64_t bias);
void interp_window_done(struct interp_window *w);
/* From then on (CLOCK_MONOTONIC) nothing is asked any more: -ETIMEDOUT. What was asked before may take as long as keeper_copy does. */
void interp_window_limit(struct interp_window *w, struct clock *clock, int64_t deadline_ns);
/*
 * The runtime writes nothing anew that it has once written of an object, as long as that lives: blocks serve other objects too, and are not
 * checked, until they are so old. Wants a limit.
 */
void interp_window_keep(struct interp_window *w, int64_t keep_ns);
/* Another object, or the same one from its start: what was read before says nothing of it. */
void interp_window_forget(struct interp_window *w);
