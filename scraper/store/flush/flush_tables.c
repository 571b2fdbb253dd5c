/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionaries of a block: index, symbols and stacks.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/block.h"
#include "scraper/store/block/table_writer.h"
#include "scraper/store/flush/flush_impl.h"
#include <string.h>

static int put_strings(struct frame_writer *w, const struct dict *d, const struct order *o)
{
	_cleanup_(table_writer_strings_done)
	struct string_writer t;
	int r = table_writer_strings_begin(&t, w);

	for (uint32_t i = 0; !r && i < o->n; i++)
		table_writer_string(&t, &dict_strings(d)[o->old_id[i]]);
	return r ? r : table_writer_strings_end(&t);
}

static int put_functions(struct frame_writer *w, const struct dict *d, const struct flush_order *o)
{
	_cleanup_(table_writer_done)
	struct table_writer b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_FUNCTIONS];
	int r = table_writer_begin(&b, w, TABLE_FUNCTIONS);

	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct part_function *f = &dict_functions(d)[order->old_id[i]];

		table_writer_function(&b, &(struct part_function) {.name = strings[f->name],
						  .system_name = strings[f->system_name],
						  .filename = strings[f->filename],
						  .start_line = f->start_line});
	}
	if (!r)
		table_writer_end(&b);
	return r;
}

static int put_mappings(struct frame_writer *w, const struct dict *d, const struct flush_order *o)
{
	_cleanup_(table_writer_done)
	struct table_writer b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_MAPPINGS];
	int r = table_writer_begin(&b, w, TABLE_MAPPINGS);

	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct part_mapping *m = &dict_mappings(d)[order->old_id[i]];

		table_writer_mapping(&b, &(struct part_mapping) {.filename = strings[m->filename],
						 .build_id = strings[m->build_id],
						 .kind = m->kind});
	}
	if (!r)
		table_writer_end(&b);
	return r;
}

static int put_locations(struct frame_writer *w, const struct dict *d, const struct flush_order *o)
{
	_cleanup_(table_writer_done)
	struct table_writer b;
	const uint32_t *mappings = o->of[DICT_MAPPINGS].new_id,
		       *functions = o->of[DICT_FUNCTIONS].new_id;
	const struct order *order = &o->of[DICT_LOCATIONS];
	int r = table_writer_begin(&b, w, TABLE_LOCATIONS);

	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct dict_location *l = &dict_locations(d)[order->old_id[i]];
		struct part_line lines[PART_MAX_LINES];

		for (uint32_t k = 0; k < l->n_lines; k++) {
			lines[k] = dict_lines(d)[l->first_line + k];
			lines[k].function = functions[lines[k].function];
		}
		table_writer_location(
			&b, &(struct part_location) {.mapping = l->mapping == STORE_NONE
									? STORE_NONE
									: mappings[l->mapping],
				    .flags = l->flags,
				    .address = l->address,
				    .n_lines = l->n_lines,
				    .lines = lines});
	}
	if (!r)
		table_writer_end(&b);
	return r;
}

static int put_keys(struct frame_writer *w, const struct dict *d, const struct order *order)
{
	_cleanup_free_ uint64_t *keys = try_realloc(NULL, order->n, sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < order->n; i++)
		keys[i] = dict_keys(d)[order->old_id[i]];
	table_writer_keys(w, keys, order->n);
	return 0;
}

static int put_label_sets(struct frame_writer *w, const struct dict *d, const struct flush_order *o)
{
	_cleanup_(table_writer_done)
	struct table_writer b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_LABEL_SETS];
	int r = table_writer_begin(&b, w, TABLE_LABEL_SETS);

	for (uint32_t i = 0; !r && i < order->n; i++) {
		const uint32_t *first = dict_label_first(d) + order->old_id[i];
		struct part_label pairs[PART_MAX_PAIRS];

		for (uint32_t k = first[0]; k < first[1]; k++)
			pairs[k - first[0]] =
				(struct part_label) {.name = strings[dict_label_pairs(d)[k].name],
					.value = strings[dict_label_pairs(d)[k].value]};
		table_writer_label_set(&b, pairs, first[1] - first[0]);
	}
	if (!r)
		table_writer_end(&b);
	return r;
}

