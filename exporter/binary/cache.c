/* SPDX-License-Identifier: Apache-2.0
 *
 * Contents and where their symbol files lie: CACHE_PATH/<content id in hex>.sym, or in memory
 * when there is no path. Both count towards one cap; the least recently used go first, and none
 * that is referenced.
 */
#include "exporter/binary/registry.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <fcntl.h>
#include <string.h>

enum { HEX_BYTES = 2 * SYMBOL_CONTENT_ID_LEN, BLOCK_BYTES = 4096 };

/* What a file takes on disk, and in memory. */
static uint64_t whole_blocks(uint64_t bytes)
{
	return MAX((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES, 1) * BLOCK_BYTES;
}

static uint64_t key_of(const uint8_t id[SYMBOL_CONTENT_ID_LEN])
{
	uint64_t key;

	memcpy(&key, id, sizeof(key));
	return key;
}

static bool has_disk(const struct binary_registry *r)
{
	return r->o.cache_path && r->o.cache_path[0];
}

static char *path_of(const struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN])
{
	char hex[HEX_BYTES + 1];

	for (int i = 0; i < SYMBOL_CONTENT_ID_LEN; i++)
		snprintf(hex + (size_t)i * 2, 3, "%02x", id[i]);
	return xasprintf("%s/%s.sym", r->o.cache_path, hex);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool id_of_name(const char *name, uint8_t ret[SYMBOL_CONTENT_ID_LEN])
{
	if (strlen(name) != HEX_BYTES + strlen(".sym") || strcmp(name + HEX_BYTES, ".sym") != 0)
		return false;
	for (int i = 0; i < SYMBOL_CONTENT_ID_LEN; i++) {
		int high = hex_value(name[2 * i]), low = hex_value(name[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* The table holds pointers as numbers. */
static struct content *content_of(uint64_t value)
{
	union {
		uint64_t value;
		struct content *content;
	} u = {.value = value};

	return u.content;
}

struct content *binary_content_find_locked(
	struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN])
{
	const uint64_t *slot = table_find(&r->by_content, key_of(id));
	struct content *c = slot ? content_of(*slot) : NULL;

	ASSERT_HELD(&r->lock);
	return c && memcmp(c->id, id, SYMBOL_CONTENT_ID_LEN) == 0 ? c : NULL;
}

static struct content *new_content_locked(
	struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN], uint64_t bytes)
{
	bool is_new;
	uint64_t *slot = table_insert(&r->by_content, key_of(id), &is_new);
	struct content *c;

	ASSERT_HELD(&r->lock);
	if (!slot || !is_new)
		return NULL;
	c = xcalloc(1, sizeof(*c));
	memcpy(c->id, id, SYMBOL_CONTENT_ID_LEN);
	c->bytes = whole_blocks(bytes);
	c->last_use = ++r->use_clock;
	*slot = (uint64_t)(uintptr_t)c;
	r->content_bytes += c->bytes;
	return c;
}

static void drop_content_locked(struct binary_registry *r, struct content *c)
{
	ASSERT_HELD(&r->lock);
	r->content_bytes -= c->bytes;
	r->stats.cache_bytes -= c->on_disk ? c->bytes : 0;
	table_remove(&r->by_content, key_of(c->id));
	free(c);
}

/* The mapping goes, the entry is without symbols; a content that is nowhere any more is
 * forgotten. */
void binary_content_unmap_locked(struct binary_registry *r, struct content *c)
{
	ASSERT_HELD(&r->lock);
	ASSERT(!c->symbols.n_refs);
	if (c->symbols.data) {
		r->stats.symbol_bytes -= c->symbols.bytes;
		symbol_file_unmap(&c->symbols);
	}
	if (c->entry) {
		r->entries[c->entry]->content = NULL;
		r->entries[c->entry]->state = BINARY_ABSENT;
		c->entry = 0;
	}
	if (!c->on_disk)
		drop_content_locked(r, c);
}

static struct content *oldest_locked(struct binary_registry *r, const struct content *not_this)
{
	struct content *oldest = NULL;
	uint64_t key, value;

	ASSERT_HELD(&r->lock);
	for (size_t pos = 0; table_next(&r->by_content, &pos, &key, &value);) {
		struct content *c = content_of(value);

		if (c != not_this && !c->symbols.n_refs &&
			(!oldest || c->last_use < oldest->last_use))
			oldest = c;
	}
	return oldest;
}

/* Its file is to go; without the lock, since that may take a disk's time. */
static bool doom_locked(struct binary_registry *r, struct content *c)
{
	ASSERT_HELD(&r->lock);
	if (alloc_grow(&r->doomed, &r->cap_doomed, r->n_doomed + 1, sizeof(*r->doomed)) < 0)
		return false;
	memcpy(r->doomed[r->n_doomed++], c->id, sizeof(c->id));
	r->stats.cache_bytes -= c->bytes;
	c->on_disk = false;
	return true;
}

/* Until `more` bytes fit; false when they do not, whatever goes. binary_cache_sweep removes the files. */
static bool evict_locked(struct binary_registry *r, const struct content *not_this, uint64_t more)
{
	ASSERT_HELD(&r->lock);
	if (r->o.cache_bytes && more > r->o.cache_bytes)
		return false;
	while (r->o.cache_bytes && r->content_bytes + more > r->o.cache_bytes) {
		struct content *c = oldest_locked(r, not_this);

		if (!c || (c->on_disk && !doom_locked(r, c)))
			return false;
		r->stats.cache_evicted++;
		binary_content_unmap_locked(r, c);
	}
	return true;
}

/* The next file to remove; false: there is none. */
static bool next_doomed(struct binary_registry *r, uint8_t ret[SYMBOL_CONTENT_ID_LEN])
{
	bool found;

	lock_take(&r->lock);
	found = r->n_doomed > 0;
	if (found)
		memcpy(ret, r->doomed[--r->n_doomed], SYMBOL_CONTENT_ID_LEN);
	lock_release(&r->lock);
	return found;
}

/* With disk_lock: what is written after this stays. */
static void sweep(struct binary_registry *r)
{
	uint8_t id[SYMBOL_CONTENT_ID_LEN];

	ASSERT_HELD(&r->disk_lock);
	while (next_doomed(r, id)) {
		_cleanup_free_ char *path = path_of(r, id);

		r->o.fs->unlink(r->o.fs, path);
	}
}

void binary_cache_sweep(struct binary_registry *r)
{
	bool any;

	lock_take(&r->lock);
	any = r->n_doomed > 0;
	lock_release(&r->lock);
	if (!any)
		return;
	lock_take(&r->disk_lock);
	sweep(r);
	lock_release(&r->disk_lock);
}

struct found_file {
	uint8_t id[SYMBOL_CONTENT_ID_LEN];
	uint64_t bytes;
	int64_t mtime_ns;
};

static int by_mtime(const void *pa, const void *pb)
{
	const struct found_file *a = pa, *b = pb;

	return a->mtime_ns < b->mtime_ns ? -1 : a->mtime_ns > b->mtime_ns;
}

static void load_file(struct binary_registry *r, const char *name, struct found_file **files,
	size_t *n, size_t *cap)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", r->o.cache_path, name);
	struct found_file file;
	struct fs_stat st;

	if (str_ends_with(name, ".sym.tmp"))
		r->o.fs->unlink(r->o.fs, path); /* of a write that never finished */
	if (!id_of_name(name, file.id) || r->o.fs->stat(r->o.fs, path, &st) < 0 || !st.is_regular)
		return;
	if (alloc_grow(files, cap, *n + 1, sizeof(**files)) < 0)
		return;
	file.bytes = st.size_bytes;
	file.mtime_ns = st.mtime_ns;
	(*files)[(*n)++] = file;
}

void binary_cache_load(struct binary_registry *r, struct errbuf *eb)
{
	_cleanup_free_ struct found_file *files = NULL;
	_cleanup_bytes_ struct bytes names;
	size_t n = 0, cap = 0;
	int e;

	bytes_init(&names, NULL, 0);
	if (!has_disk(r))
		return;
	e = fs_make_dirs(r->o.fs, r->o.cache_path, 0700);
	if (e == 0)
		e = r->o.fs->list(r->o.fs, r->o.cache_path, &names);
	if (e < 0) {
		err_set(eb, e, "--symbols.cache-path=%s: %s: symbol files are kept in memory only",
			r->o.cache_path, strerror(-e));
		r->o.cache_path = "";
		r->stats.cache_write_failed++;
		return;
	}
	for (size_t at = 0; at < names.len; at += strlen((const char *)names.data + at) + 1)
		load_file(r, (const char *)names.data + at, &files, &n, &cap);
	if (n)
		qsort(files, n, sizeof(*files), by_mtime);
	lock_take(&r->lock);
	for (size_t i = 0; i < n; i++) {
		struct content *c = new_content_locked(r, files[i].id, files[i].bytes);

		if (!c)
			continue;
		c->on_disk = true;
		r->stats.cache_bytes += c->bytes;
	}
	(void)evict_locked(r, NULL, 0);
	lock_release(&r->lock);
	binary_cache_sweep(r);
}

static int cache_open(
	struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN], struct symbol_file *ret)
{
	_cleanup_free_ char *path = path_of(r, id);
	struct content *c;
	int fd, e;

	fd = r->o.fs->open(r->o.fs, path, O_RDONLY, 0);
	if (fd < 0)
		return -ENOENT;
	e = symbol_file_map(fd, ret, NULL);
	r->o.fs->close(r->o.fs, fd);
	if (e == 0 && memcmp(ret->identity.content_id, id, SYMBOL_CONTENT_ID_LEN) != 0) {
		symbol_file_unmap(ret);
		e = -EBADMSG;
	}
	if (e == 0)
		return 0;
	/* Corrupt, or of another version: built anew. */
	r->o.fs->unlink(r->o.fs, path);
	lock_take(&r->lock);
	r->stats.cache_corrupt++;
	c = binary_content_find_locked(r, id);
	if (c && !c->symbols.data)
		drop_content_locked(r, c);
	lock_release(&r->lock);
	return -EBADMSG;
}

int binary_cache_open(
	struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN], struct symbol_file *ret)
{
	int e;

	if (!has_disk(r))
		return -ENOENT;
	lock_take(&r->disk_lock);
	e = cache_open(r, id, ret);
	lock_release(&r->disk_lock);
	return e;
}

