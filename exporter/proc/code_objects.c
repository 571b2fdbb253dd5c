/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects among the interned addresses. An address has an id for each object that lay there, so that a sample gets that of its time.
 */
#include "exporter/proc/code_objects.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

/* A child's objects are looked for in so many ancestors that it has its memory from. */
enum { MAX_LINEAGE = 8 };
/* The kernel half tells of an object that is sampled again after 30 s. Twice that, since records and samples are held and wait. */
#define PROC_OBJECT_KEPT_NS (2 * ABI_CODE_AGAIN_NS)

struct code_text {
	uint32_t n_refs;
	size_t bytes; /* of all */
	uint64_t hash;
	struct code_text *next; /* same hash */
	struct proc_code_text t;
	_Alignas(struct interp_frame) uint8_t data[];
};

/* Two CPUs that see a new object at once tell of it once, maybe the one that was later. */
#define TOLD_LATE_NS (10 * NS_PER_MS)

/* Where objects are: in a process image, and apart from others by their flags. */
struct place {
	const struct process *process;
	uint64_t addr;
	uint16_t flags; /* enum abi_code_flags */
};

static bool is_object_at(const struct address *a, const struct place *at)
{
	return a->is_object && a->process == at->process && a->addr == at->addr &&
	       a->object->flags == at->flags;
}

static uint32_t first_at(const struct proc_table *t, const struct place *at)
{
	const uint64_t *slot =
		table_find(&t->by_address, proc_address_hash(at->process, at->addr, true));

	return slot ? (uint32_t)*slot : 0;
}

/* The id of the object of that time; 0: none is known. */
static uint32_t find_object(const struct proc_table *t, const struct place *at, uint64_t time_ns)
{
	uint32_t best = 0;

	for (uint32_t id = first_at(t, at); id; id = t->addresses[id].next) {
		const struct address *a = &t->addresses[id];

		if (is_object_at(a, at) && a->object->since_ns <= time_ns &&
			(!best || a->object->since_ns > t->addresses[best].object->since_ns))
			best = id;
	}
	return best;
}

/* The same for a sample. */
static uint32_t find_sampled(const struct proc_table *t, const struct place *at, uint64_t time_ns)
{
	uint32_t found = find_object(t, at, time_ns);
	uint64_t until_ns = time_ns + TOLD_LATE_NS;

	for (uint32_t id = found ? 0 : first_at(t, at); id; id = t->addresses[id].next) {
		const struct address *a = &t->addresses[id];

		if (is_object_at(a, at) && a->object->since_ns <= until_ns) {
			found = id;
			until_ns = a->object->since_ns;
		}
	}
	return found;
}

/* ---- texts ---- */

static bool is_frame(const struct interp_frame *a, const struct interp_frame *b)
{
	return a->line == b->line && a->first_line == b->first_line &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->raw, b->raw) == 0 &&
	       strcmp(a->file, b->file) == 0;
}

static bool is_text(const struct code_text *a, const struct proc_code_text *b)
{
	if (a->t.n_frames != b->n_frames)
		return false;
	for (size_t i = 0; i < b->n_frames; i++)
		if (!is_frame(&a->t.frames[i], &b->frames[i]))
			return false;
	return a->t.first_line == b->first_line && a->t.lines_format == b->lines_format &&
	       a->t.is_part == b->is_part && a->t.lines_bytes == b->lines_bytes &&
	       (!b->lines_bytes || memcmp(a->t.lines, b->lines, b->lines_bytes) == 0) &&
	       strcmp(a->t.name, b->name) == 0 && strcmp(a->t.raw, b->raw) == 0 &&
	       strcmp(a->t.file, b->file) == 0;
}

static uint64_t names_hash(const char *name, const char *raw, const char *file, uint64_t h)
{
	h = hash_xxh3_seed(name, strlen(name), h);
	h = hash_xxh3_seed(raw, strlen(raw), h);
	return hash_xxh3_seed(file, strlen(file), h);
}

