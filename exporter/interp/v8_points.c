/* SPDX-License-Identifier: Apache-2.0
 *
 * Points of optimised code whose frames its translations say: behind calls, and at checks. Between them an address counts as the nearest.
 */
#include "exporter/interp/v8_deopt.h"
#include "exporter/interp/v8_reading.h"
#include "lib/base/alloc.h"

enum {
	MAX_TRANSLATION_BYTES = 1 << 20,
	MAX_METADATA_BYTES = 1 << 20,
	MAX_ENTRIES = 1 << 14,
	MAX_LITERALS = 1 << 16,
	ENTRY_WORDS = 3,
	ENTRY_TRANSLATION = 1, /* its place in the table */
};

struct points {
	struct v8_reading *r;
	uint8_t *translations, *metadata, *instructions, *entries, *literals; /* copies; owned */
	size_t n_translations, n_metadata, n_entries, n_literals;
	uint32_t exits, n_checks; /* where the exits begin, and the number of those for checks */
};

static void points_done(struct points *p)
{
	free(p->translations);
	free(p->metadata);
	free(p->instructions);
	free(p->entries);
	free(p->literals);
}
#define _cleanup_points_ _cleanup_(points_done)

static int copy(struct v8_heap *h, uint64_t at, size_t n, uint8_t **ret)
{
	*ret = try_malloc(n + 1);
	if (!*ret)
		return -ENOMEM;
	return n ? v8_read_at(h, at, *ret, n) : 0;
}

static int copy_literals(struct points *p, uint64_t array)
{
	int64_t n = v8_array_length(&p->r->h, array);

	if (n < 0 || n > MAX_LITERALS)
		return n < 0 ? (int)n : -EFBIG;
	p->n_literals = (size_t)n;
	return copy(&p->r->h, array - 1 + V8_ARRAY_DATA, p->n_literals * V8_WORD, &p->literals);
}

/* The code's number of the function that a literal is. Or an error. */
static int function_of_literal(struct points *p, uint32_t i)
{
	struct cursor c = cursor_of(p->literals, p->n_literals * V8_WORD);

	if (i >= p->n_literals)
		return -EBADMSG;
	cursor_skip(&c, (size_t)i * V8_WORD);
	return v8_function_of(p->r, v8_strong(cursor_u64(&c)));
}

static int read_smi(struct v8_reading *r, uint64_t deopt, uint32_t i, uint32_t *ret)
{
	uint64_t word = 0;
	int error = v8_element(&r->h, deopt, i, &word);

	if (error < 0)
		return error;
	if (!v8_is_smi(word) || v8_smi(word) < 0)
		return -EBADMSG;
	*ret = (uint32_t)v8_smi(word);
	return 0;
}

static int read_tables(struct points *p, uint64_t deopt)
{
	struct v8_heap *h = &p->r->h;
	const uint16_t *at = h->r->offsets;
	const struct v8_code *c = p->r->code;
	uint64_t word = 0;
	uint8_t bytes[4];
	struct cursor size = cursor_of(bytes, sizeof(bytes));
	int64_t n = v8_array_length(h, deopt) - at[V8_DEOPT_FIRST];
	int error = v8_element(h, deopt, 0, &word);

	if (n < 0 || n > MAX_ENTRIES * ENTRY_WORDS)
		return n < 0 ? -EBADMSG : -EFBIG;
	if (error == 0)
		error = v8_bytes(
			h, word, MAX_TRANSLATION_BYTES, &p->translations, &p->n_translations);
	if (error == 0)
		error = v8_deopt_element(p->r, deopt, V8_DEOPT_LITERALS, &word);
	if (error == 0)
		error = copy_literals(p, word);
	if (error == 0)
		error = read_smi(p->r, deopt, at[V8_DEOPT_EXITS], &p->exits);
	if (error == 0)
		error = read_smi(p->r, deopt, at[V8_DEOPT_EXITS] + 1U, &p->n_checks);
	if (error == 0)
		error = v8_read(h, p->r->object, at[V8_CODE_BYTES] + 4U, bytes, sizeof(bytes));
	if (error < 0)
		return error;
	p->n_entries = (size_t)n / ENTRY_WORDS;
	p->n_metadata = cursor_u32(&size);
	if (p->n_metadata > MAX_METADATA_BYTES || c->bytes > V8_MAX_CODE_BYTES)
		return -EFBIG;
	error = copy(h, deopt - 1 + V8_ARRAY_DATA + at[V8_DEOPT_FIRST] * V8_WORD,
		(size_t)n * V8_WORD, &p->entries);
	if (error == 0)
		error = copy(h, c->start + c->bytes, p->n_metadata, &p->metadata);
	return error < 0 ? error : copy(h, c->start, c->bytes, &p->instructions);
}

static int add_frame(struct v8_code *c, uint32_t function, int32_t offset)
{
	if (c->n_frames == V8_MAX_FRAMES)
		return -EFBIG;
	if (alloc_grow(&c->frames, &c->cap_frames, c->n_frames + 1, sizeof(*c->frames)) < 0)
		return -ENOMEM;
	c->frames[c->n_frames++] = (struct v8_code_frame) {
		.function = function, .offset = offset < 0 ? 0 : (uint32_t)offset};
	return 0;
}

