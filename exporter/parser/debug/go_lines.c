/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's tables → rows and scopes. Each function has three series of values by pc: its file, its
 * line, and the inlined call that an instruction belongs to. A tree of those calls (runtime/symtabinl.go;
 * before Go 1.21 symtab.go) has the name of each and an instruction at the place of the call. Layouts: Go
 * 1.16 and 1.17 (lines only), 1.18 and 1.19, 1.20 and later.
 */
#include "exporter/parser/debug/go_lines.h"
#include "exporter/parser/elf/elf_go.h"
#include "exporter/parser/elf/elf_image.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

enum {
	POINTER_BYTES = 8,
	PCDATA_INLINED = 2, /* PCDATA_InlTreeIndex */
	FUNCDATA_TREE = 3,  /* FUNCDATA_InlTree */
	NO_OFFSET = -1,
	MAX_CALLS = 1 << 16, /* inlined ones of a function */
	MAX_DEPTH = 256,     /* of them within each other */
	/* Of moduledata, words behind `text`: go:func.* is the 16th in Go 1.18, the 18th in 1.26. */
	MIN_WORD = 10,
	MAX_WORD = 40,
	N_TRIALS = 64,
};
#define WORK_PER_BYTE 32U
#define WORK_MIN (1U << 20)

/* A function's record, read. */
struct record {
	struct cursor files, lines, inlined;
	uint32_t unit, start_line;
	uint32_t tree_off; /* in go:func.*; NO_OFFSET: nothing is inlined */
};

/* From `start` on (less the function's) up to the next one. */
struct stretch {
	uint32_t start;
	int64_t file, line, call; /* call: index in the tree, -1: the function itself */
};

struct call {
	uint32_t name_off, parent_pc, start_line;
};

struct go_lines {
	const struct go_table *table;
	struct elf_image *image;
	struct debug_tables *t;
	uint64_t trees; /* address of go:func.*; 0: not known */
	struct stretch *stretches;
	size_t n_stretches, cap_stretches;
	uint32_t *scopes; /* per inlined call of this function: id + 1 */
	size_t cap_scopes;
	struct table files;	/* place in the table of units → file id */
	struct table functions; /* place of the name → function */
	uint64_t work, max_work;
};

static bool count_work(struct go_lines *g, uint64_t n)
{
	g->work += n;
	return g->work <= g->max_work;
}

static bool read_record(const struct go_table *t, const struct go_function *fn, struct record *ret)
{
	struct cursor c = fn->record, data;
	uint32_t n_values, n_data;

	cursor_skip(&c, (t->layout >= GO_18 ? 4 : POINTER_BYTES) + 4 * 4);
	ret->files = elf_go_values(t, cursor_u32(&c));
	ret->lines = elf_go_values(t, cursor_u32(&c));
	n_values = cursor_u32(&c);
	ret->unit = cursor_u32(&c);
	ret->start_line = t->layout >= GO_20 ? cursor_u32(&c) : 0;
	cursor_skip(&c, 3);
	n_data = cursor_u8(&c);
	ret->inlined = (struct cursor) {.error = -EBADMSG};
	ret->tree_off = (uint32_t)NO_OFFSET;
	if (!c.error && t->layout >= GO_18 && n_values > PCDATA_INLINED && n_data > FUNCDATA_TREE) {
		data = c;
		cursor_skip(&data, PCDATA_INLINED * 4);
		ret->inlined = elf_go_values(t, cursor_u32(&data));
		cursor_skip(&c, (uint64_t)n_values * 4 + FUNCDATA_TREE * 4);
		ret->tree_off = c.error ? (uint32_t)NO_OFFSET : cursor_u32(&c);
		ret->tree_off = c.error ? (uint32_t)NO_OFFSET : ret->tree_off;
	}
	return !ret->files.error && !ret->lines.error;
}

static bool read_call(const struct go_lines *g, uint64_t tree, uint32_t i, struct call *ret)
{
	bool old = g->table->layout == GO_18;
	struct cursor c = elf_image_at(g->image, tree);

	cursor_skip(&c, (uint64_t)i * (old ? 20 : 16));
	cursor_skip(
		&c, old ? 12 : 4); /* parent, kind of function, old: file and line of the call */
	*ret = (struct call) {.name_off = cursor_u32(&c), .parent_pc = cursor_u32(&c)};
	ret->start_line = old ? 0 : cursor_u32(&c);
	return !c.error;
}

/* One series of values by pc on its way through a function. */
struct series {
	struct cursor c;
	uint64_t until;
	int64_t value;
	bool first, ended;
};

static struct series series_of(struct cursor c, uint64_t start)
{
	return (struct series) {
		.c = c, .until = start, .value = -1, .first = true, .ended = c.error != 0};
}

/* The value at pc; -1 behind the end. */
static int64_t value_at(struct go_lines *g, struct series *s, uint64_t pc)
{
	while (!s->ended && s->until <= pc) {
		uint64_t before = s->until;

		s->ended = !count_work(g, 1) ||
			   !elf_go_next_value(g->table, &s->c, s->first, &s->until, &s->value) ||
			   s->until < before;
		s->first = false;
	}
	return s->ended ? -1 : s->value;
}

