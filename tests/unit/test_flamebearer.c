/* SPDX-License-Identifier: Apache-2.0
 *
 * Flame graphs as Pyroscope's clients read them: known vectors, and random trees decoded back by the rules of those clients.
 */
#include "lib/render/flamebearer.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct side {
	struct tree_symbols symbols;
	struct tree tree;
	struct flamebearer_side view;
};

/* From lines "a;b 10". A name with ' at its end is that name in another mapping, which must not matter. */
static void side_init(struct side *s, const char *text)
{
	struct tree_builder b;

	tree_symbols_init(&s->symbols, NULL);
	tree_init(&s->tree, NULL);
	tree_builder_init(&b, NULL);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		size_t n = strcspn(line, " ");
		uint32_t node = 0;

		for (size_t i = 0; i < n;) {
			size_t len = strcspn(line + i, "; ");
			bool other = len && line[i + len - 1] == '\'';
			struct tree_frame f = {.mapping = other ? 7 : TREE_NONE,
				.name = tree_symbols_string(&s->symbols, line + i, len - other)};

			node = tree_builder_child(&b, node, tree_symbols_frame(&s->symbols, &f), 0);
			i += len + (line[i + len] == ';');
		}
		tree_builder_add(&b, node, strtoll(line + n, NULL, 10));
		if (!strchr(line, '\n'))
			break;
	}
	assert_int_equal(tree_builder_finish(&b, &s->tree, NULL), 0);
	tree_builder_done(&b);
	s->view = (struct flamebearer_side) {&s->tree, &s->symbols};
}

static void side_done(struct side *s)
{
	tree_done(&s->tree);
	tree_symbols_done(&s->symbols);
}

static void print(const struct flamebearer *f, struct bytes *out)
{
	for (size_t i = 0; i < f->n_names; i++)
		bytes_printf(out, "%s%s", i ? "," : "", f->names[i]);
	for (size_t i = 0; i < f->n_levels; i++)
		for (size_t k = 0; k < f->levels[i].n; k++)
			bytes_printf(
				out, "%s%lld", k ? "," : "|", (long long)f->levels[i].values[k]);
	bytes_printf(out, "|%lld,%lld,%lld,%lld", (long long)f->total, (long long)f->max_self,
		(long long)f->left_ticks, (long long)f->right_ticks);
	bytes_put_u8(out, 0);
}

static void test_vectors(void **state)
{
	static const struct {
		const char *left, *right;
		size_t max_nodes;
		const char *want;
	} cases[] = {
		{"a 10\na;b 50\nc 40", NULL, 0,
			"total,a,b,c|0,100,0,0|0,60,10,1,0,40,40,3|10,50,50,2|100,50,100,0"},
		{"a 10\na;b 50\nc 40", "a 40", 0,
			"total,a,b,c|0,100,0,0,40,0,0|0,60,10,0,40,40,1,0,40,40,0,0,0,3|"
			"10,50,50,40,0,0,2|140,50,100,40"},
		{"", NULL, 0, "total|0,0,0,0|0,0,0,0"},
		{"", "", 0, "total|0,0,0,0,0,0,0|0,0,0,0"},
		{"", "a 5", 0, "total,a|0,0,0,0,5,0,0|0,0,0,0,5,5,1|5,5,0,5"},
		/* Equal names are one node, wherever they come from; siblings go by name. */
		{"z 1\nm;x 2\nmm;x 4\nm;;x 8", NULL, 0,
			"total,m,,x,mm,z|0,15,0,0|0,10,0,1,0,4,0,4,0,1,1,5|0,8,0,2,0,2,2,3,0,4,4,3|"
			"0,8,8,3|15,8,15,0"},
		{"a;b 5\na';b 6\na';c 1\nd 2", NULL, 0,
			"total,a,b,c,d|0,14,0,0|0,12,0,1,0,2,2,4|0,11,11,2,0,1,1,3|14,11,14,0"},
		{"a;b 5\na';b 6\na';c 1\nd 2", NULL, 3,
			"total,a,b,other|0,14,0,0|0,12,0,1,0,2,2,3|0,11,11,2,0,1,1,3|14,11,14,0"},
		{"a;b 5\na';b 6", "a';c 3\na;b 1\na;b' 1", 0,
			"total,a,b,c|0,11,0,0,5,0,0|0,11,0,0,5,0,1|0,11,11,0,2,2,2,0,0,0,0,3,3,3|"
			"16,11,11,5"},
		/* What a limit cuts is "other", after its siblings. */
		{"a;b 50\na;c 30\na;d 20\nz 1", NULL, 3,
			"total,a,b,other|0,101,0,0|0,100,0,1,0,1,1,3|0,50,50,2,0,50,50,3|101,50,"
			"101,0"},
		{"a;b 50\na;c 30", "a;b 10\na;d 20\ne 7", 3,
			"total,a,b,other|0,80,0,0,37,0,0|0,80,0,0,30,0,1,0,0,0,0,7,7,3|"
			"0,50,50,0,10,10,2,0,30,30,0,20,20,3|117,50,80,37"},
		/* What is negative has its magnitude, and says so. */
		{"a 5\nb -5", NULL, 0, "total,a,b (negative)|0,10,0,0|0,5,5,1,0,5,5,2|10,5,10,0"},
		{"a;b -5\na 5\nc 1", NULL, 0,
			"total,a,b (negative),c|0,11,0,0|0,10,5,1,0,1,1,3|5,5,5,2|11,5,11,0"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes text = {};
		_cleanup_arena_ struct arena arena;
		struct flamebearer f;
		struct side a, b;
		int r;

		arena_init(&arena, NULL);
		side_init(&a, cases[i].left);
		side_init(&b, cases[i].right ? cases[i].right : "");
		r = cases[i].right
			    ? flamebearer_double(
				      &a.view, &b.view, cases[i].max_nodes, &arena, &f, NULL)
			    : flamebearer_single(&a.view, cases[i].max_nodes, &arena, &f, NULL);
		assert_int_equal(r, 0);
		print(&f, &text);
		assert_string_equal((char *)text.data, cases[i].want);
		side_done(&a);
		side_done(&b);
	}
}

static void test_negative_diff(void **state)
{
	_cleanup_arena_ struct arena arena;
	struct flamebearer f;
	struct errbuf eb = {};
	struct side a, b;

	(void)state;
	arena_init(&arena, NULL);
	side_init(&a, "a 5");
	side_init(&b, "a -5");
	assert_int_equal(flamebearer_double(&a.view, &b.view, 0, &arena, &f, &eb), -EINVAL);
	assert_non_null(strstr(eb.text, "right"));
	side_done(&a);
	side_done(&b);
}

/* ---- random trees, decoded as clients do ---- */

static uint64_t rng = 88172645463325252ULL;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

static void random_text(char *out, size_t n)
{
	unsigned lines = 1 + random_below(30);
	size_t len = 0;

	for (unsigned i = 0; i < lines; i++) {
		unsigned depth = 1 + random_below(5);

		for (unsigned d = 0; d < depth; d++)
			len += (size_t)snprintf(out + len, n - len, "%s%c%s", d ? ";" : "",
				'a' + random_below(4), random_below(4) ? "" : "'");
		len += (size_t)snprintf(out + len, n - len, " %u\n", 1 + random_below(50));
	}
}

enum { MAX_PATHS = 400, SIDES = 2 };
struct path {
	char text[64];
	int64_t total[SIDES];
};
struct paths {
	struct path items[MAX_PATHS];
	size_t n;
};

static struct path *path_at(struct paths *p, const char *text)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->items[i].text, text))
			return &p->items[i];
	assert_true(p->n < MAX_PATHS);
	snprintf(p->items[p->n].text, sizeof(p->items[0].text), "%s", text);
	return &p->items[p->n++];
}

