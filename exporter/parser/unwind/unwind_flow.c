/* SPDX-License-Identifier: Apache-2.0
 *
 * exporter/parser/unwind/unwind_flow.h. Candidates for functions are tried from the last to the first: targets of calls, addresses that code
 * takes, and the code behind a return or a jump. Each is followed with a list of work. Where ways meet, their states of the stack must
 * agree. An instruction is kept when a way leads from it to a return that restores the stack and the registers.
 *
 * Behind a call that does not return lies other code, the next function mostly. Nothing marks that. A way that goes on there
 * with its state of the stack reaches no such return: it contradicts the code there, and its end is dropped. Without a call
 * on the way a contradiction means that the candidate is no function.
 *
 * Parts of functions in assembly, which others call, run into each other with registers of their own. When the code shows that, all is
 * done again with unknown registers at the begin of such a part.
 *
 * Assembly calls its own functions without aligning the stack. A candidate that does the same may be one, or the midst of a function:
 * it is tried again once its callee is known to return.
 *
 * What leads to no return is tried last: threads that serve for ever, and what calls them. There the start must be a function's for other
 * reasons, and the way from there counts as far as control goes on for certain.
 */
#include "exporter/parser/unwind/unwind_flow.h"
#include "exporter/parser/unwind/flow_candidates.h"
#include "exporter/parser/unwind/flow_state.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/cleanup.h"
#include <stdlib.h>
#include <string.h>

enum {
	MAX_STATES = 8192,
	N_SLOTS = 2 * MAX_STATES,
	MAX_WORK = 4096,
	N_BITMAPS = 10,
	MAX_PASSES = 4,
	MAX_VISITED = 1 << 16, /* instructions of one candidate */
	MAX_EDGES = 3 * MAX_VISITED / 2,
	MAX_TABLE = 1024, /* targets of one jump */
	N_SAMPLES = 4,
	SAMPLE_BYTES = 16 << 10,
	ENOUGH_FOLLOWED = 1 << 14, /* instructions that show whether it is, */
	FEW_KEPT = 16,		   /* one kept of so many */
	STEPS_PER_BYTE = 4,	   /* of all candidates together, each time */
};

/* state_at[]: number of a state, and whether it is of the candidate under way. */
enum {
	UNKNOWN = 0,
	ENTRY = 1,
	NO_FP = UNWIND_FLOW_NO_FP,
	INSIDE = 0x7ffe,
	TAKEN = 0x7fff,
	UNDER_WAY = 0x8000
};
_Static_assert((int)MAX_STATES < (int)NO_FP, "numbers");

struct work {
	uint32_t at, from, state;
	bool after_call;
};

/* Control goes from one instruction to another; both are numbers of bytes. */
struct edge {
	uint32_t from, to;
};

struct unwind_flow {
	struct unwind_flow_code c;
	size_t room;
	uint16_t *state_at;
	uint32_t visited[MAX_VISITED]; /* first bytes of the candidate's instructions */
	struct edge edges[MAX_EDGES];
	bool is_followed; /* or else state_at[] is not set */
	bool is_called;	  /* the candidate is */
	/* Sets of bytes of the code, in memory one after the other. */
	uint64_t *called;  /* targets of calls */
	uint64_t *pointed; /* addresses that code takes or symbols name */
	uint64_t *maybe;   /* candidates, with these */
	uint64_t *proven;  /* a return is reached from there, or they are reached from such code */
	uint64_t *ends;	   /* instructions of candidates from which a return is reached */
	uint64_t *calls;   /* control may not come back from there */
	uint64_t *shared;  /* candidates that other code goes on to with registers of its own */
	uint64_t *returns; /* instructions of candidates that return */
	uint64_t *hoping;  /* none, but what they call may still turn out to return */
	uint64_t *taken;   /* known otherwise */
	bool has_shared, has_returns; /* new ones */
	bool hopes, comes_back;	      /* the candidate under way does */
	bool is_endless;	      /* what leads to no return is tried */
	size_t start, end; /* the candidate's, as far as another function is known to begin there */
	bool has_aligned; /* the candidate under way has a call with an aligned stack, behind no other */
	size_t n_followed, n_kept; /* instructions */
	size_t n_visited, n_edges, n_work, n_later;
	struct work work[MAX_WORK];
	struct work later[MAX_WORK]; /* behind calls, which may not return: after what is surer */
	struct flow_state states[MAX_STATES]; /* [0] unused */
	uint16_t slots[N_SLOTS];
	unsigned n_states;
	uint64_t steps;
};

