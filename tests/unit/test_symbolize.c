/* SPDX-License-Identifier: Apache-2.0
 *
 * From an address in this very process to its name: process table, registry, parser and
 * symbolizer together, with a keeper that opens /proc itself. The cache on disk, copies of one
 * content, files that are gone.
 */
#include "exporter/proc/proc.h"
#include "exporter/symbolize/symbolize.h"
#include "lib/base/clock.h"
#include "tests/unit/names_fixture.h"
#include "tests/unit/read_asked.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <cmocka.h>

struct fixture {
	struct fake_keeper keeper;
	struct fake_parser parser;
	struct binary_registry *registry;
	struct proc_table *procs;
	struct proc_reader_options reads;
	struct symbolizer *symbolizer;
	struct worker worker;
	struct fs *fs; /* of the registry after `restart` */
	char *cache;
};

__attribute__((noinline)) int _ZN5sonde6marked4evenEi(int x);
__attribute__((noinline)) int _ZN5sonde6marked4evenEi(int x)
{
	return x % 2 == 0 ? getpid() : 1;
}

static void setup(struct fixture *f, bool with_cache)
{
	struct binary_options bo;

	*f = (struct fixture) {.parser = fake_parser_start(),
		.fs = &fs_system,
		.cache = with_cache ? temp_dir() : NULL};
	fake_keeper_init(&f->keeper);
	bo = (struct binary_options) {
		.keeper = &f->keeper.keeper,
		.fs = &fs_system,
		.clock = &clock_system,
		.parser_fd = f->parser.fd,
		.cache_path = f->cache ? f->cache : "",
		.cache_bytes = 64 << 20,
		.max_cpu = 1,
	};
	f->registry = binary_registry_new(&bo, NULL);
	f->procs = proc_table_new(&(struct proc_options) {
		.max_processes = 4096,
		.max_tasks = 4096,
		.binaries = f->registry,
	});
	f->reads = (struct proc_reader_options) {.procfs = "/proc",
		.keeper = &f->keeper.keeper,
		.binaries = f->registry,
		.clock = &clock_system};
	f->symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = f->registry,
					       .keeper = &f->keeper.keeper,
					       .clock = &clock_system,
					       .parser_fd = f->parser.fd},
		NULL);
	worker_start(&f->worker, f->registry);
}

/* The registry again, as after a restart with the same cache. */
static void restart(struct fixture *f, uint64_t cache_bytes)
{
	worker_stop(&f->worker);
	proc_table_freep(&f->procs);
	symbolizer_freep(&f->symbolizer);
	binary_registry_freep(&f->registry);
	f->registry = binary_registry_new(&(struct binary_options) {.keeper = &f->keeper.keeper,
						  .fs = f->fs,
						  .clock = &clock_system,
						  .parser_fd = f->parser.fd,
						  .cache_path = f->cache,
						  .cache_bytes = cache_bytes,
						  .max_cpu = 1},
		NULL);
	worker_start(&f->worker, f->registry);
}

static void teardown(struct fixture *f)
{
	worker_stop(&f->worker);
	proc_table_freep(&f->procs);
	symbolizer_freep(&f->symbolizer);
	binary_registry_freep(&f->registry);
	assert_int_equal(fake_parser_stop(&f->parser), 0);
	temp_dir_done(&f->cache);
}

static int64_t soon(void)
{
	return clock_monotonic_ns(&clock_system) + 20 * NS_PER_S;
}

static struct abi_record record_of(pid_t pid)
{
	struct abi_record r = {
		.type = ABI_RECORD_SAMPLE,
		.time_ns = (uint64_t)clock_monotonic_ns(&clock_system),
		.start_ns = 1,
		.pid = (uint32_t)pid,
		.tid = (uint32_t)pid,
		.exec_id = 1,
	};

	snprintf(r.comm, sizeof(r.comm), "thread");
	snprintf(r.leader_comm, sizeof(r.leader_comm), "leader");
	return r;
}

