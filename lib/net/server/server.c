/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of the server: bind, start the threads, stop without losing a reply, free.
 */
#include "lib/net/server/tls.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

static const double duration_bounds[] = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60};

/* Connections that only wait for jobs must not be all there are: the rest is for monitoring. */
static unsigned default_max_jobs(unsigned max_connections)
{
	unsigned reserved = MAX(1U, max_connections / HTTP_MONITORING_SHARE);

	return MAX(1U, max_connections - MIN(max_connections, reserved));
}

static void set_defaults(struct http_server_options *o)
{
	o->n_workers = MAX(o->n_workers, 1U);
	o->max_connections = o->max_connections ? o->max_connections : 512;
	o->max_jobs = o->max_jobs ? o->max_jobs : default_max_jobs(o->max_connections);
	o->max_header_bytes = o->max_header_bytes ? o->max_header_bytes : 32 << 10;
	o->max_body_bytes = o->max_body_bytes ? o->max_body_bytes : 1 << 20;
	o->read_timeout_ms = o->read_timeout_ms ? o->read_timeout_ms : 30000;
	o->idle_timeout_ms = o->idle_timeout_ms ? o->idle_timeout_ms : 300000;
	o->write_timeout_ms = o->write_timeout_ms ? o->write_timeout_ms : 60000;
	o->min_write_rate = o->min_write_rate ? o->min_write_rate : 64 << 10;
	o->job_timeout_ms = o->job_timeout_ms ? o->job_timeout_ms : 120000;
	o->clock = o->clock ? o->clock : &clock_system;
	o->fs = o->fs ? o->fs : &fs_system;
}

static void add_metrics(struct http_server *s)
{
	struct metrics *m = s->o.metrics;

	s->m_requests = metrics_counter(m, "sonde_http_requests_total",
		"HTTP responses by handler and status code.", "handler,code");
	s->m_duration = metrics_histogram(m, "sonde_http_request_duration_seconds",
		"Time from the request line to the reply, waiting included.", "handler",
		duration_bounds, ARRAY_SIZE(duration_bounds));
	s->m_refused = metrics_counter(m, "sonde_http_connections_refused_total",
		"Connections refused by reason: connections, connections_per_ip, descriptors.",
		"reason");
	s->m_cut = metrics_counter(m, "sonde_http_timeouts_total",
		"Requests cut for slowness: read, write or job.", "what");
	s->m_conns = metric_only(
		metrics_gauge(m, "sonde_http_connections", "Open HTTP connections.", NULL));
	s->m_displaced = metric_only(metrics_counter(m, "sonde_http_connections_displaced_total",
		"Connections without a running request that made room for another one.", NULL));
	s->m_parked = metric_only(metrics_gauge(m, "sonde_http_parked_requests",
		"Requests that wait for their time, for a worker or for their job.", NULL));
	http_guard_add_metrics(s);
	s->m_gone = metric_only(metrics_counter(m, "sonde_http_aborted_requests_total",
		"Requests whose client left before the reply was sent.", NULL));
}

static struct http_server *server_new(const struct http_server_options *o)
{
	struct http_server *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	set_defaults(&s->o);
	s->route_prefix = xstrdup(o->route_prefix ? o->route_prefix : "");
	s->cors_origin = o->cors_origin ? xstrdup(o->cors_origin) : NULL;
	s->external_host = o->external_host ? xstrdup(o->external_host) : NULL;
	s->server_name = o->server_name ? xstrdup(o->server_name) : NULL;
	s->web_config_file =
		o->web_config_file && *o->web_config_file ? xstrdup(o->web_config_file) : NULL;
	s->own_metrics = o->metrics ? NULL : metrics_new();
	s->o.metrics = o->metrics ? o->metrics : s->own_metrics;
	s->epoll_fd = s->wake_fd = -1;
	for (size_t i = 0; i < HTTP_N_QUEUES; i++)
		s->queues[i].end = &s->queues[i].first;
	lock_init(&s->lock);
	lock_cond_init(&s->job_ready);
	lock_cond_init(&s->monitoring_ready);
	lock_cond_init(&s->drained);
	table_init(&s->conns, NULL);
	add_metrics(s);
	return s;
}

int http_server_open(const struct http_server_options *o, const struct http_route *routes,
	size_t n_routes, void *arg, struct http_server **ret, struct errbuf *eb)
{
	_cleanup_(http_server_freep)
	struct http_server *s = server_new(o);
	size_t prefix_len = strlen(s->route_prefix);
	int r;

	if (prefix_len && (s->route_prefix[0] != '/' || s->route_prefix[prefix_len - 1] == '/'))
		return err_set(eb, -EINVAL,
			"route prefix \"%s\" must start with '/' and not end with it",
			s->route_prefix);
	if (!o->n_listen)
		return err_set(eb, -EINVAL, "no address to listen on");
	r = http_guard_open(s, eb);
	if (r < 0)
		return r;
	s->routes = routes;
	s->n_routes = n_routes;
	s->arg = arg;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->wake_fd < 0)
		return err_set(eb, -errno, "epoll or eventfd: %s", strerror(errno));
	for (size_t i = 0; i < o->n_listen; i++) {
		r = http_listen_open(s, o->listen[i], eb);
		if (r < 0)
			return r;
	}
	*ret = TAKE(s);
	return 0;
}

