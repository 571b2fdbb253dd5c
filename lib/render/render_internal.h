/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of lib/render share.
 */
#pragma once
#include "lib/render/render.h"

/* Name of node i's frame: "all" for the root, "(N frames cut)" in `scratch` for a CUT node. */
const char *render_node_name(
	const struct render_input *in, size_t i, char scratch[64], size_t *ret_len);
/* Base name of the mapping of a frame, "" when it has none. */
const char *render_mapping_name(const struct render_input *in, uint32_t frame);
enum tree_kind render_node_kind(const struct render_input *in, size_t i);
/* What percentages refer to; never 0. */
double render_whole(const struct render_input *in);
static inline const char *render_unit(const struct render_input *in)
{
	return in->unit ? in->unit : "count";
}

/* The frames that the tree uses, numbered in order of appearance. */
struct render_used {
	uint32_t *number; /* per frame: number + 1; 0 unused */
	uint32_t *frames;
	size_t n;
};
void render_used_done(struct render_used *u);
int render_find_used(const struct render_input *in, struct render_used *u) _must_check_;

/* Pieces of the formats. */
struct json;
void render_put_folded(struct bytes *out, const char *s, size_t n); /* a frame's name */
void render_put_line(struct bytes *out, const char *s);		    /* on one line */
void render_json_functions(
	const struct render_input *in, const struct render_used *u, struct json *j);
/* An array of numbers per node; either is NULL. */
void render_json_array(struct json *j, const char *key, const struct tree *t, const int64_t *wide,
	const uint32_t *narrow);
/* function[], kind[], cut{}. */
void render_json_derived(
	const struct render_input *in, const struct render_used *u, struct json *j);
