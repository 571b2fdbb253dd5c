/* SPDX-License-Identifier: Apache-2.0
 *
 * OCaml's frametables: for each return address of OCaml code the call's place in the source and
 * the inlined functions around it, with full module paths. The garbage collector needs them, so
 * stripped programs have them too. Source: runtime/frame_descriptors.h and
 * runtime/backtrace_nat.c of OCaml 4.11 to 5.3.
 */
#pragma once
#include "exporter/parser/debug/debug_tables.h"

/* Adds what the tables of a program that is (partly) OCaml say; nothing when it is not. `rows`
 * tell which function each return address lies in. -ENOMEM, -EFBIG. */
int ocaml_frames_read(const struct elf_file *f, const struct elf_symbols *symbols,
	const struct elf_rows *rows, struct debug_tables *t) _must_check_;
/* The same for an image that is at hand. */
struct elf_image;
int ocaml_frames_read_image(struct elf_image *image, const struct elf_symbols *symbols,
	const struct elf_rows *rows, struct debug_tables *t) _must_check_;
