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

/* `expected` is a text of print, or the beginning of the error after '!'. */
static void check_case(size_t number, const char *text, const char *expected, struct bytes *out)
{
	struct errbuf eb = {.text = ""};
	struct prof_text_notes notes;
	struct profile p;
	int r;

	profile_init(&p, NULL);
	assert_true(prof_text_may_be(text, strlen(text)));
	r = prof_text_read(text, strlen(text), &p, &notes, &eb);
	if (*expected == '!') {
		assert_int_equal(r, -EBADMSG);
		if (strncmp(eb.text, expected + 1, strlen(expected + 1)) != 0)
			fail_msg("case %zu: %s", number, eb.text);
	} else {
		if (r < 0)
			fail_msg("case %zu: %s", number, eb.text);
		if (strcmp(print(&p, out), expected) != 0)
			fail_msg("case %zu: %s", number, (const char *)out->data);
	}
	profile_done(&p);
}

static void test_texts(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"main;work 3\n", "work<main 3\n"},
		{"main;work 3", "work<main 3\n"},
		{"a;b 1\r\na;b 2\n\n# x\na 99.8\n", "b<a 3\na 100\n"},
		{"std::map<int, int>::find(int const&) 7\n",
			"std::map<int, int>::find(int const&) 7\n"},
		{"operator 1 2\nmain 3\n", "operator 1 2\nmain 3\n"},
		{"a;;b 1\n", "b<a 1\n"},
		{"a 1\nno\nnonsense\n",
			"!line 2: expected folded stacks: FRAME;FRAME;FRAME NUMBER (2 of 3 lines "
			"are none)"},
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
			"a::b(int, char) 1 name with 5 blanks 7 7 cycles:u\n"},
		{"p 1 [0] 1.0: 5 cycles: 401000 main+0x0 (/bin/p)\n", "main 1 5 p 1 1 cycles\n"},
		{"p 1 1.0: 5 cycles:\n\t1 a (x)\n\np 1 2.0: 9 faults:\n\t1 a (x)\n",
			"a 1 5 p 1 1 cycles\na 1 0 p 1 1 faults\n"},
		{"p 1 1.0: 5 cycles:\n\tzz a (x)\n", "!line 2: expected a sample of perf script"},
		{"p 1 1.0: 5 cycles:\n\t1 a (x)\nwhat is this\n", "a 1 5 p 1 1 cycles\n"},
	};
	struct bytes out = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_case(i, cases[i].text, cases[i].expected, &out);
	bytes_done(&out);
}

