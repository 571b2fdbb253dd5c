/* SPDX-License-Identifier: Apache-2.0
 *
 * What the record of CPython (exporter/symfile/runtime.h) holds: offsets of fields and addresses, by number. The numbers are in symbol
 * files: new ones go to the end.
 */
#pragma once
#include "exporter/symfile/runtime.h"

enum python_offset {
	PYTHON_THREAD_FRAME,	  /* PyThreadState: the innermost frame; not in 3.11 and 3.12 */
	PYTHON_THREAD_CFRAME,	  /* 3.10 to 3.12 */
	PYTHON_THREAD_ID,	  /* pthread_self() */
	PYTHON_THREAD_NATIVE_ID,  /* from 3.11 */
	PYTHON_THREAD_BASE_FRAME, /* from 3.15: the frame behind the outermost one */
	PYTHON_CFRAME_FRAME,	  /* 3.11, 3.12 */
	PYTHON_CFRAME_BACK,	  /* 3.10 to 3.12 */
	PYTHON_FRAME_CODE,
	PYTHON_FRAME_BACK,
	PYTHON_FRAME_POSITION, /* up to 3.10 f_lasti; then a pointer to the instruction */
	PYTHON_FRAME_OWNER,    /* from 3.11 */
	PYTHON_FRAME_IS_ENTRY, /* 3.11 */
	PYTHON_CODE_FIRST_LINE,
	PYTHON_CODE_FILE,
	PYTHON_CODE_NAME,
	PYTHON_CODE_QUALNAME, /* from 3.11 */
	PYTHON_CODE_LINES,    /* co_lnotab, from 3.10 co_linetable */
	PYTHON_CODE_START,    /* of the instructions, from 3.11 */
	PYTHON_OBJECT_TYPE,
	PYTHON_STR_LENGTH,
	PYTHON_STR_STATE,
	PYTHON_STR_ASCII,   /* text of a string of ASCII characters */
	PYTHON_STR_COMPACT, /* of any other */
	PYTHON_BYTES_LENGTH,
	PYTHON_BYTES_DATA,
	PYTHON_CODE_GENERATION, /* from 3.14, of the interpreter: rises when a code object goes */
	PYTHON_INTERPRETERS,	/* from 3.7, of _PyRuntime: the first interpreter */
	PYTHON_INTERPRETER_NEXT,
	PYTHON_INTERPRETER_THREADS, /* its first thread */
	PYTHON_THREAD_NEXT,
	PYTHON_THREAD_INTERPRETER,
	N_PYTHON_OFFSETS
};
_Static_assert((int)N_PYTHON_OFFSETS <= RUNTIME_MAX_OFFSETS, "offsets fit the record");

enum python_address {
	PYTHON_RUNTIME,	  /* _PyRuntime */
	PYTHON_CODE_TYPE, /* PyCode_Type, PyUnicode_Type, PyBytes_Type */
	PYTHON_STR_TYPE,
	PYTHON_BYTES_TYPE,
	PYTHON_EVAL, /* the function that interprets, and its end; up to 3.9, where each call of it is a frame */
	PYTHON_EVAL_END,
	N_PYTHON_ADDRESSES
};
_Static_assert((int)N_PYTHON_ADDRESSES <= RUNTIME_MAX_ADDRESSES, "addresses fit the record");
