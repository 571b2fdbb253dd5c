/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * How long one kind of kernel timer's callback runs: what a profiler does in the timer's interrupt, whoever it is. Loaded by
 * tests/bpf/timers.c.
 */
#include "bpf/core/types.h"
#include <bpf/bpf_helpers.h>

char dual_license[] SEC("license") = "GPL";

const volatile __u64 function; /* whose timers */

struct hrtimer {
	void *function;
} __attribute__((preserve_access_index));

struct timer_row {
	__u64 began_ns, ns, runs;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timer_row);
} timers SEC(".maps");

static __always_inline struct timer_row *row(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&timers, &zero);
}

SEC("tp_btf/hrtimer_expire_entry")
int entry(__u64 *args)
{
	const struct hrtimer *timer = (void *)args[0];
	struct timer_row *r = row();

	if (r && (__u64)timer->function == function)
		r->began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int leave(__u64 *args)
{
	struct timer_row *r = row();

	(void)args;
	if (!r || !r->began_ns)
		return 0;
	r->ns += bpf_ktime_get_ns() - r->began_ns;
	r->runs++;
	r->began_ns = 0;
	return 0;
}
