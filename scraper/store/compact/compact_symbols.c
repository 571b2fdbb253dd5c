/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbols of the result: strings merge from their sorted runs, locations from their order of keys; functions and mappings are
 * sorted anew, because a name that became a label's value in one input has changed its place.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/table_writer.h"
#include "scraper/store/compact/compact_impl.h"
#include <stdlib.h>
#include <string.h>

/* ---- strings ---- */

/* The strings of one run of one input that are wanted. */
struct strings {
	struct compact_input *in;
	struct compact_pages pages;
	struct text_page *page;
	uint32_t id, end, first; /* of the string in hand; of the run; of the page */
	bool labels_only, done;
	struct prof_str text;
};

static void strings_close(struct strings *s)
{
	compact_pages_close(&s->pages);
	free(s->page);
}

static bool is_wanted(const struct strings *s, uint32_t id)
{
	return bitmap_has(&s->in->label_strings, id) ||
	       (!s->labels_only && bitmap_has(&s->in->other_strings, id));
}

static int load_strings(struct strings *s, struct errbuf *eb)
{
	const struct frame_pages *pages = s->pages.pages;
	_cleanup_free_ struct page *p = NULL;
	struct decoded d = {.data = NULL};
	int r;

	while (s->pages.next < pages->n_pages &&
		pages->pages[s->pages.next].first_row + pages->pages[s->pages.next].n_rows <= s->id)
		s->pages.next++;
	free(TAKE(s->page));
	s->first = s->pages.next < pages->n_pages ? (uint32_t)pages->pages[s->pages.next].first_row
						  : s->end;
	r = compact_pages_next(&s->pages, &p, eb);
	if (r <= 0)
		return r < 0 ? r
			     : err_set(eb, -EBADMSG, "%s: string %u is missing", s->pages.path,
				       s->id);
	r = block_decode_strings(p, &d, eb);
	s->page = d.data;
	return r;
}

/* Moves to the first wanted string from s->id on. */
static int find_string(struct strings *s, struct errbuf *eb)
{
	int r = 0;

	while (s->id < s->end && !is_wanted(s, s->id))
		s->id++;
	s->done = s->id >= s->end;
	if (s->done)
		return 0;
	if (!s->page || s->id - s->first >= s->page->n)
		r = load_strings(s, eb);
	if (!r)
		s->text = s->page->strings[s->id - s->first];
	return r;
}

static int strings_open(struct strings *s, struct compact_input *in, uint32_t from, uint32_t to,
	bool labels_only, struct errbuf *eb)
{
	int r;

	*s = (struct strings) {.in = in, .id = from, .end = to, .labels_only = labels_only};
	r = compact_pages_open(&s->pages, in->b, TABLE_STRINGS, eb);
	return r < 0 ? r : find_string(s, eb);
}

static int compare_text(const struct prof_str *a, const struct prof_str *b)
{
	size_t n = MIN(a->len, b->len);
	int r = n ? memcmp(a->p, b->p, n) : 0;

	return r ? r : (a->len > b->len) - (a->len < b->len);
}

static const struct strings *lowest(const struct strings *s, size_t n)
{
	const struct strings *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (!s[i].done && (!best || compare_text(&s[i].text, &best->text) < 0))
			best = &s[i];
	return best;
}

/* A label string keeps its text for the sorting of label sets. */
static int add_string(struct compaction *c, struct string_writer *w, const struct prof_str *text,
	bool is_label, uint32_t id)
{
	table_writer_string(w, text);
	if (!is_label)
		return 0;
	c->label_texts[id] = (struct prof_str) {
		.p = arena_strndup(&c->arena, text->p, text->len), .len = text->len};
	c->n_label_strings = id + 1;
	return arena_error(&c->arena, c->eb);
}

