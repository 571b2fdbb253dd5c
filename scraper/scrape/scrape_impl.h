/* SPDX-License-Identifier: Apache-2.0
 *
 * The stage's structs, shared by the files of this folder alone.
 *
 * Invariants:
 *  1. pools, targets, types and the wait lists belong to the loop thread; `lock` guards what scrape_status_get reads of them (the lists and
 *     the `last_*` fields): the loop takes it to change those, others to read;
 *  2. at most one request of a type is in flight (`request` set); while it is, the request's thread alone uses the type's
 *     delta state and series set, and the target stays allocated (n_in_flight);
 *  3. a target that is `gone` starts nothing and is freed when n_in_flight is 0. A type of it that has series to end is in flight once more
 *     for that (is_last). While it `may_return`, because its job changed, its types are kept for the target that follows it;
 *  4. reserved_bytes is the sum over requests in flight of what they should need; small_bytes, of those not known to be large, what they hold;
 *  5. at most one request `is_large`, from before it is decompressed until it has shed what was decoded.
 */
#pragma once
#include "lib/base/lock.h"
#include "scraper/discover/target.h"
#include "scraper/scrape/delta.h"
#include "scraper/scrape/failure_log.h"
#include "scraper/scrape/limit.h"
#include "scraper/scrape/live.h"
#include "scraper/scrape/offset.h"
#include "scraper/scrape/preset.h"
#include "scraper/scrape/queue.h"
#include "scraper/scrape/scrape.h"
#include "scraper/scrape/series.h"
#include "scraper/scrape/wait.h"
#include <pthread.h>

enum {
	SCRAPE_SMALL_RESERVE_BYTES = 4096, /* of an answer that is not known to be large */
	SCRAPE_SMALL_SHARE = 4,		   /* of the budget: small bodies that wait to be decoded */
	SCRAPE_LARGE_BYTES = 4 << 20,	   /* decompressed: larger ones are decoded one at a time */
	SCRAPE_MAX_ASKS = 64,	/* of one slot: catching up behind a cursor, and asking again */
	SCRAPE_MAX_RETRIES = 3, /* of one slot: answers that overlapped what is stored */
	SCRAPE_GRID_SNAP_NS = 2 * 1000000,
	SCRAPE_REPORT_GAUGES = 8 + SCRAPE_VITALS,
	SCRAPE_MAX_ENDS = 32768,
};
#define SCRAPE_GENERATION_NS (2 * 3600 * NS_PER_S)

struct scrape_pool {
	struct scrape_pool *next;
	struct config *cfg; /* a reference */
	const struct config_job *job;
	struct scrape_limit *limit;
	struct scrape_target *targets;
	size_t n_targets;
	struct labels *dropped; /* discovered labels, at most keep_dropped_targets */
	size_t n_dropped, n_dropped_total;
	uint64_t over_target_limit; /* number of targets when above it, else 0 */
};

struct scrape_target {
	struct scrape_target *next;
	struct scrape *stage;
	struct scrape_pool *pool; /* NULL once gone */
	struct target t;
	uint64_t hash;
	char *url, *address; /* of the base; host:port */
	uint64_t host_key;   /* of the address without its port */
	enum scrape_preset preset;
	char *types_header, *labels_header; /* of an exporter; NULL: not seen */
	int64_t slot_real_ns, slot_mono_ns; /* the next one */
	size_t heap_idx;
	bool is_gone, is_marked;
	char *may_return; /* the job that may have it again; NULL: none */
	unsigned n_in_flight;
	struct scrape_type **types;
	size_t n_types;
};

struct scrape_type {
	struct scrape_target *target;
	struct scrape_spec spec;
	struct target t;	 /* relabeled with __name__ and __profile_path__ */
	char *base_url, *filter; /* with the job's params but `seconds`, its identity; they alone */
	char *url;		 /* what is asked, but for what continues a cursor */
	uint64_t profiler_key;	 /* of the URL's start: behind a proxy are several programs */
	bool has_query, is_gone; /* no longer among the target's types */
	bool is_followed;	 /* its series go on elsewhere */
	char *cursor;		 /* of the last acknowledged answer; NULL: none */
	unsigned n_asks, n_retries; /* in this slot */
	uint64_t last_size_bytes;
	struct scrape_request *request; /* in flight */
	struct scrape_wait *wait;	/* wants to start */
	struct scrape_delta delta;
	int64_t delta_start_mono_ns, delta_end_mono_ns; /* of the request that brought its totals */
	struct scrape_live live;

