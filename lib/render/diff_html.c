/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference as a page that opens from disk; without script a picture and the tables.
 */
#include "lib/json/write.h"
#include "lib/render/page.h"
#include "lib/stats/rank.h"
#include "lib/stats/trees.h"
#include "lib/tree/diff.h"
#include <math.h>

static void put_table(const struct render_diff *d, bool by_self, struct bytes *out, int *r)
{
	_cleanup_bytes_ struct bytes text = {};

	bytes_init(&text, out->budget, 0);
	if (!*r)
		*r = d->stats ? render_diff_table(d, by_self, false, &text)
			      : render_diff_text(d, &text);
	bytes_put_str(out, "<pre>");
	render_escape(out, (const char *)text.data, text.len);
	bytes_put_str(out, "</pre>\n");
}

static int put_plain(
	const struct render_diff *d, const struct render_diff_page *page, struct bytes *out)
{
	int r;

	bytes_put_str(out, "<pre>");
	render_escape_str(out, page->head ? page->head : "");
	bytes_put_str(out, "</pre>\n");
	r = render_diff_svg(d, RENDER_WIDTH_BOTH, page->panels, out);
	put_table(d, true, out, &r);
	if (d->stats)
		put_table(d, false, out, &r);
	return r;
}

/* Where the profiles of a side's runs lie. */
static void put_files(const struct render_diff_page *page, bool is_a, struct json *j)
{
	size_t to = is_a ? page->n_files_a : page->n_files;

	json_key(j, "files");
	json_array_begin(j);
	for (size_t i = is_a ? 0 : page->n_files_a; i < to; i++)
		json_string(j, page->files[i] ? page->files[i] : "");
	json_array_end(j);
}

/* As /api/v1/quality has it. */
static void put_quality(const struct render_quality *q, struct json *j)
{
	json_key(j, "quality");
	json_object_begin(j);
	if (!isnan(q->cut))
		json_kv_double(j, "cut", q->cut);
	if (!isnan(q->lost))
		json_kv_double(j, "lost", q->lost);
	if (!isnan(q->hz)) {
		json_key(j, "frequency_hz");
		json_object_begin(j);
		json_kv_double(j, "least", q->hz);
		json_kv_double(j, "most", q->hz);
		json_object_end(j);
	}
	json_object_end(j);
}

static void put_side(
	const struct render_diff *d, const struct render_diff_page *page, bool is_a, struct json *j)
{
	const char *label = is_a ? d->label_a : d->label_b;

	json_key(j, is_a ? "a" : "b");
	json_object_begin(j);
	json_kv_string(j, "label", label ? label : is_a ? "A" : "B");
	json_kv_double(j, "scale", is_a ? d->scale_a : d->scale_b);
	if (d->stats)
		json_kv_uint(j, "n", is_a ? d->stats->n_a : d->stats->n_b);
	if (page->quality)
		put_quality(&page->quality[!is_a], j);
	put_files(page, is_a, j);
	json_object_end(j);
}

static void put_number(struct json *j, double v)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%.3g", v);

	if (isfinite(v))
		json_raw(j, text, (size_t)n);
	else
		json_null(j);
}

/* verdict, q, the interval of the change, the change that could be seen. */
static void put_tested(const struct stats_row *row, struct json *j)
{
	json_array_begin(j);
	json_string(j, stats_verdict_name(row ? row->verdict : STATS_FEW));
	put_number(j, row ? row->q : NAN);
	put_number(j, row ? row->low - 1 : NAN);
	put_number(j, row ? row->high - 1 : NAN);
	put_number(j, row ? row->min_effect : NAN);
	json_array_end(j);
}

static void put_text(struct json *j, const struct tree_symbols *s, uint32_t id)
{
	size_t n;
	const char *text = tree_symbols_text(s, id, &n);

	json_string_n(j, text, n);
}

