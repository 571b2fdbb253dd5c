/* SPDX-License-Identifier: Apache-2.0
 *
 * Types that wait for their turn, in order of deadline, and the gates that they wait at. Loop thread.
 */
#pragma once
#include "scraper/scrape/reason.h"
#include <stdbool.h>
#include <stdint.h>

struct scrape;
struct scrape_request;
struct scrape_type;

/* A type whose slot has come but which may not start yet: a gate is closed, or the budget is spent. */
struct scrape_wait {
	struct scrape_wait *next, *previous;
	struct scrape_waits *list; /* it stands in; NULL: in none */
	struct scrape_gate *gate;  /* whose list that is; NULL: the budget's */
	struct scrape_type *type;
	int64_t slot_real_ns, deadline_mono_ns;
	enum scrape_reason why;
};

/* By deadline. */
struct scrape_waits {
	struct scrape_wait *first, *last;
};

/* What only so many requests may hold at a time: the CPU profiler behind a URL, a host. Lives while it is held or waited for. */
struct scrape_gate {
	uint64_t key;
	unsigned n_held, n_max;
	bool is_leaving;
	struct scrape_waits waits;
};

/* By its deadline; `w` stands in no list yet, and `gate` (NULL: none) is the one whose list it is. */
void scrape_wait_add(struct scrape_waits *list, struct scrape_gate *gate, struct scrape_wait *w);
/* Out of its list, if it stands in one; frees a gate that is no longer needed. */
void scrape_wait_take(struct scrape *s, struct scrape_wait *w);
/* The same, and frees it; its type waits no more. NULL allowed. */
void scrape_wait_free(struct scrape *s, struct scrape_wait *w);
/* The gate of a key, made when there is none (panics without memory); it is gone after the next call of this file unless it is held or
 * waited for. */
struct scrape_gate *scrape_gate_get(struct scrape *s, uint64_t key, unsigned n_max);
/* NULL when no request holds it or waits for it. */
struct scrape_gate *scrape_gate_find(struct scrape *s, uint64_t key);
/* Lets go of the request's gates; the first that waits at each tries again. */
void scrape_gates_leave(struct scrape *s, struct scrape_request *r);
/* start.c. Starts the request of a wait that stands in no list and ends the wait, or lets it wait for what is missing now. */
void scrape_wait_retry(struct scrape_wait *w);
