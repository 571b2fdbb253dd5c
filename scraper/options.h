/* SPDX-License-Identifier: Apache-2.0
 *
 * The scraper's command line.
 */
#pragma once
#include "lib/base/options.h"
#include <stdbool.h>
#include <stdint.h>

struct scraper_options {
	const char *config_file;
	struct option_list listen;
	bool auto_reload;
	int64_t auto_reload_ms;
	const char *external_url, *route_prefix, *cors_origin, *web_config_file;
	bool enable_lifecycle, enable_admin;
	uint64_t max_connections;
	const char *storage_path, *retention_time, *fsync, *rollup_without;
	uint64_t retention_bytes, head_bytes, cache_bytes, compact_bytes;
	int64_t out_of_order_ms;
	uint64_t scrape_max_memory, max_body_bytes, max_inflated_bytes, max_per_host;
	uint64_t discover_max_answer_bytes, discover_max_event_bytes;
	uint64_t query_max_memory, query_max_bytes, query_cache_bytes, query_max_nodes,
		query_threads;
	int64_t query_timeout_ms;
	const char *source_dir, *speedscope_dir;
	uint64_t source_max_bytes;
	const char *log_level, *log_format;
};

extern const struct option_program scraper_program;
