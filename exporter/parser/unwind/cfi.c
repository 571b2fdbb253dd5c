/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of .eh_frame and .debug_frame: CIEs, FDEs and the encoded addresses in them.
 */
#include "exporter/parser/unwind/cfi_run.h"
#include <dwarf.h>
#include <elf.h>

const struct cfi_machine *cfi_machine_of(uint16_t e_machine)
{
	static const struct cfi_machine x86 = {.fp = 6, .sp = 7, .bx = 3, .ra = 16, .n_regs = 16};
	static const struct cfi_machine arm64 = {
		.fp = 29, .sp = 31, .bx = 19, .ra = 30, .n_regs = 32, .ra_is_reg = true};

	return e_machine == EM_X86_64 ? &x86 : e_machine == EM_AARCH64 ? &arm64 : NULL;
}

void cfi_section_init(struct cfi_section *s, const struct cfi_machine *machine, const void *data,
	size_t bytes, uint64_t vaddr)
{
	*s = (struct cfi_section) {
		.machine = machine, .data = data, .bytes = bytes, .vaddr = vaddr};
	for (size_t i = 0; i < ARRAY_SIZE(s->cies); i++)
		s->cies[i].off = UINT64_MAX;
}

uint64_t cfi_read_address(const struct cfi_section *s, struct cursor *c, uint8_t encoding)
{
	uint64_t at = s->vaddr + (uint64_t)(c->pos - s->data), v;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: v = cursor_u64(c); break;
	case DW_EH_PE_udata4: v = cursor_u32(c); break;
	case DW_EH_PE_sdata4: v = (uint64_t)(int32_t)cursor_u32(c); break;
	case DW_EH_PE_udata2: v = cursor_u16(c); break;
	case DW_EH_PE_sdata2: v = (uint64_t)(int16_t)cursor_u16(c); break;
	case DW_EH_PE_uleb128: v = cursor_varint(c); break;
	case DW_EH_PE_sleb128: v = (uint64_t)cursor_sleb(c); break;
	default: cursor_fail(c); return 0;
	}
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr: return v;
	case DW_EH_PE_pcrel: return v + at;
	case DW_EH_PE_datarel: return v + s->data_rel;
	default: cursor_fail(c); return 0;
	}
}

/* Where an entry lies in its section. */
struct entry {
	struct cursor c; /* behind the id */
	uint64_t cie;	 /* offset of its CIE; of itself when it is one */
	enum cfi_entry kind;
};

static struct entry entry_at(const struct cfi_section *s, uint64_t *off)
{
	struct entry e = {.kind = CFI_BAD};
	struct cursor c = cursor_of(s->data, s->bytes);
	uint64_t length, id, id_at;
	bool is_64 = false;

	if (*off >= s->bytes) {
		e.kind = CFI_END;
		return e;
	}
	cursor_skip(&c, *off);
	length = cursor_u32(&c);
	if (length == 0 && !s->is_debug_frame && !c.error) {
		e.kind = CFI_END;
		return e;
	}
	if (length == 0xffffffff) {
		is_64 = true;
		length = cursor_u64(&c);
	}
	if (c.error || length > cursor_left(&c))
		return e; /* *off unchanged: there is no telling where the next one is */
	id_at = cursor_off(&c);
	e.c = cursor_of(c.pos, length);
	id = is_64 && s->is_debug_frame ? cursor_u64(&e.c) : cursor_u32(&e.c);
	e.cie = s->is_debug_frame ? id : id_at - id;
	if (!e.c.error)
		e.kind = CFI_FDE;
	if (s->is_debug_frame ? id == (is_64 ? UINT64_MAX : 0xffffffff) : id == 0) {
		e.kind = CFI_CIE;
		e.cie = *off;
	} else if (e.cie >= s->bytes || (!s->is_debug_frame && id > id_at)) {
		e.kind = CFI_BAD;
	}
	*off = id_at + length;
	return e;
}

