/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports beside a store that scrapes, over the simulated file system: found again and kept, once only, refused whole, nothing left of one
 * that failed at any write or died at any operation, and no harm when an appender works at the same time.
 */
#include "tests/unit/store_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>
#include <pthread.h>

enum { OTHER = 17, HOURS = 3600 };

static int setup(void **state)
{
	struct run *r = xcalloc(1, sizeof(*r));
	struct errbuf eb = {.text = ""};

	run_init(r, 5, 2, 20);
	assert_int_equal(run_open(r, &eb), 0);
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned t = 0; t < 2; t++)
			assert_int_equal(run_one(r, t, &eb), 0);
		clock_virtual_advance(&r->clock, 15 * NS_PER_S);
	}
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct run *r = *state;

	run_done(r);
	free(r);
	return 0;
}

/* Scrape `number` of a target that is never scraped, as an import `age_s` before the first real scrape. */
static struct gen_scrape *old_scrape(struct run *r, unsigned number, int64_t age_s)
{
	struct gen g = r->shape;
	struct gen_scrape *x;

	g.state = 1000 + number;
	do
		x = gen_scrape(&g, OTHER, 0, run_start_ns - age_s * NS_PER_S);
	while (!x->s.n_rows && (gen_scrape_free(x), true));
	x->s.cursor_key.len = 0;
	return x;
}

static int import_one(
	struct run *r, unsigned number, int64_t age_s, struct store_result *res, struct errbuf *eb)
{
	struct gen_scrape *x = old_scrape(r, number, age_s);
	int e = store_import(r->s, &x->s, 1, res, eb);

	gen_scrape_free(x);
	return e;
}

static unsigned n_lines_with(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static unsigned n_block_names(struct run *r)
{
	_cleanup_bytes_ struct bytes names = {.data = NULL};
	unsigned n = 0;

	assert_true(r->fs.fs.list(&r->fs.fs, "/data/blocks", &names) >= 0);
	for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1)
		n++;
	return n;
}

static void test_stored_and_kept(void **state)
{
	struct run *r = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;
	char *before = gen_dump_store(r->s, true), *after, *later;

	assert_int_equal(import_one(r, 1, 26 * HOURS, &res, &eb), 0);
	assert_int_equal(res.n_streams, 2);
	assert_true(res.n_rows > 0);
	after = gen_dump_store(r->s, true);
	assert_int_equal(n_lines_with(before, "host-17"), 0);
	assert_true(n_lines_with(after, "host-17") >= res.n_rows + res.n_streams);
	assert_true(strlen(after) > strlen(before));
	store_stats(r->s, &st);
	assert_int_equal(st.blocks, 1);
	assert_int_equal(st.imports, 1);
	assert_int_equal(st.imported_profiles, res.n_streams);
	assert_int_equal(st.imported_rows, res.n_rows);
	assert_int_equal(st.min_time_ns, run_start_ns - 26 * HOURS * NS_PER_S);
	/* What was appended may be lost with the power, an import that returned is not. */
	r->fs.die_at = 1;
	store_close(TAKE(r->s));
	simfs_power_cut(&r->fs);
	assert_int_equal(run_open(r, &eb), 0);
	later = gen_dump_store(r->s, true);
	assert_int_equal(n_lines_with(later, "host-17"), n_lines_with(after, "host-17"));
	free(before);
	free(after);
	free(later);
}

static void test_once_only(void **state)
{
	struct run *r = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;
	char *once, *again;
	struct gen_scrape *x;

	assert_int_equal(import_one(r, 1, HOURS, &res, &eb), 0);
	once = gen_dump_store(r->s, true);
	assert_int_equal(import_one(r, 1, HOURS, &res, &eb), 0);
	assert_int_equal(res.n_duplicates, 2);
	assert_int_equal(res.n_streams, 0);
	assert_int_equal(import_one(r, 2, HOURS, &res, &eb), -EEXIST);
	assert_true(res.n_conflicts >= 1);
	assert_non_null(strstr(eb.text, "other content"));
	/* One that was scraped and still is in the head: the same rows, then other ones. */
	x = run_scrape(r, 1, 2);
	x->s.cursor_key.len = 0;
	assert_int_equal(store_import(r->s, &x->s, 1, &res, &eb), 0);
	assert_int_equal(res.n_duplicates, 2);
	x->s.n_rows = 0;
	assert_int_equal(store_import(r->s, &x->s, 1, &res, &eb), -EEXIST);
	gen_scrape_free(x);
	again = gen_dump_store(r->s, true);
	assert_string_equal(once, again);
	store_stats(r->s, &st);
	assert_int_equal(st.blocks, 1);
	assert_true(st.duplicates >= 4);
	assert_true(st.refused[STORE_REFUSED_CONFLICT] >= 2);
	free(once);
	free(again);
}

