/* SPDX-License-Identifier: Apache-2.0
 *
 * What an administrator asks of the store: deleting series, and snapshots.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block_read.h"
#include "scraper/store/deletions.h"
#include "scraper/store/store_impl.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- deletion ---- */

/* Whether the last tombstone covers any profile of the block that is there. */
static int covers_any(struct block *b, const struct tombstones *t, struct errbuf *eb)
{
	_cleanup_part_reader_ struct part_reader *r = NULL;
	const struct tombstone *last = &t->items[t->n - 1];
	const struct tombstones one = {.items = &t->items[t->n - 1], .n = 1};
	_cleanup_(deletions_done)
	struct deletions d = {.streams = NULL};
	const struct part_stream *streams = NULL;
	int x = part_reader_open(&b->part, NULL, &r, eb);

	if (x < 0)
		return x;
	x = part_streams(r, &streams);
	if (x < 0)
		return err_set(eb, x, "%s", part_reader_error(r));
	x = deletions_make(r, streams, &one, &d, eb);
	for (uint32_t i = 0; !x && i < part_reader_info(r)->n_streams; i++) {
		struct part_profiles p;

		if (!streams[i].n_profiles || !deletions_touch(&d, i))
			continue;
		x = part_profiles(r, i, last->min_time_ns, last->max_time_ns, &p);
		x = x < 0 ? err_set(eb, x, "%s", part_reader_error(r)) : p.n > 0;
	}
	return x;
}

/* meta.json is replaced in one step, and the block opened anew takes the place of the one before. */
static int replace_meta(struct store *s, struct block *b, struct tombstones *t, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/meta.json", b->dir);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	struct block *fresh = NULL;
	struct meta m = b->meta;
	uint32_t id;
	int r;

	m.tombstones = *t;
	r = meta_write(&m, &text);
	r = r ? r : fs_write_file(s->fs, path, text.data, text.len, 0640, eb);
	pthread_mutex_lock(&s->state_lock);
	id = s->next_part_id++;
	pthread_mutex_unlock(&s->state_lock);
	r = r ? r : block_open(s->fs, s->cache, b->dir, id, &fresh, eb);
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++)
		if (s->blocks[i] == b)
			s->blocks[i] = fresh;
	pthread_mutex_unlock(&s->state_lock);
	part_put(&b->part);
	return 0;
}

/* 1: the block had some. */
static int delete_in_block(struct store *s, struct block *b, const struct store_matcher *m,
	size_t n, int64_t min_ns, int64_t max_ns, struct errbuf *eb)
{
	_cleanup_(tombstone_done)
	struct tombstones t = {.items = NULL};
	int r = tombstone_copy(&t, &b->meta.tombstones, eb);

	r = r ? r : tombstone_add(&t, m, n, min_ns, max_ns, eb);
	r = r ? r : covers_any(b, &t, eb);
	if (r <= 0)
		return r;
	r = replace_meta(s, b, &t, eb);
	return r < 0 ? r : 1;
}

static int delete_locked(struct store *s, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, uint64_t *ret_n, struct errbuf *eb)
{
	struct store_parts parts = {.n = 0};
	int r = store_flush_locked(s, true, eb);

	r = r < 0 ? r : store_parts_get(s, min_ns, max_ns, &parts);
	for (size_t i = 0; r >= 0 && i < parts.n; i++) {
		/* Heads that are left were begun since. */
		if (parts.items[i]->ops != &block_part_ops)
			continue;
		r = delete_in_block(s, (struct block *)parts.items[i], m, n, min_ns, max_ns, eb);
		*ret_n += r > 0;
	}
	store_parts_put(s, &parts);
	return r < 0 ? r : 0;
}

int store_delete(struct store *s, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, uint64_t *ret_n, struct errbuf *eb)
{
	int r;

	*ret_n = 0;
	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	if (!n)
		return err_set(eb, -EINVAL, "a deletion needs a matcher");
	pthread_mutex_lock(&s->maintain_lock);
	r = delete_locked(s, m, n, min_ns, max_ns, ret_n, eb);
	pthread_mutex_unlock(&s->maintain_lock);
	return r;
}

/* ---- snapshots ---- */

static int link_block(struct store *s, const struct block *b, const char *to, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	_cleanup_free_ char *dir = xasprintf("%s%s", to, strrchr(b->dir, '/'));
	int r = s->fs->mkdir(s->fs, dir, 0750);

	r = r < 0 ? r : s->fs->list(s->fs, b->dir, &names);
	for (size_t at = 0; r >= 0 && at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		_cleanup_free_ char *from = xasprintf("%s/%s", b->dir, name),
				    *file = xasprintf("%s/%s", dir, name);

		r = s->fs->link(s->fs, from, file);
	}
	r = r < 0 ? r : s->fs->sync_dir(s->fs, dir);
	return r < 0 ? err_set(eb, r, "%s: %s", dir, strerror(-r)) : 0;
}

static void make_name(struct store *s, char ret[STORE_SNAPSHOT_NAME])
{
	time_t now = (time_t)(clock_realtime_ns(s->clock) / NS_PER_S);
	uint8_t ulid[ULID_BYTES];
	struct tm tm;
	size_t n = 0;

	store_next_ulid(s, ulid);
	if (gmtime_r(&now, &tm))
		n = strftime(ret, STORE_SNAPSHOT_NAME, "%Y%m%dT%H%M%SZ-", &tm);
	for (size_t i = ULID_BYTES - 8; i < ULID_BYTES; i++)
		n += (size_t)snprintf(ret + n, STORE_SNAPSHOT_NAME - n, "%02x", ulid[i]);
}

static int link_all(struct store *s, const char *to, struct errbuf *eb)
{
	_cleanup_free_ char *blocks = xasprintf("%s/blocks", to), *wal = xasprintf("%s/wal", to),
			    *parent = xasprintf("%s/snapshots", s->path);
	struct store_parts parts = {.n = 0};
	int r = fs_make_dirs(s->fs, blocks, 0750);

	r = r < 0 ? r : fs_make_dirs(s->fs, wal, 0750);
	r = r < 0 ? err_set(eb, r, "%s: %s", to, strerror(-r))
		  : store_parts_get(s, INT64_MIN, INT64_MAX, &parts);
	for (size_t i = 0; r >= 0 && i < parts.n; i++)
		if (parts.items[i]->ops == &block_part_ops)
			r = link_block(s, (struct block *)parts.items[i], blocks, eb);
	store_parts_put(s, &parts);
	r = r < 0 ? r : s->fs->sync_dir(s->fs, blocks);
	r = r < 0 ? r : s->fs->sync_dir(s->fs, to);
	r = r < 0 ? r : s->fs->sync_dir(s->fs, parent);
	return r < 0 ? r : s->fs->sync_dir(s->fs, s->path);
}

int store_snapshot(
	struct store *s, bool with_head, char ret_name[STORE_SNAPSHOT_NAME], struct errbuf *eb)
{
	_cleanup_free_ char *to = NULL;
	int r = 0;

	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	make_name(s, ret_name);
	to = xasprintf("%s/snapshots/%s", s->path, ret_name);
	pthread_mutex_lock(&s->maintain_lock);
	if (with_head)
		r = store_flush_locked(s, true, eb);
	r = r < 0 ? r : link_all(s, to, eb);
	if (r < 0 && fs_remove_all(s->fs, to) < 0)
		err_prefix(eb, r, "%s stays behind", to);
	pthread_mutex_unlock(&s->maintain_lock);
	return r < 0 ? r : 0;
}
