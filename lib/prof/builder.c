/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a profile row by row with interning. Columns grow on the heap (realloc moves large ones by remapping); at the
 * end small ones are copied into the profile's arena and large ones handed to it, cut to size, so that a finished profile
 * carries no slack and nothing large is ever there twice. Everything is charged to the arena's budget.
 */
#include "lib/prof/profile.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/prof/index.h"
#include <string.h>

enum { HAND_OVER_BYTES = 64 << 10, FIND_AT_ONCE = 64 };

struct column {
	void *data;
	size_t n, cap, elem; /* elem: bytes of an item */
};

struct prof_builder {
	struct profile *p;
	struct budget *budget;
	uint64_t seed;
	/* p->n_strings … stay 0 until the end; these hold the rows */
	struct column strings, types, mappings, functions, lines, locations, comments;
	struct column stacks, labels, stack_first, label_first, values;
	size_t n_samples;
	struct prof_index by_string, by_mapping, by_function, by_location, by_sample;
};

struct prof_builder *prof_builder_new(struct profile *p)
{
	struct prof_builder *b = xcalloc(1, sizeof(*b));

	b->p = p;
	b->budget = p->arena.budget;
	b->seed = prof_index_seed();
	b->strings.elem = sizeof(struct prof_str);
	b->types.elem = sizeof(struct prof_value_type);
	b->mappings.elem = sizeof(struct prof_mapping);
	b->functions.elem = sizeof(struct prof_function);
	b->lines.elem = sizeof(struct prof_line);
	b->locations.elem = sizeof(struct prof_location);
	b->comments.elem = b->stacks.elem = sizeof(uint32_t);
	b->labels.elem = sizeof(struct prof_label);
	b->stack_first.elem = b->label_first.elem = sizeof(uint64_t);
	b->values.elem = sizeof(int64_t);
	prof_builder_string(b, "", 0);
	return b;
}

static void column_done(struct prof_builder *b, struct column *c)
{
	if (b->budget && c->cap)
		budget_release(b->budget, c->cap * c->elem);
	free(c->data);
	*c = (struct column) {.elem = c->elem};
}

void prof_builder_freep(struct prof_builder **bp)
{
	struct prof_builder *b = *bp;

	if (!b)
		return;
	column_done(b, &b->strings);
	column_done(b, &b->types);
	column_done(b, &b->mappings);
	column_done(b, &b->functions);
	column_done(b, &b->lines);
	column_done(b, &b->locations);
	column_done(b, &b->comments);
	column_done(b, &b->stacks);
	column_done(b, &b->labels);
	column_done(b, &b->stack_first);
	column_done(b, &b->label_first);
	column_done(b, &b->values);
	prof_index_done(&b->by_string, b->budget);
	prof_index_done(&b->by_mapping, b->budget);
	prof_index_done(&b->by_function, b->budget);
	prof_index_done(&b->by_location, b->budget);
	prof_index_done(&b->by_sample, b->budget);
	free(b);
	*bp = NULL;
}

static void *fail(struct prof_builder *b, const char *what)
{
	if (!b->p->arena.error)
		b->p->arena.error = err_set(&b->p->arena.errbuf, -ENOMEM, "%s", what);
	return NULL;
}

/* Makes room for n more items. */
static void *grow(struct prof_builder *b, struct column *c, size_t n)
{
	size_t cap = c->cap ? c->cap : 32, bytes;
	void *data;

	while (cap - c->n < n)
		if (__builtin_mul_overflow(cap, 2, &cap))
			return fail(b, "a profile is too large to build");
	if (__builtin_mul_overflow(cap, c->elem, &bytes))
		return fail(b, "a profile is too large to build");
	if (b->budget) {
		int r = budget_charge(b->budget, bytes - c->cap * c->elem, &b->p->arena.errbuf);

		if (r < 0) {
			b->p->arena.error = r;
			return NULL;
		}
	}
	data = try_realloc(c->data, cap, c->elem);
	if (!data) {
		if (b->budget)
			budget_release(b->budget, bytes - c->cap * c->elem);
		return fail(b, "out of memory building a profile");
	}
	c->data = data;
	c->cap = cap;
	return data;
}