/* One new profile beside one that conflicts: neither is stored. */
static void test_all_or_none(void **state)
{
	struct run *r = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct gen_scrape *a = old_scrape(r, 1, HOURS), *b = old_scrape(r, 2, HOURS);
	struct gen_scrape *c = old_scrape(r, 3, 2 * HOURS);
	struct store_scrape both[2] = {c->s, b->s};
	char *before, *after;

	assert_int_equal(store_import(r->s, &a->s, 1, &res, &eb), 0);
	before = gen_dump_store(r->s, true);
	assert_int_equal(store_import(r->s, both, 2, &res, &eb), -EEXIST);
	assert_int_equal(res.n_streams, 0);
	after = gen_dump_store(r->s, true);
	assert_string_equal(before, after);
	both[1] = a->s;
	assert_int_equal(store_import(r->s, both, 2, &res, &eb), 0);
	assert_int_equal(res.n_streams, 2);
	assert_int_equal(res.n_duplicates, 2);
	free(before);
	free(after);
	gen_scrape_free(a);
	gen_scrape_free(b);
	gen_scrape_free(c);
}

static void test_times(void **state)
{
	struct run *r = *state;
	struct store_result res;
	const struct {
		int64_t age_s;
		int want;
		const char *text;
	} cases[] = {
		{15 * 24 * HOURS - 100, 0, ""},
		{15 * 24 * HOURS + 100, -ERANGE, "--storage.retention.time"},
		{-60 - 500, 0, ""},
		{-60 - 700, -ERANGE, "700.000 s ahead"},
		{run_start_ns / NS_PER_S * 2, -ERANGE, "timestamp"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {.text = ""};

		assert_int_equal(
			import_one(r, (unsigned)i, cases[i].age_s, &res, &eb), cases[i].want);
		if (!strstr(eb.text, cases[i].text))
			fail_msg("case %zu: \"%s\" expected in \"%s\"", i, cases[i].text, eb.text);
	}
}

/* What a clock that was a year ahead left behind does not make the present too old. */
static void test_times_after_wrong_clock(void **state)
{
	const int64_t year_ns = 365LL * 86400 * NS_PER_S;
	struct run *r = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;

	clock_virtual_step(&r->clock, year_ns);
	assert_int_equal(import_one(r, 1, -year_ns / NS_PER_S, &res, &eb), 0);
	clock_virtual_step(&r->clock, -year_ns);
	assert_int_equal(import_one(r, 2, 10, &res, &eb), 0);
	assert_int_equal(import_one(r, 3, 15 * 24 * HOURS + 100, &res, &eb), -ERANGE);
}

/* Upkeep treats the block as any other. */
static void test_retention(void **state)
{
	struct run *r = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;

	assert_int_equal(import_one(r, 1, 15 * 24 * HOURS - 100, &res, &eb), 0);
	assert_int_equal(store_maintain(r->s, &eb), 0);
	store_stats(r->s, &st);
	assert_int_equal(st.blocks, 1);
	clock_virtual_advance(&r->clock, 200 * NS_PER_S);
	assert_int_equal(import_one(r, 2, -150, &res, &eb), 0);
	assert_int_equal(store_maintain(r->s, &eb), 0);
	store_stats(r->s, &st);
	assert_int_equal(st.blocks_deleted, 1);
	assert_true(st.min_time_ns >= run_start_ns - 100 * NS_PER_S);
}

/* The n-th write that wants space is refused: nothing is left, ingest goes on, and the next attempt stores it. */
static void test_no_space(void **state)
{
	struct run *r = *state;
	struct errbuf eb = {.text = ""};
	struct store_result res;
	struct store_stats st;
	char *before = gen_dump_store(r->s, true), *after;
	unsigned n_failed = 0;
	int e = -ENOSPC;

	for (uint64_t at = 1; e == -ENOSPC; at++) {
		r->fs.n_space_ops = 0;
		r->fs.no_space_from = at;
		r->fs.no_space_to = UINT64_MAX;
		e = import_one(r, 1, HOURS, &res, &eb);
		r->fs.no_space_from = 0;
		if (!e)
			break;
		n_failed++;
		assert_int_equal(e, -ENOSPC);
		assert_int_equal(n_block_names(r), 0);
		after = gen_dump_store(r->s, true);
		assert_string_equal(before, after);
		free(after);
		store_stats(r->s, &st);
		assert_false(st.stopped);
		assert_int_equal(st.refused[STORE_REFUSED_SPACE], n_failed);
	}
	assert_int_equal(e, 0);
	assert_true(n_failed > 5);
	assert_int_equal(n_block_names(r), 1);
	assert_int_equal(run_one(r, 0, &eb), 0);
	free(before);
}

/* The n-th allocation fails: it is stored, or nothing is left and the next attempt stores it. */
static void test_no_memory(void **state)
{
	bool over = false;
	unsigned n;

	(void)state;
	for (n = 1; !over; n++) {
		struct errbuf eb = {.text = ""};
		struct gen_scrape *x;
		struct store_result res;
		struct run r;
		char *text;
		int e;

		run_init(&r, 9, 1, 4);
		assert_int_equal(run_open(&r, &eb), 0);
		x = old_scrape(&r, 1, HOURS);
		alloc_fail_after(n);
		e = store_import(r.s, &x->s, 1, &res, &eb);
		over = alloc_fail_after(0) > 0;
		gen_scrape_free(x);
		text = gen_dump_store(r.s, true);
		assert_int_equal(n_lines_with(text, "host-17") > 0, !e);
		assert_int_equal(n_block_names(&r), !e);
		free(text);
		assert_int_equal(import_one(&r, 1, HOURS, &res, &eb), 0);
		assert_int_equal(res.n_duplicates, e ? 0 : 2);
		assert_int_equal(n_block_names(&r), 1);
		run_done(&r);
	}
	assert_true(n > 50);
}

/* The process dies at every operation of an import, with the power or without: after the restart all of it is there or nothing. */
static void test_dies(void **state)
{
	unsigned n_nothing = 0, n_all = 0;

	(void)state;
	for (uint64_t at = 1, done = false; !done; at++) {
		for (int power = 0; power < 2; power++) {
			struct errbuf eb = {.text = ""};
			struct store_result res;
			struct run r;
			unsigned lines;
			char *text;

			run_init(&r, 9, 1, 4);
			assert_int_equal(run_open(&r, &eb), 0);
			r.fs.n_ops = 0;
			r.fs.die_at = at;
			done = import_one(&r, 1, HOURS, &res, &eb) == 0;
			store_close(TAKE(r.s));
			if (power)
				simfs_power_cut(&r.fs);
			else
				simfs_restart(&r.fs);
			assert_int_equal(run_open(&r, &eb), 0);
			text = gen_dump_store(r.s, true);
			lines = n_lines_with(text, "host-17");
			free(text);
			if (done)
				assert_true(lines > 0);
			n_all += lines > 0;
			n_nothing += !lines;
			/* Whichever it was, the same import again ends with one copy. */
			assert_int_equal(import_one(&r, 1, HOURS, &res, &eb), 0);
			assert_int_equal(res.n_duplicates, lines ? 2 : 0);
			assert_int_equal(n_block_names(&r), 1);
			run_done(&r);
		}
	}
	assert_true(n_nothing > 10);
	assert_true(n_all > 1);
}

struct worker {
	struct store *s;
	struct gen_scrape **scrapes;
	unsigned n, n_stored, n_duplicates, n_failed;
};

static void *append_all(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < w->n; i++) {
		struct store_result res;
		struct errbuf eb = {.text = ""};

		w->n_failed += store_append(w->s, &w->scrapes[i]->s, &res, &eb) != 0;
		w->n_stored += res.n_streams;
		w->n_duplicates += res.n_duplicates;
	}
	return NULL;
}

