/* SPDX-License-Identifier: Apache-2.0
 *
 * The filters of a request: clauses over the labels of tasks. A repeated parameter is OR, different ones are AND. Compiled
 * once per request, then evaluated to one bitmap over task ids.
 */
#pragma once
#include "exporter/proc/proc.h"
#include "lib/base/arena.h"
#include "lib/base/err.h"
#include "lib/prof/labels.h"
#include <stdbool.h>
#include <stdint.h>

struct profile_filter;

/* `constants`: labels that all samples have (node, external labels); `pod_labels`: names of those that come from pods. Both must outlive the filter. */
struct profile_filter *profile_filter_new(
	const struct labels *constants, const char *const *pod_labels, uint32_t n_pod_labels);
void profile_filter_freep(struct profile_filter **f);

/* The parameter names, for error texts. */
extern const char profile_filter_names[];

/*
 * Adds one parameter of a request: exact, or ~regex (anchored, RE2). 1 when taken, 0 when `name` is no filter, -EINVAL with a
 * text naming what is valid, or the position in the expression.
 */
int profile_filter_add(struct profile_filter *f, const char *name, const char *value,
	struct errbuf *eb) _must_check_;

/* The tasks that pass: a bit per id below proc_n_tasks, in `arena`; NULL when every task passes. The lock is held.
 * -ENOMEM; -EINVAL when an expression needs too many steps. */
int profile_filter_tasks(const struct profile_filter *f, const struct proc_table *procs,
	struct arena *arena, uint64_t **ret, struct errbuf *eb) _must_check_;
