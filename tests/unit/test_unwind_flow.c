/* SPDX-License-Identifier: Apache-2.0
 *
 * What following the code finds, beside what the compiler wrote down: whole libraries are followed as if they had no call frame
 * information, and each instruction that is reached is compared with theirs. And small pieces that must not pass.
 */
#include "exporter/parser/unwind/unwind_flow.h"
#include "exporter/parser/unwind/cfi.h"
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/alloc.h"
#include "lib/base/cleanup.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct unwind_flow *flow;

/* The rules of a whole segment by its CFI, a row where each begins. */
struct oracle {
	uint64_t *begin;
	struct unwind_rule *rule;
	bool *has;
	size_t n, cap_begin, cap_rule, cap_has;
};

static void oracle_row(void *ctx, uint64_t begin, const struct unwind_rule *rule)
{
	struct oracle *o = ctx;

	assert_int_equal(alloc_grow(&o->begin, &o->cap_begin, o->n + 1, sizeof(*o->begin)), 0);
	assert_int_equal(alloc_grow(&o->rule, &o->cap_rule, o->n + 1, sizeof(*o->rule)), 0);
	assert_int_equal(alloc_grow(&o->has, &o->cap_has, o->n + 1, sizeof(*o->has)), 0);
	o->begin[o->n] = begin;
	o->has[o->n] = rule != NULL;
	o->rule[o->n++] = rule ? *rule : (struct unwind_rule) {0};
}

static void read_cfi(const struct elf_file *f, struct oracle *o)
{
	const struct cfi_machine *machine = cfi_machine_of(f->machine);
	struct cfi_section s;
	struct cfi_fde fde;
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, ".eh_frame", &shdr));
	uint64_t off = 0;
	enum cfi_entry kind;

	assert_non_null(data);
	cfi_section_init(&s, machine, data->d_buf, data->d_size, shdr.sh_addr);
	while ((kind = cfi_read(&s, &off, &fde)) != CFI_END && kind != CFI_BAD)
		if (kind == CFI_FDE && cfi_run(machine, &fde, oracle_row, o))
			oracle_row(o, fde.end, NULL);
}

static const struct oracle *sorting;

static int by_begin(const void *a, const void *b)
{
	size_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	if (sorting->begin[i] != sorting->begin[k])
		return sorting->begin[i] < sorting->begin[k] ? -1 : 1;
	/* an end before the begin of what follows it at once */
	return i == k				    ? 0
	       : sorting->has[i] != sorting->has[k] ? (sorting->has[i] ? 1 : -1)
	       : i < k				    ? -1
						    : 1;
}

struct segment {
	const uint8_t *raw;
	const struct elf_file *f;
};

static const uint8_t *data_of(void *ctx, uint64_t vaddr, size_t *ret_n)
{
	const struct segment *s = ctx;

	for (uint32_t i = 0; i < s->f->n_loads; i++) {
		const struct elf_segment *load = &s->f->loads[i];

		if (vaddr >= load->vaddr && vaddr - load->vaddr < load->file_bytes) {
			*ret_n = load->file_bytes - (vaddr - load->vaddr);
			return s->raw + load->file_off + (vaddr - load->vaddr);
		}
	}
	return NULL;
}

struct result {
	size_t n_bytes, n_reached, n_same, n_unlike;
	size_t n_other; /* told from different registers */
	size_t n_alone; /* theirs says nothing */
};

/* The same place of the caller's frame, and of what was saved, where both tell. */
static bool agree(const struct unwind_rule *ours, const struct unwind_rule *theirs, uint64_t vaddr)
{
	if (theirs->cfa == UNWIND_CFA_PLT)
		return ours->off == theirs->off + (vaddr % 16 >= (unsigned)theirs->d1 ? 8 : 0);
	return theirs->cfa == UNWIND_CFA_REG && theirs->ra == UNWIND_AT_CFA &&
	       theirs->off == ours->off &&
	       (ours->fp != UNWIND_AT_CFA || theirs->fp != UNWIND_AT_CFA ||
		       ours->fp_off == theirs->fp_off) &&
	       (ours->bx != UNWIND_AT_CFA || theirs->bx != UNWIND_AT_CFA ||
		       ours->bx_off == theirs->bx_off);
}

