/* SPDX-License-Identifier: Apache-2.0
 *
 * Colours of a static flame graph: a language has its hue, and nothing else looks like it.
 */
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/prof/profile.h"
#include "lib/render/render.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { N_FILLER = 12 };

static uint32_t string(struct prof_builder *b, const char *s)
{
	return prof_builder_string(b, s, strlen(s));
}

static uint32_t location(struct prof_builder *b, const char *name, const char *mapping)
{
	struct prof_function f = {.name = string(b, name), .system_name = string(b, name)};
	struct prof_line line = {.function = prof_builder_function(b, &f)};
	uint32_t m = prof_builder_mapping(
		b, &(struct prof_mapping) {.filename = string(b, mapping), .has_functions = true});

	return prof_builder_location(b, 0, m, &line, 1);
}

/* A function below one in Python, and as many libraries as there are hues for them. */
static void draw(const char *language_mapping, struct bytes *out)
{
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;
	struct errbuf eb;
	uint32_t stack[2];
	int64_t value = 100;

	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "samples", "count");
	stack[0] = stack[1] = location(b, "handler", language_mapping);
	prof_builder_sample(b, stack, 1, &value, NULL, 0, 0);
	for (int i = 0; i < N_FILLER; i++) {
		char mapping[32];

		snprintf(mapping, sizeof(mapping), "/lib/lib%d.so", i);
		stack[0] = location(b, "native", mapping);
		value = 50 - i;
		prof_builder_sample(b, stack, 2, &value, NULL, 0, 0);
	}
	assert_int_equal(prof_builder_finish(b, &eb), 0);
	assert_int_equal(render_profile_svg(&p, 0, "t", RENDER_NAMES_DEFAULT, NULL, out, &eb), 0);
	bytes_put_u8(out, 0);
}

static size_t count_of(const struct bytes *b, const char *text)
{
	size_t n = 0;

	for (const char *at = (const char *)b->data; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void test_languages(void **state)
{
	/* Of the hue's rule and of the key, in any shade. */
	static const struct {
		const char *mapping, *hue, *near;
	} cases[] = {
		{"[python3.13]", "hsl(56,90%", "hsl(48,70%"},
		{"[python3.11]", "hsl(56,90%", "hsl(48,70%"},
		{"[jvm]", "hsl(240,85%", "hsl(230,48%"},
		{"[node24]", "hsl(348,85%", "hsl(345,58%"},
		{"[ruby3.3]", "hsl(180,75%", "hsl(186,52%"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes out;

		bytes_init(&out, NULL, 1 << 20);
		draw(cases[i].mapping, &out);
		if (count_of(&out, cases[i].hue) < 2 || count_of(&out, cases[i].near))
			fail_msg("%s: %.*s", cases[i].mapping, 3000, (const char *)out.data);
	}
}

static void test_a_file_that_is_called_like_a_language_is_none(void **state)
{
	_cleanup_bytes_ struct bytes out;

	(void)state;
	bytes_init(&out, NULL, 1 << 20);
	draw("/usr/bin/python3.13", &out);
	assert_int_equal(count_of(&out, "hsl(56,"), 0);
	assert_true(count_of(&out, "hsl(48,70%") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_languages),
		cmocka_unit_test(test_a_file_that_is_called_like_a_language_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
