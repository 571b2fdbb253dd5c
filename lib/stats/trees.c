/* SPDX-License-Identifier: Apache-2.0
 *
 * The union of all runs says which nodes and functions have samples enough; only those get a row of values, one column per run.
 */
#include "lib/stats/trees.h"
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include <errno.h>
#include <math.h>
#include <string.h>

/* What the steps share. */
struct maker {
	const struct stats_run *runs;
	size_t n; /* of runs */
	struct stats_runs design;
	double *unit; /* scaled */
	const struct tree_symbols *symbols;
	struct budget *budget;
	struct stats_trees *out;
	double *selfs, *totals, *nodes; /* rows × n */
};

void stats_trees_done(struct stats_trees *s)
{
	free(s->nodes);
	free(s->functions);
	free(s->parents);
	table_done(&s->by_path);
	table_done(&s->by_frame);
	*s = (struct stats_trees) {};
}

static void maker_done(struct maker *m)
{
	free(m->unit);
	free(m->selfs);
	free(m->totals);
	free(m->nodes);
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the comparison of runs");
}

/* n zeroed items. */
static void *new_array(size_t n, size_t bytes)
{
	void *p = try_realloc(NULL, n + 1, bytes);

	if (p)
		memset(p, 0, (n + 1) * bytes);
	return p;
}

static uint64_t path_key(uint32_t node, uint32_t frame)
{
	return (uint64_t)node << 32 | frame;
}

void stats_locate(const struct stats_trees *s, const struct tree *t, uint32_t *ret_row)
{
	ret_row[0] = s->n_nodes ? 0 : TREE_NONE;
	for (size_t i = 1; i < t->n; i++) {
		uint32_t up = ret_row[t->parent[i]];
		const uint64_t *at = NULL;

		if (up != TREE_NONE && !tree_is_cut(t, i))
			at = table_find(&s->by_path, path_key(up, t->frame[i]));
		ret_row[i] = at ? (uint32_t)*at : TREE_NONE;
	}
}

/* Sums of the runs of each side, scaled: has this node, this function, samples enough on one of them? */
struct sides {
	double a, b;
};

static bool is_enough(const struct maker *m, const struct sides *s)
{
	double unit_a = 0, unit_b = 0, least = m->out->options.min_samples;

	for (size_t i = 0; i < m->n; i++)
		*(i < m->design.n_a ? &unit_a : &unit_b) += m->unit[i];
	return s->a >= least * unit_a || s->b >= least * unit_b;
}

/* at[i]: the node of `all` that node i of a run's tree is; both have siblings in the same order. */
static void walk(const struct tree *all, const struct tree *run, uint32_t *at)
{
	size_t u = 0;

	for (size_t i = 0; i < run->n; i++) {
		while (i &&
			(all->parent[u] != at[run->parent[i]] || all->frame[u] != run->frame[i]))
			u++;
		at[i] = (uint32_t)u++;
	}
}

static int merge_runs(const struct maker *m, struct tree *all, struct errbuf *eb)
{
	_cleanup_free_ const struct tree **trees = new_array(m->n, sizeof(*trees));

	if (!trees)
		return no_memory(eb);
	for (size_t i = 0; i < m->n; i++)
		trees[i] = m->runs[i].tree;
	return tree_merge(trees, m->n, all, eb);
}

/* Rows of nodes: the root always has one, and parents of what has one. */
static int number_nodes(
	struct maker *m, const struct tree *all, const struct sides *sums, uint32_t *number)
{
	struct stats_trees *o = m->out;

	o->parents = new_array(all->n, sizeof(*o->parents));
	if (!o->parents)
		return -ENOMEM;
	for (size_t i = 0; i < all->n; i++) {
		uint32_t up = number[all->parent[i]];
		uint64_t *slot;

		number[i] = TREE_NONE;
		if (i && (up == TREE_NONE || !is_enough(m, &sums[i])))
			continue;
		number[i] = (uint32_t)o->n_nodes++;
		o->parents[number[i]] = i ? up : 0;
		slot = i ? table_insert(&o->by_path, path_key(up, all->frame[i]), NULL) : NULL;
		if (i && !slot)
			return -ENOMEM;
		if (slot)
			*slot = number[i];
	}
	return 0;
}

