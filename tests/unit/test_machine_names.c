/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of machine code of V8, read from a process that a keeper plays: what is inlined, one reading for all addresses of a piece of code, code
 * that is another function's by now, and anything in place of code.
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
#include "exporter/interp/reader/codes.h"
#include "exporter/interp/reader/names.h"
#include "exporter/proc/table.h"
#include "tests/unit/proc_fixture.h"
#include "tests/unit/v8_fake.h"

enum { PID = 10, START_MS = 1000000, BINARY_INODE = 77 };
enum { RETURN = ABI_CODE_MACHINE, EXACT = ABI_CODE_MACHINE | ABI_CODE_EXACT };

static const uint32_t versions[] = {RUNTIME_VERSION(12, 4, 0), RUNTIME_VERSION(14, 6, 0)};

struct names_fixture {
	struct fixture f;
	struct keeper keeper; /* of the copies */
	struct fake heap;
	struct lock lock;
	struct interp_names *names;
	struct process *p;
	struct abi_record r;
	int error;	  /* of every copy */
	uint64_t context; /* of records */
	unsigned n_copies, changes_at;
};
static struct names_fixture *current;

static int fake_copy(
	struct keeper *k, uint32_t pid, uint64_t start_ns, struct keeper_range *ranges, size_t n)
{
	struct names_fixture *x = current;

	assert_ptr_equal(k, &x->keeper);
	assert_int_equal(pid, PID);
	assert_int_equal(start_ns, START_MS * MS);
	if (++x->n_copies == x->changes_at)
		fake_put(&x->heap, x->heap.changed, 0, 8);
	for (size_t i = 0; i < n; i++) {
		uint64_t off = MIN(ranges[i].addr - FAKE_BASE, (uint64_t)FAKE_BYTES);

		ranges[i].copied = (uint32_t)MIN(ranges[i].bytes, FAKE_BYTES - off);
		memcpy(ranges[i].to, x->heap.bytes + off, ranges[i].copied);
	}
	return x->error;
}

static void names_setup(struct names_fixture *x, uint32_t version)
{
	const struct binary_identity id = {
		.dev_major = 8, .ino = BINARY_INODE, .path = "/usr/bin/node"};
	uint32_t binary;

	memset(x, 0, sizeof(*x));
	current = x;
	setup(&x->f);
	fake_init(&x->heap, version);
	lock_init(&x->lock);
	x->keeper.copy = fake_copy;
	binary = binary_get(x->f.registry, &id);
	assert_int_not_equal(binary, 0);
	x->f.registry->entries[binary]->runtime = xcalloc(1, sizeof(struct entry_runtime));
	x->f.registry->entries[binary]->runtime->record = x->heap.r;
	x->names = interp_names_new(&(struct interp_names_options) {.procs = x->f.t,
		.procs_lock = &x->lock,
		.binaries = x->f.registry,
		.keeper = &x->keeper,
		.clock = &x->f.clock.clock});
	x->r = record(PID, START_MS, 0, 1000100);
	x->p = proc_table_of_record(x->f.t, &x->r);
	x->p->interp = xcalloc(1, sizeof(*x->p->interp));
	x->p->interp->state = PROC_INTERP_WALKED;
	x->p->interp->runtime =
		(struct proc_runtime) {.binary = binary, .kind = RUNTIME_V8, .version = version};
}

static void names_teardown(struct names_fixture *x)
{
	interp_names_freep(&x->names);
	lock_done(&x->lock);
	teardown(&x->f);
}

/* The kernel half has seen the code at that offset; check: a word of the heap, 0 none. */
static uint64_t see(struct names_fixture *x, uint16_t flags, uint64_t off, uint64_t check)
{
	const struct abi_code c = {.type = ABI_RECORD_CODE,
		.flags = flags,
		.time_ns = x->r.time_ns,
		.start_ns = x->r.start_ns,
		.pid = PID,
		.object = x->heap.pc + off,
		.check = check ? check - 1 : 0,
		.context = x->context};

	proc_object_seen(x->f.t, x->p, &c);
	return ABI_INTERP_OBJECT(
		proc_machine_word(x->f.t, x->p, c.object, flags == EXACT, x->r.time_ns));
}

static const struct proc_code_text *text_of(struct names_fixture *x, uint64_t id)
{
	return proc_object_of(x->f.t, id).text;
}

