/* SPDX-License-Identifier: Apache-2.0
 *
 * Translations (src/deoptimizer/translation-opcode.h of V8, 13.x and 14.x) and safepoints (src/codegen/safepoint-table.h). A translation is
 * a program of operations with varint operands; it may take operations from the one that it says it follows.
 */
#include "exporter/interp/v8_deopt.h"

enum operation {
	INTERPRETED_WITH_RETURN,
	INTERPRETED,
	BUILTIN_CONTINUATION,
	BUILTIN_CONTINUATION_WITH_CATCH,
	N_FRAME_OPERATIONS, /* of JavaScript */
	INLINED_EXTRA_ARGUMENTS = 10,
	BEGIN_WITHOUT_FEEDBACK = 14,
	BEGIN_WITH_FEEDBACK,
	MATCH_PREVIOUS = 44,
	N_OPERATIONS, /* larger bytes are MATCH_PREVIOUS with the number in them */
	MAX_STEPS = 4096,
};

/* Operands by operation: frames; stub frames and arguments; begin; values, of which a concatenation, what was optimised away and
 * lengths have none; feedback. */
static const uint8_t n_operands[N_OPERATIONS] = {6, 4, 3, 3, 2, 1, 3, 4, 3, 3, 2, 1, 0, 0, 3, 3, 1,
	1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 2, 1};

struct program {
	struct cursor all, at,
		before; /* `before`: in the translation that operations are taken from */
	uint32_t n_from_before, n_since;
	uint32_t n_extra_operands;
};

static uint32_t varint(struct cursor *c)
{
	uint64_t v = cursor_varint(c);

	if (v > UINT32_MAX)
		cursor_fail(c);
	return c->error ? 0 : (uint32_t)v;
}

