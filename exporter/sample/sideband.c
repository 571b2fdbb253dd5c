/* SPDX-License-Identifier: Apache-2.0
 *
 * perf side-band records.
 */
#include "exporter/sample/sideband.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>

enum {
	HEADER_BYTES = 8,     /* type u32, misc u16, size u16 */
	SAMPLE_ID_BYTES = 24, /* pid, tid, time, cpu, reserved */
	MAX_PAGES = 16,	      /* 64 KiB a CPU */
};

/* The name at the end of a record: NUL-terminated, padded. NULL when it is not terminated. */
static const char *take_name(struct cursor *c)
{
	size_t n = cursor_left(c);
	const uint8_t *p = cursor_take(c, n);

	return p && n && memchr(p, 0, n) ? (const char *)p : NULL;
}

static int parse_mmap2(struct cursor *c, bool has_build_id, struct sideband *s)
{
	const uint8_t *build_id;

	s->kind = SIDEBAND_MMAP;
	s->pid = cursor_u32(c);
	s->tid = cursor_u32(c);
	s->addr = cursor_u64(c);
	s->len = cursor_u64(c);
	s->pgoff = cursor_u64(c);
	if (has_build_id) {
		s->build_id_len = cursor_u8(c);
		cursor_skip(c, 3);
		build_id = cursor_take(c, sizeof(s->build_id));
		if (!build_id || s->build_id_len > sizeof(s->build_id))
			return -EBADMSG;
		memcpy(s->build_id, build_id, s->build_id_len);
	} else {
		s->dev_major = cursor_u32(c);
		s->dev_minor = cursor_u32(c);
		s->ino = cursor_u64(c);
		s->ino_generation = cursor_u64(c);
	}
	s->prot = cursor_u32(c);
	s->flags = cursor_u32(c);
	s->path = take_name(c);
	return s->path ? 0 : -EBADMSG;
}

static int parse_comm(struct cursor *c, uint16_t misc, struct sideband *s)
{
	const char *name;

	s->kind = SIDEBAND_COMM;
	s->exec = misc & PERF_RECORD_MISC_COMM_EXEC;
	s->pid = cursor_u32(c);
	s->tid = cursor_u32(c);
	name = take_name(c);
	if (!name)
		return -EBADMSG;
	memcpy(s->comm, name, MIN(strlen(name), sizeof(s->comm) - 1));
	return 0;
}

static int parse_task(struct cursor *c, enum sideband_kind kind, struct sideband *s)
{
	s->kind = kind;
	s->pid = cursor_u32(c);
	s->ppid = cursor_u32(c);
	s->tid = cursor_u32(c);
	s->ptid = cursor_u32(c);
	cursor_skip(c, 8); /* its time, which sample_id has too */
	return 0;
}

static int parse_ksymbol(struct cursor *c, struct sideband *s)
{
	uint16_t type, flags;

	s->kind = SIDEBAND_KSYMBOL;
	s->addr = cursor_u64(c);
	s->len = cursor_u32(c);
	type = cursor_u16(c);
	flags = cursor_u16(c);
	s->is_bpf = type == PERF_RECORD_KSYMBOL_TYPE_BPF;
	s->gone = flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	s->path = take_name(c);
	return s->path ? 0 : -EBADMSG;
}

static int parse_body(
	struct cursor *c, uint32_t type, uint16_t misc, bool build_ids, struct sideband *s)
{
	switch (type) {
	case PERF_RECORD_MMAP2:
		return parse_mmap2(c, build_ids && misc & PERF_RECORD_MISC_MMAP_BUILD_ID, s);
	case PERF_RECORD_COMM: return parse_comm(c, misc, s);
	case PERF_RECORD_FORK: return parse_task(c, SIDEBAND_FORK, s);
	case PERF_RECORD_EXIT: return parse_task(c, SIDEBAND_EXIT, s);
	case PERF_RECORD_KSYMBOL: return parse_ksymbol(c, s);
	case PERF_RECORD_LOST:
		s->kind = SIDEBAND_LOST;
		cursor_skip(c, 8);
		s->lost = cursor_u64(c);
		return 0;
	default: return -ENOTSUP;
	}
}

/* Linux (6.18 too) gives a record of kernel code to one listener after the other and adds a sample id to its size each time: the
 * one that was written follows the name, and behind it there may be room for more, which holds anything. */
