/* SPDX-License-Identifier: Apache-2.0
 *
 * What a refusal by status says for who configures the scrape.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "scraper/scrape/check.h"
#include <stdint.h>

static void test_refusals(void **state)
{
	static const struct {
		unsigned status;
		const char *body, *error;
	} cases[] = {
		{500, "", "server returned HTTP status 500"},
		{503, "\n starting up\nmore", "server returned HTTP status 503: starting up"},
		{400, "Client sent an HTTP request to an HTTPS server.\n",
			"server returned HTTP status 400: Client sent an HTTP request to an HTTPS "
			"server. (set scheme: https)"},
		{400,
			"<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS "
			"port</title></head>\r\n<body>…",
			"server returned HTTP status 400: an HTML or XML page \"400 The plain HTTP "
			"request was sent to HTTPS port\" (set scheme: https)"},
		{502, "\xef\xbb\xbf <HTML><HEAD><TITLE>Bad\x1b gateway</TITLE>",
			"server returned HTTP status 502: an HTML or XML page \"Bad\""},
		{500, "<h1>no title", "server returned HTTP status 500: an HTML or XML page"},
		{500, "<title>", "server returned HTTP status 500: an HTML or XML page"},
		{401, "Unauthorized\n",
			"server returned HTTP status 401: Unauthorized (the job needs basic_auth, "
			"authorization, oauth2 or a client certificate)"},
		{404, "404 page not found\n",
			"server returned HTTP status 404: 404 page not found (no profile is served "
			"there: see path_prefix and path in profiling_config)"},
		{404, "Unknown profile\n",
			"server returned HTTP status 404: Unknown profile (this program has no "
			"such "
			"profile: set enabled: false in pprof_config)"},
		{302, "", "server returned HTTP status 302 (a redirect that is not followed)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_response r = {.status = cases[i].status};
		struct errbuf eb = {0};

		bytes_put_str(&r.body, cases[i].body);
		assert_int_equal(scrape_check_transfer(&r, &eb), SCRAPE_FAIL_HTTP_STATUS);
		assert_string_equal(eb.text, cases[i].error);
		bytes_done(&r.body);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
