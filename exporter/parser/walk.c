/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks walked by libdwfl, in a child that has their copies and the files and nothing else. Its memory is the copy: a walk
 * that needs code, heap or another stack ends there.
 */
#include "exporter/parser/walk.h"
#include "lib/base/alloc.h"
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
	N_DWARF_REGS = ABI_ARM64 ? 32 : 17,
	STACK_POINTER = ABI_ARM64 ? 31 : 7,
	FRAME_POINTER = ABI_ARM64 ? 29 : 6,
	TID = 1,
};

struct walker {
	Dwfl *dwfl;
	uint64_t pc, regs[ABI_N_REGS];
	struct cursor stack;
	/* of the frame that the walk has reached */
	bool left_copy, is_root;
	uint32_t n, n_by_rows; /* the latter: before the first that was found by frame pointer */
	enum parser_walk_end end, end_of_rows;
	uint64_t frames[PARSER_WALK_MAX_FRAMES];
};

static int no_elf(
	Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)elf;
	return -1;
}

static int no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
	const char *file, const char *link, GElf_Word crc, char **ret)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc;
	(void)ret;
	return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = no_elf, .find_debuginfo = no_debug_file};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	(void)dwfl;
	if (*thread)
		return 0;
	*thread = arg;
	return TID;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **ret)
{
	(void)dwfl;
	*ret = arg;
	return tid == TID;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
	struct walker *w = arg;
	struct cursor c = w->stack;

	(void)dwfl;
	if (addr - w->regs[STACK_POINTER] > cursor_left(&c)) {
		w->left_copy = true;
		return false;
	}
	cursor_skip(&c, addr - w->regs[STACK_POINTER]);
	*ret = cursor_u64(&c);
	w->left_copy |= c.error != 0;
	return !c.error;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct walker *w = arg;
	Dwarf_Word regs[N_DWARF_REGS] = {0};

	for (uint32_t i = 0; i < ABI_N_REGS; i++)
		regs[i] = w->regs[i];
	if (!ABI_ARM64)
		regs[N_DWARF_REGS - 1] = w->pc; /* x86-64: the return address column */
	dwfl_thread_state_register_pc(thread, w->pc);
	return dwfl_thread_state_registers(thread, 0, N_DWARF_REGS, regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_memory,
	.set_initial_registers = set_registers,
};

/* Is there a row for that address? Does it say that there is no return address? */
static bool find_row(Dwarf_CFI *cfi, Dwarf_Addr pc, bool *ret_is_root)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Op mem[3], *ops;
	size_t n_ops;
	int ra;

	if (!cfi || dwarf_cfi_addrframe(cfi, pc, &frame) != 0)
		return false;
	ra = dwarf_frame_info(frame, NULL, NULL, NULL);
	/* "Undefined" is no operations in the caller's memory, "same value" is no operations at NULL. */
	*ret_is_root = ra >= 0 && dwarf_frame_register(frame, ra, mem, &ops, &n_ops) == 0 &&
		       n_ops == 0 && ops == mem;
	free(frame);
	return true;
}

/* Is there a row for that address? */
static bool is_covered(struct walker *w, Dwarf_Addr pc, enum parser_walk_end *ret_why_not)
{
	Dwfl_Module *module = dwfl_addrmodule(w->dwfl, pc);
	Dwarf_Addr bias = 0;
	Dwarf_CFI *cfi = module ? dwfl_module_eh_cfi(module, &bias) : NULL;

	if (find_row(cfi, pc - bias, &w->is_root))
		return true;
	cfi = module ? dwfl_module_dwarf_cfi(module, &bias) : NULL;
	*ret_why_not = module ? PARSER_WALK_NO_CFI : PARSER_WALK_NO_FILE;
	return find_row(cfi, pc - bias, &w->is_root);
}

