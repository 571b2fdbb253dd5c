/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings and roots of processes: new ones, and those that were read.
 */
#include "exporter/proc/publish.h"
#include "lib/base/str.h"
#include <string.h>

void proc_add_mapping(
	struct proc_table *t, struct process *p, const struct mapping *m, const char *path)
{
	if (maps_add(&p->maps, m) < 0) {
		t->stats.maps_read_failed++;
		return;
	}
	proc_publish_soon(t, p);
	p->has_jvm |= m->kind == MAPPING_FILE && str_ends_with(path, "/libjvm.so");
	if (maps_is_dump(path)) {
		proc_text_put(&p->dump);
		p->dump = proc_text_new(path, strlen(path));
	}
	proc_note_runtime(p, m, path);
	proc_interp_note(t, p, m);
	if (!p->executable && m->kind == MAPPING_FILE && path[0] == '/')
		p->executable = proc_text_new(path, strlen(path));
	/* A record and a line of maps may name one file by two ids: the one that is mapped last has a way to the file. */
	if (m->binary && m->binary != p->exe_binary &&
		strcmp(path, proc_text_str(p->executable)) == 0) {
		p->exe_binary = m->binary;
		p->exe_wanted = false;
	}
}

bool proc_is_moved(const struct process *p, const struct mapping *m)
{
	const struct mapping *old = maps_find(p->maps, m->start);

	return old && old->kind == MAPPING_FILE && old->binary != m->binary;
}

/* The program is another file than the first one with code. */
static void take_executable(struct proc_table *t, struct process *p, const struct proc_answer *a)
{
	const struct proc_line *line = &a->executable_line;

	if (!a->executable)
		return;
	proc_text_put(&p->executable);
	p->executable = proc_text_new(a->executable, strlen(a->executable));
	p->exe_wanted = false;
	p->exe_binary = 0;
	if (!line->ino)
		return;
	p->exe_place = (struct proc_place) {line->start, line->end, line->file_off};
	p->exe_binary = binary_get(t->o.binaries, &(struct binary_identity) {
							  .dev_major = line->dev_major,
							  .dev_minor = line->dev_minor,
							  .ino = line->ino,
							  .path = a->executable,
						  });
}

/* Memory that came over a file's code while the mappings were being read is looked at once more. */
static void note_moved(struct process *p, const struct maps *before, uint64_t since_ns)
{
	for (uint32_t i = 0; i < maps_count(before); i++)
		p->has_moved_code |= maps_at(before, i)->since_ns >= since_ns &&
				     proc_is_moved(p, maps_at(before, i));
}

static void add_line(
	struct proc_table *t, struct process *p, const struct proc_line *line, const char *path)
{
	struct mapping m = {.start = line->start,
		.end = line->end,
		.file_off = line->file_off,
		.kind = maps_kind(path)};

	/* Its size and time of change are known once a symbol thread has opened it. */
	if (m.kind == MAPPING_FILE)
		m.binary = binary_get(t->o.binaries, &(struct binary_identity) {
							     .dev_major = line->dev_major,
							     .dev_minor = line->dev_minor,
							     .ino = line->ino,
							     .path = path,
						     });
	proc_add_mapping(t, p, &m, path);
}

/* Mappings of which it is known since when they are there stay so. */
static void keep_times(struct maps *before, struct maps *after)
{
	for (uint32_t i = 0; i < maps_count(after); i++) {
		struct mapping *m = maps_find(after, maps_at(after, i)->start);
		const struct mapping *old = maps_find(before, m->start);

		if (old && old->binary == m->binary && old->file_off == m->file_off) {
			m->since_ns = old->since_ns;
			m->wanted_s = old->wanted_s;
		}
	}
}

/* Did it help with the address for which they were read once more? A walk through code without frame pointers gives addresses
 * that are none. */
static void note_miss(struct process *p)
{
	if (p->missed_addr)
		p->maps_misses = maps_find(p->maps, p->missed_addr)
					 ? 0
					 : (uint8_t)MIN(p->maps_misses + 1, PROC_MAX_MISSES);
	p->missed_addr = 0;
}

/* It ended before it was read: what its parent has is read in its place. */
static void ask_living(struct proc_table *t, struct process *p)
{
	struct process *from = p->is_heir ? proc_maps_living(p->parent) : NULL;

	if (from && !from->maps_complete && !proc_maps_asked(from) && proc_may_read(t))
		proc_ask_maps(t, from);
}

void proc_take_maps(struct proc_table *t, struct process *p, const struct proc_answer *a)
{
	struct maps *before = p->maps;

	t->stats.maps_reads++;
	/* Gone, just ending, or another image by now: what was known is still the best. */
	if (a->error < 0 || p->end_ns <= a->read_ns) {
		t->stats.maps_read_failed++;
		note_miss(p);
		ask_living(t, p);
		return;
	}
	p->maps = NULL;
	p->has_moved_code = false;
	proc_interp_read_begin(p);
	take_executable(t, p, a);
	for (size_t i = 0; i < a->n; i++)
		add_line(t, p, &a->lines[i], a->text + a->lines[i].path);
	keep_times(before, p->maps);
	note_moved(p, before, a->begun_ns);
	/* What records told of while the rest was being read. */
	proc_keep_maps(t, p, before, a->begun_ns, UINT64_MAX);
	maps_put(&before);
	proc_interp_read_end(t, p);
	p->maps_complete = true;
	proc_publish_soon(t, p);
	note_miss(p);
	proc_addresses_read(t, p);
	proc_heirs_take(t, p);
}

void proc_take_root(struct proc_table *t, struct process *p, const struct proc_answer *a)
{
	if (!a->root)
		return;
	if (p->root_checked || p->reaped || p->end_ns <= a->read_ns) {
		binary_root_put(t->o.binaries, a->root);
		return;
	}
	p->root_checked = true;
	if (p->root)
		binary_root_put(t->o.binaries, p->root);
	p->root = a->root;
	proc_want_again(t, p);
}
