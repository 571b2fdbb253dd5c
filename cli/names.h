/* SPDX-License-Identifier: Apache-2.0
 *
 * --names: how functions are called in tables, pictures and pages.
 */
#pragma once
#include "lib/base/options.h"
#include "lib/render/render.h"
#include <string.h>

#define CLI_NAMES_OPTION(type)                                                           \
	{                                                                                \
		"names", OPTION_CHOICE, offsetof(type, names),                           \
			.value = "short|full", .fallback = "short",                      \
			.help = "short: names of functions without template arguments, " \
				"parameters, "                                           \
				"hashes and clone suffixes; full: as they are."          \
	}

static inline enum render_names cli_names(const char *text)
{
	return strcmp(text, "full") == 0 ? RENDER_NAMES_FULL : RENDER_NAMES_SHORT;
}
