/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison as text, Markdown, JSON, CSV, folded stacks, SVG or a page.
 */
#include "cli/compare.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/json/write.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/render/render.h"
#include <math.h>
#include <string.h>

static const char *format_of(const struct cli_compare_options *o)
{
	static const struct {
		const char *ending, *format;
	} endings[] = {{".md", "md"}, {".json", "json"}, {".csv", "csv"}, {".folded", "folded"},
		{".pb", "pprof"}, {".pb.gz", "pprof"}, {".svg", "svg"}, {".html", "html"}};

	for (size_t i = 0; !o->format && i < ARRAY_SIZE(endings); i++)
		if (str_ends_with(o->output, endings[i].ending))
			return endings[i].format;
	return o->format ? o->format : "text";
}

/* The unit of what is shown: of values that were divided as --per says. */
static const char *unit_of(const struct cli_comparison *c, char scratch[UNITS_NAME_MAX])
{
	if (!strcmp(c->o->per, "total"))
		return "ppm";
	if (strcmp(c->o->per, "second") != 0)
		return c->runs->unit;
	units_rate(c->runs->type, c->runs->unit, false, scratch);
	return scratch;
}

static void put_share(double part, double all, const char *what, struct bytes *out)
{
	if (part > 0)
		bytes_printf(out, ", %.2g %% %s", 100 * part / all, what);
}

static void put_side(const struct cli_comparison *c, const char *label, size_t from, size_t n,
	const struct rank_median *m, struct bytes *out)
{
	struct cli_quality q = cli_quality_of(c->runs, from, n);
	char median[UNITS_TEXT_MAX], low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX];
	char scratch[UNITS_NAME_MAX];
	const char *unit = strcmp(c->o->per, "total") ? unit_of(c, scratch) : c->runs->unit;

	units_text(m->median, unit, median);
	bytes_printf(out, "%s: median %s", label, median);
	if (isfinite(m->low)) {
		units_text(m->low, unit, low);
		units_text(m->high, unit, high);
		bytes_printf(out, ", %.1f %% interval %s .. %s", 100 * m->confidence, low, high);
	}
	bytes_printf(out, ", n = %zu", n);
	put_share(q.unnamed, q.value, "in code without names", out);
	put_share(q.cut, q.samples, "of stacks cut", out);
	put_share(q.lost, q.samples + q.lost, "of samples lost", out);
	bytes_put_u8(out, '\n');
}

static void put_warnings(const struct cli_comparison *c, struct bytes *out)
{
	size_t n_a = c->n_a, n_b = c->runs->n - n_a, least = MIN(n_a, n_b);

	if (least < STATS_MIN_RUNS)
		bytes_put_str(out, "single run: no significance\n");
	else if (least < 3)
		bytes_put_str(
			out, "two runs a side show only large changes; three or more are better\n");
	else if (least < RANK_MIN_TEST)
		bytes_printf(out, "the total's test needs %d runs a side to reach 0.05\n",
			RANK_MIN_TEST);
	else if (least < RANK_MIN_INTERVAL)
		bytes_printf(
			out, "medians have a 95 %% interval from %d runs on\n", RANK_MIN_INTERVAL);
	if (c->headline.drift < 0.05)
		bytes_printf(out,
			"totals drift over the order of the runs (p = %.3f): interleave the sides, "
			"warm up\n",
			c->headline.drift);
}

/* "cpu in cores per instance", "cpu in nanoseconds per run". */
static void put_what(const struct cli_comparison *c, struct bytes *out)
{
	char scratch[UNITS_NAME_MAX];

	bytes_printf(out, "%s in ", c->runs->type);
	if (strcmp(c->o->per, "second") != 0)
		bytes_printf(out, "%s per %s", c->runs->unit, cli_compare_per(c->o));
	else
		bytes_put_str(out, units_name(unit_of(c, scratch)));
	if (c->o->stored)
		bytes_put_str(out, c->o->of_service ? " of the service" : " per instance");
}

