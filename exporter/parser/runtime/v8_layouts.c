/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata (tools/gen-postmortem-metadata.py of V8) and the table of versions. Names of the same field differ between versions, since
 * they end in the type of the field. The table is from live processes of each version (tests/unit/test_interp_v8.c).
 */
#include "exporter/parser/runtime/v8_layouts.h"
#include "lib/base/cleanup.h"

#define CLASS(field) "v8dbg_class_" field
#define TYPE(name) "v8dbg_type_" name

const struct v8_symbol v8_symbols[] = {
	{TYPE("JSFunction__JS_FUNCTION_TYPE"), V8_TYPE_FUNCTION, 0},
	{"v8dbg_FirstJSFunctionType", V8_TYPE_FUNCTION, 0},
	{"v8dbg_LastJSFunctionType", V8_TYPE_FUNCTION_LAST, 0},
	{TYPE("SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"), V8_TYPE_SHARED, 0},
	{TYPE("Script__SCRIPT_TYPE"), V8_TYPE_SCRIPT, 0},
	{TYPE("ScopeInfo__SCOPE_INFO_TYPE"), V8_TYPE_SCOPE, 0},
	{TYPE("BytecodeArray__BYTECODE_ARRAY_TYPE"), V8_TYPE_BYTECODE, 0},
	{TYPE("InterpreterData__INTERPRETER_DATA_TYPE"), V8_TYPE_INTERPRETER_DATA, 0},
	{TYPE("BaselineData__BASELINE_DATA_TYPE"), V8_TYPE_BASELINE_DATA, 0},
	{TYPE("Code__CODE_TYPE"), V8_TYPE_CODE, 0},
	{TYPE("InstructionStream__INSTRUCTION_STREAM_TYPE"), V8_TYPE_STREAM, 0},
	{"v8dbg_FirstNonstringType", V8_TYPE_NOT_STRING, 0},
	{CLASS("JSFunction__shared__SharedFunctionInfo"), V8_FUNCTION_SHARED, 0},
	{CLASS("SharedFunctionInfo__name_or_scope_info__Object"), V8_SHARED_NAME, 0},
	{CLASS("SharedFunctionInfo__name_or_scope_info__Tagged_Object_"), V8_SHARED_NAME, 0},
	{CLASS("SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_"), V8_SHARED_NAME,
		0},
	{CLASS("SharedFunctionInfo__script_or_debug_info__Object"), V8_SHARED_SCRIPT, 0},
	{CLASS("SharedFunctionInfo__script_or_debug_info__HeapObject"), V8_SHARED_SCRIPT, 0},
	{CLASS("SharedFunctionInfo__script__Tagged_HeapObject_"), V8_SHARED_SCRIPT, 0},
	{CLASS("SharedFunctionInfo__raw_function_token_offset__int16_t"), V8_SHARED_TOKEN, 0},
	{"v8dbg_scopeinfo_idx_first_vars", V8_SCOPE_LOCALS, 0},
	{CLASS("BytecodeArray__source_position_table__Object"), V8_BYTECODE_LINES, 0},
	{CLASS("BytecodeArray__data__uintptr_t"), V8_BYTECODE_START, 0},
	{CLASS("Code__instruction_start__Address"), V8_CODE_START, 0},
	{CLASS("Code__instruction_start__uintptr_t"), V8_STREAM_START, 0},
	{CLASS("Code__instruction_size__int"), V8_CODE_BYTES, 0},
	{CLASS("InstructionStream__instruction_start__uintptr_t"), V8_STREAM_START, 0},
	{"v8dbg_DeoptimizationDataInlinedFunctionCountIndex", V8_DEOPT_INLINED, 0},
	{"v8dbg_DeoptimizationDataLiteralArrayIndex", V8_DEOPT_LITERALS, 0},
	{"v8dbg_DeoptimizationDataSharedFunctionInfoIndex", V8_DEOPT_SHARED, 0},
	{"v8dbg_DeoptimizationDataWrappedSharedFunctionInfoIndex", V8_DEOPT_SHARED, 0},
	{"v8dbg_DeoptimizationDataInliningPositionsIndex", V8_DEOPT_INLINING, 0},
	{CLASS("Code__flags__uint32_t"), V8_CODE_FLAGS, 0},
	{"v8dbg_CodeKindBaseline", V8_KIND_BASELINE, 0},
	{"v8dbg_frametype_WasmFrame", V8_MARKER_WASM, 0},
	{"v8dbg_frametype_WasmCompiledFrame", V8_MARKER_WASM, 0},

	{"v8dbg_TaggedSize", V8_ALWAYS, 8},
	{"v8dbg_SmiValueShift", V8_ALWAYS, 1},
	{"v8dbg_SmiShiftSize", V8_ALWAYS, 31},
	{"v8dbg_HeapObjectTag", V8_ALWAYS, 1},
	{"v8dbg_HeapObjectTagMask", V8_ALWAYS, 3},
	{"v8dbg_StringRepresentationMask", V8_ALWAYS, 7},
	{"v8dbg_StringEncodingMask", V8_ALWAYS, 8},
	{"v8dbg_OneByteStringTag", V8_ALWAYS, 8},
	{"v8dbg_ConsStringTag", V8_ALWAYS, 1},
	{"v8dbg_ExternalStringTag", V8_ALWAYS, 2},
	{"v8dbg_SlicedStringTag", V8_ALWAYS, 3},
	{"v8dbg_ThinStringTag", V8_ALWAYS, 5},
	{CLASS("Map__instance_type__uint16_t"), V8_ALWAYS, 12},
	{CLASS("String__length__int32_t"), V8_ALWAYS, 12},
	{CLASS("SeqOneByteString__chars__char"), V8_ALWAYS, 16},
	{CLASS("SeqTwoByteString__chars__char"), V8_ALWAYS, 16},
	{CLASS("ConsString__first__String"), V8_ALWAYS, 16},
	{CLASS("ConsString__second__String"), V8_ALWAYS, 24},
	{CLASS("SlicedString__parent__String"), V8_ALWAYS, 16},
	{CLASS("SlicedString__offset__SMI"), V8_ALWAYS, 24},
	{CLASS("ThinString__actual__String"), V8_ALWAYS, 16},
	{CLASS("ExternalString__resource__Object"), V8_ALWAYS, 16},
	{CLASS("FixedArrayBase__length__SMI"), V8_ALWAYS, 8},
	{CLASS("FixedArray__data__uintptr_t"), V8_ALWAYS, 16},
	{CLASS("Script__source__Object"), V8_ALWAYS, 8},
	{CLASS("Script__name__Object"), V8_ALWAYS, 16},
	{CLASS("Script__line_ends__Object"), V8_ALWAYS, 56},
	{"v8dbg_off_fp_context", V8_ALWAYS, -V8_FRAME_CONTEXT},
	{"v8dbg_off_fp_function", V8_ALWAYS, -V8_FRAME_FUNCTION},
	{"v8dbg_frametype_EntryFrame", V8_ALWAYS, V8_MARKER_ENTRY},
	{"v8dbg_frametype_ConstructEntryFrame", V8_ALWAYS, V8_MARKER_CONSTRUCT_ENTRY},
	{"v8dbg_frametype_ExitFrame", V8_ALWAYS, V8_MARKER_EXIT},
};
const size_t v8_n_symbols = ARRAY_SIZE(v8_symbols);

