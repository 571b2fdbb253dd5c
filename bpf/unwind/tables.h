/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Unwind tables as they lie in memory: slabs of rows, the table of rules, one entry per binary, the cache of answers.
 * docs/formats/unwind-tables.md describes the layout and how tables come and go under a running walk. exporter/unwind writes
 * them, bpf/unwind/lookup.h reads them, in the kernel and on the host.
 */
#pragma once
#include "bpf/abi.h"

/* Slabs. A binary's words are its page entries, one for each 2 KiB of the file, and behind them its rows. */
#define UNWIND_PAGE_SHIFT 11
#define UNWIND_PAGE_BYTES (1U << UNWIND_PAGE_SHIFT)
#define UNWIND_SLAB_SHIFT 10
#define UNWIND_SLAB_WORDS (1U << UNWIND_SLAB_SHIFT)
#define UNWIND_SLAB_MASK (UNWIND_SLAB_WORDS - 1)
#define UNWIND_SLABS_PER_CHUNK 256 /* slabs come into being 1 MiB at a time */
#define UNWIND_MAX_SLABS (1U << 15)
#define UNWIND_MAX_CHUNKS (UNWIND_MAX_SLABS / UNWIND_SLABS_PER_CHUNK)
#define UNWIND_MAX_PAGES (1U << 19) /* of one binary: 1 GiB of code */

/* A row: where it begins, in the low 16 bits of the file offset, and the rule that holds from there. */
#define UNWIND_ROW(off, rule) ((__u32)(rule) << 16 | ((__u32)(off)&0xffff))
#define UNWIND_ROW_OFF(row) ((row)&0xffff)
#define UNWIND_ROW_RULE(row) ((row) >> 16)

/* A page entry: word number (slab and word) of the row in force where the page begins, and how many rows follow it within the
 * page. UNWIND_PAGE_MANY: the number is in a word of its own between that row and the others. 0: nothing covers the page. */
#define UNWIND_PAGE_MANY 127U
#define UNWIND_PAGE(word, n) ((__u32)(word) << 7 | (n))
#define UNWIND_PAGE_N(entry) ((entry)&127)
#define UNWIND_PAGE_WORD(entry) ((entry) >> 7)

/* What a rule takes the CFA (the caller's stack pointer) from. */
enum unwind_cfa {
	UNWIND_CFA_REG = 0,	/* reg + off */
	UNWIND_CFA_DEREF = 1,	/* *(reg + d1) + off */
	UNWIND_CFA_DEREF2 = 2,	/* *(*(reg + d1) + d2) + off */
	UNWIND_CFA_PLT = 3,	/* reg + off, and 8 more from byte d1 of each 16 on */
	UNWIND_CFA_SIGNAL = 4,	/* a signal frame: all registers are in the ucontext at reg + off */
	UNWIND_CFA_FP = 5,	/* by frame pointer, which the code keeps everywhere (Go) */
	UNWIND_CFA_UNKNOWN = 6, /* CFI says something that none of these can express */
	UNWIND_CFA_NO_FP = 7,	/* nothing is known, and the code keeps no frame pointer */
	UNWIND_N_CFAS
};

/* Where the caller's value of the return address, of the frame pointer or of the second tracked register is. */
enum unwind_where {
	UNWIND_SAME = 0,   /* unchanged */
	UNWIND_AT_CFA = 1, /* in memory at CFA + x_off */
	UNWIND_AT_FP = 2,  /* in memory at frame pointer + x_off */
	UNWIND_AT_SP = 3,  /* in memory at stack pointer + x_off */
	UNWIND_IN_REG = 4, /* in register x_off, of which only the leaf's are known */
	UNWIND_GONE = 5,   /* undefined. Return address: this frame is the root */
};

/* Registers have their DWARF numbers. Three are followed through all frames: stack pointer, frame pointer, and one more in
 * which OCaml 5 parks the stack pointer; the others are known in the leaf frame and right after a signal frame. */
#define UNWIND_ARM64 ABI_ARM64
#if UNWIND_ARM64
#define UNWIND_N_REGS 32U
#define UNWIND_FP 29
#define UNWIND_LR 30
#define UNWIND_SP 31
#define UNWIND_BX 19
#define UNWIND_N_GREGS 33 /* of a signal frame: x0 to x30, sp, pc */
#else
#define UNWIND_N_REGS 16U
#define UNWIND_FP 6
#define UNWIND_SP 7
#define UNWIND_BX 3
#define UNWIND_N_GREGS 17 /* of a signal frame, r8 to rip */
#endif
_Static_assert(UNWIND_N_REGS == ABI_N_REGS, "stack copies have them all");
#define UNWIND_ALL_REGS ((__u32)((1ULL << UNWIND_N_REGS) - 1))

struct unwind_rule {
	__u8 cfa, reg;	 /* enum unwind_cfa; the register that it starts from */
	__u8 ra, fp, bx; /* enum unwind_where */
	__u8 flags;	 /* 0 */
	__u16 reserved;	 /* 0 */
	__s32 off, d1, d2;
	__s32 ra_off, fp_off, bx_off;
};
_Static_assert(sizeof(struct unwind_rule) == 32, "never across a cache line");

#define UNWIND_MAX_RULES 32768U
#define UNWIND_RULE_NONE 0U /* row: from here on nothing is known, as between two functions */

/* One per binary id. */
struct unwind_binary {
	__u32 seq;  /* odd: being changed. Raised by two for each change */
	__u16 slab; /* of the words */
	__u8 is_listed; /* more than 1,024 pages: `slab` has the numbers of the slabs with page entries */
	__u8 used; /* set by a look-up, whether there was a table or not; cleared by user space */
	__u32 first_page; /* file offset / 2 KiB */
	__u32 n_pages;	  /* 0 with a slab: the file has no rows at all */
};
_Static_assert(sizeof(struct unwind_binary) == 16, "layout");
#define UNWIND_SLAB_NONE 0 /* no table: not made yet, evicted, or refused */
#define UNWIND_SLAB_ROWLESS 0xffff

/*
 * The cache of answers. `word` holds a rule and what is left of its key's hash: the hash is one to one and the place in the cache is
 * the rest of it, so that a hit is never another key's; one word is never half written. `plain` is that rule in short (bpf/unwind/near.h)
 * or 0, and 20 bits of the same hash, by which it is known that both words were written for one key.
 * With it a hit reads one line and not the rule's too.
 */
struct unwind_answer {
	__u64 word, plain;
};

#define UNWIND_CACHE_SHIFT 16
#define UNWIND_CACHE_ANSWERS (1U << UNWIND_CACHE_SHIFT)
#define UNWIND_GENERATIONS 4096U /* after so many changes of a binary user space wipes the cache */
