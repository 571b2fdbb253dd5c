/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles of formats from before profile.proto, which `go tool pprof` reads still, and jemalloc's: known by their first bytes, not read.
 */
#pragma once
#include <stddef.h>

/* What these bytes are and how to get a profile from them, as the end of a sentence; NULL: none of them. Source: google/pprof
 * profile/legacy_profile.go and legacy_java_profile.go, jemalloc src/prof_data.c. */
const char *prof_legacy_what(const void *data, size_t len);
