/* SPDX-License-Identifier: Apache-2.0
 *
 * Our offsets of CPython's structures against the headers of the version that this is compiled with: for test_python_layouts.py. It is
 * linked with exporter/parser/runtime/python_layouts.c, prints each difference and fails when there is one.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#if PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_runtime.h>
#elif PY_VERSION_HEX >= 0x03080000
#include <internal/pycore_pystate.h>
#elif PY_VERSION_HEX >= 0x03070000
#include <internal/pystate.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_interp.h>
#endif
#include "exporter/parser/runtime/python_layouts.h"

#if PY_VERSION_HEX >= 0x030b0000
#define CODE_BYTES offsetof(PyCodeObject, co_code_adaptive)
#else
#define CODE_BYTES sizeof(PyCodeObject)
#endif

static int n_differences, n_checked;

static void check(const char *what, unsigned long ours, unsigned long theirs)
{
	n_checked++;
	if (ours == theirs)
		return;
	printf("%s: %lu, the headers say %lu\n", what, ours, theirs);
	n_differences++;
}

#if PY_VERSION_HEX >= 0x030b0000
#define INTERPRETER_THREADS threads.head
#else
#define INTERPRETER_THREADS tstate_head
#endif

#if PY_VERSION_HEX < 0x030d0000
static void check_version(void)
{
	const struct python_layout *l = python_layout_of_minor(PY_MINOR_VERSION);

	if (!l) {
		printf("3.%d is not known\n", PY_MINOR_VERSION);
		n_differences++;
		return;
	}
#define CHECK(what, type, field) check(#what, l->offsets[PYTHON_##what], offsetof(type, field))
#define CHECK_NONE(what) check(#what, l->offsets[PYTHON_##what], RUNTIME_NO_FIELD)
	check("code_bytes", l->code_bytes, CODE_BYTES);
	CHECK(THREAD_ID, PyThreadState, thread_id);
	CHECK(THREAD_NEXT, PyThreadState, next);
	CHECK(THREAD_INTERPRETER, PyThreadState, interp);
	CHECK(INTERPRETER_NEXT, PyInterpreterState, next);
	CHECK(INTERPRETER_THREADS, PyInterpreterState, INTERPRETER_THREADS);
#if PY_MINOR_VERSION >= 7
	CHECK(INTERPRETERS, _PyRuntimeState, interpreters.head);
#else
	CHECK_NONE(INTERPRETERS);
#endif
	CHECK(CODE_FIRST_LINE, PyCodeObject, co_firstlineno);
	CHECK(CODE_FILE, PyCodeObject, co_filename);
	CHECK(CODE_NAME, PyCodeObject, co_name);
	CHECK(OBJECT_TYPE, PyObject, ob_type);
	CHECK(STR_LENGTH, PyASCIIObject, length);
	CHECK(STR_STATE, PyASCIIObject, state);
	check("STR_ASCII", l->offsets[PYTHON_STR_ASCII], sizeof(PyASCIIObject));
	check("STR_COMPACT", l->offsets[PYTHON_STR_COMPACT], sizeof(PyCompactUnicodeObject));
	CHECK(BYTES_LENGTH, PyVarObject, ob_size);
	CHECK(BYTES_DATA, PyBytesObject, ob_sval);
#if PY_VERSION_HEX >= 0x030b0000
	CHECK_NONE(THREAD_FRAME);
	CHECK(THREAD_CFRAME, PyThreadState, cframe);
	CHECK(THREAD_NATIVE_ID, PyThreadState, native_thread_id);
	CHECK(CFRAME_FRAME, _PyCFrame, current_frame);
	CHECK(CFRAME_BACK, _PyCFrame, previous);
	CHECK(FRAME_CODE, struct _PyInterpreterFrame, f_code);
	CHECK(FRAME_BACK, struct _PyInterpreterFrame, previous);
	CHECK(FRAME_POSITION, struct _PyInterpreterFrame, prev_instr);
	CHECK(FRAME_OWNER, struct _PyInterpreterFrame, owner);
	CHECK(CODE_QUALNAME, PyCodeObject, co_qualname);
	CHECK(CODE_LINES, PyCodeObject, co_linetable);
	CHECK(CODE_START, PyCodeObject, co_code_adaptive);
#else
	CHECK(THREAD_FRAME, PyThreadState, frame);
	CHECK_NONE(THREAD_NATIVE_ID);
	CHECK(FRAME_CODE, PyFrameObject, f_code);
	CHECK(FRAME_BACK, PyFrameObject, f_back);
	CHECK(FRAME_POSITION, PyFrameObject, f_lasti);
	CHECK_NONE(FRAME_OWNER);
	CHECK_NONE(CODE_QUALNAME);
	CHECK_NONE(CODE_START);
#if PY_VERSION_HEX >= 0x030a0000
	CHECK(THREAD_CFRAME, PyThreadState, cframe);
	CHECK(CFRAME_BACK, CFrame, previous);
	CHECK(CODE_LINES, PyCodeObject, co_linetable);
#else
	CHECK_NONE(THREAD_CFRAME);
	CHECK(CODE_LINES, PyCodeObject, co_lnotab);
#endif
#endif
#if PY_MINOR_VERSION == 11
	CHECK(FRAME_IS_ENTRY, struct _PyInterpreterFrame, is_entry);
#else
	CHECK_NONE(FRAME_IS_ENTRY);
#endif
#if PY_MINOR_VERSION == 12
	check("key", l->key, offsetof(_PyRuntimeState, autoTSSkey));
#elif PY_MINOR_VERSION >= 7
	check("key", l->key, offsetof(_PyRuntimeState, gilstate.autoTSSkey));
	check("runtime_bytes", l->runtime_bytes, sizeof(_PyRuntimeState));
#endif
}
#else
/* Each field of a description of its own is a number that no other has. */
static void check_version(void)
{
	union {
		_Py_DebugOffsets fields;
		uint64_t words[sizeof(_Py_DebugOffsets) / sizeof(uint64_t)];
	} d;
	uint16_t offsets[N_PYTHON_OFFSETS];

	for (size_t i = 0; i < sizeof(d) / sizeof(uint64_t); i++)
		d.words[i] = 1000 + i;
	if (python_layout_read(cursor_of(&d, sizeof(d)), PY_MINOR_VERSION, offsets) < 0) {
		printf("3.%d is not known\n", PY_MINOR_VERSION);
		n_differences++;
		return;
	}
#define CHECK(what, field) check(#what, offsets[PYTHON_##what], d.fields.field)
	CHECK(THREAD_FRAME, thread_state.current_frame);
	CHECK(INTERPRETERS, runtime_state.interpreters_head);
	CHECK(INTERPRETER_NEXT, interpreter_state.next);
	CHECK(INTERPRETER_THREADS, interpreter_state.threads_head);
	CHECK(THREAD_NEXT, thread_state.next);
	CHECK(THREAD_INTERPRETER, thread_state.interp);
	CHECK(THREAD_ID, thread_state.thread_id);
	CHECK(THREAD_NATIVE_ID, thread_state.native_thread_id);
	CHECK(FRAME_BACK, interpreter_frame.previous);
	CHECK(FRAME_CODE, interpreter_frame.executable);
	CHECK(FRAME_POSITION, interpreter_frame.instr_ptr);
	CHECK(FRAME_OWNER, interpreter_frame.owner);
	CHECK(CODE_FILE, code_object.filename);
	CHECK(CODE_NAME, code_object.name);
	CHECK(CODE_QUALNAME, code_object.qualname);
	CHECK(CODE_LINES, code_object.linetable);
	CHECK(CODE_FIRST_LINE, code_object.firstlineno);
	CHECK(CODE_START, code_object.co_code_adaptive);
	CHECK(OBJECT_TYPE, pyobject.ob_type);
	CHECK(BYTES_LENGTH, bytes_object.ob_size);
	CHECK(BYTES_DATA, bytes_object.ob_sval);
	CHECK(STR_STATE, unicode_object.state);
	CHECK(STR_LENGTH, unicode_object.length);
	CHECK(STR_ASCII, unicode_object.asciiobject_size);
	check("STR_COMPACT", offsets[PYTHON_STR_COMPACT] - offsets[PYTHON_STR_ASCII],
		sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject));
#if PY_VERSION_HEX >= 0x030e0000
	CHECK(CODE_GENERATION, interpreter_state.code_object_generation);
#endif
#if PY_VERSION_HEX >= 0x030f0000
	CHECK(THREAD_BASE_FRAME, thread_state.base_frame);
#endif
}
#endif

int main(void)
{
	check_version();
	printf("3.%d.%d: %d checked\n", PY_MINOR_VERSION, PY_MICRO_VERSION, n_checked);
	return n_differences != 0;
}
