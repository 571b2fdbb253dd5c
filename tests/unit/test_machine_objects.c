/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code that a runtime made, in the process table: which object a word of a sample means, apart from code objects and from JIT code
 * that nobody describes; what children have; what stays; texts of several frames.
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

enum { RETURN = ABI_CODE_MACHINE, EXACT = ABI_CODE_MACHINE | ABI_CODE_EXACT };
#define CODE 0x7f0011223345ULL /* no multiple of anything */

static void seen(struct fixture *f, struct process *p, const struct abi_record *r, uint16_t flags,
	uint64_t object, uint64_t check)
{
	const struct abi_code c = {.type = ABI_RECORD_CODE,
		.flags = flags,
		.time_ns = r->time_ns,
		.start_ns = r->start_ns,
		.pid = r->pid,
		.exec_id = r->exec_id,
		.object = object,
		.check = check};

	proc_object_seen(f->t, p, &c);
}

static struct process *process_at(
	struct fixture *f, uint32_t pid, uint64_t start_ms, struct abi_record *ret)
{
	*ret = record(pid, start_ms, 0, 1000100);
	return proc_table_of_record(f->t, ret);
}

/* 0: JIT code like any other. */
static uint64_t id_at(
	struct fixture *f, struct process *p, uint64_t next, bool is_leaf, uint64_t at_ms)
{
	uint64_t word = proc_machine_word(f->t, p, next, is_leaf, at_ms * MS);

	if (!word)
		return 0;
	assert_int_equal(ABI_FRAME_KIND(word), ABI_FRAME_INTERP);
	assert_int_equal(ABI_INTERP_POSITION(word), ABI_INTERP_BEYOND);
	assert_int_not_equal(ABI_INTERP_OBJECT(word), 0);
	return ABI_INTERP_OBJECT(word);
}

/* Answers all that wait with these frames; how many. */
static size_t name_all(struct fixture *f, const struct interp_frame *frames, size_t n_frames,
	enum proc_object_answer expected)
{
	const struct proc_code_text text = {
		.name = "", .raw = "", .file = "", .frames = frames, .n_frames = n_frames};
	struct proc_code_batch b;
	size_t n;

	proc_code_take(f->t, PROC_CODE_OBJECTS, 1000, &b);
	for (size_t i = 0; i < b.n_addresses; i++)
		assert_int_equal(proc_object_answer(f->t, &b, &b.addresses[i], PROC_OBJECT_NAMED,
					 &text, 1000101 * MS),
			expected);
	n = b.n_addresses;
	proc_code_batch_done(&b);
	return n;
}

static const struct proc_code_text *text_at(
	struct fixture *f, struct process *p, uint64_t next, uint64_t at_ms)
{
	return proc_object_of(f->t, id_at(f, p, next, false, at_ms)).text;
}

static void each_kind_is_an_object_of_its_own(void **state)
{
	struct fixture f;
	struct abi_record r;
	struct proc_code_batch b;
	struct process *p, *other;
	uint64_t exact, back, object;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	other = process_at(&f, 11, 1000000, &r);
	p->has_objects = false;
	assert_int_equal(id_at(&f, p, CODE, true, 1000100), 0);
	seen(&f, p, &r, 0, CODE >> ABI_INTERP_ADDRESS_SHIFT, 5);
	assert_int_equal(p->n_machine, 0);
	seen(&f, p, &r, EXACT, CODE, 5);
	assert_int_equal(id_at(&f, p, CODE, false, 1000100), id_at(&f, p, CODE, true, 1000100));
	seen(&f, p, &r, RETURN, CODE, 6);
	assert_int_equal(p->n_machine, 2);
	exact = id_at(&f, p, CODE, true, 1000100);
	back = id_at(&f, p, CODE, false, 1000100);
	object = ABI_INTERP_OBJECT(proc_object_word(
		f.t, p, ABI_INTERP(CODE >> ABI_INTERP_ADDRESS_SHIFT, 1), 1000100 * MS));
	assert_int_not_equal(exact, 0);
	assert_int_not_equal(back, 0);
	assert_int_not_equal(object, 0);
	assert_int_not_equal(exact, back);
	assert_int_not_equal(exact, object);
	assert_int_not_equal(back, object);
	assert_true(p->has_objects);
	/* neither of another process, nor beside it, nor an interned address of JIT code */
	assert_int_equal(id_at(&f, other, CODE, true, 1000100), 0);
	assert_int_equal(id_at(&f, p, CODE + 1, true, 1000100), 0);
	assert_null(proc_interned_address(f.t, exact).process);
	/* readers get the address, what the frame runs, and which kind it is */
	proc_code_take(f.t, PROC_CODE_OBJECTS, 10, &b);
	assert_int_equal(b.n_addresses, 3);
	for (size_t i = 0; i < b.n_addresses; i++) {
		const struct proc_code_address *a = &b.addresses[i];

		assert_int_equal(a->flags, a->id == exact ? EXACT : a->id == back ? RETURN : 0);
		assert_int_equal(a->addr, a->id == object ? CODE & ~7ULL : CODE);
		assert_int_equal(a->check, a->id == back ? 6 : 5);
	}
	proc_code_batch_done(&b);
	/* what no record of machine code has is no part of a key, nor are bits that no word has */
	seen(&f, p, &r, EXACT | 0x100, CODE | 0xfULL << 60, 5);
	seen(&f, p, &r, ABI_CODE_EXACT, CODE >> ABI_INTERP_ADDRESS_SHIFT, 5);
	assert_int_equal(p->n_machine, 2);
	assert_int_equal(p->n_addresses, 3);
	teardown(&f);
}

