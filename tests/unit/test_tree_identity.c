/* SPDX-License-Identifier: Apache-2.0
 *
 * Which frames are one function: builds of a program fall together, offsets of different builds do not.
 */
#include "lib/base/cleanup.h"
#include "lib/tree/canon.h"
#include "lib/tree/tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ALL = TREE_CANON_CLONES | TREE_CANON_NUMBERS };

struct place {
	const char *path, *build_id;
	const char *name, *file; /* name NULL: none */
	uint64_t address;
};

static uint32_t text_id(struct tree_symbols *s, const char *text)
{
	return tree_symbols_string(s, text, strlen(text));
}

static uint32_t location_of(struct tree_symbols *s, const struct place *p)
{
	const struct tree_mapping m = {.file = text_id(s, p->path),
		.build_id = text_id(s, p->build_id),
		.kind = tree_kind_of_mapping(p->path)};
	struct tree_line line = {.line = 7};

	if (p->name)
		line.function = tree_symbols_function(
			s, &(struct tree_function) {
				   .name = text_id(s, p->name), .file = text_id(s, p->file)});
	return tree_symbols_location(
		s, p->address, tree_symbols_mapping(s, &m), &line, p->name != NULL);
}

/* "frame builds" of each leaf, by name of the frame. */
static void print_leaves(const struct tree *t, const struct tree_symbols *s, char *out, size_t n)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 1; i < t->n; i++) {
		const struct tree_frame *f = &s->frames[t->frame[i]];

		len += (size_t)snprintf(out + len, n - len, "%s%s@%s=%lld", i > 1 ? " " : "",
			tree_symbols_text(s, f->name, NULL),
			tree_symbols_text(s, s->mappings[f->mapping].file, NULL),
			(long long)t->self[i]);
		for (size_t k = 0; k < s->n_builds; k++)
			if (s->builds[k].frame == t->frame[i])
				len += (size_t)snprintf(out + len, n - len, "/%s",
					tree_symbols_text(s, s->builds[k].build_id, NULL));
	}
}

static void test_identity(void **state)
{
	static const struct {
		struct place a, b;
		struct tree_identity id;
		const char *want;
	} cases[] = {
		/* A new build at the same place, and the same build at another one. */
		{{"/bin/app", "aa", "f", "f.c", 1}, {"/bin/app", "bb", "f", "f.c", 2}, {},
			"f@app=3/aa/bb"},
		{{"/bin/app", "aa", "f", "f.c", 1}, {"/opt/app", "aa", "f", "f.c", 1}, {},
			"f@app=3/aa"},
		{{"/bin/app", "aa", "f", "f.c", 1}, {"/bin/app", "bb", "f", "f.c", 2},
			{.by_build = true}, "f@/bin/app=1/aa f@/bin/app=2/bb"},
		/* Another function of that name. */
		{{"/bin/app", "aa", "f", "f.c", 1}, {"/bin/app", "aa", "f", "g.c", 2}, {},
			"f@app=1/aa f@app=2/aa"},
		{{"/bin/app", "aa", "f", "f.c", 1}, {"/bin/tool", "aa", "f", "f.c", 1}, {},
			"f@app=1/aa f@tool=2/aa"},
		/* A source built in another folder. */
		{{"/bin/app", "aa", "f", "/b/1/f.c", 1}, {"/bin/app", "bb", "f", "/b/2/f.c", 2}, {},
			"f@app=3/aa/bb"},
		{{"/bin/app", "aa", "f", "/b/1/f.c", 1}, {"/bin/app", "aa", "f", "/b/2/f.c", 2},
			{.by_build = true}, "f@/bin/app=1/aa f@/bin/app=2/aa"},
		/* An offset means something in one build only. */
		{{"/lib/a/x.so", "aa", NULL, NULL, 16}, {"/lib/b/x.so", "aa", NULL, NULL, 16}, {},
			"x.so+0x10@x.so=3/aa"},
		{{"/lib/x.so", "aa", NULL, NULL, 16}, {"/lib/x.so", "bb", NULL, NULL, 16}, {},
			"x.so+0x10@x.so=1/aa x.so+0x10@x.so=2/bb"},
		{{"/lib/x.so", "aa", "x.so+0x10", "", 1}, {"/lib/x.so", "bb", "x.so+0x10", "", 2},
			{.canon = ALL}, "x.so+0x10@x.so=1/aa x.so+0x10@x.so=2/bb"},
		/* Clones of one function. */
		{{"/bin/app", "aa", "f.constprop.0", "f.c", 1}, {"/bin/app", "bb", "f", "f.c", 2},
			{.canon = ALL}, "f@app=3/aa/bb"},
		{{"/bin/app", "aa", "f.constprop.0", "f.c", 1}, {"/bin/app", "bb", "f", "f.c", 2},
			{}, "f.constprop.0@app=1/aa f@app=2/bb"},
		{{"/bin/app", "aa", "a::b::h0123456789abcdef", "b.rs", 1},
			{"/bin/app", "bb", "a::b::hfedcba9876543210", "b.rs", 2}, {.canon = ALL},
			"a::b@app=3/aa/bb"},
		{{"/bin/app", "aa", "M.f_1", "m.ml", 1}, {"/bin/app", "bb", "M.f_2", "m.ml", 2},
			{.canon = ALL}, "M.f@app=3/aa/bb"},
		{{"/bin/app", "aa", "M.f_1", "m.ml", 1}, {"/bin/app", "bb", "M.f_2", "m.ml", 2},
			{.canon = TREE_CANON_CLONES}, "M.f_1@app=1/aa M.f_2@app=2/bb"},
		{{"[kernel.kallsyms]", "k1", "g", "", 1}, {"[kernel.kallsyms]", "k2", "g", "", 2},
			{}, "g@[kernel.kallsyms]=3/k1/k2"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tree_symbols s;
		struct tree_builder b;
		struct tree in, out;
		char text[512];
		uint32_t stacks[2];

		tree_symbols_init(&s, NULL);
		stacks[0] = location_of(&s, &cases[i].a);
		stacks[1] = location_of(&s, &cases[i].b);
		tree_builder_init(&b, NULL);
		for (int k = 0; k < 2; k++)
			tree_builder_stack(&b, &stacks[k], 1, k + 1);
		tree_init(&in, NULL);
		tree_init(&out, NULL);
		assert_int_equal(tree_builder_finish(&b, &in, NULL), 0);
		assert_int_equal(tree_project(&in, &cases[i].id, &s, &out, NULL), 0);
		print_leaves(&out, &s, text, sizeof(text));
		assert_string_equal(text, cases[i].want);
		tree_builder_done(&b);
		tree_done(&in);
		tree_done(&out);
		tree_symbols_done(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
