/* SPDX-License-Identifier: Apache-2.0
 *
 * From runs to a comparison: sums of both sides beside each other, statistics over the runs, the headline.
 */
#include "cli/compare.h"
#include "cli/cli.h"
#include "lib/base/alloc.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/tree/canon.h"
#include <math.h>
#include <string.h>

static int compile(const char *flag, const char *text, const struct regex **ret, struct errbuf *eb)
{
	struct regex *re = NULL;
	int r;

	*ret = NULL;
	if (!text)
		return 0;
	r = regex_compile(text, REGEX_SEARCH, &re, eb);
	*ret = re;
	return r ? err_prefix(eb, r, "--%s \"%s\"", flag, text) : 0;
}

/* NAME of "metric:NAME", or NULL. */
static const char *metric_of(const struct cli_compare_options *o)
{
	return str_starts_with(o->per, "metric:") ? o->per + strlen("metric:") : NULL;
}

const char *cli_compare_per(const struct cli_compare_options *o)
{
	const char *metric = metric_of(o);

	return metric ? metric : o->per;
}

int cli_runs_options_make(
	const struct cli_compare_options *o, struct cli_runs_options *ret, struct errbuf *eb)
{
	struct tree_filter *f = &ret->filter;
	int r = compile("focus", o->focus, &f->focus, eb);

	ret->sample_index = o->sample_index;
	ret->by = o->by;
	ret->by_build = o->by_build;
	if (!o->by_build)
		ret->canon = (o->canon ? TREE_CANON_CLONES | TREE_CANON_NUMBERS : 0U) |
			     (o->unnamed_by_binary ? TREE_CANON_OFFSETS : 0U);
	ret->lines = o->lines;
	ret->metric = metric_of(o);
	if (!r)
		r = compile("ignore", o->ignore, &f->ignore, eb);
	if (!r)
		r = compile("hide", o->hide, &f->hide, eb);
	if (!r)
		r = compile("show", o->show, &f->show, eb);
	if (!r)
		r = compile("show-from", o->show_from, &f->show_from, eb);
	return r;
}

void cli_runs_options_done(struct cli_runs_options *o)
{
	const struct regex *const all[] = {o->filter.focus, o->filter.ignore, o->filter.hide,
		o->filter.show, o->filter.show_from};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct regex *owned;

		memcpy(&owned, &all[i], sizeof(owned));
		regex_free(owned);
	}
}

/* ---- conditions of --fail-on ---- */

struct condition {
	enum { FAIL_TOTAL, FAIL_SELF, FAIL_ANY } what;
	double ratio; /* B over A beyond which it fails */
};

static int parse_condition(const char *text, struct condition *ret, struct errbuf *eb)
{
	static const char *const names[] = {"total", "self", "any"};
	const char *mark = strchr(text, '>');
	char number[32] = "";
	double percent;

	for (size_t i = 0; mark && i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(mark + 1);

		if ((size_t)(mark - text) != strlen(names[i]) ||
			strncmp(text, names[i], (size_t)(mark - text)) != 0 || n >= sizeof(number))
			continue;
		memcpy(number, mark + 1, n + 1);
		if (n && number[n - 1] == '%')
			number[n - 1] = 0;
		if (str_parse_double(number, &percent, NULL) < 0 || !(percent >= 0))
			break;
		ret->what = i == 0 ? FAIL_TOTAL : i == 1 ? FAIL_SELF : FAIL_ANY;
		ret->ratio = 1 + percent / 100;
		return 0;
	}
	return err_set(eb, -EINVAL,
		"--fail-on \"%s\": expected total, self or any, then > and a percentage, as in "
		"total>2%%",
		text);
}

int cli_compare_check(
	struct cli_compare_options *o, const char *per, bool stored, struct errbuf *eb)
{
	static const char *const known[] = {"run", "second", "cpu-second", "total"};
	struct condition c;
	bool is_known;
	int r = 0;

