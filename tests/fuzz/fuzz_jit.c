/* SPDX-License-Identifier: Apache-2.0
 *
 * Perf maps and jitdumps of strangers, which grow while they are read: the first byte says which of
 * the two and where the file is cut for the first reading. Pieces never overlap, and every piece
 * can be asked for its name.
 */
#include "exporter/jit/files.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct jit_codes *codes, int fd)
{
	struct jit_name name;

	for (size_t i = 0; i < codes->n; i++) {
		const struct jit_code *c = &codes->items[i];

		/* One without a size reaches to the next, which it may even share its start with. */
		bool is_hidden = !c->size && i + 1 < codes->n && c[1].start == c->start;
		uint64_t last = c->start + (c->size ? c->size - 1 : 0);

		if ((i && c[-1].start + c[-1].size > c->start) ||
			(!is_hidden && (jit_codes_find(codes, c->start) != c ||
					       jit_codes_find(codes, last) != c)))
			abort();
		if (c->of_dump)
			(void)!jit_dump_name(fd, c, c->start + c->size / 2, &name);
		else
			(void)!jit_map_name(fd, c, &name);
	}
}

static void read_some(struct jit_file *f, int fd, struct jit_codes *codes, bool is_dump)
{
	int r;

	do {
		r = is_dump ? jit_dump_read(f, fd, codes) : jit_map_read(f, fd, codes);
		if (jit_codes_merge(codes) < 0)
			abort();
	} while (r > 0);
	check(codes, fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_file f = {0};
	struct jit_codes codes;
	size_t cut;
	int fd;

	if (!size)
		return 0;
	fd = memfd_create("in", 0);
	jit_codes_init(&codes, 1000, NULL);
	cut = (size - 1) * (data[0] >> 1) / 127;
	if (write(fd, data + 1, cut) == (ssize_t)cut)
		read_some(&f, fd, &codes, data[0] & 1);
	if (write(fd, data + 1 + cut, size - 1 - cut) == (ssize_t)(size - 1 - cut))
		read_some(&f, fd, &codes, data[0] & 1);
	jit_codes_done(&codes);
	close(fd);
	return 0;
}
