/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What several programs use: their configuration and maps, whose sizes are set at load. All of them, here and in the other headers
 * of this folder, are weak: each program's object has them, and the linker keeps one (`bpftool gen object`).
 */
#pragma once
#include "bpf/core/types.h"
#include <bpf/bpf_helpers.h>

#include "bpf/interp/rows.h"
#include "bpf/kernel/orc.h"
#include "bpf/process/heads.h"

char license_of_programs[] SEC("license") __weak = "GPL";

/* In a section of its own, so that whoever loads the programs finds it without knowing what else is constant. */
const volatile struct abi_config config SEC(".rodata.config") __weak = {};

struct counter_row {
	__u64 count[ABI_COUNTERS_STRIDE];
};
_Static_assert(ABI_N_COUNTERS <= ABI_EVENT_COUNTERS_AT, "counters fit their place");
_Static_assert(
	ABI_N_EVENT_COUNTERS <= ABI_EVENT_COUNTERS_STRIDE, "those of an event fit their block");
_Static_assert(ABI_N_EVENTS <= ABI_MAX_EVENTS, "blocks fit their row");

struct counters_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* possible CPUs */
	__type(key, __u32);
	__type(value, struct counter_row);
};
struct counters_map counters SEC(".maps") __weak;

struct heads_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct process_bucket);
};
struct heads_map heads SEC(".maps") __weak;

struct interp_processes_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct interp_bucket);
};
struct interp_processes_map interp_processes SEC(".maps") __weak;

struct kernel_orc_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kernel_orc);
};
struct kernel_orc_map kernel_orc SEC(".maps") __weak;

static __always_inline __u64 *counter_row(__u32 cpu)
{
	struct counter_row *row = bpf_map_lookup_elem(&counters, &cpu);

	return row ? row->count : NULL;
}

/* The head of a pid: found, or taken when `claim`; NULL when there is none. */
static __always_inline struct process_head *head_of(__u32 pid, __u32 bucket_mask, bool claim)
{
	__u32 key = pid & bucket_mask, i;
	struct process_bucket *b = bpf_map_lookup_elem(&heads, &key);

	if (!b)
		return NULL;
	i = claim ? process_claim(b, pid) : process_find(b, pid);
	return i < PROCESS_HEADS_PER_BUCKET ? &b->heads[i] : NULL;
}

/* The place for the row of a language runtime beside the head of a pid, or NULL where that has no head. */
static __always_inline struct interp_process *interp_row_of(__u32 pid, __u32 bucket_mask)
{
	__u32 key = pid & bucket_mask, i;
	struct process_bucket *heads_there = bpf_map_lookup_elem(&heads, &key);
	struct interp_bucket *b = bpf_map_lookup_elem(&interp_processes, &key);

	if (!b || !heads_there)
		return NULL;
	i = process_find(heads_there, pid);
	return i < PROCESS_HEADS_PER_BUCKET ? &b->rows[i] : NULL;
}
