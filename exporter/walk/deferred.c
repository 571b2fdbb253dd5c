/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker over a copied stack. Its memory is the copy alone: what lies elsewhere (code, heap, other stacks) is not there.
 */
#include "exporter/walk/deferred.h"
#include "bpf/process/heads.h"
#include "bpf/unwind/walker.h"
#include "lib/base/alloc.h"
#include <string.h>

/* Between the end of a symbol file's making and its table in memory. */
#define MIN_WAIT_NS (400 * NS_PER_MS)

/* One sample and its stack, waiting. */
struct waiting {
	struct waiting *next;
	uint64_t until_ns;
	size_t bytes;
	struct abi_stack
		*stack; /* both lie behind this; NULL: none came with it, or it is of no use */
	struct abi_record *record;
};

struct deferred {
	struct deferred_options o;
	struct waiting *first, **last;
	/* the walk under way */
	struct walk walk;
	const struct abi_stack *stack;
	struct process *process;
	uint64_t time_ns;
	__u64 spare[ABI_USER_TAIL_WORDS];
	/* the last stack copy that came, and the record under construction */
	uint64_t copy[(sizeof(struct abi_stack) + ABI_MAX_STACK_BYTES) / sizeof(uint64_t)];
	bool has_copy;
	uint64_t record[sizeof(struct abi_record) / sizeof(uint64_t) + ABI_MAX_WORDS + 1];
	struct deferred_stats stats;
};

static struct deferred *deferred_of(struct walk *w)
{
	return (struct deferred *)(void *)((char *)w - offsetof(struct deferred, walk));
}

/* The walker's hooks (bpf/unwind/hooks.h). */

static struct unwind_binary *unwind_binary_at(struct walk *w, __u32 binary)
{
	const struct deferred_tables *t = &deferred_of(w)->o.tables;

	return binary < t->n_binaries ? &t->binaries[binary] : NULL;
}

static const __u32 *unwind_slab_at(struct walk *w, __u32 slab)
{
	const struct deferred_tables *t = &deferred_of(w)->o.tables;

	return slab < t->n_slabs ? t->slabs + (size_t)slab * UNWIND_SLAB_WORDS : NULL;
}

static const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 rule)
{
	const struct deferred_tables *t = &deferred_of(w)->o.tables;

	return rule < t->n_rules ? &t->rules[rule] : NULL;
}

/* Few stacks come here, each once. */
static struct unwind_answer *unwind_cache_at(struct walk *w, __u32 i)
{
	(void)w, (void)i;
	return NULL;
}

static struct unwind_near *unwind_near_at(struct walk *w)
{
	(void)w;
	return NULL;
}

/* A copy has the stack alone, and frames of languages lie elsewhere. */
static int unwind_interp(struct walk *w, __u64 *words)
{
	(void)w, (void)words;
	return 0;
}

static int unwind_own_step(struct walk *w, enum unwind_place place)
{
	(void)w, (void)place;
	return 0;
}

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	const struct abi_stack *s = deferred_of(w)->stack;
	uint64_t at = from - s->regs[UNWIND_SP];

	if (at > s->bytes || bytes > s->bytes - at)
		return -1;
	memcpy(to, (const uint8_t *)(s + 1) + at, bytes);
	return 0;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	struct deferred *d = deferred_of(w);
	uint64_t word = proc_locate(d->o.procs, d->process, addr, d->time_ns);
	uint32_t flags;

	if (ABI_FRAME_KIND(word) == ABI_FRAME_NATIVE) {
		w->binary = ABI_NATIVE_BINARY(word);
		w->off = ABI_NATIVE_OFF(word);
		proc_note_native(d->o.procs, d->process, word);
		return UNWIND_IN_FILE;
	}
	if (!word)
		return UNWIND_IN_DATA;
	flags = proc_flags(d->process);
	return flags & PROCESS_JIT_NO_FP   ? UNWIND_IN_JIT_NO_FP
	       : flags & PROCESS_JIT_FP	   ? UNWIND_IN_JIT_FP
	       : flags & PROCESS_JIT_CHAIN ? UNWIND_IN_JIT_CHAIN
					   : UNWIND_IN_JIT;
}

struct deferred *deferred_new(const struct deferred_options *o)
{
	struct deferred *d = xcalloc(1, sizeof(*d));

	d->o = *o;
	d->last = &d->first;
	return d;
}

/* Takes the oldest out of the queue. */
static void drop_first(struct deferred *d)
{
	struct waiting *w = d->first;

	d->first = w->next;
	if (!d->first)
		d->last = &d->first;
	d->stats.waiting--;
	d->stats.waiting_bytes -= w->bytes;
	if (d->o.budget)
		budget_release(d->o.budget, w->bytes);
	free(w);
}

void deferred_freep(struct deferred **dp)
{
	struct deferred *d = *dp;

	if (!d)
		return;
	while (d->first)
		drop_first(d);
	free(d);
	*dp = NULL;
}

void deferred_stack(struct deferred *d, const struct abi_stack *s)
{
	memcpy(d->copy, s, sizeof(*s) + s->bytes);
	d->has_copy = true;
}

/* The registers of the copy, as the walker starts from them. */
static void begin(struct deferred *d, const struct abi_record *r)
{
	struct walk *w = &d->walk;

	walk_init(w, r->n_kernel);
	w->pc = d->stack->pc;
	memcpy(w->regs, d->stack->regs, sizeof(d->stack->regs));
	w->known = UNWIND_ALL_REGS;
	w->exact = !(r->flags & ABI_FLAG_FIRST_IS_RETURN);
}

/* Walks into d->record; d->walk then has the walker's needs. */
static struct abi_record *walk_copy(
	struct deferred *d, const struct abi_record *r, const struct abi_stack *s)
{
	struct abi_record *out = (struct abi_record *)(void *)d->record;
	__u64 *words = out->frames;

