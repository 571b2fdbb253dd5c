/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed varints of one or two bytes, as location ids nearly always are, up to eight at a time: where bytes end a varint says which of 256
 * shuffles brings each into a lane of its own. After "Vectorized VByte Decoding" (Plaisance, Kurz, Lemire, 2015), with two-byte lanes alone.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* It reads so many bytes past the end, and writes so many words past the last number. */
enum { PACKED_READ_SLACK = 16, PACKED_WRITE_SLACK = 8 };

/* Whether this machine can (SSSE3). */
bool packed_is_fast(void);
/*
 * Numbers minus one from [p, end) to *w, which moves on. Returns where it stopped: at `end`, or at a number of three bytes or more or one
 * that does not end before `end`. Only when packed_is_fast().
 */
const uint8_t *packed_rows(const uint8_t *p, const uint8_t *end, uint32_t **w);
