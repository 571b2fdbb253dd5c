/* SPDX-License-Identifier: Apache-2.0
 *
 * The only object that is rebuilt when the commit changes.
 */
#include "lib/base/version.h"

#ifndef SONDE_REVISION
#define SONDE_REVISION ""
#endif

const char *version_number(void)
{
	return SONDE_VERSION;
}

const char *version_revision(void)
{
	return SONDE_REVISION;
}

const char *version_compiler(void)
{
#ifdef __clang__
	return "clang " __clang_version__;
#else
	return "gcc " __VERSION__;
#endif
}
