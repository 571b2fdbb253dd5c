/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging: google/pprof's rules one by one, totals of random profiles, label roots, errors that name the files.
 */
#include "lib/prof/merge.h"
#include "lib/base/alloc.h"
#include "tests/prof_random.h"
#include "tests/unit/pprof_notation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_PROFILES = 4 };

/* Merges messages in notation; the result's error and text. */
static int merge_texts(const char *const *texts, struct profile *ret, struct errbuf *eb)
{
	static const char *const names[] = {"a.pb", "b.pb", "c.pb", "d.pb"};
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < MAX_PROFILES && texts[i]; i++) {
		_cleanup_bytes_ struct bytes b;
		_cleanup_profile_ struct profile p;

		bytes_init(&b, NULL, 0);
		notation_put(texts[i], &b);
		profile_init(&p, NULL);
		assert_int_equal(prof_decode(b.data, b.len, &p, NULL), 0);
		r = prof_merge_add(m, &p, names[i], eb);
	}
	return r < 0 ? r : prof_merge_finish(m, ret, eb);
}

/* One line a sample: the functions leaf first, "@" and the address within the mapping, values, labels. */
static void print(const struct profile *p, struct bytes *out)
{
	for (size_t i = 0; i < p->n_samples; i++) {
		for (uint64_t k = p->stack_first[i]; k < p->stack_first[i + 1]; k++) {
			const struct prof_location *l = &p->locations[p->stacks[k]];

			for (uint32_t n = 0; n < l->n_lines; n++) {
				const struct prof_line *line = &p->lines[l->first_line + n];
				struct prof_str s =
					profile_str(p, p->functions[line->function].name);

				bytes_printf(out, "%.*s:%d ", (int)s.len, s.p, (int)line->line);
			}
			bytes_printf(out, "@%x%s ", (unsigned)l->address, l->is_folded ? "f" : "");
		}
		bytes_put_str(out, "=");
		for (size_t k = 0; k < p->n_types; k++)
			bytes_printf(out, " %lld", (long long)p->values[i * p->n_types + k]);
		for (uint64_t k = p->label_first[i]; k < p->label_first[i + 1]; k++) {
			struct prof_str key = profile_str(p, p->labels[k].key);
			struct prof_str s = profile_str(p, p->labels[k].str);

			bytes_printf(out, " %.*s:%.*s", (int)key.len, key.p, (int)s.len, s.p);
			if (!p->labels[k].str)
				bytes_printf(out, "%lld", (long long)p->labels[k].num);
		}
		bytes_put_str(out, "\n");
	}
	bytes_put_u8(out, 0);
}

#define T "1{1:1 2:2} 11{1:1 2:2} "
#define S "6'' 6'cpu' 6'ns' 6'main' 6'leaf' 6'/bin/x' 6'id1' "
#define F "5{1:1 2:3} 5{1:2 2:4} "
#define M "3{1:1 2:4096 3:8192 5:5 6:6} "

