/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting requests: a slot has come, or a slot that had to wait may go on. Loop thread.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <string.h>

/* A large one at the head of those who wait for the budget lets so many smaller ones pass. */
enum { MAX_LOOK_PAST = 16 };

/* A Go program takes one CPU profile at a time, whoever asks and whatever they call it. */
static bool needs_profiler(const struct scrape_type *type)
{
	return type->target->preset != SCRAPE_PRESET_NODE &&
	       (!strcmp(type->spec.name, "process_cpu") ||
		       str_ends_with(type->spec.path, "/debug/pprof/profile"));
}

/* A large answer is reserved whole. Most are small, and many are a long time away (windows, targets that hang): of them only what is there
 * counts, and nothing starts while that is a lot. */
static uint64_t expected_bytes(const struct scrape_type *type)
{
	return MAX(type->last_size_bytes, (uint64_t)SCRAPE_SMALL_RESERVE_BYTES);
}

static bool is_small(uint64_t bytes)
{
	return bytes <= SCRAPE_LARGE_BYTES;
}

/* One request is always allowed, else a cap below one body would stop everything. */
static bool budget_allows(const struct scrape *s, uint64_t bytes)
{
	uint64_t used = s->o.budget->used_bytes, limit = s->o.budget->limit_bytes;

	if (!s->n_in_flight || !limit)
		return true;
	if (is_small(bytes) && s->small_bytes >= limit / SCRAPE_SMALL_SHARE)
		return false;
	return used + s->reserved_bytes + bytes <= limit;
}

static void hold_small(struct scrape *s, struct scrape_request *r, uint64_t bytes)
{
	s->small_bytes += bytes - r->small_bytes;
	r->small_bytes = bytes;
}

static void on_done(struct http_response *response, void *arg)
{
	struct scrape_request *r = arg;
	struct scrape *s = r->type->target->stage;

	r->response = *response;
	*response = (struct http_response) {0};
	r->transfer_id = 0;
	r->end_mono_ns = clock_monotonic_ns(s->o.clock);
	if (r->small_bytes)
		hold_small(s, r, MAX(r->response.body.len, (size_t)1));
	scrape_gates_leave(s, r);
	scrape_queue_add(s->stopping ? &s->finished : &s->to_decode, r);
}

static int start_transfer(struct scrape *s, struct scrape_request *r, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes url = {0};
	const char *unix_socket = labels_get(&r->type->t.relabeled, TARGET_UNIX_SOCKET);
	int64_t timeout_ms = scrape_request_timeout_ms(r);
	uint64_t max = s->o.max_body_bytes;
	char timeout_header[80];
	const char *const headers[] = {timeout_header, NULL};

	bytes_init(&url, NULL, 0);
	if (scrape_request_url(r, &url) < 0)
		return err_set(eb, -ENOMEM, "no memory for a URL");
	snprintf(timeout_header, sizeof(timeout_header),
		"X-Prometheus-Scrape-Timeout-Seconds: %lld.%03lld", (long long)(timeout_ms / 1000),
		(long long)(timeout_ms % 1000));
	return http_client_start(s->client,
		&(struct http_fetch) {
			.url = (const char *)url.data,
			.unix_socket = *unix_socket ? unix_socket : NULL,
			.transport = &r->job->http.transport,
			.headers = headers,
			.timeout_ms = (uint32_t)MIN(timeout_ms, (int64_t)UINT32_MAX),
			.max_body_bytes = r->job->limits.body_size_bytes
						  ? MIN(max, r->job->limits.body_size_bytes)
						  : max,
			.budget = s->o.budget,
			.accept_gzip = r->job->enable_compression,
			.done = on_done,
			.arg = r,
		},
		&r->transfer_id, eb);
}

static struct scrape_gate *enter(struct scrape *s, uint64_t key, unsigned n_max)
{
	struct scrape_gate *g = scrape_gate_get(s, key, n_max);

	g->n_held++;
	return g;
}

static void start(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape *s = type->target->stage;
	struct scrape_request *r = scrape_request_new(type, slot_real_ns);

	type->n_asks++;
	if (is_small(expected_bytes(type)))
		hold_small(s, r, SCRAPE_SMALL_RESERVE_BYTES);
	r->reserved_bytes = r->small_bytes ? r->small_bytes : expected_bytes(type);
	s->reserved_bytes += r->reserved_bytes;
	if (needs_profiler(type))
		r->profiler = enter(s, type->profiler_key, 1);
	if (s->o.max_per_host)
		r->host = enter(s, type->target->host_key, s->o.max_per_host);
	if (start_transfer(s, r, &r->error) < 0) {
		r->reason = SCRAPE_FAIL_CONNECT;
		scrape_gates_leave(s, r);
		scrape_queue_add(&s->to_decode, r);
	}
}

