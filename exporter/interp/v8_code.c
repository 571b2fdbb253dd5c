/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code of V8 by an address in it. The object that holds the instructions begins before them, at a multiple of 32 bytes less its
 * header: from the address down, the first such place with the right map and a description (Code) that leads back to it.
 *
 * Optimised code knows its functions (deoptimization data): literals, of which the first are those inlined, and for each inlined call its
 * place and function. Its source positions name the call they are in. Baseline code has one instruction sequence for each bytecode.
 */
#include "exporter/interp/v8_reading.h"
#include "lib/base/alloc.h"

enum {
	CODE_ALIGN = 32,
	CHUNK_BYTES = 4096,
	MAX_UNSAID_BYTES = 64 << 10, /* where no frame says that code of a function is there */
	MAX_TRIES = 256,	     /* words that could be maps */
	WRAPPER_SHARED = 8,
	INLINED_BYTES = 16, /* {source position, number of its literal} */
	MAX_LENGTHS = 3 * 256,
	MAX_BYTECODE_BYTES = 1 << 20,
};
void v8_code_done(struct v8_code *c)
{
	for (size_t i = 0; i < c->n_functions; i++)
		interp_code_done(&c->functions[i]);
	free(c->functions);
	free(c->inlined);
	free(c->positions);
	free(c->points);
	free(c->frames);
	*c = (struct v8_code) {0};
}

static enum v8_number stream_type(const struct v8_reading *r)
{
	return v8_has(r, V8_TYPE_STREAM) ? V8_TYPE_STREAM : V8_TYPE_CODE;
}

/* Do `start` and `bytes` of the code of a stream hold `pc`? -ENOENT: no. */
static int read_extent(struct v8_reading *r, uint64_t stream, uint64_t pc)
{
	const uint16_t *at = r->h.r->offsets;
	uint64_t object = stream, start = stream - 1 + at[V8_STREAM_START], said = start;
	uint8_t bytes[4];
	struct cursor c = cursor_of(bytes, sizeof(bytes));
	int error = 0;

	if (v8_has(r, V8_STREAM_CODE)) {
		error = v8_word(&r->h, stream, at[V8_STREAM_CODE], &object);
		if (error == 0)
			error = v8_check_type(&r->h, object, V8_TYPE_CODE);
	}
	if (error == 0 && v8_has(r, V8_CODE_START))
		error = v8_word(&r->h, object, at[V8_CODE_START], &said);
	if (error == 0)
		error = v8_read(&r->h, object, at[V8_CODE_BYTES], bytes, sizeof(bytes));
	if (error < 0)
		return error;
	r->stream = stream;
	r->object = object;
	r->code->start = start;
	r->code->bytes = cursor_u32(&c);
	return said == start && pc >= start && pc - start <= r->code->bytes ? 0 : -ENOENT;
}

/* Is this the first word of a stream? */
static bool is_stream(struct v8_reading *r, uint64_t stream, uint64_t word)
{
	if (!v8_is_object(word) || word >> 48 || (r->map && word != r->map))
		return false;
	if (!r->map &&
		(++r->n_tries > MAX_TRIES || v8_check_type(&r->h, stream, stream_type(r)) < 0))
		return false;
	r->map = word;
	return true;
}

/* Candidates in [low, high], the highest first: 1 when one was the stream of `pc`. */
static int scan_chunk(struct v8_reading *r, uint64_t low, uint64_t high, uint64_t pc)
{
	uint8_t chunk[CHUNK_BYTES + V8_WORD];
	size_t n = high - low + V8_WORD;
	int error = v8_read_at(&r->h, low, chunk, n);

	if (error < 0)
		return error;
	for (uint64_t at = high;; at -= CODE_ALIGN) {
		struct cursor c = cursor_of(chunk + (at - low), V8_WORD);

		if (is_stream(r, at + 1, cursor_u64(&c))) {
			error = read_extent(r, at + 1, pc);
			/* A map as an operand of an instruction is no stream; what ends before pc is the neighbour. */
			if (error == 0)
				return 1;
		}
		if (at < low + CODE_ALIGN)
			return 0;
	}
}

