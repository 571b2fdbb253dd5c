/* SPDX-License-Identifier: Apache-2.0
 *
 * Perf maps. Numbers come with and without 0x, in either case, with blanks or tabs behind them; a name is the rest of the line. A size of
 * 0 stands for code up to the next piece. The last line counts once it has its end: the writer may be in the middle of it.
 */
#include "exporter/jit/files.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define USER_END (1ULL << 56) /* no user code lies above, five page levels included */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool take_hex(const char **s, const char *end, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (*s = p; p < end && hex_digit(*p) >= 0; p++) {
		if (v >> 60)
			return false;
		v = v << 4 | (uint64_t)hex_digit(*p);
	}
	if (p == *s || p == end || !is_blank(*p))
		return false;
	while (p < end && is_blank(*p))
		p++;
	*s = p;
	*ret = v;
	return true;
}

/* A line without its newline. *ret_name: where the name begins. */
static bool parse_line(
	const char *line, const char *end, struct jit_code *ret, const char **ret_name)
{
	uint64_t start, size;
	const char *s = line;

	if (!take_hex(&s, end, &start) || !take_hex(&s, end, &size) || s == end)
		return false;
	if (start >= USER_END || size > USER_END - start || size > UINT32_MAX)
		return false;
	*ret = (struct jit_code) {.start = start, .size = (uint32_t)size};
	*ret_name = s;
	return true;
}

/* Tells of all whole lines of the buffer, whose first byte has that offset. Bytes used, or -errno. */
static ssize_t take_lines(
	struct jit_file *f, const char *text, size_t n, uint64_t off, struct jit_codes *codes)
{
	const char *line = text, *end = text + n, *newline, *name;

	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		struct jit_code code;

		if (parse_line(line, newline, &code, &name)) {
			code.where = off + (uint64_t)(line - text);
			if (jit_codes_add(codes, &code) < 0)
				return -ENOMEM;
		} else {
			f->n_bad++;
		}
		line = newline + 1;
	}
	return line - text;
}

/* A line longer than the buffer: its front is enough, the rest is passed over. */
static int take_long_line(struct jit_file *f, const char *text, size_t n, struct jit_codes *codes)
{
	struct jit_code code;
	const char *name;

	f->in_line = true;
	if (!parse_line(text, text + n, &code, &name)) {
		f->n_bad++;
		return 0;
	}
	code.where = f->read_bytes;
	return jit_codes_add(codes, &code);
}

int jit_map_read(struct jit_file *f, int fd, struct jit_codes *codes)
{
	_cleanup_free_ char *buffer = NULL;
	uint64_t bytes, before, work_end;
	bool same;
	int r = jit_file_check(f, fd, &bytes, &same);
	ssize_t n, used;

	if (r < 0)
		return r;
	if (!same)
		jit_codes_clear(codes);
	before = f->read_bytes;
	if (before == bytes)
		return 0;
	work_end = f->work_bytes + JIT_CALL_BYTES;
	buffer = xmalloc(JIT_READ_BYTES);
	while (f->read_bytes < bytes && codes->n_fresh < JIT_MAX_FRESH &&
		f->work_bytes < work_end &&
		(n = pread(fd, buffer, JIT_READ_BYTES, (off_t)f->read_bytes)) > 0) {
		const char *newline = f->in_line ? memchr(buffer, '\n', (size_t)n) : NULL;

		f->work_bytes += (uint64_t)n;
		if (f->in_line) {
			f->in_line = !newline;
			f->read_bytes += newline ? (uint64_t)(newline + 1 - buffer) : (uint64_t)n;
			continue;
		}
		used = take_lines(f, buffer, (size_t)n, f->read_bytes, codes);
		if (used == 0 && n == JIT_READ_BYTES) {
			if (take_long_line(f, buffer, (size_t)n, codes) < 0)
				return -ENOMEM;
			used = n;
		}
		if (used < 0)
			return (int)used;
		if (!used)
			break;
		f->read_bytes += (uint64_t)used;
	}
	jit_file_note(f, fd);
	return f->read_bytes > before;
}

bool jit_map_name(int fd, const struct jit_code *code, struct jit_name *ret)
{
	char line[JIT_NAME_BYTES + 64];
	ssize_t n = pread(fd, line, sizeof(line), (off_t)code->where);
	const char *end, *name;
	struct jit_code found;
	size_t len;

	if (n <= 0)
		return false;
	end = memchr(line, '\n', (size_t)n);
	end = end ? end : line + n;
	if (!parse_line(line, end, &found, &name) || found.start != code->start ||
		found.size != code->size)
		return false;
	while (end > name && (end[-1] == '\r' || is_blank(end[-1])))
		end--;
	len = MIN((size_t)(end - name), sizeof(ret->name) - 1);
	memcpy(ret->name, name, len);
	ret->name[len] = '\0';
	ret->file[0] = '\0';
	ret->line = 0;
	return len > 0 && strlen(ret->name) == len;
}
