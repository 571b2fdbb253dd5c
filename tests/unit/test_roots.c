/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of processes that are gone, below the root directory that was kept: processes of one
 * mount namespace whose roots differ, as those in a chroot do. The keeper here has a table of
 * processes and their roots; the registry works when it is told to, on a clock that is set. So what
 * comes first, and what waits, is seen here too.
 */
#include "exporter/binary/registry.h"
#include "exporter/symfile/symbol_unwind.h"
#include "exporter/proc/proc.h"
#include "tests/unit/names_fixture.h"
#include "tests/unit/read_asked.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <cmocka.h>

enum { MAX_PROCESSES = 8, OUTER = 100, INNER = 200, CHILD = 300 };

struct rooted {
	uint32_t pid;
	const char *root;
};

/* The first member is the keeper. */
struct fixture {
	struct keeper keeper;
	struct fake_parser parser;
	struct clock_virtual clock;
	struct binary_registry *registry;
	struct proc_table *procs;
	struct proc_reader_options reads;
	struct rooted processes[MAX_PROCESSES];
	unsigned n_root_opens, n_ns_opens;
	unsigned n_rows;	  /* times that rows came before names */
	bool has_rows;		  /* what the hook of that name says */
	char *top, *inner, *prog; /* temporary directory, top/jail, top/jail/prog */
	struct stat st;		  /* of prog */
};

static int rooted_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	struct fixture *f = (struct fixture *)k;
	int fd;

	(void)start_ns;
	(void)start;
	(void)end;
	f->n_root_opens += what == KEEPER_ROOT;
	f->n_ns_opens += what == KEEPER_MNT_NS;
	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		if (!f->processes[i].root || f->processes[i].pid != pid)
			continue;
		if (what == KEEPER_ROOT)
			fd = open(f->processes[i].root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		else if (what == KEEPER_MNT_NS)
			fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
		else
			return -EPERM;
		return fd < 0 ? -errno : fd;
	}
	return -ESRCH;
}

static bool has_rows(void *ctx, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN])
{
	(void)binary;
	(void)content_id;
	return ((struct fixture *)ctx)->has_rows;
}

static void take_rows(void *ctx, uint32_t binary, const struct symbol_file *rows)
{
	struct fixture *f = ctx;
	struct symbol_unwind u;

	(void)binary;
	assert_int_equal(rows->n_functions, 0);
	assert_true(symbol_unwind_of(rows, &u));
	assert_true(u.info[SYMBOL_UNWIND_N_ROWS] > 0);
	f->n_rows++;
}

/* A copy of a program, with zeros behind it up to so many bytes. */
static void write_prog(const struct fixture *f, off_t bytes)
{
	_cleanup_bytes_ struct bytes self;

	bytes_init(&self, NULL, 0);
	assert_int_equal(fs_read_file(&fs_system, "/bin/ls", 64 << 20, &self, NULL), 0);
	assert_int_equal(fs_write_file(&fs_system, f->prog, self.data, self.len, 0755, NULL), 0);
	if (bytes)
		assert_int_equal(truncate(f->prog, bytes), 0);
}

static void setup(struct fixture *f)
{
	*f = (struct fixture) {.parser = fake_parser_start(), .top = temp_dir()};
	f->keeper = (struct keeper) {.open = rooted_open, .open_at = fake_open_at};
	f->inner = xasprintf("%s/jail", f->top);
	f->prog = xasprintf("%s/prog", f->inner);
	assert_int_equal(mkdir(f->inner, 0755), 0);
	write_prog(f, 0);
	assert_int_equal(stat(f->prog, &f->st), 0);
	f->processes[0] = (struct rooted) {OUTER, "/"};
	f->processes[1] = (struct rooted) {INNER, f->inner};
	clock_virtual_init(&f->clock, 1000 * NS_PER_S);
	f->registry = binary_registry_new(&(struct binary_options) {.keeper = &f->keeper,
						  .fs = &fs_system,
						  .clock = &f->clock.clock,
						  .parser_fd = f->parser.fd,
						  .cache_path = "",
						  .cache_bytes = 64 << 20,
						  .max_cpu = 1,
						  .hook_ctx = f,
						  .has_rows = has_rows,
						  .rows = take_rows},
		NULL);
	f->procs = proc_table_new(&(struct proc_options) {
		.max_processes = 1000, .max_tasks = 1000, .binaries = f->registry});
	f->reads = (struct proc_reader_options) {.procfs = f->top,
		.keeper = &f->keeper,
		.binaries = f->registry,
		.clock = &f->clock.clock};
}

static void teardown(struct fixture *f)
{
	proc_table_freep(&f->procs);
	binary_registry_freep(&f->registry);
	assert_int_equal(fake_parser_stop(&f->parser), 0);
	free(f->inner);
	free(f->prog);
	temp_dir_done(&f->top);
}

static uint64_t root_get(struct binary_registry *r, uint32_t pid)
{
	int error;

	return binary_root_open(r, pid, 0, &error);
}