static uint64_t text_hash(const struct proc_code_text *text)
{
	uint64_t h = hash_xxh3_seed(text->lines, text->lines_bytes, text->first_line);

	h = names_hash(text->name, text->raw, text->file, h);
	for (size_t i = 0; i < text->n_frames; i++) {
		const struct interp_frame *f = &text->frames[i];

		h = names_hash(f->name, f->raw, f->file, h + f->line);
	}
	return h;
}

static struct code_text *find_text(
	const struct proc_table *t, const struct proc_code_text *text, uint64_t hash)
{
	const uint64_t *slot = table_find(&t->by_text, hash);
	struct code_text *at = slot ? pointer_of(*slot) : NULL;

	while (at && !is_text(at, text))
		at = at->next;
	return at;
}

static size_t names_bytes(const char *name, const char *raw, const char *file)
{
	return strlen(name) + strlen(raw) + strlen(file) + 3;
}

static size_t text_bytes(const struct proc_code_text *text)
{
	size_t n = sizeof(struct code_text) + text->n_frames * sizeof(*text->frames) +
		   text->lines_bytes + names_bytes(text->name, text->raw, text->file);

	for (size_t i = 0; i < text->n_frames; i++)
		n += names_bytes(text->frames[i].name, text->frames[i].raw, text->frames[i].file);
	return n;
}

static const char *put_str(uint8_t **to, const char *s)
{
	uint8_t *at = *to;
	size_t n = strlen(s) + 1;

	memcpy(at, s, n);
	*to += n;
	return (const char *)at;
}

/* Into a text that has room for it: what must be aligned first. */
static void put_text(struct code_text *at, const struct proc_code_text *text)
{
	struct interp_frame *frames = (struct interp_frame *)at->data;
	uint8_t *to = at->data + text->n_frames * sizeof(*frames);

	at->t.frames = frames;
	at->t.lines = to;
	if (text->lines_bytes)
		memcpy(to, text->lines, text->lines_bytes);
	to += text->lines_bytes;
	at->t.name = put_str(&to, text->name);
	at->t.raw = put_str(&to, text->raw);
	at->t.file = put_str(&to, text->file);
	for (size_t i = 0; i < text->n_frames; i++) {
		frames[i] = text->frames[i];
		frames[i].name = put_str(&to, text->frames[i].name);
		frames[i].raw = put_str(&to, text->frames[i].raw);
		frames[i].file = put_str(&to, text->frames[i].file);
	}
}

/* Referenced; NULL: no room. */
static struct code_text *text_get(struct proc_table *t, const struct proc_code_text *text)
{
	uint64_t hash = text_hash(text), *slot;
	struct code_text *at = find_text(t, text, hash);
	size_t bytes = text_bytes(text);

	if (at) {
		at->n_refs++;
		return at;
	}
	if (t->o.text_budget && budget_charge(t->o.text_budget, bytes, NULL) < 0)
		return NULL;
	at = try_malloc(bytes);
	slot = at ? table_insert(&t->by_text, hash, NULL) : NULL;
	if (!slot) {
		free(at);
		if (t->o.text_budget)
			budget_release(t->o.text_budget, bytes);
		return NULL;
	}
	*at = (struct code_text) {
		.n_refs = 1, .bytes = bytes, .hash = hash, .next = pointer_of(*slot), .t = *text};
	*slot = number_of(at);
	put_text(at, text);
	t->stats.text_bytes += bytes;
	return at;
}

static void text_put(struct proc_table *t, struct code_text **text)
{
	struct code_text *x = *text, *at;
	uint64_t *slot;

	*text = NULL;
	if (!x || --x->n_refs)
		return;
	slot = table_find(&t->by_text, x->hash);
	at = pointer_of(*slot);
	if (at == x) {
		*slot = number_of(x->next);
		if (!x->next)
			table_remove(&t->by_text, x->hash);
	} else {
		while (at->next != x)
			at = at->next;
		at->next = x->next;
	}
	t->stats.text_bytes -= x->bytes;
	if (t->o.text_budget)
		budget_release(t->o.text_budget, x->bytes);
	free(x);
}

