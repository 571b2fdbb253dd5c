/* SPDX-License-Identifier: Apache-2.0
 *
 * Demangled names: asked of the parser in one batch, remembered under a byte cap. Not thread-safe.
 */
#pragma once
#include "lib/base/table.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two generations: what is used moves into the young one; when that is full, the old one goes. */
struct name_generation {
	struct interner raw;
	const char **readable; /* by id of raw; in raw's arena */
	size_t cap_readable;
};

struct names {
	struct name_generation young, old;
	size_t max_bytes; /* of both */
	int parser_fd;
	uint64_t demangled, failed;
};

enum { NAMES_MAX_BYTES = 4 << 20, NAMES_TIMEOUT_MS = 1000, NAMES_MAX_RETRIES = 3 };

void names_init(struct names *n, int parser_fd, size_t max_bytes);
void names_done(struct names *n);
/* Could this raw name have a readable form? A cheap look at its first letters. */
bool names_is_mangled(const char *raw);
/* The readable form, or NULL when it is not remembered. Valid until the next call of
 * names_demangle. */
const char *names_find(struct names *n, const char *raw);
/* Demangles those of the raw names that are not remembered. A name on which the parser fails
 * stays as it is. */
void names_demangle(struct names *n, const char *const *raw, size_t count);
size_t names_bytes(const struct names *n);
