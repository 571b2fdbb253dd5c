/* SPDX-License-Identifier: Apache-2.0
 *
 * CPython's code objects: name, file, first line and table of lines. An object counts when its type is PyCode_Type and its count of
 * references can be one: when its memory is given back, a free list takes the place of one of them. Its fields are read a second time
 * at the end, so that what was read between belongs to it.
 */
#include "exporter/interp/python.h"
#include "exporter/interp/python_lines.h"
#include "exporter/interp/text.h"
#include "exporter/symfile/python.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"

/* Of a str, in all versions: what hash() gives. Names of code objects are interned, so that they have it. */
enum { STR_HASH = 24 };

enum {
	MAX_HEAD_BYTES = 256, /* of an object, up to the last field that is read */
	POINTER_BYTES = 8,
	MAX_LENGTH = 1 << 30,
};
#define ADDRESS_MAX (1ULL << 52) /* of user space */

/* State of a str: 2 bits interned, then these. */
enum { STR_KIND_SHIFT = 2, STR_KIND_MASK = 7, STR_IS_COMPACT = 1 << 5, STR_IS_ASCII = 1 << 6 };

/* The beginning of an object. */
struct head {
	uint8_t bytes[MAX_HEAD_BYTES];
	size_t n;
};

static uint64_t field(const struct head *h, uint16_t off, unsigned bytes)
{
	struct cursor c = cursor_of(h->bytes, h->n);

	cursor_skip(&c, off);
	return cursor_le(&c, bytes);
}

/*
 * Memory that was given back holds the address of the next free block in place of the count. The count has 32 bits; what is above
 * them is 16 bits of overflow, which are 0, and from 3.14 on flags.
 */
static bool is_counted(const struct head *h)
{
	uint64_t count = field(h, 0, POINTER_BYTES);

	return (uint32_t)count && !(count >> 32 & 0xffff);
}

/* The first n bytes of an object of that type (0: of any). */
static int read_object(const struct interp_memory *m, const struct runtime_record *r,
	enum python_address type, uint64_t addr, size_t n, struct head *ret)
{
	uint64_t type_addr = r->addresses[type];
	int error;

	if (!addr || addr % POINTER_BYTES || addr >= ADDRESS_MAX)
		return -ENOENT;
	if (n > sizeof(ret->bytes))
		return -EBADMSG;
	error = m->read(m->arg, addr, ret->bytes, n);
	if (error < 0)
		return error;
	ret->n = n;
	if (!is_counted(ret) || (type_addr && field(ret, r->offsets[PYTHON_OBJECT_TYPE],
						      POINTER_BYTES) != type_addr + m->bias))
		return -ENOENT;
	return 0;
}

/* `kind` bytes a character. is_clipped: there are more behind them. */
static char *to_utf8(const uint8_t *from, size_t n, unsigned kind, bool is_clipped)
{
	struct cursor c = cursor_of(from, n * kind);
	struct interp_text text = {.n = 0};

	while (cursor_left(&c) && interp_text_put(&text, (uint32_t)cursor_le(&c, kind)))
		;
	if (is_clipped)
		interp_text_clip(&text);
	return interp_text_take(&text);
}

/* malloc'ed UTF-8 of a str. */
static int read_text(
	const struct interp_memory *m, const struct runtime_record *r, uint64_t addr, char **ret)
{
	uint8_t data[INTERP_MAX_TEXT_BYTES * 4];
	uint16_t text_off;
	uint32_t state, kind;
	uint64_t length;
	struct head h;
	size_t n;
	int error = read_object(m, r, PYTHON_STR_TYPE, addr, r->offsets[PYTHON_STR_STATE] + 4U, &h);

	if (error < 0)
		return error;
	state = (uint32_t)field(&h, r->offsets[PYTHON_STR_STATE], 4);
	length = field(&h, r->offsets[PYTHON_STR_LENGTH], POINTER_BYTES);
	kind = state >> STR_KIND_SHIFT & STR_KIND_MASK;
	if (!(state & STR_IS_COMPACT) || (kind != 1 && kind != 2 && kind != 4) ||
		(state & STR_IS_ASCII && kind != 1) || length > MAX_LENGTH)
		return -EBADMSG;
	n = MIN(length, INTERP_MAX_TEXT_BYTES);
	text_off = r->offsets[state & STR_IS_ASCII ? PYTHON_STR_ASCII : PYTHON_STR_COMPACT];
	error = n ? m->read(m->arg, addr + text_off, data, n * kind) : 0;
	if (error < 0)
		return error;
	*ret = to_utf8(data, n, kind, n < length);
	return 0;
}

static enum python_lines lines_format(const struct runtime_record *r)
{
	uint32_t minor = RUNTIME_MINOR(r->version);

	return minor < 10    ? PYTHON_LINES_LNOTAB
	       : minor == 10 ? PYTHON_LINES_RANGES
			     : PYTHON_LINES_LOCATIONS;
}

static int read_lines(const struct interp_memory *m, const struct runtime_record *r, uint64_t addr,
	struct interp_code *ret)
{
	uint16_t length_off = r->offsets[PYTHON_BYTES_LENGTH];
	uint64_t length;
	struct head h;
	int error =
		read_object(m, r, PYTHON_BYTES_TYPE, addr, length_off + (size_t)POINTER_BYTES, &h);

	if (error < 0)
		return error;
	length = field(&h, length_off, POINTER_BYTES);
	if (length > MAX_LENGTH)
		return -EBADMSG;
	if (length > INTERP_MAX_LINES_BYTES)
		return 0;
	ret->lines = try_malloc(length + 1);
	if (!ret->lines)
		return -ENOMEM;
	error = length ? m->read(m->arg, addr + r->offsets[PYTHON_BYTES_DATA], ret->lines, length)
		       : 0;
	if (error < 0)
		return error;
	ret->lines_bytes = length;
	ret->lines_format = lines_format(r);
	return 0;
}

