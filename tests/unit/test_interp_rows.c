/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and layouts of runtimes: of each version that has a table, and where threads have their state, in a process that the test lays out.
 */
#include "exporter/interp/rows.h"
#include "exporter/parser/runtime/python_layouts.h"
#include "exporter/parser/runtime/ruby_layouts.h"
#include "exporter/parser/runtime/v8_layouts.h"
#include "exporter/symfile/ruby.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct runtime_record record_of(uint32_t minor)
{
	struct runtime_record r = {.kind = RUNTIME_PYTHON, .version = RUNTIME_VERSION(3, minor, 1)};

	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		r.offsets[i] = RUNTIME_NO_FIELD;
	memcpy(r.offsets, python_layout_of_minor(minor)->offsets,
		N_PYTHON_OFFSETS * sizeof(r.offsets[0]));
	return r;
}

/* ---- layouts ---- */

static void layouts_of_versions(_unused_ void **state)
{
	static const struct {
		uint32_t minor;
		uint16_t kind, from, bytes, position_bytes;
	} cases[] = {
		{6, INTERP_PYTHON_EVALS, 24, 136, 1},
		{7, INTERP_PYTHON_EVALS, 24, 160, 1},
		{8, INTERP_PYTHON_EVALS, 24, 160, 1},
		{9, INTERP_PYTHON_EVALS, 24, 160, 1},
		{10, INTERP_PYTHON_CFRAMES, 24, 160, 0},
		{11, INTERP_PYTHON_CFRAMES, 56, 104, 2},
		{12, INTERP_PYTHON_SHIMS, 56, 88, 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_record r = record_of(cases[i].minor);
		struct interp_layout l;

		assert_true(interp_layout_of(&r, &l));
		assert_int_equal(l.kind, cases[i].kind);
		assert_int_equal(l.thread_from, cases[i].from);
		assert_int_equal(l.thread_bytes, cases[i].bytes);
		assert_int_equal(l.position_bytes, cases[i].position_bytes);
		assert_int_equal(l.thread_id, r.offsets[PYTHON_THREAD_ID]);
		assert_int_equal(l.code_check, r.offsets[PYTHON_CODE_FIRST_LINE] / 8 * 8);
		assert_int_equal(
			l.code_check + l.code_check_bytes, r.offsets[PYTHON_CODE_LINES] + 8);
		assert_true(l.code_check_bytes <= INTERP_CHECK_BYTES);
		assert_int_equal(l.code_name,
			cases[i].minor < 12 ? r.offsets[PYTHON_CODE_NAME] : INTERP_NO_FIELD);
		assert_int_equal(l.tag_mask, 0);
	}
}

/* 3.13 and later describe themselves: the numbers are those of 3.14.10. */
static struct runtime_record record_314(void)
{
	struct runtime_record r = record_of(12);

	r.version = RUNTIME_VERSION(3, 14, 10);
	r.offsets[PYTHON_THREAD_FRAME] = 72;
	r.offsets[PYTHON_THREAD_CFRAME] = r.offsets[PYTHON_CFRAME_FRAME] =
		r.offsets[PYTHON_CFRAME_BACK] = RUNTIME_NO_FIELD;
	r.offsets[PYTHON_THREAD_ID] = 152;
	r.offsets[PYTHON_CODE_GENERATION] = 7992;
	return r;
}

static void layouts_from_the_file(_unused_ void **state)
{
	struct runtime_record r = record_314();
	struct interp_layout l;

	assert_true(interp_layout_of(&r, &l));
	assert_int_equal(l.kind, INTERP_PYTHON_SHIMS);
	assert_int_equal(l.thread_from, 72);
	assert_int_equal(l.thread_bytes, 88);
	assert_int_equal(l.tag_mask, 7);
	assert_int_equal(l.interp_generation, 7992);
	assert_int_equal(l.thread_cframe, INTERP_NO_FIELD);
}

/* What the walk cannot read at once, or lacks, has no layout: offsets of a hostile file may be any. */
static void layouts_that_are_none(_unused_ void **state)
{
	static const struct {
		enum python_offset what;
		uint16_t off;
	} cases[] = {
		{PYTHON_THREAD_ID, RUNTIME_NO_FIELD},
		{PYTHON_THREAD_ID, 72 + INTERP_THREAD_BYTES - 7},
		{PYTHON_THREAD_FRAME, RUNTIME_NO_FIELD},
		{PYTHON_FRAME_CODE, RUNTIME_NO_FIELD},
		{PYTHON_FRAME_BACK, INTERP_FRAME_BYTES - 7},
		{PYTHON_FRAME_POSITION, RUNTIME_NO_FIELD - 1},
		{PYTHON_FRAME_OWNER, INTERP_FRAME_BYTES},
	};
	struct runtime_record r;
	struct interp_layout l;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r = record_314();
		r.offsets[cases[i].what] = cases[i].off;
		assert_false(interp_layout_of(&r, &l));
	}
	r = record_314();
	r.refusal = RUNTIME_FREE_THREADED;
	assert_false(interp_layout_of(&r, &l));
	r = record_314();
	r.version = RUNTIME_VERSION(2, 7, 18);
	assert_false(interp_layout_of(&r, &l));
}

