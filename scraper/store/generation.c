/* SPDX-License-Identifier: Apache-2.0
 *
 * Generations: begun with all cursors, sealed after a sync, written as one block, their WAL removed last.
 */
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "scraper/store/flush/flush.h"
#include "scraper/store/store_impl.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { FLUSH_RETRY_S = 10 };

void store_next_ulid(struct store *s, uint8_t ret[ULID_BYTES])
{
	lock_take(&s->state_lock);
	ulid_next(&s->ulids, age_clock_now_ns(&s->age), ret);
	lock_release(&s->state_lock);
}

static int write_cursors(struct store *s, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes all = {.data = NULL};
	uint64_t sequence;
	size_t n = 0;
	int r;

	cursors_expire(
		&s->cursors, age_clock_now_ns(&s->age) - CURSOR_KEEP_HOURS * 3600LL * NS_PER_S);
	cursors_put_all(&s->cursors, &all, &n);
	bytes_reset(&s->encoder.record);
	if (bytes_reserve(&s->encoder.record, WAL_RECORD_HEADER))
		s->encoder.record.len = WAL_RECORD_HEADER;
	record_begin(&s->encoder.record, RECORD_CURSORS, s->wal.synced_sequence);
	record_put_group(&s->encoder.record, &(struct record_group) {.tag = RECORD_RESTATED,
						     .n = (uint32_t)n,
						     .data = all.data,
						     .len = (uint32_t)all.len});
	r = all.error ? all.error : bytes_error(&s->encoder.record);
	r = r ? r : wal_reserve(&s->wal, s->encoder.record.len - WAL_RECORD_HEADER, true, eb);
	return r ? r : wal_write(&s->wal, &s->encoder.record, &sequence, eb);
}

int store_begin_generation(struct store *s, struct errbuf *eb)
{
	uint8_t generation[ULID_BYTES];
	struct head *h = NULL;
	int r;

	ASSERT_HELD(&s->append_lock);
	ASSERT(!s->head);
	store_next_ulid(s, generation);
	lock_take(&s->state_lock);
	r = head_new(generation, s->o.max_nodes, &s->head_budget, s->next_part_id++, &h);
	lock_release(&s->state_lock);
	if (r < 0)
		return err_set(eb, r, "no memory for a new generation: see --storage.head-bytes");
	h->created_ns = clock_monotonic_ns(s->clock);
	wal_begin_generation(&s->wal, generation);
	r = write_cursors(s, eb);
	if (r < 0) {
		part_put(&h->part);
		/* A segment that was begun for it holds nothing. */
		wal_begin_generation(&s->wal, generation);
		if (wal_remove_generation(&s->wal, generation) < 0)
			err_prefix(eb, r, "a segment stays behind");
		return r;
	}
	lock_take(&s->state_lock);
	s->head = h;
	lock_release(&s->state_lock);
	return 0;
}

bool store_rotation_due(struct store *s)
{
	struct head *h = s->head;

	if (!h || !h->profiles.n)
		return false;
	return head_bytes(h) >= s->o.head_bytes ||
	       clock_monotonic_ns(s->clock) - h->created_ns >= s->o.block_ns;
}

int store_add_sealed(struct store *s, struct head *h)
{
	int r;

	ASSERT_HELD(&s->append_lock);
	ASSERT(!h->sealed);
	lock_take(&s->state_lock);
	r = alloc_grow(&s->sealed, &s->cap_sealed, s->n_sealed + 1, sizeof(struct head *));
	if (!r) {
		h->sealed = true;
		s->sealed[s->n_sealed++] = h;
		if (s->head == h)
			s->head = NULL;
	}
	lock_release(&s->state_lock);
	return r;
}

int store_rotate(struct store *s, struct errbuf *eb)
{
	int r;

	ASSERT_HELD(&s->append_lock);
	if (s->head) {
		/* The next generation must not be on disk without the end of this one (wal.md, "Generations"). A failure is
		 * remembered in the WAL: then the block comes first. */
		r = wal_sync(&s->wal);
		r = store_add_sealed(s, s->head);
		if (r < 0)
			return err_set(eb, r, "out of memory sealing a generation");
	}
	if (s->wal.sync_failed)
		return err_set(eb, -EIO,
			"a sync of the WAL failed: the generation is written as a block first");
	return store_begin_generation(s, eb);
}

int store_add_obsolete(struct store *s, const uint8_t generation[ULID_BYTES])
{
	int r;

	lock_take(&s->state_lock);
	r = alloc_grow(&s->obsolete, &s->cap_obsolete, s->n_obsolete + 1, ULID_BYTES);
	if (!r)
		memcpy(s->obsolete[s->n_obsolete++], generation, ULID_BYTES);
	lock_release(&s->state_lock);
	return r;
}

/*
 * A segment that the disk did not give back whole may hold more than the block: it may be readable some day, or to somebody else. It has a
 * name in quarantine/ before the block stands for the log, since the next start may read all of it, see nothing wrong and remove it. Where
 * there are no links it is moved when the log is about to go (`is_last`).
 */
static int set_aside_unreadable(
	struct store *s, const uint8_t generation[ULID_BYTES], bool is_last, struct errbuf *eb)
{
	static const char reason[] = "the disk does not give back all of the WAL segment";
	uint64_t number;
	int r = 0;

