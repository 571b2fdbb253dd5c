/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects of language runtimes in the process table: which object a sample means, what children have from their parents, what stays when
 * the stack tree is rebuilt, and the caps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/proc/code_objects.h"
#include "exporter/proc/table.h"
#include "tests/unit/proc_fixture.h"

enum { OBJECT = 0x7f0011223340 };

static struct abi_code code_of(const struct abi_record *r, uint64_t object, uint64_t check)
{
	return (struct abi_code) {.type = ABI_RECORD_CODE,
		.time_ns = r->time_ns,
		.start_ns = r->start_ns,
		.pid = r->pid,
		.exec_id = r->exec_id,
		.object = object >> ABI_INTERP_ADDRESS_SHIFT,
		.check = check};
}

static void seen(struct fixture *f, struct process *p, const struct abi_record *r, uint64_t object,
	uint64_t check)
{
	struct abi_code c = code_of(r, object, check);

	proc_object_seen(f->t, p, &c);
}

static uint64_t id_at(struct fixture *f, struct process *p, uint64_t object, uint64_t at_ms)
{
	uint64_t word = proc_object_word(
		f->t, p, ABI_INTERP(object >> ABI_INTERP_ADDRESS_SHIFT, 17), at_ms * MS);

	assert_int_equal(ABI_FRAME_KIND(word), ABI_FRAME_INTERP);
	if (ABI_INTERP_OBJECT(word))
		assert_int_equal(ABI_INTERP_POSITION(word), 17);
	return ABI_INTERP_OBJECT(word);
}

/* Answers all that wait with that name and returns how many. */
static size_t name_all(
	struct fixture *f, const char *name, enum proc_object_answer expected, uint64_t now_ms)
{
	const struct proc_code_text text = {.name = name,
		.raw = name,
		.file = "/srv/a.py",
		.first_line = 7,
		.lines = (const uint8_t *)"lines",
		.lines_bytes = 5};
	struct proc_code_batch b;
	size_t n;

	proc_code_take(f->t, PROC_CODE_OBJECTS, 1000, &b);
	for (size_t i = 0; i < b.n_addresses; i++)
		assert_int_equal(proc_object_answer(f->t, &b, &b.addresses[i], PROC_OBJECT_NAMED,
					 &text, now_ms * MS),
			expected);
	n = b.n_addresses;
	proc_code_batch_done(&b);
	return n;
}

static const char *name_of(struct fixture *f, uint64_t id)
{
	struct proc_object o = proc_object_of(f->t, id);

	return o.text ? o.text->name : "";
}

static struct process *process_at(
	struct fixture *f, uint32_t pid, uint64_t start_ms, struct abi_record *ret)
{
	*ret = record(pid, start_ms, 0, 1000100);
	return proc_table_of_record(f->t, ret);
}

static void another_object_is_another_id(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct process *p;
	uint64_t first, second;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	assert_int_equal(id_at(&f, p, OBJECT, 1000100), 0); /* nobody has described it */
	seen(&f, p, &r, OBJECT, 5);
	first = id_at(&f, p, OBJECT, 1000100);
	assert_int_not_equal(first, 0);
	assert_int_equal(name_all(&f, "first", PROC_OBJECT_NAMED, 1000101), 1);
	/* the same once more */
	r.time_ns = 1000200 * MS;
	seen(&f, p, &r, OBJECT, 5);
	assert_int_equal(id_at(&f, p, OBJECT, 1000200), first);
	assert_int_equal(name_all(&f, "", PROC_OBJECT_REFUSED, 0), 0);
	r.time_ns = 1000300 * MS;
	seen(&f, p, &r, OBJECT, 6);
	second = id_at(&f, p, OBJECT, 1000300);
	assert_int_not_equal(second, first);
	assert_int_not_equal(second, 0);
	assert_string_equal(name_of(&f, second), "");
	assert_string_equal(name_of(&f, first), "first");
	/* samples that waited for something are of their time */
	assert_int_equal(id_at(&f, p, OBJECT, 1000299), first);
	assert_int_equal(id_at(&f, p, OBJECT, 1000089), 0);
	/* what comes late was there before, or was the same before */
	r.time_ns = 1000250 * MS;
	seen(&f, p, &r, OBJECT, 4);
	assert_int_not_equal(id_at(&f, p, OBJECT, 1000299), first);
	assert_int_not_equal(id_at(&f, p, OBJECT, 1000299), second);
	assert_int_equal(id_at(&f, p, OBJECT, 1000249), first);
	assert_int_equal(id_at(&f, p, OBJECT, 1000300), second);
	r.time_ns = 1000260 * MS;
	seen(&f, p, &r, OBJECT, 6);
	assert_int_equal(id_at(&f, p, OBJECT, 1000299), second);
	/* an address of JIT code is another id, though it is the same address */
	assert_int_not_equal(ABI_FRAME_VALUE(proc_resolve(f.t, p, OBJECT, 1000300 * MS)), second);
	assert_null(proc_interned_address(f.t, second).process);
	teardown(&f);
}

