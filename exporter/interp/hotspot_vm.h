/* SPDX-License-Identifier: Apache-2.0
 *
 * A Java VM (HotSpot 8 to 27) as its own tables describe it (hotspot/share/runtime/vmStructs.cpp): where its code heaps are, and where its
 * structures have their fields. Names of types and fields are in the file, so that the parser finds the rows of the tables (exporter/symfile/
 * hotspot.h). Values of rows are read from the live process: in many versions constructors fill them. The process may say anything, so
 * that each value is bounded here.
 */
#pragma once
#include "exporter/interp/interp.h"
#include "exporter/symfile/hotspot.h"

enum {
	HOTSPOT_HEAPS = 3,	   /* segments of the code cache; one in old or small VMs */
	HOTSPOT_MAX_STRUCT = 1024, /* of all offsets below; bytes */
};
/* A field that this version does not have. */
#define HOTSPOT_NONE RUNTIME_NO_FIELD

/* Where an nmethod has one of its parts. */
enum hotspot_part_by {
	HOTSPOT_PART_NONE,
	HOTSPOT_PART_OFFSET,  /* an s32 at `field`: bytes from the start of the blob */
	HOTSPOT_PART_POINTER, /* a pointer at `field` */
	HOTSPOT_PART_IMMUTABLE, /* an s32 at `field`: bytes from what the pointer at vm.nm_immutable leads to */
	HOTSPOT_PART_MUTABLE, /* an s32 at `field`: bytes from what the pointer at vm.nm_mutable leads to */
};
struct hotspot_part {
	uint16_t by, field;
};

struct hotspot_heap {
	uint64_t low, high; /* reserved for code */
	uint64_t
		segmap; /* a byte for each segment: 0 a block begins; 255 free; else so many segments back, at least */
};

/* Offsets in bytes in the struct that their name begins with. */
struct hotspot_vm {
	uint64_t bias; /* of the process that it was read from; 0 and major 0: nothing was read */
	uint32_t major;
	uint32_t n_heaps;
	struct hotspot_heap heaps[HOTSPOT_HEAPS];
	uint64_t interpreter, interpreter_end; /* its machine code */
	uint64_t
		entry; /* what Java code returns to where C++ called it (StubRoutines::_call_stub_return_address) */
	uint16_t segment_shift; /* of a segment's bytes */
	uint16_t block_bytes;	/* of the header of a block in a heap; the blob follows */
	/* CodeBlob. */
	uint16_t blob_name, blob_size, blob_frame_size, blob_frame_complete;
	uint16_t blob_frame_complete_bytes; /* 2 or 4 */
	uint16_t blob_kind;		    /* u8; HOTSPOT_NONE: the name says the kind */
	uint8_t kind_nmethod;		    /* its value there for an nmethod */
	struct hotspot_part blob_code;	    /* OFFSET or POINTER: of the instructions */
	/* nmethod. */
	uint16_t nm_method, nm_compile_id, nm_immutable, nm_mutable, nm_orig_pc;
	uint16_t nm_immutable_bytes; /* s32 */
	struct hotspot_part nm_deopt, nm_scopes_data, nm_scopes_pcs, nm_scopes_pcs_end, nm_metadata;
	/* Method, ConstMethod, ConstantPool, InstanceKlass, Klass, Symbol. */
	uint16_t method_const;
	uint16_t const_bytes, const_constants, const_code_size, const_flags, const_name,
		const_signature;
	uint32_t const_has_lines; /* mask of the u16 (8 to 20) or u32 const_flags */
	uint16_t const_flags_bytes;
	uint16_t pool_bytes, pool_holder,
		pool_source; /* pool_source: u16; HOTSPOT_NONE: klass_source */
	uint16_t klass_source, klass_name;
	uint16_t symbol_length, symbol_body;
};

/*
 * Reads it: 0; -EAGAIN: the VM has not come so far; -EBADMSG: values are out of all bounds, or of another version than any that is known; or the
 * error of reading. ret is written on success only.
 */
int hotspot_vm_read(
	const struct interp_memory *m, const struct runtime_record *r, struct hotspot_vm *ret);

/* What tells an nmethod from others that lay at its place: what the kernel half sends as `check` (struct abi_code). */
static inline uint64_t hotspot_check(uint64_t method, uint32_t compile_id)
{
	return method << 16 | (uint16_t)compile_id;
}
