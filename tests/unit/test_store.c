/* SPDX-License-Identifier: Apache-2.0
 *
 * The store as a whole, single-threaded, on the real file system and a virtual clock: what was appended is found again from the head,
 * after a replay, from a block, and after a reopening.
 */
#include "tests/unit/store_gen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <fcntl.h>

static const int64_t start_ns = 1700000000LL * NS_PER_S;

struct fixture {
	char path[64];
	struct clock_virtual clock;
	struct store_options o;
	struct store *s;
	struct gen g;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	snprintf(f->path, sizeof(f->path), "/tmp/sonde-store-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	clock_virtual_init(&f->clock, start_ns);
	f->o = (struct store_options) {
		.path = f->path,
		.clock = &f->clock.clock,
		.segment_bytes = 1 << 20,
		.max_nodes = 1 << 16,
		.seed = 7,
		.fsync = STORE_FSYNC_NEVER,
	};
	f->g = (struct gen) {
		.state = 42, .n_functions = 60, .max_depth = 12, .max_rows = 30, .n_streams = 3};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->s);
	assert_int_equal(fs_remove_all(&fs_system, f->path), 0);
	free(f);
	return 0;
}

static void open_store(struct fixture *f)
{
	struct errbuf eb = {.text = ""};
	int r;

	if (f->s)
		store_close(TAKE(f->s));
	r = store_open(&f->o, &f->s, &eb);
	if (r)
		print_error("store_open: %s\n", eb.text);
	assert_int_equal(r, 0);
}

static int append(struct fixture *f, unsigned target, uint64_t step, int64_t time_ns,
	struct store_result *ret, struct errbuf *eb)
{
	struct gen_scrape *x = gen_scrape(&f->g, target, step, time_ns);
	int r = store_append(f->s, &x->s, ret, eb);

	gen_scrape_free(x);
	return r;
}

static void append_rounds(struct fixture *f, unsigned n_targets, uint64_t first, uint64_t n)
{
	struct store_result res;
	struct errbuf eb = {.text = ""};

	for (uint64_t step = first; step < first + n; step++) {
		for (unsigned t = 0; t < n_targets; t++) {
			int r = append(f, t, step, start_ns + (int64_t)step * 15 * NS_PER_S + t,
				&res, &eb);

			if (r)
				print_error("append: %s\n", eb.text);
			assert_int_equal(r, 0);
		}
		clock_virtual_advance(&f->clock, 15 * NS_PER_S);
	}
}

static void test_found_again(void **state)
{
	struct fixture *f = *state;
	struct errbuf eb = {.text = ""};
	struct store_stats st;
	char *head, *replayed, *block, *reopened;

	open_store(f);
	append_rounds(f, 4, 0, 10);
	head = gen_dump_store(f->s, true);
	assert_true(strlen(head) > 10000);
	open_store(f);
	replayed = gen_dump_store(f->s, true);
	assert_string_equal(head, replayed);
	store_stats(f->s, &st);
	assert_int_equal(st.replay_damaged_records, 0);
	assert_int_equal(st.replayed_records, 41); /* and the cursors */
	assert_int_equal(store_flush(f->s, &eb), 0);
	store_stats(f->s, &st);
	assert_int_equal(st.blocks, 1);
	assert_int_equal(st.head_rows, 0);
	block = gen_dump_store(f->s, true);
	assert_string_equal(head, block);
	open_store(f);
	reopened = gen_dump_store(f->s, true);
	assert_string_equal(head, reopened);
	free(head);
	free(replayed);
	free(block);
	free(reopened);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_again, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
