/* SPDX-License-Identifier: Apache-2.0
 *
 * caml_frametable → points (lines of return addresses), functions with their module paths, and
 * inlined calls.
 */
#include "exporter/parser/debug/ocaml_frames.h"
#include "exporter/parser/elf/elf_image.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <stdlib.h>

enum {
	MAX_TABLES = 1 << 16,
	MAX_DESCRIPTORS = 8 << 20,
	MAX_INLINED = 32,
	MAX_NAME_BYTES = 4096,
	RETURN_TO_C = 0xffff, /* instead of a frame's size */
	HAS_DEBUG = 1,	      /* flags in it */
	HAS_ALLOCS = 2,
	IS_NOT_LAST = 1, /* flags in the first word of a location */
	OFFSET_MASK = 0x3fffffc,
};
#define PARTIALLY_PACKED 0x80000000U

struct location {
	const char *text; /* the function's name, with all modules */
	size_t text_bytes;
	uint32_t file, line, column;
};

struct frames {
	struct elf_image *image;
	const struct elf_rows *rows;
	struct debug_tables *t;
	bool ends_are_packed;	/* the location format of 5.2 and later */
	struct table functions; /* name id, file → function */
	struct table roots;	/* start of the function's row → its scope */
	struct bytes name;	/* the last one of put_name */
	uint32_t n_descriptors;
};

/* The words and, behind their offset, file and name. Two formats: that of 4.11 to 5.1, and that
 * of 5.2 with the end of the range as a difference, which has an unpacked form for what does not fit. */
static bool read_location(struct frames *f, uint64_t at, struct location *ret, bool *ret_last)
{
	struct cursor c = elf_image_at(f->image, at), info;
	uint32_t word1 = cursor_u32(&c), word2 = cursor_u32(&c), file_off;
	uint64_t info_at = at + (word1 & OFFSET_MASK), name_at = info_at + 4;
	size_t n = 0;
	const char *file;

	info = elf_image_at(f->image, info_at);
	file_off = cursor_u32(&info);
	*ret_last = !(word1 & IS_NOT_LAST);
	if (!f->ends_are_packed) {
		ret->line = word2 >> 12;
		ret->column = (word2 >> 4 & 0xff) + 1;
	} else if (word2 & PARTIALLY_PACKED) {
		ret->line = word2 >> 12 & 0x7ffff;
		ret->column = cursor_u16(&info) + 1U;
		name_at = info_at + 12;
	} else {
		ret->line = word2 >> 19;
		ret->column = (word2 >> 10 & 0x3f) + 1;
	}
	file = elf_image_string(
		f->image, info_at + (uint64_t)(int64_t)(int32_t)file_off, MAX_NAME_BYTES, &n);
	ret->text = elf_image_string(f->image, name_at, MAX_NAME_BYTES, &ret->text_bytes);
	if (c.error || info.error || !file || !ret->text)
		return false;
	ret->file = debug_tables_file(f->t, file, n);
	return true;
}

/* The name as users write it. What comes before the first dot is the compilation unit's, in which `__` stands
 * between a library and its module (ocaml's stdlib, dune); alone it is the module's initialisation. */
static void put_name(struct bytes *out, const char *text, size_t n)
{
	static const char executable[] = "Dune__exe__";
	const char *dot = memchr(text, '.', n), *end = text + n, *unit_end = dot ? dot : end;

	bytes_reset(out);
	if (n > strlen(executable) && str_starts_with(text, executable))
		text += strlen(executable);
	while (text < unit_end) {
		bool joint = unit_end - text > 2 && text[0] == '_' && text[1] == '_' &&
			     text[2] >= 'A' && text[2] <= 'Z';

		bytes_put_u8(out, joint ? '.' : (uint8_t)*text);
		text += joint ? 2 : 1;
	}
	bytes_put(out, unit_end, (size_t)(end - unit_end));
	if (!dot)
		bytes_put_str(out, " (init)");
}

static uint32_t function_of(struct frames *f, const struct location *l)
{
	const char *text;
	uint32_t name;
	bool is_new = false;
	uint64_t *slot;

	put_name(&f->name, l->text, l->text_bytes);
	text = (const char *)f->name.data;
	name = bytes_error(&f->name) < 0 ? INTERNER_NONE
					 : interner_add(&f->t->names, text, f->name.len, NULL);
	slot = name == INTERNER_NONE
		       ? NULL
		       : table_insert(&f->functions, (uint64_t)name << 32 | l->file, &is_new);
	if (!slot) {
		f->t->error = -ENOMEM;
		return 0;
	}
	if (is_new)
		*slot = debug_tables_function(f->t, text, f->name.len, l->file, 0, true);
	return (uint32_t)*slot;
}

static const struct elf_row *row_of(const struct elf_rows *rows, uint64_t vaddr)
{
	uint64_t rel = vaddr - rows->text_base;
	size_t low = 0, n = rows->n;

	if (!n || vaddr < rows->text_base)
		return NULL;
	while (n > 1) {
		size_t half = n / 2;

		low += rows->items[low + half].start <= rel ? half : 0;
		n -= half;
	}
	return rel >= rows->items[low].start && rel - rows->items[low].start < rows->items[low].size
		       ? &rows->items[low]
		       : NULL;
}

