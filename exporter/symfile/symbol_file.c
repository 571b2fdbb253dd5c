/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbol file reader: checks once, looks up often.
 */
#include "exporter/symfile/symbol_file.h"
#include "exporter/symfile/symbol_lines.h"
#include "exporter/symfile/symbol_runtime.h"
#include "exporter/symfile/symbol_unwind.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static uint32_t le32_at(const struct symbol_range *r, uint32_t i)
{
	uint32_t v;

	memcpy(&v, r->data + (size_t)i * 4, 4);
	return v;
}

static int bad(struct errbuf *eb, const char *what)
{
	return err_set(eb, -EBADMSG, "symbol file: %s", what);
}

static int check_header(
	struct cursor *c, struct symbol_file *s, uint32_t *ret_n_sections, struct errbuf *eb)
{
	const uint8_t *magic = cursor_take(c, 8), *p;
	uint32_t version = cursor_u32(c);
	uint64_t checksum;

	if (!magic || memcmp(magic, SYMBOL_MAGIC, 8) != 0)
		return bad(eb, "no magic");
	if (version != SYMBOL_VERSION)
		return err_set(eb, -ENOTSUP, "symbol file: version %u, this program reads %u",
			version, SYMBOL_VERSION);
	*ret_n_sections = cursor_u32(c);
	if (cursor_u64(c) != s->bytes)
		return bad(eb, "size differs from the header's");
	s->text_base = cursor_u64(c);
	s->elf_type = cursor_u16(c);
	s->elf_machine = cursor_u16(c);
	s->flags = cursor_u32(c);
	s->n_functions = cursor_u32(c);
	s->n_left_out = cursor_u32(c);
	p = cursor_take(c, SYMBOL_CONTENT_ID_LEN);
	if (p)
		memcpy(s->identity.content_id, p, SYMBOL_CONTENT_ID_LEN);
	s->identity.build_id_len = cursor_u32(c);
	s->toolchain.compiler = cursor_u16(c);
	s->toolchain.language = cursor_u16(c);
	p = cursor_take(c, SYMBOL_BUILD_ID_MAX);
	if (p)
		memcpy(s->identity.build_id, p, SYMBOL_BUILD_ID_MAX);
	s->debug_base = cursor_u64(c);
	s->n_debug_left_out = cursor_u32(c);
	s->n_debug_lacking = cursor_u32(c);
	checksum = cursor_u64(c);
	if (c->error || s->identity.build_id_len > SYMBOL_BUILD_ID_MAX ||
		*ret_n_sections > SYMBOL_MAX_SECTIONS)
		return bad(eb, "malformed header");
	if (checksum != hash_xxh3_seed(s->data + SYMBOL_HEADER_BYTES,
				s->bytes - SYMBOL_HEADER_BYTES,
				hash_xxh3(s->data, SYMBOL_OFF_CHECKSUM)))
		return bad(eb, "checksum differs");
	return 0;
}

struct section_kind {
	size_t off; /* of its range in struct symbol_file */
	uint32_t item_bytes;
};

static const struct section_kind section_kinds[] = {
	[SYMBOL_LOADS] = {offsetof(struct symbol_file, loads), SYMBOL_LOAD_BYTES},
	[SYMBOL_FUNC_STARTS] = {offsetof(struct symbol_file, starts), 4},
	[SYMBOL_FUNC_SIZES] = {offsetof(struct symbol_file, sizes), 4},
	[SYMBOL_FUNC_NAMES] = {offsetof(struct symbol_file, names), 4},
	[SYMBOL_STRINGS] = {offsetof(struct symbol_file, strings), 1},
	[SYMBOL_GO_BUILD_ID] = {offsetof(struct symbol_file, go_build_id), 1},
	[SYMBOL_UNNAMED] = {offsetof(struct symbol_file, unnamed), SYMBOL_UNNAMED_BYTES},
	[SYMBOL_FILES] = {offsetof(struct symbol_file, files), 4},
	[SYMBOL_LINE_INDEX] = {offsetof(struct symbol_file, line_index), SYMBOL_BLOCK_BYTES},
	[SYMBOL_LINES] = {offsetof(struct symbol_file, lines), 1},
	[SYMBOL_SCOPE_INDEX] = {offsetof(struct symbol_file, scope_index), SYMBOL_BLOCK_BYTES},
	[SYMBOL_SCOPE_RANGES] = {offsetof(struct symbol_file, scope_ranges), 1},
	[SYMBOL_SCOPES] = {offsetof(struct symbol_file, scopes), 1},
	[SYMBOL_DEBUG_FUNCTIONS] = {offsetof(struct symbol_file, debug_functions),
		SYMBOL_DEBUG_FUNCTION_BYTES},
	[SYMBOL_DEBUG_STRINGS] = {offsetof(struct symbol_file, debug_strings), 1},
	[SYMBOL_UNWIND_RULES] = {offsetof(struct symbol_file, unwind_rules),
		sizeof(struct unwind_rule)},
	[SYMBOL_UNWIND_WORDS] = {offsetof(struct symbol_file, unwind_words), 4},
	[SYMBOL_UNWIND_INFO] = {offsetof(struct symbol_file, unwind_info),
		SYMBOL_UNWIND_INFO_BYTES},
	[SYMBOL_RUNTIME] = {offsetof(struct symbol_file, runtime), SYMBOL_RUNTIME_BYTES},
};

