/* SPDX-License-Identifier: Apache-2.0
 *
 * Dictionary groups of a record: what a generation's dictionaries gained, written and applied.
 */
#include "scraper/store/head/record_dict.h"
#include "lib/base/alloc.h"

void record_mark_take(struct record_mark *m, const struct dict *d)
{
	for (unsigned k = DICT_STRINGS; k < DICT_N; k++)
		m->n[k] = dict_n(d, k);
}

/* Columns of one group while it is built: row columns first, then item columns. */
struct group_columns {
	int64_t *row[7], *item[3];
	size_t n_rows, n_items, cap_rows, cap_items;
	unsigned n_row_columns, n_item_columns;
};

static void columns_done(struct group_columns *g)
{
	for (size_t i = 0; i < ARRAY_SIZE(g->row); i++)
		free(g->row[i]);
	for (size_t i = 0; i < ARRAY_SIZE(g->item); i++)
		free(g->item[i]);
}

static int columns_grow(struct group_columns *g, size_t rows, size_t items)
{
	int r = 0;

	for (unsigned i = 0; !r && i < g->n_row_columns; i++) {
		size_t cap = g->cap_rows;

		r = alloc_grow(&g->row[i], &cap, rows, sizeof(int64_t));
		if (i + 1 == g->n_row_columns)
			g->cap_rows = cap;
	}
	for (unsigned i = 0; !r && i < g->n_item_columns; i++) {
		size_t cap = g->cap_items;

		r = alloc_grow(&g->item[i], &cap, items, sizeof(int64_t));
		if (i + 1 == g->n_item_columns)
			g->cap_items = cap;
	}
	return r;
}

static size_t items_of(const struct dict *d, enum dict_kind kind, size_t id)
{
	switch (kind) {
	case DICT_LOCATIONS: return dict_locations(d)[id].n_lines;
	case DICT_LABEL_SETS: return dict_label_first(d)[id + 1] - dict_label_first(d)[id];
	case DICT_SCHEMAS: return dict_schemas(d)[id].n_columns;
	default: return 0;
	}
}

static void fill_location(struct group_columns *g, const struct dict *d, size_t id)
{
	const struct dict_location *l = &dict_locations(d)[id];

	g->row[0][g->n_rows] = l->mapping == STORE_NONE ? 0 : (int64_t)l->mapping + 1;
	g->row[1][g->n_rows] = l->flags;
	g->row[2][g->n_rows] = (int64_t)l->address;
	g->row[3][g->n_rows] = l->n_lines;
	for (size_t i = 0; i < l->n_lines; i++, g->n_items++) {
		const struct part_line *line = &dict_lines(d)[l->first_line + i];

		g->item[0][g->n_items] = line->function;
		g->item[1][g->n_items] = line->line;
		g->item[2][g->n_items] = line->column;
	}
}

static void fill_label_set(struct group_columns *g, const struct dict *d, size_t id)
{
	const uint32_t *first = dict_label_first(d) + id;

	g->row[0][g->n_rows] = first[1] - first[0];
	for (uint32_t i = first[0]; i < first[1]; i++, g->n_items++) {
		g->item[0][g->n_items] = dict_label_pairs(d)[i].name;
		g->item[1][g->n_items] = dict_label_pairs(d)[i].value;
	}
}

static void fill_schema(struct group_columns *g, const struct dict *d, size_t id)
{
	const struct part_schema *s = &dict_schemas(d)[id];

	g->row[0][g->n_rows] = s->kind;
	g->row[1][g->n_rows] = s->period_type;
	g->row[2][g->n_rows] = s->period_unit;
	g->row[3][g->n_rows] = s->n_columns;
	for (unsigned i = 0; i < s->n_columns; i++, g->n_items++) {
		g->item[0][g->n_items] = s->columns[i].type;
		g->item[1][g->n_items] = s->columns[i].unit;
		g->item[2][g->n_items] = s->columns[i].kind;
	}
}

static void fill_entry(
	struct group_columns *g, const struct dict *d, enum dict_kind kind, size_t id)
{
	size_t at = g->n_rows;

	if (kind == DICT_FUNCTIONS) {
		g->row[0][at] = dict_functions(d)[id].name;
		g->row[1][at] = dict_functions(d)[id].system_name;
		g->row[2][at] = dict_functions(d)[id].filename;
		g->row[3][at] = dict_functions(d)[id].start_line;
	} else if (kind == DICT_MAPPINGS) {
		g->row[0][at] = dict_mappings(d)[id].filename;
		g->row[1][at] = dict_mappings(d)[id].build_id;
		g->row[2][at] = dict_mappings(d)[id].kind;
	} else if (kind == DICT_LOCATIONS) {
		fill_location(g, d, id);
	} else if (kind == DICT_LABEL_SETS) {
		fill_label_set(g, d, id);
	} else if (kind == DICT_NODES) {
		g->row[0][at] = dict_parents(d)[id];
		g->row[1][at] = dict_node_locations(d)[id];
	} else if (kind == DICT_SCHEMAS) {
		fill_schema(g, d, id);
	} else {
		g->row[0][at] = dict_streams(d)[id].schema;
		g->row[1][at] = dict_streams(d)[id].label_set;
	}
	g->n_rows++;
}

