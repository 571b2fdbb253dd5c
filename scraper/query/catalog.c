/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of everything stored: profile types, label names and values, series. Each is a set of texts that parts are asked for (inventory.h).
 */
#include "scraper/query/inventory.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

/* Strings of labels may hold NULs, names of types and labels for people do not. */
static int add_string(struct inventory *v, struct prof_str s)
{
	return inventory_add(v, s.p, strnlen(s.p, s.len));
}

void query_strings_done(struct query_strings *s)
{
	interner_done(&s->texts);
	*s = (struct query_strings) {};
}

static int take_strings(struct inventory *v, struct query_strings *ret, struct errbuf *eb)
{
	struct interner_item *items;
	int r = inventory_sort(v, &v->texts.arena, &items, eb);

	if (r)
		return r;
	*ret = (struct query_strings) {.texts = v->texts};
	v->texts = (struct interner) {};
	ret->items = arena_alloc_array(&ret->texts.arena, ret->texts.n + 1, sizeof(*ret->items));
	if (!ret->items) {
		r = arena_error(&ret->texts.arena, eb);
		query_strings_done(ret);
		return r;
	}
	for (size_t i = 0; i < ret->texts.n; i++)
		if (items[i].len)
			ret->items[ret->n++] = items[i].bytes;
	return 0;
}

/* ---- types ---- */

/* CPU comes first: Grafana opens the first type whose id contains "cpu". */
static int compare_types(const void *a, const void *b)
{
	const struct query_type *x = a, *y = b;
	bool x_cpu = !strcmp(x->name, "process_cpu"), y_cpu = !strcmp(y->name, "process_cpu");

	return x_cpu != y_cpu ? (x_cpu ? -1 : 1) : strcmp(x->id, y->id);
}

/* The kind, then the texts in this order, each with its NUL. */
enum { N_TYPE_TEXTS = 7 };

static int add_type(struct inventory *v, const struct scan_part *p, const struct scan_hit *hit)
{
	const struct query_type *t = &v->scan.types[hit->type];
	const char *texts[N_TYPE_TEXTS] = {t->id, t->name, t->sample_type, t->sample_unit,
		t->period_type, t->period_unit, t->metric};
	int r = inventory_is_new_type(v, hit->type);

	(void)p;
	if (r <= 0 || (t->kind == STORE_GAUGE && v->what != INVENTORY_METRICS))
		return r < 0 ? r : 0;
	bytes_reset(&v->text);
	bytes_put_u8(&v->text, (uint8_t)t->kind);
	for (size_t i = 0; i < N_TYPE_TEXTS; i++)
		bytes_put(&v->text, texts[i], strlen(texts[i]) + 1);
	return bytes_error(&v->text) ? -ENOMEM : inventory_add(v, v->text.data, v->text.len);
}

static struct query_type type_of(struct arena *a, const struct interner_item *text)
{
	char *texts[N_TYPE_TEXTS];
	const char *p = text->bytes + 1;

	for (size_t i = 0; i < N_TYPE_TEXTS; i++, p += strlen(p) + 1)
		texts[i] = arena_strdup(a, p);
	return (struct query_type) {.kind = (enum store_column_kind)text->bytes[0],
		.id = texts[0],
		.name = texts[1],
		.sample_type = texts[2],
		.sample_unit = texts[3],
		.period_type = texts[4],
		.period_unit = texts[5],
		.metric = texts[6]};
}

static int list_types(
	struct inventory *v, enum query_terms terms, struct query_type_list *ret, struct errbuf *eb)
{
	struct arena *a = &ret->arena;
	int r;

	v->c.terms = terms;
	*ret = (struct query_type_list) {};
	r = inventory_ask(v, eb);
	if (r)
		return r;
	arena_init(a, v->c.env->budget);
	ret->items = arena_alloc_array(a, v->texts.n + 1, sizeof(*ret->items));
	while (ret->items && ret->n < v->texts.n) {
		ret->items[ret->n] = type_of(a, &v->texts.items[ret->n]);
		ret->n++;
	}
	r = arena_error(a, eb);
	if (r)
		query_type_list_done(ret);
	else
		qsort(ret->items, ret->n, sizeof(*ret->items), compare_types);
	return r;
}

int query_types(const struct query_catalog *c, struct query_type_list *ret, struct errbuf *eb)
{
	_cleanup_inventory_ struct inventory v = {
		.c = *c, .what = INVENTORY_TYPES, .hit = add_type};

	return list_types(&v, QUERY_PROFILE_TERMS, ret, eb);
}

