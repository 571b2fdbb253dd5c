/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is: profile types, label names and values, series. Reads streams and label sets; rows only where a matcher is on a label
 * that the stream itself lacks, and of these the label sets alone, up to the first that passes.
 */
#include "lib/base/alloc.h"
#include "scraper/query/rows.h"
#include <stdlib.h>
#include <string.h>

struct catalog {
	struct scan scan;
	struct interner texts;
	int64_t start_ns, end_ns;
};

static void catalog_done(struct catalog *c)
{
	interner_done(&c->texts);
	scan_done(&c->scan);
}

#define _cleanup_catalog_ _cleanup_(catalog_done)

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

typedef int row_set_fn(struct catalog *c, const struct scan_part *p, uint32_t set);

/* Row label sets that pass the matchers on labels they have. */
static int visit_row_sets(struct catalog *c, row_set_fn *fn)
{
	int r = 0;

	for (size_t i = 0; i < c->scan.n_parts; i++) {
		const struct scan_part *p = &c->scan.parts[i];

		for (uint32_t set = 1; p->n_hits && !r && set < p->info->n_label_sets; set++)
			if (!p->is_stream_set[set] && (p->bits[set] & p->has[set]) == p->has[set])
				r = fn(c, p, set);
	}
	return r;
}

/* Hits of one part that only rows can decide. */
struct undecided {
	const struct scan_part *part;
	struct rows_ranges ranges;
	uint8_t *found; /* per hit: a row passed */
};

static int find_row(const struct rows_piece *piece, void *ctx, struct errbuf *eb)
{
	const uint32_t mask = piece->hit->row_mask;
	struct undecided *u = ctx;
	bool passes = false;

	(void)eb;
	if (!piece->label_sets)
		passes = scan_row_passes(u->part, mask, piece->const_label_set);
	for (size_t i = 0; piece->label_sets && !passes && i < piece->n; i++)
		passes = scan_row_passes(u->part, mask, piece->label_sets[i]);
	u->found[piece->range->hit] |= passes;
	return 0;
}

/* The rows of the hit's stream in the range of time. */
static int add_rows(struct catalog *c, struct scan_part *p, struct undecided *u, uint32_t hit,
	struct errbuf *eb)
{
	struct part_profiles profiles;
	int r = part_profiles(p->reader, p->hits[hit].stream, c->start_ns, c->end_ns, &profiles);

	if (r)
		return scan_failed(p, r, eb);
	for (size_t i = 0; i < profiles.n; i++)
		if (profiles.resolution[i] == PART_RAW &&
			rows_extend(&u->ranges, profiles.first_row[i], profiles.n_rows[i], hit,
				TREE_NONE))
			return no_memory(eb);
	return 0;
}

/* Reads each page at most once, and none of whose streams all are decided. */
static int find_rows(
	struct catalog *c, struct scan_part *p, struct undecided *u, size_t from, struct errbuf *eb)
{
	const struct rows_job job = {.scan = &c->scan,
		.part = p,
		.reader = p->reader,
		.ranges = &u->ranges,
		.to_row = UINT64_MAX,
		.sets_only = true,
		.done = u->found,
		.stats = &c->scan.env->stats};
	int r = 0;

	for (size_t h = from; !r && h < p->n_hits; h++)
		/* Of a stream's columns the first one stands for all. */
		if (p->hits[h].row_mask && !p->hits[h].no_rows &&
			(h == from || p->hits[h - 1].stream != p->hits[h].stream))
			r = add_rows(c, p, u, (uint32_t)h, eb);
	rows_sort(&u->ranges);
	return r ? r : rows_walk(&job, find_row, u, eb);
}

static bool any_undecided(const struct scan_part *p, size_t from)
{
	for (size_t h = from; h < p->n_hits; h++)
		if (p->hits[h].row_mask)
			return true;
	return false;
}