/* Within so many bytes before pc. */
static int find_stream(struct v8_reading *r, uint64_t pc, uint32_t within)
{
	uint64_t header = r->h.r->offsets[V8_STREAM_START];
	/* The last place where a stream of instructions up to pc can begin. */
	uint64_t high = (pc & ~(uint64_t)(CODE_ALIGN - 1)) - header, low, end;
	int found = 0;

	if (pc < header + within || pc >= V8_ADDRESS_MAX)
		return -ENOENT;
	for (end = high - within; !found && high > end; high = low - CODE_ALIGN) {
		/* Down to the page's first place, since the page before it may be no memory. */
		uint64_t first = high & ~(uint64_t)(CHUNK_BYTES - 1);

		low = first + (high - first) % CODE_ALIGN;
		found = scan_chunk(r, low, high, pc);
	}
	return found > 0 ? 0 : found == -EFAULT || !found ? -ENOENT : found;
}

static int add_position(struct v8_code *c, struct v8_code_position p)
{
	if (c->n_positions == V8_MAX_POSITIONS)
		return -EFBIG;
	if (alloc_grow(&c->positions, &c->cap_positions, c->n_positions + 1,
		    sizeof(*c->positions)) < 0)
		return -ENOMEM;
	c->positions[c->n_positions++] = p;
	return 0;
}

/* The function that an inlined call is in, or a position: 0 is the code's own. */
static uint32_t function_in(const struct v8_code *c, uint32_t inlined)
{
	return inlined ? c->inlined[inlined - 1].function : 0;
}

static void place_all(struct v8_code *c, uint32_t function, const struct v8_script *script)
{
	for (size_t i = 0; i < c->n_inlined; i++)
		if (function_in(c, c->inlined[i].caller) == function)
			c->inlined[i].place = v8_script_place(script, c->inlined[i].source);
	for (size_t i = 0; i < c->n_positions; i++)
		if (function_in(c, c->positions[i].inlined) == function)
			c->positions[i].place = v8_script_place(script, c->positions[i].source);
}

/* From positions in scripts to lines, a script at a time. */
static int place_functions(struct v8_reading *r)
{
	for (uint32_t i = 0; i < r->code->n_functions; i++) {
		const struct v8_script *script;
		uint64_t word;
		int error = v8_word(&r->h, r->shared[i], r->h.r->offsets[V8_SHARED_SCRIPT], &word);

		if (error == 0)
			error = v8_script_read(&r->h, r->scripts, word, &script);
		if (error == 0)
			place_all(r->code, i, script);
		else if (error != -ENOENT) /* a builtin has none */
			return error;
	}
	return 0;
}

/* Place of bytecode offsets, in their order. */
struct bytecode_lines {
	struct v8_positions positions;
	struct v8_position next;
	bool has_next;
	uint32_t source; /* of the offset asked for last */
};

static uint32_t source_of(struct bytecode_lines *l, uint32_t offset)
{
	while (l->has_next && l->next.code <= offset) {
		if (l->next.source != UINT32_MAX)
			l->source = l->next.source;
		l->has_next = v8_positions_next(&l->positions, &l->next);
	}
	return l->source;
}

static int baseline_positions(struct v8_reading *r, const struct v8_script *script,
	struct v8_baseline b, struct bytecode_lines *l)
{
	uint32_t from = b.end, source = UINT32_MAX;
	int error = 0;

	l->source = UINT32_MAX;
	l->has_next = v8_positions_next(&l->positions, &l->next);
	for (; error == 0 && v8_baseline_next(&b); from = b.end) {
		uint32_t now = source_of(l, b.offset);

		if (now != source)
			error = add_position(
				r->code, (struct v8_code_position) {.code = from,
						 .source = now,
						 .place = v8_script_place(script, now)});
		source = now;
	}
	return error;
}

