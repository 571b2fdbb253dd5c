/* SPDX-License-Identifier: Apache-2.0
 *
 * ULIDs: 48 bits of unix milliseconds and 80 random bits, 26 characters that sort by time. Source:
 * github.com/ulid/spec.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { ULID_BYTES = 16, ULID_TEXT = 27 };

/* A source of ULIDs: each is above the one before, also within a millisecond. seed 0: randomness
 * from the kernel. One thread at a time. */
struct ulid_source {
	uint64_t state;
	bool seeded;
	uint8_t last[ULID_BYTES];
};
void ulid_source_init(struct ulid_source *s, uint64_t seed);
void ulid_next(struct ulid_source *s, int64_t realtime_ns, uint8_t ret[ULID_BYTES]);
void ulid_format(const uint8_t ulid[ULID_BYTES], char ret[ULID_TEXT]);
/* False when `text` is not 26 characters of the alphabet in upper case, or overflows. */
bool ulid_parse(const char *text, uint8_t ret[ULID_BYTES]);
/* When it was made: unix time, of a millisecond's resolution. */
int64_t ulid_time_ns(const uint8_t ulid[ULID_BYTES]);
