/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of units.
 */
#pragma once
#include "exporter/parser/debug/debug_tables.h"
#include "exporter/parser/dwarf/dwarf_file.h"

/* Adds a unit's functions and inlined calls. What is malformed is counted as left out. */
void dwarf_walk_unit(struct dwarf_unit *u, struct debug_tables *t);
