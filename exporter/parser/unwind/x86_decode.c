/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of exporter/parser/unwind/x86.h. Three steps: prefixes and opcode, operands, meaning. Whether an opcode has a ModRM byte and
 * how long its immediate is follows the maps' regularities; meaning is looked for in the few opcodes that can touch rbx, rsp or rbp.
 */
#include "exporter/parser/unwind/x86.h"
#include "lib/base/cleanup.h"
#include <endian.h>
#include <stdbool.h>
#include <string.h>

/* Opcode maps. */
enum map {
	MAP_1,
	MAP_0F,
	MAP_0F38,
	MAP_0F3A,
	MAP_3DNOW,
	MAP_EVEX5,
	MAP_EVEX6,
	MAP_XOP8,
	MAP_XOP9,
	MAP_XOPA
};
enum {
	MAX_BYTES = 15,
	/* What is read at most: prefixes, four bytes up to the opcode, ModRM, SIB, displacement and immediate. */
	MAX_READ = MAX_BYTES + 4 + 2 + 4 + 8,
};

/* Reads of single bytes have no bound: there are MAX_READ of them, or as many zeros as are missing. */
struct decoder {
	const uint8_t *pos;
	uint8_t map, op;
	uint8_t rex;  /* W R X B of any encoding, as bits 3 to 0 */
	bool has_rex; /* an actual REX byte: byte registers 4 to 7 are spl to dil */
	bool is_vex;  /* or EVEX or XOP: operands are vectors unless said otherwise */
	bool p66, p67, pf2, pf3;
	uint8_t vvvv;
	uint8_t mod, reg, rm; /* with their fourth bits; mod 3: rm is a register */
	uint8_t base;	      /* of a memory operand [base + disp]; X86_NONE: anything else */
	bool by_rip, is_absolute;
	int64_t disp, imm;
};

static bool in(uint8_t op, uint8_t first, uint8_t last)
{
	return op >= first && op <= last;
}

static uint8_t take(struct decoder *d)
{
	return *d->pos++;
}

static int32_t take_i32(struct decoder *d)
{
	uint32_t value;

	memcpy(&value, d->pos, sizeof(value));
	d->pos += sizeof(value);
	return (int32_t)le32toh(value);
}

/* Legacy prefixes and REX. Returns the first byte that is neither. */
static uint8_t read_prefixes(struct decoder *d)
{
	uint8_t byte = 0;

	for (int i = 0; i < MAX_BYTES; i++) {
		byte = take(d);

		if ((byte & 0xf0) == 0x40) {
			d->rex = byte & 15;
			d->has_rex = true;
			continue;
		}
		switch (byte) {
		case 0x66: d->p66 = true; break;
		case 0x67: d->p67 = true; break;
		case 0xf2: d->pf2 = true; break;
		case 0xf3: d->pf3 = true; break;
		case 0xf0:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x26:
		case 0x64:
		case 0x65: break;
		default: return byte;
		}
		/* Before another prefix it counts for nothing. */
		d->rex = 0;
		d->has_rex = false;
	}
	return byte;
}

static void set_vex_prefix(struct decoder *d, uint8_t byte)
{
	d->p66 = (byte & 3) == 1;
	d->pf3 = (byte & 3) == 2;
	d->pf2 = (byte & 3) == 3;
	d->vvvv = ~byte >> 3 & 15;
	d->is_vex = true;
}

/* What follows C4 (3 bytes in all), or 8F where that begins XOP: maps 8 and above. */
static bool read_vex3(struct decoder *d, uint8_t first)
{
	static const uint8_t vex[] = {0, MAP_0F, MAP_0F38, MAP_0F3A},
			     xop[] = {MAP_XOP8, MAP_XOP9, MAP_XOPA};
	uint8_t a = take(d), b = take(d), map = a & 31;

	d->rex = (uint8_t)((~a >> 5 & 7) | (b >> 4 & 8));
	set_vex_prefix(d, b);
	if (first == 0xc4 && in(map, 1, 3))
		d->map = vex[map];
	else if (first == 0x8f && in(map, 8, 10))
		d->map = xop[map - 8];
	else
		return false;
	d->op = take(d);
	return true;
}

