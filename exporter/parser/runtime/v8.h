/* SPDX-License-Identifier: Apache-2.0
 *
 * V8 in an ELF file that exports what debuggers need (postmortem metadata), as Node.js 12 to 26 do.
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "exporter/symfile/v8.h"
#include <stdbool.h>

bool v8_detect(const struct elf_file *f, struct runtime_record *ret);
