/* SPDX-License-Identifier: Apache-2.0
 *
 * The block as a part: tables and pages decoded once into the page cache and pinned while a reader uses them.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/part_block.h"
#include <string.h>

static struct block *block_of(const struct part_reader *r)
{
	return (struct block *)r->part;
}

/* Every failure that shows damage is remembered for the quarantine. */
int part_block_failed(struct part_reader *r, int error)
{
	if (part_is_damage(error))
		block_report_damage(block_of(r), err_text(&r->errbuf, error));
	return error;
}

static void block_damaged(struct part_reader *r)
{
	block_report_damage(block_of(r), r->errbuf.text);
}

static bool block_is_damaged(const struct part *p)
{
	return ((const struct block *)p)->damaged;
}

/* What was deleted is still in the rollups: they serve again when the block is written anew. */
static uint32_t rollups_of(const struct meta *m)
{
	uint32_t bits = 0;

	if (m->tombstones.n)
		return 0;
	for (unsigned i = PART_10M; i < META_N_RESOLUTIONS; i++)
		if (m->rollups[i].streams)
			bits |= 1U << i;
	return bits;
}

static int use_rollup(struct part_reader *r, enum part_resolution resolution)
{
	const struct meta_rollup *u = &block_of(r)->meta.rollups[resolution];

	if (!(r->info.rollups >> resolution & 1))
		return err_set(&r->errbuf, -ENOENT, "the block has no such rollup");
	r->info.n_streams = (uint32_t)u->streams;
	r->info.n_profiles = u->profiles;
	r->info.n_rows = u->rows;
	r->info.n_pages = (uint32_t)u->row_pages;
	return 0;
}

static int block_reader_open(struct part_reader *r)
{
	const struct meta *m = &block_of(r)->meta;
	const struct meta_stats *s = &m->stats;
	const enum part_resolution resolution = r->info.resolution;

	r->info = (struct part_info) {
		.min_time_ns = m->min_time_ns,
		.max_time_ns = m->max_time_ns,
		.max_duration_ns = m->max_duration_ns,
		.n_label_strings = (uint32_t)MIN(s->label_strings, s->strings),
		.labels_sorted = s->label_strings && s->strings && s->schemas && s->label_sets,
		.n_strings = (uint32_t)s->strings,
		.n_functions = (uint32_t)s->functions,
		.n_mappings = (uint32_t)s->mappings,
		.n_locations = (uint32_t)s->locations,
		.n_nodes = (uint32_t)s->nodes,
		.n_label_sets = (uint32_t)s->label_sets,
		.n_schemas = (uint32_t)s->schemas,
		.n_streams = (uint32_t)s->streams,
		.n_profiles = s->profiles,
		.n_rows = s->rows,
		.n_pages = (uint32_t)s->row_pages,
		.resolution = resolution,
		.rollups = rollups_of(m),
		.rollup_without = (const char *const *)m->rollup_without.items,
		.n_rollup_without = m->rollup_without.n,
		.has_deletions = m->tombstones.n > 0,
	};
	ulid_format(m->ulid, r->info.ulid);
	return resolution == PART_RAW ? 0 : use_rollup(r, resolution);
}

static void block_reader_close(struct part_reader *r)
{
	struct cache *c = block_of(r)->cache;

	for (size_t i = 0; i < r->n_pins; i++)
		cache_unpin(c, r->pins[i]);
	free(r->page_part);
	if (r->page_pin)
		cache_unpin(c, r->page_pin);
	if (r->profiles_pin)
		cache_unpin(c, r->profiles_pin);
	block_deletions_free(r);
}

/* The file in which this reader finds a table: rollups have streams, profiles and rows of their own. */
static enum frame_file file_of(const struct part_reader *r, enum frame_table t)
{
	const bool is_10m = r->info.resolution == PART_10M;

	if (r->info.resolution == PART_RAW)
		return frame_file_of(t);
	switch (t) {
	case TABLE_STREAMS:
	case TABLE_PROFILES: return is_10m ? FRAME_PROFILES_10M : FRAME_PROFILES_1H;
	case TABLE_ROWS: return is_10m ? FRAME_ROWS_10M : FRAME_ROWS_1H;
	default: return frame_file_of(t);
	}
}

