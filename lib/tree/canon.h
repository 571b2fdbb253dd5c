/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions without the parts that a compiler numbers anew in each build.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { TREE_CANON_MAX = 4096 }; /* longer names stay as they are */

/* What a name loses. */
enum tree_canon {
	TREE_CANON_CLONES =
		1, /* clone suffixes (.constprop.0, .part.1, .isra.2, .cold) and Rust's hash */
	TREE_CANON_NUMBERS = 2, /* numbers of lambdas and OCaml's stamps */
	TREE_CANON_OFFSETS = 4, /* the offset of "module+0xoffset" */
};

/*
 * The name without what `what` (enum tree_canon) says, into `ret`; returns the length. 0: nothing was left, or the name is longer than
 * that; then it stays as it is. No NUL is added.
 */
size_t tree_canonical_name(
	const char *name, size_t len, unsigned what, char ret[static TREE_CANON_MAX]);
/* The end of a clone suffix that begins at p, or NULL: ".cold", ".constprop.0", " [clone .isra.0]". */
const char *tree_skip_clone(const char *p, const char *end);
/* The length of the name without Rust's "::h0123456789abcdef" at its end. */
size_t tree_without_rust_hash(const char *name, size_t len);
/* Is the name this one, as it is or without what TREE_CANON_CLONES takes? So a clone answers to the name that it is shown by. */
bool tree_name_is(const char *name, size_t len, const char *wanted);
