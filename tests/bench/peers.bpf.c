/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the kernel offers by itself, to be measured beside the walker: nothing at all, and its own walks by frame pointer. And
 * warm walks: the same stack N_AGAIN times within one tick, by the walker and by the kernel, of one process alone. Nothing comes
 * between them, so that they are told apart from cold memory and from whatever else the machine does.
 */
#include "bpf/core/user_frames.h"

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

enum { N_AGAIN = 32, AGAIN_WALK = 0, AGAIN_STACKID, AGAIN_STACK, N_AGAINS };
struct again_row {
	__u64 ns, walks, frames;
	__u64 pid; /* of row 0: whose stacks; user space writes it */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, N_AGAINS);
	__type(key, __u32);
	__type(value, struct again_row);
} again SEC(".maps");

struct again {
	struct bpf_perf_event_data *ctx;
	struct scratch *s;
	struct task_struct *task;
	struct buffer *buffer;
};

static long again_walk(__u32 i, struct again *a)
{
	(void)i;
	walker_begin(a->s, a->task);
	walker_run(a->s);
	return 0;
}

static long again_stackid(__u32 i, struct again *a)
{
	(void)i;
	bpf_get_stackid(a->ctx, &stacks, BPF_F_USER_STACK);
	return 0;
}

static long again_stack(__u32 i, struct again *a)
{
	(void)i;
	bpf_get_stack(a->ctx, a->buffer->words, MAX_FRAMES * sizeof(__u64), BPF_F_USER_STACK);
	return 0;
}

/* The first walk, which warms up, is not counted. */
#define AGAIN(which, callback, a, n_frames)                                \
	do {                                                               \
		__u32 key = which;                                         \
		struct again_row *row = bpf_map_lookup_elem(&again, &key); \
		__u64 began;                                               \
		bpf_loop(1, callback, a, 0);                               \
		began = bpf_ktime_get_ns();                                \
		bpf_loop(N_AGAIN, callback, a, 0);                         \
		if (row) {                                                 \
			row->ns += bpf_ktime_get_ns() - began;             \
			row->walks += N_AGAIN;                             \
			row->frames += (__u64)N_AGAIN * (n_frames);        \
		}                                                          \
	} while (0)

SEC("perf_event")
int peer_again(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct again a = {.ctx = ctx, .task = bpf_get_current_task_btf()};
	struct again_row *first = bpf_map_lookup_elem(&again, &zero);
	struct abi_record *r;

	if (!first || (__u64)a.task->tgid != first->pid || !regs_are_user(&ctx->regs))
		return 0;
	a.buffer = bpf_map_lookup_elem(&buffers, &zero);
	a.s = scratch_claim(SCRATCH_ATOMIC);
	if (!a.s)
		return 0;
	r = record_of(a.s);
	r->pid = a.task->tgid;
	r->start_ns = a.task->group_leader->start_time;
	r->exec_id = a.task->self_exec_id;
	r->flags = ABI_FLAG_USER_MODE;
	r->n_kernel = 0;
	regs_of_context(&a.s->regs, &ctx->regs);
	AGAIN(AGAIN_WALK, again_walk, &a, a.s->walk.n_steps + 1);
	if (a.buffer) {
		AGAIN(AGAIN_STACKID, again_stackid, &a, 0);
		AGAIN(AGAIN_STACK, again_stack, &a, 0);
	}
	scratch_release(a.s);
	return 0;
}
