/* SPDX-License-Identifier: Apache-2.0
 *
 * The exporter's roles: one binary, three or four processes, split before any thread exists (design: overview.md §5).
 *
 *   keeper  the process that was started: few capabilities, unprivileged uid; loads the BPF object, answers ATTACH, OPENER …
 *   parser  no capabilities, no network, no files: a zygote that forks one child per file
 *   fetcher no capabilities, but the network: there only when something is to be fetched
 *   attacher  what it takes to become the user of a JVM: there only when JVMs are to be asked for their perf maps
 *   main    no capabilities: everything else
 *
 * All run under `user` with no_new_privs and a seccomp filter each. Each dies when the keeper dies, and the keeper
 * ends all when one of them does; it exits with main's status.
 */
#pragma once
#include "exporter/keeper/programs.h"
#include "exporter/keeper/keeper.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct role_options {
	const char *
		user; /* --user; NULL: "sonde" when there is one, else "nobody". Ignored when not started as uid 0 */
	const char *procfs; /* --path.procfs, "/proc" */
	const char *sysfs;  /* --path.sysfs, "/sys" */
	uint32_t events;    /* EVENT_BITs of --profile.types; 0: those that are on by default */
	/* Of a test: programs in place of those of `events`, and a BPF object that has them in place of the built-in one. */
	const struct keeper_programs *programs;
	const void *object;
	size_t object_bytes;
	uint32_t frequency_hz; /* --profile.frequency */
	uint32_t
		max_frequency_hz; /* --profile.max-frequency: both are checked against kernel.perf_event_max_sample_rate */
	uint64_t table_bytes;	    /* --unwind.table-bytes */
	uint32_t shadow;	    /* --unwind.shadow */
	bool ask_kernel;	    /* --unwind.kernel=kernel: bpf_get_stack for kernel stacks */
	uint32_t kernel_check_each; /* one kernel stack of so many is compared; 0: the usual */
	uint32_t interp;	    /* --interp: enum abi_interp_walks */
	bool by_frame_pointer; /* main publishes no mappings: it captures, or is a test of the kernel half */
	const char *state_dirs
		[4]; /* made, mode 0750, and given to `user` before privileges go; NULL-terminated */
	int (*fetcher)(const void *ctx,
		int fd); /* fetcher_run, when something is to be fetched; NULL: there is no such role */
	const void *fetcher_ctx;
	uint32_t priority; /* --priority: keeper and main run at this nice value below 0 */
	bool copies;	   /* openers copy memory of processes */
	bool attacher;	   /* --jit.java-perfmap: start that role (attach.h) */
	int (*parser)(
		int fd); /* parser_zygote_run: serves the socket until it closes; the result is the exit status */
};

/*
 * Call first in main(), before any thread and with no descriptor but stdin, stdout and stderr open: others are closed.
 * Returns 0 in the main role, with *ret filled and privileges gone. Never returns in keeper and parser once the roles are split.
 * Returns -errno in the process that was started when it cannot start; the text says what to do about it.
 */
int role_start(const struct role_options *o, struct keeper_setup *ret, struct errbuf *eb);

/* CPU time of a process with all its threads, ended ones included, in ns; 0 when it is gone. Needs no privilege. */
int64_t role_cpu_ns(pid_t pid);