static struct scrape_gate *closed(struct scrape *s, uint64_t key)
{
	struct scrape_gate *g = scrape_gate_find(s, key);

	return g && g->n_held >= g->n_max ? g : NULL;
}

/* SCRAPE_OK when it may start now, else what it has to wait for, with the gate. */
static enum scrape_reason must_wait(const struct scrape_type *type, struct scrape_gate **ret_gate)
{
	struct scrape *s = type->target->stage;

	*ret_gate = needs_profiler(type) ? closed(s, type->profiler_key) : NULL;
	if (*ret_gate)
		return SCRAPE_FAIL_BUSY;
	*ret_gate = s->o.max_per_host ? closed(s, type->target->host_key) : NULL;
	if (*ret_gate)
		return SCRAPE_FAIL_HOST_LIMIT;
	return budget_allows(s, expected_bytes(type)) ? SCRAPE_OK : SCRAPE_FAIL_BACKPRESSURE;
}

static int64_t deadline_ns(const struct scrape_type *type)
{
	return clock_monotonic_ns(type->target->stage->o.clock) +
	       type->target->t.interval_ms * NS_PER_MS;
}

static void wait_for_turn(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape *s = type->target->stage;
	struct scrape_wait *w = xcalloc(1, sizeof(*w));

	w->type = type;
	w->slot_real_ns = slot_real_ns;
	w->deadline_mono_ns = deadline_ns(type);
	type->wait = w;
	metric_inc(s->m.deferred);
	scrape_wait_retry(w);
}

void scrape_type_fail(
	struct scrape_type *type, int64_t slot_real_ns, enum scrape_reason reason, const char *text)
{
	struct scrape_request *r;

	if (type->request)
		return;
	r = scrape_request_new(type, slot_real_ns);
	r->reason = reason;
	err_set(&r->error, -EAGAIN, "%s", text);
	scrape_queue_add(&type->target->stage->to_decode, r);
}

static const char *why_waited(enum scrape_reason why)
{
	switch (why) {
	case SCRAPE_FAIL_BUSY:
		return "another CPU profile of this URL ran until the next scrape was due";
	case SCRAPE_FAIL_HOST_LIMIT:
		return "--scrape.max-per-host requests to this host ran until the next scrape was "
		       "due";
	default:
		return "the scrape budget (--scrape.max-memory) was spent until the next scrape "
		       "was due";
	}
}

/* Its slot passed while it waited: an exporter's answer comes later and loses nothing, a foreign one is lost and reported. */
static void slot_passed(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape_wait *w = type->wait;
	int64_t passed_ns = w->slot_real_ns;

	w->slot_real_ns = slot_real_ns;
	if (type->spec.has_cursor && type->target->preset == SCRAPE_PRESET_NODE)
		return;
	/* for the new slot it waits in its turn, once the passed one is reported */
	scrape_wait_take(type->target->stage, w);
	w->deadline_mono_ns = deadline_ns(type);
	scrape_type_fail(type, passed_ns, w->why, why_waited(w->why));
}

void scrape_wait_retry(struct scrape_wait *w)
{
	struct scrape_type *type = w->type;
	struct scrape *s = type->target->stage;
	int64_t slot_real_ns = w->slot_real_ns;
	struct scrape_gate *gate;
	enum scrape_reason why;

	/* the report of a slot that passed: scrape_finish tries again after it */
	if (type->request)
		return;
	why = must_wait(type, &gate);
	if (why) {
		w->why = why;
		scrape_wait_add(gate ? &gate->waits : &s->waiting, gate, w);
		return;
	}
	scrape_wait_free(s, w);
	start(type, slot_real_ns);
}

void scrape_type_want(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape_gate *gate;

	if (type->wait || type->request) {
		metric_inc(type->target->stage->m.missed);
		if (type->wait)
			slot_passed(type, slot_real_ns);
	} else if (must_wait(type, &gate)) {
		wait_for_turn(type, slot_real_ns);
	} else {
		start(type, slot_real_ns);
	}
}

void scrape_start_waiting(struct scrape *s)
{
	struct scrape_wait *w = s->waiting.first, *next;

	for (int seen = 0; w && seen < MAX_LOOK_PAST; w = next, seen++) {
		next = w->next;
		if (!budget_allows(s, expected_bytes(w->type)))
			continue;
		scrape_wait_take(s, w);
		scrape_wait_retry(w);
	}
}
