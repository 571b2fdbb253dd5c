/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that the kernel makes while it runs (BPF programs, trampolines), as its side-band records tell it: known from the
 * moment it is loaded, and after it is gone, since samples of it may be named later. Thread-safe; its lock is a leaf.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KERNEL_CODE_MAX = 16384, KERNEL_CODE_NAME_MAX = 512 };

struct kernel_code_range {
	uint64_t start, end;
	char *name;
	bool is_bpf, is_gone;
};

struct kernel_code {
	pthread_mutex_t mutex;		 /* all of it */
	struct kernel_code_range *items; /* by start; they do not overlap */
	size_t n, cap;
	uint64_t n_records;
	bool is_incomplete; /* records were lost, or there was no room */
};

void kernel_code_init(struct kernel_code *k);
void kernel_code_done(struct kernel_code *k);

/* Code came to lie at [start, start + len), or went away. What lay there before is forgotten, unless it is this that goes. */
void kernel_code_add(
	struct kernel_code *k, uint64_t start, uint64_t len, const char *name, bool is_bpf);
void kernel_code_remove(struct kernel_code *k, uint64_t start);
/* Records may be missing: kallsyms should be read again. */
void kernel_code_lost(struct kernel_code *k);
/* Whether that was so since the last call. */
bool kernel_code_take_incomplete(struct kernel_code *k);

/* The name of the code at an address, cut to the buffer; false when no record told of it. */
bool kernel_code_find(struct kernel_code *k, uint64_t addr, char ret_name[KERNEL_CODE_NAME_MAX],
	bool *ret_is_bpf);
uint64_t kernel_code_records(struct kernel_code *k);
