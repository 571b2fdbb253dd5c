/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry of binaries: identities, ids, the queue of what is wanted, references to symbol
 * files.
 */
#include "exporter/binary/registry.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include <string.h>

static void init_sync(struct binary_registry *r)
{
	lock_init(&r->disk_lock);
	lock_init(&r->lock);
	lock_cond_init(&r->queued);
	lock_cond_init(&r->settled);
	lock_cond_init(&r->fetches.cond);
}

struct binary_registry *binary_registry_new(const struct binary_options *o, struct errbuf *eb)
{
	struct binary_registry *r = xcalloc(1, sizeof(*r));

	r->o = *o;
	r->n_ids = 1;
	r->fresh.patience_ns = BINARY_FRESH_PATIENCE_NS;
	r->paced.patience_ns = BINARY_PACED_PATIENCE_NS;
	r->failed_at_ns = clock_monotonic_ns(o->clock) - BINARY_SKIP_FAILED_NS;
	r->debt_at_ns = clock_monotonic_ns(o->clock);
	init_sync(r);
	table_init(&r->by_identity, o->budget);
	table_init(&r->by_content, o->budget);
	table_init(&r->failed, o->budget);
	table_init(&r->fetches.not_before, o->budget);
	binary_cache_load(r, eb);
	return r;
}

static uint64_t entry_bytes(const struct entry *e)
{
	return sizeof(*e) + (e->path ? strlen(e->path) + 1 : 0) +
	       (e->runtime ? sizeof(*e->runtime) : 0);
}

static void free_entry(struct binary_registry *r, struct entry *e)
{
	if (r->o.budget && e->used)
		budget_release(r->o.budget, entry_bytes(e));
	binary_inputs_freep(&e->inputs);
	free(e->runtime);
	free(e->path);
	free(e);
}

void binary_registry_freep(struct binary_registry **rp)
{
	struct binary_registry *r = *rp;

	if (!r)
		return;
	binary_contents_free(r);
	for (uint32_t id = 1; id < r->n_ids; id++)
		if (r->entries[id])
			free_entry(r, r->entries[id]);
	free(r->entries);
	binary_close_roots(r);
	binary_fetch_done(r);
	table_done(&r->by_identity);
	table_done(&r->by_content);
	table_done(&r->failed);
	pthread_cond_destroy(&r->queued);
	pthread_cond_destroy(&r->settled);
	pthread_cond_destroy(&r->fetches.cond);
	lock_done(&r->lock);
	lock_done(&r->disk_lock);
	free(r);
	*rp = NULL;
}

static uint64_t hash_identity(const struct binary_identity *id)
{
	uint64_t numbers[6] = {0};
	uint64_t h = hash_xxh3(id->path, strlen(id->path));

	if (id->build_id_len)
		return hash_xxh3_seed(id->build_id, id->build_id_len, h);
	numbers[0] = (uint64_t)id->dev_major << 32 | id->dev_minor;
	numbers[1] = id->ino;
	numbers[2] = id->ino_generation;
	numbers[3] = id->size_bytes;
	numbers[4] = (uint64_t)id->mtime_ns;
	return hash_xxh3_seed(numbers, sizeof(numbers), h);
}

static bool is_identity(const struct entry *e, const struct binary_identity *id)
{
	if (strcmp(e->path, id->path) != 0 || e->build_id_len != id->build_id_len)
		return false;
	if (id->build_id_len)
		return memcmp(e->build_id, id->build_id, id->build_id_len) == 0;
	return e->dev_major == id->dev_major && e->dev_minor == id->dev_minor &&
	       e->ino == id->ino && e->ino_generation == id->ino_generation &&
	       e->size_bytes == id->size_bytes && e->mtime_ns == id->mtime_ns;
}

static uint32_t new_id_locked(struct binary_registry *r)
{
	uint32_t id = r->free_list;

	ASSERT_HELD(&r->lock);
	if (id) {
		r->free_list = r->entries[id]->next;
		free(r->entries[id]);
		r->entries[id] = NULL;
		return id;
	}
	if (r->n_ids >= BINARY_MAX_ENTRIES ||
		alloc_grow(&r->entries, &r->cap_entries, r->n_ids + 1, sizeof(*r->entries)) < 0)
		return 0;
	r->entries[0] = NULL;
	r->entries[r->n_ids] = NULL;
	return r->n_ids++;
}

