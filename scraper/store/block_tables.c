/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionaries of a block: index, symbols and stacks.
 */
#include "scraper/store/block_tables.h"
#include "lib/base/alloc.h"
#include <string.h>

enum { TABLE_PAGE = 4096, TEXT_PAGE = 64 << 10, MAX_COLUMNS = 7 };

/* One page of a dictionary while it is built; row columns and item columns are both n_columns wide at most. */
struct builder {
	struct frame_writer *w;
	int64_t *row[MAX_COLUMNS], *item[3];
	size_t n_rows, n_items, cap_items;
	unsigned n_row_columns, n_item_columns;
};

static int builder_init(
	struct builder *b, struct frame_writer *w, unsigned n_rows, unsigned n_items)
{
	*b = (struct builder) {.w = w, .n_row_columns = n_rows, .n_item_columns = n_items};
	for (unsigned i = 0; i < n_rows; i++) {
		b->row[i] = try_realloc(NULL, TABLE_PAGE, sizeof(int64_t));
		if (!b->row[i])
			return -ENOMEM;
	}
	b->cap_items = (size_t)PAGE_MAX_ITEMS + DICT_MAX_LINES;
	for (unsigned i = 0; i < n_items; i++) {
		b->item[i] = try_realloc(NULL, b->cap_items, sizeof(int64_t));
		if (!b->item[i])
			return -ENOMEM;
	}
	return 0;
}

static void builder_done(struct builder *b)
{
	for (unsigned i = 0; i < MAX_COLUMNS; i++)
		free(b->row[i]);
	for (unsigned i = 0; i < 3; i++)
		free(b->item[i]);
}

static void builder_flush(struct builder *b)
{
	if (!b->n_rows)
		return;
	page_writer_begin(b->w->pages);
	for (unsigned i = 0; i < b->n_row_columns; i++)
		page_writer_i64(b->w->pages, b->row[i], b->n_rows);
	for (unsigned i = 0; i < b->n_item_columns; i++)
		page_writer_i64(b->w->pages, b->item[i], b->n_items);
	frame_writer_page(b->w, (uint32_t)b->n_rows, 0, 0, 0, 0);
	b->n_rows = b->n_items = 0;
}

static void builder_next(struct builder *b)
{
	b->n_rows++;
	if (b->n_rows == TABLE_PAGE || b->n_items >= PAGE_MAX_ITEMS)
		builder_flush(b);
}

int block_finish_file(struct frame_writer *w, enum frame_file f, struct meta *m, struct errbuf *eb)
{
	struct frame frame = {.size = 0};
	int r = frame_writer_finish(w, &frame, eb);

	m->files[f].size = frame.size;
	m->files[f].table_crc = frame.table_crc;
	return r;
}

static int put_strings(struct frame_writer *w, const struct dict *d, const struct order *o)
{
	_cleanup_free_ uint32_t *lengths = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*lengths));
	_cleanup_bytes_ struct bytes text = {.data = NULL};

	if (!lengths)
		return -ENOMEM;
	frame_writer_table_begin(w, TABLE_STRINGS);
	for (uint32_t i = 0, n = 0; i < o->n; i++) {
		const struct prof_str *s = &dict_strings(d)[o->old_id[i]];

		lengths[n++] = s->len;
		bytes_put(&text, s->p, s->len);
		if (text.len < TEXT_PAGE && n < PAGE_MAX_ROWS && i + 1 < o->n)
			continue;
		if (text.error)
			return text.error;
		page_writer_begin(w->pages);
		page_writer_u32(w->pages, lengths, n);
		page_writer_bytes(w->pages, text.data, text.len);
		frame_writer_page(w, n, 0, 0, 0, 0);
		bytes_reset(&text);
		n = 0;
	}
	frame_writer_table_end(w);
	return 0;
}

static int put_functions(struct frame_writer *w, const struct dict *d, const struct block_order *o)
{
	_cleanup_(builder_done)
	struct builder b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_FUNCTIONS];
	int r = builder_init(&b, w, 4, 0);

	frame_writer_table_begin(w, TABLE_FUNCTIONS);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct part_function *f = &dict_functions(d)[order->old_id[i]];

		b.row[0][b.n_rows] = strings[f->name];
		b.row[1][b.n_rows] = strings[f->system_name];
		b.row[2][b.n_rows] = strings[f->filename];
		b.row[3][b.n_rows] = f->start_line;
		builder_next(&b);
	}
	builder_flush(&b);
	frame_writer_table_end(w);
	return r;
}

static int put_mappings(struct frame_writer *w, const struct dict *d, const struct block_order *o)
{
	_cleanup_(builder_done)
	struct builder b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_MAPPINGS];
	int r = builder_init(&b, w, 3, 0);

	frame_writer_table_begin(w, TABLE_MAPPINGS);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct part_mapping *m = &dict_mappings(d)[order->old_id[i]];

		b.row[0][b.n_rows] = strings[m->filename];
		b.row[1][b.n_rows] = strings[m->build_id];
		b.row[2][b.n_rows] = m->kind;
		builder_next(&b);
	}
	builder_flush(&b);
	frame_writer_table_end(w);
	return r;
}

