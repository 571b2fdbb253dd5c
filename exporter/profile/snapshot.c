/* SPDX-License-Identifier: Apache-2.0
 *
 * Two passes: rows are summed per key, then the stacks and tasks that are left are copied. Both are linear with one hash
 * look-up a row and a frame, but for the frames that a stack has in common with one before it.
 */
#include "exporter/profile/snapshot.h"
#include "exporter/proc/code_objects.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include <string.h>

/* A column grows on the heap and is handed to the arena in the end, cut to size: an arena would keep each block that it outgrew. */
struct column {
	void *items;
	size_t n, cap, elem;
};

/* The first of n more. */
static void *column_add_n(struct column *c, size_t n, struct arena *arena)
{
	void *at;

	if (c->cap - c->n < n &&
		alloc_grow_in(arena->budget, &c->items, &c->cap, c->n + n, c->elem, NULL) < 0)
		return NULL;
	at = (char *)c->items + c->elem * c->n;
	c->n += n;
	return at;
}

static void *column_add(struct column *c, struct arena *arena)
{
	return column_add_n(c, 1, arena);
}

static bool column_hand_over(struct column *c, struct arena *arena)
{
	void *cut = c->n ? try_realloc(c->items, c->n, c->elem) : NULL;

	if (cut) {
		budget_release(arena->budget, (c->cap - c->n) * c->elem);
		c->items = cut;
		c->cap = c->n;
	}
	if (c->items && !arena_adopt(arena, c->items, c->cap * c->elem))
		return false;
	c->cap = 0;
	return true;
}

static void column_done(struct column *c, struct arena *arena)
{
	if (c->cap)
		alloc_free_in(arena->budget, &c->items, &c->cap, c->elem);
}

/* Where the frames from a node of the tree to the root are among refs: the rest of a stack that was copied. */
struct tail {
	uint32_t node, at, stack; /* node 0: none */
};

/* Most of a stack is the rest of another. Nodes that meet here take each other's place; what is not found is copied. */
enum { TAIL_BITS = 12 };

struct taking {
	const struct profile_tables *t;
	const uint64_t *tasks;
	struct arena *arena;
	struct profile_snapshot *s;
	struct table keys;    /* (stack, task) or, with CPUs, (stack, tuple) → row */
	struct table tuples;  /* (task, CPU) → tuple */
	struct table stacks;  /* id in the tree → index */
	struct table ids;     /* task id → index */
	struct table frames;  /* word → index */
	struct table weights; /* weight → samples */
	struct table codes;   /* id of a code object → its struct symbol_code */
	struct table
		texts; /* what objects share → a struct interp_code, or frames, of the snapshot */
	struct tail *tails; /* 1 << TAIL_BITS */
	struct column rows, stack_column, task_column, frame_column, refs;
	struct column path; /* nodes of the stack at hand, as far as they were walked */
};

/* Index of `key`: the number of keys before it, when new. False when memory is out. */
static bool index_of(struct table *t, uint64_t key, uint64_t *ret, bool *ret_new)
{
	uint64_t n = t->n_used;
	uint64_t *value = table_insert(t, key, ret_new);

	if (!value)
		return false;
	if (*ret_new)
		*value = n;
	*ret = *value;
	return true;
}

static bool add_row(struct taking *k, const struct profile_row *add)
{
	uint64_t tuple = add->task, at;
	struct profile_row *row;
	bool is_new;

	if (k->s->with_cpu &&
		!index_of(&k->tuples, (uint64_t)add->task << 16 | add->cpu, &tuple, &is_new))
		return false;
	if (!index_of(&k->keys, (uint64_t)add->stack << 32 | tuple, &at, &is_new))
		return false;
	if (is_new) {
		row = column_add(&k->rows, k->arena);
		if (!row)
			return false;
		*row = *add;
		return true;
	}
	row = (struct profile_row *)k->rows.items + at;
	row->count += add->count;
	row->weight += add->weight;
	row->weight_2 += add->weight_2;
	return true;
}

