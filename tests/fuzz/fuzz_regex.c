/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions: expression, NUL, text. Matching with and without groups must agree, spans
 * must lie in the text, and what the literals say must match.
 */
#include "lib/base/bytes.h"
#include "lib/base/regex.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_match(const struct regex *re, const char *s, size_t n)
{
	struct regex_span spans[REGEX_MAX_GROUPS + 1];
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	size_t n_spans = regex_n_groups(re) + 1;
	struct errbuf eb = {0};
	int r = regex_match(re, s, n, &eb);

	if (r < 0) /* the step limit */
		return;
	if (regex_match_groups(re, s, n, 0, spans, n_spans, &eb) != r)
		ASSERT(eb.text[0]);
	for (size_t i = 0; r > 0 && i < n_spans; i++) {
		if (spans[i].start < 0)
			continue;
		ASSERT(spans[i].start <= spans[i].end && (size_t)spans[i].end <= n);
	}
	if (r > 0)
		regex_expand(re, "$0$1${x}$$$", s, spans, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size);
	const char *text = nul ? (const char *)nul + 1 : "";
	size_t n = nul ? size - (size_t)(nul + 1 - data) : 0;
	_cleanup_free_ char *expression =
		strndup((const char *)data, nul ? (size_t)(nul - data) : size);

	for (int mode = REGEX_ANCHORED; mode <= REGEX_SEARCH; mode++) {
		_cleanup_(regex_freep)
		struct regex *re = NULL;
		struct errbuf eb = {0};
		int r = regex_compile(expression, (enum regex_mode)mode, &re, &eb);

		ASSERT(r == 0 || eb.text[0]);
		if (r < 0)
			continue;
		check_match(re, text, n);
	}
	return 0;
}
