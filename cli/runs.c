/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile → a location tree → filters → a function tree → functions by name.
 */
#include "cli/runs.h"
#include "cli/files.h"
#include "cli/sum.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/merge.h"
#include "lib/tree/canon.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void cli_runs_init(struct cli_runs *r)
{
	*r = (struct cli_runs) {};
	tree_symbols_init(&r->symbols, NULL);
	table_init(&r->by_name, NULL);
}

void cli_runs_done(struct cli_runs *r)
{
	for (size_t i = 0; i < r->n; i++) {
		tree_done(&r->items[i].tree);
		free(r->items[i].name);
	}
	free(r->items);
	free(r->type);
	free(r->unit);
	table_done(&r->by_name);
	tree_symbols_done(&r->symbols);
}

/* ---- functions by name ---- */

/* The frame that stands for all of this one's name; frames of labels stay apart from functions. An offset without a name is one of its
 * build, unless offsets go. */
static uint32_t unify(struct cli_runs *r, uint32_t frame, unsigned canon)
{
	struct tree_frame f = r->symbols.frames[frame];
	uint64_t *slot;

	if (canon && f.kind != TREE_LABEL) {
		char name[TREE_CANON_MAX];
		size_t len;
		const char *text = tree_symbols_text(&r->symbols, f.name, &len);

		len = tree_canonical_name(text, len, canon, name);
		if (len)
			f.name = tree_symbols_string(&r->symbols, name, len);
		frame = tree_symbols_frame(&r->symbols, &f);
	}
	if (f.kind == TREE_UNKNOWN && !(canon & TREE_CANON_OFFSETS))
		return frame;
	slot = table_insert(&r->by_name, (uint64_t)(f.kind == TREE_LABEL) << 32 | f.name, NULL);
	if (!slot)
		return frame;
	if (!*slot)
		*slot = frame + 1UL;
	return (uint32_t)(*slot - 1);
}

static int unify_tree(struct cli_runs *r, const struct tree *in, unsigned canon, struct tree *ret,
	struct errbuf *eb)
{
	_cleanup_free_ uint32_t *frame = try_realloc(NULL, in->n + 1, sizeof(*frame));

	if (!frame)
		return err_set(eb, -ENOMEM, "out of memory for a tree of %zu nodes", in->n);
	frame[0] = in->frame[0];
	for (size_t i = 1; i < in->n; i++)
		frame[i] = unify(r, in->frame[i], canon);
	return tree_from_nodes(in->parent, frame, in->self, in->n, ret, eb);
}

/* ---- profiles ---- */

static bool is_same(const struct profile *p, uint32_t a, uint32_t b)
{
	struct prof_str x = profile_str(p, a), y = profile_str(p, b);

	return x.len == y.len && !memcmp(x.p, y.p, x.len);
}

static int64_t column_sum(const struct profile *p, size_t column)
{
	int64_t sum = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		sum = tree_add(sum, p->values[i * p->n_types + column]);
	return sum;
}

/*
 * What one sample amounts to: the period where the column is in its unit, else the mean over what the profile counts ("samples" or the like
 * in "count"), else one.
 */
static double sample_unit(const struct profile *p, size_t column)
{
	const struct prof_value_type *t = &p->types[column];

	if (profile_str_is(p, t->unit, "count"))
		return 1;
	if (p->period > 0 && is_same(p, t->unit, p->period_type.unit) &&
		is_same(p, t->type, p->period_type.type))
		return (double)p->period;
	for (size_t c = 0; c < p->n_types; c++) {
		int64_t count = column_sum(p, c), sum = column_sum(p, column);

		if (profile_str_is(p, p->types[c].unit, "count") && count > 0 && sum > 0)
			return (double)sum / (double)count;
	}
	return 1;
}

static double magnitude(int64_t v)
{
	return fabs((double)v);
}

/* 1 or 0, -1 where the sample does not say how its stack ends. */
static int is_cut(const struct profile *p, size_t sample)
{
	static const char head[] = "truncated:";

	for (uint64_t i = p->label_first[sample]; i < p->label_first[sample + 1]; i++) {
		struct prof_str v = profile_str(p, p->labels[i].str);

		if (profile_str_is(p, p->labels[i].key, "stack"))
			return v.len >= strlen(head) && !memcmp(v.p, head, strlen(head));
	}
	return -1;
}

/* Of the comments "lost N samples since SECOND", which `sonde record` leaves. */
static double count_lost(const struct profile *p)
{
	double sum = 0;

	for (size_t i = 0; i < p->n_comments; i++) {
		struct prof_str c = profile_str(p, p->comments[i]);
		_cleanup_free_ char *text = xstrndup(c.len ? c.p : "", c.len);
		unsigned long long n;

		if (sscanf(text, "lost %19llu samples", &n) == 1)
			sum += (double)n;
	}
	return sum;
}

static struct cli_quality quality_of(const struct profile *p, size_t column, double unit,
	const struct tree *functions, const struct tree_symbols *symbols)
{
	struct cli_quality q = {.lost = count_lost(p)};

	for (size_t i = 0; i < p->n_samples; i++) {
		double n = magnitude(p->values[i * p->n_types + column]) / unit;
		int cut = is_cut(p, i);

		q.samples += n;
		q.cut += cut > 0 ? n : 0;
		q.has_ends |= cut >= 0 && n > 0;
	}
	for (size_t i = 1; i < functions->n; i++) {
		double v = magnitude(functions->self[i]);

		q.value += v;
		q.unnamed += symbols->frames[functions->frame[i]].kind == TREE_UNKNOWN ? v : 0;
	}
	return q;
}

