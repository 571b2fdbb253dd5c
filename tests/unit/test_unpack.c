/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed records: what the kernel half packs (bpf/unwind/frame_pack.h, compiled for the host) is unpacked to the same words, in no more
 * bytes than before; whatever else comes is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/sample/unpack.h"

static uint64_t random_state = 11;

static uint32_t rnd(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(random_state >> 33) % below;
}

struct packed {
	struct abi_record head;
	__u64 words[FRAME_PACK_MAX];
};

/* As the kernel half does it; returns the record's bytes. */
static size_t pack(struct packed *r, uint32_t n_kernel, uint32_t n_user)
{
	r->head = (struct abi_record) {.type = ABI_RECORD_PACKED_SAMPLE,
		.flags = ABI_FLAG_USER_MODE,
		.n_kernel = (uint16_t)n_kernel,
		.n_user = (uint16_t)n_user,
		.time_ns = 5,
		.pid = 7};
	return sizeof(r->head) + frame_pack(r->words, n_kernel + n_user) * sizeof(uint32_t);
}

static void check(const __u64 *words, uint32_t n_kernel, uint32_t n_user, size_t want_words_bytes)
{
	static struct packed r;
	static union unpacked got;
	uint32_t n = n_kernel + n_user;
	size_t len;

	memset(r.words, 0x5a, sizeof(r.words));
	memcpy(r.words, words, n * sizeof(*words));
	len = pack(&r, n_kernel, n_user);
	assert_true(len <= sizeof(r.head) + n * sizeof(*words));
	if (want_words_bytes)
		assert_int_equal(len - sizeof(r.head), want_words_bytes);
	assert_int_equal(unpack_sample(&r, len, &got), sizeof(r.head) + n * sizeof(*words));
	assert_memory_equal(got.record.frames, words, n * sizeof(*words));
	assert_int_equal(got.record.type, ABI_RECORD_SAMPLE);
	r.head.type = ABI_RECORD_SAMPLE;
	assert_memory_equal(&got.record, &r.head, sizeof(r.head));
}

static void test_words_come_back(void **state)
{
	static __u64 words[FRAME_PACK_MAX];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		uint32_t n_kernel = rnd(3) ? 0 : rnd(FRAME_PACK_MAX + 1);
		uint32_t n_user = rnd(FRAME_PACK_MAX + 1 - n_kernel);
		__u64 word = 0;

		for (uint32_t i = 0; i < n_kernel + n_user; i++) {
			uint64_t wide = (uint64_t)rnd(1U << 31) << 31 | rnd(1U << 31);

			/* another kind and file, another place in the file, or a bit anywhere that is another */
			if (!i || !rnd(6))
				word = ABI_FRAME(1 + rnd(8), wide);
			else if (rnd(4))
				word = (word & ~0x7fffffffULL) | rnd(1U << 31);
			else
				word = ABI_FRAME(ABI_FRAME_KIND(word), word ^ 1ULL << rnd(60));
			words[i] = word;
		}
		check(words, n_kernel, n_user, 0);
	}
}

/* No word, and as many as there can be, that all differ and that do not. */
static void test_limits(void **state)
{
	static __u64 words[FRAME_PACK_MAX];

	(void)state;
	check(words, 0, 0, 0);
	for (uint32_t i = 0; i < FRAME_PACK_MAX; i++)
		words[i] = ABI_FRAME(1 + (i & 7), ~0ULL);
	check(words, 4, FRAME_PACK_MAX - 4, 8 * FRAME_PACK_MAX);
	for (uint32_t i = 0; i < FRAME_PACK_MAX; i++)
		words[i] = ABI_NATIVE(ABI_BINARY_MAX, i);
	check(words, 4, FRAME_PACK_MAX - 4, 4 + 4 * FRAME_PACK_MAX);
}

/* The bytes of docs/formats/abi.md. */
static void test_bytes_of_words(void **state)
{
	__u64 words[] = {ABI_NATIVE(3, 0x1234), ABI_NATIVE(3, 0x2000), ABI_NATIVE(4, 0x2000),
		ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_BAD_PC)};
	static const uint32_t want[] = {0x100000c0, 0x1234, 0x80002000, 0x10000100, 0x2000, 0, 5};
	static struct packed r;

	(void)state;
	memcpy(r.words, words, sizeof(words));
	assert_int_equal(pack(&r, 0, 4), sizeof(r.head) + sizeof(want));
	assert_memory_equal(r.words, want, sizeof(want));
	check(words, 0, 4, sizeof(want));
}

static void test_what_is_refused(void **state)
{
	static struct packed r, bad;
	static union unpacked got;
	size_t len;

	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		r.words[i] = ABI_NATIVE(1 + i / 5, 64 * i);
	len = pack(&r, 2, 18);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(unpack_sample(&r, cut, &got), -EBADMSG);
	for (size_t more = 1; more < 12; more++)
		assert_int_equal(unpack_sample(&r, len + more, &got), -EBADMSG);
#define REFUSED(field, value)                                               \
	do {                                                                \
		bad = r;                                                    \
		bad.head.field = value;                                     \
		assert_int_equal(unpack_sample(&bad, len, &got), -EBADMSG); \
	} while (0)
	REFUSED(type, ABI_RECORD_SAMPLE);
	REFUSED(type, ABI_RECORD_STACK);
	REFUSED(n_user, 17);
	REFUSED(n_user, 19);
	REFUSED(n_user, FRAME_PACK_MAX - 1);
	REFUSED(n_user, UINT16_MAX);
	REFUSED(n_kernel, UINT16_MAX);
	assert_true(unpack_sample(&r, len, &got) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_come_back),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_bytes_of_words),
		cmocka_unit_test(test_what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