/* Merges the runs; strings that have an id by now (labels) lend it to their equals. */
static int merge_strings(struct compaction *c, struct string_writer *w, struct strings *s, size_t n,
	bool labels, uint32_t *next)
{
	_cleanup_bytes_ struct bytes copy = {.data = NULL};
	const struct strings *best;
	int r = 0;

	while (!r && (best = lowest(s, n)) != NULL) {
		struct prof_str text;
		uint32_t id = STORE_NONE;

		for (size_t i = 0; i < n; i++)
			if (!s[i].done && !compare_text(&s[i].text, &best->text) &&
				s[i].in->strings[s[i].id] != STORE_NONE)
				id = s[i].in->strings[s[i].id];
		bytes_reset(&copy);
		bytes_put(&copy, best->text.p, best->text.len);
		text = (struct prof_str) {.p = (char *)copy.data, .len = best->text.len};
		r = copy.error;
		if (!r && id == STORE_NONE) {
			id = (*next)++;
			r = add_string(c, w, &text, labels, id);
		}
		for (size_t i = 0; !r && i < n; i++) {
			if (s[i].done || compare_text(&s[i].text, &text) != 0)
				continue;
			s[i].in->strings[s[i].id++] = id;
			r = find_string(&s[i], c->eb);
		}
	}
	return r;
}

static int open_runs(struct compaction *c, struct strings *s, bool labels, size_t *ret_n)
{
	int r = 0;

	*ret_n = 0;
	for (size_t i = 0; !r && i < c->n; i++) {
		struct compact_input *in = &c->inputs[i];
		uint32_t n_labels = (uint32_t)in->b->meta.stats.label_strings;

		if (n_labels > in->info->n_strings)
			return err_set(c->eb, -EBADMSG, "%s: meta.json counts too many labels",
				in->b->dir);
		r = strings_open(&s[(*ret_n)++], in, 0, n_labels, labels, c->eb);
		if (!r && !labels)
			r = strings_open(
				&s[(*ret_n)++], in, n_labels, in->info->n_strings, false, c->eb);
	}
	return r;
}

static int write_strings(struct compaction *c, struct frame_writer *w)
{
	_cleanup_free_ struct strings *s = try_realloc(NULL, 2 * COMPACT_MAX_INPUTS, sizeof(*s));
	_cleanup_(table_writer_strings_done)
	struct string_writer out = {.w = w};
	uint32_t next = 0;
	size_t n = 0, cap = 0;
	int r = s ? table_writer_strings_begin(&out, w) : -ENOMEM;

	for (size_t i = 0; !r && i < c->n; i++) {
		r = compact_map(c, &c->inputs[i].strings, c->inputs[i].info->n_strings);
		cap += (size_t)c->inputs[i].b->meta.stats.label_strings;
	}
	c->label_texts = r ? NULL : arena_alloc_array(&c->arena, cap + 1, sizeof(*c->label_texts));
	r = r ? r : arena_error(&c->arena, c->eb);
	for (unsigned labels = 2; !r && labels--;) {
		memset(s, 0, 2 * COMPACT_MAX_INPUTS * sizeof(*s));
		r = open_runs(c, s, labels, &n);
		r = r ? r : merge_strings(c, &out, s, n, labels, &next);
		for (size_t i = 0; i < n; i++)
			strings_close(&s[i]);
	}
	c->meta.stats.strings = next;
	c->meta.stats.label_strings = c->n_label_strings;
	return r ? r : table_writer_strings_end(&out);
}

/* ---- functions and mappings ---- */

struct function {
	struct part_function f;
	uint32_t input, id;
};

