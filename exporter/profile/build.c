/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols become functions, locations and mappings; rows become samples.
 */
#include "exporter/profile/build.h"
#include "exporter/binary/binary.h"
#include "exporter/symfile/v8.h"
#include "lib/base/table.h"
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { MAX_LABELS = PROFILE_N_TASK_LABELS + 2 }; /* and cpu, stack; constants come on top */

struct task_labels {
	struct prof_label *items;
	size_t n;
};

struct building {
	const struct profile_snapshot *s;
	const struct profile_build_options *o;
	struct arena *arena;
	struct prof_builder *b;
	struct symbol *symbols; /* of real frames */
	struct symbol_mapping *mappings;
	uint32_t n_mappings;
	struct table by_line;  /* a symbol line's address → its function, plus 1 */
	uint32_t *symbol_of;   /* per frame: index into symbols, or PROF_NONE for pseudo frames */
	uint32_t *mapping_ids; /* per symbol mapping: index in the profile */
	uint32_t *
		locations; /* per frame, then per symbol mapping: that of the frame which stands for an interpreter */
	uint8_t *used; /* parallel to locations; NULL: all frames are */
	struct prof_label *constants;
	struct task_labels *task_labels; /* per task */
	uint32_t keys[PROFILE_N_TASK_LABELS], key_cpu, key_stack;
	uint32_t stack_texts[ABI_N_CUTS + 1]; /* by how a stack is cut; 0: not needed yet */
	uint32_t *pod_keys;
};

void profile_stack_label(uint32_t cut, char ret[48])
{
	static const char *const names[] = {
#define CUT(name, text) #name,
#include "bpf/counters.def"
	};

	if (cut == ABI_CUT_NONE) {
		snprintf(ret, 48, "complete");
		return;
	}
	snprintf(ret, 48, "truncated:%s", cut < ABI_N_CUTS ? names[cut] : "unknown");
	for (; *ret; ret++)
		*ret = (char)tolower((unsigned char)*ret);
}

static uint32_t add_string(struct building *k, const char *s)
{
	return prof_builder_string(k->b, s, strlen(s));
}

/* Asks the symbolizer for all frames of code. */
static int name_frames(struct building *k, struct errbuf *eb)
{
	const struct profile_snapshot *s = k->s;
	struct symbol_frame *real = s->frames;
	uint32_t n = 0;
	int r;

	k->symbol_of = arena_alloc_array(k->arena, s->n_frames, sizeof(*k->symbol_of));
	k->symbols = arena_alloc_array(k->arena, s->n_frames, sizeof(*k->symbols));
	if (k->arena->error)
		return arena_error(k->arena, eb);
	for (size_t i = 0; i < s->n_frames; i++)
		k->symbol_of[i] = abi_frame_is_code(s->frames[i].frame) ? n++ : PROF_NONE;
	if (!n)
		return 0;
	if (n < s->n_frames)
		real = arena_alloc_array(k->arena, n, sizeof(*real));
	if (!real)
		return arena_error(k->arena, eb);
	for (size_t i = 0; n < s->n_frames && i < s->n_frames; i++)
		if (k->symbol_of[i] != PROF_NONE)
			real[k->symbol_of[i]] = s->frames[i];
	r = symbolize(k->o->symbolizer, real, n, k->o->mode, k->o->deadline_ns, k->arena,
		k->symbols, &k->mappings, &k->n_mappings);
	return r < 0 ? err_set(eb, r, "naming the frames of the profile failed: %s", strerror(-r))
		     : 0;
}

/*
 * Compiler and language of a task are what the symbol file of its executable says. It may have come while names were waited for: without this
 * the first answer about a program would have its names and lack these labels, and be of other series than those after it.
 */
static void label_toolchains(struct building *k)
{
	struct binary_labels known;

	for (size_t i = 0; k->o->binaries && i < k->s->n_tasks; i++) {
		struct profile_task *task = &k->s->tasks[i];

		if (!task->exe_binary || *task->labels[PROFILE_LABEL_COMPILER])
			continue;
		binary_labels(k->o->binaries, task->exe_binary, false, &known);
		task->labels[PROFILE_LABEL_COMPILER] = known.compiler;
		if (!*task->labels[PROFILE_LABEL_LANGUAGE])
			task->labels[PROFILE_LABEL_LANGUAGE] = known.language;
	}
}

