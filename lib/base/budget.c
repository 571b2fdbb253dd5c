/* SPDX-License-Identifier: Apache-2.0
 *
 * Budget accounting: optimistic add, undo on refusal.
 */
#include "lib/base/budget.h"
#include <inttypes.h>

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

int budget_charge(struct budget *b, uint64_t bytes, struct errbuf *eb)
{
	for (struct budget *n = b; n; n = n->parent) {
		uint64_t now = atomic_fetch_add(&n->used_bytes, bytes) + bytes;
		uint64_t peak = n->peak_bytes;

		if (!n->limit_bytes || (now <= n->limit_bytes && now >= bytes)) {
			while (now > peak &&
				!atomic_compare_exchange_weak(&n->peak_bytes, &peak, now))
				;
			continue;
		}
		n->refused_total++;
		for (struct budget *undo = b;; undo = undo->parent) {
			atomic_fetch_sub(&undo->used_bytes, bytes);
			if (undo == n)
				break;
		}
		return err_set(eb, -ENOMEM,
			"%" PRIu64 " bytes more would exceed the %s limit of %" PRIu64 " bytes%s%s",
			bytes, n->name, n->limit_bytes, n->flag ? ": see " : "",
			n->flag ? n->flag : "");
	}
	return 0;
}
