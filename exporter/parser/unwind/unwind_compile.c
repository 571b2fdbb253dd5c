/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information of a whole file → its unwind sections. An index of FDEs, in order of
 * addresses and mostly already so in the file, then each of them once.
 */
#include "exporter/parser/unwind/unwind.h"
#include "exporter/parser/unwind/unwind_flow.h"
#include "lib/base/alloc.h"
#include "lib/base/radix.h"
#include <dwarf.h>
#include <stdlib.h>

/* Value of an index item: offset in its section, and which that is. */
enum source { FROM_EH_FRAME = 0, FROM_DEBUG_FRAME = 1, N_SECTIONS = 2, FROM_PCLNTAB = 2 };
#define SOURCE_SHIFT 30
#define MAX_SECTION_BYTES (1ULL << SOURCE_SHIFT)

enum {
	MAX_FDES = 6 * (1 << 20) / (int)sizeof(struct radix_item),
	ALIGNMENT = 16,
	MAX_TRAMPOLINE_BYTES = 32,
	FEW_FLOW_BYTES = 256 << 10 /* where the index takes most of the memory */
};

/* Where section headers say that code is. */
struct code_range {
	uint64_t begin, end; /* addresses */
};
enum { MAX_CODE_RANGES = 64 };

struct compile {
	const struct elf_file *f;
	struct code_range code[MAX_CODE_RANGES]; /* ascending */
	size_t n_code; /* 0: nothing says so, all of an executable segment may be */
	const struct cfi_machine *machine;
	struct cfi_section sections[N_SECTIONS];
	struct go_table go;
	struct radix_item *index; /* key: offset in file less that of the first page */
	size_t n, cap;
	bool sorted;
	struct unwind_rules rules;
	struct unwind_flow *flow;
	struct unwind_words *words;
	const struct elf_rows *named; /* NULL: no matter */
	size_t named_at;  /* the first of them that ends behind the last function seen */
	size_t n_unnamed; /* in the index, in place of what was compiled */
	bool is_libc;	  /* as far as that it has a signal trampoline */
	uint64_t base;	  /* offset of the first page */
	uint64_t limit;	  /* offset of the end of the last page */
	uint64_t pos;	  /* offset in file: up to here code is covered, or known not to be */
	/* of the FDE under way */
	uint64_t slide; /* address − offset in file */
	uint64_t end;	/* offset in file */
	struct unwind_sections *ret;
};

static void compile_done(struct compile *c)
{
	free(c->index);
	unwind_rules_done(&c->rules);
	unwind_flow_freep(&c->flow);
	unwind_words_freep(&c->words);
}

/* The executable segment that holds an address; NULL when none does. */
static const struct elf_segment *segment_of(const struct elf_file *f, uint64_t vaddr)
{
	for (uint32_t i = 0; i < f->n_loads; i++) {
		const struct elf_segment *load = &f->loads[i];

		if ((load->flags & PF_X) && vaddr >= load->vaddr &&
			vaddr - load->vaddr < load->file_bytes)
			return load;
	}
	return NULL;
}

/* Pages of executable segments; false when there are none. */
static bool find_pages(struct compile *c)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (uint32_t i = 0; i < c->f->n_loads; i++) {
		const struct elf_segment *load = &c->f->loads[i];
		uint64_t end;

		if (!(load->flags & PF_X) || !load->file_bytes ||
			__builtin_add_overflow(load->file_off, load->file_bytes, &end) ||
			end > (uint64_t)UINT32_MAX << UNWIND_PAGE_SHIFT)
			continue;
		lo = MIN(lo, load->file_off);
		hi = MAX(hi, end);
	}
	if (lo >= hi)
		return false;
	lo >>= UNWIND_PAGE_SHIFT;
	hi = MIN((hi - 1) >> UNWIND_PAGE_SHIFT, lo + UNWIND_MAX_PAGES - 1);
	c->ret->first_page = (uint32_t)lo;
	c->ret->n_pages = (uint32_t)(hi - lo + 1);
	c->base = lo << UNWIND_PAGE_SHIFT;
	c->limit = (hi + 1) << UNWIND_PAGE_SHIFT;
	return true;
}

