/* SPDX-License-Identifier: Apache-2.0
 *
 * The colours of a flame graph, as the web interface has them (ui/src/flame/colours.ts): by binary, of one program by package, and
 * where names have none by function. The groups that weigh most get hues of their own, by the hash of their names.
 */
#include "lib/render/colours.h"
#include "lib/base/alloc.h"
#include "lib/base/table.h"
#include "lib/render/render_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct hue {
	unsigned hue, saturation;
} hues[RENDER_N_HUES] = {
	{211, 62},
	{28, 72},
	{152, 42},
	{265, 46},
	{345, 58},
	{186, 52},
	{48, 70},
	{300, 36},
	{96, 42},
	{230, 48},
	{12, 62},
	{172, 40},
	[RENDER_HUE_OF + TREE_ROOT] = {220, 14},
	[RENDER_HUE_OF + TREE_NATIVE] = {211, 62},
	[RENDER_HUE_OF + TREE_KERNEL] = {28, 72},
	[RENDER_HUE_OF + TREE_JIT] = {152, 42},
	[RENDER_HUE_OF + TREE_INTERPRETER] = {265, 46},
	[RENDER_HUE_OF + TREE_UNKNOWN] = {220, 8},
	[RENDER_HUE_OF + TREE_LABEL] = {220, 14},
	[RENDER_HUE_OF + TREE_CUT] = {220, 10},
	[RENDER_HUE_OF + TREE_INLINED] = {186, 52},
	[RENDER_HUE_OF + TREE_TRUNCATED] = {345, 40},
	/* The first four differ for eyes that lack a colour at least as much as kernel, native and JIT code do. PHP is like Python to them. */
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_PYTHON] = {56, 90},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_JAVA] = {240, 85},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_JAVASCRIPT] = {348, 85},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_RUBY] = {180, 75},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_PHP] = {42, 95},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_DOTNET] = {285, 70},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_ERLANG] = {325, 65},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_PERL] = {200, 90},
	[RENDER_HUE_OF_LANGUAGE + PROF_LANGUAGE_LUA] = {96, 70},
};
enum {
	LIGHTNESS = 77,
	DARKER = 4, /* of each shade */
	ROOT_LIGHTNESS = 84,
	CUT_LIGHTNESS = 89,
	NEAR = 20, /* degrees between hues that look alike */
};
static const double ONE_BINARY = 0.97; /* of all: from there on it is one program */

enum by { BY_BINARY, BY_PACKAGE, BY_FUNCTION };

struct text {
	const char *s;
	size_t n;
};

/* FNV-1a over UTF-16, which is what the web interface has. */
static uint32_t hash(struct text t)
{
	uint32_t x = 2166136261U;

	for (size_t i = 0; i < t.n;) {
		unsigned char c = (unsigned char)t.s[i++];
		uint32_t code = c < 0x80 ? c : c < 0xe0 ? c & 0x1fU : c < 0xf0 ? c & 0xfU : c & 7U;

		while (i < t.n && ((unsigned char)t.s[i] & 0xc0) == 0x80)
			code = code << 6 | ((unsigned char)t.s[i++] & 0x3fU);
		if (code > 0xffff) {
			x = (x ^ (0xd800U + ((code - 0x10000U) >> 10))) * 16777619U;
			code = 0xdc00U + ((code - 0x10000U) & 0x3ffU);
		}
		x = (x ^ code) * 16777619U;
	}
	return x ^ x >> 15;
}

static size_t last_of(struct text t, const char *what, size_t n)
{
	for (size_t i = t.n; i >= n; i--)
		if (!memcmp(t.s + i - n, what, n))
			return i - n;
	return SIZE_MAX;
}

/* A name without what is between < and > and from ( on; it goes into `scratch`. */
static struct text plain_name(struct text name, char *scratch)
{
	size_t n = 0;

	for (size_t i = 0; i < name.n && name.s[i] != '('; i++) {
		const char *end = name.s[i] == '<' ? memchr(name.s + i, '>', name.n - i) : NULL;

		if (end)
			i = (size_t)(end - name.s);
		else
			scratch[n++] = name.s[i];
	}
	return (struct text) {scratch, n};
}

/* "runtime" of "runtime.mallocgc", "net/http" of "net/http.(*conn).serve", "java.util" of "java.util.List.add", "std" of "std::sort". */
static struct text package_of(struct text name, char *scratch)
{
	struct text t = plain_name(name, scratch);
	size_t colons = last_of(t, "::", 2), slash = last_of(t, "/", 1), first, dots = 0;
	const char *at;

