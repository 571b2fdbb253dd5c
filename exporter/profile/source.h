/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles as their consumers see them (the HTTP server): ask for a type and a range, get a named profile. Any
 * thread may ask; the tables are locked only while rows are aggregated.
 */
#pragma once
#include "exporter/profile/build.h"
#include "exporter/interp/reader/names.h"
#include "exporter/jit/jit.h"
#include "exporter/profile/filter.h"
#include "exporter/sample/governor.h"
#include "lib/base/bell.h"
#include "lib/base/lock.h"

struct profile_source {
	struct lock *lock; /* the pipeline's */
	struct profile_tables tables;
	struct symbolizer *symbolizer;
	struct binary_registry *binaries;
	struct pods *pods; /* NULL: without --kubernetes */
	struct proc_reader *reader;
	struct jit *jit;		   /* NULL: JIT code has no names */
	struct interp_names *interp_names; /* NULL: frames of language runtimes have none */
	struct governor *governor;
	struct bell *drain_bell; /* NULL: nothing is drained */
	struct clock *clock;
	const struct labels *constants; /* node and external labels */
	uint32_t hz;			/* the clock's base rate */
	uint32_t retention_s, window_s;
	int with_cpu;
	enum fold_frames fold; /* of requests that do not say it */
};

#define PROFILE_SYMBOLS_WAIT_NS \
	(2 * NS_PER_S) /* how long a response waits for names being read and for symbol files being built */

struct profile_query {
	enum abi_event event;		     /* one that is on */
	const struct profile_filter *filter; /* NULL: everything */
	enum symbolize_mode mode;
	enum fold_frames fold;
	const char *cursor; /* not NULL: closed slots after it, at most span_s of them */
	uint32_t span_s;
	int64_t from_ns, to_ns; /* without cursor: CLOCK_BOOTTIME */
};

/* Is there a log of it? */
bool profile_source_is_on(const struct profile_source *s, enum abi_event event);
/* CLOCK_BOOTTIME up to which samples are in the logs, which go together. */
int64_t profile_source_covered_ns(const struct profile_source *s);
/* Asks for a drain now: somebody waits for its samples, or for another rate. */
void profile_source_hurry(const struct profile_source *s);
/* Fills `profile` (profile_init'ed by the caller) and *ret_range. Blocks for what names are worth, PROFILE_SYMBOLS_WAIT_NS at most. Works in `arena`, of which nothing is
 * needed afterwards. -EINVAL (cursor, filter), -ENOMEM. */
int profile_source_take(const struct profile_source *s, const struct profile_query *q,
	struct arena *arena, struct profile *profile, struct sample_range *ret_range,
	struct errbuf *eb) _must_check_;
