/* SPDX-License-Identifier: Apache-2.0
 *
 * CPython's tables of lines. Its Objects/lnotab_notes.txt, from 3.11 on Objects/locations.md (3.15: InternalDocs/code_objects.md)
 * describe them.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum python_lines {
	PYTHON_LINES_NONE,
	PYTHON_LINES_LNOTAB, /* up to 3.9: steps of address and line */
	PYTHON_LINES_RANGES, /* 3.10: ranges of addresses, with the step of the line before each */
	PYTHON_LINES_LOCATIONS, /* from 3.11: entries of 1 to 8 instructions */
};

/* The line of an instruction, which is `position` units of 2 bytes from the start; 0: it has none, or the table is malformed or ends
 * before it. */
uint32_t python_lines_find(enum python_lines format, const uint8_t *table, size_t bytes,
	uint32_t first_line, uint32_t position);
