/* SPDX-License-Identifier: Apache-2.0
 *
 * The selector parser on any bytes; what it accepts must match without fault.
 */
#include "scraper/query/selector.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);
	struct query_selector s;
	struct errbuf eb = {};

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (query_selector_parse(text, &s, &eb) < 0) {
		ASSERT(eb.text[0]);
		return 0;
	}
	for (size_t i = 0; i < s.n_matchers; i++) {
		int r = query_matcher_matches(&s.matchers[i], text, size, NULL);

		/* A matcher and its opposite never agree. */
		if (s.matchers[i].op == QUERY_EQ)
			ASSERT(r == (strlen(s.matchers[i].value) == size &&
					    !memcmp(s.matchers[i].value, text, size)));
	}
	query_selector_done(&s);
	return 0;
}