/* Two samples as perf 6.1 prints them with the fields of -F that a row names. */
static void test_fields_of_perf_script(void **state)
{
#define FRAMES "\t            1155 in\n\t            1197 main\n\n"
	static const struct {
		const char *text, *expected;
	} cases[] = {
		/* comm,tid,ip,sym */
		{"w  7811 \n" FRAMES "w  7811 \n" FRAMES, "in<main 2 w 7811 7811\n"},
		/* comm,pid,tid,ip,sym: names may look like numbers and have blanks */
		{"a 1 b 12  7811/7812  \n" FRAMES "a 1 b 12  7811/7812  \n" FRAMES,
			"in<main 2 a 1 b 12 7811 7812\n"},
		/* comm,ip,sym */
		{"worker 3 \n" FRAMES "worker 3 \n" FRAMES, "in<main 2 worker 3\n"},
		/* ip,sym */
		{"\n" FRAMES "\n" FRAMES, "in<main 2\n"},
		/* tid,ip,sym and pid,tid,ip,sym */
		{" 7811 \n" FRAMES "17811 \n" FRAMES,
			"in<main 1 7811 7811\nin<main 1 17811 17811\n"},
		{" 7811/7812  \n" FRAMES " 7811/7812  \n" FRAMES, "in<main 2 7811 7812\n"},
		/* time,ip,sym; cpu,ip,sym; event,ip,sym; period,ip,sym */
		{"51954.624790: \n" FRAMES "51954.635720: \n" FRAMES, "in<main 2\n"},
		{"[000] \n" FRAMES "[001] \n" FRAMES, "in<main 2\n"},
		{"cpu-clock: \n" FRAMES "cpu-clock: \n" FRAMES, "in<main 2 cpu-clock\n"},
		{"   5025125 \n" FRAMES "   5025125 \n" FRAMES, "in<main 2 10050250\n"},
		/* comm,tid,period,event,ip,sym */
		{"w  7811    5025125 cpu-clock: \n" FRAMES
		 "w  7811    5025125 cpu-clock: \n" FRAMES,
			"in<main 2 10050250 w 7811 7811 cpu-clock\n"},
		/* comm,tid,cpu,misc,tod,time,event,addr,ip,sym */
		{"w  8118 [001] U     2026-11-22 12:36:11.224990 1795350971.224993: cpu-clock:     "
		 "  "
		 "         0\n" FRAMES "w  8118 [001] K     2026-11-22 12:36:11.224999 "
		 "1795350971.224999: cpu-clock:       "
		 "         0\n" FRAMES,
			"in<main 2 w 8118 8118 cpu-clock\n"},
		/* of a tracepoint there is more to say, and no period */
		{"w  8005 [001] 51958.497713: sched:sched_switch: prev_comm=w prev_pid=8005 ==> "
		 "next_comm=sh\n" FRAMES,
			"in<main 1 w 8005 8005 sched:sched_switch\n"},
		/* ip,sym,srcline; comm,tid,ip,sym,dso,srcline */
		{"\n\t            1155 in\n  w.c:4\n\t            1197 main\n  w.c:6 (inlined)\n\n",
			"in<main 1\n"},
		/* +uregs */
		{"w   307 52915.086113:    5025125 cpu-clock: \n\t            1159 in+0x30 "
		 "(/tmp/w)\n "
		 "ABI:2    AX:0x1f706    BX:0x24a \n"
		 "w   307 52915.105337:    5025125 cpu-clock: \n\t            1159 in+0x30 "
		 "(/tmp/w)\n "
		 "ABI:2    AX:0x1f706    BX:0x24a \n",
			"in 2 10050250 w 307 307 cpu-clock\n"},
		/* without call chains: the default; comm,tid,ip,sym; comm,ip,sym; ip,sym */
		{"               w  7858 51955.881893:    5025125 cpu-clock:      558f8913e155 "
		 "in+0x2c "
		 "(/tmp/w)\n"
		 "   Web Content 7  7859 51955.881893:    5025125 cpu-clock:  ffffffff813a2413 "
		 "k+0x93 "
		 "([kernel.kallsyms])\n",
			"in 1 5025125 w 7858 7858 cpu-clock\nk 1 5025125 Web Content 7 7859 7859 "
			"cpu-clock\n"},
		{"               w  7858      558f8913e155 in\n               w  7858      "
		 "558f8913e155 "
		 "in\n",
			"in 2 w 7858 7858\n"},
		{"               w      558f8913e155 in\n            beef      558f8913e155 in\n",
			"in 1 w\nin 1 beef\n"},
		{"     558f8913e155 in\n ffffffff813a2413 k\n", "in 1\nk 1\n"},
		/* one event with call chains, one without */
		{"w   333 52916.394597:          1 page-faults: \n" FRAMES
		 "               w   333 52916.394598:    5025125   cpu-clock/call-graph=no/:      "
		 "55d8d7dc2155 in+0x2c (/tmp/w)\n",
			"in<main 1 1 w 333 333 page-faults\nin 1 0 w 333 333 "
			"cpu-clock/call-graph=no/\n"},
		/* --show-mmap-events */
		{"w 7811/7811 1.0: PERF_RECORD_MMAP2 7811/7811: [0x55(0x1000) @ 0 fe:01 1 2]: r-xp "
		 "/w\n"
		 "w 7811/7811 1.1:  5 cycles: \n" FRAMES,
			"in<main 1 5 w 7811 7811 cycles\n"},
		/* ip and the names of functions that have parentheses; ip,dso */
		{"\n\t            1155 (anonymous namespace)::f(int)\n\t            1197 g "
		 "(h)(int)\n\n",
			"(anonymous namespace)::f(int)<g (h)(int) 1\n"},
		{"\n\t            1155 (/tmp/w (deleted))\n\n", "0x1155 1\n"},
		{"\n\t            1155 x)\n\n\n\t            1156 )\n\n", "x) 1\n) 1\n"},
		/* what says nothing of stacks, and another kind of head than before */
		{"w  7811 51955.881893:    5025125 cpu-clock: \n", "!no sample has a frame"},
		{"w  7811 1.5:  5 cycles: \n" FRAMES "what is this\n",
			"in<main 1 5 w 7811 7811 cycles\n"},
		{"w  7811 1.5:  5 cycles: \n" FRAMES FRAMES, "in<main 1 5 w 7811 7811 cycles\n"},
		{"w  7811 1.5:  5 cycles: \n" FRAMES FRAMES "what\n\n",
			"!line 5: expected a sample of perf script: its head, frames ADDRESS "
			"SYMBOL (FILE) and an empty line (2 of 3 are none)"},
	};
	struct bytes out = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_case(i, cases[i].text, cases[i].expected, &out);
	bytes_done(&out);
}

