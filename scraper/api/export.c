/* SPDX-License-Identifier: Apache-2.0
 *
 * Merged trees as pprof: one sample per node with a value, grouping labels as sample labels. Every mapping says that it has
 * functions, so that pprof does not look for binaries of another machine; a location without a name gets the one that the
 * flame graph shows.
 */
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/json/write.h"
#include "lib/gzip/gzip.h"
#include "lib/prof/number.h"
#include "scraper/api/api_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct export
{
	const struct query_trees *t;
	const struct tree_symbols *s;
	struct profile profile;
	struct prof_builder *b;
	uint32_t *locations; /* per location of the symbols: index + 1 in the profile */
	uint32_t cut;	     /* location of what a limit cut, + 1 */
	uint32_t *stack;
};

static void export_done(struct export *e)
{
	prof_builder_freep(&e->b);
	free(e->locations);
	free(e->stack);
	profile_done(&e->profile);
}

static uint32_t put_string(struct export *e, const char *s)
{
	return prof_builder_string(e->b, s, strlen(s));
}

static uint32_t put_symbol(struct export *e, uint32_t id)
{
	size_t n;
	const char *s = tree_symbols_text(e->s, id, &n);

	return prof_builder_string(e->b, s, n);
}

static uint32_t put_mapping(struct export *e, uint32_t id)
{
	struct prof_mapping m = {.has_functions = 1,
		.has_filenames = 1,
		.has_line_numbers = 1,
		.has_inline_frames = 1};

	if (id == TREE_NONE)
		return PROF_NONE;
	m.filename = put_symbol(e, e->s->mappings[id].file);
	m.build_id = put_symbol(e, e->s->mappings[id].build_id);
	return prof_builder_mapping(e->b, &m);
}

static uint32_t put_unnamed(struct export *e, const struct tree_location *l)
{
	char text[320];
	struct prof_function f = {};

	if (l->mapping != TREE_NONE && e->s->mappings[l->mapping].file)
		snprintf(text, sizeof(text), "%.255s+0x%" PRIx64,
			tree_symbols_base_name(e->s, e->s->mappings[l->mapping].file), l->address);
	else
		snprintf(text, sizeof(text), "0x%" PRIx64, l->address);
	f.name = f.system_name = put_string(e, text);
	return prof_builder_function(e->b, &f);
}

static int put_location(struct export *e, uint32_t id, uint32_t *ret)
{
	const struct tree_location *l = &e->s->locations[id];
	_cleanup_free_ struct prof_line *lines =
		try_realloc(NULL, l->n_lines + 1UL, sizeof(*lines));
	size_t n = 0;

	if (!lines)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct tree_line *from = &e->s->lines[l->first_line + i];
		const struct tree_function *ff;
		struct prof_function f;

		if (from->function == TREE_NONE)
			continue;
		ff = &e->s->functions[from->function];
		f = (struct prof_function) {
			.name = put_symbol(e, ff->name ? ff->name : ff->system_name),
			.system_name = put_symbol(e, ff->system_name),
			.filename = put_symbol(e, ff->file),
			.start_line = ff->start_line};
		lines[n++] = (struct prof_line) {.function = prof_builder_function(e->b, &f),
			.line = from->line,
			.column = from->column};
	}
	if (!n)
		lines[n++] = (struct prof_line) {.function = put_unnamed(e, l)};
	*ret = prof_builder_location(e->b, l->address, put_mapping(e, l->mapping), lines, n);
	return 0;
}

static uint32_t put_cut(struct export *e)
{
	struct prof_function f = {};
	struct prof_line line = {};

	f.name = f.system_name = put_string(e, "(cut)");
	line.function = prof_builder_function(e->b, &f);
	return prof_builder_location(e->b, 0, PROF_NONE, &line, 1);
}

/* The profile's location of a tree's frame. */
static int location_of(struct export *e, uint32_t frame, uint32_t *ret)
{
	uint32_t *known = frame == TREE_NONE ? &e->cut : &e->locations[frame];
	int r = 0;

	if (!*known) {
		if (frame == TREE_NONE)
			*ret = put_cut(e);
		else
			r = put_location(e, frame, ret);
		*known = r ? 0 : *ret + 1;
	}
	*ret = *known - 1;
	return r;
}

static struct prof_label make_label(struct export *e, const struct label *l)
{
	struct prof_label ret = {.key = put_string(e, l->name)};
	const char *unit;

	if (prof_number_read(l->name, l->value, &ret.num, &unit))
		ret.num_unit = put_string(e, unit);
	else
		ret.str = put_string(e, l->value);
	return ret;
}

static int put_samples(struct export *e, const struct tree *tree, const struct labels *labels)
{
	_cleanup_free_ struct prof_label *out = try_realloc(NULL, labels->n + 1, sizeof(*out));

	e->stack = try_realloc(e->stack, tree_max_depth(tree) + 1UL, sizeof(*e->stack));
	if (!out || !e->stack)
		return -ENOMEM;
	for (size_t i = 0; i < labels->n; i++)
		out[i] = make_label(e, &labels->items[i]);
	for (size_t i = 0; i < tree->n; i++) {
		size_t n = 0;
		int r = 0;

		if (!tree->self[i])
			continue;
		for (size_t k = i; k && !r; k = tree->parent[k])
			r = location_of(e, tree->frame[k], &e->stack[n++]);
		if (r)
			return r;
		prof_builder_sample(e->b, e->stack, n, &tree->self[i], out, labels->n, 0);
	}
	return 0;
}

