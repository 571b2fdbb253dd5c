/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables by content: where their words lie, which ids they are published under, when they were looked up last.
 *
 * Invariants:
 *  1. bindings[id] is the table that binaries[id] leads to, NULL when it leads to none;
 *  2. a slab is in one table's list or in the list of free ones;
 *  3. the words and rules of binaries[id] were written before its seq became even, and do not change before seq does.
 */
#include "exporter/unwind/tables.h"
#include "exporter/unwind/rules.h"
#include "lib/base/alloc.h"
#include "lib/base/lock.h"
#include <stdlib.h>
#include <string.h>

struct unwind_table {
	uint8_t content_id[SYMBOL_CONTENT_ID_LEN];
	uint16_t *slabs; /* of its words, in order */
	uint32_t n_slabs;
	uint16_t
		list; /* slab with the numbers of those that hold page entries, or UNWIND_SLAB_NONE */
	uint16_t *rules; /* ids by the file's own numbers */
	uint32_t n_rules, n_rows;
	uint32_t first_page, n_pages;
	uint32_t n_bound; /* ids */
	int64_t last_use_ns;
};

struct unwind_tables {
	struct unwind_memory m;
	struct lock lock;
	struct rules rules;
	uint16_t *free_slabs; /* a stack */
	uint32_t n_free;
	struct unwind_table **tables;
	size_t n_tables, cap_tables;
	struct unwind_table **bindings; /* by id */
	uint32_t n_ids;			/* ids above were never bound */
	struct unwind_tables_stats stats;
};

struct unwind_tables *unwind_tables_new(const struct unwind_memory *memory)
{
	struct unwind_tables *t = xcalloc(1, sizeof(*t));

	t->m = *memory;
	t->m.n_slabs = MIN(t->m.n_slabs, UNWIND_MAX_SLABS);
	lock_init(&t->lock);
	rules_init(&t->rules, t->m.rules, t->m.n_rules);
	t->free_slabs = xcalloc(t->m.n_slabs + 1, sizeof(*t->free_slabs));
	for (uint32_t i = t->m.n_slabs; i > 1; i--)
		t->free_slabs[t->n_free++] = (uint16_t)(i - 1);
	t->bindings = xcalloc(t->m.n_binaries + 1, sizeof(struct unwind_table *));
	t->stats.capacity_bytes = (uint64_t)t->n_free * UNWIND_SLAB_WORDS * sizeof(uint32_t);
	return t;
}

static void table_free(struct unwind_table *table)
{
	free(table->slabs);
	free(table->rules);
	free(table);
}

void unwind_tables_freep(struct unwind_tables **pt)
{
	struct unwind_tables *t = *pt;

	if (!t)
		return;
	for (size_t i = 0; i < t->n_tables; i++)
		table_free(t->tables[i]);
	free(t->tables);
	free(t->bindings);
	free(t->free_slabs);
	rules_done(&t->rules);
	lock_done(&t->lock);
	free(t);
	*pt = NULL;
}

static uint32_t *slab_at(const struct unwind_tables *t, uint32_t slab)
{
	return t->m.slabs + (size_t)slab * UNWIND_SLAB_WORDS;
}

/* Changes what an id leads to. A walk that is under way sees that seq differs and drops what it found. */
static void publish_locked(
	struct unwind_tables *t, uint32_t id, uint16_t slab, const struct unwind_table *table)
{
	struct unwind_binary *b = &t->m.binaries[id];
	uint32_t seq = b->seq;

