/* SPDX-License-Identifier: Apache-2.0
 *
 * perf side-band records: each kind, damage at every length, and the buffer's wrap-around.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/sample/sideband.h"
#include "tests/unit/sideband_records.h"

static void mmap_by_inode(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	size_t len = record_mmap2(&b, 1000, 42, 0x400000, 0x3000, NULL, 0, "/usr/bin/x y");
	struct sideband s;

	(void)state;
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.kind, SIDEBAND_MMAP);
	assert_int_equal(s.time_ns, 1000);
	assert_int_equal(s.cpu, 3);
	assert_int_equal(s.pid, 42);
	assert_int_equal(s.addr, 0x400000);
	assert_int_equal(s.len, 0x3000);
	assert_int_equal(s.pgoff, 0x1000);
	assert_int_equal(s.dev_major, 8);
	assert_int_equal(s.dev_minor, 1);
	assert_int_equal(s.ino, 77);
	assert_int_equal(s.ino_generation, 3);
	assert_int_equal(s.build_id_len, 0);
	assert_int_equal(s.prot, 5);
	assert_int_equal(s.flags, 2);
	assert_string_equal(s.path, "/usr/bin/x y");
}

static void mmap_by_build_id(void **state)
{
	static const uint8_t id[20] = {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
	_cleanup_bytes_ struct bytes b = {0};
	struct sideband s;
	size_t len;

	(void)state;
	len = record_mmap2(&b, 1000, 42, 0x400000, 0x3000, id, 20, "/lib/y");
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.build_id_len, 20);
	assert_memory_equal(s.build_id, id, 20);
	assert_int_equal(s.ino, 0);
	assert_string_equal(s.path, "/lib/y");

	/* The event had not asked: what follows is device and inode, whatever the bit says. */
	bytes_reset(&b);
	len = record_mmap2(&b, 1000, 42, 0x400000, 0x3000, NULL, 0, "/lib/y");
	b.data[5] |= PERF_RECORD_MISC_MMAP_BUILD_ID >> 8;
	assert_int_equal(sideband_parse(b.data, len, false, &s), 0);
	assert_int_equal(s.build_id_len, 0);
	assert_int_equal(s.dev_major, 8);
	assert_int_equal(s.ino, 77);

	bytes_reset(&b);
	len = record_mmap2(
		&b, 1000, 42, 0x400000, 0x3000, id, 21, "/lib/y"); /* longer than its field */
	assert_int_equal(sideband_parse(b.data, len, true, &s), -EBADMSG);
}

static void kernel_code(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	struct sideband s;
	size_t len;

	(void)state;
	len = record_ksymbol(&b, 9, 0xffffffffc0001000, 0x180, PERF_RECORD_KSYMBOL_TYPE_BPF, false,
		"bpf_prog_0123_x");
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.kind, SIDEBAND_KSYMBOL);
	assert_true(s.addr == 0xffffffffc0001000 && s.len == 0x180 && s.is_bpf && !s.gone);
	assert_string_equal(s.path, "bpf_prog_0123_x");

	/* As the second and the third that listen get it: with room for their predecessors' sample ids. */
	for (uint16_t more = 24; more <= 48; more += 24) {
		uint16_t size = (uint16_t)len + more;

		bytes_put(&b,
			"\xfe\0\0\0\0\0\0\0\x2e\x37\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
			24);
		memcpy(b.data + 6, &size, sizeof(size));
		assert_int_equal(sideband_parse(b.data, size, true, &s), 0);
		assert_int_equal(s.time_ns, 9);
		assert_int_equal(s.cpu, 3);
		assert_string_equal(s.path, "bpf_prog_0123_x");
	}

	bytes_reset(&b);
	len = record_ksymbol(&b, 9, 0xffffffffc0001000, 64, PERF_RECORD_KSYMBOL_TYPE_OOL, true,
		"ftrace_trampoline");
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_true(!s.is_bpf && s.gone);
}