static uint64_t kept_roots(struct fixture *f)
{
	struct binary_stats stats;

	binary_stats(f->registry, &stats);
	return stats.roots;
}

static void test_roots_of_one_namespace(void **state)
{
	struct fixture f;
	uint64_t outer, inner;

	(void)state;
	setup(&f);
	f.processes[2] = (struct rooted) {CHILD, f.inner};
	outer = root_get(f.registry, OUTER);
	inner = root_get(f.registry, INNER);
	assert_true(outer && inner && outer != inner);
	assert_int_equal(f.n_root_opens, 2);
	assert_int_equal(f.n_ns_opens, 2);
	/* A root that is known costs one question. */
	assert_true(root_get(f.registry, CHILD) == inner);
	assert_int_equal(f.n_root_opens, 3);
	assert_int_equal(f.n_ns_opens, 2);
	assert_true(root_get(f.registry, 12345) == 0);
	assert_int_equal(kept_roots(&f), 2);

	/* Kept for 30 s after the last of its two references. */
	binary_root_put(f.registry, inner);
	clock_virtual_advance(&f.clock, 100 * NS_PER_S);
	binary_work(f.registry, 0);
	assert_int_equal(kept_roots(&f), 2);
	binary_root_put(f.registry, inner);
	clock_virtual_advance(&f.clock, 29 * NS_PER_S);
	binary_work(f.registry, 0);
	assert_int_equal(kept_roots(&f), 2);
	clock_virtual_advance(&f.clock, 2 * NS_PER_S);
	binary_work(f.registry, 0);
	assert_int_equal(kept_roots(&f), 1);
	assert_true(binary_root_ref(f.registry, inner) == 0);
	/* Opened again it is another one, so that nobody's old number means it. */
	assert_true(root_get(f.registry, INNER) > inner);
	teardown(&f);
}

/* Whether the file is found for a process that is gone. */
static bool is_found(struct fixture *f, const char *path, uint64_t ino, const uint8_t *build_id,
	uint32_t build_id_len, uint64_t root)
{
	const struct symbol_file *s;
	uint32_t id = binary_get(f->registry, &(struct binary_identity) {
						      .build_id = build_id,
						      .build_id_len = build_id_len,
						      .dev_major = major(f->st.st_dev),
						      .dev_minor = minor(f->st.st_dev),
						      .ino = ino,
						      .path = path,
					      });

	binary_want(f->registry, id, &(struct binary_source) {.pid = 12345, .root = root});
	binary_work(f->registry, 0);
	s = binary_symbols_get(f->registry, id, 0);
	binary_symbols_put(f->registry, s);
	return s != NULL;
}

static void test_files_of_the_gone(void **state)
{
	static const uint8_t other_id[20] = {1, 2, 3};
	struct fixture f;
	uint64_t inner;

	(void)state;
	setup(&f);
	inner = root_get(f.registry, INNER);
	assert_true(root_get(f.registry, OUTER) != 0);
	/* Nobody has asked for the root, or what is there is another file. */
	assert_false(is_found(&f, "/prog", f.st.st_ino + 1, NULL, 0, inner));
	assert_false(is_found(&f, "/prog", f.st.st_ino + 2, NULL, 0, 0));
	assert_false(is_found(&f, "/prog", 0, other_id, sizeof(other_id), inner));
	assert_false(is_found(&f, "/missing", f.st.st_ino, NULL, 0, inner));
	/* A record's path is below the chroot, that of /proc/PID/maps below another root. */
	assert_true(is_found(&f, "/prog", f.st.st_ino, NULL, 0, inner));
	assert_true(is_found(&f, f.prog, f.st.st_ino, NULL, 0, inner));
	teardown(&f);
}

static void sideband(struct fixture *f, enum sideband_kind kind, uint32_t pid, uint64_t at_ms)
{
	struct sideband e = {.kind = kind,
		.time_ns = at_ms * NS_PER_MS,
		.pid = pid,
		.tid = pid,
		.ppid = INNER,
		.ptid = INNER,
		.exec = kind == SIDEBAND_COMM,
		.prot = PROT_READ | PROT_EXEC,
		.addr = 0x400000,
		.len = 0x100000,
		.dev_major = major(f->st.st_dev),
		.dev_minor = minor(f->st.st_dev),
		.ino = f->st.st_ino,
		.path = kind == SIDEBAND_MMAP ? "/prog" : ""};

	proc_table_sideband(f->procs, &e);
}

