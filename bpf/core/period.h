/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What a sample of a perf event stands for.
 */
#pragma once
#include "bpf/core/types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/*
 * The period in force. ctx->sample_period would be natural, but the kernel takes it from hw.last_period, which
 * PERF_EVENT_IOC_PERIOD does not touch on software events (seen on 6.18): samples would keep the weight of the first rate.
 */
static __always_inline __u64 period_of(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_data_kern *kern = (void *)ctx;

	return BPF_CORE_READ(kern, event, hw.sample_period);
}
