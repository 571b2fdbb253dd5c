/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scrape stage hands to the store: one decoded answer of one target and one profile type,
 * already relabeled and cut into streams and rows, with the gauges and coverage of the same scrape.
 * One scrape becomes one WAL record.
 */
#pragma once
#include "lib/prof/labels.h"
#include "lib/prof/profile.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STORE_NONE = 0xffffffffU,
	STORE_MAX_COLUMNS = 16,
	STORE_MAX_STRING = 65535,
	STORE_MAX_DEPTH = 1024
};

/* What a value column means when profiles are merged: summed, averaged over profiles, or a float64
 * without rows. */
enum store_column_kind { STORE_DELTA = 0, STORE_INSTANT = 1, STORE_GAUGE = 2 };
/* What a stream holds. Gauges and coverage have profile entries and no rows. */
enum store_stream_kind { STORE_PROFILE = 0, STORE_GAUGES = 1, STORE_COVERAGE = 2 };
/* A gauges stream with this one column says when the stream of the same labels ended. */
#define STORE_END_COLUMN "end"

struct store_column {
	const char *type, *unit; /* "cpu", "nanoseconds" */
	enum store_column_kind kind;
};

/* An opaque byte string. p may be NULL when len is 0. */
struct store_blob {
	const void *p;
	size_t len;
};

/* One number of the scrape itself: `up`, `scrape_duration_seconds` … The labels carry __name__. */
struct store_gauge {
	const struct labels *labels;
	int64_t time_ns;
	double value;
};

/* That the stream with these labels, of a profile or a gauge, ended: what was last stored of it holds no longer. */
struct store_end {
	const struct labels *labels;
	int64_t time_ns;
};

/* That this target was watched for this type, also when there was nothing to see. The labels are
 * the target's, with __name__ = the type. */
struct store_coverage {
	const struct labels *labels;
	int64_t time_ns, duration_ns, lost_ns;
	uint32_t n_cpus; /* of the target's machine; 0 unknown */
};

/*
 * Everything is borrowed for the duration of store_append(). All streams of a scrape share time,
 * duration, period and columns. Row i takes the stack of sample row_sample[i] of `profile`, belongs
 * to streams[row_stream[i]], carries the row labels label_sets[row_labels[i]] (STORE_NONE: none)
 * and the values values[i × n_columns …]. Rows need no order; equal ones are summed. A stream
 * without rows is stored as a profile of zero rows. profile may be NULL when n_rows is 0.
 */
struct store_scrape {
	const struct profile *profile;
	bool keep_addresses; /* the job's `addresses`: file addresses are part of a named location's
				identity */

	const char *period_type, *period_unit; /* "" when the profile has none */
	int64_t period;
	int64_t time_ns, duration_ns; /* time: END of the window, unix nanoseconds */
	const struct store_column *columns;
	size_t n_columns;

	const struct labels *const *streams; /* with __name__; pairwise different */
	size_t n_streams;
	const struct labels *label_sets;
	size_t n_label_sets;

	const uint32_t *row_sample, *row_stream, *row_labels;
	const int64_t *values; /* row-major */
	size_t n_rows;

	const struct store_gauge *gauges;
	size_t n_gauges;
	const struct store_coverage *coverage;
	size_t n_coverage;
	const struct store_end *ends;
	size_t n_ends;

	/* Durable cursor: stored with the record, atomically. No cursor when key.len is 0. */
	struct store_blob cursor_key, cursor_before, cursor_after;
};

struct store_result {
	uint64_t
		sequence; /* of the record, 0: none; durable once store_stats.synced_sequence reaches it */
	uint32_t n_streams, n_rows; /* stored (gauges and coverage not counted) */
	uint32_t n_duplicates;	    /* (stream, time) was there with equal content: dropped */
	uint32_t n_conflicts;	    /* was there with other content: refused and lost */
};
