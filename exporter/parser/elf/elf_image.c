/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes and pointers by virtual address.
 */
#include "exporter/parser/elf/elf_image.h"
#include "lib/base/alloc.h"
#include <stdlib.h>

enum { MAX_RELOCATIONS = 16 << 20 };

static int by_address(const void *pa, const void *pb)
{
	const struct elf_relocation *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static bool is_relative(uint16_t machine, uint64_t info)
{
	uint32_t type = (uint32_t)GELF_R_TYPE(info);

	return (machine == EM_X86_64 && type == R_X86_64_RELATIVE) ||
	       (machine == EM_AARCH64 && type == R_AARCH64_RELATIVE);
}

static int read_relocations(struct elf_image *image)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_file_section(image->f, ".rela.dyn", &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	size_t n = data && shdr.sh_entsize ? data->d_size / shdr.sh_entsize : 0;
	bool sorted = true;

	for (size_t i = 0; i < n && i < MAX_RELOCATIONS; i++) {
		GElf_Rela rela;
		int r;

		if (!gelf_getrela(data, (int)i, &rela))
			break;
		if (!is_relative(image->f->machine, rela.r_info))
			continue;
		r = alloc_grow(&image->relocations, &image->cap, image->n + 1,
			sizeof(*image->relocations));
		if (r < 0)
			return r;
		sorted &= !image->n || image->relocations[image->n - 1].addr <= rela.r_offset;
		image->relocations[image->n++] = (struct elf_relocation) {
			.addr = rela.r_offset, .value = (uint64_t)rela.r_addend};
	}
	if (!sorted)
		qsort(image->relocations, image->n, sizeof(*image->relocations), by_address);
	return 0;
}

int elf_image_open(const struct elf_file *f, struct elf_image *ret)
{
	const char *raw;

	*ret = (struct elf_image) {.f = f};
	raw = elf_rawfile(f->elf, &ret->bytes);
	if (!raw)
		return -EBADMSG;
	ret->data = (const uint8_t *)raw;
	return read_relocations(ret);
}

void elf_image_done(struct elf_image *image)
{
	free(image->relocations);
	image->relocations = NULL;
}

struct cursor elf_image_at(const struct elf_image *image, uint64_t vaddr)
{
	struct cursor none = {.error = -EBADMSG};

	for (uint32_t i = 0; i < image->f->n_loads; i++) {
		const struct elf_segment *load = &image->f->loads[i];
		uint64_t at = vaddr - load->vaddr, off;

		if (vaddr < load->vaddr || at >= load->file_bytes ||
			__builtin_add_overflow(load->file_off, at, &off) || off >= image->bytes)
			continue;
		return cursor_of(image->data + off, MIN(load->file_bytes - at, image->bytes - off));
	}
	return none;
}

uint64_t elf_image_pointer(struct elf_image *image, uint64_t vaddr)
{
	const struct elf_relocation *r = image->relocations;
	struct elf_relocation key = {.addr = vaddr};
	struct cursor c;

	/* Tables are read from front to back: mostly it is the next one. */
	if (image->last < image->n && r[image->last].addr == vaddr)
		return r[image->last++].value;
	r = image->n ? bsearch(&key, r, image->n, sizeof(*r), by_address) : NULL;
	if (r) {
		image->last = (size_t)(r - image->relocations) + 1;
		return r->value;
	}
	c = elf_image_at(image, vaddr);
	return cursor_u64(&c);
}

const char *elf_image_string(
	const struct elf_image *image, uint64_t vaddr, size_t max, size_t *ret_n)
{
	struct cursor c = elf_image_at(image, vaddr);
	const uint8_t *nul = cursor_left(&c) ? memchr(c.pos, 0, cursor_left(&c)) : NULL;

	if (!nul)
		return NULL;
	*ret_n = MIN((size_t)(nul - c.pos), max);
	return (const char *)c.pos;
}