static void *import_all(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < w->n; i++) {
		struct store_result res;
		struct errbuf eb = {.text = ""};

		w->n_failed += store_import(w->s, &w->scrapes[i]->s, 1, &res, &eb) != 0;
		w->n_stored += res.n_streams;
		w->n_duplicates += res.n_duplicates;
	}
	return NULL;
}

/* The same scrapes through both doors at once, with upkeep between: each profile is stored exactly once. */
static void test_beside_appender(void **state)
{
	enum { N = 60 };
	char path[] = "/tmp/sonde-import-XXXXXX";
	struct gen_scrape *scrapes[N];
	struct clock_virtual clock;
	struct errbuf eb = {.text = ""};
	struct gen g = {
		.state = 3, .n_functions = 40, .max_depth = 8, .max_rows = 6, .n_streams = 2};
	struct worker appender = {.scrapes = scrapes, .n = N}, importer = appender;
	pthread_t threads[2];
	struct store *s = NULL;
	char *text;

	(void)state;
	assert_non_null(mkdtemp(path));
	clock_virtual_init(&clock, run_start_ns + N * NS_PER_S);
	assert_int_equal(store_open(&(struct store_options) {.path = path,
					    .clock = &clock.clock,
					    .segment_bytes = 1 << 20,
					    .max_nodes = 1 << 14,
					    .fsync = STORE_FSYNC_NEVER},
				 &s, &eb),
		0);
	for (unsigned i = 0; i < N; i++) {
		scrapes[i] = gen_scrape(&g, OTHER, i, run_start_ns + i * NS_PER_S);
		scrapes[i]->s.cursor_key.len = 0;
	}
	appender.s = importer.s = s;
	assert_int_equal(pthread_create(&threads[0], NULL, append_all, &appender), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, import_all, &importer), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(store_flush(s, &eb), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(appender.n_failed + importer.n_failed, 0);
	assert_int_equal(appender.n_stored + importer.n_stored, N * 2);
	assert_int_equal(appender.n_duplicates + importer.n_duplicates, N * 2);
	text = gen_dump_store(s, true);
	free(text);
	store_close(s);
	for (unsigned i = 0; i < N; i++)
		gen_scrape_free(scrapes[i]);
	assert_int_equal(fs_remove_all(&fs_system, path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stored_and_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_once_only, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_or_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times_after_wrong_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retention, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_space, setup, teardown),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_beside_appender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
