/* SPDX-License-Identifier: Apache-2.0
 *
 * ELF file → symbol file. Writes through a small buffer, so that memory holds one
 * record per symbol and nothing of the strings. docs/formats/symbol-file.md is the layout.
 */
#include "exporter/parser/debug/debug_tables.h"
#include "exporter/parser/dwarf/dwarf.h"
#include "exporter/parser/elf/elf_toolchain.h"
#include "exporter/parser/debug/go_lines.h"
#include "exporter/parser/debug/ocaml_frames.h"
#include "exporter/parser/runtime/runtime.h"
#include "exporter/parser/unwind/unwind.h"
#include "exporter/symfile/symbol_runtime.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum {
	OUT_BUFFER_BYTES = 64 << 10,
	MAX_NAME_BYTES = 64 << 10,
	N_OWN_SECTIONS = 7,
	N_UNWIND_SECTIONS = 4,
	MAX_SECTIONS_WRITTEN = N_OWN_SECTIONS + DEBUG_N_SECTIONS + N_UNWIND_SECTIONS
};

/* The file and what more is known of it; names of all point into them until the end. */
struct inputs {
	const struct parser_finder *finder;
	struct elf_file f, debug, mini;
	/* Told before anything is decompressed: libelf changes the section headers then. */
	uint8_t content_id[SYMBOL_CONTENT_ID_LEN];
	uint32_t flags;	    /* enum symbol_flags */
	uint32_t n_lacking; /* files that they name, but that were not found */
	bool rows_only;	    /* no function is listed */
	struct toolchain toolchain;
	struct runtime_record runtime;
};

struct out {
	int fd;
	struct bytes buffer;
	uint64_t written; /* bytes before the buffer */
	int error;
};

static void out_write(struct out *o, const uint8_t *p, size_t bytes)
{
	for (size_t done = 0; !o->error && done < bytes;) {
		ssize_t n = write(o->fd, p + done, bytes - done);

		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			o->error = -errno;
	}
	o->written += bytes;
}

static void out_flush(struct out *o)
{
	if (!o->error)
		o->error = bytes_error(&o->buffer);
	out_write(o, o->buffer.data, o->buffer.len);
	bytes_reset(&o->buffer);
}

/* What is large goes past the buffer. */
static void out_put(struct out *o, const void *p, size_t n)
{
	if (n >= OUT_BUFFER_BYTES) {
		out_flush(o);
		out_write(o, p, n);
		return;
	}
	bytes_put(&o->buffer, p, n);
	if (o->buffer.len >= OUT_BUFFER_BYTES)
		out_flush(o);
}

static void out_u32(struct out *o, uint32_t v)
{
	bytes_put_u32(&o->buffer, v);
	if (o->buffer.len >= OUT_BUFFER_BYTES)
		out_flush(o);
}

static void out_align(struct out *o)
{
	static const uint8_t zeros[SYMBOL_ALIGN];
	size_t over = (o->written + o->buffer.len) % SYMBOL_ALIGN;

	out_put(o, zeros, over ? SYMBOL_ALIGN - over : 0);
}

struct section {
	uint32_t kind, item_bytes;
	uint64_t off, bytes;
};

struct compiled {
	const struct elf_file *f;
	struct elf_symbols *symbols;
	const struct elf_rows *rows;
	const struct elf_rows *named; /* NULL: a file of unwind rows alone */
	const struct debug_sections *debug;
	const uint8_t *content_id;
	uint32_t *name_offs; /* per symbol: in the strings, 0 when it has no row */
	uint64_t string_bytes;
	struct section sections[MAX_SECTIONS_WRITTEN];
	uint32_t n_sections;
	uint32_t flags; /* enum symbol_flags */
	uint32_t n_lacking;
	struct toolchain toolchain;
	const struct runtime_record *runtime;
};

/* Without a symbol version. */
static size_t name_bytes(const char *name)
{
	size_t n = strnlen(name, MAX_NAME_BYTES);
	const char *version = elf_symbol_version(name, n);

	return version ? (size_t)(version - name) : n;
}

