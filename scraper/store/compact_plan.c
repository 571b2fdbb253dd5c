/* SPDX-License-Identifier: Apache-2.0
 *
 * When what is compacted: three blocks of one level, oldest first, become one of the next, as long as it does not span more than a tenth
 * of the retention; a block with deletions is written anew alone. One block takes the place of the others in one step; they are removed
 * after it was read back, with their last reader.
 */
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "scraper/store/compact/compact.h"
#include "scraper/store/store_impl.h"
#include <inttypes.h>
#include <string.h>

enum { FAN = 3, RETRY_MINUTES = 10, MAX_RANGE_DAYS = 31, RANGE_SHARE = 10, MAX_IDS_MI = 2048 };

struct plan {
	struct block *inputs[FAN];
	size_t n;
	uint32_t level;
	uint64_t bytes;
};

static int64_t max_range_ns(const struct store *s)
{
	int64_t days = MAX_RANGE_DAYS * 86400LL * NS_PER_S;

	return s->retention_ns == INT64_MAX
		       ? days
		       : MIN(days, MAX(s->retention_ns / RANGE_SHARE, FAN * s->o.block_ns));
}

static bool is_candidate(const struct store *s, const struct block *b)
{
	return !b->damaged && b->compact_retry_ns <= clock_monotonic_ns(s->clock) &&
	       !store_is_obsolete_pending(s, b);
}

static int by_time(const void *a, const void *b)
{
	const struct meta *x = &(*(struct block *const *)a)->meta,
			  *y = &(*(struct block *const *)b)->meta;

	if (x->min_time_ns != y->min_time_ns)
		return x->min_time_ns < y->min_time_ns ? -1 : 1;
	return memcmp(x->ulid, y->ulid, ULID_BYTES);
}

/* Ids of the result must fit. */
static bool fits(const struct plan *p)
{
	const uint64_t max = (uint64_t)MAX_IDS_MI << 20;
	uint64_t nodes = 0, strings = 0, streams = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct meta_stats *s = &p->inputs[i]->meta.stats;

		nodes += s->nodes;
		strings += s->strings + s->locations + s->label_sets;
		streams += s->streams;
	}
	return nodes < max && strings < max && streams < max;
}

static bool is_run(const struct store *s, struct block *const *b, struct plan *p)
{
	int64_t min = INT64_MAX, max = INT64_MIN, range;

	*p = (struct plan) {.n = FAN, .level = b[0]->meta.level + 1};
	for (size_t i = 0; i < FAN; i++) {
		p->inputs[i] = b[i];
		p->bytes += meta_bytes(&b[i]->meta);
		min = MIN(min, b[i]->meta.min_time_ns);
		max = MAX(max, b[i]->meta.max_time_ns);
	}
	/* Blocks are what retention deletes: no one of them may be most of it. */
	if (s->retention_bytes && p->bytes > s->retention_bytes / RANGE_SHARE)
		return false;
	return !__builtin_sub_overflow(max, min, &range) && range <= max_range_ns(s) && fits(p);
}

/* The lowest level with a run; sorted[0 .. n) by time. */
static bool find_run(const struct store *s, struct block **sorted, size_t n, struct plan *ret)
{
	struct block *level[FAN];
	uint32_t highest = 0;

	for (size_t i = 0; i < n; i++)
		highest = MAX(highest, sorted[i]->meta.level);
	for (uint32_t l = 1; l <= highest; l++) {
		size_t k = 0;

		for (size_t i = 0; i < n; i++) {
			if (sorted[i]->meta.level != l)
				continue;
			if (k == FAN) {
				memmove(level, level + 1, (FAN - 1) * sizeof(*level));
				k--;
			}
			level[k++] = sorted[i];
			if (k == FAN && is_run(s, level, ret))
				return true;
		}
	}
	return false;
}

/* Takes references. 1: there is one. */
static int make_plan(struct store *s, bool deletions_only, struct plan *ret)
{
	_cleanup_free_ struct block **sorted = NULL;
	size_t n = 0;
	bool found = false;

	lock_take(&s->state_lock);
	sorted = try_realloc(NULL, s->n_blocks, sizeof(struct block *));
	for (size_t i = 0; sorted && !found && i < s->n_blocks; i++) {
		struct block *b = s->blocks[i];

		if (!is_candidate(s, b))
			continue;
		sorted[n++] = b;
		found = b->meta.tombstones.n > 0;
		if (found)
			*ret = (struct plan) {.inputs = {b},
				.n = 1,
				.level = b->meta.level,
				.bytes = meta_bytes(&b->meta)};
	}
	if (sorted && !found && !deletions_only && n) {
		qsort(sorted, n, sizeof(struct block *), by_time);
		found = find_run(s, sorted, n, ret);
	}
	for (size_t i = 0; found && i < ret->n; i++)
		part_get(&ret->inputs[i]->part);
	lock_release(&s->state_lock);
	return sorted ? found : -ENOMEM;
}

static void put_plan(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		part_put(&p->inputs[i]->part);
}

/* The head must not wait for a long compaction. */
static int tick(void *arg)
{
	struct store *s = arg;
	struct errbuf eb = {.text = ""};
	int r;

	if (s->cancelled)
		return -ECANCELED;
	r = store_flush_locked(s, false, &eb);
	if (r < 0)
		LOG_RATED(LOG_ERROR, "store: %s", err_text(&eb, r));
	return 0;
}

static size_t place_of(const struct store *s, const struct block *b)
{
	size_t i = 0;

	while (i < s->n_blocks && s->blocks[i] != b)
		i++;
	return i;
}

