/* SPDX-License-Identifier: Apache-2.0
 *
 * Filter parameters over a table of six tasks: OR of values, AND of parameters, prefixes, expressions, errors. The task table is a
 * stand-in; the real one is in test_proc.c.
 */
#include "exporter/profile/filter.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Strings are stored once, as in the real table. */
static const char postgres[] = "postgres", id[] = ID, web[] = "web",
		  unit[] = "postgresql@15.service";

static const char *const pod_labels[] = {"pod_label_app"};
static const char *const shop[] = {"shop"};

static const struct proc_task_info tasks[] = {
	{.pid = 10,
		.tid = 10,
		.comm = postgres,
		.thread_name = postgres,
		.systemd_unit = unit,
		.compiler = "gcc",
		.language = "c",
		.build_id = "ab01"},
	{.pid = 11,
		.tid = 12,
		.ppid = 10,
		.comm = postgres,
		.thread_name = "writer",
		.systemd_unit = unit,
		.jit = "v8",
		.build_id = "ab02"},
	{.pid = 20,
		.tid = 20,
		.ppid = 1,
		.comm = "nginx",
		.thread_name = "nginx",
		.container_id = id,
		.container_name = web,
		.pod_values = shop},
	{.pid = 21,
		.tid = 21,
		.ppid = 20,
		.comm = "nginx",
		.thread_name = "worker",
		.container_id = id,
		.container_name = web},
	{.pid = 2,
		.tid = 2,
		.comm = "kworker",
		.thread_name = "kworker/1:2",
		.kernel_thread = true},
	{.pid = 30, .tid = 30, .ppid = 11, .comm = "sh", .thread_name = "sh"},
};

#include "tests/unit/task_standins.h"

static uint32_t ppid_of(uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (tasks[i].pid == pid)
			return tasks[i].ppid;
	return 0;
}

bool proc_is_descendant(const struct proc_table *t, uint32_t task, uint32_t ancestor_pid)
{
	(void)t;
	for (uint32_t pid = tasks[task].pid; pid; pid = ppid_of(pid))
		if (pid == ancestor_pid)
			return true;
	return false;
}

static const struct label constant_items[] = {{"dc", "ams"}, {"node", "n1"}};
static const struct labels constants = {.items = (struct label *)(uintptr_t)constant_items, .n = 2};

/* Parameters as "name=value" lines; the result as a bit per task. */
static int evaluate(const char *const *params, uint64_t *ret, struct errbuf *eb)
{
	_cleanup_(profile_filter_freep)
	struct profile_filter *f = profile_filter_new(&constants, pod_labels, 1);
	_cleanup_arena_ struct arena arena;
	uint64_t *bits;
	int r;

	arena_init(&arena, NULL);
	for (; *params; params++) {
		char name[64];
		size_t n = strcspn(*params, "=");

		memcpy(name, *params, n);
		name[n] = 0;
		r = profile_filter_add(f, name, *params + n + 1, eb);
		if (r <= 0)
			return r < 0 ? r : -ENOENT;
	}
	r = profile_filter_tasks(f, NULL, &arena, &bits, eb);
	if (r >= 0)
		*ret = bits ? bits[0] : UINT64_MAX;
	return r;
}

