/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the web interface (ui/), embedded by ui/build.mjs.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct ui_asset {
	const char *name, *type;
	const char *etag; /* quoted */
	const uint8_t *gzip;
	size_t n;
};

extern const struct ui_asset ui_assets[];
extern const size_t ui_n_assets;
