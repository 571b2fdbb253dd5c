/* SPDX-License-Identifier: Apache-2.0
 *
 * Case mapping and folding of Unicode characters, one to one (Go's unicode.ToUpper, ToLower,
 * SimpleFold), and UTF-8 coding.
 */
#pragma once
#include "lib/base/bytes.h"
#include <stdbool.h>
#include <stdint.h>

uint32_t ucase_to_upper(uint32_t c);
uint32_t ucase_to_lower(uint32_t c);
/* The next member of the circle of characters equal to c when case is ignored: K → k → U+212A → K.
 * c itself when alone. */
uint32_t ucase_next_fold(uint32_t c);
/* Ranges that hold all characters with a case mapping, in order: start with *pos = 0; false at the
 * end. */
bool ucase_next_range(size_t *pos, uint32_t *ret_lo, uint32_t *ret_hi);

/* Appends the n bytes at s in upper or lower case; bytes that are not UTF-8 stay. */
void ucase_map(const char *s, size_t n, bool upper, struct bytes *out);

/* The character of a valid sequence of `len` bytes (from str_utf8_len); and the sequence of a
 * character. */
uint32_t ucase_decode(const char *s, size_t len);
void ucase_encode(uint32_t c, struct bytes *out);