static void compare(const struct unwind_flow *f, uint64_t vaddr, size_t n, const struct oracle *o,
	const uint32_t *order, struct result *r)
{
	size_t k = 0;

	for (size_t at = 0; at < n; at++) {
		unsigned number = unwind_flow_at(f, at);
		struct unwind_rule ours;
		const struct unwind_rule *theirs;

		while (k < o->n && o->begin[order[k]] <= vaddr + at)
			k++;
		r->n_bytes++;
		if (!number || number == UNWIND_FLOW_NO_FP || !k)
			continue;
		r->n_reached++;
		ours = unwind_flow_rule(f, number);
		theirs = &o->rule[order[k - 1]];
		if (!o->has[order[k - 1]])
			r->n_alone++;
		else if (theirs->cfa == UNWIND_CFA_REG && theirs->reg != ours.reg)
			r->n_other++;
		else if (agree(&ours, theirs, vaddr + at))
			r->n_same++;
		else
			r->n_unlike++;
	}
}

static bool follow_library(const char *path, struct result *ret)
{
	_cleanup_elf_file_ struct elf_file f = {.fd = -1};
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct oracle o = {0};
	uint32_t *order;
	struct segment s;
	size_t n_raw;

	*ret = (struct result) {0};
	if (fd < 0)
		return false;
	assert_int_equal(elf_file_open(fd, &f, NULL), 0);
	s = (struct segment) {(const uint8_t *)elf_rawfile(f.elf, &n_raw), &f};
	read_cfi(&f, &o);
	order = xcalloc(o.n, sizeof(*order));
	for (uint32_t i = 0; i < o.n; i++)
		order[i] = i;
	sorting = &o;
	qsort(order, o.n, sizeof(*order), by_begin);
	for (uint32_t i = 0; i < f.n_loads; i++) {
		const struct elf_segment *load = &f.loads[i];

		for (uint64_t off = 0; (load->flags & PF_X) && off < load->file_bytes;
			off += UNWIND_FLOW_BYTES) {
			struct unwind_flow_code code = {.code = s.raw + load->file_off + off,
				.n = MIN(load->file_bytes - off, (uint64_t)UNWIND_FLOW_BYTES),
				.vaddr = load->vaddr + off,
				.data = data_of,
				.ctx = &s};

			assert_int_equal(unwind_flow_begin(flow, &code), 0);
			unwind_flow_run(flow);
			compare(flow, code.vaddr, code.n, &o, order, ret);
		}
	}
	free(order);
	free(o.begin);
	free(o.rule);
	free(o.has);
	return true;
}

/*
 * Of these ten million bytes some 600 are not the same: the compiler's or the author's information is wrong there (glibc's
 * multiplication in assembly, vfork after it pushed what it took, returns in libcrypto), and glibc's signal trampoline, which the
 * parser knows by its bytes before anything is followed.
 */
static void beside_call_frame_information(void **state)
{
	static const struct {
		const char *path;
		size_t n_unlike;  /* at most */
		unsigned percent; /* reached, at least */
	} files[] = {
		{"/lib/x86_64-linux-gnu/libc.so.6", 1000, 75},
		{"/lib/x86_64-linux-gnu/libcrypto.so.3", 100, 60},
		{"/lib/x86_64-linux-gnu/libm.so.6", 0, 80},
		{"/usr/lib/x86_64-linux-gnu/libgnutls.so.30", 0, 75},
		{"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 0, 65},
		{"/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", 0, 75},
		{"/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", 0, 75},
		{"/usr/bin/perl", 0, 75},
	};
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct result r;

		if (!follow_library(files[i].path, &r))
			continue;
		print_message("%s: %.1f %% of %zu bytes reached, %zu the same, %zu not, %zu by "
			      "another register, %zu without theirs\n",
			files[i].path, 100.0 * (double)r.n_reached / (double)r.n_bytes, r.n_bytes,
			r.n_same, r.n_unlike, r.n_other, r.n_alone);
		assert_true(r.n_unlike <= files[i].n_unlike);
		assert_true(r.n_reached * 100 >= r.n_bytes * files[i].percent);
		n += r.n_same;
	}
	assert_true(n > 1000000);
}

/* Pieces of code, between labels. */
#define PIECE(name, text)                                                                          \
	__asm__(".pushsection .rodata\n.balign 64\n" #name ":\n" text "\n.balign 16, 0x90\n" #name \
		"_end:\n.popsection\n");                                                           \
	extern const uint8_t name[], name##_end[]
#define AT(label)                                                                            \
	({                                                                                   \
		_Pragma("GCC diagnostic push") _Pragma(                                      \
			"GCC diagnostic ignored \"-Wredundant-decls\"") extern const uint8_t \
			label[];                                                             \
		_Pragma("GCC diagnostic pop") label;                                         \
	})

