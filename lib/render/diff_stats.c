/* SPDX-License-Identifier: Apache-2.0
 *
 * What replicates say about a difference, in its JSON, CSV and tables.
 */
#include "lib/stats/trees.h"
#include "lib/base/alloc.h"
#include "lib/base/table.h"
#include "lib/base/units.h"
#include "lib/json/write.h"
#include "lib/render/render_internal.h"
#include "lib/tree/diff.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *verdict_of(const struct stats_row *row)
{
	return stats_verdict_name(row ? row->verdict : STATS_FEW);
}

static void put_number(struct json *j, const char *prefix, const char *key, double v)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%s", prefix, key);
	json_kv_double(j, name, v);
}

static void put_row(struct json *j, const char *prefix, const struct stats_row *row)
{
	char name[32];

	put_number(j, prefix, "effect", row ? row->ratio - 1 : NAN);
	put_number(j, prefix, "effect_low", row ? row->low - 1 : NAN);
	put_number(j, prefix, "effect_high", row ? row->high - 1 : NAN);
	put_number(j, prefix, "q", row ? row->q : NAN);
	put_number(j, prefix, "min_effect", row ? row->min_effect : NAN);
	snprintf(name, sizeof(name), "%sverdict", prefix);
	json_kv_string(j, name, verdict_of(row));
}

void render_diff_json_row(const struct render_diff *d, uint32_t frame, struct json *j)
{
	if (!d->stats)
		return;
	put_row(j, "self_", stats_self(d->stats, frame));
	put_row(j, "total_", stats_total(d->stats, frame));
}

static int put_nodes(const struct render_diff *d, struct json *j)
{
	const struct tree *t = d->in.tree;
	_cleanup_free_ uint32_t *row = try_realloc(NULL, t->n, sizeof(*row));

	if (!row)
		return -ENOMEM;
	stats_locate(d->stats, t, row);
	json_key(j, "q");
	json_array_begin(j);
	for (size_t i = 0; i < t->n; i++)
		json_double(j, row[i] == TREE_NONE ? NAN : d->stats->nodes[row[i]].q);
	json_array_end(j);
	for (size_t i = 0; i < t->n; i++)
		row[i] = row[i] == TREE_NONE ? STATS_FEW : d->stats->nodes[row[i]].verdict;
	render_json_array(j, "verdict", t, NULL, row);
	return 0;
}

int render_diff_json_stats(const struct render_diff *d, struct json *j)
{
	const struct stats_trees *s = d->stats;
	int r;

	if (!s)
		return 0;
	r = put_nodes(d, j);
	json_key(j, "verdicts");
	json_array_begin(j);
	for (int v = 0; v < STATS_N_VERDICTS; v++)
		json_string(j, stats_verdict_name((enum stats_verdict)v));
	json_array_end(j);
	json_key(j, "statistics");
	json_object_begin(j);
	json_kv_uint(j, "n_a", s->n_a);
	json_kv_uint(j, "n_b", s->n_b);
	json_kv_string(j, "method", stats_method_name(s->options.method));
	json_kv_double(j, "alpha", s->options.alpha);
	json_kv_double(j, "smallest_effect", s->options.min_effect);
	json_kv_double(j, "min_samples", s->options.min_samples);
	json_kv_double(j, "cv", sqrt(s->model.delta));
	put_number(j, "", "mean_a", s->whole.mean_a);
	put_number(j, "", "mean_b", s->whole.mean_b);
	put_row(j, "", &s->whole);
	json_object_end(j);
	return r;
}

static void put_csv_numbers(const struct stats_row *row, struct bytes *out)
{
	const double v[] = {row ? row->ratio - 1 : NAN, row ? row->low - 1 : NAN,
		row ? row->high - 1 : NAN, row ? row->q : NAN, row ? row->min_effect : NAN};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		if (isfinite(v[i]))
			bytes_printf(out, ",%.6g", v[i]);
		else
			bytes_put_u8(out, ',');
	bytes_printf(out, ",%s", verdict_of(row));
}

void render_diff_csv_row(const struct render_diff *d, uint32_t frame, struct bytes *out)
{
	if (!d->stats)
		return;
	if (frame == TREE_NONE) {
		bytes_put_str(out, ",self_effect,self_effect_low,self_effect_high,self_q,self_min_"
				   "effect,self_verdict,total_effect,total_effect_low,total_effect_"
				   "high,total_q,total_min_effect,total_verdict");
		return;
	}
	put_csv_numbers(stats_self(d->stats, frame), out);
	put_csv_numbers(stats_total(d->stats, frame), out);
}

/* ---- tables ---- */

struct line {
	const struct tree_diff_row *row;
	const struct stats_row *stats; /* NULL: too few samples */
	double a, b;
};

