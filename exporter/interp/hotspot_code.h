/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of a Java VM's machine code: what kind it is, and of compiled code the methods and bytecodes that its addresses stand for
 * (hotspot/share/code: CodeBlob, nmethod, PcDesc, ScopeDesc).
 */
#pragma once
#include "exporter/interp/hotspot.h"

enum {
	HOTSPOT_MAX_PCS = 1 << 16,
	HOTSPOT_MAX_SCOPES_BYTES = 1 << 20,
	HOTSPOT_MAX_METHODS = 1024,  /* in it */
	HOTSPOT_MAX_INDEX = 1 << 16, /* of one among all that the code names */
	HOTSPOT_MAX_DEPTH = 256,     /* of them in one another */
	HOTSPOT_MAX_CODE_BYTES = 64 << 20,
};

struct hotspot_pc {
	int32_t code;  /* bytes from the start of the instructions */
	int32_t scope; /* where its innermost method is described; 0: nowhere */
};

struct hotspot_method {
	uint32_t index; /* in the code's own list, from 1 on */
	struct interp_code code;
};

struct hotspot_code {
	uint64_t blob, start, end; /* addresses: of the blob, its instructions, where both end */
	char stub[64];		   /* what code that is not compiled is called; "": it is */
	uint64_t method;
	uint32_t compile_id;
	struct interp_code own; /* its method */
	struct hotspot_pc *pcs; /* ascending */
	size_t n_pcs;
	uint8_t *scopes;
	size_t scopes_bytes;
	enum hotspot_numbers numbers;
	struct hotspot_method *methods; /* of its scopes, by index */
	size_t n_methods, cap_methods;
};
void hotspot_code_done(struct hotspot_code *c);
#define _cleanup_hotspot_code_ _cleanup_(hotspot_code_done)

/*
 * The code around the address `pc`, which may be what its last call returns to. `check` is what the kernel half took of compiled code. 0; -ENOENT: there is no
 * code; -EAGAIN: it is other code than that, or changed; -EBADMSG, -EFBIG, -ENOMEM, or the error of reading.
 */
int hotspot_code_read(const struct interp_memory *m, const struct hotspot_vm *vm, uint64_t pc,
	uint64_t check, struct hotspot_code *ret);
/* Does it still lie there? 0; -EAGAIN: no; or the error of reading. */
int hotspot_code_is_still(
	const struct interp_memory *m, const struct hotspot_vm *vm, const struct hotspot_code *c);

struct hotspot_scope {
	const struct interp_code *method;
	uint32_t position; /* in its bytecode */
};
/* The methods of an address of compiled code, leaf first: how many there are, of which at most `max` are in ret. The last of these is the outermost. */
size_t hotspot_code_scopes(
	const struct hotspot_code *c, uint64_t pc, struct hotspot_scope *ret, size_t max);
