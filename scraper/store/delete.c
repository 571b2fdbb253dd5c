/* SPDX-License-Identifier: Apache-2.0
 *
 * Deleting series: all of it or nothing, over any number of blocks and any death in between. What is asked is first made durable as
 * deletion.json, then the blocks are exchanged in memory in one step, then each gets its new meta.json, then deletion.json goes.
 */
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "scraper/store/block/block_read.h"
#include "scraper/store/block/deletions.h"
#include "scraper/store/store_impl.h"
#include <string.h>

static const char log_name[] = "deletion.json";

/* Blocks opened anew, with the tombstone, that will take the place of the ones there. */
struct fresh_blocks {
	struct block **items;
	size_t n, cap;
};

static void fresh_done(struct fresh_blocks *f)
{
	for (size_t i = 0; i < f->n; i++)
		part_put(&f->items[i]->part);
	free(f->items);
}

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

/* What cannot be read again must not be written. */
static int check_size(const struct bytes *text, struct errbuf *eb)
{
	return text->len <= META_MAX_BYTES
		       ? bytes_error(text)
		       : err_set(eb, -EFBIG,
				 "the deletions of a block take %zu bytes, %d are allowed: "
				 "clean_tombstones first",
				 text->len, META_MAX_BYTES);
}

static int meta_text(const struct block *b, struct bytes *ret, struct errbuf *eb)
{
	int r = meta_write(&b->meta, ret);

	return r ? r : check_size(ret, eb);
}

/* Replay would bring back what is deleted here, should the block turn out damaged while its generation has segments. */
static int refuse_with_segments(struct store *s, const struct block *b, struct errbuf *eb)
{
	bool pending;

	lock_take(&s->state_lock);
	pending = store_is_obsolete_pending(s, b);
	lock_release(&s->state_lock);
	return pending ? err_set(eb, -EAGAIN,
				 "%s: the log that it was written from cannot be removed yet",
				 b->dir)
		       : 0;
}

/* The block once more, with these tombstones, which it takes over. */
static int open_with(struct store *s, struct block *b, struct tombstones *t,
	struct fresh_blocks *all, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	struct block *fresh = NULL;
	uint32_t id;
	int r = alloc_grow(&all->items, &all->cap, all->n + 1, sizeof(struct block *));

	if (r < 0)
		return r;
	lock_take(&s->state_lock);
	id = s->next_part_id++;
	lock_release(&s->state_lock);
	r = block_open(s->fs, s->cache, b->dir, id, &fresh, eb);
	if (part_is_damage(r))
		block_report_damage(b, err_text(eb, r));
	if (r < 0)
		return r;
	tombstone_done(&fresh->meta.tombstones);
	fresh->meta.tombstones = *t;
	*t = (struct tombstones) {.items = NULL};
	all->items[all->n++] = fresh;
	return meta_text(fresh, &text, eb);
}

static int add_if_covered(struct store *s, struct block *b, const struct tombstones *what,
	struct fresh_blocks *all, struct errbuf *eb)
{
	_cleanup_(tombstone_done)
	struct tombstones t = {.items = NULL};
	int r = tombstone_copy(&t, &b->meta.tombstones, eb);

	r = r ? r : tombstone_copy(&t, what, eb);
	r = r ? r : covers_any(b, &t, eb);
	if (r <= 0)
		return r;
	r = refuse_with_segments(s, b, eb);
	return r ? r : open_with(s, b, &t, all, eb);
}

static int gather(
	struct store *s, const struct tombstones *what, struct fresh_blocks *all, struct errbuf *eb)
{
	struct store_parts parts = {.n = 0};
	int r = store_parts_get(s, what->items[0].min_time_ns, what->items[0].max_time_ns, &parts);

	for (size_t i = 0; r >= 0 && i < parts.n; i++)
		/* Heads that are left were begun since. */
		if (parts.items[i]->ops == &block_part_ops)
			r = add_if_covered(s, (struct block *)parts.items[i], what, all, eb);
	store_parts_put(s, &parts);
	return r < 0 ? r : 0;
}

/* ---- the log ---- */

static int remove_log(struct store *s)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", s->path, log_name);
	int r = s->fs->unlink(s->fs, path);

	return r < 0 && r != -ENOENT ? r : s->fs->sync_dir(s->fs, s->path);
}

/* When it cannot be written it may be there all the same, by name or on disk: it is withdrawn before anything else happens. */
static int write_log(struct store *s, struct deletion_log *l, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", s->path, log_name);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	struct errbuf ignored = {.text = ""};
	int r = deletion_log_write(l, &text);

	r = r ? r : check_size(&text, eb);
	if (r < 0)
		return r;
	r = fs_write_file(s->fs, path, text.data, text.len, 0640, eb);
	if (r < 0) {
		s->deletion.withdrawn = true;
		if (store_settle_deletion(s, &ignored) < 0)
			LOG_RATED(LOG_ERROR, "store: %s", ignored.text);
	}
	return r;
}

/* The block with this name, counted, or NULL. */
static struct block *get_block(struct store *s, const uint8_t ulid[ULID_BYTES])
{
	struct block *b = NULL;

	lock_take(&s->state_lock);
	for (size_t i = 0; !b && i < s->n_blocks; i++)
		if (!memcmp(s->blocks[i]->meta.ulid, ulid, ULID_BYTES))
			b = s->blocks[i];
	if (b)
		part_get(&b->part);
	lock_release(&s->state_lock);
	return b;
}

static int write_meta(struct store *s, const struct block *b, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/meta.json", b->dir);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	int r = meta_text(b, &text, eb);

	return r ? r : fs_write_file(s->fs, path, text.data, text.len, 0640, eb);
}

