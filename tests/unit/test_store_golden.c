/* SPDX-License-Identifier: Apache-2.0
 *
 * tests/data/store/v1 was written once by the first version of the format: a block and a generation in the WAL. It must open for
 * ever and give the text in tests/golden/store_v1.txt. SONDE_WRITE_GOLDEN=DIR writes such a directory (for a version to come).
 */
#include "tests/unit/store_gen.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

static const char golden_dir[] = "tests/data/store/v1";
static const char golden_text[] = "tests/golden/store_v1.txt";

static void write_golden(const char *dir)
{
	struct gen g = {
		.state = 1, .n_functions = 40, .max_depth = 10, .max_rows = 12, .n_streams = 2};
	struct clock_virtual clock;
	struct store_options o = {.path = dir,
		.clock = &clock.clock,
		.segment_bytes = 16 << 10,
		.max_nodes = 4096,
		.seed = 1};
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_result res;

	clock_virtual_init(&clock, 1700000000LL * NS_PER_S);
	assert_int_equal(store_open(&o, &s, &eb), 0);
	for (uint64_t step = 0; step < 6; step++) {
		struct gen_scrape *x = gen_scrape(&g, 0, step, clock.real_ns);

		assert_int_equal(store_append(s, &x->s, &res, &eb), 0);
		gen_scrape_free(x);
		clock_virtual_advance(&clock, 15 * NS_PER_S);
		if (step == 3)
			assert_int_equal(store_flush(s, &eb), 0);
	}
	store_close(s);
}

/* The parts of a directory in order of time, dumped and checked, without changing anything. */
static void dump_directory(const char *dir, struct bytes *out)
{
	struct store_options o = {.path = dir, .max_nodes = 4096, .read_only = true};
	struct dump_options all = {.rows = true};
	struct errbuf eb = {.text = ""};
	struct store *s = NULL;
	struct store_parts parts;

	assert_int_equal(store_open(&o, &s, &eb), 0);
	assert_int_equal(store_parts_get(s, INT64_MIN, INT64_MAX, &parts), 0);
	assert_int_equal(parts.n, 2);
	for (size_t i = 0; i < parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *r = NULL;
		struct dump_counts counts;

		assert_int_equal(part_reader_open(parts.items[i], NULL, &r, &eb), 0);
		assert_int_equal(dump_check(r, &counts), 0);
		assert_int_equal(dump_part(r, &all, out), 0);
	}
	store_parts_put(s, &parts);
	store_close(s);
}

static void check_text(const char *dir)
{
	_cleanup_bytes_ struct bytes want = {.data = NULL}, have = {.data = NULL};
	struct errbuf eb = {.text = ""};

	assert_int_equal(fs_read_file(&fs_system, golden_text, 1 << 20, &want, &eb), 0);
	dump_directory(dir, &have);
	assert_int_equal(have.len, want.len);
	assert_memory_equal(have.data, want.data, want.len);
}

static void test_golden(void **state)
{
	(void)state;
	check_text(golden_dir);
}

/* What this version writes of the same content reads the same. (Bytes may differ by zstd's version.) */
static void test_same_text(void **state)
{
	char dir[] = "/tmp/sonde-golden-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_golden(dir);
	check_text(dir);
	assert_int_equal(fs_remove_all(&fs_system, dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden), cmocka_unit_test(test_same_text)};

	if (getenv("SONDE_WRITE_GOLDEN")) {
		write_golden(getenv("SONDE_WRITE_GOLDEN"));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
