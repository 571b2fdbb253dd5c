/* SPDX-License-Identifier: Apache-2.0
 *
 * BPF arrays made with BPF_F_MMAPABLE can be mapped by whoever holds their descriptor.
 */
#include "exporter/keeper/memory.h"
#include <string.h>
#include <sys/mman.h>

void *keeper_memory_map(const struct keeper_setup *s, enum keeper_map which, struct errbuf *eb)
{
	void *p;

	if (!s->maps[which].bytes)
		return NULL;
	p = mmap(NULL, s->maps[which].bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->maps[which].fd,
		0);
	if (p != MAP_FAILED)
		return p;
	err_set(eb, -errno, "cannot map %llu bytes of BPF map %d: %s",
		(unsigned long long)s->maps[which].bytes, which, strerror(errno));
	return NULL;
}

void keeper_memory_unmap(const struct keeper_setup *s, enum keeper_map which, void *memory)
{
	if (memory)
		munmap(memory, s->maps[which].bytes);
}
