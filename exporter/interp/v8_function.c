/* SPDX-License-Identifier: Apache-2.0
 *
 * A function's name, file and place. The name is in its scope, together with the one that V8 inferred from what the function was
 * assigned to; a builtin has a string in place of the scope.
 */
#include "exporter/interp/v8_function.h"
#include "bpf/interp/rows.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"

enum {
	MAX_SHARED_BYTES = 80,
	INTERPRETER_DATA_BYTECODE = 8,
	BASELINE_DATA_CODE = 8,
	BASELINE_DATA_DATA = 16,
	MAX_LEADS = 4, /* from a function to its bytecode */

	SCOPE_FLAGS = 0,
	SCOPE_N_LOCALS = 2,
	SCOPE_MAX_NAMES =
		75, /* of more local variables the names are in a table of their own, from 9.x on */
	SCOPE_MAX_LOCALS = 1 << 20,
	SCOPE_N_TAIL = 7, /* words behind the locals that are read */
	NAME_MASK = 3,	  /* of V8_SCOPE_FUNCTION */
	PLACE_MASK = 3,	  /* of V8_SCOPE_RECEIVER: where it is */
	PLACE_STACK = 1,
	PLACE_CONTEXT = 2,
	SHIFT_MASK = 63,
	TOKEN_NONE = 0xffff,
};

/* The fields of a SharedFunctionInfo that its name and place come from. */
struct shared {
	uint64_t data, name, script;
	uint32_t literal, id, token;
};

static uint64_t field(const uint8_t *bytes, size_t n, uint16_t off, unsigned width)
{
	struct cursor c = cursor_of(bytes, n);

	cursor_skip(&c, off);
	return cursor_le(&c, width);
}

static int read_shared(struct v8_heap *h, uint64_t object, struct shared *ret)
{
	const uint16_t *at = h->r->offsets;
	bool has_id = at[V8_SHARED_ID] != RUNTIME_NO_FIELD;
	uint8_t bytes[MAX_SHARED_BYTES];
	size_t n =
		MAX(MAX(at[V8_SHARED_SCRIPT], at[V8_SHARED_NAME]) + 8U, at[V8_SHARED_LITERAL] + 4U);
	int error;

	n = MAX(n, MAX(at[V8_SHARED_TOKEN] + 2U, at[V8_SHARED_DATA] + 8U));
	if (has_id)
		n = MAX(n, at[V8_SHARED_ID] + 4U);
	if (n > sizeof(bytes))
		return -EBADMSG;
	error = v8_check_type(h, object, V8_TYPE_SHARED);
	if (error == 0)
		error = v8_read(h, object, 0, bytes, n);
	if (error < 0)
		return error;
	*ret = (struct shared) {
		.data = field(bytes, n, at[V8_SHARED_DATA], 8),
		.name = field(bytes, n, at[V8_SHARED_NAME], 8),
		.script = field(bytes, n, at[V8_SHARED_SCRIPT], 8),
		.literal = (uint32_t)field(bytes, n, at[V8_SHARED_LITERAL], 4),
		.id = has_id ? (uint32_t)field(bytes, n, at[V8_SHARED_ID], 4) : 0,
		.token = (uint32_t)field(bytes, n, at[V8_SHARED_TOKEN], 2),
	};
	return 0;
}

/* What a scope says of its function. */
struct scope {
	uint64_t name, inferred; /* words; 0: none */
	uint32_t start;
};

static int scope_words(struct v8_heap *h, uint64_t scope, uint32_t from, uint32_t n, uint64_t *ret)
{
	uint8_t bytes[SCOPE_N_TAIL * V8_WORD];
	struct cursor c = cursor_of(bytes, n * V8_WORD);
	int error = v8_read(
		h, scope, h->r->offsets[V8_SCOPE_WORDS] + from * V8_WORD, bytes, n * V8_WORD);

	for (uint32_t i = 0; error == 0 && i < n; i++)
		ret[i] = cursor_le(&c, V8_WORD);
	return error;
}

