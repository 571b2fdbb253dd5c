/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of /proc, one answer each. All of it can block.
 */
#pragma once
#include "exporter/proc/reader/reader.h"

/* Names, control group, command line, as far as the request wants them. */
void files_read_labels(const struct proc_reader_options *o, struct proc_answer *a);
/* Executable mappings; -ESRCH when there are none at all, as of a process that is ending. */
void files_read_maps(const struct proc_reader_options *o, struct proc_answer *a);
/* All processes. */
void files_read_list(const struct proc_reader_options *o, struct proc_answer *a);