/* ---- objects ---- */

/*
 * A forked child has its parent's objects where the parent had them, unless it put others there since: then the check is another one.
 * So what the parent's was called by the time of the fork is read once for all children.
 */
static void inherit_text(struct proc_table *t, const struct place *at, struct code_object *o)
{
	const struct process *p = at->process, *from = p->parent;
	uint64_t forked_ns = p->begin_ns;

	for (unsigned i = 0; from && i < MAX_LINEAGE; i++) {
		const struct place theirs = {from, at->addr, at->flags};
		uint32_t id;
		const struct code_object *other;

		if (!from->exec_known || !p->exec_known || from->exec_id != p->exec_id)
			return;
		id = find_object(t, &theirs, forked_ns);
		other = id ? t->addresses[id].object : NULL;
		if (other && other->check == o->check && other->text &&
			other->tried_ns <= forked_ns) {
			other->text->n_refs++;
			o->text = other->text;
			o->kind = other->kind;
			o->version = other->version;
			o->tried_ns = other->tried_ns;
			return;
		}
		forked_ns = from->begin_ns;
		from = from->parent;
	}
}

/* Kept with the object, since the process may end. */
static void note_runtime(struct code_object *o, const struct process *p)
{
	struct proc_runtime r;

	if (o->kind || !proc_runtime(p, &r))
		return;
	o->kind = r.kind;
	o->version = r.version;
}

static bool is_machine(const struct code_object *o)
{
	return o->flags & ABI_CODE_MACHINE;
}

/* A record says nothing by flags that do not belong together. */
static struct place place_of(const struct process *p, const struct abi_code *c)
{
	if (c->flags & ABI_CODE_MACHINE)
		return (struct place) {p, c->object & ABI_FRAME_PAYLOAD,
			c->flags & (ABI_CODE_MACHINE | ABI_CODE_EXACT)};
	return (struct place) {p, c->object << ABI_INTERP_ADDRESS_SHIFT, 0};
}

/*
 * The check of machine code says which function a frame runs, if any, and not which code: a function may be compiled again to the same
 * place. So what is told again after its time is read again too, as an object of its own.
 */
static bool is_asked_anew(const struct code_object *o, const struct abi_code *c)
{
	return is_machine(o) && c->time_ns >= o->since_ns + ABI_CODE_AGAIN_NS;
}

void proc_object_seen(struct proc_table *t, struct process *p, const struct abi_code *c)
{
	const struct place at = place_of(p, c);
	uint32_t id = find_object(t, &at, c->time_ns), newest = find_object(t, &at, UINT64_MAX);
	struct code_object *o = newest ? t->addresses[newest].object : NULL;
	bool is_same;

	assert_table_held(t);
	is_same = id && t->addresses[id].object->check == c->check;
	if (is_same && !is_asked_anew(t->addresses[id].object, c)) {
		o = t->addresses[id].object;
		o->told_ns = MAX(o->told_ns, c->time_ns);
		return;
	}
	/* Another CPU saw it at the same time, and its record was read first. */
	if (o && o->check == c->check && o->since_ns > c->time_ns) {
		o->since_ns = c->time_ns;
		return;
	}
	o = try_malloc(sizeof(*o));
	id = o ? proc_address_add(t, p, at.addr, true) : 0;
	if (!id) {
		free(o);
		t->stats.addresses_full++;
		return;
	}
	*o = (struct code_object) {.check = c->check,
		.context = c->context,
		.flags = at.flags,
		.since_ns = c->time_ns,
		.told_ns = c->time_ns};
	note_runtime(o, p);
	t->addresses[id].object = o;
	p->n_machine += is_machine(o);
	if (!is_same)
		inherit_text(t, &at, o);
	if (!o->text)
		proc_wait_for_name(t, id);
}

static uint64_t word_of(struct proc_table *t, uint32_t id, uint32_t position)
{
	/* Its text was given back when nothing had it any more. */
	if (!proc_object_is_settled(t->addresses[id].object))
		proc_wait_for_name(t, id);
	return ABI_INTERP(id, position);
}

