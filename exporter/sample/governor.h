/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling rate: the base rate, raised while requests with hz= are open, lowered in steps while it costs more than
 * --profile.max-overhead, and raised again when it has room. Only what the rate costs counts: a lower rate saves nothing of
 * what processes that come and go cost, nor of what making symbol files and answers costs. Pure: time and cost are arguments.
 * Requests come from any thread (one mutex); governor_step has one caller, the drain.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define GOVERNOR_WINDOW_S 60

struct governor;

struct governor_options {
	uint32_t base_hz;    /* --profile.frequency */
	uint32_t max_hz;     /* --profile.max-frequency: caps requests */
	uint32_t min_hz;     /* floor under load; 0: 1 */
	double max_overhead; /* --profile.max-overhead, a share of all online CPU time; 0: no limit */
};

/* CPU time since start; never falls. */
struct governor_cost {
	uint64_t rate_ns; /* what follows the rate: runs of the sampler, samples taken over */
	uint64_t all_ns;  /* all that is reported as overhead, rate_ns included */
};

/* Why the rate in force is what it is. */
enum governor_reason {
	GOVERNOR_FREQUENCY, /* the base rate */
	GOVERNOR_REQUEST,   /* an open request asks for it */
	GOVERNOR_OVERHEAD,  /* lowered: the wanted rate would cost more than max_overhead */
	GOVERNOR_N_REASONS
};

struct governor *governor_new(const struct governor_options *o);
void governor_freep(struct governor **g);

/* A request for at least `hz` (capped by max_hz) until released. The rate changes at the next drain. Thread-safe. */
void governor_request(struct governor *g, uint32_t hz);
void governor_release(struct governor *g, uint32_t hz);

/* One observation: cost so far and CPUs online. Returns the rate to sample at from now on. */
uint32_t governor_step(
	struct governor *g, int64_t now_ns, const struct governor_cost *cost, uint32_t n_online);

struct governor_stats {
	uint32_t hz;	     /* in force */
	uint32_t wanted_hz;  /* base rate or the highest open request */
	uint32_t n_requests; /* open */
	enum governor_reason reason;
	double overhead_ratio;	  /* over the window, of all_ns */
	double rate_ratio;	  /* over the window, of rate_ns: what max_overhead limits */
	uint64_t lowered, raised; /* steps taken */
};
void governor_stats(struct governor *g, struct governor_stats *ret);

/* "frequency", "request", "overhead" */
const char *governor_reason_name(enum governor_reason reason);
/* The rate in force and why, for a person: "99 Hz (--profile.frequency)". */
enum { GOVERNOR_TEXT_BYTES = 96 };
void governor_describe(const struct governor_stats *s, char *ret, size_t cap);