static int compare_u32(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

static int by_function(const void *a, const void *b)
{
	const struct part_function *x = &((const struct function *)a)->f,
				   *y = &((const struct function *)b)->f;
	int r = compare_u32(x->name, y->name);

	r = r ? r : compare_u32(x->system_name, y->system_name);
	r = r ? r : compare_u32(x->filename, y->filename);
	return r ? r : (x->start_line > y->start_line) - (x->start_line < y->start_line);
}

static int gather_functions(
	struct compaction *c, uint32_t input, struct function **all, size_t *n, size_t *cap)
{
	struct compact_input *in = &c->inputs[input];
	_cleanup_compact_pages_ struct compact_pages pages = {.path = NULL};
	uint32_t id = 0;
	int r = compact_map(c, &in->functions, in->info->n_functions);

	r = r ? r : compact_pages_open(&pages, in->b, TABLE_FUNCTIONS, c->eb);
	while (!r) {
		_cleanup_free_ struct page *page = NULL;
		struct decoded d = {.data = NULL};
		const struct part_function *f;

		r = compact_pages_next(&pages, &page, c->eb);
		if (r <= 0)
			break;
		r = block_decode_functions(in->info, page, &d, c->eb);
		f = d.data;
		r = r ? r
		      : alloc_grow_in(c->budget, all, cap, *n + page->n_rows, sizeof(**all), c->eb);
		for (uint32_t i = 0; !r && i < page->n_rows; i++, id++)
			if (bitmap_has(&in->has_functions, id))
				(*all)[(*n)++] = (struct function) {
					.f = {.name = in->strings[f[i].name],
						.system_name = in->strings[f[i].system_name],
						.filename = in->strings[f[i].filename],
						.start_line = f[i].start_line},
					.input = input,
					.id = id};
		free(d.data);
	}
	return r;
}

static int write_functions(struct compaction *c, struct frame_writer *w)
{
	_cleanup_(table_writer_done)
	struct table_writer t = {.w = w};
	struct function *all = NULL;
	size_t n = 0, cap = 0;
	uint32_t next = 0;
	int r = 0;

	for (uint32_t i = 0; !r && i < c->n; i++)
		r = gather_functions(c, i, &all, &n, &cap);
	r = r ? r : table_writer_begin(&t, w, TABLE_FUNCTIONS);
	if (r < 0)
		n = 0;
	if (n)
		qsort(all, n, sizeof(*all), by_function);
	for (size_t i = 0; i < n; i++) {
		if (!i || by_function(&all[i - 1], &all[i]) != 0) {
			table_writer_function(&t, &all[i].f);
			next++;
		}
		c->inputs[all[i].input].functions[all[i].id] = next - 1;
	}
	alloc_free_in(c->budget, &all, &cap, sizeof(*all));
	if (r < 0)
		return r;
	table_writer_end(&t);
	c->meta.stats.functions = next;
	return 0;
}

struct mapping {
	struct part_mapping m;
	uint32_t input, id;
};

static int by_mapping(const void *a, const void *b)
{
	const struct part_mapping *x = &((const struct mapping *)a)->m,
				  *y = &((const struct mapping *)b)->m;
	int r = compare_u32(x->filename, y->filename);

	r = r ? r : compare_u32(x->build_id, y->build_id);
	return r ? r : compare_u32(x->kind, y->kind);
}

static int write_mappings(struct compaction *c, struct frame_writer *w)
{
	_cleanup_(table_writer_done)
	struct table_writer t = {.w = w};
	struct mapping *all = NULL;
	size_t n = 0, cap = 0;
	uint32_t next = 0;
	int r = 0;

	for (uint32_t input = 0; !r && input < c->n; input++) {
		struct compact_input *in = &c->inputs[input];

		r = compact_map(c, &in->mapping_ids, in->info->n_mappings);
		r = r ? r
		      : alloc_grow_in(c->budget, &all, &cap, n + in->info->n_mappings + 1,
				sizeof(*all), c->eb);
		for (uint32_t i = 0; !r && i < in->info->n_mappings; i++)
			if (bitmap_has(&in->has_mappings, i))
				all[n++] = (struct mapping) {
					.m = {.filename = in->strings[in->mappings[i].filename],
						.build_id = in->strings[in->mappings[i].build_id],
						.kind = in->mappings[i].kind},
					.input = input,
					.id = i};
	}
	r = r ? r : table_writer_begin(&t, w, TABLE_MAPPINGS);
	if (r < 0)
		n = 0;
	if (n)
		qsort(all, n, sizeof(*all), by_mapping);
	for (size_t i = 0; i < n; i++) {
		if (!i || by_mapping(&all[i - 1], &all[i]) != 0) {
			table_writer_mapping(&t, &all[i].m);
			next++;
		}
		c->inputs[all[i].input].mapping_ids[all[i].id] = next - 1;
	}
	alloc_free_in(c->budget, &all, &cap, sizeof(*all));
	if (r < 0)
		return r;
	table_writer_end(&t);
	c->meta.stats.mappings = next;
	return 0;
}

/* ---- locations ---- */

/* The locations of one input that are used, with their keys. */
struct locations {
	struct compact_input *in;
	struct compact_pages pages, key_pages;
	struct location_page *page;
	int64_t *keys; /* of one page */
	uint32_t n_keys, at, key_at, id;
	bool done;
};

static void locations_close(struct locations *l)
{
	compact_pages_close(&l->pages);
	compact_pages_close(&l->key_pages);
	free(l->page);
	free(l->keys);
}

static int load_locations(struct locations *l, struct errbuf *eb)
{
	_cleanup_free_ struct page *p = NULL;
	struct decoded d = {.data = NULL};
	int r = compact_pages_next(&l->pages, &p, eb);

	free(TAKE(l->page));
	l->at = 0;
	if (r <= 0)
		return r;
	r = block_decode_locations(l->in->info, p, &d, eb);
	l->page = d.data;
	return r < 0 ? r : 1;
}

static int load_keys(struct locations *l, struct errbuf *eb)
{
	_cleanup_free_ struct page *p = NULL;
	int r = compact_pages_next(&l->key_pages, &p, eb);

	if (r <= 0)
		return r < 0 ? r
			     : err_set(eb, -EBADMSG, "%s: fewer keys than locations",
				       l->key_pages.path);
	l->n_keys = p->n_rows;
	l->key_at = 0;
	return page_i64(p, 0, p->n_rows, l->keys, eb);
}

/* One step, unused ones too. */
static int step_location(struct locations *l, bool first, struct errbuf *eb)
{
	int r = 1;

	if (!first) {
		l->at++;
		l->key_at++;
		l->id++;
	}
	if (!l->page || l->at == l->page->n)
		r = load_locations(l, eb);
	l->done = r == 0;
	if (r > 0 && l->key_at == l->n_keys)
		r = load_keys(l, eb);
	return r < 0 ? r : 0;
}

static int next_location(struct locations *l, struct errbuf *eb)
{
	bool first = !l->page && !l->done;
	int r;

	do {
		r = step_location(l, first, eb);
		first = false;
	} while (!r && !l->done && !bitmap_has(&l->in->has_locations, l->id));
	return r;
}

static int locations_open(struct compaction *c, struct locations *l, struct compact_input *in)
{
	struct errbuf *eb = c->eb;
	int r = compact_map(c, &in->locations, in->info->n_locations);

	l->in = in;
	l->keys = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*l->keys));
	if (!l->keys)
		return -ENOMEM;
	r = r ? r : compact_pages_open(&l->pages, in->b, TABLE_LOCATIONS, eb);
	r = r ? r : compact_pages_open(&l->key_pages, in->b, TABLE_KEYS, eb);
	return r ? r : next_location(l, eb);
}

