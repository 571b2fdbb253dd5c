/* SPDX-License-Identifier: Apache-2.0
 *
 * A point in time as text.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include <stdint.h>

/* Instants from outside lie within this of 1970, far beyond what is stored, so that sums and differences of them do not overflow. */
#define INSTANT_MAX_NS (4000000000 * NS_PER_S)
/* Unix time in nanoseconds, moved into that range; the same from seconds. */
int64_t instant_clamp(int64_t ns);
int64_t instant_of_seconds(int64_t seconds);

/* "1700000000", "1700000000.5", 13, 16 and 19 digit epochs, RFC 3339, "now", "now-1h" → unix nanoseconds, clamped. -EINVAL
 * with a text on anything else, and when now-DURATION lies before 1970. */
int instant_parse(
	const char *text, int64_t now_ns, int64_t *ret_ns, struct errbuf *eb) _must_check_;
