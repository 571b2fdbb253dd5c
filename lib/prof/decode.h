/* SPDX-License-Identifier: Apache-2.0
 *
 * The pprof decoder's parts among themselves.
 */
#pragma once
#include "lib/prof/ids.h"
#include "lib/prof/profile.h"
#include "lib/prof/wire.h"

/* An id or a function reference takes a tag and a number: shorter messages have none. */
enum { DECODE_MIN_MESSAGE = 2 };

/* Field numbers of Profile. */
enum {
	SAMPLE_TYPE = 1,
	SAMPLE,
	MAPPING,
	LOCATION,
	FUNCTION,
	STRING_TABLE,
	DROP_FRAMES,
	KEEP_FRAMES,
	TIME_NANOS,
	DURATION_NANOS,
	PERIOD_TYPE,
	PERIOD,
	COMMENT,
	DEFAULT_SAMPLE_TYPE,
	DOC_URL,
	DECODE_N_KINDS,
};

struct decoder {
	struct profile *p;
	struct errbuf *eb;
	const uint8_t *data;
	size_t len;
	const uint8_t
		*fast_end; /* messages that end at or before it have WIRE_SLACK bytes behind them */
	int error;
	/* the message in hand, for error texts; kind 0: the profile itself */
	unsigned kind;
	size_t row, row_off;
	/* counted by the first pass: messages, their content, where the first begins and the last ends */
	size_t n[DECODE_N_KINDS], content_bytes[DECODE_N_KINDS];
	struct decode_span {
		const uint8_t *first, *end;
	} span[DECODE_N_KINDS];
	uint64_t single[DECODE_N_KINDS]; /* raw values of the fields that are one number */
	struct cursor period_type;
	struct prof_ids mappings, functions, locations;
	size_t cap_lines, cap_labels,
		cap_words; /* room in p->lines, p->labels, p->stacks; p->n_lines … are used */
	bool has_packed;   /* packed_is_fast */
};

/* Records the first error with the message in hand; returns d->error. */
int decode_fail(struct decoder *d, const char *fmt, ...) _printf_(2, 3);
/* Ends a walk over a message through a cursor: its error, if any, becomes the decoder's. */
int decode_check_wire(struct decoder *d, const struct cursor *c);
/* A string index that must be in the table. */
uint32_t decode_string(struct decoder *d, struct cursor *c, const struct wire_field *f);
size_t decode_offset(const struct decoder *d, const uint8_t *p);

/* A walk over the messages of one kind. */
struct decode_walk {
	struct cursor c;
	unsigned kind;
	size_t row; /* messages taken */
	const uint8_t *from, *to;
};

struct decode_walk decode_walk_of(const struct decoder *d, unsigned kind);
/* Takes the next one by the general way. */
bool decode_walk_slow(struct decoder *d, struct decode_walk *w);

/* The next message's content in w->from and w->to; false at the end and after an error. */
static inline bool decode_walk_next(struct decoder *d, struct decode_walk *w)
{
	const uint8_t *p = w->c.pos;

	if (cursor_left(&w->c) < WIRE_SLACK || *p != WIRE_TAG(w->kind, WIRE_BYTES) || d->error ||
		!wire_fast_bytes(p, w->c.end, &w->from, &w->to))
		return decode_walk_slow(d, w);
	w->c.pos = w->to;
	w->row++;
	return true;
}

/* The message in hand as a cursor, and its place for error texts. */
static inline struct cursor decode_walk_cursor(struct decoder *d, const struct decode_walk *w)
{
	d->kind = w->kind;
	d->row = w->row - 1;
	d->row_off = decode_offset(d, w->from);
	return cursor_of(w->from, (size_t)(w->to - w->from));
}

/* decode_sample.c. How many location ids all samples will have, by the first ones. */
size_t decode_guess_words(const struct decoder *d);
/* After everything else. */
void decode_fill_samples(struct decoder *d);
/* Names the first sample with a wrong number of values. */
void decode_find_wrong_values(struct decoder *d);
/* Labels become names and values of series: of those that are no text the bytes are escaped. */
void decode_mend_label_texts(struct decoder *d);
