/* SPDX-License-Identifier: Apache-2.0
 *
 * From a selector to streams and columns: every matcher runs once per distinct value,
 * every type is named once per (schema, name).
 */
#include "scraper/query/scan.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

enum { UNASKED = 0, NO = 1, YES = 2, MAX_GROUP_BY = 32 };

int scan_reader_failed(
	const struct scan_part *p, const struct part_reader *reader, int r, struct errbuf *eb)
{
	return err_set(
		eb, r, "part %s: %s", p->info ? p->info->ulid : "?", part_reader_error(reader));
}

int scan_failed(const struct scan_part *p, int r, struct errbuf *eb)
{
	return scan_reader_failed(p, p->reader, r, eb);
}

int scan_contradicts(
	const struct scan_part *p, struct part_reader *reader, const char *what, struct errbuf *eb)
{
	part_report_damage(reader, what);
	return scan_reader_failed(p, reader, -EBADMSG, eb);
}

size_t scan_n_damaged(const struct query_env *env)
{
	size_t n = 0;

	for (size_t i = 0; i < env->n_parts; i++)
		n += part_is_damaged(env->parts[i]);
	return n;
}

bool scan_met_damage(const struct query_env *env, int r, size_t n_before)
{
	return part_is_damage(r) && scan_n_damaged(env) > n_before;
}

int scan_cancelled(const struct scan *s, struct errbuf *eb)
{
	if (s->env->cancel && atomic_load_explicit(s->env->cancel, memory_order_relaxed))
		return err_set(eb, -ECANCELED, "the query was cancelled or ran into its deadline");
	return 0;
}

void scan_close_part(struct scan_part *p)
{
	part_reader_closep(&p->reader);
	p->reader = NULL;
}

void scan_done(struct scan *s)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		scan_close_part(&s->parts[i]);
		budget_free(s->env->budget, s->parts[i].hits, s->parts[i].cap_hits,
			sizeof(struct scan_hit));
	}
	for (size_t i = 0; i < s->n_types; i++)
		query_type_done(&s->types[i]);
	free(s->types);
	interner_done(&s->type_keys);
	interner_done(&s->series_keys);
	bytes_done(&s->key);
	arena_done(&s->arena);
}

/* Of what was not checked when it was read. */
static int check_ids(struct scan_part *p, struct errbuf *eb)
{
	const struct part_info *in = p->info;
	const char *what = NULL;

	for (uint32_t i = 0; i < p->sets.first[in->n_label_sets] && !what; i++)
		if (p->sets.pairs[i].name >= in->n_label_strings ||
			p->sets.pairs[i].value >= in->n_label_strings)
			what = "a label refers to no string";
	for (uint32_t i = 0; i < in->n_streams && !what; i++)
		if (p->streams[i].schema >= in->n_schemas ||
			p->streams[i].label_set >= in->n_label_sets)
			what = "a stream refers to no schema or label set";
	for (uint32_t i = 0; i < in->n_schemas && !what; i++) {
		const struct part_schema *sc = &p->schemas[i];

		if (sc->n_columns > STORE_MAX_COLUMNS || sc->period_type >= in->n_label_strings ||
			sc->period_unit >= in->n_label_strings)
			what = "a schema refers to no string";
		for (uint32_t c = 0; c < sc->n_columns && !what; c++)
			if (sc->columns[c].type >= in->n_label_strings ||
				sc->columns[c].unit >= in->n_label_strings)
				what = "a column refers to no string";
	}
	return what ? scan_contradicts(p, p->reader, what, eb) : 0;
}

static int find_group_values(struct scan *s, struct scan_part *p, struct errbuf *eb)
{
	size_t n_sets = p->info->n_label_sets, n_group = s->n_group_by;
	int r;

	p->group_values = arena_alloc_array(&s->arena, n_sets * n_group + 1, sizeof(uint32_t));
	p->is_stream_set = arena_zalloc(&s->arena, n_sets + 1);
	r = arena_error(&s->arena, eb);
	if (r)
		return r;
	for (uint32_t i = 0; i < p->info->n_streams; i++)
		p->is_stream_set[p->streams[i].label_set] = 1;
	for (size_t g = 0; g < n_group; g++) {
		struct scan_label label = scan_find_label(p, s->group_by[g]);

		for (uint32_t set = 0; set < n_sets; set++) {
			const uint32_t value = scan_label(p, set, &label);

			p->group_values[set * n_group + g] = value;
			if (value != STORE_NONE && !p->is_stream_set[set])
				p->group_labels_any |= 1U << g;
		}
	}
	return 0;
}

