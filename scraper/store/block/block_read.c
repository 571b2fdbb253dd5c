/* SPDX-License-Identifier: Apache-2.0
 *
 * One decoder per table. Every id is checked against the table it points into, so what the cache holds can be trusted.
 */
#include "scraper/store/block/block_read.h"
#include "lib/base/alloc.h"
#include <string.h>

static int no_memory(struct errbuf *eb, size_t bytes)
{
	return err_set(eb, -ENOMEM, "out of memory decoding a table of %zu bytes", bytes);
}

static int allocate(struct decoded *d, size_t bytes, struct errbuf *eb)
{
	d->data = try_malloc(bytes);
	d->bytes = bytes;
	return d->data ? 0 : no_memory(eb, bytes);
}

/* Decodes a column into heap memory. */
static int column_u32(const struct page *p, unsigned column, size_t n, uint32_t limit,
	uint32_t **ret, struct errbuf *eb)
{
	*ret = try_realloc(NULL, n, sizeof(**ret));
	return *ret ? page_u32(p, column, n, limit, *ret, eb) : no_memory(eb, n * 4);
}

static int column_i64(
	const struct page *p, unsigned column, size_t n, int64_t **ret, struct errbuf *eb)
{
	*ret = try_realloc(NULL, n, sizeof(**ret));
	return *ret ? page_i64(p, column, n, *ret, eb) : no_memory(eb, n * 8);
}

static int sum_items(const uint32_t *counts, uint32_t n, size_t *ret, struct errbuf *eb)
{
	size_t total = 0;

	for (uint32_t i = 0; i < n; i++)
		total += counts[i];
	*ret = total;
	return total > (size_t)PAGE_MAX_ITEMS + PART_MAX_LINES
		       ? err_set(eb, -EBADMSG, "page of %zu items", total)
		       : 0;
}

int block_decode_strings(const struct page *p, struct decoded *ret, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *lengths = NULL;
	const uint8_t *text = NULL;
	struct text_page *t;
	size_t total = 0;
	char *to;
	int r = column_u32(p, 0, p->n_rows, STORE_MAX_STRING + 1, &lengths, eb);

	for (uint32_t i = 0; r >= 0 && i < p->n_rows; i++)
		total += lengths[i];
	if (r >= 0)
		r = page_bytes(p, 1, total, &text, eb);
	if (r >= 0)
		r = allocate(ret, sizeof(*t) + p->n_rows * sizeof(t->strings[0]) + total, eb);
	if (r < 0)
		return r;
	t = ret->data;
	t->n = p->n_rows;
	to = (char *)&t->strings[t->n];
	memcpy(to, text, total);
	for (uint32_t i = 0; i < t->n; i++) {
		t->strings[i] = (struct prof_str) {.p = to, .len = lengths[i]};
		to += lengths[i];
	}
	return 0;
}

int block_decode_functions(
	const struct part_info *info, const struct page *p, struct decoded *ret, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *name = NULL, *system = NULL, *file = NULL;
	_cleanup_free_ int64_t *line = NULL;
	struct part_function *f;
	int r = column_u32(p, 0, p->n_rows, info->n_strings, &name, eb);

	r = r ? r : column_u32(p, 1, p->n_rows, info->n_strings, &system, eb);
	r = r ? r : column_u32(p, 2, p->n_rows, info->n_strings, &file, eb);
	r = r ? r : column_i64(p, 3, p->n_rows, &line, eb);
	r = r ? r : allocate(ret, p->n_rows * sizeof(*f), eb);
	if (r < 0)
		return r;
	f = ret->data;
	for (uint32_t i = 0; i < p->n_rows; i++)
		f[i] = (struct part_function) {.name = name[i],
			.system_name = system[i],
			.filename = file[i],
			.start_line = line[i]};
	return 0;
}

static int decode_lines(const struct part_info *info, const struct page *p, size_t n,
	struct part_line *to, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *function = NULL;
	_cleanup_free_ int64_t *line = NULL, *column = NULL;
	int r = n ? column_u32(p, 4, n, info->n_functions, &function, eb) : 0;

	r = r ? r : column_i64(p, 5, n, &line, eb);
	r = r ? r : column_i64(p, 6, n, &column, eb);
	for (size_t i = 0; r >= 0 && i < n; i++)
		to[i] = (struct part_line) {
			.function = function[i], .line = line[i], .column = column[i]};
	return r;
}