static uint64_t results(struct names_fixture *x, enum interp_name_result which)
{
	struct interp_names_stats s;

	interp_names_stats(x->names, &s);
	return s.results[RUNTIME_V8][which];
}

static void expect_results(struct names_fixture *x, enum interp_name_result which, uint64_t n)
{
	for (unsigned i = 0; i < INTERP_N_NAME_RESULTS; i++)
		assert_int_equal(results(x, i), i == which ? n : 0);
}

/* Lines of `inner`, 0: nothing is inlined, and of `outer`. */
static void expect_frames(struct names_fixture *x, uint64_t id, uint32_t inner, uint32_t outer)
{
	const struct proc_code_text *text = text_of(x, id);
	size_t n = 0;

	assert_non_null(text);
	assert_int_equal(text->n_frames, 1 + (inner != 0));
	assert_string_equal(text->name, "");
	if (inner) {
		assert_string_equal(text->frames[n].name, "inner");
		assert_int_equal(text->frames[n++].line, inner);
	}
	assert_string_equal(text->frames[n].name, "outer");
	assert_string_equal(text->frames[n].raw, "outer");
	assert_string_equal(text->frames[n].file, "/srv/app.js");
	assert_int_equal(text->frames[n].line, outer);
	assert_int_equal(text->frames[n].first_line, 2);
	assert_int_equal(proc_object_of(x->f.t, id).kind, RUNTIME_V8);
}

/* An instruction, and what a call returns to, at one address. */
static void what_code_says(void **state)
{
	struct names_fixture x;
	uint64_t ids[4];

	(void)state;
	names_setup(&x, versions[0]);
	ids[0] = see(&x, RETURN, 16, x.heap.outer); /* the call is before the position at 16 */
	ids[1] = see(&x, RETURN, 17, x.heap.outer);
	ids[2] = see(&x, EXACT, 17, x.heap.outer); /* at 16 */
	ids[3] = see(&x, EXACT, 16, x.heap.outer);
	interp_names_round(x.names);
	expect_frames(&x, ids[0], 0, 2);
	expect_frames(&x, ids[1], 4, 3);
	expect_frames(&x, ids[2], 4, 3);
	expect_frames(&x, ids[3], 0, 2);
	assert_ptr_equal(text_of(&x, ids[1]), text_of(&x, ids[2]));
	expect_results(&x, INTERP_NAME_OK, 4);
	names_teardown(&x);
	names_setup(&x, versions[1]);
	ids[0] = see(&x, RETURN, 64, x.heap.outer);
	ids[1] = see(&x, RETURN, 63, 0); /* no call is there: the function has no line */
	ids[2] = see(&x, EXACT, 67, 0);
	ids[3] = see(&x, EXACT, 256, x.heap.outer); /* its last byte */
	interp_names_round(x.names);
	expect_frames(&x, ids[0], 3, 2);
	expect_frames(&x, ids[1], 0, 0);
	expect_frames(&x, ids[2], 3, 2);
	expect_frames(&x, ids[3], 3, 2);
	expect_results(&x, INTERP_NAME_OK, 4);
	names_teardown(&x);
}

static void baseline_code(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct names_fixture x;
		uint64_t ids[3];

		names_setup(&x, versions[v]);
		fake_make_baseline(&x.heap);
		x.f.registry->entries[x.p->interp->runtime.binary]->runtime->record = x.heap.r;
		ids[0] = see(&x, RETURN, 24, x.heap.outer);
		ids[1] = see(&x, EXACT, 25, x.heap.outer);
		ids[2] = see(&x, RETURN, 40, 0); /* whose it is, it does not say */
		interp_names_round(x.names);
		expect_frames(&x, ids[0], 0, 2);
		expect_frames(&x, ids[1], 0, 3);
		assert_null(text_of(&x, ids[2]));
		assert_int_equal(results(&x, INTERP_NAME_OK), 2);
		assert_int_equal(results(&x, INTERP_NAME_REUSED), 1);
		names_teardown(&x);
	}
}