/* A point with the frames of translation `i`. */
static int add_point(struct points *p, uint32_t code, uint32_t i, bool is_call)
{
	struct v8_translated frames[V8_MAX_DEPTH];
	struct v8_code *c = p->r->code;
	struct cursor at = cursor_of(p->entries, p->n_entries * ENTRY_WORDS * V8_WORD);
	int n, error = 0;

	if (i >= p->n_entries)
		return -EBADMSG;
	cursor_skip(&at, ((size_t)i * ENTRY_WORDS + ENTRY_TRANSLATION) * V8_WORD + 4);
	n = v8_translate(p->translations, p->n_translations, cursor_u32(&at),
		p->r->h.r->offsets[V8_EXTRA_ARGUMENTS], frames, V8_MAX_DEPTH);
	if (n < 0)
		return n;
	if (c->n_points == V8_MAX_POINTS)
		return -EFBIG;
	if (alloc_grow(&c->points, &c->cap_points, c->n_points + 1, sizeof(*c->points)) < 0)
		return -ENOMEM;
	c->points[c->n_points++] = (struct v8_code_point) {
		.code = code, .first = (uint32_t)c->n_frames, .n = (uint32_t)n, .is_call = is_call};
	for (int k = 0; error == 0 && k < n; k++) {
		int function = function_of_literal(p, frames[k].literal);

		error = function < 0 ? function
				     : add_frame(c, (uint32_t)function, frames[k].offset);
	}
	return error;
}

static int read_calls(struct points *p)
{
	const uint16_t *at = p->r->h.r->offsets;
	struct v8_safepoints s;
	struct v8_safepoint point;
	uint8_t bytes[4];
	struct cursor flags = cursor_of(bytes, sizeof(bytes));
	int error = v8_read(&p->r->h, p->r->object, at[V8_CODE_FLAGS], bytes, sizeof(bytes));
	bool is_maglev = (cursor_u32(&flags) & 15) == at[V8_KIND_BASELINE] + 1U;

	if (error < 0 || !v8_safepoints_of(p->metadata, p->n_metadata, is_maglev, &s))
		return error; /* without calls that could be deoptimised */
	while (error == 0 && v8_safepoints_next(&s, &point))
		if (point.deopt != UINT32_MAX)
			error = add_point(p, point.code, point.deopt, true);
	return error;
}

static int read_checks(struct points *p)
{
	struct cursor code = cursor_of(p->instructions, p->r->code->bytes);
	uint32_t at = 0, exit;
	int error = 0;

	while (error == 0 && v8_next_check(code, p->exits, p->n_checks, &at, &exit))
		error = add_point(p, at, exit, false);
	return error;
}

static int compare_points(const void *a, const void *b)
{
	const struct v8_code_point *x = a, *y = b;

	return x->code != y->code ? (x->code < y->code ? -1 : 1)
				  : (int)y->is_call - (int)x->is_call;
}

/* Places of a function's bytecode, to be looked up in any order. */
static struct v8_place place_at(
	const struct v8_position *table, size_t n, const struct v8_script *script, uint32_t offset)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table[middle].code <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? v8_script_place(script, table[low - 1].source) : (struct v8_place) {0, 0};
}

static int place_function(struct v8_reading *r, uint32_t function, const struct v8_script *script,
	const uint8_t *bytes, size_t n_bytes)
{
	_cleanup_free_ struct v8_position *table = try_calloc(n_bytes / 2 + 1, sizeof(*table));
	struct v8_positions positions = v8_positions_of(r->h.r, bytes, n_bytes);
	size_t n = 0;

	if (!table)
		return -ENOMEM;
	/* An entry has two bytes or more. */
	while (n < n_bytes / 2 && v8_positions_next(&positions, &table[n]))
		n += table[n].source != UINT32_MAX;
	for (size_t i = 0; i < r->code->n_frames; i++)
		if (r->code->frames[i].function == function)
			r->code->frames[i].place =
				place_at(table, n, script, r->code->frames[i].offset);
	return 0;
}

/* From offsets in bytecode to lines, a function at a time. */
static int place_frames(struct v8_reading *r)
{
	const uint16_t *at = r->h.r->offsets;

	for (uint32_t i = 0; i < r->code->n_functions; i++) {
		_cleanup_free_ uint8_t *table = NULL;
		const struct v8_script *script = NULL;
		uint64_t data = 0, word = 0, bytecode = 0, baseline;
		size_t n = 0;
		int error = v8_word(&r->h, r->shared[i], at[V8_SHARED_DATA], &data);

		if (error == 0)
			error = v8_function_bytecode(&r->h, data, &bytecode, &baseline);
		if (error == 0)
			error = v8_positions_read(
				&r->h, bytecode, at[V8_BYTECODE_LINES], &table, &n);
		if (error == 0)
			error = v8_word(&r->h, r->shared[i], at[V8_SHARED_SCRIPT], &word);
		if (error == 0)
			error = v8_script_read(&r->h, r->scripts, word, &script);
		if (error == 0)
			error = place_function(r, i, script, table, n);
		if (error < 0 && error != -ENOENT) /* a builtin has none of that */
			return error;
	}
	return 0;
}

int v8_points_read(struct v8_reading *r, uint64_t deopt)
{
	_cleanup_points_ struct points p = {.r = r};
	int error = read_tables(&p, deopt);

	if (error == 0)
		error = read_calls(&p);
	if (error == 0)
		error = read_checks(&p);
	if (error < 0)
		return error;
	if (r->code->n_points)
		qsort(r->code->points, r->code->n_points, sizeof(*r->code->points), compare_points);
	return place_frames(r);
}
