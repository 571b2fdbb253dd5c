/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of text share.
 */
#pragma once
#include "lib/prof/text.h"

/* The next line without its end, from *at on; false at the end. */
struct prof_text_line {
	const char *p;
	size_t n, number; /* from 1 */
};
bool prof_text_next(const char *p, size_t n, size_t *at, struct prof_text_line *line);
/* Lines and stacks are not longer than anything that a profiler writes: -EBADMSG. */
int prof_text_check(
	const struct prof_text_line *line, size_t n_frames, struct errbuf *eb) _must_check_;
/* Counts the line's control characters. */
void prof_text_note_controls(struct prof_text_notes *notes, const struct prof_text_line *line);
/* Counts a line, or the sample that begins there, that is left out. */
void prof_text_note_skipped(struct prof_text_notes *notes, size_t line_number);
/*
 * Adds a string with U+FFFD for each control character and, of labels, for each byte that is not UTF-8. `arena` is the builder's profile's,
 * where a failure sticks.
 */
uint32_t prof_text_name(struct prof_builder *b, struct arena *arena, const char *p, size_t n);
uint32_t prof_text_label(struct prof_builder *b, struct arena *arena, const char *p, size_t n);

/* text_folded.c */
int prof_text_read_folded(const char *p, size_t n, struct profile *ret,
	struct prof_text_notes *notes, struct errbuf *eb) _must_check_;
/* text_perf.c: is it perf script's? */
bool prof_text_is_perf(const char *p, size_t n);
int prof_text_read_perf(const char *p, size_t n, struct profile *ret, struct prof_text_notes *notes,
	struct errbuf *eb) _must_check_;