static void add_to_index(struct compile *c, uint64_t vaddr, uint64_t off, enum source source)
{
	const struct elf_segment *load = segment_of(c->f, vaddr);
	uint64_t at = load ? vaddr - load->vaddr + load->file_off : 0;
	struct radix_item *item = &c->index[c->n];

	if (!load || at < c->base || at >= c->limit || off >= MAX_SECTION_BYTES || c->n == c->cap) {
		c->ret->n_bad++;
		return;
	}
	item->key = (uint32_t)(at - c->base);
	item->value = (uint32_t)off | (uint32_t)source << SOURCE_SHIFT;
	if (c->n && item->key < c->index[c->n - 1].key)
		c->sorted = false;
	c->n++;
}

static int make_room(struct compile *c, size_t n)
{
	struct radix_item *index;

	if (n > MAX_FDES - c->cap)
		return -E2BIG;
	if (!n)
		return 0;
	index = try_realloc(c->index, c->cap + n, sizeof(*index));
	if (!index)
		return -ENOMEM;
	c->index = index;
	c->cap += n;
	return 0;
}

/* Every FDE of a section, in two passes: how many, then where. */
static int index_section(struct compile *c, enum source source)
{
	struct cfi_section *s = &c->sections[source];
	struct cfi_fde fde;
	size_t n = 0;
	int r = 0;

	for (int pass = 0; r == 0 && pass < 2; pass++) {
		enum cfi_entry kind;
		uint64_t off = 0, at;

		do {
			at = off;
			kind = pass ? cfi_read(s, &off, &fde) : cfi_skip(s, &off);
			n += !pass && kind == CFI_FDE;
			if (pass && kind == CFI_FDE && fde.end > fde.begin)
				add_to_index(c, fde.begin, at, source);
			else if (pass && kind == CFI_BAD)
				c->ret->n_bad++;
		} while (kind != CFI_END && off != at);
		if (!pass)
			r = make_room(c, n);
	}
	return r;
}

/* By .eh_frame_hdr's table, which the linker has sorted. -ENOENT: there is none. */
static int index_by_header(struct compile *c, const struct cfi_section *hdr)
{
	const struct cfi_section *s = &c->sections[FROM_EH_FRAME];
	struct cursor cursor = cursor_of(hdr->data, hdr->bytes);
	uint8_t version = cursor_u8(&cursor), eh_encoding = cursor_u8(&cursor);
	uint8_t count_encoding = cursor_u8(&cursor), encoding = cursor_u8(&cursor);
	uint64_t n;
	int r;

	(void)cfi_read_address(hdr, &cursor, eh_encoding);
	if (version != 1 || count_encoding == DW_EH_PE_omit || cursor.error ||
		encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return -ENOENT;
	n = cfi_read_address(hdr, &cursor, count_encoding);
	if (cursor.error || !n || n > cursor_left(&cursor) / 8)
		return -ENOENT;
	r = make_room(c, n);
	for (uint64_t i = 0; r == 0 && i < n; i++) {
		uint64_t vaddr = hdr->vaddr + (uint64_t)(int32_t)cursor_u32(&cursor);
		uint64_t fde = hdr->vaddr + (uint64_t)(int32_t)cursor_u32(&cursor);

		add_to_index(c, vaddr, fde - s->vaddr, FROM_EH_FRAME);
	}
	return r;
}

/* The bytes of a section that is loaded, by the program headers: stripped of section headers, a file
 * still has them. `max`: up to there at most. */
static bool data_at(const struct elf_file *f, uint64_t vaddr, struct cfi_section *ret)
{
	size_t n_raw;
	const uint8_t *raw = (const uint8_t *)elf_rawfile(f->elf, &n_raw);

	for (uint32_t i = 0; raw && i < f->n_loads; i++) {
		const struct elf_segment *load = &f->loads[i];
		uint64_t in = vaddr - load->vaddr;

		if (vaddr < load->vaddr || in >= load->file_bytes || load->file_off > n_raw ||
			load->file_bytes > n_raw - load->file_off)
			continue;
		cfi_section_init(ret, cfi_machine_of(f->machine), raw + load->file_off + in,
			load->file_bytes - in, vaddr);
		return true;
	}
	return false;
}

static bool section_named(const struct elf_file *f, const char *name, struct cfi_section *ret)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, name, &shdr));

	if (!data || data->d_size >= MAX_SECTION_BYTES)
		return false;
	cfi_section_init(ret, cfi_machine_of(f->machine), data->d_buf, data->d_size, shdr.sh_addr);
	return true;
}

