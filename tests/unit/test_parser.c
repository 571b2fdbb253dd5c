/* SPDX-License-Identifier: Apache-2.0
 *
 * ELF files made by the compiler → function tables, checked against what nm says; the zygote
 * with children that are refused, hang and crash.
 */
#include "exporter/symfile/symbol_file.h"
#include "exporter/symfile/symbol_unwind.h"
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/clock.h"
#include "tests/unit/names_fixture.h"
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

/* This very file, compiled. */
static struct symbol_file compile_path(const char *path)
{
	_cleanup_close_ int in = open(path, O_RDONLY), out = memfd_create("out", 0);
	struct symbol_file s = {0};
	struct errbuf eb = {{0}};

	assert_true(in >= 0);
	if (parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out, &eb) < 0 ||
		symbol_file_map(out, &s, &eb) < 0)
		fail_msg("%s: %s", path, eb.text);
	return s;
}

static uint64_t own_base(void)
{
	char line[512];
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "r");

	/* A sanitizer's shadow may lie below. */
	do
		assert_non_null(fgets(line, sizeof(line), f));
	while (!strstr(line, "test_parser"));
	return strtoull(line, NULL, 16);
}

static void test_own_file(void **state)
{
	struct symbol_file s = compile_path("/proc/self/exe");
	uint64_t base = own_base();
	struct symbol_function f;
	uint64_t end = 0;

	(void)state;
	assert_true(s.flags & SYMBOL_HAS_SYMTAB);
	assert_int_equal(s.n_left_out, 0);
	assert_true(symbol_file_find(&s, (uint64_t)(uintptr_t)test_own_file - base, &f));
	assert_string_equal(f.name, "test_own_file");
	assert_true(f.start == (uint64_t)(uintptr_t)test_own_file - base);
	assert_true(symbol_file_find(&s, (uint64_t)(uintptr_t)parser_compile - base + 4, &f));
	assert_string_equal(f.name, "parser_compile");
	/* Every row is found under its own first and last byte. */
	for (uint32_t i = 0; i < s.n_functions; i++) {
		uint32_t start;

		memcpy(&start, s.starts.data + i * 4, 4);
		assert_true(symbol_file_find(&s, s.text_base + start, &f));
		assert_true(f.start == s.text_base + start && f.start >= end && f.name[0]);
		end = f.start + f.size;
		assert_true(symbol_file_find(&s, end - 1, &f) && f.start == s.text_base + start);
	}
	symbol_file_unmap(&s);
}

static uint32_t u32_of(const struct symbol_range *r, size_t i)
{
	uint32_t v;

	memcpy(&v, r->data + i * 4, 4);
	return v;
}

static bool find_libc(char *ret, size_t cap)
{
	char line[512];
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		const char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (path && strstr(path, "/libc.so.6")) {
			snprintf(ret, cap, "%s", path);
			return true;
		}
	}
	return false;
}

/* Of a library that names only what it exports: the rest is known by where it starts, as call frame information has it. */
static void test_functions_without_names(void **state)
{
	char path[512];
	struct symbol_file s;
	uint64_t base, start, vaddr;
	struct symbol_function f;
	size_t n;

	(void)state;
	if (!find_libc(path, sizeof(path)))
		skip();
	s = compile_path(path);
	n = s.unnamed.bytes / SYMBOL_UNNAMED_BYTES;
	base = (uint64_t)u32_of(&s.unwind_info, SYMBOL_UNWIND_FIRST_PAGE) << UNWIND_PAGE_SHIFT;
	assert_true(n > 100);
	for (size_t i = 0; i < n; i++) {
		uint64_t begin = base + u32_of(&s.unnamed, 2 * i);
		uint64_t end = begin + u32_of(&s.unnamed, 2 * i + 1);

		assert_true(symbol_file_unnamed(&s, begin, &start) && start == begin);
		assert_true(symbol_file_unnamed(&s, end - 1, &start) && start == begin);
		for (uint64_t at = begin; at < end; at += MAX((end - begin) / 8, (uint64_t)1))
			assert_true(symbol_file_vaddr(&s, at, &vaddr) &&
				    !symbol_file_find(&s, vaddr, &f));
	}
	assert_false(symbol_file_unnamed(&s, 0, &start));
	assert_false(symbol_file_unnamed(&s, UINT64_MAX, &start));
	symbol_file_unmap(&s);
	/* With a symbol table few are left: code of hand-written assembly, parts that the compiler split off are named too. */
	s = compile_path("/proc/self/exe");
	assert_true(s.unnamed.bytes / SYMBOL_UNNAMED_BYTES * 20 < s.n_functions);
	symbol_file_unmap(&s);
}