static bool count_weight(struct taking *k, uint64_t weight, uint64_t samples)
{
	bool is_new;
	uint64_t *n = table_insert(&k->weights, weight, &is_new);

	if (n)
		*n += samples;
	return n != NULL;
}

static bool add_rows(struct taking *k, const struct sample_rows *in)
{
	uint64_t per_period[256] = {0};

	for (uint32_t i = 0; i < in->n; i++) {
		const struct profile_row row = {
			.stack = in->stack[i],
			.task = in->task[i],
			.cpu = in->cpu ? in->cpu[i] : 0,
			.count = in->count ? in->count[i] : 1,
			.weight = sample_rows_weight(in, i),
			.weight_2 = in->value_2 ? in->value_2[i] : 0,
		};

		if (in->ms && (in->ms[i] < in->from_ms || in->ms[i] >= in->to_ms))
			continue;
		if (k->tasks && !bits_has(k->tasks, row.task))
			continue;
		if (!add_row(k, &row))
			return false;
		if (in->period)
			per_period[in->period[i]] += row.count;
		k->s->count += row.count;
		k->s->weight += row.weight;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(per_period); i++)
		if (per_period[i] && !count_weight(k, in->periods[i], per_period[i]))
			return false;
	return true;
}

static const char *clean_text(struct arena *arena, const char *text)
{
	size_t n = strlen(text), out = 0;
	char *copy;

	if (!n)
		return "";
	if (str_is_utf8(text, n))
		return arena_strndup(arena, text, n);
	copy = arena_alloc_array(arena, n + 1, 3);
	for (size_t i = 0, len; copy && i < n; i += MAX(len, 1)) {
		len = str_utf8_len(text + i, n - i);
		memcpy(copy + out, len ? text + i : "\xef\xbf\xbd", len ? len : 3);
		out += len ? len : 3;
	}
	if (copy)
		copy[out] = 0;
	return copy;
}

static bool copy_pod_values(
	struct taking *k, const struct proc_task_info *info, struct profile_task *task)
{
	task->pod_values = NULL;
	if (!info->pod_values || !k->t->n_pod_labels)
		return true;
	task->pod_values =
		arena_alloc_array(k->arena, k->t->n_pod_labels, sizeof(*task->pod_values));
	for (uint32_t i = 0; task->pod_values && i < k->t->n_pod_labels; i++)
		task->pod_values[i] = clean_text(k->arena, info->pod_values[i]);
	return task->pod_values != NULL;
}

static bool copy_task(struct taking *k, uint32_t id)
{
	struct profile_task *task = column_add(&k->task_column, k->arena);
	struct proc_task_info info;
	char buf[PROFILE_LABEL_BUF];

	if (!task)
		return false;
	proc_task_info(k->t->procs, id, &info);
	for (unsigned i = 0; i < PROFILE_N_TASK_LABELS; i++)
		task->labels[i] = clean_text(
			k->arena, profile_label_value(&info, (enum profile_label)i, buf));
	task->exe_binary = info.exe_binary;
	return copy_pod_values(k, &info, task) && !k->arena->error;
}

static bool add_ref(struct taking *k, uint32_t frame)
{
	uint32_t *ref = column_add(&k->refs, k->arena);

	if (ref)
		*ref = frame;
	return ref != NULL;
}

static void *copy_bytes(struct arena *a, const void *from, size_t n)
{
	void *to = n ? arena_alloc(a, n) : NULL;

	return to ? memcpy(to, from, n) : NULL;
}

