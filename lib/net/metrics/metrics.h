/* SPDX-License-Identifier: Apache-2.0
 *
 * Own metrics in Prometheus' text format 0.0.4: a registry of families with atomic cells, and
 * collectors that write what is known only when asked. Families and cells live as long as the
 * registry. Any thread, but for _new, _freep and the functions that add collectors: those run at the start, before
 * metrics_print. The registry's lock is a leaf.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include <stddef.h>
#include <stdint.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
struct metrics;
struct metric;	    /* a family: name, help, kind, label names */
struct metric_cell; /* one series of it */

struct metrics *metrics_new(void);
void metrics_freep(struct metrics **m);

/*
 * Adds a family; `label_names` are comma-separated ("code,handler") or NULL. All texts must be
 * static. The same name twice is our own mistake. A family without labels has its cell from the
 * start (so it shows 0).
 */
struct metric *metrics_counter(
	struct metrics *m, const char *name, const char *help, const char *label_names);
struct metric *metrics_gauge(
	struct metrics *m, const char *name, const char *help, const char *label_names);
/* `bounds`: n static upper bounds in rising order; +Inf is added. */
struct metric *metrics_histogram(struct metrics *m, const char *name, const char *help,
	const char *label_names, const double *bounds, size_t n);

/* The cell with these label values (as many as names, in their order), made when new:
 * metric_cell(f, "200", "/metrics"). */
struct metric_cell *metric_cell_of(struct metric *f, const char *const *values, size_t n);
#define metric_cell(f, ...)                                    \
	metric_cell_of(f, (const char *const[]) {__VA_ARGS__}, \
		sizeof((const char *const[]) {__VA_ARGS__}) / sizeof(const char *))
/* The only cell of a family without labels. */
struct metric_cell *metric_only(struct metric *f);
/* Forgets a cell (a removed target, say); its pointer is invalid afterwards, so no other thread may still use it. */
void metric_remove_of(struct metric *f, const char *const *values, size_t n);

/* Atomic, without a lock. Units are those of the name (Prometheus: seconds, bytes). */
void metric_add(struct metric_cell *c, double v);
static inline void metric_inc(struct metric_cell *c)
{
	metric_add(c, 1);
}
void metric_set(struct metric_cell *c, double v);
void metric_observe(struct metric_cell *c, double v); /* histograms */

/* Collectors run in the order added, after the registry's own families, on the thread that prints and without the registry's lock. */
struct metrics_writer;
typedef void metrics_collect_fn(struct metrics_writer *w, void *arg);
void metrics_add_collector(struct metrics *m, metrics_collect_fn *fn, void *arg);
/* Starts a family; samples follow: metrics_write(w, 3, "reason", "ring_full", NULL). */
void metrics_write_family(
	struct metrics_writer *w, enum metric_kind kind, const char *name, const char *help);
void metrics_write(struct metrics_writer *w, double value, ...) __attribute__((sentinel));

/* process_{cpu_seconds_total,resident_memory_bytes,virtual_memory_bytes,open_fds,max_fds,start_time_seconds,threads},
 * NAME_build_info. */
void metrics_add_process(
	struct metrics *m, const char *build_info_name, const char *version, struct clock *clock);
/* sonde_memory_{used,peak,limit}_bytes and …_refused_total{budget} of these budgets; `budgets` must
 * outlive the registry. */
void metrics_add_budgets(struct metrics *m, struct budget *const *budgets, size_t n);

/* The whole page. The content type is METRICS_CONTENT_TYPE. */
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
void metrics_print(struct metrics *m, struct bytes *out);
