/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scrape says about itself: `up` with the main type, scrape_* per type (label profile_type), and one coverage entry; with the main
 * type also what an exporter says of its health.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include <string.h>

/* The target's labels with another __name__, and with one more when `value` is not NULL. */
static bool name_labels(const struct labels *target, const char *name, const char *label,
	const char *value, struct labels *ret)
{
	_cleanup_labels_builder_ struct labels_builder lb;

	labels_builder_init(&lb);
	if (labels_builder_reset(&lb, target) < 0)
		return false;
	labels_builder_set(&lb, "__name__", name);
	if (value)
		labels_builder_set(&lb, label, value);
	return labels_builder_finish(&lb, ret) == 0;
}

/* What each scrape stores of itself. */
enum gauge { UP, DURATION, SCRAPED, RELABELED, ADDED, TIMEOUT, LIMIT, BODY };
static const struct {
	const char *name;
	bool per_type, is_extra;
} gauges[] = {
	[UP] = {"up", false, false},
	[DURATION] = {"scrape_duration_seconds", true, false},
	[SCRAPED] = {"scrape_samples_scraped", true, false},
	[RELABELED] = {"scrape_samples_post_metric_relabeling", true, false},
	[ADDED] = {"scrape_series_added", true, false},
	[TIMEOUT] = {"scrape_timeout_seconds", true, true},
	[LIMIT] = {"scrape_sample_limit", true, true},
	[BODY] = {"scrape_body_size_bytes", true, true},
};
_Static_assert(ARRAY_SIZE(gauges) + SCRAPE_VITALS == SCRAPE_REPORT_GAUGES, "labels for each");

/* Decompressed; as in Prometheus −1 when it was too large and 0 when there was none. */
static double body_bytes(const struct scrape_request *r)
{
	if (r->reason == SCRAPE_FAIL_BODY_SIZE || r->reason == SCRAPE_FAIL_INFLATED_SIZE)
		return -1;
	if (r->reason)
		return 0;
	return (double)(r->inflated.len ? r->inflated.len : r->response.body.len);
}

static double gauge_value(const struct scrape_request *r, enum gauge which)
{
	switch (which) {
	case UP: return r->reason == SCRAPE_OK;
	case DURATION: return (double)(r->end_mono_ns - r->start_mono_ns) / 1e9;
	case SCRAPED: return (double)r->series.n_samples;
	case RELABELED: return (double)r->series.n_kept;
	case ADDED: return (double)r->n_series_added;
	case TIMEOUT: return (double)scrape_request_timeout_ms(r) / 1e3;
	case LIMIT: return (double)r->job->limits.samples;
	case BODY: return body_bytes(r);
	}
	return 0;
}

static bool put_gauge(struct scrape_request *r, const char *name, const char *label,
	const char *text, double value)
{
	size_t i = r->out.n_gauges;
	int64_t snap_ns =
		MIN(r->type->target->t.interval_ms * NS_PER_MS / 100, (int64_t)SCRAPE_GRID_SNAP_NS);
	int64_t late_ns = r->start_real_ns - r->slot_real_ns;

	if (!name_labels(&r->type->target->t.labels, name, label, text, &r->report_labels[i]))
		return false;
	r->gauges[i] = (struct store_gauge) {.labels = &r->report_labels[i], .value = value};
	/* on the grid when the start was, so that neighbouring points are an interval apart */
	r->gauges[i].time_ns =
		late_ns >= 0 && late_ns <= snap_ns ? r->slot_real_ns : r->start_real_ns;
	r->out.gauges = r->gauges;
	r->out.n_gauges++;
	return true;
}

static bool add_gauge(struct scrape_request *r, enum gauge which)
{
	return put_gauge(r, gauges[which].name, "profile_type",
		gauges[which].per_type ? r->type->spec.name : NULL, gauge_value(r, which));
}

