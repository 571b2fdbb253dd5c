/* SPDX-License-Identifier: Apache-2.0
 *
 * Interning of a scrape. Each string, function, mapping and location of the profile is looked up once, and of each stack only what
 * differs from the one before.
 */
#include "scraper/store/intern/intern.h"
#include "lib/base/alloc.h"
#include "lib/prof/code.h"
#include "lib/prof/profile.h"
#include "scraper/store/codec/codec.h"
#include "scraper/store/intern/content.h"
#include <stdlib.h>
#include <string.h>

/* Ids of one profile's tables in the dictionaries, STORE_NONE where not yet looked up. */
struct memo {
	struct dict *d;
	struct known *known;
	const struct profile *p;
	bool keep_addresses;
	uint32_t *strings, *functions, *mappings, *locations;
	struct hash128 *location_hashes; /* of content; {0, 0}: none */
	uint32_t truncated;		 /* location that stands for cut frames */
	/* The last stack: locations from the root, and the node of each. */
	uint32_t path_location[STORE_MAX_DEPTH + 1], path_node[STORE_MAX_DEPTH + 1], depth;
};

static uint32_t *new_map(struct arena *a, size_t n)
{
	uint32_t *map = arena_alloc_array(a, n, sizeof(*map));

	if (map)
		memset(map, 0xff, n * sizeof(*map));
	return map;
}

static int64_t intern_string(struct memo *m, uint32_t i)
{
	struct prof_str s;
	int64_t id;

	if (i >= m->p->n_strings)
		return 0;
	if (m->strings[i] != STORE_NONE)
		return m->strings[i];
	s = m->p->strings[i];
	id = dict_string(m->d, s.p, s.len);
	if (id >= 0)
		m->strings[i] = (uint32_t)id;
	return id;
}

static int64_t intern_function(struct memo *m, uint32_t i)
{
	const struct prof_function *f = &m->p->functions[i];
	struct part_function key = {.start_line = f->start_line};
	int64_t name, system, file, id;

	if (m->functions[i] != STORE_NONE)
		return m->functions[i];
	name = intern_string(m, f->name);
	system = name < 0 ? name : intern_string(m, f->system_name);
	file = system < 0 ? system : intern_string(m, f->filename);
	if (file < 0)
		return file;
	key.name = (uint32_t)name;
	key.system_name = (uint32_t)system;
	key.filename = (uint32_t)file;
	id = dict_function(m->d, &key);
	if (id >= 0)
		m->functions[i] = (uint32_t)id;
	return id;
}

/* Files have the numbers. */
_Static_assert((int)PROF_CODE_NATIVE == PART_MAPPING_NATIVE &&
		       (int)PROF_CODE_KERNEL == PART_MAPPING_KERNEL &&
		       (int)PROF_CODE_JIT == PART_MAPPING_JIT &&
		       (int)PROF_CODE_INTERPRETER == PART_MAPPING_INTERPRETER,
	"the kinds of a part's mappings");

static int64_t intern_mapping(struct memo *m, uint32_t i)
{
	const struct prof_mapping *from = &m->p->mappings[i];
	struct prof_str name = profile_str(m->p, from->filename);
	struct part_mapping key = {.kind = (uint8_t)prof_code_of_mapping(name.p, name.len)};
	int64_t file, build_id, id;

	if (m->mappings[i] != STORE_NONE)
		return m->mappings[i];
	file = intern_string(m, from->filename);
	build_id = file < 0 ? file : intern_string(m, from->build_id);
	if (build_id < 0)
		return build_id;
	key.filename = (uint32_t)file;
	key.build_id = (uint32_t)build_id;
	id = dict_mapping(m->d, &key);
	if (id >= 0)
		m->mappings[i] = (uint32_t)id;
	return id;
}

static int intern_lines(struct memo *m, const struct prof_location *l, struct part_line *lines,
	uint32_t *ret_n, bool *ret_named)
{
	uint32_t n = 0;

	*ret_named = false;
	for (uint32_t i = 0; i < l->n_lines && n < PART_MAX_LINES; i++) {
		const struct prof_line *line = &m->p->lines[l->first_line + i];
		int64_t function;

		if (line->function == PROF_NONE)
			continue;
		function = intern_function(m, line->function);
		if (function < 0)
			return (int)function;
		*ret_named |= dict_functions(m->d)[function].name != 0;
		lines[n++] = (struct part_line) {
			.function = (uint32_t)function, .line = line->line, .column = line->column};
	}
	*ret_n = n;
	return 0;
}

