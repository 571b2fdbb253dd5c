/* SPDX-License-Identifier: Apache-2.0
 *
 * Where JIT code lies, as files tell it: pieces that take each other's place, perf maps and dumps
 * that grow, are cut anywhere and are written anew; addresses that wait, get names and retire.
 */
#include "exporter/jit/files.h"
#include "exporter/jit/jit.h"
#include "lib/base/bytes.h"
#include "tests/unit/names_fixture.h"
#include "tests/unit/read_asked.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void tell(struct jit_codes *c, uint64_t start, uint32_t size)
{
	assert_int_equal(
		jit_codes_add(c, &(struct jit_code) {.start = start, .size = size, .where = start}),
		0);
}

/* The pieces as START+SIZE, in order. */
static const char *print(const struct jit_codes *c)
{
	static char text[512];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < c->n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llx+%x", i ? " " : "",
			(unsigned long long)c->items[i].start, c->items[i].size);
	return text;
}

static void test_later_pieces_win(void **state)
{
	struct jit_codes c;

	(void)state;
	jit_codes_init(&c, 100, NULL);
	tell(&c, 0x300, 0x10);
	tell(&c, 0x100, 0x10);
	tell(&c, 0x200, 0x100);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_string_equal(print(&c), "100+10 200+100 300+10");
	/* Across both, in one go and in two. */
	tell(&c, 0x2f0, 0x20);
	tell(&c, 0x100, 0x20);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_string_equal(print(&c), "100+20 2f0+20");
	/* An earlier start that is told later takes the place of what it reaches into. */
	tell(&c, 0x2e0, 0x11);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_string_equal(print(&c), "100+20 2e0+11");
	assert_null(jit_codes_find(&c, 0xff));
	assert_true(jit_codes_find(&c, 0x100)->start == 0x100);
	assert_true(jit_codes_find(&c, 0x11f)->start == 0x100);
	assert_null(jit_codes_find(&c, 0x120));
	assert_true(jit_codes_find(&c, 0x2f0)->start == 0x2e0);
	assert_null(jit_codes_find(&c, UINT64_MAX));
	jit_codes_done(&c);
}

/* What has no size reaches to the next piece, and marks a place where it lies in another one. */
static void test_pieces_without_size(void **state)
{
	struct jit_codes c;

	(void)state;
	jit_codes_init(&c, 100, NULL);
	tell(&c, 0x100, 0);
	tell(&c, 0x200, 0x40);
	tell(&c, 0x220, 0);
	tell(&c, 0x300, 0);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_string_equal(print(&c), "100+0 200+40 300+0");
	assert_true(jit_codes_find(&c, 0x1ff)->start == 0x100);
	assert_true(jit_codes_find(&c, 0x23f)->start == 0x200);
	assert_null(jit_codes_find(&c, 0x240));
	assert_true(jit_codes_find(&c, 0x300 + JIT_UNSIZED_BYTES - 1)->start == 0x300);
	assert_null(jit_codes_find(&c, 0x300 + JIT_UNSIZED_BYTES));
	/* Told again with its size. */
	tell(&c, 0x100, 0x10);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_true(jit_codes_find(&c, 0x10f)->size == 0x10);
	assert_null(jit_codes_find(&c, 0x110));
	jit_codes_done(&c);
}

static void test_oldest_pieces_go(void **state)
{
	struct jit_codes c;

	(void)state;
	jit_codes_init(&c, 3, NULL);
	for (uint64_t i = 0; i < 5; i++)
		tell(&c, 0x1000 - i * 0x100, 0x10);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_string_equal(print(&c), "c00+10 d00+10 e00+10");
	assert_int_equal(c.n_dropped, 2);
	jit_codes_done(&c);
}

static void test_budget(void **state)
{
	struct budget budget;
	struct jit_codes c;

	(void)state;
	budget_init(&budget, NULL, "jit", "--jit.max-bytes", 2 * sizeof(struct jit_code));
	jit_codes_init(&c, 100, &budget);
	tell(&c, 0x100, 0x10);
	assert_int_equal(jit_codes_merge(&c), 0);
	assert_int_equal(budget.used_bytes, sizeof(struct jit_code));
	tell(&c, 0x200, 0x10);
	assert_int_equal(jit_codes_merge(&c), -ENOMEM); /* old and new at once */
	assert_string_equal(print(&c), "100+10");
	jit_codes_done(&c);
	assert_int_equal(budget.used_bytes, 0);
}

