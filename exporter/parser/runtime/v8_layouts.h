/* SPDX-License-Identifier: Apache-2.0
 *
 * Where V8 has its fields: by the symbols of its metadata, and by version what these leave out.
 */
#pragma once
#include "exporter/symfile/v8.h"
#include <stddef.h>

/* One constant of the metadata (an i32 variable), which makes one number of the record. */
struct v8_symbol {
	const char *name;
	uint8_t what;	   /* enum v8_number, or V8_ALWAYS */
	int16_t is_always; /* V8_ALWAYS: the value that the reader takes for granted */
};
enum { V8_ALWAYS = N_V8_NUMBERS };

extern const struct v8_symbol v8_symbols[];
extern const size_t v8_n_symbols;

/* Numbers that the metadata of a version does not have, or has wrong. NULL: the version is not known. */
const uint16_t *v8_layout(uint32_t version);
/* In what v8_layout returns: the metadata has it. */
#define V8_BY_SYMBOL 0
/* A number that may be missing: the version has no such thing. */
#define V8_NONE RUNTIME_NO_FIELD
