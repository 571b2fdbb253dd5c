/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exporter's options mean together.
 */
#include "exporter/options.h"
#include "exporter/symfile/runtime.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void runtimes_that_are_walked(void **state)
{
	static const struct {
		const char *interp, *capture;
		int result;
		uint32_t set;
	} cases[] = {
		{"python", NULL, 0, 1U << RUNTIME_PYTHON},
		{"python", "", 0, 1U << RUNTIME_PYTHON},
		{"none", NULL, 0, 0},
		/* nothing of their memory is in a bundle */
		{"python", "bundle", 0, 0},
		{"python,python", NULL, -EINVAL, 0},
		{"pyton", "bundle", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct exporter_options o = {
			.interp = cases[i].interp, .capture = cases[i].capture};
		struct errbuf eb = {.text = ""};
		uint32_t set = 0;

		assert_int_equal(exporter_options_interp(&o, &set, &eb), cases[i].result);
		assert_int_equal(eb.text[0] != 0, cases[i].result != 0);
		if (!cases[i].result)
			assert_int_equal(set, cases[i].set);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(runtimes_that_are_walked)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
