/* SPDX-License-Identifier: Apache-2.0
 *
 * One part is asked by reading its streams and label sets; rows only where a matcher is on a label that the stream itself lacks, and of
 * these the label sets alone, up to the first that passes. What a block in the range as a whole answered is kept with it, and what all such blocks
 * answered together with the last of them.
 */
#include "scraper/query/inventory.h"
#include "lib/base/alloc.h"
#include "scraper/query/rows.h"
#include <stdlib.h>
#include <string.h>

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

void inventory_done(struct inventory *v)
{
	interner_done(&v->texts);
	series_seen_done(&v->seen);
	arena_done(&v->order);
	bytes_done(&v->text);
}

int inventory_add(struct inventory *v, const void *text, size_t n)
{
	return interner_add(v->into, text, n, NULL) == INTERNER_NONE ? -ENOMEM : 0;
}

static int is_new(struct inventory *v, uint8_t **seen, size_t n, uint32_t i)
{
	bool was;

	if (!*seen)
		*seen = arena_zalloc(&v->scan.arena, n + 1);
	if (!*seen)
		return -ENOMEM;
	was = (*seen)[i];
	(*seen)[i] = 1;
	return !was;
}

int inventory_is_new_string(struct inventory *v, uint32_t string)
{
	return is_new(v, &v->seen_strings, v->scan.parts[0].info->n_label_strings, string);
}

int inventory_is_new_type(struct inventory *v, uint32_t type)
{
	return is_new(v, &v->seen_types, v->scan.n_types, type);
}

/* ---- one part ---- */

/* Hits of one part that only rows can decide. */
struct undecided {
	const struct scan_part *part;
	struct rows_ranges ranges;
	uint8_t *found; /* per hit: a row passed */
};

static int find_row(const struct rows_piece *piece, void *ctx, struct errbuf *eb)
{
	const uint32_t mask = piece->hit->row_mask;
	struct undecided *u = ctx;
	bool passes = false;

	(void)eb;
	if (!piece->label_sets)
		passes = scan_row_passes(u->part, mask, piece->const_label_set);
	for (size_t i = 0; piece->label_sets && !passes && i < piece->n; i++)
		passes = scan_row_passes(u->part, mask, piece->label_sets[i]);
	u->found[piece->range->hit] |= passes;
	return 0;
}

/* The stream's profiles that the range may have: of those, the ones that `is_inside` takes. */
static int profiles_of(struct inventory *v, struct scan_part *p, uint32_t stream,
	struct part_profiles *ret, struct errbuf *eb)
{
	int64_t until = v->c.end_ns;
	int r;

	if (v->by_window)
		until = tree_add(until, MAX(p->streams[stream].max_duration_ns, 0));
	r = part_profiles(p->reader, stream, v->c.start_ns, until, ret);
	return r ? scan_failed(p, r, eb) : 0;
}

static bool is_inside(const struct inventory *v, const struct part_profiles *p, size_t i)
{
	return p->time_ns[i] <= v->c.end_ns ||
	       tree_add(p->time_ns[i], -MAX(p->duration_ns[i], 0)) < v->c.end_ns;
}

/* The rows of the hit's stream in the range of time. */
static int add_rows(struct inventory *v, struct scan_part *p, struct undecided *u, uint32_t hit,
	struct errbuf *eb)
{
	struct part_profiles profiles;
	int r = profiles_of(v, p, p->hits[hit].stream, &profiles, eb);

	for (size_t i = 0; !r && i < profiles.n; i++)
		if (profiles.resolution[i] == PART_RAW && is_inside(v, &profiles, i) &&
			rows_extend(&u->ranges, profiles.first_row[i], profiles.n_rows[i], hit,
				TREE_NONE))
			return no_memory(eb);
	return r;
}

/* Reads each page at most once, and none of whose streams all are decided. */
static int find_rows(struct inventory *v, struct scan_part *p, struct undecided *u, size_t from,
	struct errbuf *eb)
{
	const struct rows_job job = {.scan = &v->scan,
		.part = p,
		.reader = p->reader,
		.ranges = &u->ranges,
		.to_row = UINT64_MAX,
		.sets_only = true,
		.done = u->found,
		.stats = &v->scan.env->stats};
	int r = 0;

	for (size_t h = from; !r && h < p->n_hits; h++)
		/* Of a stream's columns the first one stands for all. */
		if (p->hits[h].row_mask && !p->hits[h].no_rows &&
			(h == from || p->hits[h - 1].stream != p->hits[h].stream))
			r = add_rows(v, p, u, (uint32_t)h, eb);
	rows_sort(&u->ranges);
	return r ? r : rows_walk(&job, find_row, u, eb);
}