static struct symbol symbol_of(
	struct fixture *f, uint64_t frame, struct arena *arena, struct symbol_mapping *ret_mapping)
{
	struct symbol_frame sf = {.frame = frame, .jit_comm = "leader", .jit_addr = 0x1234};
	struct symbol_mapping *mappings;
	struct symbol s;
	uint32_t n;

	assert_int_equal(symbolize(f->symbolizer, &sf, 1, SYMBOLIZE_FUNCTIONS, soon(), arena, &s,
				 &mappings, &n),
		0);
	assert_int_equal(s.n_lines, 1);
	*ret_mapping = s.mapping < n ? mappings[s.mapping] : (struct symbol_mapping) {0};
	return s;
}

static void test_own_functions(void **state)
{
	_cleanup_arena_ struct arena arena;
	struct abi_record r = record_of(getpid());
	struct symbol_mapping mapping;
	struct symbolizer_stats stats;
	struct fixture f;
	struct process *p;
	struct symbol s;
	uint64_t frame;

	(void)state;
	setup(&f, false);
	arena_init(&arena, NULL);
	p = read_process(f.procs, &f.reads, &r);
	frame = proc_resolve(f.procs, p, (uint64_t)(uintptr_t)test_own_functions + 3, r.time_ns);
	assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_NATIVE);
	s = symbol_of(&f, frame, &arena, &mapping);
	assert_string_equal(s.lines[0].function, "test_own_functions");
	assert_true(s.named);
	assert_non_null(strstr(mapping.filename, "test_symbolize"));
	assert_int_equal(strlen(mapping.build_id), 40);
	assert_true(s.address >= mapping.start && s.address < mapping.limit);

	/* Demangled, with the raw name kept. */
	frame = proc_resolve(f.procs, p, (uint64_t)(uintptr_t)_ZN5sonde6marked4evenEi, r.time_ns);
	s = symbol_of(&f, frame, &arena, &mapping);
	assert_string_equal(s.lines[0].function, "sonde::marked::even(int)");
	assert_string_equal(s.lines[0].system_name, "_ZN5sonde6marked4evenEi");

	/* A shared library. */
	frame = proc_resolve(f.procs, p, (uint64_t)(uintptr_t)getauxval + 1, r.time_ns);
	s = symbol_of(&f, frame, &arena, &mapping);
	assert_non_null(strstr(s.lines[0].function, "getauxval"));
	assert_non_null(strstr(mapping.filename, "/libc"));

	/* The vdso: whatever its first function is, it has a name. */
	frame = proc_resolve(f.procs, p, getauxval(AT_SYSINFO_EHDR) + 0x10, r.time_ns);
	s = symbol_of(&f, frame, &arena, &mapping);
	assert_string_equal(mapping.filename, "[vdso]");
	assert_string_equal(s.lines[0].function, "[vdso]+0x10");

	symbolizer_stats(f.symbolizer, &stats);
	assert_int_equal(stats.frames_named, 3);
	assert_int_equal(stats.frames_unnamed, 1);
	assert_int_equal(stats.demangled, 1);
	/* Again: remembered. */
	frame = proc_resolve(f.procs, p, (uint64_t)(uintptr_t)_ZN5sonde6marked4evenEi, r.time_ns);
	symbol_of(&f, frame, &arena, &mapping);
	symbolizer_stats(f.symbolizer, &stats);
	assert_int_equal(stats.demangled, 1);
	teardown(&f);
}