/* The first of n new items, to be filled; NULL after an error. */
static void *append(struct prof_builder *b, struct column *c, size_t n)
{
	void *at;

	if (b->p->arena.error || (c->cap - c->n < n && !grow(b, c, n)))
		return NULL;
	at = (char *)c->data + c->n * c->elem;
	c->n += n;
	return at;
}

/* An item that the index finds. Rows are numbered by 32 bits. */
static void *append_row(
	struct prof_builder *b, struct column *c, struct prof_index *x, uint64_t hash)
{
	void *row;
	int r;

	if (c->n >= PROF_NONE - 1U)
		return fail(b, "a profile has more than 2^32 - 2 rows of a kind");
	row = append(b, c, 1);
	if (!row)
		return NULL;
	r = prof_index_add(x, hash, (uint32_t)c->n - 1, b->budget, &b->p->arena.errbuf);
	if (r < 0) {
		b->p->arena.error = r;
		c->n--;
		return NULL;
	}
	return row;
}

/* The first row that hash k leads to, nearly always the one that is looked for; NULL where there is none. */
static const void *likely_row(
	const struct prof_index *x, const struct column *c, const uint64_t *hashes, size_t k)
{
	uint64_t slot = x->slots[hashes[k] & (x->n_slots - 1)];

	return slot ? (const char *)c->data + ((uint32_t)slot - 1) * c->elem : NULL;
}

/* Waiting for slots and rows one by one takes longer than all else about a row that is known, so all are asked for first. */
static void fetch_rows(
	const struct prof_index *x, const struct column *c, const uint64_t *hashes, size_t n)
{
	for (size_t k = 0; k < n; k++)
		__builtin_prefetch(&x->slots[hashes[k] & (x->n_slots - 1)]);
	for (size_t k = 0; k < n; k++)
		__builtin_prefetch(likely_row(x, c, hashes, k));
}

static uint32_t find_string(const struct prof_builder *b, uint64_t hash, const char *s, size_t n)
{
	const struct prof_str *rows = b->strings.data;
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&b->by_string, hash, &pos)) != PROF_NONE;)
		if (rows[i].len == n && !memcmp(rows[i].p, s, n))
			break;
	return i;
}

static void put_found(uint32_t *rows, uint32_t row)
{
	if (row != PROF_NONE)
		*rows = row;
}

void prof_builder_find_strings(
	const struct prof_builder *b, const struct prof_str *s, size_t n, uint32_t *rows)
{
	const struct prof_index *x = &b->by_string;
	uint64_t hashes[FIND_AT_ONCE];

	for (size_t at = 0, n_now; x->n_slots && at < n; at += n_now) {
		n_now = MIN(n - at, (size_t)FIND_AT_ONCE);
		for (size_t k = 0; k < n_now; k++)
			hashes[k] = hash_xxh3_seed(s[at + k].p, s[at + k].len, b->seed);
		fetch_rows(x, &b->strings, hashes, n_now);
		for (size_t k = 0; k < n_now; k++) {
			const struct prof_str *row = likely_row(x, &b->strings, hashes, k);

			__builtin_prefetch(row ? row->p : NULL);
		}
		for (size_t k = 0; k < n_now; k++)
			put_found(&rows[at + k],
				find_string(b, hashes[k], s[at + k].p, s[at + k].len));
	}
}

uint32_t prof_builder_string(struct prof_builder *b, const char *s, size_t n)
{
	uint64_t hash = hash_xxh3_seed(s, n, b->seed);
	uint32_t i = find_string(b, hash, s, n);
	struct prof_str *row;
	char *copy;

	if (i != PROF_NONE)
		return i;
	if (n > UINT32_MAX - 1) {
		fail(b, "a string of a profile is longer than 4 GiB");
		return 0;
	}
	copy = arena_strndup(&b->p->arena, s, n);
	row = copy ? append_row(b, &b->strings, &b->by_string, hash) : NULL;
	if (!row)
		return 0;
	*row = (struct prof_str) {.p = copy, .len = (uint32_t)n};
	return (uint32_t)b->strings.n - 1;
}

