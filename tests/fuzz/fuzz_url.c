/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs and query strings: what parses prints to text that parses to the same.
 */
#include "lib/net/url/url.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const char *a, const char *b)
{
	return !a || !b ? a == b : !strcmp(a, b);
}

static void check_url(const char *text)
{
	_cleanup_url_ struct url u = {0}, again = {0};
	_cleanup_bytes_ struct bytes out = {0};
	struct errbuf eb = {0};

	if (url_parse(text, &u, &eb) < 0) {
		ASSERT(eb.text[0]);
		return;
	}
	url_print(&u, false, &out);
	bytes_put_u8(&out, 0);
	ASSERT(url_parse((const char *)out.data, &again, &eb) == 0);
	ASSERT(same(u.scheme, again.scheme) && same(u.user, again.user) &&
		same(u.password, again.password));
	ASSERT(same(u.host, again.host) && same(u.path, again.path) && same(u.query, again.query) &&
		u.port == again.port);
}

static void check_params(const char *text, size_t n)
{
	_cleanup_url_params_ struct url_params p = {0};

	if (url_params_parse(&p, text, n, 100, NULL) < 0)
		return;
	ASSERT(p.n <= 100);
	for (size_t i = 0; i < p.n; i++)
		ASSERT(url_params_get(&p, p.items[i].name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = xmalloc(size + 1);
	_cleanup_free_ char *host = NULL;
	uint16_t port;

	memcpy(text, data, size);
	text[size] = 0;
	check_url(text);
	check_params(text, size);
	(void)!url_split_host_port(text, &host, &port, NULL);
	return 0;
}
