/* SPDX-License-Identifier: Apache-2.0
 *
 * Language runtimes in the process table: which image has one, what a reader is asked, and the rows beside the heads of processes.
 */
#include "exporter/binary/registry.h"
#include "exporter/proc/interp.h"
#include "exporter/proc/process.h"
#include "exporter/proc/runs.h"
#include "tests/unit/proc_fixture.h"

enum { PID = 50, CHILD = 51, N_BUCKETS = 16, N_WORDS = 3000, CODE = 0x1000, LOADED = 0x400000 };
#define PYTHON "/usr/bin/python3"
#define OTHER "/usr/lib/libpython3.12.so"
#define WALKED \
	((const struct interp_process) {.states = {{.by = INTERP_BY_TP, .off = -24}}, .layout = 3})

struct world {
	struct fixture f;
	struct process_bucket buckets[N_BUCKETS];
	struct interp_bucket rows[N_BUCKETS];
	uint64_t words[N_WORDS];
	struct runs *runs;
};

static void world_setup(struct world *w, uint32_t runtimes)
{
	memset(w, 0, sizeof(*w));
	setup(&w->f);
	proc_table_freep(&w->f.t);
	w->runs = runs_new(&(struct runs_memory) {.buckets = w->buckets,
		.n_buckets = N_BUCKETS,
		.words = w->words,
		.n_words = N_WORDS,
		.rows = w->rows});
	w->f.t = proc_table_new(&(struct proc_options) {.max_processes = 100,
		.max_tasks = 100,
		.binaries = w->f.registry,
		.interp = runtimes,
		.runs = w->runs});
}

static void world_teardown(struct world *w)
{
	teardown(&w->f);
	runs_freep(&w->runs);
}

/* What a symbol file of that path would have said. */
static uint32_t know(struct world *w, const char *path, uint32_t minor, uint16_t refusal)
{
	uint32_t id = binary_get(w->f.registry, &(struct binary_identity) {.ino = 5, .path = path});
	struct entry_runtime *e = xcalloc(1, sizeof(*e));

	e->record = (struct runtime_record) {.kind = RUNTIME_PYTHON,
		.version = RUNTIME_VERSION(3, minor, 0),
		.refusal = refusal};
	e->n_code = 1;
	e->code[0] =
		(struct code_pages) {.vaddr = LOADED + CODE, .bytes = 0x10000, .file_off = CODE};
	w->f.registry->entries[id]->runtime = e;
	return id;
}

static struct abi_record sampled(
	struct world *w, uint32_t pid, uint64_t start_ms, uint32_t exec_id, uint64_t at_ms)
{
	struct abi_record r = record(pid, start_ms, exec_id, at_ms);

	(void)proc_table_of_record(w->f.t, &r);
	proc_table_expire(w->f.t, at_ms * MS);
	return r;
}

/* A process that was exec'ed, mapped the file and was sampled. */
static void start(struct world *w, uint32_t pid, const char *path, uint64_t at_ms)
{
	execed(&w->f, pid, "python3", at_ms);
	mapped(&w->f, pid, 0x7f0000001000, 0x10000, CODE, path, at_ms + 1);
	(void)sampled(w, pid, at_ms - 1, 1, at_ms + 10);
}

static struct interp_process *row_of(struct world *w, uint32_t pid)
{
	struct process_bucket *b = &w->buckets[pid % N_BUCKETS];
	uint32_t i = process_find(b, pid);

	if (i == PROCESS_HEADS_PER_BUCKET || !(b->heads[i].flags & PROCESS_INTERP))
		return NULL;
	assert_true(w->rows[pid % N_BUCKETS].rows[i].image == b->heads[i].image);
	return &w->rows[pid % N_BUCKETS].rows[i];
}

static bool next(struct world *w, int64_t now_ns, struct proc_interp_request *ret)
{
	int64_t due_ns;

	return proc_interp_next(w->f.t, now_ns, ret, &due_ns);
}

static uint64_t n_in(struct world *w, enum proc_interp_state state)
{
	struct proc_stats s;

	proc_table_stats(w->f.t, &s);
	return s.interp[RUNTIME_PYTHON][state];
}

