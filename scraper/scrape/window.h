/* SPDX-License-Identifier: Apache-2.0
 *
 * The window that a URL asks for. Pure.
 */
#pragma once
#include <stdint.h>

/*
 * Takes all parameters `seconds` out of the URL's query and returns the first that is a window (1 to CONFIG_MAX_WINDOW_SECONDS), as Go's
 * handlers read the first; 0: there is none.
 */
int64_t scrape_window_take(char *url);
