/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that a process moved to other memory keeps its file, and a process its own executable.
 */
#include "exporter/proc/reader/moved.h"
#include "tests/unit/proc_fixture.h"
#include <elf.h>

/* A program as lld lays it out: its code begins in the middle of a page, which the file shares with what is before. */
struct made_elf {
	Elf64_Ehdr header;
	Elf64_Phdr segments[4];
};
static const struct made_elf elf = {
	.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
		.e_phoff = offsetof(struct made_elf, segments),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 4},
	.segments = {{.p_type = PT_PHDR, .p_offset = 64, .p_vaddr = 64, .p_filesz = 224},
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x2640},
		{.p_type = PT_LOAD,
			.p_flags = PF_R | PF_X,
			.p_offset = 0x2640,
			.p_vaddr = 0x3640,
			.p_filesz = 0x3000},
		{.p_type = PT_LOAD,
			.p_flags = PF_R | PF_W,
			.p_offset = 0x5640,
			.p_vaddr = 0x7640,
			.p_filesz = 0x100}},
};

static void test_offsets(void **state)
{
	static const struct {
		const char *what;
		uint64_t start, end;
		uint64_t want; /* UINT64_MAX: none */
	} cases[] = {
		{"all of the segment", 0x403000, 0x407000, 0x2000},
		{"its second page", 0x404000, 0x405000, 0x3000},
		{"more than it", 0x402000, 0x408000, 0x1000},
		{"more than the file begins with", 0x200000, 0x600000, UINT64_MAX},
		{"what is before", 0x400000, 0x403000, UINT64_MAX},
		{"what is behind", 0x407000, 0x408000, UINT64_MAX},
	};
	struct made_elf other = elf;
	uint64_t off;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct proc_line line = {.start = cases[i].start, .end = cases[i].end};

		off = UINT64_MAX;
		if (moved_offset((const uint8_t *)&elf, sizeof(elf), 0x400000, &line, &off) !=
				(cases[i].want != UINT64_MAX) ||
			off != cases[i].want)
			fail_msg("%s: %#llx", cases[i].what, (unsigned long long)off);
		/* Of a program that always lies there. */
		for (size_t s = 1; s < 4; s++)
			other.segments[s].p_vaddr = elf.segments[s].p_vaddr + 0x400000;
		off = UINT64_MAX;
		assert_int_equal(
			moved_offset((const uint8_t *)&other, sizeof(other), 0x400000, &line, &off),
			cases[i].want != UINT64_MAX);
		assert_true(off == cases[i].want);
		/* Cut before the executable segment's header ends. */
		for (size_t n = 0; n < offsetof(struct made_elf, segments[2].p_memsz); n++)
			assert_false(moved_offset((const uint8_t *)&elf, n, 0x400000, &line, &off));
	}
	other.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_false(moved_offset((const uint8_t *)&other, sizeof(other), 0x400000,
		&(struct proc_line) {.start = 0x403000, .end = 0x407000}, &off));
}

/* What an address of the process is: "PATH+OFFSET" or "jit". */
static const char *place_of(struct fixture *f, struct process *p, uint64_t addr, uint64_t time_ns)
{
	static char text[600];
	uint64_t word = proc_resolve(f->t, p, addr, time_ns);
	struct binary_info info;

	if (ABI_FRAME_KIND(word) != ABI_FRAME_NATIVE)
		return ABI_FRAME_KIND(word) == ABI_FRAME_JIT ? "jit" : "?";
	binary_info(f->registry, ABI_NATIVE_BINARY(word), &info);
	snprintf(text, sizeof(text), "%s+%#llx", info.path,
		(unsigned long long)ABI_NATIVE_OFF(word));
	return text;
}

#define HEAD "55000000-55003000 r--p 00000000 08:01 5 /bin/x\n"
#define DATA "55007000-55008000 rw-p 00005000 08:01 5 /bin/x\n"
#define LIBC                                                     \
	"7f000000-7f010000 r--p 00000000 08:01 6 /lib/libc.so\n" \
	"7f010000-7f020000 r-xp 00010000 08:01 6 /lib/libc.so\n"

