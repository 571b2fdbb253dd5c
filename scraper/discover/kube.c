/* SPDX-License-Identifier: Apache-2.0
 *
 * kubernetes_sd_configs: for each resource that a role needs, and each namespace, a list and then a watch from where it ended.
 *
 * A watch that ends is taken up again from the last version that was seen; a server that no longer knows that version (410) is
 * asked for a new list, page by page. What fails is tried again after a pause that doubles, with jitter. Groups are made once
 * all lists have come, and then of what changed. Source: client-go's reflector, Kubernetes API concepts.
 */
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include "lib/net/client/lines.h"
#include "lib/net/kubernetes/kubernetes.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/kube.h"
#include "scraper/discover/provider.h"
#include <string.h>

enum {
	PAGE_OBJECTS = 500,
	LIST_TIMEOUT_MS = 60 * 1000,
	WATCH_MIN_S = 300,	    /* and up to twice that, so that not all end at once */
	WATCH_GRACE_MS = 30 * 1000, /* by then a server that lives has ended it */
	FIRST_PAUSE_MS = 500,
	MAX_PAUSE_MS = 30 * 1000,
	FLUSH_MS = 100,		  /* groups are made at most this often */
	FLUSH_ATTACHED_MS = 1000, /* when all of them are, for what is attached to them */
};

/* Of one resource in one namespace. */
struct watch {
	struct kube *kube;
	enum kube_resource resource;
	const char *namespace; /* NULL: of all, or of none */
	unsigned idx;
	bool is_running;	/* a request is under way */
	bool is_watching;	/* it is, or the next will be, a watch and not a list */
	bool is_listed;		/* a list has been complete */
	bool is_unpaged;	/* a page was no longer known: all at once this time */
	bool is_open;		/* the server has taken the watch */
	char *resource_version; /* of the last list or event */
	char *next_page;
	uint64_t list; /* number of the list that is read or was read last */
	int64_t started_ns, next_ns;
	unsigned n_failures; /* in a row */
	struct http_lines lines;
	struct errbuf stream_error;
	char error[512]; /* why it fails now, or "" */
};

struct kube {
	struct discover_provider *provider;
	const struct config_kubernetes_sd *sd;
	struct kube_connection connection;
	bool is_connected;
	struct kube_store stores[KUBE_N_RESOURCES];
	struct watch *watches;
	size_t n_watches;
	enum kube_resource own; /* of the role */
	unsigned connect_failures;
	int64_t connect_ns, flushed_ns;
	bool is_flushed;
};

/* ── what is watched ── */

static const enum kube_resource role_resources[] = {
	[CONFIG_KUBERNETES_NODE] = KUBE_NODES,
	[CONFIG_KUBERNETES_POD] = KUBE_PODS,
	[CONFIG_KUBERNETES_SERVICE] = KUBE_SERVICES,
	[CONFIG_KUBERNETES_ENDPOINTS] = KUBE_ENDPOINTS,
	[CONFIG_KUBERNETES_ENDPOINTSLICE] = KUBE_ENDPOINTSLICES,
	[CONFIG_KUBERNETES_INGRESS] = KUBE_INGRESSES,
};

static void add_watch(struct kube *k, enum kube_resource r, const char *namespace)
{
	struct watch *w = &k->watches[k->n_watches];

	*w = (struct watch) {
		.kube = k, .resource = r, .namespace = namespace, .idx = (unsigned)k->n_watches++};
	http_lines_init(&w->lines, k->provider->max_event_bytes);
}

static bool has_watch(const struct kube *k, enum kube_resource r, const char *namespace)
{
	for (size_t i = 0; i < k->n_watches; i++)
		if (k->watches[i].resource == r && !strcmp(k->watches[i].namespace, namespace))
			return true;
	return false;
}

static void add_watches(struct kube *k, enum kube_resource r)
{
	const struct config_kubernetes_namespaces *n = &k->sd->namespaces;
	size_t n_namespaces = n->names.n + n->own_namespace;

	k->watches =
		xrealloc(k->watches, (k->n_watches + MAX(n_namespaces, 1U)) * sizeof(*k->watches));
	if (!n_namespaces || !kube_resource_info(r)->is_namespaced) {
		add_watch(k, r, NULL);
		return;
	}
	if (n->own_namespace)
		add_watch(k, r, k->connection.own_namespace);
	for (size_t i = 0; i < n->names.n; i++)
		if (!has_watch(k, r, n->names.items[i]))
			add_watch(k, r, n->names.items[i]);
}