static int add_frame(Dwfl_Frame *frame, void *arg)
{
	struct walker *w = arg;
	enum parser_walk_end why_not;
	Dwarf_Addr pc;
	Dwarf_Word fp;
	bool activation;

	w->left_copy = w->is_root = false;
	if (!dwfl_frame_pc(frame, &pc, &activation))
		return DWARF_CB_ABORT;
	if (w->n == PARSER_WALK_MAX_FRAMES) {
		w->end = PARSER_WALK_COPY;
		return DWARF_CB_ABORT;
	}
	w->frames[w->n++] =
		(pc & ~PARSER_WALK_ACTIVATION) | (activation ? PARSER_WALK_ACTIVATION : 0);
	if (is_covered(w, pc - !activation, &why_not))
		return DWARF_CB_OK;
	if (!w->n_by_rows) {
		w->n_by_rows = w->n;
		w->end_of_rows = why_not;
	}
	w->is_root = w->n > w->n_by_rows && dwfl_frame_reg(frame, FRAME_POINTER, &fp) == 0 && !fp;
	return w->is_root ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static void walk_stack(struct walker *w)
{
	int r;

	w->n = w->n_by_rows = 0;
	w->left_copy = w->is_root = false;
	w->end = PARSER_WALK_FAILED;
	r = dwfl_getthread_frames(w->dwfl, TID, add_frame, w);
	if (w->is_root)
		w->end = PARSER_WALK_ROOT;
	else if (w->left_copy)
		w->end = PARSER_WALK_COPY;
	else if (r == 0 && w->end == PARSER_WALK_FAILED)
		w->end = PARSER_WALK_NULL; /* a return address of 0 ends it without an error */
	if (!w->n_by_rows) {
		w->n_by_rows = w->n;
		w->end_of_rows = w->end;
	} else if (w->end != PARSER_WALK_ROOT) {
		w->n = w->n_by_rows;
		w->end = w->end_of_rows;
	}
}

/* What is to be added to the file's addresses; false when no segment is mapped there. */
static bool find_bias(Elf *elf, const struct parser_walk_module *m, uint64_t *ret)
{
	size_t n;

	if (elf_getphdrnum(elf, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD || !(p.p_flags & PF_X))
			continue;
		/* A mapping begins at a page, below the segment's own first byte. */
		if (m->file_off + p.p_align > p.p_offset && m->file_off < p.p_offset + p.p_filesz) {
			*ret = m->start - (m->file_off - p.p_offset + p.p_vaddr);
			return true;
		}
	}
	return false;
}

static bool is_same_build(Elf *elf, const struct parser_walk_module *m)
{
	const void *id;
	ssize_t n;

	if (!m->build_id_len)
		return true;
	n = dwelf_elf_gnu_build_id(elf, &id);
	return n == (ssize_t)m->build_id_len && memcmp(id, m->build_id, (size_t)n) == 0;
}

/* A file that cannot be used is left out: walks end where they need it. */
static void report_module(Dwfl *dwfl, const struct parser_walk_module *m, int fd, uint32_t number)
{
	_cleanup_close_ int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	char name[32];
	uint64_t bias = 0;
	bool found = elf && is_same_build(elf, m) && find_bias(elf, m, &bias);

	elf_end(elf);
	snprintf(name, sizeof(name), "%u", number);
	if (found && own >= 0 && dwfl_report_elf(dwfl, name, name, own, bias, true))
		TAKE_FD(own);
}

static int read_module(struct cursor *c, size_t n_files, struct parser_walk_module *ret)
{
	const uint8_t *id;

	ret->file = cursor_u32(c);
	ret->build_id_len = cursor_u32(c);
	ret->start = cursor_u64(c);
	ret->file_off = cursor_u64(c);
	id = cursor_take(c, sizeof(ret->build_id));
	if (!id || ret->file >= n_files || ret->build_id_len > sizeof(ret->build_id))
		return -EBADMSG;
	memcpy(ret->build_id, id, sizeof(ret->build_id));
	return 0;
}

static void read_stack(struct cursor *c, struct walker *w)
{
	uint32_t bytes;

	w->pc = cursor_u64(c);
	for (uint32_t i = 0; i < ABI_N_REGS; i++)
		w->regs[i] = cursor_u64(c);
	bytes = cursor_u32(c);
	cursor_skip(c, 4);
	w->stack = cursor_sub(c, bytes);
}

static int put_walk(int out_fd, const struct walker *w)
{
	uint32_t head[4] = {w->end, w->n, w->end_of_rows, w->n_by_rows};
	ssize_t bytes = (ssize_t)(w->n * sizeof(w->frames[0]));

	if (write(out_fd, head, sizeof(head)) != sizeof(head) ||
		write(out_fd, w->frames, (size_t)bytes) != bytes)
		return -ENOMEM;
	return 0;
}

static void elf_endp(Elf **elf)
{
	elf_end(*elf);
}

static int walk_all(
	struct cursor *c, struct walker *w, const int *files, size_t n_files, int out_fd)
{
	uint32_t n_modules = cursor_u32(c), n_stacks = cursor_u32(c);
	/* No more than what tells the machine: there may be no file at all. */
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				     ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = ABI_ARM64 ? EM_AARCH64 : EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header)};
	_cleanup_(elf_endp)
	Elf *machine = NULL;
	int r = 0;

	dwfl_report_begin(w->dwfl);
	for (uint32_t i = 0; r == 0 && i < n_modules; i++) {
		struct parser_walk_module m;

		r = read_module(c, n_files, &m);
		if (r == 0)
			report_module(w->dwfl, &m, files[m.file], i);
	}
	dwfl_report_end(w->dwfl, NULL, NULL);
	machine = elf_memory((char *)&header, sizeof(header));
	if (!machine || !dwfl_attach_state(w->dwfl, machine, TID, &thread_callbacks, w))
		r = r < 0 ? r : -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < n_stacks; i++) {
		read_stack(c, w);
		if (c->error)
			return c->error;
		walk_stack(w);
		r = put_walk(out_fd, w);
	}
	return r;
}

int parser_walk(int in_fd, const int *files, size_t n_files, int out_fd, struct errbuf *eb)
{
	_cleanup_free_ struct walker *w = xcalloc(1, sizeof(*w));
	struct cursor c;
	struct stat st;
	void *map;
	int r;

	if (fstat(in_fd, &st) < 0 || st.st_size <= 0)
		return err_set(eb, -EBADMSG, "no stacks");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, in_fd, 0);
	if (map == MAP_FAILED)
		return err_set(eb, -ENOMEM, "stacks: cannot map");
	c = cursor_of(map, (size_t)st.st_size);
	elf_version(EV_CURRENT);
	w->dwfl = dwfl_begin(&callbacks);
	r = w->dwfl ? walk_all(&c, w, files, n_files, out_fd) : -ENOMEM;
	dwfl_end(w->dwfl);
	munmap(map, (size_t)st.st_size);
	return r < 0 ? err_set(eb, r, "stacks: %s", r == -EBADMSG ? "malformed" : "no memory") : 0;
}
