/* SPDX-License-Identifier: Apache-2.0
 *
 * Label sets, schemas and streams of the result, and which label set rows of rollups carry in place of each.
 */
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "scraper/store/block/stream_order.h"
#include "scraper/store/block/table_writer.h"
#include "scraper/store/compact/compact_impl.h"
#include <string.h>

/* A label set of an input, whole or reduced, in strings of the result. */
struct set {
	uint64_t key;
	const struct part_label *pairs;
	uint32_t n, input, id;
	bool is_reduced;
};

static int compare_u32(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

/* Strings of labels are sorted bytewise, so ids compare as text. */
static int compare_pairs(
	const struct part_label *a, uint32_t n_a, const struct part_label *b, uint32_t n_b)
{
	for (uint32_t i = 0; i < n_a && i < n_b; i++) {
		int r = compare_u32(a[i].name, b[i].name);

		r = r ? r : compare_u32(a[i].value, b[i].value);
		if (r)
			return r;
	}
	return compare_u32(n_a, n_b);
}

static int by_set(const void *a, const void *b)
{
	const struct set *x = a, *y = b;

	if (!x->n || !y->n)
		return compare_u32(x->n != 0, y->n != 0); /* {} is first */
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return compare_pairs(x->pairs, x->n, y->pairs, y->n);
}

static void put_text(struct bytes *b, const struct prof_str *s)
{
	bytes_put_varint(b, s->len);
	bytes_put(b, s->p, s->len);
}

static uint64_t key_of(const struct compaction *c, const struct part_label *pairs, uint32_t n,
	struct bytes *scratch)
{
	bytes_reset(scratch);
	bytes_put_varint(scratch, n);
	for (uint32_t i = 0; i < n; i++) {
		put_text(scratch, &c->label_texts[pairs[i].name]);
		put_text(scratch, &c->label_texts[pairs[i].value]);
	}
	return hash_xxh3(scratch->data, scratch->len);
}

static bool is_without(const struct compaction *c, uint32_t name)
{
	const struct prof_str *s = &c->label_texts[name];

	for (size_t i = 0; i < c->o->n_without; i++)
		if (strlen(c->o->without[i]) == s->len && !memcmp(c->o->without[i], s->p, s->len))
			return true;
	return false;
}

struct sets {
	struct set *items;
	size_t n, cap;
	struct bytes scratch;
};

static int add_set(struct compaction *c, struct sets *all, uint32_t input, uint32_t id, bool reduce)
{
	const struct compact_input *in = &c->inputs[input];
	const struct part_label *from = in->sets.pairs + in->sets.first[id];
	uint32_t n = in->sets.first[id + 1] - in->sets.first[id], k = 0;
	struct part_label *pairs = arena_alloc_array(&c->arena, n + 1UL, sizeof(*pairs));
	int r = arena_error(&c->arena, c->eb);

	r = r ? r
	      : alloc_grow_in(
			c->budget, &all->items, &all->cap, all->n + 1, sizeof(*all->items), c->eb);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		struct part_label l = {
			.name = in->strings[from[i].name], .value = in->strings[from[i].value]};

		if (l.name >= c->n_label_strings || l.value >= c->n_label_strings)
			return err_set(c->eb, -EBADMSG,
				"%s: label set %u uses a string that is no label's", in->b->dir,
				id);
		if (!reduce || !is_without(c, l.name))
			pairs[k++] = l;
	}
	all->items[all->n++] = (struct set) {.key = key_of(c, pairs, k, &all->scratch),
		.pairs = pairs,
		.n = k,
		.input = input,
		.id = id,
		.is_reduced = reduce};
	return bytes_error(&all->scratch);
}

static int gather_sets(struct compaction *c, struct sets *all)
{
	int r = 0;

	for (uint32_t input = 0; !r && input < c->n; input++) {
		struct compact_input *in = &c->inputs[input];

		r = compact_map(c, &in->set_ids, in->info->n_label_sets);
		for (uint32_t i = 0; !r && i < in->info->n_label_sets; i++) {
			if (bitmap_has(&in->has_sets, i))
				r = add_set(c, all, input, i, false);
			if (!r && bitmap_has(&in->has_row_sets, i))
				r = add_set(c, all, input, i, true);
		}
	}
	return r;
}