#define NO V8_NONE
#define SHARED(literal, id) [V8_SHARED_DATA] = 8, [V8_SHARED_LITERAL] = literal, [V8_SHARED_ID] = id
#define SCOPE(words, shift, function, receiver)                                                   \
	[V8_SCOPE_WORDS] = words, [V8_SCOPE_FLAGS_SHIFT] = shift, [V8_SCOPE_FUNCTION] = function, \
	[V8_SCOPE_RECEIVER] = receiver
#define BYTECODE(lines, start) [V8_BYTECODE_LINES] = lines, [V8_BYTECODE_START] = start
#define LINES(how) [V8_LINES] = V8_LINES_##how
#define CODE(deopt, lines) [V8_CODE_DEOPT] = deopt, [V8_CODE_LINES] = lines
/* Code and its instructions in one object. */
#define ONE_OBJECT [V8_CODE_START] = NO, [V8_STREAM_CODE] = NO, [V8_TYPE_STREAM] = NO
#define DEOPT                                                                   \
	[V8_DEOPT_INLINED] = 1, [V8_DEOPT_LITERALS] = 2, [V8_DEOPT_SHARED] = 6, \
	[V8_DEOPT_INLINING] = 7
/* Where frames of optimised code are known by its translations. */
#define TRANSLATIONS(exits, first, extra) \
	[V8_DEOPT_EXITS] = exits, [V8_DEOPT_FIRST] = first, [V8_EXTRA_ARGUMENTS] = extra
