/* SPDX-License-Identifier: Apache-2.0
 *
 * Slot arithmetic.
 */
#include "scraper/scrape/offset.h"

static const uint64_t FNV_OFFSET = 14695981039346656037ULL, FNV_PRIME = 1099511628211ULL;

static uint64_t fnv1a(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * FNV_PRIME;
	/* a separator that occurs in no UTF-8 text, so that "ab","c" and "a","bc" differ */
	return (h ^ 0xff) * FNV_PRIME;
}

uint64_t scrape_offset_seed(const char *host_name, const struct labels *external_labels)
{
	uint64_t h = fnv1a(FNV_OFFSET, host_name);

	for (size_t i = 0; i < external_labels->n; i++) {
		h = fnv1a(h, external_labels->items[i].name);
		h = fnv1a(h, external_labels->items[i].value);
	}
	return h;
}

int64_t scrape_next_slot(int64_t now_ns, int64_t interval_ns, uint64_t target_hash, uint64_t seed)
{
	int64_t offset = (int64_t)((target_hash ^ seed) % (uint64_t)interval_ns);
	int64_t next = now_ns - now_ns % interval_ns + offset;

	return next > now_ns ? next : next + interval_ns;
}

int64_t scrape_slot_after(
	int64_t slot_ns, int64_t now_ns, int64_t interval_ns, uint64_t target_hash, uint64_t seed)
{
	/* One further ahead is of a clock that was set back since: waiting for it could take as long as that was. */
	bool is_early = slot_ns > now_ns && slot_ns - now_ns < interval_ns;

	return scrape_next_slot(is_early ? slot_ns : now_ns, interval_ns, target_hash, seed);
}
