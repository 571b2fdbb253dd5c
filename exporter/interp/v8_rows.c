/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a record, checked against what bpf/interp/v8.h reads: a symbol file may say anything.
 */
#include "exporter/interp/v8_rows.h"
#include "lib/base/cleanup.h"

enum {
	WORD_BYTES = 8,
	NUMBER_BYTES = 4,
	MAX_BELOW = 128,   /* of a frame's slots below its frame pointer; 32 or 40 as they come */
	MAX_OBJECT = 1024, /* of the fields of a function and of a code object; 64 as they come */
};

/* Words of an object, behind its map. */
static bool are_words(const uint16_t *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fields[i] < WORD_BYTES || fields[i] % WORD_BYTES || fields[i] > MAX_OBJECT)
			return false;
	return true;
}

/* Below those of the context and the function. */
static bool are_slots(const uint16_t *below, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (below[i] <= V8_FRAME_FUNCTION || below[i] % WORD_BYTES || below[i] > MAX_BELOW)
			return false;
	return true;
}

/* The number of a function in its script, and from 13.x on the one in its isolate, side by side: what tells it from others of the script. */
static bool set_numbers(const uint16_t *o, struct interp_layout *l)
{
	bool has_id = o[V8_SHARED_ID] != RUNTIME_NO_FIELD;

	l->name_check = o[V8_SHARED_LITERAL];
	l->name_check_bytes = has_id ? 2 * NUMBER_BYTES : NUMBER_BYTES;
	return l->name_check <= MAX_OBJECT && l->name_check % NUMBER_BYTES == 0 &&
	       (!has_id || o[V8_SHARED_ID] == l->name_check + NUMBER_BYTES);
}

bool v8_rows_layout(const struct runtime_record *r, struct interp_layout *ret)
{
	const uint16_t *o = r->offsets;
	const uint16_t words[] = {o[V8_FUNCTION_SHARED], o[V8_SHARED_SCRIPT], o[V8_SHARED_DATA]};
	const uint16_t slots[] = {o[V8_FRAME_BYTECODE], o[V8_FRAME_POSITION]};

	*ret = (struct interp_layout) {
		.kind = INTERP_V8,
		.frame_code = o[V8_FRAME_BYTECODE],
		.frame_position = o[V8_FRAME_POSITION],
		.frame_owner = o[V8_TYPE_BYTECODE],
		.code_start = o[V8_BYTECODE_START],
		.code_check = o[V8_SHARED_SCRIPT],
		.code_check_bytes = WORD_BYTES,
		.code_name = o[V8_SHARED_DATA],
		.function_shared = o[V8_FUNCTION_SHARED],
		.function_type = o[V8_TYPE_FUNCTION],
		.function_last = o[V8_TYPE_FUNCTION_LAST],
		.interp_generation = INTERP_NO_FIELD,
	};
	return set_numbers(o, ret) && are_words(words, ARRAY_SIZE(words)) &&
	       are_slots(slots, ARRAY_SIZE(slots)) && ret->code_start &&
	       ret->code_start <= MAX_OBJECT && ret->frame_owner != RUNTIME_NO_FIELD &&
	       ret->function_type != RUNTIME_NO_FIELD && ret->function_type <= ret->function_last;
}
