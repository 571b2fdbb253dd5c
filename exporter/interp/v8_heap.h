/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects in the heap of V8, in the memory of a process. A word is a small number (Smi: bit 0 is 0, the value is in the upper half), or the
 * address of an object plus 1. Each object begins with its map, which has the type. A collector moves objects while they are read, so that
 * whatever is read is checked for its type, and each reading has a bound.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/symfile/v8.h"
#include <stdbool.h>

enum {
	V8_WORD = 8,
	V8_MAX_READS = 16384, /* of memory, of one code object */
	V8_ARRAY_DATA = 16,   /* elements of an array begin there, with its length before them */
	V8_KNOWN_MAPS = 16,
};

#define V8_ADDRESS_MIN 4096
#define V8_ADDRESS_MAX (1ULL << 52) /* of user space */

/* One reading of one code object. */
struct v8_heap {
	const struct interp_memory *m;
	const struct runtime_record *r;
	unsigned n_reads;
	/* Types of maps, those read last: objects have few, and a map keeps its type. An object's own map is read each time. */
	struct {
		uint64_t map;
		uint16_t type;
	} known[V8_KNOWN_MAPS];
	unsigned n_known;
};

static inline bool v8_is_object(uint64_t word)
{
	return (word & 3) == 1;
}

static inline bool v8_is_smi(uint64_t word)
{
	return !(uint32_t)word;
}

static inline int32_t v8_smi(uint64_t word)
{
	return (int32_t)(word >> 32);
}

/* `n` bytes at an address: 0; -EBADMSG: the bound of reads, or no address of user space; else the error of reading. */
int v8_read_at(struct v8_heap *h, uint64_t addr, void *to, size_t n);
/* `n` bytes at `off` of an object. -ENOENT: `object` is none; else as above. */
int v8_read(struct v8_heap *h, uint64_t object, uint32_t off, void *to, size_t n);
/* The word at `off`. */
int v8_word(struct v8_heap *h, uint64_t object, uint32_t off, uint64_t *ret);
/* The instance type of objects with that map, or an error as above. */
int v8_type_of_map(struct v8_heap *h, uint64_t map);
/* The instance type, or an error as above. */
int v8_type(struct v8_heap *h, uint64_t object);
/* 0; -ENOENT: it is of another type. */
int v8_check_type(struct v8_heap *h, uint64_t object, enum v8_number type);
/* The number of elements, or of bytes, of an array; an error as above, -EBADMSG when it is none. The type of the array is not looked at. */
int64_t v8_array_length(struct v8_heap *h, uint64_t array);
/* One element of an array of objects. */
int v8_element(struct v8_heap *h, uint64_t array, uint32_t i, uint64_t *ret);
/* malloc'ed copy of an array of bytes; at most max_bytes. -EFBIG: it is larger; -ENOMEM. */
int v8_bytes(struct v8_heap *h, uint64_t array, size_t max_bytes, uint8_t **ret, size_t *ret_n);

/* Characters of a string, in order: `width` bytes each. Not 0: no more of them. */
typedef int (*v8_visit)(void *arg, const uint8_t *chars, size_t n, unsigned width);
/* 0: all, or `visit` ended it; -ENOENT: it is no string; -EBADMSG: it is malformed or of too many parts. */
int v8_string_visit(struct v8_heap *h, uint64_t string, v8_visit visit, void *arg);
/* Its length in characters (UTF-16), or an error. */
int64_t v8_string_length(struct v8_heap *h, uint64_t string);
/* malloc'ed UTF-8. */
int v8_string(struct v8_heap *h, uint64_t string, char **ret);
