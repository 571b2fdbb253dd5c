/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sets of runs compared, and shown: what `sonde diff` and `sonde bench` share.
 */
#pragma once
#include "cli/runs.h"
#include "lib/base/bytes.h"
#include "lib/stats/rank.h"
#include "lib/stats/trees.h"
#include "lib/tree/diff.h"

/* The flags of both commands. */
struct cli_compare_options {
	const char *output, *format, *per, *method, *value, *width, *by, *sample_index;
	const char *focus, *ignore, *hide, *show, *show_from;
	const char *title, *label_a, *label_b;
	struct option_list fail_on;
	double alpha, min_effect, min_samples, max_lost, max_unresolved;
	uint64_t top;
	bool canon, unnamed_by_binary, by_build, lines, json, md;
	bool stored;	 /* runs are of a store: set by cli_compare_check */
	bool of_service; /* a run of a store is all its targets together, else one of them */
};

#define CLI_COMPARE_FLAG(struct_, name_, field_, value_, fallback_, help_)          \
	{                                                                           \
		name_, OPTION_STRING, offsetof(struct_, compare.field_),            \
			.value = (value_), .fallback = (fallback_), .help = (help_) \
	}
#define CLI_COMPARE_CHOICE(struct_, name_, field_, value_, fallback_, help_)        \
	{                                                                           \
		name_, OPTION_CHOICE, offsetof(struct_, compare.field_),            \
			.value = (value_), .fallback = (fallback_), .help = (help_) \
	}

