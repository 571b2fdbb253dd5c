/* SPDX-License-Identifier: Apache-2.0
 *
 * Names as Thread#backtrace of each version has them (vm_backtrace.c).
 */
#pragma once
#include "exporter/interp/ruby_objects.h"

/* An instruction sequence: what it has for all its life. */
struct ruby_sequence {
	uint64_t at, body_at;
	struct ruby_head body;
};
int ruby_read_sequence(const struct interp_memory *m, const struct runtime_record *r, uint64_t at,
	struct ruby_sequence *ret);

/* From 3.4 on names have classes, and are made. */
static inline bool ruby_has_classes(const struct runtime_record *r)
{
	return r->offsets[RUBY_CLASS_PATH] != RUNTIME_NO_FIELD;
}

/* From 3.4 on what rescues and ensures is no frame of its own to Ruby. */
bool ruby_is_part(const struct runtime_record *r, const struct ruby_sequence *s);

/* The kernel half takes words from there on in a sequence's body, and in a method's definition. */
enum { RUBY_CHECK_FROM = 8 };

/* Of rb_method_type_t (method.h): it runs a sequence that `def` has. */
enum { RUBY_METHOD_OF_CODE = 0 };

/* A method, whatever it is written in. */
struct ruby_method {
	uint64_t definition_at;
	uint64_t owner; /* its class or module */
	uint64_t id;	/* the name under which it was defined */
	uint64_t check; /* as the kernel half has it */
	uint64_t type;	/* RUBY_METHOD_OF_CODE, or another */
	uint64_t code;	/* RUBY_METHOD_OF_CODE: its sequence, … */
	uint64_t place; /* … and the class that the text of `def` stands in (cref) */
};
int ruby_read_method(const struct interp_memory *m, const struct runtime_record *r, uint64_t at,
	struct ruby_method *ret);

/* malloc'ed: "block in Class#name", "<main>". `context`: as for ruby_read_code. */
int ruby_read_name(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_sequence *s, uint64_t context, char **ret);
/* malloc'ed: "Class#name". */
int ruby_read_method_name(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_method *method, char **ret);
