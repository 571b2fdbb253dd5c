/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of profiles and merges of single ones, against the records they were made of; means over parts; sums at the limit.
 */
#include "lib/base/budget.h"
#include "scraper/query/heatmap.h"
#include <math.h>
#include "tests/unit/fake_part.h"

static uint64_t rng = 0x853c49e6748fea9bULL;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

static void make_records(void)
{
	static const char *const jobs[] = {"api", "db", "web"}, *const threads[] = {
									"main", "gc", NULL};

	n_records = 0;
	n_fakes = 3;
	for (int i = 0; i < 80; i++) {
		struct record *r = &records[n_records++];
		bool instant = random_below(3) == 0;

		*r = (struct record) {.part = random_below(n_fakes),
			.kind = instant ? STORE_INSTANT : STORE_DELTA,
			.time = (1000 + i) * SEC + random_below(1000),
			.duration = random_below(20) * SEC,
			.n_rows = random_below(12)};
		r->series.value[NAME] = instant ? "goroutine" : "process_cpu";
		r->series.value[2] = jobs[random_below(3)];
		r->rows = calloc(r->n_rows + 1, sizeof(*r->rows));
		assert_non_null(r->rows);
		for (size_t k = 0; k < r->n_rows; k++) {
			r->rows[k].labels.value[4] = threads[random_below(3)];
			r->rows[k].depth = 1;
			r->rows[k].stack[0] = (uint8_t)random_below(3);
			r->rows[k].value[0] = r->rows[k].value[1] = 1 + random_below(100);
		}
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
}

static void drop_records(void)
{
	for (size_t i = 0; i < n_records; i++)
		free(records[i].rows);
	for (unsigned i = 0; i < n_fakes; i++)
		free(fakes[i]);
}

/* What of a record passes; false: nothing does. */
static bool passes(const struct record *r, const char *thread, const char *at, int64_t *ret)
{
	bool any = !thread && !at;

	*ret = 0;
	for (size_t k = 0; k < r->n_rows; k++) {
		const char *have = r->rows[k].labels.value[4];

		if ((thread && (!have || strcmp(have, thread) != 0)) ||
			(at && r->rows[k].stack[0] != at[1] - '0'))
			continue;
		any = true;
		*ret += r->rows[k].value[1];
	}
	return any;
}

static void select_thread(int kind, const char *thread, struct query_selector *ret)
{
	char text[128];

	snprintf(text, sizeof(text), "%s:cpu:nanoseconds:cpu:nanoseconds{%s%s%s}",
		kind == STORE_INSTANT ? "goroutine" : "process_cpu", thread ? "thread_name=\"" : "",
		thread ? thread : "", thread ? "\"" : "");
	assert_int_equal(query_selector_parse(text, ret, NULL), 0);
}

/* A merge of this profile alone has exactly its value. */
static void check_merge(
	const struct query_selector *s, const struct query_profile *p, int64_t value)
{
	struct query_env env = {.parts = fakes, .n_parts = n_fakes};
	struct query_spec spec = {.selector = s,
		.end_ns = INT64_MAX / 2,
		.want_coverage = true,
		.profiles = &p->id,
		.n_profiles = 1};
	struct query_trees trees;

	assert_int_equal(query_merge(&env, &spec, &trees, NULL), 0);
	assert_int_equal(trees.n_profiles, 1);
	assert_int_equal(trees.groups[0].tree.total[0], value);
	assert_int_equal(trees.max_time_ns, p->id.time_ns);
	assert_int_equal(trees.max_time_ns - trees.min_time_ns, p->duration_ns);
	query_trees_done(&trees);
}

static void check(int kind, const char *thread, const char *at)
{
	struct query_selector selector;
	struct tree_choice stacks = {.at = &at, .n_at = at != NULL};
	struct tree_symbols symbols;
	struct budget budget;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes, .budget = &budget};
	struct query_spec spec = {.selector = &selector,
		.stacks = &stacks,
		.symbols = &symbols,
		.start_ns = 1010 * SEC,
		.end_ns = 1060 * SEC};
	struct query_profiles p;
	int64_t value, total = 0;
	size_t n = 0;

	budget_init(&budget, NULL, "query", NULL, 0);
	select_thread(kind, thread, &selector);
	tree_symbols_init(&symbols, NULL);
	assert_int_equal(query_profiles(&env, &spec, 0, &p, NULL), 0);
	for (size_t i = 0; i < n_records; i++) {
		const struct record *r = &records[i];

		if (r->kind != kind || r->time < spec.start_ns || r->time > spec.end_ns ||
			!passes(r, thread, at, &value))
			continue;
		assert_true(n < p.n); /* both are in order of time */
		assert_int_equal(p.items[n].id.time_ns, r->time);
		assert_int_equal(p.items[n].duration_ns, r->duration);
		assert_int_equal(p.items[n].value, value);
		assert_int_equal(p.items[n].id.series, labels_hash(&p.items[n].labels));
		assert_string_equal(labels_get(&p.items[n].labels, "job"), r->series.value[2]);
		if (!at)
			check_merge(&selector, &p.items[n], value);
		total += value;
		n++;
	}
	assert_int_equal(p.n, n);
	assert_int_equal(p.n_found, n);
	assert_int_equal(p.total, total);
	query_profiles_done(&p);
	assert_int_equal(budget.used_bytes, 0);
	query_selector_done(&selector);
	tree_symbols_done(&symbols);
}

