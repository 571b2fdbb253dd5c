/* SPDX-License-Identifier: Apache-2.0
 *
 * The watches of a catalog: one state for each query that waits.
 */
#include "scraper/discover/catalog.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include <inttypes.h>
#include <string.h>

struct watch {
	char *name; /* of the service; NULL: the list, or the server itself */
	uint64_t index;
	int64_t next_ns; /* of the next query, when none is under way */
	bool is_waiting, has_answered;
	bool is_wanted; /* in the list that is read */
	struct watch *next;
};

struct catalog {
	struct catalog_options o;
	struct watch self, list;
	struct watch *services;
	bool is_ready; /* needs nothing of `self` any more */
};

/* Of a request under way. A service may vanish meanwhile, so it is looked up by name. */
struct question {
	char *name;
	bool is_self;
};

static void question_free(void *arg)
{
	struct question *q = arg;

	free(q->name);
	free(q);
}

static struct watch *find_service(const struct catalog *c, const char *name)
{
	struct watch *w = c->services;

	while (w && strcmp(w->name, name) != 0)
		w = w->next;
	return w;
}

void catalog_start(struct discover_provider *p, const struct catalog_options *o)
{
	struct catalog *c = xcalloc(1, sizeof(*c));

	c->o = *o;
	c->is_ready = !o->needs_self;
	p->state = c;
	for (size_t i = 0; i < o->n_names; i++)
		catalog_want(p, o->names[i]);
}

void *catalog_own(const struct discover_provider *p)
{
	return ((const struct catalog *)p->state)->o.own;
}

void catalog_stop(struct discover_provider *p)
{
	struct catalog *c = p->state;

	while (c->services) {
		struct watch *w = c->services;

		c->services = w->next;
		free(w->name);
		free(w);
	}
	free(c);
}

void catalog_want(struct discover_provider *p, const char *name)
{
	struct catalog *c = p->state;
	struct watch *w = find_service(c, name);

	if (!w) {
		w = xcalloc(1, sizeof(*w));
		w->name = xstrdup(name);
		w->next = c->services;
		c->services = w;
	}
	w->is_wanted = true;
}

/* Settled once the list and each service have answered, well or not. */
static void settle(struct discover_provider *p)
{
	const struct catalog *c = p->state;
	bool all = c->o.n_names || c->list.has_answered;

	for (const struct watch *w = c->services; w; w = w->next)
		all &= w->has_answered;
	if (all || p->error[0])
		p->is_settled = true;
}

/* A group handed over clears the error and settles the provider; others may still be asked for the first time. */
static void put_group(struct discover_provider *p, struct discover_build *d)
{
	bool was_settled = p->is_settled;

	discover_build_add(d, p);
	p->is_settled = was_settled;
}

/* Services that the list no longer has: their groups go, an answer under way finds nobody. */
static void drop_unwanted(struct discover_provider *p)
{
	struct catalog *c = p->state;
	struct watch **at = &c->services;

	while (*at) {
		struct watch *w = *at;
		struct discover_build d;

		if (w->is_wanted) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		discover_build_init(&d, w->name);
		put_group(p, &d);
		discover_build_done(&d);
		free(w->name);
		free(w);
	}
}

static void read_list(struct discover_provider *p, const struct json_value *list)
{
	struct catalog *c = p->state;

	for (struct watch *w = c->services; w; w = w->next)
		w->is_wanted = false;
	c->o.kind->read_list(p, list);
	drop_unwanted(p);
}

static void read_service(
	struct discover_provider *p, const struct watch *w, const struct json_value *instances)
{
	const struct catalog *c = p->state;
	_cleanup_discover_build_ struct discover_build d;

	discover_build_init(&d, w->name);
	for (size_t i = 0; i < json_value_len(instances); i++)
		c->o.kind->read_instance(p, w->name, json_value_at(instances, i), &d);
	put_group(p, &d);
}

/* True when the answer is news. */
static bool take_index(struct watch *w, const struct http_response *r, const char *header)
{
	const char *text = http_response_header(r, header);
	uint64_t index = 0;
	bool is_known;

	if (!text || str_parse_u64(text, &index, NULL) < 0)
		index = 0;
	is_known = w->has_answered && index && index == w->index;
	w->index = index < w->index ? 0 : index;
	return !is_known;
}

