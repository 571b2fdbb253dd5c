/* SPDX-License-Identifier: Apache-2.0
 *
 * Start-up: the WAL into heads. A generation that an intact block names only gives its cursors.
 */
#include "lib/base/alloc.h"
#include "scraper/store/store_impl.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

struct replaying {
	struct store *s;
	struct head *head; /* NULL: cursors only */
	bool restated;	   /* this generation's first record, with all cursors, is there */
	uint64_t done, total;
};

static int replay_record(
	void *arg, const void *body, size_t len, uint64_t sequence, struct errbuf *eb)
{
	struct replaying *w = arg;
	struct head_applied applied = {.n_rows = 0};
	struct record record;
	int r = record_parse(body, len, &record, eb);

	(void)sequence;
	if (!r)
		r = cursors_apply(&w->s->cursors, &record, eb);
	if (!r && record.kind == RECORD_CURSORS)
		w->restated = true;
	if (!r && w->head)
		r = head_apply(w->head, &record, &applied, eb);
	w->s->stats.replay_dropped_rows += applied.dropped_rows;
	w->done += len;
	if (w->s->o.progress)
		w->s->o.progress(w->s->o.progress_arg, MIN(w->done, w->total), w->total);
	return r;
}

/* Nothing but a torn header: the process or the power went while the segment was made. */
static bool is_torn_creation(struct store *s, const char *path)
{
	_cleanup_bytes_ struct bytes all = {.data = NULL};

	if (fs_read_file(s->fs, path, UINT32_MAX, &all, NULL) < 0)
		return false;
	for (size_t i = WAL_FIRST; i < all.len; i++)
		if (all.data[i])
			return false;
	return true;
}

static int quarantine_segment(struct store *s, const struct wal_file *f)
{
	_cleanup_free_ char *path = xasprintf("%s/%08" PRIu64, s->wal_dir, f->segment.number);
	_cleanup_free_ char *name = xasprintf("wal-%08" PRIu64, f->segment.number);

	if (is_torn_creation(s, path))
		return s->o.read_only ? 0 : s->fs->unlink(s->fs, path);
	s->stats.replay_damaged_records++;
	if (s->o.read_only)
		return 0;
	return store_quarantine(s, path, name, "both headers of the WAL segment are damaged");
}

/* Cuts the torn tail off: later segments first, so that a crash in between leaves the same answer. */
static int cut_tail(struct store *s, const struct wal_files *files, size_t end,
	const struct wal_replay *w, struct errbuf *eb)
{
	_cleanup_free_ char *last = NULL;
	int fd, r = 0;

	for (size_t i = end; !r && i > w->end_file + 1; i--) {
		_cleanup_free_ char *path =
			xasprintf("%s/%08" PRIu64, s->wal_dir, files->items[i - 1].segment.number);

		r = s->fs->unlink(s->fs, path);
	}
	last = xasprintf("%s/%08" PRIu64, s->wal_dir, files->items[w->end_file].segment.number);
	if (r < 0)
		return err_set(eb, r, "%s: cannot remove what follows: %s", last, strerror(-r));
	fd = s->fs->open(s->fs, last, O_RDWR, 0);
	if (fd < 0)
		return err_set(eb, fd, "%s: %s", last, strerror(-fd));
	if (files->items[w->end_file].size > w->end_offset)
		r = s->fs->ftruncate(s->fs, fd, w->end_offset);
	if (!r)
		r = s->fs->fsync(s->fs, fd);
	s->fs->close(s->fs, fd);
	if (!r)
		r = s->fs->sync_dir(s->fs, s->wal_dir);
	return r < 0 ? err_set(eb, r, "%s: cannot cut the torn tail: %s", last, strerror(-r)) : 0;
}

