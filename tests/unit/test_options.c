/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines: values of every kind, repeats, errors that name flag and expectation, the manual
 * page.
 */
#include "lib/base/options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct values {
	uint64_t hz, bytes;
	int64_t window_ms;
	double share;
	bool lifecycle, compress;
	const char *name, *level;
	struct option_list listen, labels;
};

static const struct option_spec specs[] = {
	OPTION_HEADING("Web"),
	{"web.listen-address", OPTION_STRINGS, offsetof(struct values, listen), .value = "ADDRESS",
		.fallback = "127.0.0.1:1", .help = "Where to listen."},
	{"web.enable-lifecycle", OPTION_BOOL, offsetof(struct values, lifecycle),
		.help = "Allow reload."},
	OPTION_HEADING("Other"),
	{"compress", OPTION_BOOL, offsetof(struct values, compress), .fallback = "true",
		.help = "Compress.", .letter = 'z'},
	{"profile.frequency", OPTION_U64, offsetof(struct values, hz), .value = "HZ",
		.fallback = "19", .min = 1, .max = 999, .help = "Samples per second and CPU."},
	{"profile.window", OPTION_DURATION, offsetof(struct values, window_ms), .fallback = "10s",
		.min = 1000, .max = 60000, .help = "Window."},
	{"bytes", OPTION_BYTES, offsetof(struct values, bytes), .fallback = "64MB",
		.help = "Bytes."},
	{"share", OPTION_DOUBLE, offsetof(struct values, share), .fallback = "0.5", .min = 0,
		.max = 1, .help = "Share."},
	{"node.name", OPTION_STRING, offsetof(struct values, name), .help = "Name.", .letter = 'n',
		.also = "host.name"},
	{"log.level", OPTION_CHOICE, offsetof(struct values, level), .value = "debug|info|warn",
		.fallback = "info", .help = "Level."},
	{"external-label", OPTION_LABELS, offsetof(struct values, labels), .help = "Labels."},
};

static const struct option_program program = {
	.name = "prog",
	.summary = "does things",
	.arguments = "FILE...",
	.description = "First paragraph.\n\nSecond.\n  kept line\n",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      it failed",
	.examples = "prog --compress x\n",
};

