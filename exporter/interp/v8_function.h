/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of V8: a SharedFunctionInfo is one function of the source, whatever closures and machine code there are of it.
 */
#pragma once
#include "exporter/interp/v8_positions.h"

struct v8_function {
	uint64_t data;		       /* word: its bytecode, or what leads there */
	uint64_t script;	       /* word */
	uint32_t start;		       /* position in the source; UINT32_MAX: not known */
	const struct v8_script *lines; /* valid until the next script is read; NULL: it has none */
	struct interp_code code;       /* name, file, first line, check; without lines */
};
static inline void v8_function_done(struct v8_function *f)
{
	interp_code_done(&f->code);
}
#define _cleanup_v8_function_ _cleanup_(v8_function_done)

/* 0; -ENOENT: no function is there; -EAGAIN: it changed meanwhile; -EBADMSG, -ENOMEM, or the error of reading. */
int v8_function_read(
	struct v8_heap *h, struct v8_scripts *s, uint64_t shared, struct v8_function *ret);
/* Does it still stand there? 0 or -EAGAIN. */
int v8_function_check(struct v8_heap *h, uint64_t shared, const struct v8_function *f);
/* The bytecode array that `data` leads to. *ret_baseline is the baseline code on the way (0: none). -ENOENT: there is no bytecode. */
int v8_function_bytecode(struct v8_heap *h, uint64_t data, uint64_t *ret, uint64_t *ret_baseline);
/* V8's table of source positions at `off` of an object; empty where V8 has made none yet. malloc'ed. */
int v8_positions_read(
	struct v8_heap *h, uint64_t object, uint32_t off, uint8_t **ret, size_t *ret_n);