static void test_marks_and_addresses(void **state)
{
	_cleanup_arena_ struct arena arena;
	struct abi_record r = record_of(getpid());
	struct symbol_mapping mapping;
	struct fixture f;
	struct process *p;
	struct symbol s;
	uint64_t frame;
	struct symbolizer_stats before, after;
	void *jit;

	(void)state;
	setup(&f, false);
	arena_init(&arena, NULL);
	jit = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p = read_process(f.procs, &f.reads, &r);
	frame = proc_resolve(f.procs, p, (uint64_t)(uintptr_t)jit + 8, r.time_ns);
	assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_JIT);
	assert_int_equal(proc_interned_address(f.procs, ABI_FRAME_VALUE(frame)).addr,
		(uint64_t)(uintptr_t)jit + 8);
	assert_true(proc_resolve(f.procs, p, (uint64_t)(uintptr_t)jit + 8, r.time_ns) == frame);
	s = symbol_of(&f, frame, &arena, &mapping);
	assert_string_equal(s.lines[0].function, "leader+0x1234");
	assert_string_equal(mapping.filename, "[jit]");
	assert_false(s.named);

	frame = proc_resolve(f.procs, p, 0x10, r.time_ns);
	assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_RAW);
	s = symbol_of(&f, frame, &arena, &mapping);
	assert_string_equal(mapping.filename, "[unknown]");

	symbolizer_stats(f.symbolizer, &before);
	s = symbol_of(&f, ABI_INTERP(0x123, 4), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "[interpreter]");
	assert_string_equal(mapping.filename, "[interpreter]");
	assert_int_equal(s.address, 0);
	assert_false(s.named);
	symbolizer_stats(f.symbolizer, &after);
	assert_int_equal(after.frames_unnamed, before.frames_unnamed + 1);

	/* A binary that nobody knows. */
	s = symbol_of(&f, ABI_NATIVE(4000, 0x42), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "[unknown]+0x42");
	munmap(jit, 4096);
	teardown(&f);
}

static void test_kernel(void **state)
{
	static const char note[] = "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\xab\xcd\x01\x02";
	_cleanup_free_ char *notes = NULL, *path = NULL;
	_cleanup_arena_ struct arena arena;
	struct symbol_mapping mapping;
	struct fixture f;
	struct symbol s;

	(void)state;
	setup(&f, true);
	symbolizer_freep(&f.symbolizer);
	notes = xasprintf("%s/module/mod/notes", f.cache);
	path = xasprintf("%s/.note.gnu.build-id", notes);
	assert_int_equal(fs_make_dirs(&fs_system, notes, 0755), 0);
	assert_int_equal(fs_write_file(&fs_system, path, note, sizeof(note) - 1, 0644, NULL), 0);
	f.keeper.kallsyms_text =
		"0000000000001000 A fixed_percpu_data\n"
		"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000000 t "
		"local\nffffffff81000000 T first\n"
		"ffffffff81000100 T second\nffffffff81000180 D data\nffffffff81000200 T _etext\n"
		"ffffffffc0000000 t mod_init\t[mod]\nffffffffc0000040 t mod_more\t[mod]\n";
	f.keeper.modules_text = "mod 16384 0 - Live 0xffffffffc0000000\n";
	f.symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = f.registry,
					      .keeper = &f.keeper.keeper,
					      .clock = &clock_system,
					      .sysfs = f.cache,
					      .parser_fd = f.parser.fd},
		NULL);
	arena_init(&arena, NULL);
	s = symbol_of(&f, ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000010), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "first");
	assert_string_equal(mapping.filename, "[kernel.kallsyms]");
	assert_true(s.address == 0xffffffff81000010);
	s = symbol_of(&f, ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff810001ff), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "second");
	s = symbol_of(&f, ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000210), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "[kernel.kallsyms]+0xffffffff81000210");
	s = symbol_of(&f, ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffffc0000041), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "mod_more");
	assert_string_equal(mapping.filename, "[mod]");
	assert_string_equal(mapping.build_id, "abcd0102");

	/* No right to see addresses. */
	symbolizer_freep(&f.symbolizer);
	f.keeper.kallsyms_text = "0000000000000000 T first\n0000000000000000 T second\n";
	struct errbuf eb = {{0}};
	struct symbolizer_stats stats;

	f.symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = f.registry,
					      .keeper = &f.keeper.keeper,
					      .clock = &clock_system,
					      .parser_fd = f.parser.fd},
		&eb);
	assert_non_null(strstr(eb.text, "CAP_SYSLOG"));
	symbolizer_stats(f.symbolizer, &stats);
	assert_int_equal(stats.kallsyms_available, 0);
	s = symbol_of(&f, ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000010), &arena, &mapping);
	assert_string_equal(s.lines[0].function, "[kernel.kallsyms]+0xffffffff81000010");
	teardown(&f);
}

