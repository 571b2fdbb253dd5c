/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's memory for readers of its runtime, through the keeper. One request brings what is near too, since names and tables lie in
 * many small pieces. What is read a second time, as a check, is read from the process again.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/keeper/keeper.h"
#include "lib/base/clock.h"

enum {
	INTERP_WINDOW_BYTES = 512,
	INTERP_WINDOW_READINGS = 16, /* that it remembers, as a second one */
};

struct interp_window {
	struct interp_memory
		memory; /* what readers get; it points here, so that the struct does not move */
	struct keeper *keeper;
	uint32_t pid;
	uint64_t start_ns;
	struct clock *clock;
	int64_t deadline_ns;		       /* 0: none */
	bool is_over;			       /* something was not read since its time was over */
	uint64_t requests, asked_bytes, bytes; /* bytes: that came from the process */
	/* The rest is its own. */
	uint64_t addr;
	uint32_t n; /* bytes of the window */
	uint32_t n_readings;
	struct {
		uint64_t addr, bytes;
	} readings[INTERP_WINDOW_READINGS]; /* the last ones */
	uint8_t window[INTERP_WINDOW_BYTES];
};

/*
 * Of the process that started then; bias: of the runtime's file there. Nothing to be given back. One thread at a time; a reading blocks
 * as keeper_copy does. It gives -EFAULT where not all bytes can be read, else the errors of keeper_copy.
 */
void interp_window_init(struct interp_window *w, struct keeper *keeper, uint32_t pid,
	uint64_t start_ns, uint64_t bias);
/* From then on (CLOCK_MONOTONIC) nothing is asked any more: -ETIMEDOUT. What was asked before may take as long as keeper_copy does. */
void interp_window_limit(struct interp_window *w, struct clock *clock, int64_t deadline_ns);
