/* SPDX-License-Identifier: Apache-2.0
 *
 * A heap of V8 laid by hand, as a version has it, for tests and as the beginning of fuzzing: functions, scripts, strings, machine code.
 */
#pragma once
#include "exporter/interp/v8.h"
#include "exporter/parser/runtime/v8_layouts.h"
#include <errno.h>
#include <string.h>

enum {
	FAKE_BYTES = 0x8000,
	FAKE_MAPS = 0x100, /* 16 bytes a type */
	FAKE_SCRIPT = 0x1200,
	FAKE_CODE_PAGE = 0x4000,
	FAKE_TYPES_FROM = 0x400, /* instance types of the fake are these and those that follow */
	FAKE_TYPE_BYTES = FAKE_TYPES_FROM + 64,
};
#define FAKE_BASE 0x7f0000000000ULL

struct fake {
	uint8_t bytes[FAKE_BYTES];
	uint32_t next;				/* free from here on */
	unsigned n_reads, fails_at, changes_at; /* which read, from 1 on; 0: none */
	uint32_t changed;			/* the word that changes then */
	struct runtime_record r;
	struct interp_memory m;
	/* words */
	uint64_t script, outer, inner, code;
	uint64_t pc; /* of its instructions */
};

static inline void fake_put(struct fake *k, uint64_t at, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		k->bytes[(at + i) % FAKE_BYTES] = (uint8_t)(v >> (8 * i));
}

static inline int fake_read(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct fake *k = arg;

	k->n_reads++;
	if (k->n_reads == k->changes_at)
		fake_put(k, k->changed, 0, 8);
	if (k->n_reads == k->fails_at || addr < FAKE_BASE || addr - FAKE_BASE > FAKE_BYTES ||
		bytes > FAKE_BYTES - (addr - FAKE_BASE))
		return -EFAULT;
	memcpy(to, k->bytes + (addr - FAKE_BASE), bytes);
	return 0;
}

static inline uint64_t fake_smi(int32_t v)
{
	return (uint64_t)(uint32_t)v << 32;
}

/* The place of an object's field. */
static inline uint64_t fake_at(uint64_t word, uint32_t off)
{
	return word - 1 - FAKE_BASE + off;
}

/* An object of that type, whose map is laid too. */
static inline uint64_t fake_object(struct fake *k, uint32_t at, uint16_t type)
{
	uint32_t map = FAKE_MAPS + (type % 128 + (type >= FAKE_TYPES_FROM) * 128U) * 16U;

	fake_put(k, map + 12, type, 2);
	fake_put(k, at, FAKE_BASE + map + 1, 8);
	return FAKE_BASE + at + 1;
}

static inline uint64_t fake_new(struct fake *k, uint16_t type, uint32_t bytes)
{
	uint32_t at = k->next;

	k->next += (bytes + 15) & ~15U;
	return fake_object(k, at, type);
}

static inline uint64_t fake_string(struct fake *k, const char *text)
{
	uint64_t s =
		fake_new(k, 8, 16 + (uint32_t)strlen(text)); /* sequential, a byte a character */

	fake_put(k, fake_at(s, 12), strlen(text), 4);
	for (uint32_t i = 0; text[i]; i++)
		fake_put(k, fake_at(s, 16 + i), (uint8_t)text[i], 1);
	return s;
}

static inline uint64_t fake_array(struct fake *k, const uint64_t *words, uint32_t n)
{
	uint64_t a = fake_new(k, FAKE_TYPE_BYTES + 1, 16 + 8 * n);

	fake_put(k, fake_at(a, 8), fake_smi((int32_t)n), 8);
	for (uint32_t i = 0; i < n; i++)
		fake_put(k, fake_at(a, 16 + 8 * i), words[i], 8);
	return a;
}

static inline uint64_t fake_bytes(struct fake *k, const uint8_t *bytes, uint32_t n)
{
	uint64_t a = fake_new(k, FAKE_TYPE_BYTES, 16 + n);

	fake_put(k, fake_at(a, 8), fake_smi((int32_t)n), 8);
	for (uint32_t i = 0; i < n; i++)
		fake_put(k, fake_at(a, 16 + i), bytes[i], 1);
	return a;
}

