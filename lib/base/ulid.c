/* SPDX-License-Identifier: Apache-2.0
 *
 * ULIDs in Crockford's base 32.
 */
#include "lib/base/ulid.h"
#include "lib/base/err.h"
#include "lib/base/hash.h"
#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

void ulid_source_init(struct ulid_source *s, uint64_t seed)
{
	*s = (struct ulid_source) {.state = seed, .seeded = seed != 0};
}

static void fill_random(struct ulid_source *s, uint8_t *p, size_t n)
{
	if (!s->seeded) {
		ssize_t got = getrandom(p, n, 0);

		ASSERT(got == (ssize_t)n); /* up to 256 bytes are never cut short */
		return;
	}
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)hash_mix(s->state += 0x9e3779b97f4a7c15ULL);
}

void ulid_next(struct ulid_source *s, int64_t realtime_ns, uint8_t ret[ULID_BYTES])
{
	uint64_t ms = realtime_ns < 0 ? 0 : (uint64_t)realtime_ns / 1000000;

	for (int i = 0; i < 6; i++)
		ret[i] = (uint8_t)(ms >> (40 - 8 * i));
	fill_random(s, ret + 6, 10);
	if (memcmp(ret, s->last, ULID_BYTES) <= 0) {
		memcpy(ret, s->last, ULID_BYTES);
		for (int i = ULID_BYTES - 1; i >= 0 && !++ret[i]; i--)
			;
	}
	memcpy(s->last, ret, ULID_BYTES);
}

void ulid_format(const uint8_t ulid[ULID_BYTES], char ret[ULID_TEXT])
{
	/* 130 bits in 26 characters: the first two bits are zero. */
	for (int c = 0; c < 26; c++) {
		unsigned v = 0;

		for (int b = 0; b < 5; b++) {
			int bit = c * 5 + b - 2;

			v = v << 1 | (bit >= 0 ? ulid[bit / 8] >> (7 - bit % 8) & 1 : 0);
		}
		ret[c] = alphabet[v];
	}
	ret[26] = 0;
}

bool ulid_parse(const char *text, uint8_t ret[ULID_BYTES])
{
	if (strlen(text) != 26 || text[0] > '7')
		return false;
	memset(ret, 0, ULID_BYTES);
	for (int c = 0; c < 26; c++) {
		const char *at = strchr(alphabet, text[c]);

		if (!at || !*at)
			return false;
		for (int b = 0; b < 5; b++) {
			int bit = c * 5 + b - 2;

			if (bit >= 0 && (at - alphabet) >> (4 - b) & 1)
				ret[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
		}
	}
	return true;
}

int64_t ulid_time_ns(const uint8_t ulid[ULID_BYTES])
{
	uint64_t ms = 0;

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | ulid[i];
	return ms > INT64_MAX / 1000000 ? INT64_MAX : (int64_t)ms * 1000000;
}