static void test_random(void **state)
{
	static const char *const threads[] = {NULL, "gc"}, *const ats[] = {NULL, "f1"};

	(void)state;
	for (int round = 0; round < 30; round++) {
		make_records();
		for (unsigned how = 0; how < 8; how++)
			check(how & 1 ? STORE_INSTANT : STORE_DELTA, threads[how >> 1 & 1],
				ats[how >> 2]);
		drop_records();
	}
}

static void test_limit_keeps_the_largest(void **state)
{
	struct query_selector selector;
	struct query_env env = {.parts = fakes};
	struct query_spec spec = {.selector = &selector, .end_ns = INT64_MAX / 2};

	(void)state;
	make_records();
	env.n_parts = n_fakes;
	select_thread(STORE_DELTA, NULL, &selector);
	for (size_t limit = 1; limit < 70; limit += 4) {
		struct query_profiles all, some;
		size_t larger = 0;
		int64_t least = INT64_MAX;

		assert_int_equal(query_profiles(&env, &spec, 0, &all, NULL), 0);
		assert_int_equal(query_profiles(&env, &spec, limit, &some, NULL), 0);
		assert_int_equal(some.n, MIN(limit, all.n));
		assert_int_equal(some.n_found, all.n);
		assert_int_equal(some.total, all.total);
		for (size_t i = 0; i < some.n; i++)
			least = MIN(least, some.items[i].value);
		for (size_t i = 0; i < all.n; i++)
			larger += all.items[i].value > least;
		assert_true(larger < some.n);
		for (size_t i = 1; i < some.n; i++)
			assert_true(some.items[i - 1].id.time_ns <= some.items[i].id.time_ns);
		query_profiles_done(&all);
		query_profiles_done(&some);
	}
	query_selector_done(&selector);
	drop_records();
}

/* ---- heatmaps ---- */

/* What of a record has this thread name, NULL: none; false: no row has. */
static bool of_thread(const struct record *r, const char *thread, int64_t *ret)
{
	bool any = false;

	*ret = 0;
	for (size_t k = 0; k < r->n_rows; k++) {
		const char *have = r->rows[k].labels.value[4];

		if (thread ? !have || strcmp(have, thread) != 0 : have != NULL)
			continue;
		any = true;
		*ret += r->rows[k].value[1];
	}
	return any;
}

struct heat_case {
	const struct query_spec *spec;
	const struct query_heat_spec *heat;
	const struct query_heatmap *got;
	int kind;
};

static size_t slot_of(const struct heat_case *c, int64_t t)
{
	int64_t n = (c->spec->end_ns - c->spec->start_ns) / c->spec->step_ns + 1;
	int64_t d = t - c->spec->start_ns, k = d <= 0 ? 0 : (d - 1) / c->spec->step_ns + 1;

	return (size_t)(k < n ? k : n - 1);
}

static bool is_counted(const struct heat_case *c, const struct record *r)
{
	int64_t step = c->spec->step_ns;
	int64_t last = c->spec->start_ns + (c->spec->end_ns - c->spec->start_ns) / step * step;

	if (r->kind != c->kind)
		return false;
	return c->heat->look_back ? r->time > c->spec->start_ns - step && r->time <= last
				  : r->time >= c->spec->start_ns && r->time <= c->spec->end_ns;
}

/* The count of one cell from the records; its largest and earliest profile. */
static uint32_t count_cell(const struct heat_case *c, const char *thread, size_t slot, size_t row,
	const struct record **ret_largest, int64_t *ret_value)
{
	uint32_t n = 0;

	for (size_t i = 0; i < n_records; i++) {
		const double *edge = c->got->row_min;
		size_t n_rows = c->got->n_rows, at = n_rows - 1;
		int64_t value;

		if (!is_counted(c, &records[i]) || !of_thread(&records[i], thread, &value) ||
			slot_of(c, records[i].time) != slot)
			continue;
		while (at && (double)value < edge[at] - 1e-6)
			at--;
		if (at != row)
			continue;
		if (!n++ || value > *ret_value) {
			*ret_largest = &records[i];
			*ret_value = value;
		}
	}
	return n;
}