int query_metrics(const struct query_catalog *c, struct query_type_list *ret, struct errbuf *eb)
{
	_cleanup_inventory_ struct inventory v = {
		.c = *c, .what = INVENTORY_METRICS, .by_window = true, .hit = add_type};

	return list_types(&v, QUERY_PROMETHEUS_TERMS, ret, eb);
}

void query_type_list_done(struct query_type_list *l)
{
	arena_done(&l->arena);
	*l = (struct query_type_list) {};
}

/* ---- labels ---- */

static int add_set_names(struct inventory *v, const struct scan_part *p, uint32_t set)
{
	int r = 0;

	for (uint32_t i = p->sets.first[set]; r >= 0 && i < p->sets.first[set + 1]; i++) {
		r = inventory_is_new_string(v, p->sets.pairs[i].name);
		if (r > 0)
			r = add_string(v, scan_string(p, p->sets.pairs[i].name));
	}
	return r;
}

static int add_hit_names(struct inventory *v, const struct scan_part *p, const struct scan_hit *hit)
{
	const bool is_profile = v->scan.types[hit->type].kind != STORE_GAUGE;
	int r = inventory_is_new_type(v, hit->type);

	if (r <= 0 || !is_profile || v->c.terms != QUERY_PROFILE_TERMS)
		return r < 0 ? r : add_set_names(v, p, p->streams[hit->stream].label_set);
	r = 0;
	for (size_t i = 0; !r && i < QUERY_N_TYPE_LABELS; i++)
		r = inventory_add(v, query_type_labels[i], strlen(query_type_labels[i]));
	return r ? r : add_set_names(v, p, p->streams[hit->stream].label_set);
}

int query_label_names(const struct query_catalog *c, struct query_strings *ret, struct errbuf *eb)
{
	_cleanup_inventory_ struct inventory v = {
		.c = *c, .what = INVENTORY_NAMES, .set = add_set_names, .hit = add_hit_names};
	int r = inventory_ask(&v, eb);

	return r ? r : take_strings(&v, ret, eb);
}

static int add_set_values(struct inventory *v, const struct scan_part *p, uint32_t set)
{
	const uint32_t value = scan_label(p, set, &v->label);
	int r = value == STORE_NONE ? 0 : inventory_is_new_string(v, value);

	return r > 0 ? add_string(v, scan_string(p, value)) : r;
}

/* The value that a value column gives its series for this label, whose name then begins so; NULL: it is the stream's own. */
static const char *type_value(enum query_terms terms, const struct query_type *t, const char *name)
{
	if (name[0] != '_')
		return NULL;
	if (terms == QUERY_PROFILE_TERMS)
		return query_type_label(t, name);
	return !strcmp(name, "__name__") ? t->metric : NULL;
}

static int add_hit_values(
	struct inventory *v, const struct scan_part *p, const struct scan_hit *hit)
{
	const char *value = type_value(v->c.terms, &v->scan.types[hit->type], v->name);
	int r;

	if (!value) {
		/* The columns of a stream share its labels: the first suffices. */
		if (v->last_stream == hit->stream)
			return 0;
		v->last_stream = hit->stream;
		return add_set_values(v, p, p->streams[hit->stream].label_set);
	}
	r = inventory_is_new_type(v, hit->type);
	return r > 0 ? inventory_add(v, value, strlen(value)) : r;
}

int query_label_values(const struct query_catalog *c, const char *name, struct query_strings *ret,
	struct errbuf *eb)
{
	_cleanup_inventory_ struct inventory v = {.c = *c,
		.what = INVENTORY_VALUES,
		.name = name,
		.set = add_set_values,
		.hit = add_hit_values};
	int r = inventory_ask(&v, eb);

	return r ? r : take_strings(&v, ret, eb);
}

/* ---- series ---- */

/* A label that a value column gives its series. */
struct type_text {
	const char *name, *value;
};

/* Sorted by name. */
static size_t type_texts(enum query_terms terms, const struct query_type *t,
	struct type_text ret[QUERY_N_TYPE_LABELS])
{
	size_t n = 0;

	if (terms == QUERY_PROMETHEUS_TERMS) {
		ret[0] = (struct type_text) {"__name__", t->metric};
		return 1;
	}
	for (size_t i = 0; t->kind != STORE_GAUGE && i < QUERY_N_TYPE_LABELS; i++)
		ret[n++] = (struct type_text) {
			query_type_labels[i], query_type_label(t, query_type_labels[i])};
	return n;
}

static int compare_name(struct prof_str a, const char *b)
{
	int c = strncmp(a.p, b, a.len);

	return c ? c : b[a.len] ? -1 : 0;
}

