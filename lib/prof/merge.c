/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging over the builder: each row of a profile is translated once, when a sample first needs it, and interned there;
 * a sample then costs one pass over its stack and one look-up of the translated stack.
 */
#include "lib/prof/merge.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include "lib/prof/index.h"
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

struct mapping_row {
	uint64_t size, file_off, start;
	uint32_t name; /* string: build id, or file name */
	uint32_t row;  /* in the builder */
};

struct prof_merge {
	struct profile sum;
	struct prof_builder *b;
	/* what the first profile was: */
	char *first_name, *sample_types_text, *period_type_text;
	struct prof_value_type *types; /* in the builder's strings */
	size_t n_types;
	const char *const *root_keys;
	size_t n_root_keys;
	uint64_t seed;
	struct mapping_row *mappings;
	size_t n_mappings, cap_mappings;
	struct prof_index by_mapping;
	/* of the profile in hand: its rows → the builder's, UNSEEN until needed */
	const struct profile *p;
	uint32_t *strings, *functions, *locations, *map_rows;
	size_t cap_strings, cap_functions, cap_locations, cap_map_rows;
	/* of the sample in hand */
	uint32_t *stack;
	struct prof_label *labels;
	struct prof_line *lines;
	size_t cap_stack, cap_labels, cap_lines;
};

enum { UNSEEN = 0xfffffffeU, MAPPING_SIZE_ROUNDING = 0x1000, FIND_AT_ONCE = 64 };

struct prof_merge *prof_merge_new(struct budget *budget)
{
	struct prof_merge *m = xcalloc(1, sizeof(*m));

	profile_init(&m->sum, budget);
	m->b = prof_builder_new(&m->sum);
	m->seed = prof_index_seed();
	return m;
}

void prof_merge_freep(struct prof_merge **mp)
{
	struct prof_merge *m = *mp;

	if (!m)
		return;
	prof_builder_freep(&m->b);
	prof_index_done(&m->by_mapping, m->sum.arena.budget);
	profile_done(&m->sum);
	free(m->first_name);
	free(m->sample_types_text);
	free(m->period_type_text);
	free(m->types);
	free(m->mappings);
	free(m->strings);
	free(m->functions);
	free(m->locations);
	free(m->map_rows);
	free(m->stack);
	free(m->labels);
	free(m->lines);
	free(m);
	*mp = NULL;
}

void prof_merge_root_labels(struct prof_merge *m, const char *const *keys, size_t n)
{
	m->root_keys = keys;
	m->n_root_keys = n;
}

/* The rows → rows array of one kind, all UNSEEN. */
static int reset_rows(uint32_t **rows, size_t *cap, size_t n)
{
	if (alloc_grow(rows, cap, n, sizeof(**rows)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		(*rows)[i] = UNSEEN;
	return 0;
}

static uint32_t map_string(struct prof_merge *m, uint32_t i)
{
	if (m->strings[i] == UNSEEN)
		m->strings[i] = prof_builder_string(m->b, m->p->strings[i].p, m->p->strings[i].len);
	return m->strings[i];
}

static const struct mapping_row *find_mapping(
	const struct prof_merge *m, uint64_t hash, const struct mapping_row *key)
{
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&m->by_mapping, hash, &pos)) != PROF_NONE;)
		if (m->mappings[i].size == key->size && m->mappings[i].file_off == key->file_off &&
			m->mappings[i].name == key->name)
			return &m->mappings[i];
	return NULL;
}

/* A mapping that is not there yet, as it is in the profile in hand. */
static int add_mapping(struct prof_merge *m, uint64_t hash, struct mapping_row *key, uint32_t i)
{
	struct prof_mapping copy = m->p->mappings[i];
	int r;

	copy.filename = map_string(m, copy.filename);
	copy.build_id = map_string(m, copy.build_id);
	key->start = copy.start;
	key->row = prof_builder_mapping(m->b, &copy);
	if (alloc_grow(&m->mappings, &m->cap_mappings, m->n_mappings + 1, sizeof(*key)) < 0)
		return -ENOMEM;
	m->mappings[m->n_mappings++] = *key;
	r = prof_index_add(&m->by_mapping, hash, (uint32_t)m->n_mappings - 1, m->sum.arena.budget,
		&m->sum.arena.errbuf);
	if (r < 0)
		return m->sum.arena.error = r;
	m->map_rows[i] = (uint32_t)m->n_mappings - 1;
	return 0;
}