char *part_block_path(const struct part_reader *r, enum frame_table t)
{
	return xasprintf("%s/%s", block_of(r)->dir, frame_file_name(file_of(r, t)));
}

static const struct frame *frame_of(const struct part_reader *r, enum frame_table t)
{
	return &block_of(r)->frames[file_of(r, t)];
}

uint32_t part_block_cache_table(const struct part_reader *r, enum frame_table t)
{
	return file_of(r, t) == frame_file_of(t) ? t : TABLE_N * r->info.resolution + t;
}

/* Puts into the cache, pins for the reader's life. */
static int keep(struct part_reader *r, enum frame_table t, uint32_t page, struct decoded d,
	const void **ret)
{
	struct cache *c = block_of(r)->cache;
	struct cache_entry *e =
		cache_add(c, r->part->id, part_block_cache_table(r, t), page, d.data, d.bytes);
	int x;

	if (!e)
		return err_set(&r->errbuf, -ENOMEM, "out of memory reading a block");
	x = part_reader_pin(r, e);
	if (x < 0) {
		cache_unpin(c, e);
		return x;
	}
	*ret = e->data;
	return 0;
}

/* 1 when it was cached. */
static int cached(struct part_reader *r, enum frame_table t, uint32_t page, const void **ret)
{
	struct cache *c = block_of(r)->cache;
	struct cache_entry *e = cache_get(c, r->part->id, part_block_cache_table(r, t), page);
	int x;

	if (!e)
		return 0;
	x = part_reader_pin(r, e);
	if (x < 0) {
		cache_unpin(c, e);
		return x;
	}
	*ret = e->data;
	return 1;
}

/* The page table of `t`; its rows must be as many as meta.json says. */
int part_block_pages(
	struct part_reader *r, enum frame_table t, uint64_t n_rows, const struct frame_pages **ret)
{
	struct block *b = block_of(r);
	struct part_table *table = &r->tables[t];
	_cleanup_free_ char *path = NULL;
	struct frame_pages *pages;
	const void *p = table->pages;
	int x = p ? 1 : cached(r, t, CACHE_INDEX, &p);

	if (!x) {
		path = part_block_path(r, t);
		x = frame_read_pages(b->fs, path, frame_of(r, t), t, &pages, &r->errbuf);
		if (x >= 0 && pages->n_rows != n_rows) {
			x = err_set(&r->errbuf, -EBADMSG, "%s: %llu rows of %s, %llu expected",
				path, (unsigned long long)pages->n_rows, frame_table_name(t),
				(unsigned long long)n_rows);
			free(pages);
		}
		if (x < 0)
			return part_block_failed(r, x);
		x = keep(r, t, CACHE_INDEX,
			(struct decoded) {.data = pages,
				.bytes = sizeof(*pages) + pages->n_pages * sizeof(pages->pages[0])},
			&p);
	}
	if (x < 0)
		return x;
	*ret = table->pages = p;
	if (table->page_data)
		return 0;
	table->page_data =
		arena_zalloc(&r->arena, table->pages->n_pages * sizeof(*table->page_data));
	return arena_error(&r->arena, &r->errbuf);
}

/* A page table may promise more rows than memory has: the reader's budget is asked first. */
static int afford(struct part_reader *r, uint64_t bytes)
{
	struct budget *b = r->arena.budget;
	int x = b ? budget_charge(b, bytes, &r->errbuf) : 0;

	if (!x && b)
		budget_release(b, bytes);
	return x;
}

static int decode_table(struct part_reader *r, enum frame_table t, const struct block_table *how,
	const struct frame_pages *pages, struct decoded *d)
{
	struct block *b = block_of(r);
	_cleanup_free_ char *path = part_block_path(r, t);
	int x = afford(r, pages->n_rows * 8);

	if (x >= 0)
		x = how->begin(&r->info, pages->n_rows, d, &r->errbuf);
	for (uint32_t i = 0; x >= 0 && i < pages->n_pages; i++) {
		_cleanup_free_ struct page *p = NULL;

		x = frame_read_page(b->fs, path, &pages->pages[i], &p, &r->errbuf);
		if (x >= 0)
			x = how->page(
				&r->info, p, (uint32_t)pages->pages[i].first_row, d, &r->errbuf);
	}
	if (x >= 0 && how->end)
		x = how->end(&r->info, d, &r->errbuf);
	return x < 0 ? part_block_failed(r, x) : 0;
}