static int fill_nodes(struct maker *m, struct errbuf *eb)
{
	_cleanup_tree_ struct tree all;
	_cleanup_free_ struct sides *sums = NULL;
	_cleanup_free_ uint32_t *at = NULL, *number = NULL;
	int r;

	tree_init(&all, m->budget);
	r = merge_runs(m, &all, eb);
	if (r)
		return r;
	sums = new_array(all.n, sizeof(*sums));
	at = new_array(all.n, sizeof(*at));
	number = new_array(all.n, sizeof(*number));
	if (!sums || !at || !number)
		return no_memory(eb);
	for (size_t run = 0; run < m->n; run++) {
		const struct tree *t = m->runs[run].tree;

		walk(&all, t, at);
		for (size_t i = 0; i < t->n; i++)
			*(run < m->design.n_a ? &sums[at[i]].a : &sums[at[i]].b) +=
				(double)t->total[i] * m->runs[run].scale;
	}
	if (number_nodes(m, &all, sums, number))
		return no_memory(eb);
	m->nodes = new_array(m->out->n_nodes * m->n, sizeof(*m->nodes));
	if (!m->nodes)
		return no_memory(eb);
	for (size_t run = 0; run < m->n; run++) {
		const struct tree *t = m->runs[run].tree;

		walk(&all, t, at);
		for (size_t i = 0; i < t->n; i++)
			if (number[at[i]] != TREE_NONE)
				m->nodes[number[at[i]] * m->n + run] =
					(double)t->total[i] * m->runs[run].scale;
	}
	return 0;
}

/* ---- functions ---- */

struct function_rows {
	struct arena arena;
	struct tree_row **rows;
	size_t *n;
};

static void function_rows_done(struct function_rows *f)
{
	arena_done(&f->arena);
	free(f->rows);
	free(f->n);
}

static int find_functions(const struct maker *m, struct function_rows *f, struct errbuf *eb)
{
	int r = 0;

	arena_init(&f->arena, m->budget);
	f->rows = new_array(m->n, sizeof(struct tree_row *));
	f->n = new_array(m->n, sizeof(*f->n));
	if (!f->rows || !f->n)
		return no_memory(eb);
	for (size_t run = 0; !r && run < m->n; run++)
		r = tree_top(
			m->runs[run].tree, m->symbols, &f->arena, &f->rows[run], &f->n[run], eb);
	return r;
}

/* Functions whose total is enough, into out->by_frame. */
static int number_functions(struct maker *m, const struct function_rows *f, size_t n_frames)
{
	struct stats_trees *o = m->out;
	_cleanup_free_ struct sides *sums = new_array(n_frames, sizeof(*sums));

	if (!sums)
		return -ENOMEM;
	for (size_t run = 0; run < m->n; run++)
		for (size_t i = 0; i < f->n[run]; i++) {
			const struct tree_row *row = &f->rows[run][i];

			*(run < m->design.n_a ? &sums[row->frame].a : &sums[row->frame].b) +=
				(double)row->total * m->runs[run].scale;
		}
	for (size_t i = 0; i < n_frames; i++) {
		uint64_t *slot;

		if (!is_enough(m, &sums[i]))
			continue;
		slot = table_insert(&o->by_frame, i, NULL);
		if (!slot)
			return -ENOMEM;
		*slot = o->n_functions++;
	}
	return 0;
}

static int fill_functions(struct maker *m, struct errbuf *eb)
{
	_cleanup_(function_rows_done)
	struct function_rows f = {};
	int r = find_functions(m, &f, eb);

	if (r)
		return r;
	if (number_functions(m, &f, m->symbols->n_frames))
		return no_memory(eb);
	m->selfs = new_array(m->out->n_functions * m->n, sizeof(*m->selfs));
	m->totals = new_array(m->out->n_functions * m->n, sizeof(*m->totals));
	if (!m->selfs || !m->totals)
		return no_memory(eb);
	for (size_t run = 0; run < m->n; run++)
		for (size_t i = 0; i < f.n[run]; i++) {
			const struct tree_row *row = &f.rows[run][i];
			const uint64_t *at = table_find(&m->out->by_frame, row->frame);

			if (!at)
				continue;
			m->selfs[*at * m->n + run] = (double)row->self * m->runs[run].scale;
			m->totals[*at * m->n + run] = (double)row->total * m->runs[run].scale;
		}
	return 0;
}

/* ---- tests ---- */