/* Once a snapshot, however many objects have it. NULL: memory is out. */
static const struct interp_code *copy_text(struct taking *k, const struct proc_code_text *text)
{
	uint64_t *slot = table_insert(&k->texts, (uintptr_t)text, NULL);
	struct interp_code *code;

	if (!slot || *slot)
		return slot ? (void *)(uintptr_t)*slot : NULL; /* NOLINT: as it was put there */
	code = arena_alloc(k->arena, sizeof(*code));
	*slot = (uintptr_t)code;
	if (code)
		*code = (struct interp_code) {
			.name = arena_strdup(k->arena, text->name),
			.raw = arena_strdup(k->arena, text->raw),
			.file = arena_strdup(k->arena, text->file),
			.first_line = text->first_line,
			.lines = copy_bytes(k->arena, text->lines, text->lines_bytes),
			.lines_bytes = text->lines_bytes,
			.lines_format = text->lines_format,
			.is_part = text->is_part,
		};
	return code;
}

/* The same for those of machine code. */
static const struct interp_frame *copy_frames(struct taking *k, const struct proc_code_text *text)
{
	uint64_t *slot = table_insert(&k->texts, (uintptr_t)text, NULL);
	struct interp_frame *frames;

	if (!slot || *slot)
		return slot ? (void *)(uintptr_t)*slot : NULL; /* NOLINT: as it was put there */
	frames = arena_alloc_array(k->arena, text->n_frames, sizeof(*frames));
	*slot = (uintptr_t)frames;
	for (size_t i = 0; frames && i < text->n_frames; i++) {
		const struct interp_frame *f = &text->frames[i];

		frames[i] = (struct interp_frame) {.name = arena_strdup(k->arena, f->name),
			.raw = arena_strdup(k->arena, f->raw),
			.file = arena_strdup(k->arena, f->file),
			.line = f->line,
			.first_line = f->first_line};
	}
	return frames;
}

/* What is known of a code object, once a snapshot; it may be given back when the lock is. NULL: nothing is, or memory is out. */
static const struct symbol_code *copy_code(struct taking *k, uint64_t id)
{
	struct proc_object o = proc_object_of(k->t->procs, id);
	const struct interp_code *text;
	uint64_t *slot = o.process ? table_insert(&k->codes, id, NULL) : NULL;
	struct symbol_code *code;

	if (!slot || *slot)
		return slot ? (void *)(uintptr_t)*slot : NULL; /* NOLINT: as it was put there */
	code = arena_zalloc(k->arena, sizeof(*code));
	*slot = (uintptr_t)code;
	if (!code)
		return NULL;
	code->kind = o.kind;
	code->version = o.version;
	if (o.text && o.text->n_frames) {
		code->frames = copy_frames(k, o.text);
		code->n_frames = code->frames ? (uint32_t)o.text->n_frames : 0;
		code->is_named = code->frames != NULL;
		return code;
	}
	text = o.text ? copy_text(k, o.text) : NULL;
	code->is_named = text != NULL;
	if (text)
		code->code = *text;
	return code;
}

/* The index of a frame word; addresses of JIT code are looked up while the process table is at hand. */
static bool add_frame(struct taking *k, uint64_t word)
{
	struct symbol_frame *frame;
	uint64_t at;
	bool is_new;

	if (!index_of(&k->frames, word, &at, &is_new))
		return false;
	if (is_new) {
		frame = column_add(&k->frame_column, k->arena);
		if (!frame)
			return false;
		*frame = (struct symbol_frame) {.frame = word, .jit_comm = "", .jit_file = ""};
		if (ABI_FRAME_KIND(word) == ABI_FRAME_INTERP)
			frame->code = copy_code(k, ABI_INTERP_OBJECT(word));
		if (abi_frame_is_address(word)) {
			struct proc_address a =
				proc_interned_address(k->t->procs, ABI_FRAME_VALUE(word));

			/* A file's, as it turned out after the sample. */
			if (a.word)
				frame->frame = a.word;
			frame->jit_addr = a.addr;
			if (a.process)
				frame->jit_comm =
					clean_text(k->arena, proc_comm(k->t->procs, a.process));
			if (a.name) {
				frame->jit_name = clean_text(k->arena, a.name);
				frame->jit_file = clean_text(k->arena, a.file);
				frame->jit_line = a.line;
			}
		}
	}
	return add_ref(k, (uint32_t)at);
}

