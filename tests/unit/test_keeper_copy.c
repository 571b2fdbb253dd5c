/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's operation COPY: memory of this test's own process over its protocol, the bounds of a request, the rate of an opener, and
 * answers that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "exporter/keeper/copy.h"
#include "lib/base/clock.h"
#include "tests/unit/keeper_pair.h"
#include <sys/mman.h>

/* A page, a hole, and in the middle of a page a number. */
static void copies_memory(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	int64_t suspended = clock_boottime_ns(&clock_system) - clock_monotonic_ns(&clock_system);
	uint64_t start_ns = started_ns(getpid()) - (uint64_t)suspended + 3000000;
	uint32_t me = (uint32_t)getpid();
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t a[64] = {0}, b[64] = {0}, c[64] = {0};
	struct keeper_range ranges[] = {{.addr = (uintptr_t)memory + 100, .bytes = 5, .to = a},
		{.addr = (uintptr_t)memory + page - 10, .bytes = 64, .to = b},
		{.addr = (uintptr_t)memory + page, .bytes = 8, .to = c},
		{.addr = UINT64_MAX - 3, .bytes = 8, .to = c},
		{.addr = (uintptr_t)memory + 2 * page, .bytes = 3, .to = c}};

	assert_true(memory != MAP_FAILED);
	assert_int_equal(munmap(memory + page, page), 0);
	memcpy(memory + 100, "hello", 5);
	memset(memory + page - 10, 'x', 10);
	memcpy(memory + 2 * page, "end", 3);
	assert_int_equal(keeper_copy(k, me, start_ns, ranges, ARRAY_SIZE(ranges)), 0);
	assert_int_equal(ranges[0].copied, 5);
	assert_memory_equal(a, "hello", 5);
	assert_int_equal(ranges[1].copied, 10);
	assert_memory_equal(b, "xxxxxxxxxx\0", 11);
	assert_int_equal(ranges[2].copied, 0);
	assert_int_equal(ranges[3].copied, 0);
	assert_int_equal(ranges[4].copied, 3);
	assert_memory_equal(c, "end", 3);

	/* another process, or one that nobody can say the start of */
	assert_int_equal(keeper_copy(k, me, start_ns + 10000000, ranges, 1), -ESRCH);
	assert_int_equal(keeper_copy(k, me, 0, ranges, 1), -EINVAL);
	assert_int_equal(keeper_copy(k, 0x7ffffff0, start_ns, ranges, 1), -ESRCH);
	munmap(memory, page);
	munmap(memory + 2 * page, page);
}

/* What the client refuses the opener refuses too: main may be anybody's. */
static void copies_have_bounds(void **state)
{
	static const struct {
		size_t n;
		uint64_t bytes; /* of each */
		size_t cut;	/* bytes short of what n says */
		bool is_right;
	} cases[] = {
		{1, 1, 0, true},
		{1, KEEPER_COPY_BYTES, 0, true},
		{8, KEEPER_COPY_BYTES / 8, 0, true},
		{0, 1, 0, false},
		{9, 1, 0, false},
		{1, 0, 0, false},
		{1, KEEPER_COPY_BYTES + 1, 0, false},
		{8, KEEPER_COPY_BYTES / 8 + 1, 0, false},
		{1, UINT32_MAX + 2ULL, 0, false},
		{2, 1, 1, false},
		{2, 1, 8, false},
	};
	uint8_t payload[10 * COPY_RANGE_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct keeper_range in[10], out[KEEPER_COPY_RANGES];
		int r;

		for (size_t k = 0; k < cases[i].n; k++) {
			uint64_t addr = 0x1122334455667700 + k;

			in[k] = (struct keeper_range) {
				.addr = addr, .bytes = (uint32_t)cases[i].bytes};
			memcpy(payload + k * COPY_RANGE_BYTES, &addr, 8);
			memcpy(payload + k * COPY_RANGE_BYTES + 8, &cases[i].bytes, 8);
		}
		r = copy_get_ranges(payload, cases[i].n * COPY_RANGE_BYTES - cases[i].cut, out);
		assert_int_equal(r, cases[i].is_right ? (int)cases[i].n : -EINVAL);
		for (int k = 0; k < r; k++) {
			assert_int_equal(out[k].addr, in[k].addr);
			assert_int_equal(out[k].bytes, in[k].bytes);
		}
		if (!cases[i].cut && cases[i].bytes <= UINT32_MAX)
			assert_int_equal(copy_ranges_fit(in, cases[i].n), cases[i].is_right);
	}
}

