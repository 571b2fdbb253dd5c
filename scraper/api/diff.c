/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/diff: two selections beside each other. Both merges share one set of symbols, so their trees can be laid over each other.
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "lib/render/render.h"
#include "lib/tree/canon.h"
#include "lib/tree/diff.h"
#include "scraper/api/replicates.h"
#include <string.h>

enum { DEFAULT_ROWS = 1000 };

static const char *const per_names[] = {
	[PER_SECOND] = "second", [PER_CPU_SECOND] = "cpu-second", [PER_RUN] = "run"};

struct side {
	const char *suffix;
	struct url_params url;
	struct api_params params;
	struct api_view view;
	struct tree tree;   /* of functions, without a limit */
	double seconds;	    /* covered, all targets together; 0 unknown */
	double watched;	    /* in which at least one target was; 0 unknown */
	double cpu_seconds; /* the same times the CPUs that were; 0 unknown */
	double scale;
	struct replicates replicates;
};

struct diff {
	struct api_job *q;
	struct side a, b;
	struct tree_symbols symbols;
	bool relative;
	enum replicates_per per;
	bool of_service; /* rates are those of all targets together, not of one in the mean */
	bool replicated; /* replicate= was given */
	struct replicates_spec replicate;
	struct stats_trees stats;
	struct tree_diff laid;
	struct arena arena; /* of the rows */
	struct tree_diff_row *rows;
	size_t n_rows, n_shown;
};

static void side_done(struct side *s)
{
	replicates_done(&s->replicates);
	tree_done(&s->tree);
	api_view_done(&s->view);
	api_params_done(&s->params);
	url_params_done(&s->url);
}

static void diff_done(struct diff *d)
{
	side_done(&d->a);
	side_done(&d->b);
	stats_trees_done(&d->stats);
	replicates_spec_done(&d->replicate);
	tree_diff_done(&d->laid);
	tree_symbols_done(&d->symbols);
	arena_done(&d->arena);
}

/* "query_a" → "query" for side "_a", and so on; what is of the other side is left out. */
static int parse_side(struct diff *d, struct side *s, int64_t now_ns, struct errbuf *eb)
{
	static const char *const names[] = {"query", "start", "end"};
	_cleanup_free_ char *profile_id = xasprintf("profile_id%s", s->suffix);
	const struct url_params *u = http_request_params(d->q->request);
	int r;

	for (size_t i = 0; i < u->n; i++)
		if (!str_ends_with(u->items[i].name, "_a") &&
			!str_ends_with(u->items[i].name, "_b"))
			url_params_add(&s->url, u->items[i].name, u->items[i].value);
		else if (!strcmp(u->items[i].name, profile_id)) /* repeatable */
			url_params_add(&s->url, "profile_id", u->items[i].value);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *name = xasprintf("%s%s", names[i], s->suffix);
		const char *value = url_params_get(u, name);

		if (value)
			url_params_set(&s->url, names[i], value);
	}
	r = api_params_parse(&s->url, now_ns, API_JSON, d->q->api->o.max_nodes, &s->params, eb);
	if (!s->params.identity.by_build)
		s->params.identity.canon |= TREE_CANON_NUMBERS;
	if (!r && s->params.n_group_by)
		r = err_set(eb, -EINVAL, "group_by: not in a difference");
	if (!r)
		r = api_params_one_selector(&s->params, eb);
	return r ? err_prefix(eb, r, "side %s", s->suffix + 1) : 0;
}