/* What the exporter said of itself. */
static bool add_vitals(struct scrape_request *r)
{
	uint32_t known = r->is_main && r->reason == SCRAPE_OK ? scrape_vitals_take(r) : 0;
	bool ok = true;

	for (size_t i = 0; i < SCRAPE_VITALS; i++) {
		const char *reason, *name = scrape_vitals_name(i, &reason);

		if (known & 1U << i)
			ok = ok && put_gauge(r, name, "reason", reason, r->vitals.value[i]);
	}
	r->type->live.reports_vitals |= known;
	return ok;
}

static bool add_gauges(struct scrape_request *r)
{
	bool ok = true;

	for (enum gauge i = 0; i < ARRAY_SIZE(gauges); i++)
		if ((gauges[i].per_type || r->is_main) &&
			(!gauges[i].is_extra || r->job->extra_scrape_metrics == CONFIG_TRUE))
			ok = ok && add_gauge(r, i);
	r->type->live.reports = true;
	r->type->live.reports_up |= r->is_main;
	return ok && add_vitals(r);
}

/* Silence and absence differ: an answer without samples still says that the window was watched. */
static bool add_coverage(struct scrape_request *r)
{
	if (!name_labels(&r->type->t.labels, r->type->spec.name, NULL, NULL, &r->coverage_labels))
		return false;
	r->coverage = (struct store_coverage) {
		.labels = &r->coverage_labels,
		.time_ns = r->out.time_ns,
		.duration_ns = r->out.duration_ns,
		.lost_ns = (int64_t)(r->lost_s * 1e9),
		.n_cpus = scrape_vitals_cpus(&r->vitals),
	};
	r->out.coverage = &r->coverage;
	r->out.n_coverage = 1;
	return true;
}

/* The labels of each series that the scrapes of this type stored, into `ret`; returns how many. */
static size_t report_labels(const struct scrape_type *type, struct labels *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++) {
		bool is_up = !gauges[i].per_type;

		if (is_up ? type->live.reports_up : type->live.reports)
			n += name_labels(&type->target->t.labels, gauges[i].name, "profile_type",
				is_up ? NULL : type->spec.name, &ret[n]);
	}
	for (size_t i = 0; i < SCRAPE_VITALS; i++) {
		const char *reason, *name = scrape_vitals_name(i, &reason);

		if (type->live.reports_vitals & 1U << i)
			n += name_labels(&type->target->t.labels, name, "reason", reason, &ret[n]);
	}
	return n;
}

void scrape_report_ends(struct scrape_request *r)
{
	struct scrape_live *live = &r->type->live;
	size_t n = 0;
	int64_t time_ns = scrape_live_take(live, r->start_real_ns, &r->ended, &n);

	r->ended = xrealloc(r->ended, (n + SCRAPE_REPORT_GAUGES) * sizeof(*r->ended));
	r->n_ended = n;
	if (r->is_last) {
		r->n_ended += report_labels(r->type, r->ended + n);
		live->reports = live->reports_up = false;
		live->reports_vitals = 0;
	}
	r->ends = xcalloc(r->n_ended + 1, sizeof(*r->ends));
	for (size_t i = 0; i < r->n_ended; i++)
		r->ends[i] = (struct store_end) {&r->ended[i], i < n ? time_ns : r->start_real_ns};
	r->out.ends = r->ends;
	r->out.n_ends = MIN(r->n_ended, (size_t)SCRAPE_MAX_ENDS);
	r->has_record |= r->n_ended > 0;
}

bool scrape_report_fill(struct scrape *s, struct scrape_request *r)
{
	bool is_watched = r->reason == SCRAPE_OK && !r->is_unchanged;

	(void)s;
	if (is_watched)
		scrape_vitals_watch(r);
	if (!r->skip_report && !add_gauges(r))
		return false;
	if (is_watched && !add_coverage(r))
		return false;
	r->has_record = r->out.n_gauges || r->out.n_coverage;
	return true;
}
