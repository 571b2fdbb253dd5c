/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and machine code of V8: Node.js 12 to 26.
 *
 * The collector moves objects, functions and machine code too, but what is on a stack at that time follows. An address of either holds
 * until the next collection, and is read soon. What stays is the function: the check of its interp_code is the same wherever it moves to.
 */
#pragma once
#include "exporter/interp/v8_script.h"

extern const struct interp_machine_reader v8_machine;

enum {
	V8_MAX_CODE_BYTES = 1 << 20, /* of machine code before an address in it */
	V8_MAX_POSITIONS = 1 << 16,  /* of machine code */
	V8_MAX_FUNCTIONS = 256,	     /* in it */
	V8_MAX_INLINED = 4096,	     /* calls in it */
	V8_MAX_DEPTH = 64,	     /* of them in one another */
	V8_MAX_POINTS = 1 << 14,     /* whose frames are known by translations */
	V8_MAX_FRAMES = 1 << 16,     /* of them */
};

/* The function whose SharedFunctionInfo is at the address `object`. Its lines are those of its bytecode (interp.h: read_code). */
int v8_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	uint64_t context, struct interp_code *ret);
/* position: bytes from the start of its bytecode. */
uint32_t v8_line(const struct interp_code *c, uint32_t position);
struct v8_place v8_place(const struct interp_code *c, uint32_t position);

/* A call that machine code has inlined. */
struct v8_inlined {
	uint32_t function; /* which of the code's functions */
	uint32_t caller;   /* one more than the call that it is in itself; 0: it is in function 0 */
	uint32_t source;   /* the call's position in the script of the function that it is in */
	struct v8_place place;
};

struct v8_code_position {
	uint32_t code;	  /* bytes from the start */
	uint32_t inlined; /* one more than the number of the call; 0: function 0 */
	uint32_t source;
	struct v8_place place;
};

/* From 13.x on: behind a call, or at a check, the frames are these, the outermost first. */
struct v8_code_point {
	uint32_t code; /* bytes from the start */
	uint32_t first, n;
	bool is_call;
};
struct v8_code_frame {
	uint32_t function;
	uint32_t offset; /* in its bytecode */
	struct v8_place place;
};

struct v8_code {
	uint64_t start; /* address of its instructions */
	/* Objects that it is made of, by which it is known again. */
	uint64_t stream, object, deopt, lines;
	uint32_t bytes;
	bool is_baseline;
	struct interp_code *functions; /* without lines; 0 is the one that was called */
	size_t n_functions, cap_functions;
	struct v8_inlined *inlined;
	size_t n_inlined;
	struct v8_code_position *positions; /* ascending */
	size_t n_positions, cap_positions;
	struct v8_code_point *points; /* ascending */
	size_t n_points, cap_points;
	struct v8_code_frame *frames;
	size_t n_frames, cap_frames;
};
void v8_code_done(struct v8_code *c);
#define _cleanup_v8_code_ _cleanup_(v8_code_done)

/*
 * The machine code around the address `pc` (baseline, Maglev, TurboFan). `shared` is the address of the frame's SharedFunctionInfo, which
 * baseline code does not have; 0: not known. 0; -ENOENT: no code of a function is there; -EAGAIN: it moved, or is another function's than
 * `shared`; -EBADMSG, -EFBIG, -ENOMEM, or the error of reading.
 */
int v8_read_machine_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t pc,
	uint64_t shared, struct v8_code *ret);

/* Does that code still lie there? 0; -EAGAIN: no; or the error of reading. */
int v8_machine_code_is_still(
	const struct interp_memory *m, const struct runtime_record *r, const struct v8_code *c);

/* Only its start and bytes: where code around `pc` lies, whosever it is. */
int v8_find_machine_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t pc,
	struct v8_code *ret);

struct v8_frame {
	const struct interp_code *function;
	struct v8_place place;
};
/*
 * The frames of an instruction, leaf first: is_return says that it is the one behind a call. The number, which may be more than the `max`
 * (1 or more) that there is room for: the last one of these is the outermost then.
 */
size_t v8_code_frames(
	const struct v8_code *c, uint64_t pc, bool is_return, struct v8_frame *frames, size_t max);
