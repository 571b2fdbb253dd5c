/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces of `sonde bench`: one run of a command (bench_run.c), what was measured beside the profiles, of whole runs
 * (bench_metrics.c) and over their time (bench_series.c), and both for other programs (bench_openmetrics.c).
 */
#pragma once
#include "cli/bench_series.h"
#include "cli/recorder.h"
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include "lib/render/render.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* ---- one run ---- */

/* Who samples: an exporter that runs, or one of ours. */
struct bench_sampler {
	struct cli_server_options server;
	struct own_exporter own;
};

enum bench_metric {
	BENCH_WALL,
	BENCH_USER,
	BENCH_SYSTEM,
	BENCH_RSS,
	BENCH_MINOR_FAULTS,
	BENCH_MAJOR_FAULTS,
	BENCH_READS,
	BENCH_WRITES,
	BENCH_VOLUNTARY_SWITCHES,
	BENCH_INVOLUNTARY_SWITCHES,
	BENCH_PROGRESS, /* 0: its output was not looked at */
	BENCH_N_METRICS,
};

struct bench_result {
	double metrics[BENCH_N_METRICS]; /* seconds, bytes, counts */
	struct bench_series series;
	int64_t begun_ms; /* wall time */
	int status;	  /* of wait() */
};

struct bench_run {
	char *const *argv;
	const char *side;
	unsigned number;
	int64_t interval_ms;	      /* of the series' points */
	const struct regex *progress; /* in the output; NULL: it is not looked at */
};
/*
 * Runs argv with the environment plus SONDE_BENCH_SIDE and SONDE_BENCH_RUN, its output on our standard error, and samples it: the profile of
 * its time, gzipped, into `profile`. Needs bench_block_signals; a signal to end is passed on, and -EINTR.
 */
int bench_run_sampled(struct bench_sampler *from, const struct bench_run *run,
	struct bench_result *ret, struct bytes *profile, struct errbuf *eb) _must_check_;
/* Blocks SIGCHLD and the signals that end a benchmark, which is to end its exporter first: they are read from a descriptor. Before the first
 * run. */
void bench_block_signals(sigset_t *ret_before);
/* A hook, by /bin/sh; -ECHILD when it fails, -EINTR when a signal ended it and us. NULL: nothing to do. */
int bench_hook(const char *what, const char *command, const char *side, unsigned number,
	struct errbuf *eb) _must_check_;

/* ---- what was measured ---- */

/* Whether any run has progress, which is measured on request only. */
bool bench_has_progress(const struct bench_result *results, size_t n);
/* Results of A, then of B. The table: medians, change, Mann-Whitney's p. -ENOMEM; `out` is checked by the caller, here and
 * below. */
int bench_metrics_table(const struct bench_result *results, size_t n_a, size_t n_b,
	const char *label_a, const char *label_b, struct bytes *out) _must_check_;
/* For the charts of a page: `values` has room for BENCH_N_METRICS × (n_a + n_b) and is what `ret` points into. */
void bench_metrics_charts(const struct bench_result *results, size_t n_a, size_t n_b,
	double *values, struct render_metric ret[BENCH_N_METRICS]);
/* side,run,… one line a run. */
void bench_metrics_csv(const struct bench_result *results, size_t n_a, size_t n,
	const char *const labels[2], struct bytes *out);
/* side,run,seconds,progress,… one line a point of a series. */
void bench_series_csv(const struct bench_result *results, size_t n_a, size_t n,
	const char *const labels[2], struct bytes *out);
/* Both of them, of whole runs and over time, as OpenMetrics with timestamps: metrics.om. bench_openmetrics.c */
void bench_openmetrics(const struct bench_result *results, size_t n_a, size_t n,
	const char *const labels[2], struct bytes *out);
