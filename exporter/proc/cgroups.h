/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups that processes are in; equal ones are one. Their paths, and which id has which.
 */
#pragma once
#include "exporter/proc/asks.h"
#include "exporter/proc/cgroup.h"
#include "exporter/proc/proc.h"

/* A control group that processes are in. */
struct cgroup {
	uint32_t n_refs;
	uint64_t hash;
	struct cgroup *next_same_hash;
	struct cgroup_info info;
	struct container_info container; /* of info.container_id */
	const char **pod_values;	 /* one block with the texts; NULL: its pod is not known */
	struct cgroup *next_asked;	 /* in the queue of those whose container is asked for */
	bool is_asked;
	uint8_t container_tries;
	uint64_t
		container_due_ns; /* when its runtime's files are looked at again; UINT64_MAX: known */
	char path[];
};

/* By its path, made when new. NULL when memory is out. */
struct cgroup *proc_cgroup_get(struct proc_table *t, const char *path, size_t n);
struct cgroup *proc_cgroup_ref(struct cgroup *c);
void proc_cgroup_put(struct proc_table *t, struct cgroup **c);

/* What the runtimes' files say of its container; NULL: none knows it yet. */
void proc_cgroup_found(struct proc_table *t, struct cgroup *c, const struct container_info *found);

/*
 * Paths by the ids of cgroup v2, which the kernel gives to no second group while it runs: an id that is known stays right. At most
 * PROC_MAX_CGROUP_IDS; then all are forgotten.
 */
struct cgroup *proc_cgroup_known(const struct proc_table *t, uint64_t cgroup_id);
void proc_cgroup_learn(struct proc_table *t, uint64_t cgroup_id, struct cgroup *c);
void proc_cgroups_forget(struct proc_table *t);
