/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences as JSON, folded stacks with two columns, CSV and text.
 */
#include "lib/tree/diff.h"
#include "lib/base/alloc.h"
#include "lib/base/table.h"
#include "lib/json/write.h"
#include "lib/render/render_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_text(struct json *j, const char *key, const struct tree_symbols *s, uint32_t id)
{
	size_t len;
	const char *text = tree_symbols_text(s, id, &len);

	json_key(j, key);
	json_string_n(j, text, len);
}

static const char *mark_of(const struct render_diff *d, int64_t a, int64_t b)
{
	return tree_mark_name(tree_mark_of(a, b, d->scale_a, d->scale_b));
}

static void put_rows(const struct render_diff *d, struct json *j)
{
	const struct tree_symbols *s = d->in.symbols;

	json_key(j, "rows");
	json_array_begin(j);
	for (size_t i = 0; i < d->n_rows; i++) {
		const struct tree_diff_row *r = &d->rows[i];
		const struct tree_frame *f = &s->frames[r->frame];

		json_object_begin(j);
		put_text(j, "function", s, f->name);
		put_text(j, "file", s, f->file);
		json_kv_string(j, "mapping", render_mapping_name(&d->in, r->frame));
		if (*render_build_id(&d->in, r->frame))
			json_kv_string(j, "build", render_build_id(&d->in, r->frame));
		json_kv_string(j, "kind", tree_kind_name(f->kind));
		json_kv_int(j, "self_a", r->self_a);
		json_kv_int(j, "self_b", r->self_b);
		json_kv_int(j, "total_a", r->total_a);
		json_kv_int(j, "total_b", r->total_b);
		json_kv_double(j, "delta_self", r->delta_self);
		json_kv_double(j, "delta_total", r->delta_total);
		json_kv_string(j, "mark", mark_of(d, r->total_a, r->total_b));
		render_diff_json_row(d, r->frame, j);
		json_object_end(j);
	}
	json_array_end(j);
}

static int put_marks(const struct render_diff *d, struct json *j)
{
	const struct tree_diff *t = d->diff;
	_cleanup_free_ uint32_t *marks = try_realloc(NULL, t->shape.n, sizeof(*marks));

	if (!marks)
		return -ENOMEM;
	for (size_t i = 0; i < t->shape.n; i++)
		marks[i] = tree_mark_of(t->total_a[i], t->total_b[i], d->scale_a, d->scale_b);
	render_json_array(j, "mark", &t->shape, NULL, marks);
	json_key(j, "marks");
	json_array_begin(j);
	for (int m = 0; m < TREE_N_MARKS; m++)
		json_string(j, tree_mark_name((enum tree_mark)m));
	json_array_end(j);
	return 0;
}

int render_diff_json(const struct render_diff *d, struct json *j)
{
	_cleanup_(render_used_done)
	struct render_used u = {};
	const struct tree *t = d->in.tree;
	int r = render_find_used(&d->in, &u);

	if (r)
		return r;
	json_kv_string(j, "type", d->in.type ? d->in.type : "");
	json_kv_string(j, "unit", render_unit(&d->in));
	r = render_json_functions(&d->in, &u, j);
	if (r)
		return r;
	render_json_array(j, "parent", t, NULL, t->parent);
	render_json_array(j, "self_a", t, d->diff->self_a, NULL);
	render_json_array(j, "self_b", t, d->diff->self_b, NULL);
	render_json_array(j, "total_a", t, d->diff->total_a, NULL);
	render_json_array(j, "total_b", t, d->diff->total_b, NULL);
	render_json_derived(&d->in, &u, j);
	json_key(j, "kinds");
	json_array_begin(j);
	for (int k = 0; k < TREE_N_KINDS; k++)
		json_string(j, tree_kind_name((enum tree_kind)k));
	json_array_end(j);
	r = put_marks(d, j);
	if (!r)
		r = render_diff_json_stats(d, j);
	put_rows(d, j);
	return r ? r : bytes_error(j->out);
}

/* Exact for 1, which doubles are not for all values. */
static int64_t times(int64_t v, double factor)
{
	return factor == 1 ? v : llround((double)v * factor);
}

