/* SPDX-License-Identifier: Apache-2.0
 *
 * Did the ticks run? Compares the CPU time that samples stood for with the time each CPU was busy. perf_event programs are
 * skipped without a trace in some states of their CPU; this is where that shows. Pure.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct coverage;

struct coverage *coverage_new(uint32_t n_cpus);
void coverage_freep(struct coverage **c);

/*
 * One observation, about every second: busy time of each CPU as /proc/stat has it (text of the whole file), and the sampled
 * time of each CPU from the counters. Sums fade with a time constant of a minute.
 */
void coverage_observe(struct coverage *c, const char *proc_stat, size_t len,
	const uint64_t *sampled_ns, int64_t now_ns);
/* Busy time of a CPU in ns since boot, as of the last observation. */
uint64_t coverage_busy_ns(const struct coverage *c, uint32_t cpu);
/* 0 while less than two seconds of busy time have been seen. */
double coverage_ratio(const struct coverage *c);
/* Of the worst CPU among those busy for two seconds and a tenth of the time. */
double coverage_worst_ratio(const struct coverage *c);
