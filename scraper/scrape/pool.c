/* SPDX-License-Identifier: Apache-2.0
 *
 * One pool per job: its groups become targets, equal targets are one, each target has its profile types. Loop thread.
 */
#include "scraper/scrape/scrape_impl.h"
#include "scraper/scrape/window.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "scraper/discover/discover.h"
#include <string.h>

enum { MAX_DROPPED_KEPT = 10000, HOST_SEED = 1 };

struct scrape_pool *scrape_pool_find(struct scrape *s, const char *job_name)
{
	struct scrape_pool *p = s->pools;

	while (p && strcmp(p->job->name, job_name))
		p = p->next;
	return p;
}

static void drop_dropped(struct scrape_pool *p)
{
	for (size_t i = 0; i < p->n_dropped; i++)
		labels_done(&p->dropped[i]);
	free(p->dropped);
	p->dropped = NULL;
	p->n_dropped = p->n_dropped_total = 0;
}

void scrape_pool_free(struct scrape *s, struct scrape_pool *p, bool may_return)
{
	struct scrape_pool **at = &s->pools;

	ASSERT_HELD(&s->lock);
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	while (p->targets) {
		struct scrape_target *t = p->targets;

		p->targets = t->next;
		scrape_target_release(s, t, may_return ? p->job->name : NULL);
	}
	drop_dropped(p);
	scrape_limit_put(p->limit);
	config_put(p->cfg);
	free(p);
}

static struct scrape_pool *pool_new(
	struct scrape *s, struct config *cfg, const struct config_job *job)
{
	struct scrape_pool *p = xcalloc(1, sizeof(*p));

	p->cfg = config_get(cfg);
	p->job = job;
	p->limit = scrape_limit_new(job->profiling.label_set_limit, SCRAPE_GENERATION_NS);
	p->next = s->pools;
	s->pools = p;
	return p;
}

/* ---- types ---- */

/* A decode thread may be reading the spec of a type in flight. */
static bool may_change(const struct scrape_type *type)
{
	return !type->request || type->request->is_finishing;
}

static bool same_kind(const struct scrape_spec *a, const struct scrape_spec *b)
{
	return a->is_windowed == b->is_windowed && a->is_cumulative == b->is_cumulative &&
	       a->has_cursor == b->has_cursor && a->seconds == b->seconds;
}

static void set_url(struct scrape_type *type)
{
	free(type->url);
	type->has_query = strchr(type->base_url, '?');
	if (!type->spec.is_windowed || !type->spec.seconds) {
		type->url = xstrdup(type->base_url);
		return;
	}
	type->url = xasprintf("%s%cseconds=%lld", type->base_url, type->has_query ? '&' : '?',
		(long long)type->spec.seconds);
	type->has_query = true;
}

/* Takes over the target's type of the same name and URL, with its cursor, totals and status. */
static struct scrape_type *find_type(struct scrape_target *t, const struct scrape_spec *spec,
	const struct target *built, const char *url)
{
	for (size_t i = 0; i < t->n_types; i++) {
		struct scrape_type *type = t->types[i];

		if (!type || strcmp(type->spec.name, spec->name) || strcmp(type->base_url, url) ||
			!labels_equal(&type->t.labels, &built->labels) ||
			strcmp(labels_get(&type->t.relabeled, TARGET_UNIX_SOCKET),
				labels_get(&built->relabeled, TARGET_UNIX_SOCKET)) != 0)
			continue;
		if (!same_kind(&type->spec, spec) && !may_change(type))
			return NULL;
		if (!same_kind(&type->spec, spec)) {
			type->spec.is_windowed = spec->is_windowed;
			type->spec.is_cumulative = spec->is_cumulative;
			type->spec.has_cursor = spec->has_cursor;
			type->spec.seconds = spec->seconds;
			set_url(type);
		}
		t->types[i] = NULL;
		return type;
	}
	return NULL;
}

static uint64_t socket_key(const char *path)
{
	return *path ? hash_xxh3(path, strlen(path)) : 0;
}

/* Takes what it needs of `spec` and `built`. */
static struct scrape_type *type_new(
	struct scrape_target *t, struct scrape_spec *spec, struct target *built, const char *url)
{
	struct scrape_type *type = xcalloc(1, sizeof(*type));
	const char *query = strchr(url, '?');

	type->target = t;
	type->spec = *spec;
	*spec = (struct scrape_spec) {0};
	type->t = *built;
	*built = (struct target) {0};
	type->base_url = xstrdup(url);
	set_url(type);
	type->filter = xstrdup(query ? query + 1 : "");
	type->profiler_key = hash_xxh3_seed(url, strcspn(url, "?"),
		socket_key(labels_get(&type->t.relabeled, TARGET_UNIX_SOCKET)));
	type->last_error = xstrdup("");
	scrape_delta_init(&type->delta, t->stage->o.budget);
	scrape_live_init(&type->live);
	return type;
}

/* A window that the job's params, a label or the path asks for; pprof_config overrides it. */
static void take_window(const struct scrape_target *t, char *url, struct scrape_spec *spec)
{
	const struct config_profile *own =
		scrape_spec_override(&t->pool->job->profiling, spec->name);
	int64_t seconds = scrape_window_take(url);

	if (seconds && !(own && own->seconds))
		scrape_spec_set_window(spec, seconds);
}