const char *http_server_address(const struct http_server *s, size_t i)
{
	return i < s->n_listeners ? s->listeners[i].address : NULL;
}

static void _printf_(2, 0) log_mhd(void *cls, const char *fmt, va_list ap)
{
	char text[256];

	(void)cls;
	if (!log_enabled(LOG_DEBUG))
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_printf(LOG_DEBUG, "libmicrohttpd: %s", text);
}

static int start_daemon(struct http_server *s, struct errbuf *eb)
{
	struct MHD_OptionItem options[] = {
		{MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)http_on_completed, s},
		{MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)http_on_connection, s},
		{MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)http_on_uri, s},
		{MHD_OPTION_CONNECTION_LIMIT,
			(intptr_t)s->o.max_connections + 2 * HTTP_SPARE_CONNECTIONS, NULL},
		{MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)s->o.max_connections_per_ip, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)s->o.max_header_bytes, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)((s->o.idle_timeout_ms + 999) / 1000),
			NULL},
		s->has_tls ? http_tls_mhd_option()
			   : (struct MHD_OptionItem) {MHD_OPTION_END, 0, NULL},
		{MHD_OPTION_END, 0, NULL},
	};

	s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET |
					     MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
					     MHD_USE_ERROR_LOG | (s->has_tls ? MHD_USE_TLS : 0),
		0, NULL, NULL, http_on_request, s, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, s,
		MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (!s->daemon)
		return err_set(eb, -EIO, "cannot start the HTTP server: %s", strerror(errno));
	return 0;
}

int http_server_start(struct http_server *s, struct errbuf *eb)
{
	int r = start_daemon(s, eb);

	if (r < 0)
		return r;
	s->workers = xcalloc(s->o.n_workers, sizeof(*s->workers));
	for (unsigned i = 0; i < s->o.n_workers; i++) {
		r = pthread_create(&s->workers[i], NULL, http_worker_main, s);
		if (r)
			return err_set(eb, -r, "cannot start an HTTP worker: %s", strerror(r));
		s->n_workers_started++;
	}
	r = pthread_create(&s->monitor, NULL, http_monitor_main, s);
	if (r)
		return err_set(eb, -r, "cannot start the monitoring worker: %s", strerror(r));
	s->monitor_started = true;
	r = pthread_create(&s->net_thread, NULL, http_net_main, s);
	if (r)
		return err_set(eb, -r, "cannot start the net thread: %s", strerror(r));
	s->net_started = true;
	return 0;
}

/* Ends jobs that have not begun; cancels running jobs too when `and_running`. */
static void cancel_parked_locked(struct http_server *s, bool and_running)
{
	ASSERT_HELD(&s->lock);
	for (struct http_conn *c = s->conn_list; c; c = c->next) {
		struct http_request *r = c->request;

		if (!r)
			continue;
		if (r->state == HTTP_WAITING || r->state == HTTP_QUEUED)
			http_job_end_locked(r, 503, "the server is shutting down");
		else if (and_running)
			atomic_store(&r->cancelled, true);
	}
}

static void wait_drained_locked(struct http_server *s, const size_t *count, uint32_t ms)
{
	int64_t until_ns = clock_monotonic_ns(&clock_system) + ms * NS_PER_MS;

	ASSERT_HELD(&s->lock);
	while (*count && lock_wait_until(&s->lock, &s->drained, until_ns))
		;
}

void http_server_stop(struct http_server *s, uint32_t grace_ms)
{
	if (s->stopped)
		return;
	s->stopped = true;
	lock_take(&s->lock);
	s->stopping = true;
	http_wake_net(s);
	cancel_parked_locked(s, false);
	if (grace_ms && s->daemon)
		wait_drained_locked(s, &s->n_parked, grace_ms);
	cancel_parked_locked(s, true);
	while (s->n_parked)
		lock_wait(&s->lock, &s->drained);
	if (grace_ms && s->daemon)
		wait_drained_locked(s, &s->n_active, grace_ms);
	s->quit = true;
	pthread_cond_broadcast(&s->job_ready);
	pthread_cond_broadcast(&s->monitoring_ready);
	http_wake_net(s);
	lock_release(&s->lock);
	for (unsigned i = 0; i < s->n_workers_started; i++)
		pthread_join(s->workers[i], NULL);
	if (s->monitor_started)
		pthread_join(s->monitor, NULL);
	if (s->net_started)
		pthread_join(s->net_thread, NULL);
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	http_listen_close(s);
}

void http_server_freep(struct http_server **sp)
{
	struct http_server *s = *sp;

	if (!s)
		return;
	http_server_stop(s, 0);
	for (size_t i = 0; i < s->n_listeners; i++) {
		free(s->listeners[i].address);
		free(s->listeners[i].unix_path);
	}
	free(s->listeners);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	table_done(&s->conns);
	free(s->heap);
	free(s->workers);
	free(s->route_prefix);
	free(s->cors_origin);
	free(s->external_host);
	free(s->server_name);
	free(s->web_config_file);
	http_guard_close(s);
	metrics_freep(&s->own_metrics);
	pthread_cond_destroy(&s->job_ready);
	pthread_cond_destroy(&s->monitoring_ready);
	pthread_cond_destroy(&s->drained);
	lock_done(&s->lock);
	free(s);
	*sp = NULL;
}