	if (colons != SIZE_MAX && colons > 0) {
		t.n = colons;
		for (size_t i = 0; i + 1 < t.n; i++)
			if (t.s[i] == ':' && t.s[i + 1] == ':')
				t.n = i;
		first = last_of(t, " ", 1);
		return first == SIZE_MAX ? t : (struct text) {t.s + first + 1, t.n - first - 1};
	}
	first = slash == SIZE_MAX ? 0 : slash + 1;
	at = t.n > first ? memchr(t.s + first, '.', t.n - first) : NULL;
	if (slash != SIZE_MAX && at)
		return (struct text) {t.s, (size_t)(at - t.s)};
	for (size_t i = 0; i < t.n; i++)
		dots += t.s[i] == '.';
	for (size_t keep = dots > 1 ? dots - 2 : 0, i = 0; dots && i < t.n; i++)
		if (t.s[i] == '.' && keep-- == 0)
			return (struct text) {t.s, i};
	return (struct text) {"", 0};
}

struct painter {
	const struct render_input *in;
	char *scratch; /* as long as the longest name */
	char numbers[64];
	enum by by;
};

static struct text name_of(struct painter *p, size_t i)
{
	struct text t;

	t.s = render_node_name(p->in, i, p->numbers, &t.n);
	return t;
}

static struct text mapping_of(const struct painter *p, size_t i)
{
	const struct tree *t = p->in->tree;
	const char *s = i && !tree_is_cut(t, i) ? render_mapping_name(p->in, t->frame[i]) : "";

	return (struct text) {s, strlen(s)};
}

static int make_room(struct painter *p)
{
	size_t longest = sizeof(p->numbers);

	for (size_t i = 1; i < p->in->tree->n; i++)
		longest = MAX(longest, name_of(p, i).n);
	p->scratch = try_realloc(NULL, longest, 1);
	return p->scratch ? 0 : -ENOMEM;
}

/* Binaries distinguish a whole machine's stacks; those of one program differ by package, or where names have none by function. */
static int choose_what(struct painter *p)
{
	const struct tree *t = p->in->tree;
	_cleanup_interner_ struct interner binaries;
	_cleanup_free_ double *self = try_realloc(NULL, t->n, sizeof(*self));
	double unknown = 0, most = 0, all = (double)t->total[0];

	interner_init(&binaries, NULL);
	if (!self)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct text m = mapping_of(p, i);
		bool is_new;
		uint32_t id = interner_add(&binaries, m.s, m.n, &is_new);

		if (id == INTERNER_NONE)
			return -ENOMEM;
		self[id] = (is_new ? 0 : self[id]) + (double)t->self[i];
		if (!m.n && !package_of(name_of(p, i), p->scratch).n)
			unknown += (double)t->self[i];
	}
	for (size_t id = 0; id < binaries.n; id++)
		most = MAX(most, self[id]);
	p->by = most <= ONE_BINARY * all ? BY_BINARY : unknown > all / 2 ? BY_FUNCTION : BY_PACKAGE;
	return 0;
}

static struct text group_of(struct painter *p, size_t i)
{
	enum tree_kind kind = render_node_kind(p->in, i);
	struct text m = mapping_of(p, i), package;
	const char *name = tree_kind_name(kind);

	switch (p->by) {
	case BY_BINARY:
		if (m.n || kind == TREE_UNKNOWN || kind == TREE_NATIVE)
			return m;
		return (struct text) {name, strlen(name)};
	case BY_PACKAGE:
		package = package_of(name_of(p, i), p->scratch);
		return package.n ? package : m;
	default: return name_of(p, i);
	}
}

/* A binary that is called as a kind, "kernel" say, has the hue of that, and "[python3.13]" that of its language. */
static unsigned fixed_hue(const char *name)
{
	enum prof_language language = prof_language_of_mapping(name, strlen(name));

	for (unsigned k = 0; k < TREE_N_KINDS; k++)
		if (!strcmp(name, tree_kind_name((enum tree_kind)k)))
			return RENDER_HUE_OF + k;
	return language ? RENDER_HUE_OF_LANGUAGE + language : RENDER_N_HUES;
}

static int compare_groups(const void *a, const void *b)
{
	const struct render_group *x = *(struct render_group *const *)a,
				  *y = *(struct render_group *const *)b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return (x > y) - (x < y);
}

/* Hues that look like that of a language among the groups, which no other group is to have. */
static size_t find_near(struct render_group **sorted, size_t n, enum by by, bool ret[RENDER_HUE_OF])
{
	size_t n_near = 0;

	for (size_t g = 0; by == BY_BINARY && g < n; g++) {
		unsigned fixed = fixed_hue(sorted[g]->name);

		if (fixed < RENDER_HUE_OF_LANGUAGE || fixed == RENDER_N_HUES)
			continue;
		for (unsigned i = 0; i < RENDER_HUE_OF; i++)
			ret[i] |= abs((int)hues[i].hue - (int)hues[fixed].hue) < NEAR;
	}
	for (unsigned i = 0; i < RENDER_HUE_OF; i++)
		n_near += ret[i];
	return n_near;
}

