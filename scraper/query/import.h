/* SPDX-License-Identifier: Apache-2.0
 *
 * Locations of a part into a tree's symbols: equal content gets one id, whatever part it came from.
 */
#pragma once
#include "lib/tree/symbols.h"
#include "scraper/query/scan.h"

/*
 * For each of the n locations `ids` of the part (each once), ret_map[id] becomes the id in `symbols`. ret_map has n_locations
 * entries. Scratch memory comes from `arena`.
 */
int import_locations(struct scan_part *p, const uint32_t *ids, size_t n,
	struct tree_symbols *symbols, struct arena *arena, uint32_t *ret_map,
	struct errbuf *eb) _must_check_;
