/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF file's memory as the loader lays it out: bytes by virtual address, pointers with their
 * relative relocations applied.
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/cursor.h"

struct elf_relocation {
	uint64_t addr, value;
};

struct elf_image {
	const struct elf_file *f;
	const uint8_t *data; /* the file */
	size_t bytes;
	struct elf_relocation *relocations; /* ascending by address */
	size_t n, cap, last;
};

int elf_image_open(const struct elf_file *f, struct elf_image *ret) _must_check_;
void elf_image_done(struct elf_image *image);
#define _cleanup_elf_image_ _cleanup_(elf_image_done)
/* The bytes from an address up to the end of what the file holds of its segment; empty, with its
 * error set, when there are none. */
struct cursor elf_image_at(const struct elf_image *image, uint64_t vaddr);
/* The pointer that lies at an address. */
uint64_t elf_image_pointer(struct elf_image *image, uint64_t vaddr);
/* The text at an address, at most `max` bytes of it without its NUL; NULL when it does not end. */
const char *elf_image_string(
	const struct elf_image *image, uint64_t vaddr, size_t max, size_t *ret_n);