/* Augmentation data by the letters of the string; what follows an unknown letter is skipped. */
static void read_augmentation(
	const struct cfi_section *s, struct cfi_cie *cie, const char *letters, struct cursor data)
{
	for (; *letters && !data.error; letters++) {
		switch (*letters) {
		case 'R': cie->pointer_encoding = cursor_u8(&data); break;
		case 'L': cursor_skip(&data, 1); break;
		case 'P': (void)cfi_read_address(s, &data, cursor_u8(&data) & 0x0f); break;
		case 'S': cie->is_signal_frame = true; break;
		case 'B':
		case 'G': break; /* arm64: which key signs, memory tags */
		default: return;
		}
	}
}

static bool read_cie(const struct cfi_section *s, struct cursor c, struct cfi_cie *cie)
{
	uint8_t version = cursor_u8(&c);
	const char *letters = (const char *)c.pos;
	size_t n = strnlen(letters, cursor_left(&c));

	if (n == cursor_left(&c) || (version != 1 && version != 3 && version != 4))
		return false;
	cursor_skip(&c, n + 1);
	if (version == 4 && (cursor_u8(&c) != 8 || cursor_u8(&c) != 0))
		return false; /* addresses of other size, or segmented */
	cie->code_align = cursor_varint(&c);
	cie->data_align = cursor_sleb(&c);
	cie->ra = version == 1 ? cursor_u8(&c) : (uint32_t)MIN(cursor_varint(&c), UINT32_MAX);
	cie->pointer_encoding = DW_EH_PE_absptr;
	cie->has_augmentation_data = letters[0] == 'z';
	if (cie->has_augmentation_data) {
		size_t bytes = cursor_varint(&c);

		read_augmentation(s, cie, letters + 1, cursor_sub(&c, bytes));
	} else if (letters[0]) {
		return false; /* without a length there is no telling what follows */
	}
	cie->code = c.pos;
	cie->code_bytes = cursor_left(&c);
	return !c.error && cfi_run_initial(s->machine, cie);
}

/* The CIE at that offset, from the last ones read; NULL when it is malformed. */
static const struct cfi_cie *cie_at(struct cfi_section *s, uint64_t off)
{
	struct cfi_cie *cie = &s->cies[(off * 0x9e3779b97f4a7c15ULL) >> 61];
	struct entry e;

	if (cie->off == off)
		return cie;
	*cie = (struct cfi_cie) {.off = UINT64_MAX};
	e = entry_at(s, &(uint64_t) {off});
	if (e.kind != CFI_CIE || !read_cie(s, e.c, cie))
		return NULL;
	cie->off = off;
	return cie;
}

enum cfi_entry cfi_skip(const struct cfi_section *s, uint64_t *off)
{
	return entry_at(s, off).kind;
}

enum cfi_entry cfi_read(struct cfi_section *s, uint64_t *off, struct cfi_fde *ret)
{
	struct entry e = entry_at(s, off);

	if (e.kind != CFI_FDE)
		return e.kind;
	ret->cie = cie_at(s, e.cie);
	if (!ret->cie)
		return CFI_BAD;
	ret->begin = cfi_read_address(s, &e.c, ret->cie->pointer_encoding);
	ret->end = ret->begin + cfi_read_address(s, &e.c, ret->cie->pointer_encoding & 0x0f);
	if (ret->cie->has_augmentation_data)
		cursor_skip(&e.c, cursor_varint(&e.c));
	ret->code = e.c.pos;
	ret->code_bytes = cursor_left(&e.c);
	return e.c.error || ret->end < ret->begin ? CFI_BAD : CFI_FDE;
}

bool cfi_has_signal_frames(const struct cfi_section *s)
{
	enum cfi_entry kind;
	uint64_t off = 0, at;

	do {
		struct entry e;

		at = off;
		e = entry_at(s, &off);
		kind = e.kind;
		cursor_skip(&e.c, 1); /* version */
		if (kind == CFI_CIE &&
			memchr(e.c.pos, 'S', strnlen((const char *)e.c.pos, cursor_left(&e.c))))
			return true;
	} while (kind != CFI_END && off != at);
	return false;
}