static int put_locations(struct frame_writer *w, const struct dict *d, const struct block_order *o)
{
	_cleanup_(builder_done)
	struct builder b;
	const uint32_t *mappings = o->of[DICT_MAPPINGS].new_id,
		       *functions = o->of[DICT_FUNCTIONS].new_id;
	const struct order *order = &o->of[DICT_LOCATIONS];
	int r = builder_init(&b, w, 4, 3);

	frame_writer_table_begin(w, TABLE_LOCATIONS);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct dict_location *l = &dict_locations(d)[order->old_id[i]];

		b.row[0][b.n_rows] =
			l->mapping == STORE_NONE ? 0 : (int64_t)mappings[l->mapping] + 1;
		b.row[1][b.n_rows] = l->flags;
		b.row[2][b.n_rows] = (int64_t)l->address;
		b.row[3][b.n_rows] = l->n_lines;
		for (uint32_t k = 0; k < l->n_lines; k++, b.n_items++) {
			const struct part_line *line = &dict_lines(d)[l->first_line + k];

			b.item[0][b.n_items] = functions[line->function];
			b.item[1][b.n_items] = line->line;
			b.item[2][b.n_items] = line->column;
		}
		builder_next(&b);
	}
	builder_flush(&b);
	frame_writer_table_end(w);
	return r;
}

static void put_keys(struct frame_writer *w, const struct dict *d, const struct order *order)
{
	uint64_t keys[TABLE_PAGE];

	frame_writer_table_begin(w, TABLE_KEYS);
	for (uint32_t i = 0, n = 0; i < order->n; i++) {
		keys[n++] = dict_keys(d)[order->old_id[i]];
		if (n < TABLE_PAGE && i + 1 < order->n)
			continue;
		page_writer_begin(w->pages);
		page_writer_fixed(w->pages, keys, n);
		frame_writer_page(w, n, 0, 0, 0, 0);
		n = 0;
	}
	frame_writer_table_end(w);
}

static int put_label_sets(struct frame_writer *w, const struct dict *d, const struct block_order *o)
{
	_cleanup_(builder_done)
	struct builder b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_LABEL_SETS];
	int r = builder_init(&b, w, 1, 2);

	frame_writer_table_begin(w, TABLE_LABEL_SETS);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		const uint32_t *first = dict_label_first(d) + order->old_id[i];

		b.row[0][b.n_rows] = first[1] - first[0];
		for (uint32_t k = first[0]; k < first[1]; k++, b.n_items++) {
			b.item[0][b.n_items] = strings[dict_label_pairs(d)[k].name];
			b.item[1][b.n_items] = strings[dict_label_pairs(d)[k].value];
		}
		builder_next(&b);
	}
	builder_flush(&b);
	frame_writer_table_end(w);
	return r;
}

static int open_file(struct frame_writer *w, struct fs *fs, const char *dir, enum frame_file f,
	struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, frame_file_name(f));
	int r = frame_writer_open(w, fs, path, f);

	return r < 0 ? err_set(eb, r, "%s: %s", path, strerror(-r)) : 0;
}

int block_write_symbols(struct fs *fs, const char *dir, const struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w;
	int r = open_file(&w, fs, dir, FRAME_SYMBOLS, eb);

	if (r < 0)
		return r;
	r = put_strings(&w, &h->dict, &o->of[DICT_STRINGS]);
	r = r ? r : put_functions(&w, &h->dict, o);
	r = r ? r : put_mappings(&w, &h->dict, o);
	r = r ? r : put_locations(&w, &h->dict, o);
	if (!r)
		put_keys(&w, &h->dict, &o->of[DICT_LOCATIONS]);
	r = r ? r : put_label_sets(&w, &h->dict, o);
	if (r < 0)
		return err_set(eb, r, "out of memory writing symbols");
	m->stats.label_strings = o->n_label_strings;
	m->stats.strings = o->of[DICT_STRINGS].n;
	m->stats.functions = o->of[DICT_FUNCTIONS].n;
	m->stats.mappings = o->of[DICT_MAPPINGS].n;
	m->stats.locations = o->of[DICT_LOCATIONS].n;
	m->stats.label_sets = o->of[DICT_LABEL_SETS].n;
	return block_finish_file(&w, FRAME_SYMBOLS, m, eb);
}

/* A page of nodes: the path of its first node, then (levels up, location) each. */
struct node_page {
	uint32_t up[TABLE_PAGE], location[TABLE_PAGE], n;
	uint32_t path_node[STORE_MAX_DEPTH + 4], path_location[STORE_MAX_DEPTH + 4], n_path;
};

