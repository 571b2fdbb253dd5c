/* SPDX-License-Identifier: Apache-2.0
 *
 * Numeric labels as text and back. The store keeps labels as text; a profile that leaves it has numbers again, so that
 * `go tool pprof -tagfocus=bytes=1kb:8kb` selects the same samples as in the profile that came in.
 */
#pragma once
#include "lib/prof/profile.h"
#include <stdbool.h>

enum { PROF_NUMBER_TEXT_MAX = 96 };

/* "4096bytes", or "4096" without a unit; of a unit at most 32 bytes, whole characters. */
void prof_number_text(int64_t num, struct prof_str unit, char ret[PROF_NUMBER_TEXT_MAX]);
/*
 * Reads such a text. True for a number other than 0 with a unit of time or size behind it, or without one under a key that names such a
 * unit, as pprof reads them (google/pprof, Profile.NumLabelUnits: Go's heap profiles have the key `bytes`). All other
 * digits may be names: pids, hashes. ret_unit: "" when the text has none; it points into `text`.
 */
bool prof_number_read(const char *key, const char *text, int64_t *ret, const char **ret_unit);
/* Makes every numeric label one of text. -ENOMEM with a text. */
int prof_number_labels(struct profile *p, struct errbuf *eb) _must_check_;
