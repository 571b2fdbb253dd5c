/* SPDX-License-Identifier: Apache-2.0
 *
 * A keeper that does not answer is asked once for many CPUs, not once for each.
 */
#include "exporter/sample/cpus.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct silent_keeper {
	struct keeper keeper;
	unsigned n_asked;
};

static int attach(struct keeper *k, enum abi_event event, uint32_t cpu, struct errbuf *eb)
{
	(void)event;
	(void)cpu;
	((struct silent_keeper *)k)->n_asked++;
	return err_set(eb, -ETIMEDOUT, "no answer");
}

static void test_a_silent_keeper_is_left_alone(void **state)
{
	struct silent_keeper k = {.keeper = {.attach = attach}};
	const struct keeper_setup setup = {.keeper = &k.keeper, .events = EVENT_BIT(ABI_EVENT_CPU)};
	struct errbuf eb = {.text = ""};
	unsigned rounds = 0;
	struct cpus c;

	(void)state;
	cpus_init(&c, &setup, -1, 8, &(struct governor_rates) {.hz = {[ABI_EVENT_CPU] = 19}});
	assert_int_equal(cpus_follow(&c, "0-7\n", &eb), -ETIMEDOUT);
	assert_string_equal(eb.text, "CPU 0: no answer");
	assert_int_equal(k.n_asked, 1);
	assert_int_equal(c.n_online, 8);
	while (k.n_asked == 1) {
		assert_true(cpus_follow(&c, "0-7\n", &eb) < 0);
		rounds++;
	}
	assert_int_equal(rounds, 30);
	assert_int_equal(k.n_asked, 2);
	cpus_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_silent_keeper_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