static int open_file(struct frame_writer *w, struct fs *fs, const char *dir, enum frame_file f,
	struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, frame_file_name(f));
	int r = frame_writer_open(w, fs, path, f);

	return r < 0 ? err_set(eb, r, "%s: %s", path, strerror(-r)) : 0;
}

int flush_symbols(struct fs *fs, const char *dir, const struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w;
	int r = open_file(&w, fs, dir, FRAME_SYMBOLS, eb);

	if (r < 0)
		return r;
	page_writer_level(w.pages, FRAME_LEVEL_NAMES);
	r = put_strings(&w, &h->dict, &o->of[DICT_STRINGS]);
	r = r ? r : put_functions(&w, &h->dict, o);
	r = r ? r : put_mappings(&w, &h->dict, o);
	r = r ? r : put_locations(&w, &h->dict, o);
	r = r ? r : put_keys(&w, &h->dict, &o->of[DICT_LOCATIONS]);
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

static int put_nodes(struct frame_writer *w, const struct dict *d, const struct flush_order *o)
{
	const struct order *order = &o->of[DICT_NODES];
	const uint32_t *new_location = o->of[DICT_LOCATIONS].new_id;
	_cleanup_free_ struct node_writer *p = try_malloc(sizeof(*p));
	int r = p ? 0 : -ENOMEM;

	if (!r)
		table_writer_nodes_begin(p, w);
	for (uint32_t i = 0; !r && i < order->n; i++) {
		uint32_t old = order->old_id[i], depth = i ? p->depth + 1 : 0;
		uint32_t parent = order->new_id[dict_parents(d)[old]];

		while (depth && p->node_at[depth - 1] != parent)
			depth--;
		r = table_writer_node(p, depth, i ? new_location[dict_node_locations(d)[old]] : 0);
	}
	if (!r)
		table_writer_nodes_end(p);
	return r;
}

int flush_stacks(struct fs *fs, const char *dir, const struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb)
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

static int put_schemas(struct frame_writer *w, const struct dict *d, const struct flush_order *o)
{
	_cleanup_(table_writer_done)
	struct table_writer b;
	const uint32_t *strings = o->of[DICT_STRINGS].new_id;
	const struct order *order = &o->of[DICT_SCHEMAS];
	int r = table_writer_begin(&b, w, TABLE_SCHEMAS);

	for (uint32_t i = 0; !r && i < order->n; i++) {
		struct part_schema s = dict_schemas(d)[order->old_id[i]];

		s.period_type = strings[s.period_type];
		s.period_unit = strings[s.period_unit];
		for (unsigned k = 0; k < s.n_columns; k++) {
			s.columns[k].type = strings[s.columns[k].type];
			s.columns[k].unit = strings[s.columns[k].unit];
		}
		table_writer_schema(&b, &s);
	}
	if (!r)
		table_writer_end(&b);
	return r;
}

static int put_streams(struct frame_writer *w, const struct head *h, const struct flush_order *o)
{
	_cleanup_(table_writer_done)
	struct table_writer b;
	const struct order *order = &o->of[DICT_STREAMS];
	int r = table_writer_begin(&b, w, TABLE_STREAMS);

	for (uint32_t i = 0; !r && i < order->n; i++) {
		const struct dict_stream *s = &dict_streams(&h->dict)[order->old_id[i]];
		const struct head_stream *have = &head_streams(h)[order->old_id[i]];

		table_writer_stream(
			&b, &(struct part_stream) {
				    .schema = o->of[DICT_SCHEMAS].new_id[s->schema],
				    .label_set = o->of[DICT_LABEL_SETS].new_id[s->label_set],
				    .n_profiles = have->n_profiles,
				    .min_time_ns = have->min_time_ns,
				    .max_time_ns = have->max_time_ns,
				    .max_duration_ns = have->max_duration_ns,
			    });
	}
	if (!r)
		table_writer_end(&b);
	return r;
}

int flush_index(struct fs *fs, const char *dir, const struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb)
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
