/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of the readers of processes, for tests with a process table of their own.
 */
#pragma once
#include "exporter/proc/reader/reader.h"

void proc_reader_stats(struct proc_reader *r, struct proc_reader_stats *ret)
{
	(void)r;
	*ret = (struct proc_reader_stats) {.reads = {{0}}};
}

const char *proc_ask_name(enum proc_ask ask)
{
	(void)ask;
	return "maps";
}

const char *proc_read_result_name(enum proc_read_result result)
{
	return result == PROC_READ_OK ? "ok" : "other";
}

void proc_table_set_pods(struct proc_table *t, struct pod_table *pods)
{
	(void)t, (void)pods;
}
