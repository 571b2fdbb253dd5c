/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables from symbol files.
 */
#include "exporter/walk/unwind_loader.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include <stdatomic.h>

#define SCAN_INTERVAL_NS NS_PER_S
enum { MAX_WANTED = 64, N_REPLAY_BINARIES = 1 << 16 };

struct unwind_loader {
	struct unwind_memory memory;
	struct unwind_tables *tables;
	struct files *files; /* NULL in a replay */
	bool owns_memory;
	_Atomic int64_t next_scan_ns;
};

struct unwind_loader *unwind_loader_new(
	const struct keeper_setup *s, void *const *memory, uint64_t table_bytes)
{
	struct unwind_loader *u = xcalloc(1, sizeof(*u));
	struct unwind_memory *m = &u->memory;

	if (memory[KEEPER_SLABS]) {
		*m = (struct unwind_memory) {
			.slabs = memory[KEEPER_SLABS],
			.n_slabs = s->maps[KEEPER_SLABS].n,
			.rules = memory[KEEPER_RULES],
			.n_rules = s->maps[KEEPER_RULES].n,
			.binaries = memory[KEEPER_BINARIES],
			.n_binaries = s->maps[KEEPER_BINARIES].n,
			.cache = memory[KEEPER_CACHE],
			.n_cache = s->maps[KEEPER_CACHE].n,
		};
		u->files = files_new(memory[KEEPER_FILES], s->maps[KEEPER_FILES].n);
	} else {
		u->owns_memory = true;
		m->n_slabs = (uint32_t)(table_bytes / (UNWIND_SLAB_WORDS * sizeof(uint32_t)));
		m->n_rules = UNWIND_MAX_RULES;
		m->n_binaries = N_REPLAY_BINARIES;
		m->n_cache = UNWIND_CACHE_ANSWERS;
		m->slabs = xcalloc(m->n_slabs, UNWIND_SLAB_WORDS * sizeof(uint32_t));
		m->rules = xcalloc(m->n_rules, sizeof(*m->rules));
		m->binaries = xcalloc(m->n_binaries, sizeof(*m->binaries));
		m->cache = xcalloc(m->n_cache, sizeof(*m->cache));
	}
	u->tables = unwind_tables_new(m);
	return u;
}

void unwind_loader_freep(struct unwind_loader **up)
{
	struct unwind_loader *u = *up;

	if (!u)
		return;
	unwind_tables_freep(&u->tables);
	files_freep(&u->files);
	if (u->owns_memory) {
		free(u->memory.slabs);
		free(u->memory.rules);
		free(u->memory.binaries);
		free(u->memory.cache);
	}
	free(u);
	*up = NULL;
}

struct deferred_tables unwind_loader_tables(const struct unwind_loader *u)
{
	const struct unwind_memory *m = &u->memory;

	return (struct deferred_tables) {
		.binaries = m->binaries,
		.slabs = m->slabs,
		.rules = m->rules,
		.n_binaries = m->n_binaries,
		.n_slabs = m->n_slabs,
		.n_rules = m->n_rules,
	};
}

/* What the tables refuse they count themselves. */
void unwind_loader_rows(
	struct unwind_loader *u, uint32_t binary, const struct symbol_file *s, int64_t now_ns)
{
	struct symbol_unwind rows;

	if (!symbol_unwind_of(s, &rows))
		unwind_tables_set_rowless(u->tables, binary);
	else if (unwind_tables_load(u->tables, binary, s->identity.content_id, &rows, now_ns) < 0)
		LOG_RATED(LOG_DEBUG, "binary %u has no room for its unwind table", binary);
	symbol_file_rest(s, &s->unwind_words); /* the table is a copy of them */
}

bool unwind_loader_has_rows(
	struct unwind_loader *u, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN])
{
	return unwind_tables_share(u->tables, binary, content_id);
}

/* False when there is no symbol file. */
static bool load(
	struct unwind_loader *u, struct binary_registry *r, uint32_t binary, int64_t now_ns)
{
	const struct symbol_file *s = binary_symbols_get(r, binary, 0);

	if (!s)
		return false;
	unwind_loader_rows(u, binary, s, now_ns);
	binary_symbols_put(r, s);
	return true;
}

void unwind_loader_settled(struct unwind_loader *u, struct binary_registry *r, uint32_t binary,
	bool unreadable, int64_t now_ns)
{
	/* What code there is keeps frame pointers or is cut, unless its rows came before its names failed. A file that could not be
	 * opened yet is tried again: until then its code is not taken for such. */
	if (!load(u, r, binary, now_ns) && unreadable)
		unwind_tables_set_rowless(u->tables, binary);
}

void unwind_loader_round(struct unwind_loader *u, struct binary_registry *r, int64_t now_ns)
{
	uint32_t wanted[MAX_WANTED];
	int64_t due_ns = u->next_scan_ns;
	size_t n;

	if (now_ns < due_ns || !atomic_compare_exchange_strong(
				       &u->next_scan_ns, &due_ns, now_ns + SCAN_INTERVAL_NS))
		return;
	n = unwind_tables_scan(u->tables, binary_n_ids(r), now_ns, wanted, MAX_WANTED);
	for (size_t i = 0; i < n; i++)
		(void)load(u, r, wanted[i], now_ns);
}

void unwind_loader_found(struct unwind_loader *u, uint32_t binary, const struct binary_file *file)
{
	struct file_key key;

	if (!u->files)
		return;
	files_drop(u->files, binary);
	if (!file)
		return;
	key = (struct file_key) {.ino = file->ino,
		.bytes = file->size_bytes,
		.mtime_ns = (uint64_t)file->mtime_ns,
		.dev = file->dev_major << 20 | file->dev_minor};
	files_set(u->files, &key, binary);
}

void unwind_loader_release(struct unwind_loader *u, uint32_t binary)
{
	unwind_tables_drop(u->tables, binary);
}

void unwind_loader_stats(struct unwind_loader *u, struct unwind_loader_stats *ret)
{
	*ret = (struct unwind_loader_stats) {.files = {0}};
	unwind_tables_stats(u->tables, &ret->tables);
	if (u->files)
		files_stats(u->files, &ret->files);
}
