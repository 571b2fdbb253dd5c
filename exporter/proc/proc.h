/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes: identity, life cycle, mappings, labels; and the capped table of tasks that samples
 * refer to. Stage 3.
 *
 * A process image is (pid, start time, exec count); a recycled pid is another process. Mappings
 * keep the time at which they appeared, so that a sample is resolved against the mappings of its
 * own time. Exited processes stay until the samples that may need them are named. Mappings,
 * strings and labels that processes have in common are stored once. The drain thread fills it. All functions that take the table
 * but proc_table_freep want the lock of its options held, the pipeline's (see docs/ARCHITECTURE.md).
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/interp/refusals.h"
#include "exporter/proc/runtime.h"
#include "exporter/proc/asks.h"
#include "exporter/sample/drain.h"
#include "lib/base/budget.h"
#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include <stdbool.h>
#include <stdint.h>

struct pod_table;
struct proc_table;
struct process;

struct proc_options {
	uint32_t max_processes, max_tasks;
	bool build_ids;	       /* tasks have that of their executable */
	uint32_t n_pod_labels; /* whose values pods have */
	struct binary_registry *binaries;
	struct budget *budget;
	struct budget *text_budget; /* of names of code objects; NULL: no limit */
	struct lock *
		lock; /* the owner's, under which the table is used; NULL: one thread alone uses it */
	uint32_t interp; /* runtimes whose frames are walked: 1 << enum runtime_kind */
	struct runs *
		runs; /* where mappings are published for the kernel half; NULL: nowhere. Not owned */
};

struct proc_table *proc_table_new(const struct proc_options *o);
void proc_table_freep(struct proc_table **t);

/* Side-band record, in time order. */
void proc_table_sideband(struct proc_table *t, const struct sideband *e);
/* Records up to that time have come: answers that were read by then count from now on. */
void proc_table_come(struct proc_table *t, uint64_t up_to_ns);
/* Drops exited processes whose samples cannot come any more. */
void proc_table_expire(struct proc_table *t, uint64_t up_to_ns);

/* The process image of a record, created when unknown (its labels and mappings are asked for then).
 * Never NULL: when the table is full a shared "other" process is given and counted. */
struct process *proc_table_of_record(struct proc_table *t, const struct abi_record *r);
/* That of a record about a code object; NULL: it is not known yet, as before its first sample. */
struct process *proc_table_of_code(const struct proc_table *t, const struct abi_code *c);
enum proc_wait {
	PROC_READY,
	PROC_AWAITED,  /* something is being read that the sample is worth waiting for */
	PROC_GIVEN_UP, /* the same, but that takes too long */
};
/* Asks for what the record needs to know of its process and is not known. */
enum proc_wait proc_table_awaits(
	struct proc_table *t, struct process *p, const struct abi_record *r);

/* Resolves a user address at a time: ABI_NATIVE(binary, offset) or ABI_FRAME_JIT / ABI_FRAME_RAW
 * with an address interned per process image (so equal addresses of two processes never meet;
 * proc_interned_address gives it back). */
uint64_t proc_resolve(struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns);
/* The same for a return address, 0 when no executable mapping holds it: a walk through code
 * without frame pointers takes all kinds of words for one. */
uint64_t proc_resolve_return(
	struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns);
/* Where an address lies at a time, as a frame word that is not interned: native, JIT or raw; 0 when no executable mapping
 * holds it. */
uint64_t proc_locate(struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns);
/* Where a binary's code lies in a process at a time: at most `max` executable mappings of its content. Returns how many. */
struct proc_place {
	uint64_t start, end, file_off;
};
size_t proc_places(const struct proc_table *t, const struct process *p, uint32_t binary,
	uint64_t time_ns, struct proc_place *ret, size_t max);
/* All executable memory of a process at a time: at most `max` ranges, ascending, adjacent ones as one. Returns how many there
 * are, which may be more than `max`. */
struct proc_range {
	uint64_t start, end;
};
size_t proc_code_ranges(
	const struct process *p, uint64_t time_ns, struct proc_range *ret, size_t max);
