/* SPDX-License-Identifier: Apache-2.0
 *
 * What the record of V8 (exporter/symfile/runtime.h) holds, by number: offsets of fields in bytes, instance types of objects, and a few
 * counts, all of one version. The numbers are in symbol files: new ones go to the end.
 */
#pragma once
#include "exporter/symfile/runtime.h"

enum v8_number {
	V8_TYPE_FUNCTION, /* JSFunction: the first and the last of its instance types */
	V8_TYPE_FUNCTION_LAST,
	V8_TYPE_SHARED, /* SharedFunctionInfo */
	V8_TYPE_SCRIPT,
	V8_TYPE_SCOPE, /* ScopeInfo */
	V8_TYPE_BYTECODE,
	V8_TYPE_INTERPRETER_DATA,
	V8_TYPE_BASELINE_DATA, /* 9.x */
	V8_TYPE_CODE,	       /* says where machine code is; up to 10.x it is in the same object */
	V8_TYPE_STREAM,	       /* InstructionStream: the machine code, from 11.x */
	V8_TYPE_NOT_STRING,    /* smaller ones are strings */
	V8_FUNCTION_SHARED,
	V8_SHARED_DATA,	      /* bytecode, baseline code, the number of a builtin */
	V8_SHARED_NAME,	      /* a string, or the scope */
	V8_SHARED_SCRIPT,     /* or what debuggers put in its place */
	V8_SHARED_TOKEN,      /* u16: from the word `function` to the start */
	V8_SHARED_LITERAL,    /* u32: number of the function in its script */
	V8_SHARED_ID,	      /* u32: number in its isolate; from 13.x */
	V8_SCOPE_WORDS,	      /* where a scope's words begin */
	V8_SCOPE_FLAGS_SHIFT, /* bits of word 0 below the flags */
	V8_SCOPE_LOCALS,      /* the word with the first local variable's name */
	V8_SCOPE_FUNCTION, /* the lowest of the 2 flags that say whether there is a function's name */
	V8_SCOPE_RECEIVER, /* likewise, whether there is a word for `this`; RUNTIME_NO_FIELD: there never is */
	V8_BYTECODE_LINES, /* table of source positions */
	V8_BYTECODE_START,
	V8_CODE_DEOPT, /* data for deoptimization, which names what is inlined; a baseline's bytecode */
	V8_CODE_LINES, /* table of source positions; a baseline's table of bytecode offsets */
	V8_CODE_START, /* address of the instructions; RUNTIME_NO_FIELD: they follow the object */
	V8_CODE_BYTES, /* u32 */
	V8_STREAM_CODE,
	V8_STREAM_START,  /* of the instructions, in the object that has them */
	V8_DEOPT_INLINED, /* elements of the data: functions inlined, */
	V8_DEOPT_LITERALS,
	V8_DEOPT_SHARED,
	V8_DEOPT_INLINING,  /* and where */
	V8_DEOPT_EXITS,	    /* how far the first exit is from the start; then how many check */
	V8_DEOPT_FIRST,	    /* the first exit's entry of three words */
	V8_EXTRA_ARGUMENTS, /* operands of INLINED_EXTRA_ARGUMENTS in translations; RUNTIME_NO_FIELD: the version has exact source positions */
	V8_CODE_FLAGS,	    /* u32, the kind in the lowest 4 bits */
	V8_KIND_BASELINE,   /* the next is Maglev's */
	V8_FRAME_BYTECODE,  /* below the frame pointer: array and offset */
	V8_FRAME_POSITION,
	V8_MARKER_WASM, /* frame types */
	V8_BYTECODES,	/* of its table of lengths */
	V8_LINES,	/* how tables of source positions are written: enum v8_lines */
	N_V8_NUMBERS
};
_Static_assert((int)N_V8_NUMBERS <= RUNTIME_MAX_OFFSETS, "numbers fit the record");

/* Of the number V8_LINES. */
enum v8_lines {
	V8_LINES_FROM_START, /* up to 7.x: the first entry is as far as it says from the start */
	V8_LINES_FROM_BEFORE, /* from one byte before the start, where a function's entry counts as lying */
	V8_LINES_FLAGGED, /* likewise, with one more flag below each distance; 14.x */
};

enum v8_address {
	V8_BYTECODE_LENGTHS, /* Bytecodes::kBytecodeSizes: u8 by scale of operands and bytecode; 0: not in the file */
	V8_BUILTINS, /* machine code of builtins, which the file holds: from, to; 0: its place is not in the file */
	V8_BUILTINS_END,
	N_V8_ADDRESSES
};
_Static_assert((int)N_V8_ADDRESSES <= RUNTIME_MAX_ADDRESSES, "addresses fit the record");

/* The same in all versions that are known. */
enum {
	V8_FRAME_CONTEXT = 8, /* below the frame pointer: a context, or the type of the frame */
	V8_FRAME_FUNCTION = 16,
	V8_MARKER_ENTRY = 1, /* frames that C++ entered JavaScript by */
	V8_MARKER_CONSTRUCT_ENTRY = 2,
	V8_MARKER_EXIT = 3,
};
