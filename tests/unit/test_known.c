/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes of content and what is remembered by them: equal for equal meaning, different for every part that counts, and interning finds the
 * same ids with them as without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "scraper/store/intern/content.h"
#include "scraper/store/intern/intern.h"
#include "tests/unit/store_gen.h"

/* One location, and what can be said of it. */
struct spec {
	const char *name, *system_name, *file, *mapping, *build_id;
	int64_t start_line, line, column;
	uint64_t address, map_start, file_off;
	bool is_folded, has_mapping, keep_addresses;
	unsigned n_lines, n_before; /* other strings that stand before it */
};

static const struct spec usual = {.name = "f",
	.system_name = "_f",
	.file = "f.c",
	.mapping = "/lib/a.so",
	.build_id = "abc",
	.start_line = 1,
	.line = 2,
	.column = 3,
	.address = 0x5000,
	.map_start = 0x4000,
	.has_mapping = true,
	.n_lines = 1};

static uint32_t string(struct prof_builder *b, const char *s)
{
	return prof_builder_string(b, s, strlen(s));
}

static struct hash128 hash_of(const struct spec *s)
{
	_cleanup_profile_ struct profile p;
	_cleanup_arena_ struct arena a;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;
	struct prof_line lines[32] = {{0}};
	struct prof_function f;
	struct prof_mapping m = {
		.start = s->map_start, .limit = UINT64_MAX, .file_off = s->file_off};
	struct content c;
	struct hash128 h = {0, 0};
	const int64_t value = 1;
	uint32_t location;

	profile_init(&p, NULL);
	arena_init(&a, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "n", "count");
	for (unsigned i = 0; i < s->n_before; i++) {
		char text[16];

		snprintf(text, sizeof(text), "other%u", i);
		string(b, text);
	}
	f = (struct prof_function) {.name = string(b, s->name),
		.system_name = string(b, s->system_name),
		.filename = string(b, s->file),
		.start_line = s->start_line};
	m.filename = string(b, s->mapping);
	m.build_id = string(b, s->build_id);
	for (unsigned i = 0; i < s->n_lines; i++)
		lines[i] = (struct prof_line) {.function = prof_builder_function(b, &f),
			.line = s->line + i,
			.column = s->column};
	location = prof_builder_location_folded(b, s->address,
		s->has_mapping ? prof_builder_mapping(b, &m) : PROF_NONE, lines, s->n_lines,
		s->is_folded);
	prof_builder_sample(b, &location, 1, &value, NULL, 0, 0);
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	assert_int_equal(content_init(&c, &p, s->keep_addresses, 7, &a), 0);
	assert_true(content_location(&c, 0, &h) == (s->n_lines <= 16));
	return h;
}

static bool same(const struct spec *a, const struct spec *b)
{
	struct hash128 x = hash_of(a), y = hash_of(b);

	return x.lo == y.lo && x.hi == y.hi;
}

static void test_content(void **state)
{
	struct spec s[24];
	size_t n = 0;

	(void)state;
	/* each of these says something else than all others */
#define OTHER(...) (s[n] = usual, __VA_ARGS__, n++)
	OTHER((void)0);
	OTHER(s[n].name = "g");
	OTHER(s[n].system_name = "f");
	OTHER(s[n].file = "g.c");
	OTHER(s[n].start_line = 9);
	OTHER(s[n].line = 9);
	OTHER(s[n].column = 9);
	OTHER(s[n].mapping = "/lib/b.so");
	OTHER(s[n].build_id = "abd");
	OTHER(s[n].has_mapping = false);
	OTHER(s[n].is_folded = true);
	OTHER(s[n].n_lines = 2);
	OTHER(s[n].n_lines = 0);
	OTHER(s[n].n_lines = 0, s[n].address = 0x5001);
	OTHER(s[n].n_lines = 0, s[n].has_mapping = false);
	OTHER(s[n].name = "");
	OTHER(s[n].keep_addresses = true);
	OTHER(s[n].keep_addresses = true, s[n].address = 0x5001);
#undef OTHER
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (same(&s[i], &s[j]) != (i == j))
				fail_msg("cases %zu and %zu", i, j);
}

