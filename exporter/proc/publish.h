/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling the kernel half where the files of processes are mapped.
 */
#pragma once
#include "exporter/proc/table.h"

/* A record of the image came: it is worth telling its mappings. */
void proc_publish_sampled(struct proc_table *t, struct process *p, const struct abi_record *r);
/* Its mappings changed. */
void proc_publish_soon(struct proc_table *t, struct process *p);
/* After a fork: the kernel half copied the parent's head, perhaps. */
void proc_publish_child(struct proc_table *t, struct process *p);
/* The image ended or lost its mappings. */
void proc_unpublish(struct proc_table *t, struct process *p);
/* Tells the kernel half of one, now. */
void proc_publish_now(struct proc_table *t, struct process *p);
/* Tells the kernel half of all changes since the last call. */
void proc_publish(struct proc_table *t, uint64_t now_ns);