int block_decode_locations(
	const struct part_info *info, const struct page *p, struct decoded *ret, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *mapping = NULL, *flags = NULL, *counts = NULL;
	_cleanup_free_ int64_t *address = NULL;
	struct location_page *t;
	struct part_line *lines;
	size_t n = p->n_rows, n_lines = 0;
	int r = column_u32(p, 0, n, info->n_mappings + 1, &mapping, eb);

	r = r ? r : column_u32(p, 1, n, 256, &flags, eb);
	r = r ? r : column_i64(p, 2, n, &address, eb);
	r = r ? r : column_u32(p, 3, n, PART_MAX_LINES + 1, &counts, eb);
	r = r ? r : sum_items(counts, (uint32_t)n, &n_lines, eb);
	r = r ? r
	      : allocate(ret, sizeof(*t) + n * sizeof(t->locations[0]) + n_lines * sizeof(*lines),
			eb);
	if (r < 0)
		return r;
	t = ret->data;
	t->n = (uint32_t)n;
	lines = (struct part_line *)(void *)&t->locations[n];
	r = decode_lines(info, p, n_lines, lines, eb);
	for (size_t i = 0; i < n; i++) {
		t->locations[i] = (struct part_location) {
			.mapping = mapping[i] ? mapping[i] - 1 : STORE_NONE,
			.flags = (uint8_t)flags[i],
			.address = (uint64_t)address[i],
			.n_lines = counts[i],
			.lines = lines,
		};
		lines += counts[i];
	}
	return r;
}

/* Resolution and number of each profile. */
static int decode_kinds(const struct page *p, struct profile_page *t,
	enum part_resolution resolution, struct errbuf *eb)
{
	int r = page_u32(p, 3, t->n, PART_1H + 1, t->n_profiles, eb);

	for (uint32_t i = 0; !r && i < t->n; i++) {
		t->resolution[i] = (uint8_t)t->n_profiles[i];
		if (t->resolution[i] != resolution)
			r = err_set(eb, -EBADMSG, "profile of resolution %u among those of %d",
				t->resolution[i], (int)resolution);
	}
	return r ? r : page_u32(p, 4, t->n, UINT32_MAX, t->n_profiles, eb);
}

uint32_t block_totals_columns(uint32_t column)
{
	return 1U << 0 | 1U << 1 | 1U << 3 | 1U << 4 | 1U << (FRAME_PROFILE_COLUMNS + column);
}

int block_decode_totals(
	const struct page *p, uint32_t column, struct decoded *ret, struct errbuf *eb)
{
	const uint32_t n = p->n_rows;
	struct profile_page *t;
	int64_t *wide;
	int r;

	if (p->n_columns <= FRAME_PROFILE_COLUMNS + column ||
		p->n_columns > FRAME_PROFILE_COLUMNS + STORE_MAX_COLUMNS)
		return err_set(eb, -EBADMSG, "profile page of %u columns", p->n_columns);
	r = allocate(ret, sizeof(*t) + (size_t)n * (3 * 8 + 4 + 1), eb);
	if (r < 0)
		return r;
	t = ret->data;
	wide = (int64_t *)(void *)(t + 1);
	*t = (struct profile_page) {.n = n,
		.n_columns = p->n_columns - FRAME_PROFILE_COLUMNS,
		.time_ns = wide,
		.duration_ns = wide + n,
		.n_profiles = (uint32_t *)(void *)(wide + (size_t)n * 3)};
	t->total[column] = wide + (size_t)n * 2;
	t->resolution = (uint8_t *)(t->n_profiles + n);
	r = page_i64(p, 0, n, t->time_ns, eb);
	r = r ? r : page_i64(p, 1, n, t->duration_ns, eb);
	r = r ? r : decode_kinds(p, t, PART_RAW, eb);
	return r ? r : page_i64(p, FRAME_PROFILE_COLUMNS + column, n, t->total[column], eb);
}

/* Lays the arrays of a profile page out in one allocation. */
static struct profile_page *profile_page_new(
	struct decoded *d, uint32_t n, uint32_t n_columns, bool is_rollup)
{
	const uint32_t n_wide = n_columns + (is_rollup ? 6 : 4);
	size_t bytes = sizeof(struct profile_page) + (size_t)n * (n_wide * 8 + 2 * 4 + 1);
	struct profile_page *t;
	int64_t *wide;

	d->data = try_malloc(bytes);
	d->bytes = bytes;
	t = d->data;
	if (!t)
		return NULL;
	*t = (struct profile_page) {.n = n, .n_columns = n_columns};
	wide = (int64_t *)(void *)(t + 1);
	t->time_ns = wide;
	t->duration_ns = wide + n;
	t->period = wide + (size_t)n * 2;
	t->first_row = (uint64_t *)wide + (size_t)n * 3;
	for (uint32_t k = 0; k < n_columns; k++)
		t->total[k] = wide + (size_t)n * (4 + k);
	if (is_rollup) {
		t->begin_ns = wide + (size_t)n * (4 + n_columns);
		t->last_ns = t->begin_ns + n;
	}
	t->n_profiles = (uint32_t *)(void *)(wide + (size_t)n * n_wide);
	t->n_rows = t->n_profiles + n;
	t->resolution = (uint8_t *)(t->n_rows + n);
	return t;
}

