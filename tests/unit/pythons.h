/* SPDX-License-Identifier: Apache-2.0
 *
 * The Pythons of this machine, for tests against real ones: Debian's, pyenv's, and the programs that SONDE_PYTHONS lists, with `:`
 * between them. ROOT/./usr/bin/python3.14 is a program to be run in that root.
 */
#pragma once
#include "lib/base/alloc.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PYTHONS = 32 };

struct pythons {
	char *programs[MAX_PYTHONS];
	size_t n;
};

static inline void pythons_add(struct pythons *p, const char *program)
{
	if (access(program, X_OK) == 0 && p->n < MAX_PYTHONS)
		p->programs[p->n++] = xstrdup(program);
}

static inline void pythons_add_matches(struct pythons *p, const char *pattern)
{
	glob_t found = {0};

	if (glob(pattern, GLOB_TILDE, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			pythons_add(p, found.gl_pathv[i]);
	globfree(&found);
}

static inline void pythons_find(struct pythons *p)
{
	const char *more = getenv("SONDE_PYTHONS");
	char *list = xstrdup(more ? more : ""), *at = list, *program;

	*p = (struct pythons) {0};
	pythons_add_matches(p, "/usr/bin/python3.[0-9]*[0-9]");
	pythons_add_matches(p, "~/.pyenv/versions/3.*/bin/python3");
	while ((program = strsep(&at, ":")))
		pythons_add(p, program);
	free(list);
}

static inline void pythons_done(struct pythons *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->programs[i]);
}
