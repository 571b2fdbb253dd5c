/* SPDX-License-Identifier: Apache-2.0
 *
 * (stream, time) is the identity of a profile. A second one is compared by a digest that does not depend on ids: the head's own
 * last profiles first, then older parts whose times reach that far, which happens at the edge of generations and after clock steps.
 */
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "scraper/store/store_impl.h"
#include <string.h>

/* What digests read of a part. */
struct view {
	struct part_reader *r;
	const uint32_t *parents, *locations;
	const uint64_t *keys;
	struct part_label_sets label_sets;
	const struct part_schema *schemas;
};

static int view_open(struct part *p, struct view *v, struct errbuf *eb)
{
	int r = part_reader_open(p, NULL, &v->r, eb);

	r = r ? r : part_nodes(v->r, &v->parents, &v->locations);
	r = r ? r : part_location_keys(v->r, &v->keys);
	r = r ? r : part_label_sets(v->r, &v->label_sets);
	return r ? r : part_schemas(v->r, &v->schemas);
}

static uint64_t text_hash(struct view *v, uint32_t string, int *ret_error)
{
	struct prof_str s = {.len = 0};
	int r = part_strings(v->r, &string, 1, &s);

	if (r < 0)
		*ret_error = r;
	return hash_xxh3(s.p, s.len);
}

static uint64_t labels_digest(struct view *v, uint32_t set, int *ret_error)
{
	uint64_t h = 1;

	for (uint32_t i = v->label_sets.first[set]; i < v->label_sets.first[set + 1]; i++) {
		h = hash_mix(h ^ text_hash(v, v->label_sets.pairs[i].name, ret_error));
		h = hash_mix(h ^ text_hash(v, v->label_sets.pairs[i].value, ret_error));
	}
	return h;
}

static uint64_t schema_digest(struct view *v, uint32_t schema, int *ret_error)
{
	const struct part_schema *s = &v->schemas[schema];
	uint64_t h = hash_mix(s->kind + 1ULL) ^ text_hash(v, s->period_type, ret_error);

	h = hash_mix(h) ^ text_hash(v, s->period_unit, ret_error);
	for (unsigned i = 0; i < s->n_columns; i++) {
		h = hash_mix(h) ^ text_hash(v, s->columns[i].type, ret_error);
		h = hash_mix(h) ^ text_hash(v, s->columns[i].unit, ret_error) ^ s->columns[i].kind;
	}
	return hash_mix(h);
}

/* Leaf to root over location keys, with labels and values; sums of these do not depend on the order of rows. */
static uint64_t row_digest(struct view *v, uint32_t label_set, uint32_t node, const int64_t *values,
	size_t stride, uint32_t n_values, int *ret_error)
{
	uint64_t h = label_set ? labels_digest(v, label_set, ret_error) : 1;

	for (; node; node = v->parents[node])
		h = hash_mix(h ^ v->keys[v->locations[node]]);
	for (uint32_t k = 0; k < n_values; k++)
		h = hash_mix(h ^ (uint64_t)values[k * stride]);
	return h;
}

static int stored_digest(
	struct view *v, uint64_t first_row, uint32_t n_rows, uint32_t n_values, uint64_t *ret)
{
	const struct part_page *pages;
	uint32_t n_pages = part_reader_info(v->r)->n_pages;
	uint64_t row = first_row, end = first_row + n_rows, sum = 0;
	int r = part_pages(v->r, &pages), error = 0;

	while (!r && !error && row < end) {
		uint32_t number = part_page_of(pages, n_pages, row);
		struct part_rows rows;

		r = part_rows(v->r, number, (1u << n_values) - 1, &rows);
		for (; !r && row < end && row - pages[number].first_row < rows.n_rows; row++) {
			size_t i = (size_t)(row - pages[number].first_row);
			int64_t values[STORE_MAX_COLUMNS];

			for (uint32_t k = 0; k < n_values; k++)
				values[k] = rows.values[k][i];
			sum += row_digest(v,
				rows.label_sets ? rows.label_sets[i] : rows.const_label_set,
				rows.nodes[i], values, 1, n_values, &error);
		}
	}
	*ret = sum;
	return r ? r : error;
}

static int new_digest(struct view *v, const struct duplicate_rows *rows, uint64_t *ret)
{
	uint64_t sum = 0;
	int error = 0;

	for (uint32_t i = 0; i < rows->n; i++)
		sum += row_digest(v, rows->label_set[i], rows->node[i], rows->values + i,
			rows->stride, rows->n_values, &error);
	*ret = sum;
	return error;
}