/* The source's string that tells mapping i from others. */
static uint32_t mapping_name(const struct prof_merge *m, uint32_t i)
{
	const struct prof_mapping *src = &m->p->mappings[i];

	return m->p->strings[src->build_id].len ? src->build_id : src->filename;
}

static struct mapping_row mapping_key(
	const struct prof_merge *m, uint32_t i, uint32_t name, uint64_t *ret_hash)
{
	const struct prof_mapping *src = &m->p->mappings[i];
	uint64_t size = (src->limit - src->start + MAPPING_SIZE_ROUNDING - 1) &
			~(uint64_t)(MAPPING_SIZE_ROUNDING - 1);
	uint64_t words[] = {size, src->file_off, name};

	*ret_hash = hash_words(words, ARRAY_SIZE(words), m->seed);
	return (struct mapping_row) {.size = size, .file_off = src->file_off, .name = name};
}

/* Fills map_rows[i] with an index into m->mappings. */
static int map_mapping(struct prof_merge *m, uint32_t i)
{
	const struct mapping_row *known;
	struct mapping_row key;
	uint64_t hash;

	if (m->map_rows[i] != UNSEEN)
		return 0;
	key = mapping_key(m, i, map_string(m, mapping_name(m, i)), &hash);
	known = find_mapping(m, hash, &key);
	if (!known)
		return add_mapping(m, hash, &key, i);
	m->map_rows[i] = (uint32_t)(known - m->mappings);
	return 0;
}

static uint32_t map_function(struct prof_merge *m, uint32_t i)
{
	struct prof_function f;

	if (m->functions[i] == UNSEEN) {
		f = m->p->functions[i];
		f.name = map_string(m, f.name);
		f.system_name = map_string(m, f.system_name);
		f.filename = map_string(m, f.filename);
		m->functions[i] = prof_builder_function(m->b, &f);
	}
	return m->functions[i];
}

/* Location i at its place in the sum, with the lines that it has there. Its mapping is mapped. */
static void move_location(const struct prof_merge *m, uint32_t i, struct prof_location *ret)
{
	const struct prof_location *src = &m->p->locations[i];
	const struct mapping_row *to =
		src->mapping == PROF_NONE ? NULL : &m->mappings[m->map_rows[src->mapping]];

	/* Field by field, because copies in larger pieces wait for what was just written in smaller ones. */
	ret->address =
		to ? src->address + to->start - m->p->mappings[src->mapping].start : src->address;
	ret->mapping = to ? to->row : PROF_NONE;
	ret->first_line = 0;
	ret->n_lines = src->n_lines;
	ret->is_folded = src->is_folded;
}

static int map_location(struct prof_merge *m, uint32_t i)
{
	const struct prof_location *src = &m->p->locations[i];
	struct prof_location l;

	if (src->mapping != PROF_NONE && map_mapping(m, src->mapping) < 0)
		return -ENOMEM;
	move_location(m, i, &l);
	if (alloc_grow(&m->lines, &m->cap_lines, l.n_lines, sizeof(*m->lines)) < 0)
		return -ENOMEM;
	for (uint32_t k = 0; k < l.n_lines; k++) {
		m->lines[k] = m->p->lines[src->first_line + k];
		m->lines[k].function = map_function(m, m->lines[k].function);
	}
	m->locations[i] = prof_builder_location_folded(
		m->b, l.address, l.mapping, m->lines, l.n_lines, l.is_folded);
	return 0;
}

/*
 * What earlier profiles had, many rows at a time, which is where most of the time goes otherwise: profiles of one program are much
 * alike. What is new stays UNSEEN and is added when a sample needs it, so that the order of rows is as if there were no
 * such search, and a row with anything UNSEEN in it is found nowhere.
 */