static uint32_t position(uint64_t word)
{
	return v8_is_smi(word) && v8_smi(word) >= 0 ? (uint32_t)v8_smi(word) : UINT32_MAX;
}

static bool has_receiver_word(const struct runtime_record *r, uint64_t flags)
{
	uint16_t shift = r->offsets[V8_SCOPE_RECEIVER];
	uint64_t place = shift == RUNTIME_NO_FIELD ? 0 : flags >> (shift & SHIFT_MASK) & PLACE_MASK;

	return place == PLACE_STACK || place == PLACE_CONTEXT;
}

static int read_scope(struct v8_heap *h, uint64_t scope, struct scope *ret)
{
	const uint16_t *at = h->r->offsets;
	uint32_t n_head = at[V8_SCOPE_LOCALS], n_locals, n_names, i = 0;
	bool has_place_first = n_head > SCOPE_N_LOCALS + 1;
	uint64_t words[SCOPE_N_TAIL], flags;
	int error;

	if (n_head <= SCOPE_N_LOCALS || n_head > SCOPE_N_TAIL)
		return -EBADMSG;
	error = scope_words(h, scope, 0, n_head, words);
	if (error < 0)
		return error;
	flags = words[SCOPE_FLAGS] >> (at[V8_SCOPE_FLAGS_SHIFT] & SHIFT_MASK);
	n_locals = position(words[SCOPE_N_LOCALS]);
	if (n_locals > SCOPE_MAX_LOCALS)
		return -EBADMSG;
	*ret = (struct scope) {
		.start = has_place_first ? position(words[SCOPE_N_LOCALS + 1]) : UINT32_MAX};
	n_names = at[V8_SCOPE_WORDS] == V8_WORD && n_locals >= SCOPE_MAX_NAMES ? 1 : n_locals;
	error = scope_words(h, scope, n_head + n_names + n_locals, SCOPE_N_TAIL, words);
	if (error < 0)
		return error;
	if (has_receiver_word(h->r, flags))
		i++;
	flags >>= at[V8_SCOPE_FUNCTION] & SHIFT_MASK;
	if (flags & NAME_MASK) {
		ret->name = words[i];
		i += 2; /* and its variable */
	}
	if (flags & (NAME_MASK + 1))
		ret->inferred = words[i++];
	if (!has_place_first)
		ret->start = position(words[i]);
	return 0;
}

/* NULL: it is none, or empty. */
static int read_name(struct v8_heap *h, uint64_t word, char **ret)
{
	_cleanup_free_ char *name = NULL;
	int error = v8_is_object(word) ? v8_string(h, word, &name) : -ENOENT;

	if (error < 0 && error != -ENOENT)
		return error;
	if (name && name[0])
		*ret = TAKE(name);
	return 0;
}

static int read_names(struct v8_heap *h, uint64_t word, struct v8_function *f)
{
	struct scope scope = {.start = UINT32_MAX};
	int error = 0;

	if (v8_is_object(word) && v8_check_type(h, word, V8_TYPE_SCOPE) == 0)
		error = read_scope(h, word, &scope);
	else
		scope.name = word;
	if (error == 0)
		error = read_name(h, scope.name, &f->code.name);
	if (error == 0 && !f->code.name)
		error = read_name(h, scope.inferred, &f->code.name);
	if (error == 0 && !f->code.name)
		f->code.name = xstrdup("(anonymous)");
	f->start = scope.start;
	return error;
}

static int read_place(
	struct v8_heap *h, struct v8_scripts *s, const struct shared *shared, struct v8_function *f)
{
	uint32_t start = f->start;
	int error = v8_script_read(h, s, shared->script, &f->lines);

	if (error == -ENOENT) { /* a builtin has no script */
		f->lines = NULL;
		f->code.file = xstrdup("");
		return 0;
	}
	if (error < 0)
		return error;
	f->code.file = xstrdup(f->lines->name);
	if (start != UINT32_MAX && shared->token != TOKEN_NONE && shared->token <= start)
		start -= shared->token;
	f->code.first_line = v8_script_place(f->lines, start).line;
	return 0;
}

