/* SPDX-License-Identifier: Apache-2.0
 *
 * exporter/parser/unwind/flow_candidates.h
 */
#include "exporter/parser/unwind/flow_candidates.h"
#include "lib/base/bits.h"
#include <string.h>

enum {
	MANY_FUNCTIONS = 64,
	FEW_OTHERS = 16, /* so many more with a frame pointer than with another frame */
};

void flow_decode(const struct unwind_flow_code *code, size_t at, struct x86_insn *ret)
{
	x86_decode(code->code + at, code->n - at, ret);
}

bool flow_asks_where(const struct unwind_flow_code *code, size_t at, const struct x86_insn *i)
{
	struct x86_insn next;

	if (i->kind != X86_CALL || i->value || at + i->bytes >= code->n)
		return false;
	flow_decode(code, at + i->bytes, &next);
	return next.kind == X86_POP;
}

size_t flow_skip_padding(const struct unwind_flow_code *code, size_t at)
{
	struct x86_insn i;

	while (at < code->n) {
		flow_decode(code, at, &i);
		if (i.kind == X86_NOP)
			at += i.bytes;
		else if (code->code[at] == 0xcc || (code->code[at] == 0 && at % FLOW_ALIGNMENT))
			at++;
		else
			break;
	}
	return at;
}

static void note(const struct flow_candidates *c, int64_t at, bool is_called)
{
	if (at < 0 || (uint64_t)at >= c->code->n)
		return;
	bits_set(c->maybe, (size_t)at);
	if (is_called)
		bits_set(c->called, (size_t)at);
}

static void note_pointed(const struct flow_candidates *c, int64_t at)
{
	if (at >= 0 && (uint64_t)at < c->code->n)
		bits_set(c->pointed, (size_t)at);
}

/* Does control go on behind it, as far as that can be seen? */
static bool ends_way(const struct x86_insn *i)
{
	return i->kind == X86_JUMP || i->kind == X86_JUMP_ANY || i->kind == X86_JUMP_TABLE ||
	       i->kind == X86_RETURN || i->kind == X86_STOP;
}

/*
 * A function that goes at once to where an argument says, as the one with which musl's qsort hands its comparison on to qsort_r. Only its
 * address is taken, and it has no return that would tell what it is. A jump by another register may be to the next piece of an
 * interpreter, or of GHC's code.
 */
static bool is_thunk(const struct unwind_flow_code *code, int64_t at)
{
	static const uint8_t arguments[] = {7, 6, 2, 1, 8, 9}; /* rdi, rsi, rdx, rcx, r8, r9 */
	struct x86_insn i;

	if (at < 0 || (uint64_t)at >= code->n || (code->vaddr + (uint64_t)at) % FLOW_ALIGNMENT)
		return false;
	flow_decode(code, (size_t)at, &i);
	return i.kind == X86_JUMP_ANY && memchr(arguments, i.reg, sizeof(arguments));
}

/* What an instruction tells. Returns where the next one is. */
static size_t note_told(const struct flow_candidates *c, size_t at, const struct x86_insn *i)
{
	bool is_call = i->kind == X86_CALL || i->kind == X86_CALL_ANY;
	size_t next = at + i->bytes, behind = next;

	if (ends_way(i) || is_call)
		behind = flow_skip_padding(c->code, next);
	if (i->kind == X86_CALL && !flow_asks_where(c->code, at, i))
		note(c, (int64_t)next + i->value, true);
	if (i->kind == X86_ADDRESS) {
		note(c, (int64_t)next + i->value, is_thunk(c->code, (int64_t)next + i->value));
		note_pointed(c, (int64_t)next + i->value);
	}
	if (ends_way(i)) {
		note(c, (int64_t)behind, false);
		return behind;
	}
	/* behind a call that does not return */
	if (is_call && (c->code->vaddr + behind) % FLOW_ALIGNMENT == 0)
		note(c, (int64_t)behind, false);
	return next;
}

void flow_candidates_find(const struct flow_candidates *c, size_t at, size_t end)
{
	if (at == 0) {
		at = flow_skip_padding(c->code, 0);
		note(c, (int64_t)at, false);
	}
	while (at < end) {
		struct x86_insn i;

		flow_decode(c->code, at, &i);
		if (i.kind != X86_BAD) {
			at = note_told(c, at, &i);
			continue;
		}
		/* Data is no code: past it. */
		at += FLOW_ALIGNMENT - (c->code->vaddr + at) % FLOW_ALIGNMENT;
		note(c, (int64_t)at, false);
	}
}

enum flow_prologue flow_prologue_at(const struct unwind_flow_code *code, size_t at)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct x86_insn first, second;

	if (code->n - at >= sizeof(endbr64) &&
		memcmp(code->code + at, endbr64, sizeof(endbr64)) == 0)
		at += sizeof(endbr64);
	flow_decode(code, at, &first);
	flow_decode(code, at + first.bytes, &second);
	if (first.kind == X86_PUSH && first.reg == X86_FP && second.kind == X86_FP_FROM_SP)
		return FLOW_FRAME_POINTER;
	return first.kind == X86_PUSH || (first.kind == X86_MOVE_SP && first.value < 0)
		       ? FLOW_OTHER_FRAME
		       : FLOW_NO_FRAME;
}

bool flow_candidates_keep_frame_pointers(const struct flow_candidates *c)
{
	size_t n[FLOW_N_PROLOGUES] = {0};

	for (size_t at = c->code->n; (at = bits_last(c->maybe, at)) && at--;)
		n[flow_prologue_at(c->code, at)]++;
	return n[FLOW_FRAME_POINTER] >= MANY_FUNCTIONS &&
	       n[FLOW_FRAME_POINTER] > n[FLOW_OTHER_FRAME] * FEW_OTHERS;
}