/* The mapping of a user frame nearest to the leaf, or PROF_NONE. */
static uint32_t leaf_file(const struct building *k, const struct profile_stack *st)
{
	for (uint32_t i = 0; i < st->n; i++) {
		uint32_t symbol = k->symbol_of[k->s->refs[st->first + i]];

		if (symbol != PROF_NONE &&
			k->mappings[k->symbols[symbol].mapping].filename[0] != '[')
			return k->symbols[symbol].mapping;
	}
	return PROF_NONE;
}

/*
 * The mapping that heads every report: of the executables, the one that most weight belongs to; when none of them is among
 * the mappings, the file that most weight was found in; else the first.
 */
static uint32_t main_mapping(const struct building *k)
{
	const struct profile_snapshot *s = k->s;
	_cleanup_interner_ struct interner files;
	uint64_t *owned = arena_zalloc(k->arena, k->n_mappings * sizeof(*owned));
	uint64_t *found = arena_zalloc(k->arena, k->n_mappings * sizeof(*found));
	uint32_t *mapping_of = arena_alloc_array(k->arena, k->n_mappings, sizeof(*mapping_of));
	uint32_t best = 0;

	interner_init(&files, k->arena->budget);
	if (!owned || !found || !mapping_of)
		return 0;
	for (uint32_t i = 0; i < k->n_mappings; i++) {
		bool is_new;
		uint32_t id = interner_add(
			&files, k->mappings[i].filename, strlen(k->mappings[i].filename), &is_new);

		if (id != INTERNER_NONE && is_new)
			mapping_of[id] = i;
	}
	for (size_t i = 0; i < s->n_rows; i++) {
		const char *path = s->tasks[s->rows[i].task].labels[PROFILE_LABEL_EXECUTABLE];
		uint32_t id = interner_find(&files, path, strlen(path)),
			 file = leaf_file(k, &s->stacks[s->rows[i].stack]);

		if (id != INTERNER_NONE)
			owned[mapping_of[id]] += s->rows[i].weight;
		if (file != PROF_NONE)
			found[file] += s->rows[i].weight;
	}
	for (uint32_t i = 1; i < k->n_mappings; i++)
		if (owned[i] > owned[best] || (owned[i] == owned[best] && found[i] > found[best]))
			best = i;
	return best;
}

static void add_mapping(struct building *k, uint32_t i)
{
	const struct symbol_mapping *m = &k->mappings[i];
	uint8_t named =
		k->o->mode != SYMBOLIZE_NONE || m->has_lines; /* a language's in every mode */

	/* has_functions alone tells pprof to look neither for local files nor at /symbol. */
	k->mapping_ids[i] =
		prof_builder_mapping(k->b, &(struct prof_mapping) {
						   .start = m->start,
						   .limit = m->limit,
						   .file_off = m->file_off,
						   .filename = add_string(k, m->filename),
						   .build_id = add_string(k, m->build_id),
						   .has_functions = named,
						   .has_filenames = m->has_lines,
						   .has_line_numbers = m->has_lines,
						   .has_inline_frames = m->has_lines,
					   });
}

static int add_mappings(struct building *k, struct errbuf *eb)
{
	uint32_t first;

	k->mapping_ids = arena_alloc_array(k->arena, k->n_mappings, sizeof(*k->mapping_ids));
	first = k->n_mappings ? main_mapping(k) : 0;
	if (k->arena->error)
		return arena_error(k->arena, eb);
	if (k->n_mappings)
		add_mapping(k, first);
	for (uint32_t i = 0; i < k->n_mappings; i++)
		if (i != first)
			add_mapping(k, i);
	return 0;
}

/* Do frames in such a mapping lie in code that holds a runtime? */
static uint32_t runtime_in(const struct building *k, const struct symbol_frame *f)
{
	struct runtime_record runtime;

	return k->o->binaries && ABI_FRAME_KIND(f->frame) == ABI_FRAME_NATIVE &&
			       binary_runtime(k->o->binaries, ABI_NATIVE_BINARY(f->frame), &runtime)
		       ? runtime.kind
		       : RUNTIME_NONE;
}

/* Builtins of V8 lie together, and have no names in a file without symbols. */
static bool is_builtin(
	const struct building *k, const struct symbol_frame *f, const struct symbol *sym)
{
	struct runtime_record r;

	return binary_runtime(k->o->binaries, ABI_NATIVE_BINARY(f->frame), &r) &&
	       sym->address >= r.addresses[V8_BUILTINS] &&
	       sym->address < r.addresses[V8_BUILTINS_END];
}

static bool is_part(const struct symbol_frame *f)
{
	return f->code && f->code->is_named && f->code->code.is_part;
}

