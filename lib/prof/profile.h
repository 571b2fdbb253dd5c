/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile in memory, as columns. The pprof decoder fills it, the encoder writes it, the exporter
 * builds it, and the store takes it in and gives it out. Everything is an index into an array of the same
 * profile; strings are indices into `strings`, 0 being "". Indices are 0-based and dense (pprof's
 * ids do not survive decoding).
 *
 * Ownership: all arrays lie in `arena`; string bytes lie in it or in a buffer that the creator
 * keeps alive
 * (`prof_decode` says so). One thread at a time.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdint.h>

enum { PROF_NONE = 0xffffffffU };

struct prof_str {
	const char *p; /* not NUL-terminated */
	uint32_t len;
};

struct prof_value_type {
	uint32_t type, unit; /* strings */
};

struct prof_mapping {
	uint64_t start, limit, file_off; /* runtime range and offset in the file, bytes */
	uint32_t filename, build_id;	 /* strings */
	uint8_t has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct prof_function {
	uint32_t name, system_name, filename; /* strings */
	int64_t start_line;
};

struct prof_line {
	uint32_t function; /* index, or PROF_NONE */
	int64_t line, column;
};

struct prof_location {
	uint64_t address;
	uint32_t mapping; /* index, or PROF_NONE */
	uint32_t first_line,
		n_lines; /* range of `lines`: innermost inlined first, outermost last */
	uint8_t is_folded;
};

struct prof_label {
	uint32_t key; /* string */
	uint32_t str; /* string; 0 when numeric */
	int64_t num;
	uint32_t num_unit; /* string */
};

struct profile {
	struct arena arena;

	struct prof_str *strings;
	struct prof_value_type *types; /* n_types; the main one last */
	struct prof_mapping *mappings;
	struct prof_function *functions;
	struct prof_line *lines;
	struct prof_location *locations;
	uint32_t *stacks; /* location indices of all samples, leaf first, back to back */
	struct prof_label *labels;
	/* per sample */
	uint64_t *stack_first; /* n_samples + 1 entries: sample i is stacks[stack_first[i] ..
				  stack_first[i+1]) */
	uint64_t *label_first; /* n_samples + 1 entries into labels */
	int64_t *values;       /* n_samples × n_types, row-major */

	size_t n_strings, n_types, n_mappings, n_functions, n_lines, n_locations, n_stack_words,
		n_labels, n_samples;

	struct prof_value_type period_type;
	int64_t period;				    /* in units of period_type */
	int64_t time_ns, duration_ns;		    /* unix time of the start */
	uint32_t default_sample_type;		    /* string */
	uint32_t drop_frames, keep_frames, doc_url; /* strings */
	uint32_t *comments;			    /* strings */
	size_t n_comments;
	/* By prof_decode: texts of labels that were no text. They have \xNN for each byte that is not UTF-8 and for NUL. */
	size_t n_mended_texts;
	uint32_t mended_key; /* string: of the first such label */
};

void profile_init(struct profile *p, struct budget *budget);
void profile_done(struct profile *p);
#define _cleanup_profile_ _cleanup_(profile_done)
/* Empties it for the next decode or build; memory is kept for that (arena_reset). */
void profile_reset(struct profile *p);

/*
 * Sums of values saturate: `go tool pprof` wraps. A value at either limit means that much or more
 * (render_value says so).
 */
static inline int64_t prof_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b > 0 ? INT64_MAX : INT64_MIN;
	return sum;
}

/* Bytes of string i; PROF_NONE-safe (""). */
struct prof_str profile_str(const struct profile *p, uint32_t i);
/* 1 when string i equals the NUL-terminated text, else 0. */
int profile_str_is(const struct profile *p, uint32_t i, const char *text);
/*
 * The value column of a name as `go tool pprof -sample_index` takes it: a type ("cpu"), or a number from 0. NULL or "":
 * default_sample_type where it names one, else the last. -EINVAL with a text that lists the types.
 */
