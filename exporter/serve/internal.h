/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of exporter/serve share.
 */
#pragma once
#include "exporter/serve/serve.h"
#include "lib/net/metrics/metrics.h"

struct serve {
	struct serve_options o;
	struct http_server *http;
	struct metrics *metrics;
	struct metric *profiles; /* answered, by format */
	struct metric
		*shortened; /* answered with fewer seconds than there were, for want of memory */
	char *types;	    /* value of Sonde-Types */
	char *labels;	    /* value of Sonde-Labels */
	char retention[24]; /* value of Sonde-Retention-Seconds */
	int64_t started_ns; /* CLOCK_BOOTTIME */
};

/* text/plain with X-Go-Pprof: 1, which makes `go tool pprof` show the text. */
void serve_reply_error(struct http_request *r, unsigned code, const char *text);

/* profile.c */
http_handler_fn serve_profile;
/* targets.c */
http_handler_fn serve_targets;
/* pages.c */
http_handler_fn serve_index, serve_pprof_index, serve_flags;
#define SERVE_PAGE_TYPE "text/html; charset=utf-8"
void serve_page_begin(struct bytes *out, const char *title);
void serve_page_end(struct bytes *out);
/* unwind.c */
http_handler_fn serve_unwind;
/* The table of user stacks by how they end. */
void serve_put_stacks(const struct serve *s, struct bytes *out);
/* sonde_stacks_total and what belongs to it. The pipeline's lock is held. */
void serve_collect_stacks_locked(struct metrics_writer *w, const struct serve *s);
/* runtimes.c: language runtimes */
enum { SERVE_VERSION_BYTES = 24 };
/* "3.11.2"; "3.9" where the patch is not known. */
void serve_runtime_version(uint32_t version, char ret[SERVE_VERSION_BYTES]);
/* A table of the files that hold one; nothing when none does. */
void serve_put_runtimes(const struct serve *s, struct bytes *out);
void serve_collect_runtimes(struct metrics_writer *w, const struct proc_stats *p);
/* reads.c: what is read of processes and files */
void serve_collect_reads(struct metrics_writer *w, const struct serve *s);
/* A table of what hangs; nothing when nothing does. */
void serve_put_hanging(const struct serve *s, struct bytes *out);
enum { SERVE_STATE_BYTES = 160 };
/* A sentence about what is stuck, and the status for /-/healthy: 503 when there is nothing to serve without it. Takes no lock, so
 * that it answers whatever else does not. */
unsigned serve_state(const struct serve *s, char ret[SERVE_STATE_BYTES]);
/* stats.c: collectors for /metrics */
void serve_add_metrics(struct serve *s);
/* The headers Sonde-Health and Sonde-Rate of an answer: own cost, how many samples of the event were taken and lost; the rate
 * and why. */
void serve_put_health(struct http_request *r, const struct serve *s, enum abi_event event);
/* What each log says of itself; 0 of those that are off. The pipeline's lock is held. */
void serve_log_stats_locked(
	const struct profile_source *source, struct sample_log_stats ret[ABI_N_EVENTS]);
