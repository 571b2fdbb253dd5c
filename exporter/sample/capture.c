/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes bundles. Records are buffered and written once a drain; an answer of the keeper is preceded by the contents of its
 * file, once per content.
 */
#include "exporter/sample/capture.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/lock.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MAX_BYTES (1ULL << 30)

struct capture_keeper {
	struct keeper keeper;
	struct keeper *real;
	struct capture *capture;
};

struct capture {
	struct fs *fs;
	int fd;
	uint64_t off, max_bytes;
	bool full;
	struct lock lock; /* leaf lock; guards all */
	struct bytes pending;
	struct table blobs; /* first 8 bytes of the SHA-256 of those written */
	struct capture_keeper keeper;
};

struct capture *capture_open(struct fs *fs, const char *path, uint64_t max_bytes, struct errbuf *eb)
{
	int fd = fs->open(fs, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct capture *c;

	if (fd < 0) {
		err_set(eb, fd, "--debug.capture: cannot create %s: %s%s", path, strerror(-fd),
			fd == -EACCES ? ": the user of --user must be able to write there" : "");
		return NULL;
	}
	c = xcalloc(1, sizeof(*c));
	c->fs = fs;
	c->fd = fd;
	c->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
	bytes_init(&c->pending, NULL, 2 * (size_t)CAPTURE_MAX_BLOB);
	table_init(&c->blobs, NULL);
	lock_init(&c->lock);
	bytes_put_u64(&c->pending, CAPTURE_MAGIC);
	bytes_put_u32(&c->pending, CAPTURE_VERSION);
	bytes_put_u32(&c->pending, ABI_VERSION);
	return c;
}

static void flush_locked(struct capture *c)
{
	ASSERT_HELD(&c->lock);
	if (!c->full && (c->off + c->pending.len > c->max_bytes || bytes_error(&c->pending))) {
		log_printf(LOG_WARN, "the capture has reached %llu bytes and stops",
			(unsigned long long)c->off);
		c->full = true;
	}
	if (!c->full && fs_pwrite_full(c->fs, c->fd, c->pending.data, c->pending.len, c->off) < 0) {
		log_printf(LOG_WARN, "the capture cannot be written and stops");
		c->full = true;
	}
	c->off += c->full ? 0 : c->pending.len;
	bytes_reset(&c->pending);
}

void capture_freep(struct capture **pc)
{
	struct capture *c = *pc;

	if (!c)
		return;
	lock_take(&c->lock);
	flush_locked(c);
	lock_release(&c->lock);
	if (c->fs->close(c->fs, c->fd) < 0)
		log_printf(LOG_WARN, "the capture could not be closed");
	bytes_done(&c->pending);
	table_done(&c->blobs);
	lock_done(&c->lock);
	free(c);
	*pc = NULL;
}

static void put_entry_locked(struct capture *c, enum capture_kind kind, const void *a, size_t a_len,
	const void *b, size_t b_len)
{
	ASSERT_HELD(&c->lock);
	if (c->full)
		return;
	bytes_put_u32(&c->pending, kind);
	bytes_put_u32(&c->pending, (uint32_t)(a_len + b_len));
	bytes_put(&c->pending, a, a_len);
	bytes_put(&c->pending, b, b_len);
	bytes_put(&c->pending, "\0\0\0\0\0\0\0", -(a_len + b_len) & 7);
}

void capture_record(struct capture *c, enum capture_kind kind, const void *rec, size_t len)
{
	lock_take(&c->lock);
	put_entry_locked(c, kind, rec, len, NULL, 0);
	lock_release(&c->lock);
}

void capture_drain(
	struct capture *c, uint64_t monotonic_ns, int64_t boot_offset_ns, uint64_t realtime_ns)
{
	uint64_t times[] = {monotonic_ns, (uint64_t)boot_offset_ns, realtime_ns};

	lock_take(&c->lock);
	put_entry_locked(c, CAPTURE_DRAIN, times, sizeof(times), NULL, 0);
	flush_locked(c);
	lock_release(&c->lock);
}

/* All bytes of a file, without moving its position. */
static int read_content(int fd, struct bytes *ret)
{
	for (;;) {
		uint8_t *p = bytes_reserve(ret, 1 << 16);
		ssize_t n = p ? pread(fd, p, 1 << 16, (off_t)ret->len) : 0;

		if (!p)
			return bytes_error(ret);
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
	}
}

static void put_blob_locked(
	struct capture *c, const uint8_t digest[32], const struct bytes *content)
{
	uint64_t key;
	bool is_new;

