/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML as a tree with positions. One document; aliases share nodes, `<<` is merged; duplicate keys,
 * aliases that contain themselves, keys that are not scalars, unknown tags and text that is not
 * UTF-8 are errors. JSON is a subset.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum {
	CONF_YAML_MAX_DEPTH = 64,
	CONF_YAML_MAX_NODES = 1000000, /* after aliases are followed */
};

enum conf_node_kind { CONF_SCALAR, CONF_SEQUENCE, CONF_MAPPING };

struct conf_node {
	enum conf_node_kind kind;
	uint32_t line, column;	  /* from 1; columns count characters */
	const char *text;	  /* scalar: NUL-terminated, no NUL inside, valid UTF-8 */
	bool is_plain;		  /* scalar without quotes: may be null, a number, a boolean */
	bool is_not_text;	  /* scalar: a number or boolean of JSON */
	bool is_complete;	  /* false while its own content is read */
	struct conf_node **items; /* sequence: items; mapping: key, value, key, value … */
	size_t n, cap;		  /* of `items` */
	uint32_t height;	  /* levels below and including this one, aliases followed */
	uint64_t expanded;	  /* nodes below and including this one, aliases followed */
};

/* *ret is NULL for an empty document. -EINVAL "FILE:LINE:COL: …", -ENOMEM. Nodes lie in `arena`; nothing points into `text`, which
 * may be NULL when len is 0. */
int conf_yaml_parse(const char *file, const void *text, size_t len, struct arena *arena,
	struct conf_node **ret, struct errbuf *eb) _must_check_;
/* A scalar that YAML calls null: nothing, ~, null. */
bool conf_node_is_null(const struct conf_node *n);
/* "a mapping", "a list", "null", "text", "a number or boolean" (of JSON). */
const char *conf_node_kind_name(const struct conf_node *n);
/* The value of a mapping's key, or NULL. */
struct conf_node *conf_node_get(const struct conf_node *mapping, const char *key);
/* Appends the node as JSON on one line, which is YAML too. */
struct bytes;
void conf_node_print(const struct conf_node *n, struct bytes *out);
/* Appends text as a YAML scalar: plain where that reads back the same, else in double quotes. */
void conf_print_scalar(const char *text, struct bytes *out);