static int64_t intern_location(struct memo *m, uint32_t i)
{
	const struct prof_location *from = &m->p->locations[i];
	struct part_line lines[PART_MAX_LINES];
	struct part_location key = {.mapping = STORE_NONE, .lines = lines};
	int64_t mapping, id;
	bool named;
	int r;

	if (m->locations[i] != STORE_NONE)
		return m->locations[i];
	r = intern_lines(m, from, lines, &key.n_lines, &named);
	if (r < 0)
		return r;
	if (from->mapping != PROF_NONE) {
		mapping = intern_mapping(m, from->mapping);
		if (mapping < 0)
			return mapping;
		key.mapping = (uint32_t)mapping;
	}
	if (from->is_folded)
		key.flags |= PART_LOCATION_FOLDED;
	if (!named || m->keep_addresses) {
		key.flags |= PART_LOCATION_HAS_ADDRESS;
		key.address = content_file_address(m->p, from);
	}
	id = dict_location(m->d, &key);
	if (id < 0)
		return id;
	m->locations[i] = (uint32_t)id;
	if (m->location_hashes[i].lo | m->location_hashes[i].hi)
		known_add(m->known->locations, m->location_hashes[i], (uint32_t)id);
	return id;
}

static int64_t truncated_location(struct memo *m)
{
	static const char name[] = "[truncated]";
	struct part_function f = {.name = 0};
	struct part_line line = {.line = 0};
	int64_t id;

	if (m->truncated != STORE_NONE)
		return m->truncated;
	id = dict_string(m->d, name, strlen(name));
	if (id < 0)
		return id;
	f.name = f.system_name = (uint32_t)id;
	id = dict_function(m->d, &f);
	if (id < 0)
		return id;
	line.function = (uint32_t)id;
	id = dict_location(m->d, &(struct part_location) {.mapping = STORE_NONE,
					 .flags = PART_LOCATION_TRUNCATED,
					 .n_lines = 1,
					 .lines = &line});
	if (id >= 0)
		m->truncated = (uint32_t)id;
	return id;
}

/* Extends the path by one frame: free where the stack before went the same way. */
static int step(struct memo *m, uint32_t at, uint32_t location, bool *same)
{
	int64_t node;

	*same = *same && at < m->depth && m->path_location[at] == location;
	if (*same)
		return 0;
	node = dict_node(m->d, at ? m->path_node[at - 1] : 0, location);
	if (node < 0)
		return (int)node;
	m->path_location[at] = location;
	m->path_node[at] = (uint32_t)node;
	return 0;
}

/* The node of a sample's stack. */
static int64_t intern_stack(struct memo *m, uint32_t sample)
{
	const uint32_t *stack = m->p->stacks + m->p->stack_first[sample];
	uint64_t n = m->p->stack_first[sample + 1] - m->p->stack_first[sample];
	uint32_t at = 0;
	bool same = true;
	int64_t location;
	int r = 0;

	if (n > STORE_MAX_DEPTH) {
		location = truncated_location(m);
		if (location < 0)
			return location;
		r = step(m, at++, (uint32_t)location, &same);
		n = STORE_MAX_DEPTH;
	}
	for (; r >= 0 && n; n--) {
		location = intern_location(m, stack[n - 1]);
		r = location < 0 ? (int)location : step(m, at++, (uint32_t)location, &same);
	}
	m->depth = r < 0 ? 0 : at;
	if (r < 0)
		return r;
	return at ? m->path_node[at - 1] : 0;
}

static int64_t intern_text(struct dict *d, const char *s)
{
	return dict_string(d, s ? s : "", s ? strlen(s) : 0);
}

