/* SPDX-License-Identifier: Apache-2.0
 *
 * Start, reload and stop of the scraper.
 */
#include "scraper/pipeline_impl.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include "lib/net/url/url.h"
#include "scraper/query/workers.h"
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STOP_GRACE_MS = 5000, QUERY_NICE = 5, HOST_NAME_BYTES = 256, SCRAPE_RESERVE_SHARE = 4 };
/* Of each second in which blocks wait to be compacted. */
enum { UPKEEP_MS = 500 };
/* Descriptors of the store, logs and listeners; connections that are kept open at most. */
enum { FILE_DESCRIPTORS = 512, MAX_SCRAPE_CONNECTIONS = 1 << 20 };

static const char *get_variable(const char *name, void *ctx)
{
	(void)ctx;
	return getenv(name);
}

static int load_config(struct scraper_pipeline *p, struct config **ret, struct errbuf *eb)
{
	const struct config_load_opts opts = {.getenv = get_variable};
	int r = config_load(p->fs, p->o->config_file, &opts, ret, eb);

	if (r == -ENOENT || r == -EACCES)
		return err_prefix(eb, r, "--config.file");
	if (r < 0)
		return r;
	for (size_t i = 0; i < (*ret)->n_warnings; i++)
		log_write(LOG_WARN, "configuration", "warning", (*ret)->warnings[i].text, NULL);
	return 0;
}

/* Whether these files are the ones in force. */
static bool config_is_loaded(struct scraper_pipeline *p, const struct config *cfg)
{
	bool same;

	lock_take(&p->lock);
	same = p->reload_ok && !memcmp(cfg->sha256, p->config->sha256, sizeof(cfg->sha256));
	lock_release(&p->lock);
	return same;
}

static void note_reload(struct scraper_pipeline *p, struct config *cfg)
{
	struct config *old = NULL, *unused = NULL;

	lock_take(&p->lock);
	p->reload_ok = cfg != NULL;
	p->n_reloads++;
	p->n_reload_failures += !cfg;
	if (cfg) {
		old = p->config;
		unused = p->pending;
		p->config = cfg;
		p->pending = config_get(cfg);
		p->reload_ns = clock_realtime_ns(p->clock);
	}
	lock_release(&p->lock);
	config_putp(&old);
	config_putp(&unused);
}

/* Of what a load gave: equal ones, equal files or the same complaint about them. */
static uint64_t hash_load(int r, const struct config *cfg, const struct errbuf *eb)
{
	return r < 0 ? hash_xxh3(eb->text, strlen(eb->text))
		     : hash_xxh3(cfg->sha256, sizeof(cfg->sha256));
}

/* -EAGAIN, and nothing is changed, when `expected` is given and the files say something else. */
static int reload(struct scraper_pipeline *p, const uint64_t *expected, struct errbuf *eb)
{
	struct config *cfg = NULL;
	bool has_store;
	int r;

	lock_take(&p->reload_lock);
	r = load_config(p, &cfg, eb);
	if (expected && hash_load(r, cfg, eb) != *expected) {
		lock_release(&p->reload_lock);
		config_putp(&cfg);
		return -EAGAIN;
	}
	note_reload(p, r < 0 ? NULL : cfg);
	has_store = p->store;
	lock_release(&p->reload_lock);
	if (r < 0) {
		log_write(LOG_ERROR, "configuration not loaded, the old one stays in force",
			"error", eb->text, NULL);
		return r;
	}
	log_write(LOG_INFO, "configuration loaded", "file", p->o->config_file, NULL);
	if (has_store)
		scraper_storage_apply(p);
	if (p->scrape)
		scrape_wake(p->scrape);
	return 0;
}

int scraper_pipeline_reload(struct scraper_pipeline *p, struct errbuf *eb)
{
	return reload(p, NULL, eb);
}

/*
 * Loads anew when the files differ from those in force. A bad state of them is reported once. Two loads have to agree: files that are
 * being swapped may be missing for a moment, or come half from the old set and half from the new one, and are looked at again.
 */
static void reload_if_changed(struct scraper_pipeline *p)
{
	const struct config_load_opts opts = {.getenv = get_variable};
	_cleanup_(config_putp)
	struct config *cfg = NULL;
	struct errbuf eb = {0}, again = {0};
	uint64_t seen;
	int r = config_load(p->fs, p->o->config_file, &opts, &cfg, &eb);

	/* p->config is replaced by this thread's reloads and by /-/reload, whose file is then the same */
	if (r == 0 && config_is_loaded(p, cfg))
		return;
	seen = hash_load(r, cfg, &eb);
	if (r < 0 && seen == p->auto_reload_failure)
		return;
	if (reload(p, &seen, &again) != -EAGAIN)
		p->auto_reload_failure = r < 0 ? seen : 0;
}

