/* SPDX-License-Identifier: Apache-2.0
 *
 * The privileged role and how the unprivileged one asks it for things. docs/formats/keeper-protocol.md has the messages.
 *
 * `struct keeper` is a seam: the real one speaks SOCK_SEQPACKET to the keeper process, the fake one plays a captured bundle.
 * Calls are synchronous, thread-safe and bounded by a timeout: they block, so that no thread makes one while it has a lock
 * that others wait for. Descriptors returned are O_CLOEXEC and the caller's to close.
 */
#pragma once
#include "bpf/abi.h"
#include "bpf/kernel/orc.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bundles hold these numbers too, so 5 and 7, which former versions had, are never reused. */
enum keeper_what {
	KEEPER_MAPS = 1,     /* /proc/PID/maps */
	KEEPER_MAP_FILE = 2, /* /proc/PID/map_files/START-END */
	KEEPER_ROOT = 3,     /* /proc/PID/root, O_PATH */
	KEEPER_MNT_NS = 4,   /* /proc/PID/ns/mnt */
	KEEPER_KALLSYMS = 6, /* /proc/kallsyms; pid ignored */
	KEEPER_MODULES = 8,  /* /proc/modules; pid ignored */
	KEEPER_EXE = 9,	     /* where /proc/PID/exe leads to: a file with that text */
	KEEPER_COPY = 10, /* stands for the operation COPY where requests are counted and shown */
};

enum keeper_open_at {
	KEEPER_NO_LINK = 1, /* the path's last part must not be a symbolic link */
};

/* A piece of a process's memory. */
struct keeper_range {
	uint64_t addr;
	uint32_t bytes, copied; /* copied: fewer where memory ends that can be read */
	void *to;		/* room for `bytes` */
};
enum { KEEPER_COPY_RANGES = 8, KEEPER_COPY_BYTES = 64 << 10 };

/* A file as records and /proc/PID/maps name it. */
struct keeper_file {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	bool own_devices; /* the file system shows other device numbers to stat (overlay, btrfs) */
};

/* A request that its opener has not answered in time: the file system there does not answer. */
struct keeper_hanging {
	enum keeper_what what; /* 0: a path below a root */
	uint32_t pid;	       /* 0: not known */
	int64_t since_ns;      /* CLOCK_MONOTONIC */
	char path[128];	       /* its beginning; "" */
};

enum { KEEPER_MAX_HANGING = 16 };
struct keeper_stats {
	/* Requests to openers that have ended: those that were answered and the next four. */
	uint64_t requests;
	uint64_t timeouts;
	uint64_t busy;	   /* refused at once, since as many of their kind hang as may */
	uint64_t silent;   /* refused at once, since the keeper itself does not answer */
	uint64_t limited;  /* COPY refused: its opener copies no more in this second */
	uint64_t returned; /* requests that hung and have ended since, the keeper's included */
	int64_t silent_since_ns; /* CLOCK_MONOTONIC, as the keeper does not answer; 0: it does */
	uint64_t cpu_ns;	 /* of all openers that there were */
	uint32_t openers;	 /* now, those that hang included */
	uint32_t n_hanging;
	struct keeper_hanging hanging[KEEPER_MAX_HANGING];
};