/* A table of symbols by hand → rows. */
static void rows_of(const struct elf_symbol *symbols, size_t n, char *ret, size_t cap)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY);
	_cleanup_elf_file_ struct elf_file f = {.fd = -1};
	_cleanup_elf_symbols_ struct elf_symbols table = {0};
	_cleanup_elf_rows_ struct elf_rows rows = {0};
	size_t len = 0;

	assert_int_equal(elf_file_open(fd, &f, NULL), 0);
	/* One executable segment from 0 to 0x10000. */
	f.n_loads = 1;
	f.loads[0] = (struct elf_segment) {.memory_bytes = 0x10000, .flags = PF_X};
	elf_end(TAKE(f.elf));
	f.elf = elf_memory((char[1]) {0}, 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(elf_symbols_add(&table, &symbols[i]), 0);
	assert_int_equal(elf_make_rows(&f, &table, &rows), 0);
	ret[0] = '\0';
	for (size_t i = 0; i < rows.n; i++)
		len += (size_t)snprintf(ret + len, cap - len, "%s%s:%llx+%x", i ? " " : "",
			table.items[rows.items[i].symbol].name,
			(unsigned long long)(rows.text_base + rows.items[i].start),
			rows.items[i].size);
}

#define SYM(at, bytes, text, of_rank, of_bind)                                            \
	{                                                                                 \
		.addr = at, .size = bytes, .name = text, .rank = of_rank, .bind = of_bind \
	}

#define OLD(at, bytes, text, of_rank, of_bind)                                             \
	{                                                                                  \
		.addr = at, .size = bytes, .name = text, .rank = of_rank, .bind = of_bind, \
		.is_old = true                                                             \
	}

