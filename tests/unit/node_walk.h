/* SPDX-License-Identifier: Apache-2.0
 *
 * A walker of the JavaScript stack of a stopped Node.js process, x86-64: what the kernel half does with frame pointers, here in the
 * process's memory. Native frames are left out: V8 links the frame by which JavaScript called C++ to the one by which C++ entered
 * JavaScript again.
 */
#pragma once
#include "tests/unit/node_truth.h"
#include "tests/unit/nodes.h"
#include <stdio.h>
#include <elf.h>
#include <sys/user.h>

enum { MAX_MAPS = 4096, MAX_PHYSICAL = 4096, ENTRY_EXIT = 64, LEAF_SCAN_WORDS = 16 };

enum code_kind { CODE_NATIVE, CODE_BUILTIN, CODE_GENERATED };

struct code_map {
	uint64_t start, end;
	int64_t to_vaddr; /* of the file, INT64_MIN: anonymous, or another file's */
};

struct node {
	pid_t pid;
	int mem;
	char link[64]; /* to its program */
	struct runtime_record r;
	struct interp_memory m;
	struct v8_scripts scripts;
	struct code_map maps[MAX_MAPS];
	size_t n_maps;
};

static inline int node_read(void *arg, uint64_t addr, void *to, size_t bytes)
{
	const struct node *p = arg;

	return pread(p->mem, to, bytes, (off_t)addr) == (ssize_t)bytes ? 0 : -EFAULT;
}

static inline uint64_t node_word(struct node *p, uint64_t addr)
{
	uint64_t v = 0;

	return node_read(p, addr, &v, sizeof(v)) == 0 ? v : 0;
}

/* Where executable memory is, and what of it is the program's file. */
static inline void node_read_maps(struct node *p, const struct elf_file *f)
{
	char path[64], line[4096], own[4096];
	ssize_t n;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/exe", p->pid);
	n = readlink(path, own, sizeof(own) - 1);
	own[n > 0 ? n : 0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid);
	maps = fopen(path, "re");
	p->n_maps = 0;
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end, off;
		char perms[8], file[2048] = "";
		struct code_map *m = &p->maps[p->n_maps];

		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %2047s", &start, &end, perms, &off,
			    file) < 4 ||
			perms[2] != 'x' || p->n_maps == MAX_MAPS)
			continue;
		*m = (struct code_map) {start, end, INT64_MIN};
		if (file[0] && strcmp(file, own) != 0)
			continue; /* a library: native */
		for (size_t i = 0; file[0] && i < f->n_loads; i++)
			if (f->loads[i].flags & PF_X &&
				off + (end - start) > f->loads[i].file_off &&
				off < f->loads[i].file_off + f->loads[i].file_bytes)
				m->to_vaddr = (int64_t)(f->loads[i].vaddr - f->loads[i].file_off +
							off - start);
		p->n_maps++;
	}
	if (maps)
		fclose(maps);
}

static inline enum code_kind node_classify(const struct node *p, uint64_t pc)
{
	for (size_t i = 0; i < p->n_maps; i++) {
		const struct code_map *m = &p->maps[i];
		uint64_t vaddr;

		if (pc < m->start || pc >= m->end)
			continue;
		if (m->to_vaddr == INT64_MIN)
			return CODE_GENERATED;
		vaddr = pc + (uint64_t)m->to_vaddr;
		return vaddr >= p->r.addresses[V8_BUILTINS] &&
				       vaddr < p->r.addresses[V8_BUILTINS_END]
			       ? CODE_BUILTIN
			       : CODE_NATIVE;
	}
	return CODE_NATIVE;
}

static inline void show_builtin(
	struct node *p, struct js_stack *s, uint64_t fp, uint64_t shared, uint64_t pc)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	uint64_t position = node_word(p, fp - p->r.offsets[V8_FRAME_POSITION]);
	bool has_position = !(uint32_t)position;
	int error = v8_read_code(&p->m, &p->r, shared, 0, &c);

	show_error(s, error, pc);
	if (error < 0)
		return;
	position = (position >> 32) - (p->r.offsets[V8_BYTECODE_START] - 1U);
	show(s, &c, has_position ? v8_place(&c, (uint32_t)position) : (struct v8_place) {0, 0},
		c.file[0] ? SHOWN_INTERPRETED : SHOWN_BUILTIN, pc, 0);
}

static inline int show_generated(
	struct node *p, struct js_stack *s, uint64_t pc, uint64_t shared, bool is_return)
{
	_cleanup_v8_code_ struct v8_code c = {0};
	struct v8_frame frames[V8_MAX_DEPTH];
	int error = v8_read_machine_code(&p->m, &p->r, pc, shared, &c);
	size_t n = error < 0 ? 0 : v8_code_frames(&c, pc, is_return, frames, V8_MAX_DEPTH);

	if (error != -ENOENT || !shared)
		show_error(s, error, pc);
	for (size_t i = 0; i < MIN(n, (size_t)V8_MAX_DEPTH); i++)
		show(s, frames[i].function, frames[i].place,
			c.is_baseline ? SHOWN_BASELINE
			: i + 1 < n   ? SHOWN_INLINED
				      : SHOWN_OPTIMIZED,
			pc, c.start);
	return error;
}

