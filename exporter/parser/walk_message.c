/* SPDX-License-Identifier: Apache-2.0
 *
 * main's side of a walk by elfutils: the request written, the answer read.
 */
#include "exporter/parser/walk.h"
#include "exporter/parser/unwind/unwind.h"

void parser_walk_put(struct bytes *b, const struct parser_walk_module *modules, uint32_t n_modules,
	const struct abi_stack *const *stacks, uint32_t n_stacks)
{
	bytes_put_u32(b, n_modules);
	bytes_put_u32(b, n_stacks);
	for (uint32_t i = 0; i < n_modules; i++) {
		bytes_put_u32(b, modules[i].file);
		bytes_put_u32(b, modules[i].build_id_len);
		bytes_put_u64(b, modules[i].start);
		bytes_put_u64(b, modules[i].file_off);
		bytes_put(b, modules[i].build_id, sizeof(modules[i].build_id));
	}
	for (uint32_t i = 0; i < n_stacks; i++) {
		bytes_put_u64(b, stacks[i]->pc);
		for (uint32_t k = 0; k < ABI_N_REGS; k++)
			bytes_put_u64(b, stacks[i]->regs[k]);
		bytes_put_u32(b, stacks[i]->bytes);
		bytes_put_u32(b, 0);
		bytes_put(b, stacks[i] + 1, stacks[i]->bytes);
	}
}

int parser_walk_next(struct cursor *answer, struct parser_walk *ret)
{
	uint32_t end = cursor_u32(answer), n = cursor_u32(answer);
	uint32_t end_of_rows = cursor_u32(answer), n_by_rows = cursor_u32(answer);

	if (end >= PARSER_WALK_N_ENDS || end_of_rows >= PARSER_WALK_N_ENDS ||
		n > PARSER_WALK_MAX_FRAMES || n_by_rows > n)
		cursor_fail(answer);
	*ret = (struct parser_walk) {
		.end = end, .end_of_rows = end_of_rows, .n = n, .n_by_rows = n_by_rows};
	ret->frames = cursor_sub(answer, answer->error ? 0 : (size_t)n * sizeof(uint64_t));
	return answer->error;
}

bool parser_walk_leads_astray(const char *function)
{
	return unwind_go_switches_stacks(function);
}
