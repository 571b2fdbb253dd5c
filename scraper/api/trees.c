/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/flamegraph, /api/v1/top and /api/v1/profile: one merge, filters, then any format.
 */
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/render/render.h"
#include "lib/tree/filter.h"
#include "scraper/api/api_impl.h"
#include <inttypes.h>
#include <string.h>

void api_view_done(struct api_view *v)
{
	for (size_t i = 0; v->filtered && i < v->merged.n_groups; i++)
		tree_done(&v->filtered[i]);
	free(v->filtered);
	tree_done(&v->functions);
	query_trees_done(&v->merged);
}

static int filter(struct api_job *q, struct api_view *v, struct errbuf *eb)
{
	const struct api_params *p = v->params;
	const struct tree_filter f = {.focus = p->focus,
		.ignore = p->ignore,
		.hide = p->hide,
		.show = p->show,
		.show_from = p->show_from};
	int r = 0;

	v->filtered = xcalloc(v->merged.n_groups + 1, sizeof(*v->filtered));
	for (size_t i = 0; !r && i < v->merged.n_groups; i++) {
		tree_init(&v->filtered[i], q->env.budget);
		if (tree_filter_is_empty(&f)) {
			v->filtered[i] = v->merged.groups[i].tree;
			tree_init(&v->merged.groups[i].tree, q->env.budget);
		} else {
			r = tree_filter_apply(
				&v->merged.groups[i].tree, &f, v->symbols, &v->filtered[i], eb);
			tree_done(&v->merged.groups[i].tree);
		}
	}
	return r;
}

/* "job=api, comm=sh", the frame that stands above a group. */
static uint32_t label_frame(struct tree_symbols *s, const struct labels *l)
{
	_cleanup_bytes_ struct bytes text = {};
	struct tree_frame f = {.mapping = TREE_NONE, .kind = TREE_LABEL};

	for (size_t i = 0; i < l->n; i++) {
		bytes_put_str(&text, i ? ", " : "");
		bytes_put_str(&text, l->items[i].name);
		bytes_put_u8(&text, '=');
		bytes_put_str(&text, l->items[i].value);
	}
	if (!l->n)
		bytes_put_str(&text, "(without label)");
	if (text.error)
		s->error = text.error;
	else
		f.name = tree_symbols_string(s, (const char *)text.data, text.len);
	return tree_symbols_frame(s, &f);
}

static int project_groups(
	struct api_job *q, struct api_view *v, struct tree *ret, struct errbuf *eb)
{
	size_t n = v->merged.n_groups;
	_cleanup_free_ struct tree *trees = xcalloc(n + 1, sizeof(*trees));
	_cleanup_free_ const struct tree **list = xcalloc(n + 1, sizeof(struct tree *));
	_cleanup_free_ uint32_t *frames = xcalloc(n + 1, sizeof(*frames));
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		tree_init(&trees[i], q->env.budget);
		list[i] = &trees[i];
		if (!r)
			r = tree_project(
				&v->filtered[i], &v->params->identity, v->symbols, &trees[i], eb);
		frames[i] = label_frame(v->symbols, &v->merged.groups[i].labels);
	}
	if (!r)
		r = tree_symbols_error(v->symbols, eb);
	if (!r && v->params->n_group_by)
		r = tree_graft((const struct tree *const *)list, frames, n, ret, eb);
	else if (!r)
		r = tree_merge((const struct tree *const *)list, n, ret, eb);
	for (size_t i = 0; i < n; i++)
		tree_done(&trees[i]);
	return r;
}

/* All groups as one function tree; with group_by each below a frame of its labels. */
static int project(struct api_job *q, struct api_view *v, struct tree *ret, struct errbuf *eb)
{
	size_t n = v->merged.n_groups;

	if (!v->params->n_group_by && n == 1)
		return tree_project(&v->filtered[0], &v->params->identity, v->symbols, ret, eb);
	return project_groups(q, v, ret, eb);
}

/* The node limit of a format: the arrays have one unless the request says otherwise, pictures cull by width. */
static size_t node_limit(const struct api_job *q)
{
	if (q->params.max_nodes || (q->format != API_JSON && q->format != API_PROTOBUF))
		return q->format == API_DOT ? 0 : q->params.max_nodes;
	return API_DEFAULT_NODES;
}

int api_view_project(struct api_job *q, struct api_view *v, struct tree *ret, struct errbuf *eb)
{
	const struct api_params *p = v->params;
	_cleanup_tree_ struct tree all;
	int r;

	tree_init(&all, q->env.budget);
	r = project(q, v, p->n_at ? &all : ret, eb);
	if (r)
		return r;
	v->whole = (p->n_at ? &all : ret)->total[0];
	v->magnitude = tree_magnitude(p->n_at ? &all : ret);
	return p->n_at ? tree_at(&all, v->symbols, p->at, p->n_at, ret, eb) : 0;
}

