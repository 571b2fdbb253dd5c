/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols by name; thread-local variables by machine code.
 */
#include "exporter/parser/runtime/runtime_symbols.h"

enum { MAX_CODE_BYTES = 64 };

/* Most names of a large table, which are those of C++, differ in their second character. */
static bool is_named(const char *name, const char *wanted)
{
	return name[0] == wanted[0] && name[1] == wanted[1] && strcmp(name, wanted) == 0;
}

void runtime_symbols_find(
	const struct elf_file *f, Elf_Scn *table, struct runtime_symbol *symbols, size_t n)
{
	Elf_Data *data = table ? elf_getdata(table, NULL) : NULL;
	GElf_Shdr shdr;
	GElf_Sym sym;

	if (!data || !gelf_getshdr(table, &shdr))
		return;
	for (int i = 0; gelf_getsym(data, i, &sym); i++) {
		const char *name = sym.st_shndx == SHN_UNDEF
					   ? NULL
					   : elf_strptr(f->elf, shdr.sh_link, sym.st_name);

		for (size_t k = 0; name && name[0] && k < n; k++)
			if (is_named(name, symbols[k].name) && !symbols[k].addr) {
				symbols[k].addr = sym.st_value;
				symbols[k].bytes = sym.st_size;
			}
	}
}

static bool starts_with(struct cursor *c, const void *bytes, size_t n)
{
	if (cursor_left(c) < n || memcmp(c->pos, bytes, n) != 0)
		return false;
	cursor_skip(c, n);
	return true;
}

/* The instructions at an address, behind what a prologue may have. */
static struct cursor code_of(const struct elf_image *image, uint64_t vaddr)
{
	struct cursor c = elf_image_at(image, vaddr);

	if (cursor_left(&c) > MAX_CODE_BYTES)
		c.end = c.pos + MAX_CODE_BYTES;
	starts_with(&c, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
	starts_with(&c, "\x55\x48\x89\xe5", 4); /* push %rbp; mov %rsp,%rbp */
	if (starts_with(&c, "\x48\x83\xec", 3)) /* sub $N,%rsp */
		cursor_skip(&c, 1);
	return c;
}

/* A 32-bit distance from the end of itself. */
static uint64_t relative(struct cursor *c, uint64_t vaddr)
{
	int64_t distance = (int32_t)cursor_u32(c);

	return vaddr + cursor_off(c) + (uint64_t)distance;
}

bool runtime_state_of_code(const struct elf_image *image, uint64_t vaddr, struct runtime_state *ret)
{
	struct cursor c = code_of(image, vaddr);
	uint16_t by = RUNTIME_BY_NOTHING;
	uint64_t at = 0;

	if (image->f->machine != EM_X86_64)
		return false;
	if (starts_with(&c, "\x64\x48\x8b\x04\x25", 5)) { /* mov %fs:K,%rax */
		at = (uint64_t)(int64_t)(int32_t)cursor_u32(&c);
		by = RUNTIME_BY_TP;
	} else if (starts_with(
			   &c, "\x48\x8b\x05", 3)) { /* mov GOT(%rip),%rax; mov %fs:(%rax),%rax */
		at = relative(&c, vaddr);
		by = starts_with(&c, "\x64\x48\x8b\x00", 4) ? RUNTIME_BY_GOT : RUNTIME_BY_NOTHING;
	} else if (starts_with(&c, "\x66\x48\x8d\x3d",
			   4)) { /* lea GOT(%rip),%rdi; call __tls_get_addr */
		at = relative(&c, vaddr);
		if (starts_with(&c, "\x66\x66\x48\xe8", 4) ||
			starts_with(&c, "\x66\x48\xff\x15", 4))
			cursor_skip(&c, 4);
		else
			cursor_fail(&c);
		by = starts_with(&c, "\x48\x8b\x00", 3) ? RUNTIME_BY_GOT_PAIR : RUNTIME_BY_NOTHING;
	}
	if (c.error || by == RUNTIME_BY_NOTHING)
		return false;
	*ret = (struct runtime_state) {.by = by, .at = at};
	return true;
}

/* REX.W with any register of the destination, then `op` and a ModRM byte; that byte's mod and rm are `form`. */
static bool takes_wide(struct cursor *c, uint8_t op, uint8_t form, uint8_t *ret_reg)
{
	const uint8_t *p = c->pos;

	if (cursor_left(c) < 3 || (p[0] & 0xfb) != 0x48 || p[1] != op || (p[2] & 0xc7) != form)
		return false;
	*ret_reg = (uint8_t)((p[2] >> 3 & 7) | (p[0] & 4) << 1);
	cursor_skip(c, 3);
	return true;
}

enum { FORM_RAX = 0x00, FORM_SIB = 0x04, FORM_RIP = 0x05, SIB_ABSOLUTE = 0x25, MOV_LOAD = 0x8b };

/* A load of a thread-local pointer at the cursor. Above the thread pointer lies what the C library has of a thread. */
static bool state_at(struct cursor c, uint64_t vaddr, struct runtime_state *ret)
{
	struct cursor tls = c;
	uint8_t reg, other;
	uint64_t at;

	if (starts_with(&tls, "\x64", 1) && takes_wide(&tls, MOV_LOAD, FORM_SIB, &reg) &&
		cursor_u8(&tls) == SIB_ABSOLUTE) { /* mov %fs:K,%r */
		int32_t off = (int32_t)cursor_u32(&tls);

		*ret = (struct runtime_state) {RUNTIME_BY_TP, (uint64_t)(int64_t)off};
		return !tls.error && off < 0;
	}
	if (starts_with(&c, "\x66\x48\x8d\x3d", 4)) { /* lea GOT(%rip),%rdi; call __tls_get_addr */
		at = relative(&c, vaddr);
		if (!starts_with(&c, "\x66\x66\x48\xe8", 4) &&
			!starts_with(&c, "\x66\x48\xff\x15", 4))
			return false;
		cursor_skip(&c, 4);
		*ret = (struct runtime_state) {RUNTIME_BY_GOT_PAIR, at};
		return !c.error && takes_wide(&c, MOV_LOAD, FORM_RAX, &reg);
	}
	if (takes_wide(&c, MOV_LOAD, FORM_RIP, &reg)) { /* mov GOT(%rip),%a; mov %fs:(%a),%b */
		at = relative(&c, vaddr);
		*ret = (struct runtime_state) {RUNTIME_BY_GOT, at};
		/* Of these forms, those of other registers than the first eight but two are longer. */
		return reg < 8 && reg != 4 && reg != 5 && starts_with(&c, "\x64", 1) &&
		       takes_wide(&c, MOV_LOAD, reg, &other);
	}
	return false;
}

bool runtime_state_in_code(
	const struct elf_image *image, uint64_t vaddr, uint64_t bytes, struct runtime_state *ret)
{
	struct cursor c = elf_image_at(image, vaddr);
	struct runtime_state found;

	if (cursor_left(&c) > bytes)
		c.end = c.pos + bytes;
	/* No two of these forms overlap, and none is the end of a longer instruction's number. */
	for (; image->f->machine == EM_X86_64 && cursor_left(&c); cursor_skip(&c, 1))
		if (state_at(c, vaddr, &found)) {
			*ret = found;
			return true;
		}
	return false;
}

bool runtime_needs_glibc(const struct elf_file *f)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_file_section(f, ".dynamic", &shdr);
	Elf_Data *data = scn && shdr.sh_type == SHT_DYNAMIC ? elf_getdata(scn, NULL) : NULL;
	GElf_Dyn dyn;

