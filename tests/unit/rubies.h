/* SPDX-License-Identifier: Apache-2.0
 *
 * The Rubies of this machine, for tests against real ones: Debian's, and the programs that SONDE_RUBIES lists, with `:` between them.
 * ROOT/./usr/bin/ruby3.4 is a program to be run in that root.
 */
#pragma once
#include "lib/base/alloc.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RUBIES = 32 };

struct rubies {
	char *programs[MAX_RUBIES];
	size_t n;
};

static inline void rubies_add(struct rubies *r, const char *program)
{
	if (access(program, X_OK) == 0 && r->n < MAX_RUBIES)
		r->programs[r->n++] = xstrdup(program);
}

static inline void rubies_find(struct rubies *r)
{
	const char *more = getenv("SONDE_RUBIES");
	char *list = xstrdup(more ? more : ""), *at = list, *program;
	glob_t found = {0};

	*r = (struct rubies) {0};
	if (glob("/usr/bin/ruby[2-9].[0-9]", 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			rubies_add(r, found.gl_pathv[i]);
	globfree(&found);
	while ((program = strsep(&at, ":")))
		rubies_add(r, program);
	free(list);
}

static inline void rubies_done(struct rubies *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->programs[i]);
}
