/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a bundle (docs/formats/bundle.md).
 */
#include "exporter/sample/replay.h"
#include "exporter/sample/capture.h"
#include "exporter/sample/hold.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MAX_BUNDLE_BYTES (4ULL << 30)

struct blob {
	uint8_t digest[32];
	const uint8_t *data;
	size_t len;
};

struct answer {
	struct capture_answer a;
	const uint8_t *path;
	uint32_t path_len;
	bool used;
};

/* A file or directory handed out: the memfd that stands for it. */
struct handed {
	uint64_t memfd_ino, dev, ino;
};

struct replay {
	struct keeper keeper;
	struct bytes file;
	struct cursor at; /* the next entry to play */
	uint32_t abi;	  /* of its records */
	struct bytes converted;
	struct hold hold;
	struct sample_sink sink;
	struct clock_virtual *clock;
	struct blob *blobs;
	size_t n_blobs, cap_blobs;
	struct answer *answers;
	size_t n_answers, cap_answers;
	pthread_mutex_t mutex; /* leaf lock; guards what was handed out and every `used` */
	struct handed *handed;
	size_t n_handed, cap_handed;
};

/* The next entry: kind and its bytes. False at the end or on damage (cursor error). */
static bool next_entry(struct cursor *c, uint32_t *ret_kind, struct cursor *ret_body)
{
	uint32_t len;

	if (c->error || !cursor_left(c))
		return false;
	*ret_kind = cursor_u32(c);
	len = cursor_u32(c);
	*ret_body = cursor_sub(c, len);
	cursor_skip(c, -(size_t)len & 7);
	return !c->error;
}

static int index_answer(struct replay *r, struct cursor c)
{
	struct answer an = {0};
	const uint8_t *digest;

	an.a.op = cursor_u16(&c);
	an.a.what = cursor_u16(&c);
	an.a.pid = cursor_u32(&c);
	an.a.start_ns = cursor_u64(&c);
	an.a.start = cursor_u64(&c);
	an.a.end = cursor_u64(&c);
	an.a.root_dev = cursor_u64(&c);
	an.a.root_ino = cursor_u64(&c);
	an.a.result = (int32_t)cursor_u32(&c);
	an.a.has_blob = cursor_u32(&c);
	an.a.dev = cursor_u64(&c);
	an.a.ino = cursor_u64(&c);
	digest = cursor_take(&c, sizeof(an.a.digest));
	an.path_len = cursor_u32(&c);
	an.path = cursor_take(&c, an.path_len);
	if (c.error || cursor_left(&c) || an.a.result > 0 || an.a.result < -ERR_MAX_ERRNO)
		return -EBADMSG;
	memcpy(an.a.digest, digest, sizeof(an.a.digest));
	if (alloc_grow(&r->answers, &r->cap_answers, r->n_answers + 1, sizeof(*r->answers)) < 0)
		return -ENOMEM;
	r->answers[r->n_answers++] = an;
	return 0;
}

static int index_blob(struct replay *r, struct cursor c)
{
	const uint8_t *digest = cursor_take(&c, 32);
	struct blob *b;

	if (!digest)
		return -EBADMSG;
	if (alloc_grow(&r->blobs, &r->cap_blobs, r->n_blobs + 1, sizeof(*r->blobs)) < 0)
		return -ENOMEM;
	b = &r->blobs[r->n_blobs++];
	memcpy(b->digest, digest, sizeof(b->digest));
	b->data = c.pos;
	b->len = cursor_left(&c);
	return 0;
}

/* Walks the whole file once: answers and blobs are indexed, everything else is only checked for its shape. */
static int index_file(struct replay *r, struct errbuf *eb)
{
	struct cursor c = cursor_of(r->file.data, r->file.len), body;
	uint64_t magic = cursor_u64(&c);
	uint32_t version = cursor_u32(&c), abi = cursor_u32(&c), kind;

	if (c.error || magic != CAPTURE_MAGIC)
		return err_set(eb, -EBADMSG, "not a bundle");
	if (!version || version > CAPTURE_VERSION || !abi || abi > ABI_VERSION)
		return err_set(eb, -ENOTSUP,
			"bundle version %u with ABI %u; this program reads up to %d with ABI %d",
			version, abi, CAPTURE_VERSION, ABI_VERSION);
	r->hold.build_ids = version == 1;
	r->abi = abi;
	r->at = c;
	while (next_entry(&c, &kind, &body)) {
		size_t off = cursor_off(&c);
		int e = 0;

		if (kind == CAPTURE_OPEN)
			e = index_answer(r, body);
		else if (kind == CAPTURE_BLOB)
			e = index_blob(r, body);
		else if (kind == CAPTURE_DRAIN && cursor_left(&body) != 3 * sizeof(uint64_t))
			e = -EBADMSG;
		if (e < 0)
			return err_set(
				eb, e, "bundle entry that ends at byte %zu: %s", off, strerror(-e));
	}
	return c.error ? err_set(eb, -EBADMSG, "bundle is cut at byte %zu", c.error_off) : 0;
}

