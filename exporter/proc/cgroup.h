/* SPDX-License-Identifier: Apache-2.0
 *
 * What a control group's path tells about the process in it. Pure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_info {
	/* in full; "" when in no container, or one without id (LXC) */
	char container_id[72];
	char container_name[128]; /* where the path has it: LXC, systemd-nspawn, machined */
	char systemd_unit[256];	  /* the innermost service or scope, else slice */
	char pod_uid[40];	  /* Kubernetes, with dashes */
	uint32_t user_id;	  /* whose slice it is in; 0: root's, or nobody's */
};

/* Paths as docker, containerd, CRI-O, podman, LXC, systemd and the kubelet make them, with
 * either cgroup driver. */
void cgroup_parse(const char *path, struct cgroup_info *ret);

/* The path that names a process, from the text of /proc/PID/cgroup: that of the v2 hierarchy;
 * where it is "/" (v1, hybrid), the longest of all. Returns its length and where it starts;
 * *ret_v2: it is the v2 one. 0 when there is none. */
size_t cgroup_select(const char *text, size_t n, const char **ret_path, bool *ret_v2);