static void find_functions(struct prof_merge *m)
{
	struct prof_function f[FIND_AT_ONCE];

	for (size_t at = 0, n; at < m->p->n_functions; at += n) {
		n = MIN(m->p->n_functions - at, (size_t)FIND_AT_ONCE);
		for (size_t k = 0; k < n; k++) {
			f[k] = m->p->functions[at + k];
			f[k].name = m->strings[f[k].name];
			f[k].system_name = m->strings[f[k].system_name];
			f[k].filename = m->strings[f[k].filename];
		}
		prof_builder_find_functions(m->b, f, n, m->functions + at);
	}
}

static void find_mappings(struct prof_merge *m)
{
	for (uint32_t i = 0; i < m->p->n_mappings; i++) {
		uint64_t hash;
		struct mapping_row key = mapping_key(m, i, m->strings[mapping_name(m, i)], &hash);
		const struct mapping_row *known = find_mapping(m, hash, &key);

		if (known)
			m->map_rows[i] = (uint32_t)(known - m->mappings);
	}
}

/* Location i and its lines as the sum would have them; false when it cannot have them. */
static bool expect_location(
	const struct prof_merge *m, uint32_t i, struct prof_location *ret, struct prof_line *lines)
{
	const struct prof_location *src = &m->p->locations[i];

	if (src->mapping != PROF_NONE && m->map_rows[src->mapping] == UNSEEN)
		return false;
	move_location(m, i, ret);
	for (uint32_t k = 0; k < src->n_lines; k++) {
		lines[k] = m->p->lines[src->first_line + k];
		lines[k].function = m->functions[lines[k].function];
		if (lines[k].function == UNSEEN)
			return false;
	}
	return true;
}

static int find_locations(struct prof_merge *m)
{
	struct prof_location l[FIND_AT_ONCE];

	for (size_t at = 0, n; at < m->p->n_locations; at += n) {
		size_t n_lines = 0;

		n = MIN(m->p->n_locations - at, (size_t)FIND_AT_ONCE);
		for (size_t k = 0; k < n; k++)
			n_lines += m->p->locations[at + k].n_lines;
		if (alloc_grow(&m->lines, &m->cap_lines, n_lines, sizeof(*m->lines)) < 0)
			return -ENOMEM;
		n_lines = 0;
		for (size_t k = 0; k < n; k++) {
			if (!expect_location(m, (uint32_t)(at + k), &l[k], m->lines + n_lines))
				l[k] = (struct prof_location) {.mapping = UNSEEN};
			l[k].first_line = (uint32_t)n_lines;
			n_lines += l[k].n_lines;
		}
		prof_builder_find_locations(m->b, l, m->lines, n, m->locations + at);
	}
	return 0;
}

static int find_known(struct prof_merge *m)
{
	prof_builder_find_strings(m->b, m->p->strings, m->p->n_strings, m->strings);
	find_functions(m);
	find_mappings(m);
	return find_locations(m);
}

static bool is_zero(const struct profile *p, size_t sample)
{
	for (size_t k = 0; k < p->n_types; k++)
		if (p->values[sample * p->n_types + k])
			return false;
	return true;
}

/* Labels in one order, that of their keys; the order of values of one key says something and stays. */
static void sort_labels(struct prof_label *l, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct prof_label one = l[i];
		size_t k = i;

		for (; k > 0 && l[k - 1].key > one.key; k--)
			l[k] = l[k - 1];
		l[k] = one;
	}
}

/* A location that only has a name. */
static uint32_t name_location(struct prof_merge *m, const char *s, size_t n)
{
	struct prof_function f = {.name = prof_builder_string(m->b, s, n)};
	struct prof_line line = {.function = prof_builder_function(m->b, &f)};

	return prof_builder_location(m->b, 0, PROF_NONE, &line, 1);
}

