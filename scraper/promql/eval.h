/* SPDX-License-Identifier: Apache-2.0
 *
 * What eval.c and aggregate.c share. Values are appended to `ret`, which the caller frees, also after a failure. Errors
 * of promql_eval.
 */
#pragma once
#include "scraper/promql/promql.h"

/* Labels that a sum keeps. */
struct eval_by {
	const char *const *names;
	size_t n;
};

int eval_expr(struct promql_run *r, const struct promql_expr *e, struct promql_value *ret,
	struct errbuf *eb) _must_check_;
/* A selector or call; with `by` its series may come summed to these labels already. */
int eval_summed(struct promql_run *r, const struct promql_expr *e, const struct eval_by *by,
	struct promql_value *ret, struct errbuf *eb) _must_check_;
int eval_aggregate(struct promql_run *r, const struct promql_expr *e, struct promql_value *ret,
	struct errbuf *eb) _must_check_;
/* Keeps only the named labels, or all others. -ENOMEM. */
int eval_drop_labels(struct labels *l, const char *const *names, size_t n, bool keep) _must_check_;
int eval_no_memory(struct errbuf *eb);