static int whole_table(struct part_reader *r, enum frame_table t, const struct block_table *how,
	uint64_t n_rows, const void **ret)
{
	const struct frame_pages *pages = NULL;
	struct decoded d = {.data = NULL};
	int x;

	*ret = r->tables[t].whole;
	x = *ret ? 1 : cached(r, t, CACHE_TABLE, ret);
	if (x) {
		r->tables[t].whole = *ret;
		return x < 0 ? x : 0;
	}
	x = part_block_pages(r, t, n_rows, &pages);
	if (x < 0)
		return x;
	x = decode_table(r, t, how, pages, &d);
	if (x < 0) {
		free(d.data);
		return x;
	}
	x = keep(r, t, CACHE_TABLE, d, ret);
	r->tables[t].whole = *ret;
	return x;
}

typedef int decode_page_fn(
	const struct part_info *info, const struct page *p, struct decoded *ret, struct errbuf *eb);

static int decode_strings(
	const struct part_info *info, const struct page *p, struct decoded *ret, struct errbuf *eb)
{
	(void)info;
	return block_decode_strings(p, ret, eb);
}

static int one_page(struct part_reader *r, enum frame_table t, const struct frame_pages *pages,
	uint32_t number, decode_page_fn *decode, const void **ret)
{
	struct block *b = block_of(r);
	_cleanup_free_ struct page *p = NULL;
	_cleanup_free_ char *path = NULL;
	const void **memo = &r->tables[t].page_data[number];
	struct decoded d = {.data = NULL};
	int x;

	*ret = *memo;
	x = *ret ? 1 : cached(r, t, number, ret);
	if (x) {
		*memo = *ret;
		return x < 0 ? x : 0;
	}
	path = part_block_path(r, t);
	x = frame_read_page(b->fs, path, &pages->pages[number], &p, &r->errbuf);
	if (x >= 0)
		x = decode(&r->info, p, &d, &r->errbuf);
	if (x < 0) {
		free(d.data);
		return part_block_failed(r, x);
	}
	x = keep(r, t, number, d, ret);
	*memo = *ret;
	return x;
}

int part_block_schemas(struct part_reader *r, const struct part_schema **ret)
{
	const void *p = NULL;
	int x = whole_table(r, TABLE_SCHEMAS, &block_schemas, r->info.n_schemas, &p);

	*ret = p;
	return x;
}

int part_block_streams(struct part_reader *r, const struct stream_table **ret)
{
	const void *p = NULL;
	int x = whole_table(r, TABLE_STREAMS, &block_streams, r->info.n_streams, &p);

	*ret = p;
	return x;
}

int block_streams_written(struct part_reader *r, const struct part_stream **ret)
{
	const struct stream_table *t = NULL;
	int x = part_block_streams(r, &t);

	*ret = t ? t->streams : NULL;
	return x;
}

static int block_streams_of(struct part_reader *r, const struct part_stream **ret)
{
	int x = block_streams_written(r, ret);

	return x < 0 || !block_of(r)->meta.tombstones.n ? x : block_streams_left(r, ret);
}

static int block_label_sets_of(struct part_reader *r, struct part_label_sets *ret)
{
	const void *p = NULL;
	int x = whole_table(r, TABLE_LABEL_SETS, &block_label_sets, r->info.n_label_sets, &p);
	const struct label_table *t = p;

	if (x >= 0)
		*ret = (struct part_label_sets) {.first = t->first, .pairs = t->pairs};
	return x;
}

static int block_mappings_of(struct part_reader *r, const struct part_mapping **ret)
{
	const void *p = NULL;
	int x = whole_table(r, TABLE_MAPPINGS, &block_mappings, r->info.n_mappings, &p);

	*ret = p;
	return x;
}

static int block_nodes_of(
	struct part_reader *r, const uint32_t **ret_parents, const uint32_t **ret_locations)
{
	const void *p = NULL;
	int x = whole_table(r, TABLE_NODES, &block_nodes, r->info.n_nodes, &p);
	const struct node_table *t = p;

