/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of CPython's versions, and where the threads of a runtime have their state.
 *
 * V8 and HotSpot need no state of a thread: their frames are native ones. What is read of a Java VM is in hotspot_rows.c.
 *
 * Nothing of CPython is published on the word of a file alone: a thread in the runtime's own list has its id, which is the thread pointer, so
 * that the way to its state can be gone as the kernel half will go it, and must lead to that thread. Ruby's threads from 3.0 on do
 * not have it, so that the kernel half alone can go that way: it takes frames only from a stack that they divide into.
 */
#include "exporter/interp/rows.h"
#include "exporter/interp/python.h"
#include "exporter/interp/ruby_rows.h"
#include "exporter/interp/v8_rows.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <string.h>

_Static_assert(INTERP_NO_FIELD == RUNTIME_NO_FIELD, "offsets go over as they are");

/* ---- layouts ---- */

static bool is_known(uint16_t off)
{
	return off != INTERP_NO_FIELD;
}

/* What one read must cover of a thread's state. */
static bool cover_thread(struct interp_layout *l)
{
	const uint16_t fields[] = {
		l->thread_frame, l->thread_cframe, l->thread_id, l->thread_base_frame};
	uint32_t from = UINT32_MAX, to = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!is_known(fields[i]))
			continue;
		from = MIN(from, (uint32_t)fields[i]);
		to = MAX(to, fields[i] + (uint32_t)sizeof(uint64_t));
	}
	if (to <= from || to - from > INTERP_THREAD_BYTES)
		return false;
	l->thread_from = (uint16_t)from;
	l->thread_bytes = (uint16_t)(to - from);
	return true;
}

/* From 3.11 on a frame is read at once. */
static bool fits_frame(const struct interp_layout *l)
{
	const uint16_t fields[] = {l->frame_code, l->frame_back, l->frame_position};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i] > INTERP_FRAME_BYTES - sizeof(uint64_t))
			return false;
	return l->frame_owner < INTERP_FRAME_BYTES &&
	       (!is_known(l->frame_is_entry) || l->frame_is_entry < INTERP_FRAME_BYTES);
}

static bool is_layout_whole(const struct interp_layout *l, uint32_t minor)
{
	if (!is_known(l->frame_code) || !is_known(l->frame_back) || !is_known(l->frame_position) ||
		!is_known(l->thread_id))
		return false;
	if (!is_known(l->thread_frame) &&
		!(is_known(l->thread_cframe) && is_known(l->cframe_frame)))
		return false;
	if (l->kind == INTERP_PYTHON_CFRAMES && !is_known(l->cframe_back))
		return false;
	return l->code_check_bytes <= INTERP_CHECK_BYTES && (minor < 11 || fits_frame(l));
}

static bool python_layout(const struct runtime_record *r, struct interp_layout *ret)
{
	const uint16_t *o = r->offsets;
	uint32_t minor = RUNTIME_MINOR(r->version);

	if (RUNTIME_MAJOR(r->version) != 3)
		return false;
	*ret = (struct interp_layout) {
		.kind = minor <= 9    ? INTERP_PYTHON_EVALS
			: minor <= 11 ? INTERP_PYTHON_CFRAMES
				      : INTERP_PYTHON_SHIMS,
		.thread_frame = o[PYTHON_THREAD_FRAME],
		.thread_cframe = o[PYTHON_THREAD_CFRAME],
		.thread_id = o[PYTHON_THREAD_ID],
		.thread_base_frame = o[PYTHON_THREAD_BASE_FRAME],
		.cframe_frame = o[PYTHON_CFRAME_FRAME],
		.cframe_back = o[PYTHON_CFRAME_BACK],
		.frame_code = o[PYTHON_FRAME_CODE],
		.frame_back = o[PYTHON_FRAME_BACK],
		.frame_position = o[PYTHON_FRAME_POSITION],
		.frame_owner = o[PYTHON_FRAME_OWNER],
		.frame_is_entry = o[PYTHON_FRAME_IS_ENTRY],
		.code_start = o[PYTHON_CODE_START],
		.tag_mask = minor >= 14 ? 7 : 0,
		/* f_lasti: a number of bytes, in 3.10 one of instructions of two. */
		.position_bytes = minor >= 11	? 2
				  : minor == 10 ? 0
						: 1,
		.interp_generation = o[PYTHON_CODE_GENERATION],
		.thread_interp = o[PYTHON_THREAD_INTERPRETER],
	};
	python_check_of(r, ret);
	return is_layout_whole(ret, minor) && cover_thread(ret);
}

bool interp_layout_of(const struct runtime_record *r, struct interp_layout *ret)
{
	if (r->refusal)
		return false;
	switch (r->kind) {
	case RUNTIME_PYTHON: return python_layout(r, ret);
	case RUNTIME_RUBY: return ruby_rows_layout(r, ret);
	case RUNTIME_V8: return v8_rows_layout(r, ret);
	default: return false;
	}
}