/* For people: runs, totals, warnings. */
static void put_summary(const struct cli_comparison *c, struct bytes *out)
{
	const struct cli_headline *h = &c->headline;
	const struct stats_row *whole = &c->stats.whole;

	put_what(c, out);
	bytes_printf(out, ", %s against %s\n", c->o->label_b, c->o->label_a);
	put_side(c, c->o->label_a, 0, c->n_a, &h->a, out);
	put_side(c, c->o->label_b, c->n_a, c->runs->n - c->n_a, &h->b, out);
	if (h->a.median > 0)
		bytes_printf(out, "total: %+.1f %%", 100 * (h->b.median / h->a.median - 1));
	else
		bytes_put_str(
			out, h->b.median > 0 ? "total: new" : "total: nothing on either side");
	if (!isnan(h->p))
		bytes_printf(out, ", Mann-Whitney p = %.3f", h->p);
	if (!isnan(whole->p))
		bytes_printf(
			out, "; of means %+.1f %%, p = %.2g", 100 * (whole->ratio - 1), whole->p);
	if (!isnan(h->geomean))
		bytes_printf(out, "; geometric mean of functions %+.1f %%", 100 * (h->geomean - 1));
	bytes_put_u8(out, '\n');
	put_warnings(c, out);
	if (c->notes)
		bytes_printf(out, "\n%s", c->notes);
}

static struct render_diff shown(
	const struct cli_comparison *c, const char *title, char scratch[UNITS_NAME_MAX])
{
	return (struct render_diff) {.in = {.tree = &c->diff.shape,
					     .symbols = &c->runs->symbols,
					     .type = c->runs->type,
					     .unit = unit_of(c, scratch),
					     .title = title},
		.diff = &c->diff,
		.rows = c->rows,
		.n_rows = c->n_rows,
		.scale_a = c->scale_a,
		.scale_b = c->scale_b,
		.stats = &c->stats,
		.label_a = c->o->label_a,
		.label_b = c->o->label_b};
}

