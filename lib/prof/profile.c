/* SPDX-License-Identifier: Apache-2.0
 *
 * Life and strings of a profile.
 */
#include "lib/prof/profile.h"
#include <string.h>

void profile_init(struct profile *p, struct budget *budget)
{
	*p = (struct profile) {.n_strings = 0};
	arena_init(&p->arena, budget);
}

void profile_done(struct profile *p)
{
	arena_done(&p->arena);
	profile_init(p, p->arena.budget);
}

struct prof_str profile_str(const struct profile *p, uint32_t i)
{
	return i < p->n_strings ? p->strings[i] : (struct prof_str) {.p = ""};
}

int profile_str_is(const struct profile *p, uint32_t i, const char *text)
{
	struct prof_str s = profile_str(p, i);

	return s.len == strlen(text) && !memcmp(s.p, text, s.len);
}