static bool find_header(const struct elf_file *f, struct cfi_section *ret)
{
	size_t n = 0;

	if (elf_getphdrnum(f->elf, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(f->elf, (int)i, &phdr) || phdr.p_type != PT_GNU_EH_FRAME ||
			!data_at(f, phdr.p_vaddr, ret))
			continue;
		ret->bytes = MIN(ret->bytes, phdr.p_filesz);
		ret->data_rel = phdr.p_vaddr;
		return true;
	}
	return false;
}

static int index_eh_frame(struct compile *c)
{
	struct cfi_section hdr = {0}, *s = &c->sections[FROM_EH_FRAME];
	bool has_hdr = find_header(c->f, &hdr);
	int r = -ENOENT;

	if (!section_named(c->f, ".eh_frame", s)) {
		struct cursor cursor = cursor_of(hdr.data, has_hdr ? hdr.bytes : 0);
		uint8_t encoding;

		cursor_skip(&cursor, 1);
		encoding = cursor_u8(&cursor);
		cursor_skip(&cursor, 2);
		if (!has_hdr || !data_at(c->f, cfi_read_address(&hdr, &cursor, encoding), s))
			return 0;
	}
	c->ret->sources |= SYMBOL_UNWIND_EH_FRAME;
	c->is_libc = cfi_has_signal_frames(s);
	if (has_hdr)
		r = index_by_header(c, &hdr);
	return r == -ENOENT ? index_section(c, FROM_EH_FRAME) : r;
}

static int index_debug_frame(struct compile *c, const struct elf_file *f)
{
	struct cfi_section *s = &c->sections[FROM_DEBUG_FRAME];

	if (s->data || !f || !section_named(f, ".debug_frame", s))
		return 0;
	s->is_debug_frame = true;
	c->ret->sources |= SYMBOL_UNWIND_DEBUG_FRAME;
	return index_section(c, FROM_DEBUG_FRAME);
}

/* The runtime's own table, in place of .debug_frame: it is there in stripped programs too, and knows where stacks are switched. */
static int index_go(struct compile *c)
{
	struct go_function fn;
	int r;

	if (!elf_go_open(c->f, &c->go))
		return -ENOENT;
	r = make_room(c, c->go.n_functions);
	for (uint64_t i = 0; r == 0 && i < c->go.n_functions; i++)
		if (elf_go_function(&c->go, i, &fn))
			add_to_index(c, fn.start, i, FROM_PCLNTAB);
	if (r == 0)
		c->ret->sources |= SYMBOL_UNWIND_PCLNTAB;
	return r;
}

static int sort_index(struct compile *c)
{
	struct radix_item *tmp;

	if (c->sorted)
		return 0;
	if (c->n > MAX_FDES / 2)
		return -E2BIG;
	tmp = try_realloc(NULL, c->n, sizeof(*tmp));
	if (!tmp)
		return -ENOMEM;
	radix_sort(c->index, tmp, c->n);
	free(tmp);
	return 0;
}

static void add_row(void *ctx, uint64_t begin, const struct unwind_rule *rule)
{
	struct compile *c = ctx;
	uint64_t off = MAX(begin - c->slide, c->pos);

	if (off < c->end)
		unwind_words_add(c->words, off,
			rule ? unwind_rules_number(&c->rules, rule) : UNWIND_RULE_NONE);
}

/*
 * What is returned to at its first instruction and never called: it is looked up by the byte before that, where the last function
 * may end.
 */
static void add_returned_to(struct compile *c, uint64_t begin, const struct unwind_rule *rule)
{
	if (c->pos > c->base && c->pos == begin - c->slide)
		c->pos--;
	add_row(c, begin - 1, rule);
}

/* A trampoline that the kernel returns to from a signal handler: the ucontext has all registers. */
static struct unwind_rule signal_rule(const struct compile *c)
{
	return (struct unwind_rule) {.cfa = UNWIND_CFA_SIGNAL,
		.reg = c->machine->sp,
		.off = c->machine->ra_is_reg ? 128 : 0};
}

static bool code_is(const struct compile *c, uint64_t vaddr, const uint8_t *code, size_t n)
{
	struct cfi_section bytes;

	return data_at(c->f, vaddr, &bytes) && bytes.bytes >= n && memcmp(bytes.data, code, n) == 0;
}