static void put_runs(const struct cli_comparison *c, const char *key, const char *label,
	size_t from, size_t to, const struct rank_median *m, struct json *j)
{
	struct cli_quality q = cli_quality_of(c->runs, from, to - from);

	json_key(j, key);
	json_object_begin(j);
	json_kv_string(j, "label", label);
	json_kv_double(j, "median", m->median);
	json_kv_double(j, "median_low", m->low);
	json_kv_double(j, "median_high", m->high);
	json_kv_double(j, "scale", from ? c->scale_b : c->scale_a);
	json_kv_double(j, "unresolved", q.value > 0 ? q.unnamed / q.value : 0);
	json_kv_double(j, "cut", q.samples > 0 ? q.cut / q.samples : 0);
	json_kv_double(j, "lost", q.lost > 0 ? q.lost / (q.samples + q.lost) : 0);
	json_key(j, "runs");
	json_array_begin(j);
	for (size_t i = from; i < to; i++) {
		json_object_begin(j);
		json_kv_string(j, "file", c->runs->items[i].name);
		json_kv_double(j, "seconds", c->runs->items[i].seconds);
		if (c->runs->items[i].cpu_seconds > 0)
			json_kv_double(j, "cpu_seconds", c->runs->items[i].cpu_seconds);
		json_kv_int(j, "total", c->runs->items[i].tree.total[0]);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static int render_json(
	const struct cli_comparison *c, const struct render_diff *d, struct bytes *out)
{
	struct json j = {.out = out};
	struct render_diff whole = *d;
	int r;

	whole.in.unit = c->runs->unit; /* its values are not divided */
	json_object_begin(&j);
	json_kv_string(&j, "title", d->in.title);
	json_kv_string(&j, "per", c->o->per);
	if (c->o->stored)
		json_kv_string(&j, "of", c->o->of_service ? "service" : "instance");
	put_runs(c, "a", c->o->label_a, 0, c->n_a, &c->headline.a, &j);
	put_runs(c, "b", c->o->label_b, c->n_a, c->runs->n, &c->headline.b, &j);
	json_kv_double(&j, "total_p", c->headline.p);
	json_kv_double(&j, "drift_p", c->headline.drift);
	json_kv_double(&j, "geomean", c->headline.geomean - 1);
	if (c->over_time)
		render_over_time_json(c->over_time, &j);
	if (!strcmp(c->o->per, "second"))
		json_kv_string(&j, "rate_unit", d->in.unit);
	r = render_diff_json(&whole, &j);
	json_object_end(&j);
	bytes_put_u8(out, '\n');
	return r ? r : bytes_error(out);
}

static int render_table(
	const struct cli_comparison *c, struct render_diff *d, bool markdown, struct bytes *out)
{
	_cleanup_bytes_ struct bytes summary = {};

	put_summary(c, &summary);
	for (size_t i = 0; i < summary.len; i++) { /* Markdown joins lines */
		if (markdown && summary.data[i] == '\n')
			bytes_put_str(out, "  ");
		bytes_put_u8(out, summary.data[i]);
	}
	bytes_put_u8(out, '\n');
	return render_diff_table(d, !strcmp(c->o->value, "self"), markdown, out);
}

/* Paths to the runs' files; those of a server's answers have none. */
static char **find_files(const struct cli_comparison *c, const struct cli_sources *sources)
{
	char **files = xcalloc(c->runs->n + 1, sizeof(*files));

	for (size_t i = 0; i < MIN(c->runs->n, sources->n); i++)
		if (!sources->items[i].raw.len)
			files[i] = cli_relative_path(c->o->output, sources->items[i].name);
	return files;
}

/* The rate is that of all runs of the side, or not known. Only sonde record says what was lost, and nothing when nothing was. */
static struct render_quality quality_of(const struct cli_comparison *c, size_t from, size_t n)
{
	struct cli_quality q = cli_quality_of(c->runs, from, n);
	double unit = c->runs->items[from].unit;
	bool is_rate = units_is_cpu_time(c->runs->type, c->runs->unit) && unit > 1;

	for (size_t i = from; i < from + n; i++)
		is_rate &= c->runs->items[i].unit == unit;
	return (struct render_quality) {.hz = is_rate ? 1e9 / unit : NAN,
		.lost = q.lost > 0 ? q.lost / (q.samples + q.lost) : NAN,
		.cut = q.has_ends ? q.cut / q.samples : NAN};
}

static int render_page(const struct cli_comparison *c, const struct cli_sources *sources,
	const struct render_diff *d, struct bytes *out)
{
	const struct render_quality quality[] = {
		quality_of(c, 0, c->n_a), quality_of(c, c->n_a, c->runs->n - c->n_a)};
	_cleanup_bytes_ struct bytes head = {};
	char **files;
	int r;

	put_summary(c, &head);
	bytes_put_u8(&head, 0);
	if (bytes_error(&head))
		return head.error;
	files = find_files(c, sources);
	r = render_diff_html(d,
		&(struct render_diff_page) {.head = (const char *)head.data,
			.panels = c->o->by != NULL,
			.metrics = c->metrics,
			.n_metrics = c->n_metrics,
			.over_time = c->over_time,
			.files = (const char *const *)files,
			.n_files_a = c->n_a,
			.n_files = c->runs->n,
			.quality = quality},
		out);
	for (size_t i = 0; i < c->runs->n; i++)
		free(files[i]);
	free(files);
	return r;
}

static enum render_width width_of(const char *name)
{
	return !strcmp(name, "before")	? RENDER_WIDTH_BEFORE
	       : !strcmp(name, "union") ? RENDER_WIDTH_BOTH
					: RENDER_WIDTH_AFTER;
}

static int render(const struct cli_comparison *c, const struct cli_sources *sources,
	const char *format, struct bytes *out)
{
	char title[256], scratch[UNITS_NAME_MAX];
	struct render_diff d = shown(c, title, scratch);

	snprintf(title, sizeof(title), "%s against %s", c->o->label_b, c->o->label_a);
	if (c->o->title)
		d.in.title = c->o->title;
	if (!strcmp(format, "json"))
		return render_json(c, &d, out);
	if (!strcmp(format, "csv"))
		return render_diff_csv(&d, out);
	if (!strcmp(format, "folded"))
		return render_diff_folded(&d, c->scale_a / c->scale_b, out);
	if (!strcmp(format, "svg"))
		return render_diff_svg(&d, width_of(c->o->width), c->o->by != NULL, out);
	d.max_lines = c->o->top;
	if (!strcmp(format, "html"))
		return render_page(c, sources, &d, out);
	return render_table(c, &d, !strcmp(format, "md"), out);
}

int cli_comparison_write(
	const struct cli_comparison *c, const struct cli_sources *sources, struct errbuf *eb)
{
	const char *format = format_of(c->o);
	_cleanup_bytes_ struct bytes out;
	int r;

	bytes_init(&out, NULL, 0);
	if (!strcmp(format, "pprof"))
		r = cli_compare_pprof(c, sources, &out, eb);
	else
		r = render(c, sources, format, &out);
	if (!r)
		r = bytes_error(&out);
	return r < 0 ? r : cli_write_output(c->o->output, &out, eb);
}
