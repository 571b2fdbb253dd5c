/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code objects, read from a process that a keeper plays: what it says once, what changes between sight and reading, processes that are
 * gone, memory that cannot be read, and anything in place of objects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/binary/registry.h"
#include "exporter/interp/python.h"
#include "exporter/interp/reader/names.h"
#include "exporter/keeper/copy.h"
#include "exporter/proc/table.h"
#include "tests/unit/proc_fixture.h"
#include "tests/unit/python_objects.h"

enum { PID = 10, START_MS = 1000000, BINARY_INODE = 77 };

struct names_fixture {
	struct fixture f;
	struct keeper keeper; /* of the copies */
	struct fake memory;
	struct lock lock;
	struct interp_names *names;
	struct process *p;
	struct abi_record r;
	int error; /* of every copy */
	unsigned n_copies, changes_at;
	uint64_t n_asked; /* bytes */
	int64_t takes_ns; /* each copy */
};
static struct names_fixture *current;

static int fake_copy(
	struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges, size_t n)
{
	struct names_fixture *x = current;

	assert_ptr_equal(k, &x->keeper);
	assert_int_equal(pid, PID);
	assert_int_equal(start_ns, START_MS * MS);
	clock_virtual_advance(&x->f.clock, x->takes_ns);
	if (++x->n_copies == x->changes_at)
		put(&x->memory, CODE + 68, 99, 4);
	for (size_t i = 0; i < n; i++) {
		uint64_t off = ranges[i].addr - BASE;

		x->n_asked += ranges[i].bytes;
		off = MIN(off, sizeof(x->memory.bytes));
		ranges[i].copied = (uint32_t)MIN(ranges[i].bytes, sizeof(x->memory.bytes) - off);
		memcpy(ranges[i].to, x->memory.bytes + off, ranges[i].copied);
	}
	return x->error;
}

static void names_setup(struct names_fixture *x)
{
	const struct binary_identity id = {
		.dev_major = 8, .ino = BINARY_INODE, .path = "/usr/bin/python3"};
	uint32_t binary;

	memset(x, 0, sizeof(*x));
	current = x;
	setup(&x->f);
	fake_init(&x->memory);
	lock_init(&x->lock);
	x->keeper.copy = fake_copy;
	binary = binary_get(x->f.registry, &id);
	assert_int_not_equal(binary, 0);
	x->f.registry->entries[binary]->runtime = xcalloc(1, sizeof(struct entry_runtime));
	x->f.registry->entries[binary]->runtime->record = python_record;
	x->names = interp_names_new(&(struct interp_names_options) {.procs = x->f.t,
		.procs_lock = &x->lock,
		.binaries = x->f.registry,
		.keeper = &x->keeper,
		.clock = &x->f.clock.clock});
	x->r = record(PID, START_MS, 0, 1000100);
	x->p = proc_table_of_record(x->f.t, &x->r);
	x->p->interp = xcalloc(1, sizeof(*x->p->interp));
	x->p->interp->state = PROC_INTERP_WALKED;
	x->p->interp->runtime = (struct proc_runtime) {.binary = binary,
		.kind = RUNTIME_PYTHON,
		.version = python_record.version,
		.bias = BIAS};
}

static void names_teardown(struct names_fixture *x)
{
	interp_names_freep(&x->names);
	lock_done(&x->lock);
	teardown(&x->f);
}

/* What the kernel half takes of the object. */
static uint64_t check_of_object(void)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	struct fake k;

	fake_init(&k);
	assert_int_equal(python_read_code(&k.m, &python_record, BASE + CODE, 0, &c), 0);
	return c.kernel_check;
}

/* The kernel half has seen the object, with that check. */
static uint64_t see(struct names_fixture *x, uint64_t object, uint64_t check)
{
	const struct abi_code c = {.type = ABI_RECORD_CODE,
		.time_ns = x->r.time_ns,
		.start_ns = x->r.start_ns,
		.pid = PID,
		.object = object >> ABI_INTERP_ADDRESS_SHIFT,
		.check = check};

	proc_object_seen(x->f.t, x->p, &c);
	return ABI_INTERP_OBJECT(proc_object_word(
		x->f.t, x->p, ABI_INTERP(object >> ABI_INTERP_ADDRESS_SHIFT, 0), x->r.time_ns));
}