static int parse_choices(struct diff *d, struct errbuf *eb)
{
	const struct url_params *u = http_request_params(d->q->request);
	const char *mode = url_params_get(u, "mode"), *per = url_params_get(u, "per");
	const char *replicate = url_params_get(u, "replicate"), *of = url_params_get(u, "of");

	if (mode && strcmp(mode, "relative") != 0 && strcmp(mode, "absolute") != 0)
		return err_set(eb, -EINVAL, "mode: \"%.40s\" is none of relative, absolute", mode);
	d->relative = mode && !strcmp(mode, "relative");
	while (per && strcmp(per, per_names[d->per]) != 0)
		if (++d->per == ARRAY_SIZE(per_names))
			return err_set(eb, -EINVAL,
				"per: \"%.40s\" is none of run, second, cpu-second", per);
	if (of && strcmp(of, "service") != 0 && strcmp(of, "instance") != 0)
		return err_set(eb, -EINVAL, "of: \"%.40s\" is none of instance, service", of);
	d->of_service = of && !strcmp(of, "service");
	if (d->of_service && d->per == PER_CPU_SECOND)
		return err_set(eb, -EINVAL, "of=service: not with per=cpu-second");
	d->replicated = replicate != NULL;
	return replicate ? replicates_parse(replicate, &d->replicate, eb) : 0;
}

static int merge_side(struct diff *d, struct side *s, struct errbuf *eb)
{
	const struct query_trees *m = &s->view.merged;
	int r = api_view_merge(d->q, &s->params, &d->symbols, &s->view, eb);

	tree_init(&s->tree, d->q->env.budget);
	if (!r)
		r = api_view_project(d->q, &s->view, &s->tree, eb);
	/* Without coverage, or with profiles that say no duration: from the first window's begin to the last one's end. */
	s->seconds =
		(double)(m->covered.ns > 0 ? m->covered.ns : m->max_time_ns - m->min_time_ns) / 1e9;
	s->watched = m->watched_ns > 0 ? (double)m->watched_ns / 1e9 : s->seconds;
	s->cpu_seconds = (double)MAX(m->covered.cpu_ns, (int64_t)0) / 1e9;
	if (!r && !d->relative && d->per == PER_CPU_SECOND && m->n_profiles &&
		m->type.kind == STORE_DELTA && !s->cpu_seconds)
		r = err_set(eb, -ENOTSUP,
			"per: how many CPUs all of its targets have is not known (exporters tell "
			"it, other "
			"targets do not); per=second and mode=relative need not know it");
	return r ? err_prefix(eb, r, "side %s", s->suffix + 1) : 0;
}

/* A rate of one side and a sum of the other are not comparable. */
static int check_seconds(const struct diff *d, struct errbuf *eb)
{
	const struct side *unknown = d->a.seconds ? &d->b : &d->a;

	if (d->relative || d->per != PER_SECOND || !d->a.view.merged.n_profiles ||
		!d->b.view.merged.n_profiles || d->a.view.merged.type.kind != STORE_DELTA ||
		!d->a.seconds == !d->b.seconds)
		return 0;
	return err_set(eb, -ENOTSUP,
		"per: which time the profiles of side %s took is not known, that of the other side "
		"is; per=run and mode=relative need not know it",
		unknown->suffix + 1);
}

static double divisor_of(const struct diff *d, const struct side *s)
{
	if (d->relative)
		return (double)s->view.whole;
	if (s->view.merged.type.kind != STORE_DELTA || d->per == PER_RUN)
		return 1;
	if (d->per == PER_CPU_SECOND)
		return s->cpu_seconds;
	return d->of_service ? s->watched : s->seconds;
}

static void choose_scales(struct diff *d)
{
	struct side *const sides[] = {&d->a, &d->b};

	for (int i = 0; i < 2; i++) {
		double divisor = divisor_of(d, sides[i]);

		sides[i]->scale = divisor ? 1 / divisor : 1;
	}
}

