/* SPDX-License-Identifier: Apache-2.0
 *
 * The row and the layout of a stopped Ruby, made from its file's record, and the walk over both kinds of frames as the kernel half does it.
 */
#pragma once
#include "bpf/interp/check.h"
#include "exporter/interp/rows.h"
#include "tests/unit/ruby_process.h"

enum { MAX_MIXED_FRAMES = 8192 };

static inline void ruby_layout(const struct ruby *p, struct interp_layout *l)
{
	assert_true(interp_layout_of(&p->r, l));
}

/* A process whose first thread has ended has no mappings to be read any more, though others of its threads may still run. */
static inline bool ruby_is_mapped(const struct ruby *p)
{
	static struct walk w;

	return unwind_locate(&w, p->r.addresses[RUBY_EXEC] + p->m.bias) == UNWIND_IN_FILE;
}

static inline void ruby_row(struct ruby *p, struct interp_process *row)
{
	const struct runtime_state *s = &p->r.states[0];
	static struct walk w;

	*row = (struct interp_process) {0};
	assert_int_equal(unwind_locate(&w, p->r.addresses[RUBY_EXEC] + p->m.bias), UNWIND_IN_FILE);
	row->eval_binary = w.binary;
	row->eval_off = w.off;
	row->eval_bytes = (uint32_t)(p->r.addresses[RUBY_EXEC_END] - p->r.addresses[RUBY_EXEC]);
	row->states[0].by = INTERP_BY_TP;
	row->states[0].off = (int64_t)s->at;
	if (s->by == RUNTIME_BY_ADDRESS) {
		row->states[0].by = INTERP_BY_ADDRESS;
		row->states[0].off = (int64_t)(s->at + p->m.bias);
	} else if (s->by == RUNTIME_BY_GOT) {
		row->states[0].off = (int64_t)ruby_word(p, s->at + p->m.bias);
	} else if (s->by == RUNTIME_BY_GOT_PAIR) {
		row->states[0].by = INTERP_BY_DTV;
		row->states[0].module = (uint32_t)ruby_word(p, s->at + p->m.bias);
		row->states[0].off = (int64_t)ruby_word(p, s->at + p->m.bias + 8);
	}
}

/* Fills in words, leaf first, with what repeats written out. Returns how many; *ret_cut: enum abi_cut. */
static inline unsigned ruby_walk_mixed(struct ruby *p, const struct user_regs_struct *r,
	uint64_t ret[MAX_MIXED_FRAMES], uint32_t *ret_cut)
{
	static __u64 words[ABI_MAX_WORDS + 1], spare[ABI_USER_TAIL_WORDS];
	static struct walk w;
	const uint64_t regs[UNWIND_N_REGS] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
		r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
	unsigned n, n_ret = 0;

	walk_init(&w, 0);
	w.pc = r->rip;
	memcpy(w.regs, regs, sizeof(regs));
	w.known = UNWIND_ALL_REGS;
	ruby_row(p, &host_interp.process);
	ruby_layout(p, &host_interp.layout);
	host_interp.tp = r->fs_base;
	interp_begin(&w, &host_interp);
	while (!walk_turn(&w, words))
		;
	host_interp_rest(&w, words);
	*ret_cut = w.cut;
	w.has_interp = 0;
	n = frames_end(&w.frames, words, spare, w.cut);
	for (unsigned i = 0; i < n; i++) {
		uint32_t period = (uint32_t)(ABI_FRAME_VALUE(words[i]) >> 32),
			 count = (uint32_t)ABI_FRAME_VALUE(words[i]);

		if (ABI_FRAME_KIND(words[i]) != ABI_FRAME_REPEAT) {
			assert_true(n_ret < MAX_MIXED_FRAMES);
			ret[n_ret++] = words[i];
			continue;
		}
		assert_true(n_ret + period * count < MAX_MIXED_FRAMES);
		for (unsigned k = 0; k < period * count; k++, n_ret++)
			ret[n_ret] = ret[n_ret - period];
	}
	return n_ret;
}

/* Is that frame one of the interpreter's function? */
static inline bool ruby_is_exec(uint64_t word)
{
	return ABI_FRAME_KIND(word) == ABI_FRAME_NATIVE &&
	       ABI_NATIVE_BINARY(word) == host_interp.process.eval_binary &&
	       ABI_NATIVE_OFF(word) - host_interp.process.eval_off < host_interp.process.eval_bytes;
}