/* Compares with the profile of stream `id` at this time in part `v`, when there is one. */
static int compare_in(struct view *v, struct view *mine, uint32_t id, int64_t time_ns,
	const struct duplicate_rows *rows, enum store_duplicate *ret)
{
	struct part_profiles p;
	uint64_t a = 0, b = 0;
	int r = part_profiles(v->r, id, time_ns, time_ns, &p);

	if (r < 0 || !p.n)
		return r;
	*ret = STORE_DIFFERENT;
	if (!rows || p.n_rows[0] != rows->n)
		return 0;
	r = stored_digest(v, p.first_row[0], p.n_rows[0], rows->n_values, &a);
	r = r ? r : new_digest(mine, rows, &b);
	if (!r && a == b)
		*ret = STORE_EQUAL;
	return r;
}

static int find_in_part(struct part *p, struct view *mine, const struct dict_stream *stream,
	int64_t time_ns, const struct duplicate_rows *rows, enum store_duplicate *ret,
	struct errbuf *eb)
{
	struct view v = {.r = NULL};
	const struct part_stream *streams = NULL;
	uint64_t labels, schema;
	int error = 0, r = view_open(p, &v, eb);

	r = r ? r : part_streams(v.r, &streams);
	labels = labels_digest(mine, stream->label_set, &error);
	schema = schema_digest(mine, stream->schema, &error);
	for (uint32_t i = 0;
		!r && !error && *ret == STORE_NEW && i < part_reader_info(v.r)->n_streams; i++) {
		if (streams[i].min_time_ns > time_ns || streams[i].max_time_ns < time_ns ||
			labels_digest(&v, streams[i].label_set, &error) != labels ||
			schema_digest(&v, streams[i].schema, &error) != schema)
			continue;
		r = compare_in(&v, mine, i, time_ns, rows, ret);
	}
	part_reader_close(v.r);
	return r ? r : error;
}

/* The new rows carry ids of the head being filled, some of which are not published: read straight from its dictionaries. */
static void view_own(struct head *h, struct part_reader *r, struct view *v)
{
	const struct dict *d = &h->dict;

	r->info.n_strings = (uint32_t)d->strings.n;
	*v = (struct view) {
		.r = r,
		.parents = dict_parents(d),
		.locations = dict_node_locations(d),
		.keys = dict_keys(d),
		.label_sets = {.first = dict_label_first(d), .pairs = dict_label_pairs(d)},
		.schemas = dict_schemas(d),
	};
}

static int find_in_parts(struct store *s, struct head *h, struct view *mine, uint32_t stream,
	int64_t time_ns, const struct duplicate_rows *rows, enum store_duplicate *ret,
	struct errbuf *eb)
{
	struct store_parts parts = {.n = 0};
	int r = store_parts_get(s, time_ns, time_ns, &parts);

	for (size_t i = 0; !r && i < parts.n && *ret == STORE_NEW; i++) {
		if (parts.items[i] == &h->part)
			continue;
		r = find_in_part(parts.items[i], mine, &dict_streams(&h->dict)[stream], time_ns,
			rows, ret, eb);
		/* A damaged block is the quarantine's business, not this scrape's. */
		if (part_is_damage(r))
			r = 0;
	}
	store_parts_put(s, &parts);
	return r;
}

/* The newest time of anything but `h`. */
static int64_t other_max_time(struct store *s, const struct head *h)
{
	int64_t max = INT64_MIN;

	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++)
		max = MAX(max, s->blocks[i]->meta.max_time_ns);
	for (size_t i = 0; i < s->n_sealed; i++)
		max = MAX(max, s->sealed[i]->published.max_time_ns);
	if (s->head && s->head != h) {
		lock_take(&s->head->lock);
		max = MAX(max, s->head->published.max_time_ns);
		lock_release(&s->head->lock);
	}
	lock_release(&s->state_lock);
	return max;
}

int store_find_elsewhere(struct store *s, struct head *h, uint32_t stream, int64_t time_ns,
	const struct duplicate_rows *rows, enum store_duplicate *ret, struct errbuf *eb)
{
	_cleanup_part_reader_ struct part_reader *reader = NULL;
	struct view mine;
	int r;

	*ret = STORE_NEW;
	if (time_ns > other_max_time(s, h))
		return 0;
	r = part_reader_open(&h->part, NULL, &reader, eb);
	if (r < 0)
		return r;
	view_own(h, reader, &mine);
	return find_in_parts(s, h, &mine, stream, time_ns, rows, ret, eb);
}

int store_find_duplicate(struct store *s, struct head *h, uint32_t stream, int64_t time_ns,
	const struct duplicate_rows *rows, enum store_duplicate *ret, struct errbuf *eb)
{
	_cleanup_part_reader_ struct part_reader *reader = NULL;
	struct view mine;
	int r;

	if (head_find_profile(h, stream, time_ns) == STORE_NONE)
		return store_find_elsewhere(s, h, stream, time_ns, rows, ret, eb);
	*ret = STORE_NEW;
	r = part_reader_open(&h->part, NULL, &reader, eb);
	if (r < 0)
		return r;
	view_own(h, reader, &mine);
	return compare_in(&mine, &mine, stream, time_ns, rows, ret);
}
