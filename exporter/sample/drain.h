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
#include "exporter/sample/governor.h"
#include "lib/base/budget.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include <stdbool.h>
#include <stdint.h>

/*
 * Most of a drain's cost is waking the thread. So it wakes seldom while little comes in, and often in two cases. While processes come
 * and go: /proc has to be read in time, and the kernel half walks only processes that it knows. And at rates at
 * which more samples would wait in the rings than a thousand a second leave there between two drains of the short kind.
 * While it sleeps the kernel half wakes it for what is new (exporter/sample/news.h).
 */
#define SAMPLE_DRAIN_INTERVAL_NS (100 * NS_PER_MS)
#define SAMPLE_DRAIN_CALM_NS NS_PER_S
#define SAMPLE_DRAIN_SPACING_NS (20 * NS_PER_MS) /* between drains that are asked for */
#define SAMPLE_HOLD_NS (50 * NS_PER_MS)

enum sideband_kind {
	SIDEBAND_MMAP = 1, /* an executable mapping appeared */
	SIDEBAND_FORK,	   /* a process (pid != ppid) or thread (pid == ppid) appeared */
	SIDEBAND_EXIT,	   /* a thread ended; the process when it was its last */
	SIDEBAND_COMM,	   /* renamed; `exec` when by exec */
	SIDEBAND_KSYMBOL,  /* kernel code `path` came to `addr`, or went (`gone`) */
	SIDEBAND_LOST, /* the kernel dropped `lost` records: state must be read again from /proc */
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
	const char *
		path; /* as the kernel prints it: "/usr/bin/x", "//anon", "[vdso]"; valid during the call */
	/* SIDEBAND_COMM */
	char comm[ABI_COMM_LEN];
	bool exec;
	/* SIDEBAND_KSYMBOL: also addr, len, path */
	bool gone, is_bpf;
	/* SIDEBAND_LOST */
	uint64_t lost;
};

/*
 * The receiver; pipeline.c connects it. All calls come from the drain's thread. Side-band records and samples come merged in
 * time order; times never decrease but for late ones.
 */
struct sample_sink {
	void *ctx;
	void (*sideband)(void *ctx, const struct sideband *e);
	/* A copy of a stack: of the sample that comes next with its time and CPU. Valid during the call only; may be NULL. */
	void (*stack)(void *ctx, const struct abi_stack *s);
	/* A code object of a language runtime: as soon as its record is read (early), out of order, since its process may not live long; and
	 * once more right before the sample with its time and CPU. Valid during the call only; may be NULL. */
	void (*code)(void *ctx, const struct abi_code *c, bool early);
	/* The record is valid during the call only. late: older than what was already handed on. */
	void (*sample)(void *ctx, const struct abi_record *r, bool late);
	/* So many samples of the event were taken and lost since the last drain, here or in the kernel half. May be NULL. */
	void (*lost)(void *ctx, enum abi_event event, uint64_t n);
	/* End of one drain: everything up to this monotonic time has been handed on. boot_offset_ns = BOOTTIME − MONOTONIC, read now.
	 * True: something is kept waiting, the next drain should come soon. */
	bool (*drained)(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns);
};

struct drain;
struct capture; /* exporter/sample/capture.h */

struct drain_options {
	const struct keeper_setup *setup; /* must outlive the drain */
	struct clock *clock;
	struct fs *fs;
	struct budget *budget; /* charged with what is held */
	struct sample_sink sink;
	struct governor *governor;  /* gives the rate; not owned */
	const char *procfs, *sysfs; /* "/proc", "/sys" */
	uint64_t
		max_held_bytes; /* samples and side-band held for ordering; 0: 16 MiB. Beyond it the oldest go on early, counted */
	struct capture *capture; /* --debug.capture, or NULL; not owned */
};

/* Maps the rings and attaches every online CPU at the governor's rate; fails when no CPU could be attached. */
struct drain *drain_new(const struct drain_options *o, struct errbuf *eb);
void drain_freep(struct drain **d);

/* Reads everything that is there and hands on what is older than the hold. Call it again at the monotonic time returned at the
 * latest: after drain_interval_ns, or when the hold of a sample is over whose process the kernel half must learn
 * of. Also watches CPUs coming and going, and sets the rate. */
int64_t drain_step(struct drain *d);

/* Readable when something should not wait until then; owned by the drain. */
int drain_news_fd(const struct drain *d);
/* Takes notice of it and reads the rings; the monotonic time of the next step: not before the sample that is new has been held. */
int64_t drain_take_news(struct drain *d);

/* From one drain to the next: SAMPLE_DRAIN_INTERVAL_NS, and up to SAMPLE_DRAIN_CALM_NS, of at most a hundred samples of a CPU, after a
 * drain that found no side-band records and left nothing waiting. */
int64_t drain_interval_ns(uint32_t hz, bool is_calm);

/* Thread-safe snapshot, as of the last step. */
struct drain_stats {
	uint64_t counters[ABI_N_COUNTERS]; /* kernel half, summed over CPUs */
	struct {
		uint64_t counters[ABI_N_EVENT_COUNTERS];
		uint64_t samples; /* handed on */
		uint64_t dropped; /* records that the budget left no room for */
		uint64_t
			rate_ns; /* own cost that follows its rate: its program, its samples taken over */
	} events[ABI_N_EVENTS];
	uint64_t stacks[ABI_N_CUTS]; /* user stacks handed on, by cut reason */
	uint64_t rounds;	     /* drains */
	uint64_t news;		     /* times that the kernel half woke the drain */
	uint64_t samples, sideband;  /* records handed on */
	uint64_t late_samples, late_sideband;
	uint64_t bad_records;	/* records that do not follow the ABI, dropped */
	uint64_t sideband_lost; /* records that the kernel dropped before us */
	uint64_t overflowed;	/* records handed on before their hold was over */
	uint64_t held_bytes;
	uint64_t cpus_attached, cpus_detached, cpu_attach_failures; /* events, since start */
	uint64_t cpus_revived; /* CPUs whose ticks had stopped and were attached again */
	uint32_t n_online, n_attached;
	uint64_t ring_bytes, ring_used_peak_bytes, ring_read_bytes;
	double coverage_ratio; /* sampled CPU time over busy CPU time, last minute, all CPUs; 0 until known */
	double coverage_worst_ratio; /* of the worst CPU that was busy at least a tenth of it */
	uint64_t main_cpu_ns, keeper_cpu_ns, parser_cpu_ns, fetcher_cpu_ns,
		bpf_ns; /* own cost since start */
	uint64_t maps_bytes;
};
void drain_stats(struct drain *d, struct drain_stats *ret);
