/* SPDX-License-Identifier: Apache-2.0
 *
 * Life and strings of a profile.
 */
#include "lib/prof/profile.h"
#include "lib/base/bytes.h"
#include "lib/base/str.h"
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

void profile_reset(struct profile *p)
{
	struct arena arena = p->arena;

	arena_reset(&arena);
	*p = (struct profile) {.arena = arena};
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

static int list_types(const struct profile *p, const char *name, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes list;

	bytes_init(&list, NULL, 0);
	for (size_t i = 0; i < p->n_types; i++) {
		struct prof_str t = profile_str(p, p->types[i].type);

		bytes_printf(&list, "%s%.*s", i ? ", " : "", (int)MIN(t.len, 100U), t.p);
	}
	return err_set(eb, -EINVAL, "no sample type \"%s\"; there are: %.*s", name ? name : "",
		(int)list.len, list.data ? (const char *)list.data : "");
}

int profile_find_type(const struct profile *p, const char *name, size_t *ret, struct errbuf *eb)
{
	struct prof_str wanted = profile_str(p, p->default_sample_type);
	uint64_t index;

	if (!p->n_types)
		return err_set(eb, -EINVAL, "the profile has no sample type");
	if (name && *name)
		wanted = (struct prof_str) {.p = name, .len = (uint32_t)strlen(name)};
	for (size_t i = p->n_types; i-- > 0;) {
		struct prof_str t = profile_str(p, p->types[i].type);

		if (t.len == wanted.len && !memcmp(t.p, wanted.p, t.len)) {
			*ret = i;
			return 0;
		}
	}
	if (!name || !*name) {
		*ret = p->n_types - 1;
		return 0;
	}
	if (str_parse_u64(name, &index, NULL) < 0 || index >= p->n_types)
		return list_types(p, name, eb);
	*ret = (size_t)index;
	return 0;
}
