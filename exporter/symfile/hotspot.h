/* SPDX-License-Identifier: Apache-2.0
 *
 * What the record of HotSpot (exporter/symfile/runtime.h) holds. A VM describes its structures in three tables that debuggers read (hotspot/
 * share/runtime/vmStructs.cpp). The file has the names of their rows, so that the record says in which row each thing stands. What a row says
 * of it only a live VM knows in many versions, since constructors write it. The numbers are in symbol files: new ones go to the end.
 */
#pragma once
#include "exporter/symfile/runtime.h"

/* Of offsets: the number of a row in its table; RUNTIME_NO_FIELD: this version has none. */
enum hotspot_row {
	/* Fields of structures. */
	HOTSPOT_HEAPS_LIST, /* all heaps of code; one alone in 8 */
	HOTSPOT_HEAP_ALONE,
	HOTSPOT_HEAP_MEMORY,
	HOTSPOT_HEAP_SEGMENTS,
	HOTSPOT_HEAP_SHIFT,
	HOTSPOT_SPACE_LOW_BOUNDARY,
	HOTSPOT_SPACE_HIGH_BOUNDARY,
	HOTSPOT_SPACE_LOW,
	HOTSPOT_ARRAY_LENGTH,
	HOTSPOT_ARRAY_DATA,
	HOTSPOT_BLOB_NAME,
	HOTSPOT_BLOB_SIZE,
	HOTSPOT_BLOB_FRAME_SIZE,
	HOTSPOT_BLOB_FRAME_COMPLETE,
	HOTSPOT_BLOB_FRAME_COMPLETE_16, /* the same as an int16_t */
	HOTSPOT_BLOB_CODE,		/* an address, or an offset */
	HOTSPOT_BLOB_CODE_OFFSET,
	HOTSPOT_BLOB_KIND,
	HOTSPOT_BLOB_RELOCATION_BYTES,
	HOTSPOT_BLOB_MUTABLE,
	HOTSPOT_NMETHOD_METHOD,
	HOTSPOT_NMETHOD_COMPILE_ID,
	HOTSPOT_NMETHOD_ORIG_PC,
	HOTSPOT_NMETHOD_DEOPT,
	HOTSPOT_NMETHOD_DEOPT_OFFSET,
	HOTSPOT_NMETHOD_SCOPES,
	HOTSPOT_NMETHOD_SCOPES_OFFSET,
	HOTSPOT_NMETHOD_PCS_OFFSET,
	HOTSPOT_NMETHOD_DEPENDENCIES_OFFSET, /* where pcs end, up to 22 */
	HOTSPOT_NMETHOD_METADATA_OFFSET,
	HOTSPOT_NMETHOD_IMMUTABLE,
	HOTSPOT_NMETHOD_IMMUTABLE_BYTES,
	HOTSPOT_METHOD_CONST,
	HOTSPOT_CONST_CONSTANTS,
	HOTSPOT_CONST_CODE_SIZE,
	HOTSPOT_CONST_FLAGS, /* u2, or u4 */
	HOTSPOT_CONST_FLAGS_32,
	HOTSPOT_CONST_NAME,
	HOTSPOT_CONST_SIGNATURE,
	HOTSPOT_POOL_HOLDER,
	HOTSPOT_POOL_SOURCE, /* in the class up to 14 */
	HOTSPOT_KLASS_SOURCE,
	HOTSPOT_KLASS_NAME,
	HOTSPOT_SYMBOL_LENGTH,
	HOTSPOT_SYMBOL_BODY,
	HOTSPOT_INTERPRETER,
	HOTSPOT_STUBS_BUFFER,
	HOTSPOT_STUBS_LIMIT,
	HOTSPOT_ENTRY,
	HOTSPOT_MAJOR,
	/* Sizes of types. */
	HOTSPOT_BLOCK_BYTES,
	HOTSPOT_CONST_BYTES,
	HOTSPOT_POOL_BYTES,
	/* Constants. */
	HOTSPOT_HAS_LINES,
	HOTSPOT_KIND_NMETHOD,
	N_HOTSPOT_ROWS
};
_Static_assert((int)N_HOTSPOT_ROWS <= RUNTIME_MAX_OFFSETS, "rows fit the record");

/* Of addresses: the tables. */
enum hotspot_table { HOTSPOT_STRUCTS, HOTSPOT_TYPES, HOTSPOT_INTS, N_HOTSPOT_TABLES };
_Static_assert((int)N_HOTSPOT_TABLES <= RUNTIME_MAX_ADDRESSES, "tables fit the record");

/* A row of a table, in bytes: in all versions the same. */
enum {
	HOTSPOT_STRUCT_BYTES = 48, /* type, field, type of the field, is static, */
	HOTSPOT_STRUCT_OFFSET = 32,
	HOTSPOT_STRUCT_ADDRESS = 40, /* of a static one */
	HOTSPOT_TYPE_BYTES = 40,     /* type, …, */
	HOTSPOT_TYPE_SIZE = 32,
	HOTSPOT_INT_BYTES = 16, /* name, */
	HOTSPOT_INT_VALUE = 8,
	HOTSPOT_MIN_MAJOR = 8,
	HOTSPOT_MAX_MAJOR = 27,
};
