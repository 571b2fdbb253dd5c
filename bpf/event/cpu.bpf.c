/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * CPU samples: a perf_event program on the software CPU clock, one event per CPU. Runs in the timer interrupt. Each tick
 * outside the idle task becomes one record (bpf/abi.h) in the ring of its group of CPUs; user space drains the rings.
 * docs/exporter.md has the kernels tried. Needs bpf_loop (5.17), bpf_task_pt_regs (5.15), bpf_get_current_task_btf (5.11).
 */
#include "bpf/core/kernel_frames.h"
#include "bpf/core/period.h"
#include "bpf/core/sample.h"

/* Verified once, by itself (kernel_frames). */
UNWIND_ALONE int cpu_kernel_frames(
	struct bpf_perf_event_data *ctx, struct scratch *s, struct counter_row *row)
{
	if (ctx && s && row)
		kernel_frames(ctx, &ctx->regs, s, row, ABI_EVENT_CPU);
	return 0;
}

static __always_inline void tick(struct sampling *g, struct bpf_perf_event_data *ctx)
{
	bool is_user = regs_are_user(&ctx->regs);
	__u64 period;

	if (RARE(!g->task->tgid)) {
		sampling_count(g, ABI_COUNT_IDLE, 1);
		return;
	}
	period = period_of(ctx);
	sampling_count(g, ABI_COUNT_BUSY_NS, period);
	if (!sampling_claim(g))
		return;
	sampling_fill(g, period, 0);
	if (RARE(!is_user))
		cpu_kernel_frames(ctx, g->s, (void *)g->count);
	sampling_user_frames(g, &ctx->regs, is_user);
	sampling_output(g);
}

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	struct sampling g = {};

	if (!sampling_begin(&g, ABI_EVENT_CPU))
		return 0;
	tick(&g, ctx);
	sampling_end(&g);
	return 0;
}
