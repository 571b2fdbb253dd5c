/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames → names, in three passes: what each frame is and its raw name; the raw names demangled
 * in one batch; the result.
 */
#include "exporter/symbolize/symbolize.h"
#include "exporter/symfile/symbol_lines.h"
#include "exporter/symbolize/symbolizer.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include <string.h>

/* A mapping of one request: a binary, a kernel module, or one of the bracketed ones. */
struct module {
	uint32_t binary; /* 0: not a binary */
	const struct symbol_file *symbols;
	const char *base_name;	   /* of the path */
	const char *kernel_module; /* NULL: it is none */
	uint64_t vaddr;		   /* of the segment */
	uint32_t next_segment;	   /* of the same binary: index of its mapping; 0: none */
	uint64_t unnamed;
};

/* What the files say of one frame; strings lie in the mapped symbol files. */
struct found {
	const char *raw; /* the function that has the code, as the file has it; NULL: unknown */
	struct symbol_place *places; /* innermost first; in the arena; mode is lines */
	uint32_t n_places;
	const struct symbol_code *code; /* of a language runtime; NULL: not known */
	uint32_t line;			/* in a code object */
	uint64_t start; /* ELF virtual address where a function without a name starts; 0: unknown */
};

struct request {
	struct symbolizer *s;
	enum symbolize_mode mode;
	int64_t deadline_ns;
	struct arena *arena;
	struct symbol_mapping *mappings;
	struct module *modules; /* parallel to mappings */
	size_t n_mappings, cap_mappings, cap_modules;
	struct table by_binary, by_name; /* → index of the mapping */
	struct table by_raw; /* a raw name's address → its line, made once; 0: not made yet */
	struct found *found; /* per frame */
	bool failed;
};

/* Names are bytes of files that anybody wrote; pprof wants UTF-8. */
static const char *clean(struct request *q, const char *s)
{
	size_t n = strlen(s);
	char *copy;

	copy = arena_strndup(q->arena, s, n);
	if (!copy || str_is_utf8(copy, n))
		return copy;
	for (size_t i = 0; i < n;) {
		size_t len = str_utf8_len(copy + i, n - i);

		if (!len)
			copy[i] = '?';
		i += len ? len : 1;
	}
	return copy;
}

static uint32_t add_mapping(struct request *q, const char *filename, const char *build_id)
{
	if (alloc_grow(&q->mappings, &q->cap_mappings, q->n_mappings + 1, sizeof(*q->mappings)) <
			0 ||
		alloc_grow(&q->modules, &q->cap_modules, q->n_mappings + 1, sizeof(*q->modules)) <
			0) {
		q->failed = true;
		return SYMBOL_NO_MAPPING;
	}
	q->mappings[q->n_mappings] = (struct symbol_mapping) {
		.filename = clean(q, filename), .build_id = clean(q, build_id)};
	q->modules[q->n_mappings] = (struct module) {0};
	return (uint32_t)q->n_mappings++;
}

static uint32_t mapping_of_name(struct request *q, const char *filename, const char *build_id)
{
	bool is_new;
	uint64_t *slot = table_insert(&q->by_name, hash_xxh3(filename, strlen(filename)), &is_new);

	if (!slot) {
		q->failed = true;
		return SYMBOL_NO_MAPPING;
	}
	if (is_new)
		*slot = add_mapping(q, filename, build_id);
	return (uint32_t)*slot;
}

/*
 * The mapping of a binary's segment: `first`, which mapping_of_binary made, describes the segment that is met first, and each further
 * one has its own.
 */
static uint32_t mapping_of_segment(
	struct request *q, uint32_t first, const struct symbol_load *load)
{
	uint32_t at = first, next;

