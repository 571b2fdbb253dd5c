/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a block for compaction: its small tables whole, the others page by page past the cache; and marking what its profiles use.
 */
#include "lib/base/alloc.h"
#include "scraper/store/compact/compact_impl.h"
#include <string.h>

static int damaged(struct block *b, int r, struct errbuf *eb)
{
	if (part_is_damage(r))
		block_report_damage(b, eb->text);
	return r;
}

int compact_pages_open(
	struct compact_pages *c, struct block *b, enum frame_table t, struct errbuf *eb)
{
	const enum frame_file f = frame_file_of(t);

	*c = (struct compact_pages) {
		.b = b, .table = t, .path = xasprintf("%s/%s", b->dir, frame_file_name(f))};
	return damaged(b, frame_read_pages(b->fs, c->path, &b->frames[f], t, &c->pages, eb), eb);
}

void compact_pages_close(struct compact_pages *c)
{
	free(c->path);
	free(c->pages);
	*c = (struct compact_pages) {.path = NULL};
}

int compact_pages_load(
	struct compact_pages *c, uint32_t number, struct page **ret, struct errbuf *eb)
{
	c->next = number + 1;
	return damaged(
		c->b, frame_read_page(c->b->fs, c->path, &c->pages->pages[number], ret, eb), eb);
}

int compact_pages_next(struct compact_pages *c, struct page **ret, struct errbuf *eb)
{
	int r;

	if (c->next >= c->pages->n_pages)
		return 0;
	r = compact_pages_load(c, c->next, ret, eb);
	return r < 0 ? r : 1;
}

static int number_profiles(struct compaction *c, struct compact_input *in)
{
	uint64_t n = 0;

	in->first_profile =
		arena_alloc_array(&c->arena, in->info->n_streams + 1UL, sizeof(*in->first_profile));
	if (!in->first_profile)
		return arena_error(&c->arena, c->eb);
	for (uint32_t i = 0; i < in->info->n_streams; i++) {
		in->first_profile[i] = n;
		n += in->streams[i].n_profiles;
	}
	if (n != in->b->meta.stats.profiles)
		return damaged(in->b,
			err_set(c->eb, -EBADMSG,
				"%s: streams have %llu profiles, meta.json counts %llu", in->b->dir,
				(unsigned long long)n,
				(unsigned long long)in->b->meta.stats.profiles),
			c->eb);
	return 0;
}

static int init_bitmaps(struct compaction *c, struct compact_input *in)
{
	const struct part_info *i = in->info;
	int r = bitmap_init(&in->has_streams, i->n_streams, c->budget, c->eb);

	r = r ? r : bitmap_init(&in->has_schemas, i->n_schemas, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->has_sets, i->n_label_sets, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->has_row_sets, i->n_label_sets, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->has_nodes, i->n_nodes, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->has_locations, i->n_locations, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->has_functions, i->n_functions, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->has_mappings, i->n_mappings, c->budget, c->eb);
	r = r ? r : bitmap_init(&in->label_strings, i->n_strings, c->budget, c->eb);
	return r ? r : bitmap_init(&in->other_strings, i->n_strings, c->budget, c->eb);
}

int compact_map(struct compaction *c, uint32_t **ret, size_t n)
{
	*ret = arena_alloc_array(&c->arena, n + 1, sizeof(**ret));
	if (!*ret)
		return arena_error(&c->arena, c->eb);
	memset(*ret, 0xff, n * sizeof(**ret));
	return 0;
}

int compact_input_open(struct compaction *c, struct compact_input *in, struct block *b)
{
	struct errbuf *eb = c->eb;
	int r;

	in->b = b;
	r = part_reader_open(&b->part, c->budget, &in->r, eb);
	if (r < 0)
		return r;
	in->info = part_reader_info(in->r);
	r = part_schemas(in->r, &in->schemas);
	r = r ? r : block_streams_written(in->r, &in->streams);
	r = r ? r : part_label_sets(in->r, &in->sets);
	r = r ? r : part_mappings(in->r, &in->mappings);
	if (r < 0)
		return err_set(eb, r, "%s", part_reader_error(in->r));
	r = deletions_make(in->r, in->streams, &b->meta.tombstones, &in->deleted, eb);
	r = r ? r : number_profiles(c, in);
	return r ? r : init_bitmaps(c, in);
}

void compact_input_close(struct compact_input *in)
{
	struct bitmap *bitmaps[] = {&in->has_streams, &in->has_schemas, &in->has_sets,
		&in->has_row_sets, &in->has_nodes, &in->has_locations, &in->has_functions,
		&in->has_mappings, &in->label_strings, &in->other_strings, &in->placed};

	for (size_t i = 0; i < ARRAY_SIZE(bitmaps); i++)
		bitmap_done(bitmaps[i]);
	deletions_done(&in->deleted);
	part_reader_close(in->r);
}

