/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information (DWARF 5 §6.4, LSB .eh_frame): the rules of a section for each
 * stretch of code, in the walker's form. Reads through the bounded cursor, allocates nothing.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "lib/base/cursor.h"
#include <stdbool.h>

/* Registers that matter, by their DWARF numbers. */
struct cfi_machine {
	uint8_t fp, sp, bx; /* followed through frames */
	uint8_t ra;	    /* the usual return address column */
	uint8_t n_regs;	    /* that a CFA may start from */
	bool ra_is_reg;	    /* it is a register, which holds it until the code saves it */
};
/* NULL: a machine that is not unwound. `e_machine` of the ELF header. */
const struct cfi_machine *cfi_machine_of(uint16_t e_machine);

struct cfi_cie {
	uint64_t off;	     /* where it is; UINT64_MAX: none */
	const uint8_t *code; /* initial instructions */
	size_t code_bytes;
	uint64_t code_align;
	int64_t data_align;
	uint32_t ra;
	uint8_t pointer_encoding;   /* of addresses in its FDEs, DW_EH_PE_… */
	bool has_augmentation_data; /* its FDEs have a length and bytes of it */
	bool is_signal_frame;	    /* augmentation S; OCaml marks its C calls so too */
	uint8_t odd;		    /* what they say that no rule can (cfi_run.c) */
	struct unwind_rule rule;    /* what the initial instructions say */
};

/* A section, and the addresses that its pointers are relative to. */
struct cfi_section {
	const struct cfi_machine *machine;
	const uint8_t *data;
	size_t bytes;
	uint64_t vaddr;	   /* of data[0]; .debug_frame: unused */
	uint64_t data_rel; /* DW_EH_PE_datarel */
	bool is_debug_frame;
	struct cfi_cie cies[8]; /* the last ones read, by a hash of their offset */
};
void cfi_section_init(struct cfi_section *s, const struct cfi_machine *machine, const void *data,
	size_t bytes, uint64_t vaddr);

struct cfi_fde {
	uint64_t begin, end; /* ELF virtual addresses */
	const struct cfi_cie *cie;
	const uint8_t *code;
	size_t code_bytes;
};

/* What an entry is. */
enum cfi_entry { CFI_END, CFI_CIE, CFI_FDE, CFI_BAD };

/* Reads the entry at *off and moves *off behind it. CFI_BAD with *off unchanged: nothing more can be
 * read; otherwise that entry alone is malformed. ret->cie lives until the next read. */
enum cfi_entry cfi_read(struct cfi_section *s, uint64_t *off, struct cfi_fde *ret);
/* The same without looking into the entry. */
enum cfi_entry cfi_skip(const struct cfi_section *s, uint64_t *off);

/* True when a CIE says S: glibc's signal trampoline and OCaml's calls of C. Reads no FDE. */
bool cfi_has_signal_frames(const struct cfi_section *s);

/* Takes a stretch's begin and rule; the stretch ends where the next begins, or at the FDE's end. */
typedef void (*cfi_row_fn)(void *ctx, uint64_t begin, const struct unwind_rule *rule);
/* Runs an FDE's instructions. False: they are malformed; the last row given is an unknown one. */
bool cfi_run(
	const struct cfi_machine *machine, const struct cfi_fde *fde, cfi_row_fn row, void *ctx);

/* An address encoded as DW_EH_PE `encoding` at the cursor, which reads from `s`'s data. */
uint64_t cfi_read_address(const struct cfi_section *s, struct cursor *c, uint8_t encoding);

/*
 * Expressions. What they may say is CFA-like: a register or the CFA, displaced, and dereferenced
 * up to twice.
 */
enum { CFI_FROM_CFA = 0xff }; /* as cfi_value.reg */
struct cfi_value {
	uint8_t kind; /* UNWIND_CFA_REG, _DEREF, _DEREF2, _PLT */
	uint8_t reg;
	int64_t d1, d2, off;
};
/* Evaluates the expression symbolically. `from_cfa`: the CFA lies on the stack at the start. False:
 * nothing that a rule can express. */
bool cfi_evaluate(const struct cfi_machine *machine, struct cursor expression, bool from_cfa,
	struct cfi_value *ret);