/* What was called comes first, then by the size of the change. */
static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	bool cx = x->stats && stats_is_significant(x->stats->verdict),
	     cy = y->stats && stats_is_significant(y->stats->verdict);
	double dx = fabs(x->b - x->a), dy = fabs(y->b - y->a);

	if (cx != cy)
		return cx ? -1 : 1;
	if (dx != dy)
		return dx < dy ? 1 : -1;
	return (x->row > y->row) - (x->row < y->row);
}

static struct line *make_lines(const struct render_diff *d, bool by_self)
{
	struct line *lines = try_realloc(NULL, d->n_rows + 1, sizeof(*lines));

	for (size_t i = 0; lines && i < d->n_rows; i++) {
		const struct tree_diff_row *r = &d->rows[i];

		lines[i] = (struct line) {.row = r,
			.stats = by_self ? stats_self(d->stats, r->frame)
					 : stats_total(d->stats, r->frame),
			.a = (double)(by_self ? r->self_a : r->total_a) * d->scale_a,
			.b = (double)(by_self ? r->self_b : r->total_b) * d->scale_b};
	}
	if (lines)
		qsort(lines, d->n_rows, sizeof(*lines), compare_lines);
	return lines;
}

static void put_percent(double ratio, char ret[24])
{
	if (isfinite(ratio))
		snprintf(ret, 24, "%+.1f %%", 100 * (ratio - 1));
	else
		snprintf(ret, 24, "%s", "");
}

int render_diff_count_names(const struct render_diff *d, struct table *ret)
{
	int r = 0;

	for (size_t i = 0; !r && i < d->n_rows; i++)
		r = render_count_name(&d->in, d->rows[i].frame, ret);
	return r;
}

int render_diff_put_name(
	const struct render_diff *d, uint32_t frame, const struct table *names, struct bytes *out)
{
	_cleanup_arena_ struct arena arena = {};
	const char *build = render_build_id(&d->in, frame), *shown;
	size_t len;

	arena_init(&arena, out->budget);
	shown = render_shown_name(&d->in, frame, &arena, &len);
	if (!shown)
		return -ENOMEM;
	render_put_line(out, shown);
	if (*table_find(names, d->in.symbols->frames[frame].name) < 2 || !*build)
		return 0;
	bytes_put_str(out, " [");
	render_put_line(out, render_mapping_name(&d->in, frame));
	bytes_printf(out, "] %.*s", RENDER_BUILD_DIGITS, build);
	return 0;
}

static int put_line(const struct render_diff *d, const struct line *l, const struct table *names,
	bool markdown, struct bytes *out)
{
	const struct stats_row *st = l->stats;
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX], change[24], low[24] = "", high[24] = "",
							       q[24] = "", least[24] = "";

	units_text(l->a, render_unit(&d->in), a);
	units_text(l->b, render_unit(&d->in), b);
	put_percent(l->b / l->a, change);
	if (st) {
		put_percent(st->low, low);
		put_percent(st->high, high);
		if (!isnan(st->q))
			snprintf(q, sizeof(q), st->q < 1e-3 ? "%.1e" : "%.3f", st->q);
		if (isfinite(st->min_effect))
			snprintf(least, sizeof(least), "%.0f %%", 100 * st->min_effect);
	}
	bytes_printf(out,
		markdown ? "| %s | %s | %s | %s%s%s | %s | %s | %s | `"
			 : "%10s %10s %10s %10s%s%-10s %8s %6s %-8s ",
		a, b, change, low, *low ? " .. " : "    ", high, q, least, verdict_of(st));
	if (render_diff_put_name(d, l->row->frame, names, out) < 0)
		return -ENOMEM;
	bytes_put_str(out, markdown ? "` |\n" : "\n");
	return 0;
}

int render_diff_table(const struct render_diff *d, bool by_self, bool markdown, struct bytes *out)
{
	_cleanup_free_ struct line *lines = make_lines(d, by_self);
	_cleanup_table_ struct table names = {};
	const char *a = d->label_a ? d->label_a : "A", *b = d->label_b ? d->label_b : "B";

	table_init(&names, out->budget);
	if (!lines || render_diff_count_names(d, &names) != 0)
		return -ENOMEM;
	bytes_printf(out,
		markdown ? "| %.10s | %.10s | change | 95 %% interval | q | detectable | verdict | "
			   "%s |\n|---:|---:|---:|---:|---:|---:|---|---|\n"
			 : "%10.10s %10.10s     change    95 %% interval              q  least "
			   "verdict  "
			   "%s\n",
		a, b, by_self ? "function (self)" : "function (total)");
	for (size_t i = 0; i < d->n_rows && (!d->max_lines || i < d->max_lines); i++)
		if (put_line(d, &lines[i], &names, markdown, out) < 0)
			return -ENOMEM;
	if (d->max_lines && d->n_rows > d->max_lines)
		bytes_printf(out, "%s%zu more functions\n", markdown ? "\n" : "",
			d->n_rows - d->max_lines);
	return bytes_error(out);
}
