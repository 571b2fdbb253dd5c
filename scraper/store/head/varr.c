/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserved arrays over anonymous memory without swap reservation.
 */
#include "scraper/store/head/varr.h"
#include <errno.h>
#include <sys/mman.h>

enum { STEP = 64 << 10 };

int varr_init(struct varr *v, size_t elem, size_t cap, struct budget *budget)
{
	size_t bytes;
	void *p;

	*v = (struct varr) {.elem = elem, .cap = cap, .budget = budget};
	if (__builtin_mul_overflow(elem, cap, &bytes))
		return -ENOMEM;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	v->base = p;
	return 0;
}

void varr_done(struct varr *v)
{
	if (v->base)
		munmap(v->base, v->elem * v->cap);
	if (v->budget)
		budget_release(v->budget, v->charged_bytes);
	*v = (struct varr) {.elem = v->elem};
}

void *varr_room(struct varr *v, size_t k, int *ret_error)
{
	size_t need, more;

	if (k > v->cap - v->n) {
		*ret_error = -ENOSPC;
		return NULL;
	}
	need = (v->n + k) * v->elem;
	if (need > v->charged_bytes) {
		more = (need - v->charged_bytes + STEP - 1) / STEP * STEP;
		if (v->budget && budget_charge(v->budget, more, NULL) < 0) {
			*ret_error = -ENOMEM;
			return NULL;
		}
		v->charged_bytes += more;
	}
	return v->base + v->n * v->elem;
}