uint32_t interp_walks(uint32_t kinds)
{
	const uint32_t v8 = 1U << RUNTIME_V8, hotspot = 1U << RUNTIME_HOTSPOT;

	return (kinds & v8 ? ABI_INTERP_FRAMES : 0) | (kinds & hotspot ? ABI_INTERP_CODE : 0) |
	       (kinds & ~(v8 | hotspot) ? ABI_INTERP_RUNS : 0);
}

bool interp_is_walked_here(uint32_t kind)
{
	return (kind != RUNTIME_V8 && kind != RUNTIME_HOTSPOT) || !ABI_ARM64;
}

bool interp_needs_eval(const struct interp_layout *l)
{
	return l->kind == INTERP_PYTHON_EVALS || l->kind == INTERP_RUBY || l->kind == INTERP_V8;
}

bool interp_eval_of(const struct runtime_record *r, uint64_t *ret_start, uint64_t *ret_end)
{
	static const struct {
		uint8_t start, end; /* of the record's addresses */
	} evals[N_RUNTIMES] = {
		[RUNTIME_PYTHON] = {PYTHON_EVAL, PYTHON_EVAL_END},
		[RUNTIME_RUBY] = {RUBY_EXEC, RUBY_EXEC_END},
		[RUNTIME_V8] = {V8_BUILTINS, V8_BUILTINS_END},
	};

	if (r->kind == RUNTIME_NONE || r->kind >= N_RUNTIMES)
		return false;
	*ret_start = r->addresses[evals[r->kind].start];
	*ret_end = r->addresses[evals[r->kind].end];
	return *ret_end > *ret_start && *ret_end - *ret_start <= UINT32_MAX;
}

int interp_layouts_find(struct interp_layouts *l, const struct interp_layout *layout)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (memcmp(&l->layouts[i], layout, sizeof(*layout)) == 0)
			return (int)i;
	if (l->n == INTERP_LAYOUTS) {
		l->refused++;
		return -ENOSPC;
	}
	l->layouts[l->n] = *layout;
	return (int)l->n++;
}

/* ---- states ---- */

static int read_u64(const struct interp_memory *m, uint64_t addr, uint64_t *ret)
{
	return m->read(m->arg, addr, ret, sizeof(*ret));
}

static int resolve_key(const struct interp_memory *m, const struct runtime_record *r, uint64_t at,
	struct interp_process *row, size_t i)
{
	/* From 3.7 on a word before the key says whether there is one; before it has -1 until then. */
	bool has_flag = RUNTIME_MINOR(r->version) >= 7;
	uint32_t words[2] = {1, 0};
	int e = has_flag ? m->read(m->arg, m->bias + at - sizeof(uint32_t), words, sizeof(words))
			 : m->read(m->arg, m->bias + at, &words[1], sizeof(words[1]));

	if (e < 0)
		return e;
	if (!words[0] || words[1] == UINT32_MAX)
		return -EAGAIN;
	if (!INTERP_KEYS_AT || words[1] >= INTERP_KEYS_IN_THREAD)
		return INTERP_REFUSED_KEYS;
	row->states[i].by = INTERP_BY_TP;
	row->states[i].off = INTERP_KEYS_AT + 16 * (int64_t)words[1] + 8;
	return 0;
}

static int resolve_pair(
	const struct interp_memory *m, uint64_t at, struct interp_process *row, size_t i)
{
	uint64_t pair[2];
	int e = m->read(m->arg, m->bias + at, pair, sizeof(pair));

	if (e < 0)
		return e;
	if (!pair[0])
		return -EAGAIN;
	if (pair[0] > UINT32_MAX)
		return INTERP_REFUSED_UNLIKE;
	row->states[i].by = INTERP_BY_DTV;
	row->states[i].module = (uint32_t)pair[0];
	row->states[i].off = (int64_t)pair[1];
	return 0;
}

static int resolve(const struct interp_memory *m, const struct runtime_record *r, size_t i,
	struct interp_process *row)
{
	const struct runtime_state *s = &r->states[i];
	uint64_t word = 0;
	int e = 0;

	row->states[i].by = INTERP_BY_TP;
	switch (s->by) {
	case RUNTIME_BY_GOT_PAIR: return resolve_pair(m, s->at, row, i);
	case RUNTIME_BY_KEY: return resolve_key(m, r, s->at, row, i);
	case RUNTIME_BY_TP: word = s->at; break;
	case RUNTIME_BY_GOT:
		e = read_u64(m, m->bias + s->at, &word);
		if (e == 0 && !word)
			e = -EAGAIN;
		break;
	case RUNTIME_BY_ADDRESS:
		row->states[i].by = INTERP_BY_ADDRESS;
		word = m->bias + s->at;
		break;
	default: row->states[i].by = INTERP_BY_NOTHING; return 0;
	}
	row->states[i].off = (int64_t)word;
	return e;
}