	if (o->json + o->md + (o->format != NULL) > 1)
		return err_set(eb, -EINVAL, "expected one of --format, --json and --md");
	if (o->by_build && o->unnamed_by_binary)
		return err_set(eb, -EINVAL, "expected one of --by-build and --unnamed-by-binary");
	if (o->json || o->md)
		o->format = o->json ? "json" : "md";
	o->per = o->per ? o->per : per;
	o->stored = stored;
	is_known = str_starts_with(o->per, "metric:") && o->per[strlen("metric:")];
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		is_known |= !strcmp(o->per, known[i]);
	if (!is_known)
		return err_set(eb, -EINVAL,
			"--per=%s: expected run, second, cpu-second, total or metric:NAME", o->per);
	if (!stored && !strcmp(o->per, "cpu-second"))
		return err_set(eb, -EINVAL,
			"--per=cpu-second: only with --server; a file does not say how many CPUs "
			"there were");
	if (stored && metric_of(o))
		return err_set(eb, -EINVAL, "--per=%s: only of files", o->per);
	for (size_t i = 0; !r && i < o->fail_on.n; i++)
		r = parse_condition(o->fail_on.items[i], &c, eb);
	return r;
}

static bool exceeds(const struct stats_row *row, const struct condition *c)
{
	bool called = row->verdict == STATS_MORE || row->verdict == STATS_NEW ||
		      row->verdict == STATS_UNTESTED;

	return called && row->mean_b > row->mean_a * c->ratio;
}

/* Says how many functions are worse, and which is worst. */
static bool report_functions(
	const struct cli_comparison *c, const struct condition *k, const char *text)
{
	const struct stats_trees *s = &c->stats;
	const struct stats_row *worst = NULL;
	const char *name = "";
	size_t n = 0;

	for (size_t i = 0; i < c->n_rows; i++) {
		const struct stats_row *rows[] = {stats_self(s, c->rows[i].frame),
			k->what == FAIL_ANY ? stats_total(s, c->rows[i].frame) : NULL};

		for (size_t j = 0; j < 2; j++) {
			if (!rows[j] || !exceeds(rows[j], k))
				continue;
			n++;
			if (worst &&
				rows[j]->mean_b - rows[j]->mean_a <= worst->mean_b - worst->mean_a)
				continue;
			worst = rows[j];
			name = tree_symbols_text(&c->runs->symbols,
				c->runs->symbols.frames[c->rows[i].frame].name, NULL);
		}
	}
	if (worst)
		fprintf(stderr, "sonde: %s: %zu functions, most of all %s by %+.1f %%\n", text, n,
			name, 100 * (worst->ratio - 1));
	return worst != NULL;
}

/* ---- what the runs are worth ---- */

struct cli_quality cli_quality_of(const struct cli_runs *runs, size_t from, size_t n)
{
	struct cli_quality sum = {};

	for (size_t i = from; i < from + n; i++) {
		const struct cli_quality *q = &runs->items[i].quality;

		sum.value += q->value;
		sum.unnamed += q->unnamed;
		sum.samples += q->samples;
		sum.cut += q->cut;
		sum.has_ends |= q->has_ends;
		sum.lost += q->lost;
	}
	return sum;
}

static int check_quality(
	const struct cli_comparison *c, const char *label, size_t from, size_t n, struct errbuf *eb)
{
	struct cli_quality q = cli_quality_of(c->runs, from, n);

	if (q.lost > c->o->max_lost * (q.samples + q.lost))
		return err_set(eb, -ENODATA, "%s: %.0f of %.0f samples were lost, above --max-lost",
			label, q.lost, q.samples + q.lost);
	/* Of a handful of samples no share is worth anything. */
	if (q.samples >= c->o->min_samples * (double)n &&
		q.unnamed > c->o->max_unresolved * q.value)
		return err_set(eb, -ENODATA,
			"%s: %.1f %% is in code without names, above --max-unresolved: are symbols "
			"missing?",
			label, 100 * q.unnamed / q.value);
	return 0;
}

