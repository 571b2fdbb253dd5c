/* SPDX-License-Identifier: Apache-2.0
 *
 * Known files: found by all of what an inode says, forgotten by binary or for want of room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/unwind/files.h"
#include "lib/base/cleanup.h"

enum { N_BUCKETS = 4 };

static struct file_bucket buckets[N_BUCKETS];

static uint32_t find(const struct file_key *k)
{
	return file_find(&buckets[file_bucket_of(k, N_BUCKETS - 1)], k);
}

static struct files *fresh(void)
{
	memset(buckets, 0, sizeof(buckets));
	return files_new(buckets, N_BUCKETS);
}

static void a_file_is_all_that_its_inode_says(void **state)
{
	const struct file_key key = {
		.ino = 77, .bytes = 1000, .mtime_ns = 5000000001, .dev = 8 << 20 | 1};
	struct file_key others[] = {key, key, key, key};
	_cleanup_(files_freep)
	struct files *f = fresh();

	(void)state;
	others[0].ino++;
	others[1].bytes++;
	others[2].mtime_ns++;
	others[3].dev++;
	assert_int_equal(find(&key), 0);
	files_set(f, &key, 12);
	assert_int_equal(find(&key), 12);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(find(&others[i]), 0);
	files_set(f, &key, 13);
	assert_int_equal(find(&key), 13);
	files_drop(f, 12);
	assert_int_equal(find(&key), 13);
	files_drop(f, 13);
	assert_int_equal(find(&key), 0);
}

static void the_newest_are_known(void **state)
{
	_cleanup_(files_freep)
	struct files *f = fresh();
	struct files_stats st;
	uint32_t n = 0;

	(void)state;
	for (uint32_t i = 1; i <= 100; i++) {
		files_set(f, &(struct file_key) {.ino = i}, i);
		assert_int_equal(find(&(struct file_key) {.ino = i}), i);
	}
	for (uint32_t i = 1; i <= 100; i++) {
		uint32_t found = find(&(struct file_key) {.ino = i});

		assert_true(!found || found == i);
		n += found != 0;
	}
	files_stats(f, &st);
	assert_int_equal(st.known, n);
	assert_int_equal(st.forgotten, 100 - n);
	assert_true(n > N_BUCKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_all_that_its_inode_says),
		cmocka_unit_test(the_newest_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
