/* SPDX-License-Identifier: Apache-2.0
 *
 * dns_sd_configs: the records of names, asked for every refresh_interval; each name is a group.
 */
#include "lib/base/alloc.h"
#include "lib/net/dns/dns.h"
#include "scraper/config/config.h"
#include "scraper/discover/build.h"
#include "scraper/discover/provider.h"
#include <inttypes.h>
#include <string.h>

struct question {
	struct discover_provider *provider;
	const char *name;
	struct dns_lookup *lookup; /* NULL: not under way */
};

struct state {
	struct question *questions; /* one per name */
	size_t n_waiting;
	int error; /* of this refresh's first name that failed */
	struct errbuf error_text;
};

static const struct config_dns_sd *settings(const struct discover_provider *p)
{
	return &p->job->dns_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_dns_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "dns_sd_configs", i, out);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	const struct config_dns_sd *sd = &job->dns_sds[i];
	struct state *s = xcalloc(1, sizeof(*s));

	s->questions = xcalloc(sd->names.n, sizeof(*s->questions));
	for (size_t k = 0; k < sd->names.n; k++)
		s->questions[k] = (struct question) {.provider = p, .name = sd->names.items[k]};
	p->state = s;
	return 0;
}

static void stop(struct discover_provider *p)
{
	struct state *s = p->state;

	for (size_t i = 0; i < settings(p)->names.n; i++)
		if (s->questions[i].lookup)
			dns_lookup_cancel(s->questions[i].lookup);
	free(s->questions);
	free(s);
}

/* The address has no trailing dot, the label has it: as in Prometheus. */
static void set_record(
	struct labels_builder *b, const struct config_dns_sd *sd, const struct dns_record *r)
{
	_cleanup_free_ char *rooted = xasprintf("%s.", r->target);
	char port[8];

	discover_set_address(b, r->target, sd->type == DNS_SRV ? r->port : sd->port);
	switch (sd->type) {
	case DNS_SRV:
		snprintf(port, sizeof(port), "%u", r->port);
		labels_builder_set(b, "__meta_dns_srv_record_target", rooted);
		labels_builder_set(b, "__meta_dns_srv_record_port", port);
		break;
	case DNS_MX: labels_builder_set(b, "__meta_dns_mx_record_target", rooted); break;
	case DNS_NS: labels_builder_set(b, "__meta_dns_ns_record_target", rooted); break;
	default: break;
	}
}

static void put_answer(struct question *q, const struct dns_answer *a)
{
	_cleanup_labels_builder_ struct labels_builder b;
	_cleanup_discover_build_ struct discover_build d;

	labels_builder_init(&b);
	discover_build_init(&d, q->name);
	for (size_t i = 0; i < a->n; i++) {
		labels_builder_reset(&b, NULL);
		labels_builder_set(&b, "__meta_dns_name", q->name);
		set_record(&b, settings(q->provider), &a->records[i]);
		discover_build_target(&d, &b);
	}
	discover_build_add(&d, q->provider);
}

static void on_answer(struct dns_answer *a, void *arg)
{
	struct question *q = arg;
	struct discover_provider *p = q->provider;
	struct state *s = p->state;
	bool was_settled = p->is_settled;

	q->lookup = NULL;
	s->n_waiting--;
	if (a->error == 0)
		put_answer(q, a);
	else if (!s->error)
		s->error = err_set(&s->error_text, a->error, "%.255s: %s", q->name, a->text.text);
	p->is_settled = was_settled || !s->n_waiting;
	if (!s->n_waiting && s->error)
		discover_failed(p, "dns_sd %s", s->error_text.text);
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	const struct config_dns_sd *sd = settings(p);
	struct state *s = p->state;

	p->next_ns = now_ns + sd->refresh_interval_ms * NS_PER_MS;
	if (s->n_waiting)
		return; /* servers that do not answer are still asked */
	p->refreshes++;
	s->error = 0;
	s->n_waiting = sd->names.n;
	for (size_t i = 0; i < sd->names.n; i++)
		s->questions[i].lookup = dns_lookup_start(p->resolver, sd->names.items[i],
			(enum dns_type)sd->type, on_answer, &s->questions[i]);
}

const struct discover_kind *discover_dns(void)
{
	static const struct discover_kind kind = {
		"dns", count, put_key, start, refresh, stop, .shares_groups = false};

	return &kind;
}
