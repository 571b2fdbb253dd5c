/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind rows of real binaries against libdw's reading of the same call frame information: at the
 * begin of every row, and at its last byte.
 */
#include "exporter/parser/parser.h"
#include "exporter/symfile/symbol_unwind.h"
#include "lib/base/alloc.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Registers by their DWARF numbers. */
struct machine {
	uint8_t fp, sp, bx, ra;
};
static const struct machine x86_64 = {.fp = 6, .sp = 7, .bx = 3, .ra = 16};
static const struct machine arm64 = {.fp = 29, .sp = 31, .bx = 19, .ra = 30};

enum { MAX_BY_BYTES = 2 * 32 };

struct subject {
	const struct machine *machine;
	const char *path;
	int fd;
	struct symbol_file file;
	struct symbol_unwind unwind;
	Elf *elf;
	Dwarf *dwarf; /* Go: its .debug_frame */
	Dwarf_CFI *cfi;
	uint32_t
		n_by_bytes; /* places that unwind_gap.c knows (test_unwind_gap.c), and libdw does not */
	uint32_t n_bare;  /* where code was followed in vain, and libdw knows nothing either */
	uint32_t n_go;	  /* differs on purpose: roots, switches of stacks */
	uint32_t n_roots; /* places where libdw sees none: __start_context of libc */
	uint32_t n_same, n_padding,
		n_beyond; /* beyond: libdw says what no rule can, and so do we */
};

static bool elf_is_arm64(Elf *elf)
{
	GElf_Ehdr header;

	return gelf_getehdr(elf, &header) && header.e_machine == EM_AARCH64;
}

static bool subject_open(struct subject *s, const char *path)
{
	int out = memfd_create("out", 0);
	struct errbuf eb = {{0}};

	*s = (struct subject) {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (s->fd < 0) {
		close(out);
		return false;
	}
	if (parser_compile(&(struct parser_inputs) {.fd = s->fd, .debug_fd = -1}, out, &eb) < 0 ||
		symbol_file_map(out, &s->file, &eb) < 0)
		fail_msg("%s: %s", path, eb.text);
	close(out);
	assert_true(symbol_unwind_of(&s->file, &s->unwind));
	elf_version(EV_CURRENT);
	s->elf = elf_begin(s->fd, ELF_C_READ_MMAP, NULL);
	s->machine = elf_is_arm64(s->elf) ? &arm64 : &x86_64;
	s->cfi = dwarf_getcfi_elf(s->elf);
	if (s->unwind.info[SYMBOL_UNWIND_SOURCES] & SYMBOL_UNWIND_PCLNTAB) {
		s->dwarf = dwarf_begin_elf(s->elf, DWARF_C_READ, NULL);
		s->cfi = dwarf_getcfi(s->dwarf);
	}
	assert_non_null(s->cfi);
	return true;
}

static void subject_close(struct subject *s)
{
	if (s->dwarf)
		dwarf_end(s->dwarf);
	else
		dwarf_cfi_end(s->cfi);
	elf_end(s->elf);
	symbol_file_unmap(&s->file);
	close(s->fd);
}

/* A location or value that libdw gives as operations, told in our terms. False: it is neither. */
static bool slot_of(const struct machine *m, const Dwarf_Op *ops, size_t n, const Dwarf_Op *mem,
	uint8_t *where, int64_t *off)
{
	*off = 0;
	if (!n) {
		*where = ops == mem ? UNWIND_GONE : UNWIND_SAME;
		return true;
	}
	if (n == 1 && ops[0].atom == DW_OP_regx) {
		*where = UNWIND_IN_REG;
		*off = (int64_t)ops[0].number;
		return true;
	}
	if (n == 1 && (ops[0].atom == DW_OP_breg0 + m->fp || ops[0].atom == DW_OP_breg0 + m->sp)) {
		*where = ops[0].atom == DW_OP_breg0 + m->fp ? UNWIND_AT_FP : UNWIND_AT_SP;
		*off = (int64_t)ops[0].number;
		return true;
	}
	*where = UNWIND_AT_CFA;
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (n == 2 && ops[1].atom == DW_OP_plus_uconst)
		*off = (int64_t)ops[1].number;
	return n == 1 || (n == 2 && ops[1].atom == DW_OP_plus_uconst);
}

static bool same_slot(
	const struct machine *m, Dwarf_Frame *frame, int reg, uint8_t where, int32_t off)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	uint8_t want;
	int64_t want_off;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n) < 0 ||
		!slot_of(m, ops, n, mem, &want, &want_off))
		return where == UNWIND_GONE;
	/* libdw has rax in rbx's place in its list of preserved registers. */
	if (m == &x86_64 && reg == m->bx && want == UNWIND_GONE)
		want = UNWIND_SAME;
	return where == want && (where == UNWIND_SAME || where == UNWIND_GONE || off == want_off);
}

