/* SPDX-License-Identifier: Apache-2.0
 *
 * One file's DWARF and the files that it names, from sections to tables.
 */
#include "exporter/parser/dwarf.h"
#include "exporter/parser/dwarf_line.h"
#include "exporter/parser/dwarf_scope.h"
#include "exporter/parser/dwarf_split.h"

static void vote(const struct dwarf_file *d, struct toolchain_votes *votes)
{
	enum toolchain_compiler compiler = TOOLCHAIN_NO_COMPILER;
	const char *last = NULL;

	for (size_t i = 0; i < d->n_units; i++) {
		const struct dwarf_unit *u = &d->units[i];

		if (u->is_broken)
			continue;
		/* Linkers merge strings: mostly it is the same one. */
		if (u->producer != last)
			compiler = elf_toolchain_compiler(u->producer);
		last = u->producer;
		elf_toolchain_vote(votes, u->language, compiler);
	}
}

int dwarf_read_file(struct dwarf_file *d, struct dwarf_links *links, struct debug_tables *t)
{
	int r = dwarf_file_list(d);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	debug_tables_expect(t, d->sections[DWARF_LINE].bytes, d->sections[DWARF_INFO].bytes);
	vote(d, &t->votes);
	for (size_t i = 0; i < d->n_units; i++)
		(void)!dwarf_program_of(&d->units[i]);
	for (size_t i = 0; i < d->n_programs && !t->error; i++)
		dwarf_program_run(&d->programs[i], t);
	/* Some compilers leave inlined calls in the skeleton too: they do where there is no more. */
	for (size_t i = 0; i < d->n_units && !t->error; i++)
		if (!dwarf_is_skeleton(&d->units[i]) || !dwarf_split_walk(&d->units[i], links, t))
			dwarf_walk_unit(&d->units[i], t);
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