/* Heads with and without a CPU, of events with and without a period; names with slashes, #, line ends, tabs or nothing in them. */
static void test_odd_heads_of_perf_script(void **state)
{
#define HEAD " 4711   100.010100:    1000000          cpu-clock: \n"
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"w 4711 [001]  100.000100: sched:sched_switch: prev_comm=w prev_pid=4711 ==> "
		 "next_comm=x\n" FRAMES "w" HEAD FRAMES "w 4711 [000] 100.2:    1000000 "
		 "cpu-clock: \n" FRAMES,
			"in<main 1 0 w 4711 4711 sched:sched_switch\n"
			"in<main 2 2000000 w 4711 4711 cpu-clock\n"},
		{"worker 3/16" HEAD FRAMES, "in<main 1 1000000 worker 3/16 4711 4711 cpu-clock\n"},
		{"worker 3/16 4711 [001] 448.8:    1008373 cpu-clock: \n" FRAMES,
			"in<main 1 1008373 worker 3/16 4711 4711 cpu-clock\n"},
		{"#worker" HEAD FRAMES "w" HEAD FRAMES,
			"in<main 1 1000000 #worker 4711 4711 cpu-clock\n"
			"in<main 1 1000000 w 4711 4711 cpu-clock\n"},
		{"two\nlines" HEAD FRAMES "w" HEAD FRAMES,
			"in<main 1 1000000 two\xef\xbf\xbdlines 4711 4711 cpu-clock\n"
			"in<main 1 1000000 w 4711 4711 cpu-clock\n"},
		{"\tw" HEAD FRAMES HEAD FRAMES, "in<main 1 1000000 w 4711 4711 cpu-clock\n"
						"in<main 1 1000000 4711 4711 cpu-clock\n"},
		{"a\x1b[0m" HEAD FRAMES,
			"in<main 1 1000000 a\xef\xbf\xbd[0m 4711 4711 cpu-clock\n"},
		{"a\xff" HEAD FRAMES, "in<main 1 1000000 a\xef\xbf\xbd 4711 4711 cpu-clock\n"},
		{"w" HEAD FRAMES "w" HEAD "\t  zz in\n\t 1197 main\n\n",
			"in<main 1 1000000 w 4711 4711 cpu-clock\n"},
	};
	struct bytes out = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_case(i, cases[i].text, cases[i].expected, &out);
	bytes_done(&out);
}

/* Lines of source and files of frames. */
static void test_sources_of_perf_script(void **state)
{
	static const char text[] =
		"w 1 1.0: 5 cycles:\n\t 1155 in+0x1 (/tmp/w (deleted))\n  /src/w "
		"x.c:41\n\t 1197 main (/tmp/w)\n\n";
	struct prof_text_notes notes;
	struct profile p;

	(void)state;
	profile_init(&p, NULL);
	assert_int_equal(prof_text_read(text, strlen(text), &p, &notes, NULL), 0);
	assert_true(profile_str_is(&p, p.functions[0].filename, "/src/w x.c"));
	assert_int_equal(p.lines[0].line, 41);
	assert_int_equal(p.functions[1].filename, 0);
	assert_true(profile_str_is(&p, p.mappings[0].filename, "/tmp/w (deleted)"));
	profile_done(&p);
}

