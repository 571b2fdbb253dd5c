/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, checking and closing blocks.
 */
#include "scraper/store/block/block.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include <stdio.h>
#include <string.h>

static int read_meta(struct block *b, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/meta.json", b->dir);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	int r = fs_read_file(b->fs, path, META_MAX_BYTES, &text, eb);
	const char *base = strrchr(b->dir, '/');
	char want[ULID_TEXT];

	if (r == -ENOENT)
		r = err_set(eb, -EBADMSG, "%s is missing", path);
	if (r < 0)
		return r;
	r = meta_read(text.data, text.len, &b->meta, eb);
	if (r < 0)
		return r;
	ulid_format(b->meta.ulid, want);
	if (strcmp(base ? base + 1 : b->dir, want))
		return err_set(eb, -EBADMSG, "%s names the block %s", path, want);
	return 0;
}

static int read_frames(struct block *b, struct errbuf *eb)
{
	int r = 0;

	for (enum frame_file f = FRAME_INDEX; r >= 0 && f < FRAME_N; f++) {
		_cleanup_free_ char *path = NULL;

		if (!b->meta.files[f].size)
			continue;
		path = xasprintf("%s/%s", b->dir, frame_file_name(f));
		r = frame_read(b->fs, path, f, b->meta.files[f].size, b->meta.files[f].table_crc,
			&b->frames[f], eb);
		if (r == -ENOENT)
			r = -EBADMSG;
	}
	return r;
}

int block_open(struct fs *fs, struct cache *cache, const char *dir, uint32_t part_id,
	struct block **ret, struct errbuf *eb)
{
	struct block *b = xcalloc(1, sizeof(*b));
	int r;

	part_init(&b->part, &block_part_ops, part_id);
	b->fs = fs;
	b->cache = cache;
	b->dir = xstrdup(dir);
	lock_init(&b->lock);
	r = read_meta(b, eb);
	if (r >= 0 &&
		(b->meta.stats.nodes > UINT32_MAX || b->meta.stats.strings > UINT32_MAX ||
			b->meta.stats.locations > UINT32_MAX ||
			b->meta.stats.label_sets > UINT32_MAX ||
			b->meta.stats.functions > UINT32_MAX ||
			b->meta.stats.mappings > UINT32_MAX || b->meta.stats.streams > UINT32_MAX ||
			b->meta.stats.schemas > PART_MAX_SCHEMAS))
		r = err_set(eb, -EBADMSG, "%s: counts in meta.json are out of range", dir);
	if (r >= 0)
		r = read_frames(b, eb);
	if (r < 0) {
		part_put(&b->part);
		return r;
	}
	*ret = b;
	return 0;
}

int block_verify(struct block *b, struct errbuf *eb)
{
	int r = 0;

	for (enum frame_file f = FRAME_INDEX; r >= 0 && f < FRAME_N; f++) {
		_cleanup_free_ char *path = NULL;

		if (!b->meta.files[f].size)
			continue;
		path = xasprintf("%s/%s", b->dir, frame_file_name(f));
		r = frame_verify(b->fs, path, &b->frames[f], eb);
	}
	return r;
}

void block_report_damage(struct block *b, const char *text)
{
	lock_take(&b->lock);
	if (!b->damaged)
		snprintf(b->damage, sizeof(b->damage), "%s", text);
	lock_release(&b->lock);
	b->damaged = true;
}

/* By way of a name that start-up removes: a block of which only a part is left would look damaged. */
static int remove_directory(struct block *b)
{
	_cleanup_free_ char *tmp = xasprintf("%s.tmp", b->dir), *parent = xstrdup(b->dir);
	int r = b->fs->rename(b->fs, b->dir, tmp);

	*strrchr(parent, '/') = 0;
	r = r < 0 ? r : b->fs->sync_dir(b->fs, parent);
	return r < 0 ? r : fs_remove_all(b->fs, tmp);
}

static void bury(struct block *b)
{
	int r = b->doomed ? remove_directory(b) : 0;

	if (r < 0 && log_enabled(LOG_DEBUG))
		log_printf(LOG_DEBUG, "%s: cannot remove: %s", b->dir, strerror(-r));
	meta_done(&b->meta);
	lock_done(&b->lock);
	free(b->dir);
	free(b);
}

void block_free(struct part *p)
{
	struct block *b = (struct block *)p;

	cache_drop(b->cache, p->id);
	if (!b->doomed || !b->graves) {
		bury(b);
		return;
	}
	lock_take(&b->graves->lock);
	b->next_grave = b->graves->first;
	b->graves->first = b;
	lock_release(&b->graves->lock);
}

void block_graves_clear(struct block_graves *g)
{
	struct block *b, *next;

	lock_take(&g->lock);
	b = TAKE(g->first);
	lock_release(&g->lock);
	for (; b; b = next) {
		next = b->next_grave;
		bury(b);
	}
}