/* Two CPUs see a new object, and the one that was later by a little tells of it. */
static void a_sample_just_before_the_record(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct process *p;
	uint64_t first, second;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, OBJECT, 5);
	r.time_ns = 1000105 * MS;
	seen(&f, p, &r, OBJECT, 6);
	first = id_at(&f, p, OBJECT, 1000104);
	second = id_at(&f, p, OBJECT, 1000105);
	assert_int_not_equal(first, second);
	/* the oldest one, if it began soon after */
	assert_int_equal(id_at(&f, p, OBJECT, 1000099), first);
	assert_int_equal(id_at(&f, p, OBJECT, 1000090), first);
	assert_int_equal(id_at(&f, p, OBJECT, 1000089), 0);
	/* a record of that time is of another object, unless it says the same */
	r.time_ns = 1000098 * MS;
	seen(&f, p, &r, OBJECT, 7);
	assert_int_not_equal(id_at(&f, p, OBJECT, 1000099), first);
	assert_int_equal(id_at(&f, p, OBJECT, 1000100), first);
	teardown(&f);
}

static void processes_have_their_own(void **state)
{
	struct fixture f;
	struct abi_record ra, rb;
	struct process *a, *b;

	(void)state;
	setup(&f);
	a = process_at(&f, 10, 1000000, &ra);
	b = process_at(&f, 11, 1000000, &rb);
	seen(&f, a, &ra, OBJECT, 5);
	assert_int_equal(name_all(&f, "of a", PROC_OBJECT_NAMED, 1000101), 1);
	assert_int_equal(id_at(&f, b, OBJECT, 1000100), 0);
	seen(&f, b, &rb, OBJECT, 5);
	assert_int_not_equal(id_at(&f, b, OBJECT, 1000100), id_at(&f, a, OBJECT, 1000100));
	assert_string_equal(name_of(&f, id_at(&f, b, OBJECT, 1000100)), "");
	/* equal texts are stored once */
	assert_int_equal(name_all(&f, "of a", PROC_OBJECT_NAMED, 1000102), 1);
	assert_ptr_equal(proc_object_of(f.t, id_at(&f, a, OBJECT, 1000100)).text,
		proc_object_of(f.t, id_at(&f, b, OBJECT, 1000100)).text);
	teardown(&f);
}