/* Divides each run by how much larger it is than the others on the whole. */
static int make_shares(struct maker *m)
{
	_cleanup_free_ double *factor = new_array(m->n, sizeof(*factor));
	struct {
		double *values;
		size_t n;
	} all[] = {{m->selfs, m->out->n_functions}, {m->totals, m->out->n_functions},
		{m->nodes, m->out->n_nodes}, {m->unit, 1}};

	if (!factor || stats_size_factors(m->selfs, m->out->n_functions, m->n, factor))
		return -ENOMEM;
	for (size_t k = 0; k < ARRAY_SIZE(all); k++)
		for (size_t i = 0; i < all[k].n * m->n; i++)
			all[k].values[i] /= factor[i % m->n];
	return 0;
}

static int test(struct maker *m)
{
	struct stats_trees *o = m->out;
	const struct stats_options *opt = &o->options;
	size_t n = o->n_functions;
	struct stats_row *functions = o->functions;
	int r = stats_fit(&m->design, m->selfs, n, opt, &o->model);

	if (!r)
		r = stats_test(&m->design, m->selfs, n, &o->model, opt, functions);
	if (!r)
		r = stats_test(&m->design, m->totals, n, &o->model, opt, functions + n);
	if (!r)
		r = stats_judge(functions, 2 * n, opt);
	if (!r)
		r = stats_test(&m->design, m->nodes, o->n_nodes, &o->model, opt, o->nodes);
	if (r)
		return r;
	o->whole = o->nodes[0];
	r = stats_judge(&o->whole, 1, opt);
	if (!r)
		r = stats_judge(o->nodes, o->n_nodes, opt);
	return r ? r : stats_find_moved(o->nodes, o->parents, o->n_nodes);
}

/* No model has values below 0, which moreover cancel, so that the union of all runs lacks nodes of them. */
static int check_values(const struct maker *m, struct errbuf *eb)
{
	for (size_t run = 0; run < m->n; run++) {
		const struct tree *t = m->runs[run].tree;
		const char *name = m->runs[run].name;

		for (size_t i = 0; i < t->n; i++)
			if (t->self[i] < 0)
				return err_set(eb, -EINVAL,
					"%s has values below 0: is it a difference already?",
					name ? name : "a run");
	}
	return 0;
}

static int make(struct maker *m, bool shares, struct errbuf *eb)
{
	struct stats_trees *o = m->out;
	int r = check_values(m, eb);

	if (!r)
		r = fill_nodes(m, eb);
	if (!r)
		r = fill_functions(m, eb);
	if (r)
		return r;
	o->nodes = new_array(o->n_nodes, sizeof(*o->nodes));
	o->functions = new_array(2 * o->n_functions, sizeof(*o->functions));
	if (!o->nodes || !o->functions || (shares && make_shares(m)) || test(m))
		return no_memory(eb);
	return 0;
}

int stats_trees_make(const struct stats_run *runs, size_t n_a, size_t n_b, bool shares,
	const struct tree_symbols *symbols, const struct stats_options *opt, struct budget *budget,
	struct stats_trees *ret, struct errbuf *eb)
{
	_cleanup_(maker_done)
	struct maker m = {.runs = runs,
		.n = n_a + n_b,
		.unit = new_array(n_a + n_b, sizeof(double)),
		.symbols = symbols,
		.budget = budget,
		.out = ret};
	int r;

	*ret = (struct stats_trees) {.n_a = n_a, .n_b = n_b, .options = *opt};
	table_init(&ret->by_path, budget);
	table_init(&ret->by_frame, budget);
	if (!m.unit)
		return no_memory(eb);
	for (size_t i = 0; i < m.n; i++)
		m.unit[i] = runs[i].unit * runs[i].scale;
	m.design = (struct stats_runs) {.n_a = n_a, .n_b = n_b, .unit = m.unit};
	r = make(&m, shares, eb);
	if (r)
		stats_trees_done(ret);
	return r;
}

const struct stats_row *stats_self(const struct stats_trees *s, uint32_t frame)
{
	const uint64_t *at = table_find(&s->by_frame, frame);

	return at ? &s->functions[*at] : NULL;
}

const struct stats_row *stats_total(const struct stats_trees *s, uint32_t frame)
{
	const uint64_t *at = table_find(&s->by_frame, frame);

	return at ? &s->functions[s->n_functions + *at] : NULL;
}