static int read_stretches(
	struct go_lines *g, const struct go_function *fn, const struct record *rec)
{
	struct series files = series_of(rec->files, fn->start),
		      lines = series_of(rec->lines, fn->start),
		      calls = series_of(rec->inlined, fn->start);
	uint64_t pc = fn->start;

	g->n_stretches = 0;
	while (pc < fn->end) {
		struct stretch s = {.start = (uint32_t)(pc - fn->start),
			.file = value_at(g, &files, pc),
			.line = value_at(g, &lines, pc),
			.call = value_at(g, &calls, pc)};
		uint64_t next = fn->end;
		int r = alloc_grow(&g->stretches, &g->cap_stretches, g->n_stretches + 1,
			sizeof(*g->stretches));

		if (r < 0)
			return r;
		g->stretches[g->n_stretches++] = s;
		next = files.ended ? next : MIN(next, files.until);
		next = lines.ended ? next : MIN(next, lines.until);
		pc = calls.ended ? next : MIN(next, calls.until);
	}
	return 0;
}

static const struct stretch *stretch_at(const struct go_lines *g, uint32_t off)
{
	size_t low = 0, n = g->n_stretches;

	while (n > 1) {
		size_t half = n / 2;

		low += g->stretches[low + half].start <= off ? half : 0;
		n -= half;
	}
	return n ? &g->stretches[low] : NULL;
}

static uint32_t file_of(struct go_lines *g, const struct record *rec, int64_t number)
{
	uint64_t key = rec->unit + (uint64_t)number, at, *slot;
	struct cursor c = g->table->all;
	bool is_new = false;
	const char *path;
	uint32_t off;

	if (number < 0 || number > UINT32_MAX ||
		__builtin_add_overflow(g->table->units_off, key * 4, &at))
		return DEBUG_NO_FILE;
	slot = table_insert(&g->files, key, &is_new);
	if (!slot) {
		g->t->error = -ENOMEM;
		return DEBUG_NO_FILE;
	}
	if (is_new) {
		cursor_skip(&c, at);
		off = cursor_u32(&c);
		path = c.error || off == UINT32_MAX
			       ? NULL
			       : elf_go_text(g->table, g->table->files_off, off);
		*slot = path ? debug_tables_file(g->t, path, strlen(path)) : DEBUG_NO_FILE;
	}
	return (uint32_t)*slot;
}

static uint32_t line_of(const struct stretch *s)
{
	return s->line < 0 || s->line > INT32_MAX ? 0 : (uint32_t)s->line;
}

static uint32_t function_of(struct go_lines *g, const struct call *call, uint32_t file)
{
	const char *name;
	bool is_new = false;
	uint64_t *slot = table_insert(&g->functions, call->name_off, &is_new);

	if (!slot) {
		g->t->error = -ENOMEM;
		return 0;
	}
	if (is_new) {
		name = elf_go_text(g->table, g->table->names_off, call->name_off);
		*slot = debug_tables_function(
			g->t, name, name ? strlen(name) : 0, file, call->start_line, false);
	}
	return (uint32_t)*slot;
}

/* What a function's inlined calls hang from. */
struct body {
	const struct go_function *fn;
	const struct record *rec;
	uint64_t tree;
	uint32_t root; /* scope */
};

/* The scope of an inlined call and those around it; file: that of an instruction of its own. A
 * call's parent comes before it in the tree: what does not hang from the function itself. */
static uint32_t scope_of(
	struct go_lines *g, const struct body *b, int64_t i, uint32_t file, unsigned depth)
{
	const struct stretch *at;
	uint32_t parent, call_file;
	struct call call;

	if (i < 0 || i >= MAX_CALLS || depth == MAX_DEPTH || !b->tree || !count_work(g, 1))
		return b->root;
	if (g->scopes[i])
		return g->scopes[i] - 1;
	if (!read_call(g, b->tree, (uint32_t)i, &call))
		return b->root;
	at = stretch_at(g, call.parent_pc);
	if (!at || call.parent_pc >= b->fn->end - b->fn->start)
		return b->root;
	call_file = file_of(g, b->rec, at->file);
	parent = at->call < i ? scope_of(g, b, at->call, call_file, depth + 1) : b->root;
	g->scopes[i] = 1 + debug_tables_scope(g->t, parent, function_of(g, &call, file), call_file,
				   line_of(at), 0);
	return g->scopes[i] - 1;
}

static int64_t last_call(const struct go_lines *g)
{
	int64_t last = -1;

	for (size_t i = 0; i < g->n_stretches; i++)
		last = MAX(last, g->stretches[i].call);
	return MIN(last, MAX_CALLS - 1);
}

/* The tables have the innermost call of each stretch; it names the call around it. So the function's
 * range holds the ranges of innermost calls side by side. */
