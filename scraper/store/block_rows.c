/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles and rows of a block. Profiles are taken in batches of their final order; a batch's rows are gathered page by page of the
 * head, renumbered, sorted within their profile, and written on.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block_tables.h"
#include <string.h>

enum { BATCH_ROWS = 256 << 10, PROFILE_PAGE = 8192, MAX_VALUES = STORE_MAX_COLUMNS };

/* Columns of the page of rows that is being filled. */
struct row_page {
	uint32_t label_set[PAGE_MAX_ROWS], node[PAGE_MAX_ROWS], n;
	int64_t *value[MAX_VALUES];
	uint32_t first_stream, last_stream;
	int64_t min_time, max_time;
};

struct profile_rows {
	int64_t time[PROFILE_PAGE], duration[PROFILE_PAGE], period[PROFILE_PAGE], first_row;
	uint32_t n_rows[PROFILE_PAGE], n;
	int64_t *total[MAX_VALUES];
	uint32_t first_stream, last_stream;
	int64_t min_time, max_time;
};

struct gathered_row {
	uint64_t key; /* label set << 32 | node, new ids */
	uint32_t at;  /* row of the batch before sorting */
};

struct state {
	struct head *h;
	const struct block_order *o;
	struct meta *m;
	struct frame_writer rows_file, profiles_file;
	struct row_page *rows;
	struct profile_rows *profiles;
	uint32_t schema, n_values; /* of the pages being filled */
	uint64_t n_rows;

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
	s->rows = try_malloc(sizeof(*s->rows));
	if (s->rows)
		memset(s->rows, 0, sizeof(*s->rows));
	s->profiles = try_malloc(sizeof(*s->profiles));
	if (s->profiles)
		memset(s->profiles, 0, sizeof(*s->profiles));
	s->label_set = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*s->label_set));
	s->node = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*s->node));
	s->value = try_realloc(NULL, (size_t)PAGE_MAX_ROWS * MAX_VALUES, sizeof(*s->value));
	return s->rows && s->profiles && s->label_set && s->node && s->value ? 0 : -ENOMEM;
}

static void state_done(struct state *s)
{
	for (unsigned i = 0; i < MAX_VALUES; i++) {
		free(s->rows ? s->rows->value[i] : NULL);
		free(s->profiles ? s->profiles->total[i] : NULL);
	}
	free(s->rows);
	free(s->profiles);
	free(s->gathered);
	free(s->values);
	free(s->label_set);
	free(s->node);
	free(s->value);
	frame_writer_done(&s->rows_file);
	frame_writer_done(&s->profiles_file);
}

static void flush_rows(struct state *s)
{
	struct page_writer *w = s->rows_file.pages;
	struct row_page *p = s->rows;

	if (!p->n)
		return;
	page_writer_begin(w);
	page_writer_u32(w, p->label_set, p->n);
	page_writer_u32(w, p->node, p->n);
	for (uint32_t k = 0; k < s->n_values; k++) {
		if (k)
			page_writer_ratio(w, p->value[k], p->n, k + 1, p->value[k - 1]);
		else
			page_writer_i64(w, p->value[0], p->n);
	}
	frame_writer_page(
		&s->rows_file, p->n, p->first_stream, p->last_stream, p->min_time, p->max_time);
	s->m->stats.row_pages++;
	p->n = 0;
}

static void flush_profiles(struct state *s)
{
	struct page_writer *w = s->profiles_file.pages;
	struct profile_rows *p = s->profiles;
	const int64_t raw = PART_RAW, one = 1;
	int64_t constant[1];

	if (!p->n)
		return;
	page_writer_begin(w);
	page_writer_i64(w, p->time, p->n);
	page_writer_i64(w, p->duration, p->n);
	page_writer_i64(w, p->period, p->n);
	constant[0] = raw;
	page_writer_i64(w, constant, 1); /* const: holds for every row */
	constant[0] = one;
	page_writer_i64(w, constant, 1);
	page_writer_u32(w, p->n_rows, p->n);
	page_writer_i64(w, &p->first_row, 1);
	for (uint32_t k = 0; k < s->n_values; k++) {
		/* Totals start at column 7. */
		if (k)
			page_writer_ratio(w, p->total[k], p->n, 7 + k - 1, p->total[k - 1]);
		else
			page_writer_i64(w, p->total[0], p->n);
	}
	frame_writer_page(
		&s->profiles_file, p->n, p->first_stream, p->last_stream, p->min_time, p->max_time);
	p->n = 0;
}

