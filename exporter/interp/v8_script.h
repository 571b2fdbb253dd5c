/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts of V8: their names, and where their lines end. V8 knows the lines of a script only once somebody has asked for one, so that they
 * are counted here in its source, once for all functions of the script.
 */
#pragma once
#include "exporter/interp/v8_heap.h"

enum {
	V8_MAX_LINES = 1 << 20,		/* of a script */
	V8_MAX_SOURCE_CHARS = 12 << 20, /* a longer script has no lines */
	V8_SCRIPTS = 64,		/* whose lines are kept */
	V8_SCRIPTS_MAX_BYTES = 4 << 20, /* of them; one script may be larger, alone */
};

struct v8_script {
	uint64_t key;  /* of its number, name and length */
	uint64_t seen; /* of its address and fields when it was met last */
	char *name;
	uint32_t *ends; /* positions of the characters that end its lines; NULL: not known */
	size_t n_ends;
	int32_t first_line,
		first_column; /* of position 0: later in a page; negative where V8 puts lines before the source */
	uint64_t used;
};

/* The scripts of one process image that were met last. One thread. */
struct v8_scripts {
	struct v8_script scripts[V8_SCRIPTS];
	size_t n, bytes;
	uint64_t clock;
};
void v8_scripts_done(struct v8_scripts *s);
#define _cleanup_v8_scripts_ _cleanup_(v8_scripts_done)

struct v8_place {
	uint32_t line, column; /* from 1 on; 0: not known */
};

/*
 * The script at `script`, which stays valid until the next call for the same `s`. 0; -ENOENT: it is none; -ENOMEM; else an error of
 * v8_heap.h. The source's lines may be unknown all the same.
 */
int v8_script_read(
	struct v8_heap *h, struct v8_scripts *s, uint64_t script, const struct v8_script **ret);
struct v8_place v8_script_place(const struct v8_script *s, uint32_t position);