/* From the hash of its name on, the first hue that is free, or when none is any that is not near. */
static unsigned next_hue(struct text name, const bool *near, const bool *taken, size_t n_taken)
{
	unsigned i = hash(name) % RENDER_HUE_OF;

	for (unsigned tries = 0; tries < RENDER_HUE_OF; tries++, i = (i + 1) % RENDER_HUE_OF)
		if (!near[i] && (!taken[i] || n_taken == RENDER_HUE_OF))
			break;
	return i;
}

/* The heaviest have a hue of their own, as long as there are any. */
static void give_hues(struct render_group **sorted, size_t n, enum by by)
{
	bool taken[RENDER_HUE_OF], near[RENDER_HUE_OF] = {};
	size_t n_taken = find_near(sorted, n, by, near);

	memcpy(taken, near, sizeof(taken));
	for (size_t g = 0; g < n; g++) {
		struct text name = {sorted[g]->name, strlen(sorted[g]->name)};
		unsigned i = next_hue(name, near, taken, n_taken),
			 fixed = by == BY_BINARY ? fixed_hue(name.s) : RENDER_N_HUES;

		n_taken += !taken[i];
		taken[i] = true;
		sorted[g]->hue = !name.n		 ? RENDER_HUE_OF + TREE_UNKNOWN
				 : fixed < RENDER_N_HUES ? fixed
							 : i;
	}
}

void render_colours_done(struct render_colours *c)
{
	for (size_t g = 0; g < c->n_groups; g++)
		free(c->groups[g].name);
	free(c->groups);
	free(c->hue);
	free(c->shade);
}

/* Groups with their weights; *of is the group of each node but the root. */
static int weigh(struct painter *p, struct render_colours *c, uint32_t *of)
{
	const struct tree *t = p->in->tree;
	_cleanup_interner_ struct interner names;
	size_t cap = 0;

	interner_init(&names, NULL);
	for (size_t i = 1; i < t->n; i++) {
		struct text name = group_of(p, i);
		bool is_new;

		of[i] = interner_add(&names, name.s, name.n, &is_new);
		if (of[i] == INTERNER_NONE ||
			alloc_grow(&c->groups, &cap, names.n, sizeof(*c->groups)) < 0)
			return -ENOMEM;
		if (is_new)
			c->groups[c->n_groups++] =
				(struct render_group) {.name = xstrndup(name.s, name.n)};
		c->groups[of[i]].self += (double)t->self[i];
	}
	return 0;
}

static int paint(struct painter *p, struct render_colours *c)
{
	const struct tree *t = p->in->tree;
	_cleanup_free_ uint32_t *of = try_realloc(NULL, t->n, sizeof(*of));
	_cleanup_free_ struct render_group **sorted = NULL;
	_cleanup_free_ struct render_group *in_order = NULL;

	c->hue = try_realloc(NULL, t->n, 1);
	c->shade = try_realloc(NULL, t->n, 1);
	if (!of || !c->hue || !c->shade || weigh(p, c, of) < 0)
		return -ENOMEM;
	sorted = try_realloc(NULL, c->n_groups + 1, sizeof(*sorted));
	in_order = try_realloc(NULL, c->n_groups + 1, sizeof(*in_order));
	if (!sorted || !in_order)
		return -ENOMEM;
	for (size_t g = 0; g < c->n_groups; g++)
		sorted[g] = &c->groups[g];
	qsort(sorted, c->n_groups, sizeof(*sorted), compare_groups);
	give_hues(sorted, c->n_groups, p->by);
	for (size_t i = 0; i < t->n; i++) {
		c->hue[i] = (uint8_t)(!i		  ? RENDER_HUE_OF + TREE_ROOT
				      : tree_is_cut(t, i) ? RENDER_HUE_OF + TREE_CUT
							  : c->groups[of[i]].hue);
		c->shade[i] = (uint8_t)(hash(name_of(p, i)) % RENDER_N_SHADES);
	}
	for (size_t g = 0; g < c->n_groups; g++)
		in_order[g] = *sorted[g];
	if (c->n_groups)
		memcpy(c->groups, in_order, c->n_groups * sizeof(*in_order));
	return 0;
}

int render_colours_choose(const struct render_input *in, struct render_colours *ret)
{
	struct painter p = {.in = in};
	int r = make_room(&p);

	if (!r)
		r = choose_what(&p);
	if (!r)
		r = paint(&p, ret);
	free(p.scratch);
	return r;
}

void render_put_hue(struct bytes *out, unsigned hue, unsigned shade)
{
	unsigned lightness = hue == RENDER_HUE_OF + TREE_ROOT  ? ROOT_LIGHTNESS
			     : hue == RENDER_HUE_OF + TREE_CUT ? CUT_LIGHTNESS
							       : LIGHTNESS - DARKER * shade;

	bytes_printf(out, "hsl(%u,%u%%,%u%%)", hues[hue].hue, hues[hue].saturation, lightness);
}
