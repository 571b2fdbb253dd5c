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
#include "exporter/proc/asks.h"
#include "exporter/proc/cgroups.h"
#include "exporter/proc/interned.h"
#include "exporter/proc/maps.h"
#include "exporter/proc/pod_table.h"
#include "exporter/proc/proc.h"
#include "exporter/proc/process.h"
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
/* A sample waits no longer for what is read of its process; it goes on as it is then. */
#define PROC_PATIENCE_NS (2 * NS_PER_S)
/* Until what could not be read now is asked for again. */
#define PROC_RETRY_NS (1 * NS_PER_S)
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

/* All processes, once at start and after lost records. */
struct scan {
	bool pending, is_asked;
	struct process **items; /* referenced, from `at` on */
	size_t n, cap, at;
};

struct ask_queue {
	struct process *head, *tail;
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
	struct waiting waiting[PROC_N_CODES]; /* for a name */
	struct table by_text;		      /* hash of its content → struct code_text * */
	struct scan scan;
	struct ask_queue asks[PROC_N_PROCESS_ASKS];
	struct cgroup *containers_head, *containers_tail; /* to be asked for; referenced */
	struct proc_answer *answers_head, *answers_tail;  /* whose time has not come */
	size_t n_open;	    /* requests about processes and containers without an answer */
	size_t n_read_late; /* addresses with `word` */
	struct bucket {
		double tokens;
		uint64_t filled_ns;
	} reads, roots;
	struct process *publish_list;
	struct proc_interp_said interp_said;
	struct process *interp_head,
		*interp_tail;	/* to be asked for their runtime's state; referenced */
	uint64_t now_ns;	/* of the newest record or side-band record */
	struct pod_table *pods; /* NULL: none known */
	struct proc_stats stats;
};

/* What the functions of proc.h and asks.h begin with: the caller has the owner's lock. */
static inline void assert_table_held(const struct proc_table *t)
{
	if (t->o.lock)
		ASSERT_HELD(t->o.lock);
}

/* The table holds pointers as numbers. */
static inline void *pointer_of(uint64_t value)
{
	return (void *)(uintptr_t)value; /* NOLINT: the inverse of number_of */
}
static inline uint64_t number_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* image.c */
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
/* Frees an image that nothing needs any more, and then its parents for which the same is true now. */
void proc_image_release(struct proc_table *t, struct process *p);
/* Whatever needs it: the table goes. */
void proc_image_free(struct proc_table *t, struct process *p);
/* Takes one token of `b`, which fills with per_s a second up to as many. */
bool proc_may(struct proc_table *t, struct bucket *b, double per_s);
/* One read of /proc may be made now. */
static inline bool proc_may_read(struct proc_table *t)
{
	return proc_may(t, &t->reads, PROC_READS_PER_S);
}
/* address.c: asks for the symbol file of its executable, once an image. */
void proc_want_executable(struct proc_table *t, struct process *p);

/* runtime.c */
/* What a new mapping says of a JIT in the process. */
void proc_note_runtime(struct process *p, const struct mapping *m, const char *path);
/* The name of the runtime whose JIT code the process has: "" none, "other" when it is not known. */
const char *proc_jit_name(const struct process *p);

/* interp.c */
/* What a mapping says of a runtime in the process. */
void proc_interp_note(struct proc_table *t, struct process *p, const struct mapping *m);
/* A child has what its parent has. */
void proc_interp_inherit(struct process *p, const struct process *from);
/* Around taking all mappings anew. */
void proc_interp_read_begin(struct process *p);
void proc_interp_read_end(struct proc_table *t, struct process *p);
/* Asks for the state of its runtime, if it has one and that is not known. */
void proc_interp_ask(struct proc_table *t, struct process *p);
/* The row to be published; NULL: none. */
const struct interp_process *proc_interp_row(const struct process *p);
void proc_interp_refuse(struct proc_table *t, struct process *p, uint32_t refusal);
void proc_interp_done(struct proc_table *t);

/* asks.c */
/* Asks, unless that is asked already. */
void proc_ask(struct proc_table *t, struct process *p, enum proc_ask ask);
bool proc_is_asked(const struct process *p, enum proc_ask ask);
/* Samples wait for what was asked, */
void proc_await(struct process *p, enum proc_ask ask);
/* and still do. */
bool proc_is_awaited(const struct proc_table *t, const struct process *p);
/* The oldest whose time has come, out of the queue; NULL when there is none. */
struct process *proc_ask_take(struct proc_table *t, enum proc_ask ask);
/* Back into the queue, behind all others. */
void proc_ask_again(struct proc_table *t, struct process *p, enum proc_ask ask);
/* The request is answered or given up. */
void proc_ask_close(struct proc_table *t, struct process *p, enum proc_ask ask);
/* Asks for the mappings, of which samples are to wait. */
void proc_ask_maps(struct proc_table *t, struct process *p);
/* Asks which root the process has, once an image. */
void proc_ask_root(struct proc_table *t, struct process *p);
/* Of an image whose own mappings are not known: the one that it shares them with since its fork; else NULL. */
struct process *proc_maps_giver(const struct process *p);
/* The process whose mappings are being read for `p`: itself, or the ancestor that it has them from; NULL: nobody's. */
struct process *proc_maps_asked(struct process *p);
/* The one that can be asked for them: itself while it lives, or that ancestor; NULL: all have ended. */
struct process *proc_maps_living(struct process *p);

/* answers.c */
/* Takes the answers that were read by then. */
void proc_take_answers(struct proc_table *t, uint64_t up_to_ns);
void proc_asks_done(struct proc_table *t);

/* labels.c */
/* Labels that were never read, and the root. */
void proc_ask_first(struct proc_table *t, struct process *p);
void proc_note_stat(struct proc_table *t, struct process *p, const struct proc_stat *st);
/* The same process as that of a stat? Ticks are 10 ms; a pid comes back later than that. */
bool proc_is_same(const struct process *p, const struct proc_stat *st);
void proc_take_labels(struct proc_table *t, struct process *p, const struct proc_answer *a);

/* scan.c */
void proc_take_list(struct proc_table *t, const struct proc_answer *a);

/* heirs.c: children that were forked before their parent's mappings were read */
/* Adds those of `from` that appeared between the two times, both included. */
void proc_keep_maps(struct proc_table *t, struct process *p, struct maps *from, uint64_t since_ns,
	uint64_t until_ns);
/* Gives them what was read of `from`. */
void proc_heirs_take(struct proc_table *t, struct process *from);

/* mappings.c */
void proc_take_maps(struct proc_table *t, struct process *p, const struct proc_answer *a);
/* The mapping takes the place of another file's code. */
bool proc_is_moved(const struct process *p, const struct mapping *m);
void proc_take_root(struct proc_table *t, struct process *p, const struct proc_answer *a);
void proc_add_mapping(
	struct proc_table *t, struct process *p, const struct mapping *m, const char *path);

/* task.c, address.c */
void proc_tasks_done(struct proc_table *t);
void proc_addresses_done(struct proc_table *t);
/* The mappings are known by now: addresses that came before are found. */
void proc_addresses_read(struct proc_table *t, struct process *p);
/* Asks once more for the symbols of all mappings that they were asked of: there is a better way to their files. */
void proc_want_again(struct proc_table *t, struct process *p);