/* Appends the values of label `key` of a sample to the stack. */
static size_t put_root(struct prof_merge *m, size_t sample, const char *key, size_t n)
{
	const struct profile *p = m->p;

	for (uint64_t i = p->label_first[sample]; i < p->label_first[sample + 1]; i++) {
		const struct prof_label *l = &p->labels[i];
		struct prof_str s = profile_str(p, l->str);
		char number[256];

		if (!profile_str_is(p, l->key, key))
			continue;
		if (!l->str) {
			s.len = (uint32_t)snprintf(
				number, sizeof(number), "%.200s=%" PRId64, key, l->num);
			s.p = number;
		}
		m->stack[n++] = name_location(m, s.p, s.len);
		break;
	}
	return n;
}

static int add_sample(struct prof_merge *m, size_t i)
{
	const struct profile *p = m->p;
	const uint32_t *stack = p->stacks + p->stack_first[i];
	size_t n = (size_t)(p->stack_first[i + 1] - p->stack_first[i]);
	const struct prof_label *labels = p->labels + p->label_first[i];
	size_t n_labels = (size_t)(p->label_first[i + 1] - p->label_first[i]);

	if (alloc_grow(&m->stack, &m->cap_stack, n + m->n_root_keys, sizeof(*m->stack)) < 0 ||
		alloc_grow(&m->labels, &m->cap_labels, n_labels, sizeof(*m->labels)) < 0)
		return -ENOMEM;
	for (size_t k = 0; k < n; k++) {
		if (m->locations[stack[k]] == UNSEEN && map_location(m, stack[k]) < 0)
			return -ENOMEM;
		m->stack[k] = m->locations[stack[k]];
	}
	for (size_t k = m->n_root_keys; k-- > 0;)
		n = put_root(m, i, m->root_keys[k], n);
	for (size_t k = 0; k < n_labels; k++) {
		m->labels[k] = labels[k];
		m->labels[k].key = map_string(m, labels[k].key);
		m->labels[k].str = map_string(m, labels[k].str);
		m->labels[k].num_unit = map_string(m, labels[k].num_unit);
	}
	sort_labels(m->labels, n_labels);
	prof_builder_sample(m->b, m->stack, n, p->values + i * p->n_types, m->labels, n_labels, 1);
	return 0;
}

/* "samples/count cpu/nanoseconds" */
static char *types_text(const struct profile *p, const struct prof_value_type *t, size_t n)
{
	_cleanup_bytes_ struct bytes text;

	bytes_init(&text, NULL, 4096);
	for (size_t i = 0; i < n; i++) {
		struct prof_str type = profile_str(p, t[i].type), unit = profile_str(p, t[i].unit);

		bytes_printf(&text, "%s%.*s/%.*s", i ? " " : "", (int)MIN(type.len, 100U), type.p,
			(int)MIN(unit.len, 100U), unit.p);
	}
	return xstrndup(text.data ? (const char *)text.data : "", text.len);
}

static struct prof_value_type map_type(struct prof_merge *m, const struct prof_value_type *t)
{
	return (struct prof_value_type) {map_string(m, t->type), map_string(m, t->unit)};
}

/* The first profile says what all have to be. */
static int set_types(struct prof_merge *m, const struct profile *p, const char *name)
{
	struct profile *sum = &m->sum;

	m->first_name = xstrdup(name);
	m->sample_types_text = types_text(p, p->types, p->n_types);
	m->period_type_text = types_text(p, &p->period_type, 1);
	m->n_types = p->n_types;
	m->types = try_realloc(NULL, p->n_types, sizeof(*m->types));
	if (!m->types)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_types; i++) {
		m->types[i] = map_type(m, &p->types[i]);
		prof_builder_type_of(m->b, m->types[i]);
	}
	sum->period_type = map_type(m, &p->period_type);
	sum->drop_frames = map_string(m, p->drop_frames);
	sum->keep_frames = map_string(m, p->keep_frames);
	return 0;
}

static bool types_equal(const struct prof_value_type *a, struct prof_value_type b)
{
	return a->type == b.type && a->unit == b.unit;
}

static int check_types(
	struct prof_merge *m, const struct profile *p, const char *name, struct errbuf *eb)
{
	_cleanup_free_ char *text = NULL;
	bool same = p->n_types == m->n_types;