/* A call that does not return, and a function behind it that nobody calls. */
PIECE(no_return, "push %rbx; sub $16, %rsp; mov %rdi, %rbx; test %edi, %edi; je nr_abort; nr_back: "
		 "add $16, %rsp; pop %rbx; nr_ret: ret\n"
		 "nr_abort: xor %edi, %edi; call no_return + 0x10000; nr_behind: .balign 16, 0x90\n"
		 "nr_next: push %rbp; push %rbx; nr_saved: mov %rdi, %rbp; lea 1(%rbp), %rax; pop "
		 "%rbx; pop %rbp; ret");
/* Code that returns elsewhere: GHC keeps its stack in rbp and jumps. */
PIECE(jumps, "mov (%rbp), %rax; add $8, %rbp; jmp *%rax; .balign 16, 0x90; lea -16(%rbp), %rax; "
	     "cmp %r15, %rax; jb 1f; mov 7(%rbx), %rbx; jmp *(%rbp); 1: jmp *-8(%r13)");
/* The second half of a function, to which a table leads that cannot be read. */
PIECE(halves, "push %rbp; push %rbx; sub $24, %rsp; jmp *%rdi; .balign 16, 0x90\n"
	      "ha_one: mov %rbx, %rdi; call halves + 0x10000; ha_shared: add $24, %rsp; pop %rbx; "
	      "pop %rbp; ret; .balign 16, 0x90\n"
	      "ha_two: mov %rbp, %rdi; call halves + 0x10000; jmp ha_shared");
/* A frame of a size that is known at run time only. */
PIECE(sized,
	"push %rbp; mov %rsp, %rbp; push %rbx; mov %rdi, %rbx; sub %rdi, %rsp; and $-32, %rsp; "
	"si_body: call sized + 0x10000; lea -8(%rbp), %rsp; si_back: pop %rbx; pop %rbp; ret");
/* A jump by a table of distances. */
PIECE(table,
	"push %rbx; cmp $2, %edi; ja ta_ret; lea ta_table(%rip), %rdx; movslq (%rdx,%rdi,4), %rax; "
	"add %rdx, %rax; jmp *%rax\n"
	"ta_zero: inc %ebx; jmp ta_ret; ta_one: push %rax; ta_deep: pop %rax; ta_ret: pop %rbx; "
	"ret; .balign 4; ta_table: .long ta_zero - ta_table, ta_one - ta_table, ta_ret - ta_table");
/* Parts that share an end and use registers as they like. */
PIECE(parts, "push %rbp; push %rbx; sub $8, %rsp; call pa_one; call pa_two; add $8, %rsp; pop "
	     "%rbx; pop %rbp; pa_end: ret; .balign 16, 0x90\n"
	     "pa_one: xor %ebp, %ebp; pa_two: lea 1(%rbp), %rax; mov %rax, %rbx; ret");
/* A return that leaves something on the stack on one way. */
PIECE(uneven, "push %rbx; test %edi, %edi; je 1f; pop %rbx; 1: ret");
/* Assembly that calls its own functions without aligning the stack: one that returns, after another that goes on to its end, and one
 * behind which the next function begins. */
PIECE(unaligned, "un_short: call un_body; un_back: inc %eax; call un_tail; inc %eax; un_ret: ret; "
		 ".balign 16, 0x90\n"
		 "un_body: xor %eax, %eax; jmp un_shared; .balign 16, 0x90; un_tail: dec %eax; "
		 "un_shared: neg %eax; ret; "
		 ".balign 16, 0x90\n"
		 "un_last: call un_tail; .balign 16, 0x90; un_next: mov %edi, %eax; ret");
/* Functions that go on at once to where an argument says, or rax, or memory: their addresses are taken, or not. */
PIECE(thunks, "lea th_three(%rip), %rcx; lea th_rax(%rip), %rdx; lea th_memory(%rip), %rsi; ret; "
	      ".balign 16, 0x90; th_three: jmp *%rdx; .balign 16, 0x90; th_rax: jmp *%rax; "
	      ".balign 16, 0x90; th_memory: jmp *(%rbp); .balign 16, 0x90; th_alone: jmp *%rdx");
/*
 * A server's thread, as gcc writes it: a loop that never returns, what calls it, and a thread's function of which only the address is
 * taken. What is behind a call that does not return is another function: here one that code does not name.
 */