static void test_rows(void **state)
{
	enum { F = ELF_RANK_FUNC, U = ELF_RANK_FUNC_UNSIZED, N = ELF_RANK_NOTYPE_UNSIZED };
	static const struct rows_case {
		const char *want;
		struct elf_symbol s[6];
	} cases[] = {
		{"", {SYM(0, 0, NULL, 0, 0)}},
		{"a:100+10 b:200+20", {SYM(0x200, 0x20, "b", F, 0), SYM(0x100, 0x10, "a", F, 0)}},
		/* typed and sized before marks, global before weak before local, fewer
		 * underscores */
		{"f:100+10", {SYM(0x100, 0, "mark", N, 0), SYM(0x100, 0x10, "f", F, 2)}},
		{"g:100+10", {SYM(0x100, 0x10, "a_weak", F, 1), SYM(0x100, 0x10, "__g", F, 0),
				     SYM(0x100, 0x10, "g", F, 0)}},
		{"calloc:100+10", {SYM(0x100, 0x10, "__libc_calloc", F, 0),
					  SYM(0x100, 0x10, "calloc", F, 1)}},
		{"free:100+10", {OLD(0x100, 0x10, "cfree", F, 0), SYM(0x100, 0x10, "free", F, 0),
					SYM(0x100, 0x10, "__libc_free", F, 0)}},
		{"__new:100+10", {OLD(0x100, 0x10, "old", F, 0), SYM(0x100, 0x10, "__new", F, 1)}},
		{"strtol:100+10",
			{SYM(0x100, 0x10, "strtoimax", F, 1), SYM(0x100, 0x10, "strtoll", F, 1),
				SYM(0x100, 0x10, "strtoq", F, 1), SYM(0x100, 0x10, "strtol", F, 1),
				SYM(0x100, 0x10, "x", F, 2)}},
		{"__vdso_time:100+10",
			{SYM(0x100, 0x10, "time", F, 1), SYM(0x100, 0x10, "__vdso_time", F, 0)}},
		{"_ZN1a1bEv:100+10",
			{SYM(0x100, 0x10, "_ZN1a1bEv", F, 0), SYM(0x100, 0x10, "weak_c", F, 1)}},
		/* a mark inside a function */
		{"f:100+40", {SYM(0x100, 0x40, "f", F, 0), SYM(0x110, 0, "label", N, 2)}},
		/* without size: up to the next, the last up to the segment's end */
		{"a:100+100 b:200+10 c:300+fd00",
			{SYM(0x100, 0, "a", U, 0), SYM(0x200, 0x10, "b", F, 0),
				SYM(0x300, 0, "c", U, 0)}},
		/* nested: the outer one goes on behind */
		{"out:100+10 in:110+10 out:120+20",
			{SYM(0x100, 0x40, "out", F, 0), SYM(0x110, 0x10, "in", F, 0)}},
		/* overlapping: the later start wins its range */
		{"a:100+10 b:110+40", {SYM(0x100, 0x20, "a", F, 0), SYM(0x110, 0x40, "b", F, 0)}},
		{"a:100+10 b:110+10 c:120+30 a:150+b0",
			{SYM(0x100, 0x100, "a", F, 0), SYM(0x110, 0x20, "b", F, 0),
				SYM(0x120, 0x30, "c", F, 0)}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char got[512];
		size_t n = 0;

		while (n < 6 && cases[i].s[n].name)
			n++;
		rows_of(cases[i].s, n, got, sizeof(got));
		assert_string_equal(got, cases[i].want);
	}
}

static void test_rows_far_apart(void **state)
{
	const struct elf_symbol s[] = {SYM(0x100, 0x10, "near", 0, 0),
		SYM(0x500000100, 0x10, "far", 0, 0), SYM(0x200, UINT64_MAX, "endless", 0, 0)};
	char got[256];

	(void)state;
	rows_of(s, ARRAY_SIZE(s), got, sizeof(got));
	assert_string_equal(got, "near:100+10 endless:200+fffffeff");
}

/* PLT entries are named by what they jump to: the C library calls of this program have some. */
static void test_plt(void **state)
{
	static const char *const libs[] = {"/bin/bash", "/bin/ls"};
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
		struct symbol_file s = compile_path(libs[i]);

		for (const char *p = (const char *)s.strings.data, *end = p + s.strings.bytes;
			p < end; p += strlen(p) + 1)
			n += strcmp(p, "malloc@plt") == 0 || strcmp(p, "strlen@plt") == 0 ||
			     strcmp(p, "free@plt") == 0;
		symbol_file_unmap(&s);
	}
	assert_true(n > 0);
}

/* Of glibc's names at one address, those that programs call. */
static void test_aliases(void **state)
{
	static const char *const names[] = {"free", "malloc", "calloc", "strtol", "gmtime_r"};
	void *libc = dlopen(LIBC_SO, RTLD_NOW);
	struct symbol_file s;
	Dl_info info;

	(void)state;
	assert_non_null(libc);
	assert_int_not_equal(dladdr(dlsym(libc, "free"), &info), 0);
	s = compile_path(info.dli_fname);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t at = (uint64_t)(uintptr_t)dlsym(libc, names[i]);
		struct symbol_function found;

		assert_true(symbol_file_find(&s, at - (uint64_t)(uintptr_t)info.dli_fbase, &found));
		assert_string_equal(found.name, names[i]);
	}
	symbol_file_unmap(&s);
	dlclose(libc);
}

