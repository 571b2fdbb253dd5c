/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the tables → numbers, pointers of the VM → its heaps, each with its bounds.
 */
#include "exporter/interp/hotspot_vm.h"
#include "lib/base/cleanup.h"
#include <errno.h>
#include <string.h>

#define MAX_ADDRESS (1ULL << 47)
#define MAX_HEAP_BYTES (4ULL << 30)
#define MAX_INTERPRETER_BYTES (64ULL << 20)
enum { MIN_SHIFT = 5, MAX_SHIFT = 12 };
/* Version 8 is the 25th of HotSpot, and says so. */
enum { MAJOR_OF_8 = 25 };

struct reading {
	const struct interp_memory *m;
	const struct runtime_record *r;
	int error; /* the first */
};

static bool has(const struct reading *v, enum hotspot_row row)
{
	return v->r->offsets[row] != RUNTIME_NO_FIELD;
}

static void fail(struct reading *v, int error)
{
	if (!v->error)
		v->error = error;
}

static void read_at(struct reading *v, uint64_t addr, void *to, size_t bytes)
{
	int e = v->error;

	if (!e && (addr < 4096 || addr >= MAX_ADDRESS))
		e = -EBADMSG;
	if (!e)
		e = v->m->read(v->m->arg, addr, to, bytes);
	if (e) {
		fail(v, e);
		memset(to, 0, bytes);
	}
}

static uint64_t word_at(struct reading *v, uint64_t addr)
{
	uint64_t ret;

	read_at(v, addr, &ret, sizeof(ret));
	return ret;
}

static uint32_t u32_at(struct reading *v, uint64_t addr)
{
	uint32_t ret;

	read_at(v, addr, &ret, sizeof(ret));
	return ret;
}

/* A pointer that the VM sets while it starts. */
static uint64_t pointer_at(struct reading *v, uint64_t addr)
{
	uint64_t ret = word_at(v, addr);

	if (!v->error && !ret)
		fail(v, -EAGAIN);
	if (ret >= MAX_ADDRESS)
		fail(v, -EBADMSG);
	return ret;
}

/* ---- rows ---- */

static uint64_t row_at(struct reading *v, enum hotspot_row row, enum hotspot_table table,
	uint32_t row_bytes, uint32_t off)
{
	if (!has(v, row))
		fail(v, -EBADMSG);
	return v->m->bias + v->r->addresses[table] + (uint64_t)v->r->offsets[row] * row_bytes + off;
}

/* An offset of a field of so many bytes; HOTSPOT_NONE where this version does not have it. */
static uint16_t field(struct reading *v, enum hotspot_row row, uint32_t bytes)
{
	uint64_t off;

	if (!has(v, row))
		return HOTSPOT_NONE;
	off = word_at(
		v, row_at(v, row, HOTSPOT_STRUCTS, HOTSPOT_STRUCT_BYTES, HOTSPOT_STRUCT_OFFSET));
	if (off > HOTSPOT_MAX_STRUCT || off % bytes)
		fail(v, -EBADMSG);
	return (uint16_t)off;
}

/* The same where no version is without. */
static uint16_t needed(struct reading *v, enum hotspot_row row, uint32_t bytes)
{
	if (!has(v, row))
		fail(v, -EBADMSG);
	return field(v, row, bytes);
}

/* The address of a static variable. Constructors write it, or the loader. */
static uint64_t variable(struct reading *v, enum hotspot_row row)
{
	return pointer_at(
		v, row_at(v, row, HOTSPOT_STRUCTS, HOTSPOT_STRUCT_BYTES, HOTSPOT_STRUCT_ADDRESS));
}

static uint16_t size_of(struct reading *v, enum hotspot_row row)
{
	uint64_t bytes =
		word_at(v, row_at(v, row, HOTSPOT_TYPES, HOTSPOT_TYPE_BYTES, HOTSPOT_TYPE_SIZE));

	/* Rows that constructors write. */
	if (!v->error && !bytes)
		fail(v, -EAGAIN);
	if (bytes > HOTSPOT_MAX_STRUCT || bytes % 8)
		fail(v, -EBADMSG);
	return (uint16_t)bytes;
}

