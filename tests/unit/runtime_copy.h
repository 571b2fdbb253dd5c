/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of an ELF file with a runtime that a test changes in places.
 */
#pragma once
#include "exporter/parser/elf/elf_image.h"
#include "exporter/parser/runtime/runtime.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
	struct elf_file f;
	struct elf_image image;
	int fd;
};

static inline void copy_open(struct copy *c, const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	c->fd = memfd_create("copy", MFD_CLOEXEC);
	assert_true(from >= 0 && c->fd >= 0 && fstat(from, &st) == 0);
	for (off_t done = 0; done < st.st_size;)
		assert_true(sendfile(c->fd, from, &done, (size_t)(st.st_size - done)) > 0);
	close(from);
	assert_int_equal(elf_file_open(c->fd, &c->f, NULL), 0);
	assert_int_equal(elf_image_open(&c->f, &c->image), 0);
}

static inline void copy_close(struct copy *c)
{
	elf_image_done(&c->image);
	elf_file_done(&c->f);
	close(c->fd);
}

/* Where an address of the file's memory lies in the file. */
static inline off_t offset_of(const struct copy *c, uint64_t vaddr)
{
	struct cursor at = elf_image_at(&c->image, vaddr);

	assert_int_equal(at.error, 0);
	return at.pos - c->image.data;
}

/* With `n` other bytes at an address: the refusal. What was there comes back. */
static inline uint32_t refusal_with(struct copy *c, uint64_t vaddr, const void *bytes, size_t n)
{
	off_t off = offset_of(c, vaddr);
	struct runtime_record r;
	struct elf_file f;
	uint8_t before[16];

	assert_true(n <= sizeof(before));
	assert_int_equal(pread(c->fd, before, n, off), n);
	assert_int_equal(pwrite(c->fd, bytes, n, off), n);
	assert_int_equal(elf_file_open(c->fd, &f, NULL), 0);
	assert_true(runtime_read(&f, &r));
	elf_file_done(&f);
	assert_int_equal(pwrite(c->fd, before, n, off), n);
	return r.refusal;
}

static inline uint64_t symbol_of(const struct copy *c, const char *name)
{
	GElf_Shdr shdr;
	GElf_Sym sym;
	Elf_Data *data = elf_getdata(c->f.dynsym, NULL);

	assert_non_null(gelf_getshdr(c->f.dynsym, &shdr));
	for (int i = 0; gelf_getsym(data, i, &sym); i++)
		if (strcmp(elf_strptr(c->f.elf, shdr.sh_link, sym.st_name), name) == 0)
			return sym.st_value;
	fail_msg("no symbol %s", name);
	return 0;
}
