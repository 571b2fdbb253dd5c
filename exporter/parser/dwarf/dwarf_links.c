/* SPDX-License-Identifier: Apache-2.0
 *
 * Links to supplementary files, and the way to any file that is named.
 */
#include "exporter/parser/dwarf/dwarf_links.h"
#include <string.h>

void dwarf_linked_done(struct dwarf_linked *l)
{
	dwarf_file_done(&l->dwarf);
	elf_file_done(&l->elf);
	if (l->elf.fd >= 0)
		close(l->elf.fd);
	l->elf.fd = -1;
}

void dwarf_links_done(struct dwarf_links *l)
{
	if (l->package_asked)
		dwarf_linked_done(&l->package);
}

int dwarf_link_open(struct dwarf_links *l, struct parser_link *link, bool split,
	dwarf_link_fits *fits, const void *arg, struct dwarf_linked *ret)
{
	*ret = (struct dwarf_linked) {.elf = {.fd = -1}};
	link->magic = PARSER_MAGIC;
	link->from_debug = l->from_debug;
	for (;;) {
		uint32_t next = link->candidate;
		int fd = l->finder ? l->finder->find(l->finder->ctx, link, &next) : -1;
		int r;

		if (fd < 0)
			return -ENOENT;
		r = elf_file_open_linked(fd, &ret->elf, NULL);
		if (r == 0)
			r = dwarf_file_load(&ret->elf, split, &ret->dwarf);
		if (r == 0 && fits(ret, arg))
			return 0;
		dwarf_linked_done(ret);
		if (r == -ENOMEM)
			return r;
		/* Who answers may be wrong, but not for ever. */
		if (next <= link->candidate)
			return -ENOENT;
		link->candidate = next;
	}
}

static bool take_id(struct parser_link *link, const uint8_t *id, uint64_t n)
{
	if (!n || n > sizeof(link->id))
		return false;
	memcpy(link->id, id, n);
	link->id_len = (uint32_t)n;
	return true;
}

/* .debug_sup: u16 version, whether this is the supplementary file itself, its name, its checksum. */
static bool read_sup(const struct elf_file *f, bool is_sup, struct parser_link *ret)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, ".debug_sup", &shdr));
	struct cursor c = cursor_of(data ? data->d_buf : NULL, data ? data->d_size : 0);
	const char *name;
	uint64_t n;

	cursor_skip(&c, 2);
	if (cursor_u8(&c) != is_sup || c.error || !memchr(c.pos, 0, cursor_left(&c)))
		return false;
	name = (const char *)c.pos;
	cursor_skip(&c, strlen(name) + 1);
	n = cursor_varint(&c);
	if (n > cursor_left(&c) || !take_id(ret, c.pos, n))
		return false;
	return snprintf(ret->path, sizeof(ret->path), "%s", name) < (int)sizeof(ret->path);
}

/* .gnu_debugaltlink: the name, the build id up to the end. */
static bool read_alt_link(const struct elf_file *f, struct parser_link *ret)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, ".gnu_debugaltlink", &shdr));
	size_t n = data ? strnlen(data->d_buf, data->d_size) : 0;

	if (!data || n == data->d_size || n >= sizeof(ret->path))
		return false;
	memcpy(ret->path, data->d_buf, n + 1);
	return take_id(ret, (const uint8_t *)data->d_buf + n + 1, data->d_size - n - 1);
}

static bool is_alt(struct dwarf_linked *file, const void *arg)
{
	const struct parser_link *link = arg;
	struct parser_link own = {.id_len = 0};

	if (file->elf.build_id_len) {
		own.id_len = file->elf.build_id_len;
		memcpy(own.id, file->elf.build_id, own.id_len);
	} else if (!read_sup(&file->elf, true, &own)) {
		return false;
	}
	return own.id_len == link->id_len && memcmp(own.id, link->id, own.id_len) == 0;
}

int dwarf_alt_open(const struct elf_file *f, struct dwarf_links *l, struct dwarf_linked *ret)
{
	struct parser_link link = {.kind = PARSER_LINK_ALT};
	int r;

	if (!read_alt_link(f, &link) && !read_sup(f, false, &link))
		return -ENOENT;
	r = dwarf_link_open(l, &link, false, is_alt, &link, ret);
	if (r == 0)
		r = dwarf_file_list(&ret->dwarf);
	l->n_lacking += r == -ENOENT;
	return r;
}