	for (; q->mappings[at].limit; at = q->modules[at].next_segment) {
		if (q->modules[at].vaddr == load->vaddr)
			return at;
		if (q->modules[at].next_segment)
			continue;
		next = add_mapping(q, q->mappings[first].filename, q->mappings[first].build_id);
		if (next == SYMBOL_NO_MAPPING)
			return first;
		q->modules[at].next_segment = next;
		q->modules[next].base_name = q->modules[first].base_name;
		q->modules[next].binary = q->modules[first].binary;
		q->mappings[next].has_lines = q->mappings[first].has_lines;
	}
	q->modules[at].vaddr = load->vaddr;
	symbol_load_pages(
		load, &q->mappings[at].start, &q->mappings[at].limit, &q->mappings[at].file_off);
	return at;
}

static uint32_t mapping_of_binary(struct request *q, uint32_t binary)
{
	struct binary_registry *r = q->s->o.binaries;
	const struct symbol_file *symbols;
	struct binary_info info;
	const char *slash;
	uint64_t *slot;
	uint32_t i;
	bool is_new;

	slot = table_find(&q->by_binary, binary);
	if (slot)
		return (uint32_t)*slot;
	/* The id under which contents meet may be known only once the file was looked at. */
	symbols = binary_symbols_get(r, binary, q->deadline_ns);
	slot = table_insert(&q->by_binary, binary_canonical(r, binary), &is_new);
	if (slot && !is_new) {
		i = (uint32_t)*slot;
		binary_symbols_put(r, symbols);
	} else {
		binary_info(r, binary, &info);
		i = add_mapping(q, info.path[0] ? info.path : "[unknown]", info.build_id);
		if (!slot || i == SYMBOL_NO_MAPPING) {
			q->failed = true;
			binary_symbols_put(r, symbols);
			return SYMBOL_NO_MAPPING;
		}
		*slot = i;
		slash = strrchr(q->mappings[i].filename ? q->mappings[i].filename : "", '/');
		q->modules[i] = (struct module) {
			.binary = binary,
			.symbols = symbols,
			.base_name = slash && slash[1] ? slash + 1 : q->mappings[i].filename,
		};
		q->mappings[i].has_lines =
			q->mode == SYMBOLIZE_LINES && symbols && symbol_file_has_lines(symbols);
	}
	slot = table_insert(&q->by_binary, binary, NULL);
	if (slot)
		*slot = i;
	return i;
}

static void find_places(
	struct request *q, const struct symbol_file *symbols, uint64_t vaddr, struct found *ret)
{
	struct symbol_place places[SYMBOL_MAX_PLACES];
	size_t n = symbol_file_places(symbols, vaddr, places);

	if (!n)
		return;
	ret->places = arena_alloc_array(q->arena, n, sizeof(*places));
	if (!ret->places)
		return;
	memcpy(ret->places, places, n * sizeof(*places));
	ret->n_places = (uint32_t)n;
}

/* Stands for segments that nobody knows: an address is an offset in the file then. */
static const struct symbol_load whole_file = {.file_bytes = ABI_NATIVE_OFF(UINT64_MAX)};

static void resolve_native(
	struct request *q, const struct symbol_frame *f, size_t at, struct symbol *ret)
{
	uint64_t off = ABI_NATIVE_OFF(f->frame);
	uint32_t i = mapping_of_binary(q, ABI_NATIVE_BINARY(f->frame));
	const struct symbol_file *symbols = i == SYMBOL_NO_MAPPING ? NULL : q->modules[i].symbols;
	struct symbol_function function;
	struct symbol_load load;
	uint64_t vaddr, start;

	*ret = (struct symbol) {.mapping = i, .address = off};
	if (i == SYMBOL_NO_MAPPING)
		return;
	if (!symbols || !symbol_file_load_of(symbols, off, &load)) {
		ret->mapping = mapping_of_segment(q, i, &whole_file);
		return;
	}
	vaddr = load.vaddr + (off - load.file_off);
	ret->mapping = mapping_of_segment(q, i, &load);
	ret->address = vaddr;
	if (symbol_file_find(symbols, vaddr, &function))
		q->found[at].raw = function.name;
	else if (symbol_file_unnamed(symbols, off, &start))
		q->found[at].start = vaddr - (off - start);
	if (q->mode == SYMBOLIZE_LINES)
		find_places(q, symbols, vaddr, &q->found[at]);
}