int store_settle_deletion(struct store *s, struct errbuf *eb)
{
	struct deletion_log *l = &s->deletion;
	int r = 0;

	ASSERT_HELD(&s->maintain_lock);
	if (!deletion_log_is_open(l))
		return 0;
	for (size_t i = 0; !r && !l->withdrawn && i < l->blocks.n; i++) {
		struct block *b = get_block(s, l->blocks.items[i]);

		if (!b)
			continue; /* retention was there */
		r = write_meta(s, b, eb);
		part_put(&b->part);
	}
	r = r ? r : remove_log(s);
	if (r < 0)
		return err_set(eb, r, "%s/%s cannot be %s yet: %s", s->path, log_name,
			l->withdrawn ? "withdrawn" : "settled", strerror(-r));
	deletion_log_done(l);
	return 0;
}

/* ---- at start ---- */

static int apply_to(struct block *b, const struct tombstones *what, struct errbuf *eb)
{
	struct tombstones *t = &b->meta.tombstones;

	for (size_t i = 0; i < t->n; i++)
		if (tombstone_equal(&t->items[i], &what->items[0]))
			return 0;
	return tombstone_copy(t, what, eb);
}

static int apply(struct store *s, struct errbuf *eb)
{
	const struct deletion_log *l = &s->deletion;
	int r = 0;

	for (size_t i = 0; !r && i < l->blocks.n; i++) {
		struct block *b = get_block(s, l->blocks.items[i]);

		if (!b)
			continue;
		r = apply_to(b, &l->what, eb);
		part_put(&b->part);
	}
	return r;
}

int store_load_deletion(struct store *s, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", s->path, log_name);
	_cleanup_bytes_ struct bytes text = {.data = NULL};
	struct errbuf why = {.text = ""};
	int r;

	ASSERT_HELD(&s->maintain_lock);
	r = fs_read_file(s->fs, path, META_MAX_BYTES, &text, &why);
	if (r == -ENOENT)
		return 0;
	r = r ? r : deletion_log_read(text.data, text.len, &s->deletion, &why);
	if (r == -EBADMSG || r == -ENOTSUP || r == -EFBIG || r == -EISDIR) {
		if (!s->o.read_only)
			return store_quarantine(s, path, log_name, why.text);
		log_printf(LOG_WARN, "store: %s is not applied: %s", path, why.text);
		return 0;
	}
	r = r ? err_set(eb, r, "%s", err_text(&why, r)) : apply(s, eb);
	if (!r && !s->o.read_only && store_settle_deletion(s, &why) < 0)
		LOG_RATED(LOG_ERROR, "store: %s", why.text); /* the upkeep tries again */
	return r;
}

/* ---- store_delete ---- */

/* Queries see all of it from one moment on. */
static void exchange(struct store *s, struct fresh_blocks *f)
{
	lock_take(&s->state_lock);
	for (size_t i = 0; i < f->n; i++)
		for (size_t k = 0; k < s->n_blocks; k++) {
			struct block *old = s->blocks[k];

			if (memcmp(old->meta.ulid, f->items[i]->meta.ulid, ULID_BYTES) != 0)
				continue;
			s->blocks[k] = f->items[i];
			f->items[i] = old;
			break;
		}
	lock_release(&s->state_lock);
}

static int fill_log(struct deletion_log *l, const struct fresh_blocks *f, struct tombstones *what,
	struct errbuf *eb)
{
	if (f->n > META_MAX_ULIDS)
		return err_set(eb, -EFBIG, "a deletion takes %d blocks, this one has %zu",
			META_MAX_ULIDS, f->n);
	l->blocks.items = try_realloc(NULL, f->n, ULID_BYTES);
	if (!l->blocks.items)
		return -ENOMEM;
	for (; l->blocks.n < f->n; l->blocks.n++)
		memcpy(l->blocks.items[l->blocks.n], f->items[l->blocks.n]->meta.ulid, ULID_BYTES);
	l->what = *what;
	*what = (struct tombstones) {.items = NULL};
	return 0;
}

static int delete_locked(
	struct store *s, struct tombstones *what, uint64_t *ret_n, struct errbuf *eb)
{
	_cleanup_(fresh_done)
	struct fresh_blocks fresh = {.items = NULL};
	_cleanup_(deletion_log_done)
	struct deletion_log l = {.withdrawn = false};
	struct errbuf why = {.text = ""};
	int r;

	ASSERT_HELD(&s->maintain_lock);
	r = store_settle_deletion(s, eb);

	r = r < 0 ? r : store_flush_locked(s, true, eb);
	r = r < 0 ? r : gather(s, what, &fresh, eb);
	if (r < 0 || !fresh.n)
		return r;
	r = fill_log(&l, &fresh, what, eb);
	r = r ? r : write_log(s, &l, eb);
	if (r < 0)
		return r;
	s->deletion = l;
	l = (struct deletion_log) {.withdrawn = false};
	exchange(s, &fresh);
	*ret_n = fresh.n;
	/* It is durable by the log; what fails from here on the upkeep tries again. */
	if (store_settle_deletion(s, &why) < 0)
		LOG_RATED(LOG_ERROR, "store: %s", why.text);
	return 0;
}

int store_delete(struct store *s, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, uint64_t *ret_n, struct errbuf *eb)
{
	_cleanup_(tombstone_done)
	struct tombstones what = {.items = NULL};
	int r;

	*ret_n = 0;
	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	if (!n)
		return err_set(eb, -EINVAL, "a deletion needs a matcher");
	r = tombstone_add(&what, m, n, min_ns, max_ns, eb);
	if (r < 0)
		return r;
	lock_take(&s->maintain_lock);
	r = delete_locked(s, &what, ret_n, eb);
	store_quarantine_damaged(s);
	lock_release(&s->maintain_lock);
	return r;
}
