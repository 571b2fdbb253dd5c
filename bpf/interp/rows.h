/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the walker knows of a process's language runtime: a row for each process image, beside its head (bpf/process/heads.h), and what
 * all processes of a version have in common, its layout. Both are mmapable arrays that user space writes (exporter/interp). Compiled for
 * BPF and for the host. docs/formats/abi.md describes it.
 *
 * Invariants:
 *  1. a row belongs to the image that it names, and counts only while the head of that image has PROCESS_INTERP;
 *  2. user space writes a row and its layout before it sets the flag, and changes neither while it is set;
 *  3. a row holds nothing of a single thread, so that fork copies it.
 */
#pragma once
#include "bpf/process/heads.h"
#include "bpf/unwind/both.h"

/* How frames of a runtime are found: by what it leaves on the C stack at each entry of its interpreter. */
enum interp_kind {
	INTERP_NONE,
	INTERP_PYTHON_EVALS, /* 3.6 to 3.9: nothing; a native frame of the interpreter's function for each language frame */
	INTERP_PYTHON_CFRAMES, /* 3.10, 3.11: a C structure, chained on its own */
	INTERP_PYTHON_SHIMS,   /* from 3.12 on: a frame of the language's chain */
	INTERP_RUBY, /* nothing; a flag in the frame that the interpreter's function was entered for */
	/* From here on a frame of the language is a native frame. */
	INTERP_V8,	/* which says whose it is */
	INTERP_HOTSPOT, /* whose code says that, and where the frame is (struct interp_hotspot) */
	INTERP_N_KINDS
};

enum {
	INTERP_LAYOUTS = 64,
	INTERP_N_STATES = 2,
	INTERP_FRAME_BYTES =
		80, /* of a language frame are read at once, 128 where frame_position lies beyond, */
	INTERP_THREAD_BYTES = 160, /* and at most so many of a thread's state */
	INTERP_CHECK_BYTES = 128,  /* and of a code object */
	INTERP_RUBY_DEFINITION_BYTES =
		32, /* of a method in C, in place of name_check_bytes of a body */
};
/* A field that this version does not have. */
#define INTERP_NO_FIELD 0xffff

/* Offsets in bytes. Those in a frame end within what is read of it, those in a thread's state within thread_bytes of thread_from. */
struct interp_layout {
	__u16 kind;			   /* enum interp_kind; INTERP_NONE: free */
	__u16 thread_from, thread_bytes;   /* of the state, what holds the fields below */
	__u16 thread_frame, thread_cframe; /* the innermost one */
	__u16 thread_id; /* pthread_self(), which is the thread pointer; Ruby: in what thread_interp leads to */
	__u16 thread_base_frame; /* the frame that ends the chain, none of the program's; from 3.15 */
	__u16 cframe_frame, cframe_back; /* in a C structure on the stack */
	__u16 frame_code, frame_back, frame_position, frame_owner, frame_is_entry;
	__u16 code_start; /* of the instructions, in a code object */
	__u16 code_check,
		code_check_bytes; /* of a code object, whole words: none of them changes while it lives */
	__u16 code_name, name_check,
		name_check_bytes; /* address of its name, or of its body (Ruby), among those words, and words there that others do not have; INTERP_NO_FIELD: not needed. V8: its bytecode, and bytes of the object itself */
	__u16 tag_mask; /* low bits of a pointer to a code object that say something else */
	__u16 position_bytes; /* of one position: 2; 1 where frame_position is a number of bytes, 0 where it is in use as it is */
	__u16 interp_generation; /* in the interpreter's state: rises when a code object goes */
	__u16 thread_interp;	 /* its address in a thread's state */
	/* Ruby, whose frames lie side by side in a stack that the state has. */
	__u16 thread_stack, thread_stack_words; /* its start and size */
	__u16 frame_bytes;
	__u16 frame_env;   /* where its last word is the frame's flags; two before it, the method */
	__u16 has_context; /* names need the method that a frame runs for (struct abi_code) */
	/* V8: frame_code and frame_position lie below the frame pointer, and frame_owner is the type of what frame_code has, bytecode. */
	__u16 function_shared;		    /* the code object, in a function */
	__u16 function_type, function_last; /* the first and the last type of functions */
};
_Static_assert(sizeof(struct interp_layout) == 64, "a cache line");

/*
 * What tells a code object from the one that lay at its address before (struct abi_code): the words that the layout names, in order.
 * Allocators give the same addresses again, so that pointers alone do not.
 */
UNWIND_FN __u64 interp_check_add(__u64 check, __u64 word)
{
	check = (check ^ word) * 0x9e3779b97f4a7c15ULL;
	return check ^ check >> 29;
}

/* How one comes from a thread to the runtime's state of it. The next way is tried where one gives 0. */
enum interp_state_by {
	INTERP_BY_NOTHING,
	INTERP_BY_TP,	   /* the word at the thread pointer + off */
	INTERP_BY_DTV,	   /* the word at off in the thread-local block of `module` */
	INTERP_BY_ADDRESS, /* the word at off, the same for all threads */
};

struct interp_process {
	__u64 image; /* as in the head; 0: no row */
	struct {
		__u32 by; /* enum interp_state_by */
		__u32 module;
		__s64 off;
	} states[INTERP_N_STATES];
	__u32 layout;
	/* Where the interpreter's function lies (INTERP_PYTHON_EVALS, INTERP_RUBY), or V8's built-in functions: as in a native frame word. */
	__u32 eval_binary;
	__u64 eval_off;
	__u32 eval_bytes;
	__u32 hotspot; /* INTERP_HOTSPOT: its struct interp_hotspot */
};
_Static_assert(sizeof(struct interp_process) == 64, "a cache line");

enum {
	INTERP_HOTSPOTS = 1024, /* processes */
	INTERP_HOTSPOT_HEAPS = 3,
	INTERP_HOTSPOT_ID_BITS =
		16, /* of the number of a compilation, below its method's address */
	INTERP_HOTSPOT_BLOB_BYTES = 256, /* of a blob are read at once */
};

/*
 * Where a Java VM has its machine code, and what that code says of itself: a blob for each piece, behind the header of a block in a heap. A
 * row is written before the row of its process is, and changes only when no process has it. Offsets in bytes, of a blob but for the last.
 */
struct interp_hotspot {
	struct {
		__u64 low, bytes; /* 0 bytes: there is no such heap */
		__u64 segments; /* a byte for each segment: how many of them its block begins before it, at least; 255: it is free */
	} heaps[INTERP_HOTSPOT_HEAPS];
	__u64 interpreter, interpreter_bytes; /* its code */
	__u64 entry;			      /* what Java code returns to where C++ called it */
	__u16 segment_shift, block_bytes;
	__u16 frame_size,
		frame_complete; /* s32 in words; from the start of the code to where the frame is there */
	__u16 frame_complete_bytes; /* 2 or 4 */
	__u16 code,
		code_is_offset; /* where the code begins: an s32 from the blob, or its address */
	__u16 deopt,
		deopt_is_offset;  /* likewise, what a frame returns to that is to be taken apart */
	__u16 method, compile_id; /* of compiled code */
	__u16 frame_pc; /* where a frame's return address lies above sp when `deopt` has its place: an s32 */
	__u16 position;	 /* of an interpreted frame: below its frame pointer */
	__u16 bytecodes; /* from the start of a ConstMethod */
	__u16 size;
};
_Static_assert(sizeof(struct interp_hotspot) == 128, "two cache lines");

/* The rows of the heads in the bucket of the same number. */
struct interp_bucket {
	struct interp_process rows[PROCESS_HEADS_PER_BUCKET];
};
