/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles from files and results to files, for every command that takes "FILE" and "-o OUT".
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include "lib/prof/profile.h"

/* A profile read from a file; its strings point into `raw`. Reuse one for many files: memory is kept. */
struct cli_profile {
	struct profile p;
	struct bytes file, raw;
};

void cli_profile_init(struct cli_profile *in);
void cli_profile_done(struct cli_profile *in);
#define _cleanup_cli_profile_ _cleanup_(cli_profile_done)
/* Reads pprof, folded stacks or what perf script prints, gzipped or not; "-" is standard input. Errors of opening and
 * reading, of gzip_inflate, prof_decode and prof_text_read; the text begins with the path. What of a text was left out or replaced is said
 * on stderr. */
int cli_profile_read(struct cli_profile *in, const char *path, struct errbuf *eb) _must_check_;

/* Leaves out what the profile's drop_frames says, as `go tool pprof` does. An expression that is none is said on stderr. -ENOMEM. */
int cli_profile_prune(struct cli_profile *in, const char *name, struct errbuf *eb) _must_check_;

/* The same of bytes in memory, which must outlive `ret` (profile_init'ed) as must `text`, where gzip is undone. */
int cli_profile_decode(const void *data, size_t n, const char *name, struct bytes *text,
	struct profile *ret, struct errbuf *eb) _must_check_;

/*
 * Writes a result. "-" is standard output; what is there and no regular file (a pipe, /dev/null) is written to; a
 * regular file is replaced as a whole once everything is on disk, so that a failure leaves the old one. Negative errno of the disk, with the
 * path.
 */
int cli_write_output(const char *path, const struct bytes *b, struct errbuf *eb) _must_check_;
/* How a page at `output` ("-": here) names a file: relative to its own folder. NULL when one of them is not there. Heap. */
char *cli_relative_path(const char *output, const char *file);
/* Checks that cli_write_output can be expected to work, before anything is measured that would be lost. -EISDIR, and the errno of access(2). */
int cli_check_output(const char *path, struct errbuf *eb) _must_check_;
