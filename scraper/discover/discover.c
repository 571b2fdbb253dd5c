/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager: which providers the configuration needs, when they refresh, and when jobs hear of
 * it.
 */
#include "scraper/discover/discover.h"
#include <sys/epoll.h>
#include <sys/inotify.h>
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include "lib/base/log.h"
#include "lib/net/dns/dns.h"
#include "scraper/config/config.h"
#include "scraper/discover/provider.h"
#include <string.h>

static const struct discover_kind *(*const kinds[])(void) = {discover_static, discover_file,
	discover_http, discover_kubernetes, discover_dns, discover_docker, discover_dockerswarm,
	discover_consul, discover_nomad, discover_ec2};
enum { N_KINDS = ARRAY_SIZE(kinds), ANSWER_MIB = 64, EVENT_MIB = 8 };
static const int64_t WORKS_AGAIN_NS = 60 * NS_PER_S; /* without an error */

static const struct discover_kind *kind_at(size_t i)
{
	return kinds[i]();
}

struct job_state {
	const struct config_job *job; /* of d->cfg */
	struct discover_provider **providers;
	size_t n_providers;
	bool dirty;
	int64_t sent_ns, delay_ns; /* last update, and how long the next one waits */
};

struct discover {
	struct fs *fs;
	struct clock *clock;
	discover_update_fn *update;
	void *ctx;
	struct config *cfg;
	int inotify_fd, epoll_fd; /* the latter waits for the former, the client and the resolver */
	struct http_client *client;
	struct dns_resolver *resolver;
	uint64_t max_answer_bytes, max_event_bytes;
	bool is_quiet;
	struct discover_provider **providers;
	size_t n_providers, cap_providers;
	struct job_state *jobs; /* one per job of cfg, in its order */
	uint64_t updates[N_KINDS], delayed[N_KINDS];
	uint64_t gone_refreshes[N_KINDS], gone_failures[N_KINDS], gone_too_large[N_KINDS],
		gone_replaced[N_KINDS]; /* of providers that ended */
};

static int watch(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int discover_new(const struct discover_options *o, struct discover **ret, struct errbuf *eb)
{
	_cleanup_(discover_freep)
	struct discover *d = xcalloc(1, sizeof(*d));
	int r;

	*d = (struct discover) {.fs = o->fs,
		.clock = o->clock,
		.update = o->update,
		.ctx = o->ctx,
		.max_answer_bytes =
			o->max_answer_bytes ? o->max_answer_bytes : (uint64_t)ANSWER_MIB << 20,
		.max_event_bytes =
			o->max_event_bytes ? o->max_event_bytes : (uint64_t)EVENT_MIB << 20,
		.is_quiet = o->is_quiet,
		.inotify_fd = -1,
		.epoll_fd = -1};
	d->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (d->inotify_fd < 0)
		return err_set(eb, -errno, "inotify: %s%s", strerror(errno),
			errno == EMFILE ? " (see fs.inotify.max_user_instances)" : "");
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd < 0)
		return err_set(eb, -errno, "epoll: %s", strerror(errno));
	r = http_client_new(
		&(struct http_client_options) {.user_agent = o->user_agent, .max_connections = 64},
		&d->client, eb);
	if (r < 0)
		return r;
	r = dns_resolver_new(&d->resolver, eb);
	if (r < 0)
		return r;
	r = watch(d->epoll_fd, d->inotify_fd);
	if (r == 0)
		r = watch(d->epoll_fd, http_client_fd(d->client));
	if (r == 0)
		r = watch(d->epoll_fd, dns_resolver_fd(d->resolver));
	if (r < 0)
		return err_set(eb, r, "epoll: %s", strerror(-r));
	*ret = TAKE(d);
	return 0;
}

static size_t kind_index(const struct discover_kind *kind)
{
	size_t i = 0;

	while (kind_at(i) != kind)
		i++;
	return i;
}

static void provider_free(struct discover_provider *p)
{
	discover_fetch_cancel_all(p);
	p->kind->stop(p);
	for (size_t i = 0; !p->kind->shares_groups && i < p->n_groups; i++)
		discover_group_done(&p->groups[i]);
	free(p->groups);
	config_put(p->cfg);
	free(p->watches);
	free(p->key);
	free(p);
}

