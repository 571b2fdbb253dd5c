/* SPDX-License-Identifier: Apache-2.0
 *
 * The process table's inside, shared by its files.
 *
 * Invariants:
 *  1. images of one pid form a list from the newest to the oldest (by_pid points at the newest);
 *     at most the newest is live;
 *  2. an image whose references (tasks, children, addresses) and time are over is freed; one whose
 *     time alone is over keeps its labels but no mappings;
 *  3. start_ns 0 and exec_known false mean "not known yet": the first record that fits fills them
 *     in.
 */
#pragma once
#include "exporter/proc/cgroups.h"
#include "exporter/proc/code.h"
#include "exporter/proc/maps.h"
#include "exporter/proc/pod_table.h"
#include "exporter/proc/proc.h"
#include "lib/base/table.h"

/* Between looks for a container that no runtime's file knows yet; doubles. */
#define PROC_CONTAINER_RETRY_NS (5 * NS_PER_S)
/* An exited image keeps its mappings. */
#define PROC_LINGER_NS (2 * NS_PER_S)
/* A live process's cgroup is read again. */
#define PROC_LABELS_TTL_NS (30 * NS_PER_S)
/* Between reads of one process's maps; doubles while they do not help. */
#define PROC_MAPS_BACKOFF_NS (1 * NS_PER_S)
/* What was mapped since a fork or exec is known from records; little went since. */
#define PROC_MAPS_YOUNG_NS (2 * NS_PER_S)
/* Between two requests for one mapping's symbols. */
#define PROC_WANT_INTERVAL_S 5
/* After an exec's record the task may still show its old exec count. */
#define PROC_EXEC_SLACK_NS (1 * NS_PER_MS)
/* A fork's record comes later than the start time it stands for. */
#define PROC_FORK_SLACK_NS (1 * NS_PER_S)
enum {
	PROC_READS_PER_S = 500, /* reads of labels and maps together, after a burst of as many */
	PROC_ROOTS_PER_S = 5,	/* looks at the root of what has just been exec'ed */
	PROC_MAX_MISSES = 6,
	PROC_CONTAINER_TRIES = 8,
	PROC_MAX_DEPTH = 64, /* of remembered ancestors */
	PROC_CMDLINE_BYTES = 4096,
	PROC_MAX_CGROUP_IDS = 4096,
	PROC_ADDRESSES_PER_PROCESS = 1 << 16,
	PROC_MAX_ADDRESSES = 1 << 19,
	PROC_READ_BYTES = 64 << 10,
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
	bool labels_read;   /* or tried */
	bool labels_own; /* the cgroup was read for this process, not only taken from its parent */
	bool root_checked;	   /* the root is its own, not only its parent's */
	bool has_jvm;		   /* HotSpot is mapped */
	bool has_jit_code;	   /* executable memory of no file is mapped */
	bool exe_wanted;	   /* its own file was asked for, for its labels */
	uint8_t runtime;	   /* enum proc_runtime */
	uint32_t exe_binary;	   /* of `executable`; 0: not known */
	bool found_running;	   /* its start was not seen: any start time before begin_ns fits */
	bool in_scan;		   /* seen by the scan that is under way */
	uint64_t start_ticks;	   /* as /proc/PID/stat has it, 0 unknown */
	uint64_t begin_ns, end_ns; /* of this image; end_ns UINT64_MAX while live */
	uint64_t labels_due_ns, maps_due_ns;
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
	struct process *parent, *older;
	struct process *prev, *next; /* of all images */
	struct process *next_exited; /* in the queue of those to reap */
	uint64_t image;		     /* process_image(), 0 while the start time is not known */
	bool has_head;		     /* the kernel half may have its mappings */
	bool to_publish;	     /* in the list of those whose mappings changed */
	struct process *next_publish;
};

struct task {
	bool used;
	uint32_t tid;
	uint64_t hash;
	uint32_t next; /* same hash; or free */
	struct process *process;
	struct cgroup *cgroup;
	char comm[ABI_COMM_LEN], thread_name[ABI_COMM_LEN];
};

struct address {
	uint64_t addr;
	struct process *process; /* NULL: free */
	struct code_name *name;	 /* of JIT code; NULL: not known */
	uint32_t next;		 /* same hash; or free */
	bool is_waiting;	 /* for a name, in t->waiting */
	bool was_tried;
	bool is_retired; /* other code is there by now: no new sample finds it */
};

