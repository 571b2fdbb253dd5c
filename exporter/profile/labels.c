/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and values of the labels that come from a task.
 */
#include "exporter/profile/labels.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[PROFILE_N_TASK_LABELS] = {
	[PROFILE_LABEL_COMM] = "comm",
	[PROFILE_LABEL_THREAD_NAME] = "thread_name",
	[PROFILE_LABEL_PID] = "pid",
	[PROFILE_LABEL_TID] = "tid",
	[PROFILE_LABEL_NS_PID] = "ns_pid",
	[PROFILE_LABEL_EXECUTABLE] = "executable",
	[PROFILE_LABEL_COMPILER] = "compiler",
	[PROFILE_LABEL_LANGUAGE] = "language",
	[PROFILE_LABEL_JIT] = "jit",
	[PROFILE_LABEL_BUILD_ID] = "build_id",
	[PROFILE_LABEL_CONTAINER_ID] = "container_id",
	[PROFILE_LABEL_CONTAINER_NAME] = "container_name",
	[PROFILE_LABEL_CONTAINER_IMAGE] = "container_image",
	[PROFILE_LABEL_POD] = "pod",
	[PROFILE_LABEL_NAMESPACE] = "namespace",
	[PROFILE_LABEL_SYSTEMD_UNIT] = "systemd_unit",
	[PROFILE_LABEL_CGROUP] = "cgroup",
};

const char *profile_label_name(enum profile_label label)
{
	return names[label];
}

enum profile_label profile_label_of_name(const char *name)
{
	unsigned i = 0;

	while (i < PROFILE_N_TASK_LABELS && strcmp(names[i], name) != 0)
		i++;
	return (enum profile_label)i;
}

bool profile_label_is_reserved(const char *name)
{
	return profile_label_of_name(name) != PROFILE_N_TASK_LABELS ||
	       !strcmp(name, PROFILE_LABEL_CPU) || !strcmp(name, PROFILE_LABEL_STACK) ||
	       !strcmp(name, PROFILE_LABEL_NODE);
}

const char *profile_label_value(
	const struct proc_task_info *info, enum profile_label label, char buf[PROFILE_LABEL_BUF])
{
	switch (label) {
	case PROFILE_LABEL_COMM: return info->comm;
	case PROFILE_LABEL_THREAD_NAME: return info->thread_name;
	case PROFILE_LABEL_PID: snprintf(buf, 16, "%" PRIu32, info->pid); return buf;
	case PROFILE_LABEL_TID: snprintf(buf, 16, "%" PRIu32, info->tid); return buf;
	case PROFILE_LABEL_NS_PID:
		if (!info->ns_pid || info->ns_pid == info->pid)
			return "";
		snprintf(buf, 16, "%" PRIu32, info->ns_pid);
		return buf;
	case PROFILE_LABEL_EXECUTABLE: return info->executable;
	case PROFILE_LABEL_COMPILER: return info->compiler;
	case PROFILE_LABEL_LANGUAGE: return info->language;
	case PROFILE_LABEL_JIT: return info->jit;
	case PROFILE_LABEL_BUILD_ID:
		memcpy(buf, info->build_id, PROFILE_LABEL_BUF);
		return *buf ? buf : "";
	case PROFILE_LABEL_CONTAINER_ID: return info->container_id;
	case PROFILE_LABEL_CONTAINER_NAME: return info->container_name;
	case PROFILE_LABEL_CONTAINER_IMAGE: return info->container_image;
	case PROFILE_LABEL_POD: return info->pod;
	case PROFILE_LABEL_NAMESPACE: return info->namespace_;
	case PROFILE_LABEL_SYSTEMD_UNIT: return info->systemd_unit;
	case PROFILE_LABEL_CGROUP: return info->cgroup;
	case PROFILE_N_TASK_LABELS: break;
	}
	return "";
}
