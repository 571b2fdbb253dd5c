/* SPDX-License-Identifier: Apache-2.0
 *
 * Consumer of a BPF ring buffer, by mmap alone (kernel/bpf/ringbuf.c): main has no right to call bpf().
 */
#pragma once
#include "lib/base/err.h"
#include <stdint.h>

struct ring {
	uint64_t *consumer;	  /* position up to which records are given back; ours to write */
	const uint64_t *producer; /* position up to which records are reserved */
	const uint8_t *
		data; /* size bytes, mapped twice in a row so that no record is broken at the end */
	uint64_t size; /* power of two */
	uint64_t at;   /* of the record that ring_next gave last */
	void *consumer_map, *producer_map;
	size_t page;
};

/* Maps the ring behind fd; bytes: its max_entries. */
int ring_open(struct ring *r, int fd, uint32_t bytes, struct errbuf *eb) _must_check_;
void ring_done(struct ring *r);

/* The next record, valid until ring_release or the next ring_next that follows a release; NULL when there is none. */
const void *ring_next(struct ring *r, uint32_t *ret_len);
/* Gives back everything that ring_next has returned. */
void ring_release(struct ring *r);
/* Bytes that wait to be read. */
uint64_t ring_used(const struct ring *r);
