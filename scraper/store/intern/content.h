/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes of what a profile's locations mean, by their texts and numbers: equal in every profile that means the same, whatever its indices.
 * Computed on demand; each string, function and mapping once.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/hash.h"
#include "lib/prof/profile.h"

struct content {
	const struct profile *p;
	bool keep_addresses; /* of named locations too */
	uint64_t seed;
	struct hash128 *strings, *functions, *mappings; /* {0, 0}: not computed */
};

/* The tables lie in `a`. 0 or -ENOMEM. */
int content_init(struct content *c, const struct profile *p, bool keep_addresses, uint64_t seed,
	struct arena *a) _must_check_;
/* Of all that makes the location's id in a dictionary. False for one with very many lines, which is not hashed. */
bool content_location(struct content *c, uint32_t i, struct hash128 *ret);
/* Only the file's own address says the same in every process; where there is no mapping nothing better is known. */
uint64_t content_file_address(const struct profile *p, const struct prof_location *l);
