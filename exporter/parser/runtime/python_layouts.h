/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each version of CPython has its fields.
 */
#pragma once
#include "exporter/symfile/python.h"
#include "lib/base/cursor.h"

/* A version that does not describe itself. */
struct python_layout {
	uint8_t minor;		/* of 3.N */
	uint32_t runtime_bytes; /* of _PyRuntime; 0: there is none */
	uint16_t code_bytes;	/* of a code object without what varies: PyCode_Type.tp_basicsize */
	uint16_t key; /* offset in _PyRuntime of the key of a thread's state; 0: none is used */
	uint16_t offsets[N_PYTHON_OFFSETS];
};

/* NULL: none of 3.6 to 3.12. */
const struct python_layout *python_layout_of_minor(uint32_t minor);
/* The version whose _PyRuntime has that size, for those before 3.11, which do not say their version. */
const struct python_layout *python_layout_of_size(uint64_t runtime_bytes);

#define PYTHON_COOKIE "xdebugpy"
/* The offsets of 3.13 and later, from the struct _Py_DebugOffsets at `c`. -ENOTSUP: the minor version is unknown; -EBADMSG: it is cut, or
 * an offset is too large. */
int python_layout_read(struct cursor c, uint32_t minor, uint16_t offsets[N_PYTHON_OFFSETS]);