static int64_t intern_labels(struct dict *d, const struct labels *l, struct errbuf *eb)
{
	struct part_label pairs[PART_MAX_PAIRS];

	if (l->n > PART_MAX_PAIRS)
		return err_set(eb, -EFBIG, "%zu labels, at most %d", l->n, PART_MAX_PAIRS);
	for (size_t i = 0; i < l->n; i++) {
		int64_t name = intern_text(d, l->items[i].name);
		int64_t value = name < 0 ? name : intern_text(d, l->items[i].value);

		if (value < 0)
			return value;
		pairs[i] = (struct part_label) {.name = (uint32_t)name, .value = (uint32_t)value};
	}
	return dict_label_set(d, pairs, l->n);
}

static int64_t intern_schema(struct dict *d, enum store_stream_kind kind, const char *period_type,
	const char *period_unit, const struct store_column *columns, size_t n)
{
	struct part_schema s = {.kind = (uint8_t)kind, .n_columns = (uint8_t)n};
	int64_t type = intern_text(d, period_type),
		unit = type < 0 ? type : intern_text(d, period_unit);

	if (unit < 0)
		return unit;
	s.period_type = (uint32_t)type;
	s.period_unit = (uint32_t)unit;
	for (size_t i = 0; i < n; i++) {
		type = intern_text(d, columns[i].type);
		unit = type < 0 ? type : intern_text(d, columns[i].unit);
		if (unit < 0)
			return unit;
		s.columns[i] = (struct part_column) {.type = (uint32_t)type,
			.unit = (uint32_t)unit,
			.kind = (uint8_t)columns[i].kind};
	}
	return dict_schema(d, &s);
}

static int64_t intern_stream(
	struct dict *d, int64_t schema, const struct labels *labels, struct errbuf *eb)
{
	int64_t label_set = schema < 0 ? schema : intern_labels(d, labels, eb);

	return label_set < 0 ? label_set : dict_stream(d, (uint32_t)schema, (uint32_t)label_set);
}

int64_t intern_gauge_stream(struct dict *d, const struct labels *labels, struct errbuf *eb)
{
	static const struct store_column value = {.type = "value", .unit = "", .kind = STORE_GAUGE};

	return intern_stream(d, intern_schema(d, STORE_GAUGES, "", "", &value, 1), labels, eb);
}

int64_t intern_end_stream(struct dict *d, const struct labels *labels, struct errbuf *eb)
{
	static const struct store_column end = {
		.type = STORE_END_COLUMN, .unit = "", .kind = STORE_GAUGE};

	return intern_stream(d, intern_schema(d, STORE_GAUGES, "", "", &end, 1), labels, eb);
}

size_t intern_coverage_columns(const struct store_scrape *s)
{
	for (size_t i = 0; i < s->n_coverage; i++)
		if (s->coverage[i].n_cpus)
			return 2;
	return 1;
}

int64_t intern_coverage_stream(struct dict *d, const struct store_scrape *s,
	const struct labels *labels, struct errbuf *eb)
{
	static const struct store_column columns[] = {
		{.type = "lost", .unit = "nanoseconds", .kind = STORE_DELTA},
		{.type = "cpus", .unit = "count", .kind = STORE_INSTANT}};

	return intern_stream(d,
		intern_schema(d, STORE_COVERAGE, s->period_type, s->period_unit, columns,
			intern_coverage_columns(s)),
		labels, eb);
}

struct key {
	uint64_t stream_labels; /* scrape stream << 32 | label set */
	uint32_t node, row;
};

static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->stream_labels != y->stream_labels)
		return x->stream_labels < y->stream_labels ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static int check_row(const struct store_scrape *s, size_t i, struct errbuf *eb)
{
	if (s->row_stream[i] >= s->n_streams || s->row_sample[i] >= s->profile->n_samples ||
		(s->row_labels[i] != STORE_NONE && s->row_labels[i] >= s->n_label_sets))
		return err_set(eb, -EINVAL, "row %zu refers to stream %u, sample %u, labels %u", i,
			s->row_stream[i], s->row_sample[i], s->row_labels[i]);
	return 0;
}

/* Ids of the locations whose content came before. In two passes, so that the table's slots are fetched while others are hashed. */
static int find_known_locations(struct memo *m, struct arena *a)
{
	const struct profile *p = m->p;
	struct content content;
	int r = content_init(&content, p, m->keep_addresses, m->known->seed, a);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->n_locations; i++) {
		if (!content_location(&content, i, &m->location_hashes[i]))
			m->location_hashes[i] = (struct hash128) {0, 0};
		known_prefetch(m->known->locations, m->location_hashes[i]);
	}
	for (uint32_t i = 0; i < p->n_locations; i++)
		m->locations[i] = known_find(m->known->locations, m->location_hashes[i]);
	return 0;
}

