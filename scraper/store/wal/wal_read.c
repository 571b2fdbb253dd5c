/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the log back: we trust a record only after both of its checksums, and what stands
 * where none is valid is judged by the highest sequence known to be synced
 * (docs/formats/wal.md, "Replay").
 */
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "scraper/store/wal/wal.h"
#include <fcntl.h>
#include <inttypes.h>

enum { WINDOW = 1 << 20, DISK_PAGE = 4096 };

void wal_files_done(struct wal_files *f)
{
	free(f->items);
	*f = (struct wal_files) {.items = NULL};
}

/* 1: valid, 0: not. */
static int parse_header(
	const uint8_t *p, struct wal_segment *ret, const char *name, struct errbuf *eb)
{
	struct cursor c = cursor_of(p, WAL_HEADER);
	uint32_t magic = cursor_u32(&c);
	uint16_t version = cursor_u16(&c);
	uint64_t incompat;
	const uint8_t *generation;

	cursor_skip(&c, 2);
	incompat = cursor_u64(&c);
	generation = cursor_take(&c, ULID_BYTES);
	ret->first_sequence = cursor_u64(&c);
	ret->number = cursor_u64(&c);
	cursor_skip(&c, 12);
	if (c.error || magic != WAL_MAGIC || cursor_u32(&c) != hash_crc32c(0, p, WAL_HEADER - 4))
		return 0;
	if (version != WAL_VERSION || incompat)
		return err_set(eb, -ENOTSUP,
			"WAL segment %s has version %u and features 0x%" PRIx64
			", which this program does not know",
			name, version, incompat);
	memcpy(ret->generation, generation, ULID_BYTES);
	return 1;
}

static int read_header(
	struct fs *fs, const char *dir, const char *name, struct wal_file *f, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	uint8_t both[WAL_FIRST];
	struct wal_segment s = f->segment;
	struct fs_stat st;
	int fd = fs->open(fs, path, O_RDONLY, 0), r;

	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	r = fs->fstat(fs, fd, &st);
	if (r >= 0) {
		f->size = st.size_bytes;
		f->segment.bytes = MAX(st.size_bytes, st.allocated_bytes);
		f->segment.unreadable =
			f->size >= WAL_FIRST && fs_pread_full(fs, fd, both, sizeof(both), 0) < 0;
		r = f->size >= WAL_FIRST && !f->segment.unreadable;
	}
	fs->close(fs, fd);
	if (r > 0) {
		r = parse_header(both, &s, name, eb);
		if (!r)
			r = parse_header(both + WAL_HEADER, &s, name, eb);
	}
	if (r < 0)
		return r;
	f->damaged = !r || s.number != f->segment.number;
	if (!f->damaged) {
		s.bytes = f->segment.bytes;
		f->segment = s; /* readable, or it would be damaged */
	}
	return 0;
}

int wal_list(struct fs *fs, const char *dir, struct wal_files *ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	int r = fs->list(fs, dir, &names);

	if (r < 0)
		return err_set(eb, r, "%s: %s", dir, strerror(-r));
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		struct wal_file f = {.size = 0};

		if (strspn(name, "0123456789") != strlen(name) || strlen(name) < 8 ||
			strlen(name) > 18)
			continue;
		for (const char *p = name; *p; p++)
			f.segment.number = f.segment.number * 10 + (uint64_t)(*p - '0');
		r = read_header(fs, dir, name, &f, eb);
		if (r < 0)
			return r;
		if (f.damaged && ret->n)
			memcpy(f.segment.generation, ret->items[ret->n - 1].segment.generation,
				ULID_BYTES);
		f.unusable = f.damaged && (!ret->n || ret->items[ret->n - 1].unusable);
		if (alloc_grow(&ret->items, &ret->cap, ret->n + 1, sizeof(f)) < 0)
			return -ENOMEM;
		ret->items[ret->n++] = f;
	}
	return 0;
}

/* A window over one segment after another. */
struct reader {
	struct fs *fs;
	const char *dir;
	struct wal_files *files;
	size_t file, end_file;
	int fd;
	uint8_t *buf;
	size_t cap, len;
	uint64_t buf_off;
	uint32_t seed;
	int error; /* what keeps it from being read and is not its damage; sticky */
	bool careful; /* a read of this file failed: page by page, so that a bad one takes no other with it */
};