/* What is left out, replaced or multiplied is said. */
static void test_notes(void **state)
{
	static const struct {
		const char *text;
		size_t n; /* 0: strlen */
		const char *expected, *notes;
	} cases[] = {
		{"a;b 1\n# 2\n\n", 0, "b<a 1\n", ""},
		{"log\nmain;a 5\nmain;b 3\nmain;c\n", 0, "a<main 5\nb<main 3\n",
			"left out 2 lines that are no stacks, the first at line 1"},
		{"a 1\nb\x1b 2\nc\x7f\x07 3", 0,
			"a 1\nb\xef\xbf\xbd 2\nc\xef\xbf\xbd\xef\xbf\xbd 3\n",
			"replaced 3 control characters, the first 0x1b in line 2"},
		{"a;b\0c 1\n", 8,
			"b\xef\xbf\xbd"
			"c<a 1\n",
			"replaced 1 control character, the first 0x00 in line 1"},
		{"a 0.25\nb 0.4\n", 0, "a 250\nb 400\n",
			"values have decimals and were multiplied by 1000"},
		{"a 0.0000025\nb 1\n", 0, "a 3\nb 1000000\n",
			"values have decimals and were multiplied by 1000000"},
		{"a 1e-15\nb 5\n", 0, "a 0\nb 5\n", "1 value too small beside the others became 0"},
		{"a 1e18\nb 0.25\n", 0, "a 1000000000000000000\nb 0\n",
			"1 value too small beside the others became 0"},
		{"x\na" HEAD FRAMES "a" HEAD "\tzz in\n", 0,
			"in<main 1 1000000 x\xef\xbf\xbd"
			"a 4711 4711 cpu-clock\n",
			"left out 1 sample that cannot be read, the first at line 7; replaced 1 "
			"control character, the first 0x0a in line 1"},
	};
	struct bytes out = {0}, said = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n = cases[i].n ? cases[i].n : strlen(cases[i].text);
		struct prof_text_notes notes;
		struct profile p;

		profile_init(&p, NULL);
		bytes_reset(&said);
		assert_int_equal(prof_text_read(cases[i].text, n, &p, &notes, NULL), 0);
		prof_text_notes_print(&notes, &said);
		bytes_put_u8(&said, '\0');
		assert_string_equal(print(&p, &out), cases[i].expected);
		assert_string_equal((const char *)said.data, cases[i].notes);
		profile_done(&p);
	}
	bytes_done(&out);
	bytes_done(&said);
}

/* The marks of stackcollapse-perf.pl --all, bcc's profile -f -a and async-profiler -o collapsed,ann. */
static void test_kinds_of_folded_frames(void **state)
{
	static const char text[] = "run_[j];work_[1];inner_[i];deep_[i];write;vfs_write_[k] 50\n"
				   "run_[0];work_[j];wake_[w] 30\nlost_[i] 1\n_[k];x_[z] 1\n";
	static const struct {
		const char *name, *mapping;
		uint32_t n_lines;
	} expected[] = {{"vfs_write", "[kernel.kallsyms]", 1}, {"write", NULL, 1},
		{"deep", "[jit]", 3}, {"run", "[jit]", 1}, {"wake", NULL, 1}, {"work", "[jit]", 1},
		{"lost", NULL, 1}, {"x_[z]", NULL, 1}, {"_[k]", NULL, 1}};
	struct prof_text_notes notes;
	struct profile p;

	(void)state;
	profile_init(&p, NULL);
	assert_int_equal(prof_text_read(text, strlen(text), &p, &notes, NULL), 0);
	assert_int_equal(p.n_locations, ARRAY_SIZE(expected));
	for (size_t i = 0; i < p.n_locations; i++) {
		const struct prof_location *l = &p.locations[i];
		uint32_t function = p.lines[l->first_line].function;

		assert_true(profile_str_is(&p, p.functions[function].name, expected[i].name));
		assert_int_equal(l->n_lines, expected[i].n_lines);
		assert_int_equal(l->mapping == PROF_NONE, !expected[i].mapping);
		if (expected[i].mapping)
			assert_true(profile_str_is(
				&p, p.mappings[l->mapping].filename, expected[i].mapping));
	}
	profile_done(&p);
}

static void test_what_a_profile_says(void **state)
{
	static const char text[] = "p 1 1.5: 10 task-clock:u:\n\t1 a+0x1 (/bin/x)\n\np 1 3.0: 10 "
				   "task-clock:u:\n\t1 a+0x1 (/bin/x)\n";
	struct prof_text_notes notes;
	struct profile p;
	size_t column;

	(void)state;
	profile_init(&p, NULL);
	assert_int_equal(prof_text_read(text, strlen(text), &p, &notes, NULL), 0);
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
		cmocka_unit_test(test_fields_of_perf_script),
		cmocka_unit_test(test_odd_heads_of_perf_script),
		cmocka_unit_test(test_sources_of_perf_script),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_kinds_of_folded_frames),
		cmocka_unit_test(test_what_a_profile_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
