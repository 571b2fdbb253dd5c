/* SPDX-License-Identifier: Apache-2.0
 *
 * perf side-band records: the mmapped buffer they come in, and what they say (linux/perf_event.h).
 */
#pragma once
#include "exporter/sample/drain.h"
#include "lib/base/err.h"
#include <stddef.h>

enum { SIDEBAND_MAX_BYTES = 65535 }; /* of one record: its size field has 16 bits */

/*
 * What a raw record says. 0; -ENOTSUP for kinds that do not matter here; -EBADMSG. The path points into `rec`.
 * The records must come from an event with sample_id_all and sample_type TID|TIME|CPU. build_ids: the event had asked for them. Only
 * then does PERF_RECORD_MISC_MMAP_BUILD_ID mean anything: kernels leave it set in records of events that follow one which had.
 */
int sideband_parse(const void *rec, size_t len, bool build_ids, struct sideband *ret);

struct sideband_buffer {
	void *meta; /* struct perf_event_mmap_page */
	const uint8_t *data;
	uint64_t size;
	size_t map_bytes;
	uint64_t at;
	uint8_t *joined; /* a record that the buffer's end breaks is put together here */
};

/* Maps the buffer of a side-band event, with fewer pages where the limit on locked memory demands it. */
int sideband_open(struct sideband_buffer *b, int fd, struct errbuf *eb) _must_check_;
void sideband_done(struct sideband_buffer *b);
/* The next raw record, valid until the next call; NULL when there is none. */
const void *sideband_next(struct sideband_buffer *b, size_t *ret_len);
/* Gives the space of everything returned so far back to the kernel. */
void sideband_release(struct sideband_buffer *b);