static struct runtime_record record_of_ruby(uint32_t major, uint32_t minor)
{
	struct runtime_record r = {
		.kind = RUNTIME_RUBY, .version = RUNTIME_VERSION(major, minor, 1)};

	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		r.offsets[i] = RUNTIME_NO_FIELD;
	memcpy(r.offsets, ruby_layout_of(major, minor)->offsets,
		N_RUBY_OFFSETS * sizeof(r.offsets[0]));
	return r;
}

static void layouts_of_rubies(_unused_ void **state)
{
	static const struct {
		uint8_t major, minor;
		uint16_t frame_bytes, body_bytes;
		bool has_id;
	} cases[] = {
		{2, 5, 48, 112, true},
		{2, 6, 56, 120, true},
		{2, 7, 56, 120, true},
		{3, 0, 56, 120, false},
		{3, 1, 64, 120, false},
		{3, 2, 64, 112, false},
		{3, 3, 56, 112, false},
		{3, 4, 56, 112, false},
		{4, 0, 56, 112, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_record r = record_of_ruby(cases[i].major, cases[i].minor);
		struct interp_layout l;

		assert_true(interp_layout_of(&r, &l));
		assert_int_equal(l.kind, INTERP_RUBY);
		assert_int_equal(l.thread_bytes, 24);
		assert_int_equal(l.frame_bytes, cases[i].frame_bytes);
		assert_int_equal(l.code_check, 16);
		assert_int_equal(l.name_check_bytes, cases[i].body_bytes);
		assert_int_equal(l.thread_id != INTERP_NO_FIELD, cases[i].has_id);
	}
}

static void layouts_of_rubies_that_are_none(_unused_ void **state)
{
	static const struct {
		enum ruby_offset what;
		uint16_t off;
	} cases[] = {
		{RUBY_EC_FRAME, RUNTIME_NO_FIELD},
		{RUBY_EC_STACK, INTERP_THREAD_BYTES},
		{RUBY_EC_STACK_WORDS, 4},
		{RUBY_EC_THREAD, RUNTIME_NO_FIELD},
		{RUBY_FRAME_BYTES, 0},
		{RUBY_FRAME_BYTES, 44},
		{RUBY_FRAME_CODE, RUNTIME_NO_FIELD},
		{RUBY_FRAME_ENV, 40},
		{RUBY_CODE_BODY, 24},
		{RUBY_BODY_LINES, INTERP_CHECK_BYTES + 8},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_record r = record_of_ruby(3, 3);
		struct interp_layout l;

		r.offsets[cases[i].what] = cases[i].off;
		assert_false(interp_layout_of(&r, &l));
	}
}

/* What its metadata says of 12 to 26 alike, and what only the table of versions has. */
static struct runtime_record record_of_v8(uint32_t version)
{
	struct runtime_record r = {.kind = RUNTIME_V8, .version = version};

	for (size_t i = 0; i < RUNTIME_MAX_OFFSETS; i++)
		r.offsets[i] = RUNTIME_NO_FIELD;
	memcpy(r.offsets, v8_layout(version), N_V8_NUMBERS * sizeof(r.offsets[0]));
	r.offsets[V8_FUNCTION_SHARED] = 24;
	r.offsets[V8_SHARED_SCRIPT] = 32;
	r.offsets[V8_TYPE_BYTECODE] = 154;
	r.offsets[V8_TYPE_FUNCTION] = 1057;
	r.offsets[V8_TYPE_FUNCTION_LAST] = 1071;
	if (r.offsets[V8_BYTECODE_START] == V8_BY_SYMBOL)
		r.offsets[V8_BYTECODE_START] = 40;
	return r;
}

static void layouts_of_v8(_unused_ void **state)
{
	static const struct {
		uint32_t version;
		uint16_t position, check, check_bytes;
	} cases[] = {
		{RUNTIME_VERSION(7, 8, 0), 32, 52, 4},
		{RUNTIME_VERSION(8, 4, 0), 32, 52, 4},
		{RUNTIME_VERSION(9, 4, 0), 40, 52, 4},
		{RUNTIME_VERSION(10, 2, 0), 40, 52, 4},
		{RUNTIME_VERSION(11, 3, 0), 40, 52, 4},
		{RUNTIME_VERSION(12, 4, 0), 40, 52, 4},
		{RUNTIME_VERSION(13, 6, 0), 40, 60, 8},
		{RUNTIME_VERSION(14, 6, 0), 40, 60, 8},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_record r = record_of_v8(cases[i].version);
		struct interp_process row = {.states = {{.by = INTERP_BY_TP}}};
		struct interp_layout l;

		assert_true(interp_layout_of(&r, &l));
		assert_int_equal(l.kind, INTERP_V8);
		assert_true(interp_needs_eval(&l));
		assert_int_equal(l.frame_position, cases[i].position);
		assert_int_equal(l.code_check, 32);
		assert_int_equal(l.code_check_bytes, 8);
		assert_int_equal(l.name_check, cases[i].check);
		assert_int_equal(l.name_check_bytes, cases[i].check_bytes);
		/* Its threads have nothing that is looked for. */
		assert_int_equal(interp_states_of(NULL, &r, false, &row), 0);
		for (size_t k = 0; k < INTERP_N_STATES; k++)
			assert_int_equal(row.states[k].by, INTERP_BY_NOTHING);
	}
}

static void layouts_of_v8_that_are_none(_unused_ void **state)
{
	static const struct {
		enum v8_number what;
		uint16_t number;
	} cases[] = {
		{V8_FUNCTION_SHARED, RUNTIME_NO_FIELD},
		{V8_FUNCTION_SHARED, 0},
		{V8_FUNCTION_SHARED, 28},
		{V8_SHARED_SCRIPT, RUNTIME_NO_FIELD},
		{V8_SHARED_DATA, RUNTIME_NO_FIELD},
		{V8_SHARED_LITERAL, RUNTIME_NO_FIELD},
		{V8_SHARED_LITERAL, 64}, /* no more beside the other number */
		{V8_FRAME_BYTECODE, RUNTIME_NO_FIELD},
		{V8_TYPE_BYTECODE, RUNTIME_NO_FIELD},
		{V8_FRAME_POSITION, RUNTIME_NO_FIELD},
		{V8_FRAME_POSITION, 16},
		{V8_FRAME_POSITION, 36},
		{V8_BYTECODE_START, RUNTIME_NO_FIELD},
		{V8_BYTECODE_START, 0},
		{V8_TYPE_FUNCTION, RUNTIME_NO_FIELD},
		{V8_TYPE_FUNCTION, 1072},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_record r = record_of_v8(RUNTIME_VERSION(13, 6, 0));
		struct interp_layout l;

		r.offsets[cases[i].what] = cases[i].number;
		assert_false(interp_layout_of(&r, &l));
	}
	assert_int_equal(interp_is_walked_here(RUNTIME_V8), !ABI_ARM64);
	assert_true(interp_is_walked_here(RUNTIME_RUBY));
	assert_int_equal(interp_walks(0), 0);
	assert_int_equal(interp_walks(1U << RUNTIME_V8), ABI_INTERP_FRAMES);
	assert_int_equal(interp_walks(1U << RUNTIME_RUBY | 1U << RUNTIME_PYTHON), ABI_INTERP_RUNS);
}

static void functions_that_interpret(_unused_ void **state)
{
	struct runtime_record r = {.kind = RUNTIME_RUBY};
	uint64_t start, end;

	assert_false(interp_eval_of(&r, &start, &end));
	r.addresses[RUBY_EXEC] = 0x1000;
	r.addresses[RUBY_EXEC_END] = 0x1400;
	assert_true(interp_eval_of(&r, &start, &end));
	assert_int_equal(start, 0x1000);
	assert_int_equal(end, 0x1400);
	r.addresses[RUBY_EXEC_END] = 0x1000 + (1ULL << 32);
	assert_false(interp_eval_of(&r, &start, &end));
	r.kind = RUNTIME_PYTHON;
	r.addresses[PYTHON_EVAL] = 0x2000;
	r.addresses[PYTHON_EVAL_END] = 0x2001;
	assert_true(interp_eval_of(&r, &start, &end));
	assert_int_equal(start, 0x2000);
	r.kind = RUNTIME_V8;
	assert_false(interp_eval_of(&r, &start, &end));
	r.addresses[V8_BUILTINS] = 0x3000;
	r.addresses[V8_BUILTINS_END] = 0x203000;
	assert_true(interp_eval_of(&r, &start, &end));
	assert_int_equal(start, 0x3000);
	assert_int_equal(end, 0x203000);
	r.kind = N_RUNTIMES;
	assert_false(interp_eval_of(&r, &start, &end));
}

static void equal_layouts_are_one(_unused_ void **state)
{
	struct interp_layout memory[INTERP_LAYOUTS] = {{0}}, l;
	struct interp_layouts all = {.layouts = memory};
	struct runtime_record r = record_314();

	for (int i = 0; i < INTERP_LAYOUTS; i++) {
		r.offsets[PYTHON_CODE_GENERATION] = (uint16_t)(1000 + i);
		assert_true(interp_layout_of(&r, &l));
		assert_int_equal(interp_layouts_find(&all, &l), i);
		assert_int_equal(interp_layouts_find(&all, &l), i);
		assert_memory_equal(&memory[i], &l, sizeof(l));
	}
	l.interp_generation = 1;
	assert_int_equal(interp_layouts_find(&all, &l), -ENOSPC);
	assert_int_equal(all.refused, 1);
	assert_int_equal(interp_layouts_find(&all, &memory[63]), 63);
}

/* ---- states ---- */

/*
 * A process of words at BASE: _PyRuntime with one interpreter, which has two threads. The second one's thread pointer is TP, and the
 * words around that are its descriptor.
 */
#define BASE 0x10000ULL
#define BIAS 0x4000ULL
enum {
	RUNTIME_AT = 0, /* of word numbers, as all that follow */
	KEY_AT = 193,	/* 1544 / 8: the flag and the key */
	GOT_AT = 250,
	INTERPRETER = 300,
	THREAD_1 = 400,
	THREAD_2 = 450,
	TP_1 = 600,
	TP_2 = 800,
	BLOCK = 950,
	DTV = 960,
	N_WORDS = 1024,
};
#define ADDR(word) (BASE + 8 * (uint64_t)(word))

struct world {
	uint64_t words[N_WORDS];
	uint64_t unreadable; /* a read that holds this address fails */
	int error;	     /* of that */
	unsigned n_reads;
	bool is_last;
};

static int read_world(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct world *w = arg;
	uint64_t off = addr - BASE;

	w->n_reads++;
	if (w->unreadable && w->unreadable - addr < bytes)
		return w->error;
	if (off > sizeof(w->words) || bytes > sizeof(w->words) - off)
		return -EFAULT;
	memcpy(to, (const char *)w->words + off, bytes);
	return 0;
}

/* The record's addresses are less by the bias. */
#define VADDR(word) (ADDR(word) - BIAS)

static struct runtime_record record_with(uint16_t by, uint64_t at)
{
	struct runtime_record r = record_of(12);

	r.addresses[PYTHON_RUNTIME] = VADDR(RUNTIME_AT);
	r.states[0] = (struct runtime_state) {.by = by, .at = at};
	return r;
}

static void set_key(struct world *w, uint32_t is_set, uint32_t key)
{
	w->words[KEY_AT] = (uint64_t)key << 32 | is_set;
}

static void lay_out(struct world *w)
{
	const struct runtime_record r = record_of(12);
	const uint16_t *o = r.offsets;

	*w = (struct world) {.words = {0}};
	w->words[RUNTIME_AT + o[PYTHON_INTERPRETERS] / 8] = ADDR(INTERPRETER);
	w->words[INTERPRETER + o[PYTHON_INTERPRETER_THREADS] / 8] = ADDR(THREAD_1);
	w->words[THREAD_1 + o[PYTHON_THREAD_NEXT] / 8] = ADDR(THREAD_2);
	w->words[THREAD_1 + o[PYTHON_THREAD_ID] / 8] = ADDR(TP_1);
	w->words[THREAD_2 + o[PYTHON_THREAD_ID] / 8] = ADDR(TP_2);
}

static int states_of(struct world *w, const struct runtime_record *r, struct interp_process *ret)
{
	const struct interp_memory m = {.read = read_world, .arg = w, .bias = BIAS};

	return interp_states_of(&m, r, w->is_last, ret);
}

static void a_variable_at_the_thread_pointer(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_TP, (uint64_t)-24);
	struct interp_process row = {0};
	struct world w;

	lay_out(&w);
	/* No thread has it: the way is another's. */
	assert_int_equal(states_of(&w, &r, &row), INTERP_REFUSED_UNLIKE);
	/* One thread is enough: others may have let it go. */
	w.words[TP_2 - 3] = ADDR(THREAD_2);
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_TP);
	assert_true(row.states[0].off == -24);
	assert_int_equal(row.states[1].by, INTERP_BY_NOTHING);
	/* Another thread's state is none of its own. */
	w.words[TP_2 - 3] = ADDR(THREAD_1);
	assert_int_equal(states_of(&w, &r, &row), INTERP_REFUSED_UNLIKE);
}

