/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots: every block linked into a directory that looks like the store's own, under a temporary name until all are.
 */
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "scraper/store/store_impl.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TMP ".tmp"

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
		if (store_has_no_links(r))
			return err_set(eb, -EOPNOTSUPP,
				"%s: the file system has no hard links, of which snapshots are "
				"made: %s",
				file, strerror(-r));
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
	_cleanup_free_ char *blocks = xasprintf("%s/blocks", to), *wal = xasprintf("%s/wal", to);
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
	return r < 0 ? r : s->fs->sync_dir(s->fs, to);
}

/* Gives it its name: what has one is whole. */
static int name_it(
	struct store *s, const char *parent, const char *tmp, const char *to, struct errbuf *eb)
{
	int r = s->fs->rename(s->fs, tmp, to);

	r = r < 0 ? r : s->fs->sync_dir(s->fs, parent);
	r = r < 0 ? r : s->fs->sync_dir(s->fs, s->path);
	return r < 0 ? err_set(eb, r, "%s: %s", to, strerror(-r)) : 0;
}

/* Whatever is there of it; a failure is the upkeep's no more: start-up removes it. */
static void discard(struct store *s, const char *tmp, const char *to, int r, struct errbuf *eb)
{
	if (fs_remove_all(s->fs, to) < 0)
		err_prefix(eb, r, "%s stays behind", to);
	if (fs_remove_all(s->fs, tmp) < 0)
		err_prefix(eb, r, "%s stays behind", tmp);
}

void store_remove_unfinished_snapshots(struct store *s)
{
	_cleanup_free_ char *parent = xasprintf("%s/snapshots", s->path);
	_cleanup_bytes_ struct bytes names = {.data = NULL};

	if (s->fs->list(s->fs, parent, &names) < 0)
		return; /* there are none */
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		_cleanup_free_ char *path = xasprintf("%s/%s", parent, name);
		int r = str_ends_with(name, TMP) ? fs_remove_all(s->fs, path) : 0;

		if (r < 0)
			log_printf(LOG_WARN, "store: %s: cannot remove: %s", path, strerror(-r));
	}
}

int store_snapshot(
	struct store *s, bool with_head, char ret_name[STORE_SNAPSHOT_NAME], struct errbuf *eb)
{
	_cleanup_free_ char *parent = xasprintf("%s/snapshots", s->path), *to = NULL, *tmp = NULL;
	int r = 0;

	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	make_name(s, ret_name);
	to = xasprintf("%s/%s", parent, ret_name);
	tmp = xasprintf("%s" TMP, to);
	lock_take(&s->maintain_lock);
	r = store_settle_deletion(s, eb);
	if (with_head && !r)
		r = store_flush_locked(s, true, eb);
	r = r < 0 ? r : link_all(s, tmp, eb);
	r = r < 0 ? r : name_it(s, parent, tmp, to, eb);
	if (r < 0)
		discard(s, tmp, to, r, eb);
	lock_release(&s->maintain_lock);
	return r < 0 ? r : 0;
}
