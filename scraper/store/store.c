/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, closing, upkeep and what queries and pages ask.
 */
#include "scraper/store/store.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "scraper/store/store_impl.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	HEAD_MIB = 48,
	CACHE_MIB = 32,
	COMPACT_MIB = 256,
	SEGMENT_MIB = 64,
	BLOCK_HOURS = 2,
	RETENTION_DAYS = 15,
	MAX_NODES = 4 << 20
};

static void fill_defaults(struct store_options *o)
{
	o->fs = o->fs ? o->fs : &fs_system;
	o->clock = o->clock ? o->clock : &clock_system;
	o->head_bytes = o->head_bytes ? o->head_bytes : (uint64_t)HEAD_MIB << 20;
	o->cache_bytes = o->cache_bytes ? o->cache_bytes : (uint64_t)CACHE_MIB << 20;
	o->compact_bytes = o->compact_bytes ? o->compact_bytes : (uint64_t)COMPACT_MIB << 20;
	o->segment_bytes = o->segment_bytes ? o->segment_bytes : (uint64_t)SEGMENT_MIB << 20;
	o->block_ns = o->block_ns ? o->block_ns : BLOCK_HOURS * 3600LL * NS_PER_S;
	o->out_of_order_ns = o->out_of_order_ns ? o->out_of_order_ns : 3600LL * NS_PER_S;
	o->retention_ns = o->retention_ns ? o->retention_ns : RETENTION_DAYS * 86400LL * NS_PER_S;
	o->fsync_ns = o->fsync_ns ? o->fsync_ns : NS_PER_S;
	o->max_nodes = o->max_nodes ? o->max_nodes : MAX_NODES;
}

void store_set_limits(struct store *s, const struct store_limits *limits)
{
	s->retention_ns = limits->retention_ns;
	s->out_of_order_ns = limits->out_of_order_ns;
	s->retention_bytes = limits->retention_bytes;
}

int store_parse_fsync(const char *text, struct store_options *ret, struct errbuf *eb)
{
	int64_t ms = 0;
	int r;

	if (!strcmp(text, "always") || !strcmp(text, "never")) {
		ret->fsync = text[0] == 'a' ? STORE_FSYNC_ALWAYS : STORE_FSYNC_NEVER;
		return 0;
	}
	r = str_parse_duration_ms(text, &ms, eb);
	if (r < 0 || ms <= 0)
		return err_set(eb, -EINVAL,
			"--storage.fsync=%s: always, never or a duration like 1s expected", text);
	ret->fsync = STORE_FSYNC_DURATION;
	ret->fsync_ns = ms * NS_PER_MS;
	return 0;
}

/* A comma-separated list; empty names are dropped. */
static void split_names(struct store *s, const char *list)
{
	size_t n;

	s->rollup_without = xcalloc(strlen(list) / 2 + 2, sizeof(*s->rollup_without));
	for (const char *p = list; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		if (n)
			s->rollup_without[s->n_rollup_without++] = xstrndup(p, n);
	}
}

static struct store *new_store(const struct store_options *o)
{
	struct store *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	fill_defaults(&s->o);
	store_set_limits(s, &(struct store_limits) {.retention_ns = s->o.retention_ns,
				    .out_of_order_ns = s->o.out_of_order_ns,
				    .retention_bytes = s->o.retention_bytes});
	s->fs = s->o.fs;
	s->clock = s->o.clock;
	age_clock_init(&s->age, s->clock, s->o.block_ns, INT64_MAX);
	s->path = xstrdup(o->path);
	s->wal_dir = xasprintf("%s/wal", o->path);
	s->block_dir = xasprintf("%s/blocks", o->path);
	s->quarantine_dir = xasprintf("%s/quarantine", o->path);
	s->lock_fd = -1;
	s->next_part_id = 1;
	split_names(s, o->rollup_without ? o->rollup_without : "pid,tid,thread_name,cpu");
	ulid_source_init(&s->ulids, o->seed);
	/* One head that fills while the one before is written out, and the appender's working memory. */
	budget_init(&s->head_budget, o->budget, "head", "--storage.head-bytes",
		2 * s->o.head_bytes + (16 << 20));
	s->cache = cache_new(s->o.cache_bytes, o->budget);
	wal_init(&s->wal, s->fs, s->wal_dir, s->o.segment_bytes);
	cursors_init(&s->cursors);
	budget_init(&s->import_budget, o->budget, "import", "--storage.head-bytes",
		2 * s->o.head_bytes + (16 << 20));
	budget_init(&s->compact_budget, o->budget, "compaction", "--storage.compaction.max-memory",
		s->o.compact_bytes);
	encode_init(&s->encoder, &s->head_budget);
	lock_init(&s->graves.lock);
	lock_init(&s->append_lock);
	lock_init(&s->state_lock);
	lock_init(&s->maintain_lock);
	lock_init(&s->import_lock);
	lock_cond_init(&s->sync_due);
	return s;
}

