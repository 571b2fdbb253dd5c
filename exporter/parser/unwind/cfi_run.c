/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of call frame information, run for the registers that a walk follows: CFA,
 * frame pointer, one register more and return address.
 */
#include "exporter/parser/unwind/cfi_run.h"
#include <dwarf.h>

enum { MAX_REMEMBERED = 16 };

/* What a rule cannot say. While any is set the rule is unknown. */
enum {
	ODD_CFA = 1,
	ODD_SP = 2, /* the caller's stack pointer is not the CFA */
	ODD_RA = 4,
};

struct state {
	struct unwind_rule rule;
	unsigned odd;
};

struct run {
	const struct cfi_machine *machine;
	const struct cfi_cie *cie;
	struct cursor c;
	struct state state;
	struct state remembered[MAX_REMEMBERED];
	unsigned n_remembered;
	bool failed;
};

/* A column of the table: where its rule is kept. */
struct column {
	uint8_t *where;
	int32_t *off;
	unsigned odd; /* what is odd when it is not expressible; 0: it is gone then */
};

static struct column column_of(struct run *r, uint64_t reg)
{
	struct unwind_rule *rule = &r->state.rule;

	if (reg == r->cie->ra)
		return (struct column) {&rule->ra, &rule->ra_off, ODD_RA};
	if (reg == r->machine->fp)
		return (struct column) {&rule->fp, &rule->fp_off, 0};
	if (reg == r->machine->bx)
		return (struct column) {&rule->bx, &rule->bx_off, 0};
	return (struct column) {NULL, NULL, reg == r->machine->sp ? ODD_SP : 0};
}

static void set_odd(struct run *r, struct column col)
{
	r->state.odd |= col.odd;
	if (col.where && !col.odd) {
		*col.where = UNWIND_GONE;
		*col.off = 0;
	}
}

static void set_column(struct run *r, uint64_t reg, enum unwind_where where, int64_t off)
{
	struct column col = column_of(r, reg);

	if (!col.where || off != (int32_t)off) {
		set_odd(r, col);
		return;
	}
	r->state.odd &= ~col.odd;
	*col.where = (uint8_t)where;
	*col.off = (int32_t)off;
}

/* As it was after the initial instructions. */
static void restore_column(struct run *r, uint64_t reg)
{
	const struct unwind_rule *rule = &r->cie->rule;

	if (reg == r->cie->ra)
		set_column(r, reg, rule->ra, rule->ra_off);
	else if (reg == r->machine->fp)
		set_column(r, reg, rule->fp, rule->fp_off);
	else if (reg == r->machine->bx)
		set_column(r, reg, rule->bx, rule->bx_off);
	else if (reg == r->machine->sp)
		r->state.odd &= ~(unsigned)ODD_SP;
}

/* In the register itself, it is unchanged. */
static void set_in_register(struct run *r, uint64_t reg, uint64_t from)
{
	if (from >= r->machine->n_regs)
		set_odd(r, column_of(r, reg));
	else if (reg == from && reg != r->cie->ra)
		set_column(r, reg, UNWIND_SAME, 0);
	else
		set_column(r, reg, UNWIND_IN_REG, (int64_t)from);
}

static void set_undefined(struct run *r, uint64_t reg)
{
	if (reg != r->machine->sp)
		set_column(r, reg, UNWIND_GONE, 0);
}

static void set_same(struct run *r, uint64_t reg)
{
	if (reg == r->cie->ra)
		set_in_register(r, reg, reg);
	else if (reg != r->machine->sp)
		set_column(r, reg, UNWIND_SAME, 0);
}

/* In memory where the expression says. */
static void set_by_expression(struct run *r, uint64_t reg, struct cursor expression)
{
	struct cfi_value v;

	if (!cfi_evaluate(r->machine, expression, true, &v) || v.kind != UNWIND_CFA_REG)
		set_odd(r, column_of(r, reg));
	else if (v.reg == CFI_FROM_CFA)
		set_column(r, reg, UNWIND_AT_CFA, v.off);
	else if (v.reg == r->machine->fp)
		set_column(r, reg, UNWIND_AT_FP, v.off);
	else if (v.reg == r->machine->sp)
		set_column(r, reg, UNWIND_AT_SP, v.off);
	else
		set_odd(r, column_of(r, reg));
}