static int find_ksymbol_id(
	const void *rec, size_t len, const struct sideband *s, struct cursor *ret)
{
	size_t name_off = (size_t)(s->path - (const char *)rec),
	       off = (name_off + strlen(s->path) + 8) & ~(size_t)7;
	struct cursor c = cursor_of(rec, len);

	if (off + SAMPLE_ID_BYTES > len || (len - off) % SAMPLE_ID_BYTES)
		return -EBADMSG;
	cursor_skip(&c, off);
	*ret = cursor_sub(&c, SAMPLE_ID_BYTES);
	return 0;
}

int sideband_parse(const void *rec, size_t len, bool build_ids, struct sideband *ret)
{
	struct cursor c = cursor_of(rec, len), id;
	uint32_t type = cursor_u32(&c);
	uint16_t misc = cursor_u16(&c), size = cursor_u16(&c);
	struct sideband s = {0};
	struct cursor body;
	int r;

	if (c.error || size != len || size < HEADER_BYTES + SAMPLE_ID_BYTES)
		return -EBADMSG;
	body = cursor_sub(&c, len - HEADER_BYTES - SAMPLE_ID_BYTES);
	id = cursor_sub(&c, SAMPLE_ID_BYTES);
	r = parse_body(&body, type, misc, build_ids, &s);
	if (r == 0 && s.kind == SIDEBAND_KSYMBOL)
		r = find_ksymbol_id(rec, len, &s, &id);
	if (r < 0)
		return r;
	cursor_skip(&id, 8);
	s.time_ns = cursor_u64(&id);
	s.cpu = cursor_u32(&id);
	if (body.error || id.error)
		return -EBADMSG;
	*ret = s;
	return 0;
}

/* main maps without CAP_IPC_LOCK: buffers count against perf_event_mlock_kb and RLIMIT_MEMLOCK of its user. */
int sideband_open(struct sideband_buffer *b, int fd, struct errbuf *eb)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t pages = MAX_PAGES; pages; pages /= 2) {
		size_t bytes = (pages + 1) * page;
		void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p == MAP_FAILED && errno == EPERM && pages > 1)
			continue;
		if (p == MAP_FAILED)
			return err_set(eb, -errno,
				"cannot map a side-band buffer of %zu bytes: %s: raise "
				"kernel.perf_event_mlock_kb or the "
				"limit on locked memory (LimitMEMLOCK=)",
				bytes, strerror(errno));
		*b = (struct sideband_buffer) {.meta = p,
			.data = (const uint8_t *)p + page,
			.size = pages * page,
			.map_bytes = bytes,
			.joined = xmalloc(SIDEBAND_MAX_BYTES)};
		return 0;
	}
	return -EPERM;
}

void sideband_done(struct sideband_buffer *b)
{
	if (b->meta)
		munmap(b->meta, b->map_bytes);
	free(b->joined);
	memset(b, 0, sizeof(*b));
}

static void copy_out(const struct sideband_buffer *b, uint64_t at, void *to, size_t n)
{
	size_t off = at & (b->size - 1), first = MIN(n, b->size - off);

	memcpy(to, b->data + off, first);
	memcpy((uint8_t *)to + first, b->data, n - first);
}

const void *sideband_next(struct sideband_buffer *b, size_t *ret_len)
{
	struct perf_event_mmap_page *meta = b->meta;
	uint64_t head = __atomic_load_n(&meta->data_head, __ATOMIC_ACQUIRE);
	struct perf_event_header h;
	const void *rec;

	if (head - b->at < sizeof(h))
		return NULL;
	copy_out(b, b->at, &h, sizeof(h));
	if (h.size < sizeof(h) || h.size > head - b->at) { /* cannot happen; never loop on it */
		b->at = head;
		return NULL;
	}
	if ((b->at & (b->size - 1)) + h.size <= b->size) {
		rec = b->data + (b->at & (b->size - 1));
	} else {
		copy_out(b, b->at, b->joined, h.size);
		rec = b->joined;
	}
	b->at += h.size;
	*ret_len = h.size;
	return rec;
}

void sideband_release(struct sideband_buffer *b)
{
	struct perf_event_mmap_page *meta = b->meta;

	__atomic_store_n(&meta->data_tail, b->at, __ATOMIC_RELEASE);
}
