/* SPDX-License-Identifier: Apache-2.0
 *
 * Locations of a part into a tree's symbols: equal content gets one id, whatever part it came from.
 */
#pragma once
#include "lib/tree/symbols.h"
#include "scraper/query/scan.h"

struct import;

/*
 * Reads all that the n locations `ids` of the part, which are distinct, need; their names are in `symbols` then. Everything lies in
 * `arena`; `eb` and the part's reader are used until the last import_location. -ENOMEM, the errors of part.h.
 */
int import_open(struct scan_part *p, const uint32_t *ids, size_t n, struct tree_symbols *symbols,
	struct arena *arena, struct import **ret, struct errbuf *eb) _must_check_;
/*
 * Nothing else is put into the symbols until the last import_location, and each location is taken once. If they were empty then what a
 * part has is new, and need not be looked up.
 */
void import_alone(struct import *im);
/* The id in `symbols` of the i-th location; tree_symbols_error() reports failures. */
uint32_t import_location(struct import *im, size_t i);