/* A part that is gone: it was another object's. */
static int part_error(int error)
{
	return error == -ENOENT ? -EAGAIN : error;
}

static uint64_t check_of(const struct shared *shared, const struct v8_function *f)
{
	const uint64_t words[] = {hash_xxh3(f->code.file, strlen(f->code.file)),
		hash_xxh3(f->code.name, strlen(f->code.name)), f->start, shared->literal,
		shared->id};

	return hash_xxh3(words, sizeof(words));
}

/* What the kernel half takes of it (v8_rows_layout). */
static uint64_t kernel_check_of(const struct runtime_record *r, const struct shared *shared)
{
	bool has_id = r->offsets[V8_SHARED_ID] != RUNTIME_NO_FIELD;
	uint64_t numbers = shared->literal | (has_id ? (uint64_t)shared->id << 32 : 0);

	return interp_check_add(interp_check_add(0, shared->script), numbers);
}

int v8_function_read(
	struct v8_heap *h, struct v8_scripts *s, uint64_t object, struct v8_function *ret)
{
	_cleanup_v8_function_ struct v8_function f = {0};
	struct shared shared;
	int error = read_shared(h, object, &shared);

	if (error < 0)
		return error;
	f.data = shared.data;
	f.script = shared.script;
	error = read_names(h, shared.name, &f);
	if (error == 0)
		error = read_place(h, s, &shared, &f);
	if (error < 0)
		return part_error(error);
	f.code.check = check_of(&shared, &f);
	f.code.kernel_check = kernel_check_of(h->r, &shared);
	error = v8_function_check(h, object, &f);
	if (error < 0)
		return error;
	*ret = f;
	f.code = (struct interp_code) {0};
	return 0;
}

int v8_function_check(struct v8_heap *h, uint64_t object, const struct v8_function *f)
{
	struct shared after;
	int error = read_shared(h, object, &after);

	if (error < 0)
		return part_error(error);
	return after.script == f->script && check_of(&after, f) == f->code.check ? 0 : -EAGAIN;
}

int v8_function_bytecode(struct v8_heap *h, uint64_t data, uint64_t *ret, uint64_t *ret_baseline)
{
	const uint16_t *at = h->r->offsets;

	*ret_baseline = 0;
	for (unsigned i = 0; i < MAX_LEADS; i++) {
		int type = v8_is_object(data) ? v8_type(h, data) : -ENOENT;
		int error = 0;

		if (type < 0)
			return type;
		if (type == at[V8_TYPE_BYTECODE]) {
			*ret = data;
			return 0;
		}
		if (type == at[V8_TYPE_INTERPRETER_DATA]) {
			error = v8_word(h, data, INTERPRETER_DATA_BYTECODE, &data);
		} else if (type == at[V8_TYPE_BASELINE_DATA]) {
			error = v8_word(h, data, BASELINE_DATA_CODE, ret_baseline);
			if (error == 0)
				error = v8_word(h, data, BASELINE_DATA_DATA, &data);
		} else if (type == at[V8_TYPE_CODE]) {
			*ret_baseline = data;
			error = v8_word(h, data, at[V8_CODE_DEOPT], &data);
		} else {
			return -ENOENT;
		}
		if (error < 0)
			return error;
	}
	return -ENOENT;
}

int v8_positions_read(
	struct v8_heap *h, uint64_t object, uint32_t off, uint8_t **ret, size_t *ret_n)
{
	uint64_t table;
	int64_t n;
	int error = v8_word(h, object, off, &table);

	*ret_n = 0;
	if (error < 0)
		return error;
	/* `undefined` is an object too: its type is no array's, and what would be its length is no Smi of that size. */
	n = v8_is_object(table) ? v8_array_length(h, table) : 0;
	if (n <= 0 || n > INTERP_MAX_LINES_BYTES)
		return 0;
	return v8_bytes(h, table, INTERP_MAX_LINES_BYTES, ret, ret_n);
}
