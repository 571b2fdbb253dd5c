/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles and rows of a block. Profiles are taken in batches of their final order; a batch's rows are gathered page by page of the
 * head, renumbered, sorted within their profile, and written on.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/row_writer.h"
#include "scraper/store/flush/flush_impl.h"
#include <string.h>

enum { BATCH_ROWS = 256 << 10, MAX_VALUES = STORE_MAX_COLUMNS };

struct gathered_row {
	uint64_t key; /* label set << 32 | node, new ids */
	uint32_t at;  /* row of the batch before sorting */
};

struct state {
	struct head *h;
	const struct flush_order *o;
	struct row_writer out;
	uint32_t schema, n_values; /* of the batch */

	/* The batch. */
	struct gathered_row *gathered;
	int64_t *values; /* row-major, n_values each */
	size_t cap_gathered, cap_values;
	/* One page of the head, decoded. */
	uint32_t *label_set, *node;
	int64_t *value;
	uint32_t page;
};

static int state_init(struct state *s)
{
	s->schema = s->page = STORE_NONE;
	s->label_set = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*s->label_set));
	s->node = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*s->node));
	s->value = try_realloc(NULL, (size_t)PAGE_MAX_ROWS * MAX_VALUES, sizeof(*s->value));
	return s->label_set && s->node && s->value ? 0 : -ENOMEM;
}

static void state_done(struct state *s)
{
	free(s->gathered);
	free(s->values);
	free(s->label_set);
	free(s->node);
	free(s->value);
	row_writer_done(&s->out);
}

static int begin_schema(struct state *s, uint32_t schema)
{
	s->schema = schema;
	s->n_values = dict_schemas(&s->h->dict)[schema].n_columns;
	return row_writer_schema(&s->out, s->n_values);
}

static void put_profile(struct state *s, uint32_t stream, const struct head_profile *from)
{
	const struct head_window *w = &head_windows(s->h)[from->window];

	row_writer_profile(&s->out, stream,
		&(struct row_writer_profile) {
			.time_ns = w->time_ns,
			.duration_ns = w->duration_ns,
			.period = w->period,
			.n_profiles = 1,
			.n_rows = from->n_rows,
			.totals = head_totals(s->h) + from->first_total,
		});
}

/* Makes head page `number` the decoded one. */
static int decode_page(struct state *s, uint32_t number, uint32_t n_values, struct errbuf *eb)
{
	const struct head_page *where = &head_page_data(s->h)[number];
	const struct part_page *at =
		(const struct part_page *)(const void *)s->h->pages.base + number;
	struct page p;
	int r;

	if (s->page == number)
		return 0;
	r = page_view(where->data, where->len, where->n_columns, at->n_rows, &p, eb);
	r = r ? r
	      : page_u32(&p, 0, at->n_rows, (uint32_t)dict_n(&s->h->dict, DICT_LABEL_SETS),
			s->label_set, eb);
	r = r ? r
	      : page_u32(&p, 1, at->n_rows, (uint32_t)dict_n(&s->h->dict, DICT_NODES), s->node, eb);
	for (uint32_t k = 0; !r && k < n_values; k++)
		r = page_i64(
			&p, ROW_COLUMNS + k, at->n_rows, s->value + (size_t)k * PAGE_MAX_ROWS, eb);
	s->page = r ? STORE_NONE : number;
	return r;
}

/* Copies the rows of one profile to batch place `to`. */
static int gather_profile(
	struct state *s, const struct head_profile *p, size_t to, struct errbuf *eb)
{
	const struct part_page *pages = (const void *)s->h->pages.base;
	const uint32_t *label_sets = s->o->of[DICT_LABEL_SETS].new_id,
		       *nodes = s->o->of[DICT_NODES].new_id;
	uint64_t row = p->first_row, end = row + p->n_rows;
	uint32_t n_values = s->n_values;

