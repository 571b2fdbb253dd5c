/* SPDX-License-Identifier: Apache-2.0
 *
 * One compaction from its inputs to a complete directory.
 */
#include "scraper/store/compact/compact.h"
#include "lib/base/alloc.h"
#include "scraper/store/block/table_writer.h"
#include "scraper/store/compact/compact_impl.h"
#include <string.h>

static void compaction_done(struct compaction *c)
{
	for (size_t i = 0; i < c->n; i++)
		compact_input_close(&c->inputs[i]);
	free(c->tmp);
	meta_done(&c->meta);
	arena_done(&c->arena);
	budget_release(c->budget, c->fixed_bytes);
}

int compact_open_file(struct compaction *c, struct frame_writer *w, enum frame_file f)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", c->tmp, frame_file_name(f));
	int r = frame_writer_open(w, c->o->fs, path, f);

	if (r < 0)
		return err_set(c->eb, r, "%s: %s", path, strerror(-r));
	page_writer_level(
		w->pages, f == FRAME_SYMBOLS ? FRAME_LEVEL_COMPACTED_NAMES : FRAME_LEVEL_COMPACTED);
	return 0;
}

static int open_inputs(struct compaction *c)
{
	int r = 0;

	for (size_t i = 0; !r && i < c->o->n_inputs; i++) {
		c->n = i + 1;
		r = compact_input_open(c, &c->inputs[i], c->o->inputs[i]);
		r = r ? r : compact_input_mark(c, &c->inputs[i]);
	}
	for (size_t i = 0; !r && i < c->n; i++)
		for (uint32_t s = 0; s < c->inputs[i].info->n_streams; s++)
			c->n_streams_used += bitmap_has(&c->inputs[i].has_streams, s);
	return r ? r : c->n_streams_used ? 0 : -ENODATA;
}

/* Once, and while there is room. */
static void add_ulid(struct meta_ulids *u, const uint8_t ulid[ULID_BYTES])
{
	for (size_t i = 0; i < u->n; i++)
		if (!memcmp(u->items[i], ulid, ULID_BYTES))
			return;
	if (u->n < META_MAX_ULIDS)
		memcpy(u->items[u->n++], ulid, ULID_BYTES);
}

/* The union of the generations. Their WAL is gone by now, so the oldest may go where there are too many. */
static void fill_meta(struct compaction *c)
{
	struct meta *m = &c->meta;

	memcpy(m->ulid, c->o->ulid, ULID_BYTES);
	m->level = c->o->level;
	m->replaces.items = xcalloc(META_MAX_ULIDS, ULID_BYTES);
	m->generations.items = xcalloc(META_MAX_ULIDS, ULID_BYTES);
	for (size_t i = c->n; i--;) {
		const struct meta *from = &c->inputs[i].b->meta;

		add_ulid(&m->replaces, from->ulid);
		for (size_t k = from->generations.n; k--;)
			add_ulid(&m->generations, from->generations.items[k]);
	}
	/* What the inputs replaced too: one that could not be removed then must not come back when they are gone. */
	for (size_t i = c->n; i--;)
		for (size_t k = 0; k < c->inputs[i].b->meta.replaces.n; k++)
			add_ulid(&m->replaces, c->inputs[i].b->meta.replaces.items[k]);
	meta_names_set(&m->rollup_without, c->o->without, c->o->n_without);
}

static int write_index(struct compaction *c, const struct part_stream *streams)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w = {.fd = -1};
	_cleanup_(table_writer_done)
	struct table_writer schemas = {.w = &w}, all = {.w = &w};
	int r = compact_open_file(c, &w, FRAME_INDEX);

	r = r ? r : table_writer_begin(&schemas, &w, TABLE_SCHEMAS);
	for (uint32_t i = 0; !r && i < c->meta.stats.schemas; i++)
		table_writer_schema(&schemas, &c->schemas[i]);
	if (!r)
		table_writer_end(&schemas);
	r = r ? r : table_writer_begin(&all, &w, TABLE_STREAMS);
	for (uint32_t i = 0; !r && i < c->n_streams; i++)
		table_writer_stream(&all, &streams[i]);
	if (!r)
		table_writer_end(&all);
	return r ? r : block_finish_file(&w, FRAME_INDEX, &c->meta, c->eb);
}

static int write_files(struct compaction *c)
{
	struct part_stream *streams;
	int r = compact_symbols(c);

	r = r ? r : compact_labels_streams(c);
	r = r ? r : compact_nodes(c);
	streams = arena_alloc_array(&c->arena, c->n_streams + 1UL, sizeof(*streams));
	r = r ? r : arena_error(&c->arena, c->eb);
	r = r ? r : compact_rows(c, streams);
	r = r ? r : write_index(c, streams);
	r = r ? r : block_write_meta(c->o->fs, c->tmp, &c->meta, c->eb);
	return r ? r : c->o->fs->sync_dir(c->o->fs, c->tmp);
}

static int charge_fixed(struct compaction *c)
{
	uint64_t bytes = COMPACT_FIXED_BYTES + c->o->n_inputs * (uint64_t)COMPACT_INPUT_BYTES;
	int r = c->budget ? budget_charge(c->budget, bytes, c->eb) : 0;

	if (!r)
		c->fixed_bytes = bytes;
	return r;
}

int compact_write(const struct compact_options *o, struct errbuf *eb)
{
	_cleanup_free_ struct compaction *c = xcalloc(1, sizeof(*c));
	struct errbuf local = {.text = ""};
	int r;

	ASSERT(o->n_inputs && o->n_inputs <= COMPACT_MAX_INPUTS);
	c->o = o;
	c->eb = &local;
	c->tmp = block_path(o->dir, o->ulid, ".tmp");
	c->budget = o->budget;
	arena_init(&c->arena, o->budget);
	r = charge_fixed(c);
	r = r ? r : open_inputs(c);
	if (!r) {
		fill_meta(c);
		r = o->fs->mkdir(o->fs, c->tmp, 0750);
		if (!r)
			r = write_files(c);
		if (r < 0)
			block_discard(o->fs, o->dir, o->ulid);
	}
	if (r == -ENOMEM && c->budget && !local.text[0])
		r = err_set(&local, r, "out of memory, or of what %s allows", c->budget->flag);
	if (r < 0 && r != -ENODATA)
		r = err_set(eb, r, "%s: %s", c->tmp, err_text(&local, r));
	compaction_done(c);
	return r;
}
