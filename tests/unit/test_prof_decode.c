/* SPDX-License-Identifier: Apache-2.0
 *
 * The pprof decoder: protobuf-c's output for random profiles, every way to write the same message, every rule by a message
 * that breaks it, truncation and damage at every byte, budgets and failing allocations.
 */
#include "lib/prof/legacy.h"
#include "lib/prof/profile.h"
#include "lib/base/alloc.h"
#include "tests/prof_oracle.h"
#include "tests/unit/pprof_notation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>

#define TYPES "1{1:1 2:2} "
#define STRINGS "6'' 6'cpu' 6'ns' 6'main' "
#define VALID \
	TYPES "2{1[1 2] 2[7]} 3{1:1 5:3} 4{1:1 2:1 3:99 4{1:1 2:5}} 4{1:2} 5{1:1 2:3} " STRINGS

static void encode(const char *notation, struct bytes *out)
{
	bytes_init(out, NULL, 0);
	assert_int_equal(*notation_put(notation, out), 0);
}

/* The bytes end where an own allocation ends, so that ASan sees a read past them. */
static int decode_exact(
	const struct bytes *b, struct profile *p, struct errbuf *eb, uint8_t **ret_copy)
{
	*ret_copy = xmalloc(b->len);
	if (b->len)
		memcpy(*ret_copy, b->data, b->len);
	return prof_decode(*ret_copy, b->len, p, eb);
}

static void test_random_profiles_of_protobuf_c(void **state)
{
	/* ids 1, 2, 3 …; multiples of 3 (direct table); of a large odd number (hash) */
	static const uint64_t factors[] = {0, 3, 0x9e3779b97f4a7c15ULL};

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		_cleanup_profile_ struct profile p, back;
		_cleanup_arena_ struct arena a;
		_cleanup_bytes_ struct bytes packed;
		_cleanup_free_ uint8_t *copy = NULL;
		struct errbuf eb = {.text = ""};
		const char *difference;

		profile_init(&p, NULL);
		profile_init(&back, NULL);
		arena_init(&a, NULL);
		bytes_init(&packed, NULL, 0);
		oracle_random_profile(&p, seed, seed < 250 ? 30 : 2000);
		oracle_pack(oracle_tree(&p, &a, factors[seed % 3]), &packed);
		if (decode_exact(&packed, &back, &eb, &copy) < 0)
			fail_msg("seed %llu: %s", (unsigned long long)seed, eb.text);
		difference = oracle_difference(&p, &back);
		if (difference)
			fail_msg("seed %llu: %s differs", (unsigned long long)seed, difference);
	}
}