static void free_store(struct store *s)
{
	if (s->head)
		part_put(&s->head->part);
	for (size_t i = 0; i < s->n_sealed; i++)
		part_put(&s->sealed[i]->part);
	for (size_t i = 0; i < s->n_blocks; i++)
		part_put(&s->blocks[i]->part);
	block_graves_clear(&s->graves);
	free(s->sealed);
	free(s->blocks);
	free(s->lost);
	free(s->obsolete);
	deletion_log_done(&s->deletion);
	wal_done(&s->wal);
	cursors_done(&s->cursors);
	cache_free(s->cache);
	encode_done(&s->encoder);
	if (s->lock_fd >= 0)
		s->fs->close(s->fs, s->lock_fd);
	lock_done(&s->graves.lock);
	lock_done(&s->append_lock);
	lock_done(&s->state_lock);
	lock_done(&s->maintain_lock);
	lock_done(&s->import_lock);
	pthread_cond_destroy(&s->sync_due);
	for (size_t i = 0; i < s->n_rollup_without; i++)
		free(s->rollup_without[i]);
	free(s->rollup_without);
	free(s->path);
	free(s->wal_dir);
	free(s->block_dir);
	free(s->quarantine_dir);
	free(s);
}

/* A new directory is durable when its name is: up to the root, as any of them may be new. */
static void sync_ancestors(struct store *s)
{
	_cleanup_free_ char *path = xstrdup(s->path);
	char *slash;

	while ((slash = strrchr(path, '/')) != NULL && slash != path) {
		*slash = 0;
		if (s->fs->sync_dir(s->fs, path) < 0)
			return; /* not ours to read: then it was there before */
	}
	if (s->fs->sync_dir(s->fs, slash ? "/" : ".") < 0)
		LOG_RATED(LOG_DEBUG, "store: cannot sync the parent of %s", s->path);
}

static int make_dirs(struct store *s, struct errbuf *eb)
{
	const char *dirs[] = {s->path, s->wal_dir, s->block_dir, s->quarantine_dir};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		r = fs_make_dirs(s->fs, dirs[i], 0750);
		if (r < 0)
			return err_set(eb, r, "--storage.path: %s: %s", dirs[i], strerror(-r));
	}
	sync_ancestors(s);
	r = s->fs->sync_dir(s->fs, s->path);
	return r < 0 ? err_set(eb, r, "--storage.path: %s: %s", s->path, strerror(-r)) : 0;
}