/* Rows of a table of options whose struct has a `struct cli_compare_options compare`. */
#define CLI_COMPARE_OPTIONS(struct_)                                                               \
	OPTION_HEADING("What is compared"),                                                        \
		{"sample-index", OPTION_STRING, offsetof(struct_, compare.sample_index),           \
			.value = "TYPE", .also = "sample-type",                                    \
			.help = "Which value: a sample type (\"cpu\") or its number from 0. "      \
				"Default: the profile's own default, else the last."},             \
		CLI_COMPARE_FLAG(struct_, "per", per, "run|second|cpu-second|total|metric:NAME",   \
			NULL,                                                                      \
			"run: values of whole runs, which is right for equal work; second: "       \
			"divided by the time that the profile covers; cpu-second (with "           \
			"--server): "                                                              \
			"by that times the CPUs that the targets have; total: shares, each run "   \
			"divided by the median of its functions' ratios to the other runs; "       \
			"metric: divided by that column of the metrics.csv beside the files. "     \
			"Default: run, with --server second."),                                    \
		CLI_COMPARE_FLAG(struct_, "by", by, "thread|comm|label:NAME", NULL,                \
			"Puts the values of this label above the stacks; in pictures each has a "  \
			"colour scale of its own."),                                               \
		CLI_COMPARE_FLAG(struct_, "focus", focus, "REGEX", NULL,                           \
			"Only stacks with a match, as in pprof."),                                 \
		CLI_COMPARE_FLAG(                                                                  \
			struct_, "ignore", ignore, "REGEX", NULL, "No stacks with a match."),      \
		CLI_COMPARE_FLAG(struct_, "hide", hide, "REGEX", NULL, "No frames that match."),   \
		CLI_COMPARE_FLAG(struct_, "show", show, "REGEX", NULL, "Only frames that match."), \
		CLI_COMPARE_FLAG(struct_, "show-from", show_from, "REGEX", NULL,                   \
			"Stacks from the highest match on."),                                      \
		{"lines", OPTION_BOOL, offsetof(struct_, compare.lines),                           \
			.help = "Compares source lines in place of functions: NAME FILE:LINE."},   \
		{"canon", OPTION_BOOL, offsetof(struct_, compare.canon), .fallback = "true",       \
			.help = "Joins functions by names without clone suffixes, Rust's hashes, " \
				"numbers of lambdas and OCaml's stamps."},                         \
		{"unnamed-by-binary", OPTION_BOOL, offsetof(struct_, compare.unnamed_by_binary),   \
			.help = "Joins all code without names of one binary, whatever its build "  \
				"and offset."},                                                    \
		{"by-build", OPTION_BOOL, offsetof(struct_, compare.by_build),                     \
			.help = "Each build's functions are functions of their own, with whole "   \
				"names."},                                                         \
		OPTION_HEADING("Statistics"),                                                      \
		CLI_COMPARE_CHOICE(struct_, "method", method, "ql|welch|bootstrap|none", "ql",     \
			"ql: quasi-likelihood with variances moderated over all functions; "       \
			"welch: each function for itself; bootstrap: runs drawn again; none: no "  \
			"tests."),                                                                 \
		{"alpha", OPTION_DOUBLE, offsetof(struct_, compare.alpha), .value = "SHARE",       \
			.fallback = "0.05", .min = 1e-9, .max = 0.5,                               \
			.help = "The share of findings that may be false, per family."},           \
		{"min-effect", OPTION_DOUBLE, offsetof(struct_, compare.min_effect),               \
			.value = "SHARE", .fallback = "0.02", .min = 0, .max = 10,                 \
			.help = "Smaller changes are no findings."},                               \
		{"min-samples", OPTION_DOUBLE, offsetof(struct_, compare.min_samples),             \
			.value = "N", .fallback = "10", .min = 1, .max = 1e9,                      \
			.help = "Samples a run, on one side at least, that a test needs."},        \
		{"fail-on", OPTION_STRINGS, offsetof(struct_, compare.fail_on),                    \
			.value = "WHAT>PERCENT",                                                   \
			.help = "Exit status 1 when `total`, the `self` of a function, or `any` "  \
				"function's self or total is significantly more in the second "    \
				"set, by more than this: total>2%. Without replicates all are "    \
				"significant. Repeatable."},                                       \
		{"max-lost", OPTION_DOUBLE, offsetof(struct_, compare.max_lost), .value = "SHARE", \
			.fallback = "0.05", .min = 0, .max = 1,                                    \
			.help = "Exit status 2 when a larger share of a side's samples was lost, " \
				"as sonde record notes it. The result is written all the same."},  \
		{"max-unresolved", OPTION_DOUBLE, offsetof(struct_, compare.max_unresolved),       \
			.value = "SHARE", .fallback = "0.5", .min = 0, .max = 1,                   \
			.help = "The same when a larger share of a side's values is in code "      \
				"without names, which two builds do not share."},                  \
		OPTION_HEADING("Output"),                                                          \
		{"output", OPTION_STRING, offsetof(struct_, compare.output), .value = "FILE",      \
			.fallback = "-", .letter = 'o',                                            \
			.help = "Where the result goes; its ending chooses the format."},          \
		CLI_COMPARE_CHOICE(struct_, "format", format,                                      \
			"text|md|json|csv|folded|pprof|svg|html", NULL,                            \
			"In place of the ending's (.txt .md .json .csv .folded .pb.gz .svg "       \
			".html); text without one."),                                              \
		{"json", OPTION_BOOL, offsetof(struct_, compare.json),                             \
			.help = "The same as --format=json."},                                     \
		{"md", OPTION_BOOL, offsetof(struct_, compare.md),                                 \
			.help = "The same as --format=md."},                                       \
		CLI_COMPARE_CHOICE(struct_, "value", value, "self|total", "self",                  \
			"Of functions in the text and Markdown tables."),                          \
		CLI_COMPARE_CHOICE(struct_, "width", width, "after|before|union", "after",         \
			"Whose values are the widths of svg."),                                    \
		{"top", OPTION_U64, offsetof(struct_, compare.top), .value = "N",                  \
			.fallback = "30", .min = 1, .max = 1000000,                                \
			.help = "Rows of the text and Markdown tables and of pages."},             \
		CLI_COMPARE_FLAG(struct_, "title", title, "TEXT", NULL, "Of pictures and pages."), \
		CLI_COMPARE_FLAG(                                                                  \
			struct_, "label-a", label_a, "TEXT", "A", "The first set's name."),        \
	{                                                                                          \
		"label-b", OPTION_STRING, offsetof(struct_, compare.label_b),                      \
			.value = "TEXT", .fallback = "B", .help = "The second set's name."         \
	}