static struct entry *entry_of_identity(const struct binary_identity *id, uint64_t hash)
{
	struct entry *e = xcalloc(1, sizeof(*e));

	e->used = true;
	e->hash = hash;
	e->path = xstrdup(id->path);
	e->build_id_len = MIN(id->build_id_len, SYMBOL_BUILD_ID_MAX);
	if (e->build_id_len)
		memcpy(e->build_id, id->build_id, e->build_id_len);
	e->dev_major = id->dev_major;
	e->dev_minor = id->dev_minor;
	e->ino = id->ino;
	e->ino_generation = id->ino_generation;
	e->size_bytes = id->size_bytes;
	e->mtime_ns = id->mtime_ns;
	return e;
}

static uint32_t add_locked(
	struct binary_registry *r, const struct binary_identity *identity, uint64_t hash)
{
	struct entry *e = entry_of_identity(identity, hash);
	uint64_t *slot = table_insert(&r->by_identity, hash, NULL);
	uint32_t id = 0;

	ASSERT_HELD(&r->lock);
	if (slot && (!r->o.budget || budget_charge(r->o.budget, entry_bytes(e), NULL) == 0)) {
		id = new_id_locked(r);
		if (!id && r->o.budget)
			budget_release(r->o.budget, entry_bytes(e));
	}
	if (!id) {
		if (slot && !*slot)
			table_remove(&r->by_identity, hash);
		r->stats.table_full++;
		free(e->path);
		free(e);
		return 0;
	}
	e->next_same_hash = (uint32_t)*slot;
	*slot = id;
	r->entries[id] = e;
	r->stats.binaries++;
	return id;
}

uint32_t binary_get(struct binary_registry *r, const struct binary_identity *identity)
{
	uint64_t hash = hash_identity(identity), *slot;
	uint32_t id = 0;

	lock_take(&r->lock);
	slot = table_find(&r->by_identity, hash);
	for (id = slot ? (uint32_t)*slot : 0; id; id = r->entries[id]->next_same_hash)
		if (is_identity(r->entries[id], identity))
			break;
	if (!id)
		id = add_locked(r, identity, hash);
	else if (r->entries[id]->alias)
		id = r->entries[id]->alias;
	lock_release(&r->lock);
	return id;
}

void binary_want(struct binary_registry *r, uint32_t binary, const struct binary_source *src)
{
	struct entry *e;

	lock_take(&r->lock);
	binary = binary_canonical_locked(r, binary);
	e = binary ? r->entries[binary] : NULL;
	if (e && e->state == BINARY_ABSENT) {
		e->source = *src;
		e->has_source = true;
		if (clock_monotonic_ns(r->o.clock) >= e->not_before_ns)
			binary_enqueue_locked(r, &r->fresh, binary);
		else
			r->stats.skipped++;
	}
	lock_release(&r->lock);
}

bool binary_is_missing(struct binary_registry *r, uint32_t binary)
{
	const struct entry *e;
	bool missing;

	lock_take(&r->lock);
	e = entry_locked(r, binary);
	missing = e && e->state == BINARY_ABSENT;
	lock_release(&r->lock);
	return missing;
}

bool binary_is_coming(struct binary_registry *r, uint32_t binary)
{
	const struct entry *e;
	bool coming;

	lock_take(&r->lock);
	e = entry_locked(r, binary);
	coming = e && (e->state == BINARY_QUEUED || e->state == BINARY_WORKING);
	lock_release(&r->lock);
	return coming;
}

const struct symbol_file *binary_symbols_get(
	struct binary_registry *r, uint32_t binary, int64_t deadline_ns)
{
	const struct symbol_file *found = NULL;