static bool any_undecided(const struct scan_part *p, size_t from)
{
	for (size_t h = from; h < p->n_hits; h++)
		if (p->hits[h].row_mask)
			return true;
	return false;
}

/* Drops hits from number *from on whose streams have no row that passes: what else lies in their part must not matter. */
static int keep_hits(struct inventory *v, struct scan_part *p, size_t *from, struct errbuf *eb)
{
	struct undecided u = {.part = p, .ranges = {.budget = v->scan.env->budget}};
	uint32_t stream = STORE_NONE;
	size_t kept = *from;
	bool found = false;
	int r = 0;

	if (any_undecided(p, *from)) {
		u.found = arena_zalloc(&v->scan.arena, p->n_hits);
		r = u.found ? find_rows(v, p, &u, *from, eb) : no_memory(eb);
		rows_done(&u.ranges);
		for (size_t h = *from; !r && h < p->n_hits; h++) {
			if (p->hits[h].stream != stream) /* else another column of it */
				found = !p->hits[h].row_mask || u.found[h];
			stream = p->hits[h].stream;
			if (found)
				p->hits[kept++] = p->hits[h];
		}
		p->n_hits = kept;
	}
	*from = p->n_hits;
	return r;
}

/* ---- label sets of rows ---- */

/* Row label sets of one part that pass the matchers on labels they have, and the strings of them that nothing had yet. */
struct row_sets {
	struct inventory *v;
	const struct scan_part *part;
	uint8_t *wanted;  /* per set */
	uint8_t *missing; /* per string: names, or values of the label asked for */
	size_t n_missing;
};

static bool set_passes(const struct scan_part *p, uint32_t set)
{
	return !p->is_stream_set[set] && (p->bits[set] & p->has[set]) == p->has[set];
}

static bool was_seen(const struct inventory *v, uint32_t string)
{
	return v->seen_strings && v->seen_strings[string];
}

/* The strings that a set would add: by `is_found` they are missing no more, else they are from now on. */
static bool note_set(struct row_sets *s, uint32_t set, bool is_found)
{
	const struct scan_part *p = s->part;
	bool any = false;

	for (uint32_t i = p->sets.first[set]; i < p->sets.first[set + 1]; i++) {
		const struct part_label *pair = &p->sets.pairs[i];
		uint32_t string = s->v->name ? pair->value : pair->name;

		if ((s->v->name && pair->name != s->v->label.name) || was_seen(s->v, string))
			continue;
		any = true;
		s->n_missing += !is_found && !s->missing[string];
		s->n_missing -= is_found && s->missing[string];
		s->missing[string] = !is_found;
	}
	return any;
}

static int find_set(struct row_sets *s, uint32_t set)
{
	if (!s->wanted[set])
		return 0;
	s->wanted[set] = 0;
	if (note_set(s, set, true) && s->v->set(s->v, s->part, set) < 0)
		return -ENOMEM;
	return s->n_missing == 0;
}

/* 1 once nothing is missing. */
static int find_sets(const struct rows_piece *piece, void *ctx, struct errbuf *eb)
{
	struct row_sets *s = ctx;
	int r = 0;

	if (!piece->label_sets &&
		scan_row_passes(s->part, piece->hit->row_mask, piece->const_label_set))
		r = find_set(s, piece->const_label_set);
	for (size_t i = 0; piece->label_sets && !r && i < piece->n; i++)
		if (s->wanted[piece->label_sets[i]] &&
			scan_row_passes(s->part, piece->hit->row_mask, piece->label_sets[i]))
			r = find_set(s, piece->label_sets[i]);
	return r < 0 ? no_memory(eb) : r;
}

/* Do the hits from number `from` on take in all streams with rows? Then so do label sets. */
static bool all_streams(const struct scan_part *p, size_t from)
{
	uint32_t stream = STORE_NONE, n = 0, n_hit = 0;

	for (uint32_t i = 0; i < p->info->n_streams; i++)
		n += p->schemas[p->streams[i].schema].kind == STORE_PROFILE;
	for (size_t h = from; h < p->n_hits; h++) {
		n_hit += p->hits[h].stream != stream &&
			 p->schemas[p->streams[p->hits[h].stream].schema].kind == STORE_PROFILE;
		stream = p->hits[h].stream;
	}
	return n_hit == n;
}

