/* SPDX-License-Identifier: Apache-2.0
 *
 * x86-64 machine code, one instruction at a time: how long it is and what it does to the stack (Intel's manual, volume 2,
 * appendix A: opcode maps; AMD's, volume 3, appendix A: 3DNow and XOP). For code that comes without call frame information.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* What an instruction does to the stack, or to the way of control. */
enum x86_kind {
	X86_BAD,	/* no instruction, or one that is cut off */
	X86_OTHER,	/* nothing to the stack but what `writes` says */
	X86_NOP,	/* nothing at all, as between functions */
	X86_PUSH,	/* `reg`, or something else (X86_NONE) */
	X86_POP,	/* the same */
	X86_MOVE_SP,	/* rsp += value */
	X86_SP_FROM_FP, /* rsp = rbp + value */
	X86_FP_FROM_SP, /* rbp = rsp + value */
	X86_STORE,	/* `reg` to memory at `base` + value */
	X86_LOAD,	/* `reg` from there */
	X86_LEAVE,
	X86_ADDRESS, /* some register = address of `value` bytes behind the instruction */
	X86_COMPARE, /* something with the number `value` */
	X86_CALL,    /* of what lies `value` bytes behind the instruction */
	X86_CALL_ANY,
	X86_JUMP,	/* to what lies `value` bytes behind the instruction */
	X86_BRANCH,	/* the same, or on */
	X86_JUMP_ANY,	/* to what `reg` or memory (X86_NONE) says */
	X86_JUMP_TABLE, /* to one of the 8-byte addresses at `value` */
	X86_RETURN,	/* and `value` bytes off the stack */
	X86_STOP,	/* control goes nowhere that is known */
};

/* Registers by the machine's numbers, and as bits of `writes`. */
enum { X86_BX = 3, X86_SP = 4, X86_FP = 5, X86_NONE = 0xff };
#define X86_BIT(reg) (1U << (reg))

struct x86_insn {
	uint8_t bytes;
	uint8_t kind; /* enum x86_kind */
	uint8_t reg, base;
	uint8_t writes; /* of BX, SP and FP those that it changes in a way that `kind` does not tell */
	int64_t value;
};

/* The instruction at `code`, of which n bytes may be read. X86_BAD: ret->bytes is 0. */
void x86_decode(const uint8_t *code, size_t n, struct x86_insn *ret);