	lock_take(&r->lock);
	for (;;) {
		uint32_t id = binary_canonical_locked(r, binary);
		struct entry *e = id ? r->entries[id] : NULL;

		if (e && e->state == BINARY_READY) {
			e->content->symbols.n_refs++;
			e->content->last_use = ++r->use_clock;
			found = &e->content->symbols;
			break;
		}
		/* Evicted, or not reachable when it was tried last. */
		if (e && e->state == BINARY_ABSENT && e->has_source &&
			clock_monotonic_ns(r->o.clock) >= e->not_before_ns)
			binary_enqueue_locked(r, &r->fresh, id);
		if (!e || e->state == BINARY_ABSENT ||
			clock_monotonic_ns(r->o.clock) >= deadline_ns)
			break;
		(void)lock_wait_until(&r->lock, &r->settled, deadline_ns);
	}
	lock_release(&r->lock);
	return found;
}

void binary_symbols_put(struct binary_registry *r, const struct symbol_file *s)
{
	struct content *c = s ? s->owner : NULL;

	if (!c)
		return;
	lock_take(&r->lock);
	ASSERT(c->symbols.n_refs);
	if (--c->symbols.n_refs == 0 && c->entry)
		binary_renew_locked(r, c->entry);
	lock_release(&r->lock);
}

uint32_t binary_canonical(struct binary_registry *r, uint32_t binary)
{
	uint32_t id;

	lock_take(&r->lock);
	id = binary_canonical_locked(r, binary);
	lock_release(&r->lock);
	return id;
}

static void print_hex(const uint8_t *p, uint32_t n, char *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (uint32_t i = 0; i < n; i++) {
		ret[2 * i] = digits[p[i] >> 4];
		ret[2 * i + 1] = digits[p[i] & 15];
	}
	ret[2 * n] = '\0';
}

static void print_build_id(const struct entry *e, char *ret)
{
	const struct symbol_identity *i = e->content ? &e->content->symbols.identity : NULL;

	if (i && i->build_id_len)
		print_hex(i->build_id, i->build_id_len, ret);
	else
		print_hex(e->build_id, e->build_id_len, ret);
}

void binary_labels(
	struct binary_registry *r, uint32_t binary, bool with_build_id, struct binary_labels *ret)
{
	const struct entry *e;

	ret->build_id[0] = '\0';
	lock_take(&r->lock);
	e = entry_locked(r, binary);
	ret->compiler = toolchain_compiler_name(e ? e->toolchain.compiler : 0);
	ret->language = toolchain_language_name(e ? e->toolchain.language : 0);
	if (e && with_build_id)
		print_build_id(e, ret->build_id);
	lock_release(&r->lock);
}

void binary_info(struct binary_registry *r, uint32_t binary, struct binary_info *ret)
{
	const struct entry *e;

	*ret = (struct binary_info) {{0}, {0}};
	lock_take(&r->lock);
	e = entry_locked(r, binary);
	if (e) {
		snprintf(ret->path, sizeof(ret->path), "%s", e->path);
		print_build_id(e, ret->build_id);
	}
	lock_release(&r->lock);
}

uint32_t binary_n_ids(struct binary_registry *r)
{
	uint32_t n;

	lock_take(&r->lock);
	n = r->n_ids;
	lock_release(&r->lock);
	return n;
}

static void forget_identity_locked(struct binary_registry *r, uint32_t id)
{
	struct entry *e = r->entries[id];
	uint64_t *slot = table_find(&r->by_identity, e->hash);
	uint32_t at = (uint32_t)*slot;

	ASSERT_HELD(&r->lock);
	if (at == id) {
		*slot = e->next_same_hash;
		if (!*slot)
			table_remove(&r->by_identity, e->hash);
		return;
	}
	while (r->entries[at]->next_same_hash != id)
		at = r->entries[at]->next_same_hash;
	r->entries[at]->next_same_hash = e->next_same_hash;
}