/* Lines of baseline code: machine code → bytecode → source. */
static int read_baseline_lines(
	struct v8_reading *r, const struct v8_script *script, uint64_t bytecode)
{
	const uint16_t *at = r->h.r->offsets;
	uint32_t n_bytecodes = v8_has(r, V8_BYTECODES) ? at[V8_BYTECODES] : 0;
	uint64_t lengths_at = r->h.r->addresses[V8_BYTECODE_LENGTHS];
	_cleanup_free_ uint8_t *table = NULL, *lines = NULL, *code = NULL;
	uint8_t lengths[MAX_LENGTHS];
	struct bytecode_lines l = {.source = 0};
	size_t n_table, n_lines, n_code;
	int error;
	int64_t n = v8_array_length(&r->h, bytecode);

	if (!lengths_at || !n_bytecodes || 3 * n_bytecodes > MAX_LENGTHS || n < 0 ||
		n > MAX_BYTECODE_BYTES)
		return n < 0 ? (int)n : 0;
	error = v8_read_at(&r->h, lengths_at + r->h.m->bias, lengths, 3 * (size_t)n_bytecodes);
	if (error == 0)
		error = v8_positions_read(&r->h, r->object, at[V8_CODE_LINES], &table, &n_table);
	if (error == 0)
		error = v8_positions_read(&r->h, bytecode, at[V8_BYTECODE_LINES], &lines, &n_lines);
	if (error < 0)
		return error;
	n_code = (size_t)n;
	code = try_malloc(n_code + 1);
	if (!code)
		return -ENOMEM;
	error = n_code ? v8_read(&r->h, bytecode, at[V8_BYTECODE_START], code, n_code) : 0;
	if (error < 0)
		return error;
	l.positions = v8_positions_of(r->h.r, lines, n_lines);
	return baseline_positions(r, script,
		v8_baseline_of(
			cursor_of(table, n_table), cursor_of(code, n_code), lengths, n_bytecodes),
		&l);
}

/* Baseline code belongs to the function whose bytecode it came from. -ENOENT: it is none. */
static int read_baseline(struct v8_reading *r, uint64_t shared)
{
	_cleanup_v8_function_ struct v8_function f = {0};
	uint64_t deopt, bytecode, own_bytecode, baseline;
	bool is_named;
	int error = v8_word(&r->h, r->object, r->h.r->offsets[V8_CODE_DEOPT], &deopt);

	if (error == 0)
		error = v8_function_bytecode(&r->h, deopt, &own_bytecode, &baseline);
	is_named = error == 0; /* from 10.x on */
	if (error < 0 && error != -ENOENT)
		return error;
	if (!is_named && !v8_has(r, V8_TYPE_BASELINE_DATA))
		return -ENOENT;
	if (!shared)
		return is_named ? -EAGAIN : -ENOENT;
	error = v8_function_add(r, shared, &f);
	if (error < 0)
		return error;
	error = v8_function_bytecode(&r->h, f.data, &bytecode, &baseline);
	if (error == 0 && (is_named ? bytecode != own_bytecode : baseline != r->object))
		error = -ENOENT;
	if (error < 0)
		return error == -ENOENT && is_named ? -EAGAIN : error;
	r->code->is_baseline = true;
	return f.lines ? read_baseline_lines(r, f.lines, bytecode) : 0;
}

static int read_inlined_call(
	struct v8_reading *r, struct cursor *c, uint64_t literals, uint32_t n_literals, uint32_t i)
{
	struct v8_position p = v8_position_of(cursor_u64(c));
	int32_t literal = (int32_t)cursor_u32(c);
	struct v8_inlined *ret = &r->code->inlined[i];
	uint64_t shared = r->shared[0];
	int function, error = 0;

	cursor_skip(c, INLINED_BYTES - 12);
	if (literal >= 0) {
		error = (uint32_t)literal < n_literals
				? v8_element(&r->h, literals, (uint32_t)literal, &shared)
				: -EBADMSG;
		if (error < 0)
			return error;
	}
	function = v8_function_of(r, v8_strong(shared));
	if (function < 0)
		return function;
	/* Calls come after those that they are in. */
	if (p.inlined > i)
		return -EBADMSG;
	*ret = (struct v8_inlined) {
		.function = (uint32_t)function, .caller = p.inlined, .source = p.source};
	return 0;
}

