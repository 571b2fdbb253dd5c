/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions as people say them.
 */
#pragma once
#include <stddef.h>

enum { TREE_SHORT_CHARS = 100 }; /* of a short name */

/*
 * The name without template arguments, parameters and return type, hashes and clone suffixes, with `std::string` for the standard's
 * basic_string of char; of more than TREE_SHORT_CHARS characters the middle is elided. A name that is no such thing, or has unbalanced
 * brackets, stays. Into `ret`, which has room for `len` bytes and may not be `name`; returns the length, 0 for an empty name alone.
 * No NUL is added. ui/src/names.ts is the same; tests/data/short_names.txt holds them together.
 */
size_t tree_short_name(const char *name, size_t len, char *ret);
