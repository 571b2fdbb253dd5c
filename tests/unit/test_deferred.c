/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks walked from their copies: with tables at once, after they came, given up after a time; the log's time waits with them.
 * The process table and the registry are stand-ins; tables are one rule for one binary in plain memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/walk/deferred.h"
#include "lib/base/clock.h"

#define CODE 0x400000ULL
#define STACK 0x7ffe00000000ULL

static bool coming;

struct process *proc_table_of_record(struct proc_table *t, const struct abi_record *r)
{
	(void)t, (void)r;
	return NULL;
}

static enum proc_wait wait_for_process;

enum proc_wait proc_table_awaits(
	struct proc_table *t, struct process *p, const struct abi_record *r)
{
	(void)t, (void)p, (void)r;
	return wait_for_process;
}

uint64_t proc_locate(struct proc_table *t, struct process *p, uint64_t addr, uint64_t time_ns)
{
	(void)t, (void)p, (void)time_ns;
	return addr >= CODE && addr < CODE + 0x1000 ? ABI_NATIVE(5, addr - CODE) : 0;
}

void proc_note_native(struct proc_table *t, struct process *p, uint64_t word)
{
	(void)t, (void)p, (void)word;
}

uint32_t proc_flags(const struct process *p)
{
	(void)p;
	return 0;
}

bool binary_is_coming(struct binary_registry *r, uint32_t binary)
{
	(void)r;
	assert_int_equal(binary, 5);
	return coming;
}

/* Slab 1: four pages, all of them rule 1 but the last, which is rule 2 (root). */
static uint32_t slabs[2 * UNWIND_SLAB_WORDS];
static struct unwind_rule rules[3];
static struct unwind_binary binaries[6];

static struct {
	struct abi_record r;
	__u64 words[64];
} last;
static int n_samples;

static void take(void *ctx, const struct abi_record *r, struct process *process)
{
	(void)ctx, (void)process;
	memcpy(&last, r, sizeof(*r) + (r->n_kernel + (size_t)r->n_user) * sizeof(r->frames[0]));
	n_samples++;
}

static struct abi_record compared;
static uint32_t compared_bytes;

static void take_shadow(void *ctx, const struct abi_record *r, const struct abi_stack *s)
{
	(void)ctx;
	assert_int_equal(r->time_ns, s->time_ns);
	compared = *r;
	compared_bytes = s->bytes;
}

static struct deferred *fresh(bool with_table)
{
	memset(slabs, 0, sizeof(slabs));
	memset(binaries, 0, sizeof(binaries));
	rules[1] = (struct unwind_rule) {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_SP,
		.ra = UNWIND_AT_CFA,
		.off = 24,
		.ra_off = -8};
	rules[2] = (struct unwind_rule) {
		.cfa = UNWIND_CFA_REG, .reg = UNWIND_SP, .ra = UNWIND_GONE, .off = 8};
	for (uint32_t i = 0; i < 4; i++) {
		slabs[UNWIND_SLAB_WORDS + i] = UNWIND_PAGE(UNWIND_SLAB_WORDS + 4 + i, 0);
		slabs[UNWIND_SLAB_WORDS + 4 + i] = UNWIND_ROW(i * 1024, i == 3 ? 2 : 1);
	}
	if (with_table)
		binaries[5] = (struct unwind_binary) {.seq = 2, .slab = 1, .n_pages = 4};
	coming = false;
	wait_for_process = PROC_READY;
	n_samples = 0;
	return deferred_new(&(struct deferred_options) {
		.tables = {.binaries = binaries,
			.slabs = slabs,
			.rules = rules,
			.n_binaries = 6,
			.n_slabs = 2,
			.n_rules = 3},
		.max_wait_ns = 2 * NS_PER_S,
		.sample = take,
		.shadow = take_shadow,
	});
}

/* A copy of a stack of three frames, and its sample as the kernel half had it: the leaf, cut. */
static void send_as(struct deferred *d, uint64_t time_ns, uint16_t flags)
{
	struct {
		struct abi_stack s;
		__u64 words[9];
	} copy = {.s = {.type = ABI_RECORD_STACK,
			  .bytes = 9 * 8,
			  .time_ns = time_ns,
			  .cpu = 1,
			  .pc = CODE + 16,
			  .regs = {[UNWIND_SP] = STACK}},
		.words = {0, 0, CODE + 0x800, 0, 0, CODE + 0xd00}};
	struct {
		struct abi_record r;
		__u64 words[2];
	} sample = {.r = {.type = ABI_RECORD_SAMPLE,
			    .flags = ABI_FLAG_USER_MODE | flags,
			    .n_user = 2,
			    .time_ns = time_ns,
			    .cpu = 1},
		.words = {ABI_FRAME(ABI_FRAME_RAW, CODE + 16),
			ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_FP_INSANE)}};

	deferred_stack(d, &copy.s);
	deferred_sample(d, &sample.r);
}

static void send(struct deferred *d, uint64_t time_ns)
{
	send_as(d, time_ns, ABI_FLAG_COPIED);
}

static void assert_whole(void)
{
	assert_int_equal(last.r.n_user, 3);
	assert_true(last.words[0] == ABI_NATIVE(5, 16));
	assert_true(last.words[1] == ABI_NATIVE(5, 0x800));
	assert_true(last.words[2] == ABI_NATIVE(5, 0xd00));
}

