/* SPDX-License-Identifier: Apache-2.0
 *
 * CPython 3.6 to 3.15 in an ELF file: a library, or a program that it is linked into.
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "exporter/symfile/python.h"
#include <stdbool.h>

bool python_detect(const struct elf_file *f, struct runtime_record *ret);
