/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rows of a part count for by their stacks. Only nodes that the rows in hand use are looked at, so that names are read for
 * those alone.
 */
#pragma once
#include "lib/tree/choose.h"
#include "scraper/query/rows.h"

/*
 * For every node of the part that rows of `ranges` have: what tree_choose says of its stack, 0 for other nodes; in `arena`. The part's
 * reader is used and `symbols` gets the names.
 */
int stacks_of_part(struct scan *s, struct scan_part *p, const struct rows_ranges *ranges,
	const struct tree_choice *choice, struct tree_symbols *symbols, struct arena *arena,
	const uint64_t **ret, struct errbuf *eb) _must_check_;