static void copies_have_a_rate(void **state)
{
	struct copy_limit l = {0};
	int64_t now_ns = 5 * NS_PER_S;
	unsigned n = 0;

	(void)state;
	while (copy_limit_take(&l, now_ns, 1) == 0)
		n++;
	assert_int_equal(n, COPY_PER_S);
	/* a tenth of a second later a tenth of that */
	for (n = 0; copy_limit_take(&l, now_ns + NS_PER_S / 10, 1) == 0;)
		n++;
	assert_int_equal(n, COPY_PER_S / 10);
	now_ns += 100 * NS_PER_S;
	for (n = 0; copy_limit_take(&l, now_ns, KEEPER_COPY_BYTES) == 0;)
		n++;
	assert_int_equal(n, COPY_BYTES_PER_S / KEEPER_COPY_BYTES);
	/* the clock does not go back, but nothing depends on that */
	assert_int_equal(copy_limit_take(&l, now_ns - NS_PER_S, KEEPER_COPY_BYTES), -EBUSY);
}

/* The opener of this test has copied all that it may: it refuses, and its client counts that. */
static void refused_copies_are_counted(void **state)
{
	struct pair *p = *state;
	int64_t now_ns = clock_monotonic_ns(&clock_system);
	uint8_t byte;
	struct keeper_range range = {.addr = (uintptr_t)&byte, .bytes = 1, .to = &byte};
	struct keeper_stats stats;

	p->copies = (struct copy_limit) {.at_ns = now_ns + 3600 * NS_PER_S};
	assert_int_equal(keeper_copy(p->keeper, (uint32_t)getpid(), 1, &range, 1), -EBUSY);
	keeper_stats(p->keeper, &stats);
	assert_int_equal(stats.limited, 1);
	assert_int_equal(stats.busy, 0);
	assert_int_equal(stats.requests, 1);
}

/* An opener's answer is checked like any: no byte beyond a range's room is written. */
static void answers_that_are_no_copies(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int result;
	} cases[] = {
		{"\4\0\0\0abcd", 8, 0},
		{"\0\0\0\0", 4, 0},
		{"\3\0\0\0abc", 7, 0},
		{"\5\0\0\0abcde", 9, -EPROTO},
		{"\4\0\0\0abc", 7, -EPROTO},
		{"\3\0\0\0abcd", 8, -EPROTO},
		{"\xff\xff\xff\xff", 4, -EPROTO},
		{"\0\0", 2, -EPROTO},
		{"", 0, -EPROTO},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char room[5] = "????";
		struct keeper_range range = {.bytes = 4, .to = room};
		int fd = memfd_create("answer", MFD_CLOEXEC);

		assert_int_equal(pwrite(fd, cases[i].bytes, cases[i].len, 0), cases[i].len);
		assert_int_equal(copy_from_file(fd, &range, 1), cases[i].result);
		if (!cases[i].result)
			assert_memory_equal(room, cases[i].bytes + 4, cases[i].len - 4);
		assert_int_equal(room[4], 0);
		close(fd);
	}
}

/* The memory of one process hangs: it is asked for no more of it, and others are read. */
static void memory_that_hangs(void **state)
{
	struct pair *p = *state;
	int64_t suspended = clock_boottime_ns(&clock_system) - clock_monotonic_ns(&clock_system);
	uint64_t start_ns = started_ns(getpid()) - (uint64_t)suspended + 3000000;
	uint32_t me = (uint32_t)getpid();
	uint8_t byte;
	struct keeper_range range = {.addr = (uintptr_t)&byte, .bytes = 1, .to = &byte};
	struct keeper_stats stats;

	p->n_dead = 1;
	p->keeper->close(p->keeper);
	pthread_join(p->thread, NULL);
	close(p->sock[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->sock), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
	p->keeper = keeper_client_new(p->sock[1], 100);
	assert_int_equal(keeper_copy(p->keeper, 1, 1, &range, 1), -ETIMEDOUT);
	assert_int_equal(keeper_copy(p->keeper, 1, 1, &range, 1), -EBUSY);
	assert_int_equal(keeper_copy(p->keeper, me, start_ns, &range, 1), 0);
	keeper_stats(p->keeper, &stats);
	assert_int_equal(stats.busy, 1);
	assert_int_equal(stats.n_hanging, 1);
	assert_int_equal(stats.hanging[0].what, KEEPER_COPY);
	assert_string_equal(keeper_what_name(KEEPER_COPY), "memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copies_memory, setup, teardown),
		cmocka_unit_test(copies_have_bounds),
		cmocka_unit_test(copies_have_a_rate),
		cmocka_unit_test_setup_teardown(refused_copies_are_counted, setup, teardown),
		cmocka_unit_test(answers_that_are_no_copies),
		cmocka_unit_test_setup_teardown(memory_that_hangs, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