static int lay_names(struct compiled *c)
{
	c->name_offs = try_realloc(NULL, c->symbols->n + 1, sizeof(*c->name_offs));
	if (!c->name_offs)
		return -ENOMEM;
	memset(c->name_offs, 0, (c->symbols->n + 1) * sizeof(*c->name_offs));
	c->string_bytes = 1;
	for (size_t i = 0; i < c->rows->n; i++) {
		uint32_t s = c->rows->items[i].symbol;

		if (c->name_offs[s])
			continue;
		c->name_offs[s] = (uint32_t)c->string_bytes;
		c->symbols->items[s].name_bytes = (uint32_t)name_bytes(c->symbols->items[s].name);
		c->string_bytes += c->symbols->items[s].name_bytes + 1;
		c->string_bytes += c->symbols->items[s].plt ? strlen("@plt") : 0;
		if (c->string_bytes > UINT32_MAX)
			return -EFBIG;
	}
	return 0;
}

static void lay_section(
	struct compiled *c, uint32_t kind, uint32_t item_bytes, uint64_t bytes, uint64_t *off)
{
	*off = (*off + SYMBOL_ALIGN - 1) / SYMBOL_ALIGN * SYMBOL_ALIGN;
	c->sections[c->n_sections++] = (struct section) {
		.kind = kind, .item_bytes = item_bytes, .off = *off, .bytes = bytes};
	*off += bytes;
}

/* Of the header and as many sections as there may be: whether there are unwind rows shows later. */
static uint64_t head_bytes(const struct compiled *c)
{
	return SYMBOL_HEADER_BYTES +
	       (N_OWN_SECTIONS + N_UNWIND_SECTIONS + (uint64_t)c->debug->n) * SYMBOL_SECTION_BYTES;
}

/* Returns the size of the whole file. */
static uint64_t lay_sections(struct compiled *c)
{
	uint64_t off = head_bytes(c);

	lay_section(c, SYMBOL_LOADS, SYMBOL_LOAD_BYTES, (uint64_t)c->f->n_loads * SYMBOL_LOAD_BYTES,
		&off);
	lay_section(c, SYMBOL_FUNC_STARTS, 4, c->rows->n * 4, &off);
	lay_section(c, SYMBOL_FUNC_SIZES, 4, c->rows->n * 4, &off);
	lay_section(c, SYMBOL_FUNC_NAMES, 4, c->rows->n * 4, &off);
	lay_section(c, SYMBOL_STRINGS, 1, c->string_bytes, &off);
	lay_section(c, SYMBOL_GO_BUILD_ID, 1, strlen(c->f->go_build_id), &off);
	if (c->runtime->kind != RUNTIME_NONE)
		lay_section(c, SYMBOL_RUNTIME, SYMBOL_RUNTIME_BYTES, SYMBOL_RUNTIME_BYTES, &off);
	for (uint32_t i = 0; i < c->debug->n; i++)
		lay_section(c, c->debug->items[i].kind, c->debug->items[i].item_bytes,
			c->debug->items[i].data.len, &off);
	return off;
}

static int write_unwind_info(const struct unwind_sections *u, int fd, uint64_t off)
{
	const uint32_t info[SYMBOL_UNWIND_N_INFO] = {
		[SYMBOL_UNWIND_FIRST_PAGE] = u->first_page,
		[SYMBOL_UNWIND_N_PAGES] = u->n_pages,
		[SYMBOL_UNWIND_SOURCES] = u->sources,
		[SYMBOL_UNWIND_N_ROWS] = u->n_rows,
		[SYMBOL_UNWIND_N_FUNCTIONS] = u->n_fdes,
		[SYMBOL_UNWIND_N_BAD] = u->n_bad,
		[SYMBOL_UNWIND_N_RULES_REFUSED] = u->n_rules_refused,
		[SYMBOL_UNWIND_N_PAGES_REFUSED] = u->n_pages_refused,
	};
	_cleanup_bytes_ struct bytes b;

	bytes_init(&b, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(info); i++)
		bytes_put_u32(&b, info[i]);
	return pwrite(fd, b.data, b.len, (off_t)off) == (ssize_t)b.len ? 0 : -ENOMEM;
}

/*
 * How many unwind rows there are shows when they are made. So they are written first, behind the place of
 * all else, and *off is moved behind them. What their source lacks or says wrong costs the rows alone.
 */
