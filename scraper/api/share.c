/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries that need not run: what was asked and which parts answer it, as answers.h wants it, and replies from there.
 */
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

int api_job_share(struct api_job *q, const int64_t *times, size_t n, int64_t end_ns)
{
	_cleanup_bytes_ struct bytes key = {};
	_cleanup_(answer_done)
	struct answer found = {};
	struct errbuf eb = {};
	uint64_t stamp = 0;
	bool immutable = false;
	int r = stamp_parts(q, end_ns, &stamp, &immutable, &eb);

	bytes_init(&key, q->api->o.budget, 0);
	bytes_init(&found.body, q->api->o.budget, 0);
	put_key(q, times, n, &key);
	if (!r && bytes_error(&key))
		r = err_set(&eb, -ENOMEM, "out of memory for the query");
	if (!r)
		r = answers_begin(q->api->answers, &key, stamp, immutable, q->env.cancel, &found,
			&q->run, &eb);
	if (r == ANSWERS_RUN)
		return 0;
	if (r < 0) {
		api_job_fail(q, r, &eb);
		return r;
	}
	q->source = r == ANSWERS_KEPT ? "cache" : "shared";
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
