/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing the log: one pwrite a record into a preallocated segment.
 */
#include "scraper/store/wal/wal.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

void wal_init(struct wal *w, struct fs *fs, const char *dir, uint64_t segment_bytes)
{
	*w = (struct wal) {
		.fs = fs,
		.dir = xstrdup(dir),
		.segment_bytes = segment_bytes,
		.fd = -1,
		.next_number = 1,
		.next_sequence = 1,
	};
	lock_init(&w->lock);
	lock_init(&w->sync_lock);
}

void wal_done(struct wal *w)
{
	if (!w->dir)
		return;
	if (w->fd >= 0)
		w->fs->close(w->fs, w->fd);
	for (size_t i = 0; i < w->n_sealed; i++)
		w->fs->close(w->fs, w->sealed_fds[i]);
	free(w->sealed_fds);
	free(w->segments);
	free(w->dir);
	lock_done(&w->lock);
	lock_done(&w->sync_lock);
	*w = (struct wal) {.fd = -1};
}

static char *segment_path(const struct wal *w, uint64_t number)
{
	return xasprintf("%s/%08" PRIu64, w->dir, number);
}

/* The current segment takes no more records: cut to its length and left to the syncing side. */
static void seal(struct wal *w)
{
	if (w->fd < 0)
		return;
	/* A failure only leaves zeros behind the last record. */
	if (w->fs->ftruncate(w->fs, w->fd, w->offset) == 0) {
		lock_take(&w->lock);
		w->segments[w->n_segments - 1].bytes = w->offset;
		lock_release(&w->lock);
	}
	lock_take(&w->lock);
	if (w->n_sealed == w->cap_sealed) {
		w->cap_sealed = w->cap_sealed * 2 + 4;
		w->sealed_fds = xrealloc(w->sealed_fds, w->cap_sealed * sizeof(*w->sealed_fds));
	}
	w->sealed_fds[w->n_sealed++] = w->fd;
	w->fd = -1;
	lock_release(&w->lock);
}

void wal_begin_generation(struct wal *w, const uint8_t generation[ULID_BYTES])
{
	seal(w);
	lock_take(&w->lock);
	memcpy(w->generation, generation, ULID_BYTES);
	w->seed = hash_crc32c(0, generation, ULID_BYTES);
	w->sync_failed = false;
	lock_release(&w->lock);
}

static void put_header(struct bytes *b, const struct wal_segment *s)
{
	size_t start = b->len;
	static const uint8_t zeros[12];

	bytes_put_u32(b, WAL_MAGIC);
	bytes_put_u16(b, WAL_VERSION);
	bytes_put_u16(b, 0);
	bytes_put_u64(b, 0); /* incompat */
	bytes_put(b, s->generation, ULID_BYTES);
	bytes_put_u64(b, s->first_sequence);
	bytes_put_u64(b, s->number);
	bytes_put(b, zeros, sizeof(zeros));
	bytes_put_u32(b, hash_crc32c(0, b->data + start, b->len - start));
}

static int fill_segment(struct wal *w, int fd, const struct wal_segment *s)
{
	_cleanup_bytes_ struct bytes header = {.data = NULL};
	int r = w->fs->fallocate(w->fs, fd, 0, s->bytes);

	put_header(&header, s);
	put_header(&header, s);
	if (r >= 0)
		r = bytes_error(&header);
	if (r >= 0)
		r = fs_pwrite_full(w->fs, fd, header.data, header.len, 0);
	/* A header that is durable before the first record tells a torn creation from damage. */
	if (r >= 0)
		r = w->fs->fdatasync(w->fs, fd);
	return r < 0 ? r : w->fs->sync_dir(w->fs, w->dir);
}

static int new_segment(struct wal *w, uint64_t bytes, struct errbuf *eb)
{
	struct wal_segment s = {
		.number = w->next_number,
		.first_sequence = w->next_sequence,
		.bytes = bytes,
	};
	_cleanup_free_ char *path = segment_path(w, s.number);
	int fd, r;

	memcpy(s.generation, w->generation, ULID_BYTES);
	fd = w->fs->open(w->fs, path, O_RDWR | O_CREAT | O_EXCL, 0640);
	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	r = fill_segment(w, fd, &s);
	lock_take(&w->lock);
	if (r >= 0 && alloc_grow(&w->segments, &w->cap_segments, w->n_segments + 1, sizeof(s)) < 0)
		r = -ENOMEM;
	if (r >= 0) {
		w->segments[w->n_segments++] = s;
		w->next_number++;
		w->fd = fd;
		w->offset = WAL_FIRST;
		w->capacity = bytes;
	}
	lock_release(&w->lock);
	if (r >= 0)
		return 0;
	w->fs->close(w->fs, fd);
	/* A file that cannot be removed either keeps its number taken. */
	if (w->fs->unlink(w->fs, path) < 0)
		w->next_number++;
	return err_set(eb, r, "%s, of %" PRIu64 " KiB: %s", path, bytes >> 10, strerror(-r));
}

static uint64_t record_bytes(size_t len)
{
	return (WAL_RECORD_HEADER + (uint64_t)len + 7) & ~7ULL;
}

int wal_reserve(struct wal *w, size_t len, bool small, struct errbuf *eb)
{
	uint64_t need = record_bytes(len);
	int r;

	if (need > w->segment_bytes - WAL_FIRST)
		return err_set(eb, -EFBIG,
			"scrape of %zu bytes is larger than a WAL segment of %" PRIu64, len,
			w->segment_bytes);
	if (w->fd >= 0 && need > w->capacity - w->offset)
		seal(w);
	if (w->fd >= 0)
		return 0;
	r = new_segment(w, w->segment_bytes, eb);
	return r == -ENOSPC && small ? new_segment(w, WAL_FIRST + need, eb) : r;
}