static const struct proc_code_text *text_of(struct names_fixture *x, uint64_t id)
{
	return proc_object_of(x->f.t, id).text;
}

static void expect_results(struct names_fixture *x, enum interp_name_result which, uint64_t n)
{
	struct interp_names_stats s;

	interp_names_stats(x->names, &s);
	for (unsigned i = 0; i < INTERP_N_NAME_RESULTS; i++)
		assert_int_equal(s.results[RUNTIME_PYTHON][i], i == which ? n : 0);
}

static void what_an_object_says(void **state)
{
	const struct proc_code_text *text;
	struct names_fixture x;
	struct interp_names_stats s;
	uint64_t id;

	(void)state;
	names_setup(&x);
	id = see(&x, BASE + CODE, check_of_object());
	interp_names_round(x.names);
	text = text_of(&x, id);
	assert_non_null(text);
	assert_string_equal(text->name, "Class.method");
	assert_string_equal(text->raw, "method");
	assert_string_equal(text->file, "/srv/app.py");
	assert_int_equal(text->first_line, 10);
	assert_true(text->lines_bytes > 0);
	assert_int_equal(proc_object_of(x.f.t, id).kind, RUNTIME_PYTHON);
	assert_int_equal(proc_object_of(x.f.t, id).version, RUNTIME_VERSION(3, 12, 0));
	expect_results(&x, INTERP_NAME_OK, 1);
	interp_names_stats(x.names, &s);
	assert_int_equal(s.copies, x.n_copies);
	assert_true(s.copied_bytes > 0);
	/* once */
	interp_names_round(x.names);
	expect_results(&x, INTERP_NAME_OK, 1);
	names_teardown(&x);
}

/* Between the sample and the reading; then between two copies of the reading. */
static void another_object_lies_there(void **state)
{
	struct names_fixture x;
	unsigned n_copies;
	uint64_t id;

	(void)state;
	names_setup(&x);
	id = see(&x, BASE + CODE, check_of_object() ^ 1);
	interp_names_round(x.names);
	assert_null(text_of(&x, id));
	expect_results(&x, INTERP_NAME_REUSED, 1);
	n_copies = x.n_copies;
	names_teardown(&x);
	for (unsigned at = 1; at <= n_copies; at++) {
		names_setup(&x);
		x.changes_at = at;
		id = see(&x, BASE + CODE, check_of_object());
		interp_names_round(x.names);
		assert_null(text_of(&x, id));
		expect_results(&x, INTERP_NAME_REUSED, 1);
		names_teardown(&x);
	}
	/* freed */
	names_setup(&x);
	put(&x.memory, CODE, 0, 8);
	id = see(&x, BASE + CODE, check_of_object());
	interp_names_round(x.names);
	assert_null(text_of(&x, id));
	expect_results(&x, INTERP_NAME_REUSED, 1);
	names_teardown(&x);
}