static void with_tables_it_goes_on_at_once(void **state)
{
	_cleanup_(deferred_freep)
	struct deferred *d = fresh(true);

	(void)state;
	send(d, 1000);
	assert_int_equal(n_samples, 1);
	assert_whole();
	assert_true(deferred_retry(d, 5000) == 5000);
}

static void without_them_it_waits(void **state)
{
	_cleanup_(deferred_freep)
	struct deferred *d = fresh(false);
	struct deferred_stats st;

	(void)state;
	coming = true;
	send(d, 1000);
	assert_int_equal(n_samples, 0);
	/* the log is not told of later times */
	assert_true(deferred_retry(d, 1000 + NS_PER_S) == 999);
	deferred_stats(d, &st);
	assert_int_equal(st.waiting, 1);
	binaries[5] = (struct unwind_binary) {.seq = 2, .slab = 1, .n_pages = 4};
	assert_true(deferred_retry(d, 1000 + NS_PER_S) == 1000 + NS_PER_S);
	assert_whole();
	deferred_stats(d, &st);
	assert_int_equal(st.waiting, 0);
	assert_int_equal(st.waiting_bytes, 0);
	assert_int_equal(st.whole, 1);
}

static void after_a_time_it_goes_on_cut(void **state)
{
	_cleanup_(deferred_freep)
	struct deferred *d = fresh(false);
	struct deferred_stats st;

	(void)state;
	coming = true;
	send(d, 1000);
	send(d, 2000);
	deferred_retry(d, 1500 + 2 * NS_PER_S);
	assert_int_equal(n_samples, 1);
	assert_int_equal(last.r.n_user, 2);
	assert_true(last.words[1] == ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_NO_TABLE));
	/* what is not being made is not waited for */
	coming = false;
	deferred_retry(d, 1600 + 2 * NS_PER_S);
	assert_int_equal(n_samples, 2);
	deferred_stats(d, &st);
	assert_int_equal(st.given_up, 2);
}

/* Whether its stack was copied or not: what is read of its process comes first, or takes too long. */
static void it_waits_for_its_process(void **state)
{
	for (int copied = 0; copied < 2; copied++) {
		_cleanup_(deferred_freep)
		struct deferred *d = fresh(true);
		struct deferred_stats st;

		(void)state;
		wait_for_process = PROC_AWAITED;
		send_as(d, 1000, copied ? ABI_FLAG_COPIED : 0);
		assert_int_equal(n_samples, 0);
		assert_true(deferred_retry(d, 1000 + NS_PER_S) == 999);
		wait_for_process = PROC_READY;
		assert_true(deferred_retry(d, 1000 + NS_PER_S) == 1000 + NS_PER_S);
		assert_int_equal(n_samples, 1);
		assert_int_equal(last.r.n_user, copied ? 3 : 2);
		wait_for_process = PROC_AWAITED;
		send_as(d, 2000, copied ? ABI_FLAG_COPIED : 0);
		deferred_stats(d, &st);
		assert_int_equal(st.unread, 0);
		deferred_retry(d, 2000 + 2 * NS_PER_S);
		assert_int_equal(n_samples, 2);
		/* One that was waited for in vain is not waited for again. */
		wait_for_process = PROC_GIVEN_UP;
		send_as(d, 3000, copied ? ABI_FLAG_COPIED : 0);
		assert_int_equal(n_samples, 3);
		deferred_stats(d, &st);
		assert_int_equal(st.unread, 2);
		assert_int_equal(st.waiting, 0);
	}
}

static void a_copy_of_another_sample_is_left_alone(void **state)
{
	_cleanup_(deferred_freep)
	struct deferred *d = fresh(true);
	struct abi_stack copy = {.type = ABI_RECORD_STACK, .time_ns = 7, .cpu = 1};
	struct abi_record r = {
		.type = ABI_RECORD_SAMPLE, .flags = ABI_FLAG_COPIED, .time_ns = 8, .cpu = 1};

	(void)state;
	deferred_stack(d, &copy);
	deferred_sample(d, &r);
	assert_int_equal(n_samples, 1);
	assert_int_equal(last.r.n_user, 0);
}

/* What is to be compared is what goes on: as it came, or as it was walked. */
static void a_shadow_is_of_what_goes_on(void **state)
{
	_cleanup_(deferred_freep)
	struct deferred *d = fresh(true);

	(void)state;
	compared = (struct abi_record) {0};
	send(d, 1000);
	assert_int_equal(compared.time_ns, 0);
	send_as(d, 2000, ABI_FLAG_SHADOW);
	assert_int_equal(last.r.n_user, 2);
	assert_int_equal(compared.time_ns, 2000);
	assert_int_equal(compared.n_user, 2);
	assert_int_equal(compared_bytes, 72);
	send_as(d, 3000, ABI_FLAG_COPIED | ABI_FLAG_SHADOW);
	assert_whole();
	assert_int_equal(compared.time_ns, 3000);
	assert_int_equal(compared.n_user, 3);
	assert_int_equal(n_samples, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_tables_it_goes_on_at_once),
		cmocka_unit_test(without_them_it_waits),
		cmocka_unit_test(after_a_time_it_goes_on_cut),
		cmocka_unit_test(it_waits_for_its_process),
		cmocka_unit_test(a_shadow_is_of_what_goes_on),
		cmocka_unit_test(a_copy_of_another_sample_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
