/* SPDX-License-Identifier: Apache-2.0
 *
 * ELF file → unwind sections of the symbol file: rules, words (page entries and rows), counts.
 * Streams in the order of addresses: memory holds 8 bytes an FDE, the rules seen and
 * some buffers, at most UNWIND_TRANSIENT_BYTES in all.
 */
#pragma once
#include "exporter/parser/unwind/cfi.h"
#include "exporter/parser/elf/elf_file.h"
#include "exporter/parser/elf/elf_go.h"

enum {
	UNWIND_TRANSIENT_BYTES = 8 << 20,
	UNWIND_MAX_LOCAL_RULES = 8192, /* of one binary; the largest seen has 1,500 */
};

/* Where the sections went, and what else SYMBOL_UNWIND_INFO says (docs/formats/symbol-file.md). */
struct unwind_sections {
	uint64_t rules_off, words_off, unnamed_off;
	uint32_t n_rules, n_words, n_unnamed;
	uint32_t first_page, n_pages;
	uint32_t sources; /* enum symbol_unwind_source */
	uint32_t n_rows, n_fdes;
	uint32_t n_bad; /* FDEs malformed, without code, overlapping others */
	uint32_t n_rules_refused, n_pages_refused;
};

/* Writes words, then rules, then functions without a name at `off` of out_fd and behind; all are multiples of SYMBOL_ALIGN.
 * `debug`: the file's separate debug information, or NULL. `named`: what has a name; NULL: functions without one are not asked for. What is malformed is left out and counted.
 * -ENOTSUP: a machine that is not unwound; -E2BIG: more functions than are read; -ENOMEM, or what
 * writing says. In the first two cases nothing was written. */
int unwind_compile(const struct elf_file *f, const struct elf_file *debug,
	const struct elf_rows *named, int out_fd, uint64_t off,
	struct unwind_sections *ret) _must_check_;

/* Is that a function of Go's runtime, in assembly, that moves the stack pointer to another stack in its midst? */
bool unwind_go_switches_stacks(const char *name);

/* Is that where the kernel returns to from a signal handler? */
bool unwind_go_is_trampoline(const char *name);

/* runtime.clone returns in the parent and calls a thread's first function in the child: at how many bytes of its code that part
 * begins, which has no caller. 0: it is no such function. */
size_t unwind_go_child(
	const struct cfi_machine *machine, const char *name, const uint8_t *code, size_t n);

/* Rows of one Go function. False: its table is malformed; rows up to there were given. */
bool unwind_go_run(const struct cfi_machine *machine, const struct go_table *t,
	const struct go_function *fn, cfi_row_fn row, void *ctx);

/* Code that no call frame information covers, and where its rows go. */
struct unwind_flow;
struct unwind_gap {
	const struct cfi_machine *machine;
	const uint8_t *code;
	size_t n;
	uint64_t vaddr;
	struct unwind_flow *flow; /* NULL: code is not followed */
	size_t flow_bytes;	  /* so much at once */
	const uint8_t *(*data)(void *data_ctx, uint64_t vaddr, size_t *ret_n); /* unwind_flow.h */
	uint64_t (*next_named)(void *data_ctx, uint64_t vaddr);		       /* the same */
	void *data_ctx;
	cfi_row_fn row; /* a rule NULL: from there on nothing is known */
	void *ctx;
	bool *ret_followed; /* set when following code brought rows */
};
/* Rows of what is known by its bytes, and of what following it shows. */
void unwind_gap(const struct unwind_gap *u);
enum { UNWIND_MAX_GAP_BYTES = 4 << 20 }; /* of one gap are looked at */

enum { UNWIND_RULE_UNKNOWN = 1 }; /* number of UNWIND_CFA_UNKNOWN in every file */

/* Rules seen in this file: equal ones have one number. */
struct unwind_rules {
	struct unwind_rule *items; /* [0] unused: UNWIND_RULE_NONE */
	uint16_t *slots;	   /* hash → number, 0 free */
	uint32_t n, n_refused;
};
int unwind_rules_init(struct unwind_rules *r) _must_check_;
void unwind_rules_done(struct unwind_rules *r);
/* The number of a rule; that of the unknown one when there is no room. */
uint32_t unwind_rules_number(struct unwind_rules *r, const struct unwind_rule *rule);

/*
 * Rows in ascending order → words as they lie in memory later (docs/formats/unwind-tables.md), but
 * for slab numbers and rule ids, which are the file's own.
 */
struct unwind_words;
/* Covers pages [first_page, first_page + n_pages). Writes at `off` of `fd`. A page
 * with more rows than fit is UNWIND_RULE_UNKNOWN's. NULL: out of memory. */
struct unwind_words *unwind_words_new(int fd, uint64_t off, uint32_t first_page, uint32_t n_pages);
void unwind_words_freep(struct unwind_words **w);
/* From `off` on (of the file; not lower than the last one) rule number `rule` holds. */
void unwind_words_add(struct unwind_words *w, uint64_t off, uint32_t rule);
/* Writes what is left. Returns the number of words or -errno. */
int64_t unwind_words_finish(struct unwind_words *w);
/* Rows given that differ from the one before; pages with more rows than a slab holds. */
uint32_t unwind_words_n_rows(const struct unwind_words *w);
uint32_t unwind_words_n_refused(const struct unwind_words *w);
