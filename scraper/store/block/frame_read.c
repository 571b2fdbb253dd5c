/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the files of a block. Files are opened per read: a page costs 100 µs to decode and 2 µs
 * to open, and hundreds of blocks then need no descriptors.
 */
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "scraper/store/block/frame.h"
#include <fcntl.h>
#include <inttypes.h>

static const char *const file_names[FRAME_N] = {
	[FRAME_INDEX] = "index",
	[FRAME_SYMBOLS] = "symbols",
	[FRAME_STACKS] = "stacks",
	[FRAME_PROFILES] = "profiles",
	[FRAME_ROWS] = "rows",
	[FRAME_PROFILES_10M] = "profiles_10m",
	[FRAME_ROWS_10M] = "rows_10m",
	[FRAME_PROFILES_1H] = "profiles_1h",
	[FRAME_ROWS_1H] = "rows_1h",
};

static const struct {
	enum frame_file file;
	const char *name;
} tables[TABLE_N] = {
	[TABLE_SCHEMAS] = {FRAME_INDEX, "schemas"},
	[TABLE_STREAMS] = {FRAME_INDEX, "streams"},
	[TABLE_STRINGS] = {FRAME_SYMBOLS, "strings"},
	[TABLE_FUNCTIONS] = {FRAME_SYMBOLS, "functions"},
	[TABLE_MAPPINGS] = {FRAME_SYMBOLS, "mappings"},
	[TABLE_LOCATIONS] = {FRAME_SYMBOLS, "locations"},
	[TABLE_KEYS] = {FRAME_SYMBOLS, "location keys"},
	[TABLE_LABEL_SETS] = {FRAME_SYMBOLS, "label sets"},
	[TABLE_NODES] = {FRAME_STACKS, "nodes"},
	[TABLE_PROFILES] = {FRAME_PROFILES, "profiles"},
	[TABLE_ROWS] = {FRAME_ROWS, "rows"},
};

const char *frame_file_name(enum frame_file f)
{
	return file_names[f];
}

enum frame_file frame_file_of(enum frame_table t)
{
	return tables[t].file;
}

const char *frame_table_name(enum frame_table t)
{
	return tables[t].name;
}

/* A file of a block that is not there is damage; to callers -ENOENT would mean that there is nothing of what they asked for. */
static int open_to_read(struct fs *fs, const char *path, struct errbuf *eb)
{
	int fd = fs->open(fs, path, O_RDONLY, 0);

	return fd < 0 ? err_set(eb, fd == -ENOENT ? -EBADMSG : fd, "%s: %s", path, strerror(-fd))
		      : fd;
}

/* A file that was cut while its block is open ends early; what else fails is the disk's. */
static int read_open(struct fs *fs, const char *path, int fd, void *to, size_t n, uint64_t off,
	struct errbuf *eb)
{
	int r = fs_pread_full(fs, fd, to, n, off);
	struct fs_stat st;

	if (r < 0 && fs->fstat(fs, fd, &st) == 0 && st.size_bytes < off + n)
		return err_set(eb, -EBADMSG,
			"%s: has %" PRIu64 " bytes, at least %" PRIu64
			" expected: it was cut after the block was opened",
			path, st.size_bytes, off + n);
	return r < 0 ? err_set(eb, r, "%s: reading %zu bytes at %" PRIu64 ": %s", path, n, off,
			       strerror(-r))
		     : 0;
}

static int read_at(
	struct fs *fs, const char *path, void *to, size_t n, uint64_t off, struct errbuf *eb)
{
	int fd = open_to_read(fs, path, eb), r;

	if (fd < 0)
		return fd;
	r = read_open(fs, path, fd, to, n, off, eb);
	fs->close(fs, fd);
	return r;
}

/* Sections must follow each other from the header to the table, without gaps: then every byte is
 * covered. */
static int parse_table(const char *path, const uint8_t *p, struct frame *f, struct errbuf *eb)
{
	struct cursor c = cursor_of(p, f->n_sections * FRAME_ENTRY);
	uint64_t at = FRAME_HEADER, end = f->size - FRAME_TRAILER - f->n_sections * FRAME_ENTRY;

	for (size_t i = 0; i < f->n_sections; i++) {
		struct frame_section *s = &f->sections[i];

		s->id = cursor_u32(&c);
		s->crc = cursor_u32(&c);
		s->offset = cursor_u64(&c);
		s->length = cursor_u64(&c);
		if (s->offset != at || s->length > end - at)
			return err_set(
				eb, -EBADMSG, "%s: section %u lies outside its place", path, s->id);
		at += s->length;
	}
	return at == end ? 0 : err_set(eb, -EBADMSG, "%s: sections do not fill the file", path);
}

