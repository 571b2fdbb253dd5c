/* SPDX-License-Identifier: Apache-2.0
 *
 * HotSpot in an ELF file: the rows of its tables by their names. Names of the same thing differ between versions.
 */
#include "exporter/parser/runtime/hotspot.h"
#include "exporter/parser/elf/elf_image.h"
#include "exporter/parser/runtime/runtime_symbols.h"
#include "exporter/symfile/hotspot.h"

enum { MAX_ROWS = 4096, MAX_NAME = 128 };

/* Of one row: where it stands, by the table, the type and the field; NULL: not needed. */
struct row_name {
	uint8_t row, table; /* enum hotspot_row, hotspot_table */
	const char *type, *field, *field_type;
};

#define FIELD(row, type, field)                         \
	{                                               \
		row, HOTSPOT_STRUCTS, type, field, NULL \
	}
static const struct row_name names[] = {
	FIELD(HOTSPOT_HEAPS_LIST, "CodeCache", "_heaps"),
	FIELD(HOTSPOT_HEAP_ALONE, "CodeCache", "_heap"),
	FIELD(HOTSPOT_HEAP_MEMORY, "CodeHeap", "_memory"),
	FIELD(HOTSPOT_HEAP_SEGMENTS, "CodeHeap", "_segmap"),
	FIELD(HOTSPOT_HEAP_SHIFT, "CodeHeap", "_log2_segment_size"),
	FIELD(HOTSPOT_SPACE_LOW_BOUNDARY, "VirtualSpace", "_low_boundary"),
	FIELD(HOTSPOT_SPACE_HIGH_BOUNDARY, "VirtualSpace", "_high_boundary"),
	FIELD(HOTSPOT_SPACE_LOW, "VirtualSpace", "_low"),
	FIELD(HOTSPOT_ARRAY_LENGTH, "GrowableArrayBase", "_len"),
	FIELD(HOTSPOT_ARRAY_LENGTH, "GenericGrowableArray", "_len"),
	FIELD(HOTSPOT_ARRAY_DATA, "GrowableArray<int>", "_data"),
	FIELD(HOTSPOT_BLOB_NAME, "CodeBlob", "_name"),
	FIELD(HOTSPOT_BLOB_SIZE, "CodeBlob", "_size"),
	FIELD(HOTSPOT_BLOB_FRAME_SIZE, "CodeBlob", "_frame_size"),
	{HOTSPOT_BLOB_FRAME_COMPLETE, HOTSPOT_STRUCTS, "CodeBlob", "_frame_complete_offset", "int"},
	{HOTSPOT_BLOB_FRAME_COMPLETE_16, HOTSPOT_STRUCTS, "CodeBlob", "_frame_complete_offset",
		"int16_t"},
	FIELD(HOTSPOT_BLOB_CODE, "CodeBlob", "_code_begin"),
	FIELD(HOTSPOT_BLOB_CODE_OFFSET, "CodeBlob", "_code_offset"),
	FIELD(HOTSPOT_BLOB_KIND, "CodeBlob", "_kind"),
	FIELD(HOTSPOT_BLOB_RELOCATION_BYTES, "CodeBlob", "_relocation_size"),
	FIELD(HOTSPOT_BLOB_MUTABLE, "CodeBlob", "_mutable_data"),
	FIELD(HOTSPOT_NMETHOD_METHOD, "nmethod", "_method"),
	FIELD(HOTSPOT_NMETHOD_METHOD, "CompiledMethod", "_method"),
	FIELD(HOTSPOT_NMETHOD_COMPILE_ID, "nmethod", "_compile_id"),
	FIELD(HOTSPOT_NMETHOD_ORIG_PC, "nmethod", "_orig_pc_offset"),
	FIELD(HOTSPOT_NMETHOD_DEOPT, "CompiledMethod", "_deopt_handler_begin"),
	FIELD(HOTSPOT_NMETHOD_DEOPT, "nmethod", "_deopt_handler_begin"),
	FIELD(HOTSPOT_NMETHOD_DEOPT_OFFSET, "nmethod", "_deoptimize_offset"),
	FIELD(HOTSPOT_NMETHOD_DEOPT_OFFSET, "nmethod", "_deopt_handler_offset"),
	FIELD(HOTSPOT_NMETHOD_DEOPT_OFFSET, "nmethod", "_deopt_handler_entry_offset"),
	FIELD(HOTSPOT_NMETHOD_SCOPES, "CompiledMethod", "_scopes_data_begin"),
	FIELD(HOTSPOT_NMETHOD_SCOPES_OFFSET, "nmethod", "_scopes_data_offset"),
	FIELD(HOTSPOT_NMETHOD_PCS_OFFSET, "nmethod", "_scopes_pcs_offset"),
	FIELD(HOTSPOT_NMETHOD_DEPENDENCIES_OFFSET, "nmethod", "_dependencies_offset"),
	/* In 23 and 24 it is a u2, from elsewhere. */
	{HOTSPOT_NMETHOD_METADATA_OFFSET, HOTSPOT_STRUCTS, "nmethod", "_metadata_offset", "int"},
	FIELD(HOTSPOT_NMETHOD_IMMUTABLE, "nmethod", "_immutable_data"),
	FIELD(HOTSPOT_NMETHOD_IMMUTABLE_BYTES, "nmethod", "_immutable_data_size"),
	FIELD(HOTSPOT_METHOD_CONST, "Method", "_constMethod"),
	FIELD(HOTSPOT_CONST_CONSTANTS, "ConstMethod", "_constants"),
	FIELD(HOTSPOT_CONST_CODE_SIZE, "ConstMethod", "_code_size"),
	FIELD(HOTSPOT_CONST_FLAGS, "ConstMethod", "_flags"),
	FIELD(HOTSPOT_CONST_FLAGS_32, "ConstMethod", "_flags._flags"),
	FIELD(HOTSPOT_CONST_NAME, "ConstMethod", "_name_index"),
	FIELD(HOTSPOT_CONST_SIGNATURE, "ConstMethod", "_signature_index"),
	FIELD(HOTSPOT_POOL_HOLDER, "ConstantPool", "_pool_holder"),
	FIELD(HOTSPOT_POOL_SOURCE, "ConstantPool", "_source_file_name_index"),
	FIELD(HOTSPOT_KLASS_SOURCE, "InstanceKlass", "_source_file_name_index"),
	FIELD(HOTSPOT_KLASS_NAME, "Klass", "_name"),
	FIELD(HOTSPOT_SYMBOL_LENGTH, "Symbol", "_length"),
	FIELD(HOTSPOT_SYMBOL_BODY, "Symbol", "_body"),
	FIELD(HOTSPOT_SYMBOL_BODY, "Symbol", "_body[0]"),
	FIELD(HOTSPOT_INTERPRETER, "AbstractInterpreter", "_code"),
	FIELD(HOTSPOT_STUBS_BUFFER, "StubQueue", "_stub_buffer"),
	FIELD(HOTSPOT_STUBS_LIMIT, "StubQueue", "_buffer_limit"),
	FIELD(HOTSPOT_ENTRY, "StubRoutines", "_call_stub_return_address"),
	FIELD(HOTSPOT_MAJOR, "Abstract_VM_Version", "_vm_major_version"),
	{HOTSPOT_BLOCK_BYTES, HOTSPOT_TYPES, "HeapBlock", NULL, NULL},
	{HOTSPOT_CONST_BYTES, HOTSPOT_TYPES, "ConstMethod", NULL, NULL},
	{HOTSPOT_POOL_BYTES, HOTSPOT_TYPES, "ConstantPool", NULL, NULL},
	{HOTSPOT_HAS_LINES, HOTSPOT_INTS, "ConstMethod::_has_linenumber_table", NULL, NULL},
	{HOTSPOT_HAS_LINES, HOTSPOT_INTS, "ConstMethodFlags::_misc_has_linenumber_table", NULL,
		NULL},
	{HOTSPOT_KIND_NMETHOD, HOTSPOT_INTS, "CodeBlobKind::Nmethod", NULL, NULL},
};
#undef FIELD

