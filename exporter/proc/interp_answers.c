/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for the state of runtimes, their answers, and what is said of them.
 */
#include "exporter/proc/interp.h"
#include "exporter/proc/publish.h"

static bool is_waiting(const struct process *p)
{
	return p->interp->state == PROC_INTERP_WAITING;
}

static void close_ask(struct proc_table *t, struct process *p)
{
	p->interp->is_asked = false;
	proc_unref(t, p);
}

static struct process *take(struct proc_table *t, struct process *before)
{
	struct process **at = before ? &before->interp->next : &t->interp_head, *p = *at;

	*at = p->interp->next;
	if (t->interp_tail == p)
		t->interp_tail = before;
	p->interp->next = NULL;
	return p;
}

bool proc_interp_next(
	struct proc_table *t, int64_t now_ns, struct proc_interp_request *ret, int64_t *ret_due_ns)
{
	struct process *before = NULL, *p;

	assert_table_held(t);
	*ret_due_ns = INT64_MAX;
	while ((p = before ? before->interp->next : t->interp_head)) {
		if (p->exited || !is_waiting(p)) {
			close_ask(t, take(t, before));
			continue;
		}
		if (p->interp->due_ns > now_ns) {
			*ret_due_ns = MIN(*ret_due_ns, p->interp->due_ns);
			before = p;
			continue;
		}
		*ret = (struct proc_interp_request) {.of = take(t, before),
			.pid = p->pid,
			.start_ns = p->start_ns,
			.runtime = p->interp->runtime,
			.tries = p->interp->tries};
		return true;
	}
	return false;
}

bool proc_interp_is_asking(const struct proc_table *t, int64_t now_ns)
{
	assert_table_held(t);
	for (const struct process *p = t->interp_head; p; p = p->interp->next)
		if (p->interp->due_ns <= now_ns)
			return true;
	return t->interp_said.n_new;
}

/* ---- answers ---- */

/* What was read is of the runtime that the process has now. */
static bool still_fits(const struct proc_interp_request *r)
{
	return is_waiting(r->of) && !r->of->exited &&
	       r->of->interp->runtime.bias == r->runtime.bias &&
	       r->of->interp->runtime.binary == r->runtime.binary;
}

void proc_interp_walked(
	struct proc_table *t, const struct proc_interp_request *r, const struct interp_process *row)
{
	struct process *p = r->of;

	assert_table_held(t);
	if (still_fits(r)) {
		p->interp->row = *row;
		p->interp->state = PROC_INTERP_WALKED;
		proc_publish_now(t, p);
	}
	close_ask(t, p);
}

void proc_interp_refused(
	struct proc_table *t, const struct proc_interp_request *r, uint32_t refusal)
{
	assert_table_held(t);
	if (still_fits(r))
		proc_interp_refuse(t, r->of, refusal);
	close_ask(t, r->of);
}

void proc_interp_later(struct proc_table *t, const struct proc_interp_request *r, int64_t due_ns)
{
	struct process *p = r->of;

	assert_table_held(t);
	p->interp->is_asked = false;
	p->interp->due_ns = due_ns;
	p->interp->tries = (uint8_t)MIN(r->tries + 1, (uint32_t)UINT8_MAX);
	proc_interp_ask(t, p);
	proc_unref(t, p);
}

void proc_interp_gone(struct proc_table *t, const struct proc_interp_request *r)
{
	assert_table_held(t);
	if (still_fits(r))
		r->of->interp->state = PROC_INTERP_NONE;
	close_ask(t, r->of);
}

void proc_interp_hotspots(const struct proc_table *t, bool *ret_is_used)
{
	assert_table_held(t);
	for (const struct process *p = t->all; p; p = p->next) {
		const struct interp_process *row = p->exited ? NULL : proc_interp_row(p);

		if (row && p->interp->runtime.kind == RUNTIME_HOTSPOT)
			ret_is_used[row->hotspot % INTERP_HOTSPOTS] = true;
	}
}

void proc_interp_settled(struct proc_table *t, uint32_t binary)
{
	struct runtime_record record;

	assert_table_held(t);
	if (!t->o.interp || !binary_runtime(t->o.binaries, binary, &record))
		return;
	for (struct process *p = t->all; p; p = p->next) {
		for (uint32_t i = 0; !p->exited && i < maps_count(p->maps); i++)
			if (maps_at(p->maps, i)->binary == binary)
				proc_interp_note(t, p, maps_at(p->maps, i));
		proc_interp_ask(t, p);
	}
}

/* ---- what is said of it ---- */

static void count(struct proc_interp_binary *rows, size_t *n, size_t max,
	const struct proc_interp_binary *key, enum proc_interp_state state)
{
	size_t i = 0;

	while (i < *n && (rows[i].binary != key->binary || rows[i].refusal != key->refusal))
		i++;
	if (i == max)
		return;
	if (i == *n)
		rows[(*n)++] = *key;
	rows[i].n[state]++;
}

size_t proc_interp_binaries(const struct proc_table *t, struct proc_interp_binary *ret, size_t max)
{
	size_t n = 0;

	assert_table_held(t);
	for (const struct process *p = t->all; p; p = p->next) {
		const struct process_interp *in = p->interp;

		if (!in || p->exited || in->state == PROC_INTERP_NONE)
			continue;
		count(ret, &n, max,
			&(struct proc_interp_binary) {
				.binary = binary_canonical(t->o.binaries, in->runtime.binary),
				.version = in->runtime.version,
				.kind = in->runtime.kind,
				.refusal = in->state == PROC_INTERP_REFUSED ? in->refusal : 0},
			in->state);
		if (in->second)
			count(ret, &n, max,
				&(struct proc_interp_binary) {
					.binary = binary_canonical(t->o.binaries, in->second),
					.version = in->second_version,
					.kind = in->second_kind,
					.refusal = INTERP_REFUSED_SECOND},
				PROC_INTERP_REFUSED);
	}
	return n;
}

bool proc_interp_next_refused(struct proc_table *t, struct proc_interp_binary *ret)
{
	struct proc_interp_said *s = &t->interp_said;

	assert_table_held(t);
	if (!s->n_new)
		return false;
	*ret = s->new[--s->n_new];
	return true;
}
