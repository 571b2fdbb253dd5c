/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as text, as other tools write them: folded (Brendan Gregg's FlameGraph) and what `perf script` prints.
 */
#pragma once
#include "lib/prof/profile.h"
#include <stdbool.h>

/* True when it can only be text: a pprof message has control characters in its first bytes. */
bool prof_text_is(const void *data, size_t len);
/* True when it can be text that has some control characters: few of its first bytes are. */
bool prof_text_may_be(const void *data, size_t len);

/* What of a text was not taken as it stands there. Lines count from 1; the first of a kind is named. */
struct prof_text_notes {
	bool is_perf;			  /* perf script's: samples are left out, not lines */
	size_t n_skipped, first_skipped;  /* what is no stack, and its line */
	size_t n_controls, first_control; /* control characters, each replaced by U+FFFD */
	unsigned control;		  /* the first one */
	size_t n_vanished;		  /* values that are 0 after rounding */
	unsigned scale;			  /* by which values were multiplied */
};
/* A sentence for each that is not 0, without a full stop, "; " between them: appended to `out`. */
struct bytes;
void prof_text_notes_print(const struct prof_text_notes *notes, struct bytes *out);

/*
 * Builds a profile into `ret` (profile_init'ed by the caller); nothing of it points into `data`.
 *  - Folded: "a;b;c 12" a line, root first. One value: samples/count. Decimals are rounded while that changes the sum by less than
 *    1 % and no value becomes 0; else all values are multiplied, and the unit is thousandths, millionths or billionths.
 *    What stackcollapse-perf.pl, bcc and async-profiler put behind a frame for its kind is no part of its name: _[k] is code of the kernel,
 *    _[j] _[0] _[1] of a runtime; _[i] was inlined into its caller and _[w] woke the thread.
 *    A file whose every line has two numbers is a difference and is refused. A comment begins with "# ".
 *    Without a stack a text is refused, but for PROF_TEXT_EMPTY.
 *  - perf script, whatever fields -F chose: a sample's head line and its frames, leaf first. Values: samples/count and the period of the
 *    first event that has one: cpu/nanoseconds for the clocks, else EVENT/count; samples of other events have 0 there.
 *    Labels: comm, pid, tid, event.
 * Lines and samples that are none are left out, control characters replaced; `ret_notes` counts them.
 * -EBADMSG with the line: more lines or samples are none than are some; a line has more than PROF_TEXT_MAX_LINE bytes or a stack more
 * than PROF_TEXT_MAX_FRAMES. -ENOMEM.
 */
#define PROF_TEXT_EMPTY "# no samples"
enum { PROF_TEXT_MAX_LINE = 16 << 20, PROF_TEXT_MAX_FRAMES = 1 << 18 };
int prof_text_read(const void *data, size_t len, struct profile *ret,
	struct prof_text_notes *ret_notes, struct errbuf *eb) _must_check_;