static uint32_t mapping_of_module(struct request *q, const char *module)
{
	char name[80];
	uint32_t i;

	snprintf(name, sizeof(name), "[%s]", module);
	i = mapping_of_name(q, name, "");
	if (i != SYMBOL_NO_MAPPING && !q->modules[i].kernel_module)
		q->modules[i].kernel_module = arena_strdup(q->arena, module);
	return i;
}

/* Reads files, so that it has no lock. */
static void read_module_build_ids(struct request *q)
{
	char build_id[2 * SYMBOL_BUILD_ID_MAX + 1];

	for (size_t i = 0; i < q->n_mappings; i++) {
		if (!q->modules[i].kernel_module)
			continue;
		symbolizer_module_build_id(q->s, q->modules[i].kernel_module, build_id);
		q->mappings[i].build_id = clean(q, build_id);
	}
}

/* The names point into the table, which stays as long as the lock is held. */
static void resolve_kernel_locked(
	struct request *q, const struct symbol_frame *f, size_t at, struct symbol *ret)
{
	uint64_t addr = kernel_code_address(f->frame);
	struct kernel_symbol symbol = {.module = ""};
	char name[KERNEL_CODE_NAME_MAX];
	bool is_bpf = false;

	ASSERT_HELD(&q->s->lock);
	/* Code that came after kallsyms was read may lie where other code lay then. */
	switch (kernel_code_find(&q->s->kernel_code, f->frame, addr, name, &is_bpf)) {
	case KERNEL_CODE_NAMED: q->found[at].raw = clean(q, name); break;
	case KERNEL_CODE_UNKNOWN:
		if (kernel_symbols_find(&q->s->kernel, addr, &symbol))
			q->found[at].raw = symbol.name;
		break;
	default: break;
	}
	if (is_bpf)
		symbol.module = "bpf"; /* as kallsyms has it */
	*ret = (struct symbol) {.address = addr};
	ret->mapping = symbol.module[0]
			       ? mapping_of_module(q, symbol.module)
			       : mapping_of_name(q, "[kernel.kallsyms]", q->s->kernel_build_id);
}

/* The only line of a symbol; NULL when memory is out. */
static struct symbol_line *give_line(
	struct request *q, struct symbol *s, const char *function, const char *system_name)
{
	struct symbol_line *line = arena_alloc(q->arena, sizeof(*line));

	if (!line || !function || !system_name) {
		q->failed = true;
		return NULL;
	}
	*line = (struct symbol_line) {.function = function, .system_name = system_name, .file = ""};
	s->lines = line;
	s->n_lines = 1;
	return line;
}

static void resolve_address(
	struct request *q, const struct symbol_frame *f, size_t at, struct symbol *ret)
{
	bool jit = ABI_FRAME_KIND(f->frame) == ABI_FRAME_JIT;

	jit |= f->jit_name != NULL;
	*ret = (struct symbol) {.mapping = mapping_of_name(q, jit ? "[jit]" : "[unknown]", ""),
		.address = f->jit_addr};
	q->found[at].raw = f->jit_name;
}

/* What a runtime is called as a file, and as the function of its frames that have no name. V8's version says nothing to users of Node.js, and Java has no minor ones. */
static const char *runtime_text(struct request *q, const struct symbol_code *c, bool with_version)
{
	if (!c || !c->kind)
		return INTERP_OWN_FRAME;
	if (!with_version || !c->version || c->kind == RUNTIME_V8)
		return arena_printf(q->arena, "[%s]", runtime_name(c->kind));
	if (c->kind == RUNTIME_HOTSPOT)
		return arena_printf(
			q->arena, "[%s%u]", runtime_name(c->kind), RUNTIME_MAJOR(c->version));
	return arena_printf(q->arena, "[%s%u.%u]", runtime_name(c->kind),
		(unsigned)RUNTIME_MAJOR(c->version), (unsigned)RUNTIME_MINOR(c->version));
}

/* All frames of one line have one address, 0: the object's means something in its process only. */
static void resolve_interp(
	struct request *q, const struct symbol_frame *f, size_t at, struct symbol *ret)
{
	const struct interp_runtime *runtime = f->code ? interp_runtime_of(f->code->kind) : NULL;
	const char *name = runtime_text(q, f->code, true);
	struct found *found = &q->found[at];