	ASSERT_HELD(&t->lock);
	__atomic_store_n(&b->seq, seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	b->slab = slab;
	b->is_listed = table && table->list != UNWIND_SLAB_NONE;
	b->first_page = table ? table->first_page : 0;
	b->n_pages = table ? table->n_pages : 0;
	__atomic_store_n(&b->seq, seq + 2, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (((seq + 2) >> 1) % UNWIND_GENERATIONS == 0) {
		memset(t->m.cache, 0, (size_t)t->m.n_cache * sizeof(*t->m.cache));
		t->stats.cache_wipes++;
	}
}

static void unbind_locked(struct unwind_tables *t, uint32_t id)
{
	ASSERT_HELD(&t->lock);
	if (t->m.binaries[id].slab != UNWIND_SLAB_NONE)
		publish_locked(t, id, UNWIND_SLAB_NONE, NULL);
	if (!t->bindings[id])
		return;
	t->bindings[id]->n_bound--;
	t->bindings[id] = NULL;
	t->stats.binaries--;
}

static void bind_locked(struct unwind_tables *t, uint32_t id, struct unwind_table *table)
{
	ASSERT_HELD(&t->lock);
	uint16_t slab = UNWIND_SLAB_ROWLESS;

	if (t->bindings[id] == table)
		return;
	unbind_locked(t, id);
	if (table->n_slabs)
		slab = table->list != UNWIND_SLAB_NONE ? table->list : table->slabs[0];
	publish_locked(t, id, slab, table);
	t->bindings[id] = table;
	t->n_ids = MAX(t->n_ids, id + 1);
	table->n_bound++;
	t->stats.binaries++;
}

/* Gives a table's slabs and rules back. Nothing leads to it any more. */
static void release_locked(struct unwind_tables *t, struct unwind_table *table)
{
	ASSERT_HELD(&t->lock);
	for (uint32_t i = 0; i < table->n_slabs; i++)
		t->free_slabs[t->n_free++] = table->slabs[i];
	if (table->list != UNWIND_SLAB_NONE)
		t->free_slabs[t->n_free++] = table->list;
	for (uint32_t i = 0; i < table->n_rules; i++)
		rules_put(&t->rules, table->rules[i]);
	t->stats.rows -= table->n_rows;
	table_free(table);
}

static void remove_locked(struct unwind_tables *t, size_t i)
{
	struct unwind_table *table = t->tables[i];

	ASSERT_HELD(&t->lock);
	for (uint32_t id = 0; table->n_bound && id < t->n_ids; id++)
		if (t->bindings[id] == table)
			unbind_locked(t, id);
	t->tables[i] = t->tables[--t->n_tables];
	release_locked(t, table);
}

/* Makes room for n slabs; false when that would take tables that are in use. */
static bool evict_locked(struct unwind_tables *t, uint32_t n, int64_t now_ns)
{
	ASSERT_HELD(&t->lock);
	while (t->n_free < n) {
		size_t oldest = t->n_tables;

		for (size_t i = 0; i < t->n_tables; i++)
			if (t->tables[i]->n_slabs &&
				(oldest == t->n_tables ||
					t->tables[i]->last_use_ns < t->tables[oldest]->last_use_ns))
				oldest = i;
		if (oldest == t->n_tables ||
			now_ns - t->tables[oldest]->last_use_ns < UNWIND_KEEP_NS)
			return false;
		remove_locked(t, oldest);
		t->stats.evicted++;
	}
	return true;
}

static struct unwind_table *find_locked(
	const struct unwind_tables *t, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN])
{
	ASSERT_HELD(&t->lock);
	for (size_t i = 0; i < t->n_tables; i++)
		if (memcmp(t->tables[i]->content_id, content_id, SYMBOL_CONTENT_ID_LEN) == 0)
			return t->tables[i];
	return NULL;
}

static void lay_rules_locked(
	struct unwind_tables *t, struct unwind_table *table, const struct symbol_unwind *u)
{
	ASSERT_HELD(&t->lock);
	for (uint32_t i = 1; i < u->n_rules; i++) {
		struct unwind_rule rule;

		symbol_unwind_rule(u, i, &rule);
		table->rules[i] = (uint16_t)rules_get(&t->rules, &rule);
		if (table->rules[i] == RULES_UNKNOWN && rule.cfa != UNWIND_CFA_UNKNOWN)
			t->stats.rules_refused++;
	}
}

/* Word `i` of the file's as it is in memory: page entries lead to slabs by their ids, rows to rules. */
static uint32_t word_of(const struct unwind_table *table, uint32_t i, uint32_t word)
{
	uint32_t at = UNWIND_PAGE_WORD(word);

	if (i >= table->n_pages)
		return UNWIND_ROW(word, table->rules[UNWIND_ROW_RULE(word)]);
	if (!word)
		return 0;
	return UNWIND_PAGE((uint32_t)table->slabs[at >> UNWIND_SLAB_SHIFT] << UNWIND_SLAB_SHIFT |
				   (at & UNWIND_SLAB_MASK),
		UNWIND_PAGE_N(word));
}

static void lay_words_locked(
	struct unwind_tables *t, struct unwind_table *table, const struct symbol_unwind *u)
{
	uint32_t *list = table->list != UNWIND_SLAB_NONE ? slab_at(t, table->list) : NULL;