static bool read_vex2(struct decoder *d)
{
	uint8_t a = take(d);

	d->rex = ~a >> 5 & 4;
	set_vex_prefix(d, a);
	d->map = MAP_0F;
	d->op = take(d);
	return true;
}

static bool read_evex(struct decoder *d)
{
	static const uint8_t maps[] = {0, MAP_0F, MAP_0F38, MAP_0F3A, 0, MAP_EVEX5, MAP_EVEX6, 0};
	uint8_t a = take(d), b = take(d);

	d->pos++;
	d->rex = (uint8_t)((~a >> 5 & 7) | (b >> 4 & 8));
	set_vex_prefix(d, b);
	d->map = maps[a & 7];
	d->op = take(d);
	return d->map && (b & 4);
}

static bool read_opcode(struct decoder *d)
{
	uint8_t byte = read_prefixes(d);

	/* pop of memory has 0 where XOP has its map */
	if (byte == 0xc4 || (byte == 0x8f && (*d->pos & 31) >= 8))
		return read_vex3(d, byte);
	if (byte == 0xc5)
		return read_vex2(d);
	if (byte == 0x62)
		return read_evex(d);
	d->op = byte;
	if (byte != 0x0f)
		return true;
	d->op = take(d);
	d->map = d->op == 0x38	 ? MAP_0F38
		 : d->op == 0x3a ? MAP_0F3A
		 : d->op == 0x0f ? MAP_3DNOW
				 : MAP_0F;
	if (d->map == MAP_0F38 || d->map == MAP_0F3A)
		d->op = take(d);
	return true;
}

static bool one_byte_is_bad(uint8_t op)
{
	return (op < 0x40 && (op & 6) == 6) || in(op, 0x60, 0x62) || op == 0x82 || op == 0x9a ||
	       op == 0xce || in(op, 0xd4, 0xd6) || op == 0xea;
}

static bool one_byte_has_modrm(uint8_t op)
{
	return (op < 0x40 && (op & 7) < 4) || op == 0x63 || op == 0x69 || op == 0x6b ||
	       in(op, 0x80, 0x8f) || in(op, 0xc0, 0xc1) || in(op, 0xc6, 0xc7) ||
	       in(op, 0xd0, 0xd3) || in(op, 0xd8, 0xdf) || in(op, 0xf6, 0xf7) || in(op, 0xfe, 0xff);
}

static bool two_byte_is_bad(uint8_t op)
{
	return op == 0x04 || op == 0x0a || op == 0x0c || in(op, 0x24, 0x27) || op == 0x36 ||
	       op == 0x39 || in(op, 0x3b, 0x3f);
}

static bool two_byte_has_modrm(uint8_t op)
{
	return !(in(op, 0x05, 0x09) || op == 0x0b || op == 0x0e || in(op, 0x30, 0x37) ||
		 op == 0x77 || in(op, 0x80, 0x8f) || in(op, 0xa0, 0xa2) || in(op, 0xa8, 0xaa) ||
		 in(op, 0xc8, 0xcf));
}

static bool is_bad(const struct decoder *d)
{
	return !d->is_vex && ((d->map == MAP_1 && one_byte_is_bad(d->op)) ||
				     (d->map == MAP_0F && two_byte_is_bad(d->op)));
}

static bool has_modrm(const struct decoder *d)
{
	if (d->map == MAP_1)
		return one_byte_has_modrm(d->op);
	if (d->map == MAP_0F && !d->is_vex)
		return two_byte_has_modrm(d->op);
	return !(d->map == MAP_0F && d->op == 0x77); /* vzeroupper */
}

