/* SPDX-License-Identifier: Apache-2.0
 *
 * The stage's own metrics; docs/scraper.md lists them.
 */
#include "scraper/scrape/scrape_impl.h"

static const double interval_bounds[] = {0.01, 0.1, 0.5, 1, 2, 5, 10};

void scrape_metrics_init(struct scrape *s)
{
	struct metrics *m = s->o.metrics;
	struct scrape_metrics *x = &s->m;

	x->scrapes = metrics_counter(m, "sonde_scrapes_total",
		"Answers handled, failed ones included.", "job,profile_type");
	x->failures = metrics_counter(
		m, "sonde_scrape_failures_total", "Failed scrapes by reason.", "job,reason");
	x->samples = metrics_counter(m, "sonde_scrape_samples_total",
		"Samples times kept values in valid answers.", "job,profile_type");
	x->pool_targets =
		metrics_gauge(m, "sonde_scrape_pool_targets", "Active targets of a job.", "job");
	x->pool_dropped = metrics_gauge(m, "sonde_scrape_pool_dropped_targets",
		"Targets of a job that relabeling dropped.", "job");
	x->relabel_dropped = metrics_counter(m, "sonde_scrape_series_dropped_total",
		"Series that metric_relabel_configs dropped.", "job");
	x->joined = metrics_counter(m, "sonde_scrape_series_joined_total",
		"Series beyond max_series that lost their sample labels.", "job");
	x->collapsed = metrics_counter(m, "sonde_scrape_labels_collapsed_total",
		"Labels whose values became __other__ at label_set_limit.", "job");
	x->mended = metrics_counter(m, "sonde_scrape_labels_mended_total",
		"Texts of sample labels that were not UTF-8: their bytes are stored as \\xNN.",
		"job");
	x->conflicts = metrics_counter(m, "sonde_scrape_series_conflicts_total",
		"Series not stored since others are, with the same labels and time but other "
		"content.",
		"job");
	x->interval = metrics_histogram(m, "sonde_scrape_late_seconds",
		"How long after its slot a scrape started.", NULL, interval_bounds,
		ARRAY_SIZE(interval_bounds));
	x->bytes = metric_only(metrics_counter(
		m, "sonde_scrape_body_bytes_total", "Bytes of valid bodies as sent.", NULL));
	x->lost = metric_only(metrics_counter(m, "sonde_scrape_lost_seconds_total",
		"Seconds that exporters had dropped before they were asked for.", NULL));
	x->restarts = metric_only(metrics_counter(m, "sonde_scrape_exporter_restarts_total",
		"Answers from an exporter that had started anew.", NULL));
	x->discarded = metric_only(metrics_counter(m, "sonde_scrape_answers_discarded_total",
		"Answers that overlapped what is stored and were asked for again.", NULL));
	x->stale = metric_only(metrics_counter(m, "sonde_scrape_cursor_conflicts_total",
		"Records refused because another target of the same exporter was stored first.",
		NULL));
	x->resets = metric_only(metrics_counter(m, "sonde_scrape_delta_resets_total",
		"Cumulative profiles whose totals fell.", NULL));
	x->evictions = metric_only(metrics_counter(m, "sonde_scrape_delta_evictions_total",
		"Times the previous totals of a cumulative profile did not fit into the scrape "
		"budget.",
		NULL));
	x->missed = metric_only(metrics_counter(m, "sonde_scrape_slots_missed_total",
		"Slots that came while the previous scrape was still running.", NULL));
	x->deferred = metric_only(metrics_counter(m, "sonde_scrapes_deferred_total",
		"Scrapes that had to wait for the scrape budget or for a busy address.", NULL));
	x->in_flight = metric_only(metrics_gauge(m, "sonde_scrapes_in_flight",
		"Scrapes from their start until they are stored.", NULL));
	x->decode_seconds = metric_only(metrics_counter(m, "sonde_scrape_decode_seconds_total",
		"Time spent checking, decoding and relabeling answers.", NULL));
	x->sync_failed = metric_only(metrics_counter(m, "sonde_scrape_invalid_targets_total",
		"Targets that relabeling left invalid.", NULL));
	x->log_failed = metric_only(metrics_counter(m, "sonde_scrape_failure_log_errors_total",
		"Files of scrape_failure_log_file that could not be opened and lines that could "
		"not "
		"be written to them.",
		NULL));
}
