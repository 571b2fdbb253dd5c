/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of varints at memory speed. Where a varint ends is known only after reading it, which makes a loop over one run of them
 * wait for itself at every value. Here the run is cut at value ends into four, by counting ends, and the four are decoded side by
 * side without branches.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes the n varints that fill [p, p + len). False, with `ret` undefined, when the bytes are not exactly n varints of at most 5
 * (u32) or 8 (u64) bytes, or too few for this to pay: the caller then goes value by value. u32: values are cut to 32 bits and
 * *ret_bits is the OR of the whole ones.
 */
bool varints_u32(const uint8_t *p, size_t len, size_t n, uint32_t *ret, uint64_t *ret_bits);
bool varints_u64(const uint8_t *p, size_t len, size_t n, uint64_t *ret);

/* Both of them, for tests: `max` bytes a value, into v32 or v64, with this CPU's bit gathering or without. */
bool varints_decode(const uint8_t *p, size_t len, size_t n, unsigned max, bool bmi2, uint32_t *v32,
	uint64_t *v64, uint64_t *ret_bits);
/* Whether this CPU has it. */
bool varints_use_bmi2(void);
