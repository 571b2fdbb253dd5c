/* SPDX-License-Identifier: Apache-2.0
 *
 * A label set: pairs sorted bytewise by name, each name once, no empty value (a label with an empty value is absent).
 * The set owns its bytes in one block; copying is one allocation.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct label {
	const char *name, *value; /* NUL-terminated UTF-8 */
};

struct labels {
	struct label *items;
	size_t n;
	char *block; /* owned: items and text */
};

void labels_done(struct labels *l);
#define _cleanup_labels_ _cleanup_(labels_done)
int labels_copy(const struct labels *from, struct labels *ret) _must_check_;
/* The value of `name`, or "" when absent. */
const char *labels_get(const struct labels *l, const char *name);
bool labels_equal(const struct labels *a, const struct labels *b);
int labels_compare(const struct labels *a, const struct labels *b);
/* XXH3-64 of the canonical bytes (labels_encode); part of the store's format. */
uint64_t labels_hash(const struct labels *l);
/* Canonical bytes: varint n, then per label varint length + bytes of name and value. */
void labels_encode(const struct labels *l, struct bytes *out);
/* Prometheus text: {a="x",b="y"} with \\, \" and \n escaped. */
void labels_print(const struct labels *l, struct bytes *out);

/* Builds or edits a set; the order of sets does not matter, the last one wins, an empty value deletes. */
struct labels_builder {
	struct labels_builder_item {
		char *name, *value;
	} *items;
	size_t n, cap;
};

void labels_builder_init(struct labels_builder *b);
void labels_builder_done(struct labels_builder *b);
#define _cleanup_labels_builder_ _cleanup_(labels_builder_done)
int labels_builder_reset(struct labels_builder *b, const struct labels *base);
void labels_builder_set(struct labels_builder *b, const char *name, const char *value);
void labels_builder_set_n(struct labels_builder *b, const char *name, size_t name_len, const char *value, size_t value_len);
const char *labels_builder_get(const struct labels_builder *b, const char *name);
/* Sorted immutable result; the builder keeps its content. */
int labels_builder_finish(struct labels_builder *b, struct labels *ret) _must_check_;