/* What each frame is to folding. False: no frame is of a language. */
static bool classify_frames(struct building *k, struct fold_frame *ret)
{
	const struct profile_snapshot *s = k->s;
	uint8_t *runtimes = arena_zalloc(k->arena, k->n_mappings); /* enum runtime_kind plus 1 */
	bool any = false;

	for (size_t i = 0; runtimes && i < s->n_frames; i++) {
		const struct symbol *sym =
			k->symbol_of[i] == PROF_NONE ? NULL : &k->symbols[k->symbol_of[i]];
		const struct symbol_line *outermost;
		uint8_t *runtime;

		ret[i] = (struct fold_frame) {.class = sym ? FOLD_OTHER : FOLD_MARK};
		if (!sym || sym->mapping == SYMBOL_NO_MAPPING || !sym->n_lines)
			continue;
		outermost = &sym->lines[sym->n_lines - 1];
		if (ABI_FRAME_KIND(s->frames[i].frame) == ABI_FRAME_INTERP &&
			!strcmp(outermost->function, INTERP_OWN_FRAME)) {
			ret[i].class = FOLD_INTERNAL;
			continue;
		}
		if (ABI_FRAME_KIND(s->frames[i].frame) == ABI_FRAME_INTERP) {
			ret[i] = (struct fold_frame) {
				is_part(&s->frames[i]) ? FOLD_PART : FOLD_LANGUAGE, sym->mapping};
			any = true;
			continue;
		}
		runtime = &runtimes[sym->mapping];
		if (!*runtime)
			*runtime = (uint8_t)(runtime_in(k, &s->frames[i]) + 1);
		if (fold_is_internal(*runtime - 1U, k->mappings[sym->mapping].filename,
			    sym->named ? outermost->function : "") ||
			(ABI_FRAME_KIND(s->frames[i].frame) == ABI_FRAME_JIT &&
				fold_is_trampoline(outermost->function)))
			ret[i].class = FOLD_INTERNAL;
		else if (*runtime - 1U == RUNTIME_V8 && !sym->named &&
			 is_builtin(k, &s->frames[i], sym))
			ret[i].class = FOLD_INTERNAL;
	}
	return any;
}

/* Frames that no stack has any more are not in the profile. */
static int fold_stacks(struct building *k, struct errbuf *eb)
{
	const struct profile_snapshot *s = k->s;
	size_t n = s->n_frames + k->n_mappings;
	struct fold_frame *frames;

	k->locations = arena_zalloc(k->arena, n * sizeof(*k->locations));
	if (k->o->fold == FOLD_NOTHING || k->o->mode == SYMBOLIZE_NONE)
		return arena_error(k->arena, eb);
	frames = arena_alloc_array(k->arena, s->n_frames, sizeof(*frames));
	if (!frames || !classify_frames(k, frames))
		return arena_error(k->arena, eb);
	k->used = arena_zalloc(k->arena, n);
	for (size_t i = 0; k->used && i < s->n_stacks; i++) {
		struct profile_stack *st = &s->stacks[i];
		uint32_t *refs = s->refs + st->first;

		st->n = fold_stack(frames, (uint32_t)s->n_frames, k->o->fold,
			st->cut == ABI_CUT_NONE, refs, st->n);
		for (uint32_t r = 0; r < st->n; r++)
			k->used[refs[r]] = 1;
	}
	return arena_error(k->arena, eb);
}

/* Symbols share their lines where they can (symbolize.h), so that a function's names are mostly looked at once. */
static uint32_t add_function(struct building *k, const struct symbol_line *l)
{
	uint64_t *slot = table_insert(&k->by_line, (uintptr_t)l, NULL);
	struct prof_function f;
	uint32_t function;

	if (slot && *slot)
		return (uint32_t)*slot - 1;
	f = (struct prof_function) {
		.name = add_string(k, l->function),
		.system_name = add_string(k, l->system_name),
		.filename = add_string(k, l->file),
		.start_line = l->start_line,
	};
	function = prof_builder_function(k->b, &f);
	if (slot)
		*slot = function + 1ULL;
	return function;
}

static uint32_t add_symbol(struct building *k, const struct symbol *sym)
{
	size_t n = sym->n_lines;
	struct prof_line few[16], *lines = few;

	if (n > ARRAY_SIZE(few))
		lines = arena_alloc_array(k->arena, n, sizeof(*lines));
	if (!lines)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct symbol_line *l = &sym->lines[i];

		lines[i] = (struct prof_line) {
			.function = add_function(k, l),
			.line = l->line,
			.column = l->column,
		};
	}
	return prof_builder_location(k->b, sym->address, k->mapping_ids[sym->mapping], lines, n);
}

