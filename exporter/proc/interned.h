/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned addresses: ids that stand in the stack tree for what lies at an address of a process image and in no file. JIT code, or a
 * code object of a language runtime.
 */
#pragma once
#include "exporter/proc/code.h"
#include "exporter/proc/code_objects.h"

struct proc_table;

struct address {
	uint64_t addr;
	struct process *process; /* NULL: free */
	union {
		struct code_name *name;	    /* of JIT code; NULL: not known */
		struct code_object *object; /* never NULL where is_object */
	};
	uint32_t next;	 /* same hash; or free */
	uint8_t waiting; /* in t->waiting: bits by enum proc_code_kind */
	bool was_tried;
	bool is_retired; /* other code is there by now: no new sample finds it */
	bool is_unread;	 /* its process's mappings were not known yet */
	bool is_object;	 /* a code object of a language runtime lies there (code_objects.c) */
	uint64_t word;	 /* of a file, found when they were; 0: none */
};

/* Ids that wait for a name, the newest last. */
struct waiting {
	uint32_t *ids;
	size_t n, cap;
};

static inline enum proc_code_kind proc_kind_of(const struct address *a)
{
	return a->is_object ? PROC_CODE_OBJECTS : PROC_CODE_JIT;
}

/* What by_address of the table finds it by. */
uint64_t proc_address_hash(const struct process *p, uint64_t addr, bool is_object);
/* A new id for what is at that address of the process, 0: there is no room. It comes before others of the same hash. */
uint32_t proc_address_add(struct proc_table *t, struct process *p, uint64_t addr, bool is_object);
/* Takes an address out of the look-up: the next sample there gets another one. */
void proc_address_unlink(struct proc_table *t, uint32_t id);
/* Lets it wait for its name. */
void proc_wait_for_name(struct proc_table *t, uint32_t id);
/* The address of a batch that still means the same; NULL: there is none. */
struct address *proc_address_still(
	struct proc_table *t, const struct proc_code_process *p, uint32_t id, uint64_t addr);

/* code_objects.c */
void proc_object_free(struct proc_table *t, struct address *a);
/* Nothing in the log has it. The newest object at an address stays, without its text, as long as the kernel half may leave out to tell of
 * it again when its process is sampled. */
bool proc_object_retain(struct proc_table *t, struct address *a);