static void set_cfa(struct run *r, uint64_t reg, int64_t off)
{
	struct unwind_rule *rule = &r->state.rule;

	if (reg >= r->machine->n_regs || off != (int32_t)off) {
		r->state.odd |= ODD_CFA;
		return;
	}
	r->state.odd &= ~(unsigned)ODD_CFA;
	rule->cfa = UNWIND_CFA_REG;
	rule->reg = (uint8_t)reg;
	rule->off = (int32_t)off;
	rule->d1 = rule->d2 = 0;
}

/* These two change half of a register and offset, so there must be one. */
static void set_cfa_register(struct run *r, uint64_t reg)
{
	if (r->state.rule.cfa == UNWIND_CFA_REG && !(r->state.odd & ODD_CFA))
		set_cfa(r, reg, r->state.rule.off);
	else
		r->state.odd |= ODD_CFA;
}

static void set_cfa_offset(struct run *r, int64_t off)
{
	if (r->state.rule.cfa == UNWIND_CFA_REG && !(r->state.odd & ODD_CFA))
		set_cfa(r, r->state.rule.reg, off);
	else
		r->state.odd |= ODD_CFA;
}

static void set_cfa_by_expression(struct run *r, struct cursor expression)
{
	struct unwind_rule *rule = &r->state.rule;
	struct cfi_value v;

	if (!cfi_evaluate(r->machine, expression, false, &v) || v.d1 != (int32_t)v.d1 ||
		v.d2 != (int32_t)v.d2 || v.off != (int32_t)v.off) {
		r->state.odd |= ODD_CFA;
		return;
	}
	r->state.odd &= ~(unsigned)ODD_CFA;
	rule->cfa = v.kind;
	rule->reg = v.reg;
	rule->off = (int32_t)v.off;
	rule->d1 = (int32_t)v.d1;
	rule->d2 = (int32_t)v.d2;
}

static int64_t factored(const struct run *r, int64_t v)
{
	return (int64_t)((uint64_t)v * (uint64_t)r->cie->data_align);
}

static uint64_t reg_of(struct run *r)
{
	return cursor_varint(&r->c);
}

static struct cursor block_of(struct run *r)
{
	return cursor_sub(&r->c, cursor_varint(&r->c));
}

static void remember(struct run *r)
{
	if (r->n_remembered == MAX_REMEMBERED)
		r->failed = true;
	else
		r->remembered[r->n_remembered++] = r->state;
}

static void restore_remembered(struct run *r)
{
	if (!r->n_remembered)
		r->failed = true;
	else
		r->state = r->remembered[--r->n_remembered];
}

/* Instructions without an operand in the opcode, but for those that advance. */
static void run_extended(struct run *r, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_CFA_nop: break;
	case DW_CFA_offset_extended:
		reg = reg_of(r);
		set_column(r, reg, UNWIND_AT_CFA, factored(r, (int64_t)cursor_varint(&r->c)));
		break;
	case DW_CFA_offset_extended_sf:
		reg = reg_of(r);
		set_column(r, reg, UNWIND_AT_CFA, factored(r, cursor_sleb(&r->c)));
		break;
	case 0x2f: /* DW_CFA_GNU_negative_offset_extended */
		reg = reg_of(r);
		set_column(r, reg, UNWIND_AT_CFA, -factored(r, (int64_t)cursor_varint(&r->c)));
		break;
	case DW_CFA_restore_extended: restore_column(r, reg_of(r)); break;
	case DW_CFA_undefined: set_undefined(r, reg_of(r)); break;
	case DW_CFA_same_value: set_same(r, reg_of(r)); break;
	case DW_CFA_register:
		reg = reg_of(r);
		set_in_register(r, reg, reg_of(r));
		break;
	case DW_CFA_remember_state: remember(r); break;
	case DW_CFA_restore_state: restore_remembered(r); break;
	case DW_CFA_def_cfa:
		reg = reg_of(r);
		set_cfa(r, reg, (int64_t)cursor_varint(&r->c));
		break;
	case DW_CFA_def_cfa_sf:
		reg = reg_of(r);
		set_cfa(r, reg, factored(r, cursor_sleb(&r->c)));
		break;
	case DW_CFA_def_cfa_register: set_cfa_register(r, reg_of(r)); break;
	case DW_CFA_def_cfa_offset: set_cfa_offset(r, (int64_t)cursor_varint(&r->c)); break;
	case DW_CFA_def_cfa_offset_sf: set_cfa_offset(r, factored(r, cursor_sleb(&r->c))); break;
	case DW_CFA_def_cfa_expression: set_cfa_by_expression(r, block_of(r)); break;
	case DW_CFA_expression:
		reg = reg_of(r);
		set_by_expression(r, reg, block_of(r));
		break;
	case DW_CFA_val_expression:
		reg = reg_of(r);
		(void)block_of(r);
		set_odd(r, column_of(r, reg));
		break;
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		reg = reg_of(r);
		/* Only "the stack pointer is the CFA" is usual, and nothing new. */
		if ((op == DW_CFA_val_offset ? (int64_t)cursor_varint(&r->c)
					     : cursor_sleb(&r->c)) != 0 ||
			reg != r->machine->sp)
			set_odd(r, column_of(r, reg));
		break;
	case DW_CFA_GNU_args_size: (void)cursor_varint(&r->c); break;
	case DW_CFA_GNU_window_save:
		break; /* arm64: negate_ra_state; signatures are masked off anyway */
	default: r->failed = true;
	}
}

