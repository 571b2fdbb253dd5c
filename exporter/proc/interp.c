/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process images run a language's runtime, by the files that they map; the queue of those whose state is to be found.
 */
#include "exporter/proc/interp.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include <string.h>

static bool has_state(const struct process *p, enum proc_interp_state state)
{
	return p->interp && p->interp->state == state;
}

bool proc_runtime(const struct process *p, struct proc_runtime *ret)
{
	bool is_walked = has_state(p, PROC_INTERP_WALKED);

	if (is_walked)
		*ret = p->interp->runtime;
	return is_walked;
}

const struct interp_process *proc_interp_row(const struct process *p)
{
	return has_state(p, PROC_INTERP_WALKED) ? &p->interp->row : NULL;
}

/* ---- what images map ---- */

/* Counts it, and has it said once a file. */
static void note_refusal(
	struct proc_table *t, uint32_t binary, uint32_t kind, uint32_t version, uint32_t refusal)
{
	struct proc_interp_said *s = &t->interp_said;
	uint64_t key = (uint64_t)binary_canonical(t->o.binaries, binary) << 8 | refusal;
	bool is_new = s->n_new < PROC_MAX_REFUSED_NEW;

	t->stats.interp_refused[kind][refusal]++;
	for (uint32_t i = 0; i < MIN(s->n, (uint32_t)PROC_MAX_REFUSED_SAID); i++)
		is_new &= s->said[i] != key;
	if (!is_new)
		return;
	s->said[s->n++ % PROC_MAX_REFUSED_SAID] = key;
	s->new[s->n_new++] = (struct proc_interp_binary) {.binary = binary,
		.version = version,
		.kind = (uint16_t)kind,
		.refusal = (uint16_t)refusal};
}

void proc_interp_refuse(struct proc_table *t, struct process *p, uint32_t refusal)
{
	const struct proc_runtime *r = &p->interp->runtime;

	p->interp->state = PROC_INTERP_REFUSED;
	p->interp->refusal = (uint8_t)refusal;
	note_refusal(t, r->binary, r->kind, r->version, refusal);
}

/* Two ids may be of one file, until it was looked at. */
static bool is_same_file(struct proc_table *t, const struct process_interp *in, uint32_t binary)
{
	return in->runtime.binary == binary ||
	       binary_canonical(t->o.binaries, in->runtime.binary) ==
		       binary_canonical(t->o.binaries, binary);
}

static void note_second(struct proc_table *t, struct process_interp *in, const struct mapping *m,
	const struct runtime_record *record)
{
	if (in->second || in->map_start == m->start || is_same_file(t, in, m->binary))
		return;
	in->second = m->binary;
	in->second_kind = record->kind;
	in->second_version = record->version;
	note_refusal(t, m->binary, record->kind, record->version, INTERP_REFUSED_SECOND);
}

void proc_interp_note(struct proc_table *t, struct process *p, const struct mapping *m)
{
	struct process_interp *in = p->interp;
	struct runtime_record record;
	uint64_t vaddr;

	if (!t->o.interp || m->kind != MAPPING_FILE || !m->binary || (in && in->is_unseen) ||
		!binary_runtime(t->o.binaries, m->binary, &record) ||
		!(t->o.interp & 1U << record.kind))
		return;
	/* One that is refused is in nobody's way. */
	if (in && in->state != PROC_INTERP_NONE &&
		(in->state != PROC_INTERP_REFUSED || record.refusal ||
			is_same_file(t, in, m->binary))) {
		note_second(t, in, m, &record);
		return;
	}
	if (!binary_runtime_vaddr(t->o.binaries, m->binary, m->file_off, &vaddr))
		return;
	if (!in)
		in = p->interp = xcalloc(1, sizeof(*in));
	in->state = PROC_INTERP_WAITING;
	in->tries = 0;
	in->due_ns = 0;
	in->map_start = m->start;
	in->runtime = (struct proc_runtime) {.binary = m->binary,
		.kind = record.kind,
		.version = record.version,
		.bias = m->start - vaddr};
	if (record.refusal)
		proc_interp_refuse(t, p, record.refusal);
}

void proc_interp_inherit(struct process *p, const struct process *from)
{
	const struct process_interp *theirs = from->interp;

	if (!theirs || p->interp || theirs->state == PROC_INTERP_NONE)
		return;
	p->interp = xmalloc(sizeof(*p->interp));
	*p->interp = *theirs;
	p->interp->is_asked = p->interp->is_unseen = false;
	p->interp->next = NULL;
	p->interp->tries = 0;
	p->interp->due_ns = 0;
}

void proc_interp_read_begin(struct process *p)
{
	if (p->interp)
		p->interp->is_unseen = true;
}

void proc_interp_read_end(struct proc_table *t, struct process *p)
{
	struct process_interp *in = p->interp;
	const struct mapping *m;

	if (!in)
		return;
	in->is_unseen = false;
	m = maps_find(p->maps, in->map_start);
	if (in->state != PROC_INTERP_NONE &&
		(!m || m->kind != MAPPING_FILE || !is_same_file(t, in, m->binary))) {
		in->state = PROC_INTERP_NONE;
		in->second = 0;
	}
	for (uint32_t i = 0; i < maps_count(p->maps); i++)
		proc_interp_note(t, p, maps_at(p->maps, i));
}

/* ---- asking ---- */

void proc_interp_ask(struct proc_table *t, struct process *p)
{
	if (!has_state(p, PROC_INTERP_WAITING) || p->interp->is_asked || !p->image || p->exited)
		return;
	p->interp->is_asked = true;
	p->n_refs++;
	p->interp->next = NULL;
	if (t->interp_tail)
		t->interp_tail->interp->next = p;
	else
		t->interp_head = p;
	t->interp_tail = p;
}

/* Nobody answers any more. */
void proc_interp_done(struct proc_table *t)
{
	for (; t->interp_head; t->interp_head = t->interp_head->interp->next)
		t->interp_head->n_refs--;
}
