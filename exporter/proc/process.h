/* SPDX-License-Identifier: Apache-2.0
 *
 * A process image, as the process table's files share it.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/proc/asks.h"
#include "exporter/proc/proc.h"

struct cgroup;
struct maps;

enum { PROC_N_PROCESS_ASKS = PROC_ASK_ROOT + 1 };

/* What is being asked about one process: the queue that it waits in, or a reader, has a reference for each bit of `open`. */
struct process_asks {
	uint8_t open, awaited; /* bits by enum proc_ask; awaited: samples wait for it */
	uint64_t since_ns[PROC_N_PROCESS_ASKS], not_before_ns[PROC_N_PROCESS_ASKS];
	struct process *next[PROC_N_PROCESS_ASKS]; /* in the queue */
};

/* The runtime of a language that one of its files holds (interp.c). */
struct process_interp {
	uint8_t state;	 /* enum proc_interp_state */
	uint8_t refusal; /* enum interp_refusal */
	uint8_t tries;
	bool is_asked;	/* in the queue, or a reader has it; the process is referenced then */
	bool is_unseen; /* the mappings are being taken anew */
	uint16_t second_kind;
	uint32_t second,
		second_version; /* another one, which is refused; binary 0: there is none */
	uint64_t map_start;	/* of the file's code */
	int64_t due_ns;
	struct proc_runtime runtime;
	struct interp_process row; /* WALKED */
	struct process *next;	   /* in the queue */
};

/* Refusals that were said, the last ones, and those that are to be. */
enum { PROC_MAX_REFUSED_SAID = 256, PROC_MAX_REFUSED_NEW = 16 };
struct proc_interp_said {
	uint64_t said[PROC_MAX_REFUSED_SAID]; /* binary and reason */
	uint32_t n, n_new;
	struct proc_interp_binary new[PROC_MAX_REFUSED_NEW];
};

/* A string that several images share. */
struct text {
	uint32_t n_refs;
	char s[];
};
struct text *proc_text_new(const char *s, size_t n);
struct text *proc_text_ref(struct text *t);
void proc_text_put(struct text **t);
static inline const char *proc_text_str(const struct text *t)
{
	return t ? t->s : "";
}

struct process {
	uint32_t pid, ns_pid, uid;
	uint64_t start_ns; /* 0: not known yet */
	uint32_t exec_id;
	bool exec_known;
	bool uid_known;
	bool kernel_thread, exited, reaped; /* reaped: exited long ago, mappings gone */
	bool maps_complete; /* from fork, exec or /proc: a miss is no reason to read */
	bool is_heir; /* forked before its parent's mappings were read: they will be its own (heirs.c) */
	bool has_heirs;	  /* perhaps */
	bool labels_read; /* or tried */
	bool labels_own;  /* the cgroup was read for this process, not only taken from its parent */
	bool root_checked;	     /* the root is its own, not only its parent's */
	bool has_jvm;		     /* HotSpot is mapped */
	bool has_jit_code;	     /* executable memory of no file is mapped */
	bool exe_wanted;	     /* its own file was asked for, for its labels */
	uint8_t runtime;	     /* whose JIT code it has (runtime.c) */
	uint32_t exe_binary;	     /* of `executable`; 0: not known */
	struct proc_place exe_place; /* a mapping of it, where none has code; start 0: none */
	bool has_moved_code; /* perhaps: memory of no file lies where code of a file was, since its mappings were read */
	bool found_running;	   /* its start was not seen: any start time before begin_ns fits */
	bool in_scan;		   /* seen by the scan that is under way */
	uint64_t start_ticks;	   /* as /proc/PID/stat has it, 0 unknown */
	uint64_t begin_ns, end_ns; /* of this image; end_ns UINT64_MAX while live */
	uint64_t labels_due_ns, maps_due_ns;
	struct process_asks asks;
	bool wants_ancestor; /* gone before its labels were read: its control group is its parent's */
	uint64_t missed_addr; /* for which its mappings are being read again; 0: none */
	uint32_t n_unread;    /* addresses with is_unread */
	uint32_t stacks_whole, stacks_cut; /* by how they ended */
	uint8_t last_cut;		   /* enum abi_cut */
	uint8_t maps_misses;		   /* reads in a row that did not help */
	struct maps *maps;
	struct text *executable, *cmdline;
	struct text *dump; /* path of its jitdump */
	struct cgroup *cgroup;
	uint64_t cgroup_id; /* of the last record whose cgroup these labels are, 0 unknown */
	/* When the path was read from its file, while nothing says yet that it is cgroup_id's; else 0. */
	uint64_t cgroup_read_ns;
	uint64_t root; /* referenced in the binary registry; 0 unknown */
	char comm[ABI_COMM_LEN];
	uint32_t depth;
	uint32_t n_refs; /* tasks, addresses, children */
	uint32_t n_addresses;
	uint32_t n_taken; /* while proc_code_take takes a batch, of its places */
	struct process *parent, *older;
	struct process *prev, *next; /* of all images */
	struct process *next_exited; /* in the queue of those to reap */
	uint64_t image;		     /* process_image(), 0 while the start time is not known */
	bool has_head;		     /* the kernel half may have its mappings */
	bool to_publish;	     /* in the list of those whose mappings changed */
	struct process *next_publish;
	struct process_interp *interp; /* NULL: none of its files has one */
	bool has_objects;	       /* frames of that one's language were sampled */
	uint32_t n_machine;	       /* objects that are machine code, among its addresses */
};