/* One way through the code. */
struct way {
	uint32_t at, from;
	struct flow_state s;
	unsigned number;  /* of s; 0: to be looked up */
	bool after_call;  /* there was one, which may not return */
	uint64_t table;	  /* address taken last; 0: none */
	int64_t compared; /* the number compared with last */
};
enum { NOWHERE = UINT32_MAX };

struct unwind_flow *unwind_flow_new(void)
{
	return try_calloc(1, sizeof(struct unwind_flow));
}

static void free_arrays(struct unwind_flow *f)
{
	free(f->state_at);
	free(f->called);
}

void unwind_flow_freep(struct unwind_flow **f)
{
	if (*f) {
		free_arrays(*f);
		free(*f);
	}
	*f = NULL;
}

static uint32_t hash_of(const struct flow_state *s)
{
	uint64_t h = (uint32_t)s->height;

	for (int i = 0; i < 2; i++)
		h = ((h ^ (uint32_t)s->held[i]) * 0x9e3779b97f4a7c15ULL ^ (uint32_t)s->saved[i]) *
		    0x9e3779b97f4a7c15ULL;
	return (uint32_t)(h >> 40) % N_SLOTS;
}

/* The number of a state; 0: there is no room. */
static unsigned number_of(struct unwind_flow *f, const struct flow_state *s)
{
	uint32_t slot = hash_of(s);

	for (; f->slots[slot]; slot = (slot + 1) % N_SLOTS)
		if (memcmp(&f->states[f->slots[slot]], s, sizeof(*s)) == 0)
			return f->slots[slot];
	if (f->n_states == MAX_STATES)
		return 0;
	f->states[f->n_states] = *s;
	f->slots[slot] = (uint16_t)f->n_states;
	return f->n_states++;
}

static int make_room(struct unwind_flow *f, size_t n)
{
	if (f->called && n <= f->room)
		return 0;
	free_arrays(f);
	f->room = 0;
	f->state_at = try_realloc(NULL, n + 1, sizeof(*f->state_at));
	f->called = try_realloc(NULL, N_BITMAPS * bits_words(n), sizeof(*f->called));
	if (!f->state_at || !f->called)
		return -ENOMEM;
	f->room = n;
	return 0;
}

int unwind_flow_begin(struct unwind_flow *f, const struct unwind_flow_code *code)
{
	const struct flow_state entry = {.height = FLOW_WORD};
	size_t words = bits_words(code->n);
	int r = code->n > UNWIND_FLOW_BYTES ? -E2BIG : make_room(f, code->n);

	if (r < 0)
		return r;
	f->c = *code;
	f->pointed = f->called + words;
	f->maybe = f->pointed + words;
	f->proven = f->maybe + words;
	f->ends = f->proven + words;
	f->calls = f->ends + words;
	f->shared = f->calls + words;
	f->returns = f->shared + words;
	f->hoping = f->returns + words;
	f->taken = f->hoping + words;
	memset(f->called, 0, N_BITMAPS * words * sizeof(*f->called));
	f->is_followed = f->is_endless = false;
	for (unsigned i = ENTRY; i < f->n_states; i++)
		for (uint32_t slot = hash_of(&f->states[i]); f->slots[slot];
			slot = (slot + 1) % N_SLOTS)
			f->slots[slot] = 0;
	f->n_states = ENTRY;
	f->steps = 0;
	(void)number_of(f, &entry);
	return 0;
}

void unwind_flow_take(struct unwind_flow *f, size_t at, size_t n)
{
	for (size_t i = at; i < f->c.n && i < at + n; i++)
		bits_set(f->taken, i);
}

unsigned unwind_flow_at(const struct unwind_flow *f, size_t at)
{
	if (!f->is_followed)
		return 0;
	while (f->state_at[at] == INSIDE)
		at--;
	return f->state_at[at] == TAKEN ? 0 : f->state_at[at];
}

