/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack's way from the walker to the stack tree, over random stacks of frames of every kind: recursion becomes REPEAT words and deep
 * stacks lose their middle (bpf/unwind/frames.h), rings have words packed (bpf/unwind/frame_pack.h), records turn words around
 * (exporter/walk/record.c). What the words stand for in the end is what went in, return addresses one byte lower.
 */
#include "bpf/unwind/frames.h"
#include "exporter/sample/unpack.h"
#include "lib/base/hash.h"
#include "tests/unit/proc_fixture.h"
#include <string.h>

enum { PID = 77, MAX_STACK = 6000, N_PLACES = 12, N_KERNEL = 5 };
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

/* What the tree is to have for a frame. */
static void expect_frame(
	const struct fixture *f, uint64_t word, uint64_t frame, bool is_return, uint32_t at)
{
	bool same;

	if (ABI_FRAME_KIND(frame) == ABI_FRAME_JIT)
		same = ABI_FRAME_KIND(word) == ABI_FRAME_JIT &&
		       proc_interned_address(f->t, ABI_FRAME_VALUE(word)).addr ==
			       ABI_FRAME_VALUE(frame) - is_return;
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_frames_arrive)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