/* Fewer than three replicates a side: means and sampling errors, no test. */
static int replicate(struct diff *d, struct errbuf *eb)
{
	struct side *const sides[] = {&d->a, &d->b};
	enum replicates_per per = d->relative				  ? PER_RUN
				  : d->of_service && d->per == PER_SECOND ? PER_WATCHED_SECOND
									  : d->per;
	_cleanup_free_ struct stats_run *runs = NULL;
	struct stats_options opt = STATS_DEFAULTS;
	size_t n[2], at = 0;
	int r = 0;

	for (int i = 0; !r && i < 2; i++) {
		r = replicates_make(d->q, &sides[i]->params, &d->replicate, per, &d->symbols,
			&sides[i]->replicates, eb);
		n[i] = sides[i]->replicates.n;
		if (r)
			return err_prefix(eb, r, "side %s", sides[i]->suffix + 1);
	}
	if (!n[0] || !n[1])
		return 0;
	runs = xcalloc(n[0] + n[1], sizeof(*runs));
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < n[i]; k++)
			runs[at++] = sides[i]->replicates.runs[k];
	if (MIN(n[0], n[1]) < 3)
		opt.method = STATS_NONE;
	return stats_trees_make(
		runs, n[0], n[1], d->relative, &d->symbols, &opt, d->q->env.budget, &d->stats, eb);
}

static size_t node_limit(const struct diff *d)
{
	if (d->b.params.format == API_DOT)
		return 0;
	if (d->b.params.max_nodes ||
		(d->b.params.format != API_JSON && d->b.params.format != API_PROTOBUF))
		return d->b.params.max_nodes;
	return API_DEFAULT_NODES;
}

/* Parameters of both sides, and the parts for both ranges. */
static int prepare(struct diff *d, struct errbuf *eb)
{
	int64_t now_ns = clock_realtime_ns(d->q->api->o.clock);
	int r = parse_choices(d, eb);

	if (!r)
		r = parse_side(d, &d->a, now_ns, eb);
	if (!r)
		r = parse_side(d, &d->b, now_ns, eb);
	return r ? r
		 : api_job_widen(d->q, MIN(d->a.params.start_ns, d->b.params.start_ns),
			   MAX(d->a.params.end_ns, d->b.params.end_ns), eb);
}

static int make(struct diff *d, struct errbuf *eb)
{
	size_t limit;
	int r = merge_side(d, &d->a, eb);

	if (!r)
		r = merge_side(d, &d->b, eb);
	if (!r && strcmp(d->a.view.merged.type.id, d->b.view.merged.type.id) != 0)
		r = err_set(eb, -EINVAL, "the sides are of different profile types, %s and %s",
			d->a.view.merged.type.id, d->b.view.merged.type.id);
	if (!r)
		r = check_seconds(d, eb);
	if (r)
		return r;
	choose_scales(d);
	if (d->replicated)
		r = replicate(d, eb);
	if (!r)
		r = tree_diff_make(
			&d->a.tree, &d->b.tree, node_limit(d), d->q->env.budget, &d->laid, eb);
	if (!r)
		r = tree_diff_top(&d->a.tree, &d->b.tree, &d->symbols, d->a.scale, d->b.scale,
			&d->arena, &d->rows, &d->n_rows, eb);
	limit = d->b.params.limit ? d->b.params.limit : DEFAULT_ROWS;
	d->n_shown = MIN(d->n_rows, limit);
	return r;
}

static struct render_diff render_of(const struct diff *d)
{
	return (struct render_diff) {.in = {.names = d->b.params.names,
					     .tree = &d->laid.shape,
					     .symbols = &d->symbols,
					     .type = d->b.view.merged.type.sample_type,
					     .unit = d->b.view.merged.type.sample_unit,
					     .title = d->b.view.merged.type.id},
		.diff = &d->laid,
		.rows = d->rows,
		.n_rows = d->n_shown,
		.scale_a = d->a.scale,
		.scale_b = d->b.scale,
		.stats = d->stats.n_a ? &d->stats : NULL};
}

