/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored profiles as the series of PromQL. A delta type is a counter: stored values are its increments, so that increase needs no
 * extrapolation and the counter itself is their running sum from five minutes before the first point on. An instant type and the
 * scraper's own series are gauges: the mean over the last step, or that of the last step before it, within five minutes, that had
 * any. Series that ended since are not there.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/table.h"
#include "scraper/api/prometheus.h"
#include <string.h>

enum { MAX_POINTS = 11000, INSTANT_STEPS = 20 };
static const int64_t LOOKBACK_NS = 300 * NS_PER_S;

/* One metric of a selector. */
struct reading {
	struct prometheus_query *q;
	const struct promql_select *s;
	const struct query_type *type;
	struct query_selector selector; /* texts and expressions are borrowed */
	struct query_matcher matchers[QUERY_MAX_MATCHERS + 1];
	char name_label[9]; /* "__name__", of a matcher */
	struct promql_value *out;
	size_t first; /* of this metric's series in `out` */
	struct interner lines;
	struct errbuf *eb;
};

int64_t prometheus_reads_from(const struct promql_query *q, int64_t start_ns)
{
	int64_t from = start_ns;

	for (size_t i = 0; i < q->n_selectors; i++) {
		const struct promql_expr *e = q->selectors[i];
		int64_t back = MAX(e->range_ns, LOOKBACK_NS), at;

		if (__builtin_sub_overflow(start_ns, back, &at) ||
			__builtin_sub_overflow(at, e->offset_ns, &at))
			at = INT64_MIN;
		from = MIN(from, at);
	}
	return from;
}

static int no_memory(const struct reading *d)
{
	return err_set(d->eb, -ENOMEM, "out of memory for the query");
}

/* The labels that a line has in Prometheus' terms. */
static int name_line(const struct reading *d, const struct labels *from, struct labels *ret)
{
	_cleanup_labels_builder_ struct labels_builder b = {};

	if (d->s->sum)
		return labels_copy(from, ret);
	labels_builder_init(&b);
	labels_builder_reset(&b, from);
	labels_builder_set(&b, "__name__", d->type->metric);
	return labels_builder_finish(&b, ret);
}

/* The series of a line, made when it is new. */
static int series_of(struct reading *d, const struct query_line *l, struct promql_series **ret)
{
	_cleanup_bytes_ struct bytes key = {};
	struct promql_series *s;
	bool is_new;
	uint32_t id;

	labels_encode(&l->labels, &key);
	id = bytes_error(&key) ? INTERNER_NONE
			       : interner_add(&d->lines, key.data, key.len, &is_new);
	if (id == INTERNER_NONE)
		return no_memory(d);
	if (is_new) {
		s = promql_add_series(d->out, &d->q->arena, d->s->n_points);
		if (!s || name_line(d, &l->labels, &s->labels) < 0)
			return no_memory(d);
	}
	*ret = &d->out->series[d->first + id];
	return 0;
}

static struct query_spec spec_of(const struct reading *d)
{
	return (struct query_spec) {.selector = &d->selector,
		.terms = QUERY_PROMETHEUS_TERMS,
		.group_by = d->s->by,
		.n_group_by = d->s->n_by,
		.group = d->s->sum,
		.max_groups = UINT32_MAX};
}

/* Runs the engine over n points from `start` on and hands each line to `fn`. */
typedef void line_fn(const struct reading *d, const struct query_line *l, struct promql_series *s,
	int64_t start_ns, int64_t step_ns);
static int read_lines(struct reading *d, int64_t start_ns, int64_t step_ns, size_t n,
	int64_t window_ns, line_fn *fn)
{
	struct query_spec spec = spec_of(d);
	_cleanup_query_matrix_ struct query_matrix m = {};
	struct promql_series *s = NULL;
	int r;

	spec.start_ns = start_ns;
	spec.end_ns = start_ns + (int64_t)(n - 1) * step_ns;
	spec.step_ns = step_ns;
	spec.window_ns = window_ns;
	spec.lookback_ns = window_ns ? 0 : LOOKBACK_NS;
	r = query_over_time(&d->q->q.env, &spec, &m, d->eb);
	for (size_t i = 0; !r && i < m.n_lines; i++) {
		r = series_of(d, &m.lines[i], &s);
		if (!r)
			fn(d, &m.lines[i], s, start_ns, step_ns);
	}
	return r;
}

/* ---- counters ---- */

static void put_increase(const struct reading *d, const struct query_line *l,
	struct promql_series *s, int64_t start_ns, int64_t step_ns)
{
	(void)d;
	for (size_t i = 0; i < l->n_points; i++) {
		size_t k = (size_t)((l->points[i].time_ns - start_ns) / step_ns);

		s->values[k] = l->points[i].value;
		s->present[k] = 1;
	}
}

