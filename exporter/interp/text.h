/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of a process as UTF-8 of a bounded length.
 */
#pragma once
#include "exporter/interp/interp.h"
#include <stdbool.h>

/* Grows by characters; once it is full, the rest is left out and "…" stands for it. */
struct interp_text {
	char bytes[INTERP_MAX_TEXT_BYTES];
	size_t n;
	bool is_full;
};

/* False: there was no room for it. What is no character becomes U+FFFD. */
bool interp_text_put(struct interp_text *t, uint32_t c);
/* There is more, which nobody will put. */
void interp_text_clip(struct interp_text *t);
/* malloc'ed. */
char *interp_text_take(const struct interp_text *t);