static uint32_t constant(struct reading *v, enum hotspot_row row)
{
	return u32_at(v, row_at(v, row, HOTSPOT_INTS, HOTSPOT_INT_BYTES, HOTSPOT_INT_VALUE));
}

/* ---- structures ---- */

static struct hotspot_part part(struct reading *v, enum hotspot_row row, enum hotspot_part_by by)
{
	uint16_t at = field(v, row, by == HOTSPOT_PART_POINTER ? 8 : 4);

	return (struct hotspot_part) {at == HOTSPOT_NONE ? HOTSPOT_PART_NONE : by, at};
}

/* The first that this version has. */
static struct hotspot_part either(struct hotspot_part a, struct hotspot_part b)
{
	return a.by ? a : b;
}

static void read_blobs(struct reading *v, struct hotspot_vm *ret)
{
	bool is_short = has(v, HOTSPOT_BLOB_FRAME_COMPLETE_16);

	ret->block_bytes = size_of(v, HOTSPOT_BLOCK_BYTES);
	ret->blob_name = needed(v, HOTSPOT_BLOB_NAME, 8);
	ret->blob_size = needed(v, HOTSPOT_BLOB_SIZE, 4);
	ret->blob_frame_size = needed(v, HOTSPOT_BLOB_FRAME_SIZE, 4);
	ret->blob_frame_complete_bytes = is_short ? 2 : 4;
	ret->blob_frame_complete =
		needed(v, is_short ? HOTSPOT_BLOB_FRAME_COMPLETE_16 : HOTSPOT_BLOB_FRAME_COMPLETE,
			ret->blob_frame_complete_bytes);
	ret->blob_kind = field(v, HOTSPOT_BLOB_KIND, 1);
	ret->kind_nmethod =
		has(v, HOTSPOT_KIND_NMETHOD) ? (uint8_t)constant(v, HOTSPOT_KIND_NMETHOD) : 0;
	if (!has(v, HOTSPOT_KIND_NMETHOD))
		ret->blob_kind = HOTSPOT_NONE;
	ret->blob_code = either(part(v, HOTSPOT_BLOB_CODE, HOTSPOT_PART_POINTER),
		part(v, HOTSPOT_BLOB_CODE_OFFSET, HOTSPOT_PART_OFFSET));
}

/* No version is without, and what it goes through is there too. */
static void need_part(struct reading *v, const struct hotspot_vm *vm, struct hotspot_part p)
{
	if (p.by == HOTSPOT_PART_NONE ||
		(p.by == HOTSPOT_PART_IMMUTABLE && vm->nm_immutable == HOTSPOT_NONE) ||
		(p.by == HOTSPOT_PART_MUTABLE && vm->nm_mutable == HOTSPOT_NONE))
		fail(v, -EBADMSG);
}