static void drop_marks(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (*s != '\'')
			*to++ = *s;
	*to = '\0';
}

/* Totals of every prefix of every line. */
static void add_text(struct paths *p, const char *text, int side)
{
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		size_t n = strcspn(line, " ");
		int64_t value = strtoll(line + n, NULL, 10);
		char prefix[64] = "";

		path_at(p, "")->total[side] += value;
		for (size_t i = 0; i <= n; i++) {
			if (line[i] != ';' && line[i] != ' ')
				continue;
			snprintf(prefix, sizeof(prefix), "%.*s", (int)i, line);
			drop_marks(prefix);
			path_at(p, prefix)->total[side] += value;
		}
	}
}

struct bar {
	int64_t begin[SIDES], total[SIDES];
	char path[64];
};

static const struct bar *parent_bar(const struct bar *bars, size_t n, const struct bar *b)
{
	int side = b->total[0] ? 0 : 1;

	for (size_t i = 0; i < n; i++)
		if (b->begin[side] >= bars[i].begin[side] &&
			b->begin[side] < bars[i].begin[side] + bars[i].total[side])
			return &bars[i];
	fail_msg("a bar has no parent");
	return bars;
}

/* Takes every bar's totals away from the paths: nothing may be left. */
static void decode(const struct flamebearer *f, unsigned sides, struct paths *p)
{
	static struct bar rows[2][MAX_PATHS];
	size_t n_above = 0, width = sides == 1 ? 4 : 7;

	for (size_t d = 0; d < f->n_levels; d++) {
		struct bar *row = rows[d % 2], *above = rows[(d + 1) % 2];
		int64_t end[SIDES] = {};
		size_t n = 0;

		for (size_t i = 0; i < f->levels[d].n; i += width) {
			const int64_t *v = f->levels[d].values + i;
			struct bar *b = &row[n++];

			*b = (struct bar) {};
			for (unsigned s = 0; s < sides; s++) {
				b->begin[s] = end[s] + v[3 * s];
				b->total[s] = v[3 * s + 1];
				end[s] = b->begin[s] + b->total[s];
				assert_true(v[3 * s + 2] <= f->max_self);
			}
			if (d) {
				const char *up = parent_bar(above, n_above, b)->path;

				snprintf(b->path, sizeof(b->path), "%.50s%s%s", up, *up ? ";" : "",
					f->names[v[width - 1]]);
			}
			for (unsigned s = 0; s < sides; s++)
				path_at(p, b->path)->total[s] -= b->total[s];
		}
		n_above = n;
	}
	for (size_t i = 0; i < p->n; i++)
		assert_true(!p->items[i].total[0] && !p->items[i].total[1]);
}

static void test_random(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		_cleanup_arena_ struct arena arena;
		char left[2000], right[2000];
		struct paths *p = xcalloc(1, sizeof(*p));
		bool two = round % 2;
		struct flamebearer f;
		struct side a, b;

		random_text(left, sizeof(left));
		random_text(right, sizeof(right));
		arena_init(&arena, NULL);
		side_init(&a, left);
		side_init(&b, right);
		add_text(p, left, 0);
		if (two)
			add_text(p, right, 1);
		assert_int_equal(two ? flamebearer_double(&a.view, &b.view, 0, &arena, &f, NULL)
				     : flamebearer_single(&a.view, 0, &arena, &f, NULL),
			0);
		decode(&f, two ? 2 : 1, p);
		side_done(&a);
		side_done(&b);
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_negative_diff),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
