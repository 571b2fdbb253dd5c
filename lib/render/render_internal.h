/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of lib/render share.
 */
#pragma once
#include "lib/render/render.h"

/* Name of node i's frame: "all" for the root, "(N frames cut)" in `scratch` for a CUT node. */
const char *render_node_name(
	const struct render_input *in, size_t i, char scratch[64], size_t *ret_len);
/* The name as it is shown; a short one is in `arena`. NULL: out of memory. */
struct arena;
const char *render_shown_name(
	const struct render_input *in, uint32_t frame, struct arena *arena, size_t *ret_len);
enum { RENDER_BUILD_DIGITS = 12 }; /* of a build id, in texts */
/* Base name of the mapping of a frame, "" when it has none. */
const char *render_mapping_name(const struct render_input *in, uint32_t frame);
/* Build id of the mapping of a frame that is of one build: by_build of struct tree_identity, or code without a name; else "". */
const char *render_build_id(const struct render_input *in, uint32_t frame);
enum tree_kind render_node_kind(const struct render_input *in, size_t i);
/* What percentages refer to; never 0. */
int64_t render_magnitude(const struct render_input *in); /* what shares refer to */
double render_whole(const struct render_input *in);	 /* the same, 1 for 0 */
static inline const char *render_unit(const struct render_input *in)
{
	return in->unit ? in->unit : "count";
}

/* Counts the frame's name (the string). -ENOMEM. */
struct table;
int render_count_name(
	const struct render_input *in, uint32_t frame, struct table *names) _must_check_;
/* How many rows of a difference have each name. -ENOMEM. */
int render_diff_count_names(const struct render_diff *d, struct table *ret) _must_check_;
/* The name as it is shown; of functions with one name each says which binary and build it is of. -ENOMEM. */
int render_diff_put_name(const struct render_diff *d, uint32_t frame, const struct table *names,
	struct bytes *out) _must_check_;

/* The frames that the tree uses, numbered in order of appearance. */
struct render_used {
	uint32_t *number; /* per frame: number + 1; 0 unused */
	uint32_t *frames;
	size_t n;
};
void render_used_done(struct render_used *u);
/* -ENOMEM; render_used_done is due in any case. */
int render_find_used(const struct render_input *in, struct render_used *u) _must_check_;

/* The builds of the used frames. */
struct render_builds {
	struct tree_symbols sets; /* strings: build ids joined by ", "; 0 is no build */
	uint32_t *of;		  /* per used frame: a string of `sets` */
};
void render_builds_done(struct render_builds *b);
/* -ENOMEM; render_builds_done is due in any case. */
int render_find_builds(const struct render_input *in, const struct render_used *u,
	struct render_builds *ret) _must_check_;

/* Pieces of the formats. */
struct json;
void render_put_folded(struct bytes *out, const char *s, size_t n); /* a frame's name */
void render_put_line(struct bytes *out, const char *s);		    /* on one line */
/* A number of an array, with a comma unless it is the first. */
void render_put_number(struct bytes *out, int64_t v, bool first);
/* String `id` as a value. */
void render_json_text(struct json *j, const struct tree_symbols *s, uint32_t id);
int render_json_functions(
	const struct render_input *in, const struct render_used *u, struct json *j) _must_check_;
/* An array of numbers per node; either is NULL. */
void render_json_array(struct json *j, const char *key, const struct tree *t, const int64_t *wide,
	const uint32_t *narrow);
/* function[], kind[], cut{}. */
void render_json_derived(
	const struct render_input *in, const struct render_used *u, struct json *j);

/* A flame graph of which each bar has a colour of its own and more in its tooltip. */
struct render_svg_hooks {
	void *ctx;
	void (*put_fill)(void *ctx, size_t node, struct bytes *out); /* a CSS colour */
	void (*put_note)(void *ctx, size_t node,
		struct bytes *out); /* lines of the tooltip in place of the value, escaped */
	void (*put_legend)(void *ctx, double width, unsigned y, struct bytes *out);
};
int render_svg_hooked(const struct render_input *in, const struct render_svg_options *opt,
	const struct render_svg_hooks *hooks, struct bytes *out) _must_check_;

/* Members of the JSON of a difference that come from replicates: after those of its nodes, of one of its rows. */
int render_diff_json_stats(const struct render_diff *d, struct json *j) _must_check_;
void render_diff_json_row(const struct render_diff *d, uint32_t frame, struct json *j);
/* Columns of a row in CSV, with their names when `frame` is TREE_NONE; each begins with a comma. */
void render_diff_csv_row(const struct render_diff *d, uint32_t frame, struct bytes *out);