	ASSERT_HELD(&c->lock);
	memcpy(&key, digest, sizeof(key));
	if (table_insert(&c->blobs, key, &is_new) && is_new)
		put_entry_locked(c, CAPTURE_BLOB, digest, 32, content->data, content->len);
}

/* Directories and namespaces have no contents to keep: their answer alone is written. */
static bool has_content(const struct capture_answer *o)
{
	return o->op == CAPTURE_OP_OPEN_AT || (o->what != KEEPER_ROOT && o->what != KEEPER_MNT_NS);
}

/* Fills what the answer `fd` is and writes the entry. */
static void put_open(struct capture *c, struct capture_answer *o, int fd, const char *path)
{
	_cleanup_bytes_ struct bytes content = {0}, entry = {0};
	struct stat st;

	bytes_init(&content, NULL, CAPTURE_MAX_BLOB);
	o->result = fd < 0 ? fd : 0;
	if (fd >= 0 && fstat(fd, &st) == 0) {
		o->dev = st.st_dev;
		o->ino = st.st_ino;
	}
	if (fd >= 0 && has_content(o)) {
		if (read_content(fd, &content) < 0)
			return;
		o->has_blob = 1;
		hash_sha256(content.data, content.len, o->digest);
	}
	capture_put_answer(&entry, o, path);
	lock_take(&c->lock);
	if (o->has_blob)
		put_blob_locked(c, o->digest, &content);
	put_entry_locked(c, CAPTURE_OPEN, entry.data, entry.len, NULL, 0);
	lock_release(&c->lock);
}

void capture_put_answer(struct bytes *b, const struct capture_answer *o, const char *path)
{
	size_t n = strlen(path);

	bytes_put_u16(b, o->op);
	bytes_put_u16(b, o->what);
	bytes_put_u32(b, o->pid);
	bytes_put_u64(b, o->start_ns);
	bytes_put_u64(b, o->start);
	bytes_put_u64(b, o->end);
	bytes_put_u64(b, o->root_dev);
	bytes_put_u64(b, o->root_ino);
	bytes_put_u32(b, (uint32_t)o->result);
	bytes_put_u32(b, o->has_blob);
	bytes_put_u64(b, o->dev);
	bytes_put_u64(b, o->ino);
	bytes_put(b, o->digest, sizeof(o->digest));
	bytes_put_u32(b, (uint32_t)n);
	bytes_put(b, path, n);
}

static int keeper_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	struct capture_keeper *ck = (struct capture_keeper *)k;
	struct capture_answer o = {.op = CAPTURE_OP_OPEN,
		.what = what,
		.pid = pid,
		.start_ns = start_ns,
		.start = start,
		.end = end};
	int fd = ck->real->open(ck->real, pid, start_ns, what, start, end);

	put_open(ck->capture, &o, fd, "");
	return fd;
}

static int keeper_open_at(struct keeper *k, int root_fd, const char *path, int flags)
{
	struct capture_keeper *ck = (struct capture_keeper *)k;
	struct capture_answer o = {.op = CAPTURE_OP_OPEN_AT, .what = (uint16_t)flags};
	int fd = ck->real->open_at(ck->real, root_fd, path, flags);
	struct stat st;

	if (fstat(root_fd, &st) == 0) {
		o.root_dev = st.st_dev;
		o.root_ino = st.st_ino;
	}
	put_open(ck->capture, &o, fd, path);
	return fd;
}

static int keeper_attach(struct keeper *k, enum abi_event event, uint32_t cpu, struct errbuf *eb)
{
	struct keeper *real = ((struct capture_keeper *)k)->real;

	return real->attach(real, event, cpu, eb);
}

static int keeper_attach_sideband(struct keeper *k, uint32_t cpu, struct errbuf *eb)
{
	struct keeper *real = ((struct capture_keeper *)k)->real;

	return real->attach_sideband(real, cpu, eb);
}

static int keeper_attach_file(
	struct keeper *k, enum abi_event event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	struct keeper *real = ((struct capture_keeper *)k)->real;

	return real->attach_file(real, event, file_fd, offset, eb);
}

static void keeper_close(struct keeper *k)
{
	(void)k; /* embedded in the capture; the real one has its owner */
}

struct keeper *capture_keeper(struct capture *c, struct keeper *k)
{
	c->keeper = (struct capture_keeper) {.keeper = {.open = keeper_open,
						     .open_at = keeper_open_at,
						     .attach = keeper_attach,
						     .attach_sideband = keeper_attach_sideband,
						     .attach_file = keeper_attach_file,
						     .close = keeper_close},
		.real = k,
		.capture = c};
	return &c->keeper.keeper;
}
