/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions without the parts that a compiler numbers anew in each build.
 */
#pragma once
#include <stddef.h>

/* The name without clone suffixes (.constprop.0, .part.1, .isra.2, .cold), Rust's hash, numbers of lambdas and OCaml's stamps; and
 * without the offset of "module+0xoffset". Into `ret`, cut to its size; returns the length. No NUL is added. */
size_t tree_canonical_name(const char *name, size_t len, char *ret, size_t size);