static void an_offset_in_the_got(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_GOT, VADDR(GOT_AT));
	struct interp_process row = {0};
	struct world w;

	lay_out(&w);
	w.words[TP_2 - 2] = ADDR(THREAD_2);
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN); /* not relocated yet */
	w.words[GOT_AT] = (uint64_t)-16;
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_TP);
	assert_true(row.states[0].off == -16);
}

static void a_pair_in_the_got(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_GOT_PAIR, VADDR(GOT_AT));
	struct interp_process row = {0};
	struct world w;

	lay_out(&w);
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	w.words[GOT_AT] = 2;
	w.words[GOT_AT + 1] = 8;
	w.words[TP_1 + 1] = w.words[TP_2 + 1] = ADDR(DTV);
	w.words[DTV + 4] = UINT64_MAX; /* a block that is not made yet */
	assert_int_equal(states_of(&w, &r, &row), INTERP_REFUSED_UNLIKE);
	w.words[DTV + 4] = ADDR(BLOCK);
	w.words[BLOCK + 1] = ADDR(THREAD_2);
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_DTV);
	assert_int_equal(row.states[0].module, 2);
	assert_true(row.states[0].off == 8);
	w.words[GOT_AT] = 1ULL << 32;
	assert_int_equal(states_of(&w, &r, &row), INTERP_REFUSED_UNLIKE);
}