/* The one figure of a comparison, by order statistics: all samples of a run. */
struct cli_headline {
	struct rank_median a, b;
	double p;	/* Mann-Whitney; NAN with one run a side */
	double drift;	/* p of no drift over the runs' order */
	double geomean; /* of the functions' ratios; NAN */
};

struct cli_comparison {
	const struct cli_compare_options *o;
	const struct cli_runs *runs; /* those of A first */
	size_t n_a;
	struct tree a, b;
	struct tree_diff diff;
	struct arena arena;
	struct tree_diff_row *rows;
	size_t n_rows;
	double scale_a, scale_b; /* of the sums */
	struct stats_trees stats;
	struct cli_headline headline;
	const char *notes;		     /* more lines for the summary, or NULL */
	const struct render_metric *metrics; /* for charts of pages */
	size_t n_metrics;
	const struct render_over_time *over_time; /* or NULL */
};

/*
 * Checks what can be checked before anything is measured, and fills in what --per is without being given. `stored`: the runs are of a
 * scraper's store. -EINVAL.
 */
int cli_compare_check(struct cli_compare_options *o, const char *per, bool stored,
	struct errbuf *eb) _must_check_;
/* Of the n runs from `from` on, added up. */
struct cli_quality cli_quality_of(const struct cli_runs *runs, size_t from, size_t n);
/* What values are per: "run", "second", "cpu-second", "total", or the metric's name. */
const char *cli_compare_per(const struct cli_compare_options *o);
/* Reads the runs' flags into `ret`, which is zeroed before. -EINVAL names the flag of an expression; cli_runs_options_done frees them in any
 * case. */
int cli_runs_options_make(const struct cli_compare_options *o, struct cli_runs_options *ret,
	struct errbuf *eb) _must_check_;
void cli_runs_options_done(struct cli_runs_options *o);
#define _cleanup_cli_runs_options_ _cleanup_(cli_runs_options_done)

/* `order`: the place in time of each run; NULL: by the profiles' times. `ret` is overwritten and needs cli_comparison_done in any case; `o` and
 * `runs` outlive it. -ENOMEM; -EINVAL: values below 0. */
int cli_compare(const struct cli_compare_options *o, const struct cli_runs *runs, size_t n_a,
	const size_t *order, struct cli_comparison *ret, struct errbuf *eb) _must_check_;
void cli_comparison_done(struct cli_comparison *c);
#define _cleanup_cli_comparison_ _cleanup_(cli_comparison_done)

/* In the format of the options to the place that they name. `sources`: of all runs, those of A first. Errors of
 * cli_write_output, -ENOMEM. */
int cli_comparison_write(const struct cli_comparison *c, const struct cli_sources *sources,
	struct errbuf *eb) _must_check_;

/* CLI_FAILED with lines on stderr when one of --fail-on is exceeded, CLI_OK; -EINVAL: a condition cannot be read; -ENODATA: too much is lost
 * or has no name. */
int cli_compare_verdict(const struct cli_comparison *c, struct errbuf *eb) _must_check_;

/*
 * As `go tool pprof -diff_base -proto` saves one, filtered and labelled as asked: A's values negative and labelled, and multiplied so that
 * they compare to the sum of B's. compare_pprof.c
 */
int cli_compare_pprof(const struct cli_comparison *c, const struct cli_sources *sources,
	struct bytes *out, struct errbuf *eb) _must_check_;
