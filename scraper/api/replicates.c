/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicates are made by ordinary merges, grouped by label, with the filters and tags of the request.
 */
#include "scraper/api/replicates.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <string.h>

static const char default_spec[] = "instance,5m";

void replicates_spec_done(struct replicates_spec *s)
{
	free(s->text);
	*s = (struct replicates_spec) {};
}

int replicates_parse(const char *text, struct replicates_spec *ret, struct errbuf *eb)
{
	char *at, *comma;
	int64_t ms = 0;

	*ret = (struct replicates_spec) {.text = xstrdup(*text ? text : default_spec)};
	for (at = ret->text; (comma = strchr(at, ',')); at = comma + 1) {
		*comma = 0;
		if (!*at || ret->n_labels == REPLICATES_MAX_LABELS)
			return err_set(eb, -EINVAL,
				"replicate: \"%.60s\": expected at most %d label names, then a "
				"duration, as in instance,5m",
				text, REPLICATES_MAX_LABELS);
		ret->labels[ret->n_labels++] = at;
	}
	if (str_parse_duration_ms(at, &ms, NULL) < 0 || ms < 1000)
		return err_set(eb, -EINVAL,
			"replicate: \"%.60s\" does not end in a duration of a second or more, as "
			"in "
			"instance,5m",
			text);
	ret->block_ns = ms * 1000000;
	return 0;
}

void replicates_done(struct replicates *r)
{
	for (size_t i = 0; i < r->n; i++)
		tree_done(&r->trees[i]);
	free(r->trees);
	free(r->runs);
	free(r->covered_ns);
	*r = (struct replicates) {};
}

/* What one sample amounts to. */
static double sample_unit(const struct query_trees *m)
{
	if (strcmp(m->type.sample_unit, "count") != 0 && m->period > 0 &&
		!strcmp(m->type.sample_unit, m->type.period_unit))
		return (double)m->period;
	return 1;
}

/* Beyond the limit of groups: many targets, no replicate. */
static bool is_other(const struct labels *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->items[i].value, "__other__"))
			return true;
	return false;
}

static int add(struct api_job *q, struct replicates *r, struct api_view *v, size_t group,
	struct query_cover covered, enum replicates_per per, struct errbuf *eb)
{
	const struct api_params *p = v->params;
	_cleanup_tree_ struct tree all;
	struct tree *tree;
	int e = alloc_grow(&r->trees, &r->cap_trees, r->n + 1, sizeof(*r->trees));

	if (!e)
		e = alloc_grow(&r->runs, &r->cap_runs, r->n + 1, sizeof(*r->runs));
	if (!e)
		e = alloc_grow(&r->covered_ns, &r->cap_covered, r->n + 1, sizeof(*r->covered_ns));
	if (e)
		return err_set(eb, e, "out of memory for %zu replicates", r->n + 1);
	tree_init(&all, q->env.budget);
	tree = &r->trees[r->n];
	tree_init(tree, q->env.budget);
	r->runs[r->n] = (struct stats_run) {
		.scale = per == PER_SECOND || per == PER_WATCHED_SECOND ? 1e9 / (double)covered.ns
			 : per == PER_CPU_SECOND ? 1e9 / (double)covered.cpu_ns
						 : 1,
		.unit = sample_unit(&v->merged)};
	r->covered_ns[r->n] = covered.ns;
	r->n++; /* ours from here on */
	e = tree_project(&v->filtered[group], &p->identity, v->symbols, p->n_at ? &all : tree, eb);
	if (!e && p->n_at)
		e = tree_at(&all, v->symbols, p->at, p->n_at, tree, eb);
	return e;
}

/*
 * How long a group's targets were watched; where that is not known, how long its profiles are, with as many CPUs as all of them have in
 * the mean.
 */
static struct query_cover covered_in(
	const struct query_trees *m, size_t group, enum replicates_per per)
{
	struct query_cover c = m->groups[group].covered;
	double cpus = m->covered.ns > 0 ? (double)m->covered.cpu_ns / (double)m->covered.ns : 1;

	if (per == PER_WATCHED_SECOND)
		c.ns = m->watched_ns;
	if (c.ns <= 0)
		c.ns = MAX(m->max_time_ns - m->min_time_ns, (int64_t)1);
	if (c.cpu_ns <= 0)
		c.cpu_ns = MAX((int64_t)((double)c.ns * cpus), (int64_t)1);
	return c;
}

/* The label sets of one stretch. */
static int add_block(struct api_job *q, struct replicates *r, const struct api_params *p,
	enum replicates_per per, struct tree_symbols *symbols, struct errbuf *eb)
{
	_cleanup_api_view_ struct api_view v = {};
	int e = api_view_merge(q, p, symbols, &v, eb);

	for (size_t i = 0; !e && i < v.merged.n_groups; i++) {
		if (!v.merged.n_profiles || is_other(&v.merged.groups[i].labels))
			continue;
		e = add(q, r, &v, i, covered_in(&v.merged, i, per),
			v.merged.type.kind == STORE_DELTA ? per : PER_RUN, eb);
	}
	return e;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* What came or went within a stretch, or was hardly there, says less than the others and is left out. */
static int drop_short(struct replicates *r, struct errbuf *eb)
{
	_cleanup_free_ int64_t *sorted = try_realloc(NULL, r->n + 1, sizeof(*sorted));
	size_t kept = 0;
	int64_t median;

	if (!sorted)
		return err_set(eb, -ENOMEM, "out of memory for %zu replicates", r->n);
	if (!r->n)
		return 0;
	memcpy(sorted, r->covered_ns, r->n * sizeof(*sorted));
	qsort(sorted, r->n, sizeof(*sorted), compare_times);
	median = sorted[r->n / 2];
	for (size_t i = 0; i < r->n; i++) {
		if (r->covered_ns[i] < median / 2) {
			tree_done(&r->trees[i]);
			r->n_dropped++;
			continue;
		}
		r->trees[kept] = r->trees[i];
		r->covered_ns[kept] = r->covered_ns[i];
		r->runs[kept++] = r->runs[i];
	}
	r->n = kept;
	return 0;
}

int replicates_make(struct api_job *q, const struct api_params *p,
	const struct replicates_spec *spec, enum replicates_per per, struct tree_symbols *symbols,
	struct replicates *ret, struct errbuf *eb)
{
	const char *labels[REPLICATES_MAX_LABELS];
	struct api_params block = *p;
	int64_t range_ns = p->end_ns - p->start_ns;
	int e = 0;

	memcpy(labels, spec->labels, sizeof(labels));
	block.group_by = labels;
	block.n_group_by = per == PER_WATCHED_SECOND ? 0 : spec->n_labels;
	ret->block_ns = MAX(spec->block_ns, range_ns / REPLICATES_MAX_BLOCKS + 1);
	for (int64_t at = p->start_ns; !e && p->end_ns - at >= ret->block_ns / 2;
		at += ret->block_ns) {
		block.start_ns = at;
		block.end_ns = MIN(at + ret->block_ns - 1, p->end_ns);
		e = add_block(q, ret, &block, per, symbols, eb);
		if (p->end_ns - at < ret->block_ns) /* it was the last one, and at could overflow */
			break;
	}
	if (!e)
		e = drop_short(ret, eb);
	for (size_t i = 0; i < ret->n; i++)
		ret->runs[i].tree = &ret->trees[i];
	return e;
}
