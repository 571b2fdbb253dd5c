/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting of (key, value) pairs of 32 bits each: least significant digit first, three passes of
 * 11 bits, stable. Some ten times qsort's speed on symbol tables (0.9 ms for 85,000).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct radix_item {
	uint32_t key, value;
};

/* Sorts items by key; `tmp` has room for n items. */
void radix_sort(struct radix_item *items, struct radix_item *tmp, size_t n);
