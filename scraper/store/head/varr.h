/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow and never move: address space is reserved for the cap at once, memory is charged
 * to the budget as it is used. One thread appends; others may read what was published to them,
 * without a lock.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include <stddef.h>
#include <stdint.h>

struct varr {
	uint8_t *base;
	size_t elem, n, cap;
	size_t charged_bytes;
	struct budget *budget;
};

/* -ENOMEM when the address space cannot be reserved. */
int varr_init(struct varr *v, size_t elem, size_t cap, struct budget *budget) _must_check_;
void varr_done(struct varr *v);
/* Room for k more entries, zeroed the first time; v->n is for the caller to advance. NULL:
 * *ret_error is -ENOSPC (cap) or -ENOMEM (budget). */
void *varr_room(struct varr *v, size_t k, int *ret_error);