/* Bytes of the immediate of an opcode of the one-byte map. */
static unsigned one_byte_imm(const struct decoder *d)
{
	unsigned z = d->p66 && !(d->rex & 8) ? 2 : 4;
	uint8_t op = d->op;

	if (op < 0x40)
		return (op & 7) == 4 ? 1 : (op & 7) == 5 ? z : 0;
	if (op == 0x6a || op == 0x6b || in(op, 0x70, 0x80) || op == 0x83 || op == 0xa8 ||
		in(op, 0xb0, 0xb7) || in(op, 0xc0, 0xc1) || op == 0xc6 || op == 0xcd ||
		in(op, 0xe0, 0xe7) || op == 0xeb)
		return 1;
	if (op == 0x68 || op == 0x69 || op == 0x81 || op == 0xa9 || op == 0xc7)
		return z;
	if (in(op, 0xe8, 0xe9))
		return 4;
	if (in(op, 0xb8, 0xbf))
		return d->rex & 8 ? 8 : z;
	if (in(op, 0xa0, 0xa3))
		return d->p67 ? 4 : 8;
	if (op == 0xc2 || op == 0xca)
		return 2;
	if (op == 0xc8)
		return 3;
	if (in(op, 0xf6, 0xf7) && (d->reg & 7) < 2)
		return op == 0xf6 ? 1 : z;
	return 0;
}

static unsigned imm_bytes(const struct decoder *d)
{
	uint8_t op = d->op;

	switch (d->map) {
	case MAP_1: return one_byte_imm(d);
	case MAP_0F:
		if (!d->is_vex && in(op, 0x80, 0x8f))
			return 4;
		if (!d->is_vex && op == 0x78 && (d->p66 || d->pf2)) /* extrq, insertq */
			return 2;
		return in(op, 0x70, 0x73) || op == 0xc2 || in(op, 0xc4, 0xc6) ||
		       (!d->is_vex && (op == 0xa4 || op == 0xac || op == 0xba));
	case MAP_0F3A:
	case MAP_3DNOW:
	case MAP_XOP8: return 1;
	case MAP_XOPA: return 4;
	default: return 0;
	}
}

static void read_sib(struct decoder *d)
{
	uint8_t sib = take(d), index = (sib >> 3 & 7) | (d->rex & 2) << 2;

	if (index == X86_SP)
		d->base = (uint8_t)((sib & 7) | (d->rex & 1) << 3);
	if ((sib & 7) != 5 || d->mod)
		return;
	d->is_absolute = index != X86_SP && sib >> 6 == 3; /* 8 × index + address */
	d->base = X86_NONE;
	d->disp = take_i32(d);
}

static void read_modrm(struct decoder *d)
{
	uint8_t byte = take(d), low = byte & 7;

	d->mod = byte >> 6;
	d->reg = (uint8_t)((byte >> 3 & 7) | (d->rex & 4) << 1);
	d->rm = (uint8_t)(low | (d->rex & 1) << 3);
	if (d->map == MAP_0F && !d->is_vex &&
		in(d->op, 0x20, 0x23)) /* control and debug registers */
		d->mod = 3;
	if (d->mod == 3)
		return;
	if (low == 4) {
		read_sib(d);
	} else if (low == 5 && !d->mod) {
		d->by_rip = true;
		d->disp = take_i32(d);
	} else {
		d->base = d->rm;
	}
	if (d->mod == 1)
		d->disp = (int8_t)take(d);
	else if (d->mod == 2)
		d->disp = take_i32(d);
	if (d->p67)
		d->base = X86_NONE;
}

static void read_imm(struct decoder *d, unsigned n)
{
	uint64_t value;

	if (n == 0)
		return;
	memcpy(&value, d->pos, sizeof(value));
	d->pos += n;
	d->imm = (int64_t)(le64toh(value) << (64 - 8 * n)) >> (64 - 8 * n);
}

/* The bit of a general register, when it is a followed one. */
static uint8_t bit_of(const struct decoder *d, uint8_t reg, bool is_byte)
{
	if (is_byte && !d->has_rex && reg >= 4) /* ah, ch, dh, bh */
		reg &= 3;
	return in(reg, X86_BX, X86_FP) ? (uint8_t)X86_BIT(reg) : 0;
}

static uint8_t rm_bit(const struct decoder *d, bool is_byte)
{
	return d->mod == 3 ? bit_of(d, d->rm, is_byte) : 0;
}

