/* SPDX-License-Identifier: Apache-2.0
 *
 * Children that were forked before their parent's mappings were read. They often live shorter than that takes, so what is
 * read of the parent counts for them too.
 */
#include "exporter/proc/publish.h"

void proc_keep_maps(struct proc_table *t, struct process *p, struct maps *from, uint64_t since_ns,
	uint64_t until_ns)
{
	for (uint32_t i = 0; i < maps_count(from); i++) {
		const struct mapping *m = maps_at(from, i);

		if (m->since_ns >= since_ns && m->since_ns <= until_ns && maps_add(&p->maps, m) < 0)
			t->stats.maps_read_failed++;
	}
}

/* What the parent had at the fork, and what the child mapped since. */
static void inherit_maps(struct proc_table *t, struct process *p, const struct process *from)
{
	struct maps *own = p->maps;

	p->maps = NULL;
	if (maps_newest_ns(from->maps) <= p->begin_ns)
		p->maps = maps_ref(from->maps);
	else
		proc_keep_maps(t, p, from->maps, 0, p->begin_ns);
	proc_keep_maps(t, p, own, p->begin_ns, UINT64_MAX);
	maps_put(&own);
	p->maps_complete = true;
	p->is_heir = false;
	proc_interp_inherit(p, from);
	p->has_jvm |= from->has_jvm;
	p->has_jit_code |= from->has_jit_code;
	p->runtime = p->runtime ? p->runtime : from->runtime;
	if (!p->executable) {
		p->executable = proc_text_ref(from->executable);
		p->exe_binary = from->exe_binary;
		p->exe_place = from->exe_place;
	}
	proc_publish_soon(t, p);
	proc_addresses_read(t, p);
}

void proc_heirs_take(struct proc_table *t, struct process *from)
{
	if (!from->has_heirs)
		return;
	from->has_heirs = false;
	for (struct process *p = t->all; p; p = p->next)
		if (proc_maps_giver(p) == from && !p->reaped) {
			inherit_maps(t, p, from);
			proc_heirs_take(t, p); /* as deep as PROC_MAX_DEPTH */
		}
}