static const struct handed *find_handed(const struct replay *r, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	for (size_t i = 0; i < r->n_handed; i++)
		if (r->handed[i].memfd_ino == st.st_ino)
			return &r->handed[i];
	return NULL;
}

static int note_handed(struct replay *r, const struct capture_answer *a, int fd)
{
	struct stat st;

	if (fstat(fd, &st) ||
		alloc_grow(&r->handed, &r->cap_handed, r->n_handed + 1, sizeof(*r->handed)) < 0)
		return -ENOMEM;
	r->handed[r->n_handed++] =
		(struct handed) {.memfd_ino = st.st_ino, .dev = a->dev, .ino = a->ino};
	return 0;
}

static const struct blob *find_blob(const struct replay *r, const uint8_t digest[32])
{
	for (size_t i = 0; i < r->n_blobs; i++)
		if (memcmp(r->blobs[i].digest, digest, 32) == 0)
			return &r->blobs[i];
	return NULL;
}

static int make_file(const struct blob *b)
{
	_cleanup_close_ int fd = memfd_create("replay", MFD_CLOEXEC);
	size_t off = 0;

	if (fd < 0)
		return -errno;
	while (b && off < b->len) {
		ssize_t n = pwrite(fd, b->data + off, b->len - off, (off_t)off);

		if (n < 0)
			return -errno;
		off += (size_t)n;
	}
	return TAKE_FD(fd);
}

static int give(struct replay *r, struct answer *an)
{
	const struct blob *b = an->a.has_blob ? find_blob(r, an->a.digest) : NULL;
	int fd;

	an->used = true;
	if (an->a.result < 0)
		return an->a.result;
	if (an->a.has_blob && !b)
		return -ENOENT; /* left out of the bundle */
	fd = make_file(b);
	if (fd >= 0 && note_handed(r, &an->a, fd) < 0) {
		close(fd);
		return -ENOMEM;
	}
	return fd;
}

static bool same_question(const struct answer *an, const struct capture_answer *q, const char *path)
{
	return an->a.op == q->op && an->a.what == q->what && an->a.pid == q->pid &&
	       an->a.start_ns == q->start_ns && an->a.start == q->start && an->a.end == q->end &&
	       an->a.root_dev == q->root_dev && an->a.root_ino == q->root_ino &&
	       an->path_len == strlen(path) && memcmp(an->path, path, an->path_len) == 0;
}

static int ask(struct replay *r, const struct capture_answer *q, const char *path)
{
	struct answer *last = NULL;
	int fd;

	pthread_mutex_lock(&r->mutex);
	for (size_t i = 0; i < r->n_answers; i++) {
		if (!same_question(&r->answers[i], q, path))
			continue;
		last = &r->answers[i];
		if (!last->used)
			break;
	}
	fd = last ? give(r, last) : -ESRCH;
	pthread_mutex_unlock(&r->mutex);
	return fd;
}

static int keeper_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	struct capture_answer q = {.op = CAPTURE_OP_OPEN,
		.what = what,
		.pid = pid,
		.start_ns = start_ns,
		.start = start,
		.end = end};

	return ask((struct replay *)k, &q, "");
}

static int keeper_open_at(struct keeper *k, int root_fd, const char *path, int flags)
{
	struct replay *r = (struct replay *)k;
	struct capture_answer q = {.op = CAPTURE_OP_OPEN_AT, .what = (uint16_t)flags};
	const struct handed *root;

	pthread_mutex_lock(&r->mutex);
	root = find_handed(r, root_fd);
	if (root) {
		q.root_dev = root->dev;
		q.root_ino = root->ino;
	}
	pthread_mutex_unlock(&r->mutex);
	return root ? ask(r, &q, path) : -EBADF;
}

/* As it was captured; whether its file system had devices of its own was not. */
static int keeper_identify(struct keeper *k, int fd, struct keeper_file *ret)
{
	struct replay *r = (struct replay *)k;
	const struct handed *file;

	pthread_mutex_lock(&r->mutex);
	file = find_handed(r, fd);
	if (file)
		*ret = (struct keeper_file) {.dev_major = major(file->dev),
			.dev_minor = minor(file->dev),
			.ino = file->ino,
			.own_devices = true};
	pthread_mutex_unlock(&r->mutex);
	return file ? 0 : -EBADF;
}