static void check_slot(const struct heat_case *c, const char *thread,
	const struct query_heat_slot *slot, size_t *n_profiles)
{
	size_t at = (size_t)((slot->time_ns - c->spec->start_ns) / c->spec->step_ns), n = 0;

	for (size_t row = 0; row < c->got->n_rows; row++) {
		const struct record *largest = NULL;
		const struct query_exemplar *e = &slot->exemplars[n];
		int64_t value = 0;

		assert_int_equal(
			slot->counts[row], count_cell(c, thread, at, row, &largest, &value));
		*n_profiles += slot->counts[row];
		if (!slot->counts[row])
			continue;
		assert_int_equal(e->value, value);
		assert_int_equal(e->id.time_ns, largest->time);
		assert_string_equal(labels_get(&e->labels, "job"), largest->series.value[2]);
		assert_string_equal(labels_get(&e->labels, "__name__"), "");
		assert_null(e->span);
		n++;
	}
	assert_int_equal(slot->n_exemplars, n);
	assert_true(n > 0);
}

static void check_heatmap(int kind, const struct query_heat_spec *heat, int64_t step)
{
	static const char *const by[] = {"thread_name"}, *const threads[] = {"main", "gc", NULL};
	struct query_selector selector;
	struct budget budget;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes, .budget = &budget};
	struct query_spec spec = {.selector = &selector,
		.start_ns = 1010 * SEC,
		.end_ns = 1060 * SEC,
		.step_ns = step,
		.group_by = by,
		.n_group_by = 1};
	struct query_heatmap h;
	const struct heat_case c = {&spec, heat, &h, kind};
	size_t n_want = 0;

	budget_init(&budget, NULL, "query", NULL, 0);
	select_thread(kind, NULL, &selector);
	assert_int_equal(query_heatmap(&env, &spec, heat, &h, NULL), 0);
	for (size_t t = 0; t < 3; t++) {
		size_t n = 0, want = 0;
		int64_t value;

		for (size_t i = 0; i < n_records; i++)
			want += is_counted(&c, &records[i]) &&
				of_thread(&records[i], threads[t], &value);
		for (size_t i = 0; i < h.n_lines; i++)
			if (!strcmp(labels_get(&h.lines[i].labels, "thread_name"),
				    threads[t] ? threads[t] : ""))
				for (size_t k = 0; k < h.lines[i].n_slots; k++)
					check_slot(&c, threads[t], &h.lines[i].slots[k], &n);
		assert_int_equal(n, want);
		n_want += want > 0;
	}
	assert_int_equal(h.n_lines, n_want);
	for (size_t i = 1; i < h.n_lines; i++)
		assert_true(h.lines[i - 1].n_profiles >= h.lines[i].n_profiles);
	query_heatmap_done(&h);
	assert_int_equal(budget.used_bytes, 0);
	query_selector_done(&selector);
}

static void test_heatmaps(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		make_records();
		for (unsigned how = 0; how < 8; how++) {
			const struct query_heat_spec heat = {
				.n_rows = how & 1 ? 1 : 7, .look_back = how & 2, .exemplars = true};

			check_heatmap(
				how & 4 ? STORE_INSTANT : STORE_DELTA, &heat, (7 + round) * SEC);
		}
		drop_records();
	}
}

static void test_ids(void **state)
{
	static const char *const bad[] = {"", "x", "17abcdef-0123-4567-89ab-cdef0123456",
		"17abcdef-0123-4567-89ab-cdef012345678", "17abcdef00123-4567-89ab-cdef01234567",
		"17abcdef-0123-4567-89ab-cdef0123456g", "17abcdef01234567-89ab-cdef-0123456789"};
	const struct query_profile_id id = {0x89abcdef01234567, 0x17abcdef01234567};
	struct query_profile_id back;
	char text[QUERY_PROFILE_ID_LEN + 1];
	struct errbuf eb = {};

	(void)state;
	query_profile_id_print(&id, text);
	assert_string_equal(text, "17abcdef-0123-4567-89ab-cdef01234567");
	assert_int_equal(query_profile_id_parse(text, &back, NULL), 0);
	assert_memory_equal(&id, &back, sizeof(id));
	assert_int_equal(
		query_profile_id_parse("17ABCDEF-0123-4567-89AB-CDEF01234567", &back, NULL), 0);
	assert_memory_equal(&id, &back, sizeof(id));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(query_profile_id_parse(bad[i], &back, &eb), -EINVAL);
	for (int i = 0; i < 1000; i++) {
		struct query_profile_id random = {
			(uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX),
			(int64_t)((uint64_t)random_below(UINT32_MAX) << 32 |
				  random_below(UINT32_MAX))};

		query_profile_id_print(&random, text);
		assert_int_equal(query_profile_id_parse(text, &back, NULL), 0);
		assert_memory_equal(&random, &back, sizeof(back));
	}
}