static int cache_write(struct binary_registry *r, struct symbol_file *s)
{
	_cleanup_free_ char *path = NULL;
	struct symbol_file on_disk = {0};
	bool fits;
	int e;

	/* Room is made before, so that the directory never holds more than it may. */
	lock_take(&r->lock);
	fits = evict_locked(
		r, binary_content_find_locked(r, s->identity.content_id), whole_blocks(s->bytes));
	r->stats.cache_no_room += !fits;
	lock_release(&r->lock);
	sweep(r);
	if (!fits)
		return -EFBIG;
	path = path_of(r, s->identity.content_id);
	e = fs_write_file(r->o.fs, path, s->data, s->bytes, 0600, NULL);
	if (e == 0) {
		int fd = r->o.fs->open(r->o.fs, path, O_RDONLY, 0);

		e = fd < 0 ? fd : symbol_file_map(fd, &on_disk, NULL);
		if (fd >= 0)
			r->o.fs->close(r->o.fs, fd);
	}
	if (e < 0) {
		lock_take(&r->lock);
		r->stats.cache_write_failed++;
		lock_release(&r->lock);
		return e;
	}
	symbol_file_unmap(s);
	*s = on_disk;
	return 0;
}

int binary_cache_write(struct binary_registry *r, struct symbol_file *s)
{
	int e;

	if (!has_disk(r))
		return -ENOENT;
	lock_take(&r->disk_lock);
	e = cache_write(r, s);
	lock_release(&r->disk_lock);
	return e;
}

