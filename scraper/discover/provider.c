/* SPDX-License-Identifier: Apache-2.0
 *
 * What kinds of discovery that ask over the network have in common: requests, and groups that come whole or
 * one by one.
 */
#include "scraper/discover/provider.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include <string.h>

void discover_failed(struct discover_provider *p, const char *fmt, ...)
{
	va_list ap;

	p->failures++;
	p->is_settled = true;
	va_start(ap, fmt);
	vsnprintf(p->error, sizeof(p->error), fmt, ap);
	va_end(ap);
}

void discover_groups_free(struct discover_group *groups, size_t n)
{
	for (size_t i = 0; i < n; i++)
		discover_group_done(&groups[i]);
	free(groups);
}

static void settled(struct discover_provider *p)
{
	p->error[0] = '\0';
	p->is_settled = true;
}

void discover_replaced(struct discover_provider *p, const char *name, size_t n, size_t *last)
{
	char text[32];

	p->replaced += n;
	snprintf(text, sizeof(text), "%zu", n);
	if (n && n != *last)
		log_write(LOG_WARN, "bytes that are no UTF-8 became U+FFFD", "kind", p->kind->name,
			"in", name, "bytes", text, NULL);
	*last = n;
}

void discover_set_groups(struct discover_provider *p, struct discover_group *groups, size_t n)
{
	bool same = p->n_groups == n;

	for (size_t i = 0; i < n && same; i++)
		same = discover_group_equal(&p->groups[i], &groups[i]);
	settled(p);
	if (same) {
		discover_groups_free(groups, n);
		return;
	}
	discover_groups_free(p->groups, p->n_groups);
	p->groups = groups;
	p->n_groups = p->cap_groups = n;
	p->changed = true;
}

void discover_set_group(struct discover_provider *p, struct discover_group *group)
{
	size_t i = 0;

	settled(p);
	while (i < p->n_groups && strcmp(p->groups[i].source, group->source))
		i++;
	if (i < p->n_groups && discover_group_equal(&p->groups[i], group)) {
		discover_group_done(group);
		return;
	}
	if (i < p->n_groups) {
		discover_group_done(&p->groups[i]);
		p->groups[i] = *group;
	} else if (group->n_targets) {
		if (alloc_grow((void **)&p->groups, &p->cap_groups, p->n_groups + 1,
			    sizeof(*p->groups)) < 0) {
			discover_group_done(group);
			discover_failed(p, "out of memory");
			return;
		}
		p->groups[p->n_groups++] = *group;
	} else {
		discover_group_done(group);
		return;
	}
	p->changed = true;
	if (!p->groups[i].n_targets) {
		discover_group_done(&p->groups[i]);
		p->groups[i] = p->groups[--p->n_groups];
	}
}

/* Lives from the start of a request to its callback. */
struct discover_fetch {
	struct discover_provider *provider;
	struct discover_fetch *next;
	uint64_t id;
	int (*piece)(struct discover_provider *p, const void *bytes, size_t n, void *arg);
	void (*done)(struct discover_provider *p, struct http_response *r, void *arg);
	void (*drop)(void *arg);
	void *arg;
};

static void note_size(struct discover_provider *p, struct http_response *r)
{
	if (r->error != -EFBIG)
		return;
	p->too_large++;
	err_set(&r->text, r->error,
		"the answer is larger than %llu bytes (--discover.max-answer-bytes)",
		(unsigned long long)p->max_answer_bytes);
}

static void on_done(struct http_response *r, void *arg)
{
	struct discover_fetch *f = arg, **at = &f->provider->fetches;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	note_size(f->provider, r);
	if (r->error != -ECANCELED)
		f->done(f->provider, r, f->arg);
	else if (f->drop)
		f->drop(f->arg);
	free(f);
}

static int on_piece(const void *bytes, size_t n, void *arg)
{
	struct discover_fetch *f = arg;

	return f->piece(f->provider, bytes, n, f->arg);
}

int discover_fetch(struct discover_provider *p, const struct discover_request *q, struct errbuf *eb)
{
	struct discover_fetch *f = xmalloc(sizeof(*f));
	int r;

	*f = (struct discover_fetch) {
		.provider = p, .piece = q->piece, .done = q->done, .drop = q->drop, .arg = q->arg};
	r = http_client_start(p->client,
		&(struct http_fetch) {
			.url = q->url,
			.unix_socket = q->unix_socket,
			.headers = q->headers,
			.transport = q->transport,
			.timeout_ms = q->timeout_ms,
			.method = q->method ? q->method
				  : q->body ? "POST"
					    : NULL,
			.body = q->body,
			.n_body = q->n_body,
			.signature = q->signature,
			.max_body_bytes = p->max_answer_bytes,
			.piece = q->piece ? on_piece : NULL,
			.done = on_done,
			.arg = f,
		},
		&f->id, eb);
	if (r < 0) {
		free(f);
		return r;
	}
	f->next = p->fetches;
	p->fetches = f;
	return 0;
}

void discover_fetch_cancel_all(struct discover_provider *p)
{
	while (p->fetches)
		http_client_cancel(p->client, p->fetches->id);
}
