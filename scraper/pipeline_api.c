/* SPDX-License-Identifier: Apache-2.0
 *
 * What the API asks of the other stages. Each callback may run on any worker.
 */
#include "scraper/pipeline_impl.h"
#include "lib/base/alloc.h"
#include "lib/net/url/url.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_MAX_TYPES = 128 };

static struct scrape *get_scrape(struct scraper_pipeline *p)
{
	struct scrape *s;

	lock_take(&p->lock);
	s = p->scrape;
	lock_release(&p->lock);
	return s;
}

static enum api_health health(enum scrape_health h)
{
	return h == SCRAPE_UP ? API_UP : h == SCRAPE_DOWN ? API_DOWN : API_UNKNOWN;
}

static bool is_loopback_name(const char *host)
{
	return !strcmp(host, "localhost") || !strcmp(host, "127.0.0.1") || !strcmp(host, "::1");
}

/* The URL for who reads the page elsewhere: there, a loopback address would be their own machine. */
static const char *global_url(
	const struct scraper_pipeline *p, struct arena *a, const char *target_url)
{
	const char *host = p->external_host ? p->external_host : p->host_name, *copy;
	_cleanup_url_ struct url u = {0};
	_cleanup_bytes_ struct bytes text = {0};
	bool is_v6 = host && host[0] == '[';

	if (!host || url_parse(target_url, &u, NULL) < 0 || !is_loopback_name(u.host))
		return target_url;
	free(u.host);
	u.host = xstrndup(host + is_v6, strlen(host) - 2 * is_v6);
	url_print(&u, false, &text);
	bytes_put_u8(&text, 0);
	copy = bytes_error(&text) == 0 ? arena_strdup(a, (const char *)text.data) : NULL;
	return copy ? copy : target_url;
}

static void give_target(const struct scraper_pipeline *p, struct arena *a,
	const struct scrape_status_target *t, api_target_fn *fn, void *ctx)
{
	struct api_target_profile profiles[STATUS_MAX_TYPES];
	struct api_target out = {
		.discovered = &t->discovered,
		.labels = &t->labels,
		.pool = t->pool,
		.url = t->url,
		.global_url = global_url(p, a, t->url),
		.last_error = t->last_error,
		.collapsed = t->collapsed,
		.health = health(t->health),
		.last_scrape_ns = t->last_scrape_ns,
		.last_duration_ns = t->last_duration_ns,
		.interval_ms = t->interval_ms,
		.timeout_ms = t->timeout_ms,
		.profiles = profiles,
		.dropped = t->dropped,
	};

	for (size_t i = 0; i < t->n_types && i < STATUS_MAX_TYPES; i++) {
		const struct scrape_status_type *type = &t->types[i];

		profiles[out.n_profiles++] = (struct api_target_profile) {
			.name = type->name,
			.url = type->url,
			.last_error = type->last_error,
			.health = health(type->health),
			.last_scrape_ns = type->last_scrape_ns,
			.last_duration_ns = type->last_duration_ns,
		};
	}
	fn(&out, ctx);
}

static void each_target(void *arg, api_target_fn *fn, void *ctx)
{
	struct scraper_pipeline *p = arg;
	struct scrape *s = get_scrape(p);
	struct scrape_status status;
	_cleanup_arena_ struct arena a = {0};

	arena_init(&a, &p->query_budget);
	if (!s || scrape_status_get(s, &a, &status) < 0)
		return;
	for (size_t i = 0; i < status.n_targets; i++)
		give_target(p, &a, &status.targets[i], fn, ctx);
}

static struct config *take_config(struct scraper_pipeline *p)
{
	struct config *cfg;

	lock_take(&p->lock);
	cfg = config_get(p->config);
	lock_release(&p->lock);
	return cfg;
}

static void each_pool(
	void *arg, void (*fn)(const char *name, uint64_t n_dropped, void *ctx), void *ctx)
{
	struct config *cfg = take_config(arg);
	struct scrape *s = get_scrape(arg);

	for (size_t i = 0; i < cfg->n_jobs; i++)
		fn(cfg->jobs[i].name, s ? scrape_status_dropped(s, cfg->jobs[i].name) : 0, ctx);
	config_put(cfg);
}

static void config_yaml(void *arg, struct bytes *out)
{
	struct config *cfg = take_config(arg);

	config_print(cfg, out);
	config_put(cfg);
}

static bool pool_yaml(void *arg, const char *pool, struct bytes *out)
{
	struct config *cfg = take_config(arg);
	const struct config_job *job = config_job_named(cfg, pool);

	if (job)
		bytes_put(out, job->text, job->text_len);
	config_put(cfg);
	return job != NULL;
}

