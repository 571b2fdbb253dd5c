/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of event sources: all that the exporter's stages know of a kind of sample. Stages go by a row, never by its name, so
 * that a row is all that a new kind needs beside its kernel half (docs/ARCHITECTURE.md, "Add an event source").
 */
#pragma once
#include "bpf/abi.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a value of a profile's sample comes from. */
enum event_value {
	EVENT_COUNT,	/* number of samples */
	EVENT_WEIGHT,	/* sum of abi_record.weight[0] */
	EVENT_WEIGHT_2, /* sum of abi_record.weight[1]; the log keeps a column for it */
};

/* What the keeper attaches the kernel half's program to. */
enum event_target {
	EVENT_PER_CPU,	/* a perf event of each CPU that is online */
	EVENT_PER_FILE, /* places in files, as processes come to map them */
	EVENT_AT_LOAD,	/* what its section in the kernel half names: a tracepoint */
};

enum { EVENT_MAX_VALUES = 4, EVENT_NAME_MAX = 32 };

struct event_source {
	/* Of --profile.types, the label `event`, the program sample_NAME in bpf/event/NAME.bpf.c. */
	const char *name;
	const char *endpoint;	 /* /debug/pprof/ENDPOINT */
	const char *store_name;	 /* under which the store keeps it */
	const char *description; /* for the index page: a sentence */
	struct {
		const char *type, *unit;
		enum event_value value;
	} values[EVENT_MAX_VALUES]; /* the main one last */
	size_t n_values;
	const char *period_type, *period_unit;

	enum event_target target;
	struct {
		uint32_t type; /* PERF_TYPE_… */
		uint64_t config;
		/* False: a sample each so many nanoseconds of a clock. True: the kernel chooses how many events a sample stands
		 * for so that as many samples a second come as a clock would give. */
		bool by_frequency;
	} perf; /* of EVENT_PER_CPU */

	bool is_default; /* on without --profile.types */
	bool is_clock;	 /* stands for CPU time: its samples are compared with how busy CPUs were */
	/* Weights differ from sample to sample: the log keeps each, not an index into the few that a second has. */
	bool has_own_weights;
	/* Most samples of it for one of the CPU clock, so its share of what sampling may cost: 1 for the clock. */
	double rate_share;
};

/* The row of an event; never NULL for event < ABI_N_EVENTS. */
const struct event_source *event_source(enum abi_event event);
/* Does one of its values come from there? */
bool event_source_has(const struct event_source *s, enum event_value value);

/* Sets of events are bitmaps by enum abi_event. */
#define EVENT_BIT(event) (1U << (event))
/* The rows that are on without a flag. */
uint32_t event_default_set(void);
/* The event of a name; -EINVAL with a text that lists the names there are. */
int event_find(const char *name, struct errbuf *eb) _must_check_;
/* "cpu,page_faults" → the set. -EINVAL with a text that lists the names there are: an unknown or empty name, one named twice. */
int event_parse_set(const char *text, uint32_t *ret, struct errbuf *eb) _must_check_;
/* The rate of an event when the clock's is `hz`: at least 1. */
uint32_t event_rate_hz(const struct event_source *s, uint32_t hz);
