/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The language's side of a walk: where it is in the runtime's own chain of frames, and the frames that it has read and not handed out yet.
 * Compiled for BPF and for the host.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "bpf/unwind/walk.h"

enum interp_state {
	INTERP_DONE, /* nothing is left of the chain but what goes to the root's end, or what is left cannot be read */
	INTERP_AHEAD, /* reading the next run into the buffer, to learn where it was entered from C */
	INTERP_WAIT,  /* for the native frame that its mark lies in */
	INTERP_FLUSH, /* handing out the run */
	INTERP_REST,  /* handing out all that is left: the native frames are at their end */
};

enum {
	INTERP_BUFFER = 256,		   /* frames of a run; more are read a second time */
	INTERP_MAX_FRAMES = ABI_MAX_STEPS, /* read ahead, and as many a second time */
	INTERP_MAX_TURNS = 3 * INTERP_MAX_FRAMES,
	INTERP_BYTES = 256, /* what a read fills, in words that a mask bounds */
};
_Static_assert((int)INTERP_BYTES >= (int)INTERP_THREAD_BYTES &&
		       (int)INTERP_BYTES >= (int)INTERP_CHECK_BYTES,
	"reads fit");

/* A run: the frames of one entry of the interpreter, leaf first, and the mark that the entry left on the C stack. */
struct interp {
	struct interp_process process;
	struct interp_layout layout;
	struct interp_hotspot hotspot; /* INTERP_HOTSPOT */
	__u64 tp, thread;	       /* of the thread: pointer, and the runtime's state */
	__u64 generation; /* of the runtime's code objects, another when one goes; 0: not known */
	__u64 first;	  /* frame of the chain (INTERP_RUBY); 0: there is none */
	__u64 last;	  /* address that ends the chain, beside 0 */
	__u64 ahead;	  /* frame to be read next; 0: there is none */
	__u64 again; /* frame of the run that did not fit the buffer and is to be read again; 0: none */
	__u64 chain; /* of what is chained beside the frames, the next (INTERP_PYTHON_CFRAMES) */
	__u64 mark;
	__u64 low, high; /* of the native frame that is left: its part of the stack */
	/* One step: what it reads and what it found. */
	__u64 at, next; /* frame, and the one that called it */
	__u64 word;	/* 0: the frame is none of the program's */
	__u64 entry;	/* the mark, if the run ends with this frame */
	__u64 scratch[2];
	__u64 check;	/* of a code object (check.h) */
	__u32 state;	/* enum interp_state */
	__u32 is_again; /* of a step: its frame was read before */
	__u32 is_eval; /* of the native frame that is left: it is to have a run, of one frame (INTERP_PYTHON_EVALS) */
	__u32 n, n_out; /* in the buffer; of them handed out */
	__u32 n_ahead, n_again, n_frames;
	__u32 n_looked; /* readings for contexts */
	__u32 n_told,
		n_untold; /* code objects that user space was told of (bpf/core/codes.h), or could not be */
	__u32 cut; /* enum abi_cut: why the language's part is not whole */
	/* Where frames are native ones: of the frame that the walk is at. */
	__u64 machine; /* address behind the first byte of its instruction; 0: its code is not compiled, or of no function */
	__u64 function; /* V8: its code object; HotSpot: what tells its code from other code there; 0: not known */
	__u64 caller_pc, caller_sp; /* HotSpot */
	__u64 caller_fp_at; /* likewise; where its frame pointer is saved; 0: it is still in the register */
	__u32 is_entry; /* C++ entered the language by it */
	__u32 is_met;	/* of the walk: it has gone through a frame of the runtime's */
	__u32 is_lost;	/* of the walk: an object of the runtime's could not be read */
	__u64 bytes[INTERP_BYTES / sizeof(__u64)];
	__u64 buffer[INTERP_BUFFER];
};

/* The word at offset `off` of what was read, or what of it begins there. */
UNWIND_FN __u64 interp_field(const struct interp *in, __u32 off)
{
	return in->bytes[off / sizeof(__u64) & (INTERP_BYTES / sizeof(__u64) - 1)] >>
	       off % sizeof(__u64) * 8;
}
