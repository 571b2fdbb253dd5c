/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of anybody's making walked by elfutils through this program's own file: whatever registers, addresses and stack say,
 * the walk ends and its answer is what the reader takes.
 */
#include "exporter/parser/walk.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(int fd)
{
	struct stat st;
	struct parser_walk walk;
	struct cursor c;
	void *map;

	if (fstat(fd, &st) < 0 || !st.st_size)
		return;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		abort();
	c = cursor_of(map, (size_t)st.st_size);
	while (cursor_left(&c))
		if (parser_walk_next(&c, &walk) < 0)
			abort();
	munmap(map, (size_t)st.st_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int in = memfd_create("in", 0), out = memfd_create("out", 0);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (in < 0 || out < 0 || file < 0)
		abort();
	if (write(in, data, size) == (ssize_t)size) {
		(void)!parser_walk(in, &file, 1, out, NULL);
		check_answer(out);
	}
	close(in);
	close(out);
	close(file);
	return 0;
}
