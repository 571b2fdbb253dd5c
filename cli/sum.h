/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that add files up have in common: their flags, the sum, and how finely stacks differ.
 */
#pragma once
#include "lib/base/options.h"
#include "lib/prof/profile.h"

struct cli_sum_options {
	const char *sample_index;
	struct option_list root_labels;
	bool threads, lines, addresses;
	bool all_frames; /* drop_frames does not count */
};

#define CLI_ALL_FRAMES(offset_)                                                                   \
	{                                                                                         \
		"all-frames", OPTION_BOOL, offset_,                                               \
			.help = "Keeps what the profile calls uninteresting (drop_frames), such " \
				"as the frames of an allocator."                                  \
	}

/* Rows of a table of options whose struct has a `struct cli_sum_options sum`. */
#define CLI_SUM_OPTIONS(struct_)                                                                   \
	{"sample-index", OPTION_STRING, offsetof(struct_, sum.sample_index), .value = "TYPE",      \
		.also = "sample-type",                                                             \
		.help = "Which value: a sample type (\"cpu\") or its number from 0. Default: "     \
			"the profile's own default, else the last."},                              \
		{"root-label", OPTION_STRINGS, offsetof(struct_, sum.root_labels), .value = "KEY", \
			.help = "Puts the value of this label below the root of each stack that "  \
				"has it, as pprof's -tagroot does. Repeatable, the outermost "     \
				"first."},                                                         \
		{"threads", OPTION_BOOL, offsetof(struct_, sum.threads),                           \
			.help = "Puts the names of process and thread there: --root-label comm "   \
				"--root-label thread_name."},                                      \
		{"lines", OPTION_BOOL, offsetof(struct_, sum.lines),                               \
			.help = "Distinguishes the lines of a function: NAME FILE:LINE."},         \
		CLI_ALL_FRAMES(offsetof(struct_, sum.all_frames)),                                 \
	{                                                                                          \
		"addr", OPTION_BOOL, offsetof(struct_, sum.addresses),                             \
			.help = "Distinguishes the addresses of a function: NAME 0xADDRESS."       \
	}

/* Adds the files up, one at a time. `ret` was not initialised and is freed by the caller in any case; ret_column may be NULL.
 * Errors of cli_profile_read and prof_merge_add; -EINVAL: no such value. */
int cli_sum(const struct cli_sum_options *o, const struct option_list *files, struct profile *ret,
	size_t *ret_column, struct errbuf *eb) _must_check_;

/* Makes functions of lines, of addresses or of both. New memory is the profile's. -ENOMEM. */
int cli_profile_detail(
	struct profile *p, bool lines, bool addresses, struct errbuf *eb) _must_check_;

/* A command whose arguments are files, one at least. Returns the exit status. */
int cli_with_files(const struct option_program *program, int argc, char **argv, void *options,
	int (*run)(const void *options, const struct option_list *files, struct errbuf *eb));