size_t unwind_flow_next(const struct unwind_flow *f, size_t at)
{
	unsigned number = unwind_flow_at(f, at);

	if (!f->is_followed)
		return f->c.n;
	for (at++; at < f->c.n; at++)
		if (f->state_at[at] != INSIDE && f->state_at[at] != number)
			return at;
	return at;
}

struct unwind_rule unwind_flow_rule(const struct unwind_flow *f, unsigned number)
{
	return number == NO_FP ? (struct unwind_rule) {.cfa = UNWIND_CFA_NO_FP}
			       : flow_rule(&f->states[number]);
}

/* Where there is no room a way is not followed: what is reached by it alone stays unknown. */
static void put(
	struct unwind_flow *f, struct work *list, size_t *n, int64_t at, const struct way *w)
{
	unsigned number = w->number ? w->number : number_of(f, &w->s);

	if (at < 0 || (uint64_t)at >= f->c.n || !number || *n == MAX_WORK)
		return;
	list[(*n)++] = (struct work) {(uint32_t)at, w->at, number, w->after_call};
}

static void put_work(struct unwind_flow *f, int64_t at, const struct way *w)
{
	put(f, f->work, &f->n_work, at, w);
}

/* A way goes on from `from` to w->at. */
static enum flow_verdict put_edge(struct unwind_flow *f, const struct way *w)
{
	if (w->from == NOWHERE)
		return FLOW_ON;
	if (f->n_edges == MAX_EDGES)
		return FLOW_FAIL;
	f->edges[f->n_edges++] = (struct edge) {w->from, w->at};
	return FLOW_ON;
}

/* Where a way contradicts what is known. */
static enum flow_verdict contradicts(const struct way *w)
{
	return w->after_call ? FLOW_END : FLOW_FAIL;
}

/* At an instruction that this candidate has met before. */
static enum flow_verdict meet(struct unwind_flow *f, struct way *w, unsigned there)
{
	struct flow_state s = f->states[there];
	unsigned number;

	if (!flow_merge(&s, &w->s))
		return contradicts(w);
	number = number_of(f, &s);
	if (!number || put_edge(f, w) != FLOW_ON)
		return FLOW_FAIL;
	if (number == there)
		return FLOW_END;
	f->state_at[w->at] = (uint16_t)(number | UNDER_WAY);
	w->s = s;
	w->number = number;
	return FLOW_ON;
}

static void note_shared(struct unwind_flow *f, const struct way *w, const struct flow_state *known)
{
	if (flow_differs_in_registers(known, &w->s) && !bits_has(f->shared, w->at)) {
		bits_set(f->shared, w->at);
		f->has_shared = true;
	}
}

/* Arrives at an instruction. FLOW_END: what the way says is known there, or it is not followed. */
static enum flow_verdict arrive(struct unwind_flow *f, struct way *w)
{
	uint16_t there = f->state_at[w->at], known_as = there & ~UNDER_WAY;

	if (!w->number)
		w->number = number_of(f, &w->s);
	if (!w->number)
		return FLOW_FAIL;
	if (there == TAKEN)
		return FLOW_END;
	if (known_as == INSIDE)
		return contradicts(w);
	if (there == UNKNOWN) {
		if (f->n_visited == MAX_VISITED)
			return FLOW_FAIL;
		f->state_at[w->at] = (uint16_t)(w->number | UNDER_WAY);
		f->visited[f->n_visited++] = w->at;
		return put_edge(f, w);
	}
	if (there & UNDER_WAY)
		return meet(f, w, known_as);
	if (!flow_says_no_more(&f->states[known_as], &w->s)) {
		note_shared(f, w, &f->states[known_as]);
		return contradicts(w);
	}
	f->comes_back |= bits_has(f->returns, w->at);
	if (w->from != NOWHERE && bits_has(f->ends, w->at))
		bits_set(f->proven, w->from);
	return FLOW_END;
}

/* Bytes of an instruction that is new; false: it overlaps with another. */
static bool cover(struct unwind_flow *f, uint32_t at, uint8_t bytes)
{
	for (uint32_t i = at + 1; i < at + bytes; i++) {
		if (f->state_at[i] != UNKNOWN && f->state_at[i] != (INSIDE | UNDER_WAY))
			return false;
		f->state_at[i] = INSIDE | UNDER_WAY;
	}
	return true;
}