/* Budgets: what input can size is bounded by these. */
static void init_budgets(struct scraper_pipeline *p)
{
	budget_init(&p->process, NULL, "process", NULL, 0);
	budget_init(&p->scrape_budget, &p->process, "scrape", "--scrape.max-memory",
		p->o->scrape_max_memory);
	p->scrape_budget.reserve_bytes = p->o->scrape_max_memory / SCRAPE_RESERVE_SHARE;
	budget_init(&p->query_budget, &p->process, "query", "--query.max-memory",
		p->o->query_max_memory);
	budget_init(&p->cache_budget, &p->process, "query_cache", "--query.cache-bytes",
		p->o->query_cache_bytes);
}

/* The external URL gives the route prefix, unless one was set, and a Host that loopback listeners accept. */
static int read_external_url(struct scraper_pipeline *p, struct errbuf *eb)
{
	const char *prefix = p->o->route_prefix;
	_cleanup_url_ struct url u = {0};
	size_t n;
	int r;

	if (p->o->external_url) {
		r = url_parse(p->o->external_url, &u, eb);
		if (r < 0)
			return err_prefix(eb, r, "--web.external-url \"%s\"", p->o->external_url);
		p->external_host = xasprintf(strchr(u.host, ':') ? "[%s]" : "%s", u.host);
	}
	p->route_prefix = xstrdup(prefix ? prefix : u.path ? u.path : "");
	n = strlen(p->route_prefix);
	while (n && p->route_prefix[n - 1] == '/')
		p->route_prefix[--n] = '\0';
	if (n && p->route_prefix[0] != '/')
		return err_set(eb, -EINVAL, "--web.route-prefix \"%s\" must start with '/'",
			p->route_prefix);
	return 0;
}

static unsigned n_query_threads(const struct scraper_pipeline *p)
{
	return p->o->query_threads ? (unsigned)p->o->query_threads
				   : (unsigned)MAX(1L, sysconf(_SC_NPROCESSORS_ONLN));
}

/*
 * Connections take what descriptors there are, but not those of the store: clients a quarter at most, whatever their number, targets the
 * rest or half, to which they stay open while it reaches. The soft limit is often a historical 1024.
 */
static void share_descriptors(struct scraper_pipeline *p)
{
	struct rlimit limit = {.rlim_cur = 0};
	rlim_t others;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = MIN(limit.rlim_cur, (rlim_t)MAX_SCRAPE_CONNECTIONS);
	p->max_web_connections =
		(unsigned)MIN((rlim_t)p->o->max_connections, MAX(limit.rlim_cur / 4, (rlim_t)1));
	if (p->max_web_connections < p->o->max_connections)
		log_printf(LOG_WARN,
			"the limit of open files, %" PRIu64
			", leaves room for %u connections of clients "
			"(--web.max-connections=%" PRIu64
			"): raise it with ulimit -n or LimitNOFILE=",
			(uint64_t)limit.rlim_cur, p->max_web_connections, p->o->max_connections);
	others = p->max_web_connections + FILE_DESCRIPTORS;
	p->max_scrape_connections = (unsigned)(limit.rlim_cur > 2 * others ? limit.rlim_cur - others
									   : limit.rlim_cur / 2);
}

static int open_server(struct scraper_pipeline *p, struct errbuf *eb)
{
	size_t n_routes = 0;
	const struct http_route *routes = api_routes(p->api, &n_routes);
	const struct http_server_options o = {
		.listen = p->o->listen.items,
		.n_listen = p->o->listen.n,
		.route_prefix = p->route_prefix,
		.cors_origin = p->o->cors_origin,
		.web_config_file = p->o->web_config_file,
		.external_host = p->external_host,
		.server_name = p->server_name,
		.refuse = api_refuse,
		.n_workers = n_query_threads(p),
		.max_connections = p->max_web_connections,
		.job_timeout_ms = (uint32_t)MIN(p->o->query_timeout_ms, (int64_t)UINT32_MAX),
		.worker_nice = QUERY_NICE,
		.clock = p->clock,
		.budget = &p->query_budget,
		.metrics = p->metrics,
	};
	int r = http_server_open(&o, routes, n_routes, p->api, &p->server, eb);

	return r < 0 ? r : http_server_start(p->server, eb);
}

