/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening an ELF file, its notes, and the hash that identifies its content.
 */
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include <string.h>
#include <sys/stat.h>

enum {
	NOTE_GNU_BUILD_ID = 3,
	NOTE_GO_BUILD_ID = 4,
	MAX_NOTE_BYTES = 1 << 20,
	HASH_BYTES = 256 << 10
};

static int refuse(struct errbuf *eb, int code, const char *what)
{
	return err_set(eb, code, "%s: %s", what, elf_errno() ? elf_errmsg(-1) : "malformed");
}

static void read_note(
	struct elf_file *f, const GElf_Nhdr *note, const char *name, const uint8_t *desc)
{
	if (note->n_type == NOTE_GNU_BUILD_ID && note->n_namesz == 4 &&
		memcmp(name, "GNU", 4) == 0 && note->n_descsz &&
		note->n_descsz <= SYMBOL_BUILD_ID_MAX && !f->build_id_len) {
		f->build_id_len = note->n_descsz;
		memcpy(f->build_id, desc, note->n_descsz);
	}
	if (note->n_type == NOTE_GO_BUILD_ID && note->n_namesz == 4 &&
		memcmp(name, "Go\0", 4) == 0 && note->n_descsz < sizeof(f->go_build_id)) {
		memcpy(f->go_build_id, desc, note->n_descsz);
		f->go_build_id[note->n_descsz] = '\0';
	}
}

static void read_notes(struct elf_file *f, uint64_t file_off, uint64_t bytes, uint64_t align)
{
	Elf_Type type = align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
	size_t off = 0, name_off, desc_off;
	Elf_Data *data;
	GElf_Nhdr note;

	if (bytes > MAX_NOTE_BYTES)
		return;
	data = elf_getdata_rawchunk(f->elf, (int64_t)file_off, bytes, type);
	while (data && (off = gelf_getnote(data, off, &note, &name_off, &desc_off)) > 0)
		read_note(f, &note, (const char *)data->d_buf + name_off,
			(const uint8_t *)data->d_buf + desc_off);
}

static int read_segments(struct elf_file *f, struct errbuf *eb)
{
	size_t n;

	if (elf_getphdrnum(f->elf, &n) < 0)
		return refuse(eb, -EBADMSG, "program headers");
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(f->elf, (int)i, &phdr))
			return refuse(eb, -EBADMSG, "program header");
		if (phdr.p_type == PT_NOTE)
			read_notes(f, phdr.p_offset, phdr.p_filesz, phdr.p_align);
		if (phdr.p_type != PT_LOAD || f->n_loads == SYMBOL_MAX_LOADS)
			continue;
		f->loads[f->n_loads++] = (struct elf_segment) {
			.vaddr = phdr.p_vaddr,
			.file_off = phdr.p_offset,
			.file_bytes = phdr.p_filesz,
			.memory_bytes = phdr.p_memsz,
			.flags = phdr.p_flags,
		};
	}
	return 0;
}

static void look_at_sections(struct elf_file *f)
{
	bool has_segments = f->n_loads;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(f->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr))
			continue;
		if (shdr.sh_type == SHT_NOTE && !has_segments)
			read_notes(f, shdr.sh_offset, shdr.sh_size, shdr.sh_addralign);
		if (shdr.sh_type == SHT_SYMTAB && !f->symtab)
			f->symtab = scn;
		if (shdr.sh_type == SHT_DYNSYM && !f->dynsym)
			f->dynsym = scn;
	}
}

static int read_headers(struct elf_file *ret, bool linked, struct errbuf *eb)
{
	GElf_Ehdr ehdr;
	int r;

	if (!ret->elf || elf_kind(ret->elf) != ELF_K_ELF || !gelf_getehdr(ret->elf, &ehdr))
		return refuse(eb, -EBADMSG, "not an ELF file");
	if (ehdr.e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(eb, -ENOTSUP, "a big-endian ELF file");
	if (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN && !(linked && ehdr.e_type == ET_REL))
		return err_set(eb, -ENOTSUP, "neither a program nor a shared object");
	ret->type = ehdr.e_type;
	ret->machine = ehdr.e_machine;
	r = read_segments(ret, eb);
	if (r < 0)
		return r;
	look_at_sections(ret);
	return 0;
}

static int open_fd(int fd, bool linked, struct elf_file *ret, struct errbuf *eb)
{
	struct stat st;

	*ret = (struct elf_file) {.fd = fd};
	if (fstat(fd, &st) < 0)
		return err_set(eb, -EBADMSG, "cannot stat the file");
	ret->file_bytes = (uint64_t)st.st_size;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return refuse(eb, -ENOTSUP, "libelf");
	ret->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	return read_headers(ret, linked, eb);
}

int elf_file_open(int fd, struct elf_file *ret, struct errbuf *eb)
{
	return open_fd(fd, false, ret, eb);
}

int elf_file_open_linked(int fd, struct elf_file *ret, struct errbuf *eb)
{
	return open_fd(fd, true, ret, eb);
}

int elf_file_open_mini(const struct elf_file *f, struct elf_file *ret, struct errbuf *eb)
{
	GElf_Shdr shdr;
	Elf_Data *packed = elf_file_section_data(elf_file_section(f, ".gnu_debugdata", &shdr));
	size_t n;
	int r;

	*ret = (struct elf_file) {.fd = -1};
	if (!packed)
		return -ENOENT;
	r = elf_unpack_xz(packed->d_buf, packed->d_size, &ret->memory, &n);
	if (r < 0)
		return err_set(eb, r, ".gnu_debugdata: %s", strerror(-r));
	ret->file_bytes = n;
	ret->elf = elf_memory((char *)ret->memory, n);
	return read_headers(ret, false, eb);
}

void elf_file_done(struct elf_file *f)
{
	if (f->elf)
		elf_end(f->elf);
	f->elf = NULL;
	free(TAKE(f->memory));
}

Elf_Scn *elf_file_section(const struct elf_file *f, const char *name, GElf_Shdr *ret_shdr)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(f->elf, &names) < 0)
		return NULL;
	while ((scn = elf_nextscn(f->elf, scn))) {
		const char *s;

		if (!gelf_getshdr(scn, ret_shdr))
			continue;
		s = elf_strptr(f->elf, names, ret_shdr->sh_name);
		if (s && strcmp(s, name) == 0)
			return scn;
	}
	return NULL;
}