static int memo_init(struct memo *m, struct dict *d, struct known *known,
	const struct store_scrape *s, struct arena *a)
{
	m->d = d;
	m->known = known;
	m->p = s->profile;
	m->keep_addresses = s->keep_addresses;
	m->truncated = STORE_NONE;
	m->depth = 0;
	m->strings = new_map(a, s->profile->n_strings);
	m->functions = new_map(a, s->profile->n_functions);
	m->mappings = new_map(a, s->profile->n_mappings);
	m->locations = new_map(a, s->profile->n_locations);
	m->location_hashes =
		arena_alloc_array(a, s->profile->n_locations, sizeof(*m->location_hashes));
	return arena_error(a, NULL) < 0 ? -ENOMEM : find_known_locations(m, a);
}

/* Finds the stack's locations and hashes their ids; {0, 0} for a stack that is cut or has no frames. */
static int hash_stack(struct memo *m, uint32_t sample, struct hash128 *ret)
{
	const uint32_t *stack = m->p->stacks + m->p->stack_first[sample];
	uint64_t n = m->p->stack_first[sample + 1] - m->p->stack_first[sample];
	uint32_t ids[STORE_MAX_DEPTH];

	*ret = (struct hash128) {0, 0};
	if (!n || n > STORE_MAX_DEPTH)
		return 0;
	for (uint64_t i = 0; i < n; i++) {
		int64_t id = m->locations[stack[i]];

		if (id == STORE_NONE)
			id = intern_location(m, stack[i]);
		if (id < 0)
			return (int)id;
		ids[i] = (uint32_t)id;
	}
	*ret = hash_xxh3_128(ids, n * sizeof(*ids), m->known->seed);
	known_prefetch(m->known->stacks, *ret);
	return 0;
}

static int64_t find_node(struct memo *m, uint32_t sample, struct hash128 hash)
{
	bool is_hashed = hash.lo | hash.hi;
	uint32_t known = is_hashed ? known_find(m->known->stacks, hash) : STORE_NONE;
	int64_t node;

	if (known != STORE_NONE)
		return known;
	node = intern_stack(m, sample);
	if (node >= 0 && is_hashed)
		known_add(m->known->stacks, hash, (uint32_t)node);
	return node;
}

/* Label sets of rows, each looked up once. */
static int64_t row_label_set(struct dict *d, const struct store_scrape *s, size_t row,
	uint32_t *label_sets, struct errbuf *eb)
{
	uint32_t labels = s->row_labels[row];
	int64_t id;

	if (labels == STORE_NONE)
		return 0;
	if (label_sets[labels] != STORE_NONE)
		return label_sets[labels];
	id = intern_labels(d, &s->label_sets[labels], eb);
	if (id >= 0)
		label_sets[labels] = (uint32_t)id;
	return id;
}

static int make_keys(struct dict *d, struct known *known, const struct store_scrape *s,
	struct arena *a, struct key **ret, struct errbuf *eb)
{
	struct key *keys = arena_alloc_array(a, s->n_rows, sizeof(*keys));
	struct hash128 *stacks = arena_alloc_array(a, s->n_rows, sizeof(*stacks));
	struct memo *m = arena_alloc(a, sizeof(*m));
	uint32_t *label_sets = new_map(a, s->n_label_sets);
	int r = arena_error(a, eb);

	if (r < 0)
		return r;
	if (s->n_rows)
		r = memo_init(m, d, known, s, a);
	for (size_t i = 0; r >= 0 && i < s->n_rows; i++) {
		r = check_row(s, i, eb);
		r = r ? r : hash_stack(m, s->row_sample[i], &stacks[i]);
	}
	for (size_t i = 0; r >= 0 && i < s->n_rows; i++) {
		int64_t labels = row_label_set(d, s, i, label_sets, eb);
		int64_t node = labels < 0 ? labels : find_node(m, s->row_sample[i], stacks[i]);

		if (node < 0)
			return (int)node;
		keys[i] = (struct key) {
			.stream_labels = (uint64_t)s->row_stream[i] << 32 | (uint32_t)labels,
			.node = (uint32_t)node,
			.row = (uint32_t)i,
		};
	}
	*ret = keys;
	return r;
}

