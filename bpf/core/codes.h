/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Code objects of language runtimes (struct abi_code): user space hears of each one before the first sample that has it, and again when
 * another object lies at its address.
 */
#pragma once
#include "bpf/core/scratch.h"
#include "bpf/interp/check.h"

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* rings, set at load */
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps") __weak;

/* Objects have 44 bits; machine code has its address, and one of the bits below or both. */
struct code_key {
	__u64 image, object;
};
#define CODE_KEY_MACHINE (1ULL << 63)
#define CODE_KEY_EXACT (1ULL << 62)

enum { CODE_MAX_TOLD = 128 }; /* in one sample; the next one tells of the others */

struct code_seen {
	__u64 check;
	__u64 told_ns;
	__u64 generation; /* in which it was read; 0: it is read each time */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set at load */
	__type(key, struct code_key);
	__type(value, struct code_seen);
} interp_codes SEC(".maps") __weak;

struct code_telling {
	struct scratch *s;
	void *ring;
	__u64 now_ns;
	bool has_room; /* half the ring is for samples */
	/* Of the object that is told. */
	__u64 word, context;
	__u64 object; /* as in the record */
	__u16 flags;  /* enum abi_code_flags */
};

static long context_turn(__u32 i, struct code_telling *t)
{
	(void)i;
	return interp_ruby_look_turn(&t->s->walk, &t->s->interp,
		ABI_INTERP_OBJECT(t->word) << ABI_INTERP_ADDRESS_SHIFT, &t->context);
}

/* The ring of this CPU. Half of it is for samples. */
static __always_inline bool code_find_ring(struct code_telling *t)
{
	__u32 group = record_of(t->s)->cpu / ABI_CPUS_PER_RING;

	t->ring = bpf_map_lookup_elem(&rings, &group);
	if (!t->ring)
		return false;
	t->has_room = bpf_ringbuf_query(t->ring, BPF_RB_AVAIL_DATA) <
		      bpf_ringbuf_query(t->ring, BPF_RB_RING_SIZE) / 2;
	return true;
}

/* To the ring: 0, or negative when it had no room, or what the object ran for is to be looked for in the next sample. */
static __always_inline long code_tell(struct code_telling *t, __u64 check)
{
	const struct abi_record *r = record_of(t->s);
	struct abi_code *code = &t->s->code;

	code->type = ABI_RECORD_CODE;
	code->event = r->event;
	code->flags = t->flags;
	code->cpu = r->cpu;
	code->time_ns = r->time_ns;
	code->start_ns = r->start_ns;
	code->pid = r->pid;
	code->exec_id = r->exec_id;
	code->object = t->object;
	code->check = check;
	code->context = t->context;
	/* A method in C has its class itself. */
	if (t->s->interp.layout.has_context && ABI_INTERP_POSITION(t->word) != ABI_INTERP_BEYOND) {
		interp_ruby_look(&t->s->interp);
		bpf_loop(INTERP_RUBY_MAX_LOOKS + 1, context_turn, t, 0);
		if (interp_ruby_looked_all(&t->s->interp))
			return -1;
		code->context = t->context;
	}

	return bpf_ringbuf_output(t->ring, code, sizeof(*code), BPF_RB_NO_WAKEUP);
}

/* The name of what is new is read from the process, which may not live long: user space is woken. What is told again has time. */
static __always_inline void code_is_told(struct scratch *s, bool is_new)
{
	s->interp.n_told++;
	if (is_new)
		s->is_first = 1;
}

/*
 * The machine code of the frame that the walk is at. in->function is the check; that of the function itself, or of HotSpot's method,
 * is the context. It is told at once, since its word does not say whose it is. Verified once, by itself.
 */
