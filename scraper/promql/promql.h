/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of PromQL (https://prometheus.io/docs/prometheus/latest/querying/basics) over what the store has: numbers, + - * / % ^,
 * selectors with offset, rate and increase of ranges, and sum, avg, min, max, count and topk with by or without. What PromQL has
 * beyond it is refused by name. Pure: series come from the caller.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/prof/labels.h"
#include "scraper/query/selector.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROMQL_MAX_BYTES = 64 << 10, PROMQL_MAX_DEPTH = 100, PROMQL_MAX_NODES = 1000 };

enum promql_kind {
	PROMQL_NUMBER,
	PROMQL_SELECTOR,
	PROMQL_CALL,
	PROMQL_AGGREGATE,
	PROMQL_BINARY,
	PROMQL_NEGATE,
	PROMQL_PAREN, /* also unary plus: `left` as it is */
};
enum promql_type { PROMQL_SCALAR, PROMQL_VECTOR, PROMQL_RANGE };
enum promql_function { PROMQL_RATE, PROMQL_INCREASE };
enum promql_aggregation {
	PROMQL_SUM,
	PROMQL_AVG,
	PROMQL_MIN,
	PROMQL_MAX,
	PROMQL_COUNT,
	PROMQL_TOPK
};

struct promql_expr {
	enum promql_kind kind;
	enum promql_type type;
	size_t pos; /* offset of its first byte */
	double number;
	struct query_selector selector;
	int64_t range_ns, offset_ns; /* of a selector; range 0: an instant vector */
	enum promql_function function;
	enum promql_aggregation aggregation;
	bool has_grouping, without;
	const char **grouping; /* label names */
	size_t n_grouping;
	char op; /* + - * / % ^ */
	struct promql_expr *left,
		*right; /* operands; an argument or operand of one is left, topk's number is right */
};

/* In an arena; promql_done frees what selectors hold. */
struct promql_query {
	struct promql_expr *root;
	struct promql_expr **selectors;
	size_t n_selectors, cap_selectors, n_nodes;
	struct arena arena;
};

/* -EINVAL with "LINE:COLUMN: parse error: …" or "LINE:COLUMN: not supported: …"; -ENOMEM. *ret is empty then. */
int promql_parse(const char *text, struct promql_query *ret, struct errbuf *eb) _must_check_;
void promql_done(struct promql_query *q);
#define _cleanup_promql_ _cleanup_(promql_done)

/* ---- evaluation ---- */

/* One series over the points of the query. */
struct promql_series {
	struct labels labels; /* heap */
	double *values;	      /* arena */
	uint8_t *present;
};
struct promql_value {
	enum promql_type type; /* scalar or vector */
	double *scalar;	       /* per point */
	struct promql_series *series;
	size_t n_series, cap_series;
};
void promql_value_done(struct promql_value *v);
#define _cleanup_promql_value_ _cleanup_(promql_value_done)

/* What a selector stands for: values at start, start + step … (n_points of them), offset applied. */
struct promql_select {
	const struct query_selector *selector;
	int64_t start_ns, step_ns;
	size_t n_points;
	int64_t window_ns; /* not 0: the increase over (t − window, t] of counters */
	bool sum;	   /* series may be summed to these labels, which may be labels of rows */
	const char *const *by;
	size_t n_by;
};

struct promql_run {
	int64_t start_ns, step_ns; /* points are start + k × step */
	size_t n_points;
	struct arena *arena;
	const _Atomic bool *cancel; /* may be NULL */
	/* Appends series (promql_add_series) to `ret`. */
	int (*select)(void *ctx, const struct promql_select *s, struct promql_value *ret,
		struct errbuf *eb);
	void *ctx;
};

/* A series without points, labels not set yet; NULL when memory is out. */
struct promql_series *promql_add_series(struct promql_value *v, struct arena *a, size_t n_points);
/* -EINVAL, -EDOM (series that do not differ), -ECANCELED and -ENOMEM with a text, and the errors of `select`; *ret is empty then. Vectors are ordered by labels, of topk at one point by value. */
int promql_eval(struct promql_run *r, const struct promql_query *q, struct promql_value *ret,
	struct errbuf *eb) _must_check_;
