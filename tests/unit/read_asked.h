/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process table asks for, read at once on the test's own thread.
 */
#pragma once
#include "exporter/proc/reader/reader.h"

/* `o` has what the reader reads from; table and lock are filled in here. */
static inline void read_asked(struct proc_table *t, struct proc_reader_options o)
{
	struct lock lock = LOCK_INITIALIZER;
	struct proc_reader *reader;

	o.table = t;
	o.lock = &lock;
	reader = proc_reader_new(&o);
	while (proc_reader_settle(reader))
		proc_table_come(t, UINT64_MAX / 2);
	proc_reader_freep(&reader);
}

/* The process of a record, once what is asked about it was read. */
static inline struct process *read_process(
	struct proc_table *t, const struct proc_reader_options *o, const struct abi_record *r)
{
	struct process *p = proc_table_of_record(t, r);

	while (proc_table_awaits(t, p, r) == PROC_AWAITED)
		read_asked(t, *o);
	read_asked(t, *o);
	return p;
}