UNWIND_ALONE int code_tell_machine(struct scratch *s)
{
	struct code_telling t = {.s = s, .flags = ABI_CODE_MACHINE};
	struct code_key key = {};
	struct code_seen now = {}, *seen;
	struct interp *in;
	__u64 function;
	bool is_new;

	if (!s)
		return 0;
	in = &s->interp;
	t.object = in->machine;
	key.image = s->image;
	key.object = in->machine | CODE_KEY_MACHINE;
	if (s->walk.exact) {
		key.object |= CODE_KEY_EXACT;
		t.flags |= ABI_CODE_EXACT;
	}
	now.check = in->function;
	now.told_ns = record_of(s)->time_ns;
	seen = bpf_map_lookup_elem(&interp_codes, &key);
	is_new = !seen || seen->check != now.check;
	if (USUAL(!is_new && now.told_ns - seen->told_ns < ABI_CODE_AGAIN_NS))
		return 0;
	/* A later reader learns by it whether that function is still there. */
	function = in->layout.kind == INTERP_HOTSPOT ? in->function >> INTERP_HOTSPOT_ID_BITS
						     : in->function;
	if (function &&
		!interp_check(&s->walk, in, ABI_INTERP(function >> ABI_INTERP_ADDRESS_SHIFT, 0)))
		t.context = in->check;
	if (in->n_told >= CODE_MAX_TOLD || !code_find_ring(&t) || !t.has_room ||
		code_tell(&t, now.check)) {
		in->n_untold++;
		return 0;
	}
	code_is_told(s, is_new);
	bpf_map_update_elem(&interp_codes, &key, &now, BPF_ANY);
	return 0;
}

/* One word of the stack. What the ring has no room for counts as not seen: the next sample with it tries again. */
static long code_turn(__u32 i, struct code_telling *t)
{
	struct interp *in = &t->s->interp;
	struct code_key key = {.image = t->s->image};
	struct code_seen now = {.generation = in->generation, .told_ns = t->now_ns}, *seen;
	bool is_new, is_again;
	__u64 word;

	if (i >= ABI_MAX_USER_WORDS)
		return 1;
	word = t->s->words[(record_of(t->s)->n_kernel & UNWIND_BASE_MASK) + i];
	if (ABI_FRAME_KIND(word) != ABI_FRAME_INTERP)
		return 0;
	key.object = ABI_INTERP_OBJECT(word);
	seen = bpf_map_lookup_elem(&interp_codes, &key);
	is_again = seen && t->now_ns - seen->told_ns >= ABI_CODE_AGAIN_NS;
	if (USUAL(seen && !is_again && now.generation && seen->generation == now.generation))
		return 0;
	if (interp_check(&t->s->walk, in, word)) {
		in->n_untold++;
		return 0;
	}
	now.check = in->check;
	is_new = !seen || seen->check != now.check;
	if (USUAL(!is_new && !is_again)) {
		seen->generation = now.generation;
		return 0;
	}
	t->word = word;
	t->context = 0;
	t->object = key.object;
	if (in->n_told >= CODE_MAX_TOLD || !t->has_room || code_tell(t, now.check)) {
		in->n_untold++;
		return 0;
	}
	code_is_told(t->s, is_new);
	bpf_map_update_elem(&interp_codes, &key, &now, BPF_ANY);
	return 0;
}

/* Before the record with these words is sent. Verified once, by itself. */
UNWIND_ALONE int codes_tell(struct scratch *s)
{
	struct code_telling t = {.s = s};

	if (!s)
		return 0;
	/* Of a process of V8's or HotSpot's many threads run none of it: such a stack is a native one, which may be copied. */
	if (s->walk.has_interp == WALK_HAS_FRAMES && !s->interp.is_met) {
		s->walk.has_interp = WALK_HAS_NONE;
		return 0;
	}
	t.now_ns = record_of(s)->time_ns;
	interp_ruby_look_begin(&s->interp);
	if (!code_find_ring(&t))
		return 0;
	bpf_loop(record_of(s)->n_user, code_turn, &t, 0);
	return 0;
}
