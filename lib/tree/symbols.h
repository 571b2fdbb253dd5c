/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbols that the nodes of a tree stand for, on two levels: a location (mapping, address, inlined lines) as
 * stacks are stored, and a frame (function in a mapping) as flame graphs show. All tables intern:
 * equal content has one dense id. String 0 is "".
 *
 * A failed allocation sticks, and ids that could not be made are 0: callers look at tree_symbols_error() once, at the end. One thread
 * at a time; reading alone, any number.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/prof/index.h"
#include <stdint.h>

enum { TREE_NONE = 0xffffffffU };

/* How a frame is shown. The order is part of the JSON answer (`kind`), so new kinds go to the end.
 */
enum tree_kind {
	TREE_ROOT,
	TREE_NATIVE,
	TREE_KERNEL,
	TREE_JIT,
	TREE_INTERPRETER,
	TREE_UNKNOWN, /* no name: module+offset */
	TREE_LABEL,   /* a label value that groups what is below it */
	TREE_CUT,     /* what a node limit left out */
	TREE_INLINED, /* native or JIT code that the compiler put into its caller; of nodes, not of frames */
	TREE_TRUNCATED, /* stands for callers that were not found */
	TREE_N_KINDS,
};

struct tree_mapping {
	uint32_t file, build_id; /* strings */
	uint32_t kind;		 /* enum tree_kind of its frames */
};

struct tree_function {
	uint32_t name, system_name, file; /* strings */
	int64_t start_line;
};

struct tree_line {
	uint32_t function; /* function id, or TREE_NONE */
	uint32_t column;   /* 0: unknown */
	int64_t line;
};

struct tree_location {
	uint64_t address;
	uint32_t mapping; /* mapping id, or TREE_NONE */
	uint32_t first_line,
		n_lines; /* range of lines: innermost inlined first; 0 lines: no name */
};

/* A frame of a function-level tree. `name` is what is shown. */
struct tree_frame {
	uint32_t name, file; /* strings */
	uint32_t mapping;    /* of the module (struct tree_identity), or TREE_NONE */
	uint32_t kind;	     /* enum tree_kind */
};

/* One build of a frame's module. */
struct tree_build {
	uint32_t frame, build_id; /* build_id: string, not 0 */
};

struct tree_string {
	const char *text; /* NUL-terminated */
	uint32_t len;
};

struct tree_symbols {
	struct arena texts;
	struct tree_string *strings;
	struct tree_mapping *mappings;
	struct tree_function *functions;
	struct tree_line *lines;
	struct tree_location *locations;
	struct tree_frame *frames;
	struct tree_build *builds;
	size_t n_strings, n_mappings, n_functions, n_lines, n_locations, n_frames, n_builds;
	size_t cap_strings, cap_mappings, cap_functions, cap_lines, cap_locations, cap_frames,
		cap_builds;
	struct prof_index by_string, by_mapping, by_function, by_location, by_frame, by_source,
		by_build;
	/* So many of the first are in their index; the others get there when one is looked up. */
	size_t n_by_string, n_by_function, n_by_location;
	uint64_t seed;
	struct budget *budget;
	uint64_t charged_bytes;
	int error;
};

/* All memory is charged to `budget` (NULL: none). */
void tree_symbols_init(struct tree_symbols *s, struct budget *budget);
void tree_symbols_done(struct tree_symbols *s);
#define _cleanup_tree_symbols_ _cleanup_(tree_symbols_done)
/* 0 or the sticky -ENOMEM, with a text. */
int tree_symbols_error(const struct tree_symbols *s, struct errbuf *eb) _must_check_;

/* Room for so many more, which saves growing step by step. */
void tree_symbols_reserve(struct tree_symbols *s, size_t n_functions, size_t n_locations);
void tree_symbols_reserve_frames(struct tree_symbols *s, size_t n);
/* The id of what is equal to this, added when new; all is copied. */
uint32_t tree_symbols_string(struct tree_symbols *s, const char *text, size_t n);
/* The ids of n strings, all different: without a look-up where `s` has none yet. */
struct prof_str;
void tree_symbols_strings(
	struct tree_symbols *s, const struct prof_str *texts, size_t n, uint32_t *ret_ids);
uint32_t tree_symbols_mapping(struct tree_symbols *s, const struct tree_mapping *m);
uint32_t tree_symbols_function(struct tree_symbols *s, const struct tree_function *f);
/* The column of a profile's line as struct tree_line has it: 0 where it does not fit. */
static inline uint32_t tree_column(int64_t column)
{
	return column < 0 || column > UINT32_MAX ? 0 : (uint32_t)column;
}
/* `lines` are not those of s->lines, which may move. Of more than MAX_LINES (symbols.c) the outermost are left out. */
uint32_t tree_symbols_location(struct tree_symbols *s, uint64_t address, uint32_t mapping,
	const struct tree_line *lines, size_t n_lines);
uint32_t tree_symbols_frame(struct tree_symbols *s, const struct tree_frame *f);
/* The frame that differs from this one in the folder of its source file at most; else this one. */
uint32_t tree_symbols_frame_anywhere(struct tree_symbols *s, const struct tree_frame *f);
/* The frame's code comes from this build too. */
void tree_symbols_build(struct tree_symbols *s, uint32_t frame, uint32_t build_id);
/* The same for what the caller knows to be new. */
uint32_t tree_symbols_new_function(struct tree_symbols *s, const struct tree_function *f);
uint32_t tree_symbols_new_location(struct tree_symbols *s, uint64_t address, uint32_t mapping,
	const struct tree_line *lines, size_t n_lines);

/* NUL-terminated bytes of string `id`; *ret_len (may be NULL) is its length. "" for TREE_NONE. */
const char *tree_symbols_text(const struct tree_symbols *s, uint32_t id, size_t *ret_len);
/* Last path element of a file name: "/usr/lib/libc.so.6" gives "libc.so.6". */
const char *tree_symbols_base_name(const struct tree_symbols *s, uint32_t id);

/* The kind of frames in a mapping of this name (lib/prof/code.h). */
enum tree_kind tree_kind_of_mapping(const char *file);
/* "native", "kernel" …: stable, shown in legends and JSON. */
const char *tree_kind_name(enum tree_kind kind);
