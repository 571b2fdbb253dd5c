/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack's way from the walker to the stack tree, over random stacks of frames of every kind: recursion becomes REPEAT words and deep
 * stacks lose their middle (bpf/unwind/frames.h), rings have words packed (bpf/unwind/frame_pack.h), records turn words around
 * (exporter/walk/record.c). What the words stand for in the end is what went in, return addresses one byte lower. From the tree the
 * same stacks go on, through log, window and names, into a pprof, with the weights of their samples.
 */
#include "bpf/unwind/frames.h"
#include "exporter/intake/intake.h"
#include "exporter/proc/code_objects.h"
#include "exporter/profile/build.h"
#include "exporter/sample/hold.h"
#include "exporter/sample/unpack.h"
#include "lib/base/hash.h"
#include "lib/prof/profile.h"
#include "tests/unit/proc_fixture.h"
#include <string.h>

enum { PID = 77, MAX_STACK = 6000, N_PLACES = 12, N_KERNEL = 5, N_OBJECTS = 500 };
#define OBJECT_MAX (ABI_FRAME_PAYLOAD >> 16)
#define JIT_AT 0x10000ULL

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
	seed = hash_mix(seed + 0x9e3779b97f4a7c15ULL);
	return (uint32_t)(seed >> 33) % n;
}

/* A frame as walkers find them, now and then with a payload of all ones, or of nothing. */
static uint64_t random_frame(void)
{
	static const unsigned kinds[] = {
		ABI_FRAME_NATIVE, ABI_FRAME_NATIVE, ABI_FRAME_JIT, ABI_FRAME_INTERP};
	unsigned kind = kinds[below(ARRAY_SIZE(kinds))];
	uint64_t payload = (uint64_t)below(1U << 30) << 30 | below(1U << 30);

	if (kind == ABI_FRAME_JIT)
		return ABI_FRAME(kind, JIT_AT + 1 + below(0xfff));
	if (kind == ABI_FRAME_INTERP)
		return ABI_INTERP(
			below(N_OBJECTS) ? below(N_OBJECTS) : OBJECT_MAX, below(1U << 16));
	if (!below(8))
		payload = below(2) ? ABI_FRAME_PAYLOAD : 0;
	return ABI_FRAME(kind, payload);
}

/* Frames that often come again, singly and in cycles, leaf first. */
static uint32_t random_stack(uint64_t *frames)
{
	uint64_t places[N_PLACES];
	uint32_t n = below(4) ? below(100) : below(MAX_STACK), cycle = 0;

	for (int i = 0; i < N_PLACES; i++)
		places[i] = random_frame();
	for (uint32_t i = 0; i < n; i++) {
		if (!below(20))
			cycle = below(2) ? 1 + below(ABI_MAX_REPEAT_PERIOD + 1) : 0;
		if (cycle && i >= cycle)
			frames[i] = frames[i - cycle];
		else
			frames[i] = below(2) ? places[below(N_PLACES)] : random_frame();
	}
	return n;
}

struct long_record {
	struct abi_record head;
	__u64 words[ABI_MAX_WORDS + 1];
};

/* As the kernel half makes it; `is_exact`: the leaf is no return address. */
static void make_record(struct long_record *r, const uint64_t *frames, uint32_t n, bool is_exact)
{
	static __u64 spare[ABI_USER_TAIL_WORDS];
	struct frames f;

	r->head = record(PID, 1000, 1, 1500);
	r->head.flags = is_exact ? ABI_FLAG_USER_MODE : ABI_FLAG_FIRST_IS_RETURN;
	r->head.n_kernel = (uint16_t)below(N_KERNEL + 1);
	for (uint32_t i = 0; i < r->head.n_kernel; i++)
		r->words[i] = ABI_FRAME(ABI_FRAME_KERNEL, 0x1000 + i);
	frames_init(&f, r->head.n_kernel);
	for (uint32_t i = 0; i < n; i++) {
		frames_add(&f, r->words, frames[i]);
		if (!i && is_exact)
			frames_forget(&f);
	}
	r->head.n_user = (uint16_t)frames_end(&f, r->words, spare, ABI_CUT_NONE);
}

/* Through a ring, where short stacks are packed. */
static void travel(struct long_record *r)
{
	static union unpacked got;
	uint32_t n = (uint32_t)r->head.n_kernel + r->head.n_user;
	size_t bytes;

	if (n > FRAME_PACK_MAX)
		return;
	r->head.type = ABI_RECORD_PACKED_SAMPLE;
	bytes = sizeof(r->head) + frame_pack(r->words, n) * sizeof(uint32_t);
	assert_int_equal(unpack_sample(r, bytes, &got), sizeof(r->head) + n * sizeof(__u64));
	memcpy(r, &got.record, sizeof(r->head) + n * sizeof(__u64));
}