	memcpy(out, r, sizeof(*r) + r->n_kernel * sizeof(r->frames[0]));
	d->stack = s;
	d->time_ns = r->time_ns;
	begin(d, r);
	while (!walk_turn(&d->walk, words))
		;
	out->n_user = (__u16)frames_end(&d->walk.frames, words, d->spare, d->walk.cut);
	return out;
}

static bool is_cut(const struct abi_record *r)
{
	return r->n_user &&
	       ABI_FRAME_KIND(r->frames[r->n_kernel + r->n_user - 1]) == ABI_FRAME_TRUNCATED;
}

static void go_on(struct deferred *d, const struct abi_record *r, const struct abi_stack *s)
{
	if (s && r->flags & ABI_FLAG_SHADOW && d->o.shadow)
		d->o.shadow(d->o.ctx, r, s);
	d->o.sample(d->o.ctx, r, d->process);
}

/* The better of two: the walk in the kernel has not run out of a copy, but knew fewer tables. */
static void finish(struct deferred *d, const struct abi_record *came,
	const struct abi_record *walked, const struct abi_stack *s)
{
	bool cut = d->walk.cut != ABI_CUT_NONE;

	d->stats.given_up += cut && d->walk.lacks;
	d->stats.cut += cut && !d->walk.lacks;
	d->stats.whole += !cut;
	if (cut && (!is_cut(came) || came->n_user > walked->n_user))
		walked = came;
	go_on(d, walked, s);
}

static bool enqueue(struct deferred *d, const struct abi_record *r, const struct abi_stack *s)
{
	size_t stack_bytes = s ? (sizeof(*s) + s->bytes + 7) & ~(size_t)7 : 0;
	size_t record_bytes = sizeof(*r) + (r->n_kernel + (size_t)r->n_user) * sizeof(r->frames[0]);
	size_t bytes = sizeof(struct waiting) + stack_bytes + record_bytes;
	struct waiting *w;

	if (d->o.budget && budget_charge(d->o.budget, bytes, NULL) < 0) {
		d->stats.no_room++;
		return false;
	}
	w = try_malloc(bytes);
	if (!w) {
		if (d->o.budget)
			budget_release(d->o.budget, bytes);
		d->stats.no_room++;
		return false;
	}
	*w = (struct waiting) {.until_ns = r->time_ns + d->o.max_wait_ns, .bytes = bytes};
	w->stack = s ? (struct abi_stack *)(void *)(w + 1) : NULL;
	w->record = (struct abi_record *)(void *)((char *)(w + 1) + stack_bytes);
	if (s)
		memcpy(w->stack, s, sizeof(*s) + s->bytes);
	memcpy(w->record, r, record_bytes);
	*d->last = w;
	d->last = &w->next;
	d->stats.waiting++;
	d->stats.waiting_bytes += bytes;
	return true;
}

/* Is a table missing that may still come? */
static bool is_worth_waiting(const struct deferred *d, uint64_t waited_ns)
{
	return d->walk.lacks && d->walk.lacking &&
	       (waited_ns < MIN_WAIT_NS || binary_is_coming(d->o.binaries, d->walk.lacking));
}

/* Its process was asked about, and the answer may still come. A walk may ask too. */
static enum proc_wait awaits_process(struct deferred *d, const struct abi_record *r)
{
	return proc_table_awaits(d->o.procs, d->process, r);
}

/* The copy that came with the sample; NULL: none. */
static const struct abi_stack *take_copy(struct deferred *d, const struct abi_record *r)
{
	const struct abi_stack *s = (const struct abi_stack *)(const void *)d->copy;

	if (!(r->flags & (ABI_FLAG_COPIED | ABI_FLAG_SHADOW)) || !d->has_copy ||
		s->time_ns != r->time_ns || s->cpu != r->cpu)
		return NULL;
	d->has_copy = false;
	return s;
}

/* True when it went on; false when that may be worth more later, unless `is_last`. */
static bool try_now(struct deferred *d, const struct abi_record *r, const struct abi_stack *s,
	uint64_t waited_ns, bool is_last)
{
	const struct abi_record *walked;
	enum proc_wait wait;

	d->process = proc_table_of_record(d->o.procs, r);
	wait = awaits_process(d, r);
	if (wait == PROC_AWAITED && !is_last)
		return false;
	if (!s || !(r->flags & ABI_FLAG_COPIED)) {
		d->stats.unread += wait != PROC_READY;
		go_on(d, r, s);
		return true;
	}
	walked = walk_copy(d, r, s);
	/* The walk may have asked for more. */
	if (!is_last && (is_worth_waiting(d, waited_ns) || awaits_process(d, r) == PROC_AWAITED))
		return false;
	d->stats.unread += wait != PROC_READY;
	finish(d, r, walked, s);
	return true;
}

void deferred_sample(struct deferred *d, const struct abi_record *r)
{
	const struct abi_stack *s = take_copy(d, r);

	if (!try_now(d, r, s, 0, false) && !enqueue(d, r, s))
		try_now(d, r, s, 0, true);
}

/* True when it went on. */
static bool retry(struct deferred *d, struct waiting *w, uint64_t now_ns)
{
	return try_now(d, w->record, w->stack, now_ns - w->record->time_ns, now_ns >= w->until_ns);
}

uint64_t deferred_retry(struct deferred *d, uint64_t now_ns)
{
	while (d->first && retry(d, d->first, now_ns))
		drop_first(d);
	return d->first ? MIN(now_ns, d->first->record->time_ns - 1) : now_ns;
}

void deferred_stats(const struct deferred *d, struct deferred_stats *ret)
{
	*ret = d->stats;
}
