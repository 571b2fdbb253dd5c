/* SPDX-License-Identifier: Apache-2.0
 *
 * label_set_limit: how many distinct sets of sample labels one job may bring into one head generation. When the next answer would pass
 * it, the label with most values is collapsed: each of its values becomes "__other__" for the rest of the generation.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/lock.h"
#include "lib/base/table.h"
#include "lib/prof/labels.h"
#include <stdbool.h>
#include <stdint.h>

#define SCRAPE_OTHER "__other__"

struct scrape_limit_name;
struct scrape_limit {
	_Atomic unsigned refs;
	struct lock lock; /* leaf; guards what follows */
	uint64_t max_sets;
	int64_t generation_ns, generation_started_ns;
	struct table sets; /* hash → 1 */
	struct scrape_limit_name *names;
	size_t n_names, cap_names, n_values;
	struct table by_name;		    /* hash → place among them */
	_Atomic uint64_t n_collapsed_total; /* read without the lock */
};

/* One set of labels of an answer. */
struct scrape_limit_set {
	uint64_t hash;
	const struct label *labels;
	size_t n;
};

/* Counted: the job and its requests in flight share it. 0 sets: no limit. Any thread; each takes the lock. */
struct scrape_limit *scrape_limit_new(uint64_t max_sets, int64_t generation_ns);
struct scrape_limit *scrape_limit_get(struct scrape_limit *l);
void scrape_limit_put(struct scrape_limit *l);
bool scrape_limit_is_collapsed(struct scrape_limit *l, const char *name, size_t n);
/*
 * True: all sets are admitted and counted. False: one more label was collapsed; replace its values and ask again with the new sets.
 * When nothing is left to collapse the answer is admitted.
 */
bool scrape_limit_admit(
	struct scrape_limit *l, const struct scrape_limit_set *sets, size_t n, int64_t now_ns);
/* Names collapsed now, joined by ", ", into `ret`; "" when none. */
void scrape_limit_describe(struct scrape_limit *l, char *ret, size_t n);