static void a_thread_key(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_KEY, VADDR(KEY_AT) + 4);
	struct interp_process row = {0};
	struct world w;

	lay_out(&w);
	set_key(&w, 0, 0);
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	set_key(&w, 1, UINT32_MAX);
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	set_key(&w, 1, INTERP_KEYS_IN_THREAD);
	assert_int_equal(states_of(&w, &r, &row), INTERP_REFUSED_KEYS);
	set_key(&w, 1, 5);
	/* A C library that keeps values elsewhere. */
	assert_int_equal(states_of(&w, &r, &row),
#if defined(__x86_64__)
		INTERP_REFUSED_UNLIKE
#else
		INTERP_REFUSED_KEYS
#endif
	);
#if defined(__x86_64__)
	w.words[TP_1 + (INTERP_KEYS_AT + 5 * 16 + 8) / 8] = ADDR(THREAD_1);
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_TP);
	assert_true(row.states[0].off == INTERP_KEYS_AT + 5 * 16 + 8);
#endif
}

/* A thread that has let its interpreter's lock go is found by the second way alone. */
static void the_second_way_counts(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_TP, (uint64_t)-24);
	struct interp_process row = {0};
	struct world w;

	r.states[1] = (struct runtime_state) {.by = RUNTIME_BY_TP, .at = (uint64_t)-32};
	lay_out(&w);
	w.words[TP_1 - 4] = ADDR(THREAD_1);
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_true(row.states[0].off == -24 && row.states[1].off == -32);
}

