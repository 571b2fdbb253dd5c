/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs, host:port and query parameters, as tables of cases.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/net/url/url.h"
#include "lib/base/alloc.h"
#include <string.h>

static void test_parse(void **state)
{
	static const struct {
		const char *text, *scheme, *user, *password, *host, *path, *query, *printed;
		unsigned port;
	} cases[] = {
		{"http://a", "http", NULL, NULL, "a", "/", NULL, "http://a/", 80},
		{"HTTPS://a.b:8443/x?y=z#f", "https", NULL, NULL, "a.b", "/x", "y=z",
			"https://a.b:8443/x?y=z", 8443},
		{"http://u:p%40w@h/", "http", "u", "p@w", "h", "/", NULL, "http://u:xxxxx@h/", 80},
		{"http://u@h:/", "http", "u", NULL, "h", "/", NULL, "http://u@h/", 80},
		{"http://[::1]:9090/m", "http", NULL, NULL, "::1", "/m", NULL,
			"http://[::1]:9090/m", 9090},
		{"http://[fe80::1%25eth0]/", "http", NULL, NULL, "fe80::1%25eth0", "/", NULL,
			"http://[fe80::1%25eth0]/", 80},
		{"http://h?q", "http", NULL, NULL, "h", "/", "q", "http://h/?q", 80},
		{"http://h/a%2fb", "http", NULL, NULL, "h", "/a%2fb", NULL, "http://h/a%2fb", 80},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_url_ struct url u = {0};
		_cleanup_bytes_ struct bytes out = {0};
		struct errbuf eb = {0};

		if (url_parse(cases[i].text, &u, &eb) < 0)
			fail_msg("%s: %s", cases[i].text, eb.text);
		assert_string_equal(u.scheme, cases[i].scheme);
		assert_string_equal(u.host, cases[i].host);
		assert_string_equal(u.path, cases[i].path);
		assert_int_equal(u.port, cases[i].port);
		assert_string_equal(
			u.user ? u.user : "(none)", cases[i].user ? cases[i].user : "(none)");
		assert_string_equal(u.password ? u.password : "(none)",
			cases[i].password ? cases[i].password : "(none)");
		assert_string_equal(
			u.query ? u.query : "(none)", cases[i].query ? cases[i].query : "(none)");
		url_print(&u, true, &out);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, cases[i].printed);
	}
}

static void test_parse_errors(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "no scheme"},
		{"host:80/path", "no scheme"},
		{"ftp://h/", "scheme \"ftp\" is not supported"},
		{"http://", "no host"},
		{"http://:80/", "no host"},
		{"http://h:99999/", "bad port"},
		{"http://h:8x/", "bad port"},
		{"http://[::1/", "missing ']'"},
		{"http://::1/", "more than one ':'"},
		{"http://a b/", "space or control character at byte 9"},
		{"http://u:%zz@h/", "bad escape"},
		{"http://a\\b/", "not a valid host"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct url u = {0};
		struct errbuf eb = {0};

		assert_int_equal(url_parse(cases[i].text, &u, &eb), -EINVAL);
		if (!strstr(eb.text, cases[i].error))
			fail_msg("%s: \"%s\", expected \"%s\"", cases[i].text, eb.text,
				cases[i].error);
	}
}

static void test_host_port(void **state)
{
	static const struct {
		const char *text, *host;
		int port; /* −1: refused */
	} cases[] = {
		{"127.0.0.1:7272", "127.0.0.1", 7272},
		{":0", "", 0},
		{"[::]:80", "::", 80},
		{"localhost:1", "localhost", 1},
		{"host", NULL, -1},
		{"host:", NULL, -1},
		{"host:65536", NULL, -1},
		{"::1:80", NULL, -1},
		{"[::1]", NULL, -1},
		{"h:-1", NULL, -1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *host = NULL;
		uint16_t port = 0;
		int r = url_split_host_port(cases[i].text, &host, &port, NULL);

		assert_int_equal(r, cases[i].port < 0 ? -EINVAL : 0);
		if (r < 0)
			continue;
		assert_string_equal(host, cases[i].host);
		assert_int_equal(port, cases[i].port);
	}
}

static void test_params(void **state)
{
	static const char query[] = "a=1&b=x+y%26z&a=2&&empty=&flag";
	_cleanup_url_params_ struct url_params p = {0};

	(void)state;
	assert_int_equal(url_params_parse(&p, query, strlen(query), 10, NULL), 0);
	assert_int_equal(p.n, 5);
	assert_string_equal(url_params_get(&p, "a"), "1");
	assert_string_equal(p.items[2].value, "2");
	assert_string_equal(url_params_get(&p, "b"), "x y&z");
	assert_string_equal(url_params_get(&p, "flag"), "");
	assert_null(url_params_get(&p, "c"));
	url_params_set(&p, "a", "é/");
	assert_int_equal(p.n, 4);
	assert_string_equal(url_params_get(&p, "a"), "é/");
	assert_int_equal(url_params_parse(&p, "x=1&y=2", 7, 5, NULL), -EFBIG);
	assert_int_equal(url_params_parse(&p, "x=%0", 4, 50, NULL), -EINVAL);
	assert_int_equal(url_params_parse(&p, "x=%00", 5, 50, NULL), -EINVAL);
	assert_int_equal(url_params_parse(&p, "x=a\0b", 5, 50, NULL), -EINVAL);
}

static void test_escape_round_trip(void **state)
{
	char all[256];

	(void)state;
	for (int c = 1; c < 256; c++)
		all[c - 1] = (char)c;
	all[255] = 0;
	for (int i = 0; i < 2; i++) {
		_cleanup_bytes_ struct bytes out = {0};

		if (i)
			url_escape_path(&out, all, 255);
		else
			url_escape_query(&out, all, 255);
		bytes_put_u8(&out, 0);
		assert_int_equal(url_unescape((char *)out.data, true, NULL), 0);
		assert_string_equal((char *)out.data, all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_errors),
		cmocka_unit_test(test_host_port),
		cmocka_unit_test(test_params),
		cmocka_unit_test(test_escape_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
