/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods and machine code of a Java VM, as far as hotspot_vm.h knows where things are. A VM moves neither; it gives both back when a class
 * or a compilation is not needed any more.
 */
#pragma once
#include "exporter/interp/hotspot_vm.h"

/* Classes are thrown away by a collection, and their memory is used again by and by. */
#define HOTSPOT_KEEP_NS 100000000LL

extern const struct interp_machine_reader hotspot_machine;

/* The method at the address `object`. Its lines are those of its bytecode (interp.h: read_code). */
int hotspot_read_code(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t object, uint64_t context, struct interp_code *ret);
/* position: index in its bytecode. */
uint32_t hotspot_line(const struct interp_code *c, uint32_t position);
/* The VM of a process: the one that is kept, or `own`, read now. 0, or an error of hotspot_vm_read. */
int hotspot_vm_of(const struct interp_memory *m, const struct runtime_record *r,
	struct hotspot_vm *own, const struct hotspot_vm **ret);
/* Of the method at `object` in that VM, as hotspot_read_code. */
int hotspot_read_method(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t object,
	struct interp_code *ret);
/* How many bytes of a ConstMethod, from HOTSPOT_CHECK_FROM on, the check of its method is made of. */
uint16_t hotspot_check_bytes(const struct hotspot_vm *vm);
enum { HOTSPOT_CHECK_FROM = 8 };

/* UNSIGNED5 (hotspot/share/utilities/unsigned5.hpp): digits of base 64, of which those below 192 end a number. */
enum hotspot_numbers {
	HOTSPOT_NUMBERS,	/* up to 19 */
	HOTSPOT_NUMBERS_BIASED, /* from 20 on no byte is 0 */
};
struct hotspot_stream {
	const uint8_t *pos, *end;
	uint8_t bias; /* enum hotspot_numbers */
	bool is_over; /* there was no number, or none that is well-formed */
};
uint32_t hotspot_number(struct hotspot_stream *s);
enum hotspot_numbers hotspot_numbers_of(const struct hotspot_vm *vm);