/*
 * The parser detects a trampoline by its code: OCaml marks other code as a signal frame too, Zig has its own without the mark. How many bytes
 * before it its FDE begins, since callers are looked up before their return address; negative: it is none.
 */
static int trampoline_at(const struct compile *c, const struct cfi_fde *fde)
{
	static const struct {
		uint8_t n, code[9];
	} known[] = {{9, {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}},
		{7, {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}},
		{8, {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}}};
	int early = c->machine->ra_is_reg ? 4 : 1;

	if (!fde->cie->is_signal_frame && fde->end - fde->begin > MAX_TRAMPOLINE_BYTES)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (code_is(c, fde->begin, known[i].code, known[i].n))
			return 0;
		if (code_is(c, fde->begin + (unsigned)early, known[i].code, known[i].n))
			return early;
	}
	return -1;
}

/*
 * Where a function given to makecontext returns to: glibc's __start_context, which goes on with the next context and has no
 * caller, though its FDE does not say so. mov %rbx, %rsp, then mov (%rsp), %rdi or pop %rdi, then test %rdi, %rdi.
 */
static bool is_start_context(const struct compile *c, const struct cfi_fde *fde)
{
	static const uint8_t mov[] = {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff};
	static const uint8_t pop[] = {0x48, 0x89, 0xdc, 0x5f, 0x48, 0x85, 0xff};

	return c->is_libc && fde->end - fde->begin < 128 && !c->machine->ra_is_reg &&
	       (code_is(c, fde->begin, mov, sizeof(mov)) ||
		       code_is(c, fde->begin, pop, sizeof(pop)));
}

static const uint8_t *loaded_at(void *ctx, uint64_t vaddr, size_t *ret_n)
{
	const struct compile *c = ctx;
	struct cfi_section bytes;

	if (!data_at(c->f, vaddr, &bytes))
		return NULL;
	*ret_n = bytes.bytes;
	return bytes.data;
}

static uint64_t next_named(void *ctx, uint64_t vaddr)
{
	const struct elf_rows *named = ((const struct compile *)ctx)->named;
	size_t lo = 0, hi = named ? named->n : 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (named->text_base + named->items[mid].start < vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return named && lo < named->n ? named->text_base + named->items[lo].start : UINT64_MAX;
}

/* Segments without a section header may be code anywhere; with them, constants that lie in the same segment are not read as such. */
static void find_code(struct compile *c)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(c->f->elf, scn))) {
		size_t i = c->n_code;

		if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR) ||
			shdr.sh_type == SHT_NOBITS || !shdr.sh_size ||
			shdr.sh_addr > UINT64_MAX - shdr.sh_size)
			continue;
		if (c->n_code == MAX_CODE_RANGES) {
			c->n_code = 0;
			return;
		}
		for (; i && c->code[i - 1].begin > shdr.sh_addr; i--)
			c->code[i] = c->code[i - 1];
		c->code[i] = (struct code_range) {shdr.sh_addr, shdr.sh_addr + shdr.sh_size};
		c->n_code++;
	}
}

/* Code at addresses [begin, end), which nothing tells of. */
static void compile_code(struct compile *c, uint64_t begin, uint64_t end)
{
	struct cfi_section code;
	struct unwind_gap gap;
	bool followed = false;

	if (begin >= end || !data_at(c->f, begin, &code))
		return;
	if (!c->flow)
		c->flow = unwind_flow_new();
	gap = (struct unwind_gap) {.machine = c->machine,
		.code = code.data,
		/* Segments of a broken file overlap: that which the address is in may end before this one. */
		.n = MIN(MIN(end - begin, (uint64_t)code.bytes), (uint64_t)UNWIND_MAX_GAP_BYTES),
		.vaddr = begin,
		.flow = c->flow,
		.flow_bytes = c->cap > MAX_FDES / 2 ? FEW_FLOW_BYTES : UNWIND_FLOW_BYTES,
		.data = loaded_at,
		.next_named = next_named,
		.data_ctx = c,
		.row = add_row,
		.ctx = c,
		.ret_followed = &followed};
	unwind_gap(&gap);
	if (followed)
		c->ret->sources |= SYMBOL_UNWIND_CODE;
}