static int add_scopes(struct go_lines *g, const struct go_function *fn, const struct record *rec,
	uint64_t code_end)
{
	const struct stretch *first = &g->stretches[0];
	uint32_t file = file_of(g, rec, first->file);
	uint32_t line = rec->start_line ? rec->start_line : line_of(first);
	struct body b = {.fn = fn, .rec = rec};
	size_t n_calls = (size_t)(last_call(g) + 1);
	int r = alloc_grow(&g->scopes, &g->cap_scopes, n_calls, sizeof(*g->scopes));

	if (r < 0)
		return r;
	if (n_calls)
		memset(g->scopes, 0, n_calls * sizeof(*g->scopes));
	if (g->trees && rec->tree_off != (uint32_t)NO_OFFSET)
		b.tree = g->trees + rec->tree_off;
	b.root = debug_tables_scope(g->t, DEBUG_NO_SCOPE,
		debug_tables_function(g->t, fn->name, strlen(fn->name), file, line, false), 0, 0,
		0);
	debug_tables_range(g->t, fn->start, code_end, b.root);
	for (size_t i = 0; i < g->n_stretches;) {
		const struct stretch *s = &g->stretches[i];
		uint64_t end = code_end;
		uint32_t scope;

		for (i++; i < g->n_stretches && g->stretches[i].call == s->call;)
			i++;
		if (i < g->n_stretches)
			end = fn->start + g->stretches[i].start;
		scope = scope_of(g, &b, s->call, file_of(g, rec, s->file), 0);
		if (scope != b.root)
			debug_tables_range(g->t, fn->start + s->start, end, scope);
	}
	return g->t->error;
}

static int add_function(struct go_lines *g, const struct go_function *fn)
{
	uint64_t code_end = fn->end;
	struct record rec;
	int r;

	if (fn->end - fn->start >= UINT32_MAX || !read_record(g->table, fn, &rec) ||
		!debug_tables_is_code(g->t, fn->start, fn->end)) {
		g->t->n_left_out++;
		return 0;
	}
	r = read_stretches(g, fn, &rec);
	if (r < 0)
		return r;
	/* What aligns the next function has no line. */
	while (g->n_stretches && g->stretches[g->n_stretches - 1].line < 0)
		code_end = fn->start + g->stretches[--g->n_stretches].start;
	if (!g->n_stretches)
		return 0;
	for (size_t i = 0; i < g->n_stretches; i++) {
		const struct stretch *s = &g->stretches[i];

		debug_tables_row(
			g->t, fn->start + s->start, file_of(g, &rec, s->file), line_of(s), 0);
	}
	debug_tables_end_sequence(g->t, code_end);
	return add_scopes(g, fn, &rec, code_end);
}

/* Do the first trees make sense if they lie there? */
static bool are_trees_at(struct go_lines *g, uint64_t trees)
{
	unsigned n = 0;

	for (uint64_t i = 0; n < N_TRIALS && i < g->table->n_functions && count_work(g, 1); i++) {
		struct go_function fn;
		struct record rec;
		struct call call;

		if (!elf_go_function(g->table, i, &fn) || !read_record(g->table, &fn, &rec) ||
			rec.inlined.error || rec.tree_off == (uint32_t)NO_OFFSET)
			continue;
		if (!read_call(g, trees + rec.tree_off, 0, &call) ||
			call.parent_pc >= fn.end - fn.start ||
			(call.name_off &&
				elf_go_text(g->table, g->table->names_off, call.name_off - 1)) ||
			!elf_go_text(g->table, g->table->names_off, call.name_off))
			return false;
		n++;
	}
	return n > 0;
}

/* Their base differs between releases, so the parser tries each. */
static uint64_t find_trees(struct go_lines *g, uint64_t module_text)
{
	for (unsigned i = MIN_WORD; module_text && i < MAX_WORD; i++) {
		uint64_t at =
			elf_image_pointer(g->image, module_text + (uint64_t)i * POINTER_BYTES);

		if (at && are_trees_at(g, at))
			return at;
	}
	return 0;
}

int go_lines_read_table(const struct go_table *table, struct elf_image *image, uint64_t module_text,
	struct debug_tables *t)
{
	struct go_lines g = {.table = table, .image = image, .t = t};
	int r = 0;

	if (table->layout < GO_16)
		return 0;
	g.max_work = WORK_MIN + (uint64_t)cursor_left(&table->all) * WORK_PER_BYTE;
	table_init(&g.files, NULL);
	table_init(&g.functions, NULL);
	g.trees = table->layout >= GO_18 ? find_trees(&g, module_text) : 0;
	for (uint64_t i = 0; r == 0 && i < table->n_functions && count_work(&g, 1); i++) {
		struct go_function fn;

		if (elf_go_function(table, i, &fn))
			r = add_function(&g, &fn);
	}
	t->n_left_out += g.work > g.max_work;
	free(g.stretches);
	free(g.scopes);
	table_done(&g.files);
	table_done(&g.functions);
	return r < 0 ? r : t->error;
}

int go_lines_read(const struct elf_file *f, struct debug_tables *t)
{
	_cleanup_elf_image_ struct elf_image image = {.f = NULL};
	struct go_table table;
	int r;

	if (!elf_go_open(f, &table))
		return 0;
	r = elf_image_open(f, &image);
	if (r == -EBADMSG)
		return 0;
	return r < 0 ? r : go_lines_read_table(&table, &image, elf_go_module_text(f, &table), t);
}