static int write_unwind(struct compiled *c, const struct elf_file *debug, uint64_t *off, int out_fd)
{
	struct unwind_sections u;
	int r;

	*off = (*off + SYMBOL_ALIGN - 1) / SYMBOL_ALIGN * SYMBOL_ALIGN;
	r = unwind_compile(c->f, debug, c->named, out_fd, *off, &u);
	if (r == -ENOTSUP || r == -E2BIG) {
		c->flags |= r == -E2BIG ? SYMBOL_UNWIND_FAILED : 0;
		return 0;
	}
	if (r < 0)
		return r;
	lay_section(c, SYMBOL_UNWIND_WORDS, 4, (uint64_t)u.n_words * 4, off);
	lay_section(c, SYMBOL_UNWIND_RULES, sizeof(struct unwind_rule),
		(uint64_t)u.n_rules * sizeof(struct unwind_rule), off);
	lay_section(c, SYMBOL_UNNAMED, SYMBOL_UNNAMED_BYTES,
		(uint64_t)u.n_unnamed * SYMBOL_UNNAMED_BYTES, off);
	lay_section(c, SYMBOL_UNWIND_INFO, SYMBOL_UNWIND_INFO_BYTES, SYMBOL_UNWIND_INFO_BYTES, off);
	return write_unwind_info(&u, out_fd, c->sections[c->n_sections - 1].off);
}

static void write_header(const struct compiled *c, uint64_t file_bytes, struct out *o)
{
	static const uint8_t zeros[SYMBOL_HEADER_BYTES];
	struct bytes *b = &o->buffer;

	bytes_put(b, SYMBOL_MAGIC, 8);
	bytes_put_u32(b, SYMBOL_VERSION);
	bytes_put_u32(b, c->n_sections);
	bytes_put_u64(b, file_bytes);
	bytes_put_u64(b, c->rows->text_base);
	bytes_put_u16(b, c->f->type);
	bytes_put_u16(b, c->f->machine);
	bytes_put_u32(b, c->flags | (c->debug->failed ? SYMBOL_DEBUG_FAILED : 0));
	bytes_put_u32(b, (uint32_t)c->rows->n);
	bytes_put_u32(b, c->rows->n_left_out);
	bytes_put(b, c->content_id, SYMBOL_CONTENT_ID_LEN);
	bytes_put_u32(b, c->f->build_id_len);
	bytes_put_u16(b, c->toolchain.compiler);
	bytes_put_u16(b, c->toolchain.language);
	bytes_put(b, c->f->build_id, SYMBOL_BUILD_ID_MAX);
	bytes_put_u64(b, c->debug->base);
	bytes_put_u32(b, c->debug->n_left_out);
	bytes_put_u32(b, c->n_lacking);
	bytes_put(b, zeros, SYMBOL_HEADER_BYTES - b->len);
	for (uint32_t i = 0; i < c->n_sections; i++) {
		bytes_put_u32(b, c->sections[i].kind);
		bytes_put_u32(b, c->sections[i].item_bytes);
		bytes_put_u64(b, c->sections[i].off);
		bytes_put_u64(b, c->sections[i].bytes);
	}
	for (uint64_t n = b->len; n < head_bytes(c); n += 8)
		bytes_put_u64(b, 0);
}

static void write_strings(const struct compiled *c, struct out *o)
{
	uint64_t expected = 1;

	out_put(o, "", 1);
	for (size_t i = 0; i < c->rows->n; i++) {
		const struct elf_symbol *symbol = &c->symbols->items[c->rows->items[i].symbol];
		size_t n;

		/* Each name once: at its first row, where it was given the next offset. */
		if (c->name_offs[c->rows->items[i].symbol] != expected)
			continue;
		n = symbol->name_bytes;
		out_put(o, symbol->name, n);
		if (symbol->plt)
			out_put(o, "@plt", 4);
		out_put(o, "", 1);
		expected += n + 1 + (symbol->plt ? 4 : 0);
	}
}