/* What was read must stay what it is: the earlier segments are synced too. */
static int sync_segments(
	struct store *s, const struct wal_files *files, size_t first, size_t end, struct errbuf *eb)
{
	for (size_t i = first; i < end; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%08" PRIu64, s->wal_dir, files->items[i].segment.number);
		int fd = s->fs->open(s->fs, path, O_RDWR, 0);
		int r = fd < 0 ? fd : s->fs->fdatasync(s->fs, fd);

		if (fd >= 0)
			s->fs->close(s->fs, fd);
		if (r < 0)
			return err_set(eb, r, "%s: %s", path, strerror(-r));
	}
	return 0;
}

static void remember_segments(struct store *s, const struct wal_files *files)
{
	struct wal *w = &s->wal;

	w->segments = xcalloc(files->n + 1, sizeof(*w->segments));
	w->cap_segments = files->n + 1;
	for (size_t i = 0; i < files->n; i++) {
		w->next_number = MAX(w->next_number, files->items[i].segment.number + 1);
		if (!files->items[i].unusable)
			w->segments[w->n_segments++] = files->items[i].segment;
	}
}

/* Segments that cut_tail removed. */
static void forget_segments(struct store *s, uint64_t after)
{
	while (s->wal.n_segments && s->wal.segments[s->wal.n_segments - 1].number > after)
		s->wal.n_segments--;
}

static int new_head(
	struct store *s, const uint8_t generation[ULID_BYTES], struct head **ret, struct errbuf *eb)
{
	int64_t age = clock_realtime_ns(s->clock) - ulid_time_ns(generation);
	int r = head_new(generation, s->o.max_nodes, &s->head_budget, s->next_part_id++, ret);

	if (r < 0)
		return err_set(eb, r, "out of memory for a generation");
	(*ret)->created_ns = clock_monotonic_ns(s->clock) - MAX(age, (int64_t)0);
	return 0;
}

/* Appending goes on in a new segment of this generation. */
static void continue_generation(struct store *s, struct head *h)
{
	s->wal.written_sequence = s->wal.synced_sequence = s->wal.next_sequence - 1;
	record_mark_take(&h->mark, &h->dict);
	wal_begin_generation(&s->wal, h->generation);
	s->head = h;
}

/* A generation without its first record does not hold all cursors: it ends too, and the next one restates them. */
static int end_generation(struct store *s, struct head *h, bool goes_on, struct errbuf *eb)
{
	int r;

	record_mark_take(&h->mark, &h->dict);
	if (goes_on && !s->o.read_only) {
		continue_generation(s, h);
		return 0;
	}
	r = store_add_sealed(s, h);
	if (r < 0) {
		part_put(&h->part);
		return err_set(eb, r, "out of memory");
	}
	/* Written out at once, so that memory holds one generation; a failure is tried again by store_maintain. */
	if (!s->o.read_only)
		r = store_flush_sealed(s, eb);
	return 0;
}

/* Segments of which the disk does not give back everything; they are set aside before the block that has the rest is written. */
static bool mark_unreadable(
	struct store *s, const struct wal_files *files, size_t first, size_t end)
{
	bool any = false;

	for (size_t i = first; i < end; i++) {
		const struct wal_segment *x = &files->items[i].segment;

		if (x->unreadable)
			wal_mark_unreadable(&s->wal, x->number, true);
		any |= x->unreadable;
	}
	return any;
}

static int replay_generation(struct store *s, struct wal_files *files, size_t first, size_t end,
	struct replaying *w, struct errbuf *eb)
{
	const uint8_t *generation = files->items[first].segment.generation;
	int skip = store_has_generation(s, generation, eb);
	struct wal_replay replay = {
		.record = replay_record, .arg = w, .last_generation = end == files->n};
	bool unreadable;
	int r;

