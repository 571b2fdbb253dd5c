/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups built target by target from what a server says: addresses, label names made of foreign keys, JSON values as text.
 */
#pragma once
#include "lib/json/read.h"
#include "scraper/discover/target.h"

struct discover_provider;

/* Freed with discover_build_done, unless discover_build_add or _set handed the group over. */
struct discover_build {
	struct discover_group group;
	size_t cap;
	int error; /* sticky: -ENOMEM */
};
void discover_build_init(struct discover_build *d, const char *source);
void discover_build_done(struct discover_build *d);
#define _cleanup_discover_build_ _cleanup_(discover_build_done)
/* A target of the group with the builder's labels, __address__ among them. */
void discover_build_target(struct discover_build *d, struct labels_builder *labels);
/* Hands the group to the provider as the one of its source, or as the only one; "out of memory" counts as a failure. */
void discover_build_add(struct discover_build *d, struct discover_provider *p);
void discover_build_set(struct discover_build *d, struct discover_provider *p);

/* host:port as __address__, an IPv6 address in brackets. */
void discover_set_address(struct labels_builder *b, const char *host, uint64_t port);
/* Label `prefix` + `name`, where every character of `name` outside [a-zA-Z0-9_] becomes _. */
void discover_set_named(
	struct labels_builder *b, const char *prefix, const char *name, const char *value);
/* One such label for each member of the object that has a text, number or boolean. */
void discover_set_map(
	struct labels_builder *b, const char *prefix, const struct json_value *object);
/* Texts as they are, integers in decimals, true and false; anything else sets nothing. */
void discover_set_value(struct labels_builder *b, const char *label, const struct json_value *v);
/* The items of an array of texts, each surrounded by `separator`: ",a,b,". "," when there are none. */
void discover_set_list(struct labels_builder *b, const char *label, const char *separator,
	const struct json_value *array);

/* The value at a path of keys of at most 63 bytes, "Config.Datacenter"; NULL when there is none. */
const struct json_value *discover_json_at(const struct json_value *v, const char *path);
/* Its text, or "". */
const char *discover_json_text(const struct json_value *v, const char *path);

/*
 * The body of a 200 as JSON whose root is of `kind`; *ret is freed with json_doc_freep. The request's own error, -EPROTO: another status,
 * -EBADMSG: another root, or json_read's errors; with text.
 */
struct http_response;
int discover_read_json(const struct http_response *r, enum json_kind kind, struct json_doc **ret,
	struct errbuf *eb) _must_check_;