/* Rows of which each version has one. */
static const struct {
	uint8_t one, other;
} needed[] = {
	{HOTSPOT_HEAPS_LIST, HOTSPOT_HEAP_ALONE},
	{HOTSPOT_HEAP_MEMORY, HOTSPOT_HEAP_MEMORY},
	{HOTSPOT_HEAP_SEGMENTS, HOTSPOT_HEAP_SEGMENTS},
	{HOTSPOT_HEAP_SHIFT, HOTSPOT_HEAP_SHIFT},
	{HOTSPOT_BLOB_FRAME_SIZE, HOTSPOT_BLOB_FRAME_SIZE},
	{HOTSPOT_BLOB_FRAME_COMPLETE, HOTSPOT_BLOB_FRAME_COMPLETE_16},
	{HOTSPOT_BLOB_CODE, HOTSPOT_BLOB_CODE_OFFSET},
	{HOTSPOT_NMETHOD_METHOD, HOTSPOT_NMETHOD_METHOD},
	{HOTSPOT_NMETHOD_SCOPES, HOTSPOT_NMETHOD_SCOPES_OFFSET},
	{HOTSPOT_NMETHOD_METADATA_OFFSET, HOTSPOT_BLOB_MUTABLE},
	{HOTSPOT_METHOD_CONST, HOTSPOT_METHOD_CONST},
	{HOTSPOT_CONST_CONSTANTS, HOTSPOT_CONST_CONSTANTS},
	{HOTSPOT_KLASS_NAME, HOTSPOT_KLASS_NAME},
	{HOTSPOT_SYMBOL_BODY, HOTSPOT_SYMBOL_BODY},
	{HOTSPOT_INTERPRETER, HOTSPOT_INTERPRETER},
	{HOTSPOT_ENTRY, HOTSPOT_ENTRY},
	{HOTSPOT_BLOCK_BYTES, HOTSPOT_BLOCK_BYTES},
	{HOTSPOT_CONST_BYTES, HOTSPOT_CONST_BYTES},
	{HOTSPOT_POOL_BYTES, HOTSPOT_POOL_BYTES},
};