Elf_Data *elf_file_section_data(Elf_Scn *scn)
{
	GElf_Shdr shdr;
	Elf_Data *data;

	if (!scn || !gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS ||
		(shdr.sh_flags & SHF_COMPRESSED))
		return NULL;
	data = elf_rawdata(scn, NULL);
	return data && data->d_buf ? data : NULL;
}

bool elf_file_is_code(const struct elf_file *f, uint64_t vaddr)
{
	for (uint32_t i = 0; i < f->n_loads; i++) {
		const struct elf_segment *load = &f->loads[i];

		if ((load->flags & PF_X) && vaddr >= load->vaddr &&
			vaddr - load->vaddr < load->memory_bytes)
			return true;
	}
	return false;
}

static void put_section(Elf_Scn *scn, struct bytes *out)
{
	Elf_Data *data = elf_file_section_data(scn);

	bytes_put_u64(out, data ? data->d_size : 0);
	bytes_put_u64(out, data ? hash_xxh3(data->d_buf, data->d_size) : 0);
}

/* Read, not mapped: the code of a big binary would stay in memory for nothing. */
static void put_code(const struct elf_file *f, struct bytes *out)
{
	_cleanup_free_ uint8_t *buffer = xmalloc(HASH_BYTES);

	for (uint32_t i = 0; i < f->n_loads; i++) {
		const struct elf_segment *load = &f->loads[i];
		uint64_t done = 0, hash = 0;
		ssize_t n = 1;

		for (; (load->flags & PF_X) && n > 0 && done < load->file_bytes;
			done += (uint64_t)n) {
			n = pread(f->fd, buffer, MIN(HASH_BYTES, load->file_bytes - done),
				(off_t)(load->file_off + done));
			hash = n > 0 ? hash_xxh3_seed(buffer, (size_t)n, hash) : hash;
		}
		bytes_put_u64(out, hash);
	}
}

/* Debug information by its size: with the same code it differs by being there or not. */
static void put_debug_sizes(const struct elf_file *f, struct bytes *out)
{
	static const char *const names[] = {
		".debug_info", ".debug_line", ".zdebug_info", ".zdebug_line"};
	GElf_Shdr shdr;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		bytes_put_u64(out, elf_file_section(f, names[i], &shdr) ? shdr.sh_size : 0);
}

/* A build id alone does not do: it is missing in many static and Go programs, and a stripped
 * copy has its original's. So the hash takes in what names and unwinding are made from; without
 * a build id also the code. */
void elf_file_content_id(const struct elf_file *f, uint8_t ret[SYMBOL_CONTENT_ID_LEN])
{
	_cleanup_bytes_ struct bytes b;
	uint8_t digest[32];
	GElf_Shdr shdr;

	bytes_init(&b, NULL, 0);
	bytes_put_u32(&b, SYMBOL_VERSION);
	bytes_put_u16(&b, f->type);
	bytes_put_u16(&b, f->machine);
	bytes_put_u32(&b, f->build_id_len);
	bytes_put(&b, f->build_id, f->build_id_len);
	bytes_put_str(&b, f->go_build_id);
	for (uint32_t i = 0; i < f->n_loads; i++) {
		bytes_put_u64(&b, f->loads[i].vaddr);
		bytes_put_u64(&b, f->loads[i].file_off);
		bytes_put_u64(&b, f->loads[i].file_bytes);
		bytes_put_u32(&b, f->loads[i].flags);
	}
	put_section(f->symtab, &b);
	put_section(f->dynsym, &b);
	put_section(elf_file_section(f, ".eh_frame", &shdr), &b);
	put_debug_sizes(f, &b);
	if (!f->build_id_len)
		put_code(f, &b);
	hash_sha256(b.data, b.len, digest);
	memcpy(ret, digest, SYMBOL_CONTENT_ID_LEN);
}
