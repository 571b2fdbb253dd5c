/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is, asked again: answers that blocks keep are those that were read, for every range, and go with their block. The oracle is
 * the same store without room to keep anything.
 */
#include "tests/unit/store_gen.h"
#include "scraper/query/query.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

static const int64_t start_ns = 1700000000LL * NS_PER_S;
enum {
	STEP_S = 15,
	STEPS = 20,
	BLOCKS = 4,
	HEAD_STEPS = 5,
	N_RANGES = 24,
	N_SELECTORS = 9,
	N_WHATS = 10
};

struct fixture {
	char path[64];
	struct clock_virtual clock;
	struct store_options o;
	struct store *s;
	struct gen g;
};

static int64_t time_of(uint64_t step)
{
	return start_ns + (int64_t)step * STEP_S * NS_PER_S;
}

/* Each block has targets of its own beside those of all. */
static void append(struct fixture *f, uint64_t first, uint64_t n, unsigned own)
{
	for (uint64_t step = first; step < first + n; step++)
		for (unsigned t = 0; t < 3; t++) {
			struct gen_scrape *x =
				gen_scrape(&f->g, t < 2 ? t : own, step, time_of(step) + t);
			struct store_result result;
			struct errbuf eb = {.text = ""};

			f->clock.real_ns = time_of(step) + t;
			if (store_append(f->s, &x->s, &result, &eb) < 0)
				fail_msg("store_append: %s", eb.text);
			gen_scrape_free(x);
		}
}

/* With room for answers, or for nothing at all. */
static void reopen(struct fixture *f, uint64_t cache_bytes)
{
	struct errbuf eb = {.text = ""};

	if (f->s)
		store_close(TAKE(f->s));
	f->o.cache_bytes = cache_bytes;
	if (store_open(&f->o, &f->s, &eb) < 0)
		fail_msg("store_open: %s", eb.text);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct errbuf eb = {.text = ""};

	snprintf(f->path, sizeof(f->path), "/tmp/sonde-catalog-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	clock_virtual_init(&f->clock, start_ns);
	f->o = (struct store_options) {.path = f->path,
		.clock = &f->clock.clock,
		.segment_bytes = 1 << 20,
		.max_nodes = 1 << 16,
		.seed = 7,
		.fsync = STORE_FSYNC_NEVER,
		.no_compaction = true};
	f->g = (struct gen) {
		.state = 7, .n_functions = 60, .max_depth = 12, .max_rows = 40, .n_streams = 3};
	reopen(f, 0);
	for (unsigned block = 0; block < BLOCKS; block++) {
		append(f, block * STEPS, STEPS, 10 + block);
		assert_int_equal(store_flush(f->s, &eb), 0);
	}
	append(f, BLOCKS * STEPS, HEAD_STEPS, 20);
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

static void put_types(struct bytes *out, const struct query_type_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		bytes_printf(out, "%s %s %s %d,", l->items[i].id, l->items[i].metric,
			l->items[i].sample_unit, (int)l->items[i].kind);
}

static void put_series(struct bytes *out, const struct query_series_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->items[i].n; k++)
			bytes_printf(out, "%s=%s ", l->items[i].items[k].name,
				l->items[i].items[k].value);
		bytes_put_u8(out, ',');
	}
}

/* One of the ten questions of a range, as text. */
static void ask(struct query_env *env, unsigned what, const struct query_selector *s, int64_t from,
	int64_t to, struct bytes *out)
{
	static const char *const names[] = {
		"instance", "comm", "thread_name", "__type__", "__name__"};
	_cleanup_query_type_list_ struct query_type_list types = {.n = 0};
	_cleanup_query_series_list_ struct query_series_list series = {.n = 0};
	_cleanup_query_strings_ struct query_strings texts = {.n = 0};
	const struct query_catalog of = {.env = env,
		.start_ns = from,
		.end_ns = to,
		.selectors = s,
		.n_selectors = 1,
		.terms = what & 1 ? QUERY_PROMETHEUS_TERMS : QUERY_PROFILE_TERMS};
	int r;

	switch (what) {
	case 0: r = query_types(&of, &types, NULL); break;
	case 1: r = query_metrics(&of, &types, NULL); break;
	case 2: r = query_label_names(&of, &texts, NULL); break;
	case 3:
	case 4: r = query_series(&of, 0, &series, NULL); break;
	default: r = query_label_values(&of, names[what - 5], &texts, NULL);
	}
	assert_int_equal(r, 0);
	put_types(out, &types);
	put_series(out, &series);
	for (size_t i = 0; i < texts.n; i++)
		bytes_printf(out, "%s,", texts.items[i]);
	bytes_put_u8(out, '\n');
}

