/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * V8's objects as far as the walk reads them: of what type one is, and the code object of a function.
 */
#pragma once
#include "bpf/interp/frame.h"

enum {
	INTERP_V8_TAG_MASK = 3,
	INTERP_V8_TAG = 1,	 /* of a word that is the address of an object, plus 1 */
	INTERP_V8_MAP_FLAGS = 8, /* in an object's map: 4 bytes before its type */
	INTERP_V8_TYPE_SHIFT = 32,
	INTERP_V8_FUNCTION_TYPES =
		16, /* side by side; the last is a class's, and not all versions say its number */
};

/* Is the object at that address of a type from `first` to `last`? Verified once, by itself. */
UNWIND_ALONE int interp_v8_is(
	struct walk *w, struct interp *in, __u64 object, __u32 first, __u32 last)
{
	__u64 *map;
	__u32 type;

	if (!w || !in)
		return 0;
	map = in->scratch;
	if (unwind_read_user(w, map, sizeof(map[0]), object) ||
		unwind_read_user(
			w, map, sizeof(map[0]), map[0] - INTERP_V8_TAG + INTERP_V8_MAP_FLAGS))
		return 0;
	type = (__u16)(map[0] >> INTERP_V8_TYPE_SHIFT);
	return type >= first && type <= last;
}

/* Sets in->function, the code object of the function that a word is. False: it is none. is_sure: no other can be there. Verified once, by itself. */
UNWIND_ALONE int interp_v8_function(struct walk *w, struct interp *in, __u64 word, __u32 is_sure)
{
	__u64 shared;
	__u32 last;

	if (!w || !in)
		return 0;
	in->function = 0;
	if ((word & INTERP_V8_TAG_MASK) != INTERP_V8_TAG || word < UNWIND_USER_MIN ||
		word >= UNWIND_USER_MAX)
		return 0;
	last = in->layout.function_type + INTERP_V8_FUNCTION_TYPES - 1;
	if (last < in->layout.function_last)
		last = in->layout.function_last;
	if (!is_sure && !interp_v8_is(w, in, word - INTERP_V8_TAG, in->layout.function_type, last))
		return 0;
	if (unwind_read_user(w, in->scratch, sizeof(in->scratch[0]),
		    word - INTERP_V8_TAG + in->layout.function_shared)) {
		in->is_lost = 1;
		return 0;
	}
	shared = in->scratch[0];
	if ((shared & 7) != INTERP_V8_TAG || shared < UNWIND_USER_MIN || shared >= UNWIND_USER_MAX)
		return 0;
	in->function = shared - INTERP_V8_TAG;
	return 1;
}