static int add_type(struct scrape_target *t, struct scrape_spec *spec, struct scrape_type **types,
	size_t *n, struct errbuf *eb)
{
	const struct discover_group group = {
		.source = (char *)(uintptr_t) "", .targets = &t->t.discovered, .n_targets = 1};
	_cleanup_target_ struct target built = {0};
	_cleanup_bytes_ struct bytes url = {0};
	bool has_query = false;
	int r = target_build(t->pool->job, &group, 0, spec->name, spec->path, &built);

	if (r < 0)
		return err_set(eb, r, "%s", built.error);
	if (built.state != TARGET_ACTIVE)
		return 0;
	bytes_init(&url, NULL, 0);
	target_url(t->pool->job, &built, spec->path, &url, &has_query);
	bytes_put_u8(&url, 0);
	if (bytes_error(&url) < 0)
		return err_set(eb, -ENOMEM, "no memory for a URL");
	take_window(t, (char *)url.data, spec);
	types[*n] = find_type(t, spec, &built, (const char *)url.data);
	if (!types[*n])
		types[*n] = type_new(t, spec, &built, (const char *)url.data);
	++*n;
	return 0;
}

int scrape_target_set_types(struct scrape_target *t, struct errbuf *eb)
{
	_cleanup_scrape_specs_ struct scrape_specs specs = {0};
	struct scrape *s = t->stage;
	struct scrape_type **types;
	size_t n = 0;
	int r = scrape_specs_build(
		&t->pool->job->profiling, t->preset, t->types_header, t->t.interval_ms, &specs, eb);

	if (r < 0)
		return r;
	types = xcalloc(specs.n + 1, sizeof(struct scrape_type *));
	lock_take(&s->lock);
	for (size_t i = 0; i < specs.n && r == 0; i++)
		r = add_type(t, &specs.items[i], types, &n, eb);
	for (size_t i = 0; i < t->n_types; i++)
		if (t->types[i]) {
			scrape_live_hand_over(t->types[i], types, n);
			scrape_type_release(s, t->types[i]);
		}
	free(t->types);
	t->types = types;
	t->n_types = n;
	free(t->url);
	t->url = xstrdup(n ? types[0]->url : "");
	lock_release(&s->lock);
	return r;
}

/* ---- targets ---- */

static enum scrape_preset first_preset(enum config_preset p)
{
	return p == CONFIG_PRESET_NODE ? SCRAPE_PRESET_NODE
	       : p == CONFIG_PRESET_GO ? SCRAPE_PRESET_GO
				       : SCRAPE_PRESET_AUTO;
}

static uint64_t host_key(const char *address)
{
	const char *port = strrchr(address, ':');

	return hash_xxh3_seed(
		address, port ? (size_t)(port - address) : strlen(address), HOST_SEED);
}

static struct scrape_target *target_new(
	struct scrape *s, struct scrape_pool *p, struct target *built, uint64_t hash)
{
	struct scrape_target *t = xcalloc(1, sizeof(*t));
	int64_t now_real_ns = clock_realtime_ns(s->o.clock);
	struct errbuf eb = {0};

	t->stage = s;
	t->pool = p;
	t->hash = hash;
	t->t = *built;
	*built = (struct target) {0};
	t->preset = first_preset(p->job->profiling.preset);
	t->address = xstrdup(labels_get(&t->t.relabeled, "__address__"));
	t->host_key = host_key(t->address);
	t->slot_real_ns =
		scrape_next_slot(now_real_ns, t->t.interval_ms * NS_PER_MS, hash, s->seed);
	t->slot_mono_ns = clock_monotonic_ns(s->o.clock) + t->slot_real_ns - now_real_ns;
	if (scrape_target_set_types(t, &eb) < 0)
		log_printf(LOG_WARN, "job %s, target %s: %s", p->job->name, t->address, eb.text);
	return t;
}

static void keep_dropped(struct scrape_pool *p, struct target *built)
{
	uint64_t max = p->job->limits.keep_dropped_targets ? p->job->limits.keep_dropped_targets
							   : MAX_DROPPED_KEPT;

	p->n_dropped_total++;
	if (p->n_dropped >= max)
		return;
	p->dropped = xrealloc(p->dropped, (p->n_dropped + 1) * sizeof(*p->dropped));
	p->dropped[p->n_dropped++] = built->discovered;
	built->discovered = (struct labels) {0};
}

static struct scrape_target *find_target(const struct table *by_hash, uint64_t hash)
{
	const uint64_t *slot = table_find(by_hash, hash);

	return slot ? (struct scrape_target *)(uintptr_t)*slot : NULL;
}

/* What an update of a pool finds. */
struct sync {
	struct table by_hash; /* targets of the pool, and new ones */
	struct scrape_target *
		made; /* new ones, which join when those that are no longer named leave: nobody sees both */
	size_t n_made;
};

