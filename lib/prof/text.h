/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as text, as other tools write them: folded (Brendan Gregg's FlameGraph) and what `perf script` prints.
 */
#pragma once
#include "lib/prof/profile.h"
#include <stdbool.h>

/* True when it can be text: a pprof message has control characters in its first bytes. */
bool prof_text_is(const void *data, size_t len);

/*
 * Builds a profile into `ret` (profile_init'ed by the caller); nothing of it points into `data`.
 *  - Folded: "a;b;c 12" a line, root first; decimals are rounded. One value: samples/count. A file whose every line has two
 *    numbers is a difference and is refused.
 *  - perf script, whatever fields -F chose: a sample's head line and its frames, leaf first. Values: samples/count and, when the first
 *    sample has one, its event's period, cpu/nanoseconds for the clocks, else EVENT/count; samples of other events have 0 there.
 *    Labels: comm, pid, tid, event.
 * -EBADMSG with the line, also of one of more than PROF_TEXT_MAX_LINE bytes and of a stack of more than PROF_TEXT_MAX_FRAMES; -ENOMEM.
 */
enum { PROF_TEXT_MAX_LINE = 16 << 20, PROF_TEXT_MAX_FRAMES = 1 << 18 };
int prof_text_read(
	const void *data, size_t len, struct profile *ret, struct errbuf *eb) _must_check_;

/* text_perf.c: the same for what is known to be perf script's. */
bool prof_text_is_perf(const char *p, size_t n);
int prof_text_read_perf(
	const char *p, size_t n, struct profile *ret, struct errbuf *eb) _must_check_;

/* The next line without its end, from *at on; false at the end. */
struct prof_text_line {
	const char *p;
	size_t n, number; /* from 1 */
};
bool prof_text_next(const char *p, size_t n, size_t *at, struct prof_text_line *line);
/* Lines and stacks are not longer than anything that a profiler writes: -EBADMSG. */
int prof_text_check(
	const struct prof_text_line *line, size_t n_frames, struct errbuf *eb) _must_check_;