static int load_part(struct scan *s, struct scan_part *p, struct errbuf *eb)
{
	int r;

	r = part_schemas(p->reader, &p->schemas);
	if (!r)
		r = part_streams(p->reader, &p->streams);
	if (!r)
		r = part_label_sets(p->reader, &p->sets);
	if (r)
		return scan_failed(p, r, eb);
	r = part_label_strings(p->reader, &p->strings);
	if (r)
		return scan_failed(p, r, eb);
	r = p->info->labels_sorted ? 0 : check_ids(p, eb);
	if (r)
		return r;
	p->name = scan_find_label(p, "__name__");
	return find_group_values(s, p, eb);
}

int scan_open(struct scan *s, struct query_env *env, enum query_terms terms, int64_t start_ns,
	int64_t end_ns, const char *const *group_by, size_t n_group_by, struct errbuf *eb)
{
	int r = 0;

	*s = (struct scan) {
		.env = env, .terms = terms, .group_by = group_by, .n_group_by = n_group_by};
	arena_init(&s->arena, env->budget);
	interner_init(&s->type_keys, env->budget);
	interner_init(&s->series_keys, env->budget);
	bytes_init(&s->key, env->budget, 0);
	if (n_group_by > MAX_GROUP_BY)
		return err_set(eb, -EINVAL, "group_by: more than %d labels", MAX_GROUP_BY);
	s->parts = arena_zalloc(&s->arena, (env->n_parts + 1) * sizeof(*s->parts));
	r = arena_error(&s->arena, eb);
	for (size_t i = 0; !r && i < env->n_parts; i++) {
		struct scan_part *p = &s->parts[s->n_parts];

		if (part_is_damaged(env->parts[i]))
			continue;
		*p = (struct scan_part) {.part = env->parts[i]};
		r = part_reader_open(env->parts[i], env->budget, &p->reader, eb);
		if (r)
			return r;
		p->info = part_reader_info(p->reader);
		s->n_parts++;
		if (p->info->max_time_ns < start_ns ||
			tree_add(p->info->min_time_ns, -MAX(p->info->max_duration_ns, 0)) >
				end_ns ||
			p->info->min_time_ns > p->info->max_time_ns) {
			scan_close_part(p);
			s->n_parts--;
			continue;
		}
		env->stats.parts++;
		r = load_part(s, p, eb);
		if (!r)
			r = scan_cancelled(s, eb);
	}
	return r;
}

/* ---- matchers against label sets ---- */

struct matching {
	struct scan *s;
	const struct query_selector *selector;
	struct errbuf *eb;
	uint32_t label_mask;  /* matchers on labels; the others are on the column */
	uint32_t absent_bits; /* matchers that hold for "" */
	uint32_t any_bits;    /* matchers that hold for some label set of rows of any part */
};

static bool is_column_label(const struct scan *s, const char *name)
{
	for (size_t i = 0; i < QUERY_N_TYPE_LABELS; i++)
		if (!strcmp(name, query_type_labels[i]))
			return true;
	return s->terms == QUERY_PROMETHEUS_TERMS && !strcmp(name, "__name__");
}

static int matching_init(struct matching *m)
{
	for (size_t i = 0; m->selector && i < m->selector->n_matchers; i++) {
		const struct query_matcher *q = &m->selector->matchers[i];
		int r = query_matcher_matches(q, "", 0, m->eb);

		if (r < 0)
			return r;
		if (!is_column_label(m->s, q->name))
			m->label_mask |= 1U << i;
		if (r)
			m->absent_bits |= 1U << i;
	}
	m->absent_bits &= m->label_mask;
	return 0;
}

static int ask(struct matching *m, struct prof_str value, size_t matcher, uint8_t *ret)
{
	int r = query_matcher_matches(&m->selector->matchers[matcher], value.p, value.len, m->eb);

	if (r >= 0)
		*ret = r ? YES : NO;
	return r;
}