static bool same_key(const struct key *a, const struct key *b)
{
	return a->stream_labels == b->stream_labels && a->node == b->node;
}

/* Sums equal rows and lays the columns out. */
static void merge_rows(const struct store_scrape *s, const struct key *keys, struct interned *ret)
{
	size_t k = s->n_columns;
	uint32_t n = 0, row = 0;

	for (size_t i = 0; i < s->n_rows; i++) {
		const int64_t *v = s->values + (size_t)keys[i].row * k;
		uint32_t stream = (uint32_t)(keys[i].stream_labels >> 32);
		bool again = i && same_key(&keys[i - 1], &keys[i]);

		n += !again;
		if (!again) {
			ret->label_set[n - 1] = (uint32_t)keys[i].stream_labels;
			ret->node[n - 1] = keys[i].node;
			ret->n_rows[stream]++;
		}
		for (size_t c = 0; c < k; c++) {
			int64_t *to = &ret->values[c * ret->n + n - 1];

			*to = again ? prof_add(*to, v[c]) : v[c];
		}
	}
	for (uint32_t i = 0; i < s->n_streams; i++)
		for (uint32_t end = row + ret->n_rows[i]; row < end; row++)
			for (size_t c = 0; c < k; c++)
				ret->totals[i * k + c] = prof_add(
					ret->totals[i * k + c], ret->values[c * ret->n + row]);
}

static int check_scrape(const struct store_scrape *s, struct errbuf *eb)
{
	if (s->n_columns > STORE_MAX_COLUMNS)
		return err_set(eb, -EFBIG, "%zu value columns, at most %d", s->n_columns,
			STORE_MAX_COLUMNS);
	if (s->n_rows && (!s->profile || !s->n_streams || !s->n_columns))
		return err_set(eb, -EINVAL, "rows without a profile, streams or columns");
	if (s->n_rows > UINT32_MAX / 2 || s->n_streams > PAGE_MAX_ROWS)
		return err_set(
			eb, -EFBIG, "scrape of %zu rows and %zu streams", s->n_rows, s->n_streams);
	return 0;
}

int intern_scrape(struct dict *d, struct known *known, const struct store_scrape *s,
	struct arena *a, struct interned *ret, struct errbuf *eb)
{
	struct key *keys = NULL;
	int64_t id;
	int r = check_scrape(s, eb);

	*ret = (struct interned) {.n = 0};
	if (r < 0 || !s->n_streams)
		return r;
	id = intern_schema(
		d, STORE_PROFILE, s->period_type, s->period_unit, s->columns, s->n_columns);
	if (id < 0)
		return (int)id;
	ret->schema = (uint32_t)id;
	ret->streams = arena_alloc_array(a, s->n_streams, sizeof(*ret->streams));
	ret->n_rows = arena_zalloc(a, s->n_streams * sizeof(*ret->n_rows));
	ret->totals = arena_zalloc(a, s->n_streams * s->n_columns * sizeof(*ret->totals));
	r = arena_error(a, eb);
	for (size_t i = 0; !r && i < s->n_streams; i++) {
		id = intern_stream(d, ret->schema, s->streams[i], eb);
		if (id < 0)
			return (int)id;
		ret->streams[i] = (uint32_t)id;
	}
	r = r ? r : make_keys(d, known, s, a, &keys, eb);
	if (r < 0 || !s->n_rows)
		return r;
	qsort(keys, s->n_rows, sizeof(*keys), by_key);
	ret->n = 1;
	for (size_t i = 1; i < s->n_rows; i++)
		ret->n += !same_key(&keys[i - 1], &keys[i]);
	ret->label_set = arena_alloc_array(a, ret->n, sizeof(*ret->label_set));
	ret->node = arena_alloc_array(a, ret->n, sizeof(*ret->node));
	ret->values = arena_alloc_array(a, (size_t)ret->n * s->n_columns, sizeof(*ret->values));
	r = arena_error(a, eb);
	if (!r)
		merge_rows(s, keys, ret);
	return r;
}
