/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of streams in a block: by schema, then by the values of the labels below, then by their labels as text. All profiles of one
 * target and type lie together, so that a query of one target reads the pages of that target. Nothing that reads a block depends on it.
 */
#pragma once
#include "lib/prof/profile.h"
#include <string.h>

enum { STREAM_LEADS = 3 };
static const char *const stream_leads[STREAM_LEADS] = {"__name__", "job", "instance"};

/* The lead that has this name, STREAM_LEADS when none. */
static inline unsigned stream_lead_of(const struct prof_str *name)
{
	unsigned i = 0;

	while (i < STREAM_LEADS && (strlen(stream_leads[i]) != name->len ||
					   memcmp(stream_leads[i], name->p, name->len) != 0))
		i++;
	return i;
}

/* Values as ids that are in order of their text; 0, the empty one, where the label is absent. */
static inline int stream_leads_compare(const uint32_t *a, const uint32_t *b)
{
	unsigned i = 0;

	while (i < STREAM_LEADS && a[i] == b[i])
		i++;
	return i == STREAM_LEADS ? 0 : a[i] < b[i] ? -1 : 1;
}