static uint8_t one_byte_writes(const struct decoder *d)
{
	uint8_t op = d->op, sub = d->reg & 7;
	bool is_byte = !(op & 1);

	if (op < 0x38)
		return (op & 7) < 2   ? rm_bit(d, is_byte)
		       : (op & 7) < 4 ? bit_of(d, d->reg, is_byte)
				      : 0;
	if (op == 0x63 || op == 0x69 || op == 0x6b || op == 0x8d)
		return bit_of(d, d->reg, false);
	if (op == 0x8a || op == 0x8b)
		return bit_of(d, d->reg, is_byte);
	if (in(op, 0x80, 0x83))
		return sub == 7 ? 0 : rm_bit(d, is_byte);
	if (in(op, 0x86, 0x87))
		return rm_bit(d, is_byte) | bit_of(d, d->reg, is_byte);
	if (in(op, 0x88, 0x89) || in(op, 0xc0, 0xc1) || in(op, 0xc6, 0xc7) || in(op, 0xd0, 0xd3))
		return rm_bit(d, is_byte);
	if (op == 0x8c || op == 0x8f)
		return rm_bit(d, false);
	if (in(op, 0x90, 0x97) || in(op, 0xb8, 0xbf))
		return bit_of(d, (op & 7) | (d->rex & 1) << 3, false);
	if (in(op, 0xb0, 0xb7))
		return bit_of(d, (op & 7) | (d->rex & 1) << 3, true);
	if (op == 0xc8)
		return X86_BIT(X86_SP) | X86_BIT(X86_FP);
	if (in(op, 0xf6, 0xf7))
		return sub == 2 || sub == 3 ? rm_bit(d, is_byte) : 0;
	if (in(op, 0xfe, 0xff))
		return sub < 2 ? rm_bit(d, is_byte) : 0;
	return 0;
}

static uint8_t two_byte_writes(const struct decoder *d)
{
	uint8_t op = d->op, sub = d->reg & 7, rm = rm_bit(d, false), reg = bit_of(d, d->reg, false);

	if (in(op, 0x40, 0x4f) || in(op, 0x02, 0x03) || op == 0x50 || op == 0xaf || op == 0xb2 ||
		in(op, 0xb4, 0xb8) || in(op, 0xbc, 0xbf) || op == 0xc5 || op == 0xd7)
		return reg;
	if (in(op, 0x2c, 0x2d))
		return d->pf2 || d->pf3 ? reg : 0;
	if (in(op, 0x90, 0x9f))
		return rm_bit(d, true);
	if (in(op, 0x20, 0x21) || in(op, 0xa4, 0xa5) || op == 0xab || in(op, 0xac, 0xad) ||
		op == 0xb1 || op == 0xb3 || op == 0xbb)
		return rm;
	if (op == 0xb0)
		return rm_bit(d, true);
	if (op == 0xc0)
		return rm_bit(d, true) | bit_of(d, d->reg, true);
	if (op == 0xc1)
		return rm | reg;
	if (op == 0x7e)
		return d->pf3 ? 0 : rm;
	if (op == 0xa2) /* cpuid */
		return X86_BIT(X86_BX);
	if (in(op, 0xc8, 0xcf))
		return bit_of(d, (op & 7) | (d->rex & 1) << 3, false);
	if ((op == 0x00 && sub < 2) || (op == 0x01 && sub == 4) || (op == 0x1e && sub == 1) ||
		(op == 0xae && sub < 2 && d->pf3) || (op == 0xba && sub >= 5) ||
		(op == 0xc7 && sub >= 6))
		return rm;
	return 0;
}

