/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a scrape fails: one row per reason, read by the code, by /metrics (sonde_scrape_failures_total{reason}) and by docs/scraper.md.
 */
#pragma once

/* X(NAME, label, what it means) */
#define SCRAPE_REASONS(X)                                                                          \
	X(CONNECT, "connect",                                                                      \
		"No connection: refused, unreachable, TLS or name resolution failed.")             \
	X(TIMEOUT, "timeout",                                                                      \
		"The deadline passed: scrape_timeout, plus seconds for windowed types.")           \
	X(HTTP_STATUS, "http_status", "The answer was not 200.")                                   \
	X(PROTOCOL, "protocol", "The HTTP exchange broke off or a Sonde header was malformed.")    \
	X(BODY_SIZE, "body_size", "The body as sent was larger than its limit.")                   \
	X(INFLATED_SIZE, "inflated_size", "The body was larger than its limit when decompressed.") \
	X(GZIP, "gzip", "The gzip stream was truncated or corrupt.")                               \
	X(EMPTY, "empty", "200 with an empty body.")                                               \
	X(CONTENT, "content", "200 with HTML, JSON or text instead of a profile.")                 \
	X(PPROF, "pprof", "The bytes are no valid pprof profile.")                                 \
	X(LABELS, "labels", "A sample label or a series' labels broke a rule or a limit.")         \
	X(SAMPLE_LIMIT, "sample_limit", "More samples than sample_limit.")                         \
	X(TARGET_LIMIT, "target_limit", "The job has more targets than target_limit.")             \
	X(BACKPRESSURE, "backpressure",                                                            \
		"The scrape budget was spent until the next scrape was due.")                      \
	X(BUSY, "busy", "Another CPU profile of the same URL ran until the next scrape was due.")  \
	X(HOST_LIMIT, "host_limit",                                                                \
		"Requests to the same host, as many as --scrape.max-per-host allows, ran until "   \
		"the next scrape was due.")                                                        \
	X(MEMORY, "memory", "The scrape budget could not hold the decoded profile.")               \
	X(STORE_TIMESTAMP, "store_timestamp",                                                      \
		"The profile's time is outside the window that the store accepts.")                \
	X(STORE, "store", "The store refused the record; its text says why.")                      \
	X(CANCELLED, "cancelled", "The target went away or the scraper stopped.")

enum scrape_reason {
	SCRAPE_OK,
#define X(name, label, text) SCRAPE_FAIL_##name,
	SCRAPE_REASONS(X)
#undef X
		SCRAPE_N_REASONS
};

/* "http_status" …; "" for SCRAPE_OK. */
const char *scrape_reason_name(enum scrape_reason r);