	if (x >= 0) {
		*ret_parents = t->arrays;
		*ret_locations = t->arrays + t->n;
	}
	return x;
}

static int block_keys_of(struct part_reader *r, const uint64_t **ret)
{
	const void *p = NULL;
	int x = whole_table(r, TABLE_KEYS, &block_keys, r->info.n_locations, &p);

	*ret = p;
	return x;
}

/* One lookup of ids: consecutive ones of the same page cost nothing. */
struct lookup {
	enum frame_table table;
	uint32_t limit;
	decode_page_fn *decode;
	const struct frame_pages *pages;
	uint32_t page;
	const void *data;
};

static int look_up(struct part_reader *r, struct lookup *l, uint32_t id, uint32_t *ret_index)
{
	const struct frame_page *at;
	uint32_t page;
	int x;

	if (id >= l->limit)
		return err_set(&r->errbuf, -EBADMSG, "%s %u of %u", frame_table_name(l->table), id,
			l->limit);
	if (!l->pages) {
		x = part_block_pages(r, l->table, l->limit, &l->pages);
		if (x < 0)
			return x;
		l->page = STORE_NONE;
	}
	at = l->page != STORE_NONE ? &l->pages->pages[l->page] : NULL;
	if (!at || id < at->first_row || id - at->first_row >= at->n_rows) {
		page = frame_page_of(l->pages, id);
		x = one_page(r, l->table, l->pages, page, l->decode, &l->data);
		if (x < 0)
			return x;
		l->page = page;
		at = &l->pages->pages[page];
	}
	*ret_index = id - (uint32_t)at->first_row;
	return 0;
}

static int block_strings_of(
	struct part_reader *r, const uint32_t *ids, size_t n, struct prof_str *ret)
{
	struct lookup l = {
		.table = TABLE_STRINGS, .limit = r->info.n_strings, .decode = decode_strings};
	uint32_t at = 0;
	int x = 0;

	for (size_t i = 0; i < n; i++) {
		if (!ids[i]) {
			ret[i] = (struct prof_str) {.p = "", .len = 0};
			continue;
		}
		x = look_up(r, &l, ids[i], &at);
		if (x < 0)
			return x;
		ret[i] = ((const struct text_page *)l.data)->strings[at];
	}
	return x;
}

/* Mostly they are in one page. */
static int block_label_strings_of(struct part_reader *r, const struct prof_str **ret)
{
	const uint32_t n = r->info.n_label_strings;
	const struct frame_pages *pages = NULL;
	struct prof_str *all;
	const void *p = NULL;
	int x = 0;

	*ret = r->label_strings;
	if (*ret || !n)
		return 0;
	x = part_block_pages(r, TABLE_STRINGS, r->info.n_strings, &pages);
	if (x >= 0)
		x = one_page(r, TABLE_STRINGS, pages, 0, decode_strings, &p);
	if (x < 0)
		return x;
	*ret = r->label_strings = ((const struct text_page *)p)->strings;
	if (n <= pages->pages[0].n_rows)
		return 0;
	all = arena_alloc_array(&r->arena, n, sizeof(*all));
	if (!all)
		return arena_error(&r->arena, &r->errbuf);
	for (uint32_t i = 0, at = 0; at < n; at += pages->pages[i++].n_rows) {
		x = one_page(r, TABLE_STRINGS, pages, i, decode_strings, &p);
		if (x < 0)
			return x;
		memcpy(all + at, ((const struct text_page *)p)->strings,
			MIN(n - at, pages->pages[i].n_rows) * sizeof(*all));
	}
	*ret = r->label_strings = all;
	return 0;
}

static int block_functions_of(
	struct part_reader *r, const uint32_t *ids, size_t n, struct part_function *ret)
{
	struct lookup l = {.table = TABLE_FUNCTIONS,
		.limit = r->info.n_functions,
		.decode = block_decode_functions};
	uint32_t at = 0;
	int x = 0;

	for (size_t i = 0; i < n && x >= 0; i++) {
		x = look_up(r, &l, ids[i], &at);
		if (x >= 0)
			ret[i] = ((const struct part_function *)l.data)[at];
	}
	return x;
}