static void put_side(const struct side *s, struct json *j)
{
	const struct query_trees *m = &s->view.merged;

	json_key(j, s->suffix + 1);
	json_object_begin(j);
	json_kv_string(j, "query", s->params.query);
	json_kv_double(j, "start", (double)s->params.start_ns / 1e9);
	json_kv_double(j, "end", (double)s->params.end_ns / 1e9);
	json_kv_uint(j, "n_profiles", m->n_profiles);
	json_kv_uint(j, "n_series", m->n_series);
	json_kv_uint(j, "n_targets", m->n_targets);
	json_kv_int(j, "total", s->view.whole);
	json_kv_double(j, "covered_seconds", s->seconds);
	json_kv_double(j, "watched_seconds", s->watched);
	if (s->cpu_seconds > 0)
		json_kv_double(j, "covered_cpu_seconds", s->cpu_seconds);
	json_kv_double(j, "scale", s->scale);
	if (s->replicates.block_ns) {
		json_kv_uint(j, "n_replicates", s->replicates.n);
		json_kv_uint(j, "n_replicates_dropped", s->replicates.n_dropped);
		json_kv_double(j, "replicate_seconds", (double)s->replicates.block_ns / 1e9);
	}
	json_object_end(j);
}

static int reply_json(const struct diff *d, struct errbuf *eb)
{
	struct render_diff shown = render_of(d);
	const struct query_type *type = &d->b.view.merged.type;
	_cleanup_bytes_ struct bytes out = {};
	char rate[UNITS_NAME_MAX];
	struct json j;

	api_rate_unit(type, rate);
	api_job_json_begin(d->q, &out, &j);
	json_object_begin(&j);
	json_kv_string(&j, "profile_type", type->id);
	json_kv_string(&j, "rate_unit", rate);
	json_kv_string(&j, "mode", d->relative ? "relative" : "absolute");
	json_kv_string(&j, "type_kind", type->kind == STORE_INSTANT ? "instant" : "delta");
	json_kv_string(&j, "per", per_names[d->per]);
	json_kv_string(&j, "of", d->of_service ? "service" : "instance");
	put_side(&d->a, &j);
	put_side(&d->b, &j);
	json_kv_uint(&j, "n_rows", d->n_rows);
	if (render_diff_json(&shown, &j) < 0)
		return api_job_too_large(eb);
	json_object_end(&j);
	api_job_reply_json(d->q, &j, &out);
	return 0;
}

static void negate(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		t->self[i] = t->self[i] == INT64_MIN ? INT64_MAX : -t->self[i];
		t->total[i] = t->total[i] == INT64_MIN ? INT64_MAX : -t->total[i];
	}
}

/* As `go tool pprof -diff_base -proto` writes one: the base with negative values and the label that makes it open as a difference. */
static int render_pprof(struct diff *d, struct bytes *out, struct errbuf *eb)
{
	_cleanup_labels_builder_ struct labels_builder base = {};
	struct query_group groups[2] = {};
	const struct tree *const trees[] = {d->a.view.filtered, d->b.view.filtered};
	struct query_trees both = d->b.view.merged;
	_cleanup_free_ char *comment =
		xasprintf("difference of %s against %s", d->b.view.comment, d->a.view.comment);
	int r;

	if (d->b.params.n_at)
		return err_set(eb, -EINVAL, "at: not with format=pprof; use show_from");
	labels_builder_init(&base);
	labels_builder_set(&base, "pprof::base", "true");
	r = labels_builder_finish(&base, &groups[0].labels);
	if (r)
		return err_set(eb, r, "out of memory for the profile");
	negate(d->a.view.filtered);
	both.symbols = d->symbols;
	both.groups = groups;
	both.n_groups = 2;
	r = export_pprof(&both, trees, comment, d->q->env.budget, out, eb);
	labels_done(&groups[0].labels);
	return r;
}

static void multiply(struct stats_row *rows, size_t n, double by)
{
	for (size_t i = 0; i < n; i++) {
		rows[i].mean_a *= by;
		rows[i].mean_b *= by;
		rows[i].se_a *= by;
		rows[i].se_b *= by;
	}
}