static int read_inlined(struct v8_reading *r, uint64_t deopt)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t calls = 0, literals = 0, n_inlined = 0;
	struct cursor c;
	size_t n = 0;
	int error = v8_deopt_element(r, deopt, V8_DEOPT_INLINING, &calls);

	if (error == 0)
		error = v8_deopt_element(r, deopt, V8_DEOPT_LITERALS, &literals);
	if (error == 0)
		error = v8_deopt_element(r, deopt, V8_DEOPT_INLINED, &n_inlined);
	if (error == 0)
		error = v8_bytes(&r->h, calls, V8_MAX_INLINED * INLINED_BYTES, &bytes, &n);
	if (error < 0)
		return error;
	if (!v8_is_smi(n_inlined) || v8_smi(n_inlined) < 0 || n % INLINED_BYTES)
		return -EBADMSG;
	r->code->inlined = try_calloc(n / INLINED_BYTES + 1, sizeof(*r->code->inlined));
	if (!r->code->inlined)
		return -ENOMEM;
	c = cursor_of(bytes, n);
	for (uint32_t i = 0; error == 0 && i < n / INLINED_BYTES; i++) {
		error = read_inlined_call(r, &c, literals, (uint32_t)v8_smi(n_inlined), i);
		r->code->n_inlined = i + (size_t)(error == 0);
	}
	return error;
}

static int read_code_lines(struct v8_reading *r)
{
	_cleanup_free_ uint8_t *table = NULL;
	struct v8_positions p;
	struct v8_position at;
	size_t n = 0;
	int error = v8_positions_read(&r->h, r->object, r->h.r->offsets[V8_CODE_LINES], &table, &n);

	p = v8_positions_of(r->h.r, table, n);
	while (error == 0 && v8_positions_next(&p, &at)) {
		struct v8_code_position to = {
			.code = at.code, .inlined = at.inlined, .source = at.source};

		if (at.inlined > r->code->n_inlined)
			return -EBADMSG;
		error = add_position(r->code, to);
	}
	return error;
}

static int read_optimized(struct v8_reading *r, uint64_t shared)
{
	_cleanup_v8_function_ struct v8_function f = {0};
	uint64_t deopt = 0, own = 0;
	int error = v8_word(&r->h, r->object, r->h.r->offsets[V8_CODE_DEOPT], &deopt);

	if (error == 0)
		error = v8_deopt_element(r, deopt, V8_DEOPT_SHARED, &own);
	if (error < 0)
		return error == -EBADMSG ? -ENOENT
					 : error; /* no array, or an empty one: other code */
	if (v8_check_type(&r->h, own, V8_TYPE_SHARED) < 0) {
		error = v8_word(&r->h, own, WRAPPER_SHARED, &own);
		if (error < 0)
			return error;
	}
	if (shared && own != shared)
		return -EAGAIN;
	error = v8_function_add(r, own, &f);
	if (error >= 0 && v8_has(r, V8_EXTRA_ARGUMENTS))
		return v8_points_read(r, deopt);
	if (error >= 0)
		error = read_inlined(r, deopt);
	if (error == 0)
		error = read_code_lines(r);
	return error < 0 ? error : place_functions(r);
}

/* What new code at the same place has others of. */
static int read_parts(struct v8_reading *r)
{
	const uint16_t *at = r->h.r->offsets;
	int error = v8_word(&r->h, r->object, at[V8_CODE_DEOPT], &r->code->deopt);

	r->code->stream = r->stream;
	r->code->object = r->object;
	if (error == 0 && v8_has(r, V8_CODE_LINES))
		error = v8_word(&r->h, r->object, at[V8_CODE_LINES], &r->code->lines);
	return error;
}

int v8_machine_code_is_still(
	const struct interp_memory *m, const struct runtime_record *record, const struct v8_code *c)
{
	struct v8_code now = {0};
	struct v8_reading r = {.h = {.m = m, .r = record}, .code = &now};
	int error = v8_check_type(&r.h, c->stream, stream_type(&r));

	if (error == 0)
		error = read_extent(&r, c->stream, c->start);
	if (error == 0)
		error = read_parts(&r);
	if (error == -EBADMSG)
		error = -ENOENT;
	if (error < 0)
		return error == -ENOENT ? -EAGAIN : error;
	return now.object == c->object && now.bytes == c->bytes && now.deopt == c->deopt &&
			       now.lines == c->lines
		       ? 0
		       : -EAGAIN;
}