static void sync_target(
	struct scrape *s, struct scrape_pool *p, struct sync *sync, struct target *built)
{
	uint64_t hash = target_hash(p->job, built);
	struct scrape_target *t = find_target(&sync->by_hash, hash);
	uint64_t *slot;

	if (t) {
		/* what discovery says beside the labels may have changed */
		lock_take(&s->lock);
		labels_done(&t->t.discovered);
		t->t.discovered = built->discovered;
		lock_release(&s->lock);
		built->discovered = (struct labels) {0};
		t->is_marked = true;
		return;
	}
	t = target_new(s, p, built, hash);
	t->is_marked = true;
	slot = table_insert(&sync->by_hash, hash, NULL);
	if (!slot)
		err_panic("out of memory for targets");
	*slot = (uint64_t)(uintptr_t)t;
	t->next = sync->made;
	sync->made = t;
	sync->n_made++;
	scrape_heap_insert(s, t);
}

static void sync_group(
	struct scrape *s, struct scrape_pool *p, struct sync *sync, const struct discover_group *g)
{
	for (size_t i = 0; i < g->n_targets; i++) {
		_cleanup_target_ struct target built = {0};

		if (target_build(p->job, g, i, NULL, NULL, &built) < 0 ||
			built.state == TARGET_INVALID) {
			metric_inc(s->m.sync_failed);
			LOG_RATED(
				LOG_WARN, "job %s: invalid target: %s", p->job->name, built.error);
			continue;
		}
		if (built.state == TARGET_ACTIVE) {
			sync_target(s, p, sync, &built);
			continue;
		}
		lock_take(&s->lock);
		keep_dropped(p, &built);
		lock_release(&s->lock);
	}
}

/* In place of the targets that discovery no longer names. */
static void join_made(struct scrape *s, struct scrape_pool *p, struct sync *sync)
{
	struct scrape_target **at = &sync->made;

	while (*at)
		at = &(*at)->next;
	lock_take(&s->lock);
	*at = p->targets;
	p->targets = sync->made;
	p->n_targets += sync->n_made;
	for (at = &p->targets; *at;) {
		struct scrape_target *t = *at;

		if (t->is_marked) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		p->n_targets--;
		scrape_target_release(s, t, NULL);
	}
	scrape_parting_end(s, p->job->name, p->targets);
	lock_release(&s->lock);
}

static void count_targets(struct scrape *s, struct scrape_pool *p)
{
	uint64_t limit = p->job->limits.targets;

	p->over_target_limit = limit && p->n_targets > limit ? p->n_targets : 0;
	metric_set(metric_cell(s->m.pool_targets, p->job->name), (double)p->n_targets);
	metric_set(metric_cell(s->m.pool_dropped, p->job->name), (double)p->n_dropped_total);
}

static struct scrape_pool *pool_for(
	struct scrape *s, struct config *cfg, const struct config_job *job)
{
	struct scrape_pool *p = scrape_pool_find(s, job->name);

	lock_take(&s->lock);
	if (p && !config_job_equal(p->job, job)) {
		scrape_pool_free(s, p, true);
		p = NULL;
	}
	if (!p) {
		p = pool_new(s, cfg, job);
	} else if (p->cfg != cfg) {
		config_put(p->cfg);
		p->cfg = config_get(cfg);
		p->job = job;
	}
	drop_dropped(p);
	lock_release(&s->lock);
	return p;
}

void scrape_update(void *ctx, struct config *cfg, const struct config_job *job,
	const struct discover_group *const *groups, size_t n_groups)
{
	struct scrape *s = ctx;
	struct scrape_pool *p = pool_for(s, cfg, job);
	struct sync sync = {.made = NULL};

	table_init(&sync.by_hash, NULL);
	for (struct scrape_target *t = p->targets; t; t = t->next) {
		uint64_t *slot = table_insert(&sync.by_hash, t->hash, NULL);

		if (!slot)
			err_panic("out of memory for targets");
		*slot = (uint64_t)(uintptr_t)t;
		t->is_marked = false;
	}
	for (size_t i = 0; i < n_groups; i++)
		sync_group(s, p, &sync, groups[i]);
	table_done(&sync.by_hash);
	join_made(s, p, &sync);
	count_targets(s, p);
}

void scrape_apply(struct scrape *s, struct config *cfg)
{
	struct scrape_pool *next;

	s->seed = scrape_offset_seed(s->o.host_name, &cfg->global.external_labels);
	metric_add(s->m.log_failed, scrape_failure_log_open(&s->failure_log, cfg));
	lock_take(&s->lock);
	for (struct scrape_pool *p = s->pools; p; p = next) {
		const struct config_job *job = config_job_named(cfg, p->job->name);
		const char *const name[] = {p->job->name};

		next = p->next;
		if (job && config_job_equal(p->job, job)) {
			config_put(p->cfg);
			p->cfg = config_get(cfg);
			p->job = job;
			continue;
		}
		if (!job) {
			metric_remove_of(s->m.pool_targets, name, 1);
			metric_remove_of(s->m.pool_dropped, name, 1);
			scrape_parting_end(s, p->job->name, NULL);
		}
		scrape_pool_free(s, p, job != NULL);
	}
	lock_release(&s->lock);
}