	if (!types_equal(&m->sum.period_type, map_type(m, &p->period_type))) {
		text = types_text(p, &p->period_type, 1);
		return err_set(eb, -EINVAL, "%s: period type %s is not that of %s, %s", name, text,
			m->first_name, m->period_type_text);
	}
	for (size_t i = 0; same && i < p->n_types; i++)
		same = types_equal(&m->types[i], map_type(m, &p->types[i]));
	if (same)
		return 0;
	text = types_text(p, p->types, p->n_types);
	return err_set(eb, -EINVAL, "%s: sample types %s are not those of %s, %s", name, text,
		m->first_name, m->sample_types_text);
}

static void add_header(struct prof_merge *m, const struct profile *p)
{
	struct profile *sum = &m->sum;

	if (p->time_ns && (!sum->time_ns || p->time_ns < sum->time_ns))
		sum->time_ns = p->time_ns;
	sum->duration_ns = (int64_t)((uint64_t)sum->duration_ns + (uint64_t)p->duration_ns);
	sum->period = MAX(sum->period, p->period);
	if (!sum->default_sample_type)
		sum->default_sample_type = map_string(m, p->default_sample_type);
	if (!sum->doc_url)
		sum->doc_url = map_string(m, p->doc_url);
	for (size_t i = 0; i < p->n_comments; i++) {
		struct prof_str s = profile_str(p, p->comments[i]);

		prof_builder_comment(m->b, s.p, s.len);
	}
}

static int add(struct prof_merge *m, const struct profile *p, const char *name, struct errbuf *eb)
{
	int r;

	m->p = p;
	if (reset_rows(&m->strings, &m->cap_strings, p->n_strings) < 0 ||
		reset_rows(&m->functions, &m->cap_functions, p->n_functions) < 0 ||
		reset_rows(&m->locations, &m->cap_locations, p->n_locations) < 0 ||
		reset_rows(&m->map_rows, &m->cap_map_rows, p->n_mappings) < 0)
		return -ENOMEM;
	r = m->first_name ? find_known(m) : 0;
	if (r < 0)
		return r;
	r = m->first_name ? check_types(m, p, name, eb) : set_types(m, p, name);
	if (r < 0)
		return r;
	add_header(m, p);
	if (!m->n_mappings && p->n_mappings && map_mapping(m, 0) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_samples; i++) {
		r = is_zero(p, i) ? 0 : add_sample(m, i);
		if (r < 0)
			return r;
	}
	return arena_error(&m->sum.arena, eb);
}

int prof_merge_add(
	struct prof_merge *m, const struct profile *p, const char *name, struct errbuf *eb)
{
	struct errbuf why = {.text = ""};
	int r = add(m, p, name, &why);

	m->p = NULL;
	if (r == -ENOMEM && !why.text[0])
		r = MIN(r, arena_error(&m->sum.arena, &why));
	if (r == -ENOMEM)
		return err_set(eb, r, "%s: merging: %s", name, err_text(&why, r));
	return r < 0 ? err_set(eb, r, "%s", why.text) : 0;
}

/* Sums can become zero (differences of profiles): merged once more, such samples and what only they used fall away. */
static int drop_zeros(struct profile *p, struct errbuf *eb)
{
	_cleanup_prof_merge_ struct prof_merge *again = NULL;
	struct profile clean;
	bool any = false;
	int r;

	for (size_t i = 0; i < p->n_samples && !any; i++)
		any = is_zero(p, i);
	if (!any)
		return 0;
	again = prof_merge_new(p->arena.budget);
	r = prof_merge_add(again, p, "sum", eb);
	if (r >= 0)
		r = prof_merge_finish(again, &clean, eb);
	if (r < 0)
		return r;
	profile_done(p);
	*p = clean;
	return 0;
}

int prof_merge_finish(struct prof_merge *m, struct profile *ret, struct errbuf *eb)
{
	int r;

	if (!m->first_name)
		return err_set(eb, -EINVAL, "no profiles to merge");
	r = prof_builder_finish(m->b, eb);
	prof_builder_freep(&m->b);
	if (r >= 0)
		r = drop_zeros(&m->sum, eb);
	if (r < 0)
		return r;
	*ret = m->sum;
	profile_init(&m->sum, ret->arena.budget);
	return 0;
}