static const struct {
	const char *symbol;
	uint16_t bytes; /* of a row */
} tables[N_HOTSPOT_TABLES] = {
	[HOTSPOT_STRUCTS] = {"gHotSpotVMStructs", HOTSPOT_STRUCT_BYTES},
	[HOTSPOT_TYPES] = {"gHotSpotVMTypes", HOTSPOT_TYPE_BYTES},
	[HOTSPOT_INTS] = {"gHotSpotVMIntConstants", HOTSPOT_INT_BYTES},
};

/* The text at an address; NULL: it is none that we look for. Not much is looked at, as there may be many rows. */
static const char *name_at(const struct elf_image *image, uint64_t vaddr, size_t *ret_n)
{
	struct cursor c = elf_image_at(image, vaddr);
	size_t max = MIN(cursor_left(&c), (size_t)MAX_NAME);
	const uint8_t *nul = max ? memchr(c.pos, 0, max) : NULL;

	if (!nul)
		return NULL;
	*ret_n = (size_t)(nul - c.pos);
	return (const char *)c.pos;
}

/* Is that pointer one to this text? wanted NULL: to any. */
static bool is_text(struct elf_image *image, uint64_t at, const char *wanted)
{
	size_t n;
	const char *s;

	if (!wanted)
		return true;
	s = name_at(image, elf_image_pointer(image, at), &n);
	return s && n == strlen(wanted) && memcmp(s, wanted, n) == 0;
}