/* How the file of such a mapping may be opened. */
void proc_source(struct proc_table *t, struct process *p, const struct proc_place *place,
	struct binary_source *ret);
/* What the walker must know of the process: enum process_flags (bpf/process/heads.h). */
uint32_t proc_flags(const struct process *p);
/* A frame that the kernel half resolved: asks for the binary's symbols when they are missing. */
void proc_note_native(struct proc_table *t, struct process *p, uint64_t word);
struct proc_address {
	struct process *process;
	uint64_t addr;
	const char *name; /* of JIT code; NULL: not known. Until the lock is let go */
	const char *file; /* "" when not known */
	uint32_t line;
	uint64_t
		word; /* the native frame that it turned out to be when its process was read; 0: none */
};
struct proc_address proc_interned_address(const struct proc_table *t, uint64_t payload);
/* `process` is NULL for payload 0, which stands for all addresses above the caps (counted). */
const char *proc_comm(const struct proc_table *t, const struct process *p);
/* Payloads are below proc_n_addresses; those whose bit is not set in `used` may be reused.
 * Called when the stack tree was rebuilt, as are proc_tasks_retain and binary_retain. */
uint32_t proc_n_addresses(const struct proc_table *t);
void proc_addresses_retain(struct proc_table *t, const uint64_t *used_bitmap);
/* Sets the bits of all binaries that a live mapping refers to (for binary_retain); bits at or
 * above n_bits are left out. */
void proc_table_mark_binaries(const struct proc_table *t, uint64_t *bitmap, uint32_t n_bits);

/*
 * Names of JIT code, which its runtime writes to files (exporter/jit). Addresses outside files wait
 * for one from their first sample on; a name stays with the address, also for samples before it
 * was known.
 */
enum proc_code_kind {
	PROC_CODE_JIT,
	PROC_CODE_OBJECTS, /* of language runtimes: code_objects.h */
	PROC_N_CODES
};
struct proc_code_address {
	uint64_t addr;
	uint64_t check, context; /* of an object */
	uint16_t flags;		 /* likewise: enum abi_code_flags */
	uint32_t id;		 /* as in a frame */
	uint32_t process;	 /* index in the batch */
	bool was_tried;
};
struct proc_code_process {
	uint32_t pid, ns_pid, uid;
	uint64_t start_ns, root;
	bool uid_known, exited, has_jvm;
	bool has_runtime; /* of a language: `runtime` */
	struct proc_runtime runtime;
	char *dump; /* path of its jitdump, NULL none */
};
struct proc_code_batch {
	struct proc_code_address *addresses; /* in order of process */
	struct proc_code_process *processes;
	size_t n_addresses, n_processes;
};
/* Are there addresses that wait? */
bool proc_code_is_waiting(const struct proc_table *t, enum proc_code_kind kind);
/* At most `max` of them, the newest, and at most a quarter of one process while others wait. Those of processes whose root is gone are given up. */
void proc_code_take(
	struct proc_table *t, enum proc_code_kind kind, size_t max, struct proc_code_batch *ret);
void proc_code_batch_done(struct proc_code_batch *b);
/* The answer for one of them; `name` NULL: not found, it goes on waiting. Addresses that came to
 * mean something else meanwhile are left alone. */
void proc_code_name(struct proc_table *t, const struct proc_code_batch *b,
	const struct proc_code_address *a, const char *name, const char *file, uint32_t line);
/* The named addresses of a process, to see whether other code is there now; `ret` is malloc'ed, NULL
 * when there are none or memory is out. Returns how many. */
struct proc_code_named {
	uint64_t addr;
	uint32_t id;
	uint64_t name_hash; /* XXH3 of the name */
};
size_t proc_code_list_named(const struct proc_table *t, const struct proc_code_process *p,
	struct proc_code_named **ret);
/* Other code is at that address by now: samples from now on get an address of their own. */
void proc_code_retire(struct proc_table *t, const struct proc_code_process *p,
	const struct proc_code_named *named);

/*
 * Tasks. A task id stands for (process image, tid, thread name); ids are dense u32 and stay
 * valid until proc_tasks_retain says that no sample uses them. When the table is full the thread
 * collapses into its process's task (tid 0), counted.
 */