static void add_all_watches(struct kube *k)
{
	const struct config_kubernetes_attach *a = &k->sd->attach;
	int role = k->sd->role;
	bool has_addresses =
		role == CONFIG_KUBERNETES_ENDPOINTS || role == CONFIG_KUBERNETES_ENDPOINTSLICE;
	bool has_pods = has_addresses || role == CONFIG_KUBERNETES_POD;

	add_watches(k, k->own);
	if (has_addresses) {
		add_watches(k, KUBE_SERVICES);
		add_watches(k, KUBE_PODS);
	}
	if (a->node && has_pods)
		add_watches(k, KUBE_NODES);
	if (a->namespace && role != CONFIG_KUBERNETES_NODE)
		add_watches(k, KUBE_NAMESPACES);
	if (a->deployment && has_pods)
		add_watches(k, KUBE_REPLICASETS);
	if (a->cronjob && has_pods)
		add_watches(k, KUBE_JOBS);
}

/* ── requests ── */

static void put_selector(struct bytes *url, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	bytes_printf(url, "&%s=", name);
	url_escape_query(url, value, strlen(value));
}

static void put_selectors(const struct watch *w, struct bytes *url)
{
	const struct config_kubernetes_sd *sd = w->kube->sd;

	for (size_t i = 0; i < sd->n_selectors; i++) {
		if (role_resources[sd->selectors[i].role] != w->resource)
			continue;
		put_selector(url, "labelSelector", sd->selectors[i].label);
		put_selector(url, "fieldSelector", sd->selectors[i].field);
	}
}

/* Differs from one call to the next; in 0 … n − 1. */
static int64_t jitter(const struct watch *w, int64_t now_ns, int64_t n)
{
	const uint64_t seed[] = {(uint64_t)now_ns, (uint64_t)(uintptr_t)w, w->n_failures};

	return (int64_t)(hash_xxh3(seed, sizeof(seed)) % (uint64_t)n);
}

static void put_url(const struct watch *w, int64_t timeout_s, struct bytes *url)
{
	const struct kube_resource_info *info = kube_resource_info(w->resource);

	bytes_printf(url, "%s%s/", w->kube->connection.server, info->api);
	if (w->namespace)
		bytes_printf(url, "namespaces/%s/", w->namespace);
	bytes_printf(url, "%s?", info->plural);
	if (w->is_watching) {
		bytes_printf(url, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%lld",
			(long long)timeout_s);
		put_selector(url, "resourceVersion", w->resource_version);
	} else {
		bytes_printf(url, "limit=%d", w->is_unpaged ? 0 : PAGE_OBJECTS);
		put_selector(url, "continue", w->next_page);
	}
	put_selectors(w, url);
	bytes_put_u8(url, '\0');
}

/* "LIST pods in namespace x" */
static void describe(const struct watch *w, char ret[128])
{
	snprintf(ret, 128, "%s %s%s%s", w->is_watching ? "WATCH" : "LIST",
		kube_resource_info(w->resource)->plural, w->namespace ? " in namespace " : "",
		w->namespace ? w->namespace : "");
}

static int64_t pause_ns(unsigned n_failures, int64_t jitter_ms)
{
	int64_t ms = FIRST_PAUSE_MS << MIN(n_failures, 10U);

	return (MIN(ms, (int64_t)MAX_PAUSE_MS) + jitter_ms) * NS_PER_MS;
}

/* The provider's error is that of its first watch that fails. */
static void show_error(struct kube *k)
{
	size_t i = 0;

	while (i < k->n_watches && !k->watches[i].error[0])
		i++;
	snprintf(k->provider->error, sizeof(k->provider->error), "%s",
		i < k->n_watches ? k->watches[i].error : "");
}

static void works(struct watch *w)
{
	w->n_failures = 0;
	if (!w->error[0])
		return;
	w->error[0] = '\0';
	show_error(w->kube);
}

static void failed(struct watch *w, const char *why)
{
	struct discover_provider *p = w->kube->provider;
	int64_t now_ns = clock_monotonic_ns(p->clock);
	char what[128];

	describe(w, what);
	snprintf(w->error, sizeof(w->error), "kubernetes_sd %.100s: %s: %.250s",
		w->kube->connection.shown_server, what, why);
	w->next_ns = now_ns + pause_ns(w->n_failures, jitter(w, now_ns, FIRST_PAUSE_MS));
	w->n_failures++;
	discover_failed(p, "%s", w->error);
	show_error(w->kube);
}

/* Begins anew with a list, its first page. */
static void relist(struct watch *w)
{
	free(TAKE(w->next_page));
	w->is_watching = false;
}

static int on_line(void *arg, const char *line, size_t n)
{
	struct watch *w = arg;

	return kube_store_read_event(&w->kube->stores[w->resource], line, n, w->idx, w->list,
		&w->resource_version, &w->stream_error);
}