PIECE(endless, "lea en_thread(%rip), %rdi; ret; .balign 16, 0x90\n"
	       "en_work: mov %edi, %eax; ret; .balign 16, 0x90\n"
	       "en_loop: call en_work; inc %ecx; en_jump: jmp en_loop; .balign 16, 0x90\n"
	       "en_run: xor %eax, %eax; en_calls: call en_loop; .balign 16, 0xcc\n"
	       "en_thread: push %rbx; sub $16, %rsp; call *%rax; test %eax, %eax; je en_two; "
	       "en_one: call en_run\n"
	       "en_two: mov %rax, %rbx; nop; en_last: call endless + 0x10000; .balign 16, 0x90\n"
	       "en_behind: sub $24, %rsp; call *%rax; en_again: jmp en_again; .balign 16, 0x90");
/* The same after a call behind which a loop is aligned: of a function that returns, and of one that may not. */
PIECE(looped, "lo_call: call lo_one; call lo_two; ret; .balign 16, 0x90; lo_work: mov %edi, %eax; "
	      "ret; .balign 16, 0x90\n"
	      "lo_one: push %rbx; call lo_work; .balign 16, 0x90; lo_first: call *%rbx; jmp "
	      "lo_first; .balign 16, 0x90\n"
	      "lo_two: push %rbx; lo_may: call *%rbx; .balign 16, 0x90; lo_second: call *%rbx; jmp "
	      "lo_second");
/* Not known: in a function without frame pointer, and in one with. */
PIECE(keepers, "call ke_bare; call ke_has; ret; .balign 16, 0x90; ke_bare: pop %rcx; ke_one: pop "
	       "%rdx; jmp *%rcx; .balign 16, 0x90\n"
	       "ke_has: endbr64; push %rbp; mov %rsp, %rbp; pop %rcx; pop %rcx; ke_two: pop %rcx; "
	       "jmp *%rcx; .balign 16, 0x90; ke_three: mov %eax, %ecx; "
	       "jmp *%rcx; .balign 16, 0x90; ke_other: push %rbx; pop %rbx; pop %rcx; ke_four: pop "
	       "%rcx; jmp *%rcx");
/* Much code: entered by jumps but for a function here and there; of functions with a frame pointer; of others. */
PIECE(many_jumps, ".rept 1000; .rept 24; lea -16(%rbp), %rax; cmp %r15, %rax; inc %eax; inc %eax; "
		  "inc %eax; jmp *(%rbp); .balign "
		  "16, 0x90; .endr; "
		  "mov %edi, %eax; ret; .balign 16, 0x90; .endr");
PIECE(few_jumps, ".rept 20; .rept 24; lea -16(%rbp), %rax; cmp %r15, %rax; inc %eax; inc %eax; inc "
		 "%eax; jmp *(%rbp); .balign "
		 "16, 0x90; .endr; "
		 "mov %edi, %eax; ret; .balign 16, 0x90; .endr");
PIECE(many_frames, ".rept 20000; push %rbp; mov %rsp, %rbp; xor %eax, %eax; pop %rbp; ret; .balign "
		   "16, 0x90; .endr");
PIECE(many_others, ".rept 20000; push %rbx; mov %edi, %ebx; lea 1(%rbx), %eax; pop %rbx; ret; "
		   ".balign 16, 0x90; .endr");

static const uint8_t *piece;

static const uint8_t *piece_data(void *ctx, uint64_t vaddr, size_t *ret_n)
{
	const uint8_t *end = ctx;

	*ret_n = (size_t)((uintptr_t)end - vaddr);
	return (const uint8_t *)(uintptr_t)vaddr;
}

/* A function that code does not name, but a symbol. */
static const uint8_t *named;

static uint64_t next_named(void *ctx, uint64_t vaddr)
{
	(void)ctx;
	return named && vaddr <= (uintptr_t)named ? (uintptr_t)named : UINT64_MAX;
}

static void run(const uint8_t *begin, const uint8_t *end)
{
	struct unwind_flow_code code = {.code = begin,
		.n = (size_t)(end - begin),
		.vaddr = (uintptr_t)begin,
		.data = piece_data,
		.next_named = next_named,
		.ctx = (void *)(uintptr_t)end};

	piece = begin;
	assert_int_equal(unwind_flow_begin(flow, &code), 0);
	unwind_flow_run(flow);
}

static unsigned known_at(const uint8_t *at)
{
	unsigned number = unwind_flow_at(flow, (size_t)(at - piece));

	return number == UNWIND_FLOW_NO_FP ? 0 : number;
}

