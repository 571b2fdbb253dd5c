/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting requests: a slot has come, or a slot that had to wait may go on. Loop thread.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

/* The URL without its query: behind one address a proxy may have several programs. */
static uint64_t address_key(const struct scrape_type *type)
{
	return hash_xxh3(type->url, strcspn(type->url, "?"));
}

/* A Go program takes one CPU profile at a time, whoever asks. */
static bool needs_address(const struct scrape_type *type)
{
	return type->target->preset != SCRAPE_PRESET_NODE &&
	       !strcmp(type->spec.name, "process_cpu");
}

void scrape_address_release(struct scrape *s, struct scrape_request *r)
{
	if (!r->holds_address)
		return;
	r->holds_address = false;
	table_remove(&s->busy_addresses, address_key(r->type));
}

static uint64_t expected_bytes(const struct scrape_type *type)
{
	return type->last_size_bytes ? type->last_size_bytes : SCRAPE_FIRST_RESERVE_BYTES;
}

/* One request is always allowed, else a cap below one body would stop everything. */
static bool budget_allows(const struct scrape *s, uint64_t bytes)
{
	uint64_t used = s->o.budget->used_bytes;

	return !s->n_in_flight || !s->o.budget->limit_bytes ||
	       used + s->reserved_bytes + bytes <= s->o.budget->limit_bytes;
}

static void on_done(struct http_response *response, void *arg)
{
	struct scrape_request *r = arg;
	struct scrape *s = r->type->target->stage;

	r->response = *response;
	*response = (struct http_response) {0};
	r->transfer_id = 0;
	r->end_mono_ns = clock_monotonic_ns(s->o.clock);
	scrape_address_release(s, r);
	scrape_queue_put(s->stopping ? &s->finished : &s->to_decode, r);
}

static int start_transfer(struct scrape *s, struct scrape_request *r, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes url = {0};
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

static void start(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape *s = type->target->stage;
	struct scrape_request *r = scrape_request_new(type, slot_real_ns);

	type->n_asks++;
	r->reserved_bytes = expected_bytes(type);
	s->reserved_bytes += r->reserved_bytes;
	if (needs_address(type)) {
		r->holds_address = true;
		if (!table_insert(&s->busy_addresses, address_key(type), NULL))
			err_panic("out of memory for addresses");
	}
	if (start_transfer(s, r, &r->error) < 0) {
		r->reason = SCRAPE_FAIL_CONNECT;
		scrape_address_release(s, r);
		scrape_queue_put(&s->to_decode, r);
	}
}

/* SCRAPE_OK when it may start now, else what it has to wait for. */
static enum scrape_reason must_wait(const struct scrape_type *type)
{
	const struct scrape *s = type->target->stage;

	if (needs_address(type) && table_find(&s->busy_addresses, address_key(type)))
		return SCRAPE_FAIL_BUSY;
	return budget_allows(s, expected_bytes(type)) ? SCRAPE_OK : SCRAPE_FAIL_BACKPRESSURE;
}

static void wait_for_turn(struct scrape_type *type, int64_t slot_real_ns, enum scrape_reason why)
{
	struct scrape *s = type->target->stage;
	struct scrape_wait *w = xcalloc(1, sizeof(*w)), **at = &s->waiting;

	w->type = type;
	w->slot_real_ns = slot_real_ns;
	w->deadline_mono_ns =
		clock_monotonic_ns(s->o.clock) + type->target->t.interval_ms * NS_PER_MS;
	w->why = why;
	while (*at && (*at)->deadline_mono_ns <= w->deadline_mono_ns)
		at = &(*at)->next;
	w->next = *at;
	*at = w;
	type->wait = w;
	metric_inc(s->m.deferred);
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
	scrape_queue_put(&type->target->stage->to_decode, r);
}

/* Its slot passed while it waited: an exporter's answer comes later and loses nothing, a foreign one is lost and reported. */
static void slot_passed(struct scrape_type *type, int64_t slot_real_ns)
{
	struct scrape_wait *w = type->wait;
	int64_t passed_ns = w->slot_real_ns;

	w->slot_real_ns = slot_real_ns;
	if (type->spec.has_cursor && type->target->preset == SCRAPE_PRESET_NODE)
		return;
	scrape_type_fail(type, passed_ns, w->why,
		w->why == SCRAPE_FAIL_BUSY
			? "another CPU profile of this URL ran until the next scrape was due"
			: "the scrape budget (--scrape.max-memory) was spent until the next scrape "
			  "was due");
}

void scrape_type_want(struct scrape_type *type, int64_t slot_real_ns)
{
	enum scrape_reason why;

	if (type->wait || type->request) {
		metric_inc(type->target->stage->m.missed);
		if (type->wait)
			slot_passed(type, slot_real_ns);
		return;
	}
	why = must_wait(type);
	if (why)
		wait_for_turn(type, slot_real_ns, why);
	else
		start(type, slot_real_ns);
}

void scrape_start_waiting(struct scrape *s)
{
	struct scrape_wait **at = &s->waiting;

	while (*at) {
		struct scrape_wait *w = *at;
		struct scrape_type *type = w->type;
		int64_t slot_real_ns = w->slot_real_ns;
		enum scrape_reason why = must_wait(type);

		if (type->request || why) {
			w->why = why ? why : w->why;
			at = &w->next;
			continue;
		}
		*at = w->next;
		type->wait = NULL;
		free(w);
		start(type, slot_real_ns);
	}
}