static void flush_nodes(struct frame_writer *w, struct node_page *p)
{
	struct page_writer *pages = w->pages;

	page_writer_begin(pages);
	page_writer_u32(pages, p->up, p->n);
	page_writer_u32(pages, p->location, p->n);
	page_writer_u32(pages, &p->n_path, 1);
	page_writer_u32(pages, p->path_node, p->n_path);
	page_writer_u32(pages, p->path_location, p->n_path);
	frame_writer_page(w, p->n, 0, 0, 0, 0);
	p->n = 0;
}

static int put_nodes(struct frame_writer *w, const struct dict *d, const struct block_order *o)
{
	const struct order *order = &o->of[DICT_NODES];
	const uint32_t *new_location = o->of[DICT_LOCATIONS].new_id;
	_cleanup_free_ struct node_page *p = try_malloc(sizeof(*p));
	uint32_t path[STORE_MAX_DEPTH + 4], places[STORE_MAX_DEPTH + 4], depth = 0;

	if (!p)
		return -ENOMEM;
	p->n = p->n_path = 0;
	frame_writer_table_begin(w, TABLE_NODES);
	for (uint32_t i = 0; i < order->n; i++) {
		uint32_t old = order->old_id[i], before = depth;
		uint32_t parent = order->new_id[dict_parents(d)[old]];

		while (depth && i && path[depth - 1] != parent)
			depth--;
		if (depth >= ARRAY_SIZE(path) || (!depth && i))
			return -EBADMSG; /* deeper than any stack that was taken in */
		if (!p->n) {
			memcpy(p->path_node, path, depth * sizeof(*path));
			memcpy(p->path_location, places, depth * sizeof(*places));
			p->n_path = before = depth;
		}
		p->up[p->n] = before - depth;
		places[depth] = i ? new_location[dict_node_locations(d)[old]] : 0;
		p->location[p->n++] = places[depth];
		path[depth++] = i;
		if (p->n == TABLE_PAGE || i + 1 == order->n)
			flush_nodes(w, p);
	}
	frame_writer_table_end(w);
	return 0;
}

int block_write_stacks(struct fs *fs, const char *dir, const struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w;
	int r = open_file(&w, fs, dir, FRAME_STACKS, eb);

	r = r ? r : put_nodes(&w, &h->dict, o);
	if (r < 0)
		return r;
	m->stats.nodes = o->of[DICT_NODES].n;
	return block_finish_file(&w, FRAME_STACKS, m, eb);
}

static int put_schemas(struct frame_writer *w, const struct dict *d, const struct block_order *o)
{
	_cleanup_(builder_done)
	struct builder b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_SCHEMAS];
	int r = builder_init(&b, w, 4, 3);

	frame_writer_table_begin(w, TABLE_SCHEMAS);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct part_schema *s = &dict_schemas(d)[order->old_id[i]];

		b.row[0][b.n_rows] = s->kind;
		b.row[1][b.n_rows] = strings[s->period_type];
		b.row[2][b.n_rows] = strings[s->period_unit];
		b.row[3][b.n_rows] = s->n_columns;
		for (unsigned k = 0; k < s->n_columns; k++, b.n_items++) {
			b.item[0][b.n_items] = strings[s->columns[k].type];
			b.item[1][b.n_items] = strings[s->columns[k].unit];
			b.item[2][b.n_items] = s->columns[k].kind;
		}
		builder_next(&b);
	}
	builder_flush(&b);
	frame_writer_table_end(w);
	return r;
}

static int put_streams(struct frame_writer *w, const struct head *h, const struct block_order *o)
{
	_cleanup_(builder_done)
	struct builder b;
	const struct order *order = &o->of[DICT_STREAMS];
	int r = builder_init(&b, w, 6, 0);

	frame_writer_table_begin(w, TABLE_STREAMS);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct dict_stream *s = &dict_streams(&h->dict)[order->old_id[i]];
		const struct head_stream *have = &head_streams(h)[order->old_id[i]];

		b.row[0][b.n_rows] = o->of[DICT_SCHEMAS].new_id[s->schema];
		b.row[1][b.n_rows] = o->of[DICT_LABEL_SETS].new_id[s->label_set];
		b.row[2][b.n_rows] = have->n_profiles;
		b.row[3][b.n_rows] = have->min_time_ns;
		b.row[4][b.n_rows] = have->max_time_ns;
		b.row[5][b.n_rows] = have->max_duration_ns;
		builder_next(&b);
	}
	builder_flush(&b);
	frame_writer_table_end(w);
	return r;
}

int block_write_index(struct fs *fs, const char *dir, const struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w;
	int r = open_file(&w, fs, dir, FRAME_INDEX, eb);

	r = r ? r : put_schemas(&w, &h->dict, o);
	r = r ? r : put_streams(&w, h, o);
	if (r < 0)
		return r;
	m->stats.schemas = o->of[DICT_SCHEMAS].n;
	m->stats.streams = o->of[DICT_STREAMS].n;
	return block_finish_file(&w, FRAME_INDEX, m, eb);
}