/* Locations with the key in hand: one, unless two contents have one key. */
struct group {
	struct part_location *items;
	size_t n, cap;
	struct arena arena;
	struct budget *budget;
};

static int compare_location(const struct part_location *a, const struct part_location *b)
{
	int r = compare_u32(a->flags, b->flags);

	r = r ? r : (a->address > b->address) - (a->address < b->address);
	r = r ? r : compare_u32(a->n_lines, b->n_lines);
	for (uint32_t i = 0; !r && i < a->n_lines; i++) {
		const struct part_line *x = &a->lines[i], *y = &b->lines[i];

		r = compare_u32(x->function, y->function);
		r = r ? r : (x->line > y->line) - (x->line < y->line);
		r = r ? r : (x->column > y->column) - (x->column < y->column);
	}
	return r ? r : compare_u32(a->mapping + 1, b->mapping + 1);
}

/* In ids of the result; the lines are copied into the group's arena. */
static int translate(const struct locations *l, struct group *g, struct part_location *ret)
{
	const struct part_location *from = &l->page->locations[l->at];
	const struct compact_input *in = l->in;
	struct part_line *lines = arena_alloc_array(&g->arena, from->n_lines, sizeof(*lines));

	if (from->n_lines && !lines)
		return -ENOMEM;
	*ret = *from;
	if (from->mapping != STORE_NONE)
		ret->mapping = in->mapping_ids[from->mapping];
	for (uint32_t i = 0; i < from->n_lines; i++) {
		lines[i] = from->lines[i];
		lines[i].function = in->functions[lines[i].function];
	}
	ret->lines = lines;
	return 0;
}

