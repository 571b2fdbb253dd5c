/* SPDX-License-Identifier: Apache-2.0
 *
 * Who goes first on a CPU. On a machine with hundreds of runnable threads each wake-up of a thread waits for the others: a
 * request wakes several threads of main, and a late drain finds full rings. Budgets bound the CPU time of keeper and main, so
 * these two go first. The roles that read files and ask servers keep the priority that the exporter was started with.
 */
#pragma once

struct priority {
	int nice; /* as started */
};

/*
 * Lowers the nice value of the calling process to -steps; a lower one stays, and 0 steps change nothing. Asks for short turns,
 * which come soon (Linux 6.12; older kernels ignore that). Children and new threads inherit both. A session's leader gives the
 * value to the session's group too (sched(7), autogroup). -EPERM without CAP_SYS_NICE: the turns are short all the same.
 */
int priority_raise(struct priority *p, unsigned steps);
/* For a child: the nice value and the turns that the process had before priority_raise. */
void priority_restore(const struct priority *p);