/* The scope of the function that the call lies in; it covers the whole of it. */
static uint32_t root_of(struct frames *f, uint64_t call, const struct location *outermost)
{
	const struct elf_row *row = row_of(f->rows, call);
	uint64_t start = row ? f->rows->text_base + row->start : call;
	bool is_new = false;
	uint64_t *slot = table_insert(&f->roots, start, &is_new);

	if (!slot) {
		f->t->error = -ENOMEM;
		return 0;
	}
	if (is_new) {
		*slot = debug_tables_scope(
			f->t, DEBUG_NO_SCOPE, function_of(f, outermost), DEBUG_NO_FILE, 0, 0);
		debug_tables_range(f->t, start, start + (row ? row->size : 1), (uint32_t)*slot);
	}
	return (uint32_t)*slot;
}

static void add_call(struct frames *f, uint64_t return_addr, uint64_t debug_at)
{
	struct location chain[MAX_INLINED];
	uint64_t call = return_addr - 1;
	uint32_t scope;
	unsigned n = 0;
	bool last = false;

	while (!last && n < MAX_INLINED &&
		read_location(f, debug_at + (uint64_t)n * 8, &chain[n], &last))
		n++;
	if (!n || !debug_tables_is_code(f->t, call, return_addr))
		return;
	debug_tables_point(f->t, call, chain[0].file, chain[0].line, chain[0].column);
	scope = root_of(f, call, &chain[n - 1]);
	for (unsigned i = n - 1; i-- > 0;)
		scope = debug_tables_scope(f->t, scope, function_of(f, &chain[i]),
			chain[i + 1].file, chain[i + 1].line, chain[i + 1].column);
	if (n > 1)
		debug_tables_range(f->t, call, return_addr, scope);
}

static uint64_t align(uint64_t at, uint64_t to)
{
	return (at + to - 1) / to * to;
}

/* One descriptor; returns where the next one is, 0 when this one is malformed. */
static uint64_t read_descriptor(struct frames *f, uint64_t at)
{
	uint64_t return_addr = elf_image_pointer(f->image, at), debug_at = 0;
	struct cursor c = elf_image_at(f->image, at);
	unsigned size, n_live, n_debug = 1;

	cursor_skip(&c, 8);
	size = cursor_u16(&c);
	n_live = cursor_u16(&c);
	at += 12;
	if (size != RETURN_TO_C) {
		cursor_skip(&c, (size_t)n_live * 2);
		at += (uint64_t)n_live * 2;
		if (size & HAS_ALLOCS) {
			n_debug = cursor_u8(&c);
			at += 1 + n_debug;
		}
		if (size & HAS_DEBUG) {
			at = align(at, 4);
			/* Of several allocations the first that is known. */
			for (unsigned i = 0; i < n_debug && !debug_at; i++) {
				struct cursor slot = elf_image_at(f->image, at + i * 4ULL);
				uint32_t off = cursor_u32(&slot);

				debug_at =
					off ? at + i * 4ULL + (uint64_t)(int64_t)(int32_t)off : 0;
			}
			at += n_debug * 4ULL;
		}
	}
	if (c.error)
		return 0;
	if (debug_at && return_addr)
		add_call(f, return_addr, debug_at);
	return align(at, 8);
}

static void read_table(struct frames *f, uint64_t at)
{
	struct cursor c = elf_image_at(f->image, at);
	uint64_t n = cursor_u64(&c);

	at += 8;
	for (uint64_t i = 0; i < n && at && !f->t->error; i++) {
		if (f->n_descriptors++ == MAX_DESCRIPTORS)
			at = 0;
		else
			at = read_descriptor(f, at);
	}
	f->t->n_left_out += !at;
}

int ocaml_frames_read_image(struct elf_image *image, const struct elf_symbols *symbols,
	const struct elf_rows *rows, struct debug_tables *t)
{
	struct frames f = {.image = image,
		.rows = rows,
		.t = t,
		.ends_are_packed = symbols->ocaml_has_effects && symbols->ocaml_has_compaction};

	table_init(&f.functions, NULL);
	table_init(&f.roots, NULL);
	bytes_init(&f.name, NULL, 0);
	for (uint64_t i = 0; i < MAX_TABLES && !t->error; i++) {
		uint64_t table = elf_image_pointer(image, symbols->ocaml_frametable + i * 8);

		if (!table)
			break;
		read_table(&f, table);
	}
	table_done(&f.functions);
	table_done(&f.roots);
	bytes_done(&f.name);
	return t->error;
}

int ocaml_frames_read(const struct elf_file *f, const struct elf_symbols *symbols,
	const struct elf_rows *rows, struct debug_tables *t)
{
	_cleanup_elf_image_ struct elf_image image = {.f = NULL};
	int r;

	if (!symbols->ocaml_frametable)
		return 0;
	r = elf_image_open(f, &image);
	return r < 0 ? r : ocaml_frames_read_image(&image, symbols, rows, t);
}
