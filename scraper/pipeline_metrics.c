/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics that are read when asked for: the store, discovery, the configuration, budgets and the process. docs/scraper.md lists them.
 */
#include "scraper/pipeline_impl.h"
#include "lib/base/version.h"
#include <stddef.h>

/* One row per number of struct store_stats. */
static const struct {
	enum metric_kind kind;
	const char *name, *help;
	size_t off;
	double scale;
} store_rows[] = {
#define ROW(kind, field, name, help)                                                             \
	{                                                                                        \
		METRIC_##kind, "sonde_store_" name, help, offsetof(struct store_stats, field), 1 \
	}
#define SECONDS(kind, field, name, help)                                                       \
	{                                                                                      \
		METRIC_##kind, "sonde_store_" name, help, offsetof(struct store_stats, field), \
			1e-9                                                                   \
	}
	ROW(COUNTER, appended_records, "appended_records_total",
		"Records written to the write-ahead log."),
	ROW(COUNTER, appended_profiles, "appended_profiles_total", "Profiles stored."),
	ROW(COUNTER, appended_rows, "appended_rows_total", "Rows stored."),
	ROW(COUNTER, appended_bytes, "appended_bytes_total",
		"Bytes written to the write-ahead log."),
	ROW(COUNTER, duplicates, "duplicates_total",
		"Profiles that were already there with equal content."),
	ROW(COUNTER, imports, "imports_total", "Imports stored."),
	ROW(COUNTER, imported_profiles, "imported_profiles_total", "Profiles stored by imports."),
	ROW(COUNTER, imported_rows, "imported_rows_total", "Rows stored by imports."),
	ROW(COUNTER, wal_syncs, "wal_syncs_total", "Syncs of the write-ahead log."),
	ROW(COUNTER, wal_sync_failures, "wal_sync_failures_total", "Syncs that failed."),
	ROW(COUNTER, wal_write_failures, "wal_write_failures_total",
		"Writes to the write-ahead log that failed."),
	ROW(GAUGE, wal_segments, "wal_segments", "Segments of the write-ahead log."),
	ROW(GAUGE, wal_bytes, "wal_bytes", "Bytes of the write-ahead log."),
	ROW(GAUGE, written_sequence, "written_sequence",
		"Sequence number of the last record written."),
	ROW(GAUGE, synced_sequence, "synced_sequence",
		"Sequence number of the last record synced."),
	ROW(GAUGE, replayed_records, "replayed_records", "Records replayed at start."),
	ROW(GAUGE, replay_damaged_records, "replay_damaged_records",
		"Damaged records met while replaying."),
	ROW(GAUGE, replay_dropped_rows, "replay_dropped_rows",
		"Rows dropped while replaying because they referred to a damaged record."),
	ROW(GAUGE, replay_truncated_bytes, "replay_truncated_bytes",
		"Bytes cut from the unsynced end of the log at start."),
	SECONDS(GAUGE, replay_ns, "replay_seconds", "How long the replay at start took."),
	ROW(GAUGE, head_bytes, "head_bytes", "Memory of all heads."),
	ROW(GAUGE, head_rows, "head_rows", "Rows in heads."),
	ROW(GAUGE, head_streams, "head_streams", "Streams in heads."),
	ROW(GAUGE, head_nodes, "head_nodes", "Stack nodes in heads."),
	ROW(GAUGE, heads, "heads", "Head generations in memory."),
	ROW(COUNTER, flushes, "flushes_total", "Generations written as blocks."),
	ROW(COUNTER, flush_failures, "flush_failures_total",
		"Generations that could not be written."),
	ROW(GAUGE, blocks, "blocks", "Blocks open."),
	ROW(GAUGE, block_bytes, "block_bytes", "Bytes of all blocks."),
	ROW(GAUGE, blocks_quarantined, "blocks_quarantined", "Damaged blocks in quarantine."),
	ROW(GAUGE, quarantine_bytes, "quarantine_bytes", "Bytes in quarantine."),
	ROW(COUNTER, blocks_deleted, "blocks_deleted_total", "Blocks deleted by retention."),
	ROW(COUNTER, clock_steps, "clock_steps_total",
		"Times this machine's clock was set by more than ten minutes, either way."),
	ROW(COUNTER, compactions, "compactions_total",
		"Compactions, those of blocks with deletions too."),
	ROW(COUNTER, compaction_failures, "compaction_failures_total",
		"Compactions that failed; they are tried again after ten minutes."),
	ROW(COUNTER, compacted_blocks, "compacted_blocks_total", "Blocks that were compacted."),
	ROW(GAUGE, compaction_bytes, "compaction_bytes", "Memory of the compaction that runs."),
	ROW(GAUGE, compaction_peak_bytes, "compaction_peak_bytes",
		"The most memory that a compaction took."),
	ROW(GAUGE, tombstones, "tombstones", "Deletions that blocks still carry."),
	ROW(GAUGE, cache_bytes, "cache_bytes", "Bytes in the page cache."),
	ROW(COUNTER, cache_hits, "cache_hits_total", "Pages found in the cache."),
	ROW(COUNTER, cache_misses, "cache_misses_total", "Pages read from disk."),
	ROW(GAUGE, cursors, "cursors", "Durable cursors of exporters."),
#undef ROW
#undef SECONDS
};