/* The rows of the streams hit say which sets they have; those of a stream that has the label itself do not matter. */
static int read_row_sets(struct inventory *v, struct scan_part *p, size_t from, struct row_sets *s,
	struct errbuf *eb)
{
	struct undecided u = {.part = p, .ranges = {.budget = v->scan.env->budget}};
	const struct rows_job job = {.scan = &v->scan,
		.part = p,
		.reader = p->reader,
		.ranges = &u.ranges,
		.to_row = UINT64_MAX,
		.sets_only = true,
		.stats = &v->scan.env->stats};
	struct scan_label label = v->label;
	int r = 0;

	for (size_t h = from; !r && h < p->n_hits; h++) {
		uint32_t stream = p->hits[h].stream;

		if ((h > from && p->hits[h - 1].stream == stream) || p->hits[h].no_rows ||
			(v->name && label.name != STORE_NONE &&
				scan_label(p, p->streams[stream].label_set, &label) != STORE_NONE))
			continue;
		r = add_rows(v, p, &u, (uint32_t)h, eb);
	}
	rows_sort(&u.ranges);
	if (!r)
		r = rows_walk(&job, find_sets, s, eb);
	rows_done(&u.ranges);
	return MIN(r, 0);
}

/* Adds what the label sets of rows have that belong to the hits from number `from` on. */
static int visit_row_sets(
	struct inventory *v, struct scan_part *p, size_t from, bool narrows, struct errbuf *eb)
{
	struct row_sets s = {.v = v, .part = p};
	int r = 0;

	if (p->n_hits == from || (v->name && v->label.name == STORE_NONE))
		return 0;
	if (!narrows || all_streams(p, from)) {
		for (uint32_t set = 1; !r && set < p->info->n_label_sets; set++)
			if (set_passes(p, set))
				r = v->set(v, p, set);
		return r < 0 ? no_memory(eb) : 0;
	}
	s.wanted = arena_zalloc(&v->scan.arena, p->info->n_label_sets + 1UL);
	s.missing = arena_zalloc(&v->scan.arena, p->info->n_label_strings + 1UL);
	if (!s.wanted || !s.missing)
		return no_memory(eb);
	for (uint32_t set = 1; set < p->info->n_label_sets; set++)
		s.wanted[set] = set_passes(p, set) && note_set(&s, set, false);
	return s.n_missing ? read_row_sets(v, p, from, &s, eb) : 0;
}

/* Has the stream a profile in the range? The stream's own limits decide mostly. */
static int in_range(struct inventory *v, struct scan_part *p, uint32_t stream, struct errbuf *eb)
{
	const struct part_stream *st = &p->streams[stream];
	struct part_profiles profiles;
	int r;

	if (st->max_time_ns < v->c.start_ns || !st->n_profiles ||
		(st->min_time_ns > v->c.end_ns && !v->by_window))
		return 0;
	if ((st->min_time_ns >= v->c.start_ns && st->min_time_ns <= v->c.end_ns) ||
		(st->max_time_ns >= v->c.start_ns && st->max_time_ns <= v->c.end_ns))
		return 1;
	r = profiles_of(v, p, stream, &profiles, eb);
	for (size_t i = 0; !r && i < profiles.n; i++)
		if (is_inside(v, &profiles, i))
			return 1;
	return r;
}

/* One selector more, while its bits stand. */
static int select_more(struct inventory *v, const struct query_selector *selector, size_t *n_hits,
	struct errbuf *eb)
{
	struct scan_part *p = &v->scan.parts[0];
	size_t before = *n_hits;
	int r = scan_select(&v->scan, selector, eb);

	if (!r)
		r = keep_hits(v, p, n_hits, eb);
	return r || !v->set ? r : visit_row_sets(v, p, before, selector != NULL, eb);
}

static int ask_open_part(struct inventory *v, struct errbuf *eb)
{
	struct scan_part *p = &v->scan.parts[0];
	uint32_t stream = STORE_NONE;
	size_t n_hits = 0;
	int r = 0, is_there = 0;

	v->scan.without_series = true;
	v->last_stream = STORE_NONE;
	if (v->name)
		v->label = scan_find_label(p, v->name);
	for (size_t i = 0; !r && i < MAX(v->c.n_selectors, (size_t)1); i++)
		r = select_more(v, v->c.n_selectors ? &v->c.selectors[i] : NULL, &n_hits, eb);
	if (!r && v->what == INVENTORY_SERIES && series_seen_start(&v->seen, &v->scan) < 0)
		r = no_memory(eb);
	for (size_t h = 0; !r && h < p->n_hits; h++) {
		if (p->hits[h].stream != stream)
			is_there = in_range(v, p, p->hits[h].stream, eb);
		stream = p->hits[h].stream;
		r = MIN(is_there, 0);
		if (is_there > 0)
			r = v->hit(v, p, &p->hits[h]) < 0 ? no_memory(eb) : 0;
	}
	return r;
}