	while (row < end) {
		uint32_t number = part_page_of(pages, (uint32_t)s->h->pages.n, row);
		uint64_t last = MIN(end, pages[number].first_row + pages[number].n_rows);
		int r = decode_page(s, number, n_values, eb);

		if (r < 0)
			return r;
		for (; row < last; row++, to++) {
			size_t i = (size_t)(row - pages[number].first_row);

			s->gathered[to] = (struct gathered_row) {
				.key = (uint64_t)label_sets[s->label_set[i]] << 32 |
				       nodes[s->node[i]],
				.at = (uint32_t)to,
			};
			for (uint32_t k = 0; k < n_values; k++)
				s->values[to * n_values + k] =
					s->value[(size_t)k * PAGE_MAX_ROWS + i];
		}
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct gathered_row *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* A profile's place in the final order. */
struct place {
	uint32_t profile, stream; /* stream: new id */
	int64_t time_ns;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->profile < y->profile ? -1 : x->profile > y->profile;
}

struct by_row {
	uint64_t first_row;
	size_t place, to;
};

static int by_first_row(const void *a, const void *b)
{
	const struct by_row *x = a, *y = b;

	return x->first_row < y->first_row ? -1 : x->first_row > y->first_row;
}

static int gather_batch(struct state *s, const struct place *places, size_t n, struct errbuf *eb)
{
	_cleanup_free_ struct by_row *order = try_realloc(NULL, n, sizeof(*order));
	size_t rows = 0;
	int r = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct head_profile *p = &head_profiles(s->h)[places[i].profile];

		order[i] = (struct by_row) {.first_row = p->first_row, .place = i, .to = rows};
		rows += p->n_rows;
	}
	if (alloc_grow(&s->gathered, &s->cap_gathered, rows, sizeof(*s->gathered)) < 0 ||
		alloc_grow(&s->values, &s->cap_values, rows * s->n_values, sizeof(*s->values)) < 0)
		return -ENOMEM;
	s->page = STORE_NONE; /* another schema may have other columns */
	qsort(order, n, sizeof(*order), by_first_row);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = gather_profile(
			s, &head_profiles(s->h)[places[order[i].place].profile], order[i].to, eb);
	return r;
}

static void write_batch(struct state *s, const struct place *places, size_t n)
{
	struct gathered_row *g = s->gathered;

	for (size_t i = 0; i < n; i++) {
		const struct head_profile *p = &head_profiles(s->h)[places[i].profile];

		if (p->n_rows)
			qsort(g, p->n_rows, sizeof(*g), by_key);
		put_profile(s, places[i].stream, p);
		for (uint32_t k = 0; k < p->n_rows; k++)
			row_writer_row(&s->out, places[i].stream, places[i].time_ns,
				(uint32_t)(g[k].key >> 32), (uint32_t)g[k].key,
				s->values + (size_t)g[k].at * s->n_values);
		g = g ? g + p->n_rows : NULL;
	}
}

static struct place *make_places(const struct head *h, const struct flush_order *o)
{
	size_t n = h->profiles.n;
	struct place *places = try_realloc(NULL, n, sizeof(*places));

	for (uint32_t i = 0; places && i < n; i++) {
		const struct head_profile *p = &head_profiles(h)[i];

		places[i] = (struct place) {
			.profile = i,
			.stream = o->of[DICT_STREAMS].new_id[p->stream],
			.time_ns = head_windows(h)[p->window].time_ns,
		};
	}
	if (places)
		qsort(places, n, sizeof(*places), by_place);
	return places;
}

static int write_all(struct state *s, const struct place *places, size_t n, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0, end; i < n && r >= 0; i = end) {
		const struct head_profile *p = &head_profiles(s->h)[places[i].profile];
		uint32_t schema = dict_streams(&s->h->dict)[p->stream].schema;
		size_t rows = 0;

		for (end = i; end < n && rows < BATCH_ROWS; end++) {
			p = &head_profiles(s->h)[places[end].profile];
			if (dict_streams(&s->h->dict)[p->stream].schema != schema)
				break;
			rows += p->n_rows;
		}
		if (schema != s->schema)
			r = begin_schema(s, schema);
		r = r < 0 ? r : gather_batch(s, places + i, end - i, eb);
		if (r >= 0)
			write_batch(s, places + i, end - i);
	}
	return r;
}

int flush_profiles(struct fs *fs, const char *dir, struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb)
{
	_cleanup_(state_done)
	struct state s = {
		.h = h, .o = o, .out = {.rows_file = {.fd = -1}, .profiles_file = {.fd = -1}}};
	_cleanup_free_ struct place *places = make_places(h, o);
	int r = places ? state_init(&s) : -ENOMEM;

	r = r ? r : row_writer_open(&s.out, fs, dir, PART_RAW, 1);
	r = r ? r : write_all(&s, places, h->profiles.n, eb);
	if (r < 0)
		return eb->text[0] ? r : err_set(eb, r, "writing rows: %s", strerror(-r));
	return row_writer_finish(&s.out, NULL, 0, m, eb);
}