static void children_have_what_their_parent_had(void **state)
{
	static const struct {
		uint64_t named_ms, check;
		bool has_exec, inherits;
	} cases[] = {
		{1000110, 5, false, true},
		{1000310, 5, false, false}, /* read after the fork: it may be another one by then */
		{1000110, 6, false, false}, /* the child has put another one there */
		{1000110, 5, true, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct abi_record r, child = record(20, 1000200, cases[i].has_exec, 1000300);
		struct fixture f;
		struct process *p;

		setup(&f);
		p = process_at(&f, 10, 1000000, &r);
		seen(&f, p, &r, OBJECT, 5);
		if (cases[i].named_ms < 1000200)
			name_all(&f, "parent's", PROC_OBJECT_NAMED, cases[i].named_ms);
		forked(&f, 10, 20, 1000200);
		if (cases[i].has_exec)
			execed(&f, 20, "other", 1000250);
		name_all(&f, "parent's", PROC_OBJECT_NAMED, cases[i].named_ms);
		p = proc_table_of_record(f.t, &child);
		seen(&f, p, &child, OBJECT, cases[i].check);
		assert_string_equal(name_of(&f, id_at(&f, p, OBJECT, 1000300)),
			cases[i].inherits ? "parent's" : "");
		assert_int_equal(proc_code_is_waiting(f.t, PROC_CODE_OBJECTS), !cases[i].inherits);
		teardown(&f);
	}
}

/* Nothing in the log has it any more. The kernel half may not tell of it again for a while, so that it stays, without its text. */
static void objects_stay_with_their_process(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct proc_stats stats;
	struct process *p;
	uint64_t old, id, none[2] = {0};

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, OBJECT, 5);
	old = id_at(&f, p, OBJECT, 1000100);
	assert_int_equal(name_all(&f, "old", PROC_OBJECT_NAMED, 1000101), 1);
	r.time_ns += 20 * MS;
	seen(&f, p, &r, OBJECT, 6);
	id = id_at(&f, p, OBJECT, 1000120);
	assert_int_equal(name_all(&f, "new", PROC_OBJECT_NAMED, 1000121), 1);
	proc_addresses_retain(f.t, (uint64_t[]) {1ULL << id | 1ULL << old, 0});
	assert_string_equal(name_of(&f, id), "new");
	assert_string_equal(name_of(&f, old), "old");
	proc_addresses_retain(f.t, none);
	assert_int_equal(id_at(&f, p, OBJECT, 1000122), id);
	assert_int_equal(id_at(&f, p, OBJECT, 1000100), 0); /* no sample can mean it any more */
	assert_string_equal(name_of(&f, id), "");
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.text_bytes, 0);
	/* met again, it is read again */
	assert_int_equal(name_all(&f, "new", PROC_OBJECT_NAMED, 1000123), 1);
	assert_string_equal(name_of(&f, id), "new");
	/* until its process has ended */
	exited(&f, 10, 1000200);
	proc_addresses_retain(f.t, none);
	assert_int_equal(id_at(&f, p, OBJECT, 1000122), 0);
	assert_null(proc_object_of(f.t, id).process);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.text_bytes, 0);
	assert_int_equal(stats.addresses, 0);
	/* an id that waited as an object and is JIT code's by now waits as that */
	r = record(11, 1000000, 0, 1000300);
	p = proc_table_of_record(f.t, &r);
	seen(&f, p, &r, OBJECT, 5);
	exited(&f, 11, 1000300);
	proc_addresses_retain(f.t, none);
	r = record(12, 1000000, 0, 1000300);
	p = proc_table_of_record(f.t, &r);
	assert_int_not_equal(proc_resolve(f.t, p, OBJECT, 1000300 * MS), 0);
	assert_true(proc_code_is_waiting(f.t, PROC_CODE_JIT));
	assert_int_equal(name_all(&f, "no object", PROC_OBJECT_NAMED, 1000301), 0);
	teardown(&f);
}

/* Then the kernel half tells of it again before it is sampled, so that an address of a process that lives long is not taken for good. */
static void objects_go_when_not_told_of(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct proc_stats stats;
	struct process *p;
	uint64_t id, none[2] = {0};

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, OBJECT, 5);
	id = id_at(&f, p, OBJECT, 1000100);
	assert_int_equal(name_all(&f, "name", PROC_OBJECT_NAMED, 1000101), 1);
	/* told of again, and late of what was known */
	r.time_ns = 1030100 * MS;
	seen(&f, p, &r, OBJECT, 5);
	r.time_ns = 1020100 * MS;
	seen(&f, p, &r, OBJECT, 5);
	r.time_ns = 1090099 * MS;
	assert_ptr_equal(proc_table_of_record(f.t, &r), p);
	proc_addresses_retain(f.t, none);
	assert_int_equal(id_at(&f, p, OBJECT, 1090099), id);
	assert_string_equal(name_of(&f, id), "");
	assert_int_equal(name_all(&f, "name", PROC_OBJECT_NAMED, 1090099), 1);
	r.time_ns = 1090101 * MS;
	assert_ptr_equal(proc_table_of_record(f.t, &r), p);
	/* what is in use stays */
	proc_addresses_retain(f.t, (uint64_t[]) {1ULL << id, 0});
	assert_string_equal(name_of(&f, id), "name");
	proc_addresses_retain(f.t, none);
	assert_null(proc_object_of(f.t, id).process);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.addresses, 0);
	assert_int_equal(stats.text_bytes, 0);
	seen(&f, p, &r, OBJECT, 5);
	assert_int_not_equal(id_at(&f, p, OBJECT, 1090101), 0);
	assert_int_equal(name_all(&f, "name", PROC_OBJECT_NAMED, 1090102), 1);
	teardown(&f);
}