static void test_content_id(void **state)
{
	_cleanup_close_ int self = open("/proc/self/exe", O_RDONLY), ls = open("/bin/ls", O_RDONLY),
			    copy = memfd_create("copy", 0);
	struct parser_description a, b, c;
	struct stat st;

	(void)state;
	fstat(self, &st);
	assert_int_equal(ftruncate(copy, st.st_size), 0);
	void *from = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, self, 0);

	assert_int_equal(pwrite(copy, from, (size_t)st.st_size, 0), st.st_size);
	munmap(from, (size_t)st.st_size);
	assert_int_equal(parser_identify(self, &a, NULL), 0);
	assert_int_equal(parser_identify(copy, &b, NULL), 0);
	assert_int_equal(parser_identify(ls, &c, NULL), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(memcmp(a.identity.content_id, c.identity.content_id,
			    sizeof(a.identity.content_id)) != 0);
	assert_int_equal(a.identity.build_id_len, 20);
}

static void test_refused_in_process(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {{"", 0}, {"\x7f", 1},
		{"\x7f"
		 "ELF",
			4},
		{"#!/bin/sh\n", 10},
		{"\x7f"
		 "ELF\2\2\1\0\0\0\0\0\0\0\0\0\2\0\0\x3e\0\0\0\1",
			24}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_close_ int in = memfd_create("bad", 0), out = memfd_create("out", 0);
		struct errbuf eb = {{0}};

		assert_int_equal(write(in, bad[i].bytes, bad[i].n), (ssize_t)bad[i].n);
		assert_true(parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out,
				    &eb) < 0);
		assert_true(eb.text[0]);
	}
}

static int names_fd(const char *names, size_t n)
{
	int fd = memfd_create("names", 0);

	assert_int_equal(write(fd, names, n), (ssize_t)n);
	return fd;
}

static void test_zygote(void **state)
{
	struct fake_parser p = fake_parser_start();
	_cleanup_close_ int self = open("/bin/bash", O_RDONLY),
			    names = names_fd("_Z1fv\0main\0", 11),
			    text = open("/etc/passwd", O_RDONLY);
	struct parser_reply reply;
	struct symbol_file s, rows;
	uint8_t raw[64];
	int fd;

	(void)state;
	fd = parser_ask(p.fd, PARSER_ROWS, self, 10000, &reply);
	assert_int_equal(reply.status, PARSER_OK);
	assert_int_equal(symbol_file_map(fd, &rows, NULL), 0);
	close(fd);
	fd = parser_ask(p.fd, PARSER_COMPILE, self, 10000, &reply);
	assert_int_equal(reply.status, PARSER_OK);
	assert_true(reply.cpu_ns > 0 && reply.peak_rss > 0);
	/* Nobody can change it any more. */
	assert_int_equal(
		fcntl(fd, F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	assert_true(pwrite(fd, "x", 1, 0) < 0);
	assert_int_equal(symbol_file_map(fd, &s, NULL), 0);
	/* The rows alone are those of the whole. */
	assert_memory_equal(&rows.identity, &s.identity, sizeof(s.identity));
	assert_true(rows.n_functions == 0 && s.n_functions > 0 && s.unwind_words.bytes > 0);
	assert_int_equal(rows.unwind_words.bytes, s.unwind_words.bytes);
	assert_memory_equal(rows.unwind_words.data, s.unwind_words.data, s.unwind_words.bytes);
	assert_int_equal(rows.unwind_rules.bytes, s.unwind_rules.bytes);
	assert_memory_equal(rows.unwind_rules.data, s.unwind_rules.data, s.unwind_rules.bytes);
	symbol_file_unmap(&rows);
	symbol_file_unmap(&s);
	close(fd);

	fd = parser_ask(p.fd, PARSER_DEMANGLE, names, 1000, &reply);
	assert_int_equal(reply.status, PARSER_OK);
	assert_int_equal(pread(fd, raw, sizeof(raw), 0), 4 + 3 + 4);
	assert_memory_equal(raw, "\3\0\0\0f()\0\0\0\0", 11);
	close(fd);

	fd = parser_ask(p.fd, PARSER_COMPILE, text, 1000, &reply);
	assert_int_equal(reply.status, PARSER_REFUSED);
	assert_non_null(strstr(reply.text, "not an ELF file"));
	close(fd);
	/* Malformed requests are dropped without an answer. */
	fd = parser_ask(p.fd, PARSER_COMPILE, self, 0, &reply);
	assert_int_equal(fd, -1);
	assert_int_equal(reply.status, PARSER_FAILED);
	kill(p.pid, SIGKILL);
	waitpid(p.pid, NULL, 0);
	fd = parser_ask(p.fd, PARSER_COMPILE, self, 1000, &reply);
	assert_int_equal(fd, -1);
	assert_int_equal(reply.status, PARSER_FAILED);
	close(p.fd);
}

/* So many names that a child works on them for seconds. */
static int many_names(void)
{
	enum { N = 400000 };
	static const char name[] = "_ZNSt6vectorISt4pairIKSsSt3mapISsSsSt4lessISsESaIS0_IS1_"
				   "SsEEEESaIS8_EE9push_backEOS8_";
	char *all = xmalloc(N * sizeof(name));
	int fd;

	for (size_t i = 0; i < N; i++)
		memcpy(all + i * sizeof(name), name, sizeof(name));
	fd = names_fd(all, N * sizeof(name));
	free(all);
	return fd;
}

static void test_hanging_child(void **state)
{
	struct fake_parser p = fake_parser_start();
	_cleanup_close_ int names = many_names(), self = open("/bin/bash", O_RDONLY);
	struct parser_reply reply;
	struct stat st;
	int fd;

	(void)state;
	fd = parser_ask(p.fd, PARSER_DEMANGLE, names, 100, &reply);
	assert_int_equal(reply.status, PARSER_TIMEOUT);
	/* What it had done by then is there. */
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size > 0);
	close(fd);
	fd = parser_ask(p.fd, PARSER_IDENTIFY, self, 1000, &reply);
	assert_int_equal(reply.status, PARSER_OK);
	close(fd);
	assert_int_equal(fake_parser_stop(&p), 0);
}

/* True once a child reads its names, behind all its preparations. */
static bool reads_names(int child)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/maps", child);
	_cleanup_fclose_ FILE *f = fopen(path, "r");
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:names"))
			return true;
	return false;
}