/* The kernel half describes each code object before the samples that have it. */
static void describe_objects(struct fixture *f)
{
	const struct abi_record r = record(PID, 1000, 1, 1500);
	struct process *p = proc_table_of_record(f->t, &r);

	for (uint64_t i = 0; i <= N_OBJECTS; i++) {
		const struct abi_code c = {
			.time_ns = r.time_ns, .object = i < N_OBJECTS ? i : OBJECT_MAX, .check = i};

		proc_object_seen(f->t, p, &c);
	}
}

/* What the tree is to have for a frame. */
static void expect_frame(
	const struct fixture *f, uint64_t word, uint64_t frame, bool is_return, uint32_t at)
{
	bool same;

	if (ABI_FRAME_KIND(frame) == ABI_FRAME_JIT)
		same = ABI_FRAME_KIND(word) == ABI_FRAME_JIT &&
		       proc_interned_address(f->t, ABI_FRAME_VALUE(word)).addr ==
			       ABI_FRAME_VALUE(frame) - is_return;
	else if (ABI_FRAME_KIND(frame) == ABI_FRAME_INTERP)
		same = ABI_INTERP_OBJECT(word) &&
		       ABI_INTERP_POSITION(word) == ABI_INTERP_POSITION(frame) &&
		       word == proc_object_word(f->t,
				       proc_object_of(f->t, ABI_INTERP_OBJECT(word)).process, frame,
				       UINT64_MAX);
	else if (ABI_FRAME_KIND(frame) == ABI_FRAME_NATIVE && ABI_NATIVE_OFF(frame))
		same = word == frame - is_return;
	else
		same = word == frame;
	if (!same)
		fail_msg("frame %u is %#llx, word %#llx", at, (unsigned long long)frame,
			(unsigned long long)word);
}

/* `words` are leaf first. Returns how many frames were elided. */
static uint64_t check_words(const struct fixture *f, const uint64_t *words, uint32_t n_words,
	const uint64_t *frames, uint32_t n, bool is_exact)
{
	uint64_t elided = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < n_words; i++) {
		uint64_t v = ABI_FRAME_VALUE(words[i]), period = v >> 32;

		switch (ABI_FRAME_KIND(words[i])) {
		case ABI_FRAME_REPEAT:
			assert_in_range(period, 1, MIN(i, (uint32_t)ABI_MAX_REPEAT_PERIOD));
			for (uint64_t k = 0; k < period * (uint32_t)v; k++, at++) {
				assert_true(at < n);
				expect_frame(
					f, words[i - period + k % period], frames[at], true, at);
			}
			break;
		case ABI_FRAME_ELIDED:
			assert_true(at + v <= n);
			elided += v;
			at += (uint32_t)v;
			break;
		default:
			assert_true(at < n);
			expect_frame(f, words[i], frames[at], at || !is_exact, at);
			at++;
		}
	}
	assert_int_equal(at, n);
	return elided;
}

static void test_frames_arrive(void **state)
{
	static uint64_t frames[MAX_STACK];
	static struct long_record r;
	static struct record_buffer got;
	uint32_t n_elided = 0, n_packed = 0;
	struct fixture f;

	(void)state;
	setup(&f);
	forked(&f, 1, PID, 1000);
	mapped(&f, PID, JIT_AT, 0x1000, 0, "//anon", 1001);
	describe_objects(&f);
	for (int round = 0; round < 3000; round++) {
		static uint64_t user[ARRAY_SIZE(got.words)];
		uint32_t n = random_stack(frames), n_words;
		bool is_exact = below(2);

		make_record(&r, frames, n, is_exact);
		travel(&r);
		n_packed += r.head.n_kernel + r.head.n_user <= FRAME_PACK_MAX;
		n_words = record_frames(&r.head, f.t, proc_table_of_record(f.t, &r.head), &got);
		assert_int_equal(got.n_user, r.head.n_user);
		assert_int_equal(n_words, got.n_user + r.head.n_kernel);
		for (uint32_t i = 0; i < got.n_user; i++)
			user[i] = got.words[got.n_user - 1 - i];
		n_elided += check_words(&f, user, got.n_user, frames, n, is_exact) != 0;
		for (uint32_t i = 0; i < r.head.n_kernel; i++)
			assert_int_equal(got.words[n_words - 1 - i],
				ABI_FRAME(ABI_FRAME_KERNEL, 0x1000 + i - (i > 0)));
	}
	assert_true(n_elided > 50 && n_packed > 500);
	teardown(&f);
}