static void what_cannot_be_read(void **state)
{
	static const struct {
		int error;
		bool has_exited, waits, waits_on;
		enum interp_name_result result;
	} cases[] = {
		{-ESRCH, false, false, false, INTERP_NAME_GONE},
		{-EFAULT, false, false, false, INTERP_NAME_UNREADABLE},
		{-EFAULT, true, false, false, INTERP_NAME_GONE},
		{-EPERM, false, false, false, INTERP_NAME_UNREADABLE},
		{-ENOTSUP, false, false, false, INTERP_NAME_UNREADABLE},
		{-EBUSY, false, true, true, INTERP_NAME_UNREADABLE},
		{-ETIMEDOUT, false, true, false, INTERP_NAME_UNREADABLE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct names_fixture x;

		names_setup(&x);
		x.error = cases[i].error;
		see(&x, BASE + CODE, check_of_object());
		see(&x, BASE + CODE + 0x1000, check_of_object());
		if (cases[i].has_exited)
			exited(&x.f, PID, 1000101);
		interp_names_round(x.names);
		/* One answer serves the whole process, where it is one for all. */
		if (cases[i].error == -ESRCH || cases[i].waits)
			assert_int_equal(x.n_copies, 1);
		expect_results(&x, cases[i].result, cases[i].waits ? 0 : 2);
		for (int k = 0; cases[i].waits && k < PROC_OBJECT_TRIES; k++) {
			clock_virtual_advance(&x.f.clock, 200 * NS_PER_MS);
			interp_names_round(x.names);
		}
		expect_results(&x, cases[i].result, cases[i].waits_on ? 0 : 2);
		names_teardown(&x);
	}
}

/* Its row may be published soon; when it ends before, there is nobody to ask. */
static void a_process_without_a_known_runtime(void **state)
{
	struct names_fixture x;
	uint64_t id;

	(void)state;
	names_setup(&x);
	x.p->interp->state = PROC_INTERP_WAITING;
	id = see(&x, BASE + CODE, check_of_object());
	for (int i = 0; i <= PROC_OBJECT_TRIES; i++) {
		interp_names_round(x.names);
		clock_virtual_advance(&x.f.clock, NS_PER_S);
	}
	assert_null(text_of(&x, id));
	assert_int_equal(x.n_copies, 0);
	x.p->interp->state = PROC_INTERP_WALKED;
	interp_names_round(x.names);
	assert_non_null(text_of(&x, id));
	names_teardown(&x);
}

/* A process of many objects does not use up what openers copy in a second. */
static void copies_are_paced(void **state)
{
	enum { N = COPY_PER_S };
	struct names_fixture x;
	struct interp_names_stats s;
	uint64_t before;

	(void)state;
	names_setup(&x);
	for (unsigned i = 0; i < N; i++)
		see(&x, BASE + CODE + 16 * (i + 1ULL),
			check_of_object()); /* nothing that is an object */
	interp_names_round(x.names);
	assert_in_range(x.n_copies, COPY_PER_S / 4, COPY_PER_S / 2 + 10);
	before = x.n_copies;
	interp_names_round(x.names);
	assert_in_range(x.n_copies, before, before + 10);
	for (int i = 0; i < 10; i++) {
		clock_virtual_advance(&x.f.clock, NS_PER_S);
		interp_names_round(x.names);
	}
	interp_names_stats(x.names, &s);
	assert_int_equal(s.results[RUNTIME_PYTHON][INTERP_NAME_REUSED] +
				 s.results[RUNTIME_PYTHON][INTERP_NAME_UNREADABLE],
		N);
	names_teardown(&x);
}

/* Nor the bytes of a second. */
static void bytes_are_paced(void **state)
{
	enum { N = COPY_PER_S / 4 };
	struct names_fixture x;
	uint64_t before;

	(void)state;
	names_setup(&x);
	/* One address, so many objects: each has a table of lines that is longer than its memory. */
	put(&x.memory, LINES + 16, INTERP_MAX_LINES_BYTES, 8);
	for (unsigned i = 0; i < N; i++) {
		see(&x, BASE + CODE, i);
		x.r.time_ns += MS;
	}
	interp_names_round(x.names);
	assert_in_range(x.n_asked, COPY_BYTES_PER_S / 4, COPY_BYTES_PER_S / 2 + (1 << 20));
	before = x.n_asked;
	interp_names_round(x.names);
	assert_in_range(x.n_asked, before, before + (1 << 20));
	clock_virtual_advance(&x.f.clock, NS_PER_S);
	interp_names_round(x.names);
	assert_in_range(x.n_asked, before + COPY_BYTES_PER_S / 4, COPY_BYTES_PER_S + (2 << 20));
	names_teardown(&x);
}

/* Others' names wait no longer for it. What it got on with is not lost; what takes so long by itself is given up in the end. */
static void a_process_that_takes_long(void **state)
{
	enum { N = 20 };
	struct names_fixture x;
	struct interp_names_stats s;
	uint64_t check = check_of_object(), ids[N];
	unsigned n_rounds = 0, n_named;

	(void)state;
	names_setup(&x);
	x.takes_ns = 50 * NS_PER_MS;
	for (unsigned i = 0; i < N; i++) {
		/* One address: the object is another one in between. */
		if (i)
			see(&x, BASE + CODE, check ^ i);
		x.r.time_ns += MS;
		ids[i] = see(&x, BASE + CODE, check);
		x.r.time_ns += MS;
	}
	do {
		int64_t began_ns = clock_monotonic_ns(&x.f.clock.clock);

		interp_names_round(x.names);
		assert_true(
			clock_monotonic_ns(&x.f.clock.clock) - began_ns <= NS_PER_S + x.takes_ns);
		n_named = 0;
		for (unsigned i = 0; i < N; i++)
			n_named += text_of(&x, ids[i]) != NULL;
		assert_true(++n_rounds < 100);
	} while (n_named < N);
	assert_true(n_rounds > 2);
	interp_names_stats(x.names, &s);
	assert_int_equal(s.results[RUNTIME_PYTHON][INTERP_NAME_UNREADABLE], 0);
	names_teardown(&x);
	names_setup(&x);
	x.takes_ns = 1100 * NS_PER_MS;
	see(&x, BASE + CODE, check);
	for (unsigned i = 0; i < PROC_OBJECT_TRIES; i++) {
		expect_results(&x, INTERP_NAME_UNREADABLE, 0);
		interp_names_round(x.names);
	}
	expect_results(&x, INTERP_NAME_UNREADABLE, 1);
	names_teardown(&x);
}

/* Profiles of systems without such programs wait for nothing. */
static void a_round_is_asked_for_where_something_waits(void **state)
{
	struct names_fixture x;
	struct interp_names *names;
	struct bell bell;

	(void)state;
	names_setup(&x);
	assert_int_equal(bell_init(&bell, NULL), 0);
	names = interp_names_new(&(struct interp_names_options) {
		.procs = x.f.t, .procs_lock = &x.lock, .bell = &bell});
	interp_names_await_round(names, 0);
	assert_int_equal(bell_wait(&bell, -1, 0, 0), BELL_TIME_OVER);
	see(&x, BASE + CODE, check_of_object());
	interp_names_await_round(names, 0);
	assert_int_equal(bell_wait(&bell, -1, 0, 0), BELL_RUNG);
	interp_names_freep(&names);
	bell_done(&bell);
	names_teardown(&x);
}

/* Anything may lie there; whatever is said of it is text. */
static void hostile_bytes(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		const struct proc_code_text *text;
		struct names_fixture x;
		uint64_t id;

		names_setup(&x);
		for (unsigned i = 0; i < 1 + round % 8; i++) {
			seed = seed * 1664525 + 1013904223;
			x.memory.bytes[(seed >> 8) % 0xa00] = (uint8_t)(seed >> 24);
		}
		id = see(&x, BASE + CODE, check_of_object());
		interp_names_round(x.names);
		text = text_of(&x, id);
		if (text) {
			assert_true(strlen(text->name) <= INTERP_MAX_TEXT_BYTES);
			assert_true(text->lines_bytes <= INTERP_MAX_LINES_BYTES);
		}
		names_teardown(&x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_object_says),
		cmocka_unit_test(another_object_lies_there),
		cmocka_unit_test(what_cannot_be_read),
		cmocka_unit_test(a_process_without_a_known_runtime),
		cmocka_unit_test(copies_are_paced),
		cmocka_unit_test(bytes_are_paced),
		cmocka_unit_test(a_process_that_takes_long),
		cmocka_unit_test(a_round_is_asked_for_where_something_waits),
		cmocka_unit_test(hostile_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