static int on_piece(struct discover_provider *p, const void *bytes, size_t n, void *arg)
{
	struct watch *w = arg;
	int r;

	if (!n) {
		w->is_open = true;
		works(w);
	}
	p->next_ns = 0;
	r = http_lines_put(&w->lines, bytes, n, on_line, w, &w->stream_error);
	if (r == -EFBIG)
		err_set(&w->stream_error, r,
			"an event of more than %llu bytes (--discover.max-event-bytes)",
			(unsigned long long)p->max_event_bytes);
	return r;
}

static void on_list(struct watch *w, struct http_response *r)
{
	struct kube_page page = {0};
	struct errbuf eb = {0};
	struct kube_store *store = &w->kube->stores[w->resource];
	int e;

	if (r->error == 0 && r->status == 410 && w->next_page) {
		w->is_unpaged = true;
		relist(w);
		return;
	}
	if (r->error < 0 || r->status != 200) {
		kubernetes_error(r, &eb);
		relist(w);
		failed(w, eb.text);
		return;
	}
	e = kube_store_read_list(store, r->body.data, r->body.len, w->idx, w->list, &page, &eb);
	if (e < 0) {
		relist(w);
		failed(w, err_text(&eb, e));
		return;
	}
	free(w->resource_version);
	free(w->next_page);
	w->resource_version = TAKE(page.resource_version);
	w->next_page = TAKE(page.next);
	if (w->next_page)
		return;
	kube_store_sweep(store, w->idx, w->list);
	w->is_listed = w->is_watching = true;
	w->is_unpaged = false;
}

/* A watch that the server ended, or that broke off, goes on from where it was. */
static void on_watch_end(struct watch *w, struct http_response *r, int64_t now_ns)
{
	struct errbuf eb = {0};
	bool is_ours = w->stream_error.text[0] != '\0'; /* what came could not be used */

	bool is_lost = (r->error == 0 && r->status == 410) || r->error == -ESTALE;

	if (is_lost)
		relist(w);
	if (is_lost || (w->is_open && !is_ours)) {
		/* at once, but not in a loop */
		w->next_ns =
			MAX(now_ns, w->started_ns + pause_ns(0, jitter(w, now_ns, FIRST_PAUSE_MS)));
		return;
	}
	if (is_ours)
		eb = w->stream_error;
	else
		kubernetes_error(r, &eb);
	failed(w, eb.text);
	/* a version that it does not take, or no right to watch: lists at least keep up */
	if (is_ours || (r->error == 0 && r->status >= 400 && r->status < 500 && r->status != 429))
		relist(w);
}

static void on_done(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct watch *w = arg;

	w->is_running = false;
	w->next_ns = 0;
	p->next_ns = 0;
	if (w->is_watching)
		on_watch_end(w, r, clock_monotonic_ns(p->clock));
	else
		on_list(w, r);
}

static void start_request(struct watch *w, int64_t now_ns)
{
	static const char *const headers[] = {"Accept: application/json", NULL};
	struct kube *k = w->kube;
	int64_t timeout_s = WATCH_MIN_S + jitter(w, now_ns, WATCH_MIN_S);
	_cleanup_bytes_ struct bytes url = {0};
	struct errbuf eb = {0};
	int r;

	if (!w->is_watching && !w->next_page) {
		w->list++;
		k->provider->refreshes++;
	}
	put_url(w, timeout_s, &url);
	http_lines_reset(&w->lines);
	w->stream_error.text[0] = '\0';
	w->is_open = false;
	w->started_ns = now_ns;
	r = discover_fetch(k->provider,
		&(struct discover_request) {
			.url = (const char *)url.data,
			.headers = headers,
			.transport = &k->connection.transport,
			.timeout_ms = w->is_watching ? (uint32_t)(timeout_s * 1000 + WATCH_GRACE_MS)
						     : LIST_TIMEOUT_MS,
			.piece = w->is_watching ? on_piece : NULL,
			.done = on_done,
			.arg = w,
		},
		&eb);
	if (r < 0)
		failed(w, err_text(&eb, r));
	else
		w->is_running = true;
}

/* ── groups ── */

static bool is_listed(const struct kube *k)
{
	for (size_t i = 0; i < k->n_watches; i++)
		if (!k->watches[i].is_listed)
			return false;
	return true;
}

/* Makes the object's group again; true when it differs. */
static bool make_group(struct kube *k, struct kube_view *v, struct kube_object *o)
{
	struct discover_group group = {0};

	if (!o->is_deleted && kube_make_group(v, k->sd->role, json_doc_root(o->doc), &group) < 0) {
		discover_failed(k->provider, "kubernetes_sd: out of memory");
		return false;
	}
	if (o->group.source && group.source && discover_group_equal(&o->group, &group)) {
		discover_group_done(&group);
		return false;
	}
	discover_group_done(&o->group);
	o->group = group;
	return true;
}

