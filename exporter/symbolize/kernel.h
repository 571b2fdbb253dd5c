/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's functions: /proc/kallsyms as a sorted table of some 25 bytes a symbol. Not
 * thread-safe.
 */
#pragma once
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_symbols {
	uint64_t base; /* starts are relative to it */
	uint32_t n;
	uint32_t *starts, *names; /* names: offsets into blob */
	uint16_t *modules;	  /* index into module_names; 0: the kernel itself */
	char *blob;
	size_t blob_bytes;
	char **module_names;
	uint32_t n_modules;
};

struct kernel_symbol {
	const char *name;
	const char *module; /* "" for the kernel itself */
	uint64_t start;
};

/* Reads an open /proc/kallsyms. -EPERM when all addresses are zero (kptr_restrict, no
 * CAP_SYSLOG), -EBADMSG when it is none. */
int kernel_symbols_read(int fd, struct kernel_symbols *ret, struct errbuf *eb) _must_check_;
void kernel_symbols_done(struct kernel_symbols *k);
bool kernel_symbols_find(const struct kernel_symbols *k, uint64_t addr, struct kernel_symbol *ret);
size_t kernel_symbols_bytes(const struct kernel_symbols *k);
