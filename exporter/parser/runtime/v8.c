/* SPDX-License-Identifier: Apache-2.0
 *
 * V8 in an ELF file. Its version and most of what its structures have are constants that it exports for debuggers. A version that was
 * not compared with live processes is refused, and so is one whose constants are others than those that the reader takes for granted.
 */
#include "exporter/parser/runtime/v8.h"
#include "exporter/parser/runtime/runtime_symbols.h"
#include "exporter/parser/runtime/v8_layouts.h"

enum { MAX_SYMBOLS = 96, LENGTHS_BY_SCALE = 3 };

enum own_symbol {
	MAJOR,
	MINOR,
	EMBEDDED,
	N_SIGNS,
	LENGTHS = N_SIGNS,
	/* Of builtins' code: only in the table for debuggers. What holds the code in one version is a pointer to it in another. */
	CODE_DATA,
	CODE,
	DATA,
	CODE_SIZE,
	SIZE,
	N_OWN
};

static const char *const own[N_OWN] = {
	[MAJOR] = "_ZN2v88internal7Version6major_E",
	[MINOR] = "_ZN2v88internal7Version6minor_E",
	/* Programs that embed V8 and hide all else export its interface. */
	[EMBEDDED] = "_ZN2v87Isolate10GetCurrentEv",
	[LENGTHS] = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE",
	[CODE_DATA] = "v8_Default_embedded_blob_code_data_", /* 9.x and 10.x */
	[CODE] = "v8_Default_embedded_blob_code_",
	[DATA] = "v8_Default_embedded_blob_data_", /* up to 8.x, where it has code too */
	[CODE_SIZE] = "v8_Default_embedded_blob_code_size_",
	[SIZE] = "v8_Default_embedded_blob_size_",
};

struct v8 {
	const struct elf_file *f;
	struct elf_image *image;
	struct runtime_record *ret;
	struct runtime_symbol symbols[MAX_SYMBOLS]; /* v8_symbols, then own */
	const struct runtime_symbol *own;
	bool has_metadata;
};

/* Most files are without: few names are looked for in all of their symbols, many only where these are. */
static bool find_symbols(struct v8 *v)
{
	size_t n = v8_n_symbols + N_OWN;

	ASSERT(n <= MAX_SYMBOLS);
	for (size_t i = 0; i < n; i++)
		v->symbols[i].name = i < v8_n_symbols ? v8_symbols[i].name : own[i - v8_n_symbols];
	v->own = v->symbols + v8_n_symbols;
	runtime_symbols_find(v->f, v->f->dynsym, v->symbols + v8_n_symbols, N_SIGNS);
	if (!v->own[MAJOR].addr && !v->own[EMBEDDED].addr)
		return false;
	runtime_symbols_find(v->f, v->f->dynsym, v->symbols, n);
	for (size_t i = 0; i < v8_n_symbols; i++)
		v->has_metadata |= v->symbols[i].addr != 0;
	/* From 13.x on the lengths are no symbol of the dynamic table either. */
	if (v->has_metadata)
		runtime_symbols_find(
			v->f, v->f->symtab, v->symbols + v8_n_symbols + LENGTHS, N_OWN - LENGTHS);
	return true;
}

static int32_t constant(const struct v8 *v, const struct runtime_symbol *s)
{
	struct cursor c = elf_image_at(v->image, s->addr);

	return (int32_t)cursor_u32(&c);
}

static enum runtime_refusal read_version(struct v8 *v)
{
	int32_t major, minor;

	if (!v->own[MAJOR].addr || !v->own[MINOR].addr)
		return RUNTIME_UNKNOWN_VERSION;
	major = constant(v, &v->own[MAJOR]);
	minor = constant(v, &v->own[MINOR]);
	if (major <= 0 || major > UINT8_MAX || minor < 0 || minor > UINT8_MAX)
		return RUNTIME_UNKNOWN_VERSION;
	v->ret->version = RUNTIME_VERSION(major, minor, 0);
	return RUNTIME_NOT_REFUSED;
}

