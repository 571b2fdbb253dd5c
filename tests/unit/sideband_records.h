/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds raw perf records as the kernel writes them, for tests of the drain and what lies behind it.
 */
#pragma once
#include "lib/base/bytes.h"
#include <linux/perf_event.h>
#include <string.h>

static _unused_ size_t record_end(
	struct bytes *b, size_t start, uint32_t pid, uint64_t time_ns, uint32_t cpu)
{
	while ((b->len - start) % 8)
		bytes_put_u8(b, 0);
	bytes_put_u32(b, pid);
	bytes_put_u32(b, pid);
	bytes_put_u64(b, time_ns);
	bytes_put_u32(b, cpu);
	bytes_put_u32(b, 0);
	b->data[start + 6] = (uint8_t)(b->len - start);
	b->data[start + 7] = (uint8_t)((b->len - start) >> 8);
	return b->len - start;
}

static _unused_ void record_begin(struct bytes *b, uint32_t type, uint16_t misc)
{
	bytes_put_u32(b, type);
	bytes_put_u16(b, misc);
	bytes_put_u16(b, 0);
}

/* Each appends one record and returns its length. build_id: hex of 20 bytes at most, or NULL for dev 8:1, ino 77. */
static _unused_ size_t record_mmap2(struct bytes *b, uint64_t time_ns, uint32_t pid, uint64_t addr,
	uint64_t len, const uint8_t *build_id, uint8_t build_id_len, const char *path)
{
	size_t start = b->len;

	record_begin(b, PERF_RECORD_MMAP2,
		(uint16_t)(PERF_RECORD_MISC_USER |
			   (build_id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0)));
	bytes_put_u32(b, pid);
	bytes_put_u32(b, pid);
	bytes_put_u64(b, addr);
	bytes_put_u64(b, len);
	bytes_put_u64(b, 0x1000);
	if (build_id) {
		uint8_t padded[20] = {0};

		memcpy(padded, build_id, MIN(build_id_len, sizeof(padded)));
		bytes_put_u32(b, build_id_len);
		bytes_put(b, padded, sizeof(padded));
	} else {
		bytes_put_u32(b, 8);
		bytes_put_u32(b, 1);
		bytes_put_u64(b, 77);
		bytes_put_u64(b, 3);
	}
	bytes_put_u32(b, 5);
	bytes_put_u32(b, 2);
	bytes_put(b, path, strlen(path) + 1);
	return record_end(b, start, pid, time_ns, 3);
}

static _unused_ size_t record_comm(
	struct bytes *b, uint64_t time_ns, uint32_t pid, uint32_t tid, const char *comm, bool exec)
{
	size_t start = b->len;

	record_begin(b, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
	bytes_put_u32(b, pid);
	bytes_put_u32(b, tid);
	bytes_put(b, comm, strlen(comm) + 1);
	return record_end(b, start, pid, time_ns, 3);
}

static _unused_ size_t record_task(struct bytes *b, uint32_t type, uint64_t time_ns, uint32_t pid,
	uint32_t ppid, uint32_t tid, uint32_t ptid)
{
	size_t start = b->len;

	record_begin(b, type, 0);
	bytes_put_u32(b, pid);
	bytes_put_u32(b, ppid);
	bytes_put_u32(b, tid);
	bytes_put_u32(b, ptid);
	bytes_put_u64(b, time_ns);
	return record_end(b, start, pid, time_ns, 3);
}

static _unused_ size_t record_ksymbol(struct bytes *b, uint64_t time_ns, uint64_t addr,
	uint32_t len, uint16_t type, bool gone, const char *name)
{
	size_t start = b->len;

	record_begin(b, PERF_RECORD_KSYMBOL, 0);
	bytes_put_u64(b, addr);
	bytes_put_u32(b, len);
	bytes_put_u16(b, type);
	bytes_put_u16(b, gone ? PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER : 0);
	bytes_put(b, name, strlen(name) + 1);
	return record_end(b, start, 0, time_ns, 3);
}

static _unused_ size_t record_lost(struct bytes *b, uint64_t time_ns, uint64_t lost)
{
	size_t start = b->len;

	record_begin(b, PERF_RECORD_LOST, 0);
	bytes_put_u64(b, 1);
	bytes_put_u64(b, lost);
	return record_end(b, start, 0, time_ns, 3);
}
