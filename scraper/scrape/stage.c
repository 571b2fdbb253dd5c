/* SPDX-License-Identifier: Apache-2.0
 *
 * The stage as a whole: its threads, the loop's step, start and stop.
 */
#include "scraper/scrape/scrape_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include <string.h>
#include <unistd.h>

enum { MAX_DECODERS = 4, DECODED_PER_DECODER = 4, STOP_DECODE_MS = 2000 };

int scrape_new(const struct scrape_options *o, struct scrape **ret, struct errbuf *eb)
{
	_cleanup_(scrape_freep)
	struct scrape *s = xcalloc(1, sizeof(*s));
	const struct http_client_options client = {
		.user_agent = o->user_agent,
		.dialer = o->dialer,
		.max_connections = o->max_connections,
	};
	int r;

	s->o = *o;
	s->failure_log.fs = o->fs;
	if (!s->o.n_decoders)
		s->o.n_decoders =
			(unsigned)MAX(1L, MIN(sysconf(_SC_NPROCESSORS_ONLN), (long)MAX_DECODERS));
	lock_init(&s->lock);
	table_init(&s->gates, NULL);
	scrape_queue_init(&s->to_decode, 0);
	/* a decoded answer is many times as large as its body: none are made long before they are appended */
	scrape_queue_init(&s->to_append, (size_t)s->o.n_decoders * DECODED_PER_DECODER);
	scrape_room_init(s);
	scrape_queue_init(&s->finished, 0);
	scrape_metrics_init(s);
	r = http_client_new(&client, &s->client, eb);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

static void *decoder_main(void *arg)
{
	struct scrape *s = arg;
	struct scrape_request *r;

	pthread_setname_np(pthread_self(), "decode");
	while ((r = scrape_room_take(s))) {
		err_set_work(r->type->url);
		scrape_decode(s, r);
		err_set_work(NULL);
		scrape_queue_add(&s->to_append, r);
	}
	return NULL;
}

static enum scrape_reason store_reason(int error)
{
	return error == -ERANGE	  ? SCRAPE_FAIL_STORE_TIMESTAMP
	       : error == -ENOMEM ? SCRAPE_FAIL_MEMORY
				  : SCRAPE_FAIL_STORE;
}

/* What was refused must not be asked for again and again: the cursor moves on and the failure is reported. */
static void append_without_profile(struct scrape *s, struct scrape_request *r)
{
	struct store_scrape report = {
		.period_type = "",
		.period_unit = "",
		.cursor_key = r->out.cursor_key,
		.cursor_before = r->out.cursor_before,
		.cursor_after = r->out.cursor_after,
	};
	struct errbuf eb = {0};

	for (size_t i = 0; i < SCRAPE_REPORT_GAUGES; i++)
		labels_done(&r->report_labels[i]);
	labels_done(&r->coverage_labels);
	r->out = report;
	r->skip_report = false;
	if (!scrape_report_fill(s, r))
		return;
	scrape_report_ends(r);
	if (s->o.sink.append(s->o.sink.arg, &r->out, &r->stored, &eb) < 0)
		LOG_RATED(LOG_WARN, "cannot store the report of a refused scrape: %s", eb.text);
}

/* Another target of the same exporter was stored first: continue from there. */
static void note_conflict(struct scrape *s, struct scrape_request *r)
{
	_cleanup_bytes_ struct bytes b = {0};

	metric_inc(s->m.stale);
	bytes_init(&b, NULL, 0);
	free(r->cursor_stored);
	r->cursor_stored = NULL;
	if (s->o.sink.cursor_get(s->o.sink.arg, r->out.cursor_key, &b) == 0)
		r->cursor_stored = xstrndup(b.len ? (const char *)b.data : "", b.len);
	r->discard = true;
}

static void append(struct scrape *s, struct scrape_request *r)
{
	struct errbuf eb = {0};
	int res;

	if (r->discard || !r->has_record)
		return;
	res = s->o.sink.append(s->o.sink.arg, &r->out, &r->stored, &eb);
	r->n_conflicts = r->stored.n_conflicts;
	if (res == 0)
		return;
	if (res == -ESTALE) {
		note_conflict(s, r);
		return;
	}
	if (!r->reason && !r->is_last) {
		r->reason = store_reason(res);
		err_set(&r->error, res, "%s%s",
			r->stored.sequence ? "" : "not stored: ", err_text(&eb, res));
		if (res == -ERANGE || res == -EEXIST || res == -EFBIG || res == -EINVAL)
			append_without_profile(s, r);
	}
}

static void *appender_main(void *arg)
{
	struct scrape *s = arg;
	struct scrape_request *r;

	pthread_setname_np(pthread_self(), "appender");
	while ((r = scrape_queue_take(&s->to_append))) {
		err_set_work(r->type->url);
		append(s, r);
		err_set_work(NULL);
		scrape_request_shed(s, r);
		scrape_queue_add(&s->finished, r);
		http_client_wake(s->client);
	}
	return NULL;
}

int scrape_start(struct scrape *s, struct errbuf *eb)
{
	int r;

	s->decoders = xcalloc(s->o.n_decoders, sizeof(*s->decoders));
	for (unsigned i = 0; i < s->o.n_decoders; i++) {
		r = pthread_create(&s->decoders[i], NULL, decoder_main, s);
		if (r)
			return err_set(eb, -r, "cannot start a decode thread: %s", strerror(r));
		s->n_decoders_started++;
	}
	r = pthread_create(&s->appender, NULL, appender_main, s);
	if (r)
		return err_set(eb, -r, "cannot start the appender: %s", strerror(r));
	s->appender_started = true;
	return 0;
}

/* ---- loop ---- */

static void fail_target(struct scrape_target *t, int64_t slot_real_ns)
{
	char text[128];

	snprintf(text, sizeof(text), "target_limit exceeded (number of targets: %llu, limit: %llu)",
		(unsigned long long)t->pool->over_target_limit,
		(unsigned long long)t->pool->job->limits.targets);
	scrape_type_fail(t->types[0], slot_real_ns, SCRAPE_FAIL_TARGET_LIMIT, text);
}

static void run_slot(struct scrape *s, struct scrape_target *t, int64_t now_mono_ns)
{
	int64_t slot_real_ns = t->slot_real_ns, now_real_ns = clock_realtime_ns(s->o.clock);

	scrape_heap_remove(s, t);
	metric_observe(metric_only(s->m.interval), (double)(now_mono_ns - t->slot_mono_ns) / 1e9);
	t->slot_real_ns = scrape_slot_after(
		slot_real_ns, now_real_ns, t->t.interval_ms * NS_PER_MS, t->hash, s->seed);
	t->slot_mono_ns = now_mono_ns + t->slot_real_ns - now_real_ns;
	scrape_heap_insert(s, t);
	if (t->pool->over_target_limit && t->n_types) {
		fail_target(t, slot_real_ns);
		return;
	}
	for (size_t i = 0; i < t->n_types; i++) {
		struct scrape_type *type = t->types[i];

		if (!type->request)
			type->n_asks = type->n_retries = 0;
		scrape_type_want(type, slot_real_ns);
	}
}

int scrape_run(struct scrape *s, int64_t until_ns)
{
	int64_t now_ns = clock_monotonic_ns(s->o.clock), wait_ms;
	struct scrape_request *r;

	while ((r = scrape_queue_poll(&s->finished)))
		scrape_finish(s, r);
	while (s->n_heap && s->heap[0]->slot_mono_ns <= now_ns)
		run_slot(s, s->heap[0], now_ns);
	if (s->n_heap)
		until_ns = MIN(until_ns, s->heap[0]->slot_mono_ns);
	wait_ms = (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return http_client_run(s->client, (int)MAX(0, MIN(wait_ms, 60000)));
}

int scrape_watch(struct scrape *s, int fd)
{
	return http_client_watch(s->client, fd);
}

void scrape_wake(struct scrape *s)
{
	http_client_wake(s->client);
}

void scrape_stop(struct scrape *s)
{
	struct scrape_request *r;
	size_t n_left = 0;

	if (s->stopped)
		return;
	s->stopped = true;
	s->stopping = true;
	/* transfers end as cancelled, straight into `finished`; what was decoded still reaches the sink */
	http_client_cancel_all(s->client);
	scrape_room_close(s, clock_monotonic_ns(s->o.clock) + STOP_DECODE_MS * NS_PER_MS);
	for (unsigned i = 0; i < s->n_decoders_started; i++)
		pthread_join(s->decoders[i], NULL);
	scrape_queue_close(&s->to_append);
	if (s->appender_started)
		pthread_join(s->appender, NULL);
	while ((r = scrape_queue_poll(&s->to_decode)) || (r = scrape_room_poll(s))) {
		n_left += !r->reason && r->response.status == 200;
		scrape_finish(s, r);
	}
	while ((r = scrape_queue_poll(&s->to_append)) || (r = scrape_queue_poll(&s->finished)))
		scrape_finish(s, r);
	if (n_left)
		log_printf(LOG_WARN,
			"stopped with %zu answers not decoded yet; exporters are asked for them "
			"again",
			n_left);
}

void scrape_freep(struct scrape **sp)
{
	struct scrape *s = *sp;

	if (!s)
		return;
	if (s->client)
		scrape_stop(s);
	lock_take(&s->lock);
	while (s->pools)
		scrape_pool_free(s, s->pools, false);
	scrape_parting_end(s, NULL, NULL);
	lock_release(&s->lock);
	http_client_freep(&s->client);
	scrape_failure_log_close(&s->failure_log);
	scrape_room_done(s);
	scrape_queue_done(&s->to_decode);
	scrape_queue_done(&s->to_append);
	scrape_queue_done(&s->finished);
	table_done(&s->gates);
	lock_done(&s->lock);
	free(s->heap);
	free(s->decoders);
	free(s);
	*sp = NULL;
}