static void put_labels(struct json *j, struct labels_builder *b)
{
	_cleanup_labels_ struct labels labels = {0};

	json_object_begin(j);
	if (labels_builder_finish(b, &labels) == 0)
		for (size_t i = 0; i < labels.n; i++)
			json_kv_string(j, labels.items[i].name, labels.items[i].value);
	json_object_end(j);
}

/* A step for each rule, as Prometheus: once one has dropped the labels, nothing is left for those after it. */
static int put_steps(
	const struct config_job *job, struct labels_builder *b, struct json *j, struct errbuf *eb)
{
	int kept = 1;

	for (size_t i = 0; i < job->n_relabel; i++) {
		if (kept)
			kept = relabel_apply_rule(&job->relabel[i], b, eb);
		if (kept < 0)
			return err_prefix(eb, kept, "rule %zu", i + 1);
		json_object_begin(j);
		json_key(j, "rule");
		config_rule_json(&job->relabel[i], j);
		json_key(j, "output");
		if (kept) {
			put_labels(j, b);
		} else {
			json_object_begin(j);
			json_object_end(j);
		}
		json_kv_bool(j, "keep", kept > 0);
		json_object_end(j);
	}
	return 0;
}

static int relabel_steps(
	void *arg, const char *pool, const char *labels, struct json *j, struct errbuf *eb)
{
	_cleanup_labels_builder_ struct labels_builder b;
	struct config *cfg = take_config(arg);
	const struct config_job *job = config_job_named(cfg, pool);
	int r = job ? 0 : -ENOENT;

	labels_builder_init(&b);
	if (r == 0) {
		r = config_parse_labels(labels, &b, eb);
		r = r < 0 ? err_prefix(eb, r, "labels") : put_steps(job, &b, j, eb);
	}
	config_put(cfg);
	return r;
}

static bool replaying(void *arg, uint64_t *ret_done, uint64_t *ret_total)
{
	struct scraper_pipeline *p = arg;
	bool ready;

	lock_take(&p->lock);
	*ret_done = p->replay_done;
	*ret_total = p->replay_total;
	ready = p->is_ready;
	lock_release(&p->lock);
	return !ready;
}

static bool is_ready(void *arg, char ret_reason[256])
{
	struct scraper_pipeline *p = arg;
	struct store_stats stats = {0};
	bool ready;

	lock_take(&p->lock);
	ready = p->is_ready;
	if (!ready)
		snprintf(ret_reason, 256, "replaying the write-ahead log, %llu %%",
			(unsigned long long)(p->replay_total
						     ? 100 * p->replay_done / p->replay_total
						     : 0));
	lock_release(&p->lock);
	if (!ready)
		return false;
	store_stats(p->store, &stats);
	if (stats.stopped)
		snprintf(ret_reason, 256, "%s", stats.stop_reason);
	return !stats.stopped;
}

static int reload(void *arg, struct errbuf *eb)
{
	return scraper_pipeline_reload(arg, eb);
}

/* The main thread waits for signals; this one means /-/quit. */
static void quit(void *arg)
{
	(void)arg;
	kill(getpid(), SIGUSR1);
}

static int64_t last_reload(void *arg, bool *ret_ok)
{
	struct scraper_pipeline *p = arg;
	int64_t at_ns;

	lock_take(&p->lock);
	at_ns = p->reload_ns;
	*ret_ok = p->reload_ok;
	lock_release(&p->lock);
	return at_ns;
}

struct api_callbacks scraper_api_callbacks(struct scraper_pipeline *p)
{
	return (struct api_callbacks) {
		.arg = p,
		.each_target = each_target,
		.each_pool = each_pool,
		.config_yaml = config_yaml,
		.pool_yaml = pool_yaml,
		.relabel_steps = relabel_steps,
		.replaying = replaying,
		.ready = is_ready,
		.reload = reload,
		.quit = quit,
		.last_reload_ns = last_reload,
		.retention = scraper_storage_describe,
	};
}

void scraper_api_flags(struct scraper_pipeline *p)
{
	p->flags = xcalloc(scraper_program.n_specs, sizeof(*p->flags));
	p->flag_values = xcalloc(scraper_program.n_specs, sizeof(*p->flag_values));
	for (size_t i = 0; i < scraper_program.n_specs; i++) {
		const struct option_spec *spec = &scraper_program.specs[i];
		_cleanup_bytes_ struct bytes text = {0};

		if (spec->kind == OPTION_KIND_HEADING)
			continue;
		bytes_init(&text, NULL, 0);
		option_print_value(spec, p->o, &text);
		p->flag_values[p->n_flags] =
			xstrndup(text.len ? (const char *)text.data : "", text.len);
		p->flags[p->n_flags] =
			(struct api_flag) {.name = spec->name, .value = p->flag_values[p->n_flags]};
		p->n_flags++;
	}
}
