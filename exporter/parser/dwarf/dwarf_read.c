/* SPDX-License-Identifier: Apache-2.0
 *
 * One file's DWARF and the files that it names, from sections to tables.
 */
#include "exporter/parser/dwarf/dwarf.h"
#include "exporter/parser/dwarf/dwarf_line.h"
#include "exporter/parser/dwarf/dwarf_scope.h"
#include "exporter/parser/dwarf/dwarf_split.h"
#include "lib/base/hash.h"

/* Who is counted, and what the producers seen last are: linkers merge strings, and files of few compilers and flags are mixed. */
struct electorate {
	struct toolchain_votes *votes;
	struct {
		const char *producer;
		enum toolchain_compiler compiler;
	} seen[64];
};

static void vote(const struct dwarf_unit *u, struct electorate *e)
{
	size_t i = hash_mix((uintptr_t)u->producer) % ARRAY_SIZE(e->seen);

	if (u->producer != e->seen[i].producer) {
		e->seen[i].producer = u->producer;
		e->seen[i].compiler = elf_toolchain_compiler(u->producer);
	}
	elf_toolchain_vote(e->votes, u->language, e->seen[i].compiler);
}

/* Its line program, where no unit before had that, then its entries. */
static void read_unit(struct dwarf_unit *u, struct dwarf_links *links, struct debug_tables *t,
	struct electorate *e, uint32_t *last_program)
{
	struct dwarf_program *p;

	dwarf_abbrevs_begin(u);
	if (dwarf_unit_read(u))
		vote(u, e);
	p = dwarf_program_of(u);
	if (p && *last_program != u->program) {
		if (*last_program)
			dwarf_program_release(u->file, *last_program);
		*last_program = u->program;
	}
	if (p && !p->has_run)
		dwarf_program_run(p, t);
	/* Some compilers leave inlined calls in the skeleton too: they do where there is no more. */
	if (!t->error && (!dwarf_is_skeleton(u) || !dwarf_split_walk(u, links, t)))
		dwarf_walk_unit(u, t);
}

int dwarf_read_file(struct dwarf_file *d, struct dwarf_links *links, struct debug_tables *t)
{
	struct electorate e = {.votes = &t->votes};
	uint32_t last_program = 0;
	int r = dwarf_file_list(d);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	debug_tables_expect(t, d->sections[DWARF_LINE].bytes, d->sections[DWARF_INFO].bytes);
	for (size_t i = 0; i < d->n_units && !t->error; i++)
		read_unit(&d->units[i], links, t, &e, &last_program);
	return t->error;
}

int dwarf_read(const struct elf_file *debug, struct dwarf_links *links, struct debug_tables *t)
{
	_cleanup_dwarf_linked_ struct dwarf_linked alt = {.elf = {.fd = -1}};
	_cleanup_dwarf_file_ struct dwarf_file d;
	int r = dwarf_file_load(debug, false, &d);

	/* Debian's strip leaves the link in the program when what it is for has gone into the debug file. */
	if (r == 0)
		r = d.sections[DWARF_INFO].bytes ? dwarf_alt_open(debug, links, &alt) : -ENOENT;
	if (r == -ENOENT)
		r = 0;
	else if (r == 0)
		d.alt = &alt.dwarf;
	return r < 0 ? r : dwarf_read_file(&d, links, t);
}