void prof_builder_type_of(struct prof_builder *b, struct prof_value_type t)
{
	struct prof_value_type *row = append(b, &b->types, 1);

	ASSERT(!b->n_samples);
	if (row)
		*row = t;
}

void prof_builder_type(struct prof_builder *b, const char *type, const char *unit)
{
	struct prof_value_type t = {.type = prof_builder_string(b, type, strlen(type))};

	t.unit = prof_builder_string(b, unit, strlen(unit));
	prof_builder_type_of(b, t);
}

void prof_builder_comment(struct prof_builder *b, const char *s, size_t n)
{
	uint32_t i = prof_builder_string(b, s, n), *row = b->comments.data;

	for (size_t k = 0; k < b->comments.n; k++)
		if (row[k] == i)
			return;
	row = append(b, &b->comments, 1);
	if (row)
		*row = i;
}

static bool mapping_equal(const struct prof_mapping *a, const struct prof_mapping *m)
{
	return a->start == m->start && a->limit == m->limit && a->file_off == m->file_off &&
	       a->filename == m->filename && a->build_id == m->build_id &&
	       a->has_functions == m->has_functions && a->has_filenames == m->has_filenames &&
	       a->has_line_numbers == m->has_line_numbers &&
	       a->has_inline_frames == m->has_inline_frames;
}

uint32_t prof_builder_mapping(struct prof_builder *b, const struct prof_mapping *m)
{
	uint64_t key[] = {m->start, m->limit, m->file_off, m->filename, m->build_id};
	uint64_t hash = hash_words(key, ARRAY_SIZE(key), b->seed);
	const struct prof_mapping *rows = b->mappings.data;
	struct prof_mapping *row;
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&b->by_mapping, hash, &pos)) != PROF_NONE;)
		if (mapping_equal(&rows[i], m))
			return i;
	row = append_row(b, &b->mappings, &b->by_mapping, hash);
	if (!row)
		return 0;
	*row = *m;
	return (uint32_t)b->mappings.n - 1;
}

static uint64_t hash_function(const struct prof_builder *b, const struct prof_function *f)
{
	uint64_t key[] = {f->name, f->system_name, f->filename, (uint64_t)f->start_line};

	return hash_words(key, ARRAY_SIZE(key), b->seed);
}

static uint32_t find_function(
	const struct prof_builder *b, uint64_t hash, const struct prof_function *f)
{
	const struct prof_function *rows = b->functions.data;
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&b->by_function, hash, &pos)) != PROF_NONE;)
		if (rows[i].name == f->name && rows[i].system_name == f->system_name &&
			rows[i].filename == f->filename && rows[i].start_line == f->start_line)
			break;
	return i;
}

void prof_builder_find_functions(
	const struct prof_builder *b, const struct prof_function *f, size_t n, uint32_t *rows)
{
	const struct prof_index *x = &b->by_function;
	uint64_t hashes[FIND_AT_ONCE];

	for (size_t at = 0, n_now; x->n_slots && at < n; at += n_now) {
		n_now = MIN(n - at, (size_t)FIND_AT_ONCE);
		for (size_t k = 0; k < n_now; k++)
			hashes[k] = hash_function(b, &f[at + k]);
		fetch_rows(x, &b->functions, hashes, n_now);
		for (size_t k = 0; k < n_now; k++)
			put_found(&rows[at + k], find_function(b, hashes[k], &f[at + k]));
	}
}

uint32_t prof_builder_function(struct prof_builder *b, const struct prof_function *f)
{
	uint64_t hash = hash_function(b, f);
	uint32_t i = find_function(b, hash, f);
	struct prof_function *row;

	if (i != PROF_NONE)
		return i;
	row = append_row(b, &b->functions, &b->by_function, hash);
	if (!row)
		return 0;
	*row = *f;
	return (uint32_t)b->functions.n - 1;
}