	*ret = (struct symbol) {.mapping = name ? mapping_of_name(q, name, "") : SYMBOL_NO_MAPPING};
	q->failed |= !name;
	if (!runtime || !f->code->is_named)
		return;
	found->code = f->code;
	if (!f->code->n_frames)
		found->line = runtime->line(&f->code->code, ABI_INTERP_POSITION(f->frame));
}

static void resolve(struct request *q, const struct symbol_frame *f, size_t at, struct symbol *ret)
{
	switch (ABI_FRAME_KIND(f->frame)) {
	case ABI_FRAME_NATIVE: resolve_native(q, f, at, ret); return;
	case ABI_FRAME_KERNEL: return; /* in a pass of its own, under the lock */
	case ABI_FRAME_JIT:
	case ABI_FRAME_RAW: resolve_address(q, f, at, ret); return;
	case ABI_FRAME_INTERP: resolve_interp(q, f, at, ret); return;
	case ABI_FRAME_REPEAT:
	case ABI_FRAME_ELIDED:
	case ABI_FRAME_TRUNCATED: break;
	}
	ASSERT(abi_frame_is_code(f->frame));
}

/* `start`: of its function, 0 when that is not known. All its code then has one name, whichever call it is in. */
static const char *unknown_name(
	struct request *q, const struct symbol_frame *f, const struct symbol *s, uint64_t start)
{
	const char *module =
		s->mapping == SYMBOL_NO_MAPPING ? NULL : q->modules[s->mapping].base_name;

	if (ABI_FRAME_KIND(f->frame) == ABI_FRAME_INTERP)
		return runtime_text(q, f->code, false);
	if (ABI_FRAME_KIND(f->frame) == ABI_FRAME_KERNEL)
		module = "[kernel.kallsyms]";
	if (abi_frame_is_address(f->frame)) {
		if (!f->jit_addr)
			return arena_strdup(q->arena, "[unknown]");
		module = f->jit_comm && f->jit_comm[0] ? clean(q, f->jit_comm) : "[unknown]";
	}
	return arena_printf(q->arena, "%s+0x%llx", module ? module : "[unknown]",
		(unsigned long long)(start ? start : s->address));
}

static const char *readable_locked(struct request *q, const char *raw)
{
	const char *readable = names_is_mangled(raw) ? names_find(&q->s->names, raw) : NULL;

	ASSERT_HELD(&q->s->lock);
	return clean(q, readable ? readable : raw);
}

/* All lines of a frame whose binary has them. Inlined functions have the names of the debug
 * information; the one that has the code has the symbol table's, unless the other is better. */
static void give_places_locked(struct request *q, const struct found *found, struct symbol *s)
{
	struct symbol_line *lines = arena_alloc_array(q->arena, found->n_places, sizeof(*lines));

	ASSERT_HELD(&q->s->lock);
	for (uint32_t i = 0; lines && i < found->n_places; i++) {
		const struct symbol_place *p = &found->places[i];
		bool last = i + 1 == found->n_places && found->raw;
		const char *raw = last ? found->raw : p->function;
		const char *shown = last && !p->name_wins ? found->raw : p->function;

		lines[i] = (struct symbol_line) {
			.function = readable_locked(q, *shown ? shown : "[unknown]"),
			.system_name = clean(q, *raw ? raw : "[unknown]"),
			.file = clean(q, p->file),
			.line = p->line,
			.column = p->column,
			.start_line = p->start_line,
		};
	}
	s->lines = lines;
	s->n_lines = lines ? found->n_places : 0;
}

/* Many frames are in one function; they share its line. */
static void give_name_locked(struct request *q, const char *raw, struct symbol *s)
{
	uint64_t *slot = table_insert(&q->by_raw, (uintptr_t)raw, NULL);
	const char *system_name;

	ASSERT_HELD(&q->s->lock);
	if (slot && *slot) {
		s->lines = (void *)(uintptr_t)*slot; /* NOLINT: as it was put there */
		s->n_lines = 1;
		return;
	}
	system_name = clean(q, raw);
	give_line(q, s, names_is_mangled(raw) ? readable_locked(q, raw) : system_name, system_name);
	if (slot)
		*slot = (uintptr_t)s->lines;
}

