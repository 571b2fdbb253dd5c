/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JIT code, as the process table keeps them with its addresses.
 */
#pragma once
#include <stdint.h>

/* What JIT code is called, shared by addresses. */
struct code_name {
	uint32_t n_refs, line;
	const char *file; /* in name[] behind the name */
	char name[];
};
