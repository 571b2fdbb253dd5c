/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame filters against a second implementation that follows google/pprof profile/filter.go line by line over stacks.
 */
#include "lib/tree/filter.h"
#include "lib/base/regex.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { N_LOCATIONS = 12, MAX_LINES = 3, MAX_STACK = 7 };

static uint64_t rng = 0x9e3779b97f4a7c15ULL;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

static const char *const names[] = {"alpha", "beta", "gamma", "delta", "alphabet"};
static const char *const files[] = {"a.c", "b.c"};
static const char *const mappings[] = {"/bin/app", "/lib/libz.so"};

struct naive_location {
	unsigned name[MAX_LINES], file[MAX_LINES], n, mapping;
};

static bool re_matches(const struct regex *re, const char *s)
{
	return regex_match(re, s, strlen(s), NULL) > 0;
}

static bool line_matches(const struct regex *re, const struct naive_location *l, unsigned i)
{
	return re_matches(re, names[l->name[i]]) || re_matches(re, files[l->file[i]]);
}

static bool location_matches(const struct regex *re, const struct naive_location *l)
{
	for (unsigned i = 0; i < l->n; i++)
		if (line_matches(re, l, i))
			return true;
	return re_matches(re, mappings[l->mapping]);
}

static void keep_lines(const struct regex *re, struct naive_location *l, bool keep)
{
	unsigned n = 0;

	if (re_matches(re, mappings[l->mapping])) {
		if (!keep)
			l->n = 0;
		return;
	}
	for (unsigned i = 0; i < l->n; i++) {
		if (line_matches(re, l, i) != keep)
			continue;
		l->name[n] = l->name[i];
		l->file[n++] = l->file[i];
	}
	l->n = n;
}

/* FilterSamplesByName, then ShowFrom; the stack leaf first. Appends "outer;inner" names to out; false: dropped. */
static bool naive(const struct tree_filter *f, const struct naive_location *locations,
	const uint32_t *stack, size_t n, char *out)
{
	struct naive_location left[MAX_STACK];
	bool focused = false, by_name = f->focus || f->ignore || f->hide || f->show;
	size_t k = 0, from = 0;

	for (size_t i = 0; i < n; i++) {
		struct naive_location l = locations[stack[i]];

		if (f->ignore && location_matches(f->ignore, &l))
			return false;
		if (!f->focus || location_matches(f->focus, &l))
			focused = true;
		if (f->hide && location_matches(f->hide, &l))
			keep_lines(f->hide, &l, false);
		if (f->show && l.n)
			keep_lines(f->show, &l, true);
		if (l.n)
			left[k++] = l;
	}
	if (by_name && (!focused || !k))
		return false;
	if (f->show_from) {
		for (size_t i = 0; i < k;
			i++) { /* lines further out than the last match go, in every stack */
			struct naive_location *l = &left[i];

			if (re_matches(f->show_from, mappings[l->mapping])) {
				from = i + 1;
				continue;
			}
			for (unsigned j = l->n; j-- > 0;) {
				if (!line_matches(f->show_from, l, j))
					continue;
				l->n = j + 1;
				from = i + 1;
				break;
			}
		}
		if (!from)
			return false;
		k = from;
	}
	out[0] = 0;
	for (size_t i = k; i-- > 0;)
		for (unsigned j = left[i].n; j-- > 0;) {
			strcat(out, ";");
			strcat(out, names[left[i].name[j]]);
		}
	return true;
}

static void make_locations(struct tree_symbols *s, struct naive_location *l, uint32_t *ids)
{
	for (unsigned i = 0; i < N_LOCATIONS; i++) {
		struct tree_line lines[MAX_LINES] = {};
		struct tree_mapping m = {};

		l[i].n = 1 + random_below(MAX_LINES);
		l[i].mapping = random_below(8) == 0;
		m.file = tree_symbols_string(
			s, mappings[l[i].mapping], strlen(mappings[l[i].mapping]));
		m.kind = TREE_NATIVE;
		for (unsigned k = 0; k < l[i].n; k++) {
			struct tree_function f = {};

			l[i].name[k] = random_below(ARRAY_SIZE(names));
			l[i].file[k] = random_below(ARRAY_SIZE(files));
			f.name = tree_symbols_string(
				s, names[l[i].name[k]], strlen(names[l[i].name[k]]));
			f.file = tree_symbols_string(
				s, files[l[i].file[k]], strlen(files[l[i].file[k]]));
			lines[k].function = tree_symbols_function(s, &f);
		}
		ids[i] =
			tree_symbols_location(s, i + 1, tree_symbols_mapping(s, &m), lines, l[i].n);
	}
}

struct sums {
	char path[512][256];
	int64_t value[512];
	size_t n;
};

static void add_sum(struct sums *s, const char *path, int64_t value)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->path[i], path) != 0)
		i++;
	assert_true(i < ARRAY_SIZE(s->value));
	if (i == s->n)
		snprintf(s->path[s->n++], sizeof(s->path[0]), "%s", path);
	s->value[i] += value;
}