/* In every mode: names, files and lines are at hand, and nobody can find them later. None of the names is mangled. */
static void give_code(struct request *q, const struct found *found, struct symbol *s)
{
	const struct interp_code *c = &found->code->code;
	const struct interp_frame function = {.name = c->name,
		.raw = c->raw ? c->raw : c->name,
		.file = c->file,
		.line = found->line,
		.first_line = c->first_line};
	const struct interp_frame *frames = found->code->n_frames ? found->code->frames : &function;
	uint32_t n = found->code->n_frames ? found->code->n_frames : 1;
	/* Many addresses of machine code have the same frames. */
	uint64_t *slot =
		found->code->n_frames ? table_insert(&q->by_raw, (uintptr_t)frames, NULL) : NULL;
	struct symbol_line *lines;

	if (slot && *slot) {
		s->lines = (void *)(uintptr_t)*slot; /* NOLINT: as it was put there */
		s->n_lines = n;
		q->mappings[s->mapping].has_lines = 1;
		return;
	}
	lines = arena_alloc_array(q->arena, n, sizeof(*lines));
	for (uint32_t i = 0; lines && i < n; i++) {
		lines[i] = (struct symbol_line) {
			.function = clean(q, frames[i].name),
			.system_name = clean(q, frames[i].raw),
			.file = clean(q, frames[i].file),
			.line = frames[i].line,
			.start_line = frames[i].first_line,
		};
		q->failed |= !lines[i].function || !lines[i].system_name || !lines[i].file;
	}
	q->failed |= !lines;
	if (q->failed)
		return;
	if (slot)
		*slot = (uintptr_t)lines;
	s->lines = lines;
	s->n_lines = n;
	q->mappings[s->mapping].has_lines = 1;
}

static void name_locked(struct request *q, const struct symbol_frame *f, const struct found *found,
	struct symbol *s)
{
	struct symbol_line *line;
	const char *text;

	ASSERT_HELD(&q->s->lock);
	/* A place without any name says less than module+0xoffset. */
	s->named = found->raw || found->code ||
		   (found->n_places && found->places[found->n_places - 1].function[0]);
	if (!s->named) {
		text = unknown_name(q, f, s, found->start);
		give_line(q, s, text, text);
		q->s->stats.frames_unnamed++;
		if (s->mapping != SYMBOL_NO_MAPPING)
			q->modules[s->mapping].unnamed++;
		return;
	}
	q->s->stats.frames_named++;
	if (found->code) {
		give_code(q, found, s);
	} else if (found->n_places) {
		give_places_locked(q, found, s);
	} else if (f->jit_name && f->jit_line && q->mode == SYMBOLIZE_LINES) {
		line = give_line(q, s, readable_locked(q, found->raw), clean(q, found->raw));
		if (!line)
			return;
		line->file = clean(q, f->jit_file);
		line->line = f->jit_line;
		q->mappings[s->mapping].has_lines = 1;
	} else {
		give_name_locked(q, found->raw, s);
	}
}

struct mangled {
	const char **names;
	size_t n, cap;
	struct interner seen;
};

static void add_mangled(struct request *q, struct mangled *m, const char *raw)
{
	bool is_new = true;

	if (!raw)
		return;
	table_insert(&q->by_raw, (uintptr_t)raw, &is_new);
	if (!is_new || !names_is_mangled(raw))
		return;
	is_new = false;
	interner_add(&m->seen, raw, strlen(raw), &is_new);
	if (is_new && alloc_grow(&m->names, &m->cap, m->n + 1, sizeof(*m->names)) == 0)
		m->names[m->n++] = raw;
}

