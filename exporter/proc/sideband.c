/* SPDX-License-Identifier: Apache-2.0
 *
 * The life cycle of processes as the kernel's side-band records tell it.
 */
#include "exporter/proc/publish.h"
#include "lib/base/alloc.h"
#include <string.h>
#include <sys/mman.h>

/* The live image of a pid; one that was missed is asked for. NULL when the table is full. */
static struct process *live_image(struct proc_table *t, uint32_t pid, uint64_t time_ns)
{
	struct process *p = proc_newest(t, pid);

	if (p && !p->exited)
		return p;
	p = proc_image_new(t, pid, time_ns);
	if (!p)
		return NULL;
	p->found_running = true;
	if (proc_may_read(t)) {
		proc_ask_first(t, p);
		proc_ask_maps(t, p);
	}
	return p;
}

static void on_fork(struct proc_table *t, const struct sideband *e)
{
	struct process *parent, *before, *p;
	bool missed;

	if (e->pid == e->ppid)
		return; /* a thread */
	before = proc_newest(t, e->pid);
	if (before && !before->exited)
		proc_image_end(t, before, e->time_ns);
	t->stats.recycled += before != NULL;
	parent = proc_newest(t, e->ppid);
	missed = !parent;
	if (missed && e->ppid)
		parent = live_image(
			t, e->ppid, e->time_ns); /* what is read of it counts for the child */
	p = proc_image_new(t, e->pid, e->time_ns);
	if (p && parent)
		proc_image_inherit(t, p, parent, true);
	if (p)
		proc_publish_child(t, p);
	if (p && missed)
		memcpy(p->comm, e->comm, sizeof(p->comm));
}

static void on_exec(struct proc_table *t, const struct sideband *e)
{
	struct process *before = proc_newest(t, e->pid), *p;

	if (before && !before->exited)
		proc_image_end(t, before, e->time_ns);
	p = proc_image_new(t, e->pid, e->time_ns);
	if (!p)
		return;
	if (before)
		proc_image_inherit(t, p, before, false);
	else
		p->found_running = true;
	p->exec_id += p->exec_known;
	p->maps_complete = true; /* its mappings follow as records */
	p->maps_due_ns = e->time_ns + PROC_MAPS_YOUNG_NS;
	memcpy(p->comm, e->comm, sizeof(p->comm));
	/* A container's first program comes after the change of namespace, that in a chroot after
	 * the change of root. What is sampled is asked for its root anyway. */
	if (proc_may(t, &t->roots, PROC_ROOTS_PER_S))
		proc_ask_root(t, p);
}

static void on_comm(struct proc_table *t, const struct sideband *e)
{
	struct process *p;

	if (e->exec) {
		on_exec(t, e);
		return;
	}
	p = e->pid == e->tid ? proc_newest(t, e->pid) : NULL;
	if (p && !p->exited)
		memcpy(p->comm, e->comm, sizeof(p->comm));
}

static void on_thread_exit(struct proc_table *t, const struct sideband *e)
{
	struct process *p = e->pid == e->tid ? proc_newest(t, e->pid) : NULL;

	/* Other threads may live on; the next record of one of them revives the process. */
	if (p)
		proc_image_end(t, p, e->time_ns);
}

static void on_mmap(struct proc_table *t, const struct sideband *e)
{
	struct binary_identity identity = {
		.build_id = e->build_id_len ? e->build_id : NULL,
		.build_id_len = e->build_id_len,
		.dev_major = e->dev_major,
		.dev_minor = e->dev_minor,
		.ino = e->ino,
		.ino_generation = e->ino_generation,
		.path = e->path,
	};
	struct mapping m = {
		.start = e->addr,
		.end = e->addr + e->len,
		.file_off = e->pgoff,
		.since_ns = e->time_ns,
		.kind = maps_kind(e->path),
	};
	struct process *p;

	if (!(e->prot & PROT_EXEC))
		return;
	p = live_image(t, e->pid, e->time_ns);
	if (!p)
		return;
	if (m.kind == MAPPING_FILE)
		m.binary = binary_get(t->o.binaries, &identity);
	p->has_moved_code |= proc_is_moved(p, &m);
	proc_add_mapping(t, p, &m, e->path);
}

static void on_lost(struct proc_table *t, const struct sideband *e)
{
	t->stats.sideband_lost += e->lost;
	for (struct process *p = t->all; p; p = p->next)
		if (!p->exited) {
			p->maps_complete = false;
			p->maps_due_ns = 0;
		}
	t->scan.pending = true;
}

void proc_table_sideband(struct proc_table *t, const struct sideband *e)
{
	assert_table_held(t);
	t->now_ns = MAX(t->now_ns, e->time_ns);
	switch (e->kind) {
	case SIDEBAND_MMAP: on_mmap(t, e); break;
	case SIDEBAND_FORK: on_fork(t, e); break;
	case SIDEBAND_EXIT: on_thread_exit(t, e); break;
	case SIDEBAND_COMM: on_comm(t, e); break;
	case SIDEBAND_KSYMBOL: break; /* the kernel's, no process's */
	case SIDEBAND_LOST: on_lost(t, e); break;
	}
}
