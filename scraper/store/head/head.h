/* SPDX-License-Identifier: Apache-2.0
 *
 * The head: one generation in memory, as a part. It holds the dictionaries, the profile entries and
 * the encoded pages of rows exactly as they stand in the WAL (about 3 bytes a row).
 *
 * Invariants:
 *  1. one thread interns and applies; what it has not published (head_plan_commit) no reader sees;
 *  2. `lock` covers publication and the per-stream chains; arrays below published lengths need no lock;
 *  3. a sealed head never changes again.
 */
#pragma once
#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "scraper/store/head/record_dict.h"
#include "scraper/store/part/part_impl.h"

struct head_profile {
	uint32_t stream, previous; /* profile of the same stream before this one, or STORE_NONE */
	uint32_t window;	   /* index of its struct head_window */
	uint32_t n_rows;
	uint64_t first_row, first_total;
};
struct head_window {
	int64_t time_ns, duration_ns, period;
};
struct head_stream {
	uint32_t last_profile; /* index + 1; 0: none */
	uint32_t n_profiles;
	int64_t min_time_ns, max_time_ns, max_duration_ns;
};
struct head_page {
	const uint8_t *data;
	uint32_t len, n_columns;
};

/* What readers may see; written under `lock`. */
struct head_published {
	size_t n[DICT_N];
	size_t n_profiles, n_pages;
	uint64_t n_rows;
	int64_t min_time_ns, max_time_ns, max_duration_ns;
};

struct head {
	struct part part;
	uint8_t generation[16];
	int64_t created_ns;	/* monotonic; when its first record was appended or replayed */
	uint64_t first_segment; /* of the WAL */
	bool sealed, flushed;
	struct budget *budget;
	struct dict dict;
	struct record_mark mark;    /* what the WAL has of the dictionaries */
	struct varr profiles;	    /* struct head_profile */
	struct varr windows;	    /* struct head_window */
	struct varr totals;	    /* int64_t */
	struct varr streams;	    /* struct head_stream, as many as dict.streams published */
	struct varr pages;	    /* struct part_page */
	struct varr page_data;	    /* struct head_page */
	struct arena bytes;	    /* encoded pages */
	struct page_writer *writer; /* of the appending thread */
	struct lock lock;
	struct head_published published;
};

/* One reference (part_put). -ENOMEM. */
int head_new(const uint8_t generation[16], uint32_t max_nodes, struct budget *budget,
	uint32_t part_id, struct head **ret) _must_check_;
extern const struct part_ops head_part_ops; /* part_head.c */
void head_free(struct part *p);
/* Memory in use, budget-wise. */
uint64_t head_bytes(const struct head *h);

/* Makes sure that head_plan_commit of this much cannot fail for memory. -ENOMEM, -ENOSPC. */
int head_reserve(struct head *h, size_t n_profiles, size_t n_windows, size_t n_totals,
	size_t n_pages, size_t n_bytes) _must_check_;

struct head_applied {
	uint64_t n_profiles, n_rows, dropped_rows;
};
/*
 * One record in two steps. Making the plan does all that can fail: decoding, checks, memory; rows that refer to holes are dropped.
 * When `live`, the appending thread interned the dictionary groups already and wrote the body itself. `ret` is zeroed before, and
 * head_plan_done is due in any case. -EBADMSG, -ENOSPC (a dictionary is full), -ENOMEM. Committing publishes. The record's bytes must
 * stay until then.
 */
struct head_unit;
struct head_plan {
	struct head_unit *units;
	size_t n, cap;
	struct head_applied applied;
};
int head_plan_make(struct head *h, const struct record *r, bool live, struct head_plan *ret,
	struct errbuf *eb) _must_check_;
void head_plan_commit(struct head *h, struct head_plan *p);
void head_plan_done(struct head_plan *p);
/* Both steps, for replay. On an error nothing but dictionary entries was taken. */
int head_apply(struct head *h, const struct record *r, struct head_applied *ret,
	struct errbuf *eb) _must_check_;

/* Profile of (stream, time), or STORE_NONE. The appending thread. */
uint32_t head_find_profile(struct head *h, uint32_t stream, int64_t time_ns);

static inline const struct head_profile *head_profiles(const struct head *h)
{
	return (const void *)h->profiles.base;
}
static inline const struct head_window *head_windows(const struct head *h)
{
	return (const void *)h->windows.base;
}
static inline const int64_t *head_totals(const struct head *h)
{
	return (const void *)h->totals.base;
}
static inline struct head_stream *head_streams(const struct head *h)
{
	return (void *)h->streams.base;
}
static inline const struct head_page *head_page_data(const struct head *h)
{
	return (const void *)h->page_data.base;
}