static int shape(struct api_job *q, struct api_view *v, struct errbuf *eb)
{
	const size_t limit = node_limit(q);
	_cleanup_tree_ struct tree all;
	int r;

	tree_init(&all, q->env.budget);
	tree_init(&v->functions, q->env.budget);
	r = api_view_project(q, v, &all, eb);
	if (r)
		return r;
	if (limit && all.n > limit)
		return tree_limit(&all, limit, &v->functions, eb);
	v->functions = all;
	tree_init(&all, q->env.budget);
	return 0;
}

/* Appends a word with what every file system takes; all else becomes one dash. */
static size_t put_word(char *name, size_t at, size_t end, const char *word)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
	bool dash = at > 0;

	for (; *word && at + 2 < end; word++) {
		if (!strchr(safe, *word)) {
			dash = at > 0;
			continue;
		}
		if (dash)
			name[at++] = '-';
		dash = false;
		name[at++] = *word;
	}
	name[at] = '\0';
	return at;
}

static void name_file(struct api_view *v, const char *from)
{
	const struct query_selector *s = v->params->n_selectors ? v->params->selectors : NULL;
	const size_t end = sizeof(v->file_name) - sizeof("-20260131T140000Z");
	size_t at = put_word(v->file_name, 0, end, v->merged.type.sample_type);

	for (size_t i = 0; s && i < s->n_matchers; i++)
		if (s->matchers[i].op == QUERY_EQ)
			at = put_word(v->file_name, at, end, s->matchers[i].value);
	snprintf(v->file_name + at, sizeof(v->file_name) - at, "%s%.4s%.2s%.2sT%.2s%.2s%.2sZ",
		at ? "-" : "", from, from + 5, from + 8, from + 11, from + 14, from + 17);
}

static void describe(struct api_view *v)
{
	const struct api_params *p = v->params;
	const char *matchers = p->query ? strchr(p->query, '{') : NULL;
	char from[40], to[40];

	api_format_time(p->start_ns, from);
	api_format_time(p->end_ns, to);
	if (*v->merged.type.name)
		snprintf(v->title, sizeof(v->title), "%.60s \xc2\xb7 %.60s", v->merged.type.name,
			v->merged.type.sample_type);
	snprintf(v->comment, sizeof(v->comment),
		"%.300s, %.19sZ to %.19sZ, %" PRIu64 " profiles of %" PRIu64 " series",
		p->query ? p->query : "", from, to, v->merged.n_profiles, v->merged.n_series);
	snprintf(v->subtitle, sizeof(v->subtitle),
		"%.300s, %.19sZ to %.19sZ, %" PRIu64 " profiles of %" PRIu64 " series",
		matchers ? matchers : "{}", from, to, v->merged.n_profiles, v->merged.n_series);
	name_file(v, from);
}

int api_view_merge(struct api_job *q, const struct api_params *p, struct tree_symbols *symbols,
	struct api_view *v, struct errbuf *eb)
{
	size_t n_tags = p->n_tag_roots + p->n_tag_leaves;
	_cleanup_free_ const char **labels = xcalloc(p->n_group_by + n_tags + 1, sizeof(char *));
	struct query_spec spec = {.selector = p->selectors,
		.symbols = symbols,
		.want_coverage = symbols != NULL || (p->group && q->format == API_PPROF),
		.start_ns = p->start_ns,
		.end_ns = p->end_ns,
		.profiles = p->profiles,
		.n_profiles = p->n_profiles,
		.group_by = labels,
		.n_group_by = p->n_group_by + n_tags,
		.group = true,
		.max_groups = 256};
	int r = api_params_one_selector(p, eb);

	v->params = p;
	v->symbols = symbols ? symbols : &v->merged.symbols;
	for (size_t i = 0; i < spec.n_group_by; i++)
		labels[i] = i < p->n_group_by ? p->group_by[i] : p->tags[i - p->n_group_by];
	if (!r)
		r = query_merge(&q->env, &spec, &v->merged, eb);
	if (!r && p->n_profiles && !v->merged.n_profiles)
		r = err_set(eb, -ENOENT, "profile_id: the selector has no such profile");
	if (!r && n_tags)
		r = api_view_tag(q, v, eb);
	if (!r)
		r = filter(q, v, eb);
	if (!r)
		describe(v);
	return r;
}

static int merge(struct api_job *q, struct api_view *v, struct errbuf *eb)
{
	return api_view_merge(q, &q->params, NULL, v, eb);
}

int api_view_make(struct api_job *q, struct api_view *ret, struct errbuf *eb)
{
	int r = merge(q, ret, eb);

	return r ? r : shape(q, ret, eb);
}