static int read_section(struct cursor *c, struct symbol_file *s, struct errbuf *eb)
{
	uint32_t kind = cursor_u32(c), item_bytes = cursor_u32(c);
	uint64_t off = cursor_u64(c), len = cursor_u64(c);
	struct symbol_range *range;

	if (c->error || off > s->bytes || len > s->bytes - off || off % SYMBOL_ALIGN)
		return bad(eb, "a section lies outside the file");
	if (kind >= ARRAY_SIZE(section_kinds) || !section_kinds[kind].item_bytes)
		return 0;
	range = (struct symbol_range *)(void *)((char *)s + section_kinds[kind].off);
	if (item_bytes != section_kinds[kind].item_bytes || len % item_bytes || range->data)
		return bad(eb, "a section has another item size or is there twice");
	*range = (struct symbol_range) {.data = s->data + off, .bytes = len};
	return 0;
}

static int check_functions(const struct symbol_file *s, struct errbuf *eb)
{
	uint64_t want_bytes = (uint64_t)s->n_functions * 4, end = 0;

	if (s->starts.bytes != want_bytes || s->sizes.bytes != want_bytes ||
		s->names.bytes != want_bytes)
		return bad(eb, "the function tables differ in length");
	if (s->n_functions && (!s->strings.bytes || s->strings.data[s->strings.bytes - 1]))
		return bad(eb, "the strings do not end in NUL");
	if (s->debug_strings.bytes && s->debug_strings.data[s->debug_strings.bytes - 1])
		return bad(eb, "the debug strings do not end in NUL");
	for (uint32_t i = 0; i < s->n_functions; i++) {
		uint32_t start = le32_at(&s->starts, i), size = le32_at(&s->sizes, i);

		if (start < end || !size)
			return bad(eb, "functions overlap or are out of order");
		end = (uint64_t)start + size;
		if (le32_at(&s->names, i) >= s->strings.bytes)
			return bad(eb, "a name lies outside the strings");
	}
	return 0;
}

static int check_unnamed(const struct symbol_file *s, struct errbuf *eb)
{
	uint64_t end = 0;

	if (s->unnamed.bytes && !s->unwind_info.bytes)
		return bad(eb, "functions without names, but no unwind information");
	for (uint32_t i = 0; i < s->unnamed.bytes / SYMBOL_UNNAMED_BYTES; i++) {
		uint32_t start = le32_at(&s->unnamed, 2 * i),
			 size = le32_at(&s->unnamed, 2 * i + 1);

		if (start < end || !size)
			return bad(eb, "functions without names overlap or are out of order");
		end = (uint64_t)start + size;
	}
	return 0;
}

int symbol_file_parse(const void *data, size_t bytes, struct symbol_file *ret, struct errbuf *eb)
{
	struct cursor c = cursor_of(data, bytes);
	struct symbol_file s = {.data = data, .bytes = bytes};
	uint32_t n_sections = 0;
	int r;

	if (bytes < SYMBOL_HEADER_BYTES)
		return bad(eb, "shorter than its header");
	r = check_header(&c, &s, &n_sections, eb);
	for (uint32_t i = 0; r == 0 && i < n_sections; i++)
		r = read_section(&c, &s, eb);
	if (r < 0)
		return r;
	s.n_loads = (uint32_t)(s.loads.bytes / SYMBOL_LOAD_BYTES);
	if (s.n_loads > SYMBOL_MAX_LOADS)
		return bad(eb, "too many segments");
	r = check_functions(&s, eb);
	if (r == 0)
		r = symbol_unwind_check(&s, eb);
	if (r == 0)
		r = check_unnamed(&s, eb);
	if (r == 0)
		r = symbol_lines_check(&s, eb);
	if (r == 0)
		r = symbol_runtime_check(&s, eb);
	if (r < 0)
		return r;
	*ret = s;
	return 0;
}

int symbol_file_map(int fd, struct symbol_file *ret, struct errbuf *eb)
{
	struct stat st;
	void *data;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(eb, -errno, "symbol file: cannot stat");
	if (st.st_size < SYMBOL_HEADER_BYTES)
		return bad(eb, "shorter than its header");
	/* Private: before 6.7 a memfd that is sealed against writing cannot be mapped shared, though that is for reading. */
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return err_set(
			eb, -ENOMEM, "symbol file: cannot map %lld bytes", (long long)st.st_size);
	r = symbol_file_parse(data, (size_t)st.st_size, ret, eb);
	if (r < 0) {
		munmap(data, (size_t)st.st_size);
		return r;
	}
	ret->mapped = true;
	/* The check touched every page; few of them are needed soon. */
	madvise(data, (size_t)st.st_size, MADV_DONTNEED);
	return 0;
}

