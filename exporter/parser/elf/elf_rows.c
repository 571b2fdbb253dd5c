/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidate functions → rows that do not overlap, ordered by address.
 *
 * Among symbols of one address one wins, by what people call it (wins). A sized
 * function owns its whole range: marks without a size inside it are dropped, a sized one inside
 * it cuts it in two. A function without size reaches to the next symbol or the end of its section.
 */
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/alloc.h"
#include "lib/base/radix.h"
#include "lib/base/str.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 64, AHEAD = 16 };

struct open_function {
	uint64_t end;
	uint32_t symbol;
};

struct sweep {
	struct elf_rows *rows;
	struct open_function stack[MAX_NESTING];
	unsigned depth;
	uint64_t pos; /* up to here rows are written */
};

void elf_rows_done(struct elf_rows *r)
{
	free(r->items);
	*r = (struct elf_rows) {0};
}

/* Those that mark a name as not for users. What C++ and Rust begin every name with does not, nor does what says that the vDSO answers and
 * not libc, whose function of the same name called it. */
static size_t leading_underscores(const char *name)
{
	size_t n = 0;

	if (str_starts_with(name, "_Z") || str_starts_with(name, "_R") ||
		str_starts_with(name, "__vdso_"))
		return 0;
	while (name[n] == '_')
		n++;
	return n;
}

/*
 * A typed and sized function before anything else. Then the one that new programs can be linked to, as they call it: not of an old
 * version, not local, with fewer leading underscores (glibc's weak calloc, not __libc_calloc), global before weak, the shorter.
 */
static bool wins(const struct elf_symbol *a, const struct elf_symbol *b)
{
	const struct {
		size_t a, b;
	} keys[] = {
		{a->rank, b->rank},
		{a->is_old, b->is_old},
		{a->bind == ELF_BIND_LOCAL, b->bind == ELF_BIND_LOCAL},
		{leading_underscores(a->name), leading_underscores(b->name)},
		{a->bind, b->bind},
		{strlen(a->name), strlen(b->name)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].a != keys[i].b)
			return keys[i].a < keys[i].b;
	return strcmp(a->name, b->name) < 0;
}

static int emit(struct sweep *s, uint64_t end, uint32_t symbol)
{
	struct elf_rows *rows = s->rows;
	uint64_t start = s->pos;
	int r;

	if (end <= start)
		return 0;
	s->pos = end;
	r = alloc_grow(&rows->items, &rows->cap, rows->n + 1, sizeof(*rows->items));
	if (r < 0)
		return r;
	rows->items[rows->n++] = (struct elf_row) {
		.start = (uint32_t)start,
		.size = (uint32_t)(MIN(end, UINT32_MAX) - start),
		.symbol = symbol,
	};
	return 0;
}

/* Writes the rest of every open function that ends at or before `addr`. */
static int close_until(struct sweep *s, uint64_t addr)
{
	while (s->depth && s->stack[s->depth - 1].end <= addr) {
		struct open_function *top = &s->stack[--s->depth];
		int r = emit(s, top->end, top->symbol);

		if (r < 0)
			return r;
	}
	return 0;
}

static int open_function(struct sweep *s, uint64_t addr, uint64_t end, uint32_t symbol)
{
	int r = 0;

	if (s->depth == MAX_NESTING) {
		s->rows->n_left_out++;
		return 0;
	}
	if (s->depth)
		r = emit(s, addr, s->stack[s->depth - 1].symbol);
	s->pos = MAX(s->pos, addr);
	s->stack[s->depth++] =
		(struct open_function) {.end = MIN(end, UINT32_MAX), .symbol = symbol};
	return r;
}

/* Where code that starts at `addr` ends at the latest. */
static uint64_t section_end(const struct elf_file *f, uint64_t addr)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(f->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && (shdr.sh_flags & SHF_EXECINSTR) &&
			addr >= shdr.sh_addr && addr - shdr.sh_addr < shdr.sh_size)
			return shdr.sh_addr + shdr.sh_size;
	for (uint32_t i = 0; i < f->n_loads; i++)
		if (addr >= f->loads[i].vaddr &&
			addr - f->loads[i].vaddr < f->loads[i].memory_bytes)
			return f->loads[i].vaddr + f->loads[i].memory_bytes;
	return addr;
}

static int sweep_symbols(const struct elf_file *f, const struct elf_symbols *symbols,
	const struct radix_item *order, size_t n, struct elf_rows *rows)
{
	struct sweep s = {.rows = rows};
	uint64_t end_known = 0; /* of the section that the last unsized symbol lay in */
	int r = 0;

	for (size_t i = 0; r == 0 && i < n;) {
		uint64_t addr = order[i].key, end;
		uint32_t best = order[i].value;

		if (i + AHEAD < n) /* by address, they lie anywhere in their table */
			__builtin_prefetch(&symbols->items[order[i + AHEAD].value]);

		for (i++; i < n && order[i].key == addr; i++)
			if (wins(&symbols->items[order[i].value], &symbols->items[best]))
				best = order[i].value;
		r = close_until(&s, addr);
		if (r < 0)
			return r;
		if (__builtin_add_overflow(addr, symbols->items[best].size, &end))
			end = UINT32_MAX;
		if (end == addr) {
			if (s.depth)
				continue;
			if (rows->text_base + addr >= end_known)
				end_known = section_end(f, rows->text_base + addr);
			end = MIN(i < n ? order[i].key : UINT32_MAX, end_known - rows->text_base);
		}
		r = open_function(&s, addr, end, best);
	}
	return r < 0 ? r : close_until(&s, UINT64_MAX);
}

int elf_make_rows(const struct elf_file *f, const struct elf_symbols *symbols, struct elf_rows *ret)
{
	_cleanup_free_ struct radix_item *order =
		try_realloc(NULL, symbols->n + 1, 2 * sizeof(*order));
	size_t n = 0;

	if (!order)
		return -ENOMEM;
	ret->text_base = symbols->n ? UINT64_MAX : 0;
	for (size_t i = 0; i < symbols->n; i++)
		ret->text_base = MIN(ret->text_base, symbols->items[i].addr);
	for (size_t i = 0; i < symbols->n; i++) {
		uint64_t rel = symbols->items[i].addr - ret->text_base;

		if (rel < UINT32_MAX)
			order[n++] =
				(struct radix_item) {.key = (uint32_t)rel, .value = (uint32_t)i};
		else
			ret->n_left_out++;
	}
	radix_sort(order, order + symbols->n + 1, n);
	return sweep_symbols(f, symbols, order, n, ret);
}
