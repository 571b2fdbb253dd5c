/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that readers take, and their answers, which wait for their time and then go to whoever asked.
 */
#include "exporter/proc/asks.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include <errno.h>
#include <string.h>

void proc_answer_free(struct proc_answer **ap)
{
	struct proc_answer *a = *ap;

	if (!a)
		return;
	free(a->cgroup);
	free(a->cmdline);
	free(a->lines);
	free(a->text);
	free(a->executable);
	free(a->listed);
	free(a);
	*ap = NULL;
}

static bool next_container(struct proc_table *t, struct proc_request *ret)
{
	struct cgroup *c = t->containers_head;

	if (!c)
		return false;
	t->containers_head = c->next_asked;
	if (!t->containers_head)
		t->containers_tail = NULL;
	*ret = (struct proc_request) {
		.ask = PROC_ASK_CONTAINER, .of = c, .user_id = c->info.user_id};
	memcpy(ret->container_id, c->info.container_id, sizeof(ret->container_id));
	return true;
}

static bool next_list(struct proc_table *t, struct proc_request *ret)
{
	if (!t->scan.pending || t->scan.is_asked)
		return false;
	t->scan.pending = false;
	t->scan.is_asked = true;
	*ret = (struct proc_request) {.ask = PROC_ASK_LIST};
	return true;
}

bool proc_table_next(struct proc_table *t, enum proc_ask ask, struct proc_request *ret)
{
	struct process *p;

	assert_table_held(t);
	if (ask == PROC_ASK_CONTAINER)
		return next_container(t, ret);
	if (ask == PROC_ASK_LIST)
		return next_list(t, ret);
	p = proc_ask_take(t, ask);
	if (!p)
		return false;
	*ret = (struct proc_request) {
		.ask = ask,
		.of = p,
		.pid = p->pid,
		.start_ns = p->start_ns,
		.names = !p->labels_read,
		.cgroup = !proc_cgroup_known(t, p->cgroup_id),
	};
	return true;
}

bool proc_table_is_asking(const struct proc_table *t)
{
	assert_table_held(t);
	return t->n_open || t->scan.pending || proc_table_is_scanning(t);
}

void proc_table_answer(struct proc_table *t, struct proc_answer *a)
{
	assert_table_held(t);
	a->next = NULL;
	if (t->answers_tail)
		t->answers_tail->next = a;
	else
		t->answers_head = a;
	t->answers_tail = a;
}

/* What could not be read now is asked again, behind all others, while the process is there. */
static bool ask_again(struct proc_table *t, struct process *p, const struct proc_answer *a)
{
	enum proc_ask ask = a->request.ask;

	if (p->exited || (a->error != -ETIMEDOUT && a->error != -EBUSY))
		return false;
	proc_ask_again(t, p, ask);
	return true;
}

static void take_container(struct proc_table *t, struct proc_answer *a)
{
	struct cgroup *c = a->request.of;

	proc_cgroup_found(t, c, a->error == 0 ? &a->container : NULL);
	c->is_asked = false;
	t->n_open--;
	proc_cgroup_put(t, &c);
}

static void take(struct proc_table *t, struct proc_answer *a)
{
	struct process *p = a->request.of;

	switch (a->request.ask) {
	case PROC_ASK_CONTAINER: take_container(t, a); return;
	case PROC_ASK_LIST: proc_take_list(t, a); return;
	default: break;
	}
	if (ask_again(t, p, a))
		return;
	switch (a->request.ask) {
	case PROC_ASK_LABELS: proc_take_labels(t, p, a); break;
	case PROC_ASK_MAPS: proc_take_maps(t, p, a); break;
	default: proc_take_root(t, p, a); break;
	}
	proc_ask_close(t, p, a->request.ask);
}

void proc_take_answers(struct proc_table *t, uint64_t up_to_ns)
{
	while (t->answers_head && t->answers_head->read_ns <= up_to_ns) {
		struct proc_answer *a = t->answers_head;

		t->answers_head = a->next;
		if (!t->answers_head)
			t->answers_tail = NULL;
		take(t, a);
		proc_answer_free(&a);
	}
}

/* Nobody answers any more. */
void proc_asks_done(struct proc_table *t)
{
	struct cgroup *c;

	while (t->answers_head) {
		struct proc_answer *a = t->answers_head;

		t->answers_head = a->next;
		if (a->root)
			binary_root_put(t->o.binaries, a->root);
		if (a->request.ask == PROC_ASK_CONTAINER && (c = a->request.of))
			proc_cgroup_put(t, &c);
		proc_answer_free(&a);
	}
	while ((c = t->containers_head)) {
		t->containers_head = c->next_asked;
		proc_cgroup_put(t, &c);
	}
	for (; t->scan.at < t->scan.n; t->scan.at++)
		t->scan.items[t->scan.at]->n_refs--;
	free(t->scan.items);
}
