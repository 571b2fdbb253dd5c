/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of addresses, by process image and address; freed ones are used again.
 */
#include "exporter/proc/interned.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"

uint64_t proc_address_hash(const struct process *p, uint64_t addr, bool is_object)
{
	return hash_mix(number_of(p)) ^ hash_mix(addr * 3 + 1 + is_object);
}

uint32_t proc_address_add(struct proc_table *t, struct process *p, uint64_t addr, bool is_object)
{
	uint32_t id = t->free_addresses;
	uint64_t *slot;

	if (p == t->other || p->n_addresses >= PROC_ADDRESSES_PER_PROCESS)
		return 0;
	if (!id && (t->n_addresses >= PROC_MAX_ADDRESSES ||
			   alloc_grow(&t->addresses, &t->cap_addresses, t->n_addresses + 1,
				   sizeof(*t->addresses)) < 0))
		return 0;
	slot = table_insert(&t->by_address, proc_address_hash(p, addr, is_object), NULL);
	if (!slot)
		return 0;
	if (id)
		t->free_addresses = t->addresses[id].next;
	else
		t->addresses[id = t->n_addresses++] = (struct address) {0};
	t->addresses[id] = (struct address) {.addr = addr,
		.process = p,
		.next = (uint32_t)*slot,
		.is_object = is_object,
		.waiting = t->addresses[id].waiting};
	p->n_addresses++;
	proc_ref(p);
	*slot = id;
	return id;
}

void proc_address_unlink(struct proc_table *t, uint32_t id)
{
	uint64_t hash = proc_address_hash(
		t->addresses[id].process, t->addresses[id].addr, t->addresses[id].is_object);
	uint64_t *slot = table_find(&t->by_address, hash);
	uint32_t at = (uint32_t)*slot;

	if (at == id) {
		*slot = t->addresses[id].next;
		if (!*slot)
			table_remove(&t->by_address, hash);
		return;
	}
	while (t->addresses[at].next != id)
		at = t->addresses[at].next;
	t->addresses[at].next = t->addresses[id].next;
}

void proc_wait_for_name(struct proc_table *t, uint32_t id)
{
	struct address *a = &t->addresses[id];
	enum proc_code_kind kind = proc_kind_of(a);
	struct waiting *w = &t->waiting[kind];

	if (a->waiting & 1U << kind || alloc_grow(&w->ids, &w->cap, w->n + 1, sizeof(*w->ids)) < 0)
		return;
	a->waiting |= (uint8_t)(1U << kind);
	w->ids[w->n++] = id;
}

struct address *proc_address_still(
	struct proc_table *t, const struct proc_code_process *p, uint32_t id, uint64_t addr)
{
	struct address *a = id < t->n_addresses ? &t->addresses[id] : NULL;

	return a && a->process && a->addr == addr && a->process->pid == p->pid &&
			       a->process->start_ns == p->start_ns
		       ? a
		       : NULL;
}