int compact_tick(struct compaction *c, uint64_t n_rows)
{
	c->rows_since_tick += n_rows;
	if (!c->o->tick || c->rows_since_tick < COMPACT_TICK_ROWS)
		return 0;
	c->rows_since_tick = 0;
	return c->o->tick(c->o->arg);
}

/* ---- profiles ---- */

int compact_profiles_open(
	struct compact_profiles *p, struct compact_input *in, bool in_order, struct errbuf *eb)
{
	*p = (struct compact_profiles) {.in = in, .in_order = in_order};
	return compact_pages_open(&p->pages, in->b, TABLE_PROFILES, eb);
}

void compact_profiles_close(struct compact_profiles *p)
{
	compact_pages_close(&p->pages);
	free(p->page);
}

static int load_profiles(struct compact_profiles *p, uint32_t number, struct errbuf *eb)
{
	_cleanup_free_ struct page *page = NULL;
	struct decoded d = {.data = NULL};
	int r = compact_pages_load(&p->pages, number, &page, eb);

	free(TAKE(p->page));
	if (r < 0)
		return r;
	r = block_decode_profiles(page, PART_RAW, &d, eb);
	p->page = d.data;
	p->number = number;
	return damaged(p->in->b, r, eb);
}

/* Makes the profile with this number the one in hand. */
static int seek_profile(struct compact_profiles *p, uint64_t number, struct errbuf *eb)
{
	const struct frame_pages *pages = p->pages.pages;
	uint32_t page = p->number;
	int r = 0;

	if (number >= pages->n_rows)
		return damaged(p->in->b,
			err_set(eb, -EBADMSG, "%s: fewer profiles than streams have",
				p->in->b->dir),
			eb);
	if (!p->page || number < pages->pages[page].first_row ||
		number - pages->pages[page].first_row >= pages->pages[page].n_rows)
		page = frame_page_of(pages, number);
	if (!p->page || page != p->number)
		r = load_profiles(p, page, eb);
	p->at = (uint32_t)(number - pages->pages[page].first_row);
	return r;
}

/* The next stream that has profiles; false at the end. */
static bool next_stream(struct compact_profiles *p)
{
	const struct compact_input *in = p->in;
	uint32_t n = p->in_order ? in->n_order : in->info->n_streams;

	while (!p->left && p->next < n) {
		p->stream = p->in_order ? in->order[p->next] : p->next;
		p->left = in->streams[p->stream].n_profiles;
		p->next++;
	}
	return p->left > 0;
}

/* One step, deleted ones too. */
static int step_profile(struct compact_profiles *p, struct errbuf *eb)
{
	const struct compact_input *in = p->in;
	int r;

	p->left -= p->left > 0;
	if (!next_stream(p)) {
		p->done = true;
		return 0;
	}
	r = seek_profile(
		p, in->first_profile[p->stream] + in->streams[p->stream].n_profiles - p->left, eb);
	if (r < 0)
		return r;
	if (p->page->n_columns != in->schemas[in->streams[p->stream].schema].n_columns)
		return damaged(in->b,
			err_set(eb, -EBADMSG, "%s: profile page has %u columns", in->b->dir,
				p->page->n_columns),
			eb);
	return 0;
}

int compact_profiles_next(struct compact_profiles *p, struct errbuf *eb)
{
	int r;

	do
		r = step_profile(p, eb);
	while (r >= 0 && !p->done &&
		deletions_has(&p->in->deleted, p->stream, p->page->time_ns[p->at]));
	return r;
}

/* ---- rows ---- */

int compact_row_pages_open(struct compact_row_pages *p, struct compact_input *in, struct errbuf *eb)
{
	*p = (struct compact_row_pages) {.number = STORE_NONE};
	p->label_set = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*p->label_set));
	p->node = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*p->node));
	if (!p->label_set || !p->node)
		return -ENOMEM;
	return compact_pages_open(&p->pages, in->b, TABLE_ROWS, eb);
}

void compact_row_pages_close(struct compact_row_pages *p)
{
	compact_pages_close(&p->pages);
	free(p->label_set);
	free(p->node);
	free(p->value);
}