static int read_size(struct fs *fs, const char *path, uint64_t *ret, struct errbuf *eb)
{
	struct fs_stat st;
	int r = fs->stat(fs, path, &st);

	if (r < 0)
		return err_set(eb, r, "%s: %s", path, strerror(-r));
	*ret = st.size_bytes;
	return 0;
}

int frame_read(struct fs *fs, const char *path, enum frame_file file, uint64_t size,
	uint32_t table_crc, struct frame *ret, struct errbuf *eb)
{
	const uint8_t want[FRAME_HEADER] = {'s', 'b', 'l', 'k', (uint8_t)file, FRAME_VERSION, 0, 0};
	uint8_t header[FRAME_HEADER], trailer[FRAME_TRAILER];
	_cleanup_free_ uint8_t *table = NULL;
	struct cursor c;
	uint32_t n, crc, magic;
	size_t bytes;
	int r;

	*ret = (struct frame) {.size = 0};
	r = read_size(fs, path, &ret->size, eb);
	if (r < 0)
		return r;
	if ((size && ret->size != size) || ret->size < FRAME_HEADER + FRAME_TRAILER)
		return err_set(eb, -EBADMSG, "%s: has %" PRIu64 " bytes, %" PRIu64 " expected",
			path, ret->size, size);
	r = read_at(fs, path, header, sizeof(header), 0, eb);
	r = r ? r : read_at(fs, path, trailer, sizeof(trailer), ret->size - FRAME_TRAILER, eb);
	if (r < 0)
		return r;
	c = cursor_of(trailer, sizeof(trailer));
	n = cursor_u32(&c);
	crc = cursor_u32(&c);
	magic = cursor_u32(&c);
	if (memcmp(header, want, FRAME_HEADER) || magic != FRAME_MAGIC || n > FRAME_MAX_SECTIONS ||
		ret->size < FRAME_HEADER + FRAME_TRAILER + (uint64_t)n * FRAME_ENTRY)
		return err_set(
			eb, -EBADMSG, "%s: is not a block's file %s", path, frame_file_name(file));
	bytes = (size_t)n * FRAME_ENTRY + 4; /* with the count */
	table = try_malloc(bytes);
	if (!table)
		return err_set(eb, -ENOMEM, "%s: out of memory", path);
	r = read_at(fs, path, table, bytes, ret->size - FRAME_TRAILER - (bytes - 4), eb);
	if (r < 0)
		return r;
	if (hash_crc32c(0, table, bytes) != crc || (size && crc != table_crc))
		return err_set(eb, -EBADMSG, "%s: section table has a wrong checksum", path);
	ret->table_crc = crc;
	ret->n_sections = n;
	return parse_table(path, table, ret, eb);
}

static const struct frame_section *frame_find(const struct frame *f, uint32_t id)
{
	for (size_t i = 0; i < f->n_sections; i++)
		if (f->sections[i].id == id)
			return &f->sections[i];
	return NULL;
}

int frame_verify(struct fs *fs, const char *path, const struct frame *f, struct errbuf *eb)
{
	enum { CHUNK = 256 << 10 };
	_cleanup_free_ uint8_t *buf = try_malloc(CHUNK);
	int fd, r = 0;

	if (!buf)
		return err_set(eb, -ENOMEM, "%s: out of memory", path);
	fd = open_to_read(fs, path, eb);
	if (fd < 0)
		return fd;
	for (size_t i = 0; !r && i < f->n_sections; i++) {
		const struct frame_section *s = &f->sections[i];
		uint32_t crc = 0;

		for (uint64_t at = 0; !r && at < s->length; at += CHUNK) {
			size_t n = (size_t)MIN((uint64_t)CHUNK, s->length - at);

			r = read_open(fs, path, fd, buf, n, s->offset + at, eb);
			if (!r)
				crc = hash_crc32c(crc, buf, n);
		}
		if (!r && crc != s->crc)
			r = err_set(eb, -EBADMSG, "%s: section %u (%s) has a wrong checksum", path,
				s->id,
				s->id / 2 < TABLE_N && s->id > 1 ? tables[s->id / 2].name
								 : "unknown");
	}
	fs->close(fs, fd);
	return r;
}

