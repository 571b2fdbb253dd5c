/* SPDX-License-Identifier: Apache-2.0
 *
 * Split units (DWARF 5 §3.1.3, §7.3.2; before that GNU's DebugFission): their entries lie in a .dwo file
 * for each object, or in one package for all (.dwp, §7.3.5); the skeleton in the program has their
 * lines and addresses.
 */
#pragma once
#include "exporter/parser/debug/debug_tables.h"
#include "exporter/parser/dwarf/dwarf_links.h"

bool dwarf_is_skeleton(const struct dwarf_unit *u);
/* Adds what the unit of a skeleton holds. False when it is not found (counted). */
bool dwarf_split_walk(struct dwarf_unit *skeleton, struct dwarf_links *l, struct debug_tables *t);