static int place_of(struct group *g, const struct part_location *l, uint32_t *ret)
{
	for (*ret = 0; *ret < g->n; ++*ret)
		if (!compare_location(&g->items[*ret], l))
			return 0;
	if (alloc_grow_in(g->budget, &g->items, &g->cap, g->n + 1, sizeof(*g->items), NULL) < 0)
		return -ENOMEM;
	g->items[g->n++] = *l;
	return 0;
}

/* The locations of all inputs with the lowest key. */
static int merge_group(
	struct compaction *c, struct locations *l, struct group *g, uint64_t key, uint32_t first)
{
	int r = 0;

	g->n = 0;
	arena_reset(&g->arena);
	for (size_t i = 0; !r && i < c->n; i++) {
		while (!r && !l[i].done && (uint64_t)l[i].keys[l[i].key_at] == key) {
			struct part_location own;
			uint32_t place = 0;

			r = translate(&l[i], g, &own);
			r = r ? r : place_of(g, &own, &place);
			if (!r)
				l[i].in->locations[l[i].id] = first + place;
			r = r ? r : next_location(&l[i], c->eb);
		}
	}
	return r;
}

static int merge_locations(struct compaction *c, struct locations *l, struct table_writer *t,
	uint64_t **keys, size_t *cap, size_t *ret_n)
{
	struct group g = {.budget = c->budget};
	size_t n = 0;
	int r = 0;

	arena_init(&g.arena, c->budget);
	while (!r) {
		uint64_t key = UINT64_MAX;
		bool any = false;

		for (size_t i = 0; i < c->n; i++)
			if (!l[i].done) {
				key = MIN(key, (uint64_t)l[i].keys[l[i].key_at]);
				any = true;
			}
		if (!any)
			break;
		r = merge_group(c, l, &g, key, (uint32_t)n);
		r = r ? r : alloc_grow_in(c->budget, keys, cap, n + g.n, sizeof(**keys), c->eb);
		for (size_t i = 0; !r && i < g.n; i++) {
			table_writer_location(t, &g.items[i]);
			(*keys)[n++] = key;
		}
	}
	arena_done(&g.arena);
	alloc_free_in(g.budget, &g.items, &g.cap, sizeof(*g.items));
	*ret_n = n;
	return r;
}

static int write_locations(struct compaction *c, struct frame_writer *w)
{
	_cleanup_(table_writer_done)
	struct table_writer t = {.w = w};
	_cleanup_free_ struct locations *l = try_realloc(NULL, c->n, sizeof(*l));
	uint64_t *keys = NULL;
	size_t n = 0, cap = 0;
	int r = l ? table_writer_begin(&t, w, TABLE_LOCATIONS) : -ENOMEM;

	if (l)
		memset(l, 0, c->n * sizeof(*l));
	for (size_t i = 0; !r && i < c->n; i++)
		r = locations_open(c, &l[i], &c->inputs[i]);
	r = r ? r : merge_locations(c, l, &t, &keys, &cap, &n);
	for (size_t i = 0; l && i < c->n; i++)
		locations_close(&l[i]);
	if (!r) {
		table_writer_end(&t);
		table_writer_keys(w, keys, n);
	}
	alloc_free_in(c->budget, &keys, &cap, sizeof(*keys));
	c->meta.stats.locations = n;
	return r;
}

int compact_symbols(struct compaction *c)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w = {.fd = -1};
	int r = compact_open_file(c, &w, FRAME_SYMBOLS);

	r = r ? r : write_strings(c, &w);
	r = r ? r : write_functions(c, &w);
	r = r ? r : write_mappings(c, &w);
	r = r ? r : write_locations(c, &w);
	r = r ? r : compact_labels_sets(c, &w);
	return r ? r : block_finish_file(&w, FRAME_SYMBOLS, &c->meta, c->eb);
}