/* The children of a process in a chroot, each over before anything can be asked of it. */
static void test_short_children_in_a_chroot(void **state)
{
	enum { N_CHILDREN = 200 };
	const struct symbol_file *s;
	unsigned asked;
	struct fixture f;
	uint64_t frame = 0;

	(void)state;
	setup(&f);
	/* The namespace is known already by its other root. */
	assert_true(root_get(f.registry, OUTER) != 0);
	sideband(&f, SIDEBAND_COMM, INNER, 1000);
	read_asked(f.procs, f.reads);
	asked = f.n_root_opens;
	for (uint32_t i = 0; i < N_CHILDREN; i++) {
		struct abi_record r = {.type = ABI_RECORD_SAMPLE,
			.time_ns = (1001 + i) * NS_PER_MS,
			.start_ns = (1001 + i) * NS_PER_MS,
			.pid = CHILD + i,
			.tid = CHILD + i,
			.exec_id = 1};
		struct process *p;

		sideband(&f, SIDEBAND_FORK, CHILD + i, 1001 + i);
		sideband(&f, SIDEBAND_COMM, CHILD + i, 1001 + i);
		sideband(&f, SIDEBAND_MMAP, CHILD + i, 1001 + i);
		sideband(&f, SIDEBAND_EXIT, CHILD + i, 1002 + i);
		p = read_process(f.procs, &f.reads, &r);
		frame = proc_resolve(f.procs, p, 0x400010, r.time_ns);
		assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_NATIVE);
	}
	/* What they have from their parent costs nothing: a few looks at what was exec'ed, and one
	 * for the symbols. */
	assert_in_range(f.n_root_opens - asked, 1, 8);
	assert_int_equal(f.n_ns_opens, 2);
	assert_int_equal(kept_roots(&f), 2);
	binary_work(f.registry, 0);
	s = binary_symbols_get(f.registry, ABI_NATIVE_BINARY(frame), 0);
	assert_non_null(s);
	binary_symbols_put(f.registry, s);
	teardown(&f);
}

/* The id of f->prog, wanted by a process that is there. */
static uint32_t want_prog(struct fixture *f)
{
	const struct binary_source source = {.pid = INNER, .root = root_get(f->registry, INNER)};
	uint32_t id;

	assert_int_equal(stat(f->prog, &f->st), 0);
	id = binary_get(f->registry, &(struct binary_identity) {
					     .dev_major = major(f->st.st_dev),
					     .dev_minor = minor(f->st.st_dev),
					     .ino = f->st.st_ino,
					     .path = "/prog",
				     });
	binary_want(f->registry, id, &source);
	return id;
}

static bool has_names(struct fixture *f, uint32_t id)
{
	const struct symbol_file *s = binary_symbols_get(f->registry, id, 0);
	bool has = s && s->n_functions;

	binary_symbols_put(f->registry, s);
	return has;
}

static void test_rows_before_names(void **state)
{
	_cleanup_free_ char *copy = NULL;
	struct binary_stats stats;
	struct fixture f;
	uint32_t id, again;

	(void)state;
	setup(&f);
	write_prog(&f, BINARY_SLOW_BYTES);
	id = want_prog(&f);
	binary_work(f.registry, 0);
	assert_int_equal(f.n_rows, 1);
	assert_false(has_names(&f, id));
	assert_true(binary_is_coming(f.registry, id));
	/* The same content by another inode: its rows are there already. */
	f.has_rows = true;
	copy = xasprintf("%s/copy", f.inner);
	assert_int_equal(rename(f.prog, copy), 0);
	write_prog(&f, BINARY_SLOW_BYTES);
	again = want_prog(&f);
	assert_int_not_equal(again, id);
	binary_work(f.registry, 0);
	assert_int_equal(f.n_rows, 1);
	/* Names come from what was opened, wherever the file is by now. */
	assert_int_equal(unlink(f.prog), 0);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, id));
	binary_work(f.registry, 0);
	assert_false(binary_is_coming(f.registry, again));
	assert_int_equal(binary_canonical(f.registry, again), id);
	binary_stats(f.registry, &stats);
	assert_int_equal(stats.rows_first, 1);
	assert_int_equal(stats.compiled, 1);
	assert_int_equal(stats.queued, 0);
	teardown(&f);
}

/* Names of large files are paid for before the next ones are made; rows do not wait for that, nor does what is small. */
static void test_rows_while_in_debt(void **state)
{
	struct fixture f;
	uint32_t large, small;

	(void)state;
	setup(&f);
	f.registry->debt_ns = 10 * NS_PER_S;
	write_prog(&f, BINARY_SLOW_BYTES);
	large = want_prog(&f);
	binary_work(f.registry, 0);
	binary_work(f.registry, 0);
	assert_int_equal(f.n_rows, 1);
	assert_false(has_names(&f, large));
	assert_int_equal(unlink(f.prog), 0);
	write_prog(&f, 0);
	small = want_prog(&f);
	assert_int_not_equal(small, large);
	binary_work(f.registry, 0);
	assert_int_equal(f.n_rows, 1);
	assert_true(has_names(&f, small));
	assert_false(has_names(&f, large));
	clock_virtual_advance(&f.clock, 10 * NS_PER_S);
	binary_work(f.registry, 0);
	assert_true(has_names(&f, large));
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roots_of_one_namespace),
		cmocka_unit_test(test_files_of_the_gone),
		cmocka_unit_test(test_short_children_in_a_chroot),
		cmocka_unit_test(test_rows_before_names),
		cmocka_unit_test(test_rows_while_in_debt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