/* A frame that stands for what is not there. */
static uint32_t add_pseudo_frame(struct building *k, uint64_t word)
{
	char text[64], label[48];
	struct prof_function f;
	struct prof_line line;

	/* A bundle may have words that no kernel half writes. */
	snprintf(text, sizeof(text), "[frame of kind %u]", (unsigned)ABI_FRAME_KIND(word));
	switch (ABI_FRAME_KIND(word)) {
	case ABI_FRAME_TRUNCATED:
		profile_stack_label(
			(uint32_t)MIN(ABI_FRAME_VALUE(word), (uint64_t)ABI_N_CUTS), label);
		snprintf(text, sizeof(text), "[truncated: %s]",
			strchr(label, ':') ? strchr(label, ':') + 1 : label);
		break;
	case ABI_FRAME_ELIDED:
		snprintf(text, sizeof(text), "[elided: %" PRIu64 " frames]",
			(uint64_t)ABI_FRAME_VALUE(word));
		break;
	case ABI_FRAME_NATIVE:
	case ABI_FRAME_KERNEL:
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT:
	case ABI_FRAME_INTERP: /* of code */
	case ABI_FRAME_REPEAT: /* expanded in the snapshot */ break;
	}
	f = (struct prof_function) {
		.name = add_string(k, text), .system_name = add_string(k, text)};
	line = (struct prof_line) {.function = prof_builder_function(k->b, &f)};
	return prof_builder_location(k->b, 0, PROF_NONE, &line, 1);
}

/* The frame that stands for a run of an interpreter's own. */
static uint32_t add_folded(struct building *k, uint32_t mapping)
{
	uint32_t name = add_string(k, INTERP_OWN_FRAME);
	struct prof_function f = {.name = name, .system_name = name};
	struct prof_line line = {.function = prof_builder_function(k->b, &f)};

	return prof_builder_location(k->b, 0, k->mapping_ids[mapping], &line, 1);
}

static void add_locations(struct building *k)
{
	size_t n = k->s->n_frames;

	table_init(&k->by_line, k->arena->budget);
	for (size_t i = 0; i < n; i++)
		if (!k->used || k->used[i])
			k->locations[i] = k->symbol_of[i] == PROF_NONE
						  ? add_pseudo_frame(k, k->s->frames[i].frame)
						  : add_symbol(k, &k->symbols[k->symbol_of[i]]);
	for (uint32_t m = 0; k->used && m < k->n_mappings; m++)
		if (k->used[n + m])
			k->locations[n + m] = add_folded(k, m);
	table_done(&k->by_line);
}

static int add_label_keys(struct building *k, struct errbuf *eb)
{
	const struct labels *constants = k->o->constants;

	k->constants = arena_alloc_array(k->arena, constants->n, sizeof(*k->constants));
	k->pod_keys = arena_alloc_array(k->arena, k->s->n_pod_labels, sizeof(*k->pod_keys));
	if (!k->constants || !k->pod_keys)
		return arena_error(k->arena, eb);
	for (uint32_t i = 0; i < k->s->n_pod_labels; i++)
		k->pod_keys[i] = add_string(k, k->s->pod_labels[i]);
	for (size_t i = 0; i < constants->n; i++)
		k->constants[i] = (struct prof_label) {
			.key = add_string(k, constants->items[i].name),
			.str = add_string(k, constants->items[i].value),
		};
	for (unsigned i = 0; i < PROFILE_N_TASK_LABELS; i++)
		k->keys[i] = add_string(k, profile_label_name((enum profile_label)i));
	k->key_cpu = k->s->with_cpu ? add_string(k, PROFILE_LABEL_CPU) : 0;
	k->key_stack = add_string(k, PROFILE_LABEL_STACK);
	return 0;
}

/* Samples of a task have all labels but two in common. */
static int add_task_labels(struct building *k, struct errbuf *eb)
{
	struct prof_label *labels = arena_alloc_array(
		k->arena, PROFILE_N_TASK_LABELS + k->s->n_pod_labels, sizeof(*labels));

	k->task_labels = arena_alloc_array(k->arena, k->s->n_tasks, sizeof(*k->task_labels));
	for (size_t t = 0; !k->arena->error && t < k->s->n_tasks; t++) {
		const struct profile_task *task = &k->s->tasks[t];
		struct task_labels *to = &k->task_labels[t];
		size_t n = 0;

		for (unsigned i = 0; i < PROFILE_N_TASK_LABELS; i++)
			if (*task->labels[i])
				labels[n++] = (struct prof_label) {
					.key = k->keys[i], .str = add_string(k, task->labels[i])};
		for (uint32_t i = 0; task->pod_values && i < k->s->n_pod_labels; i++)
			if (*task->pod_values[i])
				labels[n++] = (struct prof_label) {.key = k->pod_keys[i],
					.str = add_string(k, task->pod_values[i])};
		to->n = n;
		to->items = arena_alloc_array(k->arena, n, sizeof(*to->items));
		if (to->items)
			memcpy(to->items, labels, n * sizeof(*labels));
	}
	return arena_error(k->arena, eb);
}