/* One matcher, of all sets that have its label. */
static int match_label(struct matching *m, struct scan_part *p, size_t matcher)
{
	struct scan_label label = scan_find_label(p, m->selector->matchers[matcher].name);
	const uint32_t bit = 1U << matcher;
	uint8_t *answers; /* per value */
	int r = 0;

	if (label.name == STORE_NONE)
		return 0;
	answers = arena_zalloc(&m->s->arena, p->info->n_label_strings + 1UL);
	if (!answers)
		return arena_error(&m->s->arena, m->eb);
	for (uint32_t set = 0; r >= 0 && set < p->info->n_label_sets; set++) {
		const uint32_t value = scan_label(p, set, &label);

		if (value == STORE_NONE)
			continue;
		if (answers[value] == UNASKED)
			r = ask(m, scan_string(p, value), matcher, &answers[value]);
		p->has[set] |= bit;
		p->bits[set] = answers[value] == YES ? p->bits[set] | bit : p->bits[set] & ~bit;
	}
	return r < 0 ? r : 0;
}

static int match_sets(struct matching *m, struct scan_part *p)
{
	const size_t n = p->info->n_label_sets;
	int r;

	p->bits = arena_alloc_array(&m->s->arena, n + 1, sizeof(*p->bits));
	p->has = arena_zalloc(&m->s->arena, (n + 1) * sizeof(*p->has));
	p->any_bits = 0;
	p->all_bits = UINT32_MAX;
	r = arena_error(&m->s->arena, m->eb);
	for (size_t set = 0; !r && set < n; set++)
		p->bits[set] = m->absent_bits;
	for (uint32_t left = m->label_mask; !r && left; left &= left - 1)
		r = match_label(m, p, (size_t)__builtin_ctz(left));
	for (size_t set = 0; !r && set < n; set++)
		if (!p->is_stream_set[set]) {
			p->any_bits |= p->bits[set];
			p->all_bits &= p->bits[set];
		}
	return r;
}

static int compare_strings(struct prof_str a, const char *b, size_t n)
{
	int c = memcmp(a.p, b, MIN(a.len, n));

	return c ? c : (a.len > n) - (a.len < n);
}

/* A head's are not sorted, and most are no label names. */
struct scan_label scan_find_label(const struct scan_part *p, const char *name)
{
	const size_t n = strlen(name);
	uint32_t lo = 0, hi = p->info->n_label_strings;

	if (!p->info->labels_sorted) {
		for (uint32_t i = 0; i < p->sets.first[p->info->n_label_sets]; i++)
			if (!compare_strings(scan_string(p, p->sets.pairs[i].name), name, n))
				return (struct scan_label) {.name = p->sets.pairs[i].name};
		return (struct scan_label) {.name = STORE_NONE};
	}
	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;
		const int c = compare_strings(p->strings[mid], name, n);

		if (!c)
			return (struct scan_label) {.name = mid};
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return (struct scan_label) {.name = STORE_NONE};
}

bool scan_row_passes(const struct scan_part *p, uint32_t row_mask, uint32_t label_set)
{
	return (p->bits[label_set] & row_mask) == row_mask;
}

/*
 * Whether rows or all of the stream may pass; of *ret only row_mask and no_rows are set. A stream that has none in this part stays where
 * another part may have some of its series: a mean is over all scrapes.
 */
static bool stream_passes(
	const struct matching *m, const struct scan_part *p, uint32_t stream, struct scan_hit *ret)
{
	const struct part_stream *st = &p->streams[stream];
	uint32_t has = p->has[st->label_set], left = m->label_mask & ~has;

	if ((p->bits[st->label_set] & has) != has)
		return false;
	if (p->schemas[st->schema].kind != STORE_PROFILE)
		return (left & ~m->absent_bits) == 0;
	ret->row_mask = left & ~p->all_bits;
	ret->no_rows = left & ~p->any_bits;
	return (left & ~m->any_bits) == 0;
}

/* ---- types ---- */

/* The index of this type among scan.types; negative errno when memory is out. */
static int64_t intern_type(struct scan *s, struct query_type *t)
{
	_cleanup_free_ char *key = xasprintf("%d%s", (int)t->kind, t->id);
	bool is_new;
	uint32_t id = interner_add(&s->type_keys, key, strlen(key), &is_new);
	int r = id == INTERNER_NONE ? -ENOMEM : 0;

	if (!r && is_new)
		r = alloc_grow(&s->types, &s->cap_types, id + 1UL, sizeof(*s->types));
	if (!r && is_new) {
		s->types[id] = *t;
		s->n_types = id + 1UL;
		*t = (struct query_type) {};
	}
	query_type_done(t);
	return r ? r : (int64_t)id;
}

