/* SPDX-License-Identifier: Apache-2.0
 *
 * Budget accounting: node by node towards the root, undone below the one that refuses.
 */
#include "lib/base/budget.h"
#include <inttypes.h>
#include <stdlib.h>

void budget_init(struct budget *b, struct budget *parent, const char *name, const char *flag,
	uint64_t limit_bytes)
{
	*b = (struct budget) {
		.name = name, .flag = flag, .parent = parent, .limit_bytes = limit_bytes};
}

void budget_release(struct budget *b, uint64_t bytes)
{
	for (; b; b = b->parent) {
		uint64_t before = atomic_fetch_sub(&b->used_bytes, bytes);

		ASSERT(before >= bytes);
	}
}

/* Adds `bytes` to one node unless they do not fit there. */
static bool add(struct budget *b, uint64_t bytes)
{
	uint64_t reserve = bytes >= BUDGET_LARGE_BYTES ? b->reserve_bytes : 0;
	uint64_t used = b->used_bytes, now, peak;

	do {
		if (__builtin_add_overflow(used, bytes, &now))
			return false;
		if (b->limit_bytes && (now > b->limit_bytes || b->limit_bytes - now < reserve))
			return false;
	} while (!atomic_compare_exchange_weak(&b->used_bytes, &used, now));
	for (peak = b->peak_bytes; now > peak;)
		if (atomic_compare_exchange_weak(&b->peak_bytes, &peak, now))
			break;
	return true;
}

int budget_charge(struct budget *b, uint64_t bytes, struct errbuf *eb)
{
	for (struct budget *n = b; n; n = n->parent) {
		if (add(n, bytes))
			continue;
		n->refused_total++;
		for (struct budget *undo = b; undo != n; undo = undo->parent)
			atomic_fetch_sub(&undo->used_bytes, bytes);
		return err_set(eb, -ENOMEM,
			"%" PRIu64 " bytes more would exceed the %s limit of %" PRIu64 " bytes%s%s",
			bytes, n->name, n->limit_bytes, n->flag ? ": see " : "",
			n->flag ? n->flag : "");
	}
	return 0;
}

void budget_free(struct budget *b, void *p, size_t cap, size_t elem)
{
	budget_release(b, cap * elem);
	free(p);
}
