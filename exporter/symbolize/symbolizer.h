/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolizer's inside: what outlives a request.
 */
#pragma once
#include "exporter/symbolize/kernel.h"
#include "exporter/symbolize/kernel_code.h"
#include "exporter/symbolize/names.h"
#include "exporter/symbolize/symbolize.h"
#include "lib/base/rounds.h"

struct symbolizer {
	struct symbolizer_options o;
	struct rounds refreshes; /* of the kernel's symbols */
	uint64_t modules_hash;	 /* the refreshing thread's */
	struct lock lock;	 /* kernel, checked_ns, names, stats */
	struct kernel_symbols kernel;
	struct kernel_code kernel_code; /* has its own lock */
	char kernel_build_id[2 * SYMBOL_BUILD_ID_MAX + 1];
	int64_t checked_ns; /* when a refresh began last */
	struct names names;
	struct symbolizer_stats stats;
	/* A copy for readers, who must not wait for a demangler: it works under `lock`. */
	struct lock published_lock; /* leaf */
	struct symbolizer_stats published;
};

/* Makes the statistics of now those that symbolizer_stats returns. */
void symbolizer_publish_locked(struct symbolizer *s);

/* Has the kernel's symbols refreshed unless that was done less than 30 s ago; waits for it until then at most. */
void symbolizer_await_kernel(struct symbolizer *s, int64_t until_ns);
/* The build id of a loaded module, from sysfs, in hex; "" when it has none. */
void symbolizer_module_build_id(
	struct symbolizer *s, const char *module, char ret[2 * SYMBOL_BUILD_ID_MAX + 1]);