/* What lies between c->pos and `end`, offsets in the file, in that segment. */
static void compile_gap(struct compile *c, const struct elf_segment *load, uint64_t end)
{
	uint64_t begin = MAX(c->pos, load->file_off);

	unwind_words_add(c->words, c->pos, UNWIND_RULE_NONE);
	end = MIN(end, load->file_off + load->file_bytes);
	c->slide = load->vaddr - load->file_off;
	c->end = end;
	if (begin >= end)
		return;
	begin += c->slide;
	end += c->slide;
	if (!c->n_code)
		compile_code(c, begin, end);
	for (size_t i = 0; i < c->n_code; i++)
		compile_code(c, MAX(begin, c->code[i].begin), MIN(end, c->code[i].end));
}

/* Sets the bounds for the rows of a function and says what lies between the last one and it. False: it has no rows to add. */
static bool begin_function(struct compile *c, uint64_t vaddr, uint64_t vaddr_end)
{
	const struct elf_segment *load = segment_of(c->f, vaddr);
	uint64_t begin, end, gap;

	if (!load) {
		c->ret->n_bad++;
		return false;
	}
	c->slide = load->vaddr - load->file_off;
	begin = vaddr - c->slide;
	end = MIN(vaddr_end - c->slide, load->file_off + load->file_bytes);
	if (end <= c->pos)
		return false; /* .debug_frame says again what .eh_frame has said */
	c->ret->n_bad += begin < c->pos;
	/* What only aligns the next function is never run; a return address may be its first byte. */
	gap = begin - MIN(c->pos, begin);
	if (gap >= ALIGNMENT || (gap && vaddr % ALIGNMENT))
		compile_gap(c, load, begin);
	c->end = end;
	return true;
}

/* A function that no symbol tells of: its start is the best name that its code can have. */
static void note_unnamed(struct compile *c, uint64_t vaddr, uint64_t vaddr_end)
{
	const struct elf_rows *named = c->named;
	uint64_t begin, end;

	if (!named)
		return;
	vaddr = MAX(vaddr, c->pos + c->slide); /* it may overlap the last one */
	/* Both ascend, but for segments that the file has in another order. */
	if (c->named_at && vaddr < named->text_base + named->items[c->named_at - 1].start)
		c->named_at = 0;
	while (c->named_at < named->n && named->text_base + named->items[c->named_at].start +
							 named->items[c->named_at].size <=
						 vaddr)
		c->named_at++;
	if (c->named_at < named->n)
		vaddr_end = MIN(vaddr_end, named->text_base + named->items[c->named_at].start);
	begin = vaddr - c->slide - c->base;
	end = vaddr_end - c->slide - c->base;
	if (vaddr_end <= vaddr || end > UINT32_MAX)
		return;
	c->index[c->n_unnamed++] =
		(struct radix_item) {.key = (uint32_t)begin, .value = (uint32_t)(end - begin)};
}

static void compile_fde(struct compile *c, const struct cfi_fde *fde)
{
	const struct unwind_rule root = {.ra = UNWIND_GONE}, signal = signal_rule(c);
	int early;

	if (!begin_function(c, fde->begin, fde->end))
		return;
	early = trampoline_at(c, fde);
	if (early > 0)
		add_row(c, fde->begin, &signal);
	else if (early == 0)
		add_returned_to(c, fde->begin, &signal);
	else if (is_start_context(c, fde))
		add_returned_to(c, fde->begin, &root);
	else if (!cfi_run(c->machine, fde, add_row, c))
		c->ret->n_bad++;
	note_unnamed(c, fde->begin, c->end + c->slide);
	c->pos = c->end;
	c->ret->n_fdes++;
}

static void compile_go(struct compile *c, const struct go_function *fn)
{
	const struct unwind_rule root = {.ra = UNWIND_GONE}, signal = signal_rule(c);
	struct cfi_section code;
	size_t child = 0;
	uint64_t end;

	if (!begin_function(c, fn->start, fn->end))
		return;
	end = c->end;
	if (fn->end > fn->start && data_at(c->f, fn->start, &code))
		child = unwind_go_child(
			c->machine, fn->name, code.data, MIN(code.bytes, fn->end - fn->start));
	if (child)
		c->end = MIN(end, fn->start + child - c->slide);
	if (unwind_go_is_trampoline(fn->name))
		add_returned_to(c, fn->start, &signal);
	else if (!unwind_go_run(c->machine, &c->go, fn, add_row, c))
		c->ret->n_bad++;
	c->end = end;
	if (child)
		add_row(c, fn->start + child, &root);
	c->pos = c->end;
	c->ret->n_fdes++;
}