/* The zygote's children, once there are n and all read names. The first one's pid. */
static pid_t await_children(pid_t zygote, int n, int ret[PARSER_MAX_CHILDREN])
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/task/%d/children", zygote, zygote);

	for (int i = 0, found = 0; found < n; i++) {
		_cleanup_fclose_ FILE *f = fopen(path, "r");

		assert_true(f && i < 60000);
		for (found = 0; found < n && fscanf(f, "%d", &ret[found]) == 1;)
			found += reads_names(ret[found]) ? 1 : n + 1;
		found = found > n ? 0 : found;
		usleep(1000);
	}
	return ret[0];
}

static pid_t stop_children(pid_t zygote, int n)
{
	int children[PARSER_MAX_CHILDREN];
	pid_t first = await_children(zygote, n, children);

	for (int i = 0; i < n; i++)
		assert_int_equal(kill(children[i], SIGSTOP), 0);
	return first;
}

struct stuck {
	int parser_fd, names;
	struct parser_reply reply;
};

static void *ask_stuck(void *arg)
{
	struct stuck *s = arg;
	int fd = parser_ask(s->parser_fd, PARSER_DEMANGLE, s->names, 30000, &s->reply);

	if (fd >= 0)
		close(fd);
	return NULL;
}

/* A child that does nothing any more holds up the end for two seconds, not for its 30; what has not begun not at all. */
static void test_end_with_stuck_children(void **state)
{
	enum { ASKERS = PARSER_MAX_CHILDREN + 1 };
	struct fake_parser p = fake_parser_start();
	_cleanup_close_ int names = many_names();
	struct stuck stuck[ASKERS];
	pthread_t threads[ASKERS];
	unsigned n_failed = 0;
	int64_t begun_ns;

	(void)state;
	for (int i = 0; i < ASKERS; i++)
		stuck[i] = (struct stuck) {.parser_fd = p.fd, .names = names};
	for (int i = 0; i < ASKERS; i++)
		pthread_create(&threads[i], NULL, ask_stuck, &stuck[i]);
	stop_children(p.pid, PARSER_MAX_CHILDREN);
	begun_ns = clock_monotonic_ns(&clock_system);
	parser_stop(p.fd);
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(threads[i], NULL);
		n_failed += stuck[i].reply.status == PARSER_FAILED;
		assert_true(stuck[i].reply.status == PARSER_FAILED ||
			    stuck[i].reply.status == PARSER_TIMEOUT);
	}
	assert_int_equal(n_failed, 1);
	assert_int_equal(fake_parser_stop(&p), 0);
	assert_true(clock_monotonic_ns(&clock_system) - begun_ns <
		    (PARSER_CLOSING_MS + 5000) * NS_PER_MS);
}

