/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling rates, one for each event that a rate governs (event_follows_rate): the base rate, raised while requests with hz= are
 * open, lowered in steps while it costs more than the event's part of --profile.max-overhead, and raised again when it has room.
 * Only what the rate costs counts: a lower rate saves nothing of what processes that come and go cost, nor of what making symbol
 * files and answers costs. Pure: time and cost are arguments. Requests come from any thread (one mutex); governor_step has one
 * caller, the drain.
 *
 * The budget is shared out by `cost_share`. What an event costs beyond its part lowers its own rate and no other's. Only the event
 * with the largest share may use more than its part: what the others leave of the whole.
 */
#pragma once
#include "bpf/abi.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOVERNOR_WINDOW_S 60

struct governor;

struct governor_options {
	uint32_t base_hz;    /* --profile.frequency */
	uint32_t max_hz;     /* --profile.max-frequency: caps requests */
	uint32_t min_hz;     /* floor under load; 0: 1 */
	double max_overhead; /* --profile.max-overhead, a share of all online CPU time; 0: no limit */
	uint32_t shares[ABI_N_EVENTS]; /* parts of max_overhead; 0: off, or no rate governs it */
};

/* The rows' cost_share of those of a set (EVENT_BITs) that a rate governs. */
void governor_shares(uint32_t events, uint32_t ret[ABI_N_EVENTS]);

/* CPU time since start; never falls. */
struct governor_cost {
	/* What follows the rate of an event: runs of its program, its samples taken over. */
	uint64_t rate_ns[ABI_N_EVENTS];
	uint64_t all_ns; /* all that is reported as overhead, rate_ns included */
};

/* Why the rate in force is what it is. */
enum governor_reason {
	GOVERNOR_FREQUENCY, /* the base rate */
	GOVERNOR_REQUEST,   /* an open request asks for it */
	GOVERNOR_OVERHEAD, /* lowered: the wanted rate would cost more than the event's part of max_overhead */
	GOVERNOR_N_REASONS
};

struct governor *governor_new(const struct governor_options *o);
void governor_freep(struct governor **g);

/* A request for at least `hz` (capped by max_hz) of an event until released. The rate changes at the next drain. Thread-safe. */
void governor_request(struct governor *g, enum abi_event event, uint32_t hz);
void governor_release(struct governor *g, enum abi_event event, uint32_t hz);

/* The rates to sample at from now on. 0: none governs the event. */
struct governor_rates {
	uint32_t hz[ABI_N_EVENTS];
};
/* One observation: cost so far and CPUs online. */
struct governor_rates governor_step(
	struct governor *g, int64_t now_ns, const struct governor_cost *cost, uint32_t n_online);

/* Of an event. */
struct governor_rate {
	bool is_governed;    /* else all is 0 */
	uint32_t hz;	     /* in force */
	uint32_t wanted_hz;  /* base rate or the highest open request */
	uint32_t n_requests; /* open */
	enum governor_reason reason;
	double rate_ratio;	  /* over the window, of rate_ns: what max_overhead limits */
	double limit_ratio;	  /* its part of max_overhead; 0: no limit */
	uint64_t lowered, raised; /* steps taken */
};
struct governor_stats {
	double overhead_ratio; /* over the window, of all_ns */
	struct governor_rate events[ABI_N_EVENTS];
};
void governor_stats(struct governor *g, struct governor_stats *ret);

/* "frequency", "request", "overhead" */
const char *governor_reason_name(enum governor_reason reason);
/* The rate in force and why, for a person: "99 Hz (--profile.frequency)". */
enum { GOVERNOR_TEXT_BYTES = 96 };
void governor_describe(const struct governor_rate *r, char *ret, size_t cap);
