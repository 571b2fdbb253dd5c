/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Page faults: a perf_event program on the software event that the kernel counts them by (mm/memory.c mm_account_fault), one event
 * per CPU. Runs where the fault is handled, with preemption off, at one fault of so many (the period in force). By a frequency, as
 * perf record does, totals would be wrong: while the kernel adapts, one program is charged with the faults of another
 * (perf_swevent_set_period), and a period that was chosen in a burst is waited for long after it.
 */
#include "bpf/core/kernel_frames.h"
#include "bpf/core/period.h"
#include "bpf/core/sample.h"

/* Verified once, by itself (kernel_frames). */
UNWIND_ALONE int page_faults_kernel_frames(
	struct bpf_perf_event_data *ctx, struct scratch *s, struct counter_row *row)
{
	if (ctx && s && row)
		kernel_frames(ctx, &ctx->regs, s, row, ABI_EVENT_PAGE_FAULTS);
	return 0;
}

SEC("perf_event")
int sample_page_faults(struct bpf_perf_event_data *ctx)
{
	struct sampling g = {};
	bool is_user = regs_are_user(&ctx->regs);

	if (!sampling_begin(&g, ABI_EVENT_PAGE_FAULTS))
		return 0;
	if (sampling_claim(&g)) {
		sampling_fill(&g, period_of(ctx), 0);
		if (RARE(!is_user))
			page_faults_kernel_frames(ctx, g.s, (void *)g.count);
		sampling_user_frames(&g, &ctx->regs, is_user);
		sampling_output(&g);
	}
	sampling_end(&g);
	return 0;
}
