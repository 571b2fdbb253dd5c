/* SPDX-License-Identifier: Apache-2.0
 *
 * The executable mappings of a process: a sorted array that processes share until one of them
 * changes it (fork).
 */
#pragma once
#include "lib/base/cleanup.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mapping_kind {
	MAPPING_FILE = 1,  /* a binary, the vdso included */
	MAPPING_JIT = 2,   /* anonymous code */
	MAPPING_OTHER = 3, /* neither: [vsyscall], [uprobes] */
};

struct mapping {
	uint64_t start, end, file_off;
	uint64_t since_ns; /* appeared then; 0: before it was first seen */
	uint32_t binary;
	uint32_t wanted_s; /* second in which its symbols were last asked for, 0 never */
	uint8_t kind;
};

struct runs;
struct maps; /* NULL is the empty one */
struct maps *maps_ref(struct maps *m);
void maps_put(struct maps **m);
uint32_t maps_count(const struct maps *m);
const struct mapping *maps_at(const struct maps *m, uint32_t i);
/* When the newest appeared; 0: all before they were first seen. */
uint64_t maps_newest_ns(const struct maps *m);
/* The mapping that holds addr, or NULL. */
struct mapping *maps_find(struct maps *m, uint64_t addr);
/* The frame word of an address in it: native, JIT or raw. */
uint64_t maps_word(const struct mapping *m, uint64_t addr);
/* Adds a mapping; what it overlaps is cut or dropped, as mmap does. Copies *m first when it is
 * shared. -ENOSPC above MAPS_MAX. */
int maps_add(struct maps **m, const struct mapping *mapping) _must_check_;
enum { MAPS_MAX = 16384 };

/* The same mappings as the kernel half reads them: made once per array, released when it changes or goes. 0: no room. */
uint64_t maps_run(struct maps *m, struct runs *r);

/* One line of /proc/PID/maps. */
struct maps_line {
	uint64_t start, end, file_off, ino;
	uint32_t dev_major, dev_minor;
	bool writable, executable;
	const char *path; /* in the line, NUL-terminated; "" for anonymous memory */
};
/* Parses a line without its newline in place; false when malformed. */
bool maps_parse_line(char *line, struct maps_line *ret);
/* The page of a jitdump that its writer maps so that profilers find the file: DIR/jit-PID.dump. */
bool maps_is_dump(const char *path);
/* What kind of memory a path of maps or of a perf record stands for. */
enum mapping_kind maps_kind(const char *path);