/* As the label of a task has it. */
static void the_language_is_known(void **state)
{
	struct proc_task_info info;
	struct fixture f;
	struct abi_record r;
	struct process *p;
	uint32_t task;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	task = proc_task_of_record(f.t, p, &r);
	p->interp = xcalloc(1, sizeof(*p->interp));
	p->interp->state = PROC_INTERP_WALKED;
	p->interp->runtime = (struct proc_runtime) {.kind = RUNTIME_V8};
	seen(&f, p, &r, EXACT, CODE, 5);
	proc_task_info(f.t, task, &info);
	assert_string_equal(info.language, "");
	assert_int_equal(proc_object_of(f.t, id_at(&f, p, CODE, true, 1000100)).kind, RUNTIME_V8);
	proc_task_info(f.t, task, &info);
	assert_string_equal(info.language, "javascript");
	teardown(&f);
}

/* Each sample has that of its time, like code objects. */
static void other_code_lies_there(void **state)
{
	static const struct interp_frame old = {"old", "old", "/srv/a.js", 3, 1},
					 new = {"new", "new", "/srv/a.js", 30, 10};
	struct fixture f;
	struct abi_record r;
	struct process *p;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, RETURN, CODE, 5);
	assert_int_equal(name_all(&f, &old, 1, PROC_OBJECT_NAMED), 1);
	r.time_ns = 1000200 * MS;
	seen(&f, p, &r, RETURN, CODE, 5); /* told again */
	assert_int_equal(name_all(&f, &new, 1, PROC_OBJECT_NAMED), 0);
	r.time_ns = 1000300 * MS;
	seen(&f, p, &r, RETURN, CODE, 6);
	assert_int_equal(name_all(&f, &new, 1, PROC_OBJECT_NAMED), 1);
	assert_string_equal(text_at(&f, p, CODE, 1000100)->frames[0].name, "old");
	assert_string_equal(text_at(&f, p, CODE, 1000299)->frames[0].name, "old");
	assert_string_equal(text_at(&f, p, CODE, 1000300)->frames[0].name, "new");
	/* a sample of another CPU may be older by a little than the first record, not by more */
	assert_int_not_equal(id_at(&f, p, CODE, false, 1000090), 0);
	assert_int_equal(id_at(&f, p, CODE, false, 1000089), 0);
	teardown(&f);
}

/* A function may have been compiled again to the same place: what is told again after its time is read again. */
static void told_again_after_its_time(void **state)
{
	static const struct interp_frame old = {"f", "f", "/srv/a.js", 3, 1},
					 new[] = {{"inlined", "inlined", "/srv/a.js", 9, 8},
						 {"f", "f", "/srv/a.js", 4, 1}};
	struct fixture f;
	struct abi_record r;
	struct process *p;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, RETURN, CODE, 5);
	assert_int_equal(name_all(&f, &old, 1, PROC_OBJECT_NAMED), 1);
	r.time_ns += ABI_CODE_AGAIN_NS - 1;
	seen(&f, p, &r, RETURN, CODE, 5);
	assert_int_equal(name_all(&f, new, 2, PROC_OBJECT_NAMED), 0);
	r.time_ns += 1;
	seen(&f, p, &r, RETURN, CODE, 5);
	assert_int_equal(name_all(&f, new, 2, PROC_OBJECT_NAMED), 1);
	assert_int_equal(text_at(&f, p, CODE, r.time_ns / MS - 1)->n_frames, 1);
	assert_int_equal(text_at(&f, p, CODE, r.time_ns / MS)->n_frames, 2);
	teardown(&f);
}

