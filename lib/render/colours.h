/* SPDX-License-Identifier: Apache-2.0
 *
 * What a frame's colour in a static flame graph says.
 */
#pragma once
#include "lib/prof/code.h"
#include "lib/render/render.h"
#include "lib/tree/symbols.h"
#include <stdint.h>

enum {
	RENDER_HUE_OF =
		12, /* the hue of kind k is RENDER_HUE_OF + k; those before it are of groups */
	RENDER_HUE_OF_LANGUAGE = RENDER_HUE_OF + TREE_N_KINDS, /* + enum prof_language */
	RENDER_N_HUES = RENDER_HUE_OF_LANGUAGE + PROF_N_LANGUAGES,
	RENDER_N_SHADES = 3,
};

struct bytes;
struct render_colours {
	uint8_t *hue, *shade; /* per node */
	/* Groups, the largest first; without the root. */
	struct render_group {
		char *name;
		double self;
		unsigned hue;
	} * groups;
	size_t n_groups;
};
void render_colours_done(struct render_colours *c);
#define _cleanup_render_colours_ _cleanup_(render_colours_done)
/* -ENOMEM; render_colours_done is due in any case. */
int render_colours_choose(const struct render_input *in, struct render_colours *ret) _must_check_;
/* "hsl(211,62%,77%)" */
void render_put_hue(struct bytes *out, unsigned hue, unsigned shade);
