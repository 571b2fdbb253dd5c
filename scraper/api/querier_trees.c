/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods that merge stacks: SelectMergeStacktraces, SelectMergeSpanProfile, SelectMergeProfile and Diff.
 */
#include "lib/render/flamebearer.h"
#include "lib/render/render.h"
#include "proto/querier.pb-c.h"
#include "scraper/api/connect.h"
#include <string.h>

enum { MAX_IDS = 100, DOT_NODES = 100, SPAN_DIGITS = 16, TRACE_DIGITS = 32 };

/* What SelectMergeStacktraces, SelectMergeSpanProfile and SelectMergeProfile ask for. */
struct wanted {
	const char *type, *selector;
	int64_t start, end, max_nodes;
	const Types__V1__StackTraceSelector *stacks;
	char *const *spans, *const *traces, *const *profiles;
	size_t n_spans, n_traces, n_profiles;
};

static bool is_hex(const char *s, size_t n)
{
	return strlen(s) == n && strspn(s, "0123456789abcdefABCDEF") == n;
}

/* The rows of these spans or traces: their ids are sample labels. */
static int select_ids(const char *label, char *const *ids, size_t n, size_t digits,
	struct query_selector *into, struct errbuf *eb)
{
	_cleanup_query_selector_ struct query_selector s = {};
	_cleanup_bytes_ struct bytes text = {};
	int r;

	if (!n)
		return 0;
	if (n > MAX_IDS)
		return err_set(eb, -EINVAL, "more than %d values of %s", MAX_IDS, label);
	bytes_printf(&text, "{%s=~\"", label);
	for (size_t i = 0; i < n; i++) {
		if (!is_hex(ids[i], digits))
			return err_set(eb, -EINVAL, "%s \"%.40s\" has not %zu hexadecimal digits",
				label, ids[i], digits);
		bytes_printf(&text, "%s%s", i ? "|" : "", ids[i]);
	}
	bytes_put(&text, "\"}", 3);
	r = query_selector_parse((const char *)text.data, &s, eb);
	return r ? r : querier_and(into, &s, eb);
}

static int refuse(const struct wanted *w, struct errbuf *eb)
{
	if (w->n_spans && w->n_traces)
		return err_set(
			eb, -EINVAL, "span_selector and trace_id_selector exclude each other");
	return 0;
}

static int select_profiles(
	struct connect_call *c, const struct wanted *w, struct querier_merge *m, struct errbuf *eb)
{
	int r = 0;

	if (w->n_profiles > API_MAX_PROFILES)
		return err_set(eb, -EINVAL, "profile_id_selector: more than %d profiles",
			API_MAX_PROFILES);
	m->profiles = CONNECT_ARRAY(c, w->n_profiles, struct query_profile_id);
	for (size_t i = 0; !r && m->profiles && i < w->n_profiles; i++)
		r = query_profile_id_parse(w->profiles[i], &m->profiles[i], eb);
	m->n_profiles = w->n_profiles;
	if (r)
		return err_prefix(eb, r, "profile_id_selector");
	return arena_error(&c->arena, eb);
}

static int prepare(struct connect_call *c, const struct wanted *w, size_t default_nodes,
	struct querier_merge *m, struct errbuf *eb)
{
	const struct api *a = c->q.api;
	int r = refuse(w, eb);

	if (!r)
		r = querier_range(a, w->start, w->end, &m->start_ns, &m->end_ns, eb);
	if (!r)
		r = querier_max_nodes(a, w->max_nodes, default_nodes, &m->max_nodes, eb);
	if (!r)
		r = querier_selector(w->type, w->selector, &m->selector, eb);
	if (!r)
		r = select_ids("span_id", w->spans, w->n_spans, SPAN_DIGITS, &m->selector, eb);
	if (!r)
		r = select_ids("trace_id", w->traces, w->n_traces, TRACE_DIGITS, &m->selector, eb);
	if (!r)
		r = select_profiles(c, w, m, eb);
	if (w->stacks && w->stacks->go_pgo) {
		m->pgo = true;
		m->keep_locations = w->stacks->go_pgo->keep_locations;
		m->aggregate_callees = w->stacks->go_pgo->aggregate_callees;
	}
	return r ? r : querier_call_site(c, w->stacks, &m->call_site, &m->n_call_site, eb);
}

static struct wanted wanted_of(const Querier__V1__SelectMergeStacktracesRequest *in)
{
	return (struct wanted) {.type = in->profile_typeid,
		.selector = in->label_selector,
		.start = in->start,
		.end = in->end,
		.max_nodes = in->max_nodes,
		.stacks = in->stack_trace_selector,
		.spans = in->span_selector,
		.n_spans = in->n_span_selector,
		.traces = in->trace_id_selector,
		.n_traces = in->n_trace_id_selector,
		.profiles = in->profile_id_selector,
		.n_profiles = in->n_profile_id_selector};
}

/* ---- flame graphs ---- */