struct scan_item {
	uint32_t pid;
	uint64_t cpu_ticks;
};

struct scan {
	bool pending;
	bool listed; /* items are there */
	struct scan_item *items;
	size_t n, cap, at;
	uint64_t begin_ns;
};

struct proc_table {
	struct proc_options o;
	struct table by_pid;	   /* pid → newest image */
	struct table by_cgroup;	   /* hash of path → struct cgroup * */
	struct table by_cgroup_id; /* v2 id → struct cgroup *, referenced */
	struct process *all;
	uint32_t n_images, n_live;
	struct process *exited_head, *exited_tail;
	struct process *other; /* stands for all above max_processes */
	struct task *tasks;
	size_t cap_tasks;
	uint32_t n_tasks, free_tasks; /* ids below n_tasks; chain of free ones */
	struct table by_task;
	struct address *addresses;
	size_t cap_addresses;
	uint32_t n_addresses, free_addresses;
	struct table by_address;
	uint32_t
		*wanted_s; /* by binary: second in which its symbols were last asked for, 0 never */
	size_t cap_wanted;
	uint32_t *waiting; /* ids of addresses without a name */
	size_t n_waiting, cap_waiting;
	struct scan scan;
	struct bucket {
		double tokens;
		uint64_t filled_ns;
	} reads, roots;
	struct process *publish_list;
	uint64_t now_ns;	/* of the newest record or side-band record */
	char *buffer;		/* PROC_READ_BYTES */
	struct pod_table *pods; /* NULL: none known */
	struct proc_stats stats;
};

/* The table holds pointers as numbers. */
static inline void *pointer_of(uint64_t value)
{
	return (void *)(uintptr_t)value; /* NOLINT: the inverse of number_of */
}
static inline uint64_t number_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* table.c */
struct process *proc_newest(const struct proc_table *t, uint32_t pid);
/* A new image, the newest of its pid; NULL when the table is full (counted). begin_ns: since
 * when it is there. */
struct process *proc_image_new(struct proc_table *t, uint32_t pid, uint64_t begin_ns);
/* Takes over what a child or the next image has from `from`: labels, cgroup, root, parenthood. */
void proc_image_inherit(
	struct proc_table *t, struct process *p, struct process *from, bool is_child);
void proc_image_end(struct proc_table *t, struct process *p, uint64_t time_ns);
/* Back to life: what looked like the end of the process was that of its first thread. */
void proc_image_revive(struct proc_table *t, struct process *p);
void proc_ref(struct process *p);
void proc_unref(struct proc_table *t, struct process *p);
/* Takes one token of `b`, which fills with per_s a second up to as many. */
bool proc_may(struct proc_table *t, struct bucket *b, double per_s);
/* One read of /proc may be made now. */
static inline bool proc_may_read(struct proc_table *t)
{
	return proc_may(t, &t->reads, PROC_READS_PER_S);
}
/* Asks which root the process has, once an image. */
void proc_check_root(struct proc_table *t, struct process *p);

/* address.c: asks for the symbol file of its executable, once an image. */
void proc_want_executable(struct proc_table *t, struct process *p);

/* runtime.c */
/* What a new mapping says of a JIT in the process. */
void proc_note_runtime(struct process *p, const struct mapping *m, const char *path);
/* The name of the runtime whose JIT code the process has: "" none, "other" when it is not known. */
const char *proc_jit_name(const struct process *p);

/* procfs.c */
/* Reads the executable mappings; the process may be gone. Replaces what is there. */
void proc_read_maps(struct proc_table *t, struct process *p);
/* Reads name, parent, namespace pid, command line and cgroup; what cannot be read any more
 * stays. */
void proc_read_labels(struct proc_table *t, struct process *p);
/* Reads the cgroup again when that is due, or when the record's cgroup is another. */
void proc_refresh_labels(struct proc_table *t, struct process *p, const struct abi_record *r);
/* Identity of a mapping's file → binary id. */
uint32_t proc_binary_of(struct proc_table *t, struct binary_identity *identity);

/* sideband.c */
void proc_add_mapping(
	struct proc_table *t, struct process *p, const struct mapping *m, const char *path);

/* task.c, address.c */
/* Takes an address out of the look-up: the next sample there gets another one. */
void proc_address_unlink(struct proc_table *t, uint32_t id);
void proc_tasks_done(struct proc_table *t);
void proc_addresses_done(struct proc_table *t);
