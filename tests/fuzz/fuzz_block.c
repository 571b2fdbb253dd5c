/* SPDX-License-Identifier: Apache-2.0
 *
 * A block whose tables are not what a writer makes: the five files stand back to back in the input, each behind a u16 length; checksums
 * and meta.json's sizes are made to fit, so that what lies behind them is reached.
 */
#include "lib/base/cursor.h"
#include "scraper/store/block/block.h"
#include "scraper/store/compact/compact.h"
#include "scraper/store/part/dump.h"
#include "tests/crash/simfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* CRCs of pages, page tables and the section table are recomputed where they lie inside the file. */
static void mend_sections(uint8_t *p, size_t size, size_t table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t *e = p + table + i * FRAME_ENTRY;
		uint64_t off = get32(e + 8), len = get32(e + 16);

		if (off > size || len > size - off)
			continue;
		if (i && get32(e) % 2) {
			uint64_t base = get32(e - FRAME_ENTRY + 8);

			for (uint64_t at = 0; at + PAGE_ENTRY <= len; at += PAGE_ENTRY) {
				uint8_t *page = p + off + at;
				uint64_t from = base + get32(page), bytes = get32(page + 8);

				if (from <= size && bytes <= size - from)
					put32(page + 20, hash_crc32c(0, p + from, (size_t)bytes));
			}
		}
		put32(e + 4, hash_crc32c(0, p + off, (size_t)len));
	}
}

static uint32_t mend(uint8_t *p, size_t size)
{
	uint32_t n, crc;
	size_t table;

	if (size < FRAME_HEADER + FRAME_TRAILER)
		return 0;
	n = get32(p + size - FRAME_TRAILER);
	if (n > FRAME_MAX_SECTIONS || size < FRAME_HEADER + FRAME_TRAILER + n * FRAME_ENTRY)
		return 0;
	table = size - FRAME_TRAILER - n * FRAME_ENTRY;
	mend_sections(p, size, table, n);
	crc = hash_crc32c(0, p + table, n * FRAME_ENTRY + 4);
	put32(p + size - FRAME_TRAILER + 4, crc);
	return crc;
}

static uint64_t table_rows(const uint8_t *p, size_t size, uint32_t table)
{
	uint32_t n = size < FRAME_TRAILER ? 0 : get32(p + size - FRAME_TRAILER);
	uint64_t rows = 0;

	if (n > FRAME_MAX_SECTIONS || size < FRAME_TRAILER + n * FRAME_ENTRY)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *e = p + size - FRAME_TRAILER - (n - i) * FRAME_ENTRY;
		uint64_t off = get32(e + 8), len = get32(e + 16);

		if (get32(e) != table * 2 + 1 || off > size || len > size - off)
			continue;
		for (uint64_t at = 0; at + PAGE_ENTRY <= len; at += PAGE_ENTRY)
			rows += get32(p + off + at + 12);
	}
	return rows;
}

static uint64_t table_pages(const uint8_t *p, size_t size, uint32_t table)
{
	uint32_t n = size < FRAME_TRAILER ? 0 : get32(p + size - FRAME_TRAILER);

	for (uint32_t i = 0;
		n <= FRAME_MAX_SECTIONS && size >= FRAME_TRAILER + n * FRAME_ENTRY && i < n; i++) {
		const uint8_t *e = p + size - FRAME_TRAILER - (n - i) * FRAME_ENTRY;

		if (get32(e) == table * 2 + 1)
			return get32(e + 16) / PAGE_ENTRY;
	}
	return 0;
}