/* Drops hits from number *from on whose streams have no row that passes: what else lies in their part must not matter. */
static int keep_hits(struct catalog *c, struct scan_part *p, size_t *from, struct errbuf *eb)
{
	struct undecided u = {.part = p, .ranges = {.budget = c->scan.env->budget}};
	uint32_t stream = STORE_NONE;
	size_t kept = *from;
	bool found = false;
	int r = 0;

	if (any_undecided(p, *from)) {
		u.found = arena_zalloc(&c->scan.arena, p->n_hits);
		r = u.found ? find_rows(c, p, &u, *from, eb) : no_memory(eb);
		rows_done(&u.ranges);
		for (size_t h = *from; !r && h < p->n_hits; h++) {
			if (p->hits[h].stream != stream) /* else another column of it */
				found = !p->hits[h].row_mask || u.found[h];
			stream = p->hits[h].stream;
			if (found)
				p->hits[kept++] = p->hits[h];
		}
		p->n_hits = kept;
	}
	*from = p->n_hits;
	return r;
}

/* One selector more, while its bits stand. */
static int select_more(struct catalog *c, const struct query_selector *selector, size_t *n_hits,
	row_set_fn *fn, struct errbuf *eb)
{
	int r = scan_select(&c->scan, selector, eb);

	for (size_t i = 0; !r && i < c->scan.n_parts; i++)
		r = keep_hits(c, &c->scan.parts[i], &n_hits[i], eb);
	if (!r && fn && visit_row_sets(c, fn) < 0)
		r = no_memory(eb);
	return r;
}

/* `fn` may be NULL; then series are numbered. */
static int catalog_open(struct catalog *c, struct query_env *env, enum query_terms terms,
	int64_t start_ns, int64_t end_ns, const struct query_selector *selectors, size_t n,
	row_set_fn *fn, struct errbuf *eb)
{
	size_t *n_hits;
	int r;

	c->start_ns = start_ns;
	c->end_ns = end_ns;
	interner_init(&c->texts, env->budget);
	r = scan_open(&c->scan, env, terms, start_ns, end_ns, NULL, 0, eb);
	c->scan.without_series = fn != NULL;
	if (r)
		return r;
	n_hits = arena_zalloc(&c->scan.arena, (c->scan.n_parts + 1) * sizeof(*n_hits));
	if (!n_hits)
		return arena_error(&c->scan.arena, eb);
	for (size_t i = 0; !r && i < MAX(n, (size_t)1); i++)
		r = select_more(c, n ? &selectors[i] : NULL, n_hits, fn, eb);
	return r;
}

/* Has the stream a profile in the range? Most are told by their own limits. */
static int in_range(struct catalog *c, struct scan_part *p, uint32_t stream, struct errbuf *eb)
{
	const struct part_stream *st = &p->streams[stream];
	struct part_profiles profiles;
	int r;

	if (st->max_time_ns < c->start_ns || st->min_time_ns > c->end_ns || !st->n_profiles)
		return 0;
	if ((st->min_time_ns >= c->start_ns && st->min_time_ns <= c->end_ns) ||
		(st->max_time_ns >= c->start_ns && st->max_time_ns <= c->end_ns))
		return 1;
	r = part_profiles(p->reader, stream, c->start_ns, c->end_ns, &profiles);
	return r ? scan_failed(p, r, eb) : profiles.n > 0;
}

typedef int hit_fn(
	struct catalog *c, const struct scan_part *p, const struct scan_hit *hit, void *ctx);

/* Calls `fn` for every hit with a profile in the range. */
static int visit_hits(struct catalog *c, hit_fn *fn, void *ctx, struct errbuf *eb)
{
	for (size_t i = 0; i < c->scan.n_parts; i++) {
		struct scan_part *p = &c->scan.parts[i];

		for (size_t h = 0; h < p->n_hits; h++) {
			int r = in_range(c, p, p->hits[h].stream, eb);

			if (r < 0)
				return r;
			if (r && fn(c, p, &p->hits[h], ctx) < 0)
				return no_memory(eb);
		}
	}
	return 0;
}

