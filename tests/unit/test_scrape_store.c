/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scrape stage makes of the store's answers: series that conflict beside others, records that are refused, records that are stored
 * and not durable. Nothing of it is lost without a count and a text.
 */
#include "tests/unit/scrape_fixture.h"

static const char go_job[] = "  profiling_config: {pprof_config: {memory: {enabled: false}, "
			     "block: {enabled: false}, goroutine: {enabled: false}, "
			     "mutex: {enabled: false}}}\n";

static void set_answer(
	struct env *e, int answer, const char *refusal, const struct store_result *stored)
{
	pthread_mutex_lock(&e->lock);
	e->answer = answer;
	e->refusal = refusal;
	e->stored = *stored;
	pthread_mutex_unlock(&e->lock);
}

static double conflicts(struct env *e)
{
	static const char name[] = "\nsonde_scrape_series_conflicts_total{job=\"j\"} ";
	_cleanup_bytes_ struct bytes text = {0};
	const char *at;

	bytes_init(&text, NULL, 0);
	metrics_print(e->metrics, &text);
	bytes_put_u8(&text, 0);
	at = strstr((const char *)text.data, name);
	return at ? strtod(at + sizeof(name) - 1, NULL) : 0;
}

static void test_conflict_beside_others(void **state)
{
	struct env *e = env_new();

	(void)state;
	set_answer(e, 0, NULL, &(struct store_result) {.sequence = 7, .n_conflicts = 1});
	env_apply(e, go_job);
	run_until_status(e, SCRAPE_UP, "1 of 1 series not stored: others are", "go");
	assert_true(conflicts(e) >= 1);
	/* once there are none any more nothing is left of it */
	set_answer(e, 0, NULL, &(struct store_result) {.sequence = 8});
	run_until(e, n_records(e) + 2);
	expect_status(e, SCRAPE_UP, "", NULL);
	env_free(e);
}

static void test_refused(void **state)
{
	struct env *e = env_new();

	(void)state;
	set_answer(e, -EEXIST, "all of it is stored", &(struct store_result) {.n_conflicts = 3});
	env_apply(e, go_job);
	run_until_status(e, SCRAPE_DOWN, "not stored: all of it is stored", NULL);
	assert_true(conflicts(e) >= 3);
	env_free(e);
}

static void test_stored_but_not_durable(void **state)
{
	struct env *e = env_new();

	(void)state;
	set_answer(e, -EIO, "the disk is gone", &(struct store_result) {.sequence = 0});
	env_apply(e, go_job);
	run_until_status(e, SCRAPE_DOWN, "not stored: the disk is gone", NULL);
	set_answer(e, -EIO, "stored, but", &(struct store_result) {.sequence = 9, .n_streams = 1});
	run_until_status(e, SCRAPE_DOWN, "stored, but", NULL);
	assert_false(has_status(e, SCRAPE_DOWN, "not stored"));
	env_free(e);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conflict_beside_others),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_stored_but_not_durable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
