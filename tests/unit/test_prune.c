/* SPDX-License-Identifier: Apache-2.0
 *
 * drop_frames and keep_frames: google/pprof's rules one by one (profile/prune_test.go has the same kinds).
 */
#include "lib/prof/prune.h"
#include "tests/unit/pprof_notation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>

/* Strings: 1 main, 2 f, 3 malloc, 4 grow(int), 5 .malloc, 6 ns::(anonymous namespace)::g(int), 7 drop, 8 keep. */
#define HEAD                                                                         \
	"1{1:2 2:2} 11{1:2 2:2} 6'' 6'main' 6'f' 6'malloc' 6'grow(int)' 6'.malloc' " \
	"6'ns::(anonymous namespace)::g(int)' "
#define FUNCTIONS "5{1:1 2:1} 5{1:2 2:2} 5{1:3 2:3} 5{1:4 2:4} 5{1:5 2:5} 5{1:6 2:6} "
/* A location a function, and two with inlined ones: 7 malloc inlined into f, 8 f inlined into malloc. */
#define LOCATIONS                                                                              \
	"4{1:1 4{1:1}} 4{1:2 4{1:2}} 4{1:3 4{1:3}} 4{1:4 4{1:4}} 4{1:5 4{1:5}} 4{1:6 4{1:6}} " \
	"4{1:7 4{1:3} 4{1:2}} 4{1:8 4{1:2} 4{1:3}} "
#define PROFILE HEAD FUNCTIONS LOCATIONS

/* The functions of each stack, leaf first, "/" between stacks. */
static void print(const struct profile *p, char *out)
{
	*out = 0;
	for (size_t i = 0; i < p->n_samples; i++) {
		strcat(out, i ? "/ " : "");
		for (uint64_t k = p->stack_first[i]; k < p->stack_first[i + 1]; k++) {
			const struct prof_location *l = &p->locations[p->stacks[k]];

			for (uint32_t n = 0; n < l->n_lines; n++) {
				uint32_t f = p->lines[l->first_line + n].function;
				struct prof_str s = profile_str(p, p->functions[f].name);

				strncat(out, s.p, s.len);
				strcat(out, " ");
			}
		}
	}
}

static void test_rules(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		/* nothing to drop; what is dropped goes with all that it called */
		{"2{1[3 2 1] 2:1}", "malloc f main "},
		{"6'malloc' 7:7 2{1[3 2 1] 2:1}", "f main "},
		{"6'malloc' 7:7 2{1[2 3 1] 2:1}", "main "},
		/* the outermost one counts, but never all of a stack */
		{"6'malloc' 7:7 2{1[3 2 3 1] 2:1}", "main "},
		{"6'malloc' 7:7 2{1[3] 2:1}", "malloc "},
		{"6'malloc' 7:7 2{1[2 3] 2:1}", "f malloc "},
		{"6'malloc' 7:7 2{1[3 2 3] 2:1}", "f malloc "},
		/* the whole name, without arguments and the dot of PPC */
		{"6'allo' 7:7 2{1[3 2 1] 2:1}", "malloc f main "},
		{"6'grow' 7:7 2{1[4 2 1] 2:1}", "f main "},
		{"6'malloc' 7:7 2{1[5 2 1] 2:1}", "f main "},
		{"6'ns.*::g' 7:7 2{1[6 2 1] 2:1}", "f main "},
		/* keep_frames has the last word */
		{"6'malloc|grow' 6'gr.w' 7:7 8:8 2{1[3 2 1] 2:1} 2{1[4 2 1] 2:1}",
			"f main / grow(int) f main "},
		/* inlined functions: those beneath go, the caller stays */
		{"6'malloc' 7:7 2{1[7 1] 2:1}", "f main "},
		{"6'malloc' 7:7 2{1[2 7 1] 2:1}", "f main "},
		{"6'malloc' 7:7 2{1[8 1] 2:1}", "main "},
		/* each stack by itself, empty ones too */
		{"6'malloc' 7:7 2{2:1} 2{1[3 1] 2:1} 2{1[2 1] 2:1}", "/ main / f main "},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile p;
		char got[256];

		bytes_init(&b, NULL, 0);
		profile_init(&p, NULL);
		notation_put(PROFILE, &b);
		notation_put(cases[i].text, &b);
		assert_int_equal(prof_decode(b.data, b.len, &p, NULL), 0);
		assert_int_equal(prof_prune(&p, NULL), 0);
		print(&p, got);
		if (strcmp(got, cases[i].want) != 0)
			fail_msg("%s: \"%s\", want \"%s\"", cases[i].text, got, cases[i].want);
	}
}

static void test_bad_expression(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"6'a(' 7:7 2{1[3 1] 2:1}", "drop_frames"},
		{"6'malloc' 6'b[' 7:7 8:8 2{1[3 1] 2:1}", "keep_frames"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile p;
		struct errbuf eb = {};
		char got[256];

		bytes_init(&b, NULL, 0);
		profile_init(&p, NULL);
		notation_put(PROFILE, &b);
		notation_put(cases[i].text, &b);
		assert_int_equal(prof_decode(b.data, b.len, &p, NULL), 0);
		assert_int_equal(prof_prune(&p, &eb), -EBADMSG);
		if (!strstr(eb.text, cases[i].want))
			fail_msg("%s: %s", cases[i].text, eb.text);
		print(&p, got);
		assert_string_equal(got, "malloc main ");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_bad_expression),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