/* Each look at the time reads the statistics, as /metrics may while names are looked up. */
struct asking_clock {
	struct clock clock;
	struct symbolizer *symbolizer;
	int n_asked;
};

static int64_t ask_monotonic_ns(struct clock *c)
{
	struct asking_clock *a = (struct asking_clock *)c;
	struct symbolizer_stats stats;

	if (a->symbolizer) {
		symbolizer_stats(a->symbolizer, &stats);
		assert_int_equal(stats.kernel_symbols, 2);
		assert_int_equal(stats.frames_named, 0);
		a->n_asked++;
	}
	return NS_PER_S;
}

static void test_statistics_do_not_wait_for_names(void **state)
{
	struct asking_clock asking = {.clock = {.monotonic_ns = ask_monotonic_ns}};
	_cleanup_arena_ struct arena arena;
	struct symbol_mapping mapping;
	struct symbolizer_stats stats;
	struct bell bell = {.fd = -1}; /* never rung: the symbols are as of now */
	struct fixture f;

	(void)state;
	setup(&f, false);
	symbolizer_freep(&f.symbolizer);
	f.keeper.kallsyms_text = "ffffffff81000000 T first\nffffffff81000100 T second\n";
	f.symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = f.registry,
					      .keeper = &f.keeper.keeper,
					      .clock = &asking.clock,
					      .bell = &bell,
					      .parser_fd = f.parser.fd},
		NULL);
	asking.symbolizer = f.symbolizer;
	arena_init(&arena, NULL);
	symbol_of(&f, ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000010), &arena, &mapping);
	assert_true(asking.n_asked > 0);
	symbolizer_stats(f.symbolizer, &stats);
	assert_int_equal(stats.frames_named, 1);
	teardown(&f);
}

/* The thread that reads kallsyms again, and a keeper that answers it when it may. */
struct refresher {
	struct fixture f;
	struct clock_virtual clock;
	struct bell bell;
	pthread_t thread;
};
static _Atomic bool keeper_is_stopped;

static int open_unless_stopped(struct keeper *k, uint32_t pid, uint64_t start_ns,
	enum keeper_what what, uint64_t start, uint64_t end)
{
	while (keeper_is_stopped)
		usleep(1000);
	return fake_open(k, pid, start_ns, what, start, end);
}

static void *refresh_when_rung(void *arg)
{
	struct refresher *r = arg;

	while (bell_wait(&r->bell, -1, 0, BELL_NEVER) == BELL_RUNG && !r->bell.is_closed)
		symbolizer_refresh(r->f.symbolizer);
	return NULL;
}

static void expect_kernel_name(struct refresher *r, int64_t wait_ns, const char *name)
{
	struct symbol_frame sf = {.frame = ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000010)};
	int64_t began_ns = clock_monotonic_ns(&clock_system);
	_cleanup_arena_ struct arena arena;
	struct symbol_mapping *mappings;
	struct symbol s;
	uint32_t n;

	arena_init(&arena, NULL);
	assert_int_equal(symbolize(r->f.symbolizer, &sf, 1, SYMBOLIZE_FUNCTIONS, began_ns + wait_ns,
				 &arena, &s, &mappings, &n),
		0);
	assert_string_equal(s.lines[0].function, name);
	assert_true(clock_monotonic_ns(&clock_system) - began_ns < wait_ns + 10 * NS_PER_S);
}

