/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter takes two passes over all code: the first counts each function's indirect jumps, the second looks for calls of the one
 * that has most. Parsers and regular expressions have functions of many such jumps too.
 */
#include "exporter/parser/runtime/ruby_code.h"
#include "exporter/parser/unwind/cfi.h"
#include "exporter/parser/unwind/x86.h"
#include "exporter/symfile/runtime.h"

enum {
	MAX_FUNCTIONS = 1 << 17, /* a Ruby has some 10,000 */
	MIN_JUMPS = 64,		 /* of the instructions' function; versions have 121 to 143 */
	MIN_BYTES_PER_JUMP =
		64, /* procedure linkage tables, which have more jumps than it, have 16 */
};

enum { MAX_ENTRIES = 4 };

struct search {
	const struct elf_image *image;
	uint64_t ranges[MAX_ENTRIES]; /* where a call of rb_range_new goes to */
	uint32_t n_ranges;
	struct cfi_section section;
	struct ruby_range core, caller;
	uint32_t n_jumps;   /* of `core` */
	uint32_t n_callers; /* of `core`: functions */
};

/* Gives each function of the section to `fn`. */
static void each_function(struct search *s, void (*fn)(struct search *s, struct ruby_range f))
{
	enum cfi_entry entry;
	struct cfi_fde fde;
	uint64_t off = 0;

	for (uint32_t n = 0; n < MAX_FUNCTIONS; n++) {
		uint64_t before = off;

		entry = cfi_read(&s->section, &off, &fde);
		if (entry == CFI_END || (entry == CFI_BAD && off == before))
			break;
		if (entry == CFI_FDE && fde.begin < fde.end)
			fn(s, (struct ruby_range) {fde.begin, fde.end});
	}
}

/* The next instruction of a function's code; false at its end. Bytes that are none are taken one by one. */
static bool next_insn(struct cursor *c, struct x86_insn *ret)
{
	if (!cursor_left(c))
		return false;
	x86_decode(c->pos, cursor_left(c), ret);
	cursor_skip(c, ret->bytes ? ret->bytes : 1);
	return true;
}

static struct cursor code_of(const struct search *s, struct ruby_range f)
{
	struct cursor c = elf_image_at(s->image, f.begin);

	if (cursor_left(&c) > f.end - f.begin)
		c.end = c.pos + (f.end - f.begin);
	return c;
}

static void count_jumps(struct search *s, struct ruby_range f)
{
	struct cursor c = code_of(s, f);
	struct x86_insn insn;
	uint32_t n = 0;

	while (next_insn(&c, &insn))
		n += insn.kind == X86_JUMP_ANY;
	if (n > s->n_jumps && (f.end - f.begin) / n >= MIN_BYTES_PER_JUMP) {
		s->n_jumps = n;
		s->core = f;
	}
}

/* The function itself, and its entries in the procedure linkage tables: a library calls by these what it exports. */
static void find_ranges(struct search *s, uint64_t range_new)
{
	_cleanup_elf_symbols_ struct elf_symbols plt = {0};

	if (range_new)
		s->ranges[s->n_ranges++] = range_new;
	if (elf_read_plt(s->image->f, &plt) < 0)
		return;
	for (size_t i = 0; i < plt.n && s->n_ranges < MAX_ENTRIES; i++)
		if (strcmp(plt.items[i].name, RUBY_RANGE_NEW) == 0)
			s->ranges[s->n_ranges++] = plt.items[i].addr;
}

/* One of the instructions makes a Range. */
static bool makes_ranges(const struct search *s, struct ruby_range f)
{
	struct cursor c = code_of(s, f);
	struct x86_insn insn;

	while (next_insn(&c, &insn))
		for (uint32_t i = 0; insn.kind == X86_CALL && i < s->n_ranges; i++)
			if (f.begin + cursor_off(&c) + (uint64_t)insn.value == s->ranges[i])
				return true;
	return false;
}

static void find_call(struct search *s, struct ruby_range f)
{
	struct cursor c = code_of(s, f);
	struct x86_insn insn;

	while (f.begin != s->core.begin && next_insn(&c, &insn))
		if (insn.kind == X86_CALL &&
			f.begin + cursor_off(&c) + (uint64_t)insn.value == s->core.begin) {
			s->n_callers++;
			s->caller = f;
			return;
		}
}

bool ruby_find_interpreter(
	const struct elf_image *image, uint64_t range_new, struct ruby_interpreter *ret)
{
	struct search s = {.image = image};
	const struct cfi_machine *machine = cfi_machine_of(image->f->machine);
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_file_section(image->f, ".eh_frame", &shdr);
	Elf_Data *data = scn ? elf_file_section_data(scn) : NULL;

	if (image->f->machine != EM_X86_64 || !machine || !data)
		return false;
	cfi_section_init(&s.section, machine, data->d_buf, data->d_size, shdr.sh_addr);
	each_function(&s, count_jumps);
	find_ranges(&s, range_new);
	if (s.n_jumps < MIN_JUMPS || !makes_ranges(&s, s.core))
		return false;
	each_function(&s, find_call);
	*ret = (struct ruby_interpreter) {.exec = s.caller, .core = s.core};
	return s.n_callers == 1;
}

/* Of rb_symbols_t; ids is a list of lists of names. */
enum { SYMBOLS_IDS = 16 };
enum { MAX_INSNS = 64, MAX_READ = 8 };

struct symbols_search {
	uint64_t numbers[MAX_READ]; /* addresses that 32-bit instructions read */
	uint32_t n;
	uint64_t found;
};

/* What an instruction of the form OP ADDRESS(%rip), register reads: cmp and mov. `behind` is the address of the next one. */
static void note_read(struct symbols_search *s, struct cursor c, uint64_t behind)
{
	uint8_t first = cursor_u8(&c), op, mod_rm;
	bool is_wide = (first & 0xf8) == 0x48;
	uint64_t at;

	op = is_wide || first == 0x44 ? cursor_u8(&c) : first;
	mod_rm = cursor_u8(&c);
	at = behind + (uint64_t)(int64_t)(int32_t)cursor_u32(&c);
	if (c.error || cursor_left(&c) || (mod_rm & 0xc7) != 5)
		return;
	if (!is_wide && (op == 0x39 || op == 0x3b || op == 0x8b) && s->n < MAX_READ)
		s->numbers[s->n++] = at;
	for (uint32_t i = 0; is_wide && op == 0x8b && i < s->n; i++)
		if (at == s->numbers[i] + SYMBOLS_IDS && !s->found)
			s->found = s->numbers[i];
}

/* Up to the jump to another function that the code ends in; true: there is one, and *vaddr is where it goes. */
static bool note_reads(
	struct symbols_search *s, const struct elf_image *image, uint64_t *vaddr, bool is_last)
{
	struct cursor c = elf_image_at(image, *vaddr);
	struct x86_insn insn;

	for (uint32_t i = 0; i < MAX_INSNS && !s->found; i++) {
		struct cursor at = c;

		if (!next_insn(&c, &insn))
			break;
		at.end = c.pos;
		note_read(s, at, *vaddr + cursor_off(&c));
		if (insn.kind == X86_JUMP && !is_last) {
			*vaddr += cursor_off(&c) + (uint64_t)insn.value;
			return true;
		}
	}
	return false;
}

uint64_t ruby_find_symbols(const struct elf_image *image, uint64_t vaddr)
{
	struct symbols_search s = {0};

	if (image->f->machine == EM_X86_64 && note_reads(&s, image, &vaddr, false))
		note_reads(&s, image, &vaddr, true);
	return s.found;
}