int render_diff_folded(const struct render_diff *d, double factor_a, struct bytes *out)
{
	const struct tree *t = d->in.tree;
	_cleanup_bytes_ struct bytes path = {};
	_cleanup_free_ size_t *path_len = try_realloc(NULL, t->n, sizeof(*path_len));
	char scratch[64];
	size_t len;

	if (!path_len)
		return -ENOMEM;
	bytes_init(&path, out->budget, 0);
	path_len[0] = 0;
	for (size_t i = 1; i < t->n && !path.error && !out->error; i++) {
		const char *name = render_node_name(&d->in, i, scratch, &len);
		int64_t a = times(d->diff->self_a[i], factor_a), b = d->diff->self_b[i];

		path.len = path_len[t->parent[i]];
		if (path.len)
			bytes_put_u8(&path, ';');
		render_put_folded(&path, name, len);
		path_len[i] = path.len;
		if (!a && !b)
			continue;
		bytes_put(out, path.data, path.len);
		bytes_printf(out, " %" PRId64 " %" PRId64 "\n", a, b);
	}
	return path.error ? path.error : bytes_error(out);
}

int render_diff_csv(const struct render_diff *d, struct bytes *out)
{
	const struct tree_symbols *s = d->in.symbols;

	bytes_put_str(out,
		"function,file,mapping,build,self_a,self_b,total_a,total_b,delta_self,delta_"
		"total,mark");
	render_diff_csv_row(d, TREE_NONE, out);
	bytes_put_str(out, "\r\n");
	for (size_t i = 0; i < d->n_rows; i++) {
		const struct tree_diff_row *r = &d->rows[i];

		render_csv_field(out, tree_symbols_text(s, s->frames[r->frame].name, NULL));
		bytes_put_u8(out, ',');
		render_csv_field(out, tree_symbols_text(s, s->frames[r->frame].file, NULL));
		bytes_put_u8(out, ',');
		render_csv_field(out, render_mapping_name(&d->in, r->frame));
		bytes_put_u8(out, ',');
		render_csv_field(out, render_build_id(&d->in, r->frame));
		bytes_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%.17g,%.17g,%s",
			r->self_a, r->self_b, r->total_a, r->total_b, r->delta_self, r->delta_total,
			mark_of(d, r->total_a, r->total_b));
		render_diff_csv_row(d, r->frame, out);
		bytes_put_str(out, "\r\n");
	}
	return bytes_error(out);
}

/* Of B over A, "new" and "gone" where one side has none. */
static void put_change(const struct render_diff *d, int64_t a, int64_t b, struct bytes *out)
{
	double x = (double)a * d->scale_a, y = (double)b * d->scale_b;
	enum tree_mark m = tree_mark_of(a, b, d->scale_a, d->scale_b);

	if (m == TREE_NEW || m == TREE_GONE)
		bytes_printf(out, " %9s", tree_mark_name(m));
	else
		bytes_printf(out, " %+8.1f%%", a ? 100 * (y - x) / fabs(x) : 0.0);
}

int render_diff_text(const struct render_diff *d, struct bytes *out)
{
	_cleanup_table_ struct table names = {};
	char a[64], b[64];

	table_init(&names, out->budget);
	if (render_diff_count_names(d, &names) < 0)
		return -ENOMEM;
	bytes_printf(out, "Type: %s\n", d->in.type ? d->in.type : "");
	bytes_printf(out, "%10s %10s %9s %10s %10s %9s\n", "flat A", "flat B", "flat +-", "cum A",
		"cum B", "cum +-");
	for (size_t i = 0; i < d->n_rows; i++) {
		const struct tree_diff_row *r = &d->rows[i];

		render_value(r->self_a, render_unit(&d->in), a);
		render_value(r->self_b, render_unit(&d->in), b);
		bytes_printf(out, "%10s %10s", a, b);
		put_change(d, r->self_a, r->self_b, out);
		render_value(r->total_a, render_unit(&d->in), a);
		render_value(r->total_b, render_unit(&d->in), b);
		bytes_printf(out, " %10s %10s", a, b);
		put_change(d, r->total_a, r->total_b, out);
		bytes_put_str(out, "  ");
		if (render_diff_put_name(d, r->frame, &names, out) < 0)
			return -ENOMEM;
		bytes_put_u8(out, '\n');
	}
	return bytes_error(out);
}
