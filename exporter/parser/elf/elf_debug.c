/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug information that lies elsewhere: compressed inside the file (MiniDebugInfo), or in a file
 * of its own, which is checked to be the right one before we trust it.
 */
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include <lzma.h>
#include <string.h>

enum { UNPACK_STEP_BYTES = 1 << 20, CRC_READ_BYTES = 256 << 10 };
#define UNPACK_MEMORY_BYTES (160ULL << 20) /* xz -9 needs 65 MiB */

static int of_lzma(lzma_ret r)
{
	switch (r) {
	case LZMA_OK:
	case LZMA_STREAM_END: return 0;
	case LZMA_MEM_ERROR:
	case LZMA_MEMLIMIT_ERROR: return -ENOMEM;
	default: return -EBADMSG;
	}
}

static int unpack(lzma_stream *s, uint8_t **out, size_t *ret_n)
{
	lzma_ret r = LZMA_OK;
	size_t cap = 0;

	while (r == LZMA_OK) {
		size_t done = cap - s->avail_out;

		if (!s->avail_out) {
			if (cap >= ELF_MAX_UNPACKED_BYTES)
				return -EFBIG;
			if (alloc_grow(out, &cap, cap + UNPACK_STEP_BYTES, 1) < 0)
				return -ENOMEM;
			s->next_out = *out + done;
			s->avail_out = cap - done;
		}
		r = lzma_code(s, LZMA_FINISH);
	}
	*ret_n = cap - s->avail_out;
	return of_lzma(r);
}

int elf_unpack_xz(const void *packed, size_t n, uint8_t **ret, size_t *ret_n)
{
	lzma_stream s = LZMA_STREAM_INIT;
	uint8_t *out = NULL;
	int r = of_lzma(lzma_stream_decoder(&s, UNPACK_MEMORY_BYTES, LZMA_CONCATENATED));

	s.next_in = packed;
	s.avail_in = n;
	if (r == 0)
		r = unpack(&s, &out, ret_n);
	lzma_end(&s);
	if (r < 0) {
		free(out);
		return r;
	}
	*ret = out;
	return 0;
}

/* The name with its NUL, zeros up to a multiple of 4, the CRC. */
bool elf_file_debug_link(
	const struct elf_file *f, char ret[PARSER_DEBUG_LINK_MAX], uint32_t *ret_crc)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, ".gnu_debuglink", &shdr));
	struct cursor c = cursor_of(data ? data->d_buf : NULL, data ? data->d_size : 0);
	size_t n = data ? strnlen(data->d_buf, data->d_size) : 0;

	if (!n || n >= PARSER_DEBUG_LINK_MAX || memchr(data->d_buf, '/', n))
		return false;
	cursor_skip(&c, (n + 4) & ~(size_t)3);
	*ret_crc = cursor_u32(&c);
	if (c.error)
		return false;
	memcpy(ret, data->d_buf, n);
	ret[n] = '\0';
	return true;
}

static bool has_crc(const struct elf_file *f, uint32_t want)
{
	_cleanup_free_ uint8_t *buffer = xmalloc(CRC_READ_BYTES);
	uint64_t at = 0;
	uint32_t crc = 0;
	ssize_t n;

	while ((n = pread(f->fd, buffer, CRC_READ_BYTES, (off_t)at)) > 0) {
		crc = lzma_crc32(buffer, (size_t)n, crc);
		at += (uint64_t)n;
	}
	return n == 0 && crc == want;
}

bool elf_file_is_debug_of(const struct elf_file *debug, const struct elf_file *f)
{
	char name[PARSER_DEBUG_LINK_MAX];
	uint32_t crc;

	if (debug->machine != f->machine)
		return false;
	if (f->build_id_len && debug->build_id_len)
		return f->build_id_len == debug->build_id_len &&
		       memcmp(f->build_id, debug->build_id, f->build_id_len) == 0;
	return elf_file_debug_link(f, name, &crc) && has_crc(debug, crc);
}