/* How long targets were watched, and all their CPUs, where it is known: what the values of their groups are to be divided by. */
static void put_cover(
	struct export *e, const char *what, const struct query_watched *w, int64_t covered_ns)
{
	_cleanup_bytes_ struct bytes text = {};
	struct json j = {.out = &text};

	if (covered_ns <= 0)
		return;
	bytes_printf(&text, "%s ", what);
	json_object_begin(&j);
	for (size_t i = 0; i < w->labels.n; i++)
		json_kv_string(&j, w->labels.items[i].name, w->labels.items[i].value);
	json_object_end(&j);
	bytes_printf(&text, " %.3f s", (double)covered_ns / 1e9);
	prof_builder_comment(e->b, (const char *)text.data, text.len);
}

static bool is_program(const struct tree_symbols *s, uint32_t file)
{
	const char *name = tree_symbols_base_name(s, file);

	for (const char *so = strstr(name, ".so"); so; so = strstr(so + 1, ".so"))
		if (!so[3] || so[3] == '.')
			return false;
	return *name && *name != '[';
}

/* `go tool pprof` takes the first mapping for the program: the one that costs most, no library, vDSO or kernel. */
static int put_program(struct export *e, const struct tree *const *trees)
{
	_cleanup_free_ double *cost = try_malloc((e->s->n_mappings + 1) * sizeof(*cost));
	size_t most = e->s->n_mappings;

	if (!cost)
		return -ENOMEM;
	memset(cost, 0, (e->s->n_mappings + 1) * sizeof(*cost));
	for (size_t g = 0; g < e->t->n_groups; g++)
		for (size_t i = 1; i < trees[g]->n; i++) {
			uint32_t frame = trees[g]->frame[i];
			uint32_t id =
				frame == TREE_NONE ? TREE_NONE : e->s->locations[frame].mapping;

			if (id != TREE_NONE)
				cost[id] += fabs((double)trees[g]->self[i]);
		}
	for (size_t i = 0; i < e->s->n_mappings; i++)
		if (cost[i] > cost[most] && is_program(e->s, e->s->mappings[i].file))
			most = i;
	if (most < e->s->n_mappings)
		put_mapping(e, (uint32_t)most);
	return 0;
}

static int build(
	struct export *e, const struct tree *const *trees, const char *comment, struct errbuf *eb)
{
	const struct query_trees *t = e->t;
	struct profile *p = &e->profile;
	int r = 0;

	e->locations = try_malloc((e->s->n_locations + 1) * sizeof(*e->locations));
	e->b = prof_builder_new(p);
	if (!e->locations || !e->b)
		return err_set(eb, -ENOMEM, "out of memory for the profile");
	memset(e->locations, 0, (e->s->n_locations + 1) * sizeof(*e->locations));
	prof_builder_type(e->b, t->type.sample_type, t->type.sample_unit);
	p->period_type.type = put_string(e, t->type.period_type);
	p->period_type.unit = put_string(e, t->type.period_unit);
	p->default_sample_type = put_string(e, t->type.sample_type);
	p->period = t->period;
	p->time_ns = t->min_time_ns;
	p->duration_ns = t->max_time_ns - t->min_time_ns;
	prof_builder_comment(e->b, comment, strlen(comment));
	for (size_t i = 0; i < t->n_watched; i++) {
		put_cover(e, "covered", &t->watched[i], t->watched[i].covered.ns);
		put_cover(e, "covered-cpus", &t->watched[i], t->watched[i].covered.cpu_ns);
	}
	if (t->n_watched)
		put_cover(e, "watched", &(struct query_watched) {}, t->watched_ns);
	r = put_program(e, trees);
	for (size_t i = 0; !r && i < t->n_groups; i++)
		r = put_samples(e, trees[i], &t->groups[i].labels);
	if (r)
		return err_set(eb, r, "out of memory for the profile");
	return prof_builder_finish(e->b, eb);
}

int export_encode(const struct query_trees *t, const struct tree *const *trees, const char *comment,
	struct budget *budget, struct bytes *out, struct errbuf *eb)
{
	_cleanup_(export_done)
	struct export e = {.t = t, .s = &t->symbols};
	int r;

	profile_init(&e.profile, budget);
	r = build(&e, trees, comment, eb);
	if (!r && prof_encode(&e.profile, out) < 0)
		r = err_set(eb, -ENOMEM, "out of memory for the encoded profile");
	return r;
}

int export_pprof(const struct query_trees *t, const struct tree *const *trees, const char *comment,
	struct budget *budget, struct bytes *out, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes raw = {};
	int r;

	bytes_init(&raw, budget, 0);
	r = export_encode(t, trees, comment, budget, &raw, eb);
	return r ? r : gzip_deflate(raw.data, raw.len, GZIP_LEVEL_FAST, out, eb);
}