static bool same_cfa(Dwarf_Frame *frame, const struct unwind_rule *rule)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) < 0 || !n)
		return rule->cfa == UNWIND_CFA_UNKNOWN;
	if (n == 1 && ops[0].atom == DW_OP_bregx)
		return rule->cfa == UNWIND_CFA_REG && rule->reg == ops[0].number &&
		       rule->off == (int64_t)ops[0].number2;
	if (ops[0].atom < DW_OP_breg0 || ops[0].atom > DW_OP_breg31 ||
		rule->reg != ops[0].atom - DW_OP_breg0)
		return rule->cfa == UNWIND_CFA_UNKNOWN;
	if (n == 1)
		return rule->cfa == UNWIND_CFA_REG && rule->off == (int64_t)ops[0].number;
	if (n == 2 && ops[1].atom == DW_OP_plus_uconst)
		return rule->cfa == UNWIND_CFA_REG &&
		       rule->off == (int64_t)(ops[0].number + ops[1].number);
	if (n == 2 && ops[1].atom == DW_OP_deref)
		return rule->cfa == UNWIND_CFA_DEREF && rule->d1 == (int64_t)ops[0].number &&
		       !rule->off;
	if (n == 3 && ops[1].atom == DW_OP_deref && ops[2].atom == DW_OP_plus_uconst)
		return rule->cfa == UNWIND_CFA_DEREF && rule->d1 == (int64_t)ops[0].number &&
		       rule->off == (int64_t)ops[2].number;
	if (n == 9 && ops[0].atom == DW_OP_breg7 && ops[5].atom == DW_OP_ge)
		return rule->cfa == UNWIND_CFA_PLT && rule->off == 8 &&
		       rule->d1 == ops[4].atom - DW_OP_lit0;
	return rule->cfa == UNWIND_CFA_UNKNOWN;
}

static void print_rule(const struct unwind_rule *r)
{
	print_error("cfa %u reg %u off %d d1 %d d2 %d, ra %u %d, fp %u %d, bx %u %d\n", r->cfa,
		r->reg, r->off, r->d1, r->d2, r->ra, r->ra_off, r->fp, r->fp_off, r->bx, r->bx_off);
}

/* The return address, in the column that the CIE names: rawmemchr of arm64 returns to x15. */
static bool same_return(const struct machine *m, Dwarf_Frame *frame, const struct unwind_rule *rule)
{
	Dwarf_Addr begin, end;
	bool is_signal;
	int reg = dwarf_frame_info(frame, &begin, &end, &is_signal);

	if (m == &arm64 && rule->ra == UNWIND_IN_REG && rule->ra_off == reg)
		return same_slot(m, frame, reg, UNWIND_SAME, 0) ||
		       (reg != m->ra && same_slot(m, frame, reg, UNWIND_GONE, 0));
	return same_slot(m, frame, reg, rule->ra, rule->ra_off);
}