	while (!r && wal_next_unreadable(&s->wal, generation, &number)) {
		_cleanup_free_ char *path = xasprintf("%s/%08" PRIu64, s->wal_dir, number),
				    *name = xasprintf("wal-%08" PRIu64, number);

		r = store_quarantine_link(s, path, name, reason);
		if (store_has_no_links(r) && !is_last)
			return 0;
		if (store_has_no_links(r))
			r = store_quarantine(s, path, name, reason);
		if (r == -ENOENT) /* moved before, when the directory could not be synced */
			r = 0;
		if (r < 0)
			return err_set(eb, r, "%s: cannot be set aside: %s", path, strerror(-r));
		wal_mark_unreadable(&s->wal, number, false);
	}
	return r;
}

int store_remove_obsolete(struct store *s, struct errbuf *eb)
{
	uint8_t generation[ULID_BYTES];
	int r;

	bool ready;

	/* The cursors must be durable in a generation that stays. */
	lock_take(&s->state_lock);
	ready = s->n_obsolete && s->head && !s->wal.sync_failed;
	lock_release(&s->state_lock);
	if (!ready)
		return 0;
	r = wal_sync(&s->wal);
	while (!r && s->n_obsolete) {
		memcpy(generation, s->obsolete[0], ULID_BYTES);
		r = set_aside_unreadable(s, generation, true, eb);
		if (r < 0)
			return r;
		r = wal_remove_generation(&s->wal, generation);
		if (r < 0)
			break;
		lock_take(&s->state_lock);
		s->n_obsolete--;
		memmove(s->obsolete[0], s->obsolete[1], s->n_obsolete * ULID_BYTES);
		lock_release(&s->state_lock);
	}
	return r < 0 ? err_set(eb, r, "cannot remove WAL segments: %s", strerror(-r)) : 0;
}

/* The block is durable and readable: it takes the head's place. */
static void replace_head(struct store *s, struct head *h, struct block *b)
{
	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_sealed; i++)
		if (s->sealed[i] == h) {
			s->n_sealed--;
			memmove(&s->sealed[i], &s->sealed[i + 1],
				(s->n_sealed - i) * sizeof(struct head *));
			break;
		}
	if (b) {
		s->blocks[s->n_blocks++] = b; /* room was made */
		s->stats.flushes++;
	}
	lock_release(&s->state_lock);
	part_put(&h->part);
}

static int make_room(struct store *s)
{
	int r;

	lock_take(&s->state_lock);
	r = alloc_grow(&s->blocks, &s->cap_blocks, s->n_blocks + 1, sizeof(struct block *));
	lock_release(&s->state_lock);
	return r;
}

int store_open_written(
	struct store *s, const uint8_t ulid[ULID_BYTES], struct block **ret, struct errbuf *eb)
{
	char text[ULID_TEXT];
	_cleanup_free_ char *dir = NULL;
	struct block *b = NULL;
	uint32_t id;
	int r;

	ulid_format(ulid, text);
	dir = xasprintf("%s/%s", s->block_dir, text);
	lock_take(&s->state_lock);
	id = s->next_part_id++;
	lock_release(&s->state_lock);
	r = block_open(s->fs, s->cache, dir, id, &b, eb);
	if (!r)
		r = block_verify(b, eb);
	if (r < 0) {
		/* Not what was written: what it was written from stays. */
		int removed;

		if (b)
			part_put(&b->part);
		removed = fs_remove_all(s->fs, dir);
		return err_prefix(eb, removed < 0 ? removed : r, "reading back a new block");
	}
	*ret = b;
	return 0;
}

static int write_block(struct store *s, struct head *h, struct block **ret, struct errbuf *eb)
{
	uint8_t ulid[ULID_BYTES];
	int r;

	store_next_ulid(s, ulid);
	r = flush_head(s->fs, s->block_dir, ulid, h, eb);
	return r < 0 ? r : store_open_written(s, ulid, ret, eb);
}

static int flush_one(struct store *s, struct head *h, struct errbuf *eb)
{
	uint8_t generation[ULID_BYTES];
	struct block *b = NULL;
	int r = make_room(s);

	memcpy(generation, h->generation, ULID_BYTES);
	r = r ? r : set_aside_unreadable(s, generation, false, eb);
	r = r ? r : write_block(s, h, &b, eb);
	if (r < 0 && r != -ENODATA)
		return r;
	r = store_add_obsolete(s, generation);
	if (r < 0) {
		if (b)
			part_put(&b->part);
		return r;
	}
	replace_head(s, h, b);
	return 0;
}

static struct head *first_sealed(struct store *s)
{
	struct head *h;

	lock_take(&s->state_lock);
	h = s->n_sealed ? s->sealed[0] : NULL;
	lock_release(&s->state_lock);
	return h;
}

int store_flush_sealed(struct store *s, struct errbuf *eb)
{
	struct head *h;
	int r = 0;

	while ((h = first_sealed(s)) != NULL) {
		r = flush_one(s, h, eb);
		if (r < 0) {
			lock_take(&s->state_lock);
			s->stats.flush_failures++;
			lock_release(&s->state_lock);
			s->flush_retry_ns = clock_monotonic_ns(s->clock) + FLUSH_RETRY_S * NS_PER_S;
			return err_prefix(eb, r, "writing a block");
		}
	}
	return r;
}