/* The address of the frame's SharedFunctionInfo. */
static inline uint64_t frame_shared(struct node *p, uint64_t fp)
{
	uint64_t function = node_word(p, fp - V8_FRAME_FUNCTION);

	return (function & 3) == 1
		       ? node_word(p, function - 1 + p->r.offsets[V8_FUNCTION_SHARED]) - 1
		       : 0;
}

static inline bool is_marker(uint64_t word)
{
	return !(word & 1);
}

/* The frame by which JavaScript called the C++ that entered here; 0: C++ is the outermost. */
static inline uint64_t exit_before(struct node *p, uint64_t entry)
{
	uint64_t at = node_word(p, entry - ENTRY_EXIT);

	return at > entry && is_marker(node_word(p, at - V8_FRAME_CONTEXT)) ? at : 0;
}

/* Frames from the one at `fp` on, which has reached `pc`. */
static inline void walk_from(
	struct node *p, struct js_stack *s, uint64_t pc, uint64_t fp, bool is_return)
{
	for (unsigned i = 0; i < MAX_PHYSICAL; i++, is_return = true) {
		uint64_t context = node_word(p, fp - V8_FRAME_CONTEXT);

		if (!context)
			return;
		if (is_marker(context) && context >> 1 <= V8_MARKER_CONSTRUCT_ENTRY) {
			fp = exit_before(p, fp);
			if (!fp) {
				s->is_whole = true;
				return;
			}
		} else if (!is_marker(context)) {
			uint64_t shared = frame_shared(p, fp);

			/* Under --interpreted-frames-native-stack the interpreter is copied for each function. */
			if (node_classify(p, pc) != CODE_GENERATED ||
				show_generated(p, s, pc, shared, is_return) == -ENOENT)
				show_builtin(p, s, fp, shared, pc);
		}
		pc = node_word(p, fp + 8);
		fp = node_word(p, fp);
	}
}

static const uint8_t node_prologue[] = {0x55, 0x48, 0x89, 0xe5}; /* push %rbp; mov %rsp,%rbp */

/* Behind `mov %rsp,%rbp`, before the context and the function are pushed, their places hold what was there before. */
static inline bool has_slots(const struct user_regs_struct *regs)
{
	return regs->rsp <= regs->rbp - V8_FRAME_FUNCTION;
}

/* Machine code whose frame is not built yet, or gone again. */
static inline void walk_generated_leaf(
	struct node *p, struct js_stack *s, const struct user_regs_struct *regs)
{
	_cleanup_v8_code_ struct v8_code c = {0};
	uint64_t pc = regs->rip, before = 0, shared = 0;
	uint8_t code[64], at = 0;
	const uint8_t *push = NULL;

	node_read(p, pc, &at, 1);
	if (v8_find_machine_code(&p->m, &p->r, pc, &c) == 0 &&
		node_read(p, c.start, code, sizeof(code)) == 0)
		push = memmem(code, sizeof(code), node_prologue, sizeof(node_prologue));
	if (push)
		before = c.start + (uint64_t)(push - code);
	if ((pc <= before + 1 || !has_slots(regs)) && (regs->rdi & 3) == 1)
		shared = node_word(p, regs->rdi - 1 + p->r.offsets[V8_FUNCTION_SHARED]) - 1;
	if (pc <= before || at == 0xc3 || at == 0xc2) {
		show_generated(p, s, pc, shared, false);
		walk_from(p, s, node_word(p, regs->rsp), regs->rbp, true);
	} else if (pc == before + 1) {
		show_generated(p, s, pc, shared, false);
		walk_from(p, s, node_word(p, regs->rsp + 8), node_word(p, regs->rsp), true);
	} else if (!has_slots(regs)) {
		show_generated(p, s, pc, shared, false);
		walk_from(p, s, node_word(p, regs->rbp + 8), node_word(p, regs->rbp), true);
	} else {
		walk_from(p, s, pc, regs->rbp, false);
	}
}

static inline void node_walk(
	struct node *p, struct js_stack *s, const struct user_regs_struct *regs)
{
	uint64_t pc = regs->rip;

	s->is_native_leaf = node_classify(p, pc) == CODE_NATIVE;
	s->is_builtin_leaf = node_classify(p, pc) == CODE_BUILTIN;
	if (s->is_native_leaf)
		return;
	if (!s->is_builtin_leaf) {
		walk_generated_leaf(p, s, regs);
		return;
	}
	if (!has_slots(regs) && regs->rsp <= regs->rbp) {
		walk_from(p, s, node_word(p, regs->rbp + 8), node_word(p, regs->rbp), true);
		return;
	}
	/* A builtin without a frame was called by what the frame pointer belongs to. */
	for (unsigned i = 0; i < LEAF_SCAN_WORDS && regs->rsp + 8ULL * i < regs->rbp; i++) {
		uint64_t word = node_word(p, regs->rsp + 8ULL * i);

		if (node_classify(p, word) == CODE_GENERATED) {
			walk_from(p, s, word, regs->rbp, true);
			return;
		}
	}
	walk_from(p, s, pc, regs->rbp, false);
}