static int decode_range(const struct page *p, struct profile_page *t, struct errbuf *eb)
{
	int r = page_i64(p, FRAME_PROFILE_COLUMNS, t->n, t->begin_ns, eb);

	r = r ? r : page_i64(p, FRAME_PROFILE_COLUMNS + 1, t->n, t->last_ns, eb);
	for (uint32_t i = 0; !r && i < t->n; i++) {
		t->begin_ns[i] = (int64_t)((uint64_t)t->time_ns[i] - (uint64_t)t->begin_ns[i]);
		t->last_ns[i] = (int64_t)((uint64_t)t->time_ns[i] - (uint64_t)t->last_ns[i]);
	}
	return r;
}

int block_decode_profiles(const struct page *p, enum part_resolution resolution,
	struct decoded *ret, struct errbuf *eb)
{
	const bool is_rollup = resolution != PART_RAW;
	const uint32_t before = is_rollup ? FRAME_ROLLUP_COLUMNS : FRAME_PROFILE_COLUMNS;
	struct profile_page *t;
	int64_t first = 0;
	uint32_t n = p->n_rows;
	int r;

	if (p->n_columns < before || p->n_columns > before + STORE_MAX_COLUMNS)
		return err_set(eb, -EBADMSG, "profile page of %u columns", p->n_columns);
	t = profile_page_new(ret, n, p->n_columns - before, is_rollup);
	if (!t)
		return no_memory(eb, ret->bytes);
	r = page_i64(p, 0, n, t->time_ns, eb);
	r = r ? r : page_i64(p, 1, n, t->duration_ns, eb);
	r = r ? r : page_i64(p, 2, n, t->period, eb);
	r = r ? r : decode_kinds(p, t, resolution, eb);
	r = r ? r : page_u32(p, 5, n, UINT32_MAX, t->n_rows, eb);
	r = r ? r : page_i64(p, 6, 1, &first, eb);
	if (!r && is_rollup)
		r = decode_range(p, t, eb);
	for (uint32_t k = 0; !r && k < t->n_columns; k++)
		r = page_i64(p, before + k, n, t->total[k], eb);
	for (uint32_t i = 0; !r && i < n; i++) {
		t->first_row[i] = (uint64_t)first;
		first = (int64_t)((uint64_t)first + t->n_rows[i]);
	}
	return r;
}

static int schemas_begin(
	const struct part_info *info, uint64_t n, struct decoded *ret, struct errbuf *eb)
{
	(void)info;
	return allocate(ret, (size_t)n * sizeof(struct part_schema), eb);
}

static int schemas_page(const struct part_info *info, const struct page *p, uint32_t first,
	struct decoded *d, struct errbuf *eb)
{
	struct part_schema *s = (struct part_schema *)d->data + first;
	_cleanup_free_ uint32_t *kind = NULL, *type = NULL, *unit = NULL, *counts = NULL;
	_cleanup_free_ uint32_t *column_type = NULL, *column_unit = NULL, *column_kind = NULL;
	size_t items = 0, at = 0;
	int r = column_u32(p, 0, p->n_rows, STORE_COVERAGE + 1, &kind, eb);

	r = r ? r : column_u32(p, 1, p->n_rows, info->n_label_strings, &type, eb);
	r = r ? r : column_u32(p, 2, p->n_rows, info->n_label_strings, &unit, eb);
	r = r ? r : column_u32(p, 3, p->n_rows, STORE_MAX_COLUMNS + 1, &counts, eb);
	r = r ? r : sum_items(counts, p->n_rows, &items, eb);
	r = r ? r : column_u32(p, 4, items, info->n_label_strings, &column_type, eb);
	r = r ? r : column_u32(p, 5, items, info->n_label_strings, &column_unit, eb);
	r = r ? r : column_u32(p, 6, items, STORE_GAUGE + 1, &column_kind, eb);
	for (uint32_t i = 0; !r && i < p->n_rows; i++) {
		s[i] = (struct part_schema) {.kind = (uint8_t)kind[i],
			.n_columns = (uint8_t)counts[i],
			.period_type = type[i],
			.period_unit = unit[i]};
		for (uint32_t k = 0; k < counts[i]; k++, at++)
			s[i].columns[k] = (struct part_column) {.type = column_type[at],
				.unit = column_unit[at],
				.kind = (uint8_t)column_kind[at]};
	}
	return r;
}

