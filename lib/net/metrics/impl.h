/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry's structs, shared by metrics.c (cells), print.c (text) and process.c
 * (own process).
 */
#pragma once
#include "lib/base/lock.h"
#include "lib/net/metrics/metrics.h"
#include <stdatomic.h>
#include <stdbool.h>

struct metric_cell {
	struct metric *family;
	struct metric_cell *next;
	char **values;		   /* label values */
	_Atomic uint64_t bits;	   /* a double: the value, or a histogram's sum */
	_Atomic uint64_t *buckets; /* histograms: n_bounds + 1, not cumulative */
};

struct metric {
	struct metrics *owner;
	struct metric *next;
	enum metric_kind kind;
	const char *name, *help;
	char **label_names, *label_text;
	unsigned n_labels;
	const double *bounds;
	size_t n_bounds;
	struct metric_cell *cells, **last_cell; /* under the registry's lock */
};

struct metrics_collector {
	struct metrics_collector *next;
	metrics_collect_fn *fn;
	void *arg;
	bool free_arg;
};

struct metrics {
	struct lock lock; /* lists only; leaf: nothing is called with it held */
	struct metric *families, **last_family;
	struct metrics_collector *collectors, **last_collector;
};

struct metrics_writer {
	struct bytes *out;
	const char *name;
};

void metrics_add_collector_owned(
	struct metrics *m, metrics_collect_fn *fn, void *arg, bool free_arg);
