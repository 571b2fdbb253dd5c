/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF expressions of call frame information, evaluated symbolically: compilers, linkers and
 * hand-written assembly use a handful of shapes; all others are refused.
 */
#include "exporter/parser/unwind/cfi.h"
#include "lib/base/cleanup.h"
#include <dwarf.h>

enum { MAX_STACK = 4 };

struct expression {
	const struct cfi_machine *machine;
	struct cursor c;
	struct {
		struct cfi_value value;
		bool is_constant; /* value.off alone */
	} stack[MAX_STACK];
	unsigned depth;
	bool failed;
};

static void push(struct expression *e, const struct cfi_value *v, bool is_constant)
{
	if (e->depth == MAX_STACK) {
		e->failed = true;
		return;
	}
	e->stack[e->depth].value = *v;
	e->stack[e->depth++].is_constant = is_constant;
}

static void push_constant(struct expression *e, int64_t v)
{
	push(e, &(struct cfi_value) {.off = v}, true);
}

static void push_register(struct expression *e, uint64_t reg, int64_t off)
{
	if (reg >= e->machine->n_regs)
		e->failed = true;
	push(e, &(struct cfi_value) {.reg = (uint8_t)reg, .off = off}, false);
}

/* The two topmost entries summed: one of them must be a constant. */
static void add(struct expression *e, int sign)
{
	bool top_is_constant;
	int64_t sum;

	if (e->depth < 2 || (!e->stack[e->depth - 1].is_constant &&
				    !(sign > 0 && e->stack[e->depth - 2].is_constant))) {
		e->failed = true;
		return;
	}
	e->depth--;
	top_is_constant = e->stack[e->depth].is_constant;
	if (__builtin_mul_overflow(e->stack[e->depth].value.off, sign, &sum) ||
		__builtin_add_overflow(sum, e->stack[e->depth - 1].value.off, &sum))
		e->failed = true;
	if (!top_is_constant)
		e->stack[e->depth - 1] = e->stack[e->depth];
	e->stack[e->depth - 1].value.off = sum;
}

static void dereference(struct expression *e)
{
	struct cfi_value *v = e->depth ? &e->stack[e->depth - 1].value : NULL;

	if (!v || e->stack[e->depth - 1].is_constant || v->kind > UNWIND_CFA_DEREF) {
		e->failed = true;
	} else {
		*(v->kind == UNWIND_CFA_REG ? &v->d1 : &v->d2) = v->off;
		v->off = 0;
		v->kind++;
	}
}

static void run_operation(struct expression *e, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_OP_lit0 ... DW_OP_lit31: push_constant(e, op - DW_OP_lit0); break;
	case DW_OP_breg0 ... DW_OP_breg31:
		push_register(e, op - DW_OP_breg0, cursor_sleb(&e->c));
		break;
	case DW_OP_bregx:
		reg = cursor_varint(&e->c);
		push_register(e, reg, cursor_sleb(&e->c));
		break;
	case DW_OP_const1u: push_constant(e, cursor_u8(&e->c)); break;
	case DW_OP_const1s: push_constant(e, (int8_t)cursor_u8(&e->c)); break;
	case DW_OP_const2u: push_constant(e, cursor_u16(&e->c)); break;
	case DW_OP_const2s: push_constant(e, (int16_t)cursor_u16(&e->c)); break;
	case DW_OP_const4u: push_constant(e, cursor_u32(&e->c)); break;
	case DW_OP_const4s: push_constant(e, (int32_t)cursor_u32(&e->c)); break;
	case DW_OP_const8s: push_constant(e, (int64_t)cursor_u64(&e->c)); break;
	case DW_OP_constu: push_constant(e, (int64_t)cursor_varint(&e->c)); break;
	case DW_OP_consts: push_constant(e, cursor_sleb(&e->c)); break;
	case DW_OP_plus_uconst:
		push_constant(e, (int64_t)cursor_varint(&e->c));
		add(e, 1);
		break;
	case DW_OP_plus: add(e, 1); break;
	case DW_OP_minus: add(e, -1); break;
	case DW_OP_deref: dereference(e); break;
	case DW_OP_nop: break;
	default: e->failed = true;
	}
}

/*
 * Procedure linkage tables, as binutils writes it: rsp + 8, and 8 more from byte N of the 16 of an
 * entry on. N is 11 in plain tables, 10 in those with endbr64.
 */
static bool is_plt(struct cursor c, struct cfi_value *ret)
{
	static const uint8_t before[] = {DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t behind[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	const uint8_t *p = cursor_take(&c, sizeof(before) + 1 + sizeof(behind));
	uint8_t n;

	if (!p || cursor_left(&c) || memcmp(p, before, sizeof(before)) != 0 ||
		memcmp(p + sizeof(before) + 1, behind, sizeof(behind)) != 0)
		return false;
	n = (uint8_t)(p[sizeof(before)] - DW_OP_lit0);
	if (n > 15)
		return false;
	*ret = (struct cfi_value) {.kind = UNWIND_CFA_PLT, .reg = 7, .d1 = n, .off = 8};
	return true;
}

bool cfi_evaluate(const struct cfi_machine *machine, struct cursor expression, bool from_cfa,
	struct cfi_value *ret)
{
	struct expression e = {.machine = machine, .c = expression};

	if (machine->sp == 7 && is_plt(expression, ret))
		return true;
	if (from_cfa)
		push(&e, &(struct cfi_value) {.reg = CFI_FROM_CFA}, false);
	while (!e.failed && !e.c.error && cursor_left(&e.c))
		run_operation(&e, cursor_u8(&e.c));
	if (e.failed || e.c.error || !e.depth || e.stack[e.depth - 1].is_constant)
		return false;
	*ret = e.stack[e.depth - 1].value;
	return true;
}