/* Adds what a part has in the range. */
static int ask_part(
	struct inventory *v, struct part *part, struct interner *into, struct errbuf *eb)
{
	struct query_env env = *v->c.env;
	int r;

	env.parts = &part;
	env.n_parts = 1;
	v->into = into;
	v->seen_strings = v->seen_types = NULL;
	r = scan_open(&v->scan, &env, v->c.terms, v->c.start_ns, v->c.end_ns, NULL, 0, eb);
	if (!r && v->scan.n_parts)
		r = ask_open_part(v, eb);
	scan_done(&v->scan);
	v->c.env->stats = env.stats;
	return r;
}

/* ---- order ---- */

static int compare_items(const void *a, const void *b)
{
	const struct interner_item *x = a, *y = b;
	int c = memcmp(x->bytes, y->bytes, MIN(x->len, y->len));

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* What was sorted before or came in order stays so: others after it are sorted and merged into it. */
static int sort(const struct interner *texts, const struct interner_item *before, size_t n_before,
	struct arena *a, struct interner_item **ret)
{
	const size_t n = texts->n;
	struct interner_item *items = arena_alloc_array(a, n + 1, sizeof(*items)), *tail;
	size_t sorted = n_before ? n_before : MIN(n, (size_t)1), left, at = n;

	if (!items)
		return -ENOMEM;
	if (n)
		memcpy(items, texts->items, n * sizeof(*items));
	if (n_before)
		memcpy(items, before, n_before * sizeof(*items));
	while (sorted < n && compare_items(&items[sorted - 1], &items[sorted]) < 0)
		sorted++;
	left = n - sorted;
	tail = arena_alloc_array(a, left + 1, sizeof(*tail));
	if (!tail)
		return -ENOMEM;
	memcpy(tail, items + sorted, left * sizeof(*tail));
	qsort(tail, left, sizeof(*tail), compare_items);
	while (left)
		items[--at] = sorted && compare_items(&items[sorted - 1], &tail[left - 1]) > 0
				      ? items[--sorted]
				      : tail[--left];
	*ret = items;
	return 0;
}

int inventory_sort(
	struct inventory *v, struct arena *a, struct interner_item **ret, struct errbuf *eb)
{
	return sort(&v->texts, v->sorted, v->n_sorted, a, ret) ? arena_error(a, eb) : 0;
}

/* ---- what is kept ---- */

/* A part that never changes, all of it in the range. */
struct whole_part {
	struct part *part;
	uint32_t id;
};

static void put_text(struct bytes *out, const char *s)
{
	bytes_put(out, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* The question but for its range, and which parts answer. */
static void put_key(
	const struct inventory *v, const struct whole_part *parts, size_t n, struct bytes *out)
{
	bytes_put_u8(out, (uint8_t)v->what);
	bytes_put_u8(out, (uint8_t)v->c.terms);
	put_text(out, v->name);
	for (size_t i = 0; i < n; i++)
		bytes_put_u32(out, parts[i].id);
	bytes_put_u32(out, (uint32_t)v->c.n_selectors);
	for (size_t i = 0; i < v->c.n_selectors; i++) {
		const struct query_selector *s = &v->c.selectors[i];

		bytes_put_u8(out, s->has_type);
		put_text(out, s->type.name);
		put_text(out, s->type.sample_type);
		put_text(out, s->type.sample_unit);
		put_text(out, s->type.period_type);
		put_text(out, s->type.period_unit);
		bytes_put_u32(out, (uint32_t)s->n_matchers);
		for (size_t m = 0; m < s->n_matchers; m++) {
			bytes_put_u8(out, (uint8_t)s->matchers[m].op);
			put_text(out, s->matchers[m].name);
			put_text(out, s->matchers[m].value);
		}
	}
}

/* Kept texts: each its length and its bytes. */
static int add_kept(struct interner *into, const uint8_t *p, size_t n, struct errbuf *eb)
{
	for (uint32_t len; n; p += len, n -= len) {
		memcpy(&len, p, sizeof(len));
		p += sizeof(len);
		n -= sizeof(len);
		if (interner_add(into, p, len, NULL) == INTERNER_NONE)
			return no_memory(eb);
	}
	return 0;
}

/* In order, so that what comes back need not be sorted. */
static void keep(
	struct part_reader *r, const struct bytes *key, const struct interner_item *items, size_t n)
{
	_cleanup_bytes_ struct bytes out = {};

	bytes_init(&out, key->budget, 0);
	for (size_t i = 0; i < n; i++) {
		bytes_put(&out, &items[i].len, sizeof(items[i].len));
		bytes_put(&out, items[i].bytes, items[i].len);
	}
	if (!bytes_error(&out))
		part_remember(r, key->data, key->len, out.data, out.len);
}

static int join(struct interner *into, struct interner *texts, struct errbuf *eb)
{
	struct interner swap = *into;

	if (!into->n) {
		*into = *texts;
		*texts = swap;
		return 0;
	}
	for (size_t i = 0; i < texts->n; i++)
		if (interner_add(into, texts->items[i].bytes, texts->items[i].len, NULL) ==
			INTERNER_NONE)
			return no_memory(eb);
	return 0;
}

static int ask_whole(struct inventory *v, const struct whole_part *parts, size_t n,
	struct interner *into, struct errbuf *eb)
{
	_cleanup_part_reader_ struct part_reader *reader =
		NULL; /* of the last part: it keeps the answer */
	_cleanup_interner_ struct interner own = {};
	_cleanup_bytes_ struct bytes key = {};
	struct interner_item *items;
	const uint8_t *kept;
	size_t n_kept;
	int r = part_reader_open(parts[n - 1].part, v->c.env->budget, &reader, eb);

	if (r)
		return r;
	interner_init(&own, v->c.env->budget);
	bytes_init(&key, v->c.env->budget, 0);
	put_key(v, parts, n, &key);
	if (bytes_error(&key))
		return no_memory(eb);
	r = part_recall(reader, key.data, key.len, &kept, &n_kept);
	if (r)
		return r < 0 ? no_memory(eb) : add_kept(into, kept, n_kept, eb);
	for (size_t i = 0; !r && i < n; i++)
		r = n == 1 || v->what == INVENTORY_SERIES ? ask_part(v, parts[i].part, &own, eb)
							  : ask_whole(v, &parts[i], 1, &own, eb);
	if (r)
		return r;
	/* Where memory is out for it, the answer is not kept. */
	if (!sort(&own, NULL, 0, &v->order, &items)) {
		keep(reader, &key, items, own.n);
		if (into == &v->texts) {
			v->sorted = items;
			v->n_sorted = own.n;
		}
	}
	return join(into, &own, eb);
}

/* Takes the parts that are whole in the range from the others, which are asked at once. */
static int sort_out(struct inventory *v, struct whole_part *whole, size_t *ret_n,
	struct part **others, size_t *ret_others, struct errbuf *eb)
{
	for (size_t i = 0; i < v->c.env->n_parts; i++) {
		_cleanup_part_reader_ struct part_reader *r = NULL;
		const struct part_info *in;
		int e;

		if (part_is_damaged(v->c.env->parts[i]))
			continue;
		e = part_reader_open(v->c.env->parts[i], v->c.env->budget, &r, eb);

		if (e)
			return e;
		in = part_reader_info(r);
		if (!in->is_head && in->min_time_ns >= v->c.start_ns &&
			in->max_time_ns <= v->c.end_ns)
			whole[(*ret_n)++] = (struct whole_part) {v->c.env->parts[i], in->id};
		else
			others[(*ret_others)++] = v->c.env->parts[i];
	}
	return 0;
}

static int ask(struct inventory *v, struct errbuf *eb)
{
	size_t n = v->c.env->n_parts + 1, n_whole = 0, n_others = 0;
	_cleanup_arena_ struct arena a = {};
	struct whole_part *whole;
	struct part **others;
	int r;

	interner_init(&v->texts, v->c.env->budget);
	bytes_init(&v->text, v->c.env->budget, 0);
	arena_init(&v->order, v->c.env->budget);
	series_seen_init(&v->seen, v->c.env->budget);
	arena_init(&a, v->c.env->budget);
	whole = arena_alloc_array(&a, n, sizeof(*whole));
	others = arena_alloc_array(&a, n, sizeof(*others));
	r = arena_error(&a, eb);
	if (!r)
		r = sort_out(v, whole, &n_whole, others, &n_others, eb);
	if (!r && n_whole)
		r = ask_whole(v, whole, n_whole, &v->texts, eb);
	for (size_t i = 0; !r && i < n_others; i++)
		r = ask_part(v, others[i], &v->texts, eb);
	return r;
}

int inventory_ask(struct inventory *v, struct errbuf *eb)
{
	size_t n_damaged = scan_n_damaged(v->c.env);
	int r = ask(v, eb);

	while (scan_met_damage(v->c.env, r, n_damaged)) {
		inventory_done(v);
		v->sorted = NULL;
		v->n_sorted = 0;
		n_damaged = scan_n_damaged(v->c.env);
		r = ask(v, eb);
	}
	return r;
}
