/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Finds a caller where no row does, from the code bytes at and before pc. Files without rows, and JIT code.
 */
#pragma once
#include "bpf/unwind/given_back.h"

/* mov $15, %rax (or %eax); syscall; arm64: mov x8, #139; svc #0 */
UNWIND_FN bool walk_is_trampoline(__u64 lo, __u64 hi)
{
	if (UNWIND_ARM64)
		return lo == 0xd4000001d2801168ULL;
	return (lo == 0x0f0000000fc0c748ULL && (__u8)hi == 0x05) ||
	       (lo & 0xffffffffffffffULL) == 0x050f0000000fb8ULL;
}

/*
 * No row covers the code. It may still be the trampoline of a signal handler (musl and Go have no rows for theirs); where pc
 * is exact, the first instructions of a function and its return tell that the frame pointer is not set up yet or no more;
 * everywhere else the frame pointer is what there is. What tells a root by its code are places in files: in JIT code the same
 * instructions always have a caller. Where there is no frame pointer, push %rbp may be in the midst of a function's begin.
 */
UNWIND_FN void walk_rule_from_code(struct walk *w, bool is_in_file, bool may_have_fp)
{
	__u64 lo;

	walk_set_rule(w, UNWIND_CFA_FP, 0);
	if (unwind_read_user(w, w->code, sizeof(w->code), w->pc))
		return;
	lo = w->code[0];
	if (walk_is_trampoline(lo, w->code[1])) {
		walk_set_rule(w, UNWIND_CFA_SIGNAL, 0);
		w->rule.off = UNWIND_SIGNAL_UCONTEXT;
	}
	if (UNWIND_ARM64)
		return;
	if (walk_gives_back(w, lo) || (w->exact && !is_in_file && walk_is_in_python(w, lo)))
		return;
	/* test %rax, %rax; jl: behind the system call in clone and clone3, where glibc has no rows because the two threads that
	 * return there want different ones. The new one has no caller. */
	if (is_in_file && !w->n_steps && (lo & 0xffffff) == 0xc08548 &&
		((__u8)(lo >> 24) == 0x7c || (__u16)(lo >> 24) == 0x8c0f)) {
		walk_set_rule(w, UNWIND_CFA_REG, 0);
		if (!w->regs[0])
			w->rule.ra = UNWIND_GONE;
		return;
	}
	/* xor %rdi, %rdi; call; hlt: what a fiber of Boost.Context returns to, which is its first frame. And mov %eax, %edi;
	 * xor %eax, %eax; mov $60, %al; syscall: where musl's clone has called a thread's first function. */
	if (!w->exact && is_in_file &&
		(((__u32)lo == 0xe8ff3148 && (__u8)w->code[1] == 0xf4) ||
			lo == 0x050f3cb0c031c789ULL)) {
		walk_set_rule(w, UNWIND_CFA_REG, 0);
		w->rule.ra = UNWIND_GONE;
		return;
	}
	if (!w->exact) {
		/* mov %eax, %edi (or 64 bits wide); call: what main or a thread's function returned may go to exit, which does
		 * not return. musl has no rows for where it calls them. Other code without rows (Chromium's) passes results
		 * on like this too, and keeps frame pointers. */
		if (is_in_file && ((lo & 0xffffff) == 0xe8c789 || (__u32)lo == 0xe8c78948))
			w->fp_cut = WALK_MAY_BE_ROOT;
		return;
	}
	/* push %rbp; ret; endbr64 */
	if (((__u8)lo == 0x55 && may_have_fp) || (__u8)lo == 0xc3 || (__u32)lo == 0xfa1e0ff3)
		walk_set_rule(w, UNWIND_CFA_REG, 0);
	/* mov %rsp, %rbp in its two encodings */
	else if (may_have_fp && ((lo & 0xffffff) == 0xe58948 || (lo & 0xffffff) == 0xec8b48))
		walk_set_rule(w, UNWIND_CFA_REG, 8);
}

/* Do these eight bytes end in a call, near and direct (E8) or indirect (FF /2)? arm64: bl, blr, blraa and the like. */
UNWIND_FN bool walk_ends_in_call(__u64 bytes)
{
#define BYTE(before) ((__u8)(bytes >> (64 - 8 * (before))))
#define IS_CALL(modrm, mod) (((modrm)&0xf8) == ((mod) << 6 | 0x10) && ((modrm)&7) != 4)
	__u32 i = (__u32)(bytes >> 32);

	if (UNWIND_ARM64)
		return i >> 26 == 0x25 || (i & 0xfffffc1f) == 0xd63f0000 ||
		       (i & 0xfefff800) == 0xd63f0800;
	return BYTE(5) == 0xe8 ||
	       (BYTE(2) == 0xff &&
		       ((BYTE(1) & 0xf8) == 0xd0 || (IS_CALL(BYTE(1), 0) && BYTE(1) != 0x15))) ||
	       (BYTE(3) == 0xff && (IS_CALL(BYTE(2), 1) || BYTE(2) == 0x14)) ||
	       (BYTE(4) == 0xff && BYTE(3) == 0x54) ||
	       (BYTE(6) == 0xff && (IS_CALL(BYTE(5), 2) || BYTE(5) == 0x15)) ||
	       (BYTE(7) == 0xff && (BYTE(6) == 0x94 || (BYTE(6) == 0x14 && BYTE(5) == 0x25)));
#undef IS_CALL
#undef BYTE
}