/* All questions of all ranges: those of whole blocks, then some from chance. Returns the parts that were read. */
static uint64_t ask_all(struct fixture *f, uint64_t seed, struct bytes *out)
{
	static const char *const selectors[N_SELECTORS] = {"{}", "{comm=\"comm-1\"}",
		"{instance=~\"host-1.:7273\"}", "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
		"{thread_name=\"thread_name-2\"}", "{comm!=\"\",thread_name!=\"thread_name-1\"}",
		"up", "{comm!=\"comm-1\"}", "process_cpu:samples:count:cpu:nanoseconds{}"};
	struct query_env env = {.budget = NULL};
	struct gen random = {.state = seed};
	struct store_parts parts;

	assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
	env.parts = parts.items;
	env.n_parts = parts.n;
	for (unsigned i = 0; i < N_RANGES; i++) {
		const bool whole = i < BLOCKS * BLOCKS;
		uint64_t a = whole ? i / BLOCKS * STEPS : gen_below(&random, BLOCKS * STEPS),
			 b = whole ? (i % BLOCKS + 1) * STEPS : gen_below(&random, BLOCKS * STEPS);
		int64_t from = time_of(MIN(a, b)), to = time_of(MAX(a, b)) - 1;

		for (unsigned k = 0; k < N_SELECTORS * N_WHATS; k++) {
			_cleanup_query_selector_ struct query_selector s = {.n_matchers = 0};

			assert_int_equal(query_selector_parse(selectors[k / N_WHATS], &s, NULL), 0);
			ask(&env, k % N_WHATS, &s, from, to, out);
		}
	}
	store_parts_put(f->s, &parts);
	assert_int_equal(bytes_error(out), 0);
	return env.stats.parts;
}

/* Answers for the first time and again, in two orders, are those of a store that keeps nothing. */
static void check_answers(struct fixture *f)
{
	_cleanup_bytes_ struct bytes want = {.data = NULL}, first = {.data = NULL},
				     again = {.data = NULL};
	uint64_t read, read_again;

	reopen(f, 1);
	ask_all(f, 1, &want);
	reopen(f, 0);
	read = ask_all(f, 1, &first);
	read_again = ask_all(f, 1, &again);
	assert_true(want.len > 10000);
	assert_int_equal(first.len, want.len);
	assert_memory_equal(first.data, want.data, want.len);
	assert_int_equal(again.len, want.len);
	assert_memory_equal(again.data, want.data, want.len);
	assert_true(read_again < read);
}

static void test_kept_answers(void **state)
{
	struct fixture *f = *state;
	const struct store_matcher m = {
		.op = STORE_EQ, .name = "instance", .value = "host-11:7273"};
	struct errbuf eb = {.text = ""};
	uint64_t n;

	check_answers(f);
	/* The second block's own target, whose answers were kept just now. */
	assert_int_equal(store_delete(f->s, &m, 1, INT64_MIN, INT64_MAX, &n, &eb), 0);
	assert_int_equal(n, 1);
	check_answers(f);
	assert_int_equal(store_clean_tombstones(f->s, &eb), 0);
	check_answers(f);
}

/* All blocks are whole in the range, no head is: what was kept answers, and no part is read. */
static void test_nothing_is_read_again(void **state)
{
	struct fixture *f = *state;
	_cleanup_query_selector_ struct query_selector s = {.n_matchers = 0};
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	struct store_parts parts;
	const int64_t to = time_of(BLOCKS * STEPS) - 1;

	assert_int_equal(query_selector_parse("{comm=\"comm-1\",thread_name!=\"x\"}", &s, NULL), 0);
	assert_int_equal(store_parts_get(f->s, INT64_MIN, INT64_MAX, &parts), 0);
	for (unsigned what = 0; what < N_WHATS; what++)
		for (unsigned round = 0; round < 2; round++) {
			/* A window of the head begins before the range's end: it is the one part that is read again. */
			struct query_env env = {.parts = parts.items, .n_parts = parts.n};

			ask(&env, what, &s, time_of(0), to, &out);
			assert_int_equal(env.stats.parts, round ? 1 : BLOCKS + 1);
		}
	store_parts_put(f->s, &parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kept_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_read_again, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
