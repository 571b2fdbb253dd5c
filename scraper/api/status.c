/* SPDX-License-Identifier: Apache-2.0
 *
 * Prometheus' /api/v1/targets, scrape_pools and status endpoints, in its shapes.
 */
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include "scraper/api/api_impl.h"
#include <limits.h>
#include <string.h>
#include <unistd.h>

static const char *health_name(enum api_health h)
{
	return h == API_UP ? "up" : h == API_DOWN ? "down" : "unknown";
}

struct target_list {
	struct json *j;
	const char *pool; /* NULL: all */
	bool dropped;	  /* which half is written */
};

static void put_scrape(struct json *j, const char *last_error, int64_t last_ns, int64_t duration_ns,
	enum api_health health)
{
	char time[40];

	json_kv_string(j, "lastError", last_error ? last_error : "");
	api_format_time(last_ns, time);
	json_kv_string(j, "lastScrape", time);
	json_kv_double(j, "lastScrapeDuration", (double)duration_ns / 1e9);
	json_kv_string(j, "health", health_name(health));
}

static void put_interval(struct json *j, const char *key, int64_t ms)
{
	char text[64];

	str_format_duration_ms(ms, text);
	json_kv_string(j, key, text);
}

static void put_active(struct json *j, const struct api_target *t)
{
	json_object_begin(j);
	api_put_labels(j, "discoveredLabels", t->discovered);
	api_put_labels(j, "labels", t->labels);
	json_kv_string(j, "scrapePool", t->pool);
	json_kv_string(j, "scrapeUrl", t->url);
	json_kv_string(j, "globalUrl", t->global_url ? t->global_url : t->url);
	put_scrape(j, t->last_error, t->last_scrape_ns, t->last_duration_ns, t->health);
	put_interval(j, "scrapeInterval", t->interval_ms);
	put_interval(j, "scrapeTimeout", t->timeout_ms);
	json_kv_string(j, "collapsedLabels", t->collapsed ? t->collapsed : "");
	json_key(j, "profiles");
	json_array_begin(j);
	for (size_t i = 0; i < t->n_profiles; i++) {
		const struct api_target_profile *p = &t->profiles[i];

		json_object_begin(j);
		json_kv_string(j, "name", p->name);
		json_kv_string(j, "scrapeUrl", p->url);
		put_scrape(j, p->last_error, p->last_scrape_ns, p->last_duration_ns, p->health);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void put_target(const struct api_target *t, void *ctx)
{
	struct target_list *l = ctx;

	if (t->dropped != l->dropped || (l->pool && strcmp(l->pool, t->pool) != 0))
		return;
	if (!t->dropped) {
		put_active(l->j, t);
		return;
	}
	json_object_begin(l->j);
	api_put_labels(l->j, "discoveredLabels", t->discovered);
	json_kv_string(l->j, "scrapePool", t->pool);
	json_object_end(l->j);
}

static void put_targets(
	struct api *a, struct target_list *l, const char *key, bool wanted, bool dropped)
{
	json_key(l->j, key);
	json_array_begin(l->j);
	l->dropped = dropped;
	if (wanted && a->o.callbacks.each_target)
		a->o.callbacks.each_target(a->o.callbacks.arg, put_target, l);
	json_array_end(l->j);
}

struct pool_list {
	struct json *j;
	bool counts;
};

static void put_pool(const char *name, uint64_t n_dropped, void *ctx)
{
	struct pool_list *l = ctx;

	if (l->counts)
		json_kv_uint(l->j, name, n_dropped);
	else
		json_string(l->j, name);
}

static void put_pools(struct api *a, struct json *j, bool counts)
{
	struct pool_list l = {j, counts};

	if (a->o.callbacks.each_pool)
		a->o.callbacks.each_pool(a->o.callbacks.arg, put_pool, &l);
}

void api_targets(struct http_request *r, void *arg)
{
	const char *state = http_request_param(r, "state"),
		   *pool = http_request_param(r, "scrapePool");
	struct bytes out = {};
	struct api *a = arg;
	struct json j;
	struct target_list l = {.j = &j, .pool = pool && *pool ? pool : NULL};
	bool any = !state || !*state || !strcmp(state, "any");

	if (!any && strcmp(state, "active") != 0 && strcmp(state, "dropped") != 0) {
		api_reply_error(r, API_JSON, -EINVAL, "state: is none of active, dropped, any");
		return;
	}
	api_json_begin(&out, &j);
	json_object_begin(&j);
	put_targets(a, &l, "activeTargets", any || !strcmp(state, "active"), false);
	put_targets(a, &l, "droppedTargets", any || !strcmp(state, "dropped"), true);
	json_key(&j, "droppedTargetCounts");
	json_object_begin(&j);
	put_pools(a, &j, true);
	json_object_end(&j);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

void api_scrape_pools(struct http_request *r, void *arg)
{
	struct bytes out = {};
	struct json j;

	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_key(&j, "scrapePools");
	json_array_begin(&j);
	put_pools(arg, &j, false);
	json_array_end(&j);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

void api_status_config(struct http_request *r, void *arg)
{
	_cleanup_bytes_ struct bytes yaml = {};
	struct bytes out = {};
	struct api *a = arg;
	struct json j;

	if (a->o.callbacks.config_yaml)
		a->o.callbacks.config_yaml(a->o.callbacks.arg, &yaml);
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_key(&j, "yaml");
	json_string_n(&j, yaml.data ? (const char *)yaml.data : "", yaml.len);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

void api_status_flags(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};
	struct json j;

	api_json_begin(&out, &j);
	json_object_begin(&j);
	for (size_t i = 0; i < a->o.n_flags; i++)
		json_kv_string(&j, a->o.flags[i].name, a->o.flags[i].value);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

bool api_take_stats(struct api *a, struct store_stats *ret)
{
	bool open;

	*ret = (struct store_stats) {};
	pthread_rwlock_rdlock(&a->lock);
	open = a->store != NULL;
	if (open)
		store_stats(a->store, ret);
	pthread_rwlock_unlock(&a->lock);
	return open;
}

void api_retention(const struct api *a, struct bytes *ret)
{
	if (a->o.callbacks.retention)
		a->o.callbacks.retention(a->o.callbacks.arg, ret);
	bytes_put_u8(ret, 0);
	if (bytes_error(ret) < 0)
		err_panic("out of memory");
}

static int64_t count_threads(void)
{
	_cleanup_bytes_ struct bytes names = {};
	int64_t n = 0;

	if (fs_system.list(&fs_system, "/proc/self/task", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.len; i++)
		n += names.data[i] == 0;
	return n;
}

void api_runtimeinfo(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct store_stats s;
	_cleanup_bytes_ struct bytes retention = {};
	struct bytes out = {};
	struct json j;
	char time[40], cwd[PATH_MAX], host[256] = "";
	bool ok = true;
	int64_t reload = 0;

	api_take_stats(a, &s);
	if (a->o.callbacks.last_reload_ns)
		reload = a->o.callbacks.last_reload_ns(a->o.callbacks.arg, &ok);
	api_json_begin(&out, &j);
	json_object_begin(&j);
	api_format_time(a->o.start_time_ns, time);
	json_kv_string(&j, "startTime", time);
	api_format_time(clock_realtime_ns(a->o.clock), time);
	json_kv_string(&j, "serverTime", time);
	json_kv_bool(&j, "reloadConfigSuccess", ok);
	api_format_time(reload, time);
	json_kv_string(&j, "lastConfigTime", time);
	json_kv_string(&j, "CWD", getcwd(cwd, sizeof(cwd)) ? cwd : "");
	json_kv_uint(&j, "corruptionCount", s.blocks_quarantined + s.replay_damaged_records);
	json_kv_string(&j, "hostname", gethostname(host, sizeof(host) - 1) == 0 ? host : "");
	/* clients written for Prometheus may expect these: threads for goroutines, and Go's number for "no limit" */
	json_kv_int(&j, "goroutineCount", count_threads());
	json_kv_int(&j, "GOMAXPROCS", sysconf(_SC_NPROCESSORS_ONLN));
	json_kv_int(&j, "GOMEMLIMIT", INT64_MAX);
	json_kv_string(&j, "GOGC", "");
	json_kv_string(&j, "GODEBUG", "");
	api_retention(a, &retention);
	json_kv_string(&j, "storageRetention", (const char *)retention.data);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

/* Prometheus counts segments; here it is bytes. Answers while the log is read, which is its point. */
void api_walreplay(struct http_request *r, void *arg)
{
	struct api *a = arg;
	uint64_t done = 0, total = 0;
	bool running = a->o.callbacks.replaying &&
		       a->o.callbacks.replaying(a->o.callbacks.arg, &done, &total);
	struct bytes out = {};
	struct json j;

	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_kv_uint(&j, "min", 0);
	json_kv_uint(&j, "max", total);
	json_kv_uint(&j, "current", done);
	json_kv_string(&j, "state", running ? "in progress" : "done");
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

void api_buildinfo(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};
	struct json j;

	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_kv_string(&j, "version", a->o.version ? a->o.version : version_number());
	json_kv_string(&j, "revision", version_revision());
	json_kv_string(&j, "branch", "");
	json_kv_string(&j, "buildUser", "");
	json_kv_string(&j, "buildDate", "");
	json_kv_string(&j, "goVersion", "");
	json_kv_string(&j, "compiler", version_compiler());
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}