static const struct {
	unsigned rows, items;
} shape[DICT_N] = {
	[DICT_STRINGS] = {1, 0},
	[DICT_FUNCTIONS] = {4, 0},
	[DICT_MAPPINGS] = {3, 0},
	[DICT_LOCATIONS] = {4, 3},
	[DICT_LABEL_SETS] = {1, 2},
	[DICT_NODES] = {2, 0},
	[DICT_SCHEMAS] = {4, 3},
	[DICT_STREAMS] = {2, 0},
};

static int finish_group(
	struct bytes *out, struct page_writer *w, enum dict_kind kind, size_t first, size_t n)
{
	_cleanup_bytes_ struct bytes page = {.data = NULL};
	unsigned n_columns;
	int r = page_writer_finish(w, &page, &n_columns);

	if (r < 0)
		return r;
	record_put_group(out, &(struct record_group) {
				      .tag = (enum record_tag)kind,
				      .n = (uint32_t)n,
				      .first = first,
				      .n_columns = n_columns,
				      .data = page.data,
				      .len = (uint32_t)page.len,
			      });
	return bytes_error(out);
}

static int put_strings(
	struct bytes *out, struct page_writer *w, const struct dict *d, size_t first, size_t *ret_n)
{
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	_cleanup_free_ uint32_t *lengths = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*lengths));
	size_t n = 0;

	if (!lengths)
		return -ENOMEM;
	while (first + n < d->strings.n && n < PAGE_MAX_ROWS && text.len < COLUMN_MAX_RAW / 2) {
		const struct prof_str *s = &dict_strings(d)[first + n];

		lengths[n++] = s->len;
		bytes_put(&text, s->p, s->len);
	}
	if (text.error)
		return text.error;
	page_writer_begin(w);
	page_writer_u32(w, lengths, n);
	page_writer_bytes(w, text.data, text.len);
	*ret_n = n;
	return finish_group(out, w, DICT_STRINGS, first, n);
}

static int put_entries(struct bytes *out, struct page_writer *w, const struct dict *d,
	enum dict_kind kind, size_t first, size_t *ret_n)
{
	_cleanup_(columns_done)
	struct group_columns g = {
		.n_row_columns = shape[kind].rows,
		.n_item_columns = shape[kind].items,
	};
	size_t end = dict_n(d, kind);
	int r = 0;

	for (size_t id = first; id < end && g.n_rows < PAGE_MAX_ROWS && g.n_items < PAGE_MAX_ITEMS;
		id++) {
		r = columns_grow(&g, g.n_rows + 1, g.n_items + items_of(d, kind, id));
		if (r < 0)
			return r;
		fill_entry(&g, d, kind, id);
	}
	page_writer_begin(w);
	for (unsigned i = 0; i < g.n_row_columns; i++)
		page_writer_i64(w, g.row[i], g.n_rows);
	for (unsigned i = 0; i < g.n_item_columns; i++)
		page_writer_i64(w, g.item[i], g.n_items);
	*ret_n = g.n_rows;
	return finish_group(out, w, kind, first, g.n_rows);
}

int record_put_dict(
	struct bytes *out, struct page_writer *w, const struct dict *d, const struct record_mark *m)
{
	size_t n = 0;
	int r;