const struct block_table block_schemas = {.begin = schemas_begin, .page = schemas_page};

static int streams_begin(
	const struct part_info *info, uint64_t n, struct decoded *ret, struct errbuf *eb)
{
	struct stream_table *t;
	int r = allocate(ret,
		sizeof(*t) + (size_t)n * sizeof(t->streams[0]) + ((size_t)n + 1) * sizeof(uint64_t),
		eb);

	(void)info;
	if (r < 0)
		return r;
	t = ret->data;
	t->first_profile = (uint64_t *)(void *)&t->streams[n];
	return 0;
}

static int streams_page(const struct part_info *info, const struct page *p, uint32_t first,
	struct decoded *d, struct errbuf *eb)
{
	struct stream_table *t = d->data;
	_cleanup_free_ uint32_t *schema = NULL, *label_set = NULL, *n_profiles = NULL;
	_cleanup_free_ int64_t *min = NULL, *max = NULL, *duration = NULL;
	int r = column_u32(p, 0, p->n_rows, info->n_schemas, &schema, eb);

	r = r ? r : column_u32(p, 1, p->n_rows, info->n_label_sets, &label_set, eb);
	r = r ? r : column_u32(p, 2, p->n_rows, UINT32_MAX, &n_profiles, eb);
	r = r ? r : column_i64(p, 3, p->n_rows, &min, eb);
	r = r ? r : column_i64(p, 4, p->n_rows, &max, eb);
	r = r ? r : column_i64(p, 5, p->n_rows, &duration, eb);
	for (uint32_t i = 0; !r && i < p->n_rows; i++)
		t->streams[first + i] = (struct part_stream) {.schema = schema[i],
			.label_set = label_set[i],
			.n_profiles = n_profiles[i],
			.min_time_ns = min[i],
			.max_time_ns = max[i],
			.max_duration_ns = duration[i]};
	return r;
}

static int streams_end(const struct part_info *info, struct decoded *d, struct errbuf *eb)
{
	struct stream_table *t = d->data;
	uint64_t at = 0;

	for (uint32_t i = 0; i < info->n_streams; i++) {
		t->first_profile[i] = at;
		at += t->streams[i].n_profiles;
	}
	t->first_profile[info->n_streams] = at;
	return at == info->n_profiles
		       ? 0
		       : err_set(eb, -EBADMSG, "streams have %llu profiles, %llu expected",
				 (unsigned long long)at, (unsigned long long)info->n_profiles);
}

const struct block_table block_streams = {
	.begin = streams_begin, .page = streams_page, .end = streams_end};

static int labels_begin(
	const struct part_info *info, uint64_t n, struct decoded *ret, struct errbuf *eb)
{
	struct label_table *t;
	int r = allocate(ret, sizeof(*t) + ((size_t)n + 1) * sizeof(t->first[0]), eb);

	(void)info;
	if (r < 0)
		return r;
	t = ret->data;
	*t = (struct label_table) {.n_pairs = 0};
	t->first[0] = 0;
	return 0;
}

/* Pairs are gathered behind the table while it grows: `bytes` is the allocation, pairs start after first[]. */
static int labels_page(const struct part_info *info, const struct page *p, uint32_t first,
	struct decoded *d, struct errbuf *eb)
{
	size_t head =
		sizeof(struct label_table) + ((size_t)info->n_label_sets + 1) * sizeof(uint32_t);
	_cleanup_free_ uint32_t *counts = NULL, *name = NULL, *value = NULL;
	struct label_table *t = d->data;
	struct part_label *pairs;
	size_t items = 0, bytes;
	int r = column_u32(p, 0, p->n_rows, PART_MAX_PAIRS + 1, &counts, eb);

	r = r ? r : sum_items(counts, p->n_rows, &items, eb);
	if (!r && items)
		r = column_u32(p, 1, items, info->n_label_strings, &name, eb);
	if (!r && items)
		r = column_u32(p, 2, items, info->n_label_strings, &value, eb);
	if (r < 0)
		return r;
	bytes = head + (t->n_pairs + items) * sizeof(*pairs);
	t = try_realloc(d->data, 1, bytes);
	if (!t)
		return no_memory(eb, bytes);
	d->data = t;
	d->bytes = bytes;
	pairs = (struct part_label *)(void *)((char *)t + head) + t->n_pairs;
	for (size_t i = 0; i < items; i++)
		pairs[i] = (struct part_label) {.name = name[i], .value = value[i]};
	for (uint32_t i = 0; i < p->n_rows; i++)
		t->first[first + i + 1] = t->n_pairs += counts[i];
	return 0;
}