/* Kernel symbols that are being read anew cost a response a bounded wait. The old ones serve meanwhile, as when reading fails. */
static void test_kernel_symbols_are_refreshed(void **state)
{
	struct refresher r = {.bell = {.fd = -1}};
	struct symbolizer_stats stats;

	(void)state;
	setup(&r.f, false);
	symbolizer_freep(&r.f.symbolizer);
	clock_virtual_init(&r.clock, NS_PER_S);
	assert_int_equal(bell_init(&r.bell, NULL), 0);
	r.f.keeper.keeper.open = open_unless_stopped;
	r.f.keeper.modules_text = "one 16384 0 - Live 0xffffffffc0000000\n";
	r.f.keeper.kallsyms_text = "ffffffff81000000 T first\n";
	r.f.symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = r.f.registry,
						.keeper = &r.f.keeper.keeper,
						.clock = &r.clock.clock,
						.bell = &r.bell,
						.parser_fd = r.f.parser.fd},
		NULL);
	assert_int_equal(pthread_create(&r.thread, NULL, refresh_when_rung, &r), 0);

	/* Not before 30 s, and not while the modules are the same. */
	r.f.keeper.kallsyms_text = "ffffffff81000000 T second\n";
	r.f.keeper.modules_text = "one 16384 7 - Live 0xffffffffc0000000\n";
	expect_kernel_name(&r, 20 * NS_PER_S, "first");
	clock_virtual_advance(&r.clock, 30 * NS_PER_S);
	expect_kernel_name(&r, 20 * NS_PER_S, "first");
	r.f.keeper.modules_text = "two 16384 0 - Live 0xffffffffc0000000\n";
	clock_virtual_advance(&r.clock, 30 * NS_PER_S);
	expect_kernel_name(&r, 20 * NS_PER_S, "second");
	symbolizer_stats(r.f.symbolizer, &stats);
	assert_int_equal(stats.kernel_reads, 2);

	keeper_is_stopped = true;
	r.f.keeper.kallsyms_text = "ffffffff81000000 T third\n";
	r.f.keeper.modules_text = "three 16384 0 - Live 0xffffffffc0000000\n";
	clock_virtual_advance(&r.clock, 30 * NS_PER_S);
	expect_kernel_name(&r, 50 * NS_PER_MS, "second");
	expect_kernel_name(&r, 50 * NS_PER_MS, "second");
	keeper_is_stopped = false;
	clock_virtual_advance(&r.clock, 30 * NS_PER_S);
	expect_kernel_name(&r, 20 * NS_PER_S, "third");

	bell_close(&r.bell);
	pthread_join(r.thread, NULL);
	bell_done(&r.bell);
	teardown(&r.f);
}

static struct binary_identity identity_of(const char *path, struct stat *st)
{
	assert_int_equal(stat(path, st), 0);
	return (struct binary_identity) {
		.dev_major = (uint32_t)(st->st_dev >> 8 & 0xfff),
		.dev_minor = (uint32_t)(st->st_dev & 0xff),
		.ino = st->st_ino,
		.path = path,
	};
}

static void copy_file(const char *from, const char *to)
{
	_cleanup_bytes_ struct bytes b;

	bytes_init(&b, NULL, 0);
	assert_int_equal(fs_read_file(&fs_system, from, 64 << 20, &b, NULL), 0);
	assert_int_equal(fs_write_file(&fs_system, to, b.data, b.len, 0755, NULL), 0);
}

static struct binary_source own_source(void)
{
	return (struct binary_source) {.pid = (uint32_t)getpid()};
}

static bool has_symbols(struct fixture *f, uint32_t id)
{
	const struct symbol_file *s = binary_symbols_get(f->registry, id, soon());

	binary_symbols_put(f->registry, s);
	return s != NULL;
}

static void test_copies_share(void **state)
{
	_cleanup_free_ char *a = NULL, *b = NULL;
	struct binary_source src = own_source();
	struct binary_identity ia, ib;
	struct binary_stats stats;
	struct stat sa, sb;
	struct fixture f;
	uint32_t id_a, id_b;

	(void)state;
	setup(&f, true);
	a = xasprintf("%s/a", f.cache);
	b = xasprintf("%s/b", f.cache);
	copy_file("/proc/self/exe", a);
	copy_file("/proc/self/exe", b);
	ia = identity_of(a, &sa);
	ib = identity_of(b, &sb);
	id_a = binary_get(f.registry, &ia);
	id_b = binary_get(f.registry, &ib);
	assert_int_not_equal(id_a, id_b);
	assert_int_equal(binary_get(f.registry, &ia), id_a);
	binary_want(f.registry, id_a, &src);
	assert_true(has_symbols(&f, id_a));
	binary_want(f.registry, id_b, &src);
	assert_true(has_symbols(&f, id_b));
	assert_int_equal(binary_canonical(f.registry, id_b), id_a);
	assert_int_equal(binary_get(f.registry, &ib), id_a);
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.compiled, 1);
	assert_int_equal(stats.shared, 1);
	assert_int_equal(stats.contents, 1);

	/* Found on disk after a restart, with the files gone but one. */
	restart(&f, 64 << 20);
	id_b = binary_get(f.registry, &ib);
	binary_want(f.registry, id_b, &src);
	assert_true(has_symbols(&f, id_b));
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.compiled, 0);
	assert_int_equal(stats.cache_hits, 1);
	teardown(&f);
}