static Querier__V1__Level **put_levels(struct connect_call *c, const struct flamebearer *f)
{
	Querier__V1__Level **list = CONNECT_ARRAY(c, f->n_levels, Querier__V1__Level *);
	Querier__V1__Level *levels = CONNECT_ARRAY(c, f->n_levels, Querier__V1__Level);

	for (size_t i = 0; list && levels && i < f->n_levels; i++) {
		querier__v1__level__init(&levels[i]);
		levels[i].values = f->levels[i].values;
		levels[i].n_values = f->levels[i].n;
		list[i] = &levels[i];
	}
	return list;
}

/* Names as the messages have them; they belong to the symbols and are only read. */
static char **put_names(struct connect_call *c, const struct flamebearer *f)
{
	char **names = CONNECT_ARRAY(c, f->n_names, char *);

	for (size_t i = 0; names && i < f->n_names; i++)
		names[i] = connect_text(c, f->names[i]);
	return names;
}

static Querier__V1__FlameGraph *put_graph(struct connect_call *c, const struct flamebearer *f)
{
	Querier__V1__FlameGraph *out = CONNECT_NEW(c, Querier__V1__FlameGraph);

	if (!out)
		return NULL;
	querier__v1__flame_graph__init(out);
	out->names = put_names(c, f);
	out->n_names = f->n_names;
	out->levels = put_levels(c, f);
	out->n_levels = f->n_levels;
	out->total = f->total;
	out->max_self = f->max_self;
	return out;
}

static int merge_graph(struct connect_call *c, const struct wanted *w,
	Querier__V1__FlameGraph **ret, struct errbuf *eb)
{
	_cleanup_querier_merge_ struct querier_merge m = {};
	struct flamebearer_side side = {&m.functions, &m.trees.symbols};
	struct flamebearer f = {};
	int r = prepare(c, w, API_DEFAULT_NODES, &m, eb);

	if (!r)
		r = querier_merge_run(&c->q, &m, true, eb);
	if (!r)
		r = flamebearer_single(&side, m.max_nodes, &c->arena, &f, eb);
	if (r)
		return r;
	*ret = put_graph(c, &f);
	return arena_error(&c->arena, eb);
}

static int merge_dot(struct connect_call *c, const struct wanted *w, char **ret, struct errbuf *eb)
{
	_cleanup_querier_merge_ struct querier_merge m = {};
	_cleanup_bytes_ struct bytes text = {};
	struct render_input in = {.tree = &m.functions, .symbols = &m.trees.symbols};
	int r = prepare(c, w, DOT_NODES, &m, eb);

	bytes_init(&text, c->q.env.budget, 0);
	if (!r)
		r = querier_merge_run(&c->q, &m, true, eb);
	if (r)
		return r;
	in.type = m.trees.type.sample_type;
	in.unit = m.trees.type.sample_unit;
	if (render_dot(&in, m.max_nodes, &text) < 0)
		return api_job_too_large(eb);
	*ret = arena_strndup(&c->arena, (const char *)text.data, text.len);
	return arena_error(&c->arena, eb);
}

/* With a limit, what it cut is a function of its own at the end of its stacks, so that totals stay. */
static int limit_trees(struct connect_call *c, struct querier_merge *m, struct errbuf *eb)
{
	struct tree limited, *t = &m->trees.groups[0].tree;
	int r;

	if (!m->max_nodes)
		return 0;
	tree_init(&limited, c->q.env.budget);
	r = tree_limit(t, m->max_nodes, &limited, eb);
	if (!r) {
		tree_done(t);
		*t = limited;
		return 0;
	}
	tree_done(&limited);
	return r;
}

static int merge_profile(
	struct connect_call *c, const struct wanted *w, struct bytes *out, struct errbuf *eb)
{
	_cleanup_querier_merge_ struct querier_merge m = {};
	const struct tree *tree;
	int r = prepare(c, w, 0, &m, eb);

	if (!r)
		r = querier_merge_run(&c->q, &m, false, eb);
	if (!r)
		r = limit_trees(c, &m, eb);
	if (r)
		return r;
	tree = &m.trees.groups[0].tree;
	return export_encode(&m.trees, &tree, w->selector, c->q.env.budget, out, eb);
}

/* The same as SelectMergeProfile answers, inside this method's message. */
static int merge_pprof(struct connect_call *c, const struct wanted *w,
	Querier__V1__PprofProfile **ret, struct errbuf *eb)
{
	Querier__V1__PprofProfile *out = CONNECT_NEW(c, Querier__V1__PprofProfile);
	_cleanup_bytes_ struct bytes encoded = {};
	int r;

	bytes_init(&encoded, c->q.env.budget, 0);
	r = merge_profile(c, w, &encoded, eb);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	querier__v1__pprof_profile__init(out);
	out->profile = pprof__profile__unpack(&c->in_arena, encoded.len, encoded.data);
	*ret = out;
	r = arena_error(&c->arena, eb);
	return r || out->profile ? r : api_job_too_large(eb);
}

static int refuse_format(Querier__V1__ProfileFormat f, struct errbuf *eb)
{
	return err_set(eb, -ENOTSUP,
		"format: %s is not implemented; ask for a flame graph, or for SelectMergeProfile",
		f == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE ? "Pyroscope's own tree"
								      : "this format");
}

