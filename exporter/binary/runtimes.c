/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtimes of languages that files hold, as far as their symbol files are known. A record stays with its entry when the symbol file
 * is evicted.
 */
#include "exporter/binary/registry.h"
#include "exporter/symfile/symbol_runtime.h"
#include "lib/base/alloc.h"
#include <elf.h>

static void note_code(struct entry_runtime *e, const struct symbol_file *symbols)
{
	e->n_code = 0;
	for (uint32_t i = 0; i < symbols->n_loads && e->n_code < BINARY_MAX_CODE; i++) {
		struct code_pages *c = &e->code[e->n_code];
		struct symbol_load load;
		uint64_t limit;

		symbol_file_load(symbols, i, &load);
		if (!(load.flags & PF_X))
			continue;
		symbol_load_pages(&load, &c->vaddr, &limit, &c->file_off);
		c->bytes = limit - c->vaddr;
		e->n_code++;
	}
}

void binary_note_runtime_locked(
	struct binary_registry *r, uint32_t id, const struct symbol_file *symbols)
{
	struct entry *e = r->entries[id];
	struct runtime_record found;

	ASSERT_HELD(&r->lock);
	if (!symbol_runtime_of(symbols, &found))
		return;
	if (!e->runtime) {
		if (r->o.budget && budget_charge(r->o.budget, sizeof(*e->runtime), NULL) < 0)
			return;
		e->runtime = xmalloc(sizeof(*e->runtime));
	}
	e->runtime->record = found;
	note_code(e->runtime, symbols);
}

bool binary_runtime(struct binary_registry *r, uint32_t binary, struct runtime_record *ret)
{
	const struct entry *e;
	bool has;

	lock_take(&r->lock);
	e = entry_locked(r, binary);
	has = e && e->runtime;
	if (has)
		*ret = e->runtime->record;
	lock_release(&r->lock);
	return has;
}

/* From an address in the file to one in memory, or back. */
static bool convert(
	struct binary_registry *r, uint32_t binary, uint64_t from, bool is_vaddr, uint64_t *ret)
{
	const struct entry *e;
	bool found = false;

	lock_take(&r->lock);
	e = entry_locked(r, binary);
	for (uint32_t i = 0; e && e->runtime && !found && i < e->runtime->n_code; i++) {
		const struct code_pages *c = &e->runtime->code[i];
		uint64_t off = from - (is_vaddr ? c->vaddr : c->file_off);

		found = off < c->bytes;
		if (found)
			*ret = off + (is_vaddr ? c->file_off : c->vaddr);
	}
	lock_release(&r->lock);
	return found;
}

bool binary_runtime_vaddr(
	struct binary_registry *r, uint32_t binary, uint64_t file_off, uint64_t *ret)
{
	return convert(r, binary, file_off, false, ret);
}

bool binary_runtime_offset(
	struct binary_registry *r, uint32_t binary, uint64_t vaddr, uint64_t *ret)
{
	return convert(r, binary, vaddr, true, ret);
}