/* The file's own numbers, where the table of the version has none. */
static enum runtime_refusal read_numbers(struct v8 *v, const uint16_t *layout)
{
	uint16_t *numbers = v->ret->offsets;

	memcpy(numbers, layout, N_V8_NUMBERS * sizeof(*layout));
	for (size_t i = 0; i < v8_n_symbols; i++) {
		const struct v8_symbol *s = &v8_symbols[i];
		int32_t value;

		if (!v->symbols[i].addr)
			continue;
		value = constant(v, &v->symbols[i]);
		if (s->what == V8_ALWAYS) {
			if (value != s->is_always)
				return strcmp(s->name, "v8dbg_TaggedSize") == 0
					       ? RUNTIME_COMPRESSED
					       : RUNTIME_UNLIKE_VERSION;
			continue;
		}
		if (value <= 0 || value >= RUNTIME_NO_FIELD)
			return RUNTIME_UNLIKE_VERSION;
		if (layout[s->what] == V8_BY_SYMBOL)
			numbers[s->what] = (uint16_t)value;
	}
	if (numbers[V8_TYPE_FUNCTION_LAST] == V8_BY_SYMBOL)
		numbers[V8_TYPE_FUNCTION_LAST] = numbers[V8_TYPE_FUNCTION];
	numbers[V8_BYTECODES] = V8_NONE;
	for (size_t i = 0; i < N_V8_NUMBERS; i++)
		if (numbers[i] == V8_BY_SYMBOL && i != V8_SCOPE_FLAGS_SHIFT && i != V8_LINES)
			return RUNTIME_UNLIKE_VERSION;
	return RUNTIME_NOT_REFUSED;
}

static void read_lengths(struct v8 *v)
{
	const struct runtime_symbol *s = &v->own[LENGTHS];

	if (!s->addr || !s->bytes || s->bytes % LENGTHS_BY_SCALE ||
		s->bytes / LENGTHS_BY_SCALE > UINT8_MAX)
		return; /* lines of baseline code are not known then */
	v->ret->addresses[V8_BYTECODE_LENGTHS] = s->addr;
	v->ret->offsets[V8_BYTECODES] = (uint16_t)(s->bytes / LENGTHS_BY_SCALE);
}

static void read_builtins(struct v8 *v)
{
	static const enum own_symbol codes[] = {CODE_DATA, CODE, DATA};
	const struct runtime_symbol *size = &v->own[v->own[CODE_SIZE].addr ? CODE_SIZE : SIZE];
	uint64_t at = 0;
	int32_t bytes = size->addr ? constant(v, size) : 0;

	for (size_t i = 0; !at && i < ARRAY_SIZE(codes); i++)
		at = v->own[codes[i]].addr;
	if (!at || bytes <= 0)
		return;
	v->ret->addresses[V8_BUILTINS] = at;
	v->ret->addresses[V8_BUILTINS_END] = at + (uint32_t)bytes;
}

static enum runtime_refusal read_layout(struct v8 *v)
{
	enum runtime_refusal refusal = read_version(v);
	const uint16_t *layout;

	if (refusal)
		return refusal;
	layout = v8_layout(v->ret->version);
	if (!layout)
		return RUNTIME_UNKNOWN_VERSION;
	refusal = read_numbers(v, layout);
	if (refusal)
		return refusal;
	read_lengths(v);
	read_builtins(v);
	return RUNTIME_NOT_REFUSED;
}

bool v8_detect(const struct elf_file *f, struct runtime_record *ret)
{
	_cleanup_elf_image_ struct elf_image image = {0};
	struct v8 v = {.f = f, .image = &image, .ret = ret};

	if (!find_symbols(&v))
		return false;
	*ret = (struct runtime_record) {.kind = RUNTIME_V8};
	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		ret->offsets[i] = RUNTIME_NO_FIELD;
	if (!v.has_metadata || elf_image_open(f, &image) < 0)
		ret->refusal = RUNTIME_NO_METADATA;
	else
		ret->refusal = (uint16_t)read_layout(&v);
	return true;
}
