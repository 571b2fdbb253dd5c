/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries that need not run: turns a request and its parts into a key for answers.h, and replies with an answer from there.
 */
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "scraper/api/answers.h"
#include "scraper/api/api_impl.h"
#include <inttypes.h>
#include <string.h>

/* Times are in the key as they were understood: "now-1h" is another range at every call. */
static bool is_time(const char *name)
{
	return str_starts_with(name, "start") || str_starts_with(name, "end") ||
	       !strcmp(name, "seconds");
}

static void put_key(const struct api_job *q, const int64_t *times, size_t n, struct bytes *out)
{
	const struct url_params *u = http_request_params(q->request);

	bytes_printf(out, "%s", http_request_path(q->request));
	bytes_put_u8(out, 0);
	for (size_t i = 0; i < n; i++)
		bytes_put_u64(out, (uint64_t)times[i]);
	for (size_t i = 0; i < u->n; i++) {
		if (is_time(u->items[i].name))
			continue;
		bytes_put(out, u->items[i].name, strlen(u->items[i].name) + 1);
		bytes_put(out, u->items[i].value, strlen(u->items[i].value) + 1);
	}
}

/*
 * What the parts of the range are now. Profiles at most max_duration later than the end touch it. A head is as long as it is, so two
 * queries share a run only when nothing was added between them.
 */
static int stamp_parts(
	struct api_job *q, int64_t end_ns, uint64_t *ret, bool *ret_immutable, struct errbuf *eb)
{
	uint64_t stamp = 1;

	*ret_immutable = true;
	for (size_t i = 0; i < q->parts.n; i++) {
		_cleanup_part_reader_ struct part_reader *r = NULL;
		const struct part_info *info;
		int64_t until;
		int e = part_reader_open(q->parts.items[i], q->env.budget, &r, eb);

		if (e)
			return e;
		info = part_reader_info(r);
		if (__builtin_add_overflow(end_ns, MAX(info->max_duration_ns, 0), &until))
			until = INT64_MAX;
		if (info->min_time_ns > until)
			continue;
		*ret_immutable &= !info->is_head;
		stamp = hash_mix(stamp ^ info->id);
		stamp = hash_mix(stamp ^ info->n_profiles);
		stamp = hash_mix(stamp ^ info->n_rows);
	}
	*ret = stamp;
	return 0;
}

static void reply(struct api_job *q, struct answer *a)
{
	if (a->json.depth) {
		a->json.out = &a->body;
		api_job_reply_json(q, &a->json, &a->body);
	} else {
		api_job_reply(q, a->file_name, &a->body);
	}
}

static void answer_done(struct answer *a)
{
	bytes_done(&a->body);
}

/* ---- waiting for an identical query ---- */

/* The data of a request that waits, or has waited; the frame of its query, whose parts are given back meanwhile. */
struct waiting {
	struct api *api;
	const char *endpoint;
	enum api_format format;
	int64_t begun_ns, from_ns, until_ns;
	struct http_ticket ticket;
	struct answers_wait wait;
};

static void waiting_free(void *data)
{
	struct waiting *w = data;

	answers_leave(w->api->answers, &w->wait);
	free(w);
}

static void wake(void *arg)
{
	http_job_wake(&((struct waiting *)arg)->ticket);
}

/* That of the request. It stays when the query begins again: to metrics and deadline that is the same query. */
static struct waiting *waiting_of(struct api_job *q)
{
	struct waiting *w = http_request_data(q->request);

	if (w)
		return w;
	w = xcalloc(1, sizeof(*w));
	*w = (struct waiting) {.api = q->api,
		.endpoint = q->endpoint,
		.format = q->format,
		.begun_ns = q->begun_ns,
		.from_ns = q->from_ns,
		.until_ns = q->until_ns,
		.ticket = http_job_ticket(q->request),
		.wait = {.wake = wake, .arg = w}};
	http_request_set_data(q->request, w, waiting_free);
	return w;
}

/* On a worker, after the other query has ended. */
static void go_on(struct http_request *r, void *arg)
{
	struct waiting *w = http_request_data(r);
	_cleanup_(answer_done)
	struct answer found = {};
	_cleanup_api_job_ struct api_job q = {};
	struct errbuf eb = {};
	int e;

	bytes_init(&found.body, w->api->o.budget, 0);
	e = answers_take(w->api->answers, &w->wait, &found, &eb);
	if (e == -EAGAIN) {
		http_job_restart(r);
		return;
	}
	api_job_resume(&q, r, arg, w->endpoint, w->begun_ns);
	q.format = w->format;
	q.source = "shared";
	q.from_ns = w->from_ns;
	q.until_ns = w->until_ns;
	if (e)
		api_job_fail(&q, e, &eb);
	else
		reply(&q, &found);
}

int api_job_share(struct api_job *q, const int64_t *times, size_t n, int64_t end_ns)
{
	_cleanup_bytes_ struct bytes key = {};
	_cleanup_(answer_done)
	struct answer found = {};
	struct errbuf eb = {};
	struct waiting *w = waiting_of(q);
	uint64_t stamp = 0;
	bool immutable = false;
	int r = stamp_parts(q, end_ns, &stamp, &immutable, &eb);

	q->begun_ns = w->begun_ns;
	bytes_init(&key, q->api->o.budget, 0);
	bytes_init(&found.body, q->api->o.budget, 0);
	put_key(q, times, n, &key);
	if (!r && bytes_error(&key))
		r = err_set(&eb, -ENOMEM, "out of memory for the query");
	if (!r)
		r = answers_begin(
			q->api->answers, &key, stamp, immutable, &w->wait, &found, &q->run, &eb);
	if (r == ANSWERS_RUN)
		return 0;
	if (r < 0) {
		api_job_fail(q, r, &eb);
		return r;
	}
	if (r == ANSWERS_WAIT) {
		http_job_wait(q->request, go_on);
		return 1;
	}
	q->source = "cache";
	reply(q, &found);
	return 1;
}

void api_job_publish(
	struct api_job *q, const struct json *j, const char *file_name, const struct bytes *out)
{
	struct answer done = {.body = *out};

	if (!q->run)
		return;
	if (j)
		done.json = *j;
	snprintf(done.file_name, sizeof(done.file_name), "%s", file_name ? file_name : "");
	answers_publish(q->api->answers, &q->run, &done);
}
