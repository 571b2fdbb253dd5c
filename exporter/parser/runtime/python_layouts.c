/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets of CPython's structures. Those up to 3.12 are from the headers of each version, on 64-bit hosts; patch releases kept them.
 * Later versions have them in the file (Include/internal/pycore_debug_offsets.h), in an order that differs between minor versions.
 */
#include "exporter/parser/runtime/python_layouts.h"
#include <stdbool.h>

#define NO RUNTIME_NO_FIELD
#define THREAD(frame, cframe, id, native_id)                                                     \
	[PYTHON_THREAD_FRAME] = frame, [PYTHON_THREAD_CFRAME] = cframe, [PYTHON_THREAD_ID] = id, \
	[PYTHON_THREAD_NATIVE_ID] = native_id, [PYTHON_THREAD_BASE_FRAME] = NO,                  \
	[PYTHON_CODE_GENERATION] = NO
#define THREADS(interpreters, threads)                                       \
	[PYTHON_INTERPRETERS] = interpreters, [PYTHON_INTERPRETER_NEXT] = 0, \
	[PYTHON_INTERPRETER_THREADS] = threads, [PYTHON_THREAD_NEXT] = 8,    \
	[PYTHON_THREAD_INTERPRETER] = 16
#define CFRAME(frame, back) [PYTHON_CFRAME_FRAME] = frame, [PYTHON_CFRAME_BACK] = back
#define FRAME(code, back, position, owner, is_entry)                      \
	[PYTHON_FRAME_CODE] = code, [PYTHON_FRAME_BACK] = back,           \
	[PYTHON_FRAME_POSITION] = position, [PYTHON_FRAME_OWNER] = owner, \
	[PYTHON_FRAME_IS_ENTRY] = is_entry
#define CODE(first_line, file, name, qualname, lines, start)                                       \
	[PYTHON_CODE_FIRST_LINE] = first_line, [PYTHON_CODE_FILE] = file,                          \
	[PYTHON_CODE_NAME] = name, [PYTHON_CODE_QUALNAME] = qualname, [PYTHON_CODE_LINES] = lines, \
	[PYTHON_CODE_START] = start
#define OBJECTS(ascii, compact)                                                                 \
	[PYTHON_OBJECT_TYPE] = 8, [PYTHON_STR_LENGTH] = 16, [PYTHON_STR_STATE] = 32,            \
	[PYTHON_STR_ASCII] = ascii, [PYTHON_STR_COMPACT] = compact, [PYTHON_BYTES_LENGTH] = 16, \
	[PYTHON_BYTES_DATA] = 32

static const struct python_layout layouts[] = {
	{6, 0, 144, 0,
		{THREAD(24, NO, 152, NO), THREADS(NO, 8), CFRAME(NO, NO),
			FRAME(32, 24, 120, NO, NO), CODE(36, 96, 104, NO, 112, NO),
			OBJECTS(48, 72)}},
	{7, 1520, 144, 1504,
		{THREAD(24, NO, 176, NO), THREADS(24, 8), CFRAME(NO, NO),
			FRAME(32, 24, 104, NO, NO), CODE(36, 96, 104, NO, 112, NO),
			OBJECTS(48, 72)}},
	{8, 1464, 176, 1392,
		{THREAD(24, NO, 176, NO), THREADS(32, 8), CFRAME(NO, NO),
			FRAME(32, 24, 104, NO, NO), CODE(40, 104, 112, NO, 120, NO),
			OBJECTS(48, 72)}},
	{9, 656, 176, 584,
		{THREAD(24, NO, 176, NO), THREADS(32, 8), CFRAME(NO, NO),
			FRAME(32, 24, 104, NO, NO), CODE(40, 104, 112, NO, 120, NO),
			OBJECTS(48, 72)}},
	{10, 672, 176, 584,
		{THREAD(24, 48, 176, NO), THREADS(32, 8), CFRAME(NO, 8), FRAME(32, 24, 96, NO, NO),
			CODE(40, 104, 112, NO, 120, NO), OBJECTS(48, 72)}},
	{11, 0x28b20, 184, 592,
		{THREAD(NO, 56, 152, 160), THREADS(40, 16), CFRAME(8, 16),
			FRAME(32, 48, 56, 69, 68), CODE(72, 112, 120, 128, 136, 184),
			OBJECTS(48, 72)}},
	{12, 0, 192, 1544,
		{THREAD(NO, 56, 136, 144), THREADS(40, 72), CFRAME(0, 8), FRAME(0, 8, 56, 70, NO),
			CODE(68, 112, 120, 128, 136, 192), OBJECTS(40, 56)}},
};