static void a_row_stands_beside_its_head(_unused_ void **state)
{
	struct proc_interp_request q;
	struct proc_runtime r;
	struct world w;
	uint32_t id;

	world_setup(&w, 1U << RUNTIME_PYTHON);
	id = know(&w, PYTHON, 12, RUNTIME_NOT_REFUSED);
	start(&w, PID, PYTHON, 1000);
	assert_true(proc_interp_is_asking(w.f.t, 0));
	assert_true(next(&w, 0, &q));
	assert_false(next(&w, 0, &q));
	assert_int_equal(q.pid, PID);
	assert_int_equal(q.runtime.binary, id);
	assert_true(q.runtime.bias == 0x7f0000001000 - (LOADED + CODE));
	assert_false(proc_runtime(q.of, &r));
	assert_null(row_of(&w, PID));
	assert_int_equal(n_in(&w, PROC_INTERP_WAITING), 1);
	proc_interp_walked(w.f.t, &q, &WALKED);
	assert_true(proc_runtime(q.of, &r) && r.bias == q.runtime.bias);
	assert_non_null(row_of(&w, PID));
	assert_int_equal(row_of(&w, PID)->layout, 3);
	assert_int_equal(n_in(&w, PROC_INTERP_WALKED), 1);
	/* A later publication keeps it; an exec ends it. */
	mapped(&w.f, PID, 0x7f0000100000, 0x1000, 0, "/lib/libz.so", 1100);
	proc_table_expire(w.f.t, 1110 * MS);
	assert_non_null(row_of(&w, PID));
	execed(&w.f, PID, "sh", 1200);
	(void)sampled(&w, PID, 999, 2, 1210);
	assert_null(row_of(&w, PID));
	assert_int_equal(n_in(&w, PROC_INTERP_WALKED), 0);
	world_teardown(&w);
}

static void a_file_that_is_known_later(_unused_ void **state)
{
	struct proc_interp_request q;
	struct world w;
	uint32_t id;

	world_setup(&w, 1U << RUNTIME_PYTHON);
	start(&w, PID, PYTHON, 1000);
	assert_false(next(&w, 0, &q));
	id = know(&w, PYTHON, 12, RUNTIME_NOT_REFUSED);
	proc_interp_settled(w.f.t, id);
	assert_true(next(&w, 0, &q)); /* at once, without another sample */
	proc_interp_walked(w.f.t, &q, &WALKED);
	assert_non_null(row_of(&w, PID));
	world_teardown(&w);
}

static void what_has_not_come_so_far_is_asked_again(_unused_ void **state)
{
	struct proc_interp_request q;
	struct world w;
	int64_t due_ns;

	world_setup(&w, 1U << RUNTIME_PYTHON);
	know(&w, PYTHON, 12, RUNTIME_NOT_REFUSED);
	start(&w, PID, PYTHON, 1000);
	assert_true(next(&w, 0, &q));
	assert_int_equal(q.tries, 0);
	proc_interp_later(w.f.t, &q, 500);
	assert_false(proc_interp_is_asking(w.f.t, 499));
	assert_false(proc_interp_next(w.f.t, 499, &q, &due_ns));
	assert_int_equal(due_ns, 500);
	assert_true(next(&w, 500, &q));
	assert_int_equal(q.tries, 1);
	/* It execs another program meanwhile: the answer says nothing of that. */
	execed(&w.f, PID, "sh", 1100);
	proc_interp_walked(w.f.t, &q, &WALKED);
	(void)sampled(&w, PID, 999, 2, 1110);
	assert_null(row_of(&w, PID));
	assert_false(next(&w, INT64_MAX, &q));
	world_teardown(&w);
}

static void children_have_what_their_parent_has(_unused_ void **state)
{
	struct proc_interp_request q;
	struct world w;

	world_setup(&w, 1U << RUNTIME_PYTHON);
	know(&w, PYTHON, 12, RUNTIME_NOT_REFUSED);
	start(&w, PID, PYTHON, 1000);
	assert_true(next(&w, 0, &q));
	proc_interp_walked(w.f.t, &q, &WALKED);
	forked(&w.f, PID, CHILD, 1100);
	(void)sampled(&w, CHILD, 1099, 1, 1110);
	assert_false(next(&w, 0, &q));
	assert_non_null(row_of(&w, CHILD));
	assert_int_equal(row_of(&w, CHILD)->layout, 3);
	assert_int_equal(n_in(&w, PROC_INTERP_WALKED), 2);
	world_teardown(&w);
}

static void refusals_are_counted_and_said_once(_unused_ void **state)
{
	struct proc_interp_binary said, rows[4];
	struct proc_interp_request q;
	struct proc_stats s;
	struct world w;
	uint32_t id, other;

	world_setup(&w, 1U << RUNTIME_PYTHON);
	id = know(&w, PYTHON, 99, RUNTIME_UNKNOWN_VERSION);
	for (uint32_t i = 0; i < 3; i++)
		start(&w, PID + i, PYTHON, 1000 + 100 * i);
	assert_false(next(&w, 0, &q));
	assert_null(row_of(&w, PID));
	proc_table_stats(w.f.t, &s);
	assert_int_equal(s.interp_refused[RUNTIME_PYTHON][RUNTIME_UNKNOWN_VERSION], 3);
	assert_int_equal(s.interp[RUNTIME_PYTHON][PROC_INTERP_REFUSED], 3);
	assert_true(proc_interp_is_asking(w.f.t, 0)); /* for the log */
	assert_true(proc_interp_next_refused(w.f.t, &said));
	assert_int_equal(said.binary, id);
	assert_int_equal(said.refusal, RUNTIME_UNKNOWN_VERSION);
	assert_false(proc_interp_next_refused(w.f.t, &said));
	assert_int_equal(proc_interp_binaries(w.f.t, rows, ARRAY_SIZE(rows)), 1);
	assert_int_equal(rows[0].n[PROC_INTERP_REFUSED], 3);
	assert_int_equal(rows[0].refusal, RUNTIME_UNKNOWN_VERSION);
	/* the same file by another id, as it turns out when it is read */
	other = binary_get(w.f.registry, &(struct binary_identity) {.ino = 5, .path = OTHER});
	assert_int_not_equal(other, id);
	start(&w, PID + 3, OTHER, 1300);
	w.f.registry->entries[other]->alias = id;
	proc_interp_settled(w.f.t, other);
	proc_table_stats(w.f.t, &s);
	assert_int_equal(s.interp_refused[RUNTIME_PYTHON][RUNTIME_UNKNOWN_VERSION], 4);
	assert_false(proc_interp_next_refused(w.f.t, &said));
	world_teardown(&w);
}