/* Numbers the sorted sets, writes each once. */
static void number_sets(struct compaction *c, const struct sets *all, struct table_writer *t)
{
	uint32_t next = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct set *s = &all->items[i];

		if (!i || by_set(s - 1, s) != 0) {
			table_writer_label_set(t, s->pairs, s->n);
			next++;
		}
		if (!s->is_reduced)
			c->inputs[s->input].set_ids[s->id] = next - 1;
	}
	c->meta.stats.label_sets = next;
}

static int number_reduced(struct compaction *c, const struct sets *all)
{
	uint32_t next = 0;

	c->reduced_set = arena_alloc_array(
		&c->arena, (size_t)c->meta.stats.label_sets + 1, sizeof(*c->reduced_set));
	if (!c->reduced_set)
		return arena_error(&c->arena, c->eb);
	for (size_t i = 0; i < all->n; i++) {
		const struct set *s = &all->items[i];

		next += !i || by_set(s - 1, s) != 0;
		if (s->is_reduced)
			c->reduced_set[c->inputs[s->input].set_ids[s->id]] = next - 1;
	}
	return 0;
}

int compact_labels_sets(struct compaction *c, struct frame_writer *w)
{
	_cleanup_(table_writer_done)
	struct table_writer t = {.w = w};
	struct sets all = {.n = 0};
	int r = gather_sets(c, &all);

	r = r ? r : table_writer_begin(&t, w, TABLE_LABEL_SETS);
	if (!r) {
		qsort(all.items, all.n, sizeof(*all.items), by_set);
		number_sets(c, &all, &t);
		table_writer_end(&t);
		r = number_reduced(c, &all);
	}
	alloc_free_in(c->budget, &all.items, &all.cap, sizeof(*all.items));
	bytes_done(&all.scratch);
	return r;
}

/* ---- schemas ---- */

static int compare_schema(const struct part_schema *x, const struct part_schema *y)
{
	int r = compare_u32(x->kind, y->kind);

	r = r ? r : compare_u32(x->period_type, y->period_type);
	r = r ? r : compare_u32(x->period_unit, y->period_unit);
	r = r ? r : compare_u32(x->n_columns, y->n_columns);
	for (unsigned i = 0; !r && i < x->n_columns; i++) {
		r = compare_u32(x->columns[i].type, y->columns[i].type);
		r = r ? r : compare_u32(x->columns[i].unit, y->columns[i].unit);
		r = r ? r : compare_u32(x->columns[i].kind, y->columns[i].kind);
	}
	return r;
}

struct schema {
	struct part_schema s;
	uint32_t input, id;
};

static int by_schema(const void *a, const void *b)
{
	return compare_schema(&((const struct schema *)a)->s, &((const struct schema *)b)->s);
}

static struct part_schema translate_schema(const struct compact_input *in, uint32_t id)
{
	struct part_schema s = in->schemas[id];

	s.period_type = in->strings[s.period_type];
	s.period_unit = in->strings[s.period_unit];
	for (unsigned i = 0; i < s.n_columns; i++) {
		s.columns[i].type = in->strings[s.columns[i].type];
		s.columns[i].unit = in->strings[s.columns[i].unit];
	}
	return s;
}

static int make_schemas(struct compaction *c)
{
	_cleanup_free_ struct schema *all = NULL;
	size_t n = 0, cap = 0;
	uint32_t next = 0;
	int r = 0;

	for (uint32_t input = 0; !r && input < c->n; input++) {
		struct compact_input *in = &c->inputs[input];

		r = compact_map(c, &in->schema_ids, in->info->n_schemas);
		r = r ? r : alloc_grow(&all, &cap, n + in->info->n_schemas + 1, sizeof(*all));
		for (uint32_t i = 0; !r && i < in->info->n_schemas; i++)
			if (bitmap_has(&in->has_schemas, i))
				all[n++] = (struct schema) {
					.s = translate_schema(in, i), .input = input, .id = i};
	}
	c->schemas = r ? NULL : arena_alloc_array(&c->arena, n + 1, sizeof(*c->schemas));
	r = r ? r : arena_error(&c->arena, c->eb);
	if (r < 0)
		return r;
	if (n)
		qsort(all, n, sizeof(*all), by_schema);
	for (size_t i = 0; i < n; i++) {
		if (!i || by_schema(&all[i - 1], &all[i]) != 0)
			c->schemas[next++] = all[i].s;
		c->inputs[all[i].input].schema_ids[all[i].id] = next - 1;
	}
	c->meta.stats.schemas = next;
	return 0;
}

