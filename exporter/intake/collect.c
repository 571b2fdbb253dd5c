/* SPDX-License-Identifier: Apache-2.0
 *
 * Mark from the rows of the log, then give back. When memory for the bitmaps is out it is tried again at the next drain.
 */
#include "exporter/intake/collect.h"
#include "bpf/abi.h"
#include "exporter/binary/binary.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include <string.h>

enum { MIN_NODES = 8192, MIN_TASKS = 1024 };

static uint64_t *new_bitmap(uint32_t n_bits)
{
	size_t n = bits_words(n_bits);
	uint64_t *bits = try_malloc(n * sizeof(*bits));

	if (bits)
		memset(bits, 0, n * sizeof(*bits));
	return bits;
}

/* Addresses and binaries that the frames of live nodes name. */
static void give_back_names(struct collector *c)
{
	uint32_t n_addresses = proc_n_addresses(c->procs), n_binaries = binary_n_ids(c->binaries);
	_cleanup_free_ uint64_t *addresses = new_bitmap(n_addresses),
				*binaries = new_bitmap(n_binaries);

	if (!addresses || !binaries)
		return;
	for (uint32_t id = 1; id < stacks_count(c->stacks); id++) {
		uint64_t word = stacks_frame(c->stacks, id);

		switch (ABI_FRAME_KIND(word)) {
		case ABI_FRAME_NATIVE:
			bits_set_below(binaries, ABI_NATIVE_BINARY(word), n_binaries);
			break;
		case ABI_FRAME_RAW:
		case ABI_FRAME_JIT:
			bits_set_below(addresses, ABI_FRAME_VALUE(word), n_addresses);
			break;
		case ABI_FRAME_INTERP:
			bits_set_below(addresses, ABI_INTERP_OBJECT(word), n_addresses);
			break;
		case ABI_FRAME_KERNEL:
		case ABI_FRAME_REPEAT:
		case ABI_FRAME_ELIDED:
		case ABI_FRAME_TRUNCATED: break;
		}
	}
	proc_addresses_retain(c->procs, addresses);
	proc_table_mark_binaries(c->procs, binaries, n_binaries);
	binary_retain(c->binaries, binaries, n_binaries);
	outcomes_retain(c->outcomes, binaries, n_binaries);
}

static uint32_t count_bits(const uint64_t *bits, uint32_t n_bits)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < bits_words(n_bits); i++)
		n += (uint32_t)__builtin_popcountll(bits[i]);
	return n;
}

void collect_garbage(struct collector *c)
{
	uint32_t n_nodes = stacks_count(c->stacks), n_tasks = proc_n_tasks(c->procs), live;
	_cleanup_free_ uint64_t *tasks = NULL, *nodes = NULL;
	_cleanup_free_ uint32_t *remap = NULL;

	if (n_nodes < MAX(c->next_nodes, MIN_NODES) && n_tasks < MAX(c->next_tasks, MIN_TASKS))
		return;
	tasks = new_bitmap(n_tasks);
	nodes = new_bitmap(n_nodes);
	remap = try_malloc((size_t)n_nodes * sizeof(*remap));
	if (!tasks || !nodes || !remap)
		return;
	nodes[0] = 1;
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		if (c->logs[i])
			sample_log_mark(c->logs[i], tasks, nodes);
	proc_tasks_retain(c->procs, tasks);
	live = count_bits(nodes, n_nodes);
	if (live <= n_nodes / 2) {
		stacks_compact(c->stacks, nodes, remap);
		for (size_t i = 0; i < ABI_N_EVENTS; i++)
			if (c->logs[i])
				sample_log_remap_stacks(c->logs[i], remap);
		give_back_names(c);
		c->runs++;
	}
	c->next_nodes = MAX(2 * live, MIN_NODES);
	c->next_tasks = MAX(2 * count_bits(tasks, n_tasks), MIN_TASKS);
}
