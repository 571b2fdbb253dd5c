/* SPDX-License-Identifier: Apache-2.0
 *
 * A VM's own numbers, checked against what bpf/interp/hotspot.h reads.
 */
#include "exporter/interp/hotspot_rows.h"
#include "exporter/interp/hotspot.h"
#include "lib/base/cleanup.h"

enum {
	WORD_BYTES = 8,
	METHOD_CONST = 8, /* in all versions */
	CONST_CHECK = 8,  /* of a ConstMethod: behind its fingerprint */
	POSITION_OF_8 = 56,
	POSITION = 64, /* below the frame pointer; from 9 on the class lies above it */
};

_Static_assert((int)INTERP_HOTSPOT_HEAPS == (int)HOTSPOT_HEAPS, "one row for each");

/* A field of what is read at once. */
static bool fits(uint16_t off, uint16_t bytes)
{
	return off <= INTERP_HOTSPOT_BLOB_BYTES - bytes && off % bytes == 0;
}

static bool set_layout(const struct hotspot_vm *vm, struct interp_layout *ret)
{
	*ret = (struct interp_layout) {
		.kind = INTERP_HOTSPOT,
		.code_check = METHOD_CONST,
		.code_check_bytes = WORD_BYTES,
		.code_name = METHOD_CONST,
		.name_check = CONST_CHECK,
		.name_check_bytes = hotspot_check_bytes(vm),
		.interp_generation = INTERP_NO_FIELD,
	};
	return vm->method_const == METHOD_CONST && ret->name_check_bytes % WORD_BYTES == 0 &&
	       ret->name_check_bytes >= 2 * WORD_BYTES && ret->name_check_bytes <= 6 * WORD_BYTES;
}

bool hotspot_rows_of(const struct hotspot_vm *vm, struct interp_layout *ret_layout,
	struct interp_hotspot *ret_hotspot)
{
	bool code_is_offset = vm->blob_code.by == HOTSPOT_PART_OFFSET,
	     deopt_is_offset = vm->nm_deopt.by == HOTSPOT_PART_OFFSET;
	struct interp_hotspot h = {
		.interpreter = vm->interpreter,
		.interpreter_bytes = vm->interpreter_end - vm->interpreter,
		.entry = vm->entry,
		.segment_shift = vm->segment_shift,
		.block_bytes = vm->block_bytes,
		.frame_size = vm->blob_frame_size,
		.frame_complete = vm->blob_frame_complete,
		.frame_complete_bytes = vm->blob_frame_complete_bytes,
		.code = vm->blob_code.field,
		.code_is_offset = code_is_offset,
		.deopt = vm->nm_deopt.field,
		.deopt_is_offset = deopt_is_offset,
		.method = vm->nm_method,
		.compile_id = vm->nm_compile_id,
		.frame_pc = vm->nm_orig_pc,
		.position = vm->major == 8 ? POSITION_OF_8 : POSITION,
		.bytecodes = vm->const_bytes,
		.size = vm->blob_size,
	};

	for (uint32_t i = 0; i < vm->n_heaps; i++) {
		h.heaps[i].low = vm->heaps[i].low;
		h.heaps[i].bytes = vm->heaps[i].high - vm->heaps[i].low;
		h.heaps[i].segments = vm->heaps[i].segmap;
	}
	*ret_hotspot = h;
	return set_layout(vm, ret_layout) && fits(h.frame_size, 4) &&
	       fits(h.frame_complete, h.frame_complete_bytes) &&
	       fits(h.code, code_is_offset ? 4 : 8) && fits(h.deopt, deopt_is_offset ? 4 : 8) &&
	       fits(h.method, 8) && fits(h.size, 4) && h.compile_id % 4 == 0 && h.frame_pc % 4 == 0;
}
