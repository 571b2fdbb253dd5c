/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime of a file, and of a live process, for tests. Included behind cmocka.h.
 */
#pragma once
#include "exporter/parser/runtime/runtime.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The record of a file; false: it has no runtime, or is no ELF file. ret_first, unless NULL: the virtual address that its start is mapped for. */
static inline bool runtime_of_file(
	const char *path, struct runtime_record *ret, uint64_t *ret_first)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file f;
	bool found;

	if (fd < 0)
		return false;
	found = elf_file_open(fd, &f, NULL) == 0 && runtime_read(&f, ret);
	if (found && ret_first)
		*ret_first = f.loads[0].vaddr & ~4095ULL;
	elf_file_done(&f);
	close(fd);
	return found;
}

/* The first file among its mappings that has a runtime, which must be of this kind and not refused; the bias that it is mapped with. */
static inline void runtime_find(
	pid_t pid, enum runtime_kind kind, struct runtime_record *ret, uint64_t *ret_bias)
{
	char path[64], line[PATH_MAX + 128], last[PATH_MAX] = "";
	FILE *maps;

	*ret = (struct runtime_record) {0};
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	assert_non_null(maps);
	while (!ret->kind && fgets(line, sizeof(line), maps)) {
		char file[PATH_MAX] = "", link[128];
		unsigned long start, end, off;
		uint64_t first;

		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &start, &end, &off, file) != 4 ||
			file[0] != '/' || strcmp(file, last) == 0 || off)
			continue;
		memcpy(last, file, sizeof(last));
		/* Its path may be one of another root. */
		snprintf(link, sizeof(link), "/proc/%d/map_files/%lx-%lx", pid, start, end);
		if (runtime_of_file(link, ret, &first))
			*ret_bias = start - first;
	}
	fclose(maps);
	assert_int_equal(ret->kind, kind);
	assert_string_equal(runtime_refusal_text(ret->refusal), "");
}
