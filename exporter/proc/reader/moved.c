/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of maps that lie in the place of a file's code.
 */
#include "exporter/proc/reader/moved.h"
#include "lib/base/cursor.h"
#include "lib/base/str.h"
#include <elf.h>
#include <string.h>
#include <unistd.h>

/* What is read of a file: its header and some 70 program headers. */
enum { HEAD_BYTES = 4096, PAGE = 4096 };

struct segment {
	uint32_t type, flags;
	uint64_t off, vaddr, bytes;
};

static bool segment_at(const uint8_t *elf, size_t n, uint64_t off, uint64_t i, struct segment *ret)
{
	struct cursor c = cursor_of(elf, n);

	cursor_skip(&c, off);
	cursor_skip(&c, i * sizeof(Elf64_Phdr));
	ret->type = cursor_u32(&c);
	ret->flags = cursor_u32(&c);
	ret->off = cursor_u64(&c);
	ret->vaddr = cursor_u64(&c);
	cursor_skip(&c, sizeof(Elf64_Addr));
	ret->bytes = cursor_u64(&c);
	return !c.error;
}

/* Where the program headers are, and how many; false when it is no ELF file of 64 bits. */
static bool headers_of(const uint8_t *elf, size_t n, uint64_t *ret_off, uint32_t *ret_n)
{
	static const uint8_t magic[] = {
		ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};
	struct cursor c = cursor_of(elf, n);
	const uint8_t *start = cursor_take(&c, sizeof(magic));

	if (!start || memcmp(start, magic, sizeof(magic)))
		return false;
	cursor_skip(&c, offsetof(Elf64_Ehdr, e_phoff) - sizeof(magic));
	*ret_off = cursor_u64(&c);
	cursor_skip(&c, offsetof(Elf64_Ehdr, e_phnum) - offsetof(Elf64_Ehdr, e_shoff));
	*ret_n = cursor_u16(&c);
	return !c.error && *ret_off < n;
}

bool moved_offset(
	const uint8_t *elf, size_t n, uint64_t base, const struct proc_line *line, uint64_t *ret)
{
	uint64_t at, bias = 0;
	bool is_based = false;
	uint32_t n_headers;
	struct segment s;

	if (!headers_of(elf, n, &at, &n_headers))
		return false;
	for (uint32_t i = 0; !is_based && i < n_headers && segment_at(elf, n, at, i, &s); i++)
		if (s.type == PT_LOAD && s.off < PAGE) {
			bias = base - (s.vaddr - s.vaddr % PAGE);
			is_based = true;
		}
	for (uint32_t i = 0; is_based && i < n_headers && segment_at(elf, n, at, i, &s); i++) {
		uint64_t start = bias + s.vaddr;

		if (s.type != PT_LOAD || !(s.flags & PF_X) || line->start >= start + s.bytes ||
			line->end <= start || (line->start < start && start - line->start > s.off))
			continue;
		*ret = line->start - start + s.off;
		return true;
	}
	return false;
}

/* Memory that may have been put in a file's place: anonymous, or of a file that is gone as soon as it is mapped. */
static bool is_replacement(const char *path)
{
	return maps_kind(path) == MAPPING_JIT || str_ends_with(path, " (deleted)");
}

static size_t read_head(const struct proc_reader_options *o, const struct proc_answer *a,
	const struct maps_line *header, uint8_t *to, size_t cap)
{
	_cleanup_close_ int fd = o->keeper->open(o->keeper, a->request.pid, a->request.start_ns,
		KEEPER_MAP_FILE, header->start, header->end);
	size_t len = 0;
	ssize_t n = 1;

	while (fd >= 0 && len < cap && n > 0) {
		n = read(fd, to + len, cap - len);
		len += n > 0 ? (size_t)n : 0;
	}
	return len;
}

static void put_in_place(const struct proc_reader_options *o, const struct moved *s,
	struct proc_answer *a, const struct maps_line *of)
{
	uint8_t head[HEAD_BYTES];
	size_t n = 0;
	bool is_read = false;

	for (size_t i = s->first; i < a->n; i++) {
		struct proc_line *line = &a->lines[i];
		uint64_t off;

		if (!is_replacement(a->text + line->path))
			continue;
		if (!is_read)
			n = read_head(o, a, &s->header, head, sizeof(head));
		is_read = true;
		if (!moved_offset(head, n, s->header.start, line, &off))
			continue;
		line->file_off = off;
		line->ino = of->ino;
		line->dev_major = of->dev_major;
		line->dev_minor = of->dev_minor;
		line->path = (uint32_t)(of->path - a->text);
	}
}

static bool is_same_file(const struct maps_line *a, const struct maps_line *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

void moved_line(const struct proc_reader_options *o, struct moved *s, struct proc_answer *a,
	const struct maps_line *line)
{
	if (line->path[0] != '/' || !line->ino)
		return;
	if (s->header.start && is_same_file(&s->header, line)) {
		put_in_place(o, s, a, line);
	} else if (is_replacement(line->path) &&
		   (line->file_off || line->writable || line->executable)) {
		return; /* data may have been moved too; of a file's own mappings the first is only read */
	} else {
		s->header = line->file_off ? (struct maps_line) {0} : *line;
	}
	s->first = a->n + line->executable;
}