	/* under the lock */
	enum scrape_health health;
	char *last_error; /* of one that is up: series that were not stored, texts that were mended */
	int64_t last_scrape_ns, last_duration_ns;
	uint64_t last_samples, last_series;
	double behind_s;
};

/* One ask of one type, from start to acknowledgement. */
struct scrape_request {
	struct scrape_request *next; /* of the queue it stands in */
	struct scrape_type *type;
	struct config *cfg; /* a reference: `job` lives in it */
	const struct config_job *job;
	struct scrape_limit *limit;
	bool is_main; /* decides `up` */
	bool is_last; /* nothing was asked: the type has gone and its series end. No cfg, job and limit */
	enum scrape_preset preset;
	char *labels_header;
	uint64_t transfer_id, reserved_bytes, small_bytes, size_bytes;
	struct scrape_gate *profiler, *host; /* held */
	int64_t slot_real_ns, start_mono_ns, start_real_ns, end_mono_ns;
	char *cursor_sent;
	bool is_large;	  /* holds the room for large answers */
	bool skip_report; /* more answers of this slot follow: the gauges come with the last one */

	struct http_response response;
	/* decode's result */
	enum scrape_reason reason;
	struct errbuf error;
	bool is_sonde, discard, is_unchanged, restarted;
	char *answer_types, *answer_labels;		/* Sonde-Types, Sonde-Labels */
	char *cursor_next, *cursor_key, *cursor_stored; /* key: bytes, key_len */
	size_t cursor_key_len;
	double behind_s, lost_s;
	struct scrape_vitals vitals;
	struct bytes inflated;
	struct arena arena;
	struct profile profile;
	struct scrape_series_result series;
	struct store_scrape out;
	struct store_result stored;
	struct labels report_labels[SCRAPE_REPORT_GAUGES], coverage_labels;
	struct store_gauge gauges[SCRAPE_REPORT_GAUGES];
	struct store_coverage coverage;
	struct store_end *ends;
	struct labels *ended;
	size_t n_ended, n_mended_texts;
	uint64_t n_series_added, n_conflicts, n_samples, n_series; /* two: once it has shed */
	enum scrape_delta_result delta_result;
	bool delta_evicted, has_record, is_finishing; /* the last: back on the loop thread */
};

/* Between loop and decoders. Under to_decode's lock: what was found to be large and waits for its turn. */
struct scrape_room {
	struct scrape_request *head, **tail;
	pthread_cond_t given_back;
	bool is_taken;
	int64_t ends_ns; /* once to_decode is closed: from then on nothing is taken */
};

struct scrape_metrics {
	struct metric *scrapes, *failures, *samples, *pool_targets, *pool_dropped, *relabel_dropped,
		*joined, *collapsed, *mended, *conflicts, *interval;
	struct metric_cell *bytes, *lost, *restarts, *discarded, *stale, *resets, *evictions,
		*missed, *deferred, *in_flight, *decode_seconds, *sync_failed, *log_failed;
};

struct scrape {
	struct scrape_options o;
	struct http_client *client;
	struct scrape_failure_log failure_log; /* the loop's */
	uint64_t seed;
	struct lock lock;
	struct scrape_pool *pools;
	struct scrape_target *gone; /* still in flight */
	struct scrape_target **heap;
	size_t n_heap, cap_heap;
	struct scrape_waits waiting; /* for the budget */
	struct table gates;	     /* key → struct scrape_gate */
	uint64_t reserved_bytes, small_bytes;
	size_t n_in_flight;
	bool stopping;

	struct scrape_queue to_decode, to_append, finished;
	struct scrape_room large;
	pthread_t *decoders, appender;
	unsigned n_decoders_started;
	bool appender_started, stopped;
	struct scrape_metrics m;
};

