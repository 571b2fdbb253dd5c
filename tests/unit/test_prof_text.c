/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as text: what folded lines and perf script's samples become, and what is refused with its line.
 */
#include "lib/base/bytes.h"
#include "lib/prof/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void put_frame(const struct profile *p, uint32_t location, struct bytes *out)
{
	const struct prof_location *l = &p->locations[location];
	struct prof_str s;

	if (!l->n_lines) {
		bytes_printf(out, "0x%llx", (unsigned long long)l->address);
		return;
	}
	s = profile_str(p, p->functions[p->lines[l->first_line].function].name);
	bytes_put(out, s.p, s.len);
}

/* "leaf<caller values [label=value]" a sample. */
static const char *print(const struct profile *p, struct bytes *out)
{
	bytes_reset(out);
	for (size_t i = 0; i < p->n_samples; i++) {
		for (uint64_t k = p->stack_first[i]; k < p->stack_first[i + 1]; k++) {
			if (k > p->stack_first[i])
				bytes_put_u8(out, '<');
			put_frame(p, p->stacks[k], out);
		}
		for (size_t k = 0; k < p->n_types; k++)
			bytes_printf(out, " %lld", (long long)p->values[i * p->n_types + k]);
		for (uint64_t k = p->label_first[i]; k < p->label_first[i + 1]; k++) {
			struct prof_str v = profile_str(p, p->labels[k].str);

			bytes_printf(out, " %.*s", (int)v.len, v.p);
		}
		bytes_put_u8(out, '\n');
	}
	bytes_put_u8(out, '\0');
	return (const char *)out->data;
}

static void test_texts(void **state)
{
	static const struct {
		const char *text, *expected; /* or the beginning of the error after '!' */
	} cases[] = {
		{"main;work 3\n", "work<main 3\n"},
		{"main;work 3", "work<main 3\n"},
		{"a;b 1\r\na;b 2\n\n# x\na 4.6\n", "b<a 3\na 5\n"},
		{"std::map<int, int>::find(int const&) 7\n",
			"std::map<int, int>::find(int const&) 7\n"},
		{"operator 1 2\nmain 3\n", "operator 1 2\nmain 3\n"},
		{"a;;b 1\n", "b<a 1\n"},
		{"a 1\nnonsense\n", "!line 2: expected folded stacks"},
		{"a 1 2\nb 3 4\n", "!every line has two numbers"},
		{"", "!neither"},
		{"\n\n", "!neither"},
		{"a nan\n", "!neither a pprof profile nor stacks as text: line 1"},
		{"prog 10/11 [003] 12.500000:  10101010 cpu-clock:pppH: \n"
		 "\t    5581 inner+0x12 (/bin/prog)\n\t    5590 main+0x1 (/bin/prog)\n"
		 "\t    7f00 [unknown] (/lib/libc.so.6)\n\n"
		 "prog 10/11 [003] 13.000000:  10101010 cpu-clock:pppH: \n"
		 "\t    5582 inner+0x13 (/bin/prog)\n\t    5590 main+0x1 (/bin/prog)\n"
		 "\t    7f00 [unknown] (/lib/libc.so.6)\n",
			"inner<main<0x7f00 2 20202020 prog 10 11 cpu-clock:pppH\n"},
		{"# header\nname with 5 blanks 7 1.0: cycles:u: \n\tff a::b(int, char)+0x3 (x "
		 "(deleted))\n",
			"a::b(int, char) 1 1 name with 5 blanks 7 7 cycles:u\n"},
		{"p 1 [0] 1.0: 5 cycles: 401000 main+0x0 (/bin/p)\n", "main 1 5 p 1 1 cycles\n"},
		{"p 1 1.0: 5 cycles:\n\t1 a (x)\n\np 1 2.0: 9 faults:\n\t1 a (x)\n",
			"a 1 5 p 1 1 cycles\na 1 0 p 1 1 faults\n"},
		{"p 1 1.0: 5 cycles:\n\tzz a (x)\n", "!line 2: expected a frame"},
		{"p 1 1.0: 5 cycles:\n\t1 a (x)\nwhat is this\n", "!line 3: expected the head"},
	};
	struct bytes out = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *expected = cases[i].expected;
		struct errbuf eb = {.text = ""};
		struct profile p;
		int r;

		profile_init(&p, NULL);
		assert_true(prof_text_is(cases[i].text, strlen(cases[i].text)));
		r = prof_text_read(cases[i].text, strlen(cases[i].text), &p, &eb);
		if (*expected == '!') {
			assert_int_equal(r, -EBADMSG);
			if (strncmp(eb.text, expected + 1, strlen(expected + 1)) != 0)
				fail_msg("case %zu: %s", i, eb.text);
		} else {
			if (r < 0)
				fail_msg("case %zu: %s", i, eb.text);
			assert_string_equal(print(&p, &out), expected);
		}
		profile_done(&p);
	}
	bytes_done(&out);
}

static void test_what_a_profile_says(void **state)
{
	static const char text[] = "p 1 1.5: 10 task-clock:u:\n\t1 a+0x1 (/bin/x)\n\np 1 3.0: 10 "
				   "task-clock:u:\n\t1 a+0x1 (/bin/x)\n";
	struct profile p;
	size_t column;

	(void)state;
	profile_init(&p, NULL);
	assert_int_equal(prof_text_read(text, strlen(text), &p, NULL), 0);
	assert_int_equal(p.duration_ns, 1500000000);
	assert_int_equal(profile_find_type(&p, "cpu", &column, NULL), 0);
	assert_true(profile_str_is(&p, p.types[column].unit, "nanoseconds"));
	assert_int_equal(p.n_mappings, 1);
	assert_true(profile_str_is(&p, p.mappings[0].filename, "/bin/x"));
	profile_done(&p);
	assert_false(prof_text_is("\x0a\x04\x08\x01", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_what_a_profile_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