int querier_stacktraces(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__SelectMergeStacktracesRequest *in = (const void *)request;
	Querier__V1__SelectMergeStacktracesResponse *out =
		CONNECT_NEW(c, Querier__V1__SelectMergeStacktracesResponse);
	struct wanted w = wanted_of(in);
	int r;

	if (!out)
		return arena_error(&c->arena, eb);
	querier__v1__select_merge_stacktraces_response__init(out);
	switch (in->format) {
	case QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_UNSPECIFIED:
	case QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH:
		r = merge_graph(c, &w, &out->flamegraph, eb);
		break;
	case QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT:
		r = merge_dot(c, &w, &out->dot, eb);
		break;
	case QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF:
		r = merge_pprof(c, &w, &out->pprof, eb);
		break;
	default: r = refuse_format(in->format, eb);
	}
	return r ? r : connect_answer(c, &out->base, eb);
}

int querier_span_profile(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__SelectMergeSpanProfileRequest *in = (const void *)request;
	Querier__V1__SelectMergeSpanProfileResponse *out =
		CONNECT_NEW(c, Querier__V1__SelectMergeSpanProfileResponse);
	struct wanted w = {.type = in->profile_typeid,
		.selector = in->label_selector,
		.start = in->start,
		.end = in->end,
		.max_nodes = in->max_nodes,
		.spans = in->span_selector,
		.n_spans = in->n_span_selector};
	int r;

	if (!out)
		return arena_error(&c->arena, eb);
	querier__v1__select_merge_span_profile_response__init(out);
	if (in->format != QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_UNSPECIFIED &&
		in->format != QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH)
		return refuse_format(in->format, eb);
	if (!w.n_spans)
		return err_set(eb, -EINVAL, "span_selector: missing");
	r = merge_graph(c, &w, &out->flamegraph, eb);
	return r ? r : connect_answer(c, &out->base, eb);
}

/* ---- diff ---- */

static int run_side(struct connect_call *c, const Querier__V1__SelectMergeStacktracesRequest *in,
	const char *name, struct querier_merge *m, struct errbuf *eb)
{
	struct wanted w;
	int r;

	if (!in)
		return err_set(eb, -EINVAL, "%s: missing", name);
	w = wanted_of(in);
	r = prepare(c, &w, API_DEFAULT_NODES, m, eb);
	return r ? err_prefix(eb, r, "%s", name) : 0;
}

int querier_diff(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__DiffRequest *in = (const void *)request;
	_cleanup_querier_merge_ struct querier_merge left = {.compares = true};
	_cleanup_querier_merge_ struct querier_merge right = {.compares = true};
	struct flamebearer_side a = {&left.functions, &left.trees.symbols};
	struct flamebearer_side b = {&right.functions, &right.trees.symbols};
	Querier__V1__DiffResponse *out = CONNECT_NEW(c, Querier__V1__DiffResponse);
	Querier__V1__FlameGraphDiff *g = CONNECT_NEW(c, Querier__V1__FlameGraphDiff);
	struct flamebearer f = {};
	int r = run_side(c, in->left, "left", &left, eb);

	if (!r)
		r = run_side(c, in->right, "right", &right, eb);
	/* Parts are taken once: of the earlier range. */
	if (!r)
		r = api_job_take(&c->q, MIN(left.start_ns, right.start_ns),
			MAX(left.end_ns, right.end_ns), eb);
	if (!r)
		r = querier_merge_run(&c->q, &left, true, eb);
	if (!r)
		r = querier_merge_run(&c->q, &right, true, eb);
	if (!r)
		r = flamebearer_double(
			&a, &b, MAX(left.max_nodes, right.max_nodes), &c->arena, &f, eb);
	if (r || !out || !g)
		return r ? r : arena_error(&c->arena, eb);
	querier__v1__diff_response__init(out);
	querier__v1__flame_graph_diff__init(g);
	g->names = put_names(c, &f);
	g->n_names = f.n_names;
	g->levels = put_levels(c, &f);
	g->n_levels = f.n_levels;
	g->total = f.total;
	g->max_self = f.max_self;
	g->leftticks = f.left_ticks;
	g->rightticks = f.right_ticks;
	out->flamegraph = g;
	return connect_answer(c, &out->base, eb);
}

/* ---- pprof ---- */

int querier_profile(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__SelectMergeProfileRequest *in = (const void *)request;
	struct wanted w = {.type = in->profile_typeid,
		.selector = in->label_selector,
		.start = in->start,
		.end = in->end,
		.max_nodes = in->max_nodes,
		.stacks = in->stack_trace_selector,
		.traces = in->trace_id_selector,
		.n_traces = in->n_trace_id_selector,
		.profiles = in->profile_id_selector,
		.n_profiles = in->n_profile_id_selector};

	c->encoded_as = &pprof__profile__descriptor;
	return merge_profile(c, &w, &c->encoded, eb);
}
