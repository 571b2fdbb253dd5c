/* SPDX-License-Identifier: Apache-2.0
 *
 * Identities of profiles. They say what they name, so nothing keeps them: a profile has the same one in the head, in its block and in
 * every block that is compacted from it.
 */
#include "scraper/query/query.h"
#include <inttypes.h>
#include <stdio.h>

void query_profile_id_print(const struct query_profile_id *id, char ret[QUERY_PROFILE_ID_LEN + 1])
{
	uint64_t t = (uint64_t)id->time_ns, s = id->series;

	snprintf(ret, QUERY_PROFILE_ID_LEN + 1,
		"%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, t >> 32,
		t >> 16 & 0xffff, t & 0xffff, s >> 48, s & 0xffffffffffff);
}

static int digit_of(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

int query_profile_id_parse(const char *text, struct query_profile_id *ret, struct errbuf *eb)
{
	uint64_t v[2] = {};
	size_t n = 0, i;

	for (i = 0; i < QUERY_PROFILE_ID_LEN && text[i]; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		int d = digit_of(text[i]);

		if (dash ? text[i] != '-' : d < 0)
			break;
		if (dash)
			continue;
		v[n / 16] = v[n / 16] << 4 | (uint64_t)d;
		n++;
	}
	if (i != QUERY_PROFILE_ID_LEN || text[i])
		return err_set(eb, -EINVAL,
			"\"%.40s\" is no profile id, 8-4-4-4-12 hexadecimal digits", text);
	*ret = (struct query_profile_id) {.series = v[1], .time_ns = (int64_t)v[0]};
	return 0;
}
