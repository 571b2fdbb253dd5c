/* SPDX-License-Identifier: Apache-2.0
 *
 * Radix sort. A pass whose digit is the same for all keys is left out.
 */
#include "lib/base/radix.h"
#include "lib/base/cleanup.h"
#include <string.h>

enum { BITS = 11, BUCKETS = 1 << BITS, PASSES = 3 };

static unsigned digit(uint32_t key, unsigned pass)
{
	return key >> (pass * BITS) & (BUCKETS - 1);
}

void radix_sort(struct radix_item *items, struct radix_item *tmp, size_t n)
{
	static _Thread_local size_t counts[PASSES][BUCKETS];
	struct radix_item *from = items, *to = tmp;

	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i++)
		for (unsigned p = 0; p < PASSES; p++)
			counts[p][digit(items[i].key, p)]++;
	for (unsigned p = 0; p < PASSES && n > 1; p++) {
		struct radix_item *swap = from;
		size_t at = 0;

		if (counts[p][digit(from[0].key, p)] == n)
			continue;
		for (size_t b = 0; b < BUCKETS; b++) {
			size_t count = counts[p][b];

			counts[p][b] = at;
			at += count;
		}
		for (size_t i = 0; i < n; i++)
			to[counts[p][digit(from[i].key, p)]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(*items));
}