static int open_file(struct reader *r, size_t file)
{
	_cleanup_free_ char *path = NULL;

	if (r->fd >= 0)
		r->fs->close(r->fs, r->fd);
	r->file = file;
	r->len = 0;
	r->careful = false;
	path = xasprintf("%s/%08" PRIu64, r->dir, r->files->items[file].segment.number);
	r->fd = r->fs->open(r->fs, path, O_RDONLY, 0);
	if (r->fd < 0)
		r->error = r->fd;
	return r->error;
}

static void reader_done(struct reader *r)
{
	if (r->fd >= 0)
		r->fs->close(r->fs, r->fd);
	free(r->buf);
}

static uint64_t file_size(const struct reader *r)
{
	return r->files->items[r->file].size;
}

/* How much is read at `off` when less is asked for. */
static size_t window_at(const struct reader *r, uint64_t off)
{
	return r->careful ? DISK_PAGE - (size_t)(off % DISK_PAGE) : WINDOW;
}

static int fill(struct reader *r, uint64_t off, size_t n)
{
	size_t want = (size_t)MIN((uint64_t)MAX(n, window_at(r, off)), file_size(r) - off);
	int e;

	r->len = 0;
	r->error = alloc_grow(&r->buf, &r->cap, want, 1);
	if (r->error < 0)
		return r->error;
	e = fs_pread_full(r->fs, r->fd, r->buf, want, off);
	if (e < 0)
		return e;
	r->buf_off = off;
	r->len = want;
	return 0;
}

/* n bytes at `off` of the current file; NULL when it does not have them, they cannot be read (which
 * is remembered of the file) or there is no memory for them (r->error). */
static const uint8_t *at(struct reader *r, uint64_t off, size_t n)
{
	if (r->error || off > file_size(r) || n > file_size(r) - off)
		return NULL;
	if (off >= r->buf_off && off + n <= r->buf_off + r->len)
		return r->buf + (off - r->buf_off);
	for (bool again = !r->careful; fill(r, off, n) < 0; again = false) {
		if (r->error < 0)
			return NULL;
		r->careful = true;
		if (!again) {
			r->files->items[r->file].segment.unreadable = true;
			return NULL;
		}
	}
	return r->buf;
}

struct found {
	size_t file;
	uint64_t offset, sequence;
	size_t len;
	const uint8_t *body; /* until the next read */
};

static bool valid_record(struct reader *r, uint64_t off, struct found *ret)
{
	const uint8_t *p = at(r, off, WAL_RECORD_HEADER);
	struct cursor c = cursor_of(p, p ? WAL_RECORD_HEADER : 0);
	uint32_t body_crc;
	size_t len;

	if (!p || cursor_u32(&c) != WAL_RECORD_MAGIC)
		return false;
	len = cursor_u32(&c);
	ret->sequence = cursor_u64(&c);
	body_crc = cursor_u32(&c);
	if (cursor_u32(&c) != hash_crc32c(r->seed, p, WAL_RECORD_HEADER - 4))
		return false;
	p = at(r, off + WAL_RECORD_HEADER, len);
	if (!p || hash_crc32c(r->seed, p, len) != body_crc)
		return false;
	ret->file = r->file;
	ret->offset = off;
	ret->len = len;
	ret->body = p;
	return true;
}

/* How much to look at from `off`: what is at hand, else a window full. */
static size_t in_window(const struct reader *r, uint64_t off)
{
	if (off >= r->buf_off && off + WAL_RECORD_HEADER <= r->buf_off + r->len)
		return (size_t)(r->buf_off + r->len - off);
	return (size_t)MIN((uint64_t)window_at(r, off), file_size(r) - off);
}

/* The first place from `off` on, in steps of 8, where the magic of a record stands; past the file's end when there is none. */
static uint64_t next_magic(struct reader *r, uint64_t off)
{
	for (off = (off + 7) & ~7ULL; off + WAL_RECORD_HEADER <= file_size(r);) {
		bool careful = r->careful;
		size_t n = in_window(r, off);
		const uint8_t *p = at(r, off, n);
		uint64_t word;

		if (!p && r->error)
			break;
		if (!p) { /* a bad sector: each read of its page may take the disk seconds */
			off = careful ? (off / DISK_PAGE + 1) * DISK_PAGE : off;
			continue;
		}
		for (size_t i = 0; i + 8 <= n; i += 8) {
			memcpy(&word, p + i, sizeof(word));
			if (word && (uint32_t)(p[i] | p[i + 1] << 8 | p[i + 2] << 16) ==
					    (WAL_RECORD_MAGIC & 0xffffff))
				return off + i;
		}
		off += n & ~(size_t)7;
		if (n < 8)
			break;
	}
	return file_size(r);
}

