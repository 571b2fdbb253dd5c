/* SPDX-License-Identifier: Apache-2.0
 *
 * How a head's ids of arrival become a block's ids: for each dictionary the new id of every old one and the old id of every new
 * one. Holes get no new id (STORE_NONE).
 */
#pragma once
#include "scraper/store/head/head.h"

struct order {
	uint32_t *new_id; /* by old id */
	uint32_t *old_id; /* by new id */
	uint32_t n, n_old;
};

struct flush_order {
	struct order of[DICT_N];
	uint32_t n_label_strings;
	/* The tree: children of node i (old ids) are children[first_child[i] .. first_child[i + 1]), in location order. */
	uint32_t *first_child, *children;
};

/* -ENOMEM with a text; flush_order_done is due either way. */
int flush_order_make(const struct head *h, struct flush_order *ret, struct errbuf *eb) _must_check_;
void flush_order_done(struct flush_order *o);