static int type_passes(const struct matching *m, const struct query_type *t)
{
	const struct query_selector *q = m->selector;

	if (!q)
		return 1;
	if (q->has_type && (t->kind == STORE_GAUGE || strcmp(q->type.name, t->name) != 0 ||
				   strcmp(q->type.sample_type, t->sample_type) != 0 ||
				   strcmp(q->type.sample_unit, t->sample_unit) != 0 ||
				   strcmp(q->type.period_type, t->period_type) != 0 ||
				   strcmp(q->type.period_unit, t->period_unit) != 0))
		return 0;
	for (size_t i = 0; i < q->n_matchers; i++) {
		const char *value;
		int r;

		if (m->label_mask & 1U << i)
			continue;
		value = query_type_label(t, q->matchers[i].name);
		if (!value)
			value = !strcmp(q->matchers[i].name, "__name__") ? t->metric : "";
		r = query_matcher_matches(&q->matchers[i], value, strlen(value), m->eb);
		if (r <= 0)
			return r;
	}
	return 1;
}

static uint32_t name_of(struct scan_part *p, uint32_t set)
{
	return scan_label(p, set, &p->name);
}

/* For each (schema, name) of a part: first entry in `columns`, whose values are type + 1, or 0 when it does not pass. */
struct type_memo {
	struct table first;
	uint32_t *columns;
	size_t n, cap;
};

static void type_memo_done(struct type_memo *t)
{
	table_done(&t->first);
	free(t->columns);
}

static int memo_types(struct matching *m, const struct scan_part *p, struct type_memo *memo,
	uint32_t schema, uint32_t name, const uint32_t **ret)
{
	const struct part_schema *sc = &p->schemas[schema];
	bool is_new;
	uint64_t *first = table_insert(&memo->first, (uint64_t)schema << 32 | name, &is_new);
	int r = first ? alloc_grow(&memo->columns, &memo->cap, memo->n + sc->n_columns + 1, 4)
		      : -ENOMEM;

	if (r)
		return err_set(m->eb, r, "out of memory for profile types");
	if (is_new) {
		*first = memo->n;
		for (uint32_t c = 0; c < sc->n_columns; c++) {
			struct query_type t;
			int64_t id = 0;

			query_type_name(p, sc, c, name, &t);
			r = type_passes(m, &t);
			if (r > 0) {
				id = intern_type(m->s, &t);
				r = id < 0 ? (int)id : 0;
				id++;
			}
			query_type_done(&t);
			if (r < 0)
				return r;
			memo->columns[memo->n++] = (uint32_t)id;
		}
	}
	*ret = memo->columns + *first;
	return 0;
}

/* ---- hits ---- */

static int series_key(const struct scan_part *p, uint32_t set, uint32_t type, struct bytes *key)
{
	bytes_reset(key);
	bytes_put_u32(key, type);
	for (uint32_t i = p->sets.first[set]; i < p->sets.first[set + 1]; i++) {
		struct prof_str name = scan_string(p, p->sets.pairs[i].name),
				value = scan_string(p, p->sets.pairs[i].value);

		bytes_put_varint(key, name.len);
		bytes_put(key, name.p, name.len);
		bytes_put_varint(key, value.len);
		bytes_put(key, value.p, value.len);
	}
	return bytes_error(key);
}

static int64_t intern_series(struct scan *s, const struct scan_part *p, uint32_t set, uint32_t type)
{
	struct bytes *key = &s->key;
	uint32_t id;

	if (series_key(p, set, type, key))
		return -ENOMEM;
	id = interner_add(&s->series_keys, key->data, key->len, NULL);
	return id == INTERNER_NONE ? -ENOMEM : (int64_t)id;
}

int scan_find_series(
	const struct scan *s, const struct scan_part *p, uint32_t set, uint32_t type, uint32_t *ret)
{
	_cleanup_bytes_ struct bytes key = {};

	ASSERT(!s->without_series && type < s->n_types);
	if (series_key(p, set, type, &key))
		return -ENOMEM;
	*ret = interner_find(&s->series_keys, key.data, key.len);
	if (*ret == INTERNER_NONE)
		*ret = TREE_NONE;
	return 0;
}