/* However many addresses of it wait, and in the next round: then a few words are looked at again, since it may have moved. */
static void a_piece_is_read_once(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		unsigned n_one;
		struct names_fixture x;

		names_setup(&x, versions[v]);
		see(&x, EXACT, 20, x.heap.outer);
		interp_names_round(x.names);
		n_one = x.n_copies;
		assert_true(n_one > 5);
		for (unsigned i = 21; i < 120; i++)
			see(&x, EXACT, i, x.heap.outer);
		interp_names_round(x.names);
		assert_in_range(x.n_copies, n_one + 1, n_one + 5);
		expect_results(&x, INTERP_NAME_OK, 100);
		names_teardown(&x);
	}
}

/*
 * The frame says it runs `inner`, and the code is of `outer`: that is no frame of this code, whether it has been read for another one or not.
 * What the frame runs is known all the same.
 */
static void code_of_another_function(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(versions); i++) {
		struct names_fixture x;
		uint64_t right, other;

		names_setup(&x, versions[i / 2]);
		right = i % 2 ? see(&x, RETURN, 64, x.heap.outer) : 0;
		other = see(&x, RETURN, 65, x.heap.inner);
		interp_names_round(x.names);
		if (right)
			assert_string_equal(text_of(&x, right)->frames[1].name, "outer");
		assert_int_equal(text_of(&x, other)->n_frames, 1);
		assert_string_equal(text_of(&x, other)->frames[0].name, "inner");
		assert_string_equal(text_of(&x, other)->frames[0].file, "/srv/app.js");
		assert_int_equal(text_of(&x, other)->frames[0].line, 0);
		assert_int_equal(text_of(&x, other)->frames[0].first_line, 4);
		assert_int_equal(results(&x, INTERP_NAME_FUNCTION), 1);
		assert_int_equal(results(&x, INTERP_NAME_OK), i % 2);
		names_teardown(&x);
	}
}

/* The collector has put another function where the one of the frame was. */
static void another_function_at_its_place(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct names_fixture x;
		uint64_t id;

		names_setup(&x, versions[v]);
		x.context = 12345;
		id = see(&x, RETURN, 65, x.heap.inner);
		interp_names_round(x.names);
		assert_null(text_of(&x, id));
		expect_results(&x, INTERP_NAME_REUSED, 1);
		names_teardown(&x);
	}
}

/* Behind the code, or where none is. */
static void no_code(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct names_fixture x;
		uint64_t ids[4];

		names_setup(&x, versions[v]);
		ids[0] = see(&x, RETURN, 300, x.heap.outer);
		ids[1] = see(&x, RETURN, 301, 0);
		ids[2] = see(&x, RETURN, 302, x.heap.script); /* no function either */
		ids[3] = see(&x, RETURN, (uint64_t)FAKE_BYTES << 20, x.heap.outer);
		interp_names_round(x.names);
		expect_frames(&x, ids[0], 0, 0);
		assert_null(text_of(&x, ids[1]));
		assert_null(text_of(&x, ids[2]));
		expect_frames(&x, ids[3], 0, 0);
		assert_int_equal(results(&x, INTERP_NAME_FUNCTION), 2);
		assert_int_equal(results(&x, INTERP_NAME_REUSED), 2);
		names_teardown(&x);
	}
}

/* Each word of the code, of its description and of its functions goes between two copies: no other names come out. */
static void code_changes_while_it_is_read(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		unsigned n_copies = 2, n_refused = 0, n_alone = 0;

		for (unsigned what = 0; what < 4; what++)
			for (unsigned at = 1; at < n_copies; at++) {
				const struct proc_code_text *text;
				struct names_fixture x;
				uint64_t id, words[4];

				names_setup(&x, versions[v]);
				words[0] = fake_at(x.heap.outer, 0);
				words[1] = fake_at(x.heap.inner, 0);
				words[2] = fake_at(x.heap.code, 0);
				words[3] =
					x.heap.pc - FAKE_BASE - x.heap.r.offsets[V8_STREAM_START];
				x.heap.changed = (uint32_t)words[what];
				x.changes_at = at;
				id = see(&x, RETURN, 64, x.heap.outer);
				interp_names_round(x.names);
				n_copies = MAX(n_copies, x.n_copies);
				text = text_of(&x, id);
				n_refused += !text;
				n_alone += (unsigned)results(&x, INTERP_NAME_FUNCTION);
				for (size_t i = 0; text && i < text->n_frames; i++)
					assert_string_equal(text->frames[i].name,
						i + 1 == text->n_frames ? "outer" : "inner");
				names_teardown(&x);
			}
		assert_true(n_refused > 5);
		assert_true(n_alone > 5);
	}
}