static int make_api(struct scraper_pipeline *p, struct errbuf *eb)
{
	int r = query_workers_new(n_query_threads(p) - 1, QUERY_NICE, &p->workers, eb);
	struct api_options o = {
		.callbacks = scraper_api_callbacks(p),
		.budget = &p->query_budget,
		.cache_budget = &p->cache_budget,
		.max_query_bytes = p->o->query_max_bytes,
		.workers = p->workers,
		.clock = p->clock,
		.metrics = p->metrics,
		.flags = p->flags,
		.n_flags = p->n_flags,
		.enable_lifecycle = p->o->enable_lifecycle,
		.enable_admin = p->o->enable_admin,
		.version = version_number(),
		.source_dir = p->o->source_dir,
		.max_source_bytes = p->o->source_max_bytes,
		.speedscope_dir = p->o->speedscope_dir,
		.route_prefix = p->route_prefix,
		.query_timeout_ms = p->o->query_timeout_ms,
		.max_nodes = (uint32_t)p->o->query_max_nodes,
		.max_body_bytes = p->o->max_body_bytes,
		.max_inflated_bytes = p->o->max_inflated_bytes,
		.start_time_ns = clock_realtime_ns(p->clock),
		.fs = p->fs,
	};

	p->settings_path = xasprintf("%s/settings.json", p->o->storage_path);
	o.settings_path = p->settings_path;
	return r < 0 ? r : api_new(&o, &p->api, eb);
}

/* The log is read before signals are waited for. To end there is what a crash would be, which the store bears at any time. */
static void end_if_told(void)
{
	sigset_t set;

	if (sigpending(&set) < 0 || (!sigismember(&set, SIGTERM) && !sigismember(&set, SIGINT)))
		return;
	log_write(LOG_INFO, "stopping", "while", "the write-ahead log is read", NULL);
	_exit(0);
}

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct scraper_pipeline *p = arg;

	end_if_told();
	lock_take(&p->lock);
	p->replay_done = done;
	p->replay_total = total;
	lock_release(&p->lock);
}

static int open_store(struct scraper_pipeline *p, struct errbuf *eb)
{
	struct store *store = NULL;
	struct store_options o = {
		.path = p->o->storage_path,
		.fs = p->fs,
		.clock = p->clock,
		.budget = &p->process,
		.head_bytes = p->o->head_bytes,
		.cache_bytes = p->o->cache_bytes,
		.compact_bytes = p->o->compact_bytes,
		.out_of_order_ns = p->o->out_of_order_ms * NS_PER_MS,
		.retention_bytes = p->o->retention_bytes,
		.rollup_without = p->o->rollup_without,
		.upkeep_ns = UPKEEP_MS * NS_PER_MS,
		.progress = on_progress,
		.progress_arg = p,
	};
	int r = scraper_storage_parse_retention(p->o->retention_time, &o.retention_ns, eb);

	if (r == 0) {
		r = store_parse_fsync(p->o->fsync, &o, eb);
		if (r < 0)
			return err_prefix(eb, r, "--storage.fsync");
	}
	if (r < 0)
		return r;
	r = fs_make_dirs(p->fs, p->o->storage_path, 0755);
	if (r < 0)
		return err_set(eb, r, "cannot make the data directory %s: %s", p->o->storage_path,
			strerror(-r));
	r = store_open(&o, &store, eb);
	/* A configuration may be loaded anew by now. */
	lock_take(&p->reload_lock);
	p->store = store;
	lock_release(&p->reload_lock);
	return r;
}

static int sink_append(
	void *arg, const struct store_scrape *s, struct store_result *ret, struct errbuf *eb)
{
	return store_append(arg, s, ret, eb);
}

static int sink_cursor_get(void *arg, struct store_blob key, struct bytes *ret)
{
	return store_cursor_get(arg, key, ret);
}

static int make_scrape(struct scraper_pipeline *p, struct errbuf *eb)
{
	const struct scrape_options o = {
		.clock = p->clock,
		.fs = p->fs,
		.budget = &p->scrape_budget,
		.metrics = p->metrics,
		.sink = {.arg = p->store, .append = sink_append, .cursor_get = sink_cursor_get},
		.user_agent = p->user_agent,
		.host_name = p->host_name,
		.max_body_bytes = p->o->max_body_bytes,
		.max_inflated_bytes = p->o->max_inflated_bytes,
		.max_connections = p->max_scrape_connections,
		.max_per_host = (unsigned)p->o->max_per_host,
	};
	struct scrape *scrape = NULL;
	int r = scrape_new(&o, &scrape, eb);

	if (r == 0)
		r = discover_new(&(struct discover_options) {.fs = p->fs,
					 .clock = p->clock,
					 .update = scrape_update,
					 .ctx = scrape,
					 .user_agent = p->user_agent,
					 .max_answer_bytes = p->o->discover_max_answer_bytes,
					 .max_event_bytes = p->o->discover_max_event_bytes},
			&p->discover, eb);
	if (r == 0 && discover_fd(p->discover) >= 0)
		r = scrape_watch(scrape, discover_fd(p->discover));
	if (r == 0)
		r = scrape_start(scrape, eb);
	if (r < 0) {
		scrape_freep(&scrape);
		return r;
	}
	lock_take(&p->lock);
	p->scrape = scrape;
	lock_release(&p->lock);
	scraper_publish_discovery(p); /* all kinds have rows once it is ready */
	return 0;
}