static void check_same(const struct sums *want, const struct tree *t, const struct tree_symbols *s)
{
	int64_t total = 0;
	struct sums *have = calloc(1, sizeof(*have));

	assert_non_null(have);
	for (size_t i = 0; i < t->n; i++) {
		const char *parts[64];
		char path[256] = "";
		size_t n = 0;

		if (!t->self[i])
			continue;
		for (size_t k = i; k; k = t->parent[k])
			parts[n++] = tree_symbols_text(s, s->frames[t->frame[k]].name, NULL);
		while (n-- > 0) {
			strcat(path, ";");
			strcat(path, parts[n]);
		}
		add_sum(have, path, t->self[i]);
	}
	for (size_t i = 0; i < want->n; i++) {
		total += want->value[i];
		add_sum(have, want->path[i], -want->value[i]);
	}
	assert_int_equal(t->total[0], total);
	for (size_t i = 0; i < have->n; i++)
		if (have->value[i])
			fail_msg("%s differs by %lld", have->path[i], (long long)have->value[i]);
	free(have);
}

static const char *const expressions[] = {
	NULL, NULL, "alpha", "^beta$", "a.c", "gam|del", "libz", "nothing", "."};

static const struct regex *pick(struct regex **all)
{
	return all[random_below(ARRAY_SIZE(expressions))];
}

static void round_of(struct regex **all)
{
	struct naive_location locations[N_LOCATIONS];
	struct tree_filter f = {pick(all), pick(all), pick(all), pick(all), pick(all)};
	struct sums *want = calloc(1, sizeof(*want));
	uint32_t ids[N_LOCATIONS];
	struct tree_symbols s;
	struct tree_builder b;
	struct tree in, filtered, functions;
	char path[256];

	assert_non_null(want);
	tree_symbols_init(&s, NULL);
	tree_builder_init(&b, NULL);
	tree_init(&in, NULL);
	tree_init(&filtered, NULL);
	tree_init(&functions, NULL);
	make_locations(&s, locations, ids);
	for (int i = 0; i < 40; i++) {
		uint32_t stack[MAX_STACK], mapped[MAX_STACK], n = random_below(MAX_STACK + 1);

		for (uint32_t k = 0; k < n; k++) {
			stack[k] = random_below(N_LOCATIONS);
			mapped[k] = ids[stack[k]];
		}
		tree_builder_stack(&b, mapped, n, i + 1);
		if (naive(&f, locations, stack, n, path))
			add_sum(want, path, i + 1);
	}
	assert_int_equal(tree_builder_finish(&b, &in, NULL), 0);
	assert_int_equal(tree_filter_apply(&in, &f, &s, &filtered, NULL), 0);
	assert_int_equal(tree_project(&filtered, NULL, &s, &functions, NULL), 0);
	check_same(want, &functions, &s);
	tree_builder_done(&b);
	tree_done(&in);
	tree_done(&filtered);
	tree_done(&functions);
	tree_symbols_done(&s);
	free(want);
}

static void test_random(void **state)
{
	struct regex *all[ARRAY_SIZE(expressions)] = {};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expressions); i++)
		if (expressions[i])
			assert_int_equal(
				regex_compile(expressions[i], REGEX_SEARCH, &all[i], NULL), 0);
	for (int i = 0; i < 2000; i++)
		round_of(all);
	for (size_t i = 0; i < ARRAY_SIZE(expressions); i++)
		if (all[i])
			regex_free(all[i]);
}

/* The example of the comment on pprof's ShowFrom, and locations without lines. */
static void test_nameless(void **state)
{
	struct tree_symbols s;
	struct tree_builder b;
	struct tree in, out;
	struct regex *libz, *app;
	struct tree_filter f = {};
	uint32_t in_app, in_libz, stack[2];

	(void)state;
	tree_symbols_init(&s, NULL);
	assert_int_equal(regex_compile("libz", REGEX_SEARCH, &libz, NULL), 0);
	assert_int_equal(regex_compile("app", REGEX_SEARCH, &app, NULL), 0);
	in_app = tree_symbols_location(&s, 1,
		tree_symbols_mapping(&s,
			&(struct tree_mapping) {.file = tree_symbols_string(&s, "/bin/app", 8)}),
		NULL, 0);
	in_libz = tree_symbols_location(&s, 2,
		tree_symbols_mapping(&s, &(struct tree_mapping) {.file = tree_symbols_string(
									 &s, "/lib/libz.so", 12)}),
		NULL, 0);
	stack[0] = in_libz;
	stack[1] = in_app;
	tree_builder_init(&b, NULL);
	tree_init(&in, NULL);
	tree_builder_stack(&b, stack, 2, 5);
	assert_int_equal(tree_builder_finish(&b, &in, NULL), 0);
	const struct {
		const struct regex **field;
		const struct regex *re;
		size_t want_n;
		int64_t want_total;
	} cases[] = {
		{&f.show, libz, 2, 5},
		{&f.hide, libz, 2, 5},
		{&f.show_from, libz, 2, 5},
		{&f.show_from, app, 3, 5},
		{&f.focus, libz, 3, 5},
		{&f.ignore, libz, 1, 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		f = (struct tree_filter) {};
		*cases[i].field = cases[i].re;
		tree_init(&out, NULL);
		assert_int_equal(tree_filter_apply(&in, &f, &s, &out, NULL), 0);
		assert_int_equal(out.n, cases[i].want_n);
		assert_int_equal(out.total[0], cases[i].want_total);
		tree_done(&out);
	}
	tree_builder_done(&b);
	tree_done(&in);
	tree_symbols_done(&s);
	regex_free(libz);
	regex_free(app);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_nameless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
