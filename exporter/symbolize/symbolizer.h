/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolizer's inside: what outlives a request.
 */
#pragma once
#include "exporter/symbolize/kernel.h"
#include "exporter/symbolize/kernel_code.h"
#include "exporter/symbolize/names.h"
#include "exporter/symbolize/symbolize.h"
#include "lib/base/lock.h"

struct symbolizer {
	struct symbolizer_options o;
	struct lock lock; /* kernel, names, stats */
	struct kernel_symbols kernel;
	struct kernel_code kernel_code; /* has its own lock */
	char kernel_build_id[2 * SYMBOL_BUILD_ID_MAX + 1];
	uint64_t modules_hash;
	int64_t checked_ns;
	struct names names;
	struct symbolizer_stats stats;
	/* A copy for readers, who must not wait for a demangler or for /proc/kallsyms: both work under `lock`. */
	struct lock published_lock; /* leaf */
	struct symbolizer_stats published;
};

/* Makes the statistics of now those that symbolizer_stats returns. */
void symbolizer_publish_locked(struct symbolizer *s);

/* Reads kallsyms again when modules came or went since, or records of new code were lost; looks at most every 30 s. */
void symbolizer_refresh_kernel_locked(struct symbolizer *s);
/* That of a loaded module, in hex; "" when it has none. */
void symbolizer_module_build_id(
	struct symbolizer *s, const char *module, char ret[2 * SYMBOL_BUILD_ID_MAX + 1]);
