/* SPDX-License-Identifier: Apache-2.0
 *
 * The node's rules: equal ones have one id and a count of the tables that use them. An id is given to another rule only when
 * no table leads to it any more.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "lib/base/cleanup.h"
#include <stdint.h>

struct rules {
	struct unwind_rule *rules; /* the kernel half's array */
	uint32_t n;		   /* of it */
	uint32_t n_used;
	uint32_t *refs;
	uint32_t *next; /* in its bucket, or in the list of free ids; 0: none */
	uint32_t *buckets;
	uint32_t n_buckets, first_free;
	uint32_t n_touched; /* ids below were used once */
};

/* `rules` has n of them, at least 2. Id 0 stays unused, id 1 is UNWIND_CFA_UNKNOWN for ever. */
void rules_init(struct rules *t, struct unwind_rule *rules, uint32_t n);
void rules_done(struct rules *t);
enum { RULES_UNKNOWN = 1 };

/* The id of a rule, referenced once more; RULES_UNKNOWN when there is no room. */
uint32_t rules_get(struct rules *t, const struct unwind_rule *rule);
void rules_put(struct rules *t, uint32_t id);
