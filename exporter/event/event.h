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

enum {
	EVENT_MAX_VALUES = 4,
	EVENT_NAME_MAX = 32,
	EVENT_REFERENCE_HZ = 19, /* the default of --profile.frequency */
};

struct event_source {
	/* Of --profile.types, the label `event`, the program sample_NAME in bpf/event/NAME.bpf.c. */
	const char *name;
	const char *endpoint;	 /* /debug/pprof/ENDPOINT */
	const char *store_name;	 /* under which the store keeps it */
	const char *description; /* for the index page: a sentence */
	struct {
		const char *type, *unit;
		enum event_value value;
	} values[EVENT_MAX_VALUES]; /* one is EVENT_COUNT, under whatever name; the main one is last */
	size_t n_values;
	const char *period_type, *period_unit;

	enum event_target target;
	struct {
		uint32_t type; /* PERF_TYPE_… */
		uint64_t config;
		/* Events for one sample at EVENT_REFERENCE_HZ: twice the rate halves it. It bounds what samples cost beside what
		 * they are taken of. 0: the event is a clock, with a sample each 1/rate seconds. */
		uint32_t each;
	} perf; /* of EVENT_PER_CPU */

	/* Its part of --profile.max-overhead, beside the parts of the others that are on and follow a rate. The clock has the largest. */
	uint32_t cost_share;

	bool is_default; /* on without --profile.types */
	bool is_clock;	 /* stands for CPU time: its samples are compared with how busy CPUs were */
	/* Weights differ from sample to sample: the log keeps each, not an index into the few that a second has. */
	bool has_own_weights;
};

/* The row of an event; never NULL for event < ABI_N_EVENTS. */
const struct event_source *event_source(enum abi_event event);
/* May other tasks run on a CPU while the event's program runs there (bpf/events.def)? */
bool event_is_preemptible(enum abi_event event);
/* Does one of its values come from there? */
bool event_source_has(const struct event_source *s, enum event_value value);

/* Which of its values is the number of samples. */
size_t event_count_value(const struct event_source *s);

/* Sets of events are bitmaps by enum abi_event. */
#define EVENT_BIT(event) (1U << (event))
/* The rows that are on without a flag. */
uint32_t event_default_set(void);
/* The event of a name; -EINVAL with a text that lists the names there are. */
int event_find(const char *name, struct errbuf *eb) _must_check_;
/* "cpu,page_faults" → the set. -EINVAL with a text that lists the names there are: an unknown or empty name, one named twice. */
int event_parse_set(const char *text, uint32_t *ret, struct errbuf *eb) _must_check_;
/* Does a rate govern how many samples are taken? The others bound their own cost. */
bool event_follows_rate(const struct event_source *s);
/* The period of a perf event at a rate, at least 1: nanoseconds of a clock, or events. */
uint64_t event_period(const struct event_source *s, uint32_t hz);
