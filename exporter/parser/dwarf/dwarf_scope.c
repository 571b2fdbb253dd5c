/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and inlined calls from the entries of .debug_info (DWARF 5 §3.3). Entries without
 * code are skipped unread. Names are looked up once per function, through abstract origins
 * and specifications in any unit or file.
 */
#include "exporter/parser/dwarf/dwarf_scope.h"
#include "exporter/parser/dwarf/dwarf_line.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <dwarf.h>
#include <stdlib.h>

enum { MAX_ORIGINS = 16, MAX_DEPTH = 1 << 16, MIN_FUNCTION_SLOTS = 64 };

/* 0 where it is not there. */
static uint32_t number_of(struct dwarf_value v)
{
	return v.form ? (uint32_t)MIN(v.u, (uint64_t)UINT32_MAX) : 0;
}

/* The entry at an offset of a file; false when there is none. */
static bool entry_at(
	struct dwarf_file *d, uint64_t off, struct dwarf_unit **ret_unit, struct dwarf_entry *ret)
{
	struct dwarf_unit *u = dwarf_unit_at(d, off);
	struct cursor c = dwarf_cursor(d, DWARF_INFO, off);
	const struct dwarf_abbrevs *abbrevs;
	const struct dwarf_abbrev *a;

	if (!u || !dwarf_work(d, 16) || !dwarf_unit_read(u))
		return false;
	abbrevs = dwarf_abbrevs_of(u);
	c.end = c.start + u->end;
	a = abbrevs ? dwarf_abbrev_find(abbrevs, cursor_varint(&c)) : NULL;
	if (!a)
		return false;
	dwarf_read_entry(u, abbrevs, a, &c, ret);
	*ret_unit = u;
	return !c.error;
}

/* Name, file and line of the function at an entry: each from the first entry that has it, on the
 * way from the copy to what it is a copy of. */
static uint32_t make_function(struct dwarf_file *d, uint64_t off, struct debug_tables *t)
{
	const char *name = NULL, *linkage_name = NULL, *best;
	bool has_file = false, has_line = false;
	uint32_t file = DEBUG_NO_FILE, line = 0;

	for (int i = 0; i < MAX_ORIGINS; i++) {
		struct dwarf_unit *u = NULL;
		struct dwarf_entry e;
		const struct dwarf_value *v = e.values;

		if (!entry_at(d, off, &u, &e))
			break;
		name = name ? name : dwarf_string(u, v[DWARF_NAME]);
		linkage_name = linkage_name ? linkage_name : dwarf_string(u, v[DWARF_LINKAGE_NAME]);
		if (!has_file && v[DWARF_DECL_FILE].form) {
			file = dwarf_program_file(
				dwarf_program_of(dwarf_skeleton_of(u)), v[DWARF_DECL_FILE].u, t);
			has_file = true;
		}
		line = has_line ? line : number_of(v[DWARF_DECL_LINE]);
		has_line |= v[DWARF_DECL_LINE].form != 0;
		if (!dwarf_reference(u,
			    v[v[DWARF_ORIGIN].form ? DWARF_ORIGIN : DWARF_SPECIFICATION], &d, &off))
			break;
	}
	best = linkage_name && *linkage_name ? linkage_name : name;
	return debug_tables_function(t, best, best ? strlen(best) : 0, file, line, false);
}

static uint32_t *function_slot(const struct dwarf_functions *f, uint64_t off)
{
	size_t mask = f->n_slots - 1, i = hash_mix(off) & mask;

	while (f->slots[i] && f->items[f->slots[i] - 1].off != off)
		i = (i + 1) & mask;
	return &f->slots[i];
}

/* For one more. */
static int grow_functions(struct dwarf_functions *f)
{
	size_t n_slots = MAX(f->n_slots * 2, (size_t)MIN_FUNCTION_SLOTS);
	uint32_t *slots;

	if ((f->n + 1) * 4 > f->n_slots * 3) {
		slots = try_calloc(n_slots, sizeof(*slots));
		if (!slots)
			return -ENOMEM;
		free(f->slots);
		f->slots = slots;
		f->n_slots = n_slots;
		for (size_t i = 0; i < f->n; i++)
			*function_slot(f, f->items[i].off) = (uint32_t)i + 1;
	}
	return alloc_grow(&f->items, &f->cap, f->n + 1, sizeof(*f->items));
}

static uint32_t function_at(struct dwarf_file *d, uint64_t off, struct debug_tables *t)
{
	struct dwarf_functions *f = &d->functions;
	uint32_t *slot, id;

	if (grow_functions(f) < 0) {
		t->error = -ENOMEM;
		return 0;
	}
	slot = function_slot(f, off);
	if (*slot)
		return f->items[*slot - 1].id;
	id = make_function(d, off, t);
	f->items[f->n++] = (struct dwarf_function) {.off = off, .id = id};
	*slot = (uint32_t)f->n;
	return id;
}

static void each_range(
	const struct dwarf_unit *u, const struct dwarf_entry *e, dwarf_range_fn *fn, void *arg)
{
	const struct dwarf_value *high_pc = &e->values[DWARF_HIGH_PC];
	uint64_t low, high;

	if (e->values[DWARF_RANGE_LIST].form) {
		dwarf_ranges(u, e->values[DWARF_RANGE_LIST], fn, arg);
		return;
	}
	if (!high_pc->form || !dwarf_address(u, e->values[DWARF_LOW_PC], &low))
		return;
	if (dwarf_is_address(high_pc->form)) {
		if (!dwarf_address(u, *high_pc, &high))
			return;
	} else if (__builtin_add_overflow(low, high_pc->u, &high)) {
		return;
	}
	if (low < high)
		fn(arg, low, high);
}

