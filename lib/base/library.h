/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared libraries that a program loads when it first needs them, so that what does without them pays neither the time
 * nor the memory (docs/decisions/0010-libraries-when-needed.md).
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>

/* For a list of functions as an X macro: what `names` and the struct of `functions` are made of. */
#define LIBRARY_NAME(f) #f,
#define LIBRARY_POINTER(f) __typeof__(&f) f;

struct library {
	const char *soname,
		*package;	  /* the latter is Debian's, for the person who has to install it */
	const char *const *names; /* of the functions that are asked for */
	size_t n_names;
	void *functions; /* a struct of nothing but n_names pointers to functions, in the order of the names */
	bool (*start)(
		void); /* once they are there; false: the library does not work. NULL: nothing to do */
	bool is_loaded;
};

/* Loads it and fills `functions`; further calls change nothing, and what was loaded stays. -ELIBACC: it is missing or too
 * old; the text names library and package. Not inside a sandbox that maps no code. Any thread. */
int library_load(struct library *l, struct errbuf *eb) _must_check_;