void symbol_file_unmap(struct symbol_file *s)
{
	union {
		const uint8_t *in;
		void *out;
	} data = {.in = s->data};

	if (s->mapped)
		munmap(data.out, s->bytes);
	*s = (struct symbol_file) {0};
}

void symbol_file_rest(const struct symbol_file *s, const struct symbol_range *range)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)range->data & -page;

	if (s->mapped && range->bytes)
		(void)madvise(
			(void *)from, (uintptr_t)range->data + range->bytes - from, MADV_DONTNEED);
}

/* Of n > 0 ascending numbers, `stride` apart, the last that is at most v; the first when none is. */
static uint32_t last_up_to(const struct symbol_range *r, uint32_t n, uint32_t stride, uint64_t v)
{
	uint32_t low = 0;

	while (n > 1) {
		uint32_t half = n / 2;

		low += le32_at(r, (low + half) * stride) <= v ? half : 0;
		n -= half;
	}
	return low;
}

bool symbol_file_find(const struct symbol_file *s, uint64_t vaddr, struct symbol_function *ret)
{
	uint64_t rel = vaddr - s->text_base;
	uint32_t low, start, size;

	if (vaddr < s->text_base || rel > UINT32_MAX || !s->n_functions)
		return false;
	low = last_up_to(&s->starts, s->n_functions, 1, rel);
	start = le32_at(&s->starts, low);
	size = le32_at(&s->sizes, low);
	if (rel < start || rel - start >= size)
		return false;
	*ret = (struct symbol_function) {
		.name = (const char *)s->strings.data + le32_at(&s->names, low),
		.start = s->text_base + start,
		.size = size,
	};
	return true;
}

bool symbol_file_unnamed(const struct symbol_file *s, uint64_t file_off, uint64_t *ret_start)
{
	uint32_t n = (uint32_t)(s->unnamed.bytes / SYMBOL_UNNAMED_BYTES), low, start;
	uint64_t base, rel;

	if (!n)
		return false;
	base = (uint64_t)le32_at(&s->unwind_info, SYMBOL_UNWIND_FIRST_PAGE) << UNWIND_PAGE_SHIFT;
	rel = file_off - base;
	if (file_off < base || rel > UINT32_MAX)
		return false;
	low = last_up_to(&s->unnamed, n, 2, rel);
	start = le32_at(&s->unnamed, 2 * low);
	if (rel < start || rel - start >= le32_at(&s->unnamed, 2 * low + 1))
		return false;
	*ret_start = base + start;
	return true;
}

void symbol_file_load(const struct symbol_file *s, uint32_t i, struct symbol_load *ret)
{
	struct cursor c =
		cursor_of(s->loads.data + (size_t)i * SYMBOL_LOAD_BYTES, SYMBOL_LOAD_BYTES);

	ret->vaddr = cursor_u64(&c);
	ret->file_off = cursor_u64(&c);
	ret->file_bytes = cursor_u64(&c);
	ret->memory_bytes = cursor_u64(&c);
	ret->flags = cursor_u32(&c);
}

/* The smallest of the kernels that run such programs: segments that are aligned to larger pages are to these too. */
enum { PAGE_BYTES = 4096 };

void symbol_load_pages(const struct symbol_load *load, uint64_t *ret_start, uint64_t *ret_limit,
	uint64_t *ret_file_off)
{
	uint64_t below = load->vaddr % PAGE_BYTES, end = load->vaddr + load->file_bytes;

	if (load->file_off % PAGE_BYTES != below)
		below = 0; /* no kernel maps it */
	*ret_start = load->vaddr - below;
	*ret_file_off = load->file_off - below;
	*ret_limit = end + (PAGE_BYTES - end % PAGE_BYTES) % PAGE_BYTES;
}

/* How well a segment fits an offset in the file; 0: not at all. */
static unsigned fit_of(const struct symbol_load *load, uint64_t file_off)
{
	bool is_code = load->flags & PF_X;
	uint64_t start, limit, first;

	if (file_off >= load->file_off && file_off - load->file_off < load->file_bytes)
		return is_code ? 3 : 2;
	symbol_load_pages(load, &start, &limit, &first);
	return is_code && file_off >= first && file_off - first < limit - start;
}

bool symbol_file_load_of(const struct symbol_file *s, uint64_t file_off, struct symbol_load *ret)
{
	unsigned best = 0;

	for (uint32_t i = 0; i < s->n_loads && best < 3; i++) {
		struct symbol_load load;
		unsigned fit;

		symbol_file_load(s, i, &load);
		fit = fit_of(&load, file_off);
		if (fit <= best)
			continue;
		*ret = load;
		best = fit;
	}
	return best;
}

bool symbol_file_vaddr(const struct symbol_file *s, uint64_t file_off, uint64_t *ret)
{
	struct symbol_load load;

	if (!symbol_file_load_of(s, file_off, &load))
		return false;
	*ret = load.vaddr + (file_off - load.file_off);
	return true;
}