/* Where another C library keeps values of keys, nothing of a thread lies. */
static void a_second_way_that_leads_nowhere(_unused_ void **state)
{
#if defined(__x86_64__)
	struct runtime_record r = record_with(RUNTIME_BY_TP, (uint64_t)-24);
	struct interp_process row = {0};
	struct world w;

	r.states[1] = (struct runtime_state) {.by = RUNTIME_BY_KEY, .at = VADDR(KEY_AT) + 4};
	lay_out(&w);
	set_key(&w, 1, 5);
	w.words[TP_1 - 3] = ADDR(THREAD_1);
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	w.is_last = true;
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_TP);
	assert_int_equal(row.states[1].by, INTERP_BY_NOTHING);
	/* One thread that has it is enough. */
	w.words[TP_2 + (INTERP_KEYS_AT + 5 * 16 + 8) / 8] = ADDR(THREAD_2);
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[1].by, INTERP_BY_TP);
#endif
}

static void processes_that_have_not_come_so_far(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_TP, (uint64_t)-24);
	const uint16_t *o = r.offsets;
	struct interp_process row = {0};
	struct world w;

	lay_out(&w);
	w.words[INTERPRETER + o[PYTHON_INTERPRETER_THREADS] / 8] = 0;
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	w.words[RUNTIME_AT + o[PYTHON_INTERPRETERS] / 8] = 0;
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
}