static void corrupt_cache(const char *dir)
{
	_cleanup_bytes_ struct bytes names;

	bytes_init(&names, NULL, 0);
	assert_int_equal(fs_system.list(&fs_system, dir, &names), 0);
	for (size_t at = 0; at < names.len; at += strlen((const char *)names.data + at) + 1) {
		_cleanup_free_ char *path = xasprintf("%s/%s", dir, (const char *)names.data + at);
		_cleanup_close_ int fd = -1;

		if (!strstr(path, ".sym"))
			continue;
		fd = open(path, O_WRONLY);
		assert_int_equal(pwrite(fd, "x", 1, 700), 1);
	}
}

static void test_corrupt_cache_is_rebuilt(void **state)
{
	struct binary_source src = own_source();
	_cleanup_free_ char *a = NULL;
	struct binary_identity ia;
	struct binary_stats stats;
	struct fixture f;
	struct stat sa;
	uint32_t id;

	(void)state;
	setup(&f, true);
	a = xasprintf("%s/a", f.cache);
	copy_file("/proc/self/exe", a);
	ia = identity_of(a, &sa);
	id = binary_get(f.registry, &ia);
	binary_want(f.registry, id, &src);
	assert_true(has_symbols(&f, id));
	restart(&f, 64 << 20);
	corrupt_cache(f.cache);
	id = binary_get(f.registry, &ia);
	binary_want(f.registry, id, &src);
	assert_true(has_symbols(&f, id));
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.cache_corrupt, 1);
	assert_int_equal(stats.compiled, 1);
	teardown(&f);
}

/* Each removal reads the statistics, as /metrics may while the disk takes its time. */
struct asking_fs {
	struct fs fs;
	struct fixture *f;
	unsigned n_unlinked;
};

static int ask_and_unlink(struct fs *fs, const char *path)
{
	struct asking_fs *a = (struct asking_fs *)fs;
	struct binary_stats stats;

	binary_stats(a->f->registry, &stats);
	a->n_unlinked++;
	return fs_system.unlink(&fs_system, path);
}

static void test_eviction(void **state)
{
	struct asking_fs asking = {.fs = fs_system};
	struct binary_source src = own_source();
	const char *paths[] = {"/bin/ls", "/bin/cat", "/bin/bash", "/proc/self/exe"};
	struct binary_stats stats;
	struct fixture f;
	uint32_t ids[4];

	(void)state;
	setup(&f, true);
	asking.fs.unlink = ask_and_unlink;
	asking.f = &f;
	f.fs = &asking.fs;
	restart(&f, 40000);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_free_ char *to = xasprintf("%s/%zu", f.cache, i);
		struct binary_identity identity;
		struct stat st;

		copy_file(paths[i], to);
		identity = identity_of(to, &st);
		ids[i] = binary_get(f.registry, &identity);
		binary_want(f.registry, ids[i], &src);
		assert_true(has_symbols(&f, ids[i]));
	}
	binary_stats(f.registry, &stats);
	assert_true(stats.cache_evicted > 0);
	assert_true(stats.cache_bytes <= 40000);
	assert_true(asking.n_unlinked > 0);
	/* What was evicted is made again when it is asked for. */
	assert_true(has_symbols(&f, ids[0]));
	teardown(&f);
}