static void what_cannot_be_read(void **state)
{
	static const struct {
		int error;
		enum interp_name_result result;
	} cases[] = {{-ESRCH, INTERP_NAME_GONE}, {-EFAULT, INTERP_NAME_UNREADABLE},
		{-EPERM, INTERP_NAME_UNREADABLE}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct names_fixture x;
		uint64_t id;

		names_setup(&x, versions[0]);
		x.error = cases[i].error;
		id = see(&x, RETURN, 64, x.heap.outer);
		see(&x, EXACT, 64, x.heap.outer);
		interp_names_round(x.names);
		assert_null(text_of(&x, id));
		expect_results(&x, cases[i].result, 2);
		names_teardown(&x);
	}
}

/* A hundred calls in one another: the innermost ones are there, how many are left out, and the function that has the code. */
static void many_inlined_calls(void **state)
{
	enum { N = 100 };
	uint8_t calls[16 * N] = {0}, lines[16] = {2, 52, 32};
	struct names_fixture x;
	struct interp_names_stats s;
	const struct proc_code_text *text;
	uint64_t deopt = 0, position;
	uint32_t n = 3;

	(void)state;
	names_setup(&x, versions[0]);
	/* {source 22, in the call before it} */
	for (unsigned i = 0; i < N; i++) {
		position = (uint64_t)(22 + 1) << 1 | (uint64_t)i << 31;
		memcpy(calls + 16 * i, &position, 8);
	}
	memcpy(&deopt, x.heap.bytes + fake_at(x.heap.code, x.heap.r.offsets[V8_CODE_DEOPT]), 8);
	fake_put(&x.heap, fake_at(deopt, 16 + 8U * x.heap.r.offsets[V8_DEOPT_INLINING]),
		fake_bytes(&x.heap, calls, sizeof(calls)), 8);
	/* code +16: source 32 of the last call, as a signed difference to the position before it */
	position = 2 * (((uint64_t)N << 31 | (32 + 1) << 1) - ((12 + 1) << 1));
	for (; position >= 0x80; position >>= 7)
		lines[n++] = (uint8_t)(position | 0x80);
	lines[n++] = (uint8_t)position;
	fake_put(&x.heap, fake_at(x.heap.code, x.heap.r.offsets[V8_CODE_LINES]),
		fake_bytes(&x.heap, lines, n), 8);
	see(&x, EXACT, 17, x.heap.outer);
	interp_names_round(x.names);
	text = text_of(&x, see(&x, EXACT, 17, x.heap.outer));
	assert_non_null(text);
	assert_int_equal(text->n_frames, INTERP_MAX_MACHINE_FRAMES);
	for (size_t i = 0; i + 2 < INTERP_MAX_MACHINE_FRAMES; i++)
		assert_string_equal(text->frames[i].name, "inner");
	/* 101 in all, of which 31 are there */
	assert_string_equal(
		text->frames[INTERP_MAX_MACHINE_FRAMES - 2].name, "[elided: 70 frames]");
	assert_string_equal(text->frames[INTERP_MAX_MACHINE_FRAMES - 1].name, "outer");
	interp_names_stats(x.names, &s);
	assert_int_equal(s.frames_elided, 70);
	names_teardown(&x);
}

/* Anything may lie there; whatever is said of it is text. */
static void hostile_bytes(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 1500; round++) {
		struct names_fixture x;
		uint64_t ids[3];

		names_setup(&x, versions[round % 2]);
		if (round % 3 == 0)
			fake_make_baseline(&x.heap);
		for (unsigned i = 0; i < 1 + round % 8; i++) {
			seed = seed * 1664525 + 1013904223;
			x.heap.bytes[(seed >> 8) % FAKE_BYTES] = (uint8_t)(seed >> 24);
			seed = seed * 1664525 + 1013904223;
			x.heap.bytes[FAKE_SCRIPT + (seed >> 8) % 0x1000] = (uint8_t)(seed >> 24);
		}
		ids[0] = see(&x, RETURN, 64, x.heap.outer);
		ids[1] = see(&x, EXACT, 24, x.heap.inner);
		ids[2] = see(&x, EXACT, 90, 0);
		interp_names_round(x.names);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
			const struct proc_code_text *text = text_of(&x, ids[i]);

			assert_true(!text || text->n_frames <= INTERP_MAX_MACHINE_FRAMES);
			for (size_t k = 0; text && k < text->n_frames; k++)
				assert_true(strlen(text->frames[k].name) <= INTERP_MAX_TEXT_BYTES);
		}
		names_teardown(&x);
	}
}