static int add_text(struct catalog *c, const char *text, size_t n)
{
	return interner_add(&c->texts, text, n, NULL) == INTERNER_NONE ? -ENOMEM : 0;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int take_texts(struct catalog *c, struct query_strings *ret, struct errbuf *eb)
{
	*ret = (struct query_strings) {.texts = c->texts};
	c->texts = (struct interner) {};
	ret->items = arena_alloc_array(&ret->texts.arena, ret->texts.n + 1, sizeof(*ret->items));
	if (!ret->items) {
		int r = arena_error(&ret->texts.arena, eb);

		query_strings_done(ret);
		return r;
	}
	for (size_t i = 0; i < ret->texts.n; i++)
		if (ret->texts.items[i].len)
			ret->items[ret->n++] = ret->texts.items[i].bytes;
	qsort(ret->items, ret->n, sizeof(*ret->items), compare_texts);
	return 0;
}

void query_strings_done(struct query_strings *s)
{
	interner_done(&s->texts);
	*s = (struct query_strings) {};
}

/* ---- types ---- */

/* CPU comes first: Grafana opens the first type whose id contains "cpu". */
static int compare_types(const void *a, const void *b)
{
	const struct query_type *x = a, *y = b;
	bool x_cpu = !strcmp(x->name, "process_cpu"), y_cpu = !strcmp(y->name, "process_cpu");

	return x_cpu != y_cpu ? (x_cpu ? -1 : 1) : strcmp(x->id, y->id);
}

/* Which types were seen; gauges only when asked for. */
struct type_marks {
	uint8_t *seen;
	bool gauges;
};

static int mark_type(
	struct catalog *c, const struct scan_part *p, const struct scan_hit *hit, void *ctx)
{
	struct type_marks *m = ctx;

	(void)p;
	m->seen[hit->type] = m->gauges || c->scan.types[hit->type].kind != STORE_GAUGE;
	return 0;
}

/* Types of what was selected in an open catalog. */
static int take_types(
	struct catalog *c, bool gauges, struct query_type_list *ret, struct errbuf *eb)
{
	struct type_marks m = {arena_zalloc(&c->scan.arena, c->scan.n_types + 1), gauges};
	struct arena *a = &ret->arena;
	int r = m.seen ? visit_hits(c, mark_type, &m, eb) : arena_error(&c->scan.arena, eb);

	if (r)
		return r;
	*ret = (struct query_type_list) {};
	arena_init(a, c->scan.env->budget);
	ret->items = arena_alloc_array(a, c->scan.n_types + 1, sizeof(*ret->items));
	for (size_t i = 0; ret->items && i < c->scan.n_types; i++) {
		const struct query_type *t = &c->scan.types[i];

		if (m.seen[i])
			ret->items[ret->n++] = (struct query_type) {.id = arena_strdup(a, t->id),
				.name = arena_strdup(a, t->name),
				.sample_type = arena_strdup(a, t->sample_type),
				.sample_unit = arena_strdup(a, t->sample_unit),
				.period_type = arena_strdup(a, t->period_type),
				.period_unit = arena_strdup(a, t->period_unit),
				.metric = arena_strdup(a, t->metric),
				.kind = t->kind};
	}
	r = arena_error(a, eb);
	if (r)
		query_type_list_done(ret);
	else
		qsort(ret->items, ret->n, sizeof(*ret->items), compare_types);
	return r;
}

int query_types(struct query_env *env, int64_t start_ns, int64_t end_ns,
	const struct query_selector *selectors, size_t n_selectors, struct query_type_list *ret,
	struct errbuf *eb)
{
	_cleanup_catalog_ struct catalog c = {};
	int r = catalog_open(
		&c, env, QUERY_PROFILE_TERMS, start_ns, end_ns, selectors, n_selectors, NULL, eb);

	return r ? r : take_types(&c, false, ret, eb);
}

int query_metrics(struct query_env *env, int64_t start_ns, int64_t end_ns,
	const struct query_selector *selectors, size_t n_selectors, struct query_type_list *ret,
	struct errbuf *eb)
{
	_cleanup_catalog_ struct catalog c = {};
	int r = catalog_open(&c, env, QUERY_PROMETHEUS_TERMS, start_ns, end_ns, selectors,
		n_selectors, NULL, eb);

	return r ? r : take_types(&c, true, ret, eb);
}

void query_type_list_done(struct query_type_list *l)
{
	arena_done(&l->arena);
	*l = (struct query_type_list) {};
}

/* ---- labels ---- */

static int add_set_names(struct catalog *c, const struct scan_part *p, uint32_t set)
{
	int r = 0;

	for (uint32_t i = p->sets.first[set]; !r && i < p->sets.first[set + 1]; i++) {
		struct prof_str name = scan_string(p, p->sets.pairs[i].name);

		r = add_text(c, name.p, name.len);
	}
	return r;
}

static int add_hit_names(
	struct catalog *c, const struct scan_part *p, const struct scan_hit *hit, void *ctx)
{
	bool is_profile = c->scan.types[hit->type].kind != STORE_GAUGE;
	int r = add_set_names(c, p, p->streams[hit->stream].label_set);

	(void)ctx;
	for (size_t i = 0; !r && i < QUERY_N_TYPE_LABELS; i++)
		if (is_profile && c->scan.terms == QUERY_PROFILE_TERMS)
			r = add_text(c, query_type_labels[i], strlen(query_type_labels[i]));
	return r;
}

int query_label_names(struct query_env *env, int64_t start_ns, int64_t end_ns,
	const struct query_selector *selectors, size_t n_selectors, enum query_terms terms,
	struct query_strings *ret, struct errbuf *eb)
{
	_cleanup_catalog_ struct catalog c = {};
	int r = catalog_open(
		&c, env, terms, start_ns, end_ns, selectors, n_selectors, add_set_names, eb);

	if (!r)
		r = visit_hits(&c, add_hit_names, NULL, eb);
	return r ? r : take_texts(&c, ret, eb);
}

/* The label in question. */
struct values {
	struct catalog c;
	const char *name;
	bool of_type; /* it may come from the value column */
	/* of the part in hand */
	const struct scan_part *part;
	uint32_t name_id;
	uint8_t *seen; /* per string */
};

static int add_set_values(struct catalog *c, const struct scan_part *p, uint32_t set)
{
	struct values *v = (struct values *)c;
	struct prof_str text;
	uint32_t value;

	if (v->part != p) {
		v->part = p;
		v->name_id = STORE_NONE;
		v->seen = arena_zalloc(&c->scan.arena, p->info->n_strings + 1UL);
		if (!v->seen)
			return -ENOMEM;
	}
	value = scan_label(p, set, v->name, &v->name_id);
	if (value == STORE_NONE || v->seen[value])
		return 0;
	v->seen[value] = 1;
	text = scan_string(p, value);
	return add_text(c, text.p, text.len);
}

static int add_hit_values(
	struct catalog *c, const struct scan_part *p, const struct scan_hit *hit, void *ctx)
{
	const struct query_type *t = &c->scan.types[hit->type];
	const struct values *v = ctx;
	const char *value = NULL;

	if (v->of_type && c->scan.terms == QUERY_PROFILE_TERMS)
		value = query_type_label(t, v->name);
	else if (v->of_type)
		value = t->metric;
	if (value)
		return add_text(c, value, strlen(value));
	return add_set_values(c, p, p->streams[hit->stream].label_set);
}

/* Is it a label that value columns have, in these terms? */
static bool is_of_type(enum query_terms terms, const char *name)
{
	if (terms == QUERY_PROMETHEUS_TERMS)
		return !strcmp(name, "__name__");
	for (size_t i = 0; i < QUERY_N_TYPE_LABELS; i++)
		if (!strcmp(name, query_type_labels[i]))
			return true;
	return false;
}

int query_label_values(struct query_env *env, int64_t start_ns, int64_t end_ns,
	const struct query_selector *selectors, size_t n_selectors, enum query_terms terms,
	const char *name, struct query_strings *ret, struct errbuf *eb)
{
	struct values v = {.name = name, .of_type = is_of_type(terms, name)};
	int r = catalog_open(
		&v.c, env, terms, start_ns, end_ns, selectors, n_selectors, add_set_values, eb);

	if (!r)
		r = visit_hits(&v.c, add_hit_values, &v, eb);
	if (!r)
		r = take_texts(&v.c, ret, eb);
	catalog_done(&v.c);
	return r;
}

/* ---- series ---- */

struct series_list {
	struct query_series_list *out;
	size_t limit;
	uint8_t *seen; /* per series of the scan */
};

/* The labels in one piece of the list's memory. */
static int put_labels(struct arena *a, const struct labels_builder *b, struct labels *ret)
{
	*ret = (struct labels) {.items = arena_alloc_array(a, b->n + 1, sizeof(*ret->items))};
	for (; ret->items && ret->n < b->n; ret->n++)
		ret->items[ret->n] = (struct label) {arena_strdup(a, b->items[ret->n].name),
			arena_strdup(a, b->items[ret->n].value)};
	return b->error ? b->error : arena_error(a, NULL);
}

static int add_series(
	struct catalog *c, const struct scan_part *p, const struct scan_hit *hit, void *ctx)
{
	_cleanup_labels_builder_ struct labels_builder b = {};
	const struct query_type *t = &c->scan.types[hit->type];
	struct series_list *l = ctx;

	if (l->seen[hit->series] || (l->limit && l->out->n == l->limit))
		return 0;
	l->seen[hit->series] = 1;
	labels_builder_init(&b);
	scan_set_labels(p, p->streams[hit->stream].label_set, &b);
	if (c->scan.terms == QUERY_PROMETHEUS_TERMS)
		labels_builder_set(&b, "__name__", t->metric);
	for (size_t i = 0; c->scan.terms == QUERY_PROFILE_TERMS && i < QUERY_N_TYPE_LABELS; i++)
		if (query_type_label(t, query_type_labels[i]))
			labels_builder_set(&b, query_type_labels[i],
				query_type_label(t, query_type_labels[i]));
	return put_labels(&l->out->arena, &b, &l->out->items[l->out->n++]);
}

static int compare_series(const void *a, const void *b)
{
	return labels_compare(a, b);
}

static int list_series(
	struct catalog *c, size_t limit, struct query_series_list *ret, struct errbuf *eb)
{
	size_t n = c->scan.series_keys.n;
	struct series_list list = {
		.out = ret, .limit = limit, .seen = arena_zalloc(&c->scan.arena, n + 1)};
	int r;

	ret->items = arena_alloc_array(
		&ret->arena, (limit ? MIN(n, limit) : n) + 1, sizeof(*ret->items));
	r = list.seen ? arena_error(&ret->arena, eb) : arena_error(&c->scan.arena, eb);
	if (!r)
		r = visit_hits(c, add_series, &list, eb);
	if (!r)
		qsort(ret->items, ret->n, sizeof(*ret->items), compare_series);
	return r;
}

int query_series(struct query_env *env, int64_t start_ns, int64_t end_ns,
	const struct query_selector *selectors, size_t n_selectors, enum query_terms terms,
	size_t limit, struct query_series_list *ret, struct errbuf *eb)
{
	_cleanup_catalog_ struct catalog c = {};
	int r = catalog_open(&c, env, terms, start_ns, end_ns, selectors, n_selectors, NULL, eb);

	*ret = (struct query_series_list) {};
	arena_init(&ret->arena, env->budget);
	if (!r)
		r = list_series(&c, limit, ret, eb);
	if (r)
		query_series_list_done(ret);
	return r;
}

void query_series_list_done(struct query_series_list *l)
{
	arena_done(&l->arena);
	*l = (struct query_series_list) {};
}
