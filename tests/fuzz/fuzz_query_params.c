/* SPDX-License-Identifier: Apache-2.0
 *
 * Query strings through the parameters of query endpoints; what is accepted keeps its promises on ranges.
 */
#include "lib/base/err.h"
#include "lib/net/url/url.h"
#include "scraper/api/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_url_params_ struct url_params u = {};
	struct api_params p;
	struct errbuf eb = {};
	char time[40];

	if (url_params_parse(&u, (const char *)data, size, 1000, NULL) < 0)
		return 0;
	if (api_params_parse(&u, 1795000000000000000, API_JSON, 1 << 20, &p, &eb) < 0) {
		ASSERT(eb.text[0]);
		return 0;
	}
	ASSERT(p.start_ns <= p.end_ns && p.step_ns >= 1000000 && p.max_nodes <= 1 << 20);
	ASSERT((unsigned)p.format < API_N_FORMATS && p.n_group_by <= 8);
	api_format_time(p.start_ns, time);
	api_params_done(&p);
	return 0;
}
