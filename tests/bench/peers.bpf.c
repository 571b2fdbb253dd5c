/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the kernel offers by itself, to be measured beside the walker: nothing at all, and its own walks by frame pointer.
 */
#include "bpf/kernel.h"
#include <bpf/bpf_helpers.h>

char dual_license[] SEC("license") = "GPL";

enum { BPF_F_USER_STACK = 1 << 8, STACK_TRACE = 7, MAX_FRAMES = 127 };

struct {
	__uint(type, STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MAX_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct buffer {
	__u64 words[MAX_FRAMES + 1];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct buffer);
} buffers SEC(".maps");

SEC("perf_event")
int peer_empty(void *ctx)
{
	(void)ctx;
	return 0;
}

SEC("perf_event")
int peer_stackid(void *ctx)
{
	bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
	return 0;
}

SEC("perf_event")
int peer_stack(void *ctx)
{
	__u32 zero = 0;
	struct buffer *b = bpf_map_lookup_elem(&buffers, &zero);

	if (b)
		bpf_get_stack(ctx, b->words, MAX_FRAMES * sizeof(__u64), BPF_F_USER_STACK);
	return 0;
}