/* ---- from the record to the pprof ---- */

enum { MAX_SAMPLES = 5, N_VALUES = 3 };

/* A source as none is yet: of each sample two weights that hardly repeat. */
static const struct event_source row = {
	.name = "waits",
	.endpoint = "waits",
	.store_name = "waits",
	.description = "What a test waits for.",
	.values = {{"samples", "count", EVENT_COUNT}, {"bytes", "bytes", EVENT_WEIGHT_2},
		{"delay", "nanoseconds", EVENT_WEIGHT}},
	.n_values = N_VALUES,
	.period_type = "delay",
	.period_unit = "nanoseconds",
	.target = EVENT_AT_LOAD,
	.has_own_weights = true,
};

struct journey {
	struct fixture f;
	struct profile_tables tables;
	struct symbolizer *symbolizer;
	struct intake intake;
	struct hold hold;
	char cursor[SAMPLE_CURSOR_MAX + 1];
};

static void journey_begin(struct journey *j)
{
	struct sample_log_options o = {
		.retention_s = 300, .window_s = 10, .retention_bytes = 16 << 20};
	struct sample_sink sink;

	setup(&j->f);
	j->tables.procs = j->f.t;
	j->tables.stacks = o.stacks = stacks_new(NULL);
	o.clock = &j->f.clock.clock;
	sample_log_options_by_event(&o, &row);
	j->tables.logs[ABI_EVENT_CPU] = sample_log_new(&o);
	j->symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = j->f.registry,
					       .keeper = &j->f.keeper.keeper,
					       .clock = &j->f.clock.clock,
					       .parser_fd = -1},
		NULL);
	intake_init(&j->intake, j->f.t, j->tables.stacks, j->tables.logs, j->f.registry);
	sink = intake_sink(&j->intake);
	hold_init(&j->hold, &sink, NULL, 1 << 20);
	forked(&j->f, 1, PID, 1000);
	mapped(&j->f, PID, JIT_AT, 0x1000, 0, "//anon", 1001);
	clock_virtual_advance(&j->f.clock, NS_PER_S);
}

static void journey_end(struct journey *j)
{
	hold_done(&j->hold);
	intake_done(&j->intake);
	symbolizer_freep(&j->symbolizer);
	sample_log_freep(&j->tables.logs[ABI_EVENT_CPU]);
	stacks_freep(&j->tables.stacks);
	teardown(&j->f);
}

/* What a client decodes of the samples since the last time. */
static void journey_profile(struct journey *j, struct profile *ret)
{
	static const struct labels no_labels;
	const struct profile_build_options o = {.type = &row,
		.constants = &no_labels,
		.symbolizer = j->symbolizer,
		.mode = SYMBOLIZE_FUNCTIONS,
		.period = 1};
	struct sample_log *log = j->tables.logs[ABI_EVENT_CPU];
	_cleanup_bytes_ struct bytes out = {0};
	_cleanup_profile_ struct profile built;
	_cleanup_arena_ struct arena arena;
	struct profile_snapshot snapshot;
	struct sample_range range;
	struct errbuf eb = {.text = ""};

	arena_init(&arena, NULL);
	profile_init(&built, NULL);
	assert_int_equal(sample_log_since(log, j->cursor, 10, &range, &eb), 0);
	memcpy(j->cursor, range.cursor, sizeof(j->cursor));
	if (profile_snapshot_take(&j->tables, log, &range, NULL, 0, &arena, &snapshot, &eb) < 0 ||
		profile_build(&snapshot, &o, &arena, &built, &eb) < 0 ||
		prof_encode(&built, &out) < 0 || prof_decode(out.data, out.len, ret, &eb) < 0)
		fail_msg("%s", eb.text);
}

static void put_text(char *to, size_t cap, struct prof_str s)
{
	snprintf(to, cap, "%.*s", (int)s.len, s.p);
}