static int need_values(struct compact_row_pages *p, uint32_t n)
{
	int64_t *grown;

	if (n <= p->cap_values)
		return 0;
	grown = try_realloc(p->value, (size_t)n * PAGE_MAX_ROWS, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->value = grown;
	p->cap_values = n;
	return 0;
}

static int load_rows(struct compact_row_pages *p, const struct compact_input *in, uint32_t number,
	uint32_t n_values, struct errbuf *eb)
{
	_cleanup_free_ struct page *page = NULL;
	int r = compact_pages_load(&p->pages, number, &page, eb);

	if (r < 0)
		return r;
	if (page->n_columns < n_values + 2)
		return err_set(eb, -EBADMSG, "%s: page %u of rows has %u columns", p->pages.path,
			number, page->n_columns);
	r = need_values(p, n_values);
	r = r ? r : page_u32(page, 0, page->n_rows, in->info->n_label_sets, p->label_set, eb);
	r = r ? r : page_u32(page, 1, page->n_rows, in->info->n_nodes, p->node, eb);
	for (uint32_t k = 0; r >= 0 && k < n_values; k++)
		r = page_i64(page, k + 2, page->n_rows, p->value + (size_t)k * PAGE_MAX_ROWS, eb);
	p->number = r < 0 ? STORE_NONE : number;
	p->n_values = n_values;
	return r;
}

int compact_row_pages_seek(struct compact_row_pages *p, const struct compact_input *in,
	uint32_t n_values, uint64_t row, uint32_t *ret_at, uint32_t *ret_n, struct errbuf *eb)
{
	const struct frame_pages *pages = p->pages.pages;
	uint32_t number = p->number;
	int r = 0;

	if (row >= pages->n_rows)
		return damaged(in->b,
			err_set(eb, -EBADMSG, "%s: no row %llu", p->pages.path,
				(unsigned long long)row),
			eb);
	if (number == STORE_NONE || row < pages->pages[number].first_row ||
		row - pages->pages[number].first_row >= pages->pages[number].n_rows)
		number = frame_page_of(pages, row);
	if (number != p->number || n_values != p->n_values)
		r = damaged(in->b, load_rows(p, in, number, n_values, eb), eb);
	*ret_at = (uint32_t)(row - pages->pages[number].first_row);
	*ret_n = pages->pages[number].n_rows - *ret_at;
	return r;
}

/* ---- marks ---- */

static int mark_rows(struct compaction *c, struct compact_input *in, struct compact_row_pages *rows,
	uint64_t row, uint32_t n_rows)
{
	uint64_t end = row + n_rows;
	int r = 0;

	while (r >= 0 && row < end) {
		uint32_t at = 0, n = 0;

		r = compact_row_pages_seek(rows, in, 0, row, &at, &n, c->eb);
		n = (uint32_t)MIN((uint64_t)n, end - row);
		for (uint32_t i = at; r >= 0 && i < at + n; i++) {
			bitmap_set(&in->has_nodes, rows->node[i]);
			bitmap_set(&in->has_row_sets, rows->label_set[i]);
		}
		row += n;
		r = r < 0 ? r : compact_tick(c, n);
	}
	return r;
}

static int mark_profiles(struct compaction *c, struct compact_input *in)
{
	_cleanup_(compact_profiles_close)
	struct compact_profiles p = {.in = in};
	_cleanup_(compact_row_pages_close)
	struct compact_row_pages rows = {.node = NULL};
	int r = compact_row_pages_open(&rows, in, c->eb);

	r = r < 0 ? r : compact_profiles_open(&p, in, false, c->eb);
	r = r < 0 ? r : compact_profiles_next(&p, c->eb);
	while (r >= 0 && !p.done) {
		bitmap_set(&in->has_streams, p.stream);
		r = mark_rows(c, in, &rows, p.page->first_row[p.at], p.page->n_rows[p.at]);
		r = r < 0 ? r : compact_profiles_next(&p, c->eb);
	}
	return r;
}

static void mark_labels(struct compact_input *in)
{
	const struct part_info *info = in->info;

	for (uint32_t i = 0; i < info->n_streams; i++)
		if (bitmap_has(&in->has_streams, i)) {
			bitmap_set(&in->has_schemas, in->streams[i].schema);
			bitmap_set(&in->has_sets, in->streams[i].label_set);
		}
	bitmap_set(&in->label_strings, 0);
	bitmap_set(&in->has_sets, 0);
	for (uint32_t i = 0; i < info->n_label_sets; i++) {
		if (bitmap_has(&in->has_row_sets, i))
			bitmap_set(&in->has_sets, i);
		if (!bitmap_has(&in->has_sets, i))
			continue;
		for (uint32_t k = in->sets.first[i]; k < in->sets.first[i + 1]; k++) {
			bitmap_set(&in->label_strings, in->sets.pairs[k].name);
			bitmap_set(&in->label_strings, in->sets.pairs[k].value);
		}
	}
	for (uint32_t i = 0; i < info->n_schemas; i++) {
		const struct part_schema *s = &in->schemas[i];

		if (!bitmap_has(&in->has_schemas, i))
			continue;
		bitmap_set(&in->label_strings, s->period_type);
		bitmap_set(&in->label_strings, s->period_unit);
		for (unsigned k = 0; k < s->n_columns; k++) {
			bitmap_set(&in->label_strings, s->columns[k].type);
			bitmap_set(&in->label_strings, s->columns[k].unit);
		}
	}
}

/* A used node uses its ancestors: those on the path that are not marked yet. */
static int mark_ancestors(struct compaction *c, struct compact_input *in)
{
	_cleanup_(compact_nodes_close)
	struct compact_node_pages n = {.in = in};
	int r = compact_nodes_open(&n, in, c->eb);

	bitmap_set(&in->has_nodes, 0);
	while (r >= 0 && (r = compact_nodes_next(&n, c->eb)) > 0)
		if (bitmap_has(&in->has_nodes, n.id))
			for (uint32_t d = n.depth; d-- && !bitmap_has(&in->has_nodes, n.path[d]);)
				bitmap_set(&in->has_nodes, n.path[d]);
	return r;
}

static int mark_places(struct compaction *c, struct compact_input *in)
{
	_cleanup_(compact_nodes_close)
	struct compact_node_pages n = {.in = in};
	int r = compact_nodes_open(&n, in, c->eb);

	while (r >= 0 && (r = compact_nodes_next(&n, c->eb)) > 0)
		if (n.id && bitmap_has(&in->has_nodes, n.id))
			bitmap_set(&in->has_locations, n.location);
	return r;
}

static int mark_locations(struct compaction *c, struct compact_input *in)
{
	_cleanup_compact_pages_ struct compact_pages pages = {.path = NULL};
	uint32_t id = 0;
	int r = compact_pages_open(&pages, in->b, TABLE_LOCATIONS, c->eb);

	while (r >= 0) {
		_cleanup_free_ struct page *page = NULL;
		struct decoded d = {.data = NULL};
		const struct location_page *t;

		r = compact_pages_next(&pages, &page, c->eb);
		if (r <= 0)
			break;
		r = block_decode_locations(in->info, page, &d, c->eb);
		t = d.data;
		for (uint32_t i = 0; r >= 0 && i < t->n; i++, id++) {
			const struct part_location *l = &t->locations[i];

			if (!bitmap_has(&in->has_locations, id))
				continue;
			if (l->mapping != STORE_NONE)
				bitmap_set(&in->has_mappings, l->mapping);
			for (uint32_t k = 0; k < l->n_lines; k++)
				bitmap_set(&in->has_functions, l->lines[k].function);
		}
		free(d.data);
	}
	return damaged(in->b, r, c->eb);
}

static int mark_names(struct compaction *c, struct compact_input *in)
{
	_cleanup_compact_pages_ struct compact_pages pages = {.path = NULL};
	uint32_t id = 0;
	int r = compact_pages_open(&pages, in->b, TABLE_FUNCTIONS, c->eb);

	while (r >= 0) {
		_cleanup_free_ struct page *page = NULL;
		struct decoded d = {.data = NULL};
		const struct part_function *f;

		r = compact_pages_next(&pages, &page, c->eb);
		if (r <= 0)
			break;
		r = block_decode_functions(in->info, page, &d, c->eb);
		f = d.data;
		for (uint32_t i = 0; r >= 0 && i < page->n_rows; i++, id++) {
			if (!bitmap_has(&in->has_functions, id))
				continue;
			bitmap_set(&in->other_strings, f[i].name);
			bitmap_set(&in->other_strings, f[i].system_name);
			bitmap_set(&in->other_strings, f[i].filename);
		}
		free(d.data);
	}
	for (uint32_t i = 0; r >= 0 && i < in->info->n_mappings; i++)
		if (bitmap_has(&in->has_mappings, i)) {
			bitmap_set(&in->other_strings, in->mappings[i].filename);
			bitmap_set(&in->other_strings, in->mappings[i].build_id);
		}
	return damaged(in->b, r, c->eb);
}

int compact_input_mark(struct compaction *c, struct compact_input *in)
{
	int r = mark_profiles(c, in);

	if (r < 0)
		return r;
	mark_labels(in);
	r = mark_ancestors(c, in);
	r = r ? r : mark_places(c, in);
	r = r ? r : mark_locations(c, in);
	return r ? r : mark_names(c, in);
}