uint64_t proc_object_word(struct proc_table *t, struct process *p, uint64_t word, uint64_t time_ns)
{
	const struct place at = {p, ABI_INTERP_OBJECT(word) << ABI_INTERP_ADDRESS_SHIFT, 0};
	uint32_t id = find_sampled(t, &at, time_ns);

	assert_table_held(t);
	p->has_objects = true;
	if (!id) {
		t->stats.objects_unknown++;
		return ABI_INTERP(0, 0);
	}
	return word_of(t, id, ABI_INTERP_POSITION(word));
}

uint64_t proc_machine_word(
	struct proc_table *t, struct process *p, uint64_t next, bool is_leaf, uint64_t time_ns)
{
	struct place at = {p, next, ABI_CODE_MACHINE | ABI_CODE_EXACT};
	uint32_t id;

	assert_table_held(t);
	if (!p->n_machine)
		return 0;
	if (!is_leaf)
		at.flags = ABI_CODE_MACHINE;
	id = find_sampled(t, &at, time_ns);
	if (!id && !is_leaf) {
		at.flags |= ABI_CODE_EXACT;
		id = find_sampled(t, &at, time_ns);
	}
	if (!id)
		return 0;
	/* Where no function was seen, and none is there, the code may be another runtime's, or have a name from somewhere else. */
	if (t->addresses[id].object->is_refused && !t->addresses[id].object->check)
		return 0;
	p->has_objects = true;
	return word_of(t, id, ABI_INTERP_BEYOND);
}

struct proc_object proc_object_of(const struct proc_table *t, uint64_t id)
{
	const struct address *a;

	assert_table_held(t);
	if (!id || id >= t->n_addresses || !t->addresses[id].is_object)
		return (struct proc_object) {0};
	a = &t->addresses[id];
	return (struct proc_object) {.process = a->process,
		.text = a->object->text ? &a->object->text->t : NULL,
		.kind = a->object->kind,
		.version = a->object->version};
}

void proc_object_free(struct proc_table *t, struct address *a)
{
	text_put(t, &a->object->text);
	a->process->n_machine -= is_machine(a->object);
	free(a->object);
	a->object = NULL;
}

bool proc_object_retain(struct proc_table *t, struct address *a)
{
	struct place at;
	uint32_t newest;

	if (!a->is_object)
		return false;
	at = (struct place) {a->process, a->addr, a->object->flags};
	if (a->process->exited || a->object->told_ns + PROC_OBJECT_KEPT_NS < t->now_ns)
		return false;
	newest = find_object(t, &at, UINT64_MAX);
	if (a != &t->addresses[newest])
		return false;
	text_put(t, &a->object->text);
	return true;
}

enum proc_object_answer proc_object_answer(struct proc_table *t, const struct proc_code_batch *b,
	const struct proc_code_address *a, enum proc_object_answer answer,
	const struct proc_code_text *text, uint64_t now_ns)
{
	struct address *at = proc_address_still(t, &b->processes[a->process], a->id, a->addr);
	struct code_object *o = at && at->is_object ? at->object : NULL;

	assert_table_held(t);
	if (!o || o->check != a->check || o->flags != a->flags || proc_object_is_settled(o))
		return PROC_OBJECT_REFUSED;
	note_runtime(o, at->process);
	if (answer == PROC_OBJECT_UNTRIED)
		return PROC_OBJECT_LATER;
	if (answer == PROC_OBJECT_LATER && now_ns - o->tried_ns < PROC_OBJECT_TRY_NS)
		return answer;
	o->tried_ns = now_ns;
	if (answer == PROC_OBJECT_LATER && ++o->tries < PROC_OBJECT_TRIES)
		return answer;
	if (answer == PROC_OBJECT_NAMED) {
		o->text = text_get(t, text);
		o->lacks_room = !o->text;
		return o->text ? PROC_OBJECT_NAMED : PROC_OBJECT_NO_ROOM;
	}
	o->is_refused = true;
	return PROC_OBJECT_REFUSED;
}