#define NO_TRANSLATIONS TRANSLATIONS(NO, NO, NO), [V8_CODE_FLAGS] = NO, [V8_KIND_BASELINE] = NO
#define FRAME(bytecode, position) [V8_FRAME_BYTECODE] = bytecode, [V8_FRAME_POSITION] = position

static const struct {
	uint32_t version;
	uint16_t numbers[N_V8_NUMBERS];
} layouts[] = {
	{RUNTIME_VERSION(7, 8, 0),
		{SHARED(52, NO), SCOPE(16, 32, 11, 7), BYTECODE(32, 54), CODE(16, 24), ONE_OBJECT,
			DEOPT, FRAME(24, 32), LINES(FROM_START),
			NO_TRANSLATIONS, [V8_TYPE_BASELINE_DATA] = NO}},
	{RUNTIME_VERSION(8, 4, 0),
		{SHARED(52, NO), SCOPE(16, 32, 12, 7), BYTECODE(32, 54), CODE(16, 24), ONE_OBJECT,
			DEOPT, FRAME(24, 32), LINES(FROM_BEFORE),
			NO_TRANSLATIONS, [V8_TYPE_BASELINE_DATA] = NO}},
	{RUNTIME_VERSION(9, 4, 0),
		{SHARED(52, NO), SCOPE(8, 32, 12, 7), BYTECODE(32, 54), CODE(16, 24), ONE_OBJECT,
			DEOPT, FRAME(32, 40), LINES(FROM_BEFORE), NO_TRANSLATIONS}},
	{RUNTIME_VERSION(10, 2, 0),
		{SHARED(52, NO), SCOPE(8, 32, 12, NO), BYTECODE(32, V8_BY_SYMBOL), CODE(16, 24),
			ONE_OBJECT, DEOPT, FRAME(32, 40), LINES(FROM_BEFORE),
			NO_TRANSLATIONS, [V8_TYPE_BASELINE_DATA] = NO}},
	{RUNTIME_VERSION(11, 3, 0),
		{SHARED(52, NO), SCOPE(8, 32, 12, NO), BYTECODE(32, V8_BY_SYMBOL), CODE(16, 24),
			[V8_CODE_START] = 40, [V8_CODE_BYTES] = 56, [V8_STREAM_CODE] = 8,
			FRAME(32, 40), LINES(FROM_BEFORE),
			NO_TRANSLATIONS, [V8_TYPE_BASELINE_DATA] = NO}},
	{RUNTIME_VERSION(12, 4, 0),
		{SHARED(52, NO), SCOPE(8, 32, 12, NO), BYTECODE(24, V8_BY_SYMBOL),
			CODE(8, 16), [V8_STREAM_CODE] = 8, FRAME(32, 40), LINES(FROM_BEFORE),
			NO_TRANSLATIONS, [V8_TYPE_BASELINE_DATA] = NO}},
	{RUNTIME_VERSION(13, 6, 0),
		{SHARED(60, 64), SCOPE(8, 0, 12, NO), BYTECODE(24, V8_BY_SYMBOL),
			CODE(8, 16), [V8_STREAM_CODE] = 8, FRAME(32, 40), LINES(FROM_BEFORE),
			TRANSLATIONS(9, 12, 3), [V8_TYPE_BASELINE_DATA] = NO}},
	{RUNTIME_VERSION(14, 6, 0),
		{SHARED(60, 64), SCOPE(8, 0, 12, NO), BYTECODE(24, V8_BY_SYMBOL),
			CODE(8, 16), [V8_STREAM_CODE] = 8, FRAME(32, 40), LINES(FLAGGED),
			TRANSLATIONS(9, 12, 3), [V8_TYPE_BASELINE_DATA] = NO}},
};

const uint16_t *v8_layout(uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].version == version)
			return layouts[i].numbers;
	return NULL;
}