/* Where the fields of a code object that its name comes from end. */
static size_t fields_end(const struct runtime_record *r)
{
	static const enum python_offset pointers[] = {
		PYTHON_CODE_FILE, PYTHON_CODE_NAME, PYTHON_CODE_QUALNAME, PYTHON_CODE_LINES};
	size_t n = r->offsets[PYTHON_CODE_FIRST_LINE] + sizeof(uint32_t);

	for (size_t i = 0; i < ARRAY_SIZE(pointers); i++)
		if (r->offsets[pointers[i]] != RUNTIME_NO_FIELD)
			n = MAX(n, r->offsets[pointers[i]] + (size_t)POINTER_BYTES);
	return n;
}

/*
 * All words from the first line to the last of those fields. From 3.12 on they hold co_version, which no two objects of an interpreter
 * share; before, pointers, which an object that is made like the last one often shares, so that the name itself is to be looked at.
 */
void python_check_of(const struct runtime_record *r, struct interp_layout *ret)
{
	size_t from = r->offsets[PYTHON_CODE_FIRST_LINE] & ~(sizeof(uint64_t) - 1);

	ret->code_check = (uint16_t)from;
	ret->code_check_bytes = (uint16_t)(fields_end(r) - from);
	ret->code_name = ret->name_check = INTERP_NO_FIELD;
	ret->name_check_bytes = 0;
	if (RUNTIME_MINOR(r->version) >= 12)
		return;
	ret->code_name = r->offsets[PYTHON_CODE_NAME];
	ret->name_check = STR_HASH;
	ret->name_check_bytes = sizeof(uint64_t);
}

/* As the kernel half does it. */
static int read_check(const struct interp_memory *m, const struct runtime_record *r,
	const struct head *h, uint64_t *ret)
{
	struct interp_layout l;
	uint64_t check = 0, word;
	int error;

	python_check_of(r, &l);
	for (unsigned i = 0; i < l.code_check_bytes / sizeof(word); i++)
		check = interp_check_add(
			check, field(h, (uint16_t)(l.code_check + i * sizeof(word)), sizeof(word)));
	if (l.code_name != INTERP_NO_FIELD) {
		error = m->read(m->arg, field(h, l.code_name, sizeof(word)) + l.name_check, &word,
			sizeof(word));
		if (error < 0)
			return error;
		check = interp_check_add(check, word);
	}
	*ret = check;
	return 0;
}

/* The fields of a code object that its name comes from; they never change while it lives. */
struct code_fields {
	uint64_t file, name, raw, lines, first_line, check;
};

static int read_fields(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t object, struct code_fields *ret)
{
	bool is_qualified = r->offsets[PYTHON_CODE_QUALNAME] != RUNTIME_NO_FIELD;
	struct head h;
	int error = read_object(m, r, PYTHON_CODE_TYPE, object, fields_end(r), &h);
	if (error < 0)
		return error;
	*ret = (struct code_fields) {
		.file = field(&h, r->offsets[PYTHON_CODE_FILE], POINTER_BYTES),
		.name = field(&h,
			r->offsets[is_qualified ? PYTHON_CODE_QUALNAME : PYTHON_CODE_NAME],
			POINTER_BYTES),
		.raw = field(&h, r->offsets[PYTHON_CODE_NAME], POINTER_BYTES),
		.lines = field(&h, r->offsets[PYTHON_CODE_LINES], POINTER_BYTES),
		.first_line = field(&h, r->offsets[PYTHON_CODE_FIRST_LINE], sizeof(uint32_t)),
	};
	return read_check(m, r, &h, &ret->check);
}

/* What an error of a part says of the whole: a part that is gone was another object's. */
static int part_error(int error)
{
	return error == -ENOENT ? -EAGAIN : error;
}

/* A frame that the interpreter puts below that of a constructor (3.12 and 3.13). Its code has one string for name and file. */
static void name_shim(struct interp_code *c)
{
	interp_code_done(c);
	c->name = xstrdup(INTERP_OWN_FRAME);
	c->file = xstrdup("");
}

int python_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	_unused_ uint64_t context, struct interp_code *ret)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	struct code_fields before, after;
	int error = read_fields(m, r, object, &before);

	if (error < 0)
		return error;
	error = read_text(m, r, before.name, &c.name);
	if (error == 0 && before.raw != before.name)
		error = read_text(m, r, before.raw, &c.raw);
	if (error == 0)
		error = read_text(m, r, before.file, &c.file);
	if (error == 0)
		error = read_lines(m, r, before.lines, &c);
	if (error == 0)
		error = read_fields(m, r, object, &after);
	if (error < 0)
		return part_error(error);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		return -EAGAIN;
	c.first_line = before.first_line <= INT32_MAX ? (uint32_t)before.first_line : 0;
	if (before.file == before.raw)
		name_shim(&c);
	c.check = hash_xxh3(&before, sizeof(before));
	c.kernel_check = before.check;
	if (c.raw && strcmp(c.raw, c.name) == 0) {
		free(c.raw);
		c.raw = NULL;
	}
	*ret = c;
	c = (struct interp_code) {0};
	return 0;
}

uint32_t python_line(const struct interp_code *c, uint32_t position)
{
	if (position == ABI_INTERP_AT_START)
		return c->first_line;
	if (position == ABI_INTERP_BEYOND)
		return 0;
	return python_lines_find((enum python_lines)c->lines_format, c->lines, c->lines_bytes,
		c->first_line, position);
}
