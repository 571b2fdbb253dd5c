/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of dictionary tables.
 */
#include "scraper/store/block/table_writer.h"
#include "lib/base/alloc.h"
#include <string.h>

static const struct {
	unsigned n_row_columns, n_item_columns;
} shapes[TABLE_N] = {
	[TABLE_SCHEMAS] = {4, 3},
	[TABLE_STREAMS] = {6, 0},
	[TABLE_FUNCTIONS] = {4, 0},
	[TABLE_MAPPINGS] = {3, 0},
	[TABLE_LOCATIONS] = {4, 3},
	[TABLE_LABEL_SETS] = {1, 2},
};

int table_writer_begin(struct table_writer *b, struct frame_writer *w, enum frame_table t)
{
	*b = (struct table_writer) {.w = w,
		.n_row_columns = shapes[t].n_row_columns,
		.n_item_columns = shapes[t].n_item_columns};
	for (unsigned i = 0; i < b->n_row_columns; i++) {
		b->row[i] = try_realloc(NULL, TABLE_PAGE, sizeof(int64_t));
		if (!b->row[i])
			return -ENOMEM;
	}
	b->cap_items = (size_t)PAGE_MAX_ITEMS + PART_MAX_LINES;
	for (unsigned i = 0; i < b->n_item_columns; i++) {
		b->item[i] = try_realloc(NULL, b->cap_items, sizeof(int64_t));
		if (!b->item[i])
			return -ENOMEM;
	}
	frame_writer_table_begin(w, t);
	return 0;
}

void table_writer_done(struct table_writer *b)
{
	for (unsigned i = 0; i < TABLE_MAX_COLUMNS; i++)
		free(b->row[i]);
	for (unsigned i = 0; i < TABLE_MAX_ITEM_COLUMNS; i++)
		free(b->item[i]);
}

static void flush(struct table_writer *b)
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

static void next_row(struct table_writer *b)
{
	b->n_rows++;
	if (b->n_rows == TABLE_PAGE || b->n_items >= PAGE_MAX_ITEMS)
		flush(b);
}

void table_writer_end(struct table_writer *b)
{
	flush(b);
	frame_writer_table_end(b->w);
}

void table_writer_function(struct table_writer *b, const struct part_function *f)
{
	b->row[0][b->n_rows] = f->name;
	b->row[1][b->n_rows] = f->system_name;
	b->row[2][b->n_rows] = f->filename;
	b->row[3][b->n_rows] = f->start_line;
	next_row(b);
}

void table_writer_mapping(struct table_writer *b, const struct part_mapping *m)
{
	b->row[0][b->n_rows] = m->filename;
	b->row[1][b->n_rows] = m->build_id;
	b->row[2][b->n_rows] = m->kind;
	next_row(b);
}

void table_writer_location(struct table_writer *b, const struct part_location *l)
{
	b->row[0][b->n_rows] = l->mapping == STORE_NONE ? 0 : (int64_t)l->mapping + 1;
	b->row[1][b->n_rows] = l->flags;
	b->row[2][b->n_rows] = (int64_t)l->address;
	b->row[3][b->n_rows] = l->n_lines;
	for (uint32_t k = 0; k < l->n_lines; k++, b->n_items++) {
		b->item[0][b->n_items] = l->lines[k].function;
		b->item[1][b->n_items] = l->lines[k].line;
		b->item[2][b->n_items] = l->lines[k].column;
	}
	next_row(b);
}

void table_writer_label_set(struct table_writer *b, const struct part_label *pairs, size_t n)
{
	b->row[0][b->n_rows] = (int64_t)n;
	for (size_t k = 0; k < n; k++, b->n_items++) {
		b->item[0][b->n_items] = pairs[k].name;
		b->item[1][b->n_items] = pairs[k].value;
	}
	next_row(b);
}

void table_writer_schema(struct table_writer *b, const struct part_schema *s)
{
	b->row[0][b->n_rows] = s->kind;
	b->row[1][b->n_rows] = s->period_type;
	b->row[2][b->n_rows] = s->period_unit;
	b->row[3][b->n_rows] = s->n_columns;
	for (unsigned k = 0; k < s->n_columns; k++, b->n_items++) {
		b->item[0][b->n_items] = s->columns[k].type;
		b->item[1][b->n_items] = s->columns[k].unit;
		b->item[2][b->n_items] = s->columns[k].kind;
	}
	next_row(b);
}

