/* SPDX-License-Identifier: Apache-2.0
 *
 * A streaming JSON writer into struct bytes, whose sticky error is the only one. It writes commas and colons; nesting up to 64. Keys
 * outside an object, and the like, are our mistakes.
 */
#pragma once
#include "lib/base/bytes.h"
#include <stdbool.h>
#include <stdint.h>

struct json {
	struct bytes *out;
	uint64_t has_item; /* bit per level: a comma is due */
	unsigned depth;
	bool after_key;
};

static inline struct json json_to(struct bytes *out)
{
	return (struct json) {.out = out};
}
void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);
/* Invalid UTF-8 becomes U+FFFD. */
void json_string(struct json *j, const char *s);
void json_string_n(struct json *j, const char *s, size_t n);
void json_int(struct json *j, int64_t v);
void json_uint(struct json *j, uint64_t v);
/* The same as a string, as protobuf's JSON has 64-bit numbers. */
void json_int_string(struct json *j, int64_t v);
void json_uint_string(struct json *j, uint64_t v);
/* Shortest text that reads back equal; NaN and infinities as null. */
void json_double(struct json *j, double v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
/* Already encoded JSON. */
void json_raw(struct json *j, const char *text, size_t n);

/* key + value in one call. */
void json_kv_string(struct json *j, const char *key, const char *s);
void json_kv_int(struct json *j, const char *key, int64_t v);
void json_kv_uint(struct json *j, const char *key, uint64_t v);
void json_kv_double(struct json *j, const char *key, double v);
void json_kv_bool(struct json *j, const char *key, bool v);
