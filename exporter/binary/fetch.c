/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug information from servers. What a binary lacks is asked for once, on a thread of its own; when
 * it has come, the binary's symbol file is made anew and finds it here, by its build id. It lies in a
 * file without a name, so that it goes when it is not needed any more or the program ends.
 */
#include "exporter/binary/registry.h"
#include "exporter/fetcher/fetcher.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define FORGET_MISSING_NS (3600 * NS_PER_S) /* no server has it */
#define FORGET_FAILED_NS (600 * NS_PER_S)
#define KEEP_FETCHED_NS (60 * NS_PER_S) /* for the symbol threads to find */
enum { MAX_REMEMBERED = 4096 };

static uint64_t key_of(const struct symbol_identity *id)
{
	return hash_xxh3(id->build_id, id->build_id_len);
}

static bool is_same(const struct symbol_identity *a, const struct symbol_identity *b)
{
	return a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
}

static void drop_fetched_locked(struct binary_registry *r, size_t i)
{
	struct fetch *f = &r->fetches;

	ASSERT_HELD(&r->lock);
	close(f->done[i].fd);
	f->done[i] = f->done[--f->n_done];
}

/* Who needs it may wait for its turn for long. */
static bool is_awaited_locked(struct binary_registry *r, uint32_t binary)
{
	const struct entry *e = entry_locked(r, binary);

	ASSERT_HELD(&r->lock);
	return e && (e->again || e->state == BINARY_QUEUED || e->state == BINARY_WORKING);
}

static void drop_old_locked(struct binary_registry *r)
{
	struct fetch *f = &r->fetches;
	int64_t now = clock_monotonic_ns(r->o.clock);

	ASSERT_HELD(&r->lock);
	for (size_t i = 0; i < f->n_done;)
		if (now - f->done[i].at_ns > KEEP_FETCHED_NS &&
			!is_awaited_locked(r, f->done[i].binary))
			drop_fetched_locked(r, i);
		else
			i++;
}

/* Takes the descriptor over unless there is one already, or no room. */
static bool add_fetched_locked(
	struct binary_registry *r, uint32_t binary, const struct symbol_identity *id, int fd)
{
	struct fetch *f = &r->fetches;

	ASSERT_HELD(&r->lock);
	drop_old_locked(r);
	for (size_t i = 0; i < f->n_done; i++)
		if (is_same(&f->done[i].id, id))
			return false;
	if (f->n_done == BINARY_MAX_FETCHES)
		return false;
	f->done[f->n_done++] = (struct fetched) {
		.id = *id, .binary = binary, .fd = fd, .at_ns = clock_monotonic_ns(r->o.clock)};
	return true;
}

void binary_fetch_done(struct binary_registry *r)
{
	lock_take(&r->lock);
	while (r->fetches.n_done)
		drop_fetched_locked(r, 0);
	lock_release(&r->lock);
	table_done(&r->fetches.not_before);
}

int binary_fetched_open(struct binary_registry *r, const struct symbol_identity *id)
{
	struct fetch *f = &r->fetches;
	int fd = -ENOENT;

	lock_take(&r->lock);
	for (size_t i = 0; i < f->n_done && fd < 0; i++)
		if (is_same(&f->done[i].id, id)) {
			fd = fcntl(f->done[i].fd, F_DUPFD_CLOEXEC, 3);
			drop_fetched_locked(r, i);
		}
	lock_release(&r->lock);
	return fd;
}

void binary_fetched_keep(
	struct binary_registry *r, uint32_t binary, const struct symbol_identity *id, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	lock_take(&r->lock);
	if (copy >= 0 && !add_fetched_locked(r, binary, id, copy))
		close(copy);
	lock_release(&r->lock);
}

void binary_fetch_want(struct binary_registry *r, uint32_t binary, const struct symbol_identity *id)
{
	struct fetch *f = &r->fetches;
	int64_t now = clock_monotonic_ns(r->o.clock);
	uint64_t *not_before;

	if (r->o.fetcher_fd <= 0 || !id->build_id_len)
		return;
	lock_take(&r->lock);
	not_before = table_find(&f->not_before, key_of(id));
	if (not_before && now < (int64_t)*not_before) {
		r->stats.fetch_skipped++;
	} else if (f->n_wanted == BINARY_MAX_FETCHES) {
		r->stats.fetch_queue_full++;
	} else {
		if (f->not_before.n_used >= MAX_REMEMBERED)
			table_clear(&f->not_before);
		not_before = table_insert(&f->not_before, key_of(id), NULL);
		if (not_before) /* until there is an answer */
			*not_before = INT64_MAX;
		f->wanted[f->n_wanted++] = (struct fetch_item) {.binary = binary, .id = *id};
		pthread_cond_signal(&f->cond);
	}
	lock_release(&r->lock);
}

/* A file without a name beside the symbol files, else in memory. */
static int open_output(struct binary_registry *r)
{
	int fd = -ENOENT;

	if (r->o.cache_path && r->o.cache_path[0])
		fd = r->o.fs->open(r->o.fs, r->o.cache_path, O_TMPFILE | O_RDWR, 0600);
	return fd >= 0 ? fd : memfd_create("debuginfo", MFD_CLOEXEC);
}

/* The binary's symbol file is made once more, with what has come. One that waits for its turn finds it then. */
static void make_anew_locked(struct binary_registry *r, uint32_t binary)
{
	uint32_t id = binary_canonical_locked(r, binary);
	struct entry *e = id ? r->entries[id] : NULL;

	ASSERT_HELD(&r->lock);
	if (!e || (e->state != BINARY_WORKING && e->state != BINARY_READY))
		return;
	e->again = true;
	binary_renew_locked(r, id);
}

static void settle_locked(struct binary_registry *r, const struct fetch_item *item, int fd,
	enum fetcher_status status)
{
	struct fetch *f = &r->fetches;
	int64_t now = clock_monotonic_ns(r->o.clock);
	uint64_t *not_before = table_insert(&f->not_before, key_of(&item->id), NULL);

	ASSERT_HELD(&r->lock);
	r->stats.fetched[status]++;
	if (not_before)
		*not_before = (uint64_t)(now + (status == FETCHER_OK || status == FETCHER_NOT_FOUND
							       ? FORGET_MISSING_NS
							       : FORGET_FAILED_NS));
	if (status == FETCHER_OK && add_fetched_locked(r, item->binary, &item->id, fd))
		make_anew_locked(r, item->binary);
	else
		close(fd);
}

void binary_fetch_work(struct binary_registry *r, int64_t timeout_ns)
{
	struct fetch *f = &r->fetches;
	int64_t until = clock_monotonic_ns(r->o.clock) + timeout_ns;
	enum fetcher_status status = FETCHER_FAILED;
	struct fetcher_reply reply = {.text = ""};
	struct fetch_item item;
	int fd;

	lock_take(&r->lock);
	if (!f->n_wanted)
		(void)lock_wait_until(&r->lock, &f->cond, until);
	drop_old_locked(r);
	if (!f->n_wanted) {
		lock_release(&r->lock);
		return;
	}
	item = f->wanted[0];
	memmove(f->wanted, f->wanted + 1, --f->n_wanted * sizeof(*f->wanted));
	lock_release(&r->lock);
	fd = open_output(r);
	if (fd >= 0)
		status = fetcher_debuginfo(
			r->o.fetcher_fd, item.id.build_id, item.id.build_id_len, fd, &reply);
	if (reply.text[0])
		LOG_RATED(LOG_WARN, "debuginfod: %s", reply.text);
	lock_take(&r->lock);
	settle_locked(r, &item, fd, status);
	lock_release(&r->lock);
}
