/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked about processes, in queues, and whether samples wait for it.
 */
#include "exporter/proc/asks.h"
#include "exporter/proc/table.h"

#define BIT(ask) ((uint8_t)(1U << (ask)))

static void enqueue(struct proc_table *t, enum proc_ask ask, struct process *p)
{
	struct ask_queue *q = &t->asks[ask];

	p->asks.next[ask] = NULL;
	if (q->tail)
		q->tail->asks.next[ask] = p;
	else
		q->head = p;
	q->tail = p;
}

void proc_ask(struct proc_table *t, struct process *p, enum proc_ask ask)
{
	if (p == t->other || p->asks.open & BIT(ask))
		return;
	p->asks.open |= BIT(ask);
	p->asks.since_ns[ask] = t->now_ns;
	p->asks.not_before_ns[ask] = 0;
	proc_ref(p);
	t->n_open++;
	enqueue(t, ask, p);
}

void proc_ask_again(struct proc_table *t, struct process *p, enum proc_ask ask)
{
	p->asks.not_before_ns[ask] = t->now_ns + PROC_RETRY_NS;
	enqueue(t, ask, p);
}

bool proc_is_asked(const struct process *p, enum proc_ask ask)
{
	return p->asks.open & BIT(ask);
}

void proc_ask_close(struct proc_table *t, struct process *p, enum proc_ask ask)
{
	p->asks.open &= (uint8_t)~BIT(ask);
	p->asks.awaited &= (uint8_t)~BIT(ask);
	t->n_open--;
	proc_unref(t, p);
}

void proc_await(struct process *p, enum proc_ask ask)
{
	if (p->asks.open & BIT(ask))
		p->asks.awaited |= BIT(ask);
}

bool proc_is_awaited(const struct proc_table *t, const struct process *p)
{
	for (unsigned ask = 0; p->asks.awaited && ask < PROC_N_PROCESS_ASKS; ask++)
		if (p->asks.awaited & BIT(ask) &&
			t->now_ns < p->asks.since_ns[ask] + PROC_PATIENCE_NS)
			return true;
	return false;
}

struct process *proc_ask_take(struct proc_table *t, enum proc_ask ask)
{
	struct ask_queue *q = &t->asks[ask];
	struct process *before = NULL, *p = q->head;

	for (; p && p->asks.not_before_ns[ask] > t->now_ns; p = p->asks.next[ask])
		before = p;
	if (!p)
		return NULL;
	if (before)
		before->asks.next[ask] = p->asks.next[ask];
	else
		q->head = p->asks.next[ask];
	if (q->tail == p)
		q->tail = before;
	return p;
}

void proc_ask_maps(struct proc_table *t, struct process *p)
{
	p->maps_due_ns = t->now_ns + ((uint64_t)PROC_MAPS_BACKOFF_NS << p->maps_misses);
	proc_ask(t, p, PROC_ASK_MAPS);
	proc_await(p, PROC_ASK_MAPS);
}

void proc_ask_root(struct proc_table *t, struct process *p)
{
	/* The pid must still be this process. */
	if (!p->root_checked && !p->kernel_thread && !p->exited && proc_newest(t, p->pid) == p)
		proc_ask(t, p, PROC_ASK_ROOT);
}

struct process *proc_maps_giver(const struct process *p)
{
	return p && p->is_heir && !p->maps_complete ? p->parent : NULL;
}

struct process *proc_maps_asked(struct process *p)
{
	while (p && !proc_is_asked(p, PROC_ASK_MAPS))
		p = proc_maps_giver(p);
	return p;
}

struct process *proc_maps_living(struct process *p)
{
	while (p && p->exited)
		p = proc_maps_giver(p);
	return p;
}