static void assert_nothing_at(const uint8_t *at)
{
	assert_int_equal(known_at(at), 0);
}

static void assert_rule(const uint8_t *at, unsigned reg, int off, int fp_off, int bx_off)
{
	unsigned number = known_at(at);
	struct unwind_rule rule;

	assert_true(number > 0);
	rule = unwind_flow_rule(flow, number);
	assert_int_equal(rule.reg, reg);
	assert_int_equal(rule.off, off);
	assert_int_equal(rule.ra_off, -8);
	assert_int_equal(rule.fp, fp_off ? UNWIND_AT_CFA : UNWIND_SAME);
	assert_int_equal(rule.fp_off, fp_off);
	assert_int_equal(rule.bx, bx_off ? UNWIND_AT_CFA : UNWIND_SAME);
	assert_int_equal(rule.bx_off, bx_off);
}

static void a_call_that_does_not_return(void **state)
{
	(void)state;
	run(no_return, no_return_end);
	assert_rule(no_return, 7, 8, 0, 0);
	assert_rule(AT(nr_back), 7, 32, 0, -16);
	assert_rule(AT(nr_ret), 7, 8, 0, 0);
	assert_rule(AT(nr_abort), 7, 32, 0, -16);
	assert_nothing_at(AT(nr_behind));
	assert_rule(AT(nr_next), 7, 8, 0, 0);
	assert_rule(AT(nr_saved), 7, 24, -16, -24);
}

static void code_without_calls(void **state)
{
	(void)state;
	run(jumps, jumps_end);
	for (const uint8_t *p = jumps; p < jumps_end; p++)
		assert_nothing_at(p);
}

static void the_midst_of_a_function(void **state)
{
	(void)state;
	run(halves, halves_end);
	for (const uint8_t *p = halves; p < halves_end; p++)
		assert_nothing_at(p);
}

static void frames_of_any_size(void **state)
{
	(void)state;
	run(sized, sized_end);
	assert_rule(AT(si_body), 6, 16, -16, -24);
	assert_rule(AT(si_back), 7, 24, -16, -24);
}

static void jump_tables(void **state)
{
	(void)state;
	run(table, table_end);
	assert_rule(AT(ta_zero), 7, 16, 0, -16);
	assert_rule(AT(ta_deep), 7, 24, 0, -16);
	assert_rule(AT(ta_ret), 7, 16, 0, -16);
}

static void parts_that_are_called(void **state)
{
	struct unwind_rule rule;
	unsigned number;

	(void)state;
	run(parts, parts_end);
	assert_rule(parts, 7, 8, 0, 0);
	assert_rule(AT(pa_end), 7, 8, 0, 0);
	assert_rule(AT(pa_one), 7, 8, 0, 0);
	number = unwind_flow_at(flow, (size_t)(AT(pa_two) - parts));
	assert_true(number > 0);
	rule = unwind_flow_rule(flow, number);
	assert_int_equal(rule.off, 8);
	assert_int_equal(rule.fp, UNWIND_GONE);
}

static void calls_that_do_not_align_the_stack(void **state)
{
	(void)state;
	run(unaligned, unaligned_end);
	assert_rule(unaligned, 7, 8, 0, 0);
	assert_rule(AT(un_back), 7, 8, 0, 0);
	assert_rule(AT(un_ret), 7, 8, 0, 0);
	assert_rule(AT(un_body), 7, 8, 0, 0);
	assert_nothing_at(AT(un_last));
	assert_rule(AT(un_next), 7, 8, 0, 0);
}

static void functions_that_never_return(void **state)
{
	(void)state;
	run(endless, endless_end);
	assert_rule(AT(en_loop), 7, 8, 0, 0);
	assert_true(known_at(AT(en_jump)));
	assert_rule(AT(en_run), 7, 8, 0, 0);
	assert_rule(AT(en_calls), 7, 8, 0, 0);
	assert_rule(AT(en_one), 7, 32, 0, -16);
	assert_rule(AT(en_two), 7, 32, 0, -16);
	assert_rule(AT(en_last), 7, 32, 0, -16);
	assert_nothing_at(AT(en_behind));
	assert_nothing_at(AT(en_again));
	named = AT(en_behind);
	run(endless, endless_end);
	named = NULL;
	assert_rule(AT(en_behind), 7, 8, 0, 0);
	assert_rule(AT(en_again), 7, 32, 0, 0);
	run(looped, looped_end);
	assert_rule(AT(lo_first), 7, 16, 0, -16);
	assert_rule(AT(lo_may), 7, 16, 0, -16);
	assert_nothing_at(AT(lo_second));
}