static void jobs_free(struct discover *d)
{
	for (size_t i = 0; d->cfg && i < d->cfg->n_jobs; i++)
		free(d->jobs[i].providers);
	free(d->jobs);
	d->jobs = NULL;
}

void discover_free(struct discover *d)
{
	if (!d)
		return;
	jobs_free(d);
	for (size_t i = 0; i < d->n_providers; i++)
		provider_free(d->providers[i]);
	free(d->providers);
	if (d->cfg)
		config_put(d->cfg);
	http_client_freep(&d->client);
	dns_resolver_freep(&d->resolver);
	if (d->inotify_fd >= 0)
		close(d->inotify_fd);
	if (d->epoll_fd >= 0)
		close(d->epoll_fd);
	free(d);
}

/* The provider of these settings, started when there is none yet. */
static struct discover_provider *get_provider(struct discover *d, const struct discover_kind *kind,
	const struct config_job *job, size_t i)
{
	_cleanup_bytes_ struct bytes key = {0};
	struct discover_provider *p;

	bytes_put_str(&key, kind->name);
	bytes_put_u8(&key, 0);
	kind->key(job, i, &key);
	for (size_t k = 0; k < d->n_providers; k++) {
		p = d->providers[k];
		if (!memcmp(p->key, &key.len, sizeof(key.len)) &&
			!memcmp(p->key + sizeof(key.len), key.data, key.len))
			return p;
	}
	p = xcalloc(1, sizeof(*p));
	p->kind = kind;
	p->fs = d->fs;
	p->clock = d->clock;
	p->inotify_fd = d->inotify_fd;
	p->client = d->client;
	p->resolver = d->resolver;
	p->max_answer_bytes = d->max_answer_bytes;
	p->max_event_bytes = d->max_event_bytes;
	p->cfg = config_get(d->cfg);
	p->job = job;
	p->idx = i;
	p->key = xmalloc(sizeof(key.len) + key.len);
	memcpy(p->key, &key.len, sizeof(key.len));
	memcpy(p->key + sizeof(key.len), key.data, key.len);
	if (kind->start(p, job, i) < 0) {
		p->failures++;
		snprintf(p->error, sizeof(p->error), "out of memory");
	}
	d->providers =
		xrealloc(d->providers, (d->n_providers + 1) * sizeof(struct discover_provider *));
	d->providers[d->n_providers++] = p;
	return p;
}

static void start_job(struct discover *d, struct job_state *state, const struct config_job *job)
{
	size_t n = 0;

	for (size_t k = 0; k < N_KINDS; k++)
		n += kind_at(k)->count(job);
	state->job = job;
	state->dirty = true;
	state->providers = xcalloc(n, sizeof(struct discover_provider *));
	for (size_t k = 0; k < N_KINDS; k++) {
		for (size_t i = 0; i < kind_at(k)->count(job); i++) {
			struct discover_provider *p = get_provider(d, kind_at(k), job, i);

			p->in_use = true;
			state->providers[state->n_providers++] = p;
		}
	}
}

/* Watches of directories that no provider needs any more. */
static void drop_watches(struct discover *d, const struct discover_provider *gone)
{
	for (size_t i = 0; i < gone->n_watches; i++) {
		bool used = false;

		for (size_t k = 0; k < d->n_providers; k++) {
			const struct discover_provider *p = d->providers[k];

			for (size_t w = 0; p->in_use && w < p->n_watches; w++)
				used |= p->watches[w] == gone->watches[i];
		}
		if (!used)
			inotify_rm_watch(d->inotify_fd, gone->watches[i]);
	}
}