	if (skip < 0)
		return skip;
	w->head = NULL;
	w->restated = false;
	if (!skip) {
		r = new_head(s, generation, &w->head, eb);
		if (r < 0)
			return r;
	}
	r = wal_replay_generation(s->fs, s->wal_dir, files, first, end, &replay, eb);
	unreadable = mark_unreadable(s, files, first, end);
	if (unreadable && !replay.damaged_records)
		replay.damaged_records = 1;
	s->stats.replayed_records += replay.n_records;
	s->stats.replay_damaged_records += replay.damaged_records;
	s->stats.replay_truncated_bytes += replay.truncated_bytes;
	s->wal.next_sequence = MAX(s->wal.next_sequence,
		MAX(replay.last_sequence + 1, files->items[first].segment.first_sequence));
	/* What could not be read is no torn tail: all of it stays, and nothing is appended to it. */
	if (!r && replay.last_generation && !unreadable && !s->o.read_only) {
		r = cut_tail(s, files, end, &replay, eb);
		forget_segments(s, files->items[replay.end_file].segment.number);
		r = r ? r : sync_segments(s, files, first, replay.end_file + 1, eb);
	}
	if (r < 0) {
		if (w->head)
			part_put(&w->head->part);
		return r;
	}
	return skip ? store_add_obsolete(s, generation)
		    : end_generation(
			      s, w->head, replay.last_generation && w->restated && !unreadable, eb);
}

static size_t generation_end(const struct wal_files *files, size_t first)
{
	size_t end = first + 1;

	while (end < files->n && !memcmp(files->items[end].segment.generation,
					 files->items[first].segment.generation, ULID_BYTES))
		end++;
	return end;
}

/* Unusable segments leave the list. */
static int drop_unusable(struct store *s, struct wal_files *files, struct errbuf *eb)
{
	size_t n = 0;

	for (size_t i = 0; i < files->n; i++) {
		if (!files->items[i].unusable) {
			files->items[n++] = files->items[i];
			continue;
		}
		if (quarantine_segment(s, &files->items[i]) < 0)
			return err_set(eb, -EIO, "cannot quarantine WAL segment %" PRIu64,
				files->items[i].segment.number);
	}
	files->n = n;
	return 0;
}

/* Names come from trusted time, so the newest one is how far the process before had come. */
static int64_t newest_name_ns(const struct store *s, const struct wal_files *files)
{
	int64_t newest = INT64_MIN;

	for (size_t i = 0; i < s->n_blocks; i++)
		newest = MAX(newest, ulid_time_ns(s->blocks[i]->meta.ulid));
	for (size_t i = 0; i < files->n; i++)
		newest = MAX(newest, ulid_time_ns(files->items[i].segment.generation));
	return newest == INT64_MIN ? INT64_MAX : newest;
}

int store_replay(struct store *s, struct errbuf *eb)
{
	_cleanup_(wal_files_done)
	struct wal_files files = {.items = NULL};
	struct replaying w = {.s = s};
	int64_t start = clock_monotonic_ns(s->clock);
	uint64_t limit = s->head_budget.limit_bytes;
	int r = wal_list(s->fs, s->wal_dir, &files, eb);

	if (r == -ENOENT && s->o.read_only)
		return 0;
	/* A process that died may have removed segments that the power could still bring back, after their block changed. */
	if (!r && !s->o.read_only) {
		r = s->fs->sync_dir(s->fs, s->wal_dir);
		if (r < 0)
			return err_set(eb, r, "%s: %s", s->wal_dir, strerror(-r));
	}
	if (r < 0)
		return r;
	remember_segments(s, &files);
	r = drop_unusable(s, &files, eb);
	age_clock_init(&s->age, s->clock, s->o.block_ns, newest_name_ns(s, &files));
	for (size_t i = 0; i < files.n; i++)
		w.total += files.items[i].size;
	/* A cap that was lowered since must not lose data. */
	s->head_budget.limit_bytes = 0;
	for (size_t i = 0, end; !r && i < files.n; i = end) {
		end = generation_end(&files, i);
		r = replay_generation(s, &files, i, end, &w, eb);
	}
	s->head_budget.limit_bytes = limit;
	s->stats.replay_ns = clock_monotonic_ns(s->clock) - start;
	return r;
}