/* The zygote is killed: a child that is stopped goes too. */
static void test_children_end_with_the_zygote(void **state)
{
	struct fake_parser p = fake_parser_start();
	_cleanup_close_ int names = many_names();
	struct stuck stuck = {.parser_fd = p.fd, .names = names};
	pthread_t thread;
	pid_t child;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pthread_create(&thread, NULL, ask_stuck, &stuck);
	child = stop_children(p.pid, 1);
	kill(p.pid, SIGKILL);
	assert_int_equal(waitpid(p.pid, NULL, 0), p.pid);
	assert_int_equal(waitpid(child, NULL, 0), child);
	pthread_join(thread, NULL);
	assert_int_equal(stuck.reply.status, PARSER_FAILED);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	close(p.fd);
}

struct cutter {
	pid_t zygote;
	int fd;
};

static void *cut_while_read(void *arg)
{
	const struct cutter *c = arg;
	int children[PARSER_MAX_CHILDREN];

	await_children(c->zygote, 1, children);
	if (ftruncate(c->fd, 0) < 0)
		abort();
	return NULL;
}

/* The input is cut while the child reads its mapping: SIGBUS. */
static void test_crashing_child(void **state)
{
	struct fake_parser p = fake_parser_start();
	_cleanup_close_ int names = many_names(), self = open("/bin/bash", O_RDONLY);
	struct cutter cutter = {p.pid, names};
	struct parser_reply reply;
	pthread_t thread;
	int fd;

	(void)state;
	pthread_create(&thread, NULL, cut_while_read, &cutter);
	fd = parser_ask(p.fd, PARSER_DEMANGLE, names, 30000, &reply);
	pthread_join(thread, NULL);
	assert_int_equal(reply.status, PARSER_CRASHED);
	close(fd);
	fd = parser_ask(p.fd, PARSER_IDENTIFY, self, 1000, &reply);
	assert_int_equal(reply.status, PARSER_OK);
	close(fd);
	assert_int_equal(fake_parser_stop(&p), 0);
}

struct asker {
	int parser_fd, file;
	unsigned n_ok;
};

static void *ask_often(void *arg)
{
	struct asker *a = arg;

	for (int i = 0; i < 20; i++) {
		struct parser_reply reply;
		int fd = parser_ask(a->parser_fd, i % 2 ? PARSER_COMPILE : PARSER_IDENTIFY, a->file,
			10000, &reply);

		a->n_ok += reply.status == PARSER_OK;
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void test_many_askers(void **state)
{
	enum { ASKERS = 8 };
	struct fake_parser p = fake_parser_start();
	_cleanup_close_ int self = open("/bin/ls", O_RDONLY);
	struct asker askers[ASKERS];
	pthread_t threads[ASKERS];

	(void)state;
	for (int i = 0; i < ASKERS; i++) {
		askers[i] = (struct asker) {.parser_fd = p.fd, .file = self};
		pthread_create(&threads[i], NULL, ask_often, &askers[i]);
	}
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(askers[i].n_ok, 20);
	}
	assert_int_equal(fake_parser_stop(&p), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_file),
		cmocka_unit_test(test_functions_without_names),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_rows_far_apart),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_content_id),
		cmocka_unit_test(test_refused_in_process),
		cmocka_unit_test(test_zygote),
		cmocka_unit_test(test_hanging_child),
		cmocka_unit_test(test_end_with_stuck_children),
		cmocka_unit_test(test_children_end_with_the_zygote),
		cmocka_unit_test(test_crashing_child),
		cmocka_unit_test(test_many_askers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
