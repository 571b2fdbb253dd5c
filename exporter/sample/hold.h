/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting room of the drain: raw records of all rings and side-band buffers, handed on in time order once they are old
 * enough. Pure.
 */
#pragma once
#include "exporter/sample/drain.h"
#include "lib/base/bytes.h"

enum hold_kind {
	HOLD_SIDEBAND = 0, /* before samples of the same time */
	HOLD_SAMPLE = 1,
};

struct hold_entry {
	uint64_t time_ns;
	uint64_t order; /* kind, then arrival */
	uint32_t off, len;
};

struct hold_stats {
	uint64_t samples, sideband, late_samples, late_sideband, bad_records, sideband_lost,
		overflowed;
	uint64_t dropped[ABI_N_EVENTS], sideband_dropped; /* samples; the budget left no room */
	uint64_t stacks[ABI_N_CUTS];
};

struct hold {
	struct sample_sink sink;
	struct hold_entry *entries;
	size_t n, cap;
	struct bytes bytes; /* records, each at a multiple of 8 */
	uint64_t max_bytes;
	bool build_ids; /* side-band records are of events that asked for them (old bundles) */
	uint64_t n_arrived;
	uint64_t handed_ns; /* time of the youngest record handed on */
	struct hold_stats stats;
};

void hold_init(
	struct hold *h, const struct sample_sink *sink, struct budget *budget, uint64_t max_bytes);
void hold_done(struct hold *h);

/* One raw record: an abi_record, or a perf record. Copied. Malformed ones are counted and dropped. */
void hold_add(struct hold *h, enum hold_kind kind, const void *rec, size_t len);
/* Hands on everything up to and including this time. */
void hold_flush(struct hold *h, uint64_t up_to_ns);
/* The time of the first held record that has something to be read or learned about: the kernel half does not know the process, or names
 * are read from a process that may not live long. UINT64_MAX: there is none. */
uint64_t hold_unknown_ns(const struct hold *h);