static void test_failures(void **state)
{
	struct binary_source src = own_source();
	_cleanup_free_ char *bad = NULL;
	struct binary_identity identity;
	struct binary_stats stats;
	struct fixture f;
	struct stat st;
	uint32_t id;

	(void)state;
	setup(&f, true);
	bad = xasprintf("%s/bad", f.cache);
	assert_int_equal(fs_write_file(&fs_system, bad,
				 "\x7f"
				 "ELF nonsense",
				 13, 0755, NULL),
		0);
	identity = identity_of(bad, &st);
	id = binary_get(f.registry, &identity);
	binary_want(f.registry, id, &src);
	assert_false(has_symbols(&f, id));
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.parse_failed[PARSER_REFUSED], 1);
	/* Left alone for ten minutes. */
	binary_want(f.registry, id, &src);
	assert_false(has_symbols(&f, id));
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.parse_failed[PARSER_REFUSED], 1);
	assert_int_equal(stats.skipped, 1);

	/* Another file at that path than the one that was mapped. */
	identity = identity_of("/bin/ls", &st);
	identity.ino++;
	id = binary_get(f.registry, &identity);
	binary_want(f.registry, id, &src);
	assert_false(has_symbols(&f, id));
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.open_failed, 1);
	teardown(&f);
}

/* A child that runs a deleted copy of this program's file until it is told to end. */
static pid_t run_deleted(const char *path, int *ret_stop_fd)
{
	int up[2], stop[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(up) | pipe(stop), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDONLY);
		void *code = mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(stop[1]);
		if (code == MAP_FAILED || unlink(path) < 0 || write(up[1], &code, sizeof(code)) < 0)
			_exit(1);
		_exit((int)read(stop[0], &c, 1));
	}
	close(up[1]);
	close(stop[0]);
	*ret_stop_fd = stop[1];
	assert_true(read(up[0], &c, 1) == 1);
	close(up[0]);
	return pid;
}

static void test_deleted_file(void **state)
{
	_cleanup_arena_ struct arena arena;
	_cleanup_free_ char *path = NULL;
	struct symbol_mapping mapping;
	struct proc_task_info info;
	struct abi_record r;
	struct fixture f;
	struct process *p;
	uint64_t frame = 0;
	int stop_fd;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	setup(&f, true);
	arena_init(&arena, NULL);
	path = xasprintf("%s/gone", f.cache);
	copy_file("/bin/bash", path);
	pid = run_deleted(path, &stop_fd);
	r = record_of(pid);
	p = read_process(f.procs, &f.reads, &r);
	for (uint64_t i = 0; i < 1; i++) {
		char line[512];
		_cleanup_free_ char *maps = xasprintf("/proc/%d/maps", pid);
		_cleanup_fclose_ FILE *in = fopen(maps, "r");

		while (fgets(line, sizeof(line), in))
			if (strstr(line, "/gone (deleted)"))
				frame = proc_resolve(
					f.procs, p, strtoull(line, NULL, 16) + 0x40000, r.time_ns);
	}
	assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_NATIVE);
	symbol_of(&f, frame, &arena, &mapping);
	assert_non_null(strstr(mapping.filename, "/gone (deleted)"));
	assert_int_equal(strlen(mapping.build_id), 40);
	assert_true(mapping.limit > 0); /* the symbol file is there */
	proc_task_info(f.procs, proc_task_of_record(f.procs, p, &r), &info);
	assert_string_equal(info.comm, "leader");
	assert_string_equal(info.thread_name, "thread");
	assert_non_null(strstr(info.executable, "test_symbolize"));
	close(stop_fd);
	waitpid(pid, NULL, 0);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_functions),
		cmocka_unit_test(test_marks_and_addresses),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_statistics_do_not_wait_for_names),
		cmocka_unit_test(test_kernel_symbols_are_refreshed),
		cmocka_unit_test(test_copies_share),
		cmocka_unit_test(test_corrupt_cache_is_rebuilt),
		cmocka_unit_test(test_eviction),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_deleted_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
