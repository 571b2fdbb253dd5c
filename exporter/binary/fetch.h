/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug information that servers are asked for: what the registry keeps of it (fetch.c).
 */
#pragma once
#include "exporter/symfile/symbol_file.h"
#include "lib/base/table.h"
#include <pthread.h>

enum { BINARY_MAX_FETCHES = 64 };

struct fetch_item {
	uint32_t binary;
	struct symbol_identity id;
};
struct fetched {
	struct symbol_identity id;
	uint32_t binary; /* that needs it */
	int fd;
	int64_t at_ns;
};
struct fetch {
	pthread_cond_t cond;
	struct fetch_item wanted[BINARY_MAX_FETCHES];
	struct fetched done[BINARY_MAX_FETCHES];
	size_t n_wanted, n_done;
	struct table not_before; /* hash of build id → monotonic ns */
};