static uint32_t stack_text(struct building *k, uint32_t cut)
{
	uint32_t *id = &k->stack_texts[MIN(cut, (uint32_t)ABI_N_CUTS)];
	char text[48];

	if (!*id) {
		profile_stack_label(cut, text);
		*id = add_string(k, text);
	}
	return *id;
}

static size_t add_labels(struct building *k, const struct profile_row *row, struct prof_label *out)
{
	const struct task_labels *task = &k->task_labels[row->task];
	size_t n = task->n;
	char text[48];

	memcpy(out, task->items, n * sizeof(*out));
	if (k->s->with_cpu) {
		snprintf(text, sizeof(text), "%u", row->cpu);
		out[n++] = (struct prof_label) {.key = k->key_cpu, .str = add_string(k, text)};
	}
	out[n++] = (struct prof_label) {
		.key = k->key_stack, .str = stack_text(k, k->s->stacks[row->stack].cut)};
	for (size_t i = 0; i < k->o->constants->n; i++)
		out[n++] = k->constants[i];
	return n;
}

static int64_t value_of(const struct profile_row *row, enum event_value value)
{
	switch (value) {
	case EVENT_COUNT: return (int64_t)row->count;
	case EVENT_WEIGHT: return (int64_t)row->weight;
	case EVENT_WEIGHT_2: return (int64_t)row->weight_2;
	}
	return 0;
}

static int add_samples(struct building *k, struct errbuf *eb)
{
	const struct profile_snapshot *s = k->s;
	const struct event_source *type = k->o->type;
	uint32_t *stack = s->refs;
	struct prof_label *labels = arena_alloc_array(
		k->arena, MAX_LABELS + s->n_pod_labels + k->o->constants->n, sizeof(*labels));

	if (!labels)
		return arena_error(k->arena, eb);
	/* In place: there may be millions. */
	for (size_t i = 0; i < s->n_refs; i++)
		stack[i] = k->locations[stack[i]];
	for (size_t i = 0; i < s->n_rows; i++) {
		const struct profile_row *row = &s->rows[i];
		const struct profile_stack *st = &s->stacks[row->stack];
		int64_t values[EVENT_MAX_VALUES];

		for (size_t v = 0; v < type->n_values; v++)
			values[v] = value_of(row, type->values[v].value);
		prof_builder_sample(k->b, stack + st->first, st->n, values, labels,
			add_labels(k, row, labels), 0);
	}
	return 0;
}

static void set_header(struct building *k, struct profile *p)
{
	const struct event_source *type = k->o->type;

	for (size_t i = 0; i < type->n_values; i++)
		prof_builder_type(k->b, type->values[i].type, type->values[i].unit);
	p->period_type.type = add_string(k, type->period_type);
	p->period_type.unit = add_string(k, type->period_unit);
	p->period = (int64_t)(k->s->period ? k->s->period : k->o->period);
	p->default_sample_type = add_string(k, type->values[type->n_values - 1].type);
	p->time_ns = k->s->range.wall_ns;
	p->duration_ns = k->s->range.duration_ns;
	if (k->o->comment)
		prof_builder_comment(k->b, k->o->comment, strlen(k->o->comment));
}

int profile_build(struct profile_snapshot *s, const struct profile_build_options *o,
	struct arena *arena, struct profile *ret, struct errbuf *eb)
{
	_cleanup_prof_builder_ struct prof_builder *b = prof_builder_new(ret);
	struct building k = {.s = s, .o = o, .arena = arena, .b = b};
	int r = name_frames(&k, eb);

	if (r < 0)
		return r;
	label_toolchains(&k);
	set_header(&k, ret);
	/* First, for short numbers: each sample has them. */
	r = add_label_keys(&k, eb);
	if (r < 0)
		return r;
	r = add_task_labels(&k, eb);
	if (r < 0)
		return r;
	r = add_mappings(&k, eb);
	if (r < 0)
		return r;
	r = fold_stacks(&k, eb);
	if (r < 0)
		return r;
	add_locations(&k);
	if (arena->error)
		return arena_error(arena, eb);
	r = add_samples(&k, eb);
	return r < 0 ? r : prof_builder_finish(b, eb);
}