/* Where a process has its files, and in which order a profile lists its strings, says nothing. */
static void test_content_equal(void **state)
{
	struct spec a = usual, b = usual;

	(void)state;
	b.n_before = 5;
	b.address += 0x123;
	assert_true(same(&a, &b)); /* named: the address does not count */
	a.n_lines = b.n_lines = 0;
	b.address = a.address + 0x7000;
	b.map_start = a.map_start + 0x7000;
	assert_true(same(&a, &b));
	b.file_off = 0x1000;
	assert_false(same(&a, &b));
	a.n_lines = 17;
	(void)hash_of(&a); /* too many lines: not hashed */
}

static void test_known(void **state)
{
	const uint8_t one[16] = {1}, two[16] = {2};
	struct hash128 a = {8, 1}, b = {8, 2}, c = {8, 3};
	struct budget budget;
	struct known k;

	(void)state;
	budget_init(&budget, NULL, "head", "--storage.head-bytes", 64 << 20);
	known_init(&k, &budget);
	assert_int_equal(known_find(k.locations, a), UINT32_MAX);
	known_add(k.locations, a, 5); /* nothing to add to */
	known_use(&k, one);
	assert_int_equal(known_find(k.locations, a), UINT32_MAX);
	known_add(k.locations, a, 0);
	known_add(k.locations, b, 6);
	known_use(&k, one);
	assert_int_equal(known_find(k.locations, a), 0);
	assert_int_equal(known_find(k.locations, b), 6);
	assert_int_equal(known_find(k.stacks, a), UINT32_MAX);
	/* two ways: the oldest goes */
	known_add(k.locations, c, 7);
	assert_int_equal(known_find(k.locations, a), UINT32_MAX);
	assert_int_equal(known_find(k.locations, b), 6);
	assert_int_equal(known_find(k.locations, c), 7);
	known_use(&k, two);
	assert_int_equal(known_find(k.locations, b), UINT32_MAX);
	known_done(&k);
	assert_int_equal(budget.used_bytes, 0);
	/* without room nothing is known, and nothing fails */
	budget_init(&budget, NULL, "head", "--storage.head-bytes", 1024);
	known_use(&k, one);
	assert_null(k.locations);
	assert_int_equal(known_find(k.locations, a), UINT32_MAX);
	known_done(&k);
}

static void expect_same(const struct interned *a, const struct interned *b, size_t n_columns)
{
	assert_int_equal(a->n, b->n);
	if (!a->n)
		return;
	assert_memory_equal(a->node, b->node, a->n * sizeof(*a->node));
	assert_memory_equal(a->label_set, b->label_set, a->n * sizeof(*a->label_set));
	assert_memory_equal(a->values, b->values, a->n * n_columns * sizeof(*a->values));
}

/* Scrapes with ever the same functions go into two dictionaries, of which one never remembers. */
static void test_intern(void **state)
{
	struct gen g = {
		.state = 42, .n_functions = 300, .max_depth = 40, .max_rows = 60, .n_streams = 2};
	struct known with, without;
	struct dict a, b;

	(void)state;
	known_init(&with, NULL);
	known_init(&without, NULL);
	known_use(&with, (const uint8_t[16]) {1});
	assert_int_equal(dict_init(&a, 1 << 20, NULL), 0);
	assert_int_equal(dict_init(&b, 1 << 20, NULL), 0);
	for (unsigned step = 0; step < 200; step++) {
		/* every other scrape is one that came before */
		struct gen again = {.state = step / 4,
			.n_functions = 300,
			.max_depth = 40,
			.max_rows = 60,
			.n_streams = 2};
		struct gen_scrape *x = gen_scrape(step % 2 ? &again : &g, 1, step, 1000 + step);
		_cleanup_arena_ struct arena arena;
		struct interned in_a, in_b;

		arena_init(&arena, NULL);
		assert_int_equal(intern_scrape(&a, &with, &x->s, &arena, &in_a, NULL), 0);
		assert_int_equal(intern_scrape(&b, &without, &x->s, &arena, &in_b, NULL), 0);
		expect_same(&in_a, &in_b, x->s.n_columns);
		gen_scrape_free(x);
	}
	for (enum dict_kind kind = DICT_STRINGS; kind < DICT_N; kind++)
		assert_int_equal(dict_n(&a, kind), dict_n(&b, kind));
	known_done(&with);
	known_done(&without);
	dict_done(&a);
	dict_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_content_equal),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_intern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
