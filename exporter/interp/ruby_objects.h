/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's objects in the memory of a process. The first word of each has its type and flags; a freed one has type 0, and one that the
 * garbage collector moved another.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/symfile/ruby.h"
#include "lib/base/cursor.h"
#include <stdbool.h>

enum {
	RUBY_HEAD_BYTES =
		256, /* of an object, or of a structure in C, up to the last field that is read */
	RUBY_POINTER_BYTES = 8,
};

/* RUBY_T_…; those of IMEMO, which scripts do not see, have a type of their own in the next bits. */
enum ruby_type {
	RUBY_T_CLASS = 0x02,
	RUBY_T_MODULE = 0x03,
	RUBY_T_STRING = 0x05,
	RUBY_T_ARRAY = 0x07,
	RUBY_T_IMEMO = 0x1a,
	RUBY_T_CREF = RUBY_T_IMEMO | 1 << 12,
	RUBY_T_SVAR = RUBY_T_IMEMO | 2 << 12,
	RUBY_T_METHOD = RUBY_T_IMEMO | 6 << 12,
	RUBY_T_CODE = RUBY_T_IMEMO | 7 << 12,
};

/* The beginning of an object, of which n bytes are there. */
struct ruby_head {
	uint8_t bytes[RUBY_HEAD_BYTES];
	size_t n;
};

/* A field of 1 to 8 bytes; 0 when it lies beyond what was read. */
uint64_t ruby_field(const struct ruby_head *h, uint32_t off, unsigned bytes);
static inline uint64_t ruby_pointer(const struct ruby_head *h, uint32_t off)
{
	return ruby_field(h, off, RUBY_POINTER_BYTES);
}
enum ruby_type ruby_type_of(const struct ruby_head *h);

/* The first n bytes of anything, and of an object of a type. -ENOENT: no object of it is at that address. */
int ruby_read_head(const struct interp_memory *m, uint64_t addr, size_t n, struct ruby_head *ret);
int ruby_read_object(const struct interp_memory *m, enum ruby_type type, uint64_t addr, size_t n,
	struct ruby_head *ret);
/* malloc'ed UTF-8 of a String. Bytes that are not UTF-8 are U+FFFD each. */
int ruby_read_text(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t addr, char **ret);
/* An element of an Array; -EBADMSG: it has fewer. */
int ruby_read_element(const struct interp_memory *m, const struct runtime_record *r, uint64_t addr,
	uint64_t idx, uint64_t *ret);
/* The text of an ID (a symbol's number). -ENOENT: it has none, or the table of symbols is not known. */
int ruby_read_id(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t id, char **ret);