/* Messages that say the same as VALID. */
static void test_ways_to_write_it(void **state)
{
	static const char *const cases[] = {
		VALID,
		/* unpacked */
		TYPES
		"2{1:1 1:2 2:7} 3{1:1 5:3} 4{1:1 2:1 3:99 4{1:1 2:5}} 4{1:2} 5{1:1 2:3} " STRINGS,
		/* packed in two parts and an empty one, values before locations */
		TYPES "2{2[7] 1[1] 1[] 1:2} 3{1:1 5:3} 4{1:1 2:1 3:99 4{1:1 2:5}} 4{1:2} 5{1:1 "
		      "2:3} " STRINGS,
		/* fields in another order, messages interleaved */
		"6'' 4{4{2:5 1:1} 3:99 2:1 1:1} 6'cpu' 5{2:3 1:1} 3{5:3 1:1} 6'ns' "
		"2{1[1 2] 2[7]} 6'main' 4{1:2} " TYPES,
		/* unknown fields of every wire type, everywhere */
		"99:1 98'x' 97=4 96=8 1{1:1 2:2 9:9} 2{1[1 2] 2[7] 17'abc'} 3{1:1 5:3 44=8} "
		"4{1:1 2:1 3:99 4{1:1 2:5 9=4}} 4{1:2 30{1:1}} 5{1:1 2:3 2000:1} " STRINGS
		"1000'y'",
		/* zeros spelled out, a repeated single field (the last one counts), a label that says nothing */
		TYPES "2{1[1 2] 2[7] 3{} 3{1:3} 3{1:3 2:0 3:0}} 3{1:7 1:1 2:0 5:3} "
		      "4{1:1 2:1 3:98 3:99 4{1:1 2:5 3:0} 5:0} 4{1:2} 5{1:1 2:3} 9:0 9:0 " STRINGS,
		/* overlong varints: id 1 as 81 00 */
		TYPES "2{!0a!04!81!00!82!00 2[7]} 3{1:1 5:3} 4{1:1 2:1 3:99 4{1:1 2:5}} 4{1:2} "
		      "5{1:1 2:3} " STRINGS,
		/* sparse ids: a direct table, a hash, the largest */
		TYPES
		"2{1[5 2] 2[7]} 3{1:9 5:3} 4{1:5 2:9 3:99 4{1:30 2:5}} 4{1:2} 5{1:30 2:3} " STRINGS,
		TYPES
		"2{1[18446744073709551615 1] 2[7]} 3{1:123456789012 5:3} 4{1:18446744073709551615 "
		"2:123456789012 3:99 4{1:99999999 2:5}} 4{1:1} 5{1:99999999 2:3} " STRINGS,
	};
	_cleanup_bytes_ struct bytes want;
	_cleanup_profile_ struct profile p;

	(void)state;
	encode(VALID, &want);
	profile_init(&p, NULL);
	assert_int_equal(prof_decode(want.data, want.len, &p, NULL), 0);
	assert_int_equal(p.n_samples, 1);
	assert_int_equal(p.values[0], 7);
	assert_int_equal(p.stacks[1], 1);
	assert_int_equal(p.locations[0].mapping, 0);
	assert_int_equal(p.locations[0].address, 99);
	assert_int_equal(p.locations[1].mapping, PROF_NONE);
	assert_true(profile_str_is(&p, p.functions[p.lines[0].function].name, "main"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile other;
		_cleanup_free_ uint8_t *copy = NULL;
		struct errbuf eb = {.text = ""};
		const char *difference;

		encode(cases[i], &b);
		profile_init(&other, NULL);
		if (decode_exact(&b, &other, &eb, &copy) < 0)
			fail_msg("case %zu: %s", i, eb.text);
		difference = oracle_difference(&p, &other);
		if (difference)
			fail_msg("case %zu: %s differs", i, difference);
	}
}

static void test_valid_corners(void **state)
{
	static const struct {
		const char *text;
		size_t n_samples, n_labels, n_stack_words;
	} cases[] = {
		{"6''", 0, 0, 0},
		{"6'' 6'\xff\xfe'", 0, 0, 0},
		{TYPES STRINGS, 0, 0, 0},
		{TYPES STRINGS "2{2:0}", 1, 0, 0},
		{TYPES STRINGS "2{2:0 3{1:1 2:2}}", 1, 1, 0},
		{TYPES STRINGS "2{2:0 3{1:1 3:-1}} 2{2:-1 3{3:5 4:2} 3{1:3 4:2}}", 2, 3, 0},
		{TYPES STRINGS "2{2:0 3{1:1 2:2 3:4 4:1}}", 1, 1, 0},
		/* a function with a name that is not UTF-8 */
		{TYPES "6'' 6'a' 6'b' 6'\xff' 2{1:1 2:1} 4{1:1 4{1:1}} 5{1:1 2:3}", 1, 0, 1},
		{"1{} 6'' 2{2:1}", 1, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile p;
		_cleanup_free_ uint8_t *copy = NULL;
		struct errbuf eb = {.text = ""};

		encode(cases[i].text, &b);
		profile_init(&p, NULL);
		if (decode_exact(&b, &p, &eb, &copy) < 0)
			fail_msg("case %zu: %s", i, eb.text);
		assert_int_equal(p.n_samples, cases[i].n_samples);
		assert_int_equal(p.n_labels, cases[i].n_labels);
		assert_int_equal(p.n_stack_words, cases[i].n_stack_words);
		for (size_t k = 0; k < p.n_labels; k++)
			if (p.labels[k].str)
				assert_true(!p.labels[k].num && !p.labels[k].num_unit);
	}
}

static const struct {
	const char *text, *error;
} refusals[] = {
	{"", "empty profile"},
	{"!1f!8b!08!00", "gzip where an uncompressed pprof message was expected"},
	{"!3c!68!74!6d!6c!3e", "malformed field near byte 1"}, /* <html> */
	{"99:1", "no string table"},
	{TYPES, "no string table"},
	{"6'x'", "string_table[0] is not empty"},
	{"6'' 2{2:1}", "samples without a sample type"},
	{VALID "2{1:1}", "sample 1 at byte 64: has 0 values for 1 sample types"},
	{VALID "2{1:1 2[1 2]}", "sample 1 at byte 64: has 2 values for 1 sample types"},
	{VALID "2{2[1 2]} 2{1:1}", "sample 1 at byte 64: has 2 values for 1 sample types"},
	{VALID "2{1:1} 2{2:1 2:2}", "sample 1 at byte 64: has 0 values for 1 sample types"},
	{VALID "2{1:3 2:1}", "sample 1 at byte 64: location id 3 is not in the profile"},
	{VALID "2{1:0 2:1}", "sample 1 at byte 64: location id 0 is not in the profile"},
	{VALID "2{1[1 0] 2:1}", "sample 1 at byte 64: location id 0 is not in the profile"},
	{VALID "2{1[18446744073709551615] 2:1}",
		"sample 1 at byte 64: location id 18446744073709551615 is not in the "
		"profile"},
	{VALID "4{1:2}", "locations 1 and 2 have the same id 2"},
	{VALID "4{1:99999999} 4{1:99999999}", "locations 2 and 3 have the same id 99999999"},
	{TYPES "4{4{1:1 2:5}} 5{1:1} " STRINGS "6'long enough for the fast way'",
		"location 0 at byte 8: has no id (0 is none)"},
	{VALID "4{2:1}", "location 2 at byte 64: has no id (0 is none)"},
	{VALID "4{}", "location 2 at byte 64: has no id (0 is none)"},
	{VALID "4{1:3 2:2}", "location 2 at byte 64: mapping id 2 is not in the profile"},
	{VALID "4{1:3 4{1:2}}",
		"location 2 at byte 64: function id 2 of a line is not in the profile"},
	{VALID "4{1:3 4{2:2}}",
		"location 2 at byte 64: function id 0 of a line is not in the profile"},
	{VALID "4{1:3 4{}}",
		"location 2 at byte 64: function id 0 of a line is not in the profile"},
	{VALID "3{1:1}", "mappings 0 and 1 have the same id 1"},
	{VALID "3{5:1}", "mapping 1 at byte 64: has no id (0 is none)"},
	{VALID "5{1:1}", "functions 0 and 1 have the same id 1"},
	{VALID "5{2:1}", "function 1 at byte 64: has no id (0 is none)"},
	{VALID "5{1:2 2:4}", "function 1 at byte 64: string index 4 is not in the table of 4"},
	{VALID "5{1:2 2:-1}", "function 1 at byte 64: string index -1 is not in the table of 4"},
	{VALID "3{1:2 6:4}", "mapping 1 at byte 64: string index 4 is not in the table of 4"},
	{VALID "1{1:1}", "sample 0 at byte 8: has 1 values for 2 sample types"},
	{VALID "1{1:4}", "sample type 1 at byte 64: string index 4 is not in the table of 4"},
	{"1{1:4} " STRINGS, "sample type 0 at byte 2: string index 4 is not in the table of 4"},
	{VALID "14:4", "string index 4 is not in the table of 4"},
	{VALID "13[1 4]", "string index 4 is not in the table of 4"},
	{VALID "13:4", "string index 4 is not in the table of 4"},
	{VALID "11{1:4}", "string index 4 is not in the table of 4"},
	{VALID "9:1 9:2", "time_nanos occurs twice: concatenated profiles"},
	{VALID "2{2:1 3{1:4 2:1}}", "sample 1 at byte 64: string index 4 is not in the table of 4"},
	/* wrong wire types of known fields */
	{VALID "2:1", "malformed field near byte 64"},
	{VALID "9'x'", "malformed field near byte 65"},
	{VALID "9=8", "malformed field near byte 71"},
	{VALID "2{1=4 2:1}", "sample 1 at byte 64: malformed field near byte 69"},
	{VALID "4{1'x'}", "location 2 at byte 64: malformed field near byte 67"},
	/* groups, field 0, truncated and endless varints */
	{VALID "!13", "malformed field near byte 63"},
	{VALID "!00!00", "malformed field near byte 64"},
	{VALID "!12!05!00", "malformed field near byte 64"},
	{VALID "!12", "malformed field near byte 63"},
	{VALID "2{1:1 2{!80}}", "sample 1 at byte 64: malformed field near byte 68"},
	{VALID "2{!0a!01!80 2:1}", "sample 1 at byte 64: malformed field near byte 66"},
	{VALID "2{2:1 !0a!0b!80!80!80!80!80!80!80!80!80!80!01}",
		"sample 1 at byte 64: malformed field near byte 68"},
	{VALID "2{2:1 !0a!0a!80!80!80!80!80!80!80!80!80!02}",
		"sample 1 at byte 64: malformed field near byte 68"},
};

static void test_refusals(void **state)
{
	/* Followed by more of the buffer, messages are read the fast way first. */
	static const char *const tails[] = {"", " 1000'0123456789abcdef'"};
	size_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refusals) * 2; i++) {
		const char *text = refusals[i / 2].text, *error = refusals[i / 2].error;
		_cleanup_free_ char *whole = xasprintf("%s%s", text, tails[i % 2]);
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile p;
		_cleanup_free_ uint8_t *copy = NULL;
		struct errbuf eb = {.text = ""};
		int r;

		if (i % 2 && (!*text || strchr(text, '!')))
			continue;
		encode(whole, &b);
		profile_init(&p, NULL);
		r = decode_exact(&b, &p, &eb, &copy);
		if (r != -EBADMSG || strcmp(eb.text, error) != 0) {
			print_error("%s: %d \"%s\", expected \"%s\"\n", whole, r, eb.text, error);
			wrong++;
		}
		assert_int_equal(p.n_samples, 0);
	}
	assert_int_equal(wrong, 0);
}