static void read_row(struct elf_image *image, uint32_t table, uint64_t at, uint16_t i,
	const char *type, size_t n, uint16_t *rows)
{
	for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
		const struct row_name *w = &names[k];

		if (w->table == table && n == strlen(w->type) && memcmp(type, w->type, n) == 0 &&
			rows[w->row] == RUNTIME_NO_FIELD && is_text(image, at + 8, w->field) &&
			is_text(image, at + 16, w->field_type))
			rows[w->row] = i;
	}
}

/* The last row has no name. False: the table has no end. */
static bool read_table(
	struct elf_image *image, uint32_t table, uint64_t start, struct runtime_record *ret)
{
	for (uint16_t i = 0; i < MAX_ROWS; i++) {
		uint64_t at = start + (uint64_t)i * tables[table].bytes,
			 name = elf_image_pointer(image, at);
		size_t n;
		const char *type = name ? name_at(image, name, &n) : NULL;

		if (!name)
			return i > 0;
		if (type)
			read_row(image, table, at, i, type, n, ret->offsets);
	}
	return false;
}

/* 8 and others write it when they start: it is not known then. */
static enum runtime_refusal read_version(struct elf_image *image, struct runtime_record *ret)
{
	uint16_t row = ret->offsets[HOTSPOT_MAJOR];
	uint64_t at;
	struct cursor c;
	uint32_t major;

	if (row == RUNTIME_NO_FIELD)
		return RUNTIME_NOT_REFUSED;
	at = ret->addresses[HOTSPOT_STRUCTS] + (uint64_t)row * HOTSPOT_STRUCT_BYTES;
	c = elf_image_at(image, elf_image_pointer(image, at + HOTSPOT_STRUCT_ADDRESS));
	major = cursor_u32(&c);
	if (c.error || !major)
		return RUNTIME_NOT_REFUSED;
	if (major < HOTSPOT_MIN_MAJOR || major > HOTSPOT_MAX_MAJOR)
		return RUNTIME_UNKNOWN_VERSION;
	ret->version = RUNTIME_VERSION(major, 0, 0);
	return RUNTIME_NOT_REFUSED;
}

static enum runtime_refusal read_tables(
	struct elf_image *image, const struct runtime_symbol *symbols, struct runtime_record *ret)
{
	for (uint32_t i = 0; i < N_HOTSPOT_TABLES; i++) {
		ret->addresses[i] = symbols[i].addr ? elf_image_pointer(image, symbols[i].addr) : 0;
		if (!ret->addresses[i] || !read_table(image, i, ret->addresses[i], ret))
			return RUNTIME_NO_METADATA;
	}
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (ret->offsets[needed[i].one] == RUNTIME_NO_FIELD &&
			ret->offsets[needed[i].other] == RUNTIME_NO_FIELD)
			return RUNTIME_NO_METADATA;
	return read_version(image, ret);
}

bool hotspot_detect(const struct elf_file *f, struct runtime_record *ret)
{
	_cleanup_elf_image_ struct elf_image image = {0};
	struct runtime_symbol symbols[N_HOTSPOT_TABLES] = {0};

	for (size_t i = 0; i < N_HOTSPOT_TABLES; i++)
		symbols[i].name = tables[i].symbol;
	runtime_symbols_find(f, f->dynsym, symbols, N_HOTSPOT_TABLES);
	if (!symbols[HOTSPOT_STRUCTS].addr)
		return false;
	*ret = (struct runtime_record) {.kind = RUNTIME_HOTSPOT};
	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		ret->offsets[i] = RUNTIME_NO_FIELD;
	if (elf_image_open(f, &image) < 0)
		ret->refusal = RUNTIME_NO_METADATA;
	else
		ret->refusal = (uint16_t)read_tables(&image, symbols, ret);
	return true;
}
