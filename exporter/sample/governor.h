/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling rate: the base rate, raised while requests with hz= are open, lowered in steps while Sonde's own cost over the
 * last minute is above --profile.max-overhead, and raised again when it has room. Pure: time and cost are arguments.
 * Requests come from any thread (one mutex); governor_step has one caller, the drain.
 */
#pragma once
#include <stdint.h>

#define GOVERNOR_WINDOW_S 60

struct governor;

struct governor_options {
	uint32_t base_hz;    /* --profile.frequency */
	uint32_t max_hz;     /* --profile.max-frequency: caps requests */
	uint32_t min_hz;     /* floor under load; 0: 1 */
	double max_overhead; /* --profile.max-overhead, a share of all online CPU time; 0: no limit */
};

struct governor *governor_new(const struct governor_options *o);
void governor_freep(struct governor **g);

/* A request for at least `hz` (capped by max_hz) until released. The rate changes at the next drain. Thread-safe. */
void governor_request(struct governor *g, uint32_t hz);
void governor_release(struct governor *g, uint32_t hz);

/* One observation: own CPU and BPF time so far (cumulative) and CPUs online. Returns the rate to sample at from now on. */
uint32_t governor_step(struct governor *g, int64_t now_ns, uint64_t own_cpu_ns, uint64_t bpf_ns,
	uint32_t n_online);

struct governor_stats {
	uint32_t hz;		  /* in force */
	uint32_t wanted_hz;	  /* base rate or the highest open request */
	uint32_t n_requests;	  /* open */
	double overhead_ratio;	  /* over the window */
	uint64_t lowered, raised; /* steps taken */
};
void governor_stats(struct governor *g, struct governor_stats *ret);
