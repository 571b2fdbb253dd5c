/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of the process table's tasks: the array `tasks` of struct proc_task_info that the includer has defined, NULL for "".
 */
#pragma once
#include "exporter/proc/proc.h"
#include "lib/base/cleanup.h"

uint32_t proc_n_tasks(const struct proc_table *t)
{
	(void)t;
	return ARRAY_SIZE(tasks);
}

void proc_task_info(const struct proc_table *t, uint32_t task, struct proc_task_info *ret)
{
	const char **strings[] = {&ret->comm, &ret->thread_name, &ret->executable, &ret->cmdline,
		&ret->cgroup, &ret->container_id, &ret->container_name, &ret->container_image,
		&ret->pod, &ret->namespace_, &ret->systemd_unit, &ret->compiler, &ret->language,
		&ret->jit};

	(void)t;
	*ret = tasks[task];
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		if (!*strings[i])
			*strings[i] = "";
}