/* The increments of the points after the first. */
static void put_later(const struct reading *d, const struct query_line *l, struct promql_series *s,
	int64_t start_ns, int64_t step_ns)
{
	(void)d;
	for (size_t i = 0; i < l->n_points; i++) {
		size_t k = 1 + (size_t)((l->points[i].time_ns - start_ns) / step_ns);

		s->values[k] = l->points[i].value;
		s->present[k] = 1;
	}
}

static int read_counter(struct reading *d)
{
	const struct promql_select *s = d->s;
	int r = read_lines(d, s->start_ns, LOOKBACK_NS, 1, 0, put_increase);

	if (!r && s->n_points > 1)
		r = read_lines(
			d, s->start_ns + s->step_ns, s->step_ns, s->n_points - 1, 0, put_later);
	for (size_t i = d->first; !r && i < d->out->n_series; i++) {
		struct promql_series *series = &d->out->series[i];
		double sum = 0;

		for (size_t k = 0; k < s->n_points; k++) {
			sum += series->present[k] ? series->values[k] : 0;
			series->values[k] = sum;
		}
	}
	return r;
}

/* ---- gauges ---- */

/* Of steps before the first point too, which looking back needs. */
static void put_gauge(const struct reading *d, const struct query_line *l, struct promql_series *s,
	int64_t start_ns, int64_t step_ns)
{
	(void)start_ns;
	for (size_t i = 0; i < l->n_points; i++) {
		int64_t after = l->points[i].time_ns - d->s->start_ns;

		if (after < 0)
			continue;
		s->values[after / step_ns] = l->points[i].value;
		s->present[after / step_ns] = 1;
	}
}

static int read_gauge(struct reading *d)
{
	const struct promql_select *s = d->s;
	int64_t step = s->n_points == 1 ? LOOKBACK_NS / INSTANT_STEPS : s->step_ns;
	size_t before = (size_t)((LOOKBACK_NS + step - 1) / step);

	before = MIN(before, (size_t)MAX_POINTS - s->n_points);
	return read_lines(
		d, s->start_ns - (int64_t)before * step, step, before + s->n_points, 0, put_gauge);
}

/* ---- selectors ---- */

/* Narrows the selector to one metric. */
static void narrow(struct reading *d)
{
	const struct query_selector *from = d->s->selector;
	const struct query_type *t = d->type;

	d->selector = *from;
	d->selector.matchers = d->matchers;
	memcpy(d->matchers, from->matchers, from->n_matchers * sizeof(*d->matchers));
	if (t->kind == STORE_GAUGE) {
		d->matchers[d->selector.n_matchers++] = (struct query_matcher) {
			.op = QUERY_EQ, .name = d->name_label, .value = t->metric};
		return;
	}
	d->selector.has_type = true;
	d->selector.type = (struct query_type_id) {
		t->name, t->sample_type, t->sample_unit, t->period_type, t->period_unit, NULL};
}

static int read_metric(struct reading *d)
{
	const struct promql_select *s = d->s;

	narrow(d);
	if (!s->window_ns)
		return d->type->kind == STORE_DELTA ? read_counter(d) : read_gauge(d);
	if (d->type->kind != STORE_DELTA)
		return err_set(d->eb, -EINVAL,
			"%s is a gauge: rate() and increase() need a counter, the name of which "
			"ends in "
			"_total",
			d->type->metric);
	return read_lines(d, s->start_ns, s->step_ns, s->n_points, s->window_ns, put_increase);
}

int prometheus_select(
	void *ctx, const struct promql_select *s, struct promql_value *ret, struct errbuf *eb)
{
	struct prometheus_query *q = ctx;
	int64_t from = s->start_ns - MAX(s->window_ns, LOOKBACK_NS);
	int64_t to = s->start_ns + (int64_t)(s->n_points - 1) * s->step_ns;
	_cleanup_query_type_list_ struct query_type_list types = {};
	int r = query_metrics(&(struct query_catalog) {.env = &q->q.env,
				      .start_ns = from,
				      .end_ns = to,
				      .selectors = s->selector,
				      .n_selectors = 1},
		&types, eb);

	for (size_t i = 0; !r && i < types.n; i++) {
		struct reading d = {.q = q,
			.s = s,
			.type = &types.items[i],
			.name_label = "__name__",
			.out = ret,
			.first = ret->n_series,
			.eb = eb};

		interner_init(&d.lines, q->q.env.budget);
		r = read_metric(&d);
		interner_done(&d.lines);
	}
	return r;
}