/* Target i of a jump by table, as an offset: `table` is an address, of distances from itself or of addresses. */
static int64_t target_at(
	const struct unwind_flow *f, const uint8_t *p, uint64_t table, bool is_distances, int64_t i)
{
	uint64_t address;
	int32_t distance;

	if (is_distances) {
		memcpy(&distance, p + i * (int64_t)sizeof(distance), sizeof(distance));
		address = table + (uint64_t)(int64_t)distance;
	} else {
		memcpy(&address, p + i * (int64_t)sizeof(address), sizeof(address));
	}
	return (int64_t)(address - f->c.vaddr);
}

/*
 * A jump by a table. Of distances from the table itself, as position-independent code has it, whose address was taken some
 * instructions before; or of addresses. The index was compared with the last one before. What does not lead to code from first to
 * last is no such table, and where the jump goes is not known.
 */
static bool put_table(struct unwind_flow *f, const struct way *w, uint64_t table, bool is_distances)
{
	int64_t n = w->compared + 1;
	size_t left = 0;
	const uint8_t *p =
		n <= 0 || n > MAX_TABLE || !f->c.data ? NULL : f->c.data(f->c.ctx, table, &left);

	if (!p || (uint64_t)n * (is_distances ? sizeof(int32_t) : sizeof(uint64_t)) > left)
		return false;
	for (int64_t i = 0; i < n; i++)
		if ((uint64_t)target_at(f, p, table, is_distances, i) >= f->c.n)
			return false;
	for (int64_t i = 0; i < n; i++)
		put_work(f, target_at(f, p, table, is_distances, i), w);
	return true;
}

/* To code that is not looked at. What was called leaves the return to whom it jumps to, when all is as it was found. */
static enum flow_verdict leave(struct unwind_flow *f, const struct way *w)
{
	if (f->is_called && flow_is_clean(&w->s))
		bits_set(f->proven, w->at);
	return FLOW_END;
}

static enum flow_verdict go_to(struct unwind_flow *f, struct way *w, int64_t target)
{
	if (target < 0 || (uint64_t)target >= f->c.n)
		return leave(f, w);
	w->from = w->at;
	w->at = (uint32_t)target;
	return FLOW_ON;
}

/* A part of a function in assembly that other parts call may use registers as it likes: who called saved them. */
static bool is_part(const struct unwind_flow *f, const struct flow_state *s)
{
	return f->is_called && s->height == FLOW_WORD &&
	       (s->held[FLOW_FP] == FLOW_CALLERS ||
		       (s->held[FLOW_FP] == FLOW_OTHER && !s->saved[FLOW_FP])) &&
	       (s->held[FLOW_BX] == FLOW_CALLERS || !s->saved[FLOW_BX]);
}

static enum flow_verdict come_back(
	struct unwind_flow *f, const struct way *w, const struct x86_insn *i)
{
	if (i->value || (!flow_is_clean(&w->s) && !is_part(f, &w->s)))
		return contradicts(w);
	f->comes_back = true;
	bits_set(f->proven, w->at);
	return FLOW_END;
}

/* Is that a call of something in this code that returns, and to here? Behind a call that does not return the next function begins. */
static bool returns(struct unwind_flow *f, const struct way *w, const struct x86_insn *i)
{
	size_t next = w->at + i->bytes;
	int64_t target = (int64_t)next + i->value;

	if (i->kind != X86_CALL || target < 0 || (uint64_t)target >= f->c.n ||
		(f->c.vaddr + next) % FLOW_ALIGNMENT == 0 || flow_skip_padding(&f->c, next) != next)
		return false;
	f->hopes |= !bits_has(f->returns, (size_t)target);
	return bits_has(f->returns, (size_t)target);
}

/*
 * Is the code behind that call the same function's, whether the call returns or not? It is where no function can begin: compilers align
 * those. Behind padding only a call that is known to return says so.
 */