/* flock, not the file's existence, is the lock: the pid in it is for the message. */
static int take_lock(struct store *s, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/lock", s->path);
	char text[32] = "";
	ssize_t n;
	int r, fd = s->fs->open(s->fs, path, O_RDWR | O_CREAT, 0640);

	if (fd < 0)
		return err_set(eb, fd, "%s: %s", path, strerror(-fd));
	s->lock_fd = fd;
	r = s->fs->lock(s->fs, fd);
	if (r == -EWOULDBLOCK) {
		n = s->fs->pread(s->fs, fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = 0;
		text[strspn(text, "0123456789")] = 0;
		return err_set(eb, r, "%s is in use by process %s: one writer per directory",
			s->path, text[0] ? text : "(unknown)");
	}
	if (r < 0)
		return err_set(eb, r, "%s: %s", path, strerror(-r));
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	r = s->fs->ftruncate(s->fs, fd, 0);
	r = r ? r : fs_pwrite_full(s->fs, fd, text, strlen(text), 0);
	/* The pid is a courtesy: a full disk must not keep the store from starting. */
	return r == -ENOSPC || !r ? 0 : err_set(eb, r, "%s: %s", path, strerror(-r));
}

static int open_locked(struct store *s, struct errbuf *eb)
{
	struct errbuf ignored = {.text = ""};
	int r;

	ASSERT_HELD(&s->maintain_lock);
	ASSERT_HELD(&s->append_lock);
	r = store_open_blocks(s, eb);
	r = r ? r : store_load_deletion(s, eb);
	r = r ? r : store_replay(s, eb);
	if (r < 0 || s->o.read_only)
		return r;
	store_remove_unfinished_snapshots(s);
	/* What could not be written out or removed now is tried again by store_maintain. */
	if (s->n_obsolete && !s->head)
		r = store_begin_generation(s, &ignored);
	r = store_remove_obsolete(s, &ignored);
	return 0;
}

int store_open(const struct store_options *o, struct store **ret, struct errbuf *eb)
{
	struct store *s = new_store(o);
	int r = 0;

	if (!s->o.read_only) {
		r = make_dirs(s, eb);
		r = r ? r : take_lock(s, eb);
	}
	/* Nobody else knows the store yet; what is called here is called under these locks later. */
	lock_take(&s->maintain_lock);
	lock_take(&s->append_lock);
	r = r ? r : open_locked(s, eb);
	lock_release(&s->append_lock);
	lock_release(&s->maintain_lock);
	if (r < 0) {
		free_store(s);
		return r;
	}
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (!s->o.read_only && wal_sync(&s->wal) < 0)
		store_set_stopped(s, "the last sync failed");
	free_store(s);
}

void store_closep(struct store **s)
{
	store_close(*s);
}

int store_cursor_get(struct store *s, struct store_blob key, struct bytes *ret)
{
	return cursors_get(&s->cursors, key, ret);
}

int store_sync(struct store *s)
{
	return wal_sync(&s->wal);
}

bool store_sync_wait(struct store *s, int64_t timeout_ns)
{
	int64_t wait =
		s->o.fsync == STORE_FSYNC_DURATION ? MIN(timeout_ns, s->o.fsync_ns) : timeout_ns;
	int64_t until_ns = clock_monotonic_ns(&clock_system) + wait;
	bool due, in_time = true;

	lock_take(&s->state_lock);
	/* By duration the whole interval is waited for: that is what groups the commits. */
	while (in_time && !(s->o.fsync == STORE_FSYNC_ALWAYS &&
				  s->wal.written_sequence > s->wal.synced_sequence))
		in_time = lock_wait_until(&s->state_lock, &s->sync_due, until_ns);
	due = s->o.fsync != STORE_FSYNC_NEVER && s->wal.written_sequence > s->wal.synced_sequence;
	lock_release(&s->state_lock);
	return due;
}

/* Rotation under the appender's lock; a generation that a failed sync ended comes first. */
static int rotate_if_due(struct store *s, bool force, struct errbuf *eb)
{
	int r = 0;

	lock_take(&s->append_lock);
	if (s->wal.sync_failed && s->head)
		r = store_add_sealed(s, s->head);
	else if (s->head && (store_rotation_due(s) || (force && s->head->profiles.n)))
		r = store_rotate(s, eb);
	lock_release(&s->append_lock);
	return r;
}

/* After a failed sync ingest goes on in a new generation once the old one is safe. */
static int begin_after_failure(struct store *s, struct errbuf *eb)
{
	int r = 0;

	lock_take(&s->append_lock);
	if (!s->head && !s->n_sealed && (s->wal.sync_failed || s->n_obsolete))
		r = store_begin_generation(s, eb);
	if (!r && s->head && s->stats.stopped && s->wal.fd >= 0)
		store_set_stopped(s, NULL);
	lock_release(&s->append_lock);
	return r;
}

int store_flush_locked(struct store *s, bool force, struct errbuf *eb)
{
	int r, first;

	ASSERT_HELD(&s->maintain_lock);
	first = rotate_if_due(s, force, eb);
	r = force || clock_monotonic_ns(s->clock) >= s->flush_retry_ns ? store_flush_sealed(s, eb)
								       : 0;
	first = first ? first : r;
	r = begin_after_failure(s, eb);
	first = first ? first : r;
	r = store_remove_obsolete(s, eb);
	return first ? first : r;
}

/* A backlog, as of many imported files, is worked off for a while at a time: the rest of upkeep must not wait for all of it. */
static int compact_for_a_while(struct store *s, struct errbuf *eb)
{
	const int64_t until_ns = clock_monotonic_ns(s->clock) + s->o.upkeep_ns;
	int r;

	do {
		r = store_compact_once(s, eb);
		store_quarantine_damaged(s);
	} while (r > 0 && clock_monotonic_ns(s->clock) < until_ns);
	return r;
}

static void look_at_clock(struct store *s)
{
	int64_t set_ns = age_clock_look(&s->age);

	if (!set_ns)
		return;
	lock_take(&s->state_lock);
	s->stats.clock_steps++;
	lock_release(&s->state_lock);
	LOG_RATED(LOG_WARN, "store: this machine's clock was set %s by %.3f s%s",
		set_ns < 0 ? "back" : "ahead", (double)(set_ns < 0 ? -(set_ns + 1) : set_ns) / 1e9,
		set_ns < 0 ? "" : ": nothing is deleted for its age before it has stayed there");
}

static int maintain(struct store *s, bool force, struct errbuf *eb)
{
	struct errbuf local = {.text = ""};
	int r, first;

	lock_take(&s->maintain_lock);
	look_at_clock(s);
	first = store_flush_locked(s, force, &local);
	store_quarantine_damaged(s);
	store_retain(s);
	store_forget_lost(s);
	r = store_settle_deletion(s, &local);
	first = first < 0 ? first : r;
	if (!s->o.no_compaction && !r) {
		r = compact_for_a_while(s, &local);
		first = first < 0 ? first : r;
	}
	store_warm(s);
	lock_release(&s->maintain_lock);
	return first < 0 ? err_set(eb, first, "%s", err_text(&local, first)) : 0;
}

int store_maintain(struct store *s, struct errbuf *eb)
{
	return s->o.read_only ? 0 : maintain(s, false, eb);
}

int store_flush(struct store *s, struct errbuf *eb)
{
	return s->o.read_only ? -EROFS : maintain(s, true, eb);
}

static void head_range(struct head *h, int64_t *min, int64_t *max)
{
	lock_take(&h->lock);
	*min = h->published.min_time_ns;
	*max = h->published.max_time_ns;
	lock_release(&h->lock);
}

static bool overlaps(int64_t min, int64_t max, int64_t from, int64_t to)
{
	return min <= to && max >= from;
}

struct sortable {
	struct part *part;
	int64_t min_time_ns;
};

static int by_time(const void *a, const void *b)
{
	const struct sortable *x = a, *y = b;

	if (x->min_time_ns != y->min_time_ns)
		return x->min_time_ns < y->min_time_ns ? -1 : 1;
	return x->part->id < y->part->id ? -1 : x->part->id > y->part->id;
}

static size_t collect(struct store *s, int64_t from, int64_t to, struct sortable *ret)
{
	int64_t min, max;
	size_t n = 0;

	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct meta *m = &s->blocks[i]->meta;

		if (!s->blocks[i]->damaged && overlaps(m->min_time_ns, m->max_time_ns, from, to))
			ret[n++] = (struct sortable) {&s->blocks[i]->part, m->min_time_ns};
	}
	for (size_t i = 0; i <= s->n_sealed; i++) {
		struct head *h = i < s->n_sealed ? s->sealed[i] : s->head;

		if (!h)
			continue;
		head_range(h, &min, &max);
		if (overlaps(min, max, from, to))
			ret[n++] = (struct sortable) {&h->part, min};
	}
	return n;
}