/* It may be another runtime's, which names it by other means. */
static void what_the_runtime_does_not_describe(void **state)
{
	struct proc_code_batch b;
	struct fixture f;
	struct abi_record r;
	struct process *p;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, RETURN, CODE, 0);
	assert_int_not_equal(id_at(&f, p, CODE, false, 1000100), 0);
	proc_code_take(f.t, PROC_CODE_OBJECTS, 10, &b);
	assert_int_equal(b.n_addresses, 1);
	assert_int_equal(
		proc_object_answer(f.t, &b, b.addresses, PROC_OBJECT_REFUSED, NULL, 1000101 * MS),
		PROC_OBJECT_REFUSED);
	proc_code_batch_done(&b);
	assert_int_equal(id_at(&f, p, CODE, false, 1000100), 0);
	teardown(&f);
}

/* Where words of a sample are leaves, return addresses, and what a signal has interrupted. */
static void words_of_a_sample(void **state)
{
	static const struct {
		uint16_t flags; /* of the record */
		uint64_t told;	/* less CODE */
		int expected[3];
	} cases[] = {
		{EXACT, 1, {EXACT, 0, 0}},
		{EXACT, 0, {0, EXACT, EXACT}},
		{RETURN, 0, {0, RETURN, RETURN}},
		{RETURN, 1, {0, 0, 0}},
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		/* As the walker has them: the leaf's word is its address, unless it waits in a system call. */
		bool is_waiting = i % 2;
		struct {
			struct abi_record r;
			uint64_t frames[3];
		} sample = {
			.frames = {ABI_FRAME(ABI_FRAME_JIT, CODE), ABI_FRAME(ABI_FRAME_JIT, CODE),
				ABI_FRAME(ABI_FRAME_JIT, CODE)}};
		struct record_buffer b;
		struct fixture f;
		struct process *p;

		setup(&f);
		sample.r = record(10, 1000000, 0, 1000100);
		sample.r.n_user = 3;
		sample.r.flags = is_waiting ? ABI_FLAG_FIRST_IS_RETURN : 0;
		p = proc_table_of_record(f.t, &sample.r);
		seen(&f, p, &sample.r, cases[i / 2].flags, CODE + cases[i / 2].told, 5);
		assert_int_equal(record_frames(&sample.r, f.t, p, &b), 3);
		for (int k = 0; k < 3; k++) {
			uint64_t word = b.words[2 - k];
			int expected = cases[i / 2].expected[k || !is_waiting ? k : 1];

			assert_int_equal(ABI_FRAME_KIND(word) == ABI_FRAME_INTERP, expected != 0);
			if (expected)
				assert_int_equal(
					f.t->addresses[ABI_INTERP_OBJECT(word)].object->flags,
					expected);
		}
		teardown(&f);
	}
}

static void children_have_what_their_parent_had(void **state)
{
	static const struct interp_frame frame = {"parents", "parents", "/srv/a.js", 3, 1};
	static const struct {
		uint64_t check;
		uint16_t flags;
		bool inherits;
	} cases[] = {{5, EXACT, true}, {6, EXACT, false}, {5, RETURN, false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct abi_record r, child = record(20, 1000200, 0, 1000300);
		struct fixture f;
		struct process *p;

		setup(&f);
		p = process_at(&f, 10, 1000000, &r);
		seen(&f, p, &r, EXACT, CODE, 5);
		assert_int_equal(name_all(&f, &frame, 1, PROC_OBJECT_NAMED), 1);
		forked(&f, 10, 20, 1000200);
		assert_int_equal(name_all(&f, &frame, 1, PROC_OBJECT_NAMED), 0);
		p = proc_table_of_record(f.t, &child);
		assert_int_equal(id_at(&f, p, CODE, true, 1000300), 0);
		seen(&f, p, &child, cases[i].flags, CODE, cases[i].check);
		assert_int_equal(text_at(&f, p, CODE, 1000300) != NULL, cases[i].inherits);
		assert_int_equal(proc_code_is_waiting(f.t, PROC_CODE_OBJECTS), !cases[i].inherits);
		teardown(&f);
	}
}

/* As code objects: 60 s after it was told of. Then words are addresses of JIT code again. */
static void it_is_forgotten(void **state)
{
	static const struct interp_frame frame = {"f", "f", "/srv/a.js", 3, 1};
	uint64_t id, none[2] = {0};
	struct proc_stats stats;
	struct fixture f;
	struct abi_record r;
	struct process *p;

	(void)state;
	setup(&f);
	p = process_at(&f, 10, 1000000, &r);
	seen(&f, p, &r, EXACT, CODE, 5);
	id = id_at(&f, p, CODE, true, 1000100);
	assert_int_equal(name_all(&f, &frame, 1, PROC_OBJECT_NAMED), 1);
	r.time_ns = 1030099 * MS;
	seen(&f, p, &r, EXACT, CODE, 5);
	r.time_ns = 1090098 * MS;
	assert_ptr_equal(proc_table_of_record(f.t, &r), p);
	proc_addresses_retain(f.t, none);
	assert_int_equal(id_at(&f, p, CODE, true, 1090098), id);
	/* its text went; met again it is read again */
	assert_int_equal(name_all(&f, &frame, 1, PROC_OBJECT_NAMED), 1);
	r.time_ns = 1090100 * MS;
	assert_ptr_equal(proc_table_of_record(f.t, &r), p);
	proc_addresses_retain(f.t, (uint64_t[]) {1ULL << id, 0});
	assert_non_null(proc_object_of(f.t, id).text);
	proc_addresses_retain(f.t, none);
	assert_int_equal(id_at(&f, p, CODE, true, 1090100), 0);
	assert_int_equal(p->n_machine, 0);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.addresses, 0);
	assert_int_equal(stats.text_bytes, 0);
	/* Others that went: the count is of what is left. */
	seen(&f, p, &r, EXACT, CODE, 5);
	exited(&f, 10, 1090200);
	proc_addresses_retain(f.t, none);
	assert_int_equal(p->n_machine, 0);
	teardown(&f);
}