static void unknown_code_and_frame_pointers(void **state)
{
	static const struct {
		const char *name;
		bool keeps_fp;
	} want[] = {{"ke_one", false}, {"ke_two", true}, {"ke_three", true}, {"ke_four", false}};
	const uint8_t *at[] = {AT(ke_one), AT(ke_two), AT(ke_three), AT(ke_four)};

	(void)state;
	run(keepers, keepers_end);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		if (unwind_flow_at(flow, (size_t)(at[i] - keepers)) !=
			(want[i].keeps_fp ? 0 : UNWIND_FLOW_NO_FP))
			fail_msg("%s", want[i].name);
	assert_int_equal(unwind_flow_rule(flow, UNWIND_FLOW_NO_FP).cfa, UNWIND_CFA_NO_FP);
}

static void functions_that_go_on_at_once(void **state)
{
	(void)state;
	run(thunks, thunks_end);
	assert_rule(AT(th_three), 7, 8, 0, 0);
	assert_nothing_at(AT(th_rax));
	assert_nothing_at(AT(th_memory));
	assert_nothing_at(AT(th_alone));
}

/* The bytes of a piece about which something is said. */
static size_t n_said(const uint8_t *begin, const uint8_t *end)
{
	size_t n = 0, size = (size_t)(end - begin);

	run(begin, end);
	for (size_t at = 0, next; at < size; at = next) {
		next = unwind_flow_next(flow, at);
		assert_in_range(next, at + 1, size);
		for (size_t i = at; i < next; i++)
			assert_int_equal(unwind_flow_at(flow, i), unwind_flow_at(flow, at));
		if (next < size)
			assert_int_not_equal(unwind_flow_at(flow, next), unwind_flow_at(flow, at));
		n += known_at(begin + at) ? next - at : 0;
	}
	return n;
}

static void code_that_is_of_no_use(void **state)
{
	(void)state;
	assert_int_equal(n_said(few_jumps, few_jumps_end), 20 * 3UL);
	assert_int_equal(n_said(many_jumps, many_jumps_end), 0);
	assert_int_equal(n_said(many_frames, many_frames_end), 0);
	assert_int_equal(n_said(many_others, many_others_end), 20000 * 8UL);
}

static void ways_that_contradict_each_other(void **state)
{
	(void)state;
	run(uneven, uneven_end);
	for (const uint8_t *p = uneven; p < uneven_end; p++)
		assert_nothing_at(p);
}

static void what_is_known_otherwise(void **state)
{
	struct unwind_flow_code code = {.code = no_return,
		.n = (size_t)(no_return_end - no_return),
		.vaddr = (uintptr_t)no_return};

	(void)state;
	piece = no_return;
	assert_int_equal(unwind_flow_begin(flow, &code), 0);
	unwind_flow_take(flow, (size_t)(AT(nr_back) - no_return), 1000);
	unwind_flow_run(flow);
	for (const uint8_t *p = no_return; p < no_return_end; p++)
		assert_nothing_at(p); /* nothing that leads there returns */
	code.n = UNWIND_FLOW_BYTES + 1;
	assert_int_equal(unwind_flow_begin(flow, &code), -E2BIG);
}

static int make_flow(void **state)
{
	(void)state;
	flow = unwind_flow_new();
	return flow ? 0 : -1;
}

static int free_flow(void **state)
{
	(void)state;
	unwind_flow_freep(&flow);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_does_not_return),
		cmocka_unit_test(code_without_calls),
		cmocka_unit_test(the_midst_of_a_function),
		cmocka_unit_test(frames_of_any_size),
		cmocka_unit_test(jump_tables),
		cmocka_unit_test(parts_that_are_called),
		cmocka_unit_test(calls_that_do_not_align_the_stack),
		cmocka_unit_test(functions_that_never_return),
		cmocka_unit_test(unknown_code_and_frame_pointers),
		cmocka_unit_test(functions_that_go_on_at_once),
		cmocka_unit_test(code_that_is_of_no_use),
		cmocka_unit_test(ways_that_contradict_each_other),
		cmocka_unit_test(what_is_known_otherwise),
		cmocka_unit_test(beside_call_frame_information),
	};

	return cmocka_run_group_tests_name("unwind_flow", tests, make_flow, free_flow);
}
