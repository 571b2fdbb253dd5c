/* SPDX-License-Identifier: Apache-2.0
 *
 * The control groups of processes: those that move, those that are gone before they are looked at, ids that are learned.
 */
#include "exporter/proc/table.h"
#include "tests/unit/proc_fixture.h"
#include <string.h>

static void cgroup_is(struct fixture *f, const struct abi_record *r, const char *path)
{
	assert_string_equal(info_of(f, process_of(f, r), r).cgroup, path);
}

static void test_cgroup_moves(void **state)
{
	struct abi_record r = record(90, 1000, 1, 1500);
	struct process *p;
	struct fixture f;
	uint32_t before;

	(void)state;
	setup(&f);
	write_process(&f, 90, 1, "x", 100, "0::/a.slice/one.service\n");
	forked(&f, 1, 90, 1000);
	r.cgroup_id = 11;
	p = process_of(&f, &r);
	assert_string_equal(info_of(&f, p, &r).systemd_unit, "one.service");
	before = proc_task_of_record(f.t, p, &r);
	write_process(&f, 90, 1, "x", 100, "0::/a.slice/two.service\n");
	r.cgroup_id = 12;
	assert_string_equal(info_of(&f, p, &r).systemd_unit, "two.service");
	r.time_ns = (uint64_t)clock_monotonic_ns(&f.clock.clock) + 1;
	assert_string_equal(info_of(&f, p, &r).systemd_unit, "two.service");
	/* Samples from before keep what was true then. */
	struct proc_task_info info;

	proc_task_info(f.t, before, &info);
	assert_string_equal(info.systemd_unit, "one.service");
	/* A process of the same group that is gone when it is first seen. */
	r = record(91, 1400, 1, 1600);
	r.cgroup_id = 12;
	p = process_of(&f, &r);
	assert_string_equal(info_of(&f, p, &r).systemd_unit, "two.service");
	teardown(&f);
}

/* A process that moves between its sample and the reading of its file, as those that a runtime starts in a container do, says
 * nothing of the group that it left. */
static void test_cgroup_moves_before_it_is_read(void **state)
{
	struct abi_record parent = record(94, 900, 1, 1400), child = record(95, 1000, 1, 1500),
			  later, gone;
	struct fixture f;

	(void)state;
	setup(&f);
	clock_virtual_advance(&f.clock, 600 * MS); /* to 1600 */
	write_process(&f, 94, 1, "runtime", 90, "0::/runtime.service\n");
	write_process(&f, 95, 94, "runtime", 100, "0::/a.slice/pod.scope\n");
	parent.cgroup_id = child.cgroup_id = 21;
	cgroup_is(&f, &parent, "/runtime.service");
	cgroup_is(&f, &child, "/a.slice/pod.scope");
	/* A sample from before the reading proves nothing. */
	later = child;
	later.time_ns = 1550 * MS;
	cgroup_is(&f, &later, "/a.slice/pod.scope");
	gone = record(96, 1400, 1, 1550);
	gone.cgroup_id = 21;
	cgroup_is(&f, &gone, "");
	/* Where it was read. */
	later.time_ns = 1700 * MS;
	later.cgroup_id = 22;
	cgroup_is(&f, &later, "/a.slice/pod.scope");
	/* The parent still is where it was read: from now on that group is known, also for one that is gone, and for one that has
	 * moved on since. */
	parent.time_ns = 1700 * MS;
	cgroup_is(&f, &parent, "/runtime.service");
	gone = record(97, 1400, 1, 1750);
	gone.cgroup_id = 21;
	cgroup_is(&f, &gone, "/runtime.service");
	write_process(&f, 98, 94, "runtime", 160, "0::/a.slice/pod.scope\n");
	child = record(98, 1600, 1, 1750);
	child.cgroup_id = 21;
	cgroup_is(&f, &child, "/runtime.service");
	/* What a child has from its parent is not its own: asked for the sake of its own child, it has moved. */
	write_process(&f, 99, 94, "runtime", 170, "0::/a.slice/pod.scope\n");
	forked(&f, 94, 99, 1700);
	forked(&f, 99, 100, 1710);
	exited(&f, 100, 1740);
	gone = record(100, 1710, 1, 1730);
	gone.cgroup_id = 23;
	cgroup_is(&f, &gone, "/a.slice/pod.scope");
	/* Nor does what was read in one group say anything of the next. */
	write_process(&f, 101, 1, "runtime", 100, "0::/runtime.service\n");
	later = record(101, 1000, 1, 1550);
	later.cgroup_id = 24;
	cgroup_is(&f, &later, "/runtime.service");
	write_process(&f, 101, 1, "runtime", 100, "0::/b.scope\n");
	later.time_ns = 1800 * MS;
	later.cgroup_id = 25;
	cgroup_is(&f, &later, "/b.scope");
	teardown(&f);
}

/* More groups than are remembered: those that come are learned all the same. */
static void test_many_cgroups(void **state)
{
	enum { GROUPS = PROC_MAX_CGROUP_IDS + 10 };
	struct abi_record r;
	struct fixture f;

	(void)state;
	setup_caps(&f, 10, 3 * GROUPS);
	for (uint32_t i = 0; i < GROUPS; i++) {
		_cleanup_free_ char *line = xasprintf("0::/g%u\n", i);

		write_process(&f, 90, 1, "x", 100, line);
		r = record(90, 900, 1, 1000 + 100 * i);
		r.cgroup_id = 1000 + i;
		proc_task_of_record(f.t, process_of(&f, &r), &r);
		clock_virtual_advance(&f.clock, 100 * MS);
		r.time_ns += 200 * MS;
		proc_task_of_record(f.t, process_of(&f, &r), &r);
	}
	/* One that is gone is where its id says. */
	r = record(91, 900, 1, 1000 + 100 * GROUPS);
	r.cgroup_id = 1000 + GROUPS - 1;
	_cleanup_free_ char *path = xasprintf("/g%u", GROUPS - 1);

	cgroup_is(&f, &r, path);
	teardown(&f);
}

/* A container's first process was never sampled; its child was, and is gone. */
static void test_labels_of_a_dead_child(void **state)
{
	struct abi_record r = record(96, 1100, 4, 1150);
	struct process *p;
	struct fixture f;

	(void)state;
	setup(&f);
	write_process(&f, 94, 1, "runtime", 90, "0::/system.slice/runtime.service\n");
	settle(&f);
	clock_virtual_advance(&f.clock, NS_PER_S);
	forked(&f, 94, 95, 1000000);
	write_process(&f, 95, 94, "init", 95, "0::/docker.slice/inner.service\n");
	execed(&f, 95, "init", 1000001);
	forked(&f, 95, 96, 1000002);
	execed(&f, 96, "brief", 1000003);
	exited(&f, 96, 1000020);
	r = record(96, 1000002, 4, 1000010);
	p = process_of(&f, &r);
	assert_string_equal(info_of(&f, p, &r).systemd_unit, "inner.service");
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cgroup_moves),
		cmocka_unit_test(test_cgroup_moves_before_it_is_read),
		cmocka_unit_test(test_many_cgroups),
		cmocka_unit_test(test_labels_of_a_dead_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
