/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects the runtime of a language in an ELF file. Called in a parser child: the file is hostile input.
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "exporter/symfile/runtime.h"
#include <stdbool.h>

/* The runtime that the file itself holds, not one that it links to. False: it has none. A runtime that cannot be read is one too, with
 * its refusal. */
bool runtime_read(const struct elf_file *f, struct runtime_record *ret);