static uint8_t vex_writes(const struct decoder *d)
{
	uint8_t op = d->op, rm = rm_bit(d, false), reg = bit_of(d, d->reg, false),
		vvvv = bit_of(d, d->vvvv, false);

	switch (d->map) {
	case MAP_0F:
		if (op == 0x7e)
			return d->p66 ? rm : 0;
		return in(op, 0x2c, 0x2d) || op == 0x50 || in(op, 0x78, 0x79) || op == 0x93 ||
				       op == 0xc5 || op == 0xd7
			       ? reg
			       : 0;
	case MAP_0F38:
		return op == 0xf3 ? vvvv : op == 0xf6 ? reg | vvvv : in(op, 0xe0, 0xf7) ? reg : 0;
	case MAP_0F3A: return in(op, 0x14, 0x17) ? rm : op == 0xf0 ? reg : 0;
	case MAP_EVEX5: return op == 0x7e ? rm : in(op, 0x2c, 0x2d) || in(op, 0x78, 0x79) ? reg : 0;
	case MAP_XOP9: /* blcfill and the like, llwpcb */
		return in(op, 0x01, 0x02) ? vvvv : op == 0x12 ? rm : 0;
	case MAP_XOPA: /* bextr */ return op == 0x10 ? reg : 0;
	default: return 0;
	}
}

static uint8_t writes(const struct decoder *d)
{
	if (d->is_vex)
		return vex_writes(d);
	switch (d->map) {
	case MAP_1: return one_byte_writes(d);
	case MAP_0F: return two_byte_writes(d);
	case MAP_0F38: return in(d->op, 0xf0, 0xf6) ? bit_of(d, d->reg, false) : 0;
	case MAP_0F3A: return in(d->op, 0x14, 0x17) ? rm_bit(d, false) : 0;
	default: return 0;
	}
}

static void set(struct x86_insn *i, enum x86_kind kind, uint8_t reg, int64_t value)
{
	i->kind = kind;
	i->reg = reg;
	i->value = value;
	i->writes = 0;
}

/* mov between a followed register and the stack, or rsp and rbp; lea of them. */
static void mean_move(const struct decoder *d, struct x86_insn *i)
{
	bool is_store = d->op == 0x89, is_lea = d->op == 0x8d;
	uint8_t to = is_store ? d->rm : d->reg, from = is_store ? d->reg : d->rm;

	if (is_lea) {
		from = d->base;
		if (d->by_rip)
			set(i, X86_ADDRESS, d->reg, d->disp);
	} else if (d->mod != 3) {
		if (in(d->reg, X86_BX, X86_FP) && d->reg != X86_SP &&
			(d->base == X86_SP || d->base == X86_FP)) {
			set(i, is_store ? X86_STORE : X86_LOAD, d->reg, d->disp);
			i->base = d->base;
		}
		return;
	}
	if (to == X86_SP && from == X86_SP)
		set(i, X86_MOVE_SP, X86_NONE, is_lea ? d->disp : 0);
	else if (to == X86_SP && from == X86_FP)
		set(i, X86_SP_FROM_FP, X86_NONE, is_lea ? d->disp : 0);
	else if (to == X86_FP && from == X86_SP)
		set(i, X86_FP_FROM_SP, X86_NONE, is_lea ? d->disp : 0);
	if (i->kind == X86_ADDRESS)
		i->writes = bit_of(d, d->reg, false);
}

/* add, sub and cmp of a number. */
static void mean_arithmetic(const struct decoder *d, struct x86_insn *i)
{
	uint8_t sub = d->reg & 7;

	if (sub == 7)
		set(i, X86_COMPARE, X86_NONE, d->imm);
	else if (d->mod == 3 && d->rm == X86_SP && (d->rex & 8) && (sub == 0 || sub == 5))
		set(i, X86_MOVE_SP, X86_NONE, sub ? -d->imm : d->imm);
}

static void mean_group_ff(const struct decoder *d, struct x86_insn *i)
{
	switch (d->reg & 7) {
	case 2: set(i, X86_CALL_ANY, X86_NONE, 0); break;
	case 4:
		set(i, d->is_absolute ? X86_JUMP_TABLE : X86_JUMP_ANY,
			d->mod == 3 ? d->rm : X86_NONE, d->disp);
		break;
	case 6: set(i, X86_PUSH, X86_NONE, 0); break;
	case 3:
	case 5:
	case 7: set(i, X86_STOP, X86_NONE, 0); break;
	default: break;
	}
}

