/* SPDX-License-Identifier: Apache-2.0
 *
 * A child's way to files that its inputs name: it asks main over a socket (parser.h).
 */
#pragma once
#include "exporter/parser/parser.h"

struct links {
	int fd; /* -1 when the other side has said no for good */
};

/* parser_finder.find for a `struct links`. */
int links_find(void *links, const struct parser_link *link, uint32_t *ret_next);
