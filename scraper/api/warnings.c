/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer lacks: damaged blocks of its range.
 */
#include "scraper/api/api_impl.h"
#include <string.h>

enum { MAX_NAMED = 5 };

struct warnings {
	struct json *json; /* NULL: none */
	char *text;	   /* of API_WARNINGS_BYTES */
	size_t len, n;
};

static void add(struct warnings *w, const char *text)
{
	int n = snprintf(
		w->text + w->len, API_WARNINGS_BYTES - w->len, "%s%s", w->len ? "; " : "", text);

	w->len = MIN(w->len + (size_t)MAX(n, 0), (size_t)API_WARNINGS_BYTES - 1);
	if (w->json)
		json_string(w->json, text);
}

static void add_lost(void *arg, const char *name, int64_t min_ns, int64_t max_ns)
{
	struct warnings *w = arg;
	char text[200], from[40], until[40];

	if (w->n++ >= MAX_NAMED)
		return;
	if (w->n == 1 && w->json) {
		json_key(w->json, "warnings");
		json_array_begin(w->json);
	}
	api_format_time(min_ns, from);
	api_format_time(max_ns, until);
	snprintf(text, sizeof(text), "block %s is damaged: profiles from %s to %s may be missing",
		name, from, until);
	add(w, text);
}

static void find(struct api_job *q, struct warnings *w)
{
	char text[64];

	*w->text = '\0';
	if (!q->locked)
		pthread_rwlock_rdlock(&q->api->lock);
	if (q->api->store)
		store_each_lost(q->api->store, q->from_ns, q->until_ns, add_lost, w);
	if (!q->locked)
		pthread_rwlock_unlock(&q->api->lock);
	if (w->n > MAX_NAMED) {
		snprintf(text, sizeof(text), "%zu more blocks are damaged", w->n - MAX_NAMED);
		add(w, text);
	}
}

void api_job_warnings(struct api_job *q, char ret[API_WARNINGS_BYTES])
{
	find(q, &(struct warnings) {.text = ret});
}

void api_job_warn(struct api_job *q, struct json *j)
{
	char text[API_WARNINGS_BYTES];
	struct warnings w = {.json = j, .text = text};

	find(q, &w);
	if (!w.n)
		return;
	if (j)
		json_array_end(j);
	http_reply_header(q->request, "Sonde-Warnings", text);
}
