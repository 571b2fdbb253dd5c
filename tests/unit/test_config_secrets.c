/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets of a configuration: hidden where it is shown, compared where a reload decides what changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/bytes.h"
#include "scraper/config/config.h"
#include <string.h>

#define JOB "scrape_configs:\n- job_name: a\n  "

static struct config *parse_ok(const char *text)
{
	static const struct config_load_opts opts = {0};
	struct config *c = NULL;
	struct errbuf eb = {0};

	if (config_parse(NULL, "dir/f.yml", text, strlen(text), &opts, &c, &eb) < 0)
		fail_msg("%s", eb.text);
	return c;
}

/* What a page shows has no secret; what decides whether a job changed has. */
static void test_secrets(void **state)
{
	static const char form[] =
		JOB "authorization: {credentials: hunter%d}\n  proxy_url: 'http://u:hunter%d@p:1'\n"
		    "  proxy_connect_header: {X-P: [hunter%d]}\n  tls_config: {key: hunter%d, "
		    "cert: c}\n"
		    "  http_headers: {X-S: {secrets: [hunter%d], values: [seen]}}";
	struct config *a, *b, *c;
	_cleanup_bytes_ struct bytes out = {0};
	char text[512], other[512];

	(void)state;
	snprintf(text, sizeof(text), form, 1, 1, 1, 1, 1);
	snprintf(other, sizeof(other), form, 2, 1, 1, 1, 1);
	a = parse_ok(text);
	b = parse_ok(text);
	c = parse_ok(other);
	assert_true(config_job_equal(&a->jobs[0], &b->jobs[0]));
	assert_false(config_job_equal(&a->jobs[0], &c->jobs[0]));
	config_print(a, &out);
	bytes_put_u8(&out, 0);
	assert_null(strstr((char *)out.data, "hunter"));
	assert_non_null(strstr((char *)out.data, "<secret>"));
	assert_non_null(strstr((char *)out.data, "http://u:xxxxx@p:1"));
	assert_non_null(strstr((char *)out.data, "seen"));
	assert_string_equal(a->jobs[0].http.transport.auth_credentials, "hunter1");
	config_put(a);
	config_put(b);
	config_put(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_secrets)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
