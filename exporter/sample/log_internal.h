/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots, as log.c, log_merge.c and log_read.c share them.
 */
#pragma once
#include "exporter/sample/log.h"

struct slot {
	uint64_t first, last;	  /* seconds of CLOCK_BOOTTIME; the same but for merged slots */
	int64_t start_ns, end_ns; /* what was sampled of them */
	int64_t wall_end_ns;	  /* CLOCK_REALTIME of end_ns, once closed */
	int64_t lost_ns;	  /* suspended between start and end */
	uint64_t lost_samples;
	bool closed, merged, tried; /* tried: merging it was not worth while */

	uint32_t n, cap;
	uint32_t *stack, *task;
	uint16_t *ms;	   /* from the second's start; NULL in merged slots */
	uint8_t *period;   /* NULL: the log keeps own weights */
	uint64_t *periods; /* at most 256 weights */
	uint32_t n_periods;
	uint64_t *
		value; /* weights themselves: own weights, merged slots, and where 256 were not enough */
	uint64_t *value_2; /* second weights, where the log keeps them */
	uint32_t *count;   /* merged slots */
	uint16_t *cpu;
	uint64_t charged_bytes;
};

struct sample_log {
	struct sample_log_options o;
	struct slot **slots;
	size_t n_slots, cap_slots;
	int64_t start_ns;    /* CLOCK_BOOTTIME at which the log began */
	uint64_t open_index; /* oldest second that is not closed */
	int64_t origin_ns;   /* the same, or where the last suspend ended */
	int64_t covered_ns;  /* CLOCK_BOOTTIME up to which all rows are in */
	int64_t offset_ns;   /* BOOTTIME − MONOTONIC */
	uint64_t bytes, rows;
	uint64_t appended, late, refused, merged_slots, dropped_slots, lost_seconds, suspended_ns;
	uint64_t lost_samples; /* since the last drain */
};

/* With the columns that rows of this log have, but for ms in a merged one. */
struct slot *sample_slot_new(
	const struct sample_log *l, uint64_t index, int64_t start_ns, bool is_merged);
void sample_slot_free(struct sample_log *l, struct slot *s);
/* Room for `cap` rows in every column that the slot has; charged to the budget. */
int sample_slot_resize(struct sample_log *l, struct slot *s, uint32_t cap) _must_check_;
void sample_slot_shrink(struct sample_log *l, struct slot *s);
/* The index of a weight in the slot's table; beyond 256 the slot gets a column of values. */
int sample_slot_period(struct slot *s, uint64_t weight, uint8_t *ret) _must_check_;
/* Merges the oldest window that can be; false when there is none left. */
bool sample_log_merge_oldest(struct sample_log *l);