/* Name and mapping as a profile must have them, of files, a process and a kernel of which nothing is known. */
static void name_of_frame(uint64_t frame, bool is_return, char ret[64])
{
	uint64_t off = ABI_NATIVE_OFF(frame);

	switch (ABI_FRAME_KIND(frame)) {
	case ABI_FRAME_NATIVE:
		off -= is_return && off;
		snprintf(ret, 64, "[unknown] [unknown]+0x%llx", (unsigned long long)off);
		break;
	case ABI_FRAME_JIT:
		snprintf(ret, 64, "[jit] [unknown]+0x%llx",
			(unsigned long long)ABI_FRAME_VALUE(frame) - is_return);
		break;
	case ABI_FRAME_KERNEL:
		snprintf(ret, 64, "[kernel.kallsyms] [kernel.kallsyms]+0x%llx",
			(unsigned long long)kernel_code_address(frame) - is_return);
		break;
	case ABI_FRAME_INTERP: snprintf(ret, 64, "[interpreter] [interpreter]"); break;
	default: fail_msg("no walker finds a frame of kind %u", ABI_FRAME_KIND(frame));
	}
}

/* Frames of the record, kernel ones first; all that the profile leaves out it says. Returns how many of an interpreter it shows. */
static uint32_t check_stack(const struct profile *p, const struct abi_record *r,
	const uint64_t *frames, uint32_t n, bool is_exact)
{
	uint32_t at = 0, n_all = r->n_kernel + n, n_interpreter = 0;

	for (uint64_t i = p->stack_first[0]; i < p->stack_first[1]; i++) {
		const struct prof_location *l = &p->locations[p->stacks[i]];
		char function[64], file[64] = "", got[130], want[64];
		uint64_t elided;

		assert_int_equal(l->n_lines, 1);
		put_text(function, sizeof(function),
			profile_str(p, p->functions[p->lines[l->first_line].function].name));
		if (l->mapping == PROF_NONE) {
			assert_int_equal(sscanf(function, "[elided: %lu frames]", &elided), 1);
			at += (uint32_t)elided;
			continue;
		}
		assert_true(at < n_all);
		put_text(file, sizeof(file), profile_str(p, p->mappings[l->mapping].filename));
		snprintf(got, sizeof(got), "%s %s", file, function);
		if (at < r->n_kernel)
			name_of_frame(r->frames[at], at > 0, want);
		else
			name_of_frame(
				frames[at - r->n_kernel], at > r->n_kernel || !is_exact, want);
		if (strcmp(got, want) != 0)
			fail_msg("frame %u is \"%s\" and not \"%s\"", at, got, want);
		n_interpreter += !strcmp(file, "[interpreter]");
		at++;
	}
	assert_int_equal(at, n_all);
	return n_interpreter;
}

static void test_frames_and_weights_reach_the_profile(void **state)
{
	static uint64_t frames[MAX_STACK];
	static struct long_record r;
	static struct journey j;
	uint32_t n_interpreter = 0;

	(void)state;
	journey_begin(&j);
	for (int round = 0; round < 400; round++) {
		uint32_t n = random_stack(frames), n_samples = 1 + below(MAX_SAMPLES);
		_cleanup_profile_ struct profile p;
		bool is_exact = below(2);
		int64_t want[N_VALUES] = {n_samples};

		make_record(&r, frames, n, is_exact);
		for (uint32_t i = 0; i < n_samples; i++) {
			struct long_record sent = r;

			sent.head.time_ns = (uint64_t)j.f.clock.mono_ns + i;
			sent.head.weight[0] = (uint64_t)below(1U << 30) << below(20);
			sent.head.weight[1] = below(1U << 30);
			want[1] += (int64_t)sent.head.weight[1];
			want[2] += (int64_t)sent.head.weight[0];
			travel(&sent);
			hold_add(&j.hold, HOLD_SAMPLE, &sent,
				sizeof(sent.head) +
					(sent.head.n_kernel + sent.head.n_user) * sizeof(__u64));
		}
		clock_virtual_advance(&j.f.clock, 2 * NS_PER_S);
		hold_flush(&j.hold, (uint64_t)j.f.clock.mono_ns);
		j.hold.sink.drained(&j.intake, (uint64_t)j.f.clock.mono_ns, 0);
		profile_init(&p, NULL);
		journey_profile(&j, &p);
		assert_int_equal(p.n_types, N_VALUES);
		assert_int_equal(p.n_samples, 1);
		assert_memory_equal(p.values, want, sizeof(want));
		n_interpreter +=
			check_stack(&p, (const struct abi_record *)&r, frames, n, is_exact);
	}
	assert_true(n_interpreter > 10000);
	journey_end(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_arrive),
		cmocka_unit_test(test_frames_and_weights_reach_the_profile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
