/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and lines of code that is no machine code: objects in the memory of a process, which its runtime describes
 * (exporter/symfile/runtime.h). The process is hostile: its memory may hold anything and change while it is read, so that all that is
 * read has a bound, and what changed meanwhile gives no name. Pure but for the reading, which the caller brings.
 *
 * One row of a table is one runtime. Any thread; nothing is shared.
 */
#pragma once
#include "bpf/abi.h"
#include "exporter/symfile/runtime.h"
#include "lib/base/cleanup.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct hotspot_vm;
struct v8_scripts;

/* A process's memory. */
struct interp_memory {
	/* Copies `bytes` bytes at `addr`: 0, or negative when not all of them can be read. */
	int (*read)(void *arg, uint64_t addr, void *to, size_t bytes);
	void *arg;
	uint64_t bias; /* of the runtime's file in this process: address less ELF virtual address */
	struct hotspot_vm *
		hotspot; /* what is kept of a Java VM (exporter/interp/hotspot_vm.h); NULL: nothing */
	struct v8_scripts *
		scripts; /* V8's: what is kept between readings (exporter/interp/v8_script.h); NULL: nothing */
};

enum {
	INTERP_MAX_TEXT_BYTES = 1024,	    /* of a name; what is longer ends in "…" */
	INTERP_MAX_LINES_BYTES = 256 << 10, /* of a table of lines; a larger one gives none */
	INTERP_MAX_MACHINE_FRAMES =
		32, /* of one address in machine code; of more, one says how many are left out */
};

/* What frames of an interpreter itself are called, native ones and those in its chain. */
#define INTERP_OWN_FRAME "[interpreter]"

/* One code object, copied out of the process; owned by whoever read it. */
struct interp_code {
	char *name; /* qualified, where the runtime has that; UTF-8 */
	char *raw;  /* as its definition has it; NULL: the same */
	char *file;
	uint32_t first_line; /* 0: not known */
	uint8_t *lines;	     /* the runtime's own table */
	size_t lines_bytes;
	uint16_t lines_format; /* by runtime */
	bool is_part; /* of its caller's function: the runtime shows both as one frame, with this one's line */
	uint64_t
		check; /* of the object's fields: differs when the address has become another object's */
	uint64_t kernel_check; /* what the kernel half takes of it (struct abi_code) */
};
static inline void interp_code_done(struct interp_code *c)
{
	free(c->name);
	free(c->raw);
	free(c->file);
	free(c->lines);
	*c = (struct interp_code) {0};
}
#define _cleanup_interp_code_ _cleanup_(interp_code_done)

/* One of the frames of an address in machine code. Strings are somebody else's. */
struct interp_frame {
	const char *name, *raw, *file;
	uint32_t line, first_line; /* 0: not known */
};

/* A piece of machine code as it was read, for all addresses in it. */
struct interp_machine {
	void *code; /* the runtime's own; NULL: none */
	uint64_t start, bytes;
	size_t used_bytes; /* of memory here */
};

struct interp_machine_reader {
	/*
	 * The code that the address `pc` is in: an instruction's, or what a call in it returns to. check: as in struct abi_code. Errors as read_code has
	 * them; -EAGAIN also where the code is no longer, or not yet, that of a frame with that check; -EFBIG: it has more than there is room for.
	 */
	int (*read)(const struct interp_memory *m, const struct runtime_record *r, uint64_t pc,
		uint64_t check, struct interp_machine *ret);
	/* Does the code that was read before still lie there? 0; -EAGAIN: no; else the error of `read`. */
	int (*is_still)(const struct interp_memory *m, const struct runtime_record *r,
		const struct interp_machine *c);
	/*
	 * The frames of an address in it, leaf first, as long as the code is there. How many there are; of more than `max` (1 or more), the last in
	 * ret is the outermost.
	 */
	size_t (*frames)(const struct interp_machine *c, uint64_t pc, bool is_return,
		struct interp_frame *ret, size_t max);
	void (*done)(struct interp_machine *c);
	/* The object of the function that a check names, which is known without the code; 0: none. */
	uint64_t (*function)(uint64_t check);
};

struct interp_runtime {
	enum runtime_kind kind;
	/*
	 * The code object at `object`; context: as in struct abi_code, 0: not known. 0; -ENOENT: no code object is there (any more); -EAGAIN: it changed while it was read; -EBADMSG: it
	 * or its name is malformed; -ENOMEM; else the error of `read`. ret is written on success only.
	 */
	int (*read_code)(const struct interp_memory *m, const struct runtime_record *r,
		uint64_t object, uint64_t context, struct interp_code *ret);
	/* The line of a position in it; 0: it has none. */
	uint32_t (*line)(const struct interp_code *c, uint32_t position);
	/* For so long what was read of one object serves others, which lie beside it; 0: all of it may change at any time. */
	int64_t keep_ns;
	const struct interp_machine_reader
		*machine; /* NULL: it makes no machine code that the kernel half tells of */
};

/* NULL: no runtime of that kind has code objects. */
const struct interp_runtime *interp_runtime_of(enum runtime_kind kind);
