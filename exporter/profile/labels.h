/* SPDX-License-Identifier: Apache-2.0
 *
 * The labels of a sample that come from its task: one table for profiles, filters and documentation. All are strings in pprof:
 * a numeric label of 0 vanishes on decoding, and -tagfocus treats strings alike.
 */
#pragma once
#include "exporter/proc/proc.h"
#include <stdbool.h>

enum profile_label {
	PROFILE_LABEL_COMM,
	PROFILE_LABEL_THREAD_NAME,
	PROFILE_LABEL_PID,
	PROFILE_LABEL_TID,
	PROFILE_LABEL_NS_PID,
	PROFILE_LABEL_EXECUTABLE,
	PROFILE_LABEL_COMPILER,
	PROFILE_LABEL_LANGUAGE,
	PROFILE_LABEL_JIT,
	PROFILE_LABEL_BUILD_ID,
	PROFILE_LABEL_CONTAINER_ID,
	PROFILE_LABEL_CONTAINER_NAME,
	PROFILE_LABEL_CONTAINER_IMAGE,
	PROFILE_LABEL_POD,
	PROFILE_LABEL_NAMESPACE,
	PROFILE_LABEL_SYSTEMD_UNIT,
	PROFILE_LABEL_CGROUP,
	PROFILE_N_TASK_LABELS,
};

/* Names that samples have beside those of tasks. */
#define PROFILE_LABEL_CPU "cpu"
#define PROFILE_LABEL_STACK "stack"
#define PROFILE_LABEL_NODE "node"

const char *profile_label_name(enum profile_label label);
/* PROFILE_N_TASK_LABELS when there is none of this name. */
enum profile_label profile_label_of_name(const char *name);
/* True for every name that a sample can have by itself: external labels must not take them. */
bool profile_label_is_reserved(const char *name);

/* The value of a label; "" when the task has none. Numbers and build ids are printed into `buf`; the address of another one
 * stands for its text. */
enum { PROFILE_LABEL_BUF = 2 * SYMBOL_BUILD_ID_MAX + 1 };
const char *profile_label_value(
	const struct proc_task_info *info, enum profile_label label, char buf[PROFILE_LABEL_BUF]);