/* Lists that never end, addresses of nothing, a process that goes. */
static void hostile_processes(_unused_ void **state)
{
	struct runtime_record r = record_with(RUNTIME_BY_TP, (uint64_t)-24);
	const uint16_t *o = r.offsets;
	struct interp_process row = {0};
	struct world w;

	lay_out(&w);
	w.words[THREAD_2 + o[PYTHON_THREAD_NEXT] / 8] = ADDR(THREAD_1);
	w.words[INTERPRETER + o[PYTHON_INTERPRETER_NEXT] / 8] = ADDR(INTERPRETER);
	assert_int_equal(states_of(&w, &r, &row), INTERP_REFUSED_UNLIKE);
	assert_in_range(w.n_reads, INTERP_MAX_THREADS,
		8 * INTERP_MAX_THREADS + 4 * INTERP_MAX_INTERPRETERS);
	lay_out(&w);
	w.words[INTERPRETER + o[PYTHON_INTERPRETER_THREADS] / 8] = 0;
	w.words[INTERPRETER + o[PYTHON_INTERPRETER_NEXT] / 8] = ADDR(INTERPRETER);
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	lay_out(&w);
	w.words[THREAD_1 + o[PYTHON_THREAD_ID] / 8] = UINT64_MAX;
	w.words[TP_2 - 3] = ADDR(THREAD_2);
	assert_int_equal(states_of(&w, &r, &row), 0);
	w.words[THREAD_1 + o[PYTHON_THREAD_NEXT] / 8] = 0xdead;
	assert_int_equal(states_of(&w, &r, &row), -EFAULT);
	w.error = -ESRCH;
	w.unreadable = ADDR(INTERPRETER) + o[PYTHON_INTERPRETER_THREADS];
	assert_int_equal(states_of(&w, &r, &row), -ESRCH);
}