static void write_block(struct simfs *fs, struct cursor *c, const char *dir)
{
	struct meta m = {.ulid = {1}, .level = 1, .max_time_ns = INT64_MAX};
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	uint64_t rows[TABLE_N] = {0};
	char path[128];
	int r = fs->fs.mkdir(&fs->fs, dir, 0700);

	for (enum frame_file f = FRAME_INDEX; !r && f < FRAME_N; f++) {
		size_t said = cursor_u16(c), n = MIN(said, cursor_left(c));
		const uint8_t *from = cursor_take(c, n);
		uint8_t *copy = xmalloc(n);

		if (n)
			memcpy(copy, from, n);
		m.files[f].size = n;
		m.files[f].table_crc = mend(copy, n);
		for (uint32_t t = 1; t < TABLE_N; t++)
			if (frame_file_of(t) == f)
				rows[t] = table_rows(copy, n, t);
		if (f == FRAME_ROWS)
			m.stats.row_pages = table_pages(copy, n, TABLE_ROWS);
		snprintf(path, sizeof(path), "%s/%s", dir, frame_file_name(f));
		r = fs_write_file(&fs->fs, path, copy, n, 0600, NULL);
		free(copy);
	}
	m.stats.schemas = rows[TABLE_SCHEMAS];
	m.stats.streams = rows[TABLE_STREAMS];
	m.stats.strings = rows[TABLE_STRINGS];
	m.stats.functions = rows[TABLE_FUNCTIONS];
	m.stats.mappings = rows[TABLE_MAPPINGS];
	m.stats.locations = rows[TABLE_LOCATIONS];
	m.stats.label_sets = rows[TABLE_LABEL_SETS];
	m.stats.nodes = rows[TABLE_NODES];
	m.stats.profiles = rows[TABLE_PROFILES];
	m.stats.rows = rows[TABLE_ROWS];
	r = r ? r : meta_write(&m, &text);
	snprintf(path, sizeof(path), "%s/meta.json", dir);
	r = r ? r : fs_write_file(&fs->fs, path, text.data, text.len, 0600, NULL);
	ASSERT(!r);
}

/* What can be compacted is a block again, and one that can be read. */
static void compact(struct simfs *fs, struct cache *cache, struct block *b, struct budget *budget)
{
	static const char *const without[] = {"pid", "tid"};
	struct compact_options o = {.fs = &fs->fs,
		.dir = "/",
		.ulid = {2},
		.inputs = &b,
		.n_inputs = 1,
		.level = 2,
		.rollups = true,
		.keep_all = true,
		.without = without,
		.n_without = ARRAY_SIZE(without),
		.budget = budget};
	struct errbuf eb = {.text = ""};
	struct block *written = NULL;
	struct dump_counts counts;
	char text[ULID_TEXT], dir[64];

	if (compact_write(&o, &eb) < 0)
		return;
	ulid_format(o.ulid, text);
	snprintf(dir, sizeof(dir), "/%s", text);
	if (block_commit(&fs->fs, "/", o.ulid, &eb) < 0 ||
		block_open(&fs->fs, cache, dir, 2, &written, &eb) < 0 ||
		block_verify(written, &eb) < 0)
		err_panic("what was compacted cannot be opened: %s", eb.text);
	for (enum part_resolution u = PART_RAW; u <= PART_1H; u++) {
		_cleanup_part_reader_ struct part_reader *r = NULL;

		if (part_reader_open_at(&written->part, u, budget, &r, &eb) == 0 &&
			dump_check(r, &counts) == -EBADMSG)
			err_panic("what was compacted is damaged: %s", part_reader_error(r));
	}
	part_put(&written->part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t ulid[ULID_BYTES] = {1};
	struct cursor c = cursor_of(data, size);
	struct cache *cache = cache_new(1 << 20, NULL);
	struct errbuf eb = {.text = ""};
	struct budget budget;
	struct block *b = NULL;
	char text[ULID_TEXT], dir[64];
	struct simfs fs;

	budget_init(&budget, NULL, "fuzz", NULL, 64 << 20);
	simfs_init(&fs, 1);
	ulid_format(ulid, text);
	snprintf(dir, sizeof(dir), "/%s", text);
	write_block(&fs, &c, dir);
	if (block_open(&fs.fs, cache, dir, 1, &b, &eb) == 0) {
		struct dump_options o = {.rows = true};
		struct part_reader *r = NULL;
		struct dump_counts counts;
		struct bytes out;
		int e;

		bytes_init(&out, NULL, 16 << 20);
		e = part_reader_open(&b->part, &budget, &r, &eb);
		e = e ? e : dump_check(r, &counts);
		e = e ? e : dump_part(r, &o, &out);
		part_reader_close(r);
		bytes_done(&out);
		compact(&fs, cache, b, &budget);
		part_put(&b->part);
	}
	cache_free(cache);
	simfs_done(&fs);
	return 0;
}
