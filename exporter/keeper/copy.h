/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation COPY: bounded pieces of a process's memory. Their request and their answer as bytes, and how an opener makes the one of
 * the other. Memory may lie in a file of a file system that never answers, so that openers copy it, as they open files.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include <stddef.h>

enum {
	COPY_RANGE_BYTES = 16,	     /* of a range in a request */
	COPY_PER_S = 5000,	     /* requests of one opener, */
	COPY_BYTES_PER_S = 16 << 20, /* and bytes that they ask for; both may come at once */
	COPY_MAX_ANSWER = KEEPER_COPY_RANGES * 4 + KEEPER_COPY_BYTES,
};

/* What an opener may still copy. Zeroed: all of a second. */
struct copy_limit {
	int64_t at_ns; /* CLOCK_MONOTONIC; 0: not asked yet */
	uint64_t requests, bytes;
};
/* Takes one request of so many bytes off: 0, or -EBUSY when it has to wait. */
int copy_limit_take(struct copy_limit *l, int64_t now_ns, uint64_t bytes);

/* 1 … KEEPER_COPY_RANGES ranges of 1 byte at least and KEEPER_COPY_BYTES in all? */
bool copy_ranges_fit(const struct keeper_range *ranges, size_t n);
/* A request's payload, into n × COPY_RANGE_BYTES bytes. */
void copy_put_ranges(const struct keeper_range *ranges, size_t n, uint8_t *to);
/* The ranges of one: their number, or -EINVAL. Neither `to` nor `copied` is set. */
int copy_get_ranges(
	const uint8_t *payload, size_t len, struct keeper_range ret[KEEPER_COPY_RANGES]);

/* Copies them out of the process of that directory in /proc into a file in memory: its descriptor, or -errno. */
int copy_to_file(int proc_fd, const struct keeper_range *ranges, size_t n);
/* Reads such a file into each range's `to` and sets `copied`: 0; -EPROTO: it does not follow docs/formats/keeper-protocol.md. */
int copy_from_file(int fd, struct keeper_range *ranges, size_t n);