static void write_sections(const struct compiled *c, struct out *o)
{
	for (uint32_t i = 0; i < c->f->n_loads; i++) {
		const struct elf_segment *load = &c->f->loads[i];

		bytes_put_u64(&o->buffer, load->vaddr);
		bytes_put_u64(&o->buffer, load->file_off);
		bytes_put_u64(&o->buffer, load->file_bytes);
		bytes_put_u64(&o->buffer, load->memory_bytes);
		bytes_put_u32(&o->buffer, load->flags);
		out_u32(o, 0);
	}
	out_align(o);
	for (size_t i = 0; i < c->rows->n; i++)
		out_u32(o, c->rows->items[i].start);
	out_align(o);
	for (size_t i = 0; i < c->rows->n; i++)
		out_u32(o, c->rows->items[i].size);
	out_align(o);
	for (size_t i = 0; i < c->rows->n; i++)
		out_u32(o, c->name_offs[c->rows->items[i].symbol]);
	out_align(o);
	write_strings(c, o);
	out_align(o);
	out_put(o, c->f->go_build_id, strlen(c->f->go_build_id));
	if (c->runtime->kind != RUNTIME_NONE) {
		out_align(o);
		symbol_runtime_put(c->runtime, &o->buffer);
	}
	for (uint32_t i = 0; i < c->debug->n; i++) {
		out_align(o);
		out_put(o, c->debug->items[i].data.data, c->debug->items[i].data.len);
	}
}

static int write_checksum(int fd, uint64_t file_bytes)
{
	uint8_t *data = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, fd, 0);
	_cleanup_bytes_ struct bytes b;
	uint64_t sum;
	ssize_t n;

	bytes_init(&b, NULL, 0);
	if (data == MAP_FAILED)
		return -ENOMEM;
	sum = hash_xxh3_seed(data + SYMBOL_HEADER_BYTES, file_bytes - SYMBOL_HEADER_BYTES,
		hash_xxh3(data, SYMBOL_OFF_CHECKSUM));
	munmap(data, file_bytes);
	bytes_put_u64(&b, sum);
	n = pwrite(fd, b.data, b.len, SYMBOL_OFF_CHECKSUM);
	return n == (ssize_t)b.len ? 0 : -ENOMEM;
}

static int write_file(const struct inputs *in, struct elf_symbols *symbols,
	const struct elf_rows *rows, const struct debug_sections *debug, int out_fd)
{
	struct compiled c = {
		.f = &in->f,
		.symbols = symbols,
		.rows = rows,
		.named = in->rows_only ? NULL : rows,
		.debug = debug,
		.content_id = in->content_id,
		.flags = in->flags,
		.n_lacking = in->n_lacking,
		.toolchain = in->toolchain,
		.runtime = &in->runtime,
	};
	_cleanup_free_ uint32_t *name_offs = NULL;
	struct out o = {.fd = out_fd};
	uint64_t file_bytes, named_bytes;
	int r = lay_names(&c);

	name_offs = c.name_offs;
	if (r < 0)
		return r;
	named_bytes = file_bytes = lay_sections(&c);
	r = write_unwind(&c, in->debug.elf ? &in->debug : NULL, &file_bytes, out_fd);
	if (r < 0)
		return r;
	bytes_init(&o.buffer, NULL, 0);
	write_header(&c, file_bytes, &o);
	write_sections(&c, &o);
	out_flush(&o);
	bytes_done(&o.buffer);
	r = o.error;
	ASSERT(r < 0 || o.written == named_bytes);
	return r < 0 ? r : write_checksum(out_fd, file_bytes);
}

static void inputs_done(struct inputs *in)
{
	elf_file_done(&in->f);
	elf_file_done(&in->debug);
	elf_file_done(&in->mini);
}

/* Debug information that is damaged, or of another file, costs what it would have added. */
static void open_debug(struct inputs *in, int debug_fd)
{
	if (debug_fd < 0)
		return;
	if (elf_file_open(debug_fd, &in->debug, NULL) < 0 ||
		!elf_file_is_debug_of(&in->debug, &in->f)) {
		elf_file_done(&in->debug);
		return;
	}
	in->flags |= SYMBOL_HAS_DEBUG_FILE;
}

/* Of a file that was stripped: the symbols of its debug file, else those packed into it, else what
 * Go's runtime needs at run time. */