/* ---- streams ---- */

struct sort_streams {
	const struct compaction *c;
};

static int by_stream(const void *a, const void *b, void *arg)
{
	const struct sort_streams *s = arg;
	const struct compact_stream *x = a, *y = b;
	const struct compact_input *p = &s->c->inputs[x->input], *q = &s->c->inputs[y->input];
	uint32_t set_x, set_y, at = 0;
	int r = compare_u32(x->schema, y->schema);

	if (r || x->label_set == y->label_set)
		return r;
	r = stream_leads_compare(x->leads, y->leads);
	if (r)
		return r;
	/* As text: the pairs of the inputs in strings of the result. */
	set_x = p->streams[x->stream].label_set;
	set_y = q->streams[y->stream].label_set;
	for (;; at++) {
		uint32_t i = p->sets.first[set_x] + at, k = q->sets.first[set_y] + at;
		bool end_x = i >= p->sets.first[set_x + 1], end_y = k >= q->sets.first[set_y + 1];

		if (end_x || end_y)
			return (int)end_y - (int)end_x;
		r = compare_u32(
			p->strings[p->sets.pairs[i].name], q->strings[q->sets.pairs[k].name]);
		r = r ? r
		      : compare_u32(p->strings[p->sets.pairs[i].value],
				q->strings[q->sets.pairs[k].value]);
		if (r)
			return r;
	}
}

static void find_leads(const struct compaction *c, struct compact_stream *s)
{
	const struct compact_input *in = &c->inputs[s->input];
	uint32_t set = in->streams[s->stream].label_set;

	for (uint32_t i = in->sets.first[set]; i < in->sets.first[set + 1]; i++) {
		const struct part_label *l = &in->sets.pairs[i];
		unsigned lead = stream_lead_of(&c->label_texts[in->strings[l->name]]);

		if (lead < STREAM_LEADS)
			s->leads[lead] = in->strings[l->value];
	}
}

/* Each input is read in the order of the result: that of its own, unless an earlier version wrote it. */
static int order_inputs(struct compaction *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct compact_input *in = &c->inputs[i];

		in->order =
			arena_alloc_array(&c->arena, in->info->n_streams + 1UL, sizeof(*in->order));
		if (!in->order)
			return arena_error(&c->arena, c->eb);
	}
	for (size_t i = 0; i < c->n_streams_in; i++) {
		struct compact_input *in = &c->inputs[c->streams[i].input];

		in->order[in->n_order++] = c->streams[i].stream;
	}
	return 0;
}

int compact_labels_streams(struct compaction *c)
{
	struct sort_streams arg = {.c = c};
	int r = make_schemas(c);

	c->streams = arena_alloc_array(&c->arena, c->n_streams_used + 1, sizeof(*c->streams));
	r = r ? r : arena_error(&c->arena, c->eb);
	for (uint32_t input = 0; !r && input < c->n; input++) {
		struct compact_input *in = &c->inputs[input];

		r = compact_map(c, &in->stream_ids, in->info->n_streams);
		for (uint32_t i = 0; !r && i < in->info->n_streams; i++) {
			struct compact_stream *s = &c->streams[c->n_streams_in];

			if (!bitmap_has(&in->has_streams, i))
				continue;
			*s = (struct compact_stream) {
				.schema = in->schema_ids[in->streams[i].schema],
				.label_set = in->set_ids[in->streams[i].label_set],
				.input = input,
				.stream = i};
			find_leads(c, s);
			c->n_streams_in++;
		}
	}
	if (r < 0)
		return r;
	qsort_r(c->streams, c->n_streams_in, sizeof(*c->streams), by_stream, &arg);
	for (size_t i = 0; i < c->n_streams_in; i++) {
		const struct compact_stream *s = &c->streams[i];

		if (!i || s[-1].schema != s->schema || s[-1].label_set != s->label_set)
			c->n_streams++;
		c->inputs[s->input].stream_ids[s->stream] = c->n_streams - 1;
	}
	c->meta.stats.streams = c->n_streams;
	return order_inputs(c);
}
