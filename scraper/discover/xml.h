/* SPDX-License-Identifier: Apache-2.0
 *
 * A small XML document as a tree, over expat: elements and their text. Document types (and with them entities) and
 * nesting above 64 are refused; attributes are left out.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/err.h"
#include <stddef.h>

struct xml_node {
	const char *name; /* without a prefix */
	const char *text; /* of an element without elements; else "" */
	struct xml_node *children, *next;
};

/* Nodes lie in `arena`; nothing points into `p`. -EBADMSG "line 3, column 7: …", -ENOMEM. */
int xml_read(const void *p, size_t n, struct arena *arena, struct xml_node **ret_root,
	struct errbuf *eb) _must_check_;
/* The first element at a path of names, "placement.availabilityZone"; NULL when there is none. */
const struct xml_node *xml_at(const struct xml_node *node, const char *path);
/* Its text, or NULL. */
const char *xml_text(const struct xml_node *node, const char *path);