int store_parts_get(struct store *s, int64_t from_ns, int64_t to_ns, struct store_parts *ret)
{
	struct sortable *found;
	size_t n;

	lock_take(&s->state_lock);
	n = s->n_blocks + s->n_sealed + 1;
	found = try_realloc(NULL, n, sizeof(*found));
	ret->items = try_realloc(NULL, n, sizeof(struct part *));
	if (!found || !ret->items) {
		lock_release(&s->state_lock);
		free(found);
		free(ret->items);
		*ret = (struct store_parts) {.n = 0};
		return -ENOMEM;
	}
	ret->n = collect(s, from_ns, to_ns, found);
	qsort(found, ret->n, sizeof(*found), by_time);
	for (size_t i = 0; i < ret->n; i++) {
		part_get(found[i].part);
		ret->items[i] = found[i].part;
	}
	lock_release(&s->state_lock);
	free(found);
	return 0;
}

void store_parts_put(struct store *s, struct store_parts *parts)
{
	(void)s;
	for (size_t i = 0; i < parts->n; i++)
		part_put(parts->items[i]);
	free(parts->items);
	*parts = (struct store_parts) {.n = 0};
}

static void head_stats(struct head *h, struct store_stats *ret)
{
	int64_t min, max;

	head_range(h, &min, &max);
	ret->min_time_ns = MIN(ret->min_time_ns, min);
	ret->max_time_ns = MAX(ret->max_time_ns, max);
	lock_take(&h->lock);
	ret->head_rows += h->published.n_rows;
	ret->head_pages += h->published.n_pages;
	ret->head_streams += h->published.n[DICT_STREAMS];
	ret->head_nodes += h->published.n[DICT_NODES];
	lock_release(&h->lock);
	ret->heads++;
}