/* A file being written. */
struct written {
	int fd;
	struct jit_file file;
	struct jit_codes codes;
};

static void written_init(struct written *w)
{
	*w = (struct written) {.fd = memfd_create("written", 0)};
	jit_codes_init(&w->codes, 1000, NULL);
}

static void written_done(struct written *w)
{
	jit_codes_done(&w->codes);
	close(w->fd);
}

static void append(struct written *w, const void *p, size_t n)
{
	lseek(w->fd, 0, SEEK_END);
	assert_int_equal(write(w->fd, p, n), (ssize_t)n);
}

static int read_map(struct written *w)
{
	int r = jit_map_read(&w->file, w->fd, &w->codes);

	assert_int_equal(jit_codes_merge(&w->codes), 0);
	return r;
}

static const char *map_name(const struct written *w, uint64_t addr)
{
	static struct jit_name name;
	const struct jit_code *code = jit_codes_find(&w->codes, addr);

	return code && jit_map_name(w->fd, code, &name) ? name.name : NULL;
}

static void test_map_lines(void **state)
{
	static const struct map_case {
		const char *line, *name; /* of 0x1000; NULL: refused */
	} cases[] = {
		{"1000 10 LazyCompile:*f /a b.js:1:2", "LazyCompile:*f /a b.js:1:2"},
		{"0x1000 0x10 void Till.ring(long)", "void Till.ring(long)"},
		{"0000000000001000 10 instance void [x] A::B()", "instance void [x] A::B()"},
		{"0X1000 A up\r", "up"},
		{"1000  10  $till:ring/2", "$till:ring/2"},
		{"1000 10", NULL},
		{"1000 10 ", NULL},
		{"1000 0 unsized", "unsized"},
		{"1000\t10\ttab\tin it\t", "tab\tin it"},
		{"0x1000 \t 0x10 \tboth", "both"},
		{"1000,10,x", NULL},
		{"", NULL},
		{"1000", NULL},
		{"g000 10 x", NULL},
		{"-1000 10 x", NULL},
		{"ffffffff81000000 10 kernel", NULL},
		{"1000 100000000 four_gigabytes", NULL},
		{"11111111111111111 10 x", NULL},
		{"1000 11111111111111111 x", NULL},
		{" 1000 10 x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct written w;
		const char *got;

		written_init(&w);
		append(&w, cases[i].line, strlen(cases[i].line));
		append(&w, "\n", 1);
		read_map(&w);
		got = map_name(&w, 0x1008);
		if (!cases[i].name ? got != NULL : !got || strcmp(got, cases[i].name) != 0)
			fail_msg("%s: %s", cases[i].line, got ? got : "(refused)");
		assert_int_equal(w.file.n_bad, !cases[i].name);
		written_done(&w);
	}
}

static void test_map_grows(void **state)
{
	struct written w;

	(void)state;
	written_init(&w);
	assert_int_equal(read_map(&w), 0);
	append(&w, "1000 10 one\n2000 10 tw", 22);
	assert_int_equal(read_map(&w), 1);
	assert_string_equal(map_name(&w, 0x1000), "one");
	assert_null(map_name(&w, 0x2000)); /* in the middle of it */
	assert_int_equal(read_map(&w), 0);
	append(&w, "o\n", 2);
	assert_int_equal(read_map(&w), 1);
	assert_string_equal(map_name(&w, 0x2000), "two");
	/* Other code at the place of the first. */
	append(&w, "1000 20 again\n", 14);
	assert_int_equal(read_map(&w), 1);
	assert_string_equal(map_name(&w, 0x101f), "again");
	written_done(&w);
}

/* Compiler.perfmap writes the same file anew. */
static void test_map_written_anew(void **state)
{
	struct written w;

	(void)state;
	written_init(&w);
	append(&w, "1000 10 one\n2000 10 two\n", 24);
	read_map(&w);
	assert_int_equal(ftruncate(w.fd, 0), 0);
	/* What stands at the old place is another line by now: nobody is given its name. */
	append(&w, "1000 10 one\n3000 10 three\n4000 10 four\n", 38);
	assert_null(map_name(&w, 0x2000));
	assert_int_equal(read_map(&w), 1);
	assert_string_equal(map_name(&w, 0x1000), "one");
	assert_string_equal(map_name(&w, 0x3000), "three");
	assert_null(jit_codes_find(&w.codes, 0x2000));
	written_done(&w);
}

static void test_map_long_line(void **state)
{
	enum { LONG = 3 * JIT_READ_BYTES + 100 };
	_cleanup_free_ char *line = xmalloc(LONG);
	struct written w;

	(void)state;
	written_init(&w);
	memset(line, 'x', LONG);
	memcpy(line, "1000 10 ", 8);
	append(&w, line, LONG);
	append(&w, "\n2000 10 behind\n", 16);
	assert_int_equal(read_map(&w), 1);
	assert_int_equal(strlen(map_name(&w, 0x1000)), JIT_NAME_BYTES - 1);
	assert_string_equal(map_name(&w, 0x2000), "behind");
	written_done(&w);
}

/* ---- dumps ---- */

static void put_header(struct bytes *b, uint32_t magic)
{
	bytes_put_u32(b, magic);
	bytes_put_u32(b, 1);
	bytes_put_u32(b, 40);
	bytes_put_u32(b, 62);
	bytes_put_u64(b, 1);
	bytes_put_u64(b, 0);
	bytes_put_u64(b, 0);
}

static void put_record(struct bytes *b, uint32_t id, size_t n)
{
	bytes_put_u32(b, id);
	bytes_put_u32(b, (uint32_t)(16 + n));
	bytes_put_u64(b, 1);
}

static void put_load(struct bytes *b, uint64_t addr, uint64_t size, const char *name)
{
	put_record(b, 0, 40 + strlen(name) + 1 + size);
	bytes_put_u64(b, 1);
	bytes_put_u64(b, addr);
	bytes_put_u64(b, addr);
	bytes_put_u64(b, size);
	bytes_put_u64(b, 1);
	bytes_put(b, name, strlen(name) + 1);
	for (uint64_t i = 0; i < size; i++)
		bytes_put_u8(b, 0x90);
}

static void put_move(struct bytes *b, uint64_t from, uint64_t to, uint64_t size)
{
	put_record(b, 1, 48);
	bytes_put_u64(b, 1);
	bytes_put_u64(b, to);
	bytes_put_u64(b, from);
	bytes_put_u64(b, to);
	bytes_put_u64(b, size);
	bytes_put_u64(b, 1);
}

static void put_lines(struct bytes *b, uint64_t addr, uint64_t shift)
{
	put_record(b, 2, 16 + (16 + 5) + (16 + 2));
	bytes_put_u64(b, addr);
	bytes_put_u64(b, 2);
	bytes_put_u64(b, addr + shift);
	bytes_put_u32(b, 7);
	bytes_put_u32(b, 0);
	bytes_put(b, "a.jl", 5);
	bytes_put_u64(b, addr + shift + 8);
	bytes_put_u32(b, 9);
	bytes_put_u32(b, 0);
	bytes_put(b, "\xff", 2);
}

static int read_dump(struct written *w)
{
	int r = jit_dump_read(&w->file, w->fd, &w->codes);

	assert_int_equal(jit_codes_merge(&w->codes), 0);
	return r;
}

/* `name file:line` of an address, "" when it has none. */
static const char *dump_name(const struct written *w, uint64_t addr)
{
	static char text[2048];
	const struct jit_code *code = jit_codes_find(&w->codes, addr);
	struct jit_name name;

	if (!code || !jit_dump_name(w->fd, code, addr, &name))
		return "";
	snprintf(text, sizeof(text), "%s %s:%u", name.name, name.file, name.line);
	return text;
}

static void put_sample_dump(struct bytes *b)
{
	bytes_init(b, NULL, 0);
	put_header(b, 0x4a695444);
	put_load(b, 0x1000, 16, "plain");
	put_lines(b, 0x2000, 0);
	put_load(b, 0x2000, 16, "julia");
	put_lines(b, 0x3000, 64);
	put_load(b, 0x3000, 16, "v8");
	put_move(b, 0x1000, 0x5000, 16);
	put_record(b, 3, 0);
}

static void test_dump(void **state)
{
	_cleanup_bytes_ struct bytes b;
	struct written w;

	(void)state;
	put_sample_dump(&b);
	written_init(&w);
	append(&w, b.data, b.len);
	assert_int_equal(read_dump(&w), 1);
	assert_string_equal(dump_name(&w, 0x1008), "plain :0");
	assert_string_equal(dump_name(&w, 0x2000), "julia a.jl:7");
	assert_string_equal(dump_name(&w, 0x2007), "julia a.jl:7");
	assert_string_equal(dump_name(&w, 0x2008), "julia a.jl:9");
	assert_string_equal(dump_name(&w, 0x3000), "v8 a.jl:7");
	assert_string_equal(dump_name(&w, 0x300f), "v8 a.jl:9");
	assert_string_equal(dump_name(&w, 0x500f), "plain :0");
	assert_string_equal(dump_name(&w, 0x4000), "");
	assert_int_equal(w.file.n_bad, 0);
	assert_int_equal(read_dump(&w), 0);
	written_done(&w);
}

/* Written in pieces of any size: in the end it is the same. */
static void test_dump_grows(void **state)
{
	_cleanup_bytes_ struct bytes b;

	(void)state;
	put_sample_dump(&b);
	for (size_t cut = 0; cut < b.len; cut++) {
		struct written w;

		written_init(&w);
		append(&w, b.data, cut);
		assert_true(read_dump(&w) >= 0);
		append(&w, b.data + cut, b.len - cut);
		assert_true(read_dump(&w) >= 0);
		assert_string_equal(dump_name(&w, 0x3000), "v8 a.jl:7");
		assert_string_equal(dump_name(&w, 0x5000), "plain :0");
		written_done(&w);
	}
}

static void test_dump_malformed(void **state)
{
	_cleanup_bytes_ struct bytes b;
	struct written w;

	(void)state;
	bytes_init(&b, NULL, 0);
	put_header(&b, 0x4454694a); /* the other byte order */
	written_init(&w);
	append(&w, b.data, b.len);
	assert_int_equal(read_dump(&w), -EBADMSG);
	assert_int_equal(read_dump(&w), -EBADMSG);
	written_done(&w);
	bytes_reset(&b);
	put_header(&b, 0x4a695444);
	put_load(&b, 0xffffffff81000000, 16, "kernel");
	put_move(&b, 0x1000, 0x2000, 16); /* of nothing */
	put_load(&b, 0x6000, 16, "good");
	bytes_put_u32(&b, 0);
	bytes_put_u32(&b, 8); /* a record shorter than its header */
	bytes_put_u64(&b, 0);
	written_init(&w);
	append(&w, b.data, b.len);
	assert_int_equal(read_dump(&w), -EBADMSG);
	assert_string_equal(dump_name(&w, 0x6000), "good :0");
	assert_int_equal(w.file.n_bad, 3);
	written_done(&w);
}

/* Files that are long and say nothing, or whose pieces move all the time: a call takes a part of them, and the last one comes to the end. */
static void read_in_parts(struct written *w, int (*read)(struct written *w), uint64_t at_most)
{
	uint64_t before = 0;
	int n_calls = 0;

	while (read(w) > 0) {
		assert_true(w->file.read_bytes - before <= at_most);
		before = w->file.read_bytes;
		n_calls++;
	}
	assert_true(n_calls > 2);
}

static void test_long_files(void **state)
{
	static const char nonsense[] =
		"this line tells of no code at all, and there are many of it\n";
	_cleanup_bytes_ struct bytes b;
	struct written w;

	(void)state;
	bytes_init(&b, NULL, 0);
	while (b.len < 3 * JIT_CALL_BYTES)
		bytes_put(&b, nonsense, sizeof(nonsense) - 1);
	bytes_put_str(&b, "1000 10 last\n");
	written_init(&w);
	append(&w, b.data, b.len);
	read_in_parts(&w, read_map, JIT_CALL_BYTES + JIT_READ_BYTES);
	assert_string_equal(map_name(&w, 0x1000), "last");
	written_done(&w);

	bytes_reset(&b);
	put_header(&b, 0x4a695444);
	while (b.len < 3 * JIT_CALL_BYTES)
		put_record(&b, 77, 0);
	put_load(&b, 0x1000, 16, "last");
	written_init(&w);
	append(&w, b.data, b.len);
	read_in_parts(&w, read_dump, JIT_CALL_BYTES);
	assert_string_equal(dump_name(&w, 0x1000), "last :0");
	written_done(&w);

	/* Each move has all pieces that are known copied. */
	bytes_reset(&b);
	put_header(&b, 0x4a695444);
	for (uint64_t i = 0; i < 1000; i++)
		put_load(&b, 0x10000 + i * 16, 16, "x");
	for (uint64_t i = 0; i < 3 * JIT_CALL_BYTES / (1000 * sizeof(struct jit_code)); i++) {
		put_load(&b, 0x1000, 16, "moves");
		put_move(&b, 0x1000, 0x2000, 16);
	}
	written_init(&w);
	append(&w, b.data, b.len);
	read_in_parts(&w, read_dump, b.len);
	assert_string_equal(dump_name(&w, 0x2000), "moves :0");
	written_done(&w);
}

/* ---- addresses of a process: this one, with code at a place of its own ---- */

#define CODE 0x7d5500000000ULL

struct fixture {
	struct fake_keeper keeper;
	struct binary_registry *registry;
	struct proc_table *procs;
	struct process *process;
	struct jit *jit;
	struct clock_virtual clock;
	struct lock lock;
	char *maps, *path;
};

static void setup_fixture(struct fixture *f)
{
	struct abi_record r = {
		.pid = (uint32_t)getpid(), .start_ns = 1, .time_ns = 1000 * NS_PER_S};

	*f = (struct fixture) {
		.maps = xasprintf("%llx-%llx rwxp 00000000 00:00 0 \n", CODE, CODE + 0x10000),
		.path = xasprintf("/tmp/perf-%d.map", getpid())};
	fake_keeper_init(&f->keeper);
	f->keeper.maps_text = f->maps;
	lock_init(&f->lock);
	clock_virtual_init(&f->clock, 1000 * NS_PER_S);
	f->registry = binary_registry_new(&(struct binary_options) {.keeper = &f->keeper.keeper,
						  .fs = &fs_system,
						  .clock = &f->clock.clock,
						  .parser_fd = -1,
						  .cache_path = "",
						  .max_cpu = 1},
		NULL);
	f->procs = proc_table_new(&(struct proc_options) {
		.max_processes = 100, .max_tasks = 100, .binaries = f->registry});
	f->jit = jit_new(&(struct jit_options) {.procs = f->procs,
		.procs_lock = &f->lock,
		.binaries = f->registry,
		.clock = &f->clock.clock});
	f->process = read_process(f->procs,
		&(struct proc_reader_options) {.procfs = "/proc",
			.keeper = &f->keeper.keeper,
			.binaries = f->registry,
			.clock = &f->clock.clock},
		&r);
}

static void teardown_fixture(struct fixture *f)
{
	jit_freep(&f->jit);
	proc_table_freep(&f->procs);
	binary_registry_freep(&f->registry);
	unlink(f->path);
	free(f->maps);
	free(f->path);
}

static uint64_t sampled(struct fixture *f, uint64_t off)
{
	uint64_t word = proc_resolve(f->procs, f->process, CODE + off, 1000 * NS_PER_S);

	assert_int_equal(ABI_FRAME_KIND(word), ABI_FRAME_JIT);
	return ABI_FRAME_VALUE(word);
}

static const char *name_of(struct fixture *f, uint64_t payload)
{
	const char *name = proc_interned_address(f->procs, payload).name;

	return name ? name : "";
}

static void write_map(struct fixture *f, const char *text)
{
	assert_int_equal(fs_write_file(&fs_system, f->path, text, strlen(text), 0644, NULL), 0);
}

static void next_round(struct fixture *f)
{
	clock_virtual_advance(&f->clock, 10 * NS_PER_S);
	jit_round(f->jit);
}

static void test_addresses(void **state)
{
	struct jit_stats stats;
	struct fixture f;
	uint64_t a, b, c;

	(void)state;
	setup_fixture(&f);
	a = sampled(&f, 0x8);
	next_round(&f); /* no file yet */
	assert_string_equal(name_of(&f, a), "");
	write_map(&f, "7d5500000000 20 first\n");
	next_round(&f);
	assert_string_equal(name_of(&f, a), "first");
	assert_int_equal(sampled(&f, 0x8), a);
	/* Other code lies there by now: old samples keep their name, new ones get another. */
	write_map(&f, "7d5500000000 20 first\n7d5500000100 20 other\n7d5500000000 40 second\n");
	b = sampled(&f, 0x108);
	next_round(&f);
	assert_string_equal(name_of(&f, b), "other");
	c = sampled(&f, 0x8);
	assert_true(c != a);
	next_round(&f);
	assert_string_equal(name_of(&f, c), "second");
	assert_string_equal(name_of(&f, a), "first");
	jit_stats(f.jit, &stats);
	assert_int_equal(stats.retired, 1);
	assert_int_equal(stats.named, 3);
	/* Nobody needs them: their ids are free again. */
	proc_addresses_retain(f.procs, (uint64_t[]) {0});
	assert_true(sampled(&f, 0x8) <= c);
	teardown_fixture(&f);
}

/* Code that never gets a name does not keep other code from getting one when it is asked for. */
static void test_new_code_beside_code_without_a_name(void **state)
{
	struct fixture f;
	uint64_t a, b;

	(void)state;
	setup_fixture(&f);
	write_map(&f, "7d5500000000 20 first\n");
	a = sampled(&f, 0x208);
	for (int i = 0; i < 8; i++)
		next_round(&f);
	write_map(&f, "7d5500000000 20 first\n7d5500000100 20 second\n");
	b = sampled(&f, 0x108);
	clock_virtual_advance(&f.clock, NS_PER_S);
	jit_round(f.jit);
	assert_string_equal(name_of(&f, b), "second");
	assert_string_equal(name_of(&f, a), "");
	teardown_fixture(&f);
}

/* Each look at the time reads the statistics, as /metrics may at any moment of a round. */
struct asking_clock {
	struct clock clock;
	struct jit *jit;
	int n_asked;
};

static int64_t ask_monotonic_ns(struct clock *c)
{
	struct asking_clock *a = (struct asking_clock *)c;
	struct jit_stats stats;

	if (a->jit) {
		jit_stats(a->jit, &stats);
		assert_int_equal(stats.map_reads, 0);
		a->n_asked++;
	}
	return 1000 * NS_PER_S;
}

static void test_statistics_do_not_wait_for_a_round(void **state)
{
	struct asking_clock asking = {.clock = {.monotonic_ns = ask_monotonic_ns}};
	struct jit_stats stats;
	struct fixture f;

	(void)state;
	setup_fixture(&f);
	jit_freep(&f.jit);
	f.jit = jit_new(&(struct jit_options) {.procs = f.procs,
		.procs_lock = &f.lock,
		.binaries = f.registry,
		.clock = &asking.clock});
	write_map(&f, "7d5500000000 20 first\n");
	sampled(&f, 0x8);
	asking.jit = f.jit;
	jit_round(f.jit);
	assert_true(asking.n_asked > 0);
	jit_stats(f.jit, &stats);
	assert_int_equal(stats.map_reads, 1);
	assert_int_equal(stats.named, 1);
	assert_int_equal(stats.processes, 1);
	assert_int_equal(stats.codes, 1);
	teardown_fixture(&f);
}

static void test_owner(void **state)
{
	struct jit_stats stats;
	struct fixture f;
	uint64_t a;

	(void)state;
	setup_fixture(&f);
	a = sampled(&f, 0x8);
	write_map(&f, "7d5500000000 20 strange\n");
	if (geteuid() == 0) {
		assert_int_equal(chown(f.path, 65534, 65534), 0);
		next_round(&f);
		assert_string_equal(name_of(&f, a), "");
		jit_stats(f.jit, &stats);
		assert_int_equal(stats.refused[JIT_REFUSED_OWNER], 1);
	}
	teardown_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_later_pieces_win),
		cmocka_unit_test(test_pieces_without_size),
		cmocka_unit_test(test_oldest_pieces_go),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_map_lines),
		cmocka_unit_test(test_map_grows),
		cmocka_unit_test(test_map_written_anew),
		cmocka_unit_test(test_map_long_line),
		cmocka_unit_test(test_dump),
		cmocka_unit_test(test_dump_grows),
		cmocka_unit_test(test_dump_malformed),
		cmocka_unit_test(test_long_files),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_new_code_beside_code_without_a_name),
		cmocka_unit_test(test_statistics_do_not_wait_for_a_round),
		cmocka_unit_test(test_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
