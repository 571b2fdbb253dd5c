/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of blocks: opening, quarantine, retention.
 */
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/json/write.h"
#include "scraper/store/store_impl.h"
#include <stdio.h>
#include <string.h>

enum { REASON_MAX = 4096 };

static uint64_t tree_bytes(struct fs *fs, const char *path)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	struct fs_stat st;
	uint64_t bytes;

	if (fs->stat(fs, path, &st) < 0)
		return 0;
	bytes = st.is_dir ? 4096 : st.size_bytes;
	if (!st.is_dir || fs->list(fs, path, &names) < 0)
		return bytes;
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		_cleanup_free_ char *child = xasprintf("%s/%s", path, (char *)names.data + at);

		bytes += tree_bytes(fs, child);
	}
	return bytes;
}

uint64_t store_quarantine_bytes(struct store *s)
{
	uint64_t bytes = tree_bytes(s->fs, s->quarantine_dir);

	return bytes > 4096 ? bytes - 4096 : 0;
}

/* A name in quarantine/ that is free; that of the file itself (`have`) where it has one there already: 1. */
static int quarantine_name(
	struct store *s, const char *name, const struct fs_stat *have, char **ret)
{
	char *to = xasprintf("%s/%s", s->quarantine_dir, name);
	struct fs_stat st;

	for (unsigned i = 1; s->fs->stat(s->fs, to, &st) == 0; i++) {
		if (have && st.ino == have->ino && st.dev == have->dev)
			break;
		free(to);
		to = xasprintf("%s/%s.%u", s->quarantine_dir, name, i);
	}
	*ret = to;
	return s->fs->stat(s->fs, to, &st) == 0;
}

/* Says why, makes the name durable, counts. */
static int quarantined(struct store *s, const char *to, const char *name, const char *reason)
{
	_cleanup_free_ char *text = xasprintf("%s\n", reason), *note = NULL;
	struct fs_stat st;
	int r;

	note = s->fs->stat(s->fs, to, &st) == 0 && st.is_dir ? xasprintf("%s/reason", to)
							     : xasprintf("%s.reason", to);
	/* The name is what counts. */
	r = fs_write_file(s->fs, note, text, strlen(text), 0640, NULL);
	r = s->fs->sync_dir(s->fs, s->quarantine_dir);
	lock_take(&s->state_lock);
	s->stats.blocks_quarantined++;
	lock_release(&s->state_lock);
	LOG_RATED(LOG_WARN, "store: %s is damaged and was moved to quarantine/%s: %s", name, name,
		reason);
	return r;
}

int store_quarantine(struct store *s, const char *path, const char *name, const char *reason)
{
	_cleanup_free_ char *to = NULL;
	int r = quarantine_name(s, name, NULL, &to);

	r = s->fs->rename(s->fs, path, to);
	return r < 0 ? r : quarantined(s, to, name, reason);
}

bool store_has_no_links(int error)
{
	return error == -EPERM || error == -EOPNOTSUPP || error == -ENOSYS;
}

int store_quarantine_link(struct store *s, const char *path, const char *name, const char *reason)
{
	_cleanup_free_ char *to = NULL;
	struct fs_stat st;
	int r = s->fs->stat(s->fs, path, &st);

	if (r < 0)
		return r;
	if (quarantine_name(s, name, &st, &to))
		return s->fs->sync_dir(s->fs, s->quarantine_dir);
	r = s->fs->link(s->fs, path, to);
	return r < 0 ? r : quarantined(s, to, name, reason);
}

int store_add_block(struct store *s, struct block *b)
{
	int r;

	lock_take(&s->state_lock);
	r = alloc_grow(&s->blocks, &s->cap_blocks, s->n_blocks + 1, sizeof(struct block *));
	if (!r)
		s->blocks[s->n_blocks++] = b;
	lock_release(&s->state_lock);
	return r;
}

static struct block *take_block(struct store *s, size_t i)
{
	struct block *b = s->blocks[i];

	s->n_blocks--;
	memmove(&s->blocks[i], &s->blocks[i + 1], (s->n_blocks - i) * sizeof(struct block *));
	return b;
}

static int open_one(struct store *s, const char *name, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", s->block_dir, name);
	struct errbuf why = {.text = ""};
	struct block *b = NULL;
	int r = block_open(s->fs, s->cache, path, s->next_part_id++, &b, &why);

	if (!r) {
		r = store_add_block(s, b);
		if (r < 0)
			part_put(&b->part);
		return r;
	}
	if (!part_is_damage(r))
		return err_set(eb, r, "%s", err_text(&why, r));
	if (s->o.read_only) {
		s->stats.blocks_quarantined++;
		log_printf(LOG_WARN, "store: %s cannot be opened: %s", name, err_text(&why, r));
		return 0;
	}
	return store_quarantine(s, path, name, err_text(&why, r));
}