/* ---- what is kept ---- */

static unsigned n_fake_reads, n_fake_left, n_fake_looks;
static int fake_still;
static size_t fake_used = 1000;

static int fake_read_code(const struct interp_memory *m, const struct runtime_record *r,
	uint64_t pc, uint64_t check, struct interp_machine *ret)
{
	(void)m;
	(void)r;
	n_fake_reads++;
	if (check == 99)
		return -EAGAIN;
	n_fake_left++;
	*ret = (struct interp_machine) {
		.start = pc & ~0xffULL, .bytes = 0x80, .used_bytes = fake_used};
	return 0;
}

static size_t fake_frames(const struct interp_machine *c, uint64_t pc, bool is_return,
	struct interp_frame *ret, size_t max)
{
	(void)is_return;
	assert_true(max >= 1);
	*ret = (struct interp_frame) {
		.name = "f", .raw = "f", .file = "", .line = (uint32_t)(pc - c->start)};
	return pc != 0xf00;
}

static void fake_done(struct interp_machine *c)
{
	n_fake_left--;
	*c = (struct interp_machine) {0};
}

static int fake_is_still(const struct interp_memory *m, const struct runtime_record *r,
	const struct interp_machine *c)
{
	(void)m;
	(void)r;
	(void)c;
	n_fake_looks++;
	return fake_still;
}

