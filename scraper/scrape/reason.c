/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the reasons.
 */
#include "scraper/scrape/reason.h"

const char *scrape_reason_name(enum scrape_reason r)
{
	static const char *const names[] = {[SCRAPE_OK] = "",
#define X(name, label, text) [SCRAPE_FAIL_##name] = label,
		SCRAPE_REASONS(X)
#undef X
	};

	return names[r];
}