/* The next valid record with at least this sequence, from `off` of the current file on. */
static bool find_record(struct reader *r, uint64_t off, uint64_t least, struct found *ret)
{
	for (;;) {
		for (off = next_magic(r, off); off + WAL_RECORD_HEADER <= file_size(r);
			off = next_magic(r, off + 8))
			if (valid_record(r, off, ret) && ret->sequence >= least)
				return true;
		if (r->error || r->file + 1 >= r->end_file || open_file(r, r->file + 1) < 0)
			return false;
		off = WAL_FIRST;
	}
}

/* The "synced sequence" of a record's body. */
static uint64_t stated_synced(const struct found *f)
{
	struct cursor c = cursor_of(f->body, f->len);

	cursor_skip(&c, 2);
	return cursor_varint(&c);
}

/* The highest synced sequence that any record from here on states. */
static uint64_t highest_synced(struct reader *r, const struct found *from, uint64_t so_far)
{
	struct found f = *from;
	uint64_t off = from->offset, least = from->sequence;

	while (find_record(r, off, least, &f)) {
		uint64_t synced = stated_synced(&f);

		so_far = MAX(so_far, synced);
		off = f.offset + WAL_RECORD_HEADER + f.len;
		least = f.sequence + 1;
	}
	return so_far;
}

static uint64_t bytes_from(const struct wal_files *files, size_t file, size_t end, uint64_t off)
{
	uint64_t bytes = files->items[file].size - MIN(off, files->items[file].size);

	for (size_t i = file + 1; i < end; i++)
		bytes += files->items[i].size;
	return bytes;
}

static int deliver(struct wal_replay *w, const struct found *f, uint64_t *synced, struct errbuf *eb)
{
	struct errbuf ignored = {.text = ""};
	uint64_t stated = stated_synced(f);
	int r;

	*synced = MAX(*synced, stated);
	r = w->record(w->arg, f->body, f->len, f->sequence, &ignored);
	if (r == -ENOMEM)
		return err_set(eb, r, "replay: %s", err_text(&ignored, r));
	w->n_records++;
	w->damaged_records += r < 0;
	w->last_sequence = f->sequence;
	return 0;
}

/* What was not looked at must not pass for the end of the log: that is cut off. */
static int cannot_read(const struct reader *r, struct errbuf *eb)
{
	return err_set(eb, r->error, "%s: the log cannot be read: %s", r->dir, strerror(-r->error));
}

static bool any_unreadable(const struct wal_files *files, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++)
		if (files->items[i].segment.unreadable)
			return true;
	return false;
}

int wal_replay_generation(struct fs *fs, const char *dir, struct wal_files *files, size_t first,
	size_t end, struct wal_replay *w, struct errbuf *eb)
{
	_cleanup_(reader_done)
	struct reader r = {
		.fs = fs,
		.dir = dir,
		.files = files,
		.end_file = end,
		.fd = -1,
		.seed = hash_crc32c(0, files->items[first].segment.generation, ULID_BYTES),
	};
	uint64_t expected = files->items[first].segment.first_sequence, synced = 0, off = WAL_FIRST;
	struct found f;
	int e = open_file(&r, first);

	w->end_file = first;
	w->end_offset = off;
	if (e < 0)
		return err_set(eb, e, "%s: cannot open a segment: %s", dir, strerror(-e));
	while (find_record(&r, off, expected, &f)) {
		if (f.sequence > expected) {
			uint64_t s =
				w->last_generation ? highest_synced(&r, &f, synced) : UINT64_MAX;

			if (r.error < 0)
				return cannot_read(&r, eb);
			if (expected > s && !any_unreadable(files, first, end)) {
				w->truncated_bytes =
					bytes_from(files, w->end_file, end, w->end_offset);
				return 0;
			}
			w->damaged_records += f.sequence - expected;
			/* The search for S moved on: come back. */
			e = open_file(&r, f.file);
			if (e < 0 || !valid_record(&r, f.offset, &f))
				return r.error < 0
					       ? cannot_read(&r, eb)
					       : err_set(eb, -EIO,
							 "%s: a segment changed while it was read",
							 dir);
		}
		e = deliver(w, &f, &synced, eb);
		if (e < 0)
			return e;
		expected = f.sequence + 1;
		off = (f.offset + WAL_RECORD_HEADER + f.len + 7) & ~7ULL;
		w->end_file = f.file;
		w->end_offset = off;
	}
	return r.error < 0 ? cannot_read(&r, eb) : 0;
}