static int parse(
	const char *const *args, struct values *v, struct option_list *rest, struct errbuf *eb)
{
	char *argv[16] = {(char *)(uintptr_t) "prog"};
	int argc = 1;

	for (; args[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)args[argc - 1];
	*v = (struct values) {.hz = 0};
	return options_parse(&program, argc, argv, v, rest, eb);
}

static void test_defaults(void **state)
{
	static const char *const args[] = {NULL};
	_cleanup_(option_list_done)
	struct option_list rest = {.n = 0};
	struct values v;

	(void)state;
	assert_int_equal(parse(args, &v, &rest, NULL), OPTIONS_RUN);
	assert_int_equal(v.hz, 19);
	assert_int_equal(v.window_ms, 10000);
	assert_int_equal(v.bytes, 64 << 20);
	assert_true(v.share == 0.5);
	assert_true(v.compress);
	assert_false(v.lifecycle);
	assert_null(v.name);
	assert_string_equal(v.level, "info");
	assert_int_equal(v.listen.n, 1);
	assert_string_equal(v.listen.items[0], "127.0.0.1:1");
	assert_int_equal(v.labels.n, 0);
	options_done(&program, &v);
}

static void test_values(void **state)
{
	static const char *const args[] = {"--web.listen-address=:80", "a", "--web.listen-address",
		"unix:/x", "--no-compress", "--web.enable-lifecycle", "--profile.frequency", "99",
		"-nhost", "--external-label=a=b=c", "--external-label", "dc=", "--", "--bytes=1KB",
		NULL};
	_cleanup_(option_list_done)
	struct option_list rest = {.n = 0};
	struct values v;

	(void)state;
	assert_int_equal(parse(args, &v, &rest, NULL), OPTIONS_RUN);
	assert_int_equal(v.listen.n, 2);
	assert_string_equal(v.listen.items[0], ":80");
	assert_string_equal(v.listen.items[1], "unix:/x");
	assert_false(v.compress);
	assert_true(v.lifecycle);
	assert_int_equal(v.hz, 99);
	assert_string_equal(v.name, "host");
	assert_int_equal(v.labels.n, 2);
	assert_string_equal(v.labels.items[0], "a=b=c");
	assert_int_equal(v.bytes, 64 << 20);
	assert_int_equal(rest.n, 2);
	assert_string_equal(rest.items[0], "a");
	assert_string_equal(rest.items[1], "--bytes=1KB");
	options_done(&program, &v);
}

static void test_other_names(void **state)
{
	static const char *const args[] = {"--host.name=x", NULL}, *const twice[] = {"--host.name",
									   "x", "--node.name", "y",
									   NULL};
	_cleanup_(option_list_done)
	struct option_list rest = {.n = 0};
	struct errbuf eb = {.text = ""};
	struct values v;

	(void)state;
	assert_int_equal(parse(args, &v, &rest, NULL), OPTIONS_RUN);
	assert_string_equal(v.name, "x");
	options_done(&program, &v);
	assert_int_equal(parse(twice, &v, &rest, &eb), -EINVAL);
	assert_string_equal(eb.text, "--node.name is given twice");
	options_done(&program, &v);
}

static void test_errors(void **state)
{
	static const struct {
		const char *args[4], *text;
	} cases[] = {
		{{"--profile.frequency=0"},
			"--profile.frequency=0: expected a number from 1 to 999"},
		{{"--profile.frequency=1000"},
			"--profile.frequency=1000: expected a number from 1 to 999"},
		{{"--profile.frequency", "x"},
			"--profile.frequency=x: \"x\" is not a whole number"},
		{{"--profile.frequency=-1"},
			"--profile.frequency=-1: \"-1\" is not a whole number"},
		{{"--profile.frequency="}, "--profile.frequency=: \"\" is not a whole number"},
		{{"--profile.frequency"}, "--profile.frequency: expected a value (HZ) after it"},
		{{"--profile.frequency=1", "--profile.frequency=2"},
			"--profile.frequency is given twice"},
		{{"--profile.window=2m"}, "--profile.window=2m: expected a duration from 1s to 1m"},
		{{"--profile.window=5"}, "--profile.window=5: \"5\" is not a duration"},
		{{"--bytes=5x"}, "--bytes=5x: \"5x\" is not a size"},
		{{"--share=nan"}, "--share=nan: expected a number from 0 to 1"},
		{{"--log.level=inf"}, "--log.level=inf: expected one of debug|info|warn"},
		{{"--log.level="}, "--log.level=: expected one of debug|info|warn"},
		{{"--compress=yes"},
			"--compress=yes: expected no value, just --compress or --no-compress"},
		{{"--no-share"}, "unknown flag --no-share"},
		{{"--profile.frequancy=1"},
			"unknown flag --profile.frequancy: did you mean --profile.frequency?"},
		{{"--zzzzzzzzzzzz"}, "unknown flag --zzzzzzzzzzzz: --help lists them"},
		{{"-q"}, "unknown flag -q"},
		{{"--external-label=9a=b"}, "--external-label=9a=b: expected NAME=VALUE"},
		{{"--external-label=a-b=c"}, "--external-label=a-b=c: expected a label name"},
		{{"--external-label=ab"}, "--external-label=ab: expected NAME=VALUE"},
		{{"--external-label=a=1", "--external-label=a=2"},
			"--external-label=a=2: the label is given twice"},
		{{"--external-label=a=\xff"}, "expected UTF-8"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(option_list_done)
		struct option_list rest = {.n = 0};
		struct errbuf eb = {.text = ""};
		struct values v;

		assert_int_equal(parse(cases[i].args, &v, &rest, &eb), -EINVAL);
		if (!strstr(eb.text, cases[i].text))
			fail_msg("case %zu: \"%s\" lacks \"%s\"", i, eb.text, cases[i].text);
		options_done(&program, &v);
	}
}

static void test_no_arguments_taken(void **state)
{
	static const struct option_program none = {
		.name = "prog", .specs = specs, .n_specs = ARRAY_SIZE(specs)};
	char *argv[] = {(char *)(uintptr_t) "prog", (char *)(uintptr_t) "x"};
	struct errbuf eb = {.text = ""};
	struct values v = {.hz = 0};

	(void)state;
	assert_int_equal(options_parse(&none, 2, argv, &v, NULL, &eb), -EINVAL);
	assert_non_null(strstr(eb.text, "unexpected argument \"x\""));
	options_done(&none, &v);
}

static void test_help(void **state)
{
	static const char *const wanted[] = {"NAME\n       prog - does things\n",
		"SYNOPSIS\n       prog [OPTION...] FILE...\n",
		"DESCRIPTION\n       First paragraph.\n\n       Second.\n         kept line\n",
		"       --profile.frequency=HZ\n              Samples per second and CPU.\n        "
		"      Default: 19\n",
		"       -z, --[no-]compress\n",
		"       -n TEXT, --node.name=TEXT, --host.name=TEXT\n",
		"       --external-label=NAME=VALUE ...\n",
		"EXIT STATUS\n       0      success\n       1      it failed\n       2      the "
		"command line is wrong",
		"EXAMPLES\n       prog --compress x\n"};
	_cleanup_bytes_ struct bytes out;

	(void)state;
	bytes_init(&out, NULL, 0);
	options_print_help(&program, &out);
	bytes_put_u8(&out, 0);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!strstr((char *)out.data, wanted[i]))
			fail_msg("help lacks \"%s\":\n%s", wanted[i], (char *)out.data);
	for (const char *line = (char *)out.data; line;
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		assert_true(strcspn(line, "\n") <= 100);
}

static void test_printed_values_parse_back(void **state)
{
	static const char *const args[] = {"--bytes=3000KB", "--profile.window=12500ms",
		"--share=0.125", "--log.level=warn", "--external-label=a=1", "--external-label=b=2",
		NULL};
	static const char *const wanted[] = {"", "127.0.0.1:1", "false", "", "true", "19",
		"12s500ms", "3000KB", "0.125", "", "warn", "a=1, b=2"};
	_cleanup_(option_list_done)
	struct option_list rest = {.n = 0};
	struct values v;

	(void)state;
	assert_int_equal(parse(args, &v, &rest, NULL), OPTIONS_RUN);
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		_cleanup_bytes_ struct bytes out;

		bytes_init(&out, NULL, 0);
		option_print_value(&specs[i], &v, &out);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, wanted[i]);
	}
	options_done(&program, &v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_other_names),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_no_arguments_taken),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_printed_values_parse_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
