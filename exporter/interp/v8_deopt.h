/* SPDX-License-Identifier: Apache-2.0
 *
 * How V8 would go back from optimised code to bytecode (deoptimization): for each call and each check a translation, which lists the
 * functions that the code has inlined there, with their places in bytecode. From 13.x on this is the only thing that says so: the fast
 * compiler (Maglev) makes no source positions.
 */
#pragma once
#include "lib/base/cursor.h"
#include <stdbool.h>

struct v8_translated {
	int32_t offset;	  /* in bytecode */
	uint32_t literal; /* which of the code's literals is the function */
};

/* Frames of the translation that begins at `at`, the outermost first, without those of builtins (a loop of Array.forEach that is inlined),
 * which have their caller's function. Their number, at most `max`; -EBADMSG. */
int v8_translate(const uint8_t *bytes, size_t n, uint32_t at, uint32_t n_extra_operands,
	struct v8_translated *frames, size_t max);

/* Places behind calls. */
struct v8_safepoint {
	uint32_t code;	/* from the start of the code */
	uint32_t deopt; /* which translation; UINT32_MAX: none */
};
struct v8_safepoints {
	struct cursor c;
	unsigned code_bytes, deopt_bytes, rest_bytes;
	uint32_t n_left;
};
/* The table behind the code. False: it is malformed, or names no translations. */
bool v8_safepoints_of(const uint8_t *bytes, size_t n, bool is_maglev, struct v8_safepoints *ret);
bool v8_safepoints_next(struct v8_safepoints *s, struct v8_safepoint *ret);

/* The next conditional jump from `*at` on to an exit; *at is then behind it. False: there is none. x86-64. */
bool v8_next_check(
	struct cursor code, uint32_t exits, uint32_t n_exits, uint32_t *at, uint32_t *ret_exit);