static bool replaced_by(const struct block *b, const uint8_t ulid[ULID_BYTES])
{
	for (size_t i = 0; i < b->meta.replaces.n; i++)
		if (!memcmp(b->meta.replaces.items[i], ulid, ULID_BYTES))
			return true;
	return false;
}

/* 0, or what kept it from being looked at: that is not its fault. */
static int verify(struct block *b, struct errbuf *eb)
{
	struct errbuf why = {.text = ""};
	int r = block_verify(b, &why);

	if (!part_is_damage(r))
		return r < 0 ? err_set(eb, r, "%s", err_text(&why, r)) : 0;
	block_report_damage(b, why.text);
	return 0;
}

static bool replaces_any(struct store *s, const struct block *b)
{
	for (size_t i = 0; i < s->n_blocks; i++)
		if (replaced_by(b, s->blocks[i]->meta.ulid))
			return true;
	return false;
}

/* A block that replaces others that are there is read back before they go; when it does not agree, they stay. */
static int drop_replaced(struct store *s, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; !r && i < s->n_blocks; i++)
		if (replaces_any(s, s->blocks[i]))
			r = verify(s->blocks[i], eb);
	if (r < 0)
		return r;
	store_quarantine_damaged(s);
	for (size_t i = 0; i < s->n_blocks; i++)
		for (size_t k = 0; k < s->n_blocks;) {
			struct block *b = s->blocks[k];

			if (!replaced_by(s->blocks[i], b->meta.ulid)) {
				k++;
				continue;
			}
			take_block(s, k);
			if (k < i)
				i--;
			b->doomed = !s->o.read_only;
			part_put(&b->part);
		}
	return 0;
}

int store_open_blocks(struct store *s, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	int r = s->fs->list(s->fs, s->block_dir, &names);

	if (r == -ENOENT && s->o.read_only)
		return 0;
	/* A process that died may have left names that the power could still take: what is built on them below must not be first. */
	if (!r && !s->o.read_only)
		r = s->fs->sync_dir(s->fs, s->block_dir);
	if (r < 0)
		return err_set(eb, r, "%s: %s", s->block_dir, strerror(-r));
	for (size_t at = 0; !r && at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at, *tmp = strstr(name, ".tmp");
		_cleanup_free_ char *path = xasprintf("%s/%s", s->block_dir, name);
		uint8_t ulid[ULID_BYTES];

		if (tmp && !tmp[4]) {
			r = s->o.read_only ? 0 : fs_remove_all(s->fs, path);
			if (r < 0)
				return err_set(eb, r, "%s: %s", path, strerror(-r));
		} else if (ulid_parse(name, ulid)) {
			r = open_one(s, name, eb);
		}
	}
	if (!r)
		r = drop_replaced(s, eb);
	store_load_lost(s);
	return r;
}

/* A block stands for its generation only when every byte of it is right: asked while the generation's WAL still exists. */
int store_has_generation(struct store *s, const uint8_t generation[ULID_BYTES], struct errbuf *eb)
{
	for (size_t i = 0; i < s->n_blocks; i++) {
		int r;

		if (!meta_has_generation(&s->blocks[i]->meta, generation))
			continue;
		r = verify(s->blocks[i], eb);
		if (r < 0 || !s->blocks[i]->damaged)
			return r < 0 ? r : 1;
		store_quarantine_damaged(s);
		return store_has_generation(s, generation, eb);
	}
	return 0;
}

void store_quarantine_damaged(struct store *s)
{
	for (;;) {
		struct block *b = NULL;
		char name[ULID_TEXT];

		lock_take(&s->state_lock);
		for (size_t i = 0; !b && i < s->n_blocks; i++)
			if (s->blocks[i]->damaged)
				b = take_block(s, i);
		if (b)
			store_note_lost_locked(s, &b->meta);
		lock_release(&s->state_lock);
		if (!b)
			return;
		ulid_format(b->meta.ulid, name);
		/* Readers that still hold it get errors, which is what it deserves. */
		if (s->o.read_only) {
			s->stats.blocks_quarantined++;
			log_printf(LOG_WARN, "store: %s is damaged: %s", name, b->damage);
		} else if (store_quarantine(s, b->dir, name, b->damage) < 0)
			LOG_RATED(LOG_ERROR, "store: block %s is damaged and cannot be moved away",
				name);
		part_put(&b->part);
	}
}

/* The oldest thing in quarantine by name; its reason goes with it. */
static bool remove_from_quarantine(struct store *s)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	_cleanup_free_ char *path = NULL;

	if (s->fs->list(s->fs, s->quarantine_dir, &names) < 0 || !names.len)
		return false;
	path = xasprintf("%s/%s", s->quarantine_dir, (char *)names.data);
	return fs_remove_all(s->fs, path) == 0;
}

bool store_is_obsolete_pending(const struct store *s, const struct block *b)
{
	ASSERT_HELD(&s->state_lock);
	for (size_t i = 0; i < s->n_obsolete; i++)
		if (meta_has_generation(&b->meta, s->obsolete[i]))
			return true;
	return false;
}

