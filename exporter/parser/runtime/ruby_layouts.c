/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets of Ruby's structures on 64-bit hosts. All patch releases of a minor version have the same ones: tests/e2e/test_ruby_layouts.py
 * compares them with those of the crate rbspy-ruby-structs.
 */
#include "exporter/parser/runtime/ruby_layouts.h"
#include "lib/base/cleanup.h"

#define NO RUNTIME_NO_FIELD
#define THREAD(ec_thread, thread_id, frame_bytes)                                            \
	[RUBY_EC_STACK] = 0, [RUBY_EC_STACK_WORDS] = 8, [RUBY_EC_FRAME] = 16,                \
	[RUBY_EC_THREAD] = ec_thread, [RUBY_THREAD_ID] = thread_id,                          \
	[RUBY_FRAME_BYTES] = frame_bytes, [RUBY_FRAME_POSITION] = 0, [RUBY_FRAME_CODE] = 16, \
	[RUBY_FRAME_ENV] = 32
#define BODY(parent)                                                                               \
	[RUBY_CODE_BODY] = 16, [RUBY_BODY_TYPE] = 0, [RUBY_BODY_WORDS] = 4, [RUBY_BODY_START] = 8, \
	[RUBY_BODY_FILE] = 64, [RUBY_BODY_NAME] = 80, [RUBY_BODY_FIRST_LINE] = 88,                 \
	[RUBY_BODY_PARENT] = parent
#define LINES(lines, n, index, bytes, position, number)                                     \
	[RUBY_BODY_LINES] = lines, [RUBY_BODY_N_LINES] = n, [RUBY_BODY_LINE_INDEX] = index, \
	[RUBY_LINE_BYTES] = bytes, [RUBY_LINE_POSITION] = position, [RUBY_LINE_NUMBER] = number
#define OBJECTS(embedded)                                                                    \
	[RUBY_STR_EMBEDDED] = embedded, [RUBY_STR_POINTER] = 24, [RUBY_ARRAY_EMBEDDED] = 16, \
	[RUBY_ARRAY_POINTER] = 32, [RUBY_METHOD_DEFINITION] = 16, [RUBY_METHOD_OWNER] = 32,  \
	[RUBY_DEFINITION_ID] = 32
#define CLASS(path, is_named, attached) \
	[RUBY_CLASS_PATH] = path, [RUBY_CLASS_IS_NAMED] = is_named, [RUBY_CLASS_ATTACHED] = attached

static const struct ruby_layout layouts[] = {
	{2, 5,
		{THREAD(72, 72, 48), BODY(136), LINES(112, 200, NO, 12, 0, 4), OBJECTS(16),
			CLASS(NO, NO, NO)}},
	{2, 6,
		{THREAD(56, 72, 56), BODY(168), LINES(120, 136, 144, 8, NO, 0), OBJECTS(16),
			CLASS(NO, NO, NO)}},
	{2, 7,
		{THREAD(56, 72, 56), BODY(168), LINES(120, 136, 144, 8, NO, 0), OBJECTS(16),
			CLASS(NO, NO, NO)}},
	{3, 0,
		{THREAD(56, NO, 56), BODY(168), LINES(120, 136, 144, 8, NO, 0), OBJECTS(16),
			CLASS(NO, NO, NO)}},
	{3, 1,
		{THREAD(48, NO, 64), BODY(168), LINES(120, 136, 144, 12, NO, 0), OBJECTS(16),
			CLASS(NO, NO, NO)}},
	{3, 2,
		{THREAD(48, NO, 64), BODY(160), LINES(112, 128, 136, 12, NO, 0), OBJECTS(24),
			CLASS(NO, NO, NO)}},
	{3, 3,
		{THREAD(48, NO, 56), BODY(160), LINES(112, 128, 136, 12, NO, 0), OBJECTS(24),
			CLASS(NO, NO, NO)}},
	{3, 4,
		{THREAD(48, NO, 56), BODY(160), LINES(112, 128, 136, 12, NO, 0), OBJECTS(24),
			CLASS(152, 149, 128)}},
	{4, 0,
		{THREAD(48, NO, 56), BODY(168), LINES(112, 128, 136, 12, NO, 0), OBJECTS(24),
			CLASS(152, 149, 136)}},
};

const struct ruby_layout *ruby_layout_of(uint32_t major, uint32_t minor)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].major == major && layouts[i].minor == minor)
			return &layouts[i];
	return NULL;
}
