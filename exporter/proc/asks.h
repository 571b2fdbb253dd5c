/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the process table, and the answers. The table is fed by records and does no I/O: whatever has to be
 * read of a process becomes a request here, which a reader (exporter/proc/reader) takes, answers without any lock, and hands
 * back. Plain data: an answer is made by whoever reads and owned by the table once it is handed over.
 *
 * An answer counts from the time on at which records up to its reading have come, so that what was read of a process's next
 * image is never taken for the one before it, and no mapping that came meanwhile is lost.
 */
#pragma once
#include "bpf/abi.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_table;

enum proc_ask {
	PROC_ASK_LABELS,    /* /proc/PID/{stat,cgroup,cmdline,status} */
	PROC_ASK_MAPS,	    /* /proc/PID/maps */
	PROC_ASK_ROOT,	    /* the root directory, as a number of the binary registry */
	PROC_ASK_CONTAINER, /* a container in the files of its runtime */
	PROC_ASK_LIST,	    /* all processes */
	PROC_N_ASKS
};

struct proc_request {
	enum proc_ask ask;
	void *of; /* the table's; NULL for a list */
	uint32_t pid;
	uint64_t start_ns;     /* of the process; 0: not known */
	bool names;	       /* LABELS: command line, user and namespace too */
	bool cgroup;	       /* LABELS: its control group too */
	char container_id[72]; /* CONTAINER */
	uint32_t user_id;      /* CONTAINER: whose slice it is in; 0: root's, or nobody's */
};

struct proc_stat {
	char comm[ABI_COMM_LEN];
	uint32_t ppid;
	bool kernel_thread;
	uint64_t cpu_ticks, start_ticks;
};

struct proc_listed {
	uint32_t pid;
	struct proc_stat stat;
};

/* An executable mapping. Of code that its process moved to other memory it names the file that the code is from. */
struct proc_line {
	uint64_t start, end, file_off, ino;
	uint32_t dev_major, dev_minor;
	uint32_t path; /* where it begins in `text` */
};

struct container_info {
	char name[128], image[256], pod[256], namespace_[128]; /* "" when not known; UTF-8 */
};

struct proc_answer {
	struct proc_request request;
	int error; /* 0; -ESRCH: the process is gone; -ETIMEDOUT, -EBUSY: not now; other negative errno */
	uint64_t begun_ns, read_ns; /* between these it was read */
	/* LABELS */
	struct proc_stat stat;
	bool cgroup_is_v2, uid_known;
	uint32_t uid, ns_pid;	/* ns_pid 0: not known */
	char *cgroup, *cmdline; /* NULL: not read, or there is none */
	/* MAPS: in order of address */
	struct proc_line *lines;
	char *text;
	/* MAPS: where /proc/PID/exe leads to, and a mapping of it (ino 0: none), when the first file with code may be another; else NULL */
	char *executable;
	struct proc_line executable_line;
	/* ROOT: referenced; 0 unknown */
	uint64_t root;
	/* CONTAINER: error -ENOENT when no file knows it */
	struct container_info container;
	/* LIST: biggest CPU users first */
	struct proc_listed *listed;
	size_t n; /* of lines or listed */
	struct proc_answer *next;
};
/* Frees an answer with all that it has but its root, which is the registry's. */
void proc_answer_free(struct proc_answer **a);

/* The oldest request of that kind; false when there is none. Each is to be answered once. */
bool proc_table_next(struct proc_table *t, enum proc_ask ask, struct proc_request *ret);
/* Is anything asked? */
bool proc_table_is_asking(const struct proc_table *t);
/* The next process of a list that was read is asked about, as far as it is not known yet; false when there is none. Whoever
 * reads paces this: nobody waits for it. */
bool proc_table_scan_step(struct proc_table *t);
enum { PROC_READS_PER_LISTED = 3 }; /* requests of one step, at most */
bool proc_table_is_scanning(const struct proc_table *t);
/* Hands an answer over. */
void proc_table_answer(struct proc_table *t, struct proc_answer *a);