static int keeper_attach(struct keeper *k, enum abi_event event, uint32_t cpu, struct errbuf *eb)
{
	(void)k, (void)event;
	return err_set(eb, -ENODEV, "CPU %u: a replay has no CPUs", cpu);
}

static int keeper_attach_sideband(struct keeper *k, uint32_t cpu, struct errbuf *eb)
{
	return keeper_attach(k, ABI_EVENT_CPU, cpu, eb);
}

static int keeper_attach_file(
	struct keeper *k, enum abi_event event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	(void)k, (void)event, (void)file_fd, (void)offset;
	return err_set(eb, -ENODEV, "a replay has no programs that run");
}

static void keeper_close(struct keeper *k)
{
	(void)k;
}

int replay_open_bytes(const void *p, size_t len, const struct sample_sink *sink,
	struct clock_virtual *clock, struct replay **ret, struct errbuf *eb)
{
	_cleanup_(replay_freep)
	struct replay *r = xcalloc(1, sizeof(*r));
	int e;

	r->keeper = (struct keeper) {.open = keeper_open,
		.open_at = keeper_open_at,
		.identify = keeper_identify,
		.attach = keeper_attach,
		.attach_sideband = keeper_attach_sideband,
		.attach_file = keeper_attach_file,
		.close = keeper_close};
	pthread_mutex_init(&r->mutex, NULL);
	r->sink = *sink;
	r->clock = clock;
	bytes_init(&r->file, NULL, 0);
	bytes_init(&r->converted, NULL, 0);
	hold_init(&r->hold, sink, NULL, UINT32_MAX / 4);
	bytes_put(&r->file, p, len);
	e = bytes_error(&r->file);
	if (e == 0)
		e = index_file(r, eb);
	if (e < 0)
		return e;
	*ret = TAKE(r);
	return 0;
}

int replay_open(struct fs *fs, const char *path, const struct sample_sink *sink,
	struct clock_virtual *clock, struct replay **ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes b = {0};
	int r = fs_read_file(fs, path, MAX_BUNDLE_BYTES, &b, eb);

	if (r == 0)
		r = replay_open_bytes(b.data, b.len, sink, clock, ret, eb);
	return r < 0 ? err_prefix(eb, r, "%s", path) : 0;
}

void replay_freep(struct replay **pr)
{
	struct replay *r = *pr;

	if (!r)
		return;
	hold_done(&r->hold);
	bytes_done(&r->file);
	bytes_done(&r->converted);
	free(r->blobs);
	free(r->answers);
	free(r->handed);
	pthread_mutex_destroy(&r->mutex);
	free(r);
	*pr = NULL;
}

static void end_drain(struct replay *r, struct cursor c)
{
	uint64_t mono = cursor_u64(&c), offset = cursor_u64(&c), real = cursor_u64(&c);
	uint64_t up_to = mono - (uint64_t)SAMPLE_HOLD_NS;

	r->clock->mono_ns = (int64_t)mono;
	r->clock->boot_ns = (int64_t)(mono + offset);
	r->clock->real_ns = (int64_t)real;
	hold_flush(&r->hold, up_to);
	(void)r->sink.drained(r->sink.ctx, up_to, (int64_t)offset);
}

/* A sample as ABI 4 has it. Before that it had one weight, and a type of 16 bits, whose upper half now is the event: 0. */
static void play_sample(struct replay *r, struct cursor body)
{
	enum { SECOND_WEIGHT_AT = offsetof(struct abi_record, weight[1]) };
	const uint8_t *p = body.pos;
	size_t n = cursor_left(&body);

	if (r->abi >= 4 || n < SECOND_WEIGHT_AT || *p != ABI_RECORD_SAMPLE) {
		hold_add(&r->hold, HOLD_SAMPLE, p, n);
		return;
	}
	bytes_reset(&r->converted);
	bytes_put(&r->converted, p, SECOND_WEIGHT_AT);
	bytes_put_u64(&r->converted, 0);
	bytes_put(&r->converted, p + SECOND_WEIGHT_AT, n - SECOND_WEIGHT_AT);
	hold_add(&r->hold, HOLD_SAMPLE, r->converted.data, r->converted.len);
}

int replay_step(struct replay *r)
{
	struct cursor body;
	uint32_t kind;

	while (next_entry(&r->at, &kind, &body)) {
		if (kind == CAPTURE_SAMPLE)
			play_sample(r, body);
		else if (kind == CAPTURE_SIDEBAND)
			hold_add(&r->hold, HOLD_SIDEBAND, body.pos, cursor_left(&body));
		if (kind != CAPTURE_DRAIN)
			continue;
		end_drain(r, body);
		return 1;
	}
	return 0;
}

struct keeper *replay_keeper(struct replay *r)
{
	return &r->keeper;
}
