/* SPDX-License-Identifier: Apache-2.0
 *
 * What main and the fetcher send each other.
 */
#pragma once
#include "exporter/fetcher/fetcher.h"

enum { FETCHER_MAGIC = 0x31544653 }; /* "SFT1" */

enum fetcher_op { FETCHER_DEBUGINFO = 1, FETCHER_PODS = 2 };

/* With descriptors: where replies go; for FETCHER_DEBUGINFO also the file to write. */
struct fetcher_request {
	uint32_t magic, op, id_len, reserved;
	uint8_t id[FETCHER_MAX_ID];
};