static bool lines_equal(const struct prof_line *a, const struct prof_line *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].function != l[i].function || a[i].line != l[i].line ||
			a[i].column != l[i].column)
			return false;
	return true;
}

/* Field by field: the structs have padding. */
static uint64_t hash_line(const struct prof_line *l, uint64_t seed)
{
	uint64_t key[] = {l->function, (uint64_t)l->line, (uint64_t)l->column};

	return hash_words(key, ARRAY_SIZE(key), seed);
}

static uint64_t hash_location(
	const struct prof_builder *b, const struct prof_location *l, const struct prof_line *lines)
{
	uint64_t key[] = {l->address, l->mapping, l->n_lines, (uint64_t) !!l->is_folded};
	uint64_t hash = hash_words(key, ARRAY_SIZE(key), b->seed);

	for (size_t k = 0; k < l->n_lines; k++)
		hash = hash_line(&lines[k], hash);
	return hash;
}

static uint32_t find_location(const struct prof_builder *b, uint64_t hash,
	const struct prof_location *l, const struct prof_line *lines)
{
	const struct prof_location *rows = b->locations.data;
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&b->by_location, hash, &pos)) != PROF_NONE;)
		if (rows[i].address == l->address && rows[i].mapping == l->mapping &&
			rows[i].n_lines == l->n_lines && rows[i].is_folded == !!l->is_folded &&
			(!l->n_lines || lines_equal((const struct prof_line *)b->lines.data +
							    rows[i].first_line,
						lines, l->n_lines)))
			break;
	return i;
}

void prof_builder_find_locations(const struct prof_builder *b, const struct prof_location *l,
	const struct prof_line *lines, size_t n, uint32_t *rows)
{
	const struct prof_index *x = &b->by_location;
	uint64_t hashes[FIND_AT_ONCE];

	for (size_t at = 0, n_now; x->n_slots && at < n; at += n_now) {
		n_now = MIN(n - at, (size_t)FIND_AT_ONCE);
		for (size_t k = 0; k < n_now; k++)
			hashes[k] = hash_location(b, &l[at + k], lines + l[at + k].first_line);
		fetch_rows(x, &b->locations, hashes, n_now);
		for (size_t k = 0; k < n_now; k++) {
			const struct prof_location *row = likely_row(x, &b->locations, hashes, k);

			if (row && row->n_lines)
				__builtin_prefetch(
					(struct prof_line *)b->lines.data + row->first_line);
		}
		for (size_t k = 0; k < n_now; k++)
			put_found(&rows[at + k], find_location(b, hashes[k], &l[at + k],
							 lines + l[at + k].first_line));
	}
}

uint32_t prof_builder_location_folded(struct prof_builder *b, uint64_t address, uint32_t mapping,
	const struct prof_line *lines, size_t n_lines, int is_folded)
{
	struct prof_location l = {.address = address,
		.mapping = mapping,
		.first_line = (uint32_t)b->lines.n,
		.n_lines = (uint32_t)n_lines,
		.is_folded = !!is_folded};
	uint64_t hash = hash_location(b, &l, lines);
	uint32_t i = find_location(b, hash, &l, lines);
	struct prof_location *row;
	struct prof_line *to;

	if (i != PROF_NONE)
		return i;
	if (b->lines.n + n_lines > UINT32_MAX) {
		fail(b, "a profile has more than 2^32 lines");
		return 0;
	}
	to = append(b, &b->lines, n_lines);
	row = to || !n_lines ? append_row(b, &b->locations, &b->by_location, hash) : NULL;
	if (!row)
		return 0;
	if (n_lines)
		memcpy(to, lines, n_lines * sizeof(*lines));
	*row = l;
	return (uint32_t)b->locations.n - 1;
}

