/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings that are read late: what is read of a parent counts for the children that it had by then, and the list of all
 * processes is gone through by time, not by the number of wakes.
 */
#include "exporter/proc/maps.h"
#include "exporter/proc/reader/reader.h"
#include "tests/unit/proc_fixture.h"

static const char PARENTS_MAPS[] = "401000-402000 r-xp 00001000 08:01 11   /bin/parent\n"
				   "7f0000-7f2000 r-xp 00000000 08:01 12   /lib/libc.so.6\n";

/* Whoever is asked for mappings has these. */
static void setup_parent(struct fixture *f)
{
	setup(f);
	f->keeper.refuse = false;
	f->keeper.maps_text = PARENTS_MAPS;
}

/* The path of the file that the address lies in at that time; "" when there is none. */
static const char *file_at(struct fixture *f, struct process *p, uint64_t addr, uint64_t at_ms,
	struct binary_info *ret)
{
	uint64_t word = proc_locate(f->t, p, addr, at_ms * MS);

	*ret = (struct binary_info) {.path = ""};
	if (ABI_FRAME_KIND(word) == ABI_FRAME_NATIVE)
		binary_info(f->registry, ABI_NATIVE_BINARY(word), ret);
	return ret->path;
}

static void assert_is_in(
	struct fixture *f, struct process *p, uint64_t addr, uint64_t at_ms, const char *path)
{
	struct binary_info info;

	assert_string_equal(file_at(f, p, addr, at_ms, &info), path);
}

/* The image of a record before anything that it asks for is answered. */
static struct process *unread_process(struct fixture *f, const struct abi_record *r)
{
	struct process *p = proc_table_of_record(f->t, r);

	(void)proc_table_awaits(f->t, p, r);
	return p;
}

struct one_frame {
	struct abi_record head;
	uint64_t frame;
};

static struct one_frame record_at(uint32_t pid, uint64_t start_ms, uint64_t at_ms, uint64_t addr)
{
	struct one_frame r = {record(pid, start_ms, 1, at_ms), ABI_FRAME(ABI_FRAME_RAW, addr)};

	r.head.n_user = 1;
	return r;
}

/* The parent of the first fork that the table hears of was there before it: the child is gone when the parent is read. */
static void test_child_of_an_unknown_parent(void **state)
{
	struct one_frame r = record_at(11, 1000, 1005, 0x401234);
	struct proc_task_info info;
	struct process *child;
	struct fixture f;
	uint64_t frame;

	(void)state;
	setup_parent(&f);
	write_process(&f, 10, 1, "parent", 5, "0::/\n");
	forked(&f, 10, 11, 1000);
	child = proc_table_of_record(f.t, &r.head);
	exited(&f, 11, 1010);
	/* The sample waits for what is read of the parent. */
	assert_int_equal(proc_table_awaits(f.t, child, &r.head), PROC_AWAITED);
	frame = proc_resolve(f.t, child, 0x401234, r.head.time_ns);
	assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_RAW);
	settle(&f);
	assert_is_in(&f, child, 0x401234, 1005, "/bin/parent");
	assert_is_in(&f, child, 0x7f1000, 1005, "/lib/libc.so.6");
	/* What went on before is found too. */
	assert_int_not_equal(proc_interned_address(f.t, ABI_FRAME_VALUE(frame)).word, 0);
	proc_task_info(f.t, proc_task_of_record(f.t, child, &r.head), &info);
	assert_string_equal(info.executable, "/bin/parent");
	assert_int_equal(info.ppid, 10);
	teardown(&f);
}

/* Child and grandchild have what was there at their forks, and what they mapped themselves. */
static void test_own_mappings_stay(void **state)
{
	struct one_frame parents = record_at(10, 900, 1000, 0x401234),
			 childs = record_at(11, 1001, 1002, 0x401234),
			 grandchilds = record_at(12, 1004, 1005, 0x401234);
	struct process *child, *grandchild;
	struct fixture f;

	(void)state;
	setup_parent(&f);
	write_process(&f, 10, 1, "parent", 90, "0::/\n");
	unread_process(&f, &parents.head);
	forked(&f, 10, 11, 1001);
	child = unread_process(&f, &childs.head);
	mapped(&f, 11, 0x7f0000, 0x2000, 0, "/lib/mine.so", 1003);
	forked(&f, 11, 12, 1004);
	grandchild = unread_process(&f, &grandchilds.head);
	mapped(&f, 10, 0x900000, 0x1000, 0, "/lib/later.so", 1006);
	exited(&f, 12, 1007);
	exited(&f, 11, 1008);
	settle(&f);
	assert_is_in(&f, child, 0x401234, 1002, "/bin/parent");
	assert_is_in(&f, child, 0x7f1000, 1003, "/lib/mine.so");
	assert_is_in(&f, child, 0x900100, 1007, "");
	assert_is_in(&f, grandchild, 0x401234, 1005, "/bin/parent");
	assert_is_in(&f, grandchild, 0x7f1000, 1005, "/lib/mine.so");
	assert_is_in(&f, grandchild, 0x900100, 1007, "");
	teardown(&f);
}