static int parse_pages(const char *path, const uint8_t *p, const struct frame_section *data,
	struct frame_pages *t, struct errbuf *eb)
{
	struct cursor c = cursor_of(p, (size_t)t->n_pages * PAGE_ENTRY);
	uint64_t at = 0;

	for (uint32_t i = 0; i < t->n_pages; i++) {
		struct frame_page *e = &t->pages[i];

		e->offset = cursor_u64(&c);
		e->length = cursor_u32(&c);
		e->n_rows = cursor_u32(&c);
		e->n_columns = cursor_u16(&c);
		cursor_skip(&c, 2);
		e->crc = cursor_u32(&c);
		e->first_stream = cursor_u32(&c);
		e->last_stream = cursor_u32(&c);
		e->min_time_ns = (int64_t)cursor_u64(&c);
		e->max_time_ns = (int64_t)cursor_u64(&c);
		if (e->offset != at || e->length > data->length - at || !e->n_rows ||
			e->n_rows > PAGE_MAX_ROWS || e->n_columns > PAGE_MAX_COLUMNS ||
			e->length > PAGE_MAX_COLUMNS * (COLUMN_MAX_RAW + COLUMN_HEADER))
			return err_set(eb, -EBADMSG, "%s: page %u lies outside its place", path, i);
		at += e->length;
		e->offset += data->offset;
		e->first_row = t->n_rows;
		t->n_rows += e->n_rows;
	}
	return at == data->length
		       ? 0
		       : err_set(eb, -EBADMSG, "%s: pages do not fill their section", path);
}

int frame_read_pages(struct fs *fs, const char *path, const struct frame *f, enum frame_table t,
	struct frame_pages **ret, struct errbuf *eb)
{
	const struct frame_section *data = frame_find(f, 2 * t), *index = frame_find(f, 2 * t + 1);
	_cleanup_free_ struct frame_pages *pages = NULL;
	_cleanup_free_ uint8_t *raw = NULL;
	size_t n;
	int r;

	if (!data || !index || index->length % PAGE_ENTRY ||
		index->length / PAGE_ENTRY > UINT32_MAX / 2)
		return err_set(eb, -EBADMSG, "%s: has no table of %s", path, tables[t].name);
	n = (size_t)(index->length / PAGE_ENTRY);
	raw = try_malloc((size_t)index->length);
	pages = try_malloc(sizeof(*pages) + n * sizeof(pages->pages[0]));
	if (!raw || !pages)
		return err_set(eb, -ENOMEM, "%s: out of memory reading %zu page entries", path, n);
	*pages = (struct frame_pages) {.n_pages = (uint32_t)n};
	r = n ? read_at(fs, path, raw, (size_t)index->length, index->offset, eb) : 0;
	if (r < 0)
		return r;
	if (hash_crc32c(0, raw, (size_t)index->length) != index->crc)
		return err_set(eb, -EBADMSG, "%s: page table of %s has a wrong checksum", path,
			tables[t].name);
	r = parse_pages(path, raw, data, pages, eb);
	if (r < 0)
		return r;
	*ret = TAKE(pages);
	return 0;
}

uint32_t frame_page_of(const struct frame_pages *pages, uint64_t row)
{
	uint32_t lo = 0, hi = pages->n_pages;

	while (lo + 1 < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (pages->pages[mid].first_row <= row)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

int frame_read_page(struct fs *fs, const char *path, const struct frame_page *e, struct page **ret,
	struct errbuf *eb)
{
	return frame_read_columns(fs, path, e, UINT32_MAX, ret, eb);
}

int frame_read_columns(struct fs *fs, const char *path, const struct frame_page *e,
	uint32_t columns, struct page **ret, struct errbuf *eb)
{
	_cleanup_free_ uint8_t *raw = try_malloc(e->length);
	int r;

	if (!raw)
		return err_set(eb, -ENOMEM, "%s: out of memory reading a page of %u bytes", path,
			e->length);
	r = read_at(fs, path, raw, e->length, e->offset, eb);
	if (r < 0)
		return r;
	if (hash_crc32c(0, raw, e->length) != e->crc)
		return err_set(eb, -EBADMSG, "%s: page at %" PRIu64 " has a wrong checksum", path,
			e->offset);
	r = page_load_columns(raw, e->length, e->n_columns, e->n_rows, columns, ret, eb);
	return r < 0 ? err_prefix(eb, r, "%s: page at %" PRIu64, path, e->offset) : 0;
}