/* Equal ones are one; what differs in one frame is another. All of it counts in the budget. */
static void texts_of_frames(void **state)
{
	static const struct interp_frame frames[][2] = {
		{{"inner", "raw", "/a.js", 3, 1}, {"outer", "outer", "/b.js", 9, 7}},
		{{"inner", "raw", "/a.js", 3, 1}, {"outer", "outer", "/b.js", 9, 7}},
		{{"inner", "raw", "/a.js", 4, 1}, {"outer", "outer", "/b.js", 9, 7}},
		{{"inner", "raw", "/a.js", 3, 2}, {"outer", "outer", "/b.js", 9, 7}},
		{{"inner", "r", "/a.js", 3, 1}, {"outer", "outer", "/b.js", 9, 7}},
		{{"inner", "raw", "/a.js", 3, 1}, {"outer", "outer", "/c.js", 9, 7}},
		{{"inner", "raw", "/a.js", 3, 1}, {"uter", "outer", "/b.js", 9, 7}},
	};
	const struct proc_code_text *texts[ARRAY_SIZE(frames) + 1];
	struct proc_stats stats;
	struct budget budget;
	struct fixture f;
	struct abi_record r;
	struct process *p;

	(void)state;
	setup(&f);
	budget_init(&budget, NULL, "interp", NULL, 3000);
	f.t->o.text_budget = &budget;
	p = process_at(&f, 10, 1000000, &r);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		size_t last = ARRAY_SIZE(frames) - 1;
		const struct interp_frame *at = frames[MIN(i, last)] + (i > last);

		seen(&f, p, &r, RETURN, CODE + i, 5);
		assert_int_equal(name_all(&f, at, 1 + (i <= last), PROC_OBJECT_NAMED), 1);
		texts[i] = text_at(&f, p, CODE + i, 1000100);
		assert_int_equal(texts[i]->n_frames, 1 + (i <= last));
		for (size_t k = 0; k < texts[i]->n_frames; k++) {
			assert_string_equal(texts[i]->frames[k].name, at[k].name);
			assert_string_equal(texts[i]->frames[k].raw, at[k].raw);
			assert_string_equal(texts[i]->frames[k].file, at[k].file);
			assert_int_equal(texts[i]->frames[k].line, at[k].line);
			assert_int_equal(texts[i]->frames[k].first_line, at[k].first_line);
		}
		for (size_t k = 0; k < i; k++)
			assert_int_equal(texts[k] == texts[i], k == 0 && i == 1);
	}
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.text_bytes, budget.used_bytes);
	/* No room: it has no name, and the next with a known text has. */
	assert_int_equal(budget_charge(&budget, 3000 - budget.used_bytes, NULL), 0);
	seen(&f, p, &r, RETURN, CODE + 100, 5);
	assert_int_equal(
		name_all(&f, &(struct interp_frame) {"x", "x", "x", 1, 1}, 1, PROC_OBJECT_NO_ROOM),
		1);
	seen(&f, p, &r, RETURN, CODE + 101, 5);
	assert_int_equal(name_all(&f, frames[0], 2, PROC_OBJECT_NAMED), 1);
	assert_ptr_equal(text_at(&f, p, CODE + 101, 1000100), texts[0]);
	assert_null(text_at(&f, p, CODE + 100, 1000100));
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_is_an_object_of_its_own),
		cmocka_unit_test(the_language_is_known),
		cmocka_unit_test(other_code_lies_there),
		cmocka_unit_test(told_again_after_its_time),
		cmocka_unit_test(what_the_runtime_does_not_describe),
		cmocka_unit_test(words_of_a_sample),
		cmocka_unit_test(children_have_what_their_parent_had),
		cmocka_unit_test(it_is_forgotten),
		cmocka_unit_test(texts_of_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
