/* SPDX-License-Identifier: Apache-2.0
 *
 * exporter/parser/unwind/flow_state.h
 */
#include "exporter/parser/unwind/flow_state.h"

enum {
	DW_FP = 6, /* DWARF numbers */
	DW_SP = 7,
	MAX_HEIGHT = 1 << 24,
};

static void set_where(const struct flow_state *s, int which, uint8_t *where, int32_t *off)
{
	*where = s->held[which] == FLOW_CALLERS ? UNWIND_SAME
		 : s->saved[which]		? UNWIND_AT_CFA
						: UNWIND_GONE;
	*off = *where == UNWIND_AT_CFA ? -s->saved[which] : 0;
}

struct unwind_rule flow_rule(const struct flow_state *s)
{
	struct unwind_rule rule = {.cfa = UNWIND_CFA_REG,
		.reg = s->height == FLOW_LOST ? DW_FP : DW_SP,
		.ra = UNWIND_AT_CFA,
		.off = s->height == FLOW_LOST ? s->held[FLOW_FP] : s->height,
		.ra_off = -FLOW_WORD};

	set_where(s, FLOW_FP, &rule.fp, &rule.fp_off);
	set_where(s, FLOW_BX, &rule.bx, &rule.bx_off);
	return rule;
}

/* The followed register of that number of the machine's, or -1. */
static int followed(uint8_t reg)
{
	return reg == X86_FP ? FLOW_FP : reg == X86_BX ? FLOW_BX : -1;
}

/* Where the caller's frame can still be found from. */
static enum flow_verdict known(const struct flow_state *s)
{
	return s->height == FLOW_LOST && s->held[FLOW_FP] <= FLOW_CALLERS ? FLOW_END : FLOW_ON;
}

/* What lies below the stack pointer is no longer there. */
static void forget_below(struct flow_state *s)
{
	for (int i = 0; i < 2; i++)
		if (s->height != FLOW_LOST && s->saved[i] > s->height)
			s->saved[i] = 0;
}

/* From there on the place counts, so that ways with and without a change of the register agree. */
static void save(struct flow_state *s, int which, int32_t at)
{
	if (s->held[which] != FLOW_CALLERS || s->saved[which] || at <= FLOW_WORD)
		return;
	s->saved[which] = at;
	s->held[which] = FLOW_OTHER;
}

static void load(struct flow_state *s, int which, int32_t at)
{
	bool is_callers = s->saved[which] && s->saved[which] == at;

	s->held[which] = is_callers ? FLOW_CALLERS : FLOW_OTHER;
	if (is_callers)
		s->saved[which] = 0;
}

enum flow_verdict flow_push(struct flow_state *s, uint8_t reg)
{
	if (s->height == FLOW_LOST)
		return known(s);
	if (s->height > MAX_HEIGHT)
		return FLOW_END;
	s->height += FLOW_WORD;
	if (followed(reg) >= 0)
		save(s, followed(reg), s->height);
	return FLOW_ON;
}

static enum flow_verdict pop(struct flow_state *s, uint8_t reg)
{
	if (reg == X86_SP)
		return FLOW_END;
	if (s->height != FLOW_LOST && s->height <= FLOW_WORD)
		return FLOW_FAIL; /* the return address */
	if (followed(reg) >= 0)
		load(s, followed(reg), s->height == FLOW_LOST ? 0 : s->height);
	if (s->height != FLOW_LOST)
		s->height -= FLOW_WORD;
	forget_below(s);
	return known(s);
}

static enum flow_verdict move_sp(struct flow_state *s, int64_t by)
{
	if (s->height == FLOW_LOST)
		return known(s);
	if (by < -MAX_HEIGHT || by > MAX_HEIGHT || s->height - by > MAX_HEIGHT)
		return FLOW_END;
	if (s->height - by < FLOW_WORD)
		return FLOW_FAIL;
	s->height -= (int32_t)by;
	forget_below(s);
	return FLOW_ON;
}