/* Older formats are refused by their name, cut anywhere behind it too. */
static void test_older_formats(void **state)
{
#define CPU_LE "\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\x27\0\0\0\0\0\0\0\0\0\0\0\0\0"
	static const struct {
		const char *text;
		size_t n; /* 0: strlen */
		const char *what;
	} cases[] = {
		{CPU_LE, 40, "a CPU profile of gperftools"},
		{"\0\0\0\0\0\0\0\3\0\0\0\1\0\0\x27\x10\0\0\0", 20,
			"a CPU profile of the Java agent"},
		{"heap profile: 1: 1024 [ 2: 2048] @ heapprofile\n", 0,
			"a heap profile of gperftools"},
		{"heap profile: 1: 1024 [ 2: 2048] @ heap_v2/524288\n", 0,
			"a heap profile of gperftools"},
		{"heap profile: 1: 1024 [ 1: 1024] @ growthz\n", 0,
			"a heap growth profile of gperftools"},
		{"heap profile: 1: 1024 [2: 2048] @ heap/1048576\n", 0, "a profile of Go as text"},
		{"# x\n\ngoroutine profile: total 7\n", 0, "a profile of Go as text"},
		{"--- mutex:\ncycles/second=1\n", 0, "a profile of Go as text"},
		{"--- contentionz 1 ---\nformat = java\n", 0,
			"a heap or contention profile of the Java agent"},
		{"--- contentionz 1 ---\ncycles/second = 1\n", 0,
			"a contention profile of gperftools"},
		{"--- threadz 1 ---\n", 0, "a thread profile of gperftools"},
		{"heap_v2/524288\n  t*: 1: 2 [0: 0]\n", 0, "a heap profile of jemalloc"},
		{"heap profile; x 5\n", 0, NULL},
		{"main;profile: total 5\n", 0, NULL},
		{"", 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n = cases[i].n ? cases[i].n : strlen(cases[i].text);
		_cleanup_free_ char *copy = xmalloc(n + 1);
		struct errbuf eb = {.text = ""};
		const char *what;
		struct profile p;

		memcpy(copy, cases[i].text, n);
		what = prof_legacy_what(copy, n);
		assert_int_equal(what != NULL, cases[i].what != NULL);
		if (!what)
			continue;
		assert_int_equal(strncmp(what, cases[i].what, strlen(cases[i].what)), 0);
		profile_init(&p, NULL);
		assert_int_equal(prof_decode(copy, n, &p, &eb), -EBADMSG);
		assert_string_equal(eb.text, what);
		profile_done(&p);
	}
}

/* A text of a label that is none costs itself: what is no UTF-8 of it, and NUL, is escaped. */
static void test_label_texts(void **state)
{
	static const struct {
		const char *text, *key, *value, *unit;
		size_t n_mended;
		const char *mended_key;
	} cases[] = {
		{VALID "6'\\xc3\\xa9' 2{2:1 3{1:1 2:4}}", "cpu", "\xc3\xa9", "", 0, ""},
		{VALID "6'\\xff' 2{2:1 3{1:1 2:4}}", "cpu", "\\xff", "", 1, "cpu"},
		{VALID "6'a\\xc0\\x80b\\x00' 2{2:1 3{1:4 2:1}}", "a\\xc0\\x80b\\x00", "cpu", "", 1,
			"a\\xc0\\x80b\\x00"},
		{VALID "6'a\\xe2\\x82' 2{2:1 3{1:1 3:1 4:4}}", "cpu", "", "a\\xe2\\x82", 1, "cpu"},
		{VALID "6'\\xff' 6'\\xfe' 2{2:1 3{1:1 2:4}} 2{2:1 3{1:2 2:5}} 2{2:1 3{1:2 2:5}}",
			"cpu", "\\xff", "", 2, "cpu"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile p;
		_cleanup_free_ uint8_t *copy = NULL;

		encode(cases[i].text, &b);
		profile_init(&p, NULL);
		assert_int_equal(decode_exact(&b, &p, NULL, &copy), 0);
		assert_true(profile_str_is(&p, p.labels[0].key, cases[i].key));
		assert_true(profile_str_is(&p, p.labels[0].str, cases[i].value));
		assert_true(profile_str_is(&p, p.labels[0].num_unit, cases[i].unit));
		assert_int_equal(p.n_mended_texts, cases[i].n_mended);
		assert_true(profile_str_is(&p, p.mended_key, cases[i].mended_key));
	}
}

/* Every prefix and every damaged byte is either refused or decodes to columns whose indices are in range. */
static void check_indices(const struct profile *p)
{
	for (size_t i = 0; i < p->n_stack_words; i++)
		assert_true(p->stacks[i] < p->n_locations);
	for (size_t i = 0; i < p->n_locations; i++) {
		assert_true(p->locations[i].mapping == PROF_NONE ||
			    p->locations[i].mapping < p->n_mappings);
		assert_true(p->locations[i].first_line + p->locations[i].n_lines <= p->n_lines);
	}
	for (size_t i = 0; i < p->n_lines; i++)
		assert_true(p->lines[i].function < p->n_functions);
	for (size_t i = 0; i < p->n_functions; i++)
		assert_true(p->functions[i].name < p->n_strings);
	for (size_t i = 0; i < p->n_samples; i++)
		assert_true(p->stack_first[i] <= p->stack_first[i + 1]);
}

static void test_damage(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes b;
	size_t refused = 0, accepted = 0;
	uint64_t rnd = 1;

	(void)state;
	profile_init(&p, NULL);
	oracle_random_profile(&p, 11, 12);
	bytes_init(&b, NULL, 0);
	assert_int_equal(prof_encode(&p, &b), 0);
	for (size_t i = 0; i < b.len; i++)
		for (int k = 0; k < 8; k++) {
			struct bytes cut = {.data = b.data, .len = k ? b.len : i};
			uint8_t old = b.data[i];
			_cleanup_profile_ struct profile q;
			_cleanup_free_ uint8_t *copy = NULL;
			int r;

			b.data[i] = k ? (uint8_t)(old ^ (oracle_random(&rnd) | 1)) : old;
			profile_init(&q, NULL);
			r = decode_exact(&cut, &q, NULL, &copy);
			b.data[i] = old;
			assert_true(!r || r == -EBADMSG);
			refused += r < 0;
			accepted += !r;
			if (!r)
				check_indices(&q);
		}
	assert_true(refused > 0 && accepted > 0);
}

static void test_budget_and_allocation_failures(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_arena_ struct arena a;
	_cleanup_bytes_ struct bytes b;
	struct errbuf eb = {.text = ""};
	struct budget budget;
	bool succeeded = false;

	(void)state;
	profile_init(&p, NULL);
	arena_init(&a, NULL);
	bytes_init(&b, NULL, 0);
	oracle_random_profile(&p, 4, 400);
	oracle_pack(oracle_tree(&p, &a, 0x9e3779b97f4a7c15ULL), &b);
	/* 16 times the message is always enough (profile.h). */
	for (size_t limit = 1000; limit <= b.len * 16; limit += limit < b.len * 8 ? 1000 : b.len) {
		struct profile q;
		int r;

		budget_init(&budget, NULL, "scrape", "--scrape.bytes", limit);
		profile_init(&q, &budget);
		r = prof_decode(b.data, b.len, &q, &eb);
		succeeded = !r;
		if (r) {
			assert_int_equal(r, -ENOMEM);
			assert_true(strstr(eb.text, "--scrape.bytes") != NULL);
		}
		profile_done(&q);
		assert_int_equal(budget.used_bytes, 0);
	}
	assert_true(succeeded);
	for (unsigned n = 1; n < 100; n++) {
		_cleanup_profile_ struct profile q;
		int r;

		profile_init(&q, NULL);
		alloc_fail_after(n);
		r = prof_decode(b.data, b.len, &q, NULL);
		alloc_fail_after(0);
		assert_true(!r || r == -ENOMEM);
		succeeded = !r;
	}
	assert_true(succeeded);
}

/* A small message cannot ask for much: types × samples without values is refused before it is allocated. */
static void test_amplification(void **state)
{
	_cleanup_bytes_ struct bytes b;
	_cleanup_profile_ struct profile p;
	struct budget budget;

	(void)state;
	bytes_init(&b, NULL, 0);
	for (int i = 0; i < 10000; i++)
		notation_put("1{}", &b);
	for (int i = 0; i < 10000; i++)
		notation_put("2{}", &b);
	notation_put("6''", &b);
	budget_init(&budget, NULL, "scrape", NULL, 1 << 20);
	profile_init(&p, &budget);
	assert_int_equal(prof_decode(b.data, b.len, &p, NULL), -EBADMSG);
	assert_int_equal(budget.peak_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_profiles_of_protobuf_c),
		cmocka_unit_test(test_ways_to_write_it),
		cmocka_unit_test(test_valid_corners),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_label_texts),
		cmocka_unit_test(test_older_formats),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_budget_and_allocation_failures),
		cmocka_unit_test(test_amplification),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
