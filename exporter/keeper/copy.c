/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of processes, copied.
 */
#include "exporter/keeper/copy.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/cursor.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What has come back to a bucket of `full` in that time. */
static uint64_t refilled(uint64_t left, uint64_t full, int64_t passed_ns)
{
	if (passed_ns >= NS_PER_S)
		return full;
	return MIN(left + full * (uint64_t)MAX(passed_ns, 0) / (uint64_t)NS_PER_S, full);
}

int copy_limit_take(struct copy_limit *l, int64_t now_ns, uint64_t bytes)
{
	int64_t passed_ns = l->at_ns ? now_ns - l->at_ns : NS_PER_S;
	uint64_t requests = refilled(l->requests, COPY_PER_S, passed_ns),
		 left = refilled(l->bytes, COPY_BYTES_PER_S, passed_ns);

	if (!requests || left < bytes)
		return -EBUSY;
	*l = (struct copy_limit) {now_ns, requests - 1, left - bytes};
	return 0;
}

bool copy_ranges_fit(const struct keeper_range *ranges, size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n && n <= KEEPER_COPY_RANGES; i++) {
		if (!ranges[i].bytes)
			return false;
		bytes += ranges[i].bytes;
	}
	return n && n <= KEEPER_COPY_RANGES && bytes <= KEEPER_COPY_BYTES;
}

void copy_put_ranges(const struct keeper_range *ranges, size_t n, uint8_t *to)
{
	for (size_t i = 0; i < n; i++, to += COPY_RANGE_BYTES) {
		uint64_t words[2] = {ranges[i].addr, ranges[i].bytes};

		for (unsigned k = 0; k < COPY_RANGE_BYTES; k++)
			to[k] = (uint8_t)(words[k / 8] >> 8 * (k % 8));
	}
}

int copy_get_ranges(const uint8_t *payload, size_t len, struct keeper_range ret[KEEPER_COPY_RANGES])
{
	struct cursor c = cursor_of(payload, len);
	size_t n = 0;

	for (; cursor_left(&c) && n < KEEPER_COPY_RANGES; n++) {
		uint64_t addr = cursor_u64(&c), bytes = cursor_u64(&c);

		if (c.error || bytes > KEEPER_COPY_BYTES)
			return -EINVAL;
		ret[n] = (struct keeper_range) {.addr = addr, .bytes = (uint32_t)bytes};
	}
	return !cursor_left(&c) && copy_ranges_fit(ret, n) ? (int)n : -EINVAL;
}

/* As many bytes as can be read: a mapping may end within them. */
static uint32_t read_memory(int fd, uint64_t addr, uint8_t *to, uint32_t bytes)
{
	uint32_t n = 0;

	while (n < bytes) {
		ssize_t r = pread(fd, to + n, bytes - n, (off_t)(addr + n));

		if (r <= 0)
			break;
		n += (uint32_t)r;
	}
	return n;
}

static int write_file(const uint8_t *data, size_t len)
{
	_cleanup_close_ int fd = memfd_create("copy", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(fd, data + at, len - at, (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += (size_t)n;
	}
	return TAKE_FD(fd);
}

int copy_to_file(int proc_fd, const struct keeper_range *ranges, size_t n)
{
	_cleanup_close_ int fd = openat(proc_fd, "mem", O_RDONLY | O_CLOEXEC);
	uint8_t data[COPY_MAX_ANSWER], *count = data;
	size_t at = n * 4;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		uint32_t copied = read_memory(fd, ranges[i].addr, data + at, ranges[i].bytes);

		for (unsigned k = 0; k < 4; k++)
			*count++ = (uint8_t)(copied >> 8 * k);
		at += copied;
	}
	return write_file(data, at);
}

int copy_from_file(int fd, struct keeper_range *ranges, size_t n)
{
	uint8_t data[COPY_MAX_ANSWER + 1];
	ssize_t len = pread(fd, data, sizeof(data), 0);
	struct cursor counts, bytes;

	if (len < 0)
		return -errno;
	counts = cursor_of(data, (size_t)len);
	bytes = counts;
	cursor_skip(&bytes, n * 4);
	for (size_t i = 0; i < n; i++) {
		uint32_t copied = cursor_u32(&counts);
		const uint8_t *from = cursor_take(&bytes, copied);

		if (counts.error || bytes.error || copied > ranges[i].bytes)
			return -EPROTO;
		memcpy(ranges[i].to, from, copied);
		ranges[i].copied = copied;
	}
	return cursor_left(&bytes) ? -EPROTO : 0;
}
