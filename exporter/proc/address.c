/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses → frames. What lies in a file becomes (binary, offset); what does not is interned
 * for its process image, so that equal addresses of two processes never meet in the stack tree.
 */
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
#include <string.h>

static void code_name_put(struct code_name **n)
{
	if (*n && --(*n)->n_refs == 0)
		free(*n);
	*n = NULL;
}

/* Its mappings were never read, and still may be. */
static bool is_unread(struct process *p)
{
	return !p->maps_complete && proc_maps_asked(p);
}

static uint32_t add_code(struct proc_table *t, struct process *p, uint64_t addr)
{
	uint32_t id = proc_address_add(t, p, addr, false);

	if (!id)
		return 0;
	proc_wait_for_name(t, id);
	if (is_unread(p)) {
		t->addresses[id].is_unread = true;
		p->n_unread++;
		t->stats.addresses_unread++;
	}
	return id;
}

static uint64_t intern(struct proc_table *t, struct process *p, uint64_t addr)
{
	const uint64_t *slot = table_find(&t->by_address, proc_address_hash(p, addr, false));
	uint32_t id = slot ? (uint32_t)*slot : 0;

	while (id && (t->addresses[id].process != p || t->addresses[id].addr != addr ||
			     t->addresses[id].is_object))
		id = t->addresses[id].next;
	if (!id)
		id = add_code(t, p, addr);
	t->stats.addresses_full += !id;
	return id;
}

/* The mapping of that time. A miss is a reason to read them again: then the sample waits. */
static struct mapping *mapping_of(
	struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns)
{
	struct mapping *m = maps_find(p->maps, addr);
	struct process *asked, *from;

	if (m && m->since_ns <= time_ns)
		return m;
	if (p->kernel_thread || p == t->other)
		return NULL;
	asked = p->maps_complete ? NULL : proc_maps_asked(p);
	if (asked)
		proc_await(asked, PROC_ASK_MAPS);
	/* munmap and mremap send no record, so even a complete array may be out of date. */
	from = proc_maps_living(p);
	if (!from || asked || proc_is_asked(p, PROC_ASK_MAPS) || t->now_ns < from->maps_due_ns ||
		!proc_may_read(t))
		return NULL;
	from->missed_addr = from->maps_complete ? addr : 0;
	proc_ask_maps(t, from);
	return NULL;
}

/* The process's own root; when it is gone by now, that of the nearest ancestor that is not. */
static uint64_t root_of(struct proc_table *t, struct process *p)
{
	for (struct process *at = p; at && at != t->other; at = at->parent) {
		proc_ask_root(t, at);
		if (at->root_checked && at->root)
			return at->root;
	}
	return p->root;
}

size_t proc_places(const struct proc_table *t, const struct process *p, uint32_t binary,
	uint64_t time_ns, struct proc_place *ret, size_t max)
{
	uint32_t content = binary_canonical(t->o.binaries, binary);
	size_t n = 0;

	assert_table_held(t);
	for (uint32_t i = 0; n < max && i < maps_count(p->maps); i++) {
		const struct mapping *m = maps_at(p->maps, i);

		if (m->kind != MAPPING_FILE || m->since_ns > time_ns)
			continue;
		if (m->binary == binary || binary_canonical(t->o.binaries, m->binary) == content)
			ret[n++] = (struct proc_place) {m->start, m->end, m->file_off};
	}
	return n;
}

size_t proc_code_ranges(
	const struct process *p, uint64_t time_ns, struct proc_range *ret, size_t max)
{
	uint64_t last_end = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < maps_count(p->maps); i++) {
		const struct mapping *m = maps_at(p->maps, i);

		bool begins = !n || m->start != last_end;

		if (m->since_ns > time_ns)
			continue;
		n += begins;
		last_end = m->end;
		if (n > max)
			continue;
		if (begins)
			ret[n - 1].start = m->start;
		ret[n - 1].end = m->end;
	}
	return n;
}