/* `off` lies in [begin of a row, its end): what libdw says there must be `rule`. */
static void check_at(struct subject *s, uint64_t off, uint32_t number, uint64_t row_end)
{
	struct unwind_rule rule;
	Dwarf_Frame *frame;
	Dwarf_Addr begin, end;
	bool is_signal, same;
	const struct machine *m = s->machine;
	uint64_t vaddr;

	if (!symbol_file_vaddr(&s->file, off, &vaddr))
		return; /* behind the last executable byte */
	symbol_unwind_rule(&s->unwind, number, &rule);
	if (dwarf_cfi_addrframe(s->cfi, vaddr, &frame) < 0) {
		if (rule.cfa == UNWIND_CFA_NO_FP)
			s->n_bare++;
		else if (number != UNWIND_RULE_NONE &&
			 (row_end - off < 16 || rule.ra == UNWIND_GONE))
			s->n_padding++;
		else if (number != UNWIND_RULE_NONE &&
			 (m != &x86_64 || rule.off > 24 || ++s->n_by_bytes > MAX_BY_BYTES))
			fail_msg("%s: %#lx has a rule, libdw none", s->path, vaddr);
		return;
	}
	if (s->dwarf) /* .debug_frame says nothing of the frame pointer */
		same = same_cfa(frame, &rule) && same_return(m, frame, &rule);
	else if (rule.ra == UNWIND_GONE && rule.cfa == UNWIND_CFA_REG)
		same = same_slot(m, frame, m->ra, UNWIND_GONE, 0) || ++s->n_roots <= 2;
	else
		same = same_cfa(frame, &rule) && same_return(m, frame, &rule) &&
		       same_slot(m, frame, m->fp, rule.fp, rule.fp_off) &&
		       same_slot(m, frame, m->bx, rule.bx, rule.bx_off);
	(void)dwarf_frame_info(frame, &begin, &end, &is_signal);
	if (rule.cfa == UNWIND_CFA_UNKNOWN || (rule.cfa == UNWIND_CFA_SIGNAL && is_signal)) {
		s->n_beyond++;
	} else if (!same && s->dwarf) {
		s->n_go++;
	} else if (!same) {
		print_rule(&rule);
		fail_msg("%s: %#lx differs from libdw", s->path, vaddr);
	} else {
		s->n_same++;
	}
	free(frame);
}

static uint32_t word_at(const struct subject *s, uint32_t i)
{
	uint32_t v;

	memcpy(&v, s->unwind.words.data + (size_t)i * 4, 4);
	return v;
}

/* Every row of a page, with what holds where the page begins. */
static void check_page(struct subject *s, uint32_t page)
{
	uint32_t entry = word_at(s, page), first = UNWIND_PAGE_WORD(entry),
		 n = UNWIND_PAGE_N(entry);
	uint64_t base = (uint64_t)(s->unwind.info[SYMBOL_UNWIND_FIRST_PAGE] + page)
			<< UNWIND_PAGE_SHIFT;
	uint64_t begin = base, end;
	uint32_t rule = entry ? UNWIND_ROW_RULE(word_at(s, first)) : UNWIND_RULE_NONE;

	if (n == UNWIND_PAGE_MANY)
		n = word_at(s, ++first);
	for (uint32_t i = 1; i <= n + 1; i++) {
		uint32_t row = i <= n ? word_at(s, first + i) : 0;

		end = i <= n ? base + (UNWIND_ROW_OFF(row) & (UNWIND_PAGE_BYTES - 1))
			     : base + UNWIND_PAGE_BYTES;
		assert_true(end > begin || (i == 1 && end == begin));
		if (end > begin) {
			check_at(s, begin, rule, end);
			check_at(s, end - 1, rule, end);
		}
		begin = end;
		rule = UNWIND_ROW_RULE(row);
	}
}

/* The rule of a place: that of the last row at or before it. */
static struct unwind_rule rule_at(const struct subject *s, uint64_t off)
{
	uint32_t page =
		(uint32_t)(off >> UNWIND_PAGE_SHIFT) - s->unwind.info[SYMBOL_UNWIND_FIRST_PAGE];
	uint32_t entry = word_at(s, page), at = UNWIND_PAGE_WORD(entry), n = UNWIND_PAGE_N(entry);
	uint32_t number = UNWIND_ROW_RULE(word_at(s, at));
	struct unwind_rule ret;

	if (n == UNWIND_PAGE_MANY)
		n = word_at(s, ++at);
	for (uint32_t i = 1; i <= n; i++)
		if (UNWIND_ROW_OFF(word_at(s, at + i)) <= (off & 0xffff))
			number = UNWIND_ROW_RULE(word_at(s, at + i));
	symbol_unwind_rule(&s->unwind, number, &ret);
	return ret;
}

/* The file's bytes that signal handlers return to have a signal frame's rule, and so has the byte before. */
static uint32_t check_trampolines(const struct subject *s)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	size_t n, at = 0;
	const uint8_t *raw = (const uint8_t *)elf_rawfile(s->elf, &n), *found;
	uint32_t n_found = 0;

	for (; (found = memmem(raw + at, n - at, code, sizeof(code))); n_found++) {
		at = (size_t)(found - raw);
		for (int64_t i = -1; i < (int64_t)sizeof(code); i++)
			assert_int_equal(rule_at(s, at + (uint64_t)i).cfa, UNWIND_CFA_SIGNAL);
		at += sizeof(code);
	}
	return n_found;
}