/* As bpf/interp goes it: where the thread at `tp` has the word; false: nowhere. */
static bool state_at(const struct interp_memory *m, const struct interp_process *row, size_t i,
	uint64_t tp, uint64_t *ret)
{
	uint64_t dtv, block;

	switch (row->states[i].by) {
	case INTERP_BY_TP: *ret = tp + (uint64_t)row->states[i].off; return true;
	case INTERP_BY_DTV:
		if (read_u64(m, tp + 8, &dtv) < 0 ||
			read_u64(m, dtv + 16 * (uint64_t)row->states[i].module, &block) < 0)
			return false;
		*ret = block + (uint64_t)row->states[i].off;
		return block && block != UINT64_MAX;
	default: return false;
	}
}

/* Which ways lead from a thread to its state: a bit for each. */
struct ways {
	uint32_t wanted, found; /* those that each thread of the list has; those that led to one */
	uint32_t n_threads;
};

static uint32_t ways_to(const struct interp_memory *m, const struct interp_process *row,
	uint64_t tp, uint64_t thread)
{
	uint32_t ret = 0;

	for (size_t i = 0; i < INTERP_N_STATES; i++) {
		uint64_t at, found;

		if (state_at(m, row, i, tp, &at) && read_u64(m, at, &found) == 0 && found == thread)
			ret |= 1U << i;
	}
	return ret;
}

static bool are_enough(const struct ways *w)
{
	return w->found && !(w->wanted & ~w->found);
}

/* Threads of one interpreter. */
static int check_threads(const struct interp_memory *m, const struct runtime_record *r,
	const struct interp_process *row, uint64_t interpreter, struct ways *w)
{
	const uint16_t *o = r->offsets;
	uint64_t thread, tp;
	int e = read_u64(m, interpreter + o[PYTHON_INTERPRETER_THREADS], &thread);

	for (; e == 0 && thread && w->n_threads < INTERP_MAX_THREADS; w->n_threads++) {
		e = read_u64(m, thread + o[PYTHON_THREAD_ID], &tp);
		if (e == 0 && tp)
			w->found |= ways_to(m, row, tp, thread);
		if (are_enough(w))
			return 0;
		if (e == 0)
			e = read_u64(m, thread + o[PYTHON_THREAD_NEXT], &thread);
	}
	return e;
}

/* The value of a key is there for each thread of the list; another C library has it somewhere else. */
static int take_ways(struct interp_process *row, const struct ways *w, bool is_last)
{
	if (!w->n_threads)
		return -EAGAIN;
	if (!w->found)
		return INTERP_REFUSED_UNLIKE;
	if (!are_enough(w) && !is_last)
		return -EAGAIN;
	for (size_t i = 0; i < INTERP_N_STATES; i++)
		if (w->wanted & ~w->found & 1U << i)
			row->states[i].by = INTERP_BY_NOTHING;
	return 0;
}

static int check(const struct interp_memory *m, const struct runtime_record *r,
	struct interp_process *row, bool is_last)
{
	const uint16_t *o = r->offsets;
	uint64_t interpreter = 0;
	struct ways w = {0};
	int e;

	for (size_t i = 0; i < RUNTIME_N_STATES; i++)
		w.wanted |= (uint32_t)(r->states[i].by == RUNTIME_BY_KEY) << i;

	/* 3.6 has its list in a variable without a symbol. */
	if (!is_known(o[PYTHON_INTERPRETERS]) || !is_known(o[PYTHON_THREAD_NEXT]) ||
		!is_known(o[PYTHON_INTERPRETER_NEXT]) || !is_known(o[PYTHON_INTERPRETER_THREADS]))
		return 0;
	e = read_u64(
		m, m->bias + r->addresses[PYTHON_RUNTIME] + o[PYTHON_INTERPRETERS], &interpreter);
	for (uint32_t i = 0; e == 0 && interpreter && i < INTERP_MAX_INTERPRETERS; i++) {
		e = check_threads(m, r, row, interpreter, &w);
		if (are_enough(&w))
			return 0;
		if (e == 0)
			e = read_u64(m, interpreter + o[PYTHON_INTERPRETER_NEXT], &interpreter);
	}
	return e < 0 ? e : take_ways(row, &w, is_last);
}

int interp_states_of(const struct interp_memory *m, const struct runtime_record *r, bool is_last,
	struct interp_process *ret)
{
	struct interp_process row = {0};
	int e;

	for (size_t i = 0; i < RUNTIME_N_STATES; i++) {
		e = resolve(m, r, i, &row);
		if (e)
			return e;
	}
	e = r->kind == RUNTIME_PYTHON ? check(m, r, &row, is_last) : 0;
	memcpy(ret->states, row.states, sizeof(ret->states));
	return e;
}