/* The file was made anew, with debug information that was not there before. */
static void resize_locked(struct binary_registry *r, struct content *c, uint64_t bytes)
{
	ASSERT_HELD(&r->lock);
	bytes = whole_blocks(bytes);
	r->content_bytes += bytes - c->bytes;
	r->stats.cache_bytes += c->on_disk ? bytes - c->bytes : 0;
	c->bytes = bytes;
}

struct content *binary_content_add_locked(
	struct binary_registry *r, uint32_t id, const struct symbol_file *s, bool on_disk)
{
	struct content *c = binary_content_find_locked(r, s->identity.content_id);

	ASSERT_HELD(&r->lock);
	if (!c)
		c = new_content_locked(r, s->identity.content_id, s->bytes);
	if (!c)
		return NULL;
	ASSERT(!c->symbols.data);
	resize_locked(r, c, s->bytes);
	if (on_disk && !c->on_disk)
		r->stats.cache_bytes += c->bytes;
	c->on_disk |= on_disk;
	c->symbols = *s;
	c->symbols.owner = c;
	c->entry = id;
	c->last_use = ++r->use_clock;
	r->stats.symbol_bytes += s->bytes;
	r->entries[id]->content = c;
	r->entries[id]->state = BINARY_READY;
	r->entries[id]->toolchain = s->toolchain;
	binary_note_runtime_locked(r, id, s);
	(void)evict_locked(r, c, 0);
	return c;
}

void binary_contents_free(struct binary_registry *r)
{
	uint64_t key, value;

	for (size_t pos = 0; table_next(&r->by_content, &pos, &key, &value);) {
		struct content *c = content_of(value);

		symbol_file_unmap(&c->symbols);
		free(c);
	}
	free(r->doomed);
}
