/* SPDX-License-Identifier: Apache-2.0
 *
 * Locations of all parts that the nodes of a merge use: first their order, then their names.
 */
#pragma once
#include "scraper/query/merge.h"

/* A location that some part's nodes use. */
struct known {
	uint64_t key;
	uint32_t part, location; /* where its names are read */
};

struct names_part;
struct merge_names {
	struct arena arena;
	struct names_part *parts;
	struct known *known; /* by key; the place here is a location's rank */
	size_t n_known, cap_known;
	/* Once imported. Per rank: id in the symbols. */
	uint32_t *ids;
	bool ascending; /* each id is above the one before: the order of ranks is that of ids */
};

/* Of m->nodes, into m->names, zeroed before. merge_names_done afterwards in any case. */
int merge_names_find(struct merger *m, struct errbuf *eb) _must_check_;
/* Per location of a part: its rank, undefined where no node has it. */
const uint32_t *merge_names_ranks(const struct merger *m, uint32_t part);
/* Reads the names; the parts' readers are used. By one thread. */
int merge_names_import(struct merger *m, struct errbuf *eb) _must_check_;
void merge_names_done(struct merger *m, struct merge_names *n);
