/* SPDX-License-Identifier: Apache-2.0
 *
 * The viewer of pages that open from disk: ui/src/viewer.ts and its style, bundled and written as C by ui/build.mjs. Neither contains
 * what would end the element that it stands in.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

extern const uint8_t render_viewer_script[], render_viewer_style[];
extern const size_t render_viewer_script_bytes, render_viewer_style_bytes;