static void drop_unused_providers(struct discover *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_providers; i++) {
		struct discover_provider *p = d->providers[i];

		if (!p->in_use) {
			drop_watches(d, p);
			d->gone_refreshes[kind_index(p->kind)] += p->refreshes;
			d->gone_failures[kind_index(p->kind)] += p->failures;
			d->gone_too_large[kind_index(p->kind)] += p->too_large;
			d->gone_replaced[kind_index(p->kind)] += p->replaced;
		}
	}
	for (size_t i = 0; i < d->n_providers; i++) {
		if (d->providers[i]->in_use)
			d->providers[n++] = d->providers[i];
		else
			provider_free(d->providers[i]);
	}
	d->n_providers = n;
}

void discover_apply(struct discover *d, struct config *cfg)
{
	jobs_free(d);
	for (size_t i = 0; i < d->n_providers; i++)
		d->providers[i]->in_use = false;
	if (d->cfg)
		config_put(d->cfg);
	d->cfg = config_get(cfg);
	d->jobs = xcalloc(cfg->n_jobs, sizeof(*d->jobs));
	for (size_t i = 0; i < cfg->n_jobs; i++)
		start_job(d, &d->jobs[i], &cfg->jobs[i]);
	drop_unused_providers(d);
}

int discover_fd(const struct discover *d)
{
	return d->epoll_fd;
}

/* Marks providers whose directories had an event as due. */
static void read_events(struct discover *d)
{
	union {
		struct inotify_event event;
		char bytes[16 << 10];
	} buf;
	ssize_t n;

	while ((n = read(d->inotify_fd, &buf, sizeof(buf))) > 0) {
		for (ssize_t off = 0; off < n;) {
			struct inotify_event e;

			memcpy(&e, buf.bytes + off, sizeof(e));
			off += (ssize_t)(sizeof(e) + e.len);
			for (size_t i = 0; i < d->n_providers; i++) {
				struct discover_provider *p = d->providers[i];

				for (size_t w = 0; w < p->n_watches; w++) {
					if ((e.mask & IN_Q_OVERFLOW) || p->watches[w] == e.wd)
						p->next_ns = 0;
				}
			}
		}
	}
}

static void refresh_providers(struct discover *d, int64_t now_ns)
{
	for (size_t i = 0; i < d->n_providers; i++) {
		struct discover_provider *p = d->providers[i];

		if (p->next_ns > now_ns)
			continue;
		p->kind->refresh(p, now_ns);
	}
}

/*
 * Each failure once, not at each refresh. Of several names or services that a provider asks for one may answer while another fails, which
 * clears the error for a while.
 */
static void log_failures(struct discover *d, int64_t now_ns)
{
	for (size_t i = 0; i < d->n_providers; i++) {
		struct discover_provider *p = d->providers[i];

		p->clear_ns = p->error[0] ? 0 : p->clear_ns ? p->clear_ns : now_ns;
		if (!strcmp(p->error, p->logged) || now_ns - p->clear_ns < WORKS_AGAIN_NS)
			continue;
		if (p->error[0])
			log_write(LOG_WARN, "discovery failed; the last targets stay", "job",
				p->job->name, "kind", p->kind->name, "error", p->error, NULL);
		else
			log_write(LOG_INFO, "discovery works again", "job", p->job->name, "kind",
				p->kind->name, NULL);
		memcpy(p->logged, p->error, sizeof(p->logged));
	}
}

/* Jobs of a provider whose groups differ have something to hear. */
static void mark_jobs(struct discover *d)
{
	for (size_t i = 0; d->cfg && i < d->cfg->n_jobs; i++) {
		struct job_state *state = &d->jobs[i];

		for (size_t k = 0; k < state->n_providers; k++)
			state->dirty |= state->providers[k]->changed;
	}
	for (size_t i = 0; i < d->n_providers; i++)
		d->providers[i]->changed = false;
}

static void send_update(struct discover *d, struct job_state *state)
{
	const struct discover_group **groups;
	size_t n = 0;

	for (size_t k = 0; k < state->n_providers; k++) {
		n += state->providers[k]->n_groups;
		d->updates[kind_index(state->providers[k]->kind)]++;
	}
	groups = xcalloc(n, sizeof(const struct discover_group *));
	n = 0;
	for (size_t k = 0; k < state->n_providers; k++) {
		for (size_t i = 0; i < state->providers[k]->n_groups; i++)
			groups[n++] = &state->providers[k]->groups[i];
	}
	d->update(d->ctx, d->cfg, state->job, groups, n);
	free(groups);
}

