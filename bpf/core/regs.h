/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The registers with which a task left user mode, as perf and ptrace hand them out, on x86-64 and arm64: all that the kernel
 * half knows of a machine beside the steps of the walker. Register arrays have DWARF numbers.
 */
#pragma once
#include "bpf/core/types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/unwind/tables.h"

#if UNWIND_ARM64

enum { PSR_MODE_MASK = 0xf, PSR_MODE32_BIT = 0x10 }; /* arch/arm64/include/uapi/asm/ptrace.h */

static __always_inline bool regs_are_user(const struct perf_event_regs *ctx)
{
	return !(CTX_READ(ctx, pstate) & PSR_MODE_MASK);
}

static __always_inline void regs_of_context(
	struct perf_event_regs *to, const struct perf_event_regs *ctx)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < 31; i++)
		to->x[i] = CTX_READ(ctx, x[i]);
	to->sp = CTX_READ(ctx, sp);
	to->pc = CTX_READ(ctx, pc);
	to->pstate = CTX_READ(ctx, pstate);
}

/* In the kernel for a system call, and not for an interrupt or a fault? */
static __always_inline bool regs_are_of_call(
	const struct perf_event_regs *r, struct task_struct *task)
{
	struct pt_regs *kernel = (void *)bpf_task_pt_regs(task);

	(void)r;
	return BPF_CORE_READ(kernel, syscallno) >= 0;
}

static __always_inline bool regs_are_32bit(const struct perf_event_regs *r)
{
	return r->pstate & PSR_MODE32_BIT;
}

static __always_inline __u64 regs_pc(const struct perf_event_regs *r)
{
	return r->pc;
}

static __always_inline __u64 regs_sp(const struct perf_event_regs *r)
{
	return r->sp;
}

static __always_inline __u64 regs_thread_pointer(const struct task_struct *task)
{
	return task->thread.uw.tp_value;
}

static __always_inline void regs_by_number(__u64 *to, const struct perf_event_regs *from)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < 31; i++)
		to[i] = from->x[i];
	to[UNWIND_SP] = from->sp;
}

#else

enum { USER32_CS = 0x23 }; /* arch/x86/include/asm/segment.h: code segment of 32-bit processes */

static __always_inline bool regs_are_user(const struct perf_event_regs *ctx)
{
	return (CTX_READ(ctx, cs) & 3) == 3;
}

static __always_inline void regs_of_context(
	struct perf_event_regs *to, const struct perf_event_regs *ctx)
{
#define COPY(reg) to->reg = CTX_READ(ctx, reg)
	COPY(r15), COPY(r14), COPY(r13), COPY(r12), COPY(rbp), COPY(rbx), COPY(r11), COPY(r10);
	COPY(r9), COPY(r8), COPY(rax), COPY(rcx), COPY(rdx), COPY(rsi), COPY(rdi), COPY(rip);
	COPY(cs), COPY(rsp);
#undef COPY
}

/* In the kernel for a system call, and not for an interrupt or a fault? */
static __always_inline bool regs_are_of_call(
	const struct perf_event_regs *r, struct task_struct *task)
{
	(void)task;
	/* The instruction leaves its return address in rcx. When it differs, a signal's handler or a new program begins at rip,
	 * or the call begins again. */
	return (__s64)r->orig_rax >= 0 && r->rcx == r->rip;
}

static __always_inline bool regs_are_32bit(const struct perf_event_regs *r)
{
	return (r->cs & 0xffff) == USER32_CS;
}

static __always_inline __u64 regs_pc(const struct perf_event_regs *r)
{
	return r->rip;
}

static __always_inline __u64 regs_sp(const struct perf_event_regs *r)
{
	return r->rsp;
}

static __always_inline __u64 regs_thread_pointer(const struct task_struct *task)
{
	return task->thread.fsbase;
}

static __always_inline void regs_by_number(__u64 *to, const struct perf_event_regs *from)
{
	to[0] = from->rax, to[1] = from->rdx, to[2] = from->rcx, to[3] = from->rbx;
	to[4] = from->rsi, to[5] = from->rdi, to[6] = from->rbp, to[7] = from->rsp;
	to[8] = from->r8, to[9] = from->r9, to[10] = from->r10, to[11] = from->r11;
	to[12] = from->r12, to[13] = from->r13, to[14] = from->r14, to[15] = from->r15;
}

#endif

/* The kernel's own copy begins with the layout that ptrace and perf hand out. */
static __always_inline void regs_of_task(struct perf_event_regs *to, struct task_struct *task)
{
	bpf_probe_read_kernel(to, sizeof(*to), (void *)bpf_task_pt_regs(task));
}