static void read_nmethods(struct reading *v, struct hotspot_vm *ret)
{
	bool is_apart = has(v, HOTSPOT_NMETHOD_IMMUTABLE);

	ret->nm_method = needed(v, HOTSPOT_NMETHOD_METHOD, 8);
	ret->nm_compile_id = needed(v, HOTSPOT_NMETHOD_COMPILE_ID, 4);
	ret->nm_orig_pc = needed(v, HOTSPOT_NMETHOD_ORIG_PC, 4);
	ret->nm_deopt = either(part(v, HOTSPOT_NMETHOD_DEOPT, HOTSPOT_PART_POINTER),
		part(v, HOTSPOT_NMETHOD_DEOPT_OFFSET, HOTSPOT_PART_OFFSET));
	ret->nm_immutable = field(v, HOTSPOT_NMETHOD_IMMUTABLE, 8);
	ret->nm_immutable_bytes =
		is_apart ? needed(v, HOTSPOT_NMETHOD_IMMUTABLE_BYTES, 4) : HOTSPOT_NONE;
	ret->nm_mutable = field(v, HOTSPOT_BLOB_MUTABLE, 8);
	ret->nm_scopes_data = either(part(v, HOTSPOT_NMETHOD_SCOPES, HOTSPOT_PART_POINTER),
		part(v, HOTSPOT_NMETHOD_SCOPES_OFFSET,
			is_apart ? HOTSPOT_PART_IMMUTABLE : HOTSPOT_PART_OFFSET));
	ret->nm_scopes_pcs = part(v, HOTSPOT_NMETHOD_PCS_OFFSET,
		is_apart ? HOTSPOT_PART_IMMUTABLE : HOTSPOT_PART_OFFSET);
	ret->nm_scopes_pcs_end =
		is_apart ? ret->nm_scopes_data
			 : part(v, HOTSPOT_NMETHOD_DEPENDENCIES_OFFSET, HOTSPOT_PART_OFFSET);
	ret->nm_metadata = either(part(v, HOTSPOT_NMETHOD_METADATA_OFFSET, HOTSPOT_PART_OFFSET),
		part(v, HOTSPOT_BLOB_RELOCATION_BYTES, HOTSPOT_PART_MUTABLE));
	need_part(v, ret, ret->blob_code);
	need_part(v, ret, ret->nm_deopt);
	need_part(v, ret, ret->nm_scopes_data);
	need_part(v, ret, ret->nm_scopes_pcs);
	need_part(v, ret, ret->nm_scopes_pcs_end);
	need_part(v, ret, ret->nm_metadata);
}

static void read_methods(struct reading *v, struct hotspot_vm *ret)
{
	bool is_wide = has(v, HOTSPOT_CONST_FLAGS_32);

	ret->method_const = needed(v, HOTSPOT_METHOD_CONST, 8);
	ret->const_bytes = size_of(v, HOTSPOT_CONST_BYTES);
	ret->const_constants = needed(v, HOTSPOT_CONST_CONSTANTS, 8);
	ret->const_code_size = needed(v, HOTSPOT_CONST_CODE_SIZE, 2);
	ret->const_flags_bytes = is_wide ? 4 : 2;
	ret->const_flags = needed(
		v, is_wide ? HOTSPOT_CONST_FLAGS_32 : HOTSPOT_CONST_FLAGS, ret->const_flags_bytes);
	ret->const_has_lines = has(v, HOTSPOT_HAS_LINES) ? constant(v, HOTSPOT_HAS_LINES) : 1;
	ret->const_name = needed(v, HOTSPOT_CONST_NAME, 2);
	ret->const_signature = needed(v, HOTSPOT_CONST_SIGNATURE, 2);
	ret->pool_bytes = size_of(v, HOTSPOT_POOL_BYTES);
	ret->pool_holder = needed(v, HOTSPOT_POOL_HOLDER, 8);
	ret->pool_source = field(v, HOTSPOT_POOL_SOURCE, 2);
	ret->klass_source = field(v, HOTSPOT_KLASS_SOURCE, 2);
	if (!has(v, HOTSPOT_POOL_SOURCE) && !has(v, HOTSPOT_KLASS_SOURCE))
		fail(v, -EBADMSG);
	ret->klass_name = needed(v, HOTSPOT_KLASS_NAME, 8);
	ret->symbol_length = needed(v, HOTSPOT_SYMBOL_LENGTH, 2);
	ret->symbol_body = needed(v, HOTSPOT_SYMBOL_BODY, 1);
}

/* ---- the process ---- */

struct heap_fields {
	uint16_t memory, segments, shift, low_boundary, high_boundary, low;
};

static void read_heap(
	struct reading *v, const struct heap_fields *f, uint64_t heap, struct hotspot_vm *ret)
{
	struct hotspot_heap *h = &ret->heaps[ret->n_heaps];
	uint64_t low = pointer_at(v, heap + f->memory + f->low_boundary),
		 high = pointer_at(v, heap + f->memory + f->high_boundary);
	uint32_t shift = u32_at(v, heap + f->shift);

	h->segmap = pointer_at(v, heap + f->segments + f->low);
	h->low = low;
	h->high = high;
	if (v->error)
		return;
	if (high <= low || high - low > MAX_HEAP_BYTES || low % 4096 || shift < MIN_SHIFT ||
		shift > MAX_SHIFT || (ret->n_heaps && shift != ret->segment_shift))
		fail(v, -EBADMSG);
	ret->segment_shift = (uint16_t)shift;
	ret->n_heaps++;
}