/* After quiet an update goes out at once; the ones after it wait 100 ms, 200 ms … 5 s while changes
 * keep coming. */
static int64_t update_jobs(struct discover *d, int64_t now_ns)
{
	const int64_t first_ns = DISCOVER_FIRST_UPDATE_MS * NS_PER_MS,
		      max_ns = DISCOVER_UPDATE_MS * NS_PER_MS;
	int64_t next_ns = INT64_MAX;

	for (size_t i = 0; d->cfg && i < d->cfg->n_jobs; i++) {
		struct job_state *state = &d->jobs[i];

		if (!state->dirty)
			continue;
		if (state->delay_ns && now_ns < state->sent_ns + state->delay_ns) {
			next_ns = MIN(next_ns, state->sent_ns + state->delay_ns);
			for (size_t k = 0; k < state->n_providers; k++)
				d->delayed[kind_index(state->providers[k]->kind)]++;
			continue;
		}
		state->delay_ns = !state->delay_ns || now_ns - state->sent_ns > max_ns
					  ? first_ns
					  : MIN(2 * state->delay_ns, max_ns);
		state->sent_ns = now_ns;
		state->dirty = false;
		send_update(d, state);
	}
	return next_ns;
}

int64_t discover_run(struct discover *d)
{
	int64_t now_ns = clock_monotonic_ns(d->clock), next_ns;
	int client_ms, resolver_ms;

	read_events(d);
	refresh_providers(d, now_ns);
	if (http_client_run(d->client, 0) < 0)
		LOG_RATED(LOG_ERROR, "the discovery's HTTP client failed");
	dns_resolver_run(d->resolver);
	if (!d->is_quiet)
		log_failures(d, now_ns);
	client_ms = http_client_next_ms(d->client);
	resolver_ms = dns_resolver_next_ms(d->resolver);
	mark_jobs(d);
	next_ns = update_jobs(d, now_ns);
	for (size_t i = 0; i < d->n_providers; i++)
		next_ns = MIN(next_ns, d->providers[i]->next_ns);
	if (client_ms >= 0)
		next_ns = MIN(next_ns, now_ns + client_ms * NS_PER_MS);
	if (resolver_ms >= 0)
		next_ns = MIN(next_ns, now_ns + resolver_ms * NS_PER_MS);
	return next_ns;
}

size_t discover_stats(const struct discover *d, struct discover_stats *ret, size_t n)
{
	for (size_t k = 0; k < N_KINDS && k < n; k++) {
		ret[k] = (struct discover_stats) {
			.kind = kind_at(k)->name,
			.refreshes_total = d->gone_refreshes[k],
			.refresh_failures_total = d->gone_failures[k],
			.too_large_total = d->gone_too_large[k],
			.replaced_bytes_total = d->gone_replaced[k],
			.updates_total = d->updates[k],
			.updates_delayed_total = d->delayed[k],
		};
		for (size_t i = 0; i < d->n_providers; i++) {
			const struct discover_provider *p = d->providers[i];

			if (p->kind != kind_at(k))
				continue;
			ret[k].refreshes_total += p->refreshes;
			ret[k].refresh_failures_total += p->failures;
			ret[k].too_large_total += p->too_large;
			ret[k].replaced_bytes_total += p->replaced;
			for (size_t g = 0; g < p->n_groups; g++)
				ret[k].targets += p->groups[g].n_targets;
		}
	}
	return N_KINDS;
}

bool discover_job_settled(const struct discover *d, const struct config_job *job)
{
	const struct job_state *state = &d->jobs[job->index];

	for (size_t k = 0; k < state->n_providers; k++)
		if (!state->providers[k]->is_settled)
			return false;
	return !state->dirty;
}

const char *discover_job_error(const struct discover *d, const struct config_job *job)
{
	const struct job_state *state = &d->jobs[job->index];

	for (size_t k = 0; k < state->n_providers; k++) {
		if (state->providers[k]->error[0])
			return state->providers[k]->error;
	}
	return NULL;
}
