/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtimes of languages that files hold, as far as their symbol files are known. A record stays with its entry when the symbol file
 * is evicted.
 */
#include "exporter/binary/registry.h"
#include "exporter/symfile/symbol_runtime.h"
#include "lib/base/alloc.h"

void binary_note_runtime_locked(
	struct binary_registry *r, uint32_t id, const struct symbol_file *symbols)
{
	struct entry *e = r->entries[id];
	struct runtime_record found;

	ASSERT_HELD(&r->lock);
	if (!symbol_runtime_of(symbols, &found))
		return;
	if (!e->runtime) {
		if (r->o.budget && budget_charge(r->o.budget, sizeof(found), NULL) < 0)
			return;
		e->runtime = xmalloc(sizeof(found));
	}
	*e->runtime = found;
}

bool binary_runtime(struct binary_registry *r, uint32_t binary, struct runtime_record *ret)
{
	const struct entry *e;
	bool has;

	lock_take(&r->lock);
	e = entry_locked(r, binary);
	has = e && e->runtime;
	if (has)
		*ret = *e->runtime;
	lock_release(&r->lock);
	return has;
}