bool scan_is_end(const struct scan_part *p, const struct part_schema *sc)
{
	struct prof_str type;

	if (sc->kind != STORE_GAUGES || sc->n_columns != 1)
		return false;
	type = scan_string(p, sc->columns[0].type);
	return type.len == strlen(STORE_END_COLUMN) && !memcmp(type.p, STORE_END_COLUMN, type.len);
}

static int add_hit(struct scan *s, struct scan_part *p, struct scan_hit hit)
{
	int64_t series = s->without_series
				 ? 0
				 : intern_series(s, p, p->streams[hit.stream].label_set, hit.type);
	int r = series < 0 ? (int)series
			   : alloc_grow_in(s->env->budget, &p->hits, &p->cap_hits, p->n_hits + 1,
				     sizeof(*p->hits), NULL);

	if (r)
		return r;
	hit.series = (uint32_t)series;
	p->hits[p->n_hits++] = hit;
	return 0;
}

static int select_part(struct matching *m, struct scan_part *p)
{
	_cleanup_(type_memo_done)
	struct type_memo memo = {};
	uint32_t schema = STORE_NONE, name = STORE_NONE;
	const uint32_t *types = NULL;
	int r = 0;

	table_init(&memo.first, m->s->env->budget);
	for (uint32_t i = 0; !r && i < p->info->n_streams; i++) {
		const struct part_stream *st = &p->streams[i];
		const struct part_schema *sc = &p->schemas[st->schema];
		struct scan_hit hit = {.stream = i};
		uint32_t its_name;

		if (!stream_passes(m, p, i, &hit) || sc->kind == STORE_COVERAGE ||
			scan_is_end(p, sc))
			continue;
		/* Neighbours mostly have one type. */
		its_name = name_of(p, st->label_set);
		if (!types || st->schema != schema || its_name != name)
			r = memo_types(m, p, &memo, st->schema, its_name, &types);
		schema = st->schema;
		name = its_name;
		for (hit.column = 0; !r && hit.column < sc->n_columns; hit.column++)
			if (types[hit.column]) {
				hit.type = types[hit.column] - 1;
				r = add_hit(m->s, p, hit);
			}
		m->s->env->stats.streams++;
	}
	return r;
}

int scan_select(struct scan *s, const struct query_selector *selector, struct errbuf *eb)
{
	struct matching m = {.s = s, .selector = selector, .eb = eb};
	int r = matching_init(&m);

	for (size_t i = 0; !r && i < s->n_parts; i++) {
		r = match_sets(&m, &s->parts[i]);
		m.any_bits |= s->parts[i].any_bits;
	}
	for (size_t i = 0; !r && i < s->n_parts; i++) {
		r = select_part(&m, &s->parts[i]);
		if (!r)
			r = scan_cancelled(s, eb);
	}
	return r;
}

void scan_set_labels(const struct scan_part *p, uint32_t set, struct labels_builder *b)
{
	for (uint32_t i = p->sets.first[set]; i < p->sets.first[set + 1]; i++) {
		struct prof_str name = scan_string(p, p->sets.pairs[i].name),
				value = scan_string(p, p->sets.pairs[i].value);

		labels_builder_set_n(b, name.p, name.len, value.p, value.len);
	}
}

uint64_t scan_set_hash(const struct scan_part *p, uint32_t set, struct bytes *key)
{
	bytes_reset(key);
	bytes_put_varint(key, p->sets.first[set + 1] - p->sets.first[set]);
	for (uint32_t i = p->sets.first[set]; i < p->sets.first[set + 1]; i++) {
		struct prof_str name = scan_string(p, p->sets.pairs[i].name),
				value = scan_string(p, p->sets.pairs[i].value);

		bytes_put_varint(key, name.len);
		bytes_put(key, name.p, name.len);
		bytes_put_varint(key, value.len);
		bytes_put(key, value.p, value.len);
	}
	return key->error ? 0 : hash_xxh3(key->data, key->len);
}

bool scan_wants_profile(const struct query_spec *q, uint64_t series, int64_t time_ns)
{
	for (size_t i = 0; i < q->n_profiles; i++)
		if (q->profiles[i].series == series && q->profiles[i].time_ns == time_ns)
			return true;
	return !q->n_profiles;
}

bool scan_wants_series(const struct query_spec *q, uint64_t series)
{
	for (size_t i = 0; i < q->n_profiles; i++)
		if (q->profiles[i].series == series)
			return true;
	return !q->n_profiles;
}
