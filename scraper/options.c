/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of flags. docs/scraper.md names each one.
 */
#include "scraper/options.h"

#define FIELD(name) offsetof(struct scraper_options, name)

static const struct option_spec specs[] = {
	OPTION_HEADING("Configuration"),
	{"config.file", OPTION_STRING, FIELD(config_file), .value = "FILE", .fallback = "sonde.yml",
		.help = "The scrape configuration, in the format of Prometheus. Read again on "
			"SIGHUP and on POST /-/reload."},

	{"config.auto-reload", OPTION_BOOL, FIELD(auto_reload),
		.help = "Read the configuration again by itself when its files have changed."},
	{"config.auto-reload-interval", OPTION_DURATION, FIELD(auto_reload_ms), .value = "DURATION",
		.fallback = "30s", .min = 100, .max = 86400000,
		.help = "How often --config.auto-reload looks."},

	OPTION_HEADING("Web"),
	{"web.listen-address", OPTION_STRINGS, FIELD(listen), .value = "HOST:PORT",
		.fallback = "127.0.0.1:7272",
		.help = "Address to serve on: HOST:PORT, :PORT, port 0 for any, or unix:/path "
			"(mode 0660). Repeatable."},
	{"web.external-url", OPTION_STRING, FIELD(external_url), .value = "URL",
		.help = "The URL under which this scraper is reached from outside, behind a proxy "
			"for example. Its host is accepted on "
			"loopback listeners, its path is the default of --web.route-prefix."},
	{"web.route-prefix", OPTION_STRING, FIELD(route_prefix), .value = "PATH",
		.help = "Prefix of all paths served."},
	{"web.cors.origin", OPTION_STRING, FIELD(cors_origin), .value = "ORIGIN",
		.help = "An origin whose pages may read the API, or * for any. Without it no CORS "
			"header is sent."},
	{"web.config.file", OPTION_STRING, FIELD(web_config_file), .value = "FILE",
		.help = "TLS, users, headers and rate limit, in the format of Prometheus. Read "
			"again within a second of a change."},
	{"web.enable-lifecycle", OPTION_BOOL, FIELD(enable_lifecycle),
		.help = "Allow POST and PUT on /-/reload and /-/quit."},
	{"web.enable-admin-api", OPTION_BOOL, FIELD(enable_admin),
		.help = "Allow POST and PUT on /api/v1/admin/tsdb/: snapshot, delete_series, "
			"clean_tombstones."},
	{"web.max-connections", OPTION_U64, FIELD(max_connections), .value = "N", .fallback = "512",
		.min = 1, .max = 65536,
		.help = "Most open connections. One more takes the place of the longest idle one, "
			"or gets 503."},

	OPTION_HEADING("Storage"),
	{"storage.path", OPTION_STRING, FIELD(storage_path), .value = "DIR", .fallback = "data/",
		.help = "The data directory; made when missing."},
	{"storage.retention.time", OPTION_STRING, FIELD(retention_time), .value = "DURATION",
		.fallback = "15d",
		.help = "Blocks older than this are deleted; 0 keeps everything."},
	{"storage.retention.size", OPTION_BYTES, FIELD(retention_bytes), .value = "BYTES",
		.fallback = "0",
		.help = "Size of the directory, its log (64 or 128 MiB) and quarantine included, "
			"above which the oldest blocks are deleted. 0: no limit."},
	{"storage.fsync", OPTION_STRING, FIELD(fsync), .value = "always|never|DURATION",
		.fallback = "1s",
		.help = "How often the write-ahead log is synced. After a power cut the scraper "
			"pulls lost seconds again from exporters that still have them."},
	{"storage.head-bytes", OPTION_BYTES, FIELD(head_bytes), .value = "BYTES",
		.fallback = "48MiB", .min = 64 << 10, .max = 1e15,
		.help = "Memory of the newest data, the head. A larger head becomes a block."},
	{"storage.cache-bytes", OPTION_BYTES, FIELD(cache_bytes), .value = "BYTES",
		.fallback = "32MiB", .min = 1 << 20, .max = 1e15,
		.help = "Memory of the page cache over blocks, with their labels and series."},
	{"storage.compaction.max-memory", OPTION_BYTES, FIELD(compact_bytes), .value = "BYTES",
		.fallback = "256MiB", .min = 32 << 20, .max = 1e15,
		.help = "Memory of a compaction. Blocks with names that need more stay as they "
			"are."},
	{"storage.out-of-order", OPTION_DURATION, FIELD(out_of_order_ms), .value = "DURATION",
		.fallback = "1h",
		.help = "How far behind this machine's clock a profile may be and still be "
			"stored."},
	{"storage.rollup.without", OPTION_STRING, FIELD(rollup_without), .value = "LABELS",
		.fallback = "pid,tid,thread_name,cpu",
		.help = "Row labels, comma-separated, that rollups of 10 minutes and 1 hour do not "
			"keep. A query that needs one of them reads raw rows."},

	OPTION_HEADING("Scraping"),
	{"scrape.max-memory", OPTION_BYTES, FIELD(scrape_max_memory), .value = "BYTES",
		.fallback = "512MiB", .min = 4 << 20, .max = 1e15,
		.help = "Memory of all scrapes together: bodies, decoded profiles and the totals "
			"of cumulative profiles. Scrapes that do not fit wait."},
	{"scrape.max-body-bytes", OPTION_BYTES, FIELD(max_body_bytes), .value = "BYTES",
		.fallback = "32MiB", .min = 1024, .max = 1e12, .help = "Largest body as sent."},
	{"scrape.max-inflated-bytes", OPTION_BYTES, FIELD(max_inflated_bytes), .value = "BYTES",
		.fallback = "256MiB", .min = 1024, .max = 1e12,
		.help = "Largest body when decompressed; a job's body_size_limit may lower it."},
	{"scrape.max-per-host", OPTION_U64, FIELD(max_per_host), .value = "N", .fallback = "0",
		.max = 1e6,
		.help = "Most requests in flight to one host, whatever their ports; others wait. "
			"0: no limit."},

	OPTION_HEADING("Discovery"),
	{"discover.max-answer-bytes", OPTION_BYTES, FIELD(discover_max_answer_bytes),
		.value = "BYTES", .fallback = "64MiB", .min = 1024, .max = 1 << 30,
		.help = "Largest answer of a service discovery; for Kubernetes, the largest page "
			"of a list."},
	{"discover.max-event-bytes", OPTION_BYTES, FIELD(discover_max_event_bytes),
		.value = "BYTES", .fallback = "8MiB", .min = 1024, .max = 1 << 30,
		.help = "Largest event of a watch of Kubernetes."},

	OPTION_HEADING("Queries"),
	{"query.max-memory", OPTION_BYTES, FIELD(query_max_memory), .value = "BYTES",
		.fallback = "512MiB", .min = 1 << 20, .max = 1e15,
		.help = "Memory of all queries together."},
	{"query.max-bytes", OPTION_BYTES, FIELD(query_max_bytes), .value = "BYTES",
		.fallback = "256MiB", .min = 64 << 10, .max = 1e15, .help = "Memory of one query."},
	{"query.cache-bytes", OPTION_BYTES, FIELD(query_cache_bytes), .value = "BYTES",
		.fallback = "16MiB", .max = 1e12,
		.help = "Memory of kept answers for identical queries over blocks alone. 0: none "
			"is kept."},
	{"query.timeout", OPTION_DURATION, FIELD(query_timeout_ms), .value = "DURATION",
		.fallback = "2m", .min = 100, .max = 86400000,
		.help = "A query that runs longer is ended."},
	{"query.max-nodes", OPTION_U64, FIELD(query_max_nodes), .value = "N", .fallback = "1048576",
		.min = 1, .max = 67108864,
		.help = "Most nodes of a tree that a client may ask for."},
	{"query.threads", OPTION_U64, FIELD(query_threads), .value = "N", .fallback = "0", .min = 0,
		.max = 256,
		.help = "Threads that answer requests, and that one query may use. 0: one per "
			"CPU."},

	OPTION_HEADING("Files that pages show"),
	{"symbols.source-dir", OPTION_STRING, FIELD(source_dir), .value = "DIR",
		.help = "Directory of source files that the web interface shows beside the cost of "
			"lines. Everybody who can reach the scraper can then read all files "
			"beneath DIR, and nothing else."},
	{"symbols.source-max-bytes", OPTION_BYTES, FIELD(source_max_bytes), .value = "BYTES",
		.fallback = "4MiB", .min = 1, .max = 1 << 30, .help = "Largest source file shown."},
	{"web.speedscope-dir", OPTION_STRING, FIELD(speedscope_dir), .value = "DIR",
		.help = "Directory of speedscope's static files (dist/release of its npm package), "
			"served on /speedscope/. The web interface then opens profiles in it."},

	OPTIONS_LOG(struct scraper_options),
};

const struct option_program scraper_program = {
	.name = "sonde-scraper",
	.summary = "pulls pprof profiles on a schedule, stores them, answers queries",
	.description = "Finds targets by service discovery, asks each for its profiles, relabels "
		       "and stores them in a local directory, and "
		       "serves them to browsers, Grafana, curl and go tool pprof.\n\n"
		       "SIGHUP reads the configuration again; a file with an error leaves the old "
		       "one in force. SIGTERM and SIGINT end it cleanly.",
	.specs = specs,
	.n_specs = sizeof(specs) / sizeof(specs[0]),
	.exit_status = "1      it could not start; stderr says why",
	.examples = "sonde-scraper --config.file=sonde.yml --storage.path=/var/lib/sonde\n"
		    "go tool pprof "
		    "'http://127.0.0.1:7272/api/v1/"
		    "profile?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{}'\n",
};
