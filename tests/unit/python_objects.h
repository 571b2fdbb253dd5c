/* SPDX-License-Identifier: Apache-2.0
 *
 * A process of CPython for tests: a code object and what it points to, in a piece of memory that a test may spoil.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/symfile/python.h"
#include <errno.h>
#include <string.h>

/* A process of a few objects, laid as 3.12 has them. */
enum {
	BASE = 0x7f0000000000,
	CODE_TYPE = 0x1000,
	STR_TYPE = 0x2000,
	BYTES_TYPE = 0x3000,
	BIAS = 0x550000000000,
	CODE = 0x000,
	NAME = 0x200,
	FILE_NAME = 0x400,
	LINES = 0x600,
	OTHER_NAME = 0x800,
};
static const struct runtime_record python_record = {
	.kind = RUNTIME_PYTHON,
	.version = RUNTIME_VERSION(3, 12, 0),
	.addresses = {[PYTHON_CODE_TYPE] = CODE_TYPE,
		[PYTHON_STR_TYPE] = STR_TYPE,
		[PYTHON_BYTES_TYPE] = BYTES_TYPE},
	.offsets = {[PYTHON_CODE_FIRST_LINE] = 68,
		[PYTHON_CODE_FILE] = 112,
		[PYTHON_CODE_NAME] = 120,
		[PYTHON_CODE_QUALNAME] = 128,
		[PYTHON_CODE_LINES] = 136,
		[PYTHON_CODE_START] = 192,
		[PYTHON_OBJECT_TYPE] = 8,
		[PYTHON_STR_LENGTH] = 16,
		[PYTHON_STR_STATE] = 32,
		[PYTHON_STR_ASCII] = 40,
		[PYTHON_STR_COMPACT] = 56,
		[PYTHON_BYTES_LENGTH] = 16,
		[PYTHON_BYTES_DATA] = 32},
};

struct fake {
	uint8_t bytes[0x1000];
	unsigned n_reads, fails_at, changes_at; /* which read, from 1 on; 0: none */
	struct interp_memory m;
};

static void put(struct fake *k, uint32_t at, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		k->bytes[at + i] = (uint8_t)(v >> (8 * i));
}

static int read_fake(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct fake *k = arg;

	k->n_reads++;
	if (k->n_reads == k->changes_at) /* the object's name is another */
		put(k, CODE + 128, BASE + OTHER_NAME, 8);
	if (k->n_reads == k->fails_at || addr < BASE || addr - BASE > sizeof(k->bytes) ||
		bytes > sizeof(k->bytes) - (addr - BASE))
		return -EFAULT;
	memcpy(to, k->bytes + (addr - BASE), bytes);
	return 0;
}

static void put_text(struct fake *k, uint32_t at, const char *text)
{
	enum { ASCII = 1 << 6 | 1 << 5 | 1 << 2 };

	put(k, at, 1, 8);
	put(k, at + 8, STR_TYPE + BIAS, 8);
	put(k, at + 16, strlen(text), 8);
	put(k, at + 32, ASCII, 4);
	memcpy(k->bytes + at + 40, text, strlen(text));
}

static void fake_init(struct fake *k)
{
	static const uint8_t lines[] = {
		0x80 | 0 << 3 | 1, 0x11,		 /* 2 units of line 10 */
		0x80 | 11 << 3 | 0, 0x00, 0x00,		 /* 1 of line 11 */
		0x80 | 15 << 3 | 3,			 /* 4 of none */
		0x80 | 13 << 3 | 0, 0x05,		 /* 1 of line 9 */
		0x80 | 14 << 3 | 7, 0x62, 0x01, 0, 1, 1, /* 8 of line 58 */
	};

	*k = (struct fake) {.m = {.read = read_fake, .bias = BIAS}};
	k->m.arg = k;
	put(k, CODE, 3, 8);
	put(k, CODE + 8, CODE_TYPE + BIAS, 8);
	put(k, CODE + 68, 10, 4);
	put(k, CODE + 112, BASE + FILE_NAME, 8);
	put(k, CODE + 120, BASE + OTHER_NAME, 8);
	put(k, CODE + 128, BASE + NAME, 8);
	put(k, CODE + 136, BASE + LINES, 8);
	put_text(k, NAME, "Class.method");
	put_text(k, OTHER_NAME, "method");
	put_text(k, FILE_NAME, "/srv/app.py");
	put(k, LINES, 1, 8);
	put(k, LINES + 8, BYTES_TYPE + BIAS, 8);
	put(k, LINES + 16, sizeof(lines), 8);
	memcpy(k->bytes + LINES + 32, lines, sizeof(lines));
}
