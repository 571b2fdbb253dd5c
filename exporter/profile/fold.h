/* SPDX-License-Identifier: Apache-2.0
 *
 * What of an interpreter a person sees in a stack: a program's own language, and one frame for what runs it. Pure.
 */
#pragma once
#include "exporter/symfile/runtime.h"
#include <stdbool.h>
#include <stdint.h>

enum fold_frames {
	FOLD_INTERNALS, /* a run of the interpreter's own native frames is one frame */
	FOLD_NOTHING,
	FOLD_TO_LANGUAGE, /* only the language's frames, where a stack has any */
	FOLD_N_WAYS
};
/* "fold", "keep", "only": as the parameter `interp` and the flag --interp.frames have it. */
extern const char *const fold_names[FOLD_N_WAYS];
/* FOLD_INTERNALS for NULL and for what is none. */
enum fold_frames fold_of_name(const char *name);

/* What a frame is to folding. */
enum fold_class {
	FOLD_OTHER,    /* the kernel's, a library's, an extension's, the program's own */
	FOLD_LANGUAGE, /* of a language; `mapping` is its mapping */
	FOLD_PART,     /* the same, of a part of the function whose frame called it */
	FOLD_INTERNAL, /* native, of the runtime that runs the language */
	FOLD_MARK,     /* stands for frames that are not there */
};
struct fold_frame {
	uint8_t class;	  /* enum fold_class */
	uint32_t mapping; /* any number of the caller's */
};

/*
 * Is a native frame the runtime's own? `path`: of the binary that holds the runtime. `function`: its name, "" when not known. A
 * library or program of the runtime's name (libpython3.13.so, /usr/bin/python3.13) holds nothing else. In any other program that
 * has the runtime built in, only functions of the runtime's public prefixes are. Of V8 the builtins are, which run what is not compiled, call
 * and enter functions; its C++ is not.
 */
bool fold_is_internal(uint32_t runtime, const char *path, const char *function);

/*
 * Is machine code of that name the runtime's own? With -X perf Python makes a piece of it for each function, and names it in a perf map, so
 * that native frames have the names that the language's frames have anyway.
 */
bool fold_is_trampoline(const char *function);

/*
 * Folds a stack, leaf first, in place: `stack` has n indices into `frames`. Returns how many are left. A run of internal frames
 * becomes n_frames + the mapping of the language's frame that is next to it towards the root, or without one towards the leaf. A stack without a
 * frame of a language stays as it is, and so does the outermost frame of a whole one, where a program starts. What a part was called by
 * is left out: the part says more of where the function is.
 */
uint32_t fold_stack(const struct fold_frame *frames, uint32_t n_frames, enum fold_frames how,
	bool is_whole, uint32_t *stack, uint32_t n);
