/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that help queries. A query runs on the thread that asks; helpers that have nothing else to do join it and leave when it
 * has no more for them, so that one query alone uses all CPUs and many share them. Thread-safe.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"

struct query_workers;

/* n helpers beside the threads that ask, at this nice value. 0 helpers is fine. -EAGAIN: a thread cannot be started. */
int query_workers_new(
	unsigned n, int nice_value, struct query_workers **ret, struct errbuf *eb) _must_check_;
/* No query may be running. */
void query_workers_freep(struct query_workers **w);
/* Helpers, 0 for NULL. */
unsigned query_workers_n(const struct query_workers *w);

/*
 * Calls fn(ctx, 0) on this thread and, as helpers come free, fn(ctx, 1), fn(ctx, 2) … up to `max` - 1 on theirs; returns when all
 * calls have. Each call takes pieces of the work until there are none. `w` may be NULL.
 */
typedef void query_work_fn(void *ctx, unsigned slot);
void query_workers_run(struct query_workers *w, unsigned max, query_work_fn *fn, void *ctx);