struct render_input api_view_input(const struct api_job *q, const struct api_view *v)
{
	return (struct render_input) {.names = q->params.names,
		.tree = &v->functions,
		.symbols = v->symbols,
		.type = v->merged.type.sample_type,
		.unit = v->merged.type.sample_unit,
		.title = v->merged.type.id,
		.subtitle = v->subtitle,
		.time_ns = v->merged.min_time_ns,
		.duration_ns = v->merged.max_time_ns - v->merged.min_time_ns,
		.whole = v->whole,
		.magnitude = v->magnitude};
}

static int reply_json(struct api_job *q, struct api_view *v, bool rows, struct errbuf *eb)
{
	struct render_input in = api_view_input(q, v);
	_cleanup_bytes_ struct bytes out = {};
	struct json j;
	int r;

	api_job_json_begin(q, &out, &j);
	json_object_begin(&j);
	json_kv_string(&j, "profile_type", v->merged.type.id);
	json_kv_uint(&j, "n_profiles", v->merged.n_profiles);
	json_kv_uint(&j, "n_series", v->merged.n_series);
	r = rows ? render_json_rows(&in, q->params.limit, &j) : render_json_members(&in, &j);
	if (r)
		return api_job_too_large(eb);
	json_object_end(&j);
	api_job_reply_json(q, &j, &out);
	return 0;
}

static int render(struct api_job *q, struct api_view *v, struct bytes *out)
{
	const struct render_svg_options icicle = {.root_on_top = true};
	struct render_input in = api_view_input(q, v);

	if ((q->format == API_SVG || q->format == API_HTML) && *v->title)
		in.title = v->title; /* for people */
	switch (q->format) {
	case API_FOLDED: return render_folded(&in, out);
	case API_SPEEDSCOPE: return render_speedscope(&in, out);
	case API_SVG: return render_svg(&in, &icicle, out);
	case API_HTML: return render_html(&in, out);
	case API_DOT: return render_dot(&in, q->params.max_nodes, out);
	case API_CSV: return render_csv(&in, q->params.limit, out);
	case API_PROTOBUF: return render_protobuf(&in, out);
	case API_TEXT: return render_text(&in, q->params.limit, out);
	default: return -ENOTSUP;
	}
}

/* pprof keeps locations, so only `at` and the limit that need functions are refused or applied differently. */
static int render_pprof(struct api_job *q, struct api_view *v, struct bytes *out, struct errbuf *eb)
{
	size_t n = v->merged.n_groups;
	_cleanup_free_ struct tree *limited = xcalloc(n + 1, sizeof(*limited));
	_cleanup_free_ const struct tree **list = xcalloc(n + 1, sizeof(struct tree *));
	int r = 0;

	if (q->params.n_at)
		return err_set(eb, -EINVAL, "at: not with format=pprof; use show_from");
	for (size_t i = 0; i < n; i++) {
		tree_init(&limited[i], q->env.budget);
		list[i] = q->params.max_nodes ? &limited[i] : &v->filtered[i];
		if (!r && q->params.max_nodes)
			r = tree_limit(&v->filtered[i], q->params.max_nodes, &limited[i], eb);
	}
	if (!r)
		r = export_pprof(&v->merged, (const struct tree *const *)list, v->comment,
			q->env.budget, out, eb);
	for (size_t i = 0; i < n; i++)
		tree_done(&limited[i]);
	return r;
}

static void answer(struct api_job *q, bool rows)
{
	_cleanup_api_view_ struct api_view v = {};
	_cleanup_bytes_ struct bytes out = {};
	struct errbuf eb = {};
	int r;

	bytes_init(&out, q->api->o.budget, 0); /* outlives the query's own budget */
	r = q->format == API_PPROF ? merge(q, &v, &eb) : api_view_make(q, &v, &eb);
	if (!r && q->format == API_JSON)
		r = reply_json(q, &v, rows, &eb);
	else if (!r && q->format == API_PPROF)
		r = render_pprof(q, &v, &out, &eb);
	else if (!r)
		r = render(q, &v, &out) < 0 ? api_job_too_large(&eb) : 0;
	if (r)
		api_job_fail(q, r, &eb);
	else if (q->format != API_JSON)
		api_job_reply(q, v.file_name, &out);
}

void api_flamegraph(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};

	if (api_job_begin(&q, r, arg, "flamegraph", API_JSON) == 0)
		answer(&q, false);
}

void api_top(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};

	if (api_job_begin(&q, r, arg, "top", API_JSON) == 0)
		answer(&q, true);
}

void api_profile(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};

	if (api_job_begin(&q, r, arg, "profile", API_PPROF) == 0)
		answer(&q, false);
}