/*
 * Pictures show values: B's as they are and A's as they would be over what B covers, whatever the scales are, since rates and shares
 * are no whole numbers of the unit.
 */
static int render_picture(struct diff *d, struct bytes *out)
{
	struct render_diff shown = render_of(d);
	double factor = d->a.scale / d->b.scale;
	_cleanup_free_ char *times = factor == 1 ? xstrdup("") : xasprintf(" (times %.6g)", factor);
	_cleanup_free_ char *head =
		xasprintf("A: %s%s\nB: %s", d->a.view.subtitle, times, d->b.view.subtitle);

	shown.scale_a = factor;
	shown.scale_b = 1;
	if (shown.stats && d->stats.whole.mean_b > 0) {
		/* What the replicates say in the same terms. */
		double by = (double)d->laid.total_b[0] / d->stats.whole.mean_b;

		multiply(d->stats.nodes, d->stats.n_nodes, by);
		multiply(d->stats.functions, 2 * d->stats.n_functions, by);
	}
	if (d->b.params.format == API_HTML)
		return render_diff_html(&shown, &(struct render_diff_page) {.head = head}, out);
	*strchr(head, '\n') = ' ';
	shown.in.subtitle = head;
	return render_diff_svg(&shown, RENDER_WIDTH_BOTH, false, out);
}

static int render(struct diff *d, struct bytes *out, struct errbuf *eb)
{
	struct render_diff shown = render_of(d);
	int r;

	switch (d->b.params.format) {
	case API_PPROF: return render_pprof(d, out, eb);
	case API_FOLDED: r = render_diff_folded(&shown, 1, out); break;
	case API_CSV: r = render_diff_csv(&shown, out); break;
	case API_TEXT: r = render_diff_text(&shown, out); break;
	case API_PROTOBUF: r = render_diff_protobuf(&shown, out); break;
	case API_SPEEDSCOPE: r = render_diff_speedscope(&shown, out); break;
	case API_DOT: r = render_diff_dot(&shown, d->b.params.max_nodes, out); break;
	case API_SVG:
	case API_HTML: r = render_picture(d, out); break;
	default: return -ENOTSUP;
	}
	return r < 0 ? api_job_too_large(eb) : 0;
}

static void answer(struct diff *d)
{
	_cleanup_bytes_ struct bytes out = {};
	struct errbuf eb = {};
	char name[API_FILE_NAME_MAX];
	int r = make(d, &eb);

	bytes_init(&out, d->q->api->o.budget, 0); /* outlives the query's own budget */
	if (!r && d->b.params.format == API_JSON)
		r = reply_json(d, &eb);
	else if (!r)
		r = render(d, &out, &eb);
	if (r)
		api_job_fail(d->q, r, &eb);
	else if (d->b.params.format != API_JSON) {
		snprintf(name, sizeof(name), "diff-%.*s", (int)sizeof(name) - 6,
			d->b.view.file_name);
		api_job_reply(d->q, name, &out);
	}
}

static int share(struct diff *d)
{
	const struct api_params *a = &d->a.params, *b = &d->b.params;
	const int64_t times[] = {a->start_ns, a->end_ns, b->start_ns, b->end_ns};

	return api_job_share(d->q, times, ARRAY_SIZE(times), MAX(a->end_ns, b->end_ns));
}

void api_diff(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_(diff_done)
	struct diff d = {.q = &q, .a = {.suffix = "_a"}, .b = {.suffix = "_b"}};

	struct errbuf eb = {};
	int e = api_job_start(&q, r, arg, "diff", API_JSON, &eb);

	tree_symbols_init(&d.symbols, q.env.budget);
	arena_init(&d.arena, q.env.budget);
	if (!e)
		e = prepare(&d, &eb);
	if (e)
		api_job_fail(&q, e, &eb);
	else if (share(&d) == 0)
		answer(&d);
}
