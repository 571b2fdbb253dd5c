/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolizer's inside: what outlives a request.
 */
#pragma once
#include "exporter/symbolize/kernel.h"
#include "exporter/symbolize/kernel_code.h"
#include "exporter/symbolize/names.h"
#include "exporter/symbolize/symbolize.h"
#include <pthread.h>

struct symbolizer {
	struct symbolizer_options o;
	pthread_mutex_t mutex; /* kernel, names, stats */
	struct kernel_symbols kernel;
	struct kernel_code kernel_code; /* has its own lock */
	char kernel_build_id[2 * SYMBOL_BUILD_ID_MAX + 1];
	uint64_t modules_hash;
	int64_t checked_ns;
	struct names names;
	struct symbolizer_stats stats;
};

/* Reads kallsyms again when modules came or went since, or records of new code were lost; looks at most every 30 s. */
void symbolizer_refresh_kernel_locked(struct symbolizer *s);
/* That of a loaded module, in hex; "" when it has none. */
void symbolizer_module_build_id(
	struct symbolizer *s, const char *module, char ret[2 * SYMBOL_BUILD_ID_MAX + 1]);