/* Words of a repeat: the `period` frames before it, `count` times more. What does not fit any more is one elided frame. */
static bool add_repeat(struct taking *k, size_t first, uint64_t word)
{
	uint64_t period = ABI_FRAME_VALUE(word) >> 32, count = (uint32_t)word, fits;
	size_t n = k->refs.n - first, room = n < PROFILE_MAX_FRAMES ? PROFILE_MAX_FRAMES - n : 0;

	if (!period || period > n)
		return true;
	fits = MIN(count, room / period);
	for (uint64_t i = 0; i < fits * period; i++)
		if (!add_ref(k, ((uint32_t *)k->refs.items)[k->refs.n - period]))
			return false;
	return fits == count || add_frame(k, ABI_FRAME(ABI_FRAME_ELIDED, (count - fits) * period));
}

static struct tail *tail_of(const struct taking *k, uint32_t node)
{
	return &k->tails[node * 0x9e3779b1U >> (32 - TAIL_BITS)];
}

/* The rest of a stack is that of another from its ref `at` on. */
static bool copy_tail(struct taking *k, const struct tail *tail, struct profile_stack *ret)
{
	const struct profile_stack *from =
		(struct profile_stack *)k->stack_column.items + tail->stack;
	size_t n = from->first + from->n - tail->at;
	uint32_t *to;

	if (from->cut != ABI_CUT_NONE)
		ret->cut = from->cut;
	to = column_add_n(&k->refs, n, k->arena);
	if (to)
		memcpy(to, (uint32_t *)k->refs.items + tail->at, n * sizeof(*to));
	return to != NULL;
}

static void remember_tails(struct taking *k, const struct profile_stack *stack)
{
	uint32_t index = (uint32_t)(stack - (struct profile_stack *)k->stack_column.items);
	const uint32_t *nodes = k->path.items;

	for (uint32_t i = 0; i < k->path.n; i++)
		*tail_of(k, nodes[i]) =
			(struct tail) {.node = nodes[i], .at = stack->first + i, .stack = index};
}

/* A plain stack has a ref for each node and is cut, if at all, at its end: the rest from any node on is the same in another. */
static bool copy_node(
	struct taking *k, uint32_t id, struct profile_stack *stack, bool *ret_is_plain)
{
	uint64_t word = stacks_frame(k->t->stacks, id);
	uint32_t *node = column_add(&k->path, k->arena);

	if (!node)
		return false;
	*node = id;
	switch (ABI_FRAME_KIND(word)) {
	case ABI_FRAME_REPEAT: *ret_is_plain = false; return add_repeat(k, stack->first, word);
	case ABI_FRAME_TRUNCATED:
		*ret_is_plain &= !stacks_parent(k->t->stacks, id);
		stack->cut = (uint32_t)MIN(ABI_FRAME_VALUE(word), (uint64_t)ABI_N_CUTS);
		break;
	case ABI_FRAME_NATIVE:
	case ABI_FRAME_KERNEL:
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT:
	case ABI_FRAME_INTERP:
	case ABI_FRAME_ELIDED: break;
	}
	return add_frame(k, word);
}

static bool copy_stack(struct taking *k, uint32_t id)
{
	struct profile_stack *stack = column_add(&k->stack_column, k->arena);
	bool is_plain = true, is_rest = false;

	if (!stack)
		return false;
	*stack = (struct profile_stack) {.first = (uint32_t)k->refs.n, .cut = ABI_CUT_NONE};
	k->path.n = 0;
	for (; id && !is_rest; id = stacks_parent(k->t->stacks, id)) {
		const struct tail *tail = tail_of(k, id);

		is_rest = tail->node == id;
		if (!(is_rest ? copy_tail(k, tail, stack) : copy_node(k, id, stack, &is_plain)))
			return false;
	}
	stack->n = (uint32_t)k->refs.n - stack->first;
	if (is_plain)
		remember_tails(k, stack);
	return true;
}