static void collect_store(struct metrics_writer *w, void *arg)
{
	struct scraper_pipeline *p = arg;
	struct store_stats stats = {0};
	bool ready;

	lock_take(&p->lock);
	ready = p->is_ready;
	lock_release(&p->lock);
	if (!ready)
		return;
	store_stats(p->store, &stats);
	for (size_t i = 0; i < ARRAY_SIZE(store_rows); i++) {
		uint64_t v;

		memcpy(&v, (const char *)&stats + store_rows[i].off, sizeof(v));
		metrics_write_family(w, store_rows[i].kind, store_rows[i].name, store_rows[i].help);
		metrics_write(w, (double)v * store_rows[i].scale, NULL);
	}
	metrics_write_family(w, METRIC_COUNTER, "sonde_store_refused_total",
		"Scrapes and imports that the store refused, by reason; with conflict, series.");
	for (int i = 0; i < STORE_N_REFUSALS; i++)
		metrics_write(w, (double)stats.refused[i], "reason", store_refusal_names[i], NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_store_stopped",
		"1 while ingest is stopped, for want of disk space say.");
	metrics_write(w, stats.stopped, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_store_min_time_seconds",
		"Time of the oldest profile; 0 when empty.");
	metrics_write(w,
		stats.min_time_ns <= stats.max_time_ns ? (double)stats.min_time_ns / 1e9 : 0, NULL);
}

static void collect_discovery(struct metrics_writer *w, void *arg)
{
	struct scraper_pipeline *p = arg;
	struct discover_stats kinds[PIPELINE_MAX_DISCOVER_KINDS];
	size_t n;

	lock_take(&p->lock);
	n = p->n_kinds;
	memcpy(kinds, p->kinds, n * sizeof(*kinds));
	lock_release(&p->lock);
	metrics_write_family(w, METRIC_GAUGE, "sonde_discover_targets",
		"Targets that discovery knows, by kind.");
	for (size_t i = 0; i < n; i++)
		metrics_write(w, (double)kinds[i].targets, "kind", kinds[i].kind, NULL);
	metrics_write_family(
		w, METRIC_COUNTER, "sonde_discover_refreshes_total", "Refreshes by kind.");
	for (size_t i = 0; i < n; i++)
		metrics_write(w, (double)kinds[i].refreshes_total, "kind", kinds[i].kind, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_discover_refresh_failures_total",
		"Refreshes that failed; the last good groups stay.");
	for (size_t i = 0; i < n; i++)
		metrics_write(
			w, (double)kinds[i].refresh_failures_total, "kind", kinds[i].kind, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_discover_too_large_total",
		"Answers above --discover.max-answer-bytes and events above "
		"--discover.max-event-bytes.");
	for (size_t i = 0; i < n; i++)
		metrics_write(w, (double)kinds[i].too_large_total, "kind", kinds[i].kind, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_discover_replaced_bytes_total",
		"Bytes of files and answers that are no UTF-8 and became U+FFFD.");
	for (size_t i = 0; i < n; i++)
		metrics_write(
			w, (double)kinds[i].replaced_bytes_total, "kind", kinds[i].kind, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_discover_updates_total",
		"Changes of groups handed to scraping.");
	for (size_t i = 0; i < n; i++)
		metrics_write(w, (double)kinds[i].updates_total, "kind", kinds[i].kind, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_discover_updates_delayed_total",
		"Changes that waited for the update interval.");
	for (size_t i = 0; i < n; i++)
		metrics_write(
			w, (double)kinds[i].updates_delayed_total, "kind", kinds[i].kind, NULL);
}

static void collect_config(struct metrics_writer *w, void *arg)
{
	struct scraper_pipeline *p = arg;
	bool ok;
	int64_t at_ns;
	uint64_t n, failures;

	lock_take(&p->lock);
	ok = p->reload_ok;
	at_ns = p->reload_ns;
	n = p->n_reloads;
	failures = p->n_reload_failures;
	lock_release(&p->lock);
	metrics_write_family(w, METRIC_GAUGE, "sonde_config_last_reload_successful",
		"Whether the last load of the configuration succeeded.");
	metrics_write(w, ok, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_config_last_reload_success_timestamp_seconds",
		"Time of the last load that succeeded.");
	metrics_write(w, (double)at_ns / 1e9, NULL);
	metrics_write_family(
		w, METRIC_COUNTER, "sonde_config_reloads_total", "Loads of the configuration.");
	metrics_write(w, (double)n, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_config_reload_failures_total",
		"Loads that failed; the old configuration stays.");
	metrics_write(w, (double)failures, NULL);
}

void scraper_metrics_add(struct scraper_pipeline *p)
{
	struct budget *const budgets[] = {
		&p->process, &p->scrape_budget, &p->query_budget, &p->cache_budget};

	metrics_add_process(p->metrics, "sonde_scraper_build_info", version_number(), p->clock);
	metrics_add_budgets(p->metrics, budgets, ARRAY_SIZE(budgets));
	metrics_add_collector(p->metrics, collect_config, p);
	metrics_add_collector(p->metrics, collect_discovery, p);
	metrics_add_collector(p->metrics, collect_store, p);
}