static void check_binary(const char *path, bool must_exist)
{
	struct subject s;

	if (!subject_open(&s, path)) {
		print_message("%s: not here\n", path);
		assert_false(must_exist);
		return;
	}
	for (uint32_t page = 0; page < s.unwind.info[SYMBOL_UNWIND_N_PAGES]; page++)
		check_page(&s, page);
	print_message("%s: %u rows, %u rules; %u places the same, %u in padding, %u beyond rules\n",
		path, s.unwind.info[SYMBOL_UNWIND_N_ROWS], s.unwind.n_rules, s.n_same, s.n_padding,
		s.n_beyond);
	assert_true(s.n_same > 1000);
	assert_true(s.n_go * 1000ULL < s.n_same + 10000ULL);
	print_message("  %u on purpose, %u by their bytes, %u without tables\n", s.n_go,
		s.n_by_bytes, s.n_bare);
	assert_true(s.n_bare * 50ULL < s.n_same + 10000ULL);
	assert_true(s.n_beyond * 1000ULL < s.n_same + 10000ULL);
	assert_int_equal(s.unwind.info[SYMBOL_UNWIND_N_BAD], 0);
	assert_int_equal(s.unwind.info[SYMBOL_UNWIND_N_RULES_REFUSED], 0);
	assert_int_equal(s.unwind.info[SYMBOL_UNWIND_N_PAGES_REFUSED], 0);
	subject_close(&s);
}

static void libc(void **state)
{
	(void)state;
	check_binary("/lib/x86_64-linux-gnu/libc.so.6", true);
}

static void signal_trampolines(void **state)
{
	static const char *const paths[] = {
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-musl/libc.so"};
	struct subject s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_true(subject_open(&s, paths[i]));
		assert_int_equal(check_trampolines(&s), 1);
		subject_close(&s);
	}
}

static void libcrypto(void **state)
{
	(void)state;
	check_binary("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", true);
}

static void dynamic_loader(void **state)
{
	(void)state;
	check_binary("/lib64/ld-linux-x86-64.so.2", true);
}

/* Of Debian's packages for arm64, as its cross compiler brings them. */
static void arm64_libraries(void **state)
{
	(void)state;
	check_binary("/usr/aarch64-linux-gnu/lib/libc.so.6", false);
	check_binary("/usr/aarch64-linux-gnu/lib/libstdc++.so.6", false);
}

static void python(void **state)
{
	(void)state;
	check_binary("/usr/bin/python3.11", false);
}

/* A Go program with .debug_frame: Debian's own have none. False: there is no Go here that builds one. */
static bool build_go(const char *dir, char *ret, size_t n)
{
	static const char source[] = "package main\nimport (\"fmt\"; \"time\")\n"
				     "func main() { fmt.Println(time.Now()) }\n";
	char path[256];
	int status = -1, fd;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/x.go", dir);
	snprintf(ret, n, "%s/x", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, source, strlen(source)) != (ssize_t)strlen(source))
		return false;
	close(fd);
	pid = fork();
	if (pid == 0) {
		setenv("HOME", "/tmp", 0); /* for Go's cache */
		execlp("go", "go", "build", "-o", ret, path, (char *)NULL);
		_exit(127);
	}
	(void)waitpid(pid, &status, 0);
	(void)unlink(path);
	return status == 0;
}

/* From the runtime's own table, against .debug_frame. */
static void go(void **state)
{
	char dir[] = "/tmp/sonde-go-XXXXXX", path[256];
	struct subject s;

	(void)state;
	assert_non_null(mkdtemp(dir));
	if (build_go(dir, path, sizeof(path))) {
		check_binary(path, true);
		assert_true(subject_open(&s, path));
		assert_int_equal(check_trampolines(&s), s.machine == &x86_64);
		subject_close(&s);
	} else {
		print_message("no Go that builds a program\n");
	}
	(void)unlink(path);
	(void)rmdir(dir);
}

static void this_program(void **state)
{
	(void)state;
	check_binary("/proc/self/exe", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libc),
		cmocka_unit_test(signal_trampolines),
		cmocka_unit_test(libcrypto),
		cmocka_unit_test(dynamic_loader),
		cmocka_unit_test(arm64_libraries),
		cmocka_unit_test(python),
		cmocka_unit_test(go),
		cmocka_unit_test(this_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
