/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of the configuration's types: reading from a node, printing back.
 */
#pragma once
#include "lib/base/regex.h"
#include "scraper/config/read.h"

/* Reads the node, or the key's default when it is NULL, into the object's field. */
int config_value_read(struct config_reader *r, const struct config_key *key,
	const struct conf_node *node, void *object) _must_check_;
/* Types for which null is a value, not an absence: as in Prometheus, `regex:` alone matches only
 * the empty text. */
bool config_value_takes_null(enum config_type type);
/* True when there is something to print: lists and optional values may be absent. */
bool config_value_print(
	const struct config_key *key, const void *object, enum config_print how, struct bytes *out);
/* The URL with xxxxx for its password, as Go prints URLs; NULL: out of memory. */
const char *config_redact_url(struct config_reader *r, const char *url);
/* `m` takes over *re. */
int config_mem_keep_regex(struct config_mem *m, struct regex **re) _must_check_;
