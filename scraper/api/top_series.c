/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/top_series: values over time of the functions that are largest over the whole range, and of all else together.
 */
#include "lib/net/url/url.h"
#include "lib/render/render.h"
#include "scraper/api/series.h"
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_FUNCTIONS = 10 };

struct top {
	struct api_job *q;
	struct api_view
		view; /* the merge of the whole range, which says which functions are largest */
	struct tree functions;
	struct tree_symbols symbols; /* of the merge and of the lines */
	struct arena arena;
	struct tree_row *rows;
	size_t n_rows, n_shown;
	bool by_self;
	struct query_matrix matrix;
	const struct query_line *lines[TREE_MAX_CHOSEN + 1]; /* per shown function, the rest last */
};

static void top_done(struct top *t)
{
	query_matrix_done(&t->matrix);
	tree_done(&t->functions);
	api_view_done(&t->view);
	tree_symbols_done(&t->symbols);
	arena_done(&t->arena);
}

static int parse_top(struct top *t, struct errbuf *eb)
{
	const char *by = url_params_get(http_request_params(t->q->request), "by");
	const struct api_params *p = &t->q->params;
	int r = series_check(t->q, "top_series", eb);

	t->by_self = !by || !*by || !strcmp(by, "self");
	t->n_shown = p->limit ? p->limit : DEFAULT_FUNCTIONS;
	if (!r && !t->by_self && strcmp(by, "total") != 0)
		r = err_set(eb, -EINVAL, "by: \"%.40s\" is neither self nor total", by);
	if (!r && p->n_group_by)
		r = err_set(eb, -EINVAL, "group_by: not in top_series; select one group");
	if (!r && p->limit > TREE_MAX_CHOSEN)
		r = err_set(eb, -EINVAL, "limit: %zu is above the limit of %d functions", p->limit,
			TREE_MAX_CHOSEN);
	return r;
}

static int by_total(const void *a, const void *b)
{
	const struct tree_row *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* The functions that are largest over the whole range. */
static int find_top(struct top *t, struct errbuf *eb)
{
	int r = api_view_merge(t->q, &t->q->params, &t->symbols, &t->view, eb);

	tree_init(&t->functions, t->q->env.budget);
	if (!r)
		r = api_view_project(t->q, &t->view, &t->functions, eb);
	if (!r)
		r = tree_top(&t->functions, &t->symbols, &t->arena, &t->rows, &t->n_rows, eb);
	if (r)
		return r;
	if (!t->by_self)
		qsort(t->rows, t->n_rows, sizeof(*t->rows), by_total);
	t->n_shown = MIN(t->n_shown, t->n_rows);
	while (t->by_self && t->n_shown && !t->rows[t->n_shown - 1].self)
		t->n_shown--;
	return 0;
}

static int find_lines(struct top *t, struct errbuf *eb)
{
	struct tree_choice choice = series_choice(&t->q->params);
	struct query_spec spec = series_spec(&t->q->params);
	uint32_t frames[TREE_MAX_CHOSEN];
	int r;

	for (size_t i = 0; i < t->n_shown; i++)
		frames[i] = t->rows[i].frame;
	choice.frames = frames;
	choice.n_frames = t->n_shown;
	choice.by_self = t->by_self;
	spec.stacks = &choice;
	spec.symbols = &t->symbols;
	spec.group = true;
	r = series_of(t->q, &spec, eb);
	if (!r)
		r = query_over_time(&t->q->env, &spec, &t->matrix, eb);
	for (size_t i = 0; !r && i < t->matrix.n_lines; i++)
		t->lines[t->matrix.lines[i].function] = &t->matrix.lines[i];
	return r;
}

static void put_function(const struct top *t, size_t i, struct json *j)
{
	const struct tree_row *row = &t->rows[i];
	const struct tree_frame *f = &t->symbols.frames[row->frame];
	const char *mapping = "", *build_id = "";

	if (f->mapping != TREE_NONE) {
		const struct tree_mapping *m = &t->symbols.mappings[f->mapping];

		mapping = tree_symbols_base_name(&t->symbols, m->file);
		build_id = tree_symbols_text(&t->symbols, m->build_id, NULL);
	}
	json_object_begin(j);
	json_key(j, "metric");
	json_object_begin(j);
	json_kv_string(j, "function", tree_symbols_text(&t->symbols, f->name, NULL));
	json_kv_string(j, "file", tree_symbols_text(&t->symbols, f->file, NULL));
	json_kv_string(j, "mapping", mapping);
	if (*build_id)
		json_kv_string(j, "build", build_id);
	json_kv_string(j, "kind", tree_kind_name(f->kind));
	json_object_end(j);
	json_kv_int(j, "self", row->self);
	json_kv_int(j, "total", row->total);
	series_put_values(j, t->lines[i]);
	json_object_end(j);
}

static void top_json(const struct top *t)
{
	_cleanup_bytes_ struct bytes out = {};
	struct json j;

	api_job_json_begin(t->q, &out, &j);
	series_begin(t->q, &t->view.merged.type, &j);
	json_kv_string(&j, "by", t->by_self ? "self" : "total");
	json_kv_int(&j, "total", t->functions.total[0]);
	json_kv_uint(&j, "n_functions", t->n_rows);
	json_key(&j, "result");
	json_array_begin(&j);
	for (size_t i = 0; i < t->n_shown; i++)
		put_function(t, i, &j);
	json_array_end(&j);
	json_key(&j, "rest");
	json_object_begin(&j);
	json_kv_uint(&j, "n_functions", t->n_rows - t->n_shown);
	series_put_values(&j, t->lines[t->n_shown]);
	json_object_end(&j);
	json_object_end(&j);
	api_job_reply_json(t->q, &j, &out);
}

static void top_csv(const struct top *t)
{
	_cleanup_bytes_ struct bytes out = {};

	bytes_init(&out, t->q->api->o.budget, 0);
	bytes_put_str(&out, "function,file,time,value\r\n");
	for (size_t i = 0; i <= t->n_shown; i++) {
		const struct tree_frame *f =
			i < t->n_shown ? &t->symbols.frames[t->rows[i].frame] : NULL;

		for (size_t k = 0; t->lines[i] && k < t->lines[i]->n_points; k++) {
			const struct query_point *p = &t->lines[i]->points[k];

			render_csv_field(
				&out, f ? tree_symbols_text(&t->symbols, f->name, NULL) : "(rest)");
			bytes_put_u8(&out, ',');
			render_csv_field(
				&out, f ? tree_symbols_text(&t->symbols, f->file, NULL) : "");
			series_put_csv_point(&out, p);
		}
	}
	api_job_reply(t->q, "top_series", &out);
}

void api_top_series(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_(top_done)
	struct top t = {.q = &q};
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "top_series", API_JSON) != 0)
		return;
	tree_symbols_init(&t.symbols, q.env.budget);
	arena_init(&t.arena, q.env.budget);
	e = parse_top(&t, &eb);
	if (!e)
		e = find_top(&t, &eb);
	if (!e)
		e = find_lines(&t, &eb);
	if (e)
		api_job_fail(&q, e, &eb);
	else if (q.format == API_CSV)
		top_csv(&t);
	else
		top_json(&t);
}
