/* SPDX-License-Identifier: Apache-2.0
 *
 * tagroot and tagleaf, with the meaning of pprof's options (google/pprof internal/driver/tagroot.go): the values of labels become
 * frames at the root or the leaf of every stack, before any filter; the first label is nearest to the root. Such a frame's file is
 * the label's name, and a label that is not there has the name "".
 */
#include "lib/base/alloc.h"
#include "scraper/api/api_impl.h"
#include <string.h>

static uint32_t tag_location(struct tree_symbols *s, const char *label, const char *value)
{
	struct tree_function f = {.name = tree_symbols_string(s, value, strlen(value)),
		.file = tree_symbols_string(s, label, strlen(label))};
	struct tree_line line = {};

	f.system_name = f.name;
	line.function = tree_symbols_function(s, &f);
	return tree_symbols_location(s, 0, TREE_NONE, &line, 1);
}

static int tag_group(
	struct api_job *q, struct api_view *v, struct query_group *g, struct errbuf *eb)
{
	const struct api_params *p = v->params;
	uint32_t locations[API_MAX_TAGS];
	struct tree tagged;
	int r;

	for (size_t i = 0; i < p->n_tag_roots + p->n_tag_leaves; i++)
		locations[i] =
			tag_location(v->symbols, p->tags[i], labels_get(&g->labels, p->tags[i]));
	tree_init(&tagged, q->env.budget);
	r = tree_symbols_error(v->symbols, eb);
	if (!r)
		r = tree_tag(&g->tree, locations, p->n_tag_roots, locations + p->n_tag_roots,
			p->n_tag_leaves, &tagged, eb);
	tree_done(&g->tree);
	g->tree = tagged;
	return r;
}

/* Leaves the labels of group_by. */
static int strip(struct query_group *g, const struct api_params *p)
{
	_cleanup_labels_builder_ struct labels_builder b = {};
	struct labels left;
	int r;

	labels_builder_init(&b);
	for (size_t i = 0; i < p->n_group_by; i++)
		if (*labels_get(&g->labels, p->group_by[i]))
			labels_builder_set(
				&b, p->group_by[i], labels_get(&g->labels, p->group_by[i]));
	r = labels_builder_finish(&b, &left);
	if (r)
		return r;
	labels_done(&g->labels);
	g->labels = left;
	return 0;
}

/* Adds the tree of `from` to that of `to`. */
static int join(
	struct api_job *q, struct query_group *to, struct query_group *from, struct errbuf *eb)
{
	const struct tree *const both[] = {&to->tree, &from->tree};
	struct tree merged;
	int r;

	tree_init(&merged, q->env.budget);
	r = tree_merge(both, 2, &merged, eb);
	tree_done(&to->tree);
	tree_done(&from->tree);
	labels_done(&from->labels);
	to->tree = merged;
	return r;
}

int api_view_tag(struct api_job *q, struct api_view *v, struct errbuf *eb)
{
	struct query_trees *m = &v->merged;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; !r && i < m->n_groups; i++) {
		r = tag_group(q, v, &m->groups[i], eb);
		if (!r && strip(&m->groups[i], v->params) < 0)
			r = err_set(eb, -ENOMEM, "out of memory for the query");
	}
	for (size_t i = 0; !r && i < m->n_groups; i++) {
		size_t k = 0;

		while (k < n && labels_compare(&m->groups[k].labels, &m->groups[i].labels) != 0)
			k++;
		if (k < n) {
			r = join(q, &m->groups[k], &m->groups[i], eb);
		} else if (k == i) {
			n++;
		} else {
			m->groups[n++] = m->groups[i];
			m->groups[i] = (struct query_group) {.tree = {.n = 0}};
		}
	}
	if (!r)
		m->n_groups = n;
	return r;
}
