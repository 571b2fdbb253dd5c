/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JIT code, as the process table keeps them with its addresses.
 */
#pragma once
#include <stdint.h>

struct proc_table;

/* What JIT code is called, shared by addresses. */
struct code_name {
	uint32_t n_refs, line;
	const char *file; /* in name[] behind the name */
	char name[];
};

/* Lets an address wait for its name. */
void proc_code_wait(struct proc_table *t, uint32_t id);
void proc_code_name_put(struct code_name **n);