/* Ids of the shared tables become indices of the snapshot. */
static bool resolve_rows(struct taking *k)
{
	struct profile_row *rows = k->rows.items;

	for (size_t i = 0; i < k->rows.n; i++) {
		uint64_t stack, task;
		bool is_new;

		if (!index_of(&k->stacks, rows[i].stack, &stack, &is_new) ||
			(is_new && !copy_stack(k, rows[i].stack)))
			return false;
		if (!index_of(&k->ids, rows[i].task, &task, &is_new) ||
			(is_new && !copy_task(k, rows[i].task)))
			return false;
		rows[i].stack = (uint32_t)stack;
		rows[i].task = (uint32_t)task;
	}
	return true;
}

static uint64_t commonest_weight(const struct table *weights)
{
	uint64_t weight, n, best = 0, best_n = 0;
	size_t pos = 0;

	while (table_next(weights, &pos, &weight, &n))
		if (n > best_n || (n == best_n && weight < best)) {
			best = weight;
			best_n = n;
		}
	return best;
}

static bool take(struct taking *k, const struct sample_log *log, const struct sample_range *range)
{
	struct sample_rows rows;
	size_t pos = 0;

	while (sample_log_next(log, range, &pos, &rows))
		if (!add_rows(k, &rows))
			return false;
	return resolve_rows(k);
}

int profile_snapshot_take(const struct profile_tables *t, const struct sample_log *log,
	const struct sample_range *range, const uint64_t *tasks, int with_cpu, struct arena *arena,
	struct profile_snapshot *ret, struct errbuf *eb)
{
	struct taking k = {
		.t = t,
		.tasks = tasks,
		.arena = arena,
		.s = ret,
		.rows = {.elem = sizeof(struct profile_row)},
		.stack_column = {.elem = sizeof(struct profile_stack)},
		.task_column = {.elem = sizeof(struct profile_task)},
		.frame_column = {.elem = sizeof(struct symbol_frame)},
		.refs = {.elem = sizeof(uint32_t)},
		.path = {.elem = sizeof(uint32_t)},
		.tails = arena_zalloc(arena, sizeof(*k.tails) << TAIL_BITS),
	};
	struct table *tables[] = {
		&k.keys, &k.tuples, &k.stacks, &k.ids, &k.frames, &k.weights, &k.codes, &k.texts};
	struct column *columns[] = {
		&k.rows, &k.stack_column, &k.task_column, &k.frame_column, &k.refs};
	bool ok;

	*ret = (struct profile_snapshot) {.range = *range,
		.with_cpu = with_cpu,
		.pod_labels = t->pod_labels,
		.n_pod_labels = t->n_pod_labels};
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		table_init(tables[i], arena->budget);
	ok = k.tails && take(&k, log, range);
	ret->period = commonest_weight(&k.weights);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		table_done(tables[i]);
	column_done(&k.path, arena);
	for (size_t i = 0; ok && i < ARRAY_SIZE(columns); i++)
		ok = column_hand_over(columns[i], arena);
	for (size_t i = 0; !ok && i < ARRAY_SIZE(columns); i++)
		column_done(columns[i], arena);
	if (!ok)
		return arena->error
			       ? arena_error(arena, eb)
			       : err_set(eb, -ENOMEM,
					 "the profile needs more memory than its budget has left");
	ret->rows = k.rows.items;
	ret->n_rows = k.rows.n;
	ret->stacks = k.stack_column.items;
	ret->n_stacks = k.stack_column.n;
	ret->tasks = k.task_column.items;
	ret->n_tasks = k.task_column.n;
	ret->frames = k.frame_column.items;
	ret->n_frames = k.frame_column.n;
	ret->refs = k.refs.items;
	ret->n_refs = k.refs.n;
	return 0;
}