static char *copy_string(const struct profile *p, uint32_t id)
{
	struct prof_str s = profile_str(p, id);

	return xstrndup(s.p ? s.p : "", s.len);
}

static int check_type(struct cli_runs *r, const struct profile *p, size_t column, struct errbuf *eb)
{
	const struct prof_value_type *t = &p->types[column];

	if (!r->type) {
		r->type = copy_string(p, t->type);
		r->unit = copy_string(p, t->unit);
		return 0;
	}
	if (profile_str_is(p, t->type, r->type) && profile_str_is(p, t->unit, r->unit))
		return 0;
	return err_set(eb, -EINVAL, "its values are %.*s in %.*s, those of %s are %s in %s",
		(int)profile_str(p, t->type).len, profile_str(p, t->type).p,
		(int)profile_str(p, t->unit).len, profile_str(p, t->unit).p, r->items[0].name,
		r->type, r->unit);
}

static int add_profile(struct cli_runs *r, const struct profile *p, const char *path,
	const struct cli_runs_options *o, struct errbuf *eb)
{
	_cleanup_tree_ struct tree locations, filtered, functions;
	struct cli_run *run;
	size_t column;
	int e = profile_find_type(p, o->sample_index, &column, eb);

	tree_init(&locations, NULL);
	tree_init(&filtered, NULL);
	tree_init(&functions, NULL);
	if (!e)
		e = check_type(r, p, column, eb);
	if (!e)
		e = tree_from_profile(p, column, &r->symbols, &locations, eb);
	if (!e && !tree_filter_is_empty(&o->filter))
		e = tree_filter_apply(&locations, &o->filter, &r->symbols, &filtered, eb);
	if (!e)
		e = tree_project(tree_filter_is_empty(&o->filter) ? &locations : &filtered,
			&(struct tree_identity) {.by_build = o->by_build}, &r->symbols, &functions,
			eb);
	if (e)
		return e;
	if (alloc_grow(&r->items, &r->cap, r->n + 1, sizeof(*r->items)) < 0)
		return err_set(eb, -ENOMEM, "out of memory for %zu runs", r->n + 1);
	run = &r->items[r->n];
	*run = (struct cli_run) {.seconds = (double)p->duration_ns / 1e9,
		.unit = sample_unit(p, column),
		.time_ns = p->time_ns};
	run->quality = quality_of(p, column, run->unit, &functions, &r->symbols);
	tree_init(&run->tree, NULL);
	e = o->by_build ? tree_from_nodes(functions.parent, functions.frame, functions.self,
				  functions.n, &run->tree, eb)
			: unify_tree(r, &functions, o->canon, &run->tree, eb);
	if (!e)
		e = tree_symbols_error(&r->symbols, eb);
	if (e) {
		tree_done(&run->tree);
		return e;
	}
	run->name = xstrdup(path);
	r->n++;
	return 0;
}

const char *cli_label_of(const char *by)
{
	if (!by)
		return NULL;
	if (!strcmp(by, "thread"))
		return "thread_name";
	return str_starts_with(by, "label:") ? by + strlen("label:") : by;
}

int cli_runs_read(const struct cli_source *s, const struct cli_runs_options *o,
	struct cli_profile *in, struct profile *labelled, struct profile **ret, struct errbuf *eb)
{
	_cleanup_prof_merge_ struct prof_merge *m = NULL;
	const char *key = cli_label_of(o->by);
	int e = cli_source_read(s, in, eb);

	if (e >= 0)
		e = cli_profile_prune(in, s->name, eb);
	if (e >= 0 && o->lines)
		e = cli_profile_detail(&in->p, true, false, eb);
	*ret = &in->p;
	if (e < 0 || !key)
		return e;
	m = prof_merge_new(NULL);
	prof_merge_root_labels(m, &key, 1);
	e = prof_merge_add(m, &in->p, s->name, eb);
	*ret = labelled;
	return e < 0 ? e : prof_merge_finish(m, labelled, eb);
}

int cli_runs_add(struct cli_runs *r, const struct cli_source *s, const struct cli_runs_options *o,
	struct errbuf *eb)
{
	_cleanup_cli_profile_ struct cli_profile in;
	_cleanup_profile_ struct profile labelled;
	struct profile *p;
	double metric = 0;
	int e;

	profile_init(&labelled, NULL);
	cli_profile_init(&in);
	e = cli_runs_read(s, o, &in, &labelled, &p, eb);
	if (e >= 0 && o->metric)
		e = cli_run_metric(s->name, o->metric, &metric, eb);
	if (e < 0)
		return e;
	e = add_profile(r, p, s->name, o, eb);
	if (e < 0)
		return err_prefix(eb, e, "%s", s->name);
	r->items[r->n - 1].metric = metric;
	r->items[r->n - 1].cpu_seconds = s->cpu_seconds;
	if (s->seconds > 0)
		r->items[r->n - 1].seconds = s->seconds;
	return 0;
}