/* Ruby's threads have no id of theirs: the kernel half is who goes the way. */
static void a_variable_of_all_threads(_unused_ void **state)
{
	struct runtime_record r = record_of_ruby(2, 7);
	struct interp_process row = {0};
	struct world w;

	r.states[0] = (struct runtime_state) {.by = RUNTIME_BY_ADDRESS, .at = VADDR(GOT_AT)};
	lay_out(&w);
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_ADDRESS);
	assert_true(row.states[0].off == (int64_t)ADDR(GOT_AT));
	assert_int_equal(row.states[1].by, INTERP_BY_NOTHING);
	r = record_of_ruby(3, 4);
	r.states[0] = (struct runtime_state) {.by = RUNTIME_BY_GOT_PAIR, .at = VADDR(GOT_AT)};
	assert_int_equal(states_of(&w, &r, &row), -EAGAIN);
	w.words[GOT_AT] = 3;
	w.words[GOT_AT + 1] = 16;
	assert_int_equal(states_of(&w, &r, &row), 0);
	assert_int_equal(row.states[0].by, INTERP_BY_DTV);
	assert_int_equal(row.states[0].module, 3);
	assert_true(row.states[0].off == 16);
}

/* Each reason has a word and a sentence, and no two are the same. */
static void refusals_have_words(_unused_ void **state)
{
	for (uint32_t i = 1; i < N_INTERP_REFUSALS; i++) {
		assert_true(*interp_refusal_name(i) && *interp_refusal_text(i));
		for (uint32_t k = 1; k < i; k++) {
			assert_string_not_equal(interp_refusal_name(i), interp_refusal_name(k));
			assert_string_not_equal(interp_refusal_text(i), interp_refusal_text(k));
		}
	}
	assert_string_equal(interp_refusal_text(RUNTIME_NOT_REFUSED), "");
	assert_string_equal(interp_refusal_name(N_INTERP_REFUSALS), "");
	assert_string_equal(interp_refusal_text(N_INTERP_REFUSALS), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_of_versions),
		cmocka_unit_test(layouts_from_the_file),
		cmocka_unit_test(layouts_that_are_none),
		cmocka_unit_test(layouts_of_rubies),
		cmocka_unit_test(layouts_of_rubies_that_are_none),
		cmocka_unit_test(layouts_of_v8),
		cmocka_unit_test(layouts_of_v8_that_are_none),
		cmocka_unit_test(functions_that_interpret),
		cmocka_unit_test(equal_layouts_are_one),
		cmocka_unit_test(a_variable_at_the_thread_pointer),
		cmocka_unit_test(an_offset_in_the_got),
		cmocka_unit_test(a_pair_in_the_got),
		cmocka_unit_test(a_thread_key),
		cmocka_unit_test(the_second_way_counts),
		cmocka_unit_test(a_second_way_that_leads_nowhere),
		cmocka_unit_test(processes_that_have_not_come_so_far),
		cmocka_unit_test(hostile_processes),
		cmocka_unit_test(a_variable_of_all_threads),
		cmocka_unit_test(refusals_have_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