/* Numbers of a version; those that its metadata would have are made up. */
static inline void fake_record(struct runtime_record *r, uint32_t version)
{
	const uint16_t *layout = v8_layout(version);
	static const uint16_t made_up[N_V8_NUMBERS] = {
		[V8_FUNCTION_SHARED] = 32,
		[V8_SHARED_NAME] = 24,
		[V8_SHARED_SCRIPT] = 40,
		[V8_SHARED_TOKEN] = 48,
		[V8_BYTECODE_START] = 64,
		[V8_SCOPE_LOCALS] = 3,
		[V8_CODE_START] = 40,
		[V8_CODE_BYTES] = 56,
		[V8_STREAM_START] = 32,
		[V8_DEOPT_INLINED] = 1,
		[V8_DEOPT_LITERALS] = 3,
		[V8_DEOPT_SHARED] = 7,
		[V8_DEOPT_INLINING] = 8,
		[V8_MARKER_WASM] = 4,
		[V8_CODE_FLAGS] = 52,
		[V8_KIND_BASELINE] = 10,
		[V8_TYPE_NOT_STRING] = 128,
	};

	*r = (struct runtime_record) {.kind = RUNTIME_V8, .version = version};
	for (size_t i = 0; i < N_V8_NUMBERS; i++) {
		bool is_table = i == V8_SCOPE_FLAGS_SHIFT || i == V8_LINES;

		r->offsets[i] = layout[i] != V8_BY_SYMBOL || is_table ? layout[i]
				: made_up[i]			      ? made_up[i]
					     : (uint16_t)(FAKE_TYPES_FROM + i);
	}
	/* Version 13 and later have a scope's place before its names. */
	if (RUNTIME_MAJOR(version) >= 13)
		r->offsets[V8_SCOPE_LOCALS] = 5;
	if (r->offsets[V8_CODE_START] == RUNTIME_NO_FIELD)
		r->offsets[V8_STREAM_START] = 128; /* behind the fields of the same object */
	r->offsets[V8_BYTECODES] = RUNTIME_NO_FIELD;
}

/* A function at [start, end) of the script, with a table of lines. */
static inline uint64_t fake_function(
	struct fake *k, const char *name, int32_t start, const uint8_t *lines, uint32_t n_lines)
{
	const uint16_t *at = k->r.offsets;
	bool has_place_first = at[V8_SCOPE_LOCALS] == 5;
	uint64_t scope = fake_new(k, at[V8_TYPE_SCOPE], 128),
		 shared = fake_new(k, at[V8_TYPE_SHARED], 80),
		 bytecode = fake_new(k, at[V8_TYPE_BYTECODE], 128),
		 table = fake_bytes(k, lines, n_lines);
	uint64_t flags = 1ULL << at[V8_SCOPE_FUNCTION];
	uint32_t word = at[V8_SCOPE_WORDS];

	fake_put(k, fake_at(scope, word), flags << at[V8_SCOPE_FLAGS_SHIFT], 8);
	fake_put(k, fake_at(scope, word + 16), fake_smi(1), 8);
	word += 24;
	for (int i = 0; has_place_first && i < 2; i++, word += 8)
		fake_put(k, fake_at(scope, word), fake_smi(start + i), 8);
	word += 16; /* a local variable: its name and where it is */
	fake_put(k, fake_at(scope, word), fake_string(k, name), 8);
	word += 16;
	for (int i = 0; !has_place_first && i < 2; i++, word += 8)
		fake_put(k, fake_at(scope, word), fake_smi(start + i), 8);
	fake_put(k, fake_at(shared, at[V8_SHARED_DATA]), bytecode, 8);
	fake_put(k, fake_at(shared, at[V8_SHARED_NAME]), scope, 8);
	fake_put(k, fake_at(shared, at[V8_SHARED_SCRIPT]), k->script, 8);
	fake_put(k, fake_at(shared, at[V8_SHARED_TOKEN]), 0xffff, 2);
	fake_put(k, fake_at(shared, at[V8_SHARED_LITERAL]), (uint32_t)start, 4);
	fake_put(k, fake_at(bytecode, 8), fake_smi(32), 8);
	fake_put(k, fake_at(bytecode, at[V8_BYTECODE_LINES]), table, 8);
	return shared;
}

