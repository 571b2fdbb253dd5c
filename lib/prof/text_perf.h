/* SPDX-License-Identifier: Apache-2.0
 *
 * The head line of a sample of `perf script`, whose fields -F chooses (builtin-script.c of Linux: perf_sample__fprintf_start and
 * process_event).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of the text. */
struct perf_span {
	const char *p;
	size_t n;
};

struct perf_span prof_perf_skip_blanks(struct perf_span s);
/* The next word, without the blanks before it, and its end in *s. */
struct perf_span prof_perf_cut_word(struct perf_span *s);
/* 1 to 16 hexadecimal digits. */
bool prof_perf_take_address(struct perf_span w, uint64_t *ret);

enum {
	PERF_COMM = 1,
	PERF_IDS = 2,
	PERF_CPU = 4,
	PERF_TIME = 8,
	PERF_PERIOD = 16,
	PERF_EVENT = 32,
};

struct perf_head {
	unsigned fields; /* which of these it has */
	struct perf_span comm, pid, tid, event;
	uint64_t period; /* 1 when there is none */
	double time_s;	 /* negative: unknown */
	struct perf_span
		rest; /* behind the event: what of the event there is to say, or the frame */
};

/*
 * Takes any line apart; what no field claims is the name. Columns are distinguished by their form and, numbers, by the width to which
 * perf pads them.
 */
void prof_perf_head_parse(struct perf_span line, struct perf_head *ret);
/* The one frame of a sample without a call chain, which ends its head line; cut off `line`. False when it has none. */
bool prof_perf_head_cut_frame(struct perf_span *line, struct perf_span *ret_frame);
