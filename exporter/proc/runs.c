/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs come in sizes of powers of two mappings (and three halves of them), from free lists or the end of what was used so far.
 */
#include "exporter/proc/runs.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"
#include <string.h>

enum { N_SIZES = 32 };

/* A run that waits for its last reader. */
struct waiting {
	uint64_t run, until_ns;
};

struct runs {
	struct runs_memory m;
	uint32_t next_word; /* words above were never used */
	struct free_list {
		uint32_t *firsts;
		size_t n, cap;
	} lists[N_SIZES];
	struct waiting *waiting; /* ring of cap entries */
	size_t waiting_first, n_waiting, cap_waiting;
	uint64_t now_ns;
	uint32_t serial; /* of the last publication */
	struct runs_stats stats;
};

/* 1, 2, 3, 4, 6, 8, 12, 16, 24 … */
static uint32_t size_mappings(unsigned size)
{
	return size == 0 ? 1 : size % 2 ? 2U << (size / 2) : 3U << (size / 2 - 1);
}

static unsigned size_of(uint32_t n)
{
	unsigned size = 0;

	while (size_mappings(size) < n)
		size++;
	return size;
}

struct runs *runs_new(const struct runs_memory *m)
{
	struct runs *r = xcalloc(1, sizeof(*r));

	ASSERT(m->n_buckets && !(m->n_buckets & (m->n_buckets - 1)));
	r->m = *m;
	/* Run 0 says "none": word 0 is never given. */
	r->next_word = PROCESS_WORDS_PER_MAPPING;
	r->stats.n_words = m->n_words;
	return r;
}

void runs_freep(struct runs **rp)
{
	struct runs *r = *rp;

	if (!r)
		return;
	for (unsigned i = 0; i < N_SIZES; i++)
		free(r->lists[i].firsts);
	free(r->waiting);
	free(r);
	*rp = NULL;
}

static uint32_t take_words(struct runs *r, unsigned size)
{
	struct free_list *l = &r->lists[size];
	uint32_t n_words = size_mappings(size) * PROCESS_WORDS_PER_MAPPING, first;

	if (l->n)
		return l->firsts[--l->n];
	if (n_words > r->m.n_words - r->next_word)
		return 0;
	first = r->next_word;
	r->next_word += n_words;
	return first;
}

uint64_t runs_alloc(struct runs *r, uint32_t n, uint64_t **ret_words)
{
	unsigned size = size_of(n);
	uint32_t first = n && n <= PROCESS_MAX_MAPPINGS ? take_words(r, size) : 0;

	if (!first) {
		r->stats.no_words++;
		return 0;
	}
	r->stats.runs++;
	r->stats.words += size_mappings(size) * PROCESS_WORDS_PER_MAPPING;
	*ret_words = r->m.words + first;
	return PROCESS_RUN(first, n);
}

static bool grow_waiting(struct runs *r)
{
	size_t cap = r->cap_waiting ? 2 * r->cap_waiting : 64;
	struct waiting *grown;

	if (r->n_waiting < r->cap_waiting)
		return true;
	grown = try_malloc(cap * sizeof(*grown));
	if (!grown)
		return false;
	for (size_t i = 0; i < r->n_waiting; i++)
		grown[i] = r->waiting[(r->waiting_first + i) % r->cap_waiting];
	free(r->waiting);
	r->waiting = grown;
	r->waiting_first = 0;
	r->cap_waiting = cap;
	return true;
}

void runs_release(struct runs *r, uint64_t run)
{
	/* Without room to remember it the words are lost, which is better than to give them away too early. */
	if (!run || !grow_waiting(r))
		return;
	r->waiting[(r->waiting_first + r->n_waiting++) % r->cap_waiting] =
		(struct waiting) {.run = run, .until_ns = r->now_ns + PROCESS_GRACE_NS};
}

void runs_expire(struct runs *r, uint64_t now_ns)
{
	r->now_ns = MAX(r->now_ns, now_ns);
	while (r->n_waiting && r->waiting[r->waiting_first].until_ns <= now_ns) {
		uint64_t run = r->waiting[r->waiting_first].run;
		unsigned size = size_of(PROCESS_RUN_N(run));
		struct free_list *l = &r->lists[size];

		r->waiting_first = (r->waiting_first + 1) % r->cap_waiting;
		r->n_waiting--;
		r->stats.runs--;
		r->stats.words -= size_mappings(size) * PROCESS_WORDS_PER_MAPPING;
		if (alloc_grow(&l->firsts, &l->cap, l->n + 1, sizeof(*l->firsts)) == 0)
			l->firsts[l->n++] = PROCESS_RUN_FIRST(run);
	}
}

static struct process_bucket *bucket_of(const struct runs *r, uint32_t pid)
{
	return &r->m.buckets[pid & (r->m.n_buckets - 1)];
}

/* A row is written while its head does not have the flag. */
static uint32_t set_row(struct process_head *h, struct interp_process *to, uint64_t image,
	const struct interp_process *row)
{
	struct interp_process ours = *row;

	ours.image = image;
	if (h->flags & PROCESS_INTERP && memcmp(to, &ours, sizeof(ours)) == 0)
		return PROCESS_INTERP;
	__atomic_store_n(&h->flags, h->flags & ~(uint32_t)PROCESS_INTERP, __ATOMIC_SEQ_CST);
	/* A walk that saw the flag before may be reading: what it has is no row unless the image is right before and after. */
	__atomic_store_n(&to->image, 0, __ATOMIC_SEQ_CST);
	ours.image = 0;
	*to = ours;
	__atomic_store_n(&to->image, image, __ATOMIC_SEQ_CST);
	return PROCESS_INTERP;
}

bool runs_set(struct runs *r, uint32_t pid, uint64_t image, uint64_t run, uint32_t flags,
	const struct interp_process *row)
{
	struct process_bucket *b = bucket_of(r, pid);
	uint32_t i = process_claim(b, pid);
	struct process_head *h;

	if (i >= PROCESS_HEADS_PER_BUCKET) {
		r->stats.no_head++;
		return false;
	}
	h = &b->heads[i];
	if (h->image != image)
		process_begin(h, image);
	if (row && r->m.rows)
		flags |= set_row(h, &r->m.rows[b - r->m.buckets].rows[i], image, row);
	h->flags = flags | ++r->serial << PROCESS_SERIAL_SHIFT;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	process_set_run(h, image, run);
	return true;
}

uint64_t runs_image(const struct runs *r, uint32_t pid)
{
	const struct process_bucket *b = bucket_of(r, pid);
	uint32_t i = process_find(b, pid);

	return i < PROCESS_HEADS_PER_BUCKET ? b->heads[i].image : 0;
}

void runs_clear(struct runs *r, uint32_t pid, uint64_t image)
{
	struct process_bucket *b = bucket_of(r, pid);
	uint32_t i = process_find(b, pid);

	if (i >= PROCESS_HEADS_PER_BUCKET || b->heads[i].image != image)
		return;
	__atomic_store_n(&b->heads[i].run, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&b->heads[i].pid, 0, __ATOMIC_RELEASE);
}

void runs_stats(const struct runs *r, struct runs_stats *ret)
{
	*ret = r->stats;
}