/* The walk over one unit. */
struct walk {
	struct dwarf_unit *u;
	struct debug_tables *t;
	uint32_t *parents; /* per open entry: the scope that its children lie in */
	size_t depth, cap;
};

/* An entry on its way to a scope, which is made at its first range of code. */
struct scope_sink {
	struct walk *w;
	const struct dwarf_entry *e;
	uint64_t off;
	uint32_t parent, scope; /* scope DEBUG_NO_SCOPE: not made yet */
	bool inlined;
};

static uint32_t make_scope(const struct scope_sink *s)
{
	struct dwarf_unit *u = s->w->u, *lines = dwarf_skeleton_of(u);
	const struct dwarf_value *v = s->e->values;
	struct dwarf_file *d = u->file;
	uint64_t off = s->off;
	uint32_t call_file = DEBUG_NO_FILE;

	/* All copies of one function share its record. */
	if (v[DWARF_ORIGIN].form && !dwarf_reference(u, v[DWARF_ORIGIN], &d, &off))
		return DEBUG_NO_SCOPE;
	if (s->inlined)
		call_file = dwarf_program_file(
			dwarf_program_of(lines), number_of(v[DWARF_CALL_FILE]), s->w->t);
	return debug_tables_scope(s->w->t, s->parent, function_at(d, off, s->w->t), call_file,
		number_of(v[DWARF_CALL_LINE]), number_of(v[DWARF_CALL_COLUMN]));
}

static void add_range(void *arg, uint64_t start, uint64_t end)
{
	struct scope_sink *s = arg;

	if (!debug_tables_is_code(s->w->t, start, end))
		return;
	if (s->scope == DEBUG_NO_SCOPE)
		s->scope = make_scope(s);
	if (s->scope != DEBUG_NO_SCOPE)
		debug_tables_range(s->w->t, start, end, s->scope);
}

/* The scope of an entry that has code; `parent` when it has none here. */
static uint32_t add_scope(
	struct walk *w, const struct dwarf_entry *e, uint64_t off, bool inlined, uint32_t parent)
{
	struct scope_sink sink = {.w = w,
		.e = e,
		.off = off,
		.parent = inlined ? parent : DEBUG_NO_SCOPE,
		.scope = DEBUG_NO_SCOPE,
		.inlined = inlined};

	if (inlined && parent == DEBUG_NO_SCOPE)
		return parent;
	each_range(w->u, e, add_range, &sink);
	return sink.scope == DEBUG_NO_SCOPE ? parent : sink.scope;
}

/* Reads the entry behind its code; returns the scope of its children. */
static uint32_t visit(struct walk *w, const struct dwarf_abbrevs *abbrevs,
	const struct dwarf_abbrev *a, uint64_t off, struct cursor *c, bool *ret_skipped)
{
	uint32_t parent = w->depth ? w->parents[w->depth - 1] : DEBUG_NO_SCOPE;
	bool function = a->tag == DW_TAG_subprogram, inlined = a->tag == DW_TAG_inlined_subroutine;
	struct dwarf_entry e;

	if ((function || inlined) && a->has_pc) {
		dwarf_read_entry(w->u, abbrevs, a, c, &e);
		return c->error ? parent : add_scope(w, &e, off, inlined, parent);
	}
	if (a->has_sibling && dwarf_to_sibling(w->u, c, a->sibling_off)) {
		*ret_skipped = true;
		return parent;
	}
	dwarf_skip_entry(abbrevs, a, c);
	return function ? DEBUG_NO_SCOPE : parent;
}

static int open_entry(struct walk *w, uint32_t scope)
{
	int r = w->depth == MAX_DEPTH
			? -EBADMSG
			: alloc_grow(&w->parents, &w->cap, w->depth + 1, sizeof(*w->parents));

	if (r == 0)
		w->parents[w->depth++] = scope;
	return r;
}

static int walk_entries(struct walk *w)
{
	const struct dwarf_abbrevs *abbrevs = dwarf_abbrevs_of(w->u);
	struct cursor c = dwarf_cursor(w->u->file, DWARF_INFO, w->u->die_off);

	c.end = c.start + w->u->end;
	while (abbrevs && cursor_left(&c) && !w->t->error) {
		const struct dwarf_abbrev *a;
		bool skipped = false;
		uint64_t off, code;
		uint32_t scope;
		int r;

		if (w->depth)
			dwarf_skip_dull(w->u, abbrevs, &c);
		off = cursor_off(&c);
		code = cursor_varint(&c);
		if (!code) {
			if (w->depth <= 1)
				return 0;
			w->depth--;
			continue;
		}
		a = dwarf_abbrev_find(abbrevs, code);
		if (!a)
			return -EBADMSG;
		scope = visit(w, abbrevs, a, off, &c, &skipped);
		if (c.error)
			return c.error;
		if (a->has_children && !skipped) {
			r = open_entry(w, scope);
			if (r < 0)
				return r;
		} else if (!w->depth) {
			return 0;
		}
	}
	return c.error;
}

void dwarf_walk_unit(struct dwarf_unit *u, struct debug_tables *t)
{
	struct walk w = {.u = u, .t = t};
	int r;

	if (u->is_broken || !dwarf_work(u->file, u->end - u->off)) {
		t->n_left_out += u->type != DW_UT_type;
		return;
	}
	r = walk_entries(&w);
	free(w.parents);
	if (r == -ENOMEM)
		t->error = r;
	t->n_left_out += r < 0;
}
