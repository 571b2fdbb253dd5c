/* SPDX-License-Identifier: Apache-2.0
 *
 * What the record of Ruby (exporter/symfile/runtime.h) holds: offsets of fields and addresses, by number. The numbers are in symbol
 * files: new ones go to the end. Ruby's C names stand beside them; a code object is an rb_iseq_t, a method an rb_method_entry_t.
 */
#pragma once
#include "exporter/symfile/runtime.h"

enum ruby_offset {
	RUBY_EC_STACK, /* rb_execution_context_t: vm_stack, its end by vm_stack_size, in words */
	RUBY_EC_STACK_WORDS,
	RUBY_EC_FRAME,	/* cfp: the innermost frame; those further out lie behind it */
	RUBY_EC_THREAD, /* thread_ptr */
	RUBY_THREAD_ID, /* rb_thread_t: pthread_self(); up to 2.7, where the state is of all threads */
	RUBY_FRAME_BYTES,    /* of an rb_control_frame_t */
	RUBY_FRAME_POSITION, /* pc */
	RUBY_FRAME_CODE,     /* iseq */
	RUBY_FRAME_ENV,	     /* ep: method or class, outer block, flags are at -16, -8 and 0 */
	RUBY_CODE_BODY,
	RUBY_BODY_TYPE, /* rb_iseq_constant_body */
	RUBY_BODY_WORDS,
	RUBY_BODY_START,      /* iseq_encoded */
	RUBY_BODY_FILE,	      /* location.pathobj */
	RUBY_BODY_NAME,	      /* location.label */
	RUBY_BODY_FIRST_LINE, /* up to 3.2 a Ruby number, then a C int */
	RUBY_BODY_PARENT,
	RUBY_BODY_LINES, /* insns_info: entries of RUBY_LINE_BYTES */
	RUBY_BODY_N_LINES,
	RUBY_BODY_LINE_INDEX, /* succ_index_table; from 2.6 */
	RUBY_LINE_BYTES,      /* of an iseq_insn_info_entry */
	RUBY_LINE_POSITION,   /* up to 2.5 */
	RUBY_LINE_NUMBER,
	RUBY_STR_EMBEDDED, /* text within an RString */
	RUBY_STR_POINTER,
	RUBY_ARRAY_EMBEDDED,
	RUBY_ARRAY_POINTER,
	RUBY_METHOD_DEFINITION,
	RUBY_METHOD_OWNER,
	RUBY_DEFINITION_ID,  /* original_id */
	RUBY_CLASS_PATH,     /* from 3.4, the first version whose backtraces have it */
	RUBY_CLASS_IS_NAMED, /* bit 0: permanent_classpath */
	RUBY_CLASS_ATTACHED, /* of a singleton class: what it is the class of */
	N_RUBY_OFFSETS
};
_Static_assert((int)N_RUBY_OFFSETS <= RUNTIME_MAX_OFFSETS, "offsets fit the record");

enum ruby_address {
	RUBY_EXEC, /* the function that each entry of the interpreter from C runs in: vm_exec */
	RUBY_EXEC_END,
	RUBY_CORE, /* the function of the instructions, which that one calls: vm_exec_core; 0: not known. Code that Ruby makes is called from both */
	RUBY_CORE_END,
	RUBY_SYMBOLS, /* ruby_global_symbols; 0: names of methods in C are not known */
	N_RUBY_ADDRESSES
};
_Static_assert((int)N_RUBY_ADDRESSES <= RUNTIME_MAX_ADDRESSES, "addresses fit the record");
