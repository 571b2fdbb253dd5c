/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing the files of a block.
 */
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "scraper/store/block/frame.h"
#include <fcntl.h>

enum { BUFFER = 1 << 20 };

static void flush(struct frame_writer *w)
{
	if (w->error < 0 || !w->buf.len)
		return;
	w->error = w->buf.error ? w->buf.error
				: fs_pwrite_full(w->fs, w->fd, w->buf.data, w->buf.len,
					  w->offset - w->buf.len);
	bytes_reset(&w->buf);
}

static void put(struct frame_writer *w, const void *p, size_t n)
{
	bytes_put(&w->buf, p, n);
	w->offset += n;
	if (w->n_sections && n) {
		struct frame_section *s = &w->sections[w->n_sections - 1];

		s->crc = hash_crc32c(s->crc, p, n);
		s->length += n;
	}
	if (w->buf.len >= BUFFER || w->buf.error)
		flush(w);
}

int frame_writer_open(struct frame_writer *w, struct fs *fs, const char *path, enum frame_file file)
{
	const uint8_t header[FRAME_HEADER] = {
		's', 'b', 'l', 'k', (uint8_t)file, FRAME_VERSION, 0, 0};

	*w = (struct frame_writer) {.fs = fs, .path = xstrdup(path)};
	w->fd = fs->open(fs, path, O_RDWR | O_CREAT | O_EXCL, 0640);
	if (w->fd < 0)
		return w->error = w->fd;
	w->pages = page_writer_new(true);
	put(w, header, sizeof(header));
	return 0;
}

static void section_begin(struct frame_writer *w, uint32_t id)
{
	ASSERT(w->n_sections < FRAME_MAX_SECTIONS);
	w->sections[w->n_sections++] = (struct frame_section) {.id = id, .offset = w->offset};
}

void frame_writer_table_begin(struct frame_writer *w, enum frame_table t)
{
	section_begin(w, 2 * t);
	bytes_reset(&w->entries);
}

void frame_writer_page(struct frame_writer *w, uint32_t n_rows, uint32_t first_stream,
	uint32_t last_stream, int64_t min_time, int64_t max_time)
{
	_cleanup_bytes_ struct bytes page = {.data = NULL};
	struct bytes *e = &w->entries;
	unsigned n_columns = 0;
	int r = page_writer_finish(w->pages, &page, &n_columns);

	if (r < 0) {
		w->error = w->error < 0 ? w->error : r;
		return;
	}
	bytes_put_u64(e, w->offset - w->sections[w->n_sections - 1].offset);
	bytes_put_u32(e, (uint32_t)page.len);
	bytes_put_u32(e, n_rows);
	bytes_put_u16(e, (uint16_t)n_columns);
	bytes_put_u16(e, 0);
	bytes_put_u32(e, hash_crc32c(0, page.data, page.len));
	bytes_put_u32(e, first_stream);
	bytes_put_u32(e, last_stream);
	bytes_put_u64(e, (uint64_t)min_time);
	bytes_put_u64(e, (uint64_t)max_time);
	put(w, page.data, page.len);
}

void frame_writer_table_end(struct frame_writer *w)
{
	uint32_t id = w->sections[w->n_sections - 1].id;

	section_begin(w, id + 1);
	put(w, w->entries.data, w->entries.len);
	if (w->entries.error && w->error >= 0)
		w->error = w->entries.error;
}

int frame_writer_finish(struct frame_writer *w, struct frame *ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes table = {.data = NULL};
	size_t n = w->n_sections;
	int fd, r;

	for (size_t i = 0; i < n; i++) {
		bytes_put_u32(&table, w->sections[i].id);
		bytes_put_u32(&table, w->sections[i].crc);
		bytes_put_u64(&table, w->sections[i].offset);
		bytes_put_u64(&table, w->sections[i].length);
	}
	bytes_put_u32(&table, (uint32_t)n);
	ret->table_crc = hash_crc32c(0, table.data, table.len);
	bytes_put_u32(&table, ret->table_crc);
	bytes_put_u32(&table, FRAME_MAGIC);
	w->n_sections = 0; /* the table is in no section */
	put(w, table.data, table.len);
	flush(w);
	if (w->error >= 0 && table.error)
		w->error = table.error;
	if (w->error >= 0)
		w->error = w->fs->fsync(w->fs, w->fd);
	fd = TAKE_FD(w->fd);
	r = fd >= 0 ? w->fs->close(w->fs, fd) : 0;
	if (w->error >= 0)
		w->error = r;
	ret->size = w->offset;
	ret->n_sections = n;
	memcpy(ret->sections, w->sections, n * sizeof(*w->sections));
	return w->error < 0 ? err_set(eb, w->error, "%s: %s", w->path, strerror(-w->error)) : 0;
}

void frame_writer_done(struct frame_writer *w)
{
	if (w->fd >= 0 && w->fs)
		w->fs->close(w->fs, w->fd);
	w->fd = -1;
	page_writer_free(TAKE(w->pages));
	bytes_done(&w->buf);
	bytes_done(&w->entries);
	free(TAKE(w->path));
}
