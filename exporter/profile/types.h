/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of profile types: what an endpoint is called, what its samples count, where each value comes from.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Where a sample value is taken from. */
enum profile_value {
	PROFILE_COUNT,	/* number of samples */
	PROFILE_WEIGHT, /* sum of their weights */
};

enum { PROFILE_MAX_VALUES = 4 };

struct profile_type {
	const char *endpoint;	 /* /debug/pprof/ENDPOINT */
	const char *store_name;	 /* the name that the store keeps it under */
	const char *description; /* for the index page */
	struct {
		const char *type, *unit;
		enum profile_value value;
	} values[PROFILE_MAX_VALUES]; /* the main one last */
	size_t n_values;
	const char *period_type, *period_unit;
};

extern const struct profile_type profile_type_cpu;
