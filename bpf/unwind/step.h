/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * One step of a walk, from a frame to its caller: by unwind tables where a row covers the code, by what the code itself says or by
 * frame pointer where none does.
 */
#pragma once
#include "bpf/unwind/root.h"

/* The rule at w->off of w->binary by its table, into w->rule: enum unwind_found. */
UNWIND_ALONE int unwind_find(struct walk *w)
{
	return w ? unwind_lookup(w, w->binary, w->off, &w->rule, &w->scratch) : UNWIND_NO_TABLE;
}

/* What the cache of answers has for a key: 0 nothing, else the plain rule in w->plain, or 0 there and the rule in w->rule. */
UNWIND_ALONE int unwind_known(struct walk *w, __u64 key, __u32 seq)
{
	return w && unwind_recall(w, w->binary, key, seq, &w->rule, &w->plain, &w->scratch);
}

/* Asks for what the look-up of w->off of w->binary, which has that key, reads first. */
UNWIND_ALONE int unwind_ask(struct walk *w, __u64 key)
{
	const struct unwind_binary *b = w ? unwind_binary_at(w, w->binary) : NULL;

	if (b)
		unwind_ask_for(w, b, (__u32)unwind_rel(b, w->off), key);
	return 0;
}

/* The step that w->rule says: enum unwind_result. */
UNWIND_ALONE int unwind_apply(struct walk *w)
{
	return w ? walk_by_rule(w) : UNWIND_CUT;
}

/*
 * The step of 32-bit code: to a return address behind a call, by frame pointer. Such programs have no tables here and most keep no frame
 * pointers, so that what ends it says nothing of whether the stack is whole.
 */
UNWIND_ALONE int unwind_compat(struct walk *w)
{
	__u32 pair[2] = {0, 0}; /* the caller's frame pointer, the return address */
	__u64 fp = w ? w->regs[UNWIND_FP] : 0;

	if (UNWIND_ARM64 || !fp || unwind_read_user(w, pair, sizeof(pair), fp))
		return UNWIND_CUT;
	if ((pair[0] && pair[0] <= fp) ||
		unwind_read_user(w, w->code, sizeof(w->code[0]), (__u64)pair[1] - 8) ||
		!walk_ends_in_call(w->code[0]))
		return UNWIND_CUT;
	w->pc = pair[1];
	w->exact = 0;
	w->regs[UNWIND_FP] = pair[0];
	w->n_steps++;
	return UNWIND_MORE;
}

/* The rule of code in a file: enum unwind_found, and *ret_plain when the rule is of the usual kind; else it is in w->rule. */
UNWIND_FN int walk_find(struct walk *w, __u64 *ret_plain)
{
	struct unwind_near *near = unwind_near_at(w);
	__u32 seq = 0;
	__u64 key = unwind_key_of(w, w->binary, w->off, &seq, &w->scratch);
	int found = UNWIND_FOUND;

	/* A leaf's address is seldom one of the last: the places where its rule may be are not waited for one by one. */
	if (!w->n_steps)
		unwind_ask(w, key);
	*ret_plain = !near || !key ? 0
		     : w->n_steps  ? unwind_near_find(near, &w->near, key, seq)
				   : unwind_near_find_leaf(near, key, seq);
	if (USUAL(walk_can_plain(w, *ret_plain)))
		return UNWIND_FOUND;
	/* Where the rule in short cannot be applied the whole is wanted, to say why. */
	if (!key || !unwind_known(w, key, seq) || RARE(w->plain && !walk_can_plain(w, w->plain))) {
		found = unwind_find(w);
		w->plain = found == UNWIND_FOUND ? unwind_plain(&w->rule) : 0;
	}
	*ret_plain = UNWIND_ONCE(w->plain);
	if (!walk_can_plain(w, *ret_plain))
		*ret_plain = 0;
	else if (near && key && w->n_steps)
		unwind_near_add(near, &w->near, key, *ret_plain, seq);
	else if (near && key)
		unwind_near_add_leaf(near, key, *ret_plain, seq);
	return found;
}

/* From a located frame to its caller. */
UNWIND_FN enum unwind_result unwind_step(struct walk *w, enum unwind_place place)
{
	int found = UNWIND_NO_ROW;
	bool has_no_fp;
	__u64 plain = 0;

	w->fp_cut = ABI_CUT_NONE;
	w->place = place;
	if (RARE(w->is_compat))
		return unwind_compat(w);
	if (RARE(place == UNWIND_IN_JIT_NO_FP))
		return walk_cut(w, ABI_CUT_NO_TABLE);
	if (USUAL(place == UNWIND_IN_FILE))
		found = walk_find(w, &plain);
	if (USUAL(plain))
		return walk_by_plain(w, plain);
	if (RARE(place == UNWIND_IN_JIT_CHAIN)) {
		found = unwind_chain(w);
		if (found != UNWIND_MORE)
			return found;
		found = unwind_apply(w);
		if (found == UNWIND_ROOT)
			return walk_cut(w, ABI_CUT_BAD_PC);
		if (!w->regs[UNWIND_FP] && w->rule.cfa == UNWIND_CFA_FP && walk_is_given_back(w))
			w->fp_cut = WALK_MAY_BE_ROOT;
		return found;
	}
	if (place == UNWIND_NEVER_KNOWN) {
		w->lacks = 1;
		w->fp_cut = ABI_CUT_FP_INSANE;
		walk_set_rule(w, UNWIND_CFA_FP, 0);
		return unwind_apply(w);
	}
	if (found == UNWIND_NO_TABLE || place == UNWIND_SOMEWHERE || place == UNWIND_IN_DATA) {
		/* A frame pointer would be a guess: in a prologue, or in code that keeps none, it skips callers. */
		w->lacks = 1;
		w->lacking = place == UNWIND_IN_FILE ? w->binary : 0;
		return walk_cut(w, ABI_CUT_NO_TABLE);
	}
	has_no_fp = found == UNWIND_FOUND && w->rule.cfa == UNWIND_CFA_NO_FP;
	if (found == UNWIND_NO_ROW || has_no_fp) {
		/* JIT code that calls C may have its own stack elsewhere (BEAM): below C its frame pointer is taken as
		 * it is. */
		bool is_below_c = w->n_steps && w->method != UNWIND_BY_FP && !w->exact;

		w->fp_cut = place == UNWIND_IN_FILE ? ABI_CUT_NO_TABLE
			    : is_below_c	    ? ABI_CUT_NONE
						    : ABI_CUT_FP_INSANE;
		walk_rule_from_code(w, place == UNWIND_IN_FILE, !has_no_fp);
		if (has_no_fp && w->rule.cfa == UNWIND_CFA_FP) {
			if (!unwind_begins(w))
				return walk_cut(w, ABI_CUT_NO_TABLE);
			if (w->fp_cut != WALK_MAY_BE_ROOT)
				return UNWIND_ROOT;
		}
	}
	found = unwind_apply(w);
	if (found == UNWIND_ROOT && !unwind_may_end(w))
		return walk_cut(w, place == UNWIND_IN_FILE ? ABI_CUT_NO_TABLE : ABI_CUT_FP_INSANE);
	return found;
}
