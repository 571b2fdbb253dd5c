/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendering straight from a profile, for who has no tree of his own.
 */
#include "lib/prof/profile.h"
#include "lib/render/render_internal.h"

struct profile_view {
	struct tree_symbols symbols;
	struct tree tree;
	struct render_input in;
	char type[128], unit[128];
};

static void profile_view_done(struct profile_view *v)
{
	tree_done(&v->tree);
	tree_symbols_done(&v->symbols);
}

static void copy_string(const struct profile *p, uint32_t i, char ret[128])
{
	struct prof_str s = profile_str(p, i);

	snprintf(ret, 128, "%.*s", (int)MIN(s.len, 127U), s.p ? s.p : "");
}

static int profile_view_init(struct profile_view *v, const struct profile *p, size_t value_index,
	const struct tree_identity *id, const char *title, struct errbuf *eb)
{
	_cleanup_tree_ struct tree locations = {};
	int r;

	tree_symbols_init(&v->symbols, p->arena.budget);
	tree_init(&locations, p->arena.budget);
	tree_init(&v->tree, p->arena.budget);
	r = tree_from_profile(p, value_index, &v->symbols, &locations, eb);
	if (!r)
		r = tree_project(&locations, id, &v->symbols, &v->tree, eb);
	if (r)
		return r;
	copy_string(p, p->types[value_index].type, v->type);
	copy_string(p, p->types[value_index].unit, v->unit);
	v->in = (struct render_input) {.tree = &v->tree,
		.symbols = &v->symbols,
		.type = v->type,
		.unit = v->unit,
		.title = title,
		.magnitude = tree_magnitude(&v->tree),
		.time_ns = p->time_ns,
		.duration_ns = p->duration_ns};
	return 0;
}

static int fail(int r, struct errbuf *eb)
{
	return r ? err_set(eb, r, "rendering the profile: %s", err_text(NULL, r)) : 0;
}

#define _cleanup_profile_view_ _cleanup_(profile_view_done)

int render_profile_folded(
	const struct profile *p, size_t value_index, struct bytes *out, struct errbuf *eb)
{
	_cleanup_profile_view_ struct profile_view v = {};
	int r = profile_view_init(&v, p, value_index, NULL, NULL, eb);

	return r ? r : fail(render_folded(&v.in, out), eb);
}

int render_profile_svg(const struct profile *p, size_t value_index, const char *title,
	enum render_names names, const struct render_svg_options *opt, struct bytes *out,
	struct errbuf *eb)
{
	_cleanup_profile_view_ struct profile_view v = {};
	int r = profile_view_init(&v, p, value_index, NULL, title, eb);

	v.in.names = names;
	return r ? r : fail(render_svg(&v.in, opt, out), eb);
}

int render_profile_html(const struct profile *p, size_t value_index, const char *title,
	enum render_names names, struct bytes *out, struct errbuf *eb)
{
	_cleanup_profile_view_ struct profile_view v = {};
	int r = profile_view_init(&v, p, value_index, NULL, title, eb);

	v.in.names = names;
	return r ? r : fail(render_html(&v.in, out), eb);
}

int render_profile_text(const struct profile *p, size_t value_index, const struct tree_identity *id,
	size_t max_rows, enum render_names names, struct bytes *out, struct errbuf *eb)
{
	_cleanup_profile_view_ struct profile_view v = {};
	int r = profile_view_init(&v, p, value_index, id, NULL, eb);

	v.in.names = names;
	return r ? r : fail(render_text(&v.in, max_rows, out), eb);
}