static int read_symbols_elsewhere(struct inputs *in, struct elf_symbols *ret)
{
	int r;

	if (in->debug.elf && in->debug.symtab) {
		in->flags |= SYMBOL_HAS_SYMTAB;
		return elf_read_symbols(&in->f, &in->debug, ret);
	}
	if (elf_file_open_mini(&in->f, &in->mini, NULL) == 0 && in->mini.symtab) {
		in->flags |= SYMBOL_HAS_SYMTAB;
		return elf_read_symbols(&in->f, &in->mini, ret);
	}
	r = elf_read_go_functions(&in->f, ret);
	in->flags |= r == 0 ? SYMBOL_HAS_SYMTAB : 0;
	return r == -ENOENT ? 0 : r;
}

static int read_symbols(struct inputs *in, struct elf_symbols *ret)
{
	int r = elf_read_symbols(&in->f, &in->f, ret);

	if (r == 0 && in->f.symtab)
		in->flags |= SYMBOL_HAS_SYMTAB;
	else if (r == 0)
		r = read_symbols_elsewhere(in, ret);
	return r < 0 ? r : elf_read_plt(&in->f, ret);
}

static int read_dwarf(struct inputs *in, const struct elf_file *f, struct debug_tables *t)
{
	_cleanup_dwarf_links_ struct dwarf_links links = {
		.finder = in->finder, .from_debug = f == &in->debug};
	int r = dwarf_read(f, &links, t);

	in->n_lacking += links.n_lacking;
	return r;
}

/* Lines are worth having, but not worth the names: what goes wrong here costs the lines alone. */
static void gather_debug(struct inputs *in, const struct elf_symbols *symbols,
	const struct elf_rows *rows, struct debug_sections *ret)
{
	_cleanup_debug_tables_ struct debug_tables t;
	int r;

	debug_tables_init(&t, &in->f);
	r = read_dwarf(in, &in->f, &t);
	if (r == 0 && in->debug.elf)
		r = read_dwarf(in, &in->debug, &t);
	in->toolchain = elf_toolchain(&in->f, symbols, &t.votes);
	if (r == 0 && !t.n_sequences)
		r = go_lines_read(&in->f, &t);
	if (r == 0)
		r = ocaml_frames_read(&in->f, symbols, rows, &t);
	if (r == 0)
		r = debug_tables_encode(&t, ret);
	if (r < 0) {
		debug_sections_done(ret);
		ret->failed = true;
	}
	ret->n_left_out = t.n_left_out;
}

int parser_compile_rows(int in_fd, int debug_fd, int out_fd, struct errbuf *eb)
{
	_cleanup_(inputs_done)
	struct inputs in = {.f = {.fd = -1}, .rows_only = true};
	const struct debug_sections no_debug = {.n = 0};
	const struct elf_rows no_functions = {0};
	struct elf_symbols no_symbols = {0};
	int r = elf_file_open(in_fd, &in.f, eb);

	if (r < 0)
		return r;
	elf_file_content_id(&in.f, in.content_id);
	(void)runtime_read(&in.f, &in.runtime);
	open_debug(&in, debug_fd);
	r = write_file(&in, &no_symbols, &no_functions, &no_debug, out_fd);
	return r < 0 ? err_set(eb, r, "unwind rows: %s", strerror(-r)) : 0;
}

int parser_compile(const struct parser_inputs *inputs, int out_fd, struct errbuf *eb)
{
	_cleanup_(inputs_done)
	struct inputs in = {.f = {.fd = -1}, .finder = inputs->finder};
	_cleanup_elf_symbols_ struct elf_symbols symbols = {0};
	_cleanup_elf_rows_ struct elf_rows rows = {0};
	_cleanup_debug_sections_ struct debug_sections debug = {.n = 0};
	int r = elf_file_open(inputs->fd, &in.f, eb);

	if (r < 0)
		return r;
	elf_file_content_id(&in.f, in.content_id);
	(void)runtime_read(&in.f, &in.runtime);
	open_debug(&in, inputs->debug_fd);
	r = read_symbols(&in, &symbols);
	if (r == 0)
		r = elf_make_rows(&in.f, &symbols, &rows);
	if (r == 0)
		gather_debug(&in, &symbols, &rows, &debug);
	if (r == 0)
		r = write_file(&in, &symbols, &rows, &debug, out_fd);
	return r < 0 ? err_set(eb, r, "symbols: %s", strerror(-r)) : 0;
}