/* Runs up to the next instruction that advances; returns by how much, 0 at the end. */
static uint64_t run_stretch(struct run *r)
{
	while (cursor_left(&r->c) && !r->failed) {
		uint8_t op = cursor_u8(&r->c), low = op & 0x3f;
		uint64_t delta;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc: delta = low; break;
		case DW_CFA_offset:
			set_column(
				r, low, UNWIND_AT_CFA, factored(r, (int64_t)cursor_varint(&r->c)));
			continue;
		case DW_CFA_restore: restore_column(r, low); continue;
		default:
			if (op == DW_CFA_advance_loc1) {
				delta = cursor_u8(&r->c);
			} else if (op == DW_CFA_advance_loc2) {
				delta = cursor_u16(&r->c);
			} else if (op == DW_CFA_advance_loc4) {
				delta = cursor_u32(&r->c);
			} else {
				run_extended(r, op);
				continue;
			}
		}
		if (delta)
			return delta * r->cie->code_align;
	}
	return 0;
}

/* The rule as it is shared: equal meanings have equal bytes. */
static void settle(const struct run *r, struct unwind_rule *ret)
{
	const struct unwind_rule *rule = &r->state.rule;

	if (r->failed)
		*ret = (struct unwind_rule) {.cfa = UNWIND_CFA_UNKNOWN};
	else if (rule->ra == UNWIND_GONE && !(r->state.odd & ODD_RA))
		*ret = (struct unwind_rule) {.ra = UNWIND_GONE};
	else if (r->state.odd || rule->ra == UNWIND_SAME)
		*ret = (struct unwind_rule) {.cfa = UNWIND_CFA_UNKNOWN};
	else
		*ret = *rule;
}

bool cfi_run_initial(const struct cfi_machine *machine, struct cfi_cie *cie)
{
	struct run r = {.machine = machine, .cie = cie, .c = cursor_of(cie->code, cie->code_bytes)};

	r.state.odd = ODD_CFA;
	if (machine->ra_is_reg && cie->ra < machine->n_regs) {
		r.state.rule.ra = UNWIND_IN_REG;
		r.state.rule.ra_off = (int32_t)cie->ra;
	}
	(void)run_stretch(&r);
	cie->rule = r.state.rule;
	cie->odd = (uint8_t)r.state.odd;
	return !r.failed && !r.c.error && !cursor_left(&r.c);
}

bool cfi_run(
	const struct cfi_machine *machine, const struct cfi_fde *fde, cfi_row_fn row, void *ctx)
{
	struct run r = {.machine = machine,
		.cie = fde->cie,
		.c = cursor_of(fde->code, fde->code_bytes),
		.state = {.rule = fde->cie->rule, .odd = fde->cie->odd}};
	uint64_t at = fde->begin, delta;
	struct unwind_rule rule;

	do {
		delta = run_stretch(&r);
		r.failed |= r.c.error != 0;
		settle(&r, &rule);
		row(ctx, at, &rule);
		at += delta;
	} while (delta && !r.failed && at < fde->end);
	return !r.failed;
}