/*
 * JIT code is walked by frame pointer without anything that says that it keeps one. Where it does not, the word that is taken
 * for a return address hardly ever follows a call. We trust one other kind of return address: that of the frame which a
 * runtime makes by hand below a stack of its own (BEAM's processes), with no frame pointer in it and no call before it.
 */
UNWIND_ALONE int unwind_is_called(struct walk *w)
{
	if (!w)
		return 0;
	w->is_made = 0;
	if (unwind_read_user(w, w->code, sizeof(w->code[0]), w->pc - sizeof(w->code[0])))
		return 0;
	if (walk_ends_in_call(w->code[0]))
		return 1;
	w->is_made = !w->regs[UNWIND_FP] && !w->fp_at;
	return w->is_made;
}

/* How BEAM's functions begin: jmp over the call of a breakpoint to push %rbp; mov %rsp, %rbp. */
UNWIND_FN bool walk_is_beam_entry(const struct walk *w)
{
	return (w->code[0] & 0xff00ffff) == 0xe80006eb && (__u32)w->code[1] == 0xe5894855;
}

/*
 * BEAM's code that runs with its caller's frame pointer: its own is not set up yet, or no more. Between leave and the end of a
 * function there are dec %r14; jl; ret, or a jump to another function. Its return address is the word at sp.
 */
UNWIND_FN bool walk_is_bare(struct walk *w)
{
	__u64 lo = w->code[0], to;

	if ((__u8)lo == 0x55 || (__u8)lo == 0xc3 || walk_is_beam_entry(w) ||
		(lo & 0xffffffffff) == 0x8c0fceff49 || (lo & 0xff00000000ffff) == 0xc3000000008c0f)
		return true;
	/* jmp *(%rax,%r12,8); test %eax, %eax; ret */
	if ((__u32)lo == 0xe024ff42 || (lo & 0xffffff) == 0xc3c085)
		return true;
	if ((__u8)lo == 0xe9)
		to = w->pc + 5 + (__s64)(__s32)(lo >> 8);
	else if ((__u8)lo == 0xeb)
		to = w->pc + 2 + (__s64)(__s8)(lo >> 8);
	else
		return false;
	return !unwind_read_user(w, w->code, sizeof(w->code), to) && walk_is_beam_entry(w);
}

/*
 * From code of BEAM that keeps frame pointers (+JPperf true): w->rule, or the end. In all of it the register is the frame of a
 * function of the process that runs, whose stack is not the C code's that it calls; or 0, where the process has no function any
 * more and where none runs (process_main, which looks for the next one). Only the first instructions of a function and its last
 * ones are without a frame of their own.
 */
UNWIND_ALONE int unwind_chain(struct walk *w)
{
	if (!w)
		return UNWIND_CUT;
	if (w->exact && !unwind_read_user(w, w->code, sizeof(w->code), w->pc)) {
		/* mov %rsp, %rbp */
		bool is_pushed = (w->code[0] & 0xffffff) == 0xe58948;

		if (is_pushed || walk_is_bare(w)) {
			walk_set_rule(w, UNWIND_CFA_REG, is_pushed ? 8 : 0);
			return UNWIND_MORE;
		}
	}
	walk_set_rule(w, UNWIND_CFA_FP, 0);
	if (walk_need(w, UNWIND_FP) != UNWIND_MORE)
		return UNWIND_CUT;
	w->cfa = w->regs[UNWIND_FP] + 16;
	if (w->regs[UNWIND_FP])
		return UNWIND_MORE;
	/* What a frame has saved of its caller is 0 only where no call led there; else it was a stack that is used anew. */
	if (w->method == UNWIND_BY_FP && !w->exact &&
		(unwind_read_user(w, w->code, sizeof(w->code[0]), w->pc - sizeof(w->code[0])) ||
			walk_ends_in_call(w->code[0])))
		return walk_cut(w, ABI_CUT_FP_INSANE);
	return UNWIND_ROOT;
}

/*
 * A process's first function has saved a 0. While garbage is collected its frame may lie in a stack that was given back: what was
 * its return address, the last word, is then the size of a free block, as the block's first word is too, with flags in three
 * bits (erts/emulator/beam/erl_alloc_util.c).
 */
UNWIND_FN bool walk_is_given_back(struct walk *w)
{
	__u64 bytes = w->pair[1];

	return bytes && !(bytes & 7) && bytes >> 32 == 0 &&
	       !unwind_read_user(w, w->pair, sizeof(w->pair[0]), w->cfa - bytes) &&
	       (w->pair[0] & ~7ULL) == bytes;
}

/* Does the frame that was found for JIT code hold as its caller? */
UNWIND_FN bool walk_holds(struct walk *w, enum unwind_place place)
{
	if (USUAL(w->place == UNWIND_IN_FILE) || w->exact || !w->n_steps)
		return true;
	/* BEAM's have no callers elsewhere. Where a call is to be made anew it is no call that the return address follows. */
	if (w->place == UNWIND_IN_JIT_CHAIN)
		return place == UNWIND_IN_JIT_CHAIN;
	if (w->place != UNWIND_IN_JIT)
		return true;
	return unwind_is_called(w) && (!w->is_made || place == UNWIND_IN_JIT);
}