static void a_process_has_one_runtime(_unused_ void **state)
{
	struct proc_interp_binary rows[4];
	struct proc_interp_request q;
	struct proc_stats s;
	struct world w;

	world_setup(&w, 1U << RUNTIME_PYTHON);
	know(&w, PYTHON, 11, RUNTIME_NOT_REFUSED);
	know(&w, OTHER, 12, RUNTIME_NOT_REFUSED);
	start(&w, PID, PYTHON, 1000);
	mapped(&w.f, PID, 0x7f0000101000, 0x10000, CODE, OTHER, 1100);
	mapped(&w.f, PID, 0x7f0000201000, 0x10000, CODE, OTHER, 1101);
	assert_true(next(&w, 0, &q));
	assert_int_equal(RUNTIME_MINOR(q.runtime.version), 11);
	proc_interp_walked(w.f.t, &q, &WALKED);
	assert_false(next(&w, 0, &q));
	proc_table_stats(w.f.t, &s);
	assert_int_equal(s.interp_refused[RUNTIME_PYTHON][INTERP_REFUSED_SECOND], 1);
	assert_int_equal(proc_interp_binaries(w.f.t, rows, ARRAY_SIZE(rows)), 2);
	world_teardown(&w);
}

/* As a library that holds a runtime nobody can read, which comes before or after the one that runs the program. */
static void one_that_is_refused_is_in_nobodys_way(_unused_ void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct proc_interp_request q;
		struct world w;

		world_setup(&w, 1U << RUNTIME_PYTHON);
		know(&w, i ? OTHER : PYTHON, 11, RUNTIME_NOT_REFUSED);
		know(&w, i ? PYTHON : OTHER, 99, RUNTIME_UNKNOWN_VERSION);
		start(&w, PID, PYTHON, 1000);
		mapped(&w.f, PID, 0x7f0000101000, 0x10000, CODE, OTHER, 1100);
		(void)sampled(&w, PID, 999, 1, 1110);
		assert_true(next(&w, 0, &q));
		assert_int_equal(RUNTIME_MINOR(q.runtime.version), 11);
		proc_interp_walked(w.f.t, &q, &WALKED);
		assert_non_null(row_of(&w, PID));
		/* The process itself was refused: its file comes again. */
		start(&w, PID + 1, i ? OTHER : PYTHON, 1200);
		assert_true(next(&w, 0, &q));
		proc_interp_refused(w.f.t, &q, INTERP_REFUSED_UNLIKE);
		mapped(&w.f, PID + 1, 0x7f0000301000, 0x10000, CODE, i ? OTHER : PYTHON, 1300);
		(void)sampled(&w, PID + 1, 1199, 1, 1310);
		assert_false(next(&w, 0, &q));
		world_teardown(&w);
	}
}

static void runtimes_that_are_left_out(_unused_ void **state)
{
	struct proc_interp_request q;
	struct world w;

	world_setup(&w, 0);
	know(&w, PYTHON, 12, RUNTIME_NOT_REFUSED);
	start(&w, PID, PYTHON, 1000);
	assert_false(proc_interp_is_asking(w.f.t, INT64_MAX));
	assert_false(next(&w, INT64_MAX, &q));
	assert_int_equal(n_in(&w, PROC_INTERP_WAITING), 0);
	world_teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_stands_beside_its_head),
		cmocka_unit_test(a_file_that_is_known_later),
		cmocka_unit_test(what_has_not_come_so_far_is_asked_again),
		cmocka_unit_test(children_have_what_their_parent_has),
		cmocka_unit_test(refusals_are_counted_and_said_once),
		cmocka_unit_test(a_process_has_one_runtime),
		cmocka_unit_test(one_that_is_refused_is_in_nobodys_way),
		cmocka_unit_test(runtimes_that_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
