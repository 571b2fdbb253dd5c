/* SPDX-License-Identifier: Apache-2.0
 *
 * Our offsets of Ruby's structures, for test_ruby_layouts.py: "NAME offset" for each field that the version of the arguments has.
 */
#include "exporter/parser/runtime/ruby_layouts.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	static const char *const names[N_RUBY_OFFSETS] = {
#define NAME(what) [RUBY_##what] = #what
		NAME(EC_STACK),
		NAME(EC_STACK_WORDS),
		NAME(EC_FRAME),
		NAME(EC_THREAD),
		NAME(THREAD_ID),
		NAME(FRAME_BYTES),
		NAME(FRAME_POSITION),
		NAME(FRAME_CODE),
		NAME(FRAME_ENV),
		NAME(CODE_BODY),
		NAME(BODY_TYPE),
		NAME(BODY_WORDS),
		NAME(BODY_START),
		NAME(BODY_FILE),
		NAME(BODY_NAME),
		NAME(BODY_FIRST_LINE),
		NAME(BODY_PARENT),
		NAME(BODY_LINES),
		NAME(BODY_N_LINES),
		NAME(BODY_LINE_INDEX),
		NAME(LINE_BYTES),
		NAME(LINE_POSITION),
		NAME(LINE_NUMBER),
		NAME(STR_EMBEDDED),
		NAME(STR_POINTER),
		NAME(ARRAY_EMBEDDED),
		NAME(ARRAY_POINTER),
		NAME(METHOD_DEFINITION),
		NAME(METHOD_OWNER),
		NAME(DEFINITION_ID),
		NAME(CLASS_PATH),
		NAME(CLASS_IS_NAMED),
		NAME(CLASS_ATTACHED),
	};
	const struct ruby_layout *layout =
		argc == 3 ? ruby_layout_of((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2])) : NULL;

	if (!layout)
		return 1;
	for (size_t i = 0; i < N_RUBY_OFFSETS; i++)
		if (names[i] && layout->offsets[i] != RUNTIME_NO_FIELD)
			printf("%s %u\n", names[i], layout->offsets[i]);
	return 0;
}
