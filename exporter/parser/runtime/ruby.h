/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby 2.5 to 4.0 (CRuby) in an ELF file: a library, or a program that it is linked into.
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "exporter/symfile/ruby.h"
#include <stdbool.h>

bool ruby_detect(const struct elf_file *f, struct runtime_record *ret);
