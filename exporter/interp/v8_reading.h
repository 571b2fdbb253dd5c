/* SPDX-License-Identifier: Apache-2.0
 *
 * The reading of one piece of machine code, what v8_code.c, and v8_points.c for versions that need translations, share.
 */
#pragma once
#include "exporter/interp/v8.h"
#include "exporter/interp/v8_function.h"

struct v8_reading {
	struct v8_heap h;
	struct v8_scripts *scripts;
	struct v8_code *code;
	uint64_t stream,
		object; /* words: what holds the instructions, and its description; one up to 10.x */
	uint64_t shared[V8_MAX_FUNCTIONS]; /* words of code->functions */
	uint64_t map;			   /* of streams, once one is known */
	unsigned n_tries;
};

static inline bool v8_has(const struct v8_reading *r, enum v8_number what)
{
	return r->h.r->offsets[what] != RUNTIME_NO_FIELD;
}

/* An element that may be weak. */
static inline uint64_t v8_strong(uint64_t word)
{
	return (word & 3) == 3 && word > 3 ? word & ~2ULL : word;
}

static inline int v8_deopt_element(
	struct v8_reading *r, uint64_t deopt, enum v8_number what, uint64_t *ret)
{
	return v8_element(&r->h, deopt, r->h.r->offsets[what], ret);
}

/* Reads one more function of the code. Its number, or an error. */
int v8_function_add(struct v8_reading *r, uint64_t shared, struct v8_function *ret);
/* The number of a function among the code's; it is read when it is new. Or an error. */
int v8_function_of(struct v8_reading *r, uint64_t shared);
/* Points of optimised code and their frames, from its translations. 0 or an error. */
int v8_points_read(struct v8_reading *r, uint64_t deopt);