/* The provider's groups are those of the objects, which own them. */
static void collect_groups(struct kube *k)
{
	struct discover_provider *p = k->provider;
	const struct kube_store *s = &k->stores[k->own];

	p->n_groups = 0;
	if (alloc_grow(&p->groups, &p->cap_groups, MAX(s->n, 1U), sizeof(*p->groups)) < 0) {
		discover_failed(p, "kubernetes_sd: out of memory");
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->items[i]->group.n_targets)
			p->groups[p->n_groups++] = s->items[i]->group;
}

static bool is_attached_dirty(const struct kube *k)
{
	for (size_t r = 0; r < KUBE_N_RESOURCES; r++)
		if (r != k->own && k->stores[r].is_dirty)
			return true;
	return false;
}

static void flush(struct kube *k, int64_t now_ns)
{
	const struct config_kubernetes_attach *a = &k->sd->attach;
	struct kube_store *own = &k->stores[k->own];
	struct kube_view v = {
		.stores = k->stores,
		.attach_node = a->node,
		.attach_namespace = a->namespace,
		.attach_deployment = a->deployment,
		.attach_job = a->job,
		.attach_cronjob = a->cronjob,
	};
	bool all = is_attached_dirty(k), changed = false;

	for (size_t i = 0; i < own->n; i++)
		if (all || own->items[i]->is_dirty)
			changed |= make_group(k, &v, own->items[i]);
	for (size_t r = 0; r < KUBE_N_RESOURCES; r++)
		kube_store_clean(&k->stores[r]);
	if (changed)
		collect_groups(k);
	k->provider->changed |= changed;
	k->provider->is_settled = true;
	k->is_flushed = true;
	k->flushed_ns = now_ns;
}

/* Makes groups when it is time; returns when it is. */
static int64_t flush_when_due(struct kube *k, int64_t now_ns)
{
	bool all = is_attached_dirty(k);
	int64_t due_ns;

	if (!is_listed(k) || (k->is_flushed && !all && !k->stores[k->own].is_dirty))
		return INT64_MAX;
	due_ns = k->is_flushed ? k->flushed_ns + (all ? FLUSH_ATTACHED_MS : FLUSH_MS) * NS_PER_MS
			       : now_ns;
	if (due_ns > now_ns)
		return due_ns;
	flush(k, now_ns);
	return INT64_MAX;
}

/* ── the provider ── */

static void connect_or_wait(struct kube *k, int64_t now_ns)
{
	struct errbuf eb = {0};
	int r;

	k->provider->refreshes++;
	r = kube_connect(k->provider->fs, k->sd, &k->connection, &eb);
	if (r == 0 && k->sd->namespaces.own_namespace && !k->connection.own_namespace)
		r = err_set(&eb, -ENOENT, "own_namespace: the service account names no namespace");
	if (r < 0) {
		kube_connection_done(&k->connection);
		discover_failed(k->provider, "kubernetes_sd: %s", err_text(&eb, r));
		k->connect_ns = now_ns + pause_ns(k->connect_failures++, 0);
		return;
	}
	k->is_connected = true;
	k->provider->error[0] = '\0';
	add_all_watches(k);
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	struct kube *k = p->state;

	if (!k->is_connected && k->connect_ns <= now_ns)
		connect_or_wait(k, now_ns);
	p->next_ns = k->is_connected ? INT64_MAX : k->connect_ns;
	for (size_t i = 0; i < k->n_watches; i++) {
		struct watch *w = &k->watches[i];

		if (!w->is_running && w->next_ns <= now_ns)
			start_request(w, now_ns);
		if (!w->is_running)
			p->next_ns = MIN(p->next_ns, w->next_ns);
	}
	p->next_ns = MIN(p->next_ns, flush_when_due(k, now_ns));
}

static size_t count(const struct config_job *job)
{
	return job->n_kubernetes_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "kubernetes_sd_configs", i, out);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	struct kube *k = xcalloc(1, sizeof(*k));

	k->provider = p;
	k->sd = &job->kubernetes_sds[i];
	k->own = role_resources[k->sd->role];
	for (size_t r = 0; r < KUBE_N_RESOURCES; r++)
		k->stores[r].resource = (enum kube_resource)r;
	p->state = k;
	return 0;
}

static void stop(struct discover_provider *p)
{
	struct kube *k = p->state;

	for (size_t i = 0; i < k->n_watches; i++) {
		http_lines_done(&k->watches[i].lines);
		free(k->watches[i].resource_version);
		free(k->watches[i].next_page);
	}
	free(k->watches);
	for (size_t r = 0; r < KUBE_N_RESOURCES; r++)
		kube_store_done(&k->stores[r]);
	if (k->is_connected)
		kube_connection_done(&k->connection);
	free(k);
}

const struct discover_kind *discover_kubernetes(void)
{
	static const struct discover_kind kind = {
		"kubernetes", count, put_key, start, refresh, stop, .shares_groups = true};

	return &kind;
}