static bool goes_on(const struct unwind_flow *f, const struct way *w, const struct x86_insn *i)
{
	size_t next = w->at + i->bytes, behind = flow_skip_padding(&f->c, next);
	int64_t target = (int64_t)next + i->value;

	if (behind <= f->start || behind >= f->end)
		return false; /* parts of many functions lie behind each other elsewhere */
	if (behind == next && (f->c.vaddr + next) % FLOW_ALIGNMENT)
		return true;
	return i->kind == X86_CALL && target >= 0 && (uint64_t)target < f->c.n &&
	       bits_has(f->returns, (size_t)target);
}

/* Is that a call of a function of this code which has been followed? */
static bool is_followed(const struct unwind_flow *f, const struct way *w, const struct x86_insn *i)
{
	int64_t target = (int64_t)w->at + i->bytes + i->value;

	return i->kind == X86_CALL && target >= 0 && (uint64_t)target < f->c.n &&
	       f->state_at[target] == ENTRY;
}

/*
 * The stack is aligned where a function is called (System V ABI, 3.2.2): code in the midst of another function shows by that. Assembly
 * does not align it for functions of its own, nor do compilers for callees that they know.
 */
static enum flow_verdict call(struct unwind_flow *f, struct way *w, const struct x86_insn *i)
{
	bool is_aligned = w->s.height == FLOW_LOST || w->s.height % FLOW_ALIGNMENT == 0;

	if (flow_asks_where(&f->c, w->at, i))
		return flow_push(&w->s, X86_NONE);
	if (!is_aligned && returns(f, w, i))
		return FLOW_ON;
	if (!is_aligned && !(f->is_endless && is_followed(f, w, i)))
		return contradicts(w);
	f->has_aligned |= !w->after_call;
	if (f->is_endless && goes_on(f, w, i))
		return FLOW_ON;
	if (!is_aligned)
		return FLOW_END;
	bits_set(f->calls, w->at);
	w->after_call = true;
	put(f, f->later, &f->n_later, (int64_t)w->at + i->bytes, w);
	return FLOW_END;
}

/* Where control goes. FLOW_ON: on at w->at. */
static enum flow_verdict go(struct unwind_flow *f, struct way *w, const struct x86_insn *i)
{
	int64_t next = (int64_t)w->at + i->bytes;
	enum flow_verdict v = FLOW_ON;

	switch (i->kind) {
	case X86_RETURN: return come_back(f, w, i);
	case X86_STOP: return FLOW_END;
	case X86_JUMP: return go_to(f, w, next + i->value);
	case X86_BRANCH: put_work(f, next + i->value, w); break;
	case X86_JUMP_ANY:
		return w->table && put_table(f, w, w->table, true) ? FLOW_END : leave(f, w);
	case X86_JUMP_TABLE: put_table(f, w, (uint64_t)i->value, false); return FLOW_END;
	case X86_CALL:
	case X86_CALL_ANY: v = call(f, w, i); break;
	case X86_ADDRESS: w->table = f->c.vaddr + (uint64_t)next + (uint64_t)i->value; break;
	case X86_COMPARE: w->compared = i->value; break;
	default: break;
	}
	return v == FLOW_ON ? go_to(f, w, next) : v;
}

/* May it change what is known of the stack? */
static bool changes(const struct x86_insn *i)
{
	return i->writes || (i->kind >= X86_PUSH && i->kind <= X86_LEAVE) || i->kind == X86_CALL;
}

static enum flow_verdict follow(struct unwind_flow *f, struct way w)
{
	enum flow_verdict v = arrive(f, &w);

	while (v == FLOW_ON) {
		struct x86_insn i;

		if (f->steps++ > (uint64_t)f->c.n * STEPS_PER_BYTE)
			return FLOW_FAIL;
		flow_decode(&f->c, w.at, &i);
		if (i.kind == X86_BAD || !cover(f, w.at, i.bytes))
			return contradicts(&w);
		if (changes(&i))
			w.number = 0;
		v = flow_apply(&w.s, &i);
		if (v == FLOW_FAIL)
			return contradicts(&w);
		if (v == FLOW_ON)
			v = go(f, &w, &i);
		if (v == FLOW_ON)
			v = arrive(f, &w);
	}
	return v;
}

/* One more instruction is proven; false: it was. */
static bool set_proven(struct unwind_flow *f, uint32_t at)
{
	bool is_new = !bits_has(f->proven, at);

	bits_set(f->proven, at);
	return is_new;
}