/* room.c: large answers are decompressed and decoded one at a time, so that together they cannot spend what small ones need. */
void scrape_room_init(struct scrape *s);
void scrape_room_done(struct scrape *s);
/* Decode threads: the next request of to_decode, large ones in turn; NULL once it is closed and nothing is left that may run. */
struct scrape_request *scrape_room_take(struct scrape *s);
/* Decode thread: an answer that turned out to be large waits for its turn. leave: gives it back, when `r` has it. */
void scrape_room_enter(struct scrape *s, struct scrape_request *r);
void scrape_room_leave(struct scrape *s, struct scrape_request *r);
/* Closes to_decode: decoders take what is there until ends_ns (monotonic) and end, nobody waits any more; the rest is polled after that. */
void scrape_room_close(struct scrape *s, int64_t ends_ns);
struct scrape_request *scrape_room_poll(struct scrape *s);

/* heap.c: targets by slot_mono_ns */
void scrape_heap_insert(struct scrape *s, struct scrape_target *t);
void scrape_heap_remove(struct scrape *s, struct scrape_target *t);

/* pool.c */
struct scrape_pool *scrape_pool_find(struct scrape *s, const char *job_name);
/* With the lock held. may_return: the job goes on, changed. */
void scrape_pool_free(struct scrape *s, struct scrape_pool *p, bool may_return);
/* (Re)builds the types of a target for what is known of it now; unchanged ones are kept. */
int scrape_target_set_types(struct scrape_target *t, struct errbuf *eb) _must_check_;

/* release.c: loop thread; lists change with the lock held. Nothing new starts, the memory goes with the last request in flight. may_return: the name of the job in
 * which the target may come back, or NULL. */
void scrape_target_release(struct scrape *s, struct scrape_target *t, const char *may_return);
void scrape_type_release(struct scrape *s, struct scrape_type *type);
void scrape_target_free(struct scrape *s, struct scrape_target *t);
/* Of targets of the job that might have returned, those that did not, end; `now`: its targets, or NULL. job NULL: of all jobs. */
void scrape_parting_end(struct scrape *s, const char *job, struct scrape_target *now);
/* The series go on under the type of the same name and labels among `types`, if it has none yet. */
void scrape_live_hand_over(struct scrape_type *from, struct scrape_type *const *types, size_t n);

/* request.c: loop thread */
struct scrape_request *scrape_request_new(struct scrape_type *type, int64_t slot_real_ns);
/* For the ends of the series of a type that has gone. */
struct scrape_request *scrape_request_last(struct scrape_type *type);
/* Appended: the decoded profile and the record are given back at once, so that none of them waits for the loop. */
void scrape_request_shed(struct scrape *s, struct scrape_request *r);
void scrape_request_free(struct scrape *s, struct scrape_request *r);
int scrape_request_url(const struct scrape_request *r, struct bytes *out) _must_check_;
int64_t scrape_request_timeout_ms(const struct scrape_request *r);

/* start.c: loop thread. Wants an answer for this slot: starts, waits or coalesces. */
void scrape_type_want(struct scrape_type *type, int64_t slot_real_ns);
/* What waits for the budget and may start now, oldest deadline first. */
void scrape_start_waiting(struct scrape *s);
/* Ends a slot without an answer: the failure is reported like any other. */
void scrape_type_fail(struct scrape_type *type, int64_t slot_real_ns, enum scrape_reason reason,
	const char *text);

/* finish.c: loop thread */
void scrape_finish(struct scrape *s, struct scrape_request *r);

/* decode.c: decode thread. Fills the result and, unless the answer is discarded, the record. */
void scrape_decode(struct scrape *s, struct scrape_request *r);

/* report.c: adds gauges and coverage to r->out; false when memory is out. */
bool scrape_report_fill(struct scrape *s, struct scrape_request *r);
/* Adds that the type's series ended, those of its scrapes too when it has gone. */
void scrape_report_ends(struct scrape_request *r);

/* cursor.c: reads Sonde-* headers into the request, looks up what is stored. */
enum scrape_reason scrape_cursor_read(struct scrape *s, struct scrape_request *r) _must_check_;

/* scrape_metrics.c */
void scrape_metrics_init(struct scrape *s);