uint32_t prof_builder_location(struct prof_builder *b, uint64_t address, uint32_t mapping,
	const struct prof_line *lines, size_t n_lines)
{
	return prof_builder_location_folded(b, address, mapping, lines, n_lines, 0);
}

static uint64_t hash_sample(const struct prof_builder *b, const uint32_t *locations, size_t n,
	const struct prof_label *labels, size_t n_labels)
{
	uint64_t hash = hash_xxh3_seed(locations, n * sizeof(*locations), b->seed);

	for (size_t i = 0; i < n_labels; i++) {
		uint64_t key[] = {(uint64_t)labels[i].key << 32 | labels[i].str,
			(uint64_t)labels[i].num, labels[i].num_unit};

		hash = hash_words(key, ARRAY_SIZE(key), hash);
	}
	return hash;
}

static bool labels_same(const struct prof_label *a, const struct prof_label *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].key != l[i].key || a[i].str != l[i].str || a[i].num != l[i].num ||
			a[i].num_unit != l[i].num_unit)
			return false;
	return true;
}

/* Rows of sample i end where those of i + 1 begin; the last end is the column's. */
static bool range_is(const struct column *firsts, const struct column *rows, size_t i, size_t n,
	size_t *ret_first)
{
	const uint64_t *first = firsts->data;
	uint64_t end = i + 1 < firsts->n ? first[i + 1] : rows->n;

	*ret_first = (size_t)first[i];
	return end - first[i] == n;
}

static bool sample_is(const struct prof_builder *b, size_t i, const uint32_t *locations, size_t n,
	const struct prof_label *labels, size_t n_labels)
{
	size_t stack, label = 0;

	return range_is(&b->stack_first, &b->stacks, i, n, &stack) &&
	       (b->labels.n ? range_is(&b->label_first, &b->labels, i, n_labels, &label)
			    : !n_labels) &&
	       (!n || !memcmp((const uint32_t *)b->stacks.data + stack, locations,
			      n * sizeof(*locations))) &&
	       (!n_labels || labels_same((const struct prof_label *)b->labels.data + label, labels,
				     n_labels));
}

static void add_values(struct prof_builder *b, size_t i, const int64_t *values)
{
	int64_t *row = (int64_t *)b->values.data + i * b->types.n;

	for (size_t k = 0; k < b->types.n; k++)
		row[k] = prof_add(row[k], values[k]);
}

/* Up to the first label the column is not there: samples of most programs have none. */
static uint64_t *append_label_first(struct prof_builder *b)
{
	size_t n = b->n_samples - b->label_first.n;
	uint64_t *first = append(b, &b->label_first, n + 1);

	return first ? (uint64_t *)memset(first, 0, n * sizeof(*first)) + n : NULL;
}

static void append_sample(struct prof_builder *b, const uint32_t *locations, size_t n,
	const int64_t *values, const struct prof_label *labels, size_t n_labels)
{
	uint64_t *stack_first = append(b, &b->stack_first, 1);
	uint64_t *label_first = n_labels || b->labels.n ? append_label_first(b) : NULL;
	uint32_t *stack = append(b, &b->stacks, n);
	struct prof_label *label = append(b, &b->labels, n_labels);
	int64_t *value = append(b, &b->values, b->types.n);

	if (b->p->arena.error)
		return;
	*stack_first = b->stacks.n - n;
	if (label_first)
		*label_first = b->labels.n - n_labels;
	if (n)
		memcpy(stack, locations, n * sizeof(*locations));
	if (n_labels)
		memcpy(label, labels, n_labels * sizeof(*labels));
	if (b->types.n)
		memcpy(value, values, b->types.n * sizeof(*values));
	b->n_samples++;
}

