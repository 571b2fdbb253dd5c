/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Samples of calls of a function, by uprobe: an event that attaches to files and whose program can be preempted. For tests of the
 * keeper (tests/bpf/probe.c); `other` is an event that is off.
 */
#include "bpf/core/sample.h"

enum { EVENT_PROBE = ABI_N_EVENTS, EVENT_OTHER };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} other_calls SEC(".maps");

SEC("uprobe")
int sample_probe(struct perf_event_regs *ctx)
{
	struct sampling g = {};

	if (!sampling_begin(&g, EVENT_PROBE))
		return 0;
	if (sampling_claim(&g)) {
		sampling_fill(&g, 1, 2);
		sampling_user_frames(&g, ctx, true);
		sampling_output(&g);
	}
	sampling_end(&g);
	return 0;
}

SEC("perf_event")
int sample_other(void *ctx)
{
	__u32 zero = 0;
	__u64 *calls = bpf_map_lookup_elem(&other_calls, &zero);

	(void)ctx;
	if (calls)
		++*calls;
	return 0;
}
