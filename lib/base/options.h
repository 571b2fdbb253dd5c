/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines in the Prometheus style, from tables: --a.b=c, --a.b c, --x and --no-x, repeated flags. The same table prints --help
 * as a manual page, the /flags page and what the documentation check compares with docs/.
 *
 *	struct my_options { uint64_t frequency_hz; struct option_list listen; };
 *	static const struct option_spec specs[] = {
 *		OPTION_HEADING("Sampling"),
 *		{"profile.frequency", OPTION_U64, offsetof(struct my_options, frequency_hz), .value = "HZ",
 *			.fallback = "19", .min = 1, .max = 999, .help = "Samples per second and CPU."},
 *	};
 *
 * Text values point into argv or into the table; only the arrays of lists are allocated (options_done frees them).
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_KIND_HEADING, /* a heading in --help; no flag */
	OPTION_BOOL,	     /* bool */
	OPTION_STRING,	     /* const char * */
	OPTION_CHOICE,	 /* const char *, one of the words of `value` ("debug|info|warn|error") */
	OPTION_U64,	 /* uint64_t, from min to max */
	OPTION_DOUBLE,	 /* double, from min to max */
	OPTION_DURATION, /* int64_t milliseconds, "1h30m"; min and max in milliseconds */
	OPTION_BYTES,	 /* uint64_t, "64MB", base 2 */
	OPTION_STRINGS,	 /* struct option_list; repeatable. Given once, the default is gone */
	OPTION_LABELS, /* struct option_list of NAME=VALUE, names valid and different; repeatable */
};

struct option_list {
	const char **items;
	size_t n, cap;
};

struct option_spec {
	const char *name; /* without the dashes */
	enum option_kind kind;
	size_t offset;	      /* of the value in the program's struct */
	const char *value;    /* how the value is called in --help: "HZ", "HOST:PORT" */
	const char *fallback; /* default, as a person would type it; NULL: none (false, NULL, 0,
				 empty) */
	double min, max;      /* checked when max > min */
	const char *help;     /* sentences */
	char letter;	      /* short form -o, 0: none */
	const char *also;     /* another name for it, without the dashes; NULL: none */
};
#define OPTION_HEADING(text)                                \
	{                                                   \
		.kind = OPTION_KIND_HEADING, .help = (text) \
	}

/* One program, or one subcommand ("sonde merge"). */
struct option_program {
	const char *name;
	const char *summary;	 /* one line, after NAME */
	const char *arguments;	 /* in SYNOPSIS after the options: "FILE..."; NULL: takes none */
	const char *description; /* paragraphs apart by \n\n; lines that start with a space are kept
				    as they are */
	const struct option_spec *specs;
	size_t n_specs;
	const char *exit_status; /* further lines beside 0 and 2; may be NULL */
	const char *examples;	 /* kept as they are; may be NULL */
};

enum {
	OPTIONS_RUN = 0,  /* go on */
	OPTIONS_DONE = 1, /* --help or --version was answered on stdout: exit 0 */
	OPTIONS_EXIT_USAGE = 2,
};

/*
 * Fills `values` (the program's struct, zeroed by the caller) from defaults and argv[1..].
 * Positional arguments and all that follows "--" go to `ret_args` (may be NULL when `arguments` is
 * NULL). Returns OPTIONS_RUN, OPTIONS_DONE or -EINVAL with a text that names flag, value and what
 * was expected. --help and --version anywhere before "--" win over errors. The values need options_done in any case.
 */
int options_parse(const struct option_program *p, int argc, char **argv, void *values,
	struct option_list *ret_args, struct errbuf *eb) _must_check_;
/* options_parse, with the error written to stderr: returns -1 to go on, else the exit status, 0 or OPTIONS_EXIT_USAGE. */
int options_parse_or_exit(const struct option_program *p, int argc, char **argv, void *values,
	struct option_list *ret_args) _must_check_;
void options_done(const struct option_program *p, void *values);
void option_list_done(struct option_list *l);

/* The value of one flag as a person would type it, for /flags and error texts; lists are joined by
 * ", ". */
void option_print_value(const struct option_spec *s, const void *values, struct bytes *out);
/* The manual page, 100 columns. */
void options_print_help(const struct option_program *p, struct bytes *out);
/* "NAME, version 0.1.0 (revision abc)" and the compiler. */
void options_print_version(const struct option_program *p, struct bytes *out);

/* The two flags that every program has. Needs fields log_level and log_format of const char *. */
#define OPTIONS_LOG(type)                                                     \
	OPTION_HEADING("Logging"),                                            \
		{"log.level", OPTION_CHOICE, offsetof(type, log_level),       \
			.value = "debug|info|warn|error", .fallback = "info", \
			.help = "Lines below this level are left out."},      \
	{                                                                     \
		"log.format", OPTION_CHOICE, offsetof(type, log_format),      \
			.value = "logfmt|json", .fallback = "logfmt",         \
			.help = "How log lines are written to stderr."        \
	}
