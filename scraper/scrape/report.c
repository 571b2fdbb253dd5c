/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scrape says about itself: `up` with the main type, scrape_* per type (label profile_type), and one coverage entry.
 */
#include "scraper/scrape/scrape_impl.h"
#include <string.h>

/* The target's labels with another __name__. */
static bool name_labels(
	const struct labels *target, const char *name, const char *type, struct labels *ret)
{
	_cleanup_labels_builder_ struct labels_builder lb;

	labels_builder_init(&lb);
	if (labels_builder_reset(&lb, target) < 0)
		return false;
	labels_builder_set(&lb, "__name__", name);
	if (type)
		labels_builder_set(&lb, "profile_type", type);
	return labels_builder_finish(&lb, ret) == 0;
}

static bool add_gauge(struct scrape_request *r, const char *name, bool per_type, double value)
{
	size_t i = r->out.n_gauges;
	int64_t snap_ns =
		MIN(r->type->target->t.interval_ms * NS_PER_MS / 100, (int64_t)SCRAPE_GRID_SNAP_NS);
	int64_t late_ns = r->start_real_ns - r->slot_real_ns;

	if (!name_labels(&r->type->target->t.labels, name, per_type ? r->type->spec.name : NULL,
		    &r->report_labels[i]))
		return false;
	r->gauges[i] = (struct store_gauge) {.labels = &r->report_labels[i], .value = value};
	/* on the grid when the start was, so that neighbouring points are an interval apart */
	r->gauges[i].time_ns =
		late_ns >= 0 && late_ns <= snap_ns ? r->slot_real_ns : r->start_real_ns;
	r->out.gauges = r->gauges;
	r->out.n_gauges++;
	return true;
}

static bool add_gauges(struct scrape_request *r)
{
	double seconds = (double)(r->end_mono_ns - r->start_mono_ns) / 1e9;
	bool ok = true;

	if (r->is_main)
		ok = add_gauge(r, "up", false, r->reason == SCRAPE_OK);
	return ok && add_gauge(r, "scrape_duration_seconds", true, seconds) &&
	       add_gauge(r, "scrape_samples_scraped", true, (double)r->series.n_samples) &&
	       add_gauge(r, "scrape_samples_post_metric_relabeling", true,
		       (double)r->series.n_kept) &&
	       add_gauge(r, "scrape_series_added", true, (double)r->n_series_added);
}

/* Silence and absence differ: an answer without samples still says that the window was watched. */
static bool add_coverage(struct scrape_request *r)
{
	if (!name_labels(&r->type->t.labels, r->type->spec.name, NULL, &r->coverage_labels))
		return false;
	r->coverage = (struct store_coverage) {
		.labels = &r->coverage_labels,
		.time_ns = r->out.time_ns,
		.duration_ns = r->out.duration_ns,
		.lost_ns = (int64_t)(r->lost_s * 1e9),
	};
	r->out.coverage = &r->coverage;
	r->out.n_coverage = 1;
	return true;
}

bool scrape_report_fill(struct scrape *s, struct scrape_request *r)
{
	(void)s;
	if (!r->skip_report && !add_gauges(r))
		return false;
	if (r->reason == SCRAPE_OK && !r->is_unchanged && !add_coverage(r))
		return false;
	r->has_record = r->out.n_gauges || r->out.n_coverage;
	return true;
}