int cli_compare_verdict(const struct cli_comparison *c, struct errbuf *eb)
{
	int status = check_quality(c, c->o->label_a, 0, c->n_a, eb);

	if (!status)
		status = check_quality(c, c->o->label_b, c->n_a, c->runs->n - c->n_a, eb);
	if (status < 0)
		return status;
	for (size_t i = 0; i < c->o->fail_on.n; i++) {
		const char *text = c->o->fail_on.items[i];
		struct condition k;
		int r = parse_condition(text, &k, eb);
		bool failed;

		if (r)
			return r;
		if (k.what == FAIL_TOTAL) {
			failed = exceeds(&c->stats.whole, &k);
			if (failed)
				fprintf(stderr, "sonde: %s: %+.1f %%\n", text,
					100 * (c->stats.whole.ratio - 1));
		} else
			failed = report_functions(c, &k, text);
		status = failed ? CLI_FAILED : status;
	}
	return status;
}

/* ---- the comparison ---- */

void cli_comparison_done(struct cli_comparison *c)
{
	tree_done(&c->a);
	tree_done(&c->b);
	tree_diff_done(&c->diff);
	stats_trees_done(&c->stats);
	arena_done(&c->arena);
}

/* What run i is multiplied with: --per total is the statistics' own business. */
static int find_scale(const struct cli_comparison *c, size_t i, double *ret, struct errbuf *eb)
{
	const struct cli_run *run = &c->runs->items[i];

	*ret = run->metric > 0 ? 1 / run->metric : 1;
	if (!strcmp(c->o->per, "cpu-second")) {
		if (run->cpu_seconds <= 0)
			return err_set(eb, -ENOTSUP,
				"%s: how many CPUs all of its targets have is not known (exporters "
				"tell it, other targets do not); --per second and --per total need "
				"not know it",
				run->name);
		*ret = 1 / run->cpu_seconds;
	}
	if (strcmp(c->o->per, "second") != 0)
		return 0;
	if (run->seconds <= 0)
		return err_set(eb, -EINVAL,
			"%s: it does not say how long it took, so --per second is not possible",
			run->name);
	*ret = 1 / run->seconds;
	return 0;
}

static int sum_side(
	const struct cli_runs *runs, size_t from, size_t to, struct tree *ret, struct errbuf *eb)
{
	_cleanup_free_ const struct tree **trees = xcalloc(to - from + 1, sizeof(*trees));

	for (size_t i = from; i < to; i++)
		trees[i - from] = &runs->items[i].tree;
	return tree_merge(trees, to - from, ret, eb);
}

/* Of the sum of a side: the mean over its runs, or the rate, or the share. */
static double sum_scale(const struct cli_comparison *c, size_t from, size_t to, int64_t total)
{
	double seconds = 0, cpu_seconds = 0, metric = 0;

	for (size_t i = from; i < to; i++) {
		seconds += c->runs->items[i].seconds;
		cpu_seconds += c->runs->items[i].cpu_seconds;
		metric += c->runs->items[i].metric;
	}
	if (metric > 0)
		return 1 / metric;
	if (!strcmp(c->o->per, "second"))
		return 1 / seconds;
	if (!strcmp(c->o->per, "cpu-second"))
		return 1 / cpu_seconds;
	if (!strcmp(c->o->per, "total"))
		return total > 0 ? 1e6 / (double)total : 1;
	return 1 / (double)(to - from);
}

static enum stats_method method_of(const char *name)
{
	for (int m = 0; m < STATS_N_METHODS; m++)
		if (!strcmp(name, stats_method_name((enum stats_method)m)))
			return (enum stats_method)m;
	return STATS_QL;
}