static void a_process_has_so_many(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct proc_stats stats;
	struct process *p;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	for (uint64_t i = 0; i < PROC_ADDRESSES_PER_PROCESS + 3; i++)
		seen(&f, p, &r, OBJECT + i * 16, i);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.addresses_full, 3);
	assert_int_equal(id_at(&f, p, OBJECT + PROC_ADDRESSES_PER_PROCESS * 16ULL, 1000100), 0);
	assert_int_not_equal(id_at(&f, p, OBJECT, 1000100), 0);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.objects_unknown, 1);
	/* that of all processes above the cap has none */
	seen(&f, f.t->other, &r, OBJECT, 5);
	assert_int_equal(id_at(&f, f.t->other, OBJECT, 1000100), 0);
	teardown(&f);
}

static void texts_have_a_budget(void **state)
{
	struct budget budget;
	struct fixture f;
	struct abi_record r;
	struct process *p;
	char name[600];
	uint64_t id, hot;

	(void)state;
	setup(&f);
	budget_init(&budget, NULL, "interp", NULL, 2000);
	f.t->o.text_budget = &budget;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, OBJECT, 5);
	assert_int_equal(name_all(&f, name, PROC_OBJECT_NAMED, 1000101), 1);
	name[0] = 'y';
	seen(&f, p, &r, OBJECT + 16, 5);
	assert_int_equal(name_all(&f, name, PROC_OBJECT_NO_ROOM, 1000101), 1);
	assert_int_not_equal(id_at(&f, p, OBJECT + 16, 1000100), 0);
	assert_int_equal(name_all(&f, "", PROC_OBJECT_REFUSED, 0), 0);
	/* when others went it is tried again */
	proc_addresses_retain(f.t, (uint64_t[]) {0, 0});
	id = id_at(&f, p, OBJECT + 16, 1000100);
	assert_int_not_equal(id, 0);
	assert_int_equal(name_all(&f, name, PROC_OBJECT_NAMED, 1000101), 1);
	/* also what is in use all the time */
	name[0] = 'x';
	seen(&f, p, &r, OBJECT + 32, 5);
	hot = id_at(&f, p, OBJECT + 32, 1000100);
	assert_int_equal(name_all(&f, name, PROC_OBJECT_NO_ROOM, 1000102), 1);
	proc_addresses_retain(f.t, (uint64_t[]) {1ULL << id | 1ULL << hot, 0});
	assert_int_equal(id_at(&f, p, OBJECT + 32, 1000100), hot);
	assert_int_equal(name_all(&f, name, PROC_OBJECT_NO_ROOM, 1000103), 1);
	proc_addresses_retain(f.t, (uint64_t[]) {1ULL << hot, 0});
	assert_int_equal(id_at(&f, p, OBJECT + 32, 1000100), hot);
	assert_int_equal(name_all(&f, name, PROC_OBJECT_NAMED, 1000104), 1);
	assert_string_equal(name_of(&f, hot), name);
	teardown(&f);
	assert_int_equal(budget.used_bytes, 0);
}