/* A mean is over the scrapes of a series in all parts, also those where no row of any series has the label in question. */
static void test_mean_over_parts(void **state)
{
	struct query_env env = {.parts = fakes, .n_parts = 2};
	struct query_selector s;
	struct query_trees trees;
	struct query_matrix m;

	(void)state;
	n_records = n_fakes = 2;
	for (unsigned i = 0; i < 2; i++) {
		struct record *r = &records[i];

		*r = (struct record) {
			.part = i, .time = (100 + i) * SEC, .kind = STORE_INSTANT, .n_rows = 1};
		r->series.value[NAME] = "goroutine";
		r->rows = calloc(1, sizeof(*r->rows));
		assert_non_null(r->rows);
		r->rows[0].labels.value[4] = i ? NULL : "gc";
		r->rows[0].depth = 1;
		r->rows[0].value[0] = 20;
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
	assert_int_equal(
		query_selector_parse(
			"goroutine:samples:count:cpu:nanoseconds{thread_name=\"gc\"}", &s, NULL),
		0);
	struct query_spec spec = {
		.selector = &s, .end_ns = 200 * SEC, .step_ns = 200 * SEC, .group = true};
	assert_int_equal(query_merge(&env, &spec, &trees, NULL), 0);
	assert_int_equal(trees.groups[0].tree.total[0], 10);
	assert_int_equal(env.stats.rows, 1);
	query_trees_done(&trees);
	spec.start_ns = spec.end_ns;
	assert_int_equal(query_over_time(&env, &spec, &m, NULL), 0);
	assert_int_equal(m.n_lines, 1);
	assert_true(m.lines[0].points[0].value == 10);
	query_matrix_done(&m);
	query_selector_done(&s);
	drop_records();
}

/* ---- damage ---- */

static int64_t merged_total(struct query_env *env, const struct query_spec *spec)
{
	_cleanup_query_trees_ struct query_trees trees;
	struct errbuf eb = {};

	if (query_merge(env, spec, &trees, &eb))
		fail_msg("%s", eb.text);
	return trees.n_groups ? trees.groups[0].tree.total[0] : 0;
}

/* A part whose rows show damage: the answer is that of the other parts, at once. */
static void test_damaged_part(void **state)
{
	_cleanup_query_selector_ struct query_selector selector;
	struct query_spec spec = {.selector = &selector, .end_ns = INT64_MAX / 2};

	(void)state;
	assert_int_equal(query_selector_parse(
				 "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", &selector, NULL),
		0);
	for (int round = 0; round < 50; round++) {
		struct query_env env = {.parts = fakes};
		struct part *others[2];
		struct query_env rest = {.parts = others};
		unsigned bad = random_below(3);

		make_records();
		env.n_parts = n_fakes;
		for (unsigned i = 0; i < n_fakes; i++)
			if (i != bad)
				others[rest.n_parts++] = fakes[i];
		fakes[bad]->breaks = true;
		assert_int_equal(merged_total(&env, &spec), merged_total(&rest, &spec));
		assert_true(fakes[bad]->is_damaged);
		drop_records();
	}
}

/* Profiles of one stack whose sum has more than 63 bits, all in one part and in two. */
static void test_merge_saturates(void **state)
{
	(void)state;
	for (n_fakes = 1; n_fakes <= 2; n_fakes++)
		for (int sign = -1; sign <= 1; sign += 2) {
			struct query_env env = {.parts = fakes, .n_parts = n_fakes};
			struct query_spec spec = {.start_ns = 0, .end_ns = 200 * SEC};
			struct query_selector selector;
			struct query_trees trees;

			for (n_records = 0; n_records < 6; n_records++) {
				struct row *row = calloc(1, sizeof(*row));

				assert_non_null(row);
				row->depth = 1;
				row->value[1] = sign * (INT64_MAX / 2);
				records[n_records] =
					(struct record) {.series.value[NAME] = "process_cpu",
						.part = (unsigned)n_records % n_fakes,
						.kind = STORE_DELTA,
						.time = (100 + (int64_t)n_records) * SEC,
						.duration = SEC,
						.rows = row,
						.n_rows = 1};
			}
			for (unsigned i = 0; i < n_fakes; i++)
				fakes[i] = fake_new(i);
			assert_int_equal(query_selector_parse(
						 "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
						 &selector, NULL),
				0);
			spec.selector = &selector;
			assert_int_equal(query_merge(&env, &spec, &trees, NULL), 0);
			assert_int_equal(trees.n_groups, 1);
			assert_int_equal(
				trees.groups[0].tree.total[0], sign > 0 ? INT64_MAX : INT64_MIN);
			query_trees_done(&trees);
			query_selector_done(&selector);
			drop_records();
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_part),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_limit_keeps_the_largest),
		cmocka_unit_test(test_heatmaps),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_mean_over_parts),
		cmocka_unit_test(test_merge_saturates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