uint32_t proc_task_of_record(struct proc_table *t, struct process *p, const struct abi_record *r);
uint32_t proc_n_tasks(const struct proc_table *t);
/* `used` has a bit per task id: others may be reused. */
void proc_tasks_retain(struct proc_table *t, const uint64_t *used_bitmap);

/* Everything a label, a filter or /targets needs. Strings are "" when unknown; valid while the
 * lock is held. */
struct proc_task_info {
	uint32_t pid, tid, ppid, ns_pid;
	uint64_t start_ns; /* monotonic, as the kernel has it */
	const char *comm;  /* of the process; kernel threads without suffix */
	const char *thread_name;
	const char *executable; /* path */
	const char *cmdline;	/* arguments joined by spaces, at most 4096 bytes */
	const char *cgroup;	/* path */
	const char *container_id, *container_name, *container_image, *pod, *namespace_,
		*systemd_unit;
	const char *compiler,
		*language; /* of the executable; language: of the runtime whose frames it had, if any */
	uint32_t exe_binary; /* its id; 0: not known */
	const char *jit;     /* the runtime whose JIT code the process has */
	const char *const
		*pod_values; /* proc_options.n_pod_labels of them; NULL: its pod is not known */
	char build_id[2 * SYMBOL_BUILD_ID_MAX +
		      1]; /* of the executable; with proc_options.build_ids */
	struct {
		uint16_t kind, refusal; /* enum runtime_kind, interp_refusal; 0: none */
		uint32_t version;
	} interp; /* the language runtime of the process, walked or not */
	bool kernel_thread, exited;
};
void proc_task_info(const struct proc_table *t, uint32_t task, struct proc_task_info *ret);
/* Pods that are known from now on; takes them over. Control groups of pods that are gone keep what they had. */
void proc_table_set_pods(struct proc_table *t, struct pod_table *pods);

/* True when the task's process is that pid or descends from it, by the parents known at fork;
 * parents that are gone are known while one of their children is. */
bool proc_is_descendant(const struct proc_table *t, uint32_t task, uint32_t ancestor_pid);

/* A stack of the process that ended so. */
void proc_count_stack(struct process *p, enum abi_cut cut);
struct proc_stacks {
	uint32_t pid;
	const char *comm, *executable; /* valid while the lock is held */
	bool exited;
	uint64_t whole, cut;
	enum abi_cut last_cut; /* ABI_CUT_NONE: none yet */
};
/* The `max` process images with the most stacks cut, then with the most stacks; returns how many. */
size_t proc_top_stacks(const struct proc_table *t, struct proc_stacks *ret, size_t max);

/* Counters for /metrics. */
struct proc_stats {
	uint64_t tracked, tasks, addresses, mappings; /* now */
	uint64_t created, exited, recycled; /* recycled: a pid came back as another process */
	uint64_t maps_reads, maps_read_failed, labels_read, labels_unread;
	uint64_t asks_open; /* what is asked for and not answered, now */
	/* Addresses of samples that went on before their process's mappings were read; those of them found in files since. */
	uint64_t addresses_unread, addresses_read;
	uint64_t table_full, tasks_full, addresses_full;
	uint64_t sideband_lost;			      /* records that the kernel dropped */
	uint64_t unmapped_returns;		      /* proc_resolve_return gave 0 */
	uint64_t containers_found, containers_missed; /* looks into the runtimes' files */
	uint64_t code_waiting; /* addresses of JIT code without a name, now */
	/* Code objects that wait for one, now; frames without one because the kernel half has not described their object, or for the caps. */
	uint64_t objects_waiting, objects_unknown;
	uint64_t text_bytes; /* of names of code objects, now */
	/* Mappings in kernel memory, its size, and how often it had no room for a process's mappings or for its head. */
	uint64_t interp[N_RUNTIMES][PROC_N_INTERP_STATES];	/* processes, now */
	uint64_t interp_refused[N_RUNTIMES][N_INTERP_REFUSALS]; /* images */
	uint64_t published_bytes, published_capacity_bytes, unpublished_maps, unpublished_heads;
};
void proc_table_stats(const struct proc_table *t, struct proc_stats *ret);