/* One process makes objects faster than they are named. */
static void others_have_their_share(void **state)
{
	enum { MANY = 50, MAX = 20 };
	struct fixture f;
	struct abi_record r[3];
	struct process *p[3];
	struct proc_code_batch b;
	size_t n[3] = {0};

	(void)state;
	setup(&f);
	for (unsigned i = 0; i < 3; i++)
		p[i] = process_at(&f, 10 + i, 1000000, &r[i]);
	for (unsigned i = 0; i < 3; i++)
		seen(&f, p[1], &r[1], OBJECT + i * 16, 5);
	for (unsigned i = 0; i < MANY; i++)
		seen(&f, p[2], &r[2], OBJECT + i * 16, 5);
	for (unsigned i = 0; i < MANY; i++)
		seen(&f, p[0], &r[0], OBJECT + i * 16, 5);
	proc_code_take(f.t, PROC_CODE_OBJECTS, MAX, &b);
	assert_int_equal(b.n_addresses, MAX);
	assert_int_equal(b.n_processes, 3);
	for (size_t i = 0; i < b.n_addresses; i++) {
		const struct proc_code_address *a = &b.addresses[i];
		uint32_t pid = b.processes[a->process].pid;

		n[pid - 10]++;
		/* the newest of it */
		if (pid == 12)
			assert_in_range(a->addr, OBJECT + (MANY - MAX / 4) * 16ULL, UINT64_MAX);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(a->id, b.addresses[k].id);
	}
	/* what nobody else wants goes to the newest again */
	assert_int_equal(n[0], MAX - MAX / 4 - 3);
	assert_int_equal(n[1], 3);
	assert_int_equal(n[2], MAX / 4);
	proc_code_batch_done(&b);
	/* of fewer than four places too */
	proc_code_take(f.t, PROC_CODE_OBJECTS, 2, &b);
	assert_int_equal(b.n_processes, 2);
	proc_code_batch_done(&b);
	proc_code_take(f.t, PROC_CODE_OBJECTS, 1000, &b);
	assert_int_equal(b.n_addresses, 2 * MANY + 3);
	proc_code_batch_done(&b);
	teardown(&f);
}

static void readings_that_fail(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct proc_code_batch b;
	struct process *p;
	unsigned tries = 0;
	uint64_t now_ns = 1000101 * MS;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, OBJECT, 5);
	proc_code_take(f.t, PROC_CODE_OBJECTS, 10, &b);
	assert_int_equal(b.n_addresses, 1);
	assert_int_equal(b.addresses[0].addr, OBJECT);
	assert_int_equal(b.addresses[0].check, 5);
	for (;; now_ns += PROC_OBJECT_TRY_NS) {
		tries++;
		if (proc_object_answer(f.t, &b, b.addresses, PROC_OBJECT_LATER, NULL, now_ns) !=
			PROC_OBJECT_LATER)
			break;
		/* soon after it does not count */
		for (unsigned i = 0; i < PROC_OBJECT_TRIES; i++)
			assert_int_equal(proc_object_answer(f.t, &b, b.addresses, PROC_OBJECT_LATER,
						 NULL, now_ns + i),
				PROC_OBJECT_LATER);
		/* nor what says nothing of it */
		for (unsigned i = 0; i < PROC_OBJECT_TRIES; i++)
			assert_int_equal(
				proc_object_answer(f.t, &b, b.addresses, PROC_OBJECT_UNTRIED, NULL,
					now_ns + i * PROC_OBJECT_TRY_NS),
				PROC_OBJECT_LATER);
	}
	assert_int_equal(tries, PROC_OBJECT_TRIES);
	/* settled: neither another answer nor a sample makes it wait again */
	assert_int_equal(proc_object_answer(f.t, &b, b.addresses, PROC_OBJECT_LATER, NULL, now_ns),
		PROC_OBJECT_REFUSED);
	id_at(&f, p, OBJECT, 1000100);
	proc_code_batch_done(&b);
	proc_code_take(f.t, PROC_CODE_OBJECTS, 10, &b);
	assert_int_equal(b.n_addresses, 0);
	proc_code_batch_done(&b);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_object_is_another_id),
		cmocka_unit_test(a_sample_just_before_the_record),
		cmocka_unit_test(processes_have_their_own),
		cmocka_unit_test(children_have_what_their_parent_had),
		cmocka_unit_test(objects_stay_with_their_process),
		cmocka_unit_test(objects_go_when_not_told_of),
		cmocka_unit_test(a_process_has_so_many),
		cmocka_unit_test(texts_have_a_budget),
		cmocka_unit_test(others_have_their_share),
		cmocka_unit_test(readings_that_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
