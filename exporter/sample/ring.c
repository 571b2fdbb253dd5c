/* SPDX-License-Identifier: Apache-2.0
 *
 * Consumer of a BPF ring buffer. Each record has an 8-byte header: length with two flag bits, then a page offset of no use here.
 */
#include "exporter/sample/ring.h"
#include <string.h>
#include <sys/mman.h>

#define RECORD_BUSY (1U << 31)	  /* still being written */
#define RECORD_DISCARD (1U << 30) /* given up by its writer */
#define RECORD_HEADER 8

int ring_open(struct ring *r, int fd, uint32_t bytes, struct errbuf *eb)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *consumer, *producer;

	consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (consumer == MAP_FAILED)
		return err_set(
			eb, -errno, "cannot map a ring's consumer page: %s", strerror(errno));
	producer = mmap(NULL, page + 2 * (size_t)bytes, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (producer == MAP_FAILED) {
		int e = errno;

		munmap(consumer, page);
		return err_set(eb, -e, "cannot map a ring of %u bytes: %s", bytes, strerror(e));
	}
	*r = (struct ring) {.consumer = consumer,
		.producer = producer,
		.data = (const uint8_t *)producer + page,
		.size = bytes,
		.consumer_map = consumer,
		.producer_map = producer,
		.page = page};
	r->at = *r->consumer;
	return 0;
}

void ring_done(struct ring *r)
{
	if (r->consumer_map)
		munmap(r->consumer_map, r->page);
	if (r->producer_map)
		munmap(r->producer_map, r->page + 2 * r->size);
	memset(r, 0, sizeof(*r));
}

const void *ring_next(struct ring *r, uint32_t *ret_len)
{
	uint64_t end = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);

	while (r->at < end) {
		const uint8_t *header = r->data + (r->at & (r->size - 1));
		uint32_t word =
			__atomic_load_n((const uint32_t *)(const void *)header, __ATOMIC_ACQUIRE);
		uint32_t len = word & ~(RECORD_BUSY | RECORD_DISCARD);

		if (word & RECORD_BUSY)
			return NULL;
		r->at += (len + RECORD_HEADER + 7) & ~7ULL;
		if (!(word & RECORD_DISCARD)) {
			*ret_len = len;
			return header + RECORD_HEADER;
		}
	}
	return NULL;
}

void ring_release(struct ring *r)
{
	__atomic_store_n(r->consumer, r->at, __ATOMIC_RELEASE);
}

uint64_t ring_used(const struct ring *r)
{
	return __atomic_load_n(r->producer, __ATOMIC_ACQUIRE) - *r->consumer;
}
