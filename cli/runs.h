/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles as runs that can be compared: each is a tree of functions, all over the same symbols. Functions of one name are one
 * function in any binary or source file, because two builds are two files.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/options.h"
#include "lib/base/table.h"
#include "lib/tree/filter.h"
#include "lib/tree/tree.h"

struct cli_profile;
/* Where a run is: in a file, or in memory. */
struct cli_source {
	char *name;	    /* the file, or what a message calls it */
	struct bytes raw;   /* pprof; empty: read the file */
	double seconds;	    /* that it covers; 0: what the profile says */
	double cpu_seconds; /* the same, of all CPUs of its targets; 0: unknown */
};

struct cli_sources {
	struct cli_source *items;
	size_t n, cap;
};
void cli_sources_done(struct cli_sources *s);
#define _cleanup_cli_sources_ _cleanup_(cli_sources_done)
/* An empty one at the end, to be filled. -ENOMEM. */
int cli_sources_add(struct cli_sources *s, const char *name, struct cli_source **ret,
	struct errbuf *eb) _must_check_;
/*
 * The files that an argument names: itself, what it matches when no file has that name (*, ?, […]), all profiles in it (*.pb, *.pb.gz,
 * *.pprof, *.folded) when it is a directory; sorted. -ENOENT with a text.
 */
int cli_sources_add_path(
	struct cli_sources *s, const char *argument, struct errbuf *eb) _must_check_;
/* Errors of cli_profile_read; the text begins with the source's name. */
int cli_source_read(
	const struct cli_source *s, struct cli_profile *ret, struct errbuf *eb) _must_check_;

/* The shares of a run without names, and of lost samples. */
struct cli_quality {
	double value, unnamed; /* of the functions' selfs; of those without a name */
	double samples, cut,
		lost;  /* whole ones; with a cut stack; that `sonde record` counted as lost */
	bool has_ends; /* samples say how their stacks end */
};

struct cli_run {
	char *name; /* of its source */
	struct tree tree;
	double seconds;	    /* that it covers; 0: unknown */
	double cpu_seconds; /* the same, of all CPUs of its targets; 0: unknown */
	double unit;	    /* what one sample amounts to */
	double metric; /* that its values are divided by, from metrics.csv; 0: none is asked for */
	int64_t time_ns;
	struct cli_quality quality;
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
	const char *metric;	  /* a column of the metrics.csv beside the files, or NULL */
	bool lines;		  /* lines are functions of their own */
	struct tree_filter filter;
	bool by_build;	/* each build's functions are functions of their own */
	unsigned canon; /* what names lose (enum tree_canon) */
};

/* The label that --by names: "thread" is thread_name, "label:K" is K, as in sonde top. NULL stays NULL. */
const char *cli_label_of(const char *by);

void cli_runs_init(struct cli_runs *r);
void cli_runs_done(struct cli_runs *r);
#define _cleanup_cli_runs_ _cleanup_(cli_runs_done)
/*
 * The profile of a source before any filter: with lines as functions of their own and with label values above the stacks, where that is asked
 * for. `ret` is `in`'s own profile or `labelled` (profile_init'ed). The text of an error begins with the source's name.
 */
struct profile;
int cli_runs_read(const struct cli_source *s, const struct cli_runs_options *o,
	struct cli_profile *in, struct profile *labelled, struct profile **ret,
	struct errbuf *eb) _must_check_;
/* Adds the profile of a source. -EINVAL: another type or unit than the runs before; errors of reading. The text begins with the source's
 * name. */
int cli_runs_add(struct cli_runs *r, const struct cli_source *s, const struct cli_runs_options *o,
	struct errbuf *eb) _must_check_;

/* run_metrics.c: of the run in the file DIR/SIDE-RUN.pb.gz, by DIR/metrics.csv, which has the columns side, run and this one. -EINVAL: no such
 * column or row, or no number above 0 there; errors of reading the file. */
int cli_run_metric(const char *path, const char *name, double *ret, struct errbuf *eb) _must_check_;
