/* SPDX-License-Identifier: Apache-2.0
 *
 * The sample log of one profile type: columns in slots of one second of CLOCK_BOOTTIME.
 * docs/formats/sample-log.md has widths, the life of a slot and the cursor. The drain thread
 * appends; readers and it hold the pipeline's lock.
 *
 * Invariants:
 *  1. slots are in rising order of index and never overlap; all closed ones come before all open
 * ones;
 *  2. rows of a closed slot never change (its stack ids do, when the tree is compacted);
 *  3. a cursor's next answer begins where its last one ended: each row is served to it exactly
 * once, or the time that it stood for is reported as lost.
 */
#pragma once
#include "exporter/event/event.h"
#include "exporter/sample/stacks.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_log;

struct sample_log_options {
	struct stacks *stacks; /* shared by all logs; only its ids are kept */
	struct clock *clock;   /* boottime for the start, realtime when a slot closes */
	uint32_t retention_s;
	uint32_t window_s;	  /* slots are merged per window when retention_bytes is passed */
	uint64_t retention_bytes; /* of rows */
	struct budget *budget;
	uint64_t start_id; /* random per start of the program */
	bool with_cpu;	   /* keeps a column of CPUs */
	/* Each row keeps its weight: for events whose weights hardly repeat. Without it a row keeps an index of 8 bits into the
	 * weights that its slot has seen, and its weight only where these are more than 256. */
	bool own_weights;
	bool second_weight; /* keeps a column for sample_row.weight_2 */
};

/* Sets what the log of such samples keeps of their weights. */
void sample_log_options_by_event(struct sample_log_options *o, const struct event_source *type);
struct sample_log *sample_log_new(const struct sample_log_options *o);
void sample_log_freep(struct sample_log **l);

/* ---- the drain thread ---- */

struct sample_row {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t weight, weight_2;
	uint32_t stack, task;
	uint16_t cpu;
};
/* -ENOMEM: the row was left out and counted. */
int sample_log_append(struct sample_log *l, const struct sample_row *r);
/* So many samples were taken and never came. They count for the seconds since the last drain. */
void sample_log_lose(struct sample_log *l, uint64_t n);
/* All rows up to up_to_ns (CLOCK_MONOTONIC) have been appended: slots that ended by then are closed
 * and take wall time, old ones are dropped. boot_offset_ns = BOOTTIME − MONOTONIC as of now; a rise
 * is time in suspend, which is lost. */
void sample_log_drained(struct sample_log *l, int64_t up_to_ns, int64_t boot_offset_ns);

/* Sets the bits of all task ids and stack nodes in use. */
void sample_log_mark(const struct sample_log *l, uint64_t *tasks, uint64_t *stacks);
/* After stacks_compact. */
void sample_log_remap_stacks(struct sample_log *l, const uint32_t *remap);

/* ---- readers ---- */

/* A range of the log: what one response is made of. */
struct sample_range {
	int64_t from_ns, to_ns; /* CLOCK_BOOTTIME, [from, to) */
	int64_t wall_ns;	/* CLOCK_REALTIME of from_ns */
	int64_t duration_ns;	/* that was sampled: to − from without suspends inside */
	int64_t lost_ns;	/* before it (since the cursor) and inside it */
	uint64_t
		lost_samples; /* taken in the seconds that it has a part of, and lost: sample_log_lose, and rows refused */
	uint64_t behind_s; /* closed seconds after it */
	bool restarted;	   /* the cursor was of another start */
	bool whole_slots; /* by cursor: rows of the slots [first_slot, last_slot], whatever their ms
			   */
	uint64_t first_slot, last_slot;
	char cursor[48]; /* the next one; "" for windows */
};
enum { SAMPLE_CURSOR_MAX = 37 }; /* longest cursor text: 16 hex digits, a dot, 20 digits */

/* Closed slots after `cursor` ("": the last window of span_s that is closed), oldest first, at most
 * span_s seconds and without a gap inside. An empty range (from = to) when there is nothing new.
 * -EINVAL for a malformed cursor or one ahead of the log. */
int sample_log_since(const struct sample_log *l, const char *cursor, uint32_t span_s,
	struct sample_range *ret, struct errbuf *eb) _must_check_;
/* [from_ns, to_ns) of CLOCK_BOOTTIME to the millisecond, open slots included; cut at what has been
 * drained. Merged slots that are only partly inside are left out, as lost. */
void sample_log_window(
	const struct sample_log *l, int64_t from_ns, int64_t to_ns, struct sample_range *ret);
/* CLOCK_BOOTTIME up to which all rows are in. */
int64_t sample_log_covered_ns(const struct sample_log *l);

/* Rows of one slot that lie in a range. */
struct sample_rows {
	const uint32_t *stack, *task;
	const uint16_t
		*ms; /* when not NULL: rows outside [from_ms, to_ms) are not part of the range */
	const uint8_t *period; /* index into periods; NULL: the log keeps own weights */
	const uint64_t *periods;
	const uint64_t *value;	 /* when not NULL: the weight, in place of the period's */
	const uint64_t *value_2; /* when not NULL: the second weight, else it is 0 */
	const uint32_t *count;	 /* when not NULL: samples behind a row of a merged slot */
	const uint16_t *cpu;	 /* when not NULL */
	uint32_t n;
	uint32_t from_ms, to_ms;
};
/* The weight of row i. */
static inline uint64_t sample_rows_weight(const struct sample_rows *rows, uint32_t i)
{
	return rows->value ? rows->value[i] : rows->periods[rows->period[i]];
}
/* Iterates: start with *pos = 0, false at the end. */
bool sample_log_next(const struct sample_log *l, const struct sample_range *range, size_t *pos,
	struct sample_rows *ret);

struct sample_log_stats {
	uint64_t appended, late, refused; /* rows, since start */
	uint64_t merged_slots, dropped_slots;
	uint64_t lost_seconds; /* dropped for bytes before their time */
	uint64_t suspended_ns;
	uint64_t rows, bytes, slots; /* now */
};
void sample_log_stats(const struct sample_log *l, struct sample_log_stats *ret);