static void mean_one_byte(const struct decoder *d, struct x86_insn *i)
{
	uint8_t op = d->op, reg = (uint8_t)((op & 7) | (d->rex & 1) << 3);

	if (in(op, 0x50, 0x57))
		set(i, X86_PUSH, reg, 0);
	else if (in(op, 0x58, 0x5f))
		set(i, X86_POP, reg, 0);
	else if (op == 0x68 || op == 0x6a || op == 0x9c)
		set(i, X86_PUSH, X86_NONE, 0);
	else if (op == 0x9d || (op == 0x8f && d->mod != 3))
		set(i, X86_POP, X86_NONE, 0);
	else if ((op == 0x89 || op == 0x8b || op == 0x8d) && (d->rex & 8))
		mean_move(d, i);
	else if (op == 0x80 || op == 0x81 || op == 0x83)
		mean_arithmetic(d, i);
	else if ((op & 0xfe) == 0x3c) /* cmp of al, eax or rax */
		set(i, X86_COMPARE, X86_NONE, d->imm);
	else if (op == 0x90 && !d->pf3 && !(d->rex & 1))
		set(i, X86_NOP, X86_NONE, 0);
	else if (in(op, 0x70, 0x7f) || in(op, 0xe0, 0xe3))
		set(i, X86_BRANCH, X86_NONE, d->imm);
	else if (op == 0xe8)
		set(i, X86_CALL, X86_NONE, d->imm);
	else if (op == 0xe9 || op == 0xeb)
		set(i, X86_JUMP, X86_NONE, d->imm);
	else if (op == 0xc2 || op == 0xc3)
		set(i, X86_RETURN, X86_NONE, d->imm);
	else if (op == 0xc9)
		set(i, X86_LEAVE, X86_NONE, 0);
	else if (op == 0xca || op == 0xcb || op == 0xcc || op == 0xcf || op == 0xf4)
		set(i, X86_STOP, X86_NONE, 0);
	else if (op == 0xff)
		mean_group_ff(d, i);
}

static void mean_two_bytes(const struct decoder *d, struct x86_insn *i)
{
	uint8_t op = d->op;

	if (in(op, 0x80, 0x8f))
		set(i, X86_BRANCH, X86_NONE, d->imm);
	else if (op == 0x0b || op == 0xb9 || op == 0xff || op == 0x07 || op == 0x35)
		set(i, X86_STOP, X86_NONE, 0);
	else if (op == 0xa0 || op == 0xa8)
		set(i, X86_PUSH, X86_NONE, 0);
	else if (op == 0xa1 || op == 0xa9)
		set(i, X86_POP, X86_NONE, 0);
	else if (op == 0x1f)
		set(i, X86_NOP, X86_NONE, 0);
}

void x86_decode(const uint8_t *code, size_t n, struct x86_insn *ret)
{
	uint8_t padded[MAX_READ];
	const uint8_t *begin =
		n < MAX_READ ? memcpy(memset(padded, 0, sizeof(padded)), code, n) : code;
	struct decoder d = {.pos = begin, .base = X86_NONE};
	bool moves_sp;

	*ret = (struct x86_insn) {.kind = X86_BAD, .reg = X86_NONE, .base = X86_NONE};
	if (!read_opcode(&d) || is_bad(&d))
		return;
	if (has_modrm(&d))
		read_modrm(&d);
	read_imm(&d, imm_bytes(&d));
	if (d.pos > begin + MIN(n, (size_t)MAX_BYTES))
		return;
	ret->bytes = (uint8_t)(d.pos - begin);
	ret->kind = X86_OTHER;
	ret->writes = writes(&d);
	if (d.map == MAP_1 && !d.is_vex)
		mean_one_byte(&d, ret);
	else if (d.map == MAP_0F && !d.is_vex)
		mean_two_bytes(&d, ret);
	/* Operands of 16 bits move it by other amounts; nobody means them. */
	moves_sp = ret->kind == X86_PUSH || ret->kind == X86_POP || ret->kind == X86_LEAVE ||
		   ret->kind == X86_CALL;
	if (moves_sp && d.p66) {
		set(ret, X86_OTHER, X86_NONE, 0);
		ret->writes = X86_BIT(X86_SP) | X86_BIT(X86_FP) | X86_BIT(X86_BX);
	}
}