struct keeper {
	/* A descriptor, or -errno. start_ns: the process's start time as in abi_record (0: do not check); checked in the opened /proc/PID:
	 * -ESRCH when the pid is another process by now. start/end: for KEEPER_MAP_FILE. -ETIMEDOUT: the file system did not
	 * answer in time, and somebody still waits for it; -EBUSY: not tried, since so many wait already or the keeper has not
	 * answered the last request yet. */
	int (*open)(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
		uint64_t start, uint64_t end);
	/* A regular file below root_fd (RESOLVE_IN_ROOT), read only. flags: enum keeper_open_at. */
	int (*open_at)(struct keeper *k, int root_fd, const char *path, int flags);
	/* Copies memory of the process that started then, which must be given, into each range: 0 with `copied` set. -EINVAL: more than
	 * KEEPER_COPY_RANGES ranges or KEEPER_COPY_BYTES in all, or an empty range; -ESRCH: the process is gone, or another one by now;
	 * -ENOTSUP: nobody copies here; -EBUSY: not tried, try later; else as `open`. */
	int (*copy)(struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges,
		size_t n);
	/* The program of an EVENT_PER_CPU to one CPU (start-up, hot-plug): its perf event, enabled at the base rate. -ENODEV when
	 * the CPU is offline, -ENOENT when no such event is on. */
	int (*attach)(struct keeper *k, enum abi_event event, uint32_t cpu, struct errbuf *eb);
	/* A perf dummy event of one CPU with MMAP2, COMM, TASK records, to be mmapped. */
	int (*attach_sideband)(struct keeper *k, uint32_t cpu, struct errbuf *eb);
	/* The program of an EVENT_PER_FILE to a place in an executable file, for all processes that map it, until the descriptor
	 * is closed. -EINVAL: no regular ELF file, or the offset is beyond its end. */
	int (*attach_file)(struct keeper *k, enum abi_event event, int file_fd, uint64_t offset,
		struct errbuf *eb);
	/* What a descriptor that `open` or `open_at` gave is: 0 or -errno. NULL: what stat says. */
	int (*identify)(struct keeper *k, int fd, struct keeper_file *ret);
	/* What hangs, and counts; does not block. NULL: nothing ever hangs. */
	void (*stats)(struct keeper *k, struct keeper_stats *ret);
	/* As in the statistics, without a lock. NULL: it always answers. */
	int64_t (*silent_since_ns)(const struct keeper *k);
	void (*close)(struct keeper *k);
};

/* By `stats`; zeros without. */
void keeper_stats(struct keeper *k, struct keeper_stats *ret);
/* By `copy`; -ENOTSUP without. */
int keeper_copy(
	struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges, size_t n);
/* By `silent_since_ns`; 0 without. */
int64_t keeper_silent_since_ns(const struct keeper *k);
/* What a kind of request is called in metrics and pages; "file" for paths below a root. */
const char *keeper_what_name(enum keeper_what what);

/* A capability or setting that is missing, and what that costs; shown at start and as sonde_capability_missing{cap,effect}. */
struct keeper_missing {
	const char *cap, *effect;
};

/* BPF maps that main reads and writes in place (mmapable arrays). */
enum keeper_map {
	KEEPER_HEADS,		 /* struct process_bucket (bpf/process/heads.h) */
	KEEPER_WORDS,		 /* u64: runs of mappings */
	KEEPER_SLABS,		 /* UNWIND_SLAB_WORDS u32 each (bpf/unwind/tables.h) */
	KEEPER_RULES,		 /* struct unwind_rule */
	KEEPER_BINARIES,	 /* struct unwind_binary */
	KEEPER_CACHE,		 /* u64 */
	KEEPER_FILES,		 /* struct file_bucket (bpf/unwind/files.h) */
	KEEPER_INTERP_LAYOUTS,	 /* struct interp_layout (bpf/interp/rows.h) */
	KEEPER_INTERP_HOTSPOTS,	 /* struct interp_hotspot */
	KEEPER_INTERP_PROCESSES, /* struct interp_bucket, as many as KEEPER_HEADS */
	KEEPER_N_MAPS,
};

/* What main inherits: filled by role_start (roles.h) before privileges are dropped. */
struct keeper_setup {
	struct keeper *keeper;
	int ring_fds[(ABI_MAX_CPUS + ABI_CPUS_PER_RING - 1) / ABI_CPUS_PER_RING];
	uint32_t n_rings;
	uint32_t ring_bytes; /* of each */
	int counters_fd;     /* mmapable array: n_cpus rows of ABI_COUNTERS_STRIDE u64 */
	uint32_t n_cpus;     /* possible CPUs */
	uint32_t events;     /* EVENT_BITs of those that are on */
	struct {
		int fd;		/* -1: none */
		uint32_t n;	/* elements */
		uint64_t bytes; /* all of them */
	} maps[KEEPER_N_MAPS];
	uint64_t maps_bytes;		 /* memlock of all BPF maps */
	enum kernel_walk_by kernel_walk; /* who walks kernel stacks, at start */
	struct keeper_missing missing[16];
	uint32_t n_missing;
	int parser_fd;	 /* SOCK_SEQPACKET to the parser zygote */
	int fetcher_fd;	 /* the same to the fetcher; -1: there is none */
	int attacher_fd; /* the same to the attacher (attach.h); -1: there is none */
	uint32_t keeper_pid, parser_pid, fetcher_pid, attacher_pid, main_pid;
};