	ASSERT_HELD(&t->lock);
	for (uint32_t s = 0, i = 0; s < table->n_slabs; s++) {
		uint32_t *to = slab_at(t, table->slabs[s]);
		uint32_t n = MIN(u->n_words - i, UNWIND_SLAB_WORDS);

		memcpy(to, u->words.data + (size_t)i * sizeof(*to), n * sizeof(*to));
		for (uint32_t k = 0; k < n; k++)
			to[k] = word_of(table, i + k, to[k]);
		if (list && s < UNWIND_SLAB_WORDS)
			list[s] = table->slabs[s];
		i += n;
	}
}

/* A table with room for its words; NULL when memory is out. */
static struct unwind_table *table_new_locked(
	struct unwind_tables *t, const struct symbol_unwind *u, uint32_t n_slabs)
{
	struct unwind_table *table = xcalloc(1, sizeof(*table));

	ASSERT_HELD(&t->lock);
	table->slabs = try_realloc(NULL, n_slabs + 1, sizeof(*table->slabs));
	table->rules = try_realloc(NULL, u->n_rules + 1, sizeof(*table->rules));
	if (!table->slabs || !table->rules ||
		alloc_grow(&t->tables, &t->cap_tables, t->n_tables + 1, sizeof(*t->tables)) < 0) {
		table_free(table);
		return NULL;
	}
	table->rules[0] = UNWIND_RULE_NONE;
	table->n_rules = u->n_rules;
	table->first_page = u->info[SYMBOL_UNWIND_FIRST_PAGE];
	table->n_pages = n_slabs ? u->info[SYMBOL_UNWIND_N_PAGES] : 0;
	table->n_rows = u->info[SYMBOL_UNWIND_N_ROWS];
	return table;
}

static int lay_locked(struct unwind_tables *t, const uint8_t *content_id,
	const struct symbol_unwind *u, int64_t now_ns, struct unwind_table **ret)
{
	ASSERT_HELD(&t->lock);
	/* Page entries alone, all of them 0, say nothing. */
	uint32_t n_words = u->info[SYMBOL_UNWIND_N_ROWS] ? u->n_words : 0;
	uint32_t n_slabs = (n_words + UNWIND_SLAB_WORDS - 1) / UNWIND_SLAB_WORDS;
	bool listed = n_slabs && u->info[SYMBOL_UNWIND_N_PAGES] > UNWIND_SLAB_WORDS;
	struct unwind_table *table;

	if ((uint64_t)n_slabs + listed > t->m.n_slabs - 1) {
		t->stats.refused_too_large++;
		return -ENOSPC;
	}
	if (!evict_locked(t, n_slabs + listed, now_ns)) {
		t->stats.refused_in_use++;
		return -ENOSPC;
	}
	table = table_new_locked(t, u, n_slabs);
	if (!table)
		return -ENOMEM;
	memcpy(table->content_id, content_id, SYMBOL_CONTENT_ID_LEN);
	while (table->n_slabs < n_slabs)
		table->slabs[table->n_slabs++] = t->free_slabs[--t->n_free];
	if (listed)
		table->list = t->free_slabs[--t->n_free];
	lay_rules_locked(t, table, u);
	lay_words_locked(t, table, u);
	t->tables[t->n_tables++] = table;
	t->stats.rows += table->n_rows;
	t->stats.loaded++;
	*ret = table;
	return 0;
}

int unwind_tables_load(struct unwind_tables *t, uint32_t binary,
	const uint8_t content_id[SYMBOL_CONTENT_ID_LEN], const struct symbol_unwind *u,
	int64_t now_ns)
{
	struct unwind_table *table;
	int r = 0;

	lock_take(&t->lock);
	table = find_locked(t, content_id);
	if (!binary || binary >= t->m.n_binaries) {
		t->stats.refused_id++;
		r = -ERANGE;
	} else if (table) {
		t->stats.shared += t->bindings[binary] != table;
	} else {
		r = lay_locked(t, content_id, u, now_ns, &table);
	}
	if (r == 0) {
		table->last_use_ns = now_ns;
		bind_locked(t, binary, table);
	}
	lock_release(&t->lock);
	return r;
}

bool unwind_tables_share(
	struct unwind_tables *t, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN])
{
	struct unwind_table *table;