static void compile_item(struct compile *c, struct radix_item item)
{
	enum source source = item.value >> SOURCE_SHIFT;
	uint64_t at = item.value & (MAX_SECTION_BYTES - 1);
	struct go_function fn;
	struct cfi_fde fde;

	if (source == FROM_PCLNTAB && elf_go_function(&c->go, at, &fn))
		compile_go(c, &fn);
	else if (source != FROM_PCLNTAB && cfi_read(&c->sections[source], &at, &fde) == CFI_FDE)
		compile_fde(c, &fde);
	else
		c->ret->n_bad++;
}

static void compile_rows(struct compile *c)
{
	c->pos = c->base;
	for (size_t i = 0; i < c->n; i++)
		compile_item(c, c->index[i]);
	for (uint32_t i = 0; i < c->f->n_loads; i++) {
		const struct elf_segment *load = &c->f->loads[i];

		if (load->flags & PF_X && load->file_off + load->file_bytes > c->pos) {
			compile_gap(c, load, c->limit);
			c->pos = MIN(load->file_off + load->file_bytes, c->limit);
		}
	}
	unwind_words_add(c->words, c->pos, UNWIND_RULE_NONE);
}

static uint64_t aligned(uint64_t off)
{
	return (off + SYMBOL_ALIGN - 1) / SYMBOL_ALIGN * SYMBOL_ALIGN;
}

static int write_at(int fd, const void *data, size_t left, uint64_t off)
{
	const uint8_t *p = data;

	while (left) {
		ssize_t n = pwrite(fd, p, left, (off_t)off);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			p += n;
			off += (uint64_t)n;
			left -= (size_t)n;
		}
	}
	return 0;
}

static int write_sections(struct compile *c, int fd, uint64_t off)
{
	struct unwind_sections *ret = c->ret;
	int64_t n;
	int r;

	c->words = unwind_words_new(fd, off, ret->first_page, ret->n_pages);
	if (!c->words || unwind_rules_init(&c->rules) < 0)
		return -ENOMEM;
	compile_rows(c);
	n = unwind_words_finish(c->words);
	if (n < 0)
		return (int)n;
	ret->words_off = off;
	ret->n_words = (uint32_t)n;
	ret->n_rows = unwind_words_n_rows(c->words);
	ret->n_pages_refused = unwind_words_n_refused(c->words);
	ret->rules_off = aligned(off + (uint64_t)n * sizeof(uint32_t));
	ret->n_rules = c->rules.n;
	ret->n_rules_refused = c->rules.n_refused;
	ret->unnamed_off = aligned(ret->rules_off + ret->n_rules * sizeof(struct unwind_rule));
	ret->n_unnamed = (uint32_t)c->n_unnamed;
	r = write_at(fd, c->rules.items, ret->n_rules * sizeof(struct unwind_rule), ret->rules_off);
	return r < 0 ? r
		     : write_at(
			       fd, c->index, c->n_unnamed * SYMBOL_UNNAMED_BYTES, ret->unnamed_off);
}

int unwind_compile(const struct elf_file *f, const struct elf_file *debug,
	const struct elf_rows *named, int out_fd, uint64_t off, struct unwind_sections *ret)
{
	_cleanup_(compile_done)
	struct compile c = {
		.f = f, .machine = cfi_machine_of(f->machine), .named = named, .sorted = true};
	int r;

	*ret = (struct unwind_sections) {0};
	c.ret = ret;
	if (!c.machine)
		return -ENOTSUP;
	if (!find_pages(&c))
		return write_sections(&c, out_fd, off);
	find_code(&c);
	r = index_eh_frame(&c);
	if (r == 0)
		r = index_go(&c);
	if (r == -ENOENT) {
		r = index_debug_frame(&c, f);
		if (r == 0)
			r = index_debug_frame(&c, debug);
	}
	if (r == 0)
		r = sort_index(&c);
	return r < 0 ? r : write_sections(&c, out_fd, off);
}