/*
 * From the returns back and, if asked for, from what is proven on to where control goes but for calls that may not return, until nothing
 * more is found. Edges were found along the ways, so few rounds do, each in that order for the one and against it for the other.
 */
static void find_proven(struct unwind_flow *f, bool forward)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; forward && i < f->n_edges; i++) {
			const struct edge *e = &f->edges[i];

			if (bits_has(f->proven, e->from) && !bits_has(f->calls, e->from))
				more |= set_proven(f, e->to);
		}
		for (size_t i = f->n_edges; i-- > 0;) {
			const struct edge *e = &f->edges[i];

			if (bits_has(f->proven, e->to))
				more |= set_proven(f, e->from);
		}
	}
}

static void prove(struct unwind_flow *f, size_t start)
{
	find_proven(f, false);
	for (size_t i = 0; i < f->n_visited; i++)
		if (bits_has(f->proven, f->visited[i]))
			bits_set(f->ends, f->visited[i]);
	if (f->is_endless && (f->is_called || f->has_aligned))
		bits_set(f->proven, start);
	find_proven(f, true);
}

/* Keeps an instruction of the candidate, or forgets it. */
static void mark(struct unwind_flow *f, uint32_t at, bool keep)
{
	uint16_t *p = &f->state_at[at];

	do {
		*p = keep ? (uint16_t)(*p & ~UNDER_WAY) : UNKNOWN;
		p++;
	} while (p < f->state_at + f->c.n && *p == (INSIDE | UNDER_WAY));
}

static void try_candidate(struct unwind_flow *f, size_t start)
{
	const struct flow_state shared = {.height = FLOW_WORD, .held = {FLOW_OTHER, FLOW_OTHER}};
	unsigned state = bits_has(f->shared, start) ? number_of(f, &shared) : ENTRY;
	enum flow_verdict v = FLOW_END;

	f->n_visited = f->n_edges = f->n_work = f->n_later = 0;
	f->hopes = f->comes_back = f->has_aligned = false;
	f->is_called = bits_has(f->called, start);
	f->work[f->n_work++] = (struct work) {(uint32_t)start, NOWHERE, state, false};
	while (state && f->n_work + f->n_later && v != FLOW_FAIL) {
		const struct work *next =
			f->n_work ? &f->work[--f->n_work] : &f->later[--f->n_later];

		v = follow(f, (struct way) {.at = next->at,
				      .from = next->from,
				      .s = f->states[next->state],
				      .number = next->state,
				      .after_call = next->after_call,
				      .compared = -1});
	}
	if (v != FLOW_FAIL)
		prove(f, start);
	for (size_t i = 0; i < f->n_visited; i++) {
		bool keep = v != FLOW_FAIL && bits_has(f->proven, f->visited[i]);

		mark(f, f->visited[i], keep);
		bits_clear(f->proven, f->visited[i]);
		bits_clear(f->calls, f->visited[i]);
		f->n_kept += keep;
		if (keep && f->comes_back) {
			bits_set(f->returns, f->visited[i]);
			f->has_returns = true;
		}
	}
	f->n_followed += f->n_visited;
	if (f->hopes && f->state_at[start] == UNKNOWN)
		bits_set(f->hoping, start);
}

static void forget_all(struct unwind_flow *f)
{
	memset(f->state_at, 0, f->c.n * sizeof(*f->state_at));
	for (size_t at = f->c.n; (at = bits_last(f->taken, at)) && at--;)
		f->state_at[at] = TAKEN;
}

/* Of `which`, until `enough` instructions were followed. */
static void try_candidates(struct unwind_flow *f, const uint64_t *which, size_t enough)
{
	f->has_shared = f->has_returns = false;
	f->steps = 0;
	f->n_followed = f->n_kept = 0;
	for (size_t at = f->c.n; f->n_followed < enough && (at = bits_last(which, at)) && at--;)
		if (f->state_at[at] == UNKNOWN)
			try_candidate(f, at);
}

/* Where the next function begins, as far as calls and addresses say. */
static size_t next_function(const struct unwind_flow *f, size_t at)
{
	while (at < f->c.n && !bits_has(f->called, at) && !bits_has(f->pointed, at))
		at++;
	return at;
}

