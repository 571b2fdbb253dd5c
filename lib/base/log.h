/* SPDX-License-Identifier: Apache-2.0
 *
 * Logging in logfmt or JSON to stderr, one write(2) a line. Library folders log at debug only;
 * whatever can happen often has a counter instead, or goes through LOG_RATED. Any thread, but for what is set at start.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

/* Parse the values of --log.level and --log.format. -EINVAL: unknown; the text names the valid ones. At start, before other
 * threads exist. */
int log_set_level(const char *name, struct errbuf *eb) _must_check_;
int log_set_format(const char *name, struct errbuf *eb) _must_check_;
/* Static text put into each line as component=…, e.g. "keeper". At start too. */
void log_set_component(const char *component);
bool log_enabled(enum log_level level);

/* One line: msg, then key/value pairs of strings, ended by NULL: log_write(LOG_INFO, "listening",
 * "address", a, NULL). */
void log_write(enum log_level level, const char *msg, ...) __attribute__((sentinel));
/* The same with a formatted message, cut at 1023 bytes, and no pairs. */
void log_printf(enum log_level level, const char *fmt, ...) _printf_(2, 3);

/* At most one line per ten seconds from this place; the next one says how many were left out. */
struct log_rate {
	_Atomic int64_t next_ms;
	_Atomic uint32_t suppressed;
};
bool log_rate_allows(struct log_rate *rate, uint32_t *ret_suppressed);
#define LOG_RATED(level, ...)                                                                \
	do {                                                                                 \
		static struct log_rate rate_;                                                \
		uint32_t suppressed_;                                                        \
		if (log_rate_allows(&rate_, &suppressed_)) {                                 \
			log_printf(level, __VA_ARGS__);                                      \
			if (suppressed_)                                                     \
				log_printf(level, "%u similar lines left out", suppressed_); \
		}                                                                            \
	} while (0)
