/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of compilers and languages.
 */
#include "exporter/symfile/toolchain.h"

const char *toolchain_compiler_name(uint16_t compiler)
{
	static const char *const names[] = {"",
#define X(name, text) text,
		TOOLCHAIN_COMPILERS(X)
#undef X
	};

	return compiler < TOOLCHAIN_N_COMPILERS ? names[compiler] : "";
}

const char *toolchain_language_name(uint16_t language)
{
	static const char *const names[] = {"",
#define X(name, text) text,
		TOOLCHAIN_LANGUAGES(X)
#undef X
	};

	return language < N_LANGUAGES ? names[language] : "";
}