/* Lines of 10 characters. */
#define FAKE_SOURCE "012345678\n012345678\n012345678\n012345678\n012345678\n"

static inline void fake_script(struct fake *k)
{
	k->script = fake_new(k, k->r.offsets[V8_TYPE_SCRIPT], 128);
	fake_put(k, fake_at(k->script, 8), fake_string(k, FAKE_SOURCE), 8);
	fake_put(k, fake_at(k->script, 16), fake_string(k, "/srv/app.js"), 8);
	fake_put(k, fake_at(k->script, 64), fake_smi(7), 8);
}

/* Optimised code of `outer`, 256 bytes, with its data for deoptimization. */
static inline void fake_code(struct fake *k, uint64_t deopt, uint64_t lines,
	const uint8_t *metadata, uint32_t n_metadata)
{
	const uint16_t *at = k->r.offsets;
	bool is_one_object = at[V8_STREAM_CODE] == RUNTIME_NO_FIELD;
	uint64_t stream = fake_object(
		k, FAKE_CODE_PAGE + 0x800, at[is_one_object ? V8_TYPE_CODE : V8_TYPE_STREAM]);

	k->code = is_one_object ? stream : fake_new(k, at[V8_TYPE_CODE], 128);
	k->pc = stream - 1 + at[V8_STREAM_START];
	if (!is_one_object) {
		fake_put(k, fake_at(stream, at[V8_STREAM_CODE]), k->code, 8);
		fake_put(k, fake_at(k->code, at[V8_CODE_START]), k->pc, 8);
	}
	fake_put(k, fake_at(k->code, at[V8_CODE_DEOPT]), deopt, 8);
	fake_put(k, fake_at(k->code, at[V8_CODE_LINES]), lines, 8);
	fake_put(k, fake_at(k->code, at[V8_CODE_BYTES]), 256, 4);
	fake_put(k, fake_at(k->code, at[V8_CODE_BYTES] + 4U), n_metadata, 4);
	if (at[V8_CODE_FLAGS] != RUNTIME_NO_FIELD)
		fake_put(k, fake_at(k->code, at[V8_CODE_FLAGS]), at[V8_KIND_BASELINE] + 1U, 4);
	for (uint32_t i = 0; i < n_metadata; i++)
		fake_put(k, k->pc - FAKE_BASE + 256 + i, metadata[i], 1);
}

/* Version 12: inlining positions, and source positions of the code. Inner is called on line 3 of outer. */
static inline void fake_with_positions(struct fake *k)
{
	/* {source position, literal}: (22 + 1) << 1, not inlined itself */
	static const uint8_t inlining[16] = {46};
	/* code +1 (from -1), source 12 of outer; code +16, source 32 of inlined call 0 */
	static const uint8_t lines[] = {2, 52, 32, 0xd0, 0x80, 0x80, 0x80, 0x10};
	uint64_t deopt[9] = {0, fake_smi(1)}, literals = fake_array(k, &k->inner, 1);

	deopt[k->r.offsets[V8_DEOPT_LITERALS]] = literals;
	deopt[k->r.offsets[V8_DEOPT_SHARED]] = k->outer;
	deopt[k->r.offsets[V8_DEOPT_INLINING]] = fake_bytes(k, inlining, sizeof(inlining));
	fake_code(k, fake_array(k, deopt, 9), fake_bytes(k, lines, sizeof(lines)), NULL, 0);
}