static void set_names(struct scraper_pipeline *p)
{
	char host[HOST_NAME_BYTES] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	p->host_name = xstrdup(host);
	p->user_agent = xasprintf("sonde/%s", version_number());
	p->server_name = xasprintf("sonde-scraper/%s", version_number());
}

static struct scraper_pipeline *pipeline_new(const struct scraper_options *o)
{
	struct scraper_pipeline *p = xcalloc(1, sizeof(*p));

	p->o = o;
	p->clock = &clock_system;
	p->fs = &fs_system;
	lock_init(&p->reload_lock);
	lock_init(&p->lock);
	lock_cond_init(&p->tick);
	init_budgets(p);
	set_names(p);
	p->metrics = metrics_new();
	scraper_metrics_add(p);
	scraper_api_flags(p);
	return p;
}

int scraper_pipeline_start(
	const struct scraper_options *o, struct scraper_pipeline **ret, struct errbuf *eb)
{
	_cleanup_(scraper_pipeline_freep)
	struct scraper_pipeline *p = pipeline_new(o);
	struct config *cfg = NULL;
	int r = load_config(p, &cfg, eb);

	if (r < 0)
		return r;
	note_reload(p, cfg);
	share_descriptors(p);
	r = read_external_url(p, eb);
	if (r == 0)
		r = make_api(p, eb);
	if (r == 0)
		r = open_server(p, eb);
	if (r < 0)
		return r;
	for (size_t i = 0; http_server_address(p->server, i); i++)
		log_write(
			LOG_INFO, "listening", "address", http_server_address(p->server, i), NULL);
	r = open_store(p, eb);
	if (r < 0)
		return r;
	scraper_storage_apply(p);
	api_set_store(p->api, p->store);
	r = make_scrape(p, eb);
	if (r == 0)
		r = scraper_threads_start(p, eb);
	if (r < 0)
		return r;
	lock_take(&p->lock);
	p->is_ready = true;
	lock_release(&p->lock);
	log_write(LOG_INFO, "ready", "storage", o->storage_path, NULL);
	*ret = TAKE(p);
	return 0;
}

int scraper_pipeline_run(struct scraper_pipeline *p)
{
	const struct timespec interval = {.tv_sec = p->o->auto_reload_ms / 1000,
		.tv_nsec = p->o->auto_reload_ms % 1000 * NS_PER_MS};
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1); /* /-/quit */
	for (;;) {
		struct errbuf eb = {0};

		sig = sigtimedwait(&set, NULL, p->o->auto_reload ? &interval : NULL);
		if (sig == SIGHUP)
			(void)!scraper_pipeline_reload(p, &eb);
		else if (sig > 0)
			break;
		else if (errno == EAGAIN)
			reload_if_changed(p);
	}
	log_write(
		LOG_INFO, "stopping", "signal", sig == SIGUSR1 ? "/-/quit" : strsignal(sig), NULL);
	return 0;
}

void scraper_pipeline_stop(struct scraper_pipeline *p)
{
	if (p->stopped)
		return;
	p->stopped = true;
	p->stopping = true;
	if (p->store)
		store_cancel(p->store); /* a request may be what compacts */
	if (p->server)
		http_server_stop(p->server, STOP_GRACE_MS);
	scraper_threads_stop(p);
	if (p->scrape)
		scrape_stop(p->scrape);
	if (p->api)
		api_set_store(p->api, NULL);
	if (p->store)
		store_close(TAKE(p->store));
}

void scraper_pipeline_freep(struct scraper_pipeline **pp)
{
	struct scraper_pipeline *p = *pp;

	if (!p)
		return;
	scraper_pipeline_stop(p);
	http_server_freep(&p->server);
	api_freep(&p->api);
	query_workers_freep(&p->workers);
	discover_freep(&p->discover);
	scrape_freep(&p->scrape);
	config_putp(&p->config);
	config_putp(&p->pending);
	metrics_freep(&p->metrics);
	for (size_t i = 0; i < p->n_flags; i++)
		free(p->flag_values[i]);
	free(p->flag_values);
	free(p->flags);
	free(p->route_prefix);
	free(p->external_host);
	free(p->settings_path);
	free(p->user_agent);
	free(p->server_name);
	free(p->host_name);
	pthread_cond_destroy(&p->tick);
	lock_done(&p->lock);
	lock_done(&p->reload_lock);
	free(p);
	*pp = NULL;
}
