/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind rows of Go programs: for every instruction the runtime's table has the distance of the stack pointer below its place at the
 * call, stripped or not. Functions on another stack than their caller are walked by the frame pointer, which Go keeps.
 */
#include "exporter/parser/unwind/unwind.h"

bool unwind_go_switches_stacks(const char *name)
{
	static const char *const names[] = {"runtime.systemstack", "runtime.mcall",
		"runtime.asmcgocall", "runtime.asmcgocall_no_g", "runtime.morestack",
		"runtime.morestack_noctxt", "runtime.cgocallback", "runtime.nanotime1",
		"runtime.walltime", "time.now", "runtime.sigfwd"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]);

		/* newer programs add the calling convention: runtime.nanotime1.abi0 */
		if (strncmp(name, names[i], n) == 0 && (!name[n] || strcmp(name + n, ".abi0") == 0))
			return true;
	}
	return false;
}

bool unwind_go_is_trampoline(const char *name)
{
	return strncmp(name, "runtime.sigreturn", 17) == 0;
}

/*
 * Where a goroutine or the program begins. Not runtime.mstart, where Go's own tracebacks end: below it is what made the thread,
 * runtime.clone or C.
 */
static bool is_root(const char *name)
{
	return strncmp(name, "runtime.goexit", 14) == 0 ||
	       strncmp(name, "runtime.rt0_go", 14) == 0 || strncmp(name, "_rt0_", 5) == 0;
}

size_t unwind_go_child(const struct cfi_machine *m, const char *name, const uint8_t *code, size_t n)
{
	/* store the result at 0x30 of the stack, return */
	static const uint8_t x86[] = {0x89, 0x44, 0x24, 0x30, 0xc3};
	static const uint8_t arm64[] = {0xe0, 0x33, 0, 0xb9, 0xc0, 0x03, 0x5f, 0xd6};
	const uint8_t *parent = m->ra_is_reg ? arm64 : x86, *found;
	size_t bytes = m->ra_is_reg ? sizeof(arm64) : sizeof(x86);

	if (strcmp(name, "runtime.clone") != 0 && strcmp(name, "runtime.clone.abi0") != 0)
		return 0;
	found = memmem(code, n, parent, bytes);
	return found ? (size_t)(found - code) + bytes : 0;
}

static void set_rule(const struct cfi_machine *m, int64_t depth, struct unwind_rule *ret)
{
	*ret = (struct unwind_rule) {.reg = m->sp, .ra = UNWIND_AT_CFA};
	if (depth < 0 || depth > INT32_MAX - 16) {
		*ret = (struct unwind_rule) {.cfa = UNWIND_CFA_UNKNOWN};
	} else if (
		m->ra_is_reg) { /* arm64: {frame pointer, return address} from 8 bytes below sp on */
		ret->off = (int32_t)depth;
		ret->ra = depth ? UNWIND_AT_SP : UNWIND_IN_REG;
		ret->ra_off = depth ? 0 : m->ra;
		ret->fp = depth ? UNWIND_AT_SP : UNWIND_SAME;
		ret->fp_off = depth ? -8 : 0;
	} else {
		ret->off = (int32_t)depth + 8;
		ret->ra_off = -8;
		ret->fp = depth ? UNWIND_AT_CFA : UNWIND_SAME;
		ret->fp_off = depth ? -16 : 0;
	}
	/* Go has no registers that a function must keep. */
	ret->bx = ret->cfa == UNWIND_CFA_UNKNOWN ? UNWIND_SAME : UNWIND_GONE;
}

static bool is_last(const struct go_table *t, struct cursor stack)
{
	uint64_t pc = 0;
	int64_t value = 0;

	return !elf_go_next_value(t, &stack, false, &pc, &value);
}

bool unwind_go_run(const struct cfi_machine *m, const struct go_table *t,
	const struct go_function *fn, cfi_row_fn row, void *ctx)
{
	struct cursor stack = fn->stack;
	bool switches = unwind_go_switches_stacks(fn->name);
	uint64_t pc = fn->start, begin;
	int64_t depth = -1;
	struct unwind_rule rule;

	if (is_root(fn->name)) {
		rule = (struct unwind_rule) {.ra = UNWIND_GONE};
		row(ctx, fn->start, &rule);
		return true;
	}
	for (begin = pc;
		begin < fn->end && elf_go_next_value(t, &stack, begin == fn->start, &pc, &depth);
		begin = pc) {
		set_rule(m, depth, &rule);
		/* but for the instructions before there is a frame */
		if (switches && (depth || begin != fn->start || is_last(t, stack)))
			rule = (struct unwind_rule) {.cfa = UNWIND_CFA_FP};
		row(ctx, begin, &rule);
		if (pc <= begin)
			return false;
	}
	return begin > fn->start;
}
