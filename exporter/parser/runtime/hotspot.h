/* SPDX-License-Identifier: Apache-2.0
 *
 * The Java VM HotSpot in an ELF file (exporter/symfile/hotspot.h).
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "exporter/symfile/runtime.h"
#include <stdbool.h>

/* Fills in the record, which may be a refusal; false: the file holds none, nothing is written. */
bool hotspot_detect(const struct elf_file *f, struct runtime_record *ret);