/* After an exec nothing of the parent's is there. */
static void test_exec_inherits_nothing(void **state)
{
	struct one_frame before = record_at(11, 1000, 1001, 0x401234);
	struct abi_record after;
	struct process *child, *image;
	struct fixture f;

	(void)state;
	setup_parent(&f);
	write_process(&f, 10, 1, "parent", 5, "0::/\n");
	forked(&f, 10, 11, 1000);
	child = unread_process(&f, &before.head);
	execed(&f, 11, "true", 1002);
	mapped(&f, 11, 0x800000, 0x1000, 0, "/bin/true", 1003);
	exited(&f, 11, 1010);
	after = record(11, 1000, 2, 1005);
	image = unread_process(&f, &after);
	settle(&f);
	assert_ptr_not_equal(image, child);
	assert_is_in(&f, child, 0x401234, 1001, "/bin/parent");
	assert_is_in(&f, image, 0x401234, 1005, "");
	assert_is_in(&f, image, 0x800100, 1005, "/bin/true");
	teardown(&f);
}

/* Nobody is left who could be read: the sample goes on, at once. */
static void test_all_gone(void **state)
{
	struct one_frame r = record_at(11, 1000, 1005, 0x401234);
	struct process *child;
	struct fixture f;

	(void)state;
	setup(&f);
	forked(&f, 10, 11, 1000);
	child = proc_table_of_record(f.t, &r.head);
	exited(&f, 11, 1006);
	exited(&f, 10, 1007);
	settle(&f);
	while (proc_table_awaits(f.t, child, &r.head) == PROC_AWAITED)
		settle(&f);
	assert_is_in(&f, child, 0x401234, 1005, "");
	teardown(&f);
}

struct reading {
	struct proc_reader *reader;
	bool done;
};

static void *read_on(void *arg)
{
	struct reading *reading = arg;

	while (!__atomic_load_n(&reading->done, __ATOMIC_RELAXED))
		proc_reader_work(reading->reader, NS_PER_S);
	return NULL;
}

static uint64_t n_maps_read(struct proc_reader *r)
{
	struct proc_reader_stats stats;

	proc_reader_stats(r, &stats);
	return stats.reads[PROC_ASK_MAPS][PROC_READ_OK];
}

/* Woken a few times only, for the list and to hand over what it says. */
static void test_list_is_gone_through(void **state)
{
	enum { N = 40, WAKES = 10 };
	struct lock lock = LOCK_INITIALIZER;
	struct reading reading = {0};
	struct fixture f;
	pthread_t thread;

	(void)state;
	setup_parent(&f);
	for (uint32_t pid = 100; pid < 100 + N; pid++)
		write_process(&f, pid, 1, "program", 100 + pid, "0::/\n");
	f.reads.table = f.t;
	f.reads.lock = &lock;
	reading.reader = proc_reader_new(&f.reads);
	assert_int_equal(pthread_create(&thread, NULL, read_on, &reading), 0);
	for (unsigned i = 0; i < WAKES && n_maps_read(reading.reader) < N; i++) {
		lock_take(&lock);
		proc_table_come(f.t, UINT64_MAX / 2);
		lock_release(&lock);
		proc_reader_wake(reading.reader);
		for (unsigned ms = 0;
			ms < 5000 && (i < 2 ? ms < 500 : n_maps_read(reading.reader) < N); ms += 10)
			usleep(10 * 1000);
	}
	__atomic_store_n(&reading.done, true, __ATOMIC_RELAXED);
	proc_reader_stop(reading.reader);
	pthread_join(thread, NULL);
	assert_int_equal(n_maps_read(reading.reader), N);
	proc_reader_freep(&reading.reader);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_child_of_an_unknown_parent),
		cmocka_unit_test(test_own_mappings_stay),
		cmocka_unit_test(test_exec_inherits_nothing),
		cmocka_unit_test(test_all_gone),
		cmocka_unit_test(test_list_is_gone_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