static void demangle_locked(struct request *q, size_t n)
{
	struct mangled m = {.n = 0};

	ASSERT_HELD(&q->s->lock);
	interner_init(&m.seen, NULL);
	for (size_t i = 0; i < n; i++) {
		add_mangled(q, &m, q->found[i].raw);
		for (uint32_t k = 0; k < q->found[i].n_places; k++)
			add_mangled(q, &m, q->found[i].places[k].function);
	}
	if (m.n)
		names_demangle(&q->s->names, m.names, m.n);
	interner_done(&m.seen);
	free(m.names);
}

/* An object of a language runtime means nothing outside its process; whoever asks for no names finds those of addresses later. */
static bool is_to_be_named(const struct request *q, const struct symbol_frame *f)
{
	return q->mode != SYMBOLIZE_NONE || ABI_FRAME_KIND(f->frame) == ABI_FRAME_INTERP;
}

static int resolve_all(
	struct request *q, const struct symbol_frame *frames, uint32_t n, struct symbol *ret)
{
	bool any_kernel = false;

	for (uint32_t i = 0; i < n; i++) {
		resolve(q, &frames[i], i, &ret[i]);
		any_kernel |= ABI_FRAME_KIND(frames[i].frame) == ABI_FRAME_KERNEL;
	}
	if (any_kernel && q->mode != SYMBOLIZE_NONE)
		symbolizer_await_kernel(q->s, q->deadline_ns);
	lock_take(&q->s->lock);
	for (uint32_t i = 0; any_kernel && i < n; i++)
		if (ABI_FRAME_KIND(frames[i].frame) == ABI_FRAME_KERNEL)
			resolve_kernel_locked(q, &frames[i], i, &ret[i]);
	if (q->mode != SYMBOLIZE_NONE)
		demangle_locked(q, n);
	for (uint32_t i = 0; i < n; i++)
		if (!ret[i].n_lines && is_to_be_named(q, &frames[i]))
			name_locked(q, &frames[i], &q->found[i], &ret[i]);
	symbolizer_publish_locked(q->s);
	lock_release(&q->s->lock);
	read_module_build_ids(q);
	return arena_error(q->arena, NULL) < 0 || q->failed ? -ENOMEM : 0;
}

static int hand_over(struct request *q, struct symbol_mapping **ret_mappings, uint32_t *ret_n)
{
	*ret_mappings = arena_alloc_array(q->arena, q->n_mappings + 1, sizeof(**ret_mappings));
	if (!*ret_mappings)
		return -ENOMEM;
	if (q->n_mappings)
		memcpy(*ret_mappings, q->mappings, q->n_mappings * sizeof(**ret_mappings));
	*ret_n = (uint32_t)q->n_mappings;
	return 0;
}

static void request_done(struct request *q)
{
	for (size_t i = 0; i < q->n_mappings; i++) {
		binary_symbols_put(q->s->o.binaries, q->modules[i].symbols);
		if (q->modules[i].binary && q->modules[i].unnamed)
			binary_count_unnamed(
				q->s->o.binaries, q->modules[i].binary, q->modules[i].unnamed);
	}
	free(q->mappings);
	free(q->modules);
	free(q->found);
	table_done(&q->by_binary);
	table_done(&q->by_name);
	table_done(&q->by_raw);
}

int symbolize(struct symbolizer *s, const struct symbol_frame *frames, uint32_t n,
	enum symbolize_mode mode, int64_t deadline_ns, struct arena *arena, struct symbol *ret,
	struct symbol_mapping **ret_mappings, uint32_t *ret_n_mappings)
{
	_cleanup_(request_done)
	struct request q = {.s = s, .mode = mode, .deadline_ns = deadline_ns, .arena = arena};
	int r;

	table_init(&q.by_binary, NULL);
	table_init(&q.by_name, NULL);
	table_init(&q.by_raw, NULL);
	q.found = try_realloc(NULL, (size_t)n + 1, sizeof(*q.found));
	if (!q.found)
		return -ENOMEM;
	memset(q.found, 0, ((size_t)n + 1) * sizeof(*q.found));
	r = resolve_all(&q, frames, n, ret);
	return r < 0 ? r : hand_over(&q, ret_mappings, ret_n_mappings);
}