void proc_source(struct proc_table *t, struct process *p, const struct proc_place *place,
	struct binary_source *ret)
{
	assert_table_held(t);
	*ret = (struct binary_source) {
		.pid = p->pid,
		.start_ns = p->start_ns,
		.map_start = place->start,
		.map_end = place->end,
		.root = root_of(t, p),
	};
}

static void want_symbols(struct proc_table *t, struct process *p, struct mapping *m)
{
	uint32_t now_s = (uint32_t)(t->now_ns / NS_PER_S) + 1;
	struct binary_source source;

	if (m->wanted_s && now_s - m->wanted_s < PROC_WANT_INTERVAL_S)
		return;
	m->wanted_s = now_s;
	if (!binary_is_missing(t->o.binaries, m->binary))
		return;
	proc_source(t, p, &(struct proc_place) {m->start, m->end, m->file_off}, &source);
	binary_want(t->o.binaries, m->binary, &source);
}

/* When the binary was last asked for; NULL when memory is out. */
static uint32_t *wanted_slot(struct proc_table *t, uint32_t binary)
{
	size_t had = t->cap_wanted;

	if (binary >= t->cap_wanted) {
		if (alloc_grow(&t->wanted_s, &t->cap_wanted, (size_t)binary + 1,
			    sizeof(*t->wanted_s)) < 0)
			return NULL;
		memset(t->wanted_s + had, 0, (t->cap_wanted - had) * sizeof(*t->wanted_s));
	}
	return &t->wanted_s[binary];
}

static bool holds(const struct mapping *m, uint64_t word)
{
	uint64_t off = ABI_NATIVE_OFF(word);

	return m->kind == MAPPING_FILE && m->binary == ABI_NATIVE_BINARY(word) &&
	       off >= m->file_off && off - m->file_off < m->end - m->start;
}

/* Its labels come from its symbol file, whatever the samples fall into. */
void proc_want_executable(struct proc_table *t, struct process *p)
{
	if (p->exe_wanted || !p->exe_binary)
		return;
	p->exe_wanted = true;
	for (uint32_t i = 0; i < maps_count(p->maps); i++) {
		const struct mapping *at = maps_at(p->maps, i);

		if (at->binary == p->exe_binary) {
			want_symbols(t, p, maps_find(p->maps, at->start));
			return;
		}
	}
	if (p->exe_place.start && binary_is_missing(t->o.binaries, p->exe_binary)) {
		struct binary_source source;

		proc_source(t, p, &p->exe_place, &source);
		binary_want(t->o.binaries, p->exe_binary, &source);
	}
}

void proc_note_native(struct proc_table *t, struct process *p, uint64_t word)
{
	uint32_t *asked_s = wanted_slot(t, ABI_NATIVE_BINARY(word));
	uint32_t now_s = (uint32_t)(t->now_ns / NS_PER_S) + 1;

	assert_table_held(t);
	if (!asked_s || (*asked_s && now_s - *asked_s < PROC_WANT_INTERVAL_S))
		return;
	*asked_s = now_s;
	for (uint32_t i = 0; i < maps_count(p->maps); i++) {
		const struct mapping *at = maps_at(p->maps, i);

		if (holds(at, word)) {
			want_symbols(t, p, maps_find(p->maps, at->start));
			return;
		}
	}
}

void proc_want_again(struct proc_table *t, struct process *p)
{
	for (uint32_t i = 0; i < maps_count(p->maps); i++) {
		const struct mapping *m = maps_at(p->maps, i);
		struct binary_source source;

		if (!m->wanted_s)
			continue;
		proc_source(t, p, &(struct proc_place) {m->start, m->end, m->file_off}, &source);
		binary_want(t->o.binaries, m->binary, &source);
	}
}