static int block_locations_of(
	struct part_reader *r, const uint32_t *ids, size_t n, struct part_location *ret)
{
	struct lookup l = {.table = TABLE_LOCATIONS,
		.limit = r->info.n_locations,
		.decode = block_decode_locations};
	uint32_t at = 0;
	int x = 0;

	for (size_t i = 0; i < n && x >= 0; i++) {
		x = look_up(r, &l, ids[i], &at);
		if (x >= 0)
			ret[i] = ((const struct location_page *)l.data)->locations[at];
	}
	return x;
}

static int block_pages_of(struct part_reader *r, const struct part_page **ret)
{
	const struct frame_pages *pages = NULL;
	struct part_page *copy;
	int x;

	if (!r->pages) {
		x = part_block_pages(r, TABLE_ROWS, r->info.n_rows, &pages);
		if (x < 0)
			return x;
		if (pages->n_pages != r->info.n_pages)
			return part_block_failed(
				r, err_set(&r->errbuf, -EBADMSG, "%u pages of rows, %u expected",
					   pages->n_pages, r->info.n_pages));
		copy = arena_alloc_array(&r->arena, pages->n_pages, sizeof(*copy));
		if (!copy)
			return arena_error(&r->arena, &r->errbuf);
		for (uint32_t i = 0; i < pages->n_pages; i++) {
			const struct frame_page *p = &pages->pages[i];

			copy[i] = (struct part_page) {.first_row = p->first_row,
				.n_rows = p->n_rows,
				.first_stream = p->first_stream,
				.last_stream = p->last_stream,
				.min_time_ns = p->min_time_ns,
				.max_time_ns = p->max_time_ns};
		}
		r->pages = copy;
	}
	*ret = r->pages;
	return 0;
}

/* From the file, `columns` of it. */
static int read_page(struct part_reader *r, uint32_t number, uint32_t columns, struct page **ret)
{
	_cleanup_free_ char *path = part_block_path(r, TABLE_ROWS);
	int x = frame_read_columns(block_of(r)->fs, path,
		&r->tables[TABLE_ROWS].pages->pages[number], columns, ret, &r->errbuf);

	return x < 0 ? part_block_failed(r, x) : 0;
}

static int block_page_of(
	struct part_reader *r, uint32_t number, uint32_t columns, const struct page **ret)
{
	struct block *b = block_of(r);
	const struct part_page *ignored;
	struct page *p = NULL;
	int x = block_pages_of(r, &ignored);

	if (x < 0)
		return x;
	if (r->page_pin)
		cache_unpin(b->cache, TAKE(r->page_pin));
	r->page_pin =
		cache_get(b->cache, r->part->id, part_block_cache_table(r, TABLE_ROWS), number);
	if (!r->page_pin) {
		x = read_page(r, number, columns, &p);
		if (x < 0)
			return x;
		if (columns != UINT32_MAX) {
			free(r->page_part);
			*ret = r->page_part = p;
			return 0;
		}
		r->page_pin = cache_add_cold(b->cache, r->part->id,
			part_block_cache_table(r, TABLE_ROWS), number, p, p->allocated_bytes);
		if (!r->page_pin)
			return err_set(&r->errbuf, -ENOMEM, "out of memory reading a block");
	}
	*ret = r->page_pin->data;
	return 0;
}

const struct part_ops block_part_ops = {
	.open = block_reader_open,
	.close = block_reader_close,
	.schemas = part_block_schemas,
	.streams = block_streams_of,
	.label_sets = block_label_sets_of,
	.mappings = block_mappings_of,
	.label_strings = block_label_strings_of,
	.nodes = block_nodes_of,
	.location_keys = block_keys_of,
	.strings = block_strings_of,
	.functions = block_functions_of,
	.locations = block_locations_of,
	.profiles = part_block_profiles,
	.totals = part_block_totals,
	.pages = block_pages_of,
	.page = block_page_of,
	.span = part_block_span,
	.recall = part_block_recall,
	.remember = part_block_remember,
	.damaged = block_damaged,
	.is_damaged = block_is_damaged,
	.free = block_free,
};