/* One whose WAL is still there would come back with it. */
static struct block *take_oldest(struct store *s, int64_t before)
{
	struct block *b = NULL;
	size_t oldest = SIZE_MAX;

	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++) {
		int64_t max = s->blocks[i]->meta.max_time_ns;

		if (max < before && !store_is_obsolete_pending(s, s->blocks[i]) &&
			(oldest == SIZE_MAX || max < s->blocks[oldest]->meta.max_time_ns))
			oldest = i;
	}
	if (oldest != SIZE_MAX) {
		b = take_block(s, oldest);
		s->stats.blocks_deleted++;
	}
	lock_release(&s->state_lock);
	return b;
}

void store_doom(struct store *s, struct block *b)
{
	b->graves = &s->graves;
	b->doomed = true;
	part_put(&b->part);
}

static uint64_t all_bytes(struct store *s, uint64_t quarantine)
{
	uint64_t bytes = wal_bytes(&s->wal) + quarantine;

	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++)
		bytes += meta_bytes(&s->blocks[i]->meta);
	lock_release(&s->state_lock);
	return bytes;
}

/* The age of blocks counts from the newest time in a block, so that silence makes nothing old, or from the trusted clock
 * where that is earlier, so that neither a wrong clock nor the times it left in a block make anything old. */
static int64_t retention_now(struct store *s)
{
	int64_t newest = INT64_MIN;

	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++)
		newest = MAX(newest, s->blocks[i]->meta.max_time_ns);
	lock_release(&s->state_lock);
	return MIN(newest, age_clock_now_ns(&s->age));
}

void store_retain(struct store *s)
{
	const int64_t keep = s->retention_ns, now = retention_now(s);
	struct block *b;

	if (keep != INT64_MAX && now > INT64_MIN + keep)
		while ((b = take_oldest(s, now - keep)) != NULL)
			store_doom(s, b);
	while (s->retention_bytes) {
		uint64_t quarantine = store_quarantine_bytes(s);

		if (all_bytes(s, quarantine) <= s->retention_bytes)
			break;
		if (quarantine && remove_from_quarantine(s))
			continue;
		b = take_oldest(s, INT64_MAX);
		if (!b)
			break;
		store_doom(s, b);
	}
	block_graves_clear(&s->graves);
}

void store_each_block(
	struct store *s, void (*fn)(void *arg, const struct store_block_info *b), void *arg)
{
	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct meta *m = &s->blocks[i]->meta;
		char ulid[ULID_TEXT];
		struct store_block_info b = {.ulid = ulid,
			.level = m->level,
			.min_time_ns = m->min_time_ns,
			.max_time_ns = m->max_time_ns,
			.bytes = meta_bytes(m),
			.streams = m->stats.streams,
			.profiles = m->stats.profiles,
			.rows = m->stats.rows,
			.n_deletions = m->tombstones.n};

		ulid_format(m->ulid, ulid);
		for (size_t k = 1; k < META_N_RESOLUTIONS; k++)
			b.has_rollups |= m->rollups[k].profiles > 0;
		fn(arg, &b);
	}
	lock_release(&s->state_lock);
}

int store_each_quarantined(
	struct store *s, void (*fn)(void *arg, const char *name, const char *reason), void *arg)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	int r = s->fs->list(s->fs, s->quarantine_dir, &names);

	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1) {
		const char *name = (char *)names.data + at;
		_cleanup_free_ char *inside = xasprintf("%s/%s/reason", s->quarantine_dir, name);
		_cleanup_free_ char *beside = xasprintf("%s/%s.reason", s->quarantine_dir, name);
		_cleanup_bytes_ struct bytes reason = {.data = NULL};
		const char *dot = strrchr(name, '.');

		if (dot && !strcmp(dot, ".reason"))
			continue;
		if (fs_read_file(s->fs, inside, REASON_MAX, &reason, NULL) < 0) {
			bytes_reset(&reason);
			r = fs_read_file(
				s->fs, beside, REASON_MAX, &reason, NULL); /* may be missing */
		}
		while (reason.len && reason.data[reason.len - 1] == '\n')
			reason.len--;
		bytes_put_u8(&reason, 0);
		fn(arg, name, reason.error ? "" : (const char *)reason.data);
	}
	return 0;
}

static void put_quarantined(void *arg, const char *name, const char *reason)
{
	struct json *j = arg;

	json_object_begin(j);
	json_kv_string(j, "name", name);
	json_kv_string(j, "reason", reason);
	json_object_end(j);
}

int store_quarantine_json(struct store *s, struct bytes *out)
{
	struct json j = json_to(out);
	int r;

	json_array_begin(&j);
	r = store_each_quarantined(s, put_quarantined, &j);
	json_array_end(&j);
	return r < 0 ? r : bytes_error(out);
}
