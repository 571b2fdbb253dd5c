/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of programs that take samples, as the keeper loads and attaches them: all that main can have attached. Rows are those of
 * exporter/event, by enum abi_event.
 */
#pragma once
#include "exporter/event/event.h"

struct keeper_program {
	const char *
		event; /* NULL: no row. The program is sample_EVENT; maps and programs whose names begin with EVENT_ are its own */
	enum event_target target;
	uint32_t type; /* of EVENT_PER_CPU: as in struct perf_event_attr */
	uint64_t config;
	uint64_t period;
	bool is_preemptible; /* needs scratch that outlives a switch to another task */
	bool is_on;	     /* otherwise neither the program nor its maps are loaded */
};

struct keeper_programs {
	struct keeper_program rows[ABI_MAX_EVENTS];
	uint32_t n;
};

/* The rows of exporter/event, those of `events` (EVENT_BITs) on, at the rates that they have when the clock's is `hz`. */
void programs_of_events(uint32_t events, uint32_t hz, struct keeper_programs *ret);
/* The row when it is on and of that target, or NULL. */
const struct keeper_program *programs_find(
	const struct keeper_programs *p, uint32_t event, enum event_target target);
/* Is any row of that target on? */
bool programs_have(const struct keeper_programs *p, enum event_target target);
/* Is any row on whose program can be preempted, whatever it is attached to? */
bool programs_are_preemptible(const struct keeper_programs *p);
/* Is a map or a further program of that name, EVENT_…, of a row that is off? */
bool programs_leave_out(const struct keeper_programs *p, const char *name);
