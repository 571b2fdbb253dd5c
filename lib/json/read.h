/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON reading over jansson: duplicate keys, invalid UTF-8, trailing text and nesting above 64 are
 * refused, syntax with line and column. Values belong to the document and live until it is freed. One thread at a time; documents that
 * share a root count as one.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_doc;
struct json_value;
enum json_kind {
	JSON_KIND_NULL,
	JSON_KIND_BOOL,
	JSON_KIND_INT,
	JSON_KIND_DOUBLE,
	JSON_KIND_STRING,
	JSON_KIND_ARRAY,
	JSON_KIND_OBJECT
};

/* *ret is freed with json_doc_freep; nothing of it points into `p`. -EBADMSG "line 3, column 7: …", also for a NUL inside a string;
 * -EFBIG above max_bytes. */
int json_read(const void *p, size_t n, size_t max_bytes, struct json_doc **ret,
	struct errbuf *eb) _must_check_;
void json_doc_freep(struct json_doc **d);
const struct json_value *json_doc_root(const struct json_doc *d);

/* A value that is NULL is an absent one to the functions from json_value_str to json_value_get; the others need one. */

enum json_kind json_value_kind(const struct json_value *v);
/* "an object", "a string" …, for messages. */
const char *json_value_kind_name(const struct json_value *v);
/* The string's bytes (valid UTF-8, NUL-terminated; no NUL inside), or NULL when it is no string. */
const char *json_value_str(const struct json_value *v);
int64_t json_value_int(const struct json_value *v);   /* 0 unless an integer */
double json_value_double(const struct json_value *v); /* 0 unless a number */
bool json_value_bool(const struct json_value *v);     /* false unless true */
/* Items of an array or members of an object; 0 for anything else. */
size_t json_value_len(const struct json_value *v);
/* NULL when out of range or no array. */
const struct json_value *json_value_at(const struct json_value *v, size_t i);
/* NULL when absent or no object. */
const struct json_value *json_value_get(const struct json_value *v, const char *key);
/* A document of its own for a part of another one, which may be freed before it. */
struct json_doc *json_value_share(const struct json_value *part);
bool json_value_equal(const struct json_value *a, const struct json_value *b);
/* What is worth keeping of an object: its members by name, and of those that are objects or arrays of objects, the same again;
 * a list ends with a NULL name. */
struct json_keep {
	const char *name;
	const struct json_keep *members; /* NULL: all of it */
};
/* Drops everything else, which is a change of all documents that share the root. */
void json_doc_keep(struct json_doc *d, const struct json_keep *keep);
/* Members in their order: start with *pos = NULL; false at the end. */
bool json_value_next(const struct json_value *object, void **pos, const char **ret_key,
	const struct json_value **ret_value);