static void test_samples(void **state)
{
	static const struct {
		const char *texts[MAX_PROFILES], *want;
	} cases[] = {
		/* a sum beyond 63 bits stays at the limit */
		{{T S F "4{1:1 3:16 4{1:1 2:7}} 4{1:2 3:32 4{1:2 2:8}} 2{1[2 1] "
			"2[5000000000000000000]}",
			 T S F "4{1:1 3:16 4{1:1 2:7}} 4{1:2 3:32 4{1:2 2:8}} 2{1[2 1] "
			       "2[5000000000000000000]}"},
			"leaf:8 @20 main:7 @10 = 9223372036854775807\n"},
		/* equal stacks add up whatever their ids and string tables are */
		{{T S F "4{1:1 3:16 4{1:1 2:7}} 4{1:2 3:32 4{1:2 2:8}} 2{1[2 1] 2[5]} 2{1[1] 2[1]}",
			 T "6'' 6'cpu' 6'ns' 6'leaf' 6'main' 5{1:7 2:4} 5{1:9 2:3} "
			   "4{1:70 3:16 4{1:7 2:7}} 4{1:9 3:32 4{1:9 2:8}} 2{1[9 70] 2[10]}"},
			"leaf:8 @20 main:7 @10 = 15\nmain:7 @10 = 1\n"},
		/* line, address and is_folded tell locations apart */
		{{T S F "4{1:1 3:16 4{1:1 2:7}} 2{1[1] 2[5]}",
			 T S F "4{1:1 3:16 4{1:1 2:8}} 2{1[1] 2[5]}",
			 T S F "4{1:1 3:17 4{1:1 2:7}} 2{1[1] 2[5]}",
			 T S F "4{1:1 3:16 4{1:1 2:7} 5:1} 2{1[1] 2[5]}"},
			"main:7 @10 = 5\nmain:8 @10 = 5\nmain:7 @11 = 5\nmain:7 @10f = 5\n"},
		/* address randomisation: the same build elsewhere, size equal when rounded to pages */
		{{T S F M "4{1:1 2:1 3:4112 4{1:1}} 2{1[1] 2[1]}", T S F
			 "3{1:1 2:65536 3:69600 5:5 6:6} 4{1:1 2:1 3:65552 4{1:1}} 2{1[1] 2[2]}"},
			"main:0 @1010 = 3\n"},
		/* another build id, or another offset, is another mapping */
		{{T S F M "4{1:1 2:1 3:4112 4{1:1}} 2{1[1] 2[1]}",
			 T S F "3{1:1 2:4096 3:8192 5:5 6:4} 4{1:1 2:1 3:4112 4{1:1}} 2{1[1] 2[2]}",
			 T S F "3{1:1 2:4096 3:8192 4:4096 5:5 6:6} 4{1:1 2:1 3:4112 4{1:1}} "
			       "2{1[1] 2[4]}"},
			"main:0 @1010 = 1\nmain:0 @1010 = 2\nmain:0 @1010 = 4\n"},
		/* without build ids the file name decides */
		{{T S F "3{1:1 2:4096 3:8192 5:5} 4{1:1 2:1 3:4112 4{1:1}} 2{1[1] 2[1]}",
			 T S F "3{1:1 2:0 3:4096 5:5} 4{1:1 2:1 3:16 4{1:1}} 2{1[1] 2[2]}",
			 T S F "3{1:1 2:0 3:4096 5:4} 4{1:1 2:1 3:16 4{1:1}} 2{1[1] 2[4]}"},
			"main:0 @1010 = 3\nmain:0 @10 = 4\n"},
		/* labels are part of the key, in any order of their keys; the order of values of one key counts */
		{{T S "2{2[1] 3{1:3 2:4} 3{1:4 3:9}}", T S "2{2[2] 3{1:4 3:9} 3{1:3 2:4}}",
			 T S "2{2[4] 3{1:3 2:4} 3{1:3 2:5}}", T S "2{2[8] 3{1:3 2:5} 3{1:3 2:4}}"},
			"= 3 main:leaf leaf:9\n= 4 main:leaf main:/bin/x\n= 8 main:/bin/x "
			"main:leaf\n"},
		/* a number's unit is part of the key; labels that say nothing are not */
		{{T S "2{2[1] 3{1:3 3:9}}", T S "2{2[2] 3{1:3 3:9 4:2}}",
			 T S "2{2[4] 3{1:3 3:9} 3{1:4}}"},
			"= 5 main:9\n= 2 main:9\n"},
		/* zero samples vanish, given or made */
		{{T S F "4{1:1 3:1 4{1:1}} 4{1:2 3:2 4{1:2}} 2{1[1] 2[5]} 2{1[2] 2[0]}",
			 T S F "4{1:1 3:1 4{1:1}} 4{1:2 3:2 4{1:2}} 2{1[1] 2[-5]} 2{1[2] 2[3]}"},
			"leaf:0 @2 = 3\n"},
		{{T S, T S}, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_profile_ struct profile p;
		_cleanup_bytes_ struct bytes out;
		struct errbuf eb = {.text = ""};

		bytes_init(&out, NULL, 0);
		if (merge_texts(cases[i].texts, &p, &eb) < 0)
			fail_msg("case %zu: %s", i, eb.text);
		print(&p, &out);
		assert_string_equal((char *)out.data, cases[i].want);
	}
}

static void test_what_is_unused_goes(void **state)
{
	static const char *const texts[] = {T S F M
		"4{1:1 2:1 3:1 4{1:1}} 4{1:2 3:2 4{1:2}} 2{1[1] 2[5]} 2{1[2] 2[1]} 6'unused'",
		T S F "4{1:2 3:2 4{1:2}} 2{1[2] 2[-1]}", NULL};
	_cleanup_profile_ struct profile p;

	(void)state;
	assert_int_equal(merge_texts(texts, &p, NULL), 0);
	assert_int_equal(p.n_samples, 1);
	assert_int_equal(p.n_locations, 1);
	assert_int_equal(p.n_functions, 1);
	for (uint32_t i = 0; i < p.n_strings; i++)
		assert_false(profile_str_is(&p, i, "leaf") || profile_str_is(&p, i, "unused"));
}

static void test_headers(void **state)
{
	static const char *const texts[] = {T S "9:500 10:10 12:7 13[3 4] 7:3 8:4 6'u'",
		T S "10:20 12:9 13[4 5] 14:1 7:5 15:7 6'url'", T S "9:300 10:30 12:8 14:2", NULL};
	_cleanup_profile_ struct profile p;

	(void)state;
	assert_int_equal(merge_texts(texts, &p, NULL), 0);
	assert_int_equal(p.time_ns, 300); /* 0 is unknown, not early */
	assert_int_equal(p.duration_ns, 60);
	assert_int_equal(p.period, 9);
	assert_int_equal(p.n_types, 1);
	assert_true(profile_str_is(&p, p.types[0].unit, "ns"));
	assert_true(profile_str_is(&p, p.period_type.type, "cpu"));
	assert_true(profile_str_is(&p, p.default_sample_type, "cpu"));
	assert_true(profile_str_is(&p, p.drop_frames, "main"));
	assert_true(profile_str_is(&p, p.keep_frames, "leaf"));
	assert_true(profile_str_is(&p, p.doc_url, "url"));
	assert_int_equal(p.n_comments, 3);
	assert_true(profile_str_is(&p, p.comments[0], "main"));
	assert_true(profile_str_is(&p, p.comments[2], "/bin/x"));
}

static void test_first_mapping_stays_first(void **state)
{
	static const char *const texts[] = {T S F M "3{1:2 2:1 5:3} 4{1:1 2:2 3:1 4{1:1}} 4{1:2 "
						    "2:1 3:4096 4{1:1}} 2{1[1] 2[5]} 2{1[2] 2[5]}",
		NULL};
	_cleanup_profile_ struct profile p;

	(void)state;
	assert_int_equal(merge_texts(texts, &p, NULL), 0);
	assert_int_equal(p.n_mappings, 2);
	assert_true(profile_str_is(&p, p.mappings[0].filename, "/bin/x"));
}

static void test_refusals(void **state)
{
	static const struct {
		const char *texts[MAX_PROFILES], *error;
	} cases[] = {
		{{NULL}, "no profiles to merge"},
		{{T S, T S, "1{1:3 2:2} 11{1:1 2:2} " S},
			"c.pb: sample types main/ns are not those of a.pb, cpu/ns"},
		{{T S, "1{1:1 2:3} 11{1:1 2:2} " S},
			"b.pb: sample types cpu/main are not those of a.pb, cpu/ns"},
		{{T "1{1:3 2:4} " S, T S},
			"b.pb: sample types cpu/ns are not those of a.pb, cpu/ns main/leaf"},
		{{T S, "1{1:1 2:2} 11{1:1 2:4} " S},
			"b.pb: period type cpu/leaf is not that of a.pb, cpu/ns"},
		{{T S, "1{1:1 2:2} " S}, "b.pb: period type / is not that of a.pb, cpu/ns"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {.text = ""};
		struct profile p;

		assert_int_equal(merge_texts(cases[i].texts, &p, &eb), -EINVAL);
		assert_string_equal(eb.text, cases[i].error);
	}
}

static void test_root_labels(void **state)
{
	static const char *const keys[] = {"main", "leaf", "absent"};
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	_cleanup_profile_ struct profile p, sum;
	_cleanup_bytes_ struct bytes b, out;

	(void)state;
	profile_init(&p, NULL);
	bytes_init(&b, NULL, 0);
	bytes_init(&out, NULL, 0);
	notation_put(
		T S F "4{1:1 3:1 4{1:2}} 2{1[1] 2[5] 3{1:3 2:5} 3{1:4 3:-7}} 2{1[1] 2[1]}", &b);
	assert_int_equal(prof_decode(b.data, b.len, &p, NULL), 0);
	prof_merge_root_labels(m, keys, ARRAY_SIZE(keys));
	assert_int_equal(prof_merge_add(m, &p, "x", NULL), 0);
	assert_int_equal(prof_merge_finish(m, &sum, NULL), 0);
	print(&sum, &out);
	assert_string_equal((char *)out.data,
		"leaf:0 @1 leaf=-7:0 @0 /bin/x:0 @0 = 5 leaf:-7 main:/bin/x\nleaf:0 @1 = 1\n");
}

/* The sums of all values and of the values below each function name, by another way: straight from the parts. */
static uint64_t weight(const struct profile *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		for (uint64_t k = p->stack_first[i]; k < p->stack_first[i + 1]; k++) {
			const struct prof_location *l = &p->locations[p->stacks[k]];

			for (uint32_t n = 0; n < l->n_lines; n++) {
				struct prof_str s = profile_str(
					p, p->functions[p->lines[l->first_line + n].function].name);
				uint64_t h = 1469598103934665603ULL;

				for (uint32_t c = 0; c < s.len; c++)
					h = (h ^ (uint8_t)s.p[c]) * 1099511628211ULL;
				sum += h * (uint64_t)p->values[i * p->n_types];
			}
		}
	return sum;
}

static void test_totals_of_random_profiles(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 40; seed++) {
		_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
		_cleanup_profile_ struct profile sum, again;
		_cleanup_bytes_ struct bytes b;
		uint64_t want = 0, n_samples = 0;

		for (uint64_t k = 0; k < 5; k++) {
			_cleanup_profile_ struct profile p;

			profile_init(&p, NULL);
			/* Every other one is the first again, so that there is something to merge. */
			oracle_random_profile(&p, seed * 100 + (k & 1) * k, 200);
			p.n_types = 1;
			p.types[0] = p.period_type = (struct prof_value_type) {0, 0};
			for (size_t i = 0; i < p.n_samples; i++) /* no sum saturates */
				p.values[i] /= 1 << 16;
			assert_int_equal(prof_merge_add(m, &p, "p", NULL), 0);
			want += weight(&p);
			n_samples += p.n_samples;
		}
		assert_int_equal(prof_merge_finish(m, &sum, NULL), 0);
		assert_true(weight(&sum) == want);
		assert_true(sum.n_samples < n_samples || !n_samples);
		/* What comes out is a valid profile, and merging it alone changes nothing. */
		bytes_init(&b, NULL, 0);
		assert_int_equal(prof_encode(&sum, &b), 0);
		profile_init(&again, NULL);
		assert_int_equal(prof_decode(b.data, b.len, &again, NULL), 0);
		assert_null(oracle_difference(&sum, &again));
	}
}

static void test_failing_allocations(void **state)
{
	bool succeeded = false;

	(void)state;
	for (unsigned n = 1; n < 400 && !succeeded; n++) {
		_cleanup_profile_ struct profile p, sum;
		struct prof_merge *m;
		int r;

		profile_init(&p, NULL);
		profile_init(&sum, NULL);
		oracle_random_profile(&p, 5, 100);
		m = prof_merge_new(NULL);
		alloc_fail_after(n);
		r = prof_merge_add(m, &p, "p", NULL);
		if (r >= 0)
			r = prof_merge_finish(m, &sum, NULL);
		alloc_fail_after(0);
		assert_true(!r || r == -ENOMEM);
		succeeded = !r;
		prof_merge_freep(&m);
	}
	assert_true(succeeded);
}

static void test_budget(void **state)
{
	struct budget budget;
	struct errbuf eb = {.text = ""};
	struct prof_merge *m;
	struct profile p, sum;

	(void)state;
	profile_init(&p, NULL);
	oracle_random_profile(&p, 5, 500);
	budget_init(&budget, NULL, "query", "--query.max-memory", 20 << 10);
	m = prof_merge_new(&budget);
	assert_int_equal(prof_merge_add(m, &p, "x.pb", &eb), -ENOMEM);
	assert_true(strstr(eb.text, "x.pb: ") == eb.text && strstr(eb.text, "--query.max-memory"));
	prof_merge_freep(&m);
	assert_int_equal(budget.used_bytes, 0);
	budget_init(&budget, NULL, "query", "--query.max-memory", 8 << 20);
	m = prof_merge_new(&budget);
	assert_int_equal(prof_merge_add(m, &p, "x.pb", &eb), 0);
	assert_int_equal(prof_merge_finish(m, &sum, &eb), 0);
	prof_merge_freep(&m);
	assert_int_equal(budget.used_bytes, sum.arena.total_bytes);
	profile_done(&sum);
	profile_done(&p);
	assert_int_equal(budget.used_bytes, 0);
}

static void test_find_type(void **state)
{
	static const struct {
		const char *name;
		int r;
		size_t want;
		const char *error;
	} cases[] = {
		{NULL, 0, 1, NULL},
		{"", 0, 1, NULL},
		{"samples", 0, 0, NULL},
		{"wall", 0, 2, NULL},
		{"0", 0, 0, NULL},
		{"2", 0, 2, NULL},
		{"3", -EINVAL, 0, "no sample type \"3\"; there are: samples, cpu, wall"},
		{"cp", -EINVAL, 0, "no sample type \"cp\"; there are: samples, cpu, wall"},
	};
	_cleanup_prof_builder_ struct prof_builder *b = NULL;
	_cleanup_profile_ struct profile p;

	(void)state;
	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "ns");
	prof_builder_type(b, "wall", "ns");
	p.default_sample_type = prof_builder_string(b, "cpu", 3);
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {.text = ""};
		size_t got = 0;

		assert_int_equal(profile_find_type(&p, cases[i].name, &got, &eb), cases[i].r);
		assert_int_equal(got, cases[i].want);
		if (cases[i].error)
			assert_string_equal(eb.text, cases[i].error);
	}
	p.default_sample_type = 0;
	size_t last = 0;
	assert_int_equal(profile_find_type(&p, NULL, &last, NULL), 0);
	assert_int_equal(last, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_what_is_unused_goes),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_first_mapping_stays_first),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_root_labels),
		cmocka_unit_test(test_totals_of_random_profiles),
		cmocka_unit_test(test_failing_allocations),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_find_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