void proc_addresses_read(struct proc_table *t, struct process *p)
{
	for (uint32_t id = 1; p->n_unread && id < t->n_addresses; id++) {
		struct address *a = &t->addresses[id];
		struct mapping *m;

		if (a->process != p || !a->is_unread)
			continue;
		a->is_unread = false;
		p->n_unread--;
		m = maps_find(p->maps, a->addr);
		if (!m || m->kind != MAPPING_FILE || !m->binary)
			continue;
		want_symbols(t, p, m);
		a->word = maps_word(m, a->addr);
		t->n_read_late++;
		t->stats.addresses_read++;
	}
}

static uint64_t frame_of(struct proc_table *t, struct process *p, struct mapping *m, uint64_t addr)
{
	if (m && m->kind == MAPPING_FILE && m->binary) {
		want_symbols(t, p, m);
		return maps_word(m, addr);
	}
	return ABI_FRAME(
		m && m->kind == MAPPING_JIT ? ABI_FRAME_JIT : ABI_FRAME_RAW, intern(t, p, addr));
}

uint64_t proc_locate(struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns)
{
	const struct mapping *m = mapping_of(t, p, addr, time_ns);

	assert_table_held(t);
	return m ? maps_word(m, addr) : 0;
}

uint64_t proc_resolve(struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns)
{
	assert_table_held(t);
	return frame_of(t, p, mapping_of(t, p, addr, time_ns), addr);
}

uint64_t proc_resolve_return(
	struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns)
{
	struct mapping *m = mapping_of(t, p, addr, time_ns);

	assert_table_held(t);
	if (!m && is_unread(p))
		return frame_of(t, p, NULL, addr);
	t->stats.unmapped_returns += !m;
	return m ? frame_of(t, p, m, addr) : 0;
}

static const char *name_of(const struct code_name *n)
{
	return n ? n->name : NULL;
}

static const char *file_of(const struct code_name *n)
{
	return n ? n->file : "";
}

struct proc_address proc_interned_address(const struct proc_table *t, uint64_t payload)
{
	assert_table_held(t);
	if (!payload || payload >= t->n_addresses || t->addresses[payload].is_object)
		return (struct proc_address) {0};
	return (struct proc_address) {
		.process = t->addresses[payload].process,
		.addr = t->addresses[payload].addr,
		.name = name_of(t->addresses[payload].name),
		.file = file_of(t->addresses[payload].name),
		.line = t->addresses[payload].name ? t->addresses[payload].name->line : 0,
		.word = t->addresses[payload].word,
	};
}

uint32_t proc_n_addresses(const struct proc_table *t)
{
	assert_table_held(t);
	return t->n_addresses;
}

void proc_addresses_retain(struct proc_table *t, const uint64_t *used_bitmap)
{
	assert_table_held(t);
	for (uint32_t id = 1; id < t->n_addresses; id++) {
		struct address *a = &t->addresses[id];

		if (!a->process)
			continue;
		if (a->is_object)
			a->object->lacks_room = false; /* others may have gone */
		if (bits_has(used_bitmap, id) || proc_object_retain(t, a))
			continue;
		if (!a->is_retired)
			proc_address_unlink(t, id);
		if (a->is_object)
			proc_object_free(t, a);
		else
			code_name_put(&a->name);
		t->n_read_late -= a->word != 0;
		a->process->n_unread -= a->is_unread;
		a->process->n_addresses--;
		proc_unref(t, a->process);
		*a = (struct address) {.next = t->free_addresses, .waiting = a->waiting};
		t->free_addresses = id;
	}
}

void proc_addresses_done(struct proc_table *t)
{
	for (uint32_t id = 1; id < t->n_addresses; id++)
		if (t->addresses[id].is_object)
			proc_object_free(t, &t->addresses[id]);
		else
			code_name_put(&t->addresses[id].name);
	for (size_t i = 0; i < ARRAY_SIZE(t->waiting); i++)
		free(t->waiting[i].ids);
	free(t->addresses);
	free(t->wanted_s);
}