	for (enum dict_kind k = DICT_STRINGS; k < DICT_N; k++) {
		for (size_t at = m->n[k]; at < dict_n(d, k); at += n) {
			r = k == DICT_STRINGS ? put_strings(out, w, d, at, &n)
					      : put_entries(out, w, d, k, at, &n);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int read_columns(
	struct group_columns *g, const struct page *p, unsigned count_column, struct errbuf *eb)
{
	int r = columns_grow(g, p->n_rows, 0);

	for (unsigned i = 0; !r && i < g->n_row_columns; i++)
		r = page_i64(p, i, p->n_rows, g->row[i], eb);
	if (r < 0 || !g->n_item_columns)
		return r;
	for (uint32_t i = 0; i < p->n_rows; i++) {
		int64_t n = g->row[count_column][i];

		if (n < 0 || n > PART_MAX_LINES)
			return err_set(eb, -EBADMSG, "entry of %lld items", (long long)n);
		g->n_items += (size_t)n;
	}
	if (g->n_items > (size_t)PAGE_MAX_ITEMS + PART_MAX_LINES)
		return err_set(eb, -EBADMSG, "group of %zu items", g->n_items);
	r = columns_grow(g, 0, g->n_items);
	for (unsigned i = 0; !r && i < g->n_item_columns; i++)
		r = page_i64(p, g->n_row_columns + i, g->n_items, g->item[i], eb);
	return r;
}

enum { OK_REF, HOLE_REF, BAD_REF };

/* What `id` refers to: an entry, a hole, or nothing. */
static int ref(const struct dict *d, enum dict_kind kind, int64_t id)
{
	if (id < 0 || (uint64_t)id >= dict_n(d, kind))
		return BAD_REF;
	return dict_is_hole(d, kind, (uint32_t)id) ? HOLE_REF : OK_REF;
}

/* The one entry added must get the id that the writer gave it. */
static int64_t apply_simple(
	struct dict *d, enum dict_kind kind, const struct group_columns *g, size_t i, int *ret_ref)
{
	int64_t a = g->row[0][i], b = g->row[1][i];

	if (kind == DICT_FUNCTIONS) {
		int64_t c = g->row[2][i];

		*ret_ref = MAX(ref(d, DICT_STRINGS, a),
			MAX(ref(d, DICT_STRINGS, b), ref(d, DICT_STRINGS, c)));
		if (*ret_ref)
			return 0;
		return dict_function(d, &(struct part_function) {.name = (uint32_t)a,
						.system_name = (uint32_t)b,
						.filename = (uint32_t)c,
						.start_line = g->row[3][i]});
	}
	if (kind == DICT_MAPPINGS) {
		*ret_ref = MAX(ref(d, DICT_STRINGS, a), ref(d, DICT_STRINGS, b));
		if (g->row[2][i] < 0 || g->row[2][i] > UINT8_MAX)
			*ret_ref = BAD_REF;
		if (*ret_ref)
			return 0;
		return dict_mapping(d, &(struct part_mapping) {.filename = (uint32_t)a,
					       .build_id = (uint32_t)b,
					       .kind = (uint8_t)g->row[2][i]});
	}
	if (kind == DICT_NODES) {
		*ret_ref = MAX(ref(d, DICT_NODES, a), ref(d, DICT_LOCATIONS, b));
		return *ret_ref ? 0 : dict_node(d, (uint32_t)a, (uint32_t)b);
	}
	*ret_ref = MAX(ref(d, DICT_SCHEMAS, a), ref(d, DICT_LABEL_SETS, b));
	return *ret_ref ? 0 : dict_stream(d, (uint32_t)a, (uint32_t)b);
}

static int64_t apply_location(
	struct dict *d, const struct group_columns *g, size_t i, size_t item, int *ret_ref)
{
	struct part_line lines[PART_MAX_LINES];
	struct part_location l = {
		.mapping = g->row[0][i] ? (uint32_t)(g->row[0][i] - 1) : STORE_NONE,
		.flags = (uint8_t)g->row[1][i],
		.address = (uint64_t)g->row[2][i],
		.n_lines = (uint32_t)g->row[3][i],
		.lines = lines,
	};

	*ret_ref = g->row[0][i] ? ref(d, DICT_MAPPINGS, g->row[0][i] - 1) : OK_REF;
	if (g->row[1][i] < 0 || g->row[1][i] > UINT8_MAX)
		*ret_ref = BAD_REF;
	for (uint32_t k = 0; k < l.n_lines; k++) {
		*ret_ref = MAX(*ret_ref, ref(d, DICT_FUNCTIONS, g->item[0][item + k]));
		lines[k] = (struct part_line) {.function = (uint32_t)g->item[0][item + k],
			.line = g->item[1][item + k],
			.column = g->item[2][item + k]};
	}
	return *ret_ref ? 0 : dict_location(d, &l);
}

static int64_t apply_label_set(
	struct dict *d, const struct group_columns *g, size_t i, size_t item, int *ret_ref)
{
	struct part_label pairs[PART_MAX_PAIRS];
	size_t n = (size_t)g->row[0][i];

	if (n > PART_MAX_PAIRS) {
		*ret_ref = BAD_REF;
		return 0;
	}
	for (size_t k = 0; k < n; k++) {
		*ret_ref = MAX(*ret_ref, MAX(ref(d, DICT_STRINGS, g->item[0][item + k]),
						 ref(d, DICT_STRINGS, g->item[1][item + k])));
		pairs[k] = (struct part_label) {.name = (uint32_t)g->item[0][item + k],
			.value = (uint32_t)g->item[1][item + k]};
	}
	return *ret_ref ? 0 : dict_label_set(d, pairs, n);
}

static int64_t apply_schema(
	struct dict *d, const struct group_columns *g, size_t i, size_t item, int *ret_ref)
{
	struct part_schema s = {.kind = (uint8_t)g->row[0][i],
		.period_type = (uint32_t)g->row[1][i],
		.period_unit = (uint32_t)g->row[2][i],
		.n_columns = (uint8_t)g->row[3][i]};

	if (g->row[3][i] > STORE_MAX_COLUMNS || g->row[0][i] < 0 || g->row[0][i] > STORE_COVERAGE) {
		*ret_ref = BAD_REF;
		return 0;
	}
	*ret_ref = MAX(ref(d, DICT_STRINGS, g->row[1][i]), ref(d, DICT_STRINGS, g->row[2][i]));
	for (unsigned k = 0; k < s.n_columns; k++) {
		*ret_ref = MAX(*ret_ref, MAX(ref(d, DICT_STRINGS, g->item[0][item + k]),
						 ref(d, DICT_STRINGS, g->item[1][item + k])));
		if (g->item[2][item + k] < 0 || g->item[2][item + k] > STORE_GAUGE)
			*ret_ref = BAD_REF;
		s.columns[k] = (struct part_column) {.type = (uint32_t)g->item[0][item + k],
			.unit = (uint32_t)g->item[1][item + k],
			.kind = (uint8_t)g->item[2][item + k]};
	}
	return *ret_ref ? 0 : dict_schema(d, &s);
}

static int apply_entries(struct dict *d, enum dict_kind kind, const struct group_columns *g,
	size_t n, struct errbuf *eb)
{
	size_t item = 0;

	for (size_t i = 0; i < n; i++) {
		size_t want = dict_n(d, kind);
		int what = OK_REF;
		int64_t id;

		if (kind == DICT_LOCATIONS)
			id = apply_location(d, g, i, item, &what);
		else if (kind == DICT_LABEL_SETS)
			id = apply_label_set(d, g, i, item, &what);
		else if (kind == DICT_SCHEMAS)
			id = apply_schema(d, g, i, item, &what);
		else
			id = apply_simple(d, kind, g, i, &what);
		if (what == HOLE_REF)
			id = dict_pad(d, kind, want + 1) < 0 ? -ENOMEM : (int64_t)want;
		if (id < 0)
			return err_set(
				eb, (int)id, "dictionary %u cannot take entry %zu", kind, want);
		if (what == BAD_REF || (uint64_t)id != want)
			return err_set(eb, -EBADMSG, "entry %zu of dictionary %u refers to nothing",
				want, kind);
		if (g->n_item_columns)
			item += (size_t)g->row[kind == DICT_LABEL_SETS ? 0 : 3][i];
	}
	return 0;
}

static int apply_strings(struct dict *d, const struct page *p, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *lengths = try_realloc(NULL, p->n_rows, sizeof(*lengths));
	const uint8_t *text = NULL;
	size_t total = 0;
	int r;

	if (!lengths)
		return -ENOMEM;
	r = page_u32(p, 0, p->n_rows, STORE_MAX_STRING + 1, lengths, eb);
	for (uint32_t i = 0; r >= 0 && i < p->n_rows; i++)
		total += lengths[i];
	if (r >= 0)
		r = page_bytes(p, 1, total, &text, eb);
	for (uint32_t i = 0; r >= 0 && i < p->n_rows; i++) {
		size_t want = d->strings.n;
		int64_t id = dict_string(d, (const char *)text, lengths[i]);

		if (id < 0)
			return err_set(eb, (int)id, "the string dictionary is full");
		if ((uint64_t)id != want)
			return err_set(eb, -EBADMSG, "string %zu is there twice", want);
		text += lengths[i];
	}
	return r;
}

int record_apply_dict(struct dict *d, const struct record_group *g, struct errbuf *eb)
{
	enum dict_kind kind = (enum dict_kind)g->tag;
	_cleanup_(columns_done)
	struct group_columns columns = {
		.n_row_columns = shape[kind].rows,
		.n_item_columns = shape[kind].items,
	};
	struct page p;
	int r;

	if (g->n > PAGE_MAX_ROWS || g->first < dict_n(d, kind))
		return err_set(eb, -EBADMSG, "dictionary %u goes on at %llu, %zu expected", kind,
			(unsigned long long)g->first, dict_n(d, kind));
	r = page_view(g->data, g->len, g->n_columns, g->n, &p, eb);
	if (r >= 0)
		r = dict_pad(d, kind, g->first);
	if (r < 0)
		return r;
	if (kind == DICT_STRINGS)
		return apply_strings(d, &p, eb);
	r = read_columns(&columns, &p, kind == DICT_LABEL_SETS ? 0 : 3, eb);
	return r < 0 ? r : apply_entries(d, kind, &columns, g->n, eb);
}