static void put_le(uint8_t *p, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void fill_record_header(const struct wal *w, uint8_t *p, size_t len)
{
	put_le(p, WAL_RECORD_MAGIC, 4);
	put_le(p + 4, len, 4);
	put_le(p + 8, w->next_sequence, 8);
	put_le(p + 16, hash_crc32c(w->seed, p + WAL_RECORD_HEADER, len), 4);
	put_le(p + 20, hash_crc32c(w->seed, p, 20), 4);
}

int wal_write(struct wal *w, struct bytes *record, uint64_t *ret_sequence, struct errbuf *eb)
{
	static const uint8_t zeros[8];
	size_t len = record->len - WAL_RECORD_HEADER;
	int r;

	bytes_put(record, zeros, record_bytes(len) - record->len);
	if (record->error)
		return record->error;
	ASSERT(w->fd >= 0 && record->len <= w->capacity - w->offset); /* wal_reserve'd */
	fill_record_header(w, record->data, len);
	r = fs_pwrite_full(w->fs, w->fd, record->data, record->len, w->offset);
	lock_take(&w->lock);
	if (r < 0) {
		w->n_write_failures++;
	} else {
		w->offset += record->len;
		*ret_sequence = w->next_sequence++;
		w->written_sequence = *ret_sequence;
	}
	lock_release(&w->lock);
	if (r < 0) {
		/* What a part of it left behind is cut off with the segment. */
		seal(w);
		return err_set(eb, r, "cannot write the WAL: %s", strerror(-r));
	}
	return 0;
}

int wal_sync(struct wal *w)
{
	int *fds, r = 0;
	size_t n;
	uint64_t target;
	int current;

	lock_take(&w->sync_lock);
	lock_take(&w->lock);
	target = w->written_sequence;
	fds = TAKE(w->sealed_fds);
	n = w->n_sealed;
	w->n_sealed = w->cap_sealed = 0;
	current = w->fd;
	lock_release(&w->lock);
	for (size_t i = 0; i < n; i++) {
		int e = w->fs->fdatasync(w->fs, fds[i]);

		r = r < 0 ? r : e;
		w->fs->close(w->fs, fds[i]);
	}
	free(fds);
	if (r >= 0 && current >= 0)
		r = w->fs->fdatasync(w->fs, current);
	lock_take(&w->lock);
	w->n_syncs++;
	if (r < 0) {
		w->n_sync_failures++;
		w->sync_failed = true;
	} else if (!w->sync_failed) {
		w->synced_sequence = MAX(w->synced_sequence, target);
	}
	ASSERT(w->synced_sequence <= w->written_sequence);
	if (w->sync_failed && r >= 0)
		r = -EIO; /* a later success says nothing about the pages that the failed one
			     dropped */
	lock_release(&w->lock);
	lock_release(&w->sync_lock);
	return r;
}

/* Until it succeeds a removal is not done, however often it is asked for. */
static int sync_names(struct wal *w)
{
	bool due;
	int r;

	lock_take(&w->lock);
	due = w->names_unsynced;
	w->names_unsynced = false;
	lock_release(&w->lock);
	r = due ? w->fs->sync_dir(w->fs, w->dir) : 0;
	if (r < 0) {
		lock_take(&w->lock);
		w->names_unsynced = true;
		lock_release(&w->lock);
	}
	return r;
}

int wal_remove_generation(struct wal *w, const uint8_t generation[ULID_BYTES])
{
	int e, r = 0;

	lock_take(&w->lock);
	for (size_t i = 0; r >= 0 && i < w->n_segments;) {
		_cleanup_free_ char *path = NULL;

		if (memcmp(w->segments[i].generation, generation, ULID_BYTES)) {
			i++;
			continue;
		}
		path = segment_path(w, w->segments[i].number);
		r = w->fs->unlink(w->fs, path);
		if (r == -ENOENT)
			r = 0;
		if (r < 0)
			break;
		w->names_unsynced = true;
		w->n_segments--;
		memmove(&w->segments[i], &w->segments[i + 1],
			(w->n_segments - i) * sizeof(*w->segments));
	}
	lock_release(&w->lock);
	e = sync_names(w);
	return r < 0 ? r : e;
}

void wal_mark_unreadable(struct wal *w, uint64_t number, bool unreadable)
{
	lock_take(&w->lock);
	for (size_t i = 0; i < w->n_segments; i++)
		if (w->segments[i].number == number)
			w->segments[i].unreadable = unreadable;
	lock_release(&w->lock);
}

bool wal_next_unreadable(struct wal *w, const uint8_t generation[ULID_BYTES], uint64_t *ret_number)
{
	bool found = false;

	lock_take(&w->lock);
	for (size_t i = 0; !found && i < w->n_segments; i++) {
		found = w->segments[i].unreadable &&
			!memcmp(w->segments[i].generation, generation, ULID_BYTES);
		*ret_number = w->segments[i].number;
	}
	lock_release(&w->lock);
	return found;
}

uint64_t wal_bytes(struct wal *w)
{
	uint64_t bytes = 0;

	lock_take(&w->lock);
	for (size_t i = 0; i < w->n_segments; i++)
		bytes += w->segments[i].bytes;
	lock_release(&w->lock);
	return bytes;
}