static void test_lines(void **state)
{
	static const struct {
		const char *what, *maps, *want, *exe;
	} cases[] = {
		{"as the kernel mapped it",
			HEAD "55003000-55007000 r-xp 00002000 08:01 5 /bin/x\n" DATA LIBC,
			"/bin/x+0x2680", "/bin/x"},
		{"all of it anonymous", HEAD "55003000-55007000 r-xp 00000000 00:00 0 \n" DATA LIBC,
			"/bin/x+0x2680", "/bin/x"},
		{"a part of it",
			HEAD "55003000-55004000 rwxp 00000000 00:00 0 \n"
			     "55004000-55007000 r-xp 00003000 08:01 5 /bin/x\n" DATA LIBC,
			"/bin/x+0x2680", "/bin/x"},
		{"a memfd",
			HEAD "55003000-55007000 r-xs 00000000 00:01 77 /memfd:text (deleted)\n" DATA
				LIBC,
			"/bin/x+0x2680", "/bin/x"},
		{"a file of hugetlbfs",
			HEAD "55003000-55007000 r-xp 00000000 00:0e 99 /dev/hugepages/t "
			     "(deleted)\n" DATA LIBC,
			"/bin/x+0x2680", "/bin/x"},
		{"data moved too",
			HEAD "55003000-55007000 r-xp 00000000 00:00 0 \n"
			     "55007000-55008000 rw-p 00000000 00:0e 98 /dev/hugepages/d (deleted)\n"
			     "55008000-55009000 rw-p 00006000 08:01 5 /bin/x\n" LIBC,
			"/bin/x+0x2680", "/bin/x"},
		/* code that the program made, also between two files */
		{"before the file's data alone",
			"55003000-55007000 r-xp 00000000 00:00 0 \n" DATA LIBC, "jit", "/bin/x"},
		{"before another file", HEAD "55003000-55007000 r-xp 00000000 00:00 0 \n" LIBC,
			"jit", "/bin/x"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct abi_record r = record(80, 10, 1, 3000);
		struct process *p;
		struct fixture f;

		setup(&f);
		write_process(&f, 80, 1, "x", 100, "0::/\n");
		f.keeper.refuse = false;
		f.keeper.maps_text = cases[i].maps;
		f.keeper.exe_text = "/bin/x";
		f.keeper.map_file = &elf;
		f.keeper.map_file_bytes = sizeof(elf);
		settle(&f);
		r.start_ns = 0;
		p = process_of(&f, &r);
		if (strcmp(place_of(&f, p, 0x55003680, r.time_ns), cases[i].want) != 0)
			fail_msg("%s: %s", cases[i].what, place_of(&f, p, 0x55003680, r.time_ns));
		assert_string_equal(info_of(&f, p, &r).executable, cases[i].exe);
		teardown(&f);
	}
}

/* Anonymous memory comes over a file's code while the process is known: its mappings are read, and show what belongs there. */
static void test_moved_later(void **state)
{
	struct abi_record r = record(80, 10, 1, 1500);
	struct process *p;
	struct fixture f;

	(void)state;
	setup(&f);
	write_process(&f, 80, 1, "x", 1, "0::/\n");
	f.keeper.refuse = false;
	f.keeper.maps_text = HEAD "55003000-55007000 rwxp 00000000 00:00 0 \n" DATA LIBC;
	f.keeper.map_file = &elf;
	f.keeper.map_file_bytes = sizeof(elf);
	forked(&f, 1, 80, 10);
	execed(&f, 80, "x", 11);
	mapped(&f, 80, 0x55003000, 0x4000, 0x2000, "/bin/x", 12);
	p = process_of(&f, &r);
	assert_string_equal(place_of(&f, p, 0x55003680, r.time_ns), "/bin/x+0x2680");
	mapped(&f, 80, 0x55003000, 0x4000, 0, "//anon", 2000);
	clock_virtual_advance(&f.clock, 5 * NS_PER_S);
	r.time_ns = 3000 * MS;
	assert_ptr_equal(process_of(&f, &r), p);
	assert_string_equal(place_of(&f, p, 0x55003680, r.time_ns), "/bin/x+0x2680");
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_moved_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