static enum flow_verdict sp_from_fp(struct flow_state *s, int64_t off)
{
	if (s->held[FLOW_FP] <= FLOW_CALLERS)
		return s->held[FLOW_FP] == FLOW_CALLERS ? FLOW_FAIL : FLOW_END;
	if (off < -MAX_HEIGHT || off > s->held[FLOW_FP] - FLOW_WORD)
		return FLOW_FAIL;
	s->height = s->held[FLOW_FP] - (int32_t)off;
	forget_below(s);
	return FLOW_ON;
}

static enum flow_verdict fp_from_sp(struct flow_state *s, int64_t off)
{
	int64_t at = s->height - off;

	s->held[FLOW_FP] =
		s->height == FLOW_LOST || at <= 0 || at > MAX_HEIGHT ? FLOW_OTHER : (int32_t)at;
	return known(s);
}

/* The distance of base + value; 0: not known. */
static int32_t place_of(const struct flow_state *s, const struct x86_insn *i)
{
	int32_t from = i->base == X86_SP ? s->height : s->held[FLOW_FP];
	int64_t at = from - i->value;

	return from <= 0 || at <= 0 || at > MAX_HEIGHT ? 0 : (int32_t)at;
}

static enum flow_verdict change(struct flow_state *s, uint8_t writes)
{
	if (writes & X86_BIT(X86_SP))
		s->height = FLOW_LOST;
	if (writes & X86_BIT(X86_FP))
		s->held[FLOW_FP] = FLOW_OTHER;
	if (writes & X86_BIT(X86_BX))
		s->held[FLOW_BX] = FLOW_OTHER;
	return known(s);
}

enum flow_verdict flow_apply(struct flow_state *s, const struct x86_insn *i)
{
	switch (i->kind) {
	case X86_PUSH: return flow_push(s, i->reg);
	case X86_POP: return pop(s, i->reg);
	case X86_MOVE_SP: return move_sp(s, i->value);
	case X86_SP_FROM_FP: return sp_from_fp(s, i->value);
	case X86_FP_FROM_SP: return fp_from_sp(s, i->value);
	case X86_STORE: save(s, followed(i->reg), place_of(s, i)); return FLOW_ON;
	case X86_LOAD: load(s, followed(i->reg), place_of(s, i)); return known(s);
	case X86_LEAVE: return sp_from_fp(s, 0) == FLOW_ON ? pop(s, X86_FP) : FLOW_FAIL;
	default: return change(s, i->writes);
	}
}

bool flow_merge(struct flow_state *a, const struct flow_state *b)
{
	if (a->saved[FLOW_FP] != b->saved[FLOW_FP] || a->saved[FLOW_BX] != b->saved[FLOW_BX])
		return false;
	if (a->height != b->height) {
		if (a->held[FLOW_FP] != b->held[FLOW_FP] || a->held[FLOW_FP] <= FLOW_CALLERS)
			return false;
		a->height = FLOW_LOST;
	}
	for (int i = 0; i < 2; i++)
		if (a->held[i] != b->held[i])
			a->held[i] = FLOW_OTHER;
	return known(a) == FLOW_ON;
}

bool flow_differs_in_registers(const struct flow_state *a, const struct flow_state *b)
{
	return a->height == b->height && a->saved[FLOW_FP] == b->saved[FLOW_FP] &&
	       a->saved[FLOW_BX] == b->saved[FLOW_BX];
}

bool flow_says_no_more(const struct flow_state *known, const struct flow_state *s)
{
	return flow_differs_in_registers(known, s) &&
	       (known->held[FLOW_FP] == s->held[FLOW_FP] ||
		       (known->held[FLOW_FP] == FLOW_OTHER && known->height != FLOW_LOST)) &&
	       (known->held[FLOW_BX] == s->held[FLOW_BX] || known->held[FLOW_BX] == FLOW_OTHER);
}

bool flow_is_clean(const struct flow_state *s)
{
	return s->height == FLOW_WORD && s->held[FLOW_FP] == FLOW_CALLERS &&
	       s->held[FLOW_BX] == FLOW_CALLERS;
}
