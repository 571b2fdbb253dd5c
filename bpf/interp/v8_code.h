/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What V8's code says of its frame, at an instruction of x86-64: its first ones do not have it yet, its last ones not any more.
 */
#pragma once
#include "bpf/unwind/step.h"

/* How far code at an instruction has come with its frame. w->rule is set where it does not have one. */
enum interp_v8_part { INTERP_V8_WITHIN, INTERP_V8_BEGINS, INTERP_V8_ENDS };

/*
 * Up to 12.x a function begins with a check that its code may still be used: mov -n(%rcx), %rbx; testb $1, m(%rbx); jne away, or je over
 * a jump away; then push %rbp.
 */
UNWIND_FN bool interp_v8_is_check(__u64 lo, __u64 hi)
{
	bool is_test = (lo & 0xff00ffff) == 0x010043f6;
	__u16 behind = (__u16)(lo >> 32);

	if ((lo & 0xffffff) == 0x598b48)
		return (lo >> 32 & 0xff00ffff) == 0x010043f6;
	if (is_test)
		return behind == 0x850f || behind == 0x0574 || behind == 0x0d74;
	if ((__u16)lo == 0x850f)
		return (lo >> 48) == 0x4855 && (__u16)hi == 0xe589;
	if ((lo & 0xffffff) == 0xe90574)
		return lo >> 56 == 0x55 && (hi & 0xffffff) == 0xe58948;
	return (__u32)lo == 0xba490d74 && hi >> 56 == 0x55;
}

/*
 * Behind pop %rbp: ret; or, where arguments may be more than the function has, cmp $n, %reg; jg over ret $n; pop %reg;
 * lea (%rsp,%reg,8), %rsp; push %reg; ret. The popped one is the return address.
 */
UNWIND_FN bool interp_v8_ends(struct walk *w, __u64 lo)
{
	__u32 tail = (__u32)(lo >> 32);
	bool is_push = (lo & 0xfff8ff) == 0xc35041,
	     is_lea = (lo >> 8 & 0xffff) == 0x248d && (tail & 0xfff8ff) == 0xc35041;

	if (is_push || is_lea) {
		w->rule.off = 0;
		w->rule.ra = UNWIND_IN_REG;
		w->rule.ra_off = 8 + (__s32)(lo >> (is_push ? 8 : 40) & 7);
		return true;
	}
	if ((__u8)lo == 0xc3 || (__u8)lo == 0xc2 || (lo & 0xffffff) == 0xc2037f ||
		(lo & 0xffffffffffffffULL) == 0xc2000000038f0fULL)
		return true;
	if ((lo & 0xf8fffe) == 0xf88348)
		return (tail & 0xffffff) == 0xc2037f || tail == 0x00038f0f;
	return (lo & 0xf8ff) == 0x5841 && (lo >> 24 & 0xffff) == 0x248d;
}

UNWIND_FN enum interp_v8_part interp_v8_part(struct walk *w, bool is_builtin)
{
	__u64 lo;

	w->code[0] = 0;
	if (unwind_read_user(w, w->code, sizeof(w->code), w->pc))
		return INTERP_V8_WITHIN;
	lo = w->code[0];
	walk_set_rule(w, UNWIND_CFA_REG, 0);
	/* push %rbp */
	if ((__u8)lo == 0x55 || (!is_builtin && interp_v8_is_check(lo, w->code[1])))
		return INTERP_V8_BEGINS;
	if (interp_v8_ends(w, lo))
		return INTERP_V8_ENDS;
	/* mov %rsp, %rbp */
	if ((lo & 0xffffff) != 0xe58948)
		return INTERP_V8_WITHIN;
	walk_set_rule(w, UNWIND_CFA_REG, 8);
	return INTERP_V8_BEGINS;
}
