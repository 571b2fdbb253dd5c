/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The kernel's own unwind table, ORC (arch/x86/include/asm/orc_types.h and arch/x86/kernel/unwind_orc.c, as of Linux 6.4): its
 * entries as one word each, for bpf/unwind/near.h. Compiled for BPF and for the host.
 */
#pragma once
#include "bpf/kernel/orc.h"
#include "bpf/unwind/frames.h"
#ifndef __bpf__
#include <stdbool.h>
#endif

enum kernel_orc_reg {
	ORC_REG_UNDEFINED = 0,
	ORC_REG_PREV_SP = 1,
	ORC_REG_BP = 4,
	ORC_REG_SP = 5,
	ORC_REG_BP_INDIRECT = 8,
	ORC_REG_SP_INDIRECT = 9,
};

enum kernel_orc_type {
	ORC_TYPE_UNDEFINED = 0,
	ORC_TYPE_END_OF_STACK = 1,
	ORC_TYPE_CALL = 2,
	ORC_TYPE_REGS = 3, /* what lies there is a struct pt_regs */
	ORC_TYPE_REGS_PARTIAL = 4,
};

/* struct orc_entry. The object is loaded on kernels of other layouts too, but looks into theirs only where it is one of these. */
struct kernel_orc_entry {
	__s16 sp_offset, bp_offset;
	__u16 bits; /* as enum kernel_orc_layout says */
};
_Static_assert(sizeof(struct kernel_orc_entry) == 6, "struct orc_entry");

/*
 * From the numbers of KERNEL_ORC_REGS_AS_INSNS to enum kernel_orc_reg, a nibble each, from the lowest: undefined, ax, dx, sp, bp, di, r10,
 * r13, previous sp, sp indirect, bp indirect. 15: none that is known.
 */
#define KERNEL_ORC_RENUMBER 0xfffff891763452f0ULL
#define KERNEL_ORC_RENUMBERED(reg) ((__u32)(KERNEL_ORC_RENUMBER >> 4 * ((reg)&15)) & 15)

/*
 * The bits of an entry as of KERNEL_ORC_6_4. Before that the registers alone said where there is no caller, `end` whether that is so
 * because it is the last one; and what an interrupt saved was taken for one where nothing said whether it is.
 */
UNWIND_FN __u32 kernel_orc_bits(__u32 bits, __u32 layout)
{
	__u32 regs = bits & 0xff, type = bits >> 8 & 3, signal, end;

	if (layout == KERNEL_ORC_6_4)
		return bits;
	if (layout == KERNEL_ORC_REGS_AS_INSNS)
		return (bits & ~0xffU) | KERNEL_ORC_RENUMBERED(bits) |
		       KERNEL_ORC_RENUMBERED(bits >> 4) << 4;
	end = bits >> (layout == KERNEL_ORC_6_3 ? 11 : 10) & 1;
	signal = layout == KERNEL_ORC_6_3 ? bits >> 10 & 1 : type != 0;
	if ((regs & 15) == ORC_REG_UNDEFINED)
		type = end ? ORC_TYPE_END_OF_STACK : ORC_TYPE_UNDEFINED;
	else
		type += ORC_TYPE_CALL;
	return regs | type << 8 | signal << 11;
}

/* An entry as one word of UNWIND_PLAIN_BITS; never 0, since that is what no type would be. */
#define KERNEL_RULE(sp_offset, bp_offset, bits) \
	((__u64)(__u16)(sp_offset) << 28 | (__u64)(__u16)(bp_offset) << 12 | ((bits)&0xfff))
#define KERNEL_RULE_SP_OFF(rule) ((__s16)((rule) >> 28))
#define KERNEL_RULE_BP_OFF(rule) ((__s16)((rule) >> 12))
#define KERNEL_RULE_SP_REG(rule) ((__u32)(rule)&15)
#define KERNEL_RULE_BP_REG(rule) ((__u32)(rule) >> 4 & 15)
#define KERNEL_RULE_TYPE(rule) ((__u32)(rule) >> 8 & 7)
#define KERNEL_RULE_SIGNAL(rule) ((__u32)(rule) >> 11 & 1)

/* Is this a rule that kernel_step understands? Others are not kept. */
UNWIND_FN bool kernel_rule_is_known(__u64 rule)
{
	const __u32 known_sp = 1U << ORC_REG_SP | 1U << ORC_REG_BP | 1U << ORC_REG_SP_INDIRECT |
			       1U << ORC_REG_BP_INDIRECT;
	const __u32 known_bp = 1U << ORC_REG_UNDEFINED | 1U << ORC_REG_PREV_SP | 1U << ORC_REG_BP;

	switch (KERNEL_RULE_TYPE(rule)) {
	case ORC_TYPE_END_OF_STACK: return true;
	case ORC_TYPE_CALL:
		return (known_sp >> KERNEL_RULE_SP_REG(rule) & 1) &&
		       (known_bp >> KERNEL_RULE_BP_REG(rule) & 1);
	case ORC_TYPE_REGS:
		return (known_sp >> KERNEL_RULE_SP_REG(rule) & 1) &&
		       KERNEL_RULE_BP_REG(rule) == ORC_REG_UNDEFINED;
	default: return false;
	}
}
