/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What tells the code object of a frame's word from others that lay at its address (struct abi_code), by the layout.
 */
#pragma once
#include "bpf/interp/ruby.h"

/* in->check goes on with n bytes of words that lie there; less than a word is one word. Negative: they cannot be read. Verified once, by itself. */
UNWIND_ALONE int interp_check_words(struct walk *w, struct interp *in, __u64 at, __u32 n)
{
	if (!w || !in)
		return -1;
	UNWIND_FORGET(n);
	if (n > INTERP_CHECK_BYTES || unwind_read_user(w, in->bytes, n, at))
		return -1;
	for (__u32 i = 0; i < INTERP_CHECK_BYTES / sizeof(__u64) && i * sizeof(__u64) < n; i++)
		in->check = interp_check_add(in->check, in->bytes[i]);
	return 0;
}

/* Sets in->check. Negative: the object cannot be read. Verified once, by itself. */
UNWIND_ALONE int interp_check(struct walk *w, struct interp *in, __u64 word)
{
	__u64 object = ABI_INTERP_OBJECT(word) << ABI_INTERP_ADDRESS_SHIFT;
	const struct interp_layout *l;
	__u32 at, n;

	if (!w || !in)
		return -1;
	l = &in->layout;
	at = l->code_name - l->code_check;
	n = l->name_check_bytes;
	in->check = 0;
	if (interp_check_words(w, in, object + l->code_check, l->code_check_bytes)) {
		in->is_lost |= l->kind == INTERP_V8;
		return -1;
	}
	if (l->kind == INTERP_V8) {
		in->bytes[0] = 0; /* maybe less than a word is read */
		if (!interp_check_words(w, in, object + l->name_check, n))
			return 0;
		in->is_lost = 1;
		return -1;
	}
	if (l->code_name == INTERP_NO_FIELD)
		return 0;
	if (l->kind == INTERP_RUBY && ABI_INTERP_POSITION(word) == ABI_INTERP_BEYOND)
		n = INTERP_RUBY_DEFINITION_BYTES;
	return interp_check_words(w, in, interp_field(in, at) + l->name_check, n);
}
