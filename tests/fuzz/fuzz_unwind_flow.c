/* SPDX-License-Identifier: Apache-2.0
 *
 * Code of anybody's making, followed: a byte that says how much of it is known otherwise, then the code, which is all the memory that
 * there is for tables of jumps. What comes out are rules that the walker can apply, each beginning where an instruction does, and the
 * time it takes has a bound.
 */
#include "exporter/parser/unwind/unwind_flow.h"
#include "lib/base/cleanup.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VADDR = 0x401000 };
struct memory {
	const uint8_t *code;
	size_t n;
};

static const uint8_t *memory_at(void *ctx, uint64_t vaddr, size_t *ret_n)
{
	const struct memory *m = ctx;

	if (vaddr < VADDR || vaddr - VADDR >= m->n)
		return NULL;
	*ret_n = m->n - (vaddr - VADDR);
	return m->code + (vaddr - VADDR);
}

static void check(const struct unwind_flow *f, size_t at)
{
	unsigned number = unwind_flow_at(f, at);
	struct unwind_rule rule;

	if (!number || number == UNWIND_FLOW_NO_FP)
		return;
	rule = unwind_flow_rule(f, number);
	ASSERT(rule.off >= 8);
	ASSERT(rule.fp != UNWIND_AT_CFA || rule.fp_off <= -16);
	ASSERT(rule.bx != UNWIND_AT_CFA || rule.bx_off <= -16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct unwind_flow *f;
	struct memory m;
	struct unwind_flow_code code = {.vaddr = VADDR, .data = memory_at, .ctx = &m};
	uint8_t *copy;

	if (!f)
		f = unwind_flow_new();
	if (!size || !f)
		return 0;
	m = (struct memory) {copy = malloc(size), size - 1};
	memcpy(copy, data + 1, size - 1);
	code.code = m.code = copy;
	code.n = m.n;
	if (unwind_flow_begin(f, &code) == 0) {
		if (data[0] & 1)
			unwind_flow_take(f, data[0] >> 1, 16);
		unwind_flow_run(f);
		for (size_t at = 0; at < code.n; at++)
			check(f, at);
	}
	free(copy);
	return 0;
}