static void so_many_are_kept(void **state)
{
	static const struct interp_machine_reader reader = {.read = fake_read_code,
		.is_still = fake_is_still,
		.frames = fake_frames,
		.done = fake_done};
	struct interp_codes_all all = {.clock = 0};
	struct interp_codes *c = interp_codes_begin(&all, 1, 1, &reader, NULL, NULL);
	struct interp_frame frames[INTERP_MAX_MACHINE_FRAMES];
	size_t n;

	(void)state;
	n_fake_reads = n_fake_left = 0;
	fake_used = 1000;
	assert_int_equal(interp_codes_frames(c, 0x100, false, 1, frames, &n), 0);
	assert_int_equal(interp_codes_frames(c, 0x17f, false, 1, frames, &n), 0);
	assert_int_equal(interp_codes_frames(c, 0x180, true, 1, frames, &n), 0);
	assert_int_equal(n_fake_reads, 1);
	assert_int_equal(frames[0].line, 0x80);
	/* behind it; of a frame that runs something else; where it cannot be read */
	assert_int_equal(interp_codes_frames(c, 0x180, false, 1, frames, &n), 0);
	assert_int_equal(interp_codes_frames(c, 0x110, false, 2, frames, &n), 0);
	assert_int_equal(interp_codes_frames(c, 0x110, false, 99, frames, &n), -EAGAIN);
	assert_int_equal(interp_codes_frames(c, 0x110, false, 99, frames, &n), -EAGAIN);
	assert_int_equal(n_fake_reads, 5);
	assert_int_equal(interp_codes_frames(c, 0xf00, false, 1, frames, &n), -ENOENT);
	assert_int_equal(n_fake_left, 4);
	/* those used last */
	for (uint64_t i = 0; i < INTERP_CODES; i++) {
		assert_int_equal(
			interp_codes_frames(c, 0x100000 + 0x100 * i, false, 1, frames, &n), 0);
		assert_int_equal(interp_codes_frames(c, 0x100000, false, 1, frames, &n), 0);
	}
	assert_int_equal(n_fake_left, INTERP_CODES);
	n_fake_reads = 0;
	assert_int_equal(interp_codes_frames(c, 0x100000, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_reads, 0);
	assert_int_equal(interp_codes_frames(c, 0x100, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_reads, 1);
	/* one that is larger than all are to be */
	fake_used = INTERP_CODES_MAX_BYTES + 1;
	assert_int_equal(interp_codes_frames(c, 0x200000, false, 1, frames, &n), -EFBIG);
	assert_int_equal(n_fake_left, INTERP_CODES);
	fake_used = INTERP_CODES_MAX_BYTES / 2;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(
			interp_codes_frames(c, 0x300000 + 0x100 * i, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_left, 2);
	/* of all processes together: those of the one that was read longest ago go */
	for (uint32_t i = 0; i < 20; i++) {
		c = interp_codes_begin(&all, 100 + i, 1, &reader, NULL, NULL);
		assert_int_equal(interp_codes_frames(c, 0x100, false, 1, frames, &n), 0);
		assert_int_equal(interp_codes_frames(c, 0x200, false, 1, frames, &n), 0);
		interp_codes_trim(&all, all.clock - 1);
	}
	assert_int_equal(n_fake_left, 2 * (INTERP_CODES_ALL_BYTES / INTERP_CODES_MAX_BYTES));
	interp_codes_drop(c);
	assert_int_equal(n_fake_left, 2 * (INTERP_CODES_ALL_BYTES / INTERP_CODES_MAX_BYTES) - 2);
	interp_codes_done(&all);
	assert_int_equal(n_fake_left, 0);
}

/* In a later round it is asked whether they are still there, once a round. */
static void those_of_earlier_rounds(void **state)
{
	static const struct interp_machine_reader reader = {.read = fake_read_code,
		.is_still = fake_is_still,
		.frames = fake_frames,
		.done = fake_done};
	struct interp_codes_all all = {.clock = 0};
	struct interp_codes *c = interp_codes_begin(&all, 7, 1, &reader, NULL, NULL);
	struct interp_frame frames[INTERP_MAX_MACHINE_FRAMES];
	size_t n;

	(void)state;
	n_fake_reads = n_fake_left = n_fake_looks = 0;
	fake_used = 1000;
	fake_still = 0;
	assert_int_equal(interp_codes_frames(c, 0x100, false, 1, frames, &n), 0);
	assert_int_equal(interp_codes_frames(c, 0x101, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_looks, 0);
	c = interp_codes_begin(&all, 7, 1, &reader, NULL, NULL);
	assert_int_equal(interp_codes_frames(c, 0x102, false, 1, frames, &n), 0);
	assert_int_equal(interp_codes_frames(c, 0x103, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_looks, 1);
	assert_int_equal(n_fake_reads, 1);
	/* Other code lies there; then the process does not answer. */
	c = interp_codes_begin(&all, 7, 1, &reader, NULL, NULL);
	fake_still = -EAGAIN;
	assert_int_equal(interp_codes_frames(c, 0x102, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_reads, 2);
	c = interp_codes_begin(&all, 7, 1, &reader, NULL, NULL);
	fake_still = -ESRCH;
	assert_int_equal(interp_codes_frames(c, 0x102, false, 1, frames, &n), -ESRCH);
	assert_int_equal(n_fake_left, 0);
	/* Another process with that number; then as many others as have places. */
	fake_still = 0;
	assert_int_equal(interp_codes_frames(c, 0x102, false, 1, frames, &n), 0);
	c = interp_codes_begin(&all, 7, 2, &reader, NULL, NULL);
	assert_int_equal(interp_codes_frames(c, 0x102, false, 1, frames, &n), 0);
	assert_int_equal(n_fake_reads, 4);
	for (uint32_t i = 0; i < INTERP_CODES_PROCESSES; i++) {
		c = interp_codes_begin(&all, 100 + i, 1, &reader, NULL, NULL);
		assert_int_equal(interp_codes_frames(c, 0x102, false, 1, frames, &n), 0);
	}
	assert_int_equal(n_fake_left, INTERP_CODES_PROCESSES);
	interp_codes_done(&all);
	assert_int_equal(n_fake_left, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_code_says),
		cmocka_unit_test(baseline_code),
		cmocka_unit_test(a_piece_is_read_once),
		cmocka_unit_test(code_of_another_function),
		cmocka_unit_test(another_function_at_its_place),
		cmocka_unit_test(no_code),
		cmocka_unit_test(code_changes_while_it_is_read),
		cmocka_unit_test(what_cannot_be_read),
		cmocka_unit_test(many_inlined_calls),
		cmocka_unit_test(hostile_bytes),
		cmocka_unit_test(so_many_are_kept),
		cmocka_unit_test(those_of_earlier_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