static void other_kinds(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	struct sideband s;
	size_t len;

	(void)state;
	len = record_comm(&b, 5, 10, 11, "a-name-of-fifteen-and-more", true);
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.kind, SIDEBAND_COMM);
	assert_true(s.exec);
	assert_int_equal(s.pid, 10);
	assert_int_equal(s.tid, 11);
	assert_string_equal(s.comm, "a-name-of-fifte");

	bytes_reset(&b);
	len = record_task(&b, PERF_RECORD_FORK, 6, 20, 10, 21, 11);
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.kind, SIDEBAND_FORK);
	assert_int_equal(s.pid, 20);
	assert_int_equal(s.ppid, 10);
	assert_int_equal(s.tid, 21);
	assert_int_equal(s.ptid, 11);

	bytes_reset(&b);
	len = record_task(&b, PERF_RECORD_EXIT, 7, 20, 10, 21, 11);
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.kind, SIDEBAND_EXIT);

	bytes_reset(&b);
	len = record_lost(&b, 8, 99);
	assert_int_equal(sideband_parse(b.data, len, true, &s), 0);
	assert_int_equal(s.kind, SIDEBAND_LOST);
	assert_int_equal(s.lost, 99);

	bytes_reset(&b);
	len = record_task(&b, PERF_RECORD_THROTTLE, 7, 1, 2, 3, 4);
	assert_int_equal(sideband_parse(b.data, len, true, &s), -ENOTSUP);
}

/* Cut at every length, the size field following or not: never a success, never a read past the end (ASan). */
static void cut_records(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	size_t len = record_mmap2(&b, 1000, 42, 0x400000, 0x3000, NULL, 0, "/usr/bin/x");
	struct sideband s;

	(void)state;
	for (size_t n = 0; n < len; n++) {
		_cleanup_free_ uint8_t *cut = malloc(n ? n : 1);

		memcpy(cut, b.data, n);
		assert_int_equal(sideband_parse(cut, n, true, &s), -EBADMSG);
		if (n < 8)
			continue;
		cut[6] = (uint8_t)n;
		cut[7] = 0;
		assert_true(sideband_parse(cut, n, true, &s) < 0 || n >= 8 + 24 + 64);
	}
	bytes_reset(&b);
	len = record_ksymbol(
		&b, 9, 0xffffffffc0001000, 64, PERF_RECORD_KSYMBOL_TYPE_BPF, false, "abc");
	for (size_t n = 8; n < len; n++) {
		_cleanup_free_ uint8_t *cut = malloc(n);

		memcpy(cut, b.data, n);
		cut[6] = (uint8_t)n;
		cut[7] = 0;
		assert_int_equal(sideband_parse(cut, n, true, &s), -EBADMSG);
	}
}

static void unterminated_name(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	struct sideband s;
	size_t len = record_comm(&b, 5, 10, 11, "1234567", false);

	(void)state;
	b.data[8 + 8 + 7] = 'x';
	assert_int_equal(sideband_parse(b.data, len, true, &s), -EBADMSG);
}

static void buffer_wraps(void **state)
{
	enum { SIZE = 4096 };
	static _Alignas(8) uint8_t map[4096 + SIZE];
	struct perf_event_mmap_page *meta = (void *)map;
	struct sideband_buffer sb = {.meta = map,
		.data = map + 4096,
		.size = SIZE,
		.joined = malloc(SIDEBAND_MAX_BYTES)};
	_cleanup_bytes_ struct bytes b = {0};
	size_t len;

	(void)state;
	assert_null(sideband_next(&sb, &len));
	for (unsigned i = 0; i < 500; i++) {
		struct sideband s;
		const void *rec;

		bytes_reset(&b);
		record_comm(
			&b, i + 1, 1000 + i, 1000 + i, i % 2 ? "short" : "a longer name", false);
		for (size_t k = 0; k < b.len; k++)
			map[4096 + (meta->data_head + k) % SIZE] = b.data[k];
		meta->data_head += b.len;
		rec = sideband_next(&sb, &len);
		assert_non_null(rec);
		assert_int_equal(len, b.len);
		assert_int_equal(sideband_parse(rec, len, true, &s), 0);
		assert_int_equal(s.pid, 1000 + i);
		assert_null(sideband_next(&sb, &len));
		sideband_release(&sb);
		assert_int_equal(meta->data_tail, meta->data_head);
	}
	free(sb.joined);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mmap_by_inode),
		cmocka_unit_test(mmap_by_build_id),
		cmocka_unit_test(kernel_code),
		cmocka_unit_test(other_kinds),
		cmocka_unit_test(cut_records),
		cmocka_unit_test(unterminated_name),
		cmocka_unit_test(buffer_wraps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
