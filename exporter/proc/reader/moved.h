/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that a process moved to other memory. Programs that want huge pages for their code copy it to anonymous memory, to a memfd or to a
 * file of hugetlbfs, which then takes the place of their file's mapping: at the same addresses lie the same bytes. /proc/PID/maps shows
 * such memory between two mappings of the file, and the file's program headers say what of it belongs there.
 */
#pragma once
#include "exporter/proc/maps.h"
#include "exporter/proc/reader/reader.h"

/* What was seen of the file that the last lines of maps were of. */
struct moved {
	struct maps_line header; /* the mapping of its first bytes; start 0: none */
	size_t first;		 /* from here on `lines` of an answer are not its own */
};

/* Before a line of maps is added to the answer's, if it is executable: those that were added since the last line of the same file, and
 * lie where its code belongs, become lines of that file. Blocks: may read the file's first page. */
void moved_line(const struct proc_reader_options *o, struct moved *s, struct proc_answer *a,
	const struct maps_line *line);

/* The offset in the file of what lies at the line's start, by the first n bytes of an ELF file that is mapped at `base`. False when no
 * executable segment belongs there. */
bool moved_offset(const uint8_t *elf, size_t n, uint64_t base, const struct proc_line *line,
	uint64_t *ret) _must_check_;
