/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of pages that open from disk.
 */
#pragma once
#include "lib/render/render_internal.h"

/* Narrower bars are not in the picture that is seen without script. */
static const double RENDER_PLAIN_MIN_PX = 1;

/* What the viewer (ui/src/viewer.ts) is given. Both are charged to the budget of the page. */
struct render_page {
	struct bytes
		about; /* a JSON object: what the page is of, with all that is no array per node */
	struct bytes tree; /* proto/flamegraph.proto */
};

/* Begins the object in `about`, with what every page has: the caller adds members and ends it. `kind`: "graph" or "diff". */
struct json;
void render_page_init(struct render_page *page, const struct render_input *in, const char *kind,
	struct budget *budget, struct json *j);
void render_page_done(struct render_page *page);
#define _cleanup_render_page_ _cleanup_(render_page_done)

/* Head, viewer and what it shows; what the caller puts between the two is seen without script only. */
void render_page_begin(struct bytes *out, const char *title, const struct render_page *page);
void render_page_end(struct bytes *out);
