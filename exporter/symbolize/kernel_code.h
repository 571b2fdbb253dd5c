/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that the kernel makes while it runs (BPF programs, trampolines), from the kernel's side-band records. It is known from
 * its loading on and after it is gone, since samples of it may be named later. By then other code may lie at its
 * addresses. So frames have a turn: addresses of the kernel's code have ones in bits 48 to 59 of a frame, from
 * which the turn is subtracted. Thread-safe; its lock is a leaf.
 */
#pragma once
#include "lib/base/lock.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KERNEL_CODE_MAX = 16384,
	KERNEL_CODE_MAX_PAST = 2048,
	KERNEL_CODE_MAX_TURN = 0xffe, /* the bits of an address are never all 0 */
	KERNEL_CODE_NAME_MAX = 512
};

struct kernel_code_range {
	uint64_t start, end, since_ns;
	char *name; /* NULL: records were lost, and what lies here may be something else by now */
	uint16_t turn; /* above that of all before it at any of its addresses; the first has 0 */
	bool is_bpf, is_gone;
};

struct kernel_code {
	struct lock lock; /* all that follows but any_turn */
	struct kernel_code_range
		*items; /* the last at each address, by start; they do not overlap */
	size_t n, cap;
	struct kernel_code_range *past; /* what others took the place of, oldest first */
	size_t n_past, cap_past;
	uint64_t n_records;
	bool is_incomplete;    /* records were lost, or there was no room */
	_Atomic bool any_turn; /* of an item */
};

void kernel_code_init(struct kernel_code *k);
void kernel_code_done(struct kernel_code *k);

/* A record of code at [start, start + len). */
struct kernel_code_record {
	uint64_t start, len, time_ns;
	const char *name;
	bool is_bpf;
};
/* It came, or went. Records come in the order of their times. */
void kernel_code_add(struct kernel_code *k, const struct kernel_code_record *r);
void kernel_code_remove(struct kernel_code *k, const struct kernel_code_record *r);
/* Records up to then may be missing: kallsyms should be read again. */
void kernel_code_lost(struct kernel_code *k, uint64_t time_ns);
/* Whether that was so since the last call. */
bool kernel_code_take_incomplete(struct kernel_code *k);

/* Kernel frames of a sample (ABI_FRAME_KERNEL) → the same with the turns of that time. Records up to then have come. */
void kernel_code_mark(struct kernel_code *k, uint64_t *frames, size_t n, uint64_t time_ns);
/* The address of such a frame. */
uint64_t kernel_code_address(uint64_t frame);
enum kernel_code_known {
	KERNEL_CODE_UNKNOWN, /* no record: kallsyms has it */
	KERNEL_CODE_NAMED,
	KERNEL_CODE_FORGOTTEN, /* there were records of it, and of later code there */
};
/* The name of the code at an address, whose turn is that of the frame; cut to the buffer. */
enum kernel_code_known kernel_code_find(struct kernel_code *k, uint64_t frame, uint64_t addr,
	char ret_name[KERNEL_CODE_NAME_MAX], bool *ret_is_bpf);
uint64_t kernel_code_records(struct kernel_code *k);
