/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences of lines, as programs by chance have them, into a symbol file's tables and looked up again: each address beside a
 * table that has a line for every one.
 */
#include "exporter/symfile/symbol_lines.h"
#include "exporter/parser/debug/debug_tables.h"
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { CODE_START = 0x1000, CODE_BYTES = 0x4000, N_FILES = 5, N_ROUNDS = 60, MAX_SEQUENCES = 40 };

struct place {
	uint32_t file, line, column; /* file 0: no line */
};

struct sequence {
	uint32_t start, end;
	uint32_t number; /* in the order in which they came */
	struct place *places;
};

struct round {
	struct debug_tables t;
	struct sequence sequences[MAX_SEQUENCES];
	struct place points[CODE_BYTES], want[CODE_BYTES];
	uint32_t n_sequences;
};

static uint32_t seed;

static uint32_t below(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 4) * n >> 28);
}

/* Mostly near the last one, as in programs; now and then far, so that numbers take many bytes. */
static struct place next_place(struct place p)
{
	p.line = below(9) ? p.line + below(7) : below(1U << 30);
	p.file = below(4) ? p.file : 1 + below(N_FILES);
	p.column = below(9) ? below(80) : below(70000);
	return p;
}

static void put(struct debug_tables *t, uint32_t at, struct place p)
{
	debug_tables_row(t, CODE_START + at, p.file, p.line, p.column);
}

static void add_sequence(struct round *x, uint32_t start, uint32_t bytes, uint32_t step)
{
	struct sequence *s = &x->sequences[x->n_sequences];
	struct place p = {.file = 1, .line = 1};
	uint32_t at = 0, end = MIN(start + bytes, (uint32_t)CODE_BYTES);

	*s = (struct sequence) {.start = start, .end = end, .number = x->n_sequences++};
	s->places = calloc(end - start + 1, sizeof(*s->places));
	while (start + at < end) {
		uint32_t to = at + 1 + below(step);

		to = MIN(to, end - start);
		p = below(5) ? next_place(p) : p;
		/* Of several at one address the last counts; one that goes back does not. */
		if (!below(4))
			put(&x->t, start + at, next_place(p));
		put(&x->t, start + at, p);
		if (at && !below(6))
			put(&x->t, start + at - 1, next_place(p));
		for (; at < to; at++)
			s->places[at] = p;
	}
	if (!below(3))
		put(&x->t, end, next_place(p));
	debug_tables_end_sequence(&x->t, CODE_START + end);
}

static void add_point(struct round *x)
{
	uint32_t at = below(CODE_BYTES);
	struct place p = next_place((struct place) {.file = 2, .line = 7});

	if (x->points[at].file)
		return;
	x->points[at] = p;
	debug_tables_point(&x->t, CODE_START + at, p.file, p.line, p.column);
}

static int by_start(const void *pa, const void *pb)
{
	const struct sequence *a = pa, *b = pb;

	return a->start != b->start ? (a->start < b->start ? -1 : 1)
				    : (a->number < b->number ? -1 : 1);
}

/* Where sequences overlap the first one has the bytes; a point has its own. */
static void reckon(struct round *x)
{
	uint32_t pos = 0;

	qsort(x->sequences, x->n_sequences, sizeof(x->sequences[0]), by_start);
	for (uint32_t i = 0; i < x->n_sequences; i++) {
		const struct sequence *s = &x->sequences[i];

		for (pos = MAX(pos, s->start); pos < s->end; pos++)
			x->want[pos] = s->places[pos - s->start];
	}
	for (uint32_t at = 0; at < CODE_BYTES; at++)
		if (x->points[at].file)
			x->want[at] = x->points[at];
}

static void look_up(const struct round *x, const struct debug_sections *d)
{
	struct symbol_file s = {.debug_base = d->base};
	struct symbol_range *const ranges[DEBUG_N_SECTIONS] = {&s.files, &s.line_index, &s.lines,
		&s.scope_index, &s.scope_ranges, &s.scopes, &s.debug_functions, &s.debug_strings};
	struct symbol_place got[SYMBOL_MAX_PLACES];

	for (uint32_t i = 0; i < d->n; i++)
		*ranges[i] = (struct symbol_range) {
			.data = d->items[i].data.data, .bytes = d->items[i].data.len};
	for (uint32_t at = 0; at < CODE_BYTES; at++) {
		const struct place *want = &x->want[at];

		assert_int_equal(symbol_file_places(&s, CODE_START + at, got), want->file != 0);
		if (!want->file)
			continue;
		assert_int_equal(got[0].file[0], 'a' + (int)want->file);
		assert_int_equal(got[0].line, want->line);
		assert_int_equal(got[0].column, MIN(want->column, (uint32_t)DEBUG_MAX_COLUMN));
	}
	assert_int_equal(symbol_file_places(&s, CODE_START + CODE_BYTES, got), 0);
}

static void run_round(uint32_t number)
{
	const struct elf_file f = {.n_loads = 1,
		.loads = {{.vaddr = CODE_START, .memory_bytes = CODE_BYTES, .flags = PF_X}}};
	struct round *x = calloc(1, sizeof(*x));
	_cleanup_debug_sections_ struct debug_sections encoded = {.n = 0};
	uint32_t at = 0, overlap = number % 3, n_points = number % 4 ? 0 : below(90);

	assert_non_null(x);
	seed = number;
	debug_tables_init(&x->t, &f);
	debug_tables_expect(&x->t, number % 2 ? CODE_BYTES : 0, 0);
	for (int i = 1; i <= N_FILES; i++)
		assert_int_equal(debug_tables_file(&x->t, (char[]) {(char)('a' + i), 0}, 1), i);
	for (uint32_t i = 0; i < MAX_SEQUENCES && at < CODE_BYTES - 1; i++) {
		uint32_t bytes = 1 + below(below(2) ? 30 : 1500);

		add_sequence(x, at, bytes, 1 + below(6));
		if (overlap && !below(3))
			at = below(CODE_BYTES - 1);
		else
			at += bytes + (below(2) ? 0 : below(40));
	}
	for (uint32_t i = 0; i < n_points; i++)
		add_point(x);
	reckon(x);
	assert_int_equal(debug_tables_encode(&x->t, &encoded), 0);
	look_up(x, &encoded);
	debug_tables_done(&x->t);
	for (uint32_t i = 0; i < x->n_sequences; i++)
		free(x->sequences[i].places);
	free(x);
}

static void sequences(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < N_ROUNDS; i++)
		run_round(i);
}

/* What has no end, or lies outside the code, leaves nothing behind. */
static void dropped(void **state)
{
	const struct elf_file f = {.n_loads = 1,
		.loads = {{.vaddr = CODE_START, .memory_bytes = CODE_BYTES, .flags = PF_X}}};
	_cleanup_debug_tables_ struct debug_tables t;

	(void)state;
	debug_tables_init(&t, &f);
	debug_tables_row(&t, CODE_START + 8, 1, 1, 1);
	debug_tables_drop_sequence(&t);
	debug_tables_row(&t, CODE_START + 4, 1, 2, 1);
	debug_tables_end_sequence(&t, CODE_START + CODE_BYTES + 1);
	debug_tables_row(&t, CODE_START - 1, 1, 3, 1);
	debug_tables_end_sequence(&t, CODE_START + 9);
	assert_int_equal(t.n_sequences, 0);
	debug_tables_row(&t, CODE_START, 1, 4, 1);
	debug_tables_end_sequence(&t, CODE_START + 9);
	assert_int_equal(t.n_sequences, 1);
	assert_int_equal(t.sequences[0].start, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequences),
		cmocka_unit_test(dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