/* Names and values in order of the names, each with its NUL; a label of the type takes the place of the set's. */
static int add_series(struct inventory *v, const struct scan_part *p, const struct scan_hit *hit)
{
	const uint32_t set = p->streams[hit->stream].label_set, end = p->sets.first[set + 1];
	struct type_text own[QUERY_N_TYPE_LABELS];
	size_t n, k = 0;
	int r = series_seen_add(&v->seen, &v->scan, hit);

	if (r <= 0)
		return r;
	n = type_texts(v->c.terms, &v->scan.types[hit->type], own);
	bytes_reset(&v->text);
	for (uint32_t i = p->sets.first[set]; i < end || k < n;) {
		struct prof_str name = {}, value;
		int c = 1;

		if (i < end) {
			name = scan_string(p, p->sets.pairs[i].name);
			value = scan_string(p, p->sets.pairs[i].value);
			c = k < n ? compare_name(name, own[k].name) : -1;
		}
		i += c <= 0;
		if (c >= 0) {
			name = (struct prof_str) {own[k].name, (uint32_t)strlen(own[k].name)};
			value = (struct prof_str) {own[k].value, (uint32_t)strlen(own[k].value)};
			k++;
		}
		value.len = (uint32_t)strnlen(value.p, value.len);
		if (!value.len)
			continue;
		bytes_put(&v->text, name.p, strnlen(name.p, name.len));
		bytes_put_u8(&v->text, 0);
		bytes_put(&v->text, value.p, value.len);
		bytes_put_u8(&v->text, 0);
	}
	return bytes_error(&v->text) ? -ENOMEM : inventory_add(v, v->text.data, v->text.len);
}

/* Labels of all series one behind the other. */
struct all_labels {
	struct label *items;
	size_t n, cap;
};

/* The labels of a text, which they point into. */
static int split(struct budget *b, const struct interner_item *text, struct all_labels *l)
{
	const char *end = text->bytes + text->len, *value;

	for (const char *p = text->bytes; p < end; p = value + strlen(value) + 1) {
		if (alloc_grow_in(b, &l->items, &l->cap, l->n + 1, sizeof(*l->items), NULL) < 0)
			return -ENOMEM;
		value = p + strlen(p) + 1;
		l->items[l->n++] = (struct label) {p, value};
	}
	return 0;
}

/* `n` texts into ret->items, which has room; their labels into memory of its arena. */
static int split_all(const struct interner_item *texts, size_t n, struct all_labels *l,
	struct query_series_list *ret)
{
	struct label *labels;
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		ret->items[i] = (struct labels) {.n = l->n};
		if (split(ret->arena.budget, &texts[i], l) < 0)
			return -ENOMEM;
		ret->items[i].n = l->n - ret->items[i].n;
	}
	labels = arena_alloc_array(&ret->arena, l->n + 1, sizeof(*labels));
	if (!labels)
		return -ENOMEM;
	if (l->n)
		memcpy(labels, l->items, l->n * sizeof(*labels));
	for (ret->n = 0; ret->n < n; at += ret->items[ret->n++].n)
		ret->items[ret->n].items = labels + at;
	return 0;
}

static int list_series(
	struct inventory *v, size_t limit, struct query_series_list *ret, struct errbuf *eb)
{
	size_t n = limit ? MIN(v->texts.n, limit) : v->texts.n;
	struct all_labels labels = {.n = 0};
	struct interner_item *texts;
	int r = inventory_sort(v, &v->texts.arena, &texts, eb);

	if (r)
		return r;
	ret->texts = v->texts;
	v->texts = (struct interner) {};
	ret->items = arena_alloc_array(&ret->arena, n + 1, sizeof(*ret->items));
	r = ret->items ? split_all(texts, n, &labels, ret) : -ENOMEM;
	budget_free(ret->arena.budget, labels.items, labels.cap, sizeof(*labels.items));
	return r ? err_set(eb, r, "out of memory for the query") : 0;
}

int query_series(const struct query_catalog *c, size_t limit, struct query_series_list *ret,
	struct errbuf *eb)
{
	_cleanup_inventory_ struct inventory v = {
		.c = *c, .what = INVENTORY_SERIES, .hit = add_series};
	int r = inventory_ask(&v, eb);

	*ret = (struct query_series_list) {};
	arena_init(&ret->arena, c->env->budget);
	if (!r)
		r = list_series(&v, limit, ret, eb);
	if (r)
		query_series_list_done(ret);
	return r;
}

void query_series_list_done(struct query_series_list *l)
{
	interner_done(&l->texts);
	arena_done(&l->arena);
	*l = (struct query_series_list) {};
}