/* The sign is bit 0. */
static int32_t signed_of(uint32_t v)
{
	return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

static unsigned operands_of(const struct program *p, uint8_t operation)
{
	return operation == INLINED_EXTRA_ARGUMENTS ? p->n_extra_operands : n_operands[operation];
}

static uint32_t next_operand(struct program *p)
{
	return varint(p->n_from_before ? &p->before : &p->at);
}

static uint8_t operation_before(struct program *p)
{
	uint8_t operation = cursor_u8(&p->before);

	if (operation >= MATCH_PREVIOUS)
		cursor_fail(&p->before);
	return p->before.error ? 0 : operation;
}

/* An operation stands for some of the other translation, from where this one has come to. */
static uint8_t match_before(struct program *p)
{
	for (uint32_t i = 0; i < p->n_since && !p->before.error; i++) {
		unsigned n = operands_of(p, operation_before(p));

		while (n--)
			varint(&p->before);
	}
	p->n_since = 0;
	return operation_before(p);
}

static uint8_t next_operation(struct program *p)
{
	size_t off = cursor_off(&p->at);
	uint8_t operation;

	if (p->n_from_before && --p->n_from_before)
		return operation_before(p);
	operation = cursor_u8(&p->at);
	if (operation >= MATCH_PREVIOUS) {
		p->n_from_before = operation == MATCH_PREVIOUS ? varint(&p->at)
							       : operation - (uint32_t)N_OPERATIONS;
		if (!p->n_from_before)
			cursor_fail(&p->at);
		return match_before(p);
	}
	p->n_since++;
	if (operation == BEGIN_WITHOUT_FEEDBACK || operation == BEGIN_WITH_FEEDBACK) {
		struct cursor c = p->at;
		uint32_t back = varint(&c);

		p->before = p->all;
		if (back > off)
			cursor_fail(&p->at);
		else if (back)
			cursor_skip(&p->before, off - back);
		else
			cursor_fail(&p->before); /* nothing may be taken */
		p->n_since = 1;
	}
	return operation;
}

/* The rest of a frame's operands, behind where it is and whose. */
static void skip_operands(struct program *p, unsigned n)
{
	while (n--)
		next_operand(p);
}

int v8_translate(const uint8_t *bytes, size_t n, uint32_t at, uint32_t n_extra_operands,
	struct v8_translated *frames, size_t max)
{
	struct program p = {.all = cursor_of(bytes, n), .n_extra_operands = n_extra_operands};
	uint8_t operation;
	int32_t n_frames, n_seen = 0;
	size_t done = 0;

	p.at = p.all;
	cursor_skip(&p.at, at);
	operation = next_operation(&p);
	if (operation != BEGIN_WITHOUT_FEEDBACK && operation != BEGIN_WITH_FEEDBACK)
		return -EBADMSG;
	skip_operands(&p, 2);
	n_frames = signed_of(next_operand(&p));
	if (p.at.error || n_frames <= 0)
		return -EBADMSG;
	for (unsigned i = 0; i < MAX_STEPS && n_seen < n_frames && done < max; i++) {
		operation = next_operation(&p);
		if (p.at.error || (p.n_from_before && p.before.error))
			return -EBADMSG;
		if (operation >= N_FRAME_OPERATIONS) {
			skip_operands(&p, operands_of(&p, operation));
			continue;
		}
		n_seen++;
		frames[done].offset = signed_of(next_operand(&p));
		frames[done].literal = (uint32_t)signed_of(next_operand(&p));
		done += operation < BUILTIN_CONTINUATION;
		skip_operands(&p, operands_of(&p, operation) - 2);
	}
	return (n_seen == n_frames || done == max) && !p.at.error ? (int)done : -EBADMSG;
}

/* The table's header: slots, entries, then a word with the sizes of an entry's fields; Maglev has a word more and a byte more an entry. */
enum { HEADER_BYTES = 12, MAGLEV_HEADER_BYTES = 16, MAX_FIELD_BYTES = 4 };

bool v8_safepoints_of(const uint8_t *bytes, size_t n, bool is_maglev, struct v8_safepoints *ret)
{
	struct cursor c = cursor_of(bytes, n);
	uint32_t sizes;

	cursor_u32(&c);
	ret->n_left = cursor_u32(&c);
	sizes = cursor_u32(&c);
	cursor_skip(&c, is_maglev ? MAGLEV_HEADER_BYTES - HEADER_BYTES : 0);
	ret->c = c;
	ret->rest_bytes = (sizes >> 1 & 7) + is_maglev;
	ret->code_bytes = sizes >> 4 & 7;
	ret->deopt_bytes = sizes >> 7 & 7;
	return !c.error && sizes & 1 && ret->code_bytes && ret->code_bytes <= MAX_FIELD_BYTES &&
	       ret->deopt_bytes && ret->deopt_bytes <= MAX_FIELD_BYTES;
}

bool v8_safepoints_next(struct v8_safepoints *s, struct v8_safepoint *ret)
{
	if (!s->n_left)
		return false;
	s->n_left--;
	ret->code = (uint32_t)cursor_le(&s->c, s->code_bytes);
	ret->deopt = (uint32_t)cursor_le(&s->c, s->deopt_bytes) - 1;
	cursor_skip(&s->c,
		s->code_bytes + s->rest_bytes); /* and where it goes when it is deoptimised */
	return !s->c.error;
}

/* Each exit is a call of 4 bytes. */
enum { EXIT_BYTES = 4, JUMP_BYTES = 6 };

bool v8_next_check(
	struct cursor code, uint32_t exits, uint32_t n_exits, uint32_t *at, uint32_t *ret_exit)
{
	cursor_skip(&code, *at);
	for (; cursor_left(&code) >= JUMP_BYTES; cursor_skip(&code, 1)) {
		struct cursor c = code;
		uint32_t target;

		if (cursor_u8(&c) != 0x0f || (cursor_u8(&c) & 0xf0) != 0x80) /* jcc rel32 */
			continue;
		target = cursor_u32(&c);
		target += (uint32_t)cursor_off(&c);
		if (target < exits || (target - exits) % EXIT_BYTES ||
			(target - exits) / EXIT_BYTES >= n_exits)
			continue;
		*at = (uint32_t)cursor_off(&c);
		*ret_exit = (target - exits) / EXIT_BYTES;
		return true;
	}
	return false;
}