	lock_take(&t->lock);
	table = binary && binary < t->m.n_binaries ? find_locked(t, content_id) : NULL;
	if (table) {
		t->stats.shared += t->bindings[binary] != table;
		bind_locked(t, binary, table);
	}
	lock_release(&t->lock);
	return table;
}

void unwind_tables_set_rowless(struct unwind_tables *t, uint32_t binary)
{
	lock_take(&t->lock);
	if (binary && binary < t->m.n_binaries && !t->bindings[binary]) {
		publish_locked(t, binary, UNWIND_SLAB_ROWLESS, NULL);
		t->n_ids = MAX(t->n_ids, binary + 1);
	}
	lock_release(&t->lock);
}

/* A table whose last id is gone is found again by content until it is evicted; without slabs it would never be. */
static void drop_rowless_locked(struct unwind_tables *t, const struct unwind_table *table)
{
	ASSERT_HELD(&t->lock);
	for (size_t i = 0; i < t->n_tables; i++) {
		if (t->tables[i] != table)
			continue;
		remove_locked(t, i);
		return;
	}
}

void unwind_tables_drop(struct unwind_tables *t, uint32_t binary)
{
	lock_take(&t->lock);
	if (binary < t->m.n_binaries) {
		const struct unwind_table *table = t->bindings[binary];

		unbind_locked(t, binary);
		t->m.binaries[binary].used = 0;
		if (table && !table->n_bound && !table->n_slabs)
			drop_rowless_locked(t, table);
	}
	lock_release(&t->lock);
}

size_t unwind_tables_scan(
	struct unwind_tables *t, uint32_t n_ids, int64_t now_ns, uint32_t *ret_wanted, size_t max)
{
	size_t n = 0;

	lock_take(&t->lock);
	for (uint32_t id = 1; id < MIN(n_ids, t->m.n_binaries); id++) {
		struct unwind_binary *b = &t->m.binaries[id];

		if (!__atomic_load_n(&b->used, __ATOMIC_RELAXED))
			continue;
		if (b->slab == UNWIND_SLAB_NONE && n == max)
			continue; /* reported next time */
		__atomic_store_n(&b->used, 0, __ATOMIC_RELAXED);
		if (t->bindings[id])
			t->bindings[id]->last_use_ns = now_ns;
		else if (b->slab == UNWIND_SLAB_NONE)
			ret_wanted[n++] = id;
	}
	lock_release(&t->lock);
	return n;
}

void unwind_tables_stats(struct unwind_tables *t, struct unwind_tables_stats *ret)
{
	lock_take(&t->lock);
	*ret = t->stats;
	ret->tables = t->n_tables;
	ret->rules = t->rules.n_used;
	ret->bytes = t->stats.capacity_bytes - (uint64_t)t->n_free * UNWIND_SLAB_WORDS * 4;
	lock_release(&t->lock);
}