/* Arrays: function, mapping, self of A and of B, total of A and of B, mark, and with replicates what they say of self and of total. */
static void put_rows(const struct render_diff *d, struct json *j)
{
	const struct tree_symbols *s = d->in.symbols;

	json_key(j, "rows");
	json_array_begin(j);
	for (size_t i = 0; i < d->n_rows; i++) {
		const struct tree_diff_row *r = &d->rows[i];
		enum tree_mark mark = tree_mark_of(r->total_a, r->total_b, d->scale_a, d->scale_b);

		json_array_begin(j);
		put_text(j, s, s->frames[r->frame].name);
		json_string(j, render_mapping_name(&d->in, r->frame));
		json_int(j, r->self_a);
		json_int(j, r->self_b);
		json_int(j, r->total_a);
		json_int(j, r->total_b);
		json_string(j, tree_mark_name(mark));
		if (d->stats) {
			put_tested(stats_self(d->stats, r->frame), j);
			put_tested(stats_total(d->stats, r->frame), j);
		}
		json_array_end(j);
	}
	json_array_end(j);
}

static void put_list(const double *v, size_t n, struct json *j)
{
	json_array_begin(j);
	for (size_t i = 0; i < n; i++)
		json_double(j, v[i]);
	json_array_end(j);
}

static void put_values(const char *key, const double *v, size_t n, struct json *j)
{
	json_key(j, key);
	put_list(v, n, j);
}

/* With the p of each, so that the page's charts colour what the summary calls a change and nothing else. */
static int put_metrics(const struct render_diff_page *page, struct json *j)
{
	json_key(j, "metrics");
	json_array_begin(j);
	for (size_t i = 0; i < page->n_metrics; i++) {
		const struct render_metric *m = &page->metrics[i];
		double p;
		int r = rank_mann_whitney(m->a, m->n_a, m->b, m->n_b, &p);

		if (r)
			return r;
		json_object_begin(j);
		json_kv_string(j, "name", m->name);
		json_kv_string(j, "unit", m->unit);
		put_values("a", m->a, m->n_a, j);
		put_values("b", m->b, m->n_b, j);
		json_key(j, "p");
		put_number(j, p);
		json_object_end(j);
	}
	json_array_end(j);
	return 0;
}

static void put_points(
	const struct render_over_time *o, const char *key, size_t from, size_t to, struct json *j)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = from; i < to; i++) {
		const struct render_run_points *p = &o->runs[i];

		json_object_begin(j);
		put_values("seconds", p->seconds, p->n, j);
		put_values("progress", p->progress, p->n, j);
		json_key(j, "values");
		json_array_begin(j);
		for (size_t m = 0; m < o->n_metrics; m++)
			put_list(p->values[m], p->n, j);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

void render_over_time_json(const struct render_over_time *o, struct json *j)
{
	json_key(j, "over_time");
	json_object_begin(j);
	json_key(j, "metrics");
	json_array_begin(j);
	for (size_t m = 0; m < o->n_metrics; m++) {
		json_object_begin(j);
		json_kv_string(j, "name", o->names[m]);
		json_kv_string(j, "unit", o->units[m]);
		json_object_end(j);
	}
	json_array_end(j);
	put_points(o, "a", 0, o->n_a, j);
	put_points(o, "b", o->n_a, o->n_a + o->n_b, j);
	json_object_end(j);
}

int render_diff_html(
	const struct render_diff *d, const struct render_diff_page *page, struct bytes *out)
{
	_cleanup_render_page_ struct render_page p = {};
	struct json j;
	int r;

	render_page_init(&p, &d->in, "diff", out->budget, &j);
	json_kv_string(&j, "head", page->head ? page->head : "");
	json_kv_bool(&j, "panels", page->panels);
	put_side(d, page, true, &j);
	put_side(d, page, false, &j);
	put_rows(d, &j);
	r = put_metrics(page, &j);
	if (page->over_time)
		render_over_time_json(page->over_time, &j);
	json_object_end(&j);
	if (!r)
		r = render_diff_protobuf(d, &p.tree);
	render_page_begin(out, d->in.title ? d->in.title : "Difference", &p);
	if (!r)
		r = put_plain(d, page, out);
	render_page_end(out);
	return r ? r : bytes_error(out);
}
