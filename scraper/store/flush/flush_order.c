/* SPDX-License-Identifier: Apache-2.0
 *
 * Renumbering: strings bytewise, functions and mappings by their columns, locations and label sets by key, streams by
 * schema and labels (stream_order.h), nodes in preorder. Label strings come first, so that their table compares as text.
 */
#include "scraper/store/flush/flush_order.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "scraper/store/block/stream_order.h"
#include <string.h>

/* qsort_r's context. */
struct context {
	const struct dict *d;
	const struct flush_order *o;
	const uint8_t *is_label;
	const uint64_t *label_keys;
	const uint32_t *leads; /* of label sets, STREAM_LEADS each */
};

static int order_alloc(struct order *o, size_t n)
{
	o->n_old = (uint32_t)n;
	o->n = 0;
	o->new_id = try_realloc(NULL, n, sizeof(*o->new_id));
	o->old_id = try_realloc(NULL, n, sizeof(*o->old_id));
	return o->new_id && o->old_id ? 0 : -ENOMEM;
}

void flush_order_done(struct flush_order *o)
{
	for (unsigned k = 0; k < DICT_N; k++) {
		free(o->of[k].new_id);
		free(o->of[k].old_id);
	}
	free(o->first_child);
	free(o->children);
	*o = (struct flush_order) {.n_label_strings = 0};
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_string(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct prof_str *x = &dict_strings(c->d)[i], *y = &dict_strings(c->d)[k];
	size_t n = MIN(x->len, y->len);
	int r;

	if (c->is_label[i] != c->is_label[k])
		return c->is_label[i] ? -1 : 1;
	r = n ? memcmp(x->p, y->p, n) : 0;
	return r ? r : compare_u64(x->len, y->len);
}

static int by_function(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	const struct part_function *x = &dict_functions(c->d)[*(const uint32_t *)a];
	const struct part_function *y = &dict_functions(c->d)[*(const uint32_t *)b];
	const uint32_t *s = c->o->of[DICT_STRINGS].new_id;
	int r = compare_u64(s[x->name], s[y->name]);

	r = r ? r : compare_u64(s[x->system_name], s[y->system_name]);
	r = r ? r : compare_u64(s[x->filename], s[y->filename]);
	return r ? r : x->start_line < y->start_line ? -1 : x->start_line > y->start_line;
}

static int by_mapping(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	const struct part_mapping *x = &dict_mappings(c->d)[*(const uint32_t *)a];
	const struct part_mapping *y = &dict_mappings(c->d)[*(const uint32_t *)b];
	const uint32_t *s = c->o->of[DICT_STRINGS].new_id;
	int r = compare_u64(s[x->filename], s[y->filename]);

	r = r ? r : compare_u64(s[x->build_id], s[y->build_id]);
	return r ? r : compare_u64(x->kind, y->kind);
}

/* Locations of equal keys (a collision) are distinguished by content that does not depend on the head. */
static int by_location(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct dict_location *x = &dict_locations(c->d)[i], *y = &dict_locations(c->d)[k];
	const uint32_t *functions = c->o->of[DICT_FUNCTIONS].new_id;
	int r = compare_u64(dict_keys(c->d)[i], dict_keys(c->d)[k]);

	r = r ? r : compare_u64(x->flags, y->flags);
	r = r ? r : compare_u64(x->address, y->address);
	r = r ? r : compare_u64(x->n_lines, y->n_lines);
	for (uint32_t at = 0; !r && at < x->n_lines; at++) {
		const struct part_line *p = &dict_lines(c->d)[x->first_line + at];
		const struct part_line *q = &dict_lines(c->d)[y->first_line + at];

		r = compare_u64(functions[p->function], functions[q->function]);
		r = r ? r : p->line < q->line ? -1 : p->line > q->line;
	}
	return r ? r : compare_u64(i, k);
}

static int compare_pairs(const struct context *c, uint32_t i, uint32_t k)
{
	const uint32_t *first = dict_label_first(c->d), *s = c->o->of[DICT_STRINGS].new_id;
	const struct part_label *x = dict_label_pairs(c->d) + first[i];
	const struct part_label *y = dict_label_pairs(c->d) + first[k];
	uint32_t nx = first[i + 1] - first[i], ny = first[k + 1] - first[k];

	for (uint32_t at = 0; at < nx && at < ny; at++) {
		int r = compare_u64(s[x[at].name], s[y[at].name]);

		r = r ? r : compare_u64(s[x[at].value], s[y[at].value]);
		if (r)
			return r;
	}
	return compare_u64(nx, ny);
}

static int by_label_set(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	int r;

	if (!i || !k)
		return compare_u64(i, k); /* {} stays first */
	r = compare_u64(c->label_keys[i], c->label_keys[k]);
	return r ? r : compare_pairs(c, i, k);
}

static int by_schema(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	const struct part_schema *x = &dict_schemas(c->d)[*(const uint32_t *)a];
	const struct part_schema *y = &dict_schemas(c->d)[*(const uint32_t *)b];
	const uint32_t *s = c->o->of[DICT_STRINGS].new_id;
	int r = compare_u64(x->kind, y->kind);

	r = r ? r : compare_u64(s[x->period_type], s[y->period_type]);
	r = r ? r : compare_u64(s[x->period_unit], s[y->period_unit]);
	r = r ? r : compare_u64(x->n_columns, y->n_columns);
	for (unsigned i = 0; !r && i < x->n_columns; i++) {
		r = compare_u64(s[x->columns[i].type], s[y->columns[i].type]);
		r = r ? r : compare_u64(s[x->columns[i].unit], s[y->columns[i].unit]);
		r = r ? r : compare_u64(x->columns[i].kind, y->columns[i].kind);
	}
	return r;
}

static int by_stream(const void *a, const void *b, void *arg)
{
	const struct context *c = arg;
	const struct dict_stream *x = &dict_streams(c->d)[*(const uint32_t *)a];
	const struct dict_stream *y = &dict_streams(c->d)[*(const uint32_t *)b];
	const uint32_t *schemas = c->o->of[DICT_SCHEMAS].new_id;
	int r = compare_u64(schemas[x->schema], schemas[y->schema]);

	r = r ? r
	      : stream_leads_compare(c->leads + (size_t)x->label_set * STREAM_LEADS,
			c->leads + (size_t)y->label_set * STREAM_LEADS);
	return r ? r : compare_pairs(c, x->label_set, y->label_set);
}

static int sort_dictionary(const struct head *h, struct flush_order *o, enum dict_kind kind,
	int (*compare)(const void *, const void *, void *), struct context *c)
{
	struct order *to = &o->of[kind];
	size_t n = kind == DICT_STREAMS ? h->streams.n : dict_n(&h->dict, kind);

	if (order_alloc(to, n) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		to->new_id[i] = STORE_NONE;
		if (dict_is_hole(&h->dict, kind, i))
			continue;
		/* A stream that only holes referred to has nothing to say. */
		if (kind == DICT_STREAMS && !head_streams(h)[i].n_profiles)
			continue;
		to->old_id[to->n++] = i;
	}
	qsort_r(to->old_id, to->n, sizeof(*to->old_id), compare, c);
	for (uint32_t i = 0; i < to->n; i++)
		to->new_id[to->old_id[i]] = i;
	return 0;
}

static uint8_t *mark_label_strings(const struct dict *d, uint32_t *ret_n)
{
	uint8_t *is_label = try_malloc(d->strings.n);
	uint32_t n = 0;

	if (!is_label)
		return NULL;
	memset(is_label, 0, d->strings.n);
	is_label[0] = 1;
	for (size_t i = 0; i < d->label_pairs.n; i++) {
		is_label[dict_label_pairs(d)[i].name] = 1;
		is_label[dict_label_pairs(d)[i].value] = 1;
	}
	for (size_t i = 0; i < d->schemas.n; i++) {
		const struct part_schema *s = &dict_schemas(d)[i];

		is_label[s->period_type] = is_label[s->period_unit] = 1;
		for (unsigned k = 0; k < s->n_columns; k++)
			is_label[s->columns[k].type] = is_label[s->columns[k].unit] = 1;
	}
	for (uint32_t i = 0; i < d->strings.n; i++)
		n += is_label[i] && !dict_is_hole(d, DICT_STRINGS, i);
	*ret_n = n;
	return is_label;
}

static void put_text(struct bytes *b, const struct prof_str *s)
{
	bytes_put_varint(b, s->len);
	bytes_put(b, s->p, s->len);
}

static uint64_t *make_label_keys(const struct dict *d)
{
	_cleanup_bytes_ struct bytes b = {.data = NULL};
	size_t n = dict_n(d, DICT_LABEL_SETS);
	uint64_t *keys = try_realloc(NULL, n, sizeof(*keys));
	const uint32_t *first = dict_label_first(d);

	for (size_t i = 0; keys && i < n; i++) {
		bytes_reset(&b);
		bytes_put_varint(&b, first[i + 1] - first[i]);
		for (uint32_t at = first[i]; at < first[i + 1]; at++) {
			put_text(&b, &dict_strings(d)[dict_label_pairs(d)[at].name]);
			put_text(&b, &dict_strings(d)[dict_label_pairs(d)[at].value]);
		}
		keys[i] = hash_xxh3(b.data, b.len);
	}
	if (b.error) {
		free(keys);
		return NULL;
	}
	return keys;
}

/* Children of every node in location order, by two counting sorts: by location, then stable by parent. */
static int sort_children(const struct dict *d, struct flush_order *o)
{
	size_t n = d->parents.n, n_locations = o->of[DICT_LOCATIONS].n;
	const uint32_t *location = o->of[DICT_LOCATIONS].new_id;
	const uint32_t *parents = dict_parents(d), *locations = dict_node_locations(d);
	_cleanup_free_ uint32_t *by_place = try_realloc(NULL, n, sizeof(*by_place));
	_cleanup_free_ uint32_t *at = try_realloc(NULL, MAX(n, n_locations) + 2, sizeof(*at));
	size_t n_live = 0;

	o->first_child = try_realloc(NULL, n + 2, sizeof(*o->first_child));
	o->children = try_realloc(NULL, n, sizeof(*o->children));
	if (!by_place || !at || !o->first_child || !o->children)
		return -ENOMEM;
	memset(at, 0, (n_locations + 2) * sizeof(*at));
	for (uint32_t i = 1; i < n; i++)
		if (!dict_is_hole(d, DICT_NODES, i))
			at[location[locations[i]] + 1]++;
	for (size_t i = 0; i < n_locations; i++)
		at[i + 1] += at[i];
	for (uint32_t i = 1; i < n; i++)
		if (!dict_is_hole(d, DICT_NODES, i)) {
			by_place[at[location[locations[i]]]++] = i;
			n_live++;
		}
	memset(o->first_child, 0, (n + 2) * sizeof(*o->first_child));
	for (size_t i = 0; i < n_live; i++)
		o->first_child[parents[by_place[i]] + 1]++;
	for (size_t i = 0; i < n; i++)
		o->first_child[i + 1] += o->first_child[i];
	memcpy(at, o->first_child, n * sizeof(*at));
	for (size_t i = 0; i < n_live; i++)
		o->children[at[parents[by_place[i]]]++] = by_place[i];
	return 0;
}

/* Depth first, first child next: what is popped gets the next id. */
static int number_nodes(const struct dict *d, struct flush_order *o)
{
	struct order *to = &o->of[DICT_NODES];
	size_t n = d->parents.n, n_stack = 0;
	_cleanup_free_ uint32_t *stack = try_realloc(NULL, n, sizeof(*stack));

	if (!stack || order_alloc(to, n) < 0)
		return -ENOMEM;
	memset(to->new_id, 0xff, n * sizeof(*to->new_id));
	stack[n_stack++] = 0;
	while (n_stack) {
		uint32_t node = stack[--n_stack];

		to->new_id[node] = to->n;
		to->old_id[to->n++] = node;
		for (uint32_t c = o->first_child[node + 1]; c > o->first_child[node]; c--)
			stack[n_stack++] = o->children[c - 1];
	}
	return 0;
}

/* Once the strings have their new ids. */
static uint32_t *make_leads(const struct dict *d, const uint32_t *new_string)
{
	size_t n = dict_n(d, DICT_LABEL_SETS);
	uint32_t *leads = try_realloc(NULL, n * STREAM_LEADS, sizeof(*leads));
	const uint32_t *first = dict_label_first(d);

	if (!leads)
		return NULL;
	memset(leads, 0, n * STREAM_LEADS * sizeof(*leads));
	for (size_t i = 0; i < n; i++)
		for (uint32_t at = first[i]; at < first[i + 1]; at++) {
			const struct part_label *l = &dict_label_pairs(d)[at];
			unsigned lead = stream_lead_of(&dict_strings(d)[l->name]);

			if (lead < STREAM_LEADS)
				leads[i * STREAM_LEADS + lead] = new_string[l->value];
		}
	return leads;
}

int flush_order_make(const struct head *h, struct flush_order *ret, struct errbuf *eb)
{
	const struct dict *d = &h->dict;
	_cleanup_free_ uint8_t *is_label = mark_label_strings(d, &ret->n_label_strings);
	_cleanup_free_ uint64_t *label_keys = make_label_keys(d);
	_cleanup_free_ uint32_t *leads = NULL;
	struct context c = {.d = d, .o = ret, .is_label = is_label, .label_keys = label_keys};
	int r = is_label && label_keys ? 0 : -ENOMEM;

	r = r ? r : sort_dictionary(h, ret, DICT_STRINGS, by_string, &c);
	c.leads = leads = r ? NULL : make_leads(d, ret->of[DICT_STRINGS].new_id);
	r = r ? r : leads ? 0 : -ENOMEM;
	r = r ? r : sort_dictionary(h, ret, DICT_FUNCTIONS, by_function, &c);
	r = r ? r : sort_dictionary(h, ret, DICT_MAPPINGS, by_mapping, &c);
	r = r ? r : sort_dictionary(h, ret, DICT_LOCATIONS, by_location, &c);
	r = r ? r : sort_dictionary(h, ret, DICT_LABEL_SETS, by_label_set, &c);
	r = r ? r : sort_dictionary(h, ret, DICT_SCHEMAS, by_schema, &c);
	r = r ? r : sort_dictionary(h, ret, DICT_STREAMS, by_stream, &c);
	r = r ? r : sort_children(d, ret);
	r = r ? r : number_nodes(d, ret);
	return r < 0 ? err_set(eb, r, "out of memory renumbering a generation") : 0;
}