static void release_locked(struct binary_registry *r, uint32_t id)
{
	struct entry *e = r->entries[id];

	ASSERT_HELD(&r->lock);
	forget_identity_locked(r, id);
	if (r->o.released)
		r->o.released(r->o.hook_ctx, id);
	if (e->content)
		binary_content_unmap_locked(r, e->content);
	free_entry(r, e);
	r->entries[id] = xcalloc(1, sizeof(*e));
	r->entries[id]->next = r->free_list;
	r->free_list = id;
	r->stats.binaries--;
}

/* Keeps what is used or may be, what is at work or in a hook, and what an alias that is kept stands for. */
static void mark_kept_locked(
	struct binary_registry *r, const uint64_t *used_bitmap, uint32_t n_ids, uint8_t *keep)
{
	ASSERT_HELD(&r->lock);
	for (uint32_t id = 1; id < r->n_ids; id++) {
		const struct entry *e = r->entries[id];
		bool at_work =
			e->state == BINARY_QUEUED || e->state == BINARY_WORKING || e->n_hooks;
		bool is_used = id >= n_ids || bits_has(used_bitmap, id);

		if (!e->used ||
			(!is_used && !at_work && !(e->content && e->content->symbols.n_refs)))
			continue;
		keep[id] = 1;
		keep[e->alias ? e->alias : id] = 1;
	}
}

/* Marks the entries that are not kept; says of those that have been unused for a while that they may go. */
static void note_unused_locked(struct binary_registry *r, const uint8_t *keep, int64_t now_ns)
{
	ASSERT_HELD(&r->lock);
	for (uint32_t id = 1; id < r->n_ids; id++) {
		struct entry *e = r->entries[id];

		if (!e->used)
			continue;
		if (keep[id]) {
			e->unused_since_ns = 0;
			if (!e->file_reported)
				binary_report_file_locked(r, id, true);
		} else if (!e->unused_since_ns) {
			e->unused_since_ns = now_ns;
		} else if (now_ns - e->unused_since_ns >= BINARY_FORGET_FILE_NS) {
			binary_report_file_locked(r, id, false);
		}
	}
}

void binary_retain(struct binary_registry *r, const uint64_t *used_bitmap, uint32_t n_ids)
{
	_cleanup_free_ uint8_t *keep = NULL;
	int64_t now = clock_monotonic_ns(r->o.clock);

	lock_take(&r->lock);
	keep = xcalloc(r->n_ids, 1);
	mark_kept_locked(r, used_bitmap, n_ids, keep);
	note_unused_locked(r, keep, now);
	for (uint32_t id = 1; id < r->n_ids; id++) {
		const struct entry *e = r->entries[id];

		/* A sample may be under way that found the id by the file. */
		if (e->used && !e->file_reported && e->unused_since_ns &&
			now - e->unused_since_ns >= BINARY_RELEASE_NS &&
			now - e->withdrawn_ns >= BINARY_UNTOLD_NS)
			release_locked(r, id);
	}
	lock_release(&r->lock);
}

void binary_count_unnamed(struct binary_registry *r, uint32_t binary, uint64_t n)
{
	struct entry *e;

	lock_take(&r->lock);
	e = entry_locked(r, binary);
	if (e)
		e->unnamed += n;
	lock_release(&r->lock);
}

size_t binary_top_unnamed(struct binary_registry *r, struct binary_unnamed *ret, size_t max)
{
	size_t n = 0;

	lock_take(&r->lock);
	for (uint32_t id = 1; id < r->n_ids && max; id++) {
		const struct entry *e = r->entries[id];
		size_t at = n;

		if (!e->used || !e->unnamed || (n == max && ret[n - 1].frames >= e->unnamed))
			continue;
		at = n < max ? n++ : max - 1;
		for (; at && ret[at - 1].frames < e->unnamed; at--)
			ret[at] = ret[at - 1];
		ret[at].frames = e->unnamed;
		snprintf(ret[at].path, sizeof(ret[at].path), "%s", e->path);
	}
	lock_release(&r->lock);
	return n;
}

void binary_stats(struct binary_registry *r, struct binary_stats *ret)
{
	lock_take(&r->lock);
	*ret = r->stats;
	ret->contents = r->by_content.n_used;
	ret->roots = r->n_roots;
	lock_release(&r->lock);
}