/*
 * What leads to no return, as far as it is called, named or its address is taken where functions are aligned. Compilers write a function before
 * those that call it, so most passes find all.
 */
static void try_endless(struct unwind_flow *f)
{
	size_t n_kept = SIZE_MAX;

	f->is_endless = true;
	f->steps = f->n_kept = 0;
	for (int pass = 0; pass < MAX_PASSES && n_kept != f->n_kept; pass++) {
		n_kept = f->n_kept;
		for (size_t at = (0 - f->c.vaddr) % FLOW_ALIGNMENT; at < f->c.n;
			at += FLOW_ALIGNMENT)
			if (f->state_at[at] == UNKNOWN &&
				(bits_has(f->called, at) || bits_has(f->pointed, at))) {
				f->start = at;
				f->end = next_function(f, at + 1);
				try_candidate(f, at);
			}
	}
	f->is_endless = false;
}

/*
 * What was followed and is not known: does it keep a frame pointer? It does if its function begins with one. Where functions begin is
 * known by calls and addresses; otherwise the begin must look like one, for loops and the ends of functions are aligned too.
 */
static void mark_without_frame_pointer(struct unwind_flow *f)
{
	bool is_without = false;

	for (size_t at = 0; at < f->c.n; at++) {
		bool is_aligned = (f->c.vaddr + at) % FLOW_ALIGNMENT == 0,
		     is_named = bits_has(f->called, at) || (is_aligned && bits_has(f->pointed, at));

		if (is_named || (is_aligned && bits_has(f->maybe, at))) {
			enum flow_prologue prologue = flow_prologue_at(&f->c, at);

			if (is_named || at == 0 || prologue != FLOW_NO_FRAME)
				is_without = prologue != FLOW_FRAME_POINTER;
		}
		if (is_without && f->state_at[at] == UNKNOWN)
			f->state_at[at] = NO_FP;
	}
}

/*
 * Is there no use in following it, as parts of it say? There frame pointers are kept, or hardly anything is found: then it is code of
 * another kind, that of V8's built-in functions for one.
 */
static bool is_of_no_use(struct unwind_flow *f, const struct flow_candidates *c)
{
	for (size_t i = 0; i < N_SAMPLES; i++) {
		size_t at = f->c.n / N_SAMPLES * i;

		flow_candidates_find(c, at, MIN(f->c.n, at + SAMPLE_BYTES));
	}
	if (flow_candidates_keep_frame_pointers(c))
		return true;
	forget_all(f);
	try_candidates(f, f->maybe, ENOUGH_FOLLOWED);
	if (f->n_followed >= ENOUGH_FOLLOWED && f->n_kept < f->n_followed / FEW_KEPT)
		return true;
	/* A sample may begin in the midst of an instruction: what it says of single places does not count. */
	memset(f->called, 0, (N_BITMAPS - 1) * bits_words(f->c.n) * sizeof(*f->called));
	return false;
}

static void note_named(struct unwind_flow *f)
{
	uint64_t at = f->c.vaddr, end = f->c.vaddr + f->c.n;

	for (; f->c.next_named && (at = f->c.next_named(f->c.ctx, at)) < end; at++) {
		bits_set(f->pointed, (size_t)(at - f->c.vaddr));
		bits_set(f->maybe, (size_t)(at - f->c.vaddr));
	}
}

void unwind_flow_run(struct unwind_flow *f)
{
	const struct flow_candidates c = {&f->c, f->maybe, f->called, f->pointed};

	if (f->c.n > (size_t)N_SAMPLES * SAMPLE_BYTES && is_of_no_use(f, &c))
		return;
	flow_candidates_find(&c, 0, f->c.n);
	note_named(f);
	f->is_followed = true;
	forget_all(f);
	try_candidates(f, f->maybe, SIZE_MAX);
	for (int i = 1; (f->has_shared || f->has_returns) && i < MAX_PASSES; i++) {
		bool all = f->has_shared;

		if (all) /* with less known where such code begins: it may go on to more of the kind */
			forget_all(f);
		try_candidates(f, all ? f->maybe : f->hoping, SIZE_MAX);
	}
	try_endless(f);
	mark_without_frame_pointer(f);
}