static void read_heaps(struct reading *v, struct hotspot_vm *ret)
{
	const struct heap_fields f = {
		.memory = needed(v, HOTSPOT_HEAP_MEMORY, 8),
		.segments = needed(v, HOTSPOT_HEAP_SEGMENTS, 8),
		.shift = needed(v, HOTSPOT_HEAP_SHIFT, 4),
		.low_boundary = needed(v, HOTSPOT_SPACE_LOW_BOUNDARY, 8),
		.high_boundary = needed(v, HOTSPOT_SPACE_HIGH_BOUNDARY, 8),
		.low = needed(v, HOTSPOT_SPACE_LOW, 8),
	};
	uint64_t list, data;
	uint32_t n;

	if (!has(v, HOTSPOT_HEAPS_LIST)) {
		read_heap(v, &f, pointer_at(v, variable(v, HOTSPOT_HEAP_ALONE)), ret);
		return;
	}
	list = pointer_at(v, variable(v, HOTSPOT_HEAPS_LIST));
	n = u32_at(v, list + needed(v, HOTSPOT_ARRAY_LENGTH, 4));
	data = pointer_at(v, list + needed(v, HOTSPOT_ARRAY_DATA, 8));
	if (!v->error && !n)
		fail(v, -EAGAIN);
	if (n > HOTSPOT_HEAPS)
		fail(v, -EBADMSG);
	for (uint32_t i = 0; i < n && !v->error; i++)
		read_heap(v, &f, pointer_at(v, data + 8 * (uint64_t)i), ret);
}

static bool is_in_heap(const struct hotspot_vm *vm, uint64_t addr)
{
	for (uint32_t i = 0; i < vm->n_heaps; i++)
		if (addr >= vm->heaps[i].low && addr < vm->heaps[i].high)
			return true;
	return false;
}

static void read_code(struct reading *v, struct hotspot_vm *ret)
{
	uint64_t stubs = pointer_at(v, variable(v, HOTSPOT_INTERPRETER));
	uint32_t bytes;

	ret->interpreter = pointer_at(v, stubs + needed(v, HOTSPOT_STUBS_BUFFER, 8));
	bytes = u32_at(v, stubs + needed(v, HOTSPOT_STUBS_LIMIT, 4));
	ret->interpreter_end = ret->interpreter + bytes;
	ret->entry = pointer_at(v, variable(v, HOTSPOT_ENTRY));
	if (v->error)
		return;
	if (!bytes || bytes > MAX_INTERPRETER_BYTES || !is_in_heap(ret, ret->interpreter) ||
		!is_in_heap(ret, ret->interpreter_end - 1) || !is_in_heap(ret, ret->entry))
		fail(v, -EBADMSG);
}

static void read_major(struct reading *v, struct hotspot_vm *ret)
{
	uint32_t major = u32_at(v, variable(v, HOTSPOT_MAJOR));

	if (!v->error && !major)
		fail(v, -EAGAIN);
	/* From 9 on it is the JDK's. 25 has fields that 8 has not. */
	if (major == MAJOR_OF_8 && !has(v, HOTSPOT_HEAPS_LIST))
		major = HOTSPOT_MIN_MAJOR;
	if (major && (major < HOTSPOT_MIN_MAJOR || major > HOTSPOT_MAX_MAJOR))
		fail(v, -EBADMSG);
	ret->major = major;
}

int hotspot_vm_read(
	const struct interp_memory *m, const struct runtime_record *r, struct hotspot_vm *ret)
{
	struct reading v = {.m = m, .r = r};
	struct hotspot_vm vm = {.bias = m->bias};

	read_major(&v, &vm);
	read_blobs(&v, &vm);
	read_nmethods(&v, &vm);
	read_methods(&v, &vm);
	read_heaps(&v, &vm);
	read_code(&v, &vm);
	if (v.error)
		return v.error;
	*ret = vm;
	return 0;
}
