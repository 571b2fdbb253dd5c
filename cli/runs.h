/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles as runs that can be compared: each a tree of functions, all over the same symbols, in which functions of one name are one
 * function, whichever binary or source file they come from: two builds are compared, and they are two files.
 */
#pragma once
#include "lib/base/options.h"
#include "lib/tree/filter.h"
#include "lib/tree/tree.h"

struct cli_run {
	char *name; /* the file */
	struct tree tree;
	double seconds; /* that it covers; 0: unknown */
	double unit;	/* what one sample amounts to */
	int64_t time_ns;
};

struct cli_runs {
	struct tree_symbols symbols;
	struct table by_name; /* name → frame */
	struct cli_run *items;
	size_t n, cap;
	char *type, *unit; /* of the first; the others have to agree */
};

/* How runs are read. */
struct cli_runs_options {
	const char *sample_index; /* or NULL */
	const char *by;		  /* a label whose values stand above the stacks, or NULL */
	struct tree_filter filter;
	bool canon; /* names without what compilers number anew in each build */
};

void cli_runs_init(struct cli_runs *r);
void cli_runs_done(struct cli_runs *r);
#define _cleanup_cli_runs_ _cleanup_(cli_runs_done)
/* Adds the profile of a file. The text of an error begins with its name. */
int cli_runs_add(struct cli_runs *r, const char *path, const struct cli_runs_options *o,
	struct errbuf *eb) _must_check_;

/*
 * The files that an argument names: itself, what it matches when no file has that name (*, ?, […]), all profiles in it (*.pb, *.pb.gz,
 * *.pprof, *.folded) when it is a directory; sorted. Added to `ret`, whose texts are freed with cli_paths_done. -ENOENT with a text.
 */
int cli_paths_add(struct option_list *ret, const char *argument, struct errbuf *eb) _must_check_;
void cli_paths_done(struct option_list *paths);

/* The name without clone suffixes (.constprop.0, .part.1, .isra.2, .cold), Rust's hash, numbers of lambdas and OCaml's stamps; and
 * without the offset of "module+0xoffset". Into `ret`, cut to its size; returns the length. */
size_t cli_canonical_name(const char *name, size_t len, char *ret, size_t size);