void table_writer_stream(struct table_writer *b, const struct part_stream *s)
{
	b->row[0][b->n_rows] = s->schema;
	b->row[1][b->n_rows] = s->label_set;
	b->row[2][b->n_rows] = s->n_profiles;
	b->row[3][b->n_rows] = s->min_time_ns;
	b->row[4][b->n_rows] = s->max_time_ns;
	b->row[5][b->n_rows] = s->max_duration_ns;
	next_row(b);
}

void table_writer_keys(struct frame_writer *w, const uint64_t *keys, size_t n)
{
	frame_writer_table_begin(w, TABLE_KEYS);
	for (size_t i = 0; i < n; i += TABLE_PAGE) {
		size_t k = MIN((size_t)TABLE_PAGE, n - i);

		page_writer_begin(w->pages);
		page_writer_fixed(w->pages, keys + i, k);
		frame_writer_page(w, (uint32_t)k, 0, 0, 0, 0);
	}
	frame_writer_table_end(w);
}

int table_writer_strings_begin(struct string_writer *s, struct frame_writer *w)
{
	*s = (struct string_writer) {.w = w};
	s->lengths = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*s->lengths));
	if (!s->lengths)
		return -ENOMEM;
	frame_writer_table_begin(w, TABLE_STRINGS);
	return 0;
}

static void flush_strings(struct string_writer *s)
{
	if (!s->n || s->text.error)
		return;
	page_writer_begin(s->w->pages);
	page_writer_u32(s->w->pages, s->lengths, s->n);
	page_writer_bytes(s->w->pages, s->text.data, s->text.len);
	frame_writer_page(s->w, s->n, 0, 0, 0, 0);
	bytes_reset(&s->text);
	s->n = 0;
}

void table_writer_string(struct string_writer *s, const struct prof_str *text)
{
	s->lengths[s->n++] = text->len;
	bytes_put(&s->text, text->p, text->len);
	if (s->text.len >= TEXT_PAGE || s->n == PAGE_MAX_ROWS)
		flush_strings(s);
}

int table_writer_strings_end(struct string_writer *s)
{
	flush_strings(s);
	frame_writer_table_end(s->w);
	return s->text.error;
}

void table_writer_strings_done(struct string_writer *s)
{
	free(s->lengths);
	bytes_done(&s->text);
}

void table_writer_nodes_begin(struct node_writer *p, struct frame_writer *w)
{
	p->w = w;
	p->n = p->next = p->n_path = p->depth = 0;
	frame_writer_table_begin(w, TABLE_NODES);
}

static void flush_nodes(struct node_writer *p)
{
	struct page_writer *pages = p->w->pages;

	if (!p->n)
		return;
	page_writer_begin(pages);
	page_writer_u32(pages, p->up, p->n);
	page_writer_u32(pages, p->location, p->n);
	page_writer_u32(pages, &p->n_path, 1);
	page_writer_u32(pages, p->path_node, p->n_path);
	page_writer_u32(pages, p->path_location, p->n_path);
	frame_writer_page(p->w, p->n, 0, 0, 0, 0);
	p->n = 0;
}

int table_writer_node(struct node_writer *p, uint32_t depth, uint32_t location)
{
	uint32_t before = p->next ? p->depth + 1 : 0;

	if (depth >= ARRAY_SIZE(p->node_at) || depth > before || (!depth && p->next))
		return -EBADMSG;
	if (!p->n) {
		memcpy(p->path_node, p->node_at, depth * sizeof(*p->node_at));
		memcpy(p->path_location, p->location_at, depth * sizeof(*p->location_at));
		p->n_path = before = depth;
	}
	p->up[p->n] = before - depth;
	p->location[p->n++] = location;
	p->node_at[depth] = p->next++;
	p->location_at[depth] = location;
	p->depth = depth;
	if (p->n == TABLE_PAGE)
		flush_nodes(p);
	return 0;
}

void table_writer_nodes_end(struct node_writer *p)
{
	flush_nodes(p);
	frame_writer_table_end(p->w);
}