const struct python_layout *python_layout_of_minor(uint32_t minor)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].minor == minor)
			return &layouts[i];
	return NULL;
}

const struct python_layout *python_layout_of_size(uint64_t runtime_bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].runtime_bytes && layouts[i].runtime_bytes == runtime_bytes)
			return &layouts[i];
	return NULL;
}

/* Which u64 of _Py_DebugOffsets has an offset, by minor version; 0: none. */
enum { FIRST_MINOR = 13, N_MINORS = 3 };
static const struct {
	uint8_t what; /* enum python_offset */
	uint8_t word[N_MINORS];
} words[] = {
	{PYTHON_THREAD_FRAME, {23, 26, 26}},	   /* thread_state.current_frame */
	{PYTHON_THREAD_BASE_FRAME, {0, 0, 27}},	   /* thread_state.base_frame */
	{PYTHON_THREAD_ID, {24, 27, 30}},	   /* thread_state.thread_id */
	{PYTHON_THREAD_NATIVE_ID, {25, 28, 31}},   /* thread_state.native_thread_id */
	{PYTHON_FRAME_BACK, {29, 32, 40}},	   /* interpreter_frame.previous */
	{PYTHON_FRAME_CODE, {30, 33, 41}},	   /* interpreter_frame.executable */
	{PYTHON_FRAME_POSITION, {31, 34, 42}},	   /* interpreter_frame.instr_ptr */
	{PYTHON_FRAME_OWNER, {33, 36, 44}},	   /* interpreter_frame.owner */
	{PYTHON_CODE_FILE, {35, 40, 48}},	   /* code_object.filename */
	{PYTHON_CODE_NAME, {36, 41, 49}},	   /* code_object.name */
	{PYTHON_CODE_QUALNAME, {37, 42, 50}},	   /* code_object.qualname */
	{PYTHON_CODE_LINES, {38, 43, 51}},	   /* code_object.linetable */
	{PYTHON_CODE_FIRST_LINE, {39, 44, 52}},	   /* code_object.firstlineno */
	{PYTHON_CODE_START, {43, 48, 56}},	   /* code_object.co_code_adaptive */
	{PYTHON_OBJECT_TYPE, {45, 51, 59}},	   /* pyobject.ob_type */
	{PYTHON_BYTES_LENGTH, {65, 75, 87}},	   /* bytes_object.ob_size */
	{PYTHON_BYTES_DATA, {66, 76, 88}},	   /* bytes_object.ob_sval */
	{PYTHON_STR_STATE, {68, 78, 90}},	   /* unicode_object.state */
	{PYTHON_STR_LENGTH, {69, 79, 91}},	   /* unicode_object.length */
	{PYTHON_STR_ASCII, {70, 80, 92}},	   /* unicode_object.asciiobject_size */
	{PYTHON_CODE_GENERATION, {0, 20, 20}},	   /* interpreter_state.code_object_generation */
	{PYTHON_INTERPRETERS, {5, 5, 5}},	   /* runtime_state.interpreters_head */
	{PYTHON_INTERPRETER_NEXT, {8, 8, 8}},	   /* interpreter_state.next */
	{PYTHON_INTERPRETER_THREADS, {9, 9, 9}},   /* interpreter_state.threads_head */
	{PYTHON_THREAD_NEXT, {21, 24, 24}},	   /* thread_state.next */
	{PYTHON_THREAD_INTERPRETER, {22, 25, 25}}, /* thread_state.interp */
};
/* Up to 3.14 the size of a PyCompactUnicodeObject is not in it: two words more than of a PyASCIIObject, as in all versions from 3.12. */
enum { COMPACT_MORE = 16 };

int python_layout_read(struct cursor c, uint32_t minor, uint16_t offsets[N_PYTHON_OFFSETS])
{
	bool is_whole = true;

	if (minor < FIRST_MINOR || minor >= FIRST_MINOR + N_MINORS)
		return -ENOTSUP;
	for (size_t i = 0; i < N_PYTHON_OFFSETS; i++)
		offsets[i] = RUNTIME_NO_FIELD;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		uint32_t word = words[i].word[minor - FIRST_MINOR];
		struct cursor at = c;
		uint64_t off;

		if (!word)
			continue;
		cursor_skip(&at, word * sizeof(uint64_t));
		off = cursor_u64(&at);
		is_whole &= !at.error && off < RUNTIME_NO_FIELD - COMPACT_MORE;
		offsets[words[i].what] = (uint16_t)off;
	}
	offsets[PYTHON_STR_COMPACT] = offsets[PYTHON_STR_ASCII] + COMPACT_MORE;
	return is_whole ? 0 : -EBADMSG;
}