void store_stats(struct store *s, struct store_stats *ret)
{
	struct cache_stats cache;

	lock_take(&s->state_lock);
	*ret = s->stats;
	ret->min_time_ns = INT64_MAX;
	ret->max_time_ns = INT64_MIN;
	ret->blocks = s->n_blocks;
	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct meta *m = &s->blocks[i]->meta;

		ret->min_time_ns = MIN(ret->min_time_ns, m->min_time_ns);
		ret->max_time_ns = MAX(ret->max_time_ns, m->max_time_ns);
		ret->block_bytes += meta_bytes(m);
		ret->tombstones += m->tombstones.n;
	}
	for (size_t i = 0; i < s->n_sealed; i++)
		head_stats(s->sealed[i], ret);
	if (s->head)
		head_stats(s->head, ret);
	lock_release(&s->state_lock);
	ret->head_bytes = s->head_budget.used_bytes;
	ret->compaction_bytes = s->compact_budget.used_bytes;
	ret->compaction_peak_bytes = s->compact_budget.peak_bytes;
	lock_take(&s->wal.lock);
	ret->wal_syncs = s->wal.n_syncs;
	ret->wal_sync_failures = s->wal.n_sync_failures;
	ret->wal_write_failures = s->wal.n_write_failures;
	ret->wal_segments = s->wal.n_segments;
	ret->written_sequence = s->wal.written_sequence;
	ret->synced_sequence = s->wal.synced_sequence;
	lock_release(&s->wal.lock);
	ret->wal_bytes = wal_bytes(&s->wal);
	ret->quarantine_bytes = store_quarantine_bytes(s);
	cache_get_stats(s->cache, &cache);
	ret->cache_bytes = cache.bytes;
	ret->cache_hits = cache.hits;
	ret->cache_misses = cache.misses;
	ret->cursors = cursors_count(&s->cursors);
}