/* Version 14: translations. The call that returns to 64, and the check at 90, are of inner, called by outer. */
static inline void fake_with_translations(struct fake *k)
{
	static const uint8_t translations[] = {
		14, 0, 4, 4, 1, 0, 2, 0, 2, 40, 2, 1, 4, 0, 0,
		2,				 /* outer at 0, a value, inner at 2 */
		14, 16, 4, 4, 46, 1, 6, 0, 0, 2, /* the first as before, inner at 3 */
	};
	static const uint8_t safepoints[] = {
		1, 0, 0, 0, 1, 0, 0, 0, 0xa1, 0, 0, 0, 0, 0, 0, 0, 64, 0, 1, 0, 0, 0};
	uint64_t literals[2] = {k->inner, k->outer},
		 deopt[18] = {fake_bytes(k, translations, sizeof(translations)), fake_smi(1)};
	static const uint8_t check[] = {0x0f, 0x84, 110, 0, 0, 0}; /* at 84, to exit 0 at 200 */

	deopt[k->r.offsets[V8_DEOPT_LITERALS]] = fake_array(k, literals, 2);
	deopt[k->r.offsets[V8_DEOPT_SHARED]] = k->outer;
	deopt[9] = fake_smi(200);
	deopt[10] = fake_smi(2);
	deopt[13] = fake_smi(0);
	deopt[16] = fake_smi(16);
	fake_code(k, fake_array(k, deopt, 18), 0, safepoints, sizeof(safepoints));
	for (uint32_t i = 0; i < sizeof(check); i++)
		fake_put(k, k->pc - FAKE_BASE + 84 + i, check[i], 1);
}

/* The code is outer's baseline code: bytecodes at 0, 2 (wide) and 6, whose instructions begin at 8, 24, 40. */
static inline void fake_make_baseline(struct fake *k)
{
	enum { N = 16, LENGTHS = 0x7000 };
	static const uint8_t code[] = {5, 0, 0, 6, 0, 0, 7, 0}, table[] = {8, 16, 16, 16},
			     lengths[] = {2, 3, 5};
	const uint16_t *at = k->r.offsets;
	uint64_t bytecode = 0;

	memcpy(&bytecode, k->bytes + fake_at(k->outer, at[V8_SHARED_DATA]), 8);
	fake_put(k, fake_at(bytecode, 8), fake_smi(sizeof(code)), 8);
	for (uint32_t i = 0; i < sizeof(code); i++)
		fake_put(k, fake_at(bytecode, at[V8_BYTECODE_START] + i), code[i], 1);
	for (uint32_t i = 0; i < 3 * N; i++)
		fake_put(k, LENGTHS + i, lengths[i / N], 1);
	k->r.addresses[V8_BYTECODE_LENGTHS] = FAKE_BASE + LENGTHS;
	k->r.offsets[V8_BYTECODES] = N;
	fake_put(k, fake_at(k->code, at[V8_CODE_DEOPT]), bytecode, 8);
	fake_put(k, fake_at(k->code, at[V8_CODE_LINES]), fake_bytes(k, table, sizeof(table)), 8);
}

static inline void fake_init(struct fake *k, uint32_t version)
{
	/* At 0 position 11 (line 2), at 2 and 3 positions 21, 31; older tables have no flag below the distance. */
	static const uint8_t flagged[] = {7, 48, 10, 40, 6, 40}, plain[] = {2, 48, 4, 40, 2, 40};
	const uint8_t *lines;

	memset(k, 0, sizeof(*k));
	k->next = FAKE_SCRIPT;
	k->m = (struct interp_memory) {.read = fake_read, .arg = k};
	fake_record(&k->r, version);
	lines = k->r.offsets[V8_LINES] == V8_LINES_FLAGGED ? flagged : plain;
	fake_script(k);
	k->outer = fake_function(k, "outer", 10, lines, sizeof(plain));
	k->inner = fake_function(k, "inner", 30, lines, sizeof(plain));
	if (RUNTIME_MAJOR(version) >= 13)
		fake_with_translations(k);
	else
		fake_with_positions(k);
}
