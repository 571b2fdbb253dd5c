/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects of language runtimes (ABI_FRAME_INTERP). An object is an id of its process image, which stands in the stack tree for its
 * address, as interned addresses do; its name is read from the process's memory (exporter/interp/reader). Another object that comes
 * to lie at the address is another id, for samples from then on. The lock of the table is held, as in proc.h.
 *
 * An address in machine code that a runtime made (ABI_FRAME_JIT) is an object too where the kernel half has described it. It is another one
 * than a code object at that address, and so are an instruction and what a call before it returns to. Its word in the tree is an INTERP
 * word as well, with a position that says no line, so that the tree, the log, filters and what marks ids as used know one kind of object.
 * Its frames have their lines from its text.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/proc/proc.h"

/* What a runtime says of an object. Equal ones are stored once, whichever objects they are of. */
struct proc_code_text {
	const char *name, *raw, *file; /* raw: as its definition has the name */
	uint32_t first_line;
	uint16_t lines_format; /* by runtime */
	bool is_part;	       /* of its caller's function */
	const uint8_t *lines;
	size_t lines_bytes;
	/*
	 * Of machine code, where what is above is empty: leaf first, INTERP_MAX_MACHINE_FRAMES at most. The last one is the function that has the
	 * code, and the others are inlined in it.
	 */
	const struct interp_frame *frames;
	size_t n_frames; /* 0: a code object */
};
struct code_text; /* one as it is stored */

struct code_object {
	uint64_t check, context; /* as the kernel half sent them */
	uint16_t flags;		 /* enum abi_code_flags */
	uint64_t since_ns;	 /* samples from then on are of it */
	uint64_t told_ns;	 /* when the kernel half last told of it */
	struct code_text *text;
	uint64_t tried_ns; /* when its text was read, or a reading counted that failed */
	uint8_t tries;	   /* readings that may be worth another */
	bool is_refused;   /* it gets no text */
	bool lacks_room;   /* it gets none until others went */
	uint16_t kind;	   /* enum runtime_kind of its process; 0: not known yet */
	uint32_t version;
};
static inline bool proc_object_is_settled(const struct code_object *o)
{
	return o->text || o->is_refused || o->lacks_room;
}

/* A record of the kernel half about an object of this process. */
void proc_object_seen(struct proc_table *t, struct process *p, const struct abi_code *c);
/* The word of the stack tree for an INTERP word of a sample. Without an id where the kernel half's record is missing, or for a cap
 * (counted). */
uint64_t proc_object_word(struct proc_table *t, struct process *p, uint64_t word, uint64_t time_ns);
/*
 * The word of the stack tree for machine code. 0: the kernel half has not described it, so that it is an address of JIT code like any
 * other. `next`: the address behind the instruction's first byte, which for a caller is its return address. is_leaf: the sample was at
 * that instruction. What a signal has interrupted is no leaf, and found where no call returns there.
 */
uint64_t proc_machine_word(
	struct proc_table *t, struct process *p, uint64_t next, bool is_leaf, uint64_t time_ns);

/* Of an id that such a word has; `process` is NULL where there is none. Until the lock is let go. */
struct proc_object {
	struct process *process;
	const struct proc_code_text *text; /* NULL: it has no name */
	uint16_t kind;			   /* enum runtime_kind; 0: not known */
	uint32_t version;		   /* RUNTIME_VERSION */
};
struct proc_object proc_object_of(const struct proc_table *t, uint64_t id);

enum proc_object_answer {
	PROC_OBJECT_NAMED,
	PROC_OBJECT_LATER, /* it could not be read now; after PROC_OBJECT_TRIES of these it has no name */
	PROC_OBJECT_UNTRIED, /* nothing was read: LATER is returned, and nothing counted */
	PROC_OBJECT_REFUSED, /* it will never have one */
	PROC_OBJECT_NO_ROOM, /* returned only: the budget of texts is used up */
};
enum { PROC_OBJECT_TRIES = 8 };
#define PROC_OBJECT_TRY_NS (100 * NS_PER_MS) /* those that follow sooner do not count */
/* The answer for an object of a batch (proc_code_take). `text` is copied for PROC_OBJECT_NAMED. Returns what became of it: LATER only where
 * it goes on waiting. Objects that are others by now are left alone: REFUSED. */
enum proc_object_answer proc_object_answer(struct proc_table *t, const struct proc_code_batch *b,
	const struct proc_code_address *a, enum proc_object_answer answer,
	const struct proc_code_text *text, uint64_t now_ns);
