/* SPDX-License-Identifier: Apache-2.0
 *
 * `seconds` in the query of a URL.
 */
#include "scraper/scrape/window.h"
#include "lib/base/str.h"
#include "scraper/config/config.h"
#include <string.h>

static const char NAME[] = "seconds";

/* The parameter of this length is `seconds`; its value, or 0 when that is no window. */
static bool is_window(const char *param, size_t n, int64_t *ret)
{
	size_t n_name = sizeof(NAME) - 1, n_value = n > n_name ? n - n_name - 1 : 0;
	char value[16];
	uint64_t v;

	if (n < n_name || memcmp(param, NAME, n_name) || (n > n_name && param[n_name] != '='))
		return false;
	*ret = 0;
	if (n_value >= sizeof(value))
		return true;
	memcpy(value, param + n - n_value, n_value);
	value[n_value] = '\0';
	if (str_parse_u64(value, &v, NULL) == 0 && v <= CONFIG_MAX_WINDOW_SECONDS)
		*ret = (int64_t)v;
	return true;
}

int64_t scrape_window_take(char *url)
{
	char *query = strchr(url, '?'), *to = query;
	int64_t first = 0, seconds;
	size_t n;

	if (!query)
		return 0;
	for (const char *at = query + 1;; at += n + 1) {
		bool is_last;

		n = strcspn(at, "&");
		is_last = !at[n];
		if (is_window(at, n, &seconds)) {
			first = first ? first : seconds;
		} else if (n) {
			*to = to == query ? '?' : '&';
			memmove(to + 1, at, n);
			to += n + 1;
		}
		if (is_last)
			break;
	}
	*to = '\0';
	return first;
}
