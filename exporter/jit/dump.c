/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps. A record is read when all of it is there. Only its first bytes count; the code
 * itself is skipped. Lines of a piece come in a record before it.
 */
#include "exporter/jit/files.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define DUMP_MAGIC 0x4a695444u /* "JiTD" read as a number of this byte order */
#define DUMP_MAGIC_SWAPPED 0x4454694au
#define USER_END (1ULL << 56)

enum {
	HEADER_BYTES = 40,
	RECORD_BYTES = 16,
	LOAD_BYTES = RECORD_BYTES + 40,
	MOVE_BYTES = RECORD_BYTES + 48,
	LINES_BYTES = RECORD_BYTES + 16,
	MAX_LINES_BYTES = 256 << 10, /* of a record of lines that is read */
	/* V8 tells lines as they lie in the ELF file that perf makes, behind its header. */
	ELF_HEADER_BYTES = 64,
};
enum { RECORD_LOAD = 0, RECORD_MOVE = 1, RECORD_LINES = 2 };

struct record {
	uint32_t id, bytes;
	uint64_t off;
};

static int read_header(struct jit_file *f, int fd, uint64_t bytes)
{
	uint8_t raw[HEADER_BYTES];
	struct cursor c = cursor_of(raw, sizeof(raw));
	uint32_t magic, version, header_bytes;

	if (bytes < HEADER_BYTES)
		return 0; /* not yet */
	if (pread(fd, raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -EIO;
	magic = cursor_u32(&c);
	version = cursor_u32(&c);
	header_bytes = cursor_u32(&c);
	if (magic != DUMP_MAGIC || !version || version > 2 || header_bytes < HEADER_BYTES ||
		header_bytes > bytes) {
		f->is_broken = true;
		f->n_bad++;
		return -EBADMSG;
	}
	f->read_bytes = header_bytes;
	return 0;
}

static bool is_user_code(uint64_t start, uint64_t size)
{
	return size && start < USER_END && size <= USER_END - start && size <= UINT32_MAX;
}

/* pid, tid, vma, code_addr, code_size, code_index; then the name and the code. */
static int take_load(
	struct jit_file *f, const struct record *r, struct cursor c, struct jit_codes *codes)
{
	struct jit_code code = {.where = r->off, .of_dump = 1};
	uint64_t size;

	cursor_skip(&c, 16);
	code.start = cursor_u64(&c);
	size = cursor_u64(&c);
	if (f->line_off && r->off - f->line_off <= UINT32_MAX)
		code.to_line = (uint32_t)(r->off - f->line_off);
	f->line_off = 0;
	if (c.error || !is_user_code(code.start, size)) {
		f->n_bad++;
		return 0;
	}
	code.size = (uint32_t)size;
	return jit_codes_add(codes, &code);
}

/* pid, tid, vma, old_code_addr, new_code_addr, code_size, code_index: the name stays where it is. */
static int take_move(struct jit_file *f, struct cursor c, struct jit_codes *codes)
{
	const struct jit_code *found;
	struct jit_code code;
	uint64_t from, to, size;
	int r;

	cursor_skip(&c, 16);
	from = cursor_u64(&c);
	to = cursor_u64(&c);
	size = cursor_u64(&c);
	if (codes->n_fresh)
		f->work_bytes += (codes->n + codes->n_fresh) * sizeof(code);
	r = jit_codes_merge(codes);
	if (r < 0)
		return r;
	found = jit_codes_find(codes, from);
	if (c.error || !is_user_code(to, size) || !found || found->start != from) {
		f->n_bad++;
		return 0;
	}
	code = *found;
	code.start = to;
	code.size = (uint32_t)size;
	return jit_codes_add(codes, &code);
}

static int take_record(struct jit_file *f, const struct record *r, const uint8_t *raw, size_t n,
	struct jit_codes *codes)
{
	struct cursor c = cursor_of(raw + RECORD_BYTES, n - RECORD_BYTES);

	switch (r->id) {
	case RECORD_LOAD: return take_load(f, r, c, codes);
	case RECORD_MOVE: return take_move(f, c, codes);
	case RECORD_LINES: f->line_off = r->off; return 0;
	default: return 0;
	}
}

/* 1: a record was taken; 0: the next one is not all there yet. */
static int read_record(struct jit_file *f, int fd, uint64_t bytes, struct jit_codes *codes)
{
	uint8_t raw[MOVE_BYTES];
	struct cursor c;
	struct record r = {.off = f->read_bytes};
	ssize_t n = pread(fd, raw, sizeof(raw), (off_t)r.off);
	int e;

	if (n < RECORD_BYTES)
		return n < 0 ? -EIO : 0;
	f->work_bytes += (uint64_t)n;
	c = cursor_of(raw, (size_t)n);
	r.id = cursor_u32(&c);
	r.bytes = cursor_u32(&c);
	if (!r.id && !r.bytes)
		return 0; /* reserved, not written yet */
	if (r.bytes < RECORD_BYTES) {
		f->is_broken = true;
		f->n_bad++;
		return -EBADMSG;
	}
	if (r.bytes > bytes - r.off)
		return 0;
	e = take_record(f, &r, raw, MIN((size_t)n, r.bytes), codes);
	if (e < 0)
		return e;
	f->read_bytes += r.bytes;
	return 1;
}

int jit_dump_read(struct jit_file *f, int fd, struct jit_codes *codes)
{
	uint64_t bytes, before, work_end;
	bool same;
	int r = jit_file_check(f, fd, &bytes, &same);

	if (r < 0)
		return r;
	if (!same)
		jit_codes_clear(codes);
	if (f->is_broken)
		return -EBADMSG;
	before = f->read_bytes;
	work_end = f->work_bytes + JIT_CALL_BYTES;
	if (!f->read_bytes)
		r = read_header(f, fd, bytes);
	while (r >= 0 && f->read_bytes && f->read_bytes < bytes && codes->n_fresh < JIT_MAX_FRESH &&
		f->work_bytes < work_end) {
		r = read_record(f, fd, bytes, codes);
		if (!r)
			break;
	}
	jit_file_note(f, fd);
	return r < 0 ? r : f->read_bytes > before;
}

/* A record of lines: code_addr, their number; each: address, line, discriminator, file ("\xff": the
 * one before). The last one at or before the address. */
static void find_line(int fd, const struct jit_code *code, uint64_t addr, struct jit_name *ret)
{
	_cleanup_free_ uint8_t *raw = xmalloc(MAX_LINES_BYTES);
	ssize_t got = pread(fd, raw, MAX_LINES_BYTES, (off_t)(code->where - code->to_line));
	struct cursor c = cursor_of(raw, got > 0 ? (size_t)got : 0);
	uint32_t id = cursor_u32(&c), bytes = cursor_u32(&c), best = 0;
	uint64_t code_addr, n, shift = 0;
	const char *file = NULL, *best_file = NULL;

	cursor_skip(&c, 8);
	code_addr = cursor_u64(&c);
	n = cursor_u64(&c);
	if (c.error || id != RECORD_LINES || bytes < LINES_BYTES)
		return;
	c.end = raw + MIN((size_t)got, bytes);
	for (uint64_t i = 0; i < n && cursor_left(&c) > 16; i++) {
		uint64_t at = cursor_u64(&c);
		uint32_t line = cursor_u32(&c);
		const char *name;
		size_t len;

		cursor_skip(&c, 4);
		name = (const char *)c.pos;
		len = strnlen(name, cursor_left(&c));
		cursor_skip(&c, len + 1);
		if (c.error)
			break;
		if (strcmp(name, "\xff") != 0)
			file = name;
		if (!i && at - code_addr >= ELF_HEADER_BYTES)
			shift = ELF_HEADER_BYTES;
		if (at - shift - code_addr > addr - code->start)
			break;
		best = line;
		best_file = file;
	}
	if (!best_file || best > INT32_MAX)
		return;
	snprintf(ret->file, sizeof(ret->file), "%s", best_file);
	ret->line = best;
}

bool jit_dump_name(int fd, const struct jit_code *code, uint64_t addr, struct jit_name *ret)
{
	uint8_t raw[LOAD_BYTES + JIT_NAME_BYTES];
	ssize_t n = pread(fd, raw, sizeof(raw), (off_t)code->where);
	struct cursor c = cursor_of(raw, n > 0 ? (size_t)n : 0);
	uint32_t id = cursor_u32(&c), bytes = cursor_u32(&c);
	size_t len;

	cursor_skip(&c, LOAD_BYTES - 8);
	if (c.error || id != RECORD_LOAD || bytes < LOAD_BYTES)
		return false;
	len = strnlen((const char *)c.pos, MIN(cursor_left(&c), bytes - LOAD_BYTES));
	len = MIN(len, sizeof(ret->name) - 1);
	memcpy(ret->name, c.pos, len);
	ret->name[len] = '\0';
	ret->file[0] = '\0';
	ret->line = 0;
	if (code->to_line)
		find_line(fd, code, addr, ret);
	return len > 0;
}