static int begin_schema(struct state *s, uint32_t schema)
{
	uint32_t n = dict_schemas(&s->h->dict)[schema].n_columns;

	flush_rows(s);
	flush_profiles(s);
	s->schema = schema;
	s->n_values = n;
	for (uint32_t k = 0; k < n; k++) {
		if (!s->rows->value[k])
			s->rows->value[k] = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(int64_t));
		if (!s->profiles->total[k])
			s->profiles->total[k] = try_realloc(NULL, PROFILE_PAGE, sizeof(int64_t));
		if (!s->rows->value[k] || !s->profiles->total[k])
			return -ENOMEM;
	}
	return 0;
}

static void put_row(
	struct state *s, uint32_t stream, int64_t time, uint64_t key, const int64_t *values)
{
	struct row_page *p = s->rows;

	if (!p->n) {
		p->first_stream = stream;
		p->min_time = p->max_time = time;
	}
	p->last_stream = stream;
	p->min_time = MIN(p->min_time, time);
	p->max_time = MAX(p->max_time, time);
	p->label_set[p->n] = (uint32_t)(key >> 32);
	p->node[p->n] = (uint32_t)key;
	for (uint32_t k = 0; k < s->n_values; k++)
		p->value[k][p->n] = values[k];
	if (++p->n == PAGE_MAX_ROWS)
		flush_rows(s);
}

static void put_profile(struct state *s, uint32_t stream, const struct head_profile *from)
{
	const struct head_window *w = &head_windows(s->h)[from->window];
	struct profile_rows *p = s->profiles;
	struct meta *m = s->m;

	if (!p->n) {
		p->first_stream = stream;
		p->first_row = (int64_t)s->n_rows;
		p->min_time = p->max_time = w->time_ns;
	}
	p->last_stream = stream;
	p->min_time = MIN(p->min_time, w->time_ns);
	p->max_time = MAX(p->max_time, w->time_ns);
	p->time[p->n] = w->time_ns;
	p->duration[p->n] = w->duration_ns;
	p->period[p->n] = w->period;
	p->n_rows[p->n] = from->n_rows;
	for (uint32_t k = 0; k < s->n_values; k++)
		p->total[k][p->n] = head_totals(s->h)[from->first_total + k];
	s->n_rows += from->n_rows;
	m->stats.profiles++;
	m->min_time_ns = MIN(m->min_time_ns, w->time_ns);
	m->max_time_ns = MAX(m->max_time_ns, w->time_ns);
	m->max_duration_ns = MAX(m->max_duration_ns, w->duration_ns);
	if (++p->n == PROFILE_PAGE)
		flush_profiles(s);
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
			put_row(s, places[i].stream, places[i].time_ns, g[k].key,
				s->values + (size_t)g[k].at * s->n_values);
		g = g ? g + p->n_rows : NULL;
	}
}

static struct place *make_places(const struct head *h, const struct block_order *o)
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
	flush_rows(s);
	flush_profiles(s);
	return r;
}

static int open_files(struct state *s, struct fs *fs, const char *dir)
{
	_cleanup_free_ char *rows = xasprintf("%s/%s", dir, frame_file_name(FRAME_ROWS));
	_cleanup_free_ char *profiles = xasprintf("%s/%s", dir, frame_file_name(FRAME_PROFILES));
	int r = frame_writer_open(&s->rows_file, fs, rows, FRAME_ROWS);

	r = r ? r : frame_writer_open(&s->profiles_file, fs, profiles, FRAME_PROFILES);
	if (r < 0)
		return r;
	frame_writer_table_begin(&s->rows_file, TABLE_ROWS);
	frame_writer_table_begin(&s->profiles_file, TABLE_PROFILES);
	return 0;
}

int block_write_profiles(struct fs *fs, const char *dir, struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb)
{
	_cleanup_(state_done)
	struct state s = {
		.h = h, .o = o, .m = m, .rows_file = {.fd = -1}, .profiles_file = {.fd = -1}};
	_cleanup_free_ struct place *places = make_places(h, o);
	int r = places ? state_init(&s) : -ENOMEM;

	m->min_time_ns = INT64_MAX;
	m->max_time_ns = INT64_MIN;
	r = r ? r : open_files(&s, fs, dir);
	r = r ? r : write_all(&s, places, h->profiles.n, eb);
	if (r < 0)
		return eb->text[0] ? r : err_set(eb, r, "%s: writing rows: %s", dir, strerror(-r));
	m->stats.rows = s.n_rows;
	frame_writer_table_end(&s.rows_file);
	frame_writer_table_end(&s.profiles_file);
	r = block_finish_file(&s.rows_file, FRAME_ROWS, m, eb);
	return r < 0 ? r : block_finish_file(&s.profiles_file, FRAME_PROFILES, m, eb);
}
