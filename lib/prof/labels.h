/* SPDX-License-Identifier: Apache-2.0
 *
 * A label set: pairs sorted bytewise by name, each name once, no empty value (a label with an empty
 * value is absent). The set owns its bytes in one block; copying is one allocation. A set is
 * immutable, so threads may share it.
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
/* `ret` is overwritten, not freed; -ENOMEM leaves it empty. */
int labels_copy(const struct labels *from, struct labels *ret) _must_check_;
/* The value of `name`, or "" when absent. */
const char *labels_get(const struct labels *l, const char *name);
bool labels_equal(const struct labels *a, const struct labels *b);
/* Bytewise by name, then value, pair by pair; a prefix comes first. */
int labels_compare(const struct labels *a, const struct labels *b);
/* XXH3-64 of the canonical bytes (labels_encode); part of the store's format. */
uint64_t labels_hash(const struct labels *l);
/* Canonical bytes: varint n, then per label varint length + bytes of name and value. */
void labels_encode(const struct labels *l, struct bytes *out);
/* Prometheus text: {a="x",b="y"} with \\, \" and \n escaped; a name that is no identifier is quoted
 * too. */
void labels_print(const struct labels *l, struct bytes *out);

/*
 * Builds or edits a set; the order of sets does not matter, the last one wins, an empty value
 * deletes. A failed allocation sticks: later sets do nothing and labels_builder_finish reports it.
 */
struct labels_builder {
	struct labels_builder_item {
		char *name, *value; /* one allocation, owned by `name` */
	} * items;		    /* sorted by name */
	size_t n, cap;
	int error;
};

void labels_builder_init(struct labels_builder *b);
void labels_builder_done(struct labels_builder *b);
#define _cleanup_labels_builder_ _cleanup_(labels_builder_done)
/* Starts anew from `base` (NULL: from nothing); keeps memory, clears a sticky error. 0 or -ENOMEM, which sticks. */
int labels_builder_reset(struct labels_builder *b, const struct labels *base);
void labels_builder_set(struct labels_builder *b, const char *name, const char *value);
/* The same for text that is not NUL-terminated; a NUL byte inside ends it. */
void labels_builder_set_n(struct labels_builder *b, const char *name, size_t name_len,
	const char *value, size_t value_len);
/* The value of `name`, or "" when absent; valid until the next change. */
const char *labels_builder_get(const struct labels_builder *b, const char *name);
/* Sorted immutable result; the builder keeps its content. `ret` is overwritten, not freed. 0 or
 * -ENOMEM. */
int labels_builder_finish(struct labels_builder *b, struct labels *ret) _must_check_;