	for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		const char *name = dyn.d_tag == DT_NEEDED
					   ? elf_strptr(f->elf, shdr.sh_link, dyn.d_un.d_val)
					   : NULL;

		if (name && strcmp(name, "libc.so.6") == 0)
			return true;
	}
	return false;
}

uint64_t runtime_key_of_code(const struct elf_image *image, uint64_t vaddr)
{
	struct cursor c = code_of(image, vaddr);
	const uint8_t *at = cursor_left(&c) ? memmem(c.pos, cursor_left(&c), "\x8b\x3d", 2) : NULL;
	uint64_t ret;

	if (image->f->machine != EM_X86_64 || !at)
		return 0;
	cursor_skip(&c, (size_t)(at - c.pos) + 2); /* mov KEY(%rip),%edi */
	ret = relative(&c, vaddr);
	return c.error ? 0 : ret;
}

/* The address that an instruction at the cursor loads; 0: it is none of these. */
static uint64_t loaded(struct cursor c, uint64_t vaddr, uint64_t start)
{
	uint64_t at = 0;

	if (starts_with(&c, "\xbf", 1)) /* mov $ADDRESS,%edi */
		at = cursor_u32(&c);
	else if (starts_with(&c, "\x48\x8d\x3d", 3)) /* lea ADDRESS(%rip),%rdi */
		at = relative(&c, vaddr);
	else if (cursor_left(&c) > 3 && c.pos[0] == 0x48 && c.pos[1] == 0x8d &&
		 (c.pos[2] & 0xc7) == 0x80) { /* lea DISTANCE(%rax),%r */
		cursor_skip(&c, 3);
		at = start + cursor_u32(&c);
	}
	return c.error ? 0 : at;
}

uint64_t runtime_address_of_code(
	const struct elf_image *image, uint64_t vaddr, uint64_t start, uint64_t bytes)
{
	struct cursor c = code_of(image, vaddr);

	for (; image->f->machine == EM_X86_64 && cursor_left(&c); cursor_skip(&c, 1)) {
		uint64_t at = loaded(c, vaddr, start);

		if (at > start && at - start < bytes)
			return at;
	}
	return 0;
}
