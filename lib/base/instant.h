/* SPDX-License-Identifier: Apache-2.0
 *
 * A point in time as text.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdint.h>

/* "1700000000", "1700000000.5", 13, 16 and 19 digit epochs, RFC 3339, "now", "now-1h" → unix nanoseconds. -EINVAL. */
int instant_parse(
	const char *text, int64_t now_ns, int64_t *ret_ns, struct errbuf *eb) _must_check_;