void prof_builder_sample(struct prof_builder *b, const uint32_t *locations, size_t n,
	const int64_t *values, const struct prof_label *labels, size_t n_labels, int merge)
{
	uint64_t hash;
	uint32_t i;
	int r;

	if (b->p->arena.error)
		return;
	if (!merge) {
		append_sample(b, locations, n, values, labels, n_labels);
		return;
	}
	hash = hash_sample(b, locations, n, labels, n_labels);
	for (uint64_t pos = hash; (i = prof_index_next(&b->by_sample, hash, &pos)) != PROF_NONE;)
		if (sample_is(b, i, locations, n, labels, n_labels)) {
			add_values(b, i, values);
			return;
		}
	if (b->n_samples >= PROF_NONE - 1U) {
		fail(b, "a profile has more than 2^32 - 2 samples");
		return;
	}
	i = (uint32_t)b->n_samples;
	append_sample(b, locations, n, values, labels, n_labels);
	if (b->p->arena.error)
		return;
	r = prof_index_add(&b->by_sample, hash, i, b->budget, &b->p->arena.errbuf);
	if (r < 0)
		b->p->arena.error = r;
}

/* Gives a large column's memory to the arena, cut to size; the charge goes with it. */
static void *hand_over(struct prof_builder *b, struct column *c)
{
	size_t bytes = c->n * c->elem, slack = (c->cap - c->n) * c->elem;
	void *data = realloc(c->data, bytes);

	if (data)
		c->data = data;
	if (!arena_adopt(&b->p->arena, c->data, bytes))
		return NULL;
	if (b->budget)
		budget_release(b->budget, slack);
	c->cap = 0;
	return TAKE(c->data);
}

/* Moves a column into the arena. */
static void *move(struct prof_builder *b, struct column *c, size_t *ret_n)
{
	size_t n = c->n;
	void *to;

	if (n * c->elem >= HAND_OVER_BYTES) {
		to = hand_over(b, c);
	} else {
		to = arena_alloc_array(&b->p->arena, n, c->elem);
		if (to && n)
			memcpy(to, c->data, n * c->elem);
	}
	*ret_n = to ? n : 0;
	column_done(b, c);
	return to;
}

/* An empty column's rows: nobody writes to them, so that many of them take no memory. */
static void fill_zeros(struct prof_builder *b, struct column *c, size_t n)
{
	struct arena *a = &b->p->arena;

	if (!a->error && b->budget)
		a->error = MIN(budget_charge(b->budget, n * c->elem, &a->errbuf), 0);
	if (a->error)
		return;
	c->data = try_calloc(n, c->elem);
	if (c->data)
		c->n = c->cap = n;
	else
		fail(b, "out of memory building a profile");
	if (!c->data && b->budget)
		budget_release(b->budget, n * c->elem);
}

int prof_builder_finish(struct prof_builder *b, struct errbuf *eb)
{
	struct profile *p = b->p;
	uint64_t *end;
	size_t n;

	prof_index_done(&b->by_string, b->budget);
	prof_index_done(&b->by_mapping, b->budget);
	prof_index_done(&b->by_function, b->budget);
	prof_index_done(&b->by_location, b->budget);
	prof_index_done(&b->by_sample, b->budget);
	end = append(b, &b->stack_first, 1);
	if (end)
		*end = b->stacks.n;
	if (b->labels.n) {
		end = append(b, &b->label_first, 1);
		if (end)
			*end = b->labels.n;
	} else {
		fill_zeros(b, &b->label_first, b->n_samples + 1);
	}
	p->stack_first = move(b, &b->stack_first, &n);
	p->label_first = move(b, &b->label_first, &n);
	p->stacks = move(b, &b->stacks, &p->n_stack_words);
	p->labels = move(b, &b->labels, &p->n_labels);
	p->values = move(b, &b->values, &n);
	p->strings = move(b, &b->strings, &p->n_strings);
	p->types = move(b, &b->types, &p->n_types);
	p->mappings = move(b, &b->mappings, &p->n_mappings);
	p->functions = move(b, &b->functions, &p->n_functions);
	p->lines = move(b, &b->lines, &p->n_lines);
	p->locations = move(b, &b->locations, &p->n_locations);
	p->comments = move(b, &b->comments, &p->n_comments);
	p->n_samples = p->arena.error ? 0 : b->n_samples;
	return arena_error(&p->arena, eb);
}
