/* SPDX-License-Identifier: Apache-2.0
 *
 * A second opinion on stacks: a parser child walks copies of them with elfutils, from the files that they lead through and
 * nothing of our own tables.
 *
 * A request is, little-endian: u32 modules, u32 stacks; for each module u32 file (its number among the inputs behind the
 * request), u32 length of the build id, u64 address and u64 file offset of an executable mapping of it, SYMBOL_BUILD_ID_MAX
 * bytes of build id; for each stack u64 pc, ABI_N_REGS u64 registers, u32 bytes, u32 0, and so many bytes from the stack
 * pointer up. The answer has for each stack u32 enum parser_walk_end, u32 frames, the same two up to the first frame that has
 * no row, and so many u64: a pc, with PARSER_WALK_ACTIVATION where it is no return address.
 *
 * Where no row covers the code elfutils goes on by frame pointer. That proves nothing by itself, so such frames count only
 * when the walk reaches the root of the stack: a chain that went astray does not.
 */
#pragma once
#include "bpf/abi.h"
#include "exporter/parser/parser.h"
#include "lib/base/bytes.h"
#include "lib/base/cursor.h"

enum {
	PARSER_WALK_MAX_STACKS = 32,
	PARSER_WALK_MAX_FRAMES = 4096, /* of a stack; it ends as if its copy did */
};
#define PARSER_WALK_ACTIVATION (1ULL << 63)

/* Where elfutils stopped. */
enum parser_walk_end {
	PARSER_WALK_ROOT, /* the last frame's rule says that there is no caller; without a row its frame pointer is 0 */
	PARSER_WALK_NULL,    /* the last frame's return address is 0 */
	PARSER_WALK_COPY,    /* what it needed next is not in the copy */
	PARSER_WALK_NO_FILE, /* no file that it has holds the code */
	PARSER_WALK_NO_CFI,  /* none of the file's rows covers the code */
	PARSER_WALK_FAILED,  /* it gave up */
	PARSER_WALK_N_ENDS,
};

struct parser_walk_module {
	uint32_t file; /* number among the inputs, from 0 */
	uint32_t build_id_len;
	uint64_t start, file_off;
	uint8_t build_id[SYMBOL_BUILD_ID_MAX];
};

struct parser_walk {
	enum parser_walk_end end, end_of_rows;
	uint32_t n,
		n_by_rows; /* frames, and those before the first that was found by frame pointer */
	struct cursor frames; /* in the answer */
};

/* Appends a request. Errors stick in `b`. */
void parser_walk_put(struct bytes *b, const struct parser_walk_module *modules, uint32_t n_modules,
	const struct abi_stack *const *stacks, uint32_t n_stacks);
/* The next stack of an answer; -EBADMSG when it is none. */
int parser_walk_next(struct cursor *answer, struct parser_walk *ret) _must_check_;

/* Does elfutils lose its way above that function? Go's .debug_frame knows nothing of how it leaves its stack. */
bool parser_walk_leads_astray(const char *function);

/* What the child runs: in_fd holds the request, `files` are the inputs behind it, the answer goes to out_fd. -EBADMSG,
 * -ENOMEM. */
int parser_walk(
	int in_fd, const int *files, size_t n_files, int out_fd, struct errbuf *eb) _must_check_;