static int read_answer(struct discover_provider *p, struct watch *w, const struct http_response *r,
	struct errbuf *eb)
{
	struct catalog *c = p->state;
	const struct catalog_kind *kind = c->o.kind;
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	bool is_object = w == &c->self || (w == &c->list && kind->list_kind == JSON_KIND_OBJECT);
	int e = discover_read_json(r, is_object ? JSON_KIND_OBJECT : JSON_KIND_ARRAY, &doc, eb);

	if (e < 0)
		return e;
	p->error[0] = '\0';
	if (w == &c->self) {
		e = kind->read_self(p, json_doc_root(doc), eb);
		c->is_ready = e == 0;
		return e;
	}
	if (!take_index(w, r, kind->index_header))
		return 0;
	if (w == &c->list)
		read_list(p, json_doc_root(doc));
	else
		read_service(p, w, json_doc_root(doc));
	return 0;
}

static void on_answer(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct catalog *c = p->state;
	struct question *q = arg;
	struct watch *w = q->is_self ? &c->self : q->name ? find_service(c, q->name) : &c->list;
	int64_t now_ns = clock_monotonic_ns(p->clock);
	struct errbuf eb = {0};
	int e;

	if (w && w->is_waiting) {
		e = read_answer(p, w, r, &eb);
		w->is_waiting = false;
		if (e < 0) {
			discover_failed(p, "%s_sd%s%s: %s", p->kind->name,
				q->name ? " service " : "", q->name ? q->name : "",
				err_text(&eb, e));
			w->index = 0;
			w->next_ns = now_ns +
				     MIN(c->o.refresh_interval_ms, CATALOG_RETRY_MS) * NS_PER_MS;
		}
		w->has_answered = true;
		settle(p);
	}
	question_free(q);
	catalog_refresh(p, now_ns);
}

static void make_url(struct discover_provider *p, const struct watch *w, struct bytes *out)
{
	const struct catalog *c = p->state;

	if (w == &c->self)
		c->o.kind->self_url(p, out);
	else if (w == &c->list)
		c->o.kind->list_url(p, out);
	else
		c->o.kind->service_url(p, w->name, out);
	if (w != &c->self && w->index)
		bytes_printf(out, "%sindex=%" PRIu64 "&wait=%ds",
			memchr(out->data, '?', out->len) ? "&" : "?", w->index, CATALOG_WAIT_S);
	bytes_put_u8(out, 0);
}

/* Asks when it is due; else p->next_ns is when it will be, at the latest. */
static void run_watch(struct discover_provider *p, struct watch *w, int64_t now_ns)
{
	struct catalog *c = p->state;
	_cleanup_bytes_ struct bytes url = {0};
	struct errbuf eb = {0};
	struct question *q;
	int e;

	if (w->is_waiting)
		return;
	if (w->next_ns > now_ns) {
		p->next_ns = MIN(p->next_ns, w->next_ns);
		return;
	}
	w->next_ns = now_ns + c->o.refresh_interval_ms * NS_PER_MS;
	p->refreshes++;
	make_url(p, w, &url);
	q = xcalloc(1, sizeof(*q));
	q->name = w->name ? xstrdup(w->name) : NULL;
	q->is_self = w == &c->self;
	e = bytes_error(&url);
	if (e == 0)
		e = discover_fetch(p,
			&(struct discover_request) {
				.url = (const char *)url.data,
				.headers = c->o.headers,
				.transport = c->o.transport,
				.timeout_ms = CATALOG_TIMEOUT_MS,
				.done = on_answer,
				.arg = q,
				.drop = question_free,
			},
			&eb);
	w->is_waiting = e == 0;
	if (e == 0)
		return;
	question_free(q);
	discover_failed(p, "%s_sd: %s", p->kind->name, err_text(&eb, e));
	p->next_ns = MIN(p->next_ns, w->next_ns);
}

void catalog_refresh(struct discover_provider *p, int64_t now_ns)
{
	struct catalog *c = p->state;

	p->next_ns = INT64_MAX;
	if (!c->is_ready) {
		run_watch(p, &c->self, now_ns);
		return;
	}
	if (!c->o.n_names)
		run_watch(p, &c->list, now_ns);
	for (struct watch *w = c->services; w; w = w->next)
		run_watch(p, w, now_ns);
}