static void test_matches(void **state)
{
	static const struct {
		const char *params[4];
		uint64_t tasks;
	} cases[] = {
		{{NULL}, UINT64_MAX},
		{{"pid=10"}, 0x01},
		{{"pid=10", "pid=20"}, 0x05},
		{{"pid=999"}, 0},
		{{"pid=10", "children=1"}, 0x23},
		{{"pid=10", "children=0"}, 0x01},
		{{"children=1", "pid=11"}, 0x22},
		{{"pid=~1."}, 0x03},
		{{"comm=postgres"}, 0x03},
		{{"comm=post"}, 0},
		{{"comm=~post.*"}, 0x03},
		{{"comm=~post"}, 0},
		{{"comm=~nginx|sh"}, 0x2c},
		{{"comm=postgres", "comm=sh"}, 0x23},
		{{"comm=nginx", "thread=worker"}, 0x08},
		{{"comm=postgres", "thread=worker"}, 0},
		{{"thread=kworker/1:2"}, 0x10},
		{{"container=web"}, 0x0c},
		{{"container=0123456789ab"}, 0x0c},
		{{"container=" ID}, 0x0c},
		{{"container=0123456789a"}, 0}, /* shorter than 12 */
		{{"container=1123456789ab"}, 0},
		{{"container=~w.b"}, 0x0c},
		{{"container=~0123.*"}, 0x0c},
		{{"container="}, 0x33},
		{{"unit=postgresql@15.service"}, 0x03},
		{{"unit=~postgresql@.*"}, 0x03},
		{{"unit="}, 0x3c},
		{{"label.comm=nginx"}, 0x0c},
		{{"label.systemd_unit=postgresql@15.service", "label.tid=12"}, 0x02},
		{{"label.compiler=gcc", "label.language=c"}, 0x01},
		{{"label.jit=v8"}, 0x02},
		{{"label.build_id=ab01"}, 0x01},
		{{"label.build_id=ab02"}, 0x02},
		{{"label.node=n1"}, 0x3f},
		{{"label.node=n2"}, 0},
		{{"label.dc=~a.*", "comm=sh"}, 0x20},
		{{"label.pod_label_app=shop"}, 0x04},
		{{"label.pod_label_app="}, 0x3b},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t got = 0;

		assert_int_equal(evaluate(cases[i].params, &got, NULL), 0);
		if (got != cases[i].tasks)
			fail_msg("case %zu (%s): %#llx, not %#llx", i,
				cases[i].params[0] ? cases[i].params[0] : "",
				(unsigned long long)got, (unsigned long long)cases[i].tasks);
	}
}

static void test_errors(void **state)
{
	static const struct {
		const char *param;
		int error;
		const char *text;
	} cases[] = {
		{"bogus=1", -ENOENT, ""},
		{"pid=x", -EINVAL, "pid=x: expected a process id"},
		{"pid=0", -EINVAL, "pid=0: expected a process id"},
		{"pid=-1", -EINVAL, "expected a process id"},
		{"pid=99999999999", -EINVAL, "expected a process id"},
		{"children=yes", -EINVAL, "children=yes: expected 0 or 1"},
		{"comm=~(", -EINVAL, "comm=~(: position"},
		{"label.foo=x", -EINVAL,
			"unknown label \"foo\": valid ones are comm thread_name pid tid ns_pid "
			"executable "
			"compiler language jit build_id container_id"},
		{"label.foo=x", -EINVAL, "cgroup pod_label_app dc node"},
		{"label.=x", -EINVAL, "unknown label \"\""},
		{"label.cpu=1", -EINVAL, "unknown label \"cpu\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *params[] = {cases[i].param, NULL};
		struct errbuf eb = {.text = ""};
		uint64_t got;

		assert_int_equal(evaluate(params, &got, &eb), cases[i].error);
		if (!strstr(eb.text, cases[i].text))
			fail_msg("case %zu: \"%s\" lacks \"%s\"", i, eb.text, cases[i].text);
	}
}

static void test_number_of_values_is_capped(void **state)
{
	_cleanup_(profile_filter_freep)
	struct profile_filter *f = profile_filter_new(&constants, NULL, 0);
	struct errbuf eb = {.text = ""};
	int r = 1, n = 0;

	(void)state;
	while (r == 1) {
		r = profile_filter_add(f, "comm", "x", &eb);
		n++;
	}
	assert_int_equal(r, -EINVAL);
	assert_int_equal(n, 1001);
	assert_non_null(strstr(eb.text, "more than 1000 filter parameters"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_number_of_values_is_capped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
