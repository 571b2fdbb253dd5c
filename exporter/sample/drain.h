/* SPDX-License-Identifier: Apache-2.0
 *
 * Drains BPF rings and perf side-band buffers and hands records on in time order. Stage 2 of the flow.
 *
 * Samples are held SAMPLE_HOLD_NS behind side-band records, so that the mapping a sample needs has been applied before it.
 * One thread owns a drain.
 */
#pragma once
#include "bpf/abi.h"
#include "exporter/keeper/keeper.h"
#include "lib/base/clock.h"
#include <stdbool.h>
#include <stdint.h>

#define SAMPLE_DRAIN_INTERVAL_NS (100 * NS_PER_MS)
#define SAMPLE_HOLD_NS (50 * NS_PER_MS)

enum sideband_kind {
	SIDEBAND_MMAP = 1, /* an executable mapping appeared */
	SIDEBAND_FORK,	   /* a process (pid != ppid) or thread (pid == ppid) appeared */
	SIDEBAND_EXIT,	   /* a thread ended; the process when it was its last */
	SIDEBAND_COMM,	   /* renamed; `exec` when by exec */
	SIDEBAND_LOST,	   /* the kernel dropped `lost` records: state must be read again from /proc */
};

struct sideband {
	enum sideband_kind kind;
	uint64_t time_ns;
	uint32_t pid, tid, ppid, ptid, cpu;
	/* SIDEBAND_MMAP */
	uint64_t addr, len, pgoff;
	uint32_t dev_major, dev_minor;
	uint64_t ino, ino_generation;
	uint8_t build_id[20];
	uint8_t build_id_len; /* 0: identity is dev and ino */
	uint32_t prot, flags;
	const char *path; /* as the kernel prints it: "/usr/bin/x", "//anon", "[vdso]"; valid during the call */
	/* SIDEBAND_COMM */
	char comm[ABI_COMM_LEN];
	bool exec;
	/* SIDEBAND_LOST */
	uint64_t lost;
};

/* The receiver; pipeline.c connects it. All calls come from the drain's thread, times never decrease. */
struct sample_sink {
	void *ctx;
	void (*sideband)(void *ctx, const struct sideband *e);
	/* The record is valid during the call only. late: older than what was already handed on. */
	void (*sample)(void *ctx, const struct abi_record *r, bool late);
	/* End of one drain: everything up to this monotonic time has been handed on. boot_offset_ns = BOOTTIME − MONOTONIC, read now. */
	void (*drained)(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns);
};