static int labels_end(const struct part_info *info, struct decoded *d, struct errbuf *eb)
{
	struct label_table *t = d->data;

	(void)eb;
	t->pairs = (struct part_label *)(void *)&t->first[info->n_label_sets + 1];
	return 0;
}

const struct block_table block_label_sets = {
	.begin = labels_begin, .page = labels_page, .end = labels_end};

static int mappings_begin(
	const struct part_info *info, uint64_t n, struct decoded *ret, struct errbuf *eb)
{
	(void)info;
	return allocate(ret, (size_t)n * sizeof(struct part_mapping), eb);
}

static int mappings_page(const struct part_info *info, const struct page *p, uint32_t first,
	struct decoded *d, struct errbuf *eb)
{
	struct part_mapping *m = (struct part_mapping *)d->data + first;
	_cleanup_free_ uint32_t *file = NULL, *build_id = NULL, *kind = NULL;
	int r = column_u32(p, 0, p->n_rows, info->n_strings, &file, eb);

	r = r ? r : column_u32(p, 1, p->n_rows, info->n_strings, &build_id, eb);
	r = r ? r : column_u32(p, 2, p->n_rows, 256, &kind, eb);
	for (uint32_t i = 0; !r && i < p->n_rows; i++)
		m[i] = (struct part_mapping) {
			.filename = file[i], .build_id = build_id[i], .kind = (uint8_t)kind[i]};
	return r;
}

const struct block_table block_mappings = {.begin = mappings_begin, .page = mappings_page};

static int keys_begin(
	const struct part_info *info, uint64_t n, struct decoded *ret, struct errbuf *eb)
{
	(void)info;
	return allocate(ret, (size_t)n * sizeof(uint64_t), eb);
}

static int keys_page(const struct part_info *info, const struct page *p, uint32_t first,
	struct decoded *d, struct errbuf *eb)
{
	(void)info;
	return page_i64(p, 0, p->n_rows, (int64_t *)d->data + first, eb);
}

const struct block_table block_keys = {.begin = keys_begin, .page = keys_page};

static int nodes_begin(
	const struct part_info *info, uint64_t n, struct decoded *ret, struct errbuf *eb)
{
	struct node_table *t;
	int r = allocate(ret, sizeof(*t) + (size_t)n * 2 * sizeof(uint32_t), eb);

	(void)info;
	if (r < 0)
		return r;
	t = ret->data;
	t->n = (uint32_t)n;
	return 0;
}

/* Replays (levels up, location) over the path of ids from the root to the node before. */
static int nodes_page(const struct part_info *info, const struct page *p, uint32_t first,
	struct decoded *d, struct errbuf *eb)
{
	enum { MAX_PATH = STORE_MAX_DEPTH + 2 };
	struct node_table *t = d->data;
	uint32_t *parents = t->arrays + first, *locations = t->arrays + t->n + first;
	_cleanup_free_ uint32_t *up = NULL, *path_location = NULL;
	uint32_t path[MAX_PATH + 1], depth = 0;
	int r = column_u32(p, 0, p->n_rows, UINT32_MAX, &up, eb);

	r = r ? r : page_u32(p, 1, p->n_rows, MAX(info->n_locations, 1U), locations, eb);
	r = r ? r : page_u32(p, 2, 1, MAX_PATH, &depth, eb);
	if (!r && depth)
		r = page_u32(p, 3, depth, first, path, eb);
	r = r ? r
	      : column_u32(p, 4, depth, depth ? MAX(info->n_locations, 1U) : UINT32_MAX,
			&path_location, eb);
	if (r < 0)
		return r;
	if (!first != !depth)
		return err_set(
			eb, -EBADMSG, "page of nodes starts at %u with a path of %u", first, depth);
	for (uint32_t i = 0; i < p->n_rows; i++) {
		if (first + i == 0) {
			parents[0] = 0;
			path[depth++] = 0;
			continue;
		}
		if (up[i] >= depth)
			return err_set(eb, -EBADMSG, "node %u is %u levels up from depth %u",
				first + i, up[i], depth);
		depth -= up[i];
		if (depth >= MAX_PATH)
			return err_set(
				eb, -EBADMSG, "node %u is deeper than %d", first + i, MAX_PATH);
		parents[i] = path[depth - 1];
		path[depth++] = first + i;
	}
	return 0;
}

const struct block_table block_nodes = {.begin = nodes_begin, .page = nodes_page};