/* `b` (NULL: nothing is left) takes the place of the inputs. */
static void replace_blocks(struct store *s, const struct plan *p, struct block *b)
{
	struct block *gone[FAN];
	size_t n_gone = 0;

	lock_take(&s->state_lock);
	for (size_t i = 0; i < p->n; i++) {
		size_t at = place_of(s, p->inputs[i]);

		if (at == s->n_blocks)
			continue;
		gone[n_gone++] = s->blocks[at];
		memmove(&s->blocks[at], &s->blocks[at + 1],
			(--s->n_blocks - at) * sizeof(struct block *));
	}
	if (b)
		s->blocks[s->n_blocks++] = b; /* in the place of an input */
	s->stats.compactions++;
	s->stats.compacted_blocks += p->n;
	lock_release(&s->state_lock);
	for (size_t i = 0; i < n_gone; i++)
		store_doom(s, gone[i]);
}

/* A disk that is nearly full is left to the log: ingest goes before tidiness. */
static int check_room(struct store *s, const struct plan *p, struct errbuf *eb)
{
	const uint64_t need = p->bytes + p->bytes / 2 + 2 * s->o.segment_bytes;
	uint64_t free_bytes = 0;

	if (s->fs->free_bytes(s->fs, s->block_dir, &free_bytes) < 0 || free_bytes > need)
		return 0;
	return err_set(eb, -ENOSPC,
		"not enough free space: %" PRIu64 " MiB, and %" PRIu64
		" MiB are needed, most of it for the log",
		free_bytes >> 20, (need >> 20) + 1);
}

static int write_block(struct store *s, const struct plan *p, struct block **ret, struct errbuf *eb)
{
	struct compact_options o = {
		.fs = s->fs,
		.dir = s->block_dir,
		.budget = &s->compact_budget,
		.inputs = p->inputs,
		.n_inputs = p->n,
		.level = p->level,
		.rollups = p->level > 1,
		.keep_all = s->o.all_rollups,
		.without = (const char *const *)s->rollup_without,
		.n_without = s->n_rollup_without,
		.tick = tick,
		.arg = s,
	};
	int r;

	store_next_ulid(s, o.ulid);
	r = compact_write(&o, eb);
	r = r ? r : block_commit(s->fs, s->block_dir, o.ulid, eb);
	return r ? r : store_open_written(s, o.ulid, ret, eb);
}

static void note_failure(struct store *s, const struct plan *p)
{
	lock_take(&s->state_lock);
	s->stats.compaction_failures++;
	for (size_t i = 0; i < p->n; i++)
		p->inputs[i]->compact_retry_ns =
			clock_monotonic_ns(s->clock) + RETRY_MINUTES * 60LL * NS_PER_S;
	lock_release(&s->state_lock);
}

/* With nothing left of a block there is none that stands for what it replaced: a reader may still hold that, and it would be back after a death. */
static bool replaced_remain(struct store *s, const struct plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct meta_ulids *u = &p->inputs[i]->meta.replaces;

		for (size_t k = 0; k < u->n; k++) {
			char text[ULID_TEXT];
			_cleanup_free_ char *path = NULL;
			struct fs_stat st;

			ulid_format(u->items[k], text);
			path = xasprintf("%s/%s", s->block_dir, text);
			if (s->fs->stat(s->fs, path, &st) != -ENOENT)
				return true;
		}
	}
	return false;
}

static int run(struct store *s, bool deletions_only, struct errbuf *eb)
{
	struct plan p = {.n = 0};
	struct block *b = NULL;
	int r;

	block_graves_clear(
		&s->graves); /* what stands for nothing any more is gone before something does */
	r = make_plan(s, deletions_only, &p);
	if (r <= 0)
		return r < 0 ? err_set(eb, r, "out of memory planning a compaction") : 0;
	r = check_room(s, &p, eb);
	r = r ? r : write_block(s, &p, &b, eb);
	if (r == -ENODATA && replaced_remain(s, &p))
		r = err_set(eb, -EAGAIN, "blocks that were replaced are still read");
	if (!r || r == -ENODATA)
		replace_blocks(s, &p, b);
	else if (r != -ECANCELED)
		note_failure(s, &p);
	put_plan(&p);
	block_graves_clear(&s->graves);
	if (r == -ECANCELED)
		return 0;
	return r < 0 && r != -ENODATA ? err_prefix(eb, r, "compaction") : 1;
}

int store_compact_once(struct store *s, struct errbuf *eb)
{
	ASSERT_HELD(&s->maintain_lock);
	return s->cancelled ? 0 : run(s, false, eb);
}

int store_rewrite_once(struct store *s, struct errbuf *eb)
{
	ASSERT_HELD(&s->maintain_lock);
	return s->cancelled ? 0 : run(s, true, eb);
}

void store_cancel(struct store *s)
{
	s->cancelled = true;
}

static int until_done(
	struct store *s, int (*step)(struct store *s, struct errbuf *eb), struct errbuf *eb)
{
	int r;

	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	lock_take(&s->maintain_lock);
	r = store_settle_deletion(s, eb);
	while (!r && (r = step(s, eb)) > 0) {
		store_quarantine_damaged(s);
		r = 0;
	}
	store_quarantine_damaged(s);
	lock_release(&s->maintain_lock);
	if (!r && s->cancelled)
		return err_set(eb, -ECANCELED, "the store is being closed: not all is done");
	return r;
}

int store_compact(struct store *s, struct errbuf *eb)
{
	return until_done(s, store_compact_once, eb);
}

int store_clean_tombstones(struct store *s, struct errbuf *eb)
{
	return until_done(s, store_rewrite_once, eb);
}