int v8_read_machine_code(const struct interp_memory *m, const struct runtime_record *record,
	uint64_t pc, uint64_t shared, struct v8_code *ret)
{
	_cleanup_v8_scripts_ struct v8_scripts own = {.n = 0};
	_cleanup_v8_code_ struct v8_code code = {0};
	struct v8_reading r = {.h = {.m = m, .r = record},
		.scripts = m->scripts ? m->scripts : &own,
		.code = &code};
	uint64_t word = shared ? shared + 1 : 0;
	int error = find_stream(&r, pc, shared ? V8_MAX_CODE_BYTES : MAX_UNSAID_BYTES);

	if (error == 0) {
		error = read_baseline(&r, word);
		if (error == -ENOENT) {
			struct v8_code again = {.start = code.start, .bytes = code.bytes};

			v8_code_done(&code);
			code = again;
			error = read_optimized(&r, word);
		}
	}
	if (error == 0)
		error = read_parts(&r);
	if (error == 0)
		error = v8_machine_code_is_still(m, record, &code);
	if (error < 0)
		return error;
	*ret = code;
	code = (struct v8_code) {0};
	return 0;
}

int v8_find_machine_code(const struct interp_memory *m, const struct runtime_record *record,
	uint64_t pc, struct v8_code *ret)
{
	struct v8_code code = {0};
	struct v8_reading r = {.h = {.m = m, .r = record}, .code = &code};
	int error = find_stream(&r, pc, V8_MAX_CODE_BYTES);

	if (error == 0)
		*ret = code;
	return error;
}

static const struct v8_code_position *position_of(const struct v8_code *c, uint32_t off)
{
	size_t low = 0, high = c->n_positions;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->positions[middle].code <= off)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &c->positions[low - 1] : NULL;
}

/* The point of an instruction: that of the call before it, or the nearest. */
static const struct v8_code_point *point_of(const struct v8_code *c, uint32_t off, bool is_return)
{
	size_t low = 0, high = c->n_points;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->points[middle].code < off)
			low = middle + 1;
		else
			high = middle;
	}
	if (is_return || low == 0 ||
		(low < c->n_points && c->points[low].code - off < off - c->points[low - 1].code))
		return low < c->n_points && (!is_return || c->points[low].code == off)
			       ? &c->points[low]
			       : NULL;
	return &c->points[low - 1];
}

static size_t point_frames(
	const struct v8_code *c, const struct v8_code_point *p, struct v8_frame *frames, size_t max)
{
	for (uint32_t n = 0; n < p->n; n++) {
		const struct v8_code_frame *f = &c->frames[p->first + p->n - 1 - n];

		frames[MIN(n, max - 1)] = (struct v8_frame) {&c->functions[f->function], f->place};
	}
	return p->n;
}

size_t v8_code_frames(
	const struct v8_code *c, uint64_t pc, bool is_return, struct v8_frame *frames, size_t max)
{
	uint64_t off = pc - c->start;
	const struct v8_code_position *p = position_of(c, (uint32_t)(off - (is_return && off)));
	struct v8_place place = p ? p->place : (struct v8_place) {0, 0};
	uint32_t inlined = p ? p->inlined : 0;
	const struct v8_code_point *point = point_of(c, (uint32_t)off, is_return);
	size_t n = 0;

	if (point)
		return point_frames(c, point, frames, max);
	for (; inlined; n++) {
		const struct v8_inlined *i = &c->inlined[inlined - 1];

		frames[MIN(n, max - 1)] = (struct v8_frame) {&c->functions[i->function], place};
		place = i->place;
		inlined = i->caller;
	}
	if (!c->n_functions)
		return 0;
	frames[MIN(n, max - 1)] = (struct v8_frame) {&c->functions[0], place};
	return n + 1;
}