int profile_find_type(
	const struct profile *p, const char *name, size_t *ret, struct errbuf *eb) _must_check_;

/*
 * Decodes an uncompressed pprof message into `ret` (profile_init'ed by the caller) and checks
 * pprof's own rules (google/pprof profile.CheckValid; docs/formats/profile.md lists them): -EBADMSG
 * with a text that names what is wrong and where or what older format it is, -ENOMEM when the budget of `ret` refuses, -EFBIG above 4 GiB. On
 * error `ret` holds no usable columns and must still be freed. Strings of `ret` point into `data`,
 * which must outlive it, but for mended texts of labels. Memory: at most 16 bytes per byte of `data`, allocated after a first pass
 * has counted everything, stacks and labels by what the first samples have, or once more for all.
 */
int prof_decode(const void *data, size_t len, struct profile *ret, struct errbuf *eb) _must_check_;

/*
 * Appends the pprof encoding to `out`. Ids are index + 1. Everything in the columns is written, in
 * the order of the columns, so equal columns give equal bytes. Errors: those of `out` (-ENOMEM,
 * -EFBIG).
 */
struct bytes;
int prof_encode(const struct profile *p, struct bytes *out) _must_check_;

/*
 * Builder: appends with interning; equal strings, mappings, functions, locations get one index.
 * All return the index (0 after an error); errors stick in p->arena and prof_builder_finish reports
 * them. While a builder is at work the columns of `p` are empty; `p` must not move. Single values
 * (period, time, drop_frames …) are set in `p` directly.
 */
struct prof_builder; /* lib/prof/builder.c */
struct prof_builder *prof_builder_new(struct profile *p);
void prof_builder_freep(struct prof_builder **b);
#define _cleanup_prof_builder_ _cleanup_(prof_builder_freep)
/* The bytes are copied. */
uint32_t prof_builder_string(struct prof_builder *b, const char *s, size_t n);
/* The rows of those of n strings that are there; the others' `rows` stay as they are. Much faster than one by one. */
void prof_builder_find_strings(
	const struct prof_builder *b, const struct prof_str *s, size_t n, uint32_t *rows);
/* All types come before the first sample; the main one last. */
void prof_builder_type(struct prof_builder *b, const char *type, const char *unit);
/* The same from string indices. */
void prof_builder_type_of(struct prof_builder *b, struct prof_value_type t);
/* Appends to comments; an equal comment is kept once. */
void prof_builder_comment(struct prof_builder *b, const char *s, size_t n);
uint32_t prof_builder_mapping(struct prof_builder *b, const struct prof_mapping *m);
uint32_t prof_builder_function(struct prof_builder *b, const struct prof_function *f);
/* As prof_builder_find_strings; a location's first_line counts from `lines`. */
void prof_builder_find_functions(
	const struct prof_builder *b, const struct prof_function *f, size_t n, uint32_t *rows);
void prof_builder_find_locations(const struct prof_builder *b, const struct prof_location *l,
	const struct prof_line *lines, size_t n, uint32_t *rows);
uint32_t prof_builder_location(struct prof_builder *b, uint64_t address, uint32_t mapping,
	const struct prof_line *lines, size_t n_lines);
/* The same with is_folded. */
uint32_t prof_builder_location_folded(struct prof_builder *b, uint64_t address, uint32_t mapping,
	const struct prof_line *lines, size_t n_lines, int is_folded);
/*
 * One sample: n leaf-first location indices, values of all types, labels. Equal (stack, labels in
 * this order) are summed when `merge`.
 */
void prof_builder_sample(struct prof_builder *b, const uint32_t *locations, size_t n,
	const int64_t *values, const struct prof_label *labels, size_t n_labels, int merge);
/* Moves what was built into the profile; 0, or -ENOMEM with a text, also when it has more rows than 32 bits count. The builder can only be freed after it. */
int prof_builder_finish(struct prof_builder *b, struct errbuf *eb) _must_check_;