static int test(struct cli_comparison *c, struct errbuf *eb)
{
	size_t n = c->runs->n;
	_cleanup_free_ struct stats_run *runs = xcalloc(n + 1, sizeof(*runs));
	struct stats_options opt = STATS_DEFAULTS;
	int r = 0;

	opt.method = method_of(c->o->method);
	opt.alpha = c->o->alpha;
	opt.min_effect = c->o->min_effect;
	opt.min_samples = c->o->min_samples;
	for (size_t i = 0; !r && i < n; i++) {
		runs[i] = (struct stats_run) {.tree = &c->runs->items[i].tree,
			.unit = c->runs->items[i].unit,
			.name = c->runs->items[i].name};
		r = find_scale(c, i, &runs[i].scale, eb);
	}
	return r ? r
		 : stats_trees_make(runs, c->n_a, n - c->n_a, !strcmp(c->o->per, "total"),
			   &c->runs->symbols, &opt, NULL, &c->stats, eb);
}

/* order[i]: how many runs are earlier than i. */
static void order_by_time(const struct cli_runs *runs, size_t *order)
{
	for (size_t i = 0; i < runs->n; i++) {
		order[i] = 0;
		for (size_t k = 0; k < runs->n; k++)
			order[i] += runs->items[k].time_ns < runs->items[i].time_ns ||
				    (runs->items[k].time_ns == runs->items[i].time_ns && k < i);
	}
}

static double geometric_mean(const struct stats_trees *s)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_functions; i++)
		if (s->functions[i].ratio > 0 && isfinite(s->functions[i].ratio)) {
			sum += log(s->functions[i].ratio);
			n++;
		}
	return n ? exp(sum / (double)n) : NAN;
}

static int find_headline(struct cli_comparison *c, const size_t *order, struct errbuf *eb)
{
	size_t n = c->runs->n, n_b = n - c->n_a;
	_cleanup_free_ double *total = xcalloc(n + 1, sizeof(*total));
	_cleanup_free_ size_t *by_time = xcalloc(n + 1, sizeof(*by_time));
	struct cli_headline *h = &c->headline;
	struct stats_runs design = {.n_a = c->n_a, .n_b = n_b};
	double scale;
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		r = find_scale(c, i, &scale, eb);
		total[i] = (double)c->runs->items[i].tree.total[0] * scale;
	}
	order_by_time(c->runs, by_time);
	h->geomean = geometric_mean(&c->stats);
	h->drift = stats_drift(&design, total, order ? order : by_time);
	h->p = NAN;
	if (!r && (rank_median(total, c->n_a, 0.95, &h->a) ||
			  rank_median(total + c->n_a, n_b, 0.95, &h->b) ||
			  (c->n_a > 1 && n_b > 1 &&
				  rank_mann_whitney(total, c->n_a, total + c->n_a, n_b, &h->p))))
		r = err_set(eb, -ENOMEM, "out of memory for the totals of %zu runs", n);
	return r;
}

int cli_compare(const struct cli_compare_options *o, const struct cli_runs *runs, size_t n_a,
	const size_t *order, struct cli_comparison *ret, struct errbuf *eb)
{
	struct cli_comparison *c = ret;
	int r;

	*c = (struct cli_comparison) {.o = o, .runs = runs, .n_a = n_a};
	tree_init(&c->a, NULL);
	tree_init(&c->b, NULL);
	arena_init(&c->arena, NULL);
	r = sum_side(runs, 0, n_a, &c->a, eb);
	if (!r)
		r = sum_side(runs, n_a, runs->n, &c->b, eb);
	if (!r)
		r = test(c, eb);
	if (!r)
		r = find_headline(c, order, eb);
	if (r)
		return r;
	c->scale_a = sum_scale(c, 0, n_a, c->a.total[0]);
	c->scale_b = sum_scale(c, n_a, runs->n, c->b.total[0]);
	r = tree_diff_make(&c->a, &c->b, 0, NULL, &c->diff, eb);
	return r ? r
		 : tree_diff_top(&c->a, &c->b, &runs->symbols, c->scale_a, c->scale_b, &c->arena,
			   &c->rows, &c->n_rows, eb);
}
