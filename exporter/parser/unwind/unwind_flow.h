/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code → the state of the stack at each instruction, by following the code. For functions without call frame
 * information: musl's, those of assemblers that write none (nasm, yasm), those of compilers that keep no frame pointer.
 *
 * Nothing is guessed. An instruction counts on a way from a function's entry to a return that restores the stack, and rbp and rbx
 * too (except in parts of assembly that others call), and where control leads from such a way. In a function that never returns it
 * counts as far as control leads from an entry that is known to be one. Ways that meet must agree. Code that is entered in another
 * way (GHC's, which jumps where C calls) has no such return. x86-64.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNWIND_FLOW_BYTES = 1 << 20 }; /* of code are followed at once, at most */

/* Code, and the memory of the file that it is in. */
struct unwind_flow_code {
	const uint8_t *code;
	size_t n; /* at most UNWIND_FLOW_BYTES */
	uint64_t vaddr;
	/* What is loaded at an address: where, and how many bytes; NULL: nothing. For tables of jumps. */
	const uint8_t *(*data)(void *ctx, uint64_t vaddr, size_t *ret_n);
	/* The first address from `vaddr` on where a symbol says that a function begins, or UINT64_MAX; NULL: there are no symbols. */
	uint64_t (*next_named)(void *ctx, uint64_t vaddr);
	void *ctx;
};

/* Working memory: less than 1.5 MB, and some three bytes for each byte of code; kept between calls. */
struct unwind_flow;
struct unwind_flow *unwind_flow_new(void);
void unwind_flow_freep(struct unwind_flow **f);

/* Begins with new code, none of which is followed yet. -ENOMEM. */
int unwind_flow_begin(struct unwind_flow *f, const struct unwind_flow_code *code) _must_check_;
/* Bytes [at, at + n) are known otherwise: ways that lead there end. Before unwind_flow_run. */
void unwind_flow_take(struct unwind_flow *f, size_t at, size_t n);
/* Follows it all. */
void unwind_flow_run(struct unwind_flow *f);
/* The number of what holds at byte `at`, which is equal where the same holds; 0: nothing is known; UNWIND_FLOW_NO_FP: nothing but that the
 * function does not begin as those do that keep a frame pointer. */
enum { UNWIND_FLOW_NO_FP = 0x7ffd };
unsigned unwind_flow_at(const struct unwind_flow *f, size_t at);
/* The first byte behind `at` where something else may hold; the number of bytes when there is none. */
size_t unwind_flow_next(const struct unwind_flow *f, size_t at);
/* What that number stands for. */
struct unwind_rule unwind_flow_rule(const struct unwind_flow *f, unsigned number);
