/* SPDX-License-Identifier: Apache-2.0
 *
 * What libmicrohttpd calls: connections come and go, a request's line, headers and body arrive, its
 * reply is sent or fails. All on the http thread.
 */
#include "lib/net/server/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include <linux/tcp.h>
#include <string.h>
#include <strings.h>

static struct http_conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* Whether the listener behind this local address is bound to loopback. */
static bool is_loopback_listener(const struct http_server *s, int fd)
{
	struct sockaddr_storage a = {0};
	socklen_t len = sizeof(a);
	uint16_t port;

	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0 ||
		!http_addr_is_loopback((const struct sockaddr *)&a))
		return false;
	port = a.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&a)->sin_port)
				      : ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
	for (size_t i = 0; i < s->n_listeners; i++)
		if (s->listeners[i].is_loopback && s->listeners[i].port == port)
			return true;
	return false;
}

static void conn_open(struct http_server *s, struct MHD_Connection *mhd, void **socket_ctx)
{
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	const union MHD_ConnectionInfo *address =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct http_conn *c = xcalloc(1, sizeof(*c));
	uint64_t *slot;

	if (!s->http_named) {
		pthread_setname_np(pthread_self(), "http");
		s->http_named = true;
	}
	c->fd = fd->connect_fd;
	c->is_fresh = true;
	c->idle_since_ns = clock_monotonic_ns(s->o.clock);
	c->checks_host = is_loopback_listener(s, c->fd);
	http_peer_text(address->client_addr, c->peer, sizeof(c->peer));
	c->guard = http_guard_begin_tls(s, mhd, c);
	lock_take(&s->lock);
	c->id = ++s->next_conn_id;
	slot = table_insert(&s->conns, c->id, NULL);
	if (!slot)
		err_panic("out of memory for the connection table");
	*slot = (uint64_t)(uintptr_t)c;
	c->next = s->conn_list;
	if (c->next)
		c->next->prev = c;
	s->conn_list = c;
	lock_release(&s->lock);
	*socket_ctx = c;
}

static void request_free(struct http_request *r)
{
	if (r->free_data)
		r->free_data(r->data);
	if (r->response)
		MHD_destroy_response(r->response);
	for (size_t i = 0; i < r->n_wildcards; i++)
		free(r->wildcards[i]);
	free(r->path);
	free(r->query);
	url_params_done(&r->params);
	bytes_done(&r->body);
	arena_done(&r->arena);
	free(r);
}

static void request_end(struct http_server *s, struct http_request *r, bool is_aborted)
{
	lock_take(&s->lock);
	ASSERT(r->state == HTTP_READING || r->state == HTTP_REPLIED || r->state == HTTP_SENDING);
	r->conn->request = NULL;
	r->conn->idle_since_ns = clock_monotonic_ns(s->o.clock);
	r->conn->idle_bytes = UINT64_MAX;
	if (is_aborted && !r->is_left)
		metric_inc(s->m_gone);
	if (!--s->n_active)
		pthread_cond_broadcast(&s->drained);
	lock_release(&s->lock);
	request_free(r);
}

static void conn_close(struct http_server *s, struct http_conn *c)
{
	/* libmicrohttpd 0.9.75 announces no end of a request whose headers it could not take */
	if (c->request)
		request_end(s, c->request, true);
	lock_take(&s->lock);
	table_remove(&s->conns, c->id);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->conn_list = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_conns--;
	metric_set(s->m_conns, (double)s->n_conns);
	lock_release(&s->lock);
	http_guard_put(c->guard);
	free(c);
}

void http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_ctx,
	enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		conn_open(cls, mhd, socket_ctx);
	else if (*socket_ctx)
		conn_close(cls, *socket_ctx);
}

/*
 * The request line is in. Splits "/path?query"; the absolute form of proxies loses its authority. libmicrohttpd would now parse the
 * query in its own buffer, for nobody, and a few hundred parameters exhaust the connection's memory: it then never answers. So the
 * buffer, which is the connection's, loses the query.
 */
void *http_on_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct http_server *s = cls;
	struct http_request *r = xcalloc(1, sizeof(*r));
	const char *scheme_end = strstr(uri, "://");
	const char *query;

	if (uri[0] != '/' && scheme_end)
		uri = strchr(scheme_end + 3, '/') ? strchr(scheme_end + 3, '/') : "/";
	query = strchr(uri, '?');
	r->server = s;
	r->mhd = mhd;
	r->conn = conn_of(mhd);
	r->start_ns = clock_monotonic_ns(s->o.clock);
	r->path = query ? xstrndup(uri, (size_t)(query - uri)) : xstrdup(uri);
	r->query = xstrdup(query ? query + 1 : "");
	if (query)
		*(char *)(uintptr_t)(query + 1) = '\0';
	arena_init(&r->arena, s->o.budget);
	bytes_init(&r->body, s->o.budget, 0);
	lock_take(&s->lock);
	s->n_active++;
	r->id = ++s->next_request_id;
	r->conn->request = r;
	r->conn->is_fresh = false;
	r->conn->partial_since_ns = 0;
	lock_release(&s->lock);
	return r;
}

void http_on_completed(
	void *cls, struct MHD_Connection *mhd, void **con_cls, enum MHD_RequestTerminationCode why)
{
	struct http_server *s = cls;
	struct http_request *r = *con_cls;

	(void)mhd;
	*con_cls = NULL;
	if (r)
		request_end(s, r,
			why != MHD_REQUEST_TERMINATED_COMPLETED_OK &&
				why != MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN);
}

static enum MHD_Result send_reply(struct http_request *r)
{
	struct http_server *s = r->server;
	int64_t now_ns = clock_monotonic_ns(s->o.clock);
	const char *handler = r->route ? r->route->path : "none";
	char code[8];
	enum MHD_Result ok;

	snprintf(code, sizeof(code), "%u", r->code);
	metric_inc(metric_cell(s->m_requests, handler, code));
	metric_observe(metric_cell(s->m_duration, handler), (double)(now_ns - r->start_ns) / 1e9);
	lock_take(&s->lock);
	r->state = HTTP_SENDING;
	r->write_deadline_ns = now_ns + s->o.write_timeout_ms * NS_PER_MS +
			       (int64_t)(r->n_response / s->o.min_write_rate) * NS_PER_S;
	lock_release(&s->lock);
	ok = MHD_queue_response(r->mhd, r->code, r->response);
	if (ok != MHD_YES)
		log_printf(LOG_DEBUG, "libmicrohttpd refused a %u reply", r->code);
	return ok;
}

/* What of the headers decides where the request ends and for which host it is. */
struct framing {
	const char *length;
	bool has_host, has_encoding, is_ambiguous;
};

static enum MHD_Result see_header(
	void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct framing *f = arg;

	(void)kind;
	value = value ? value : "";
	f->is_ambiguous |=
		name[strcspn(name, " \t")] != '\0' || value[strcspn(value, "\r\n")] != '\0';
	if (!strcasecmp(name, "Content-Length")) {
		f->is_ambiguous |= f->length && strcmp(f->length, value) != 0;
		f->length = value;
	} else if (!strcasecmp(name, "Transfer-Encoding")) {
		f->is_ambiguous |= f->has_encoding || strcasecmp(value, "chunked") != 0;
		f->has_encoding = true;
	} else if (!strcasecmp(name, "Host")) {
		f->is_ambiguous |= f->has_host;
		f->has_host = true;
	}
	return MHD_YES;
}

/* A proxy may read such a request otherwise than we do, and take a part of its body for the next one (RFC 9112, 3.2, 5.1, 6.3). */
static bool is_ambiguous(const struct http_request *r, const char *version)
{
	struct framing f = {0};

	MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, see_header, &f);
	return f.is_ambiguous || (f.has_encoding && f.length) ||
	       (!f.has_host && strcmp(version, MHD_HTTP_VERSION_1_0) != 0);
}

/* Headers are in: everything that can be refused before the body is. True when a reply is set. */
static bool begin_request(struct http_request *r, const char *method, const char *version)
{
	const char *length = http_request_header(r, "Content-Length");
	uint64_t n = 0;
	bool stopping;

	r->method = arena_strdup(&r->arena, !strcmp(method, "HEAD") ? "GET" : method);
	if (!r->method) {
		r->method = "GET";
		http_reply_cut(r, 503, "out of memory");
		return true;
	}
	lock_take(&r->server->lock);
	stopping = r->server->stopping;
	lock_release(&r->server->lock);
	if (stopping) {
		http_reply_cut(r, 503, "the server is shutting down");
	} else if (is_ambiguous(r, version)) {
		http_reply_header(r, "Connection", "close");
		http_reply_cut(r, 400,
			"the headers leave open where the request ends or for which host it is");
	} else if (!http_guard_refuses(r) && !http_route_request(r) && length &&
		   str_parse_u64(length, &n, NULL) == 0 && n > r->max_body_bytes) {
		http_reply_cut(r, 413, "request body too large");
	}
	return http_is_replied(r);
}

static bool expects_body(const struct http_request *r)
{
	const char *length = http_request_header(r, "Content-Length");

	return (length && strcmp(length, "0")) || http_request_header(r, "Transfer-Encoding");
}

static void take_body(struct http_request *r, const char *upload, size_t n)
{
	if (r->body_too_big || r->body.len + n > r->max_body_bytes)
		r->body_too_big = true;
	else
		bytes_put(&r->body, upload, n);
}

static bool is_form(const struct http_request *r)
{
	const char *type = http_request_header(r, "Content-Type");

	return !(r->route->flags & HTTP_RAW_BODY) && type &&
	       !strncasecmp(type, "application/x-www-form-urlencoded",
		       strlen("application/x-www-form-urlencoded"));
}

/* Form parameters first, then those of the query, as Go's Request.Form has them. */
static void read_params(struct http_request *r)
{
	struct errbuf eb = {0};
	int res = 0;

	if (is_form(r))
		res = url_params_parse(
			&r->params, (const char *)r->body.data, r->body.len, HTTP_MAX_PARAMS, &eb);
	if (res == 0)
		res = url_params_parse(
			&r->params, r->query, strlen(r->query), HTTP_MAX_PARAMS, &eb);
	if (res < 0)
		http_reply_text(r, 400, "%s", err_text(&eb, res));
}

static void dispatch(struct http_request *r)
{
	r->state = HTTP_HANDLING;
	if (r->body_too_big)
		http_reply_cut(r, 413, "request body too large");
	else if (bytes_error(&r->body) < 0)
		http_reply_cut(r, 503, "no memory for the request body");
	else
		read_params(r);
	if (http_is_replied(r))
		return;
	if (r->must_verify)
		http_job_run(r, http_guard_verify);
	else if (r->route->flags & HTTP_ON_WORKER)
		http_job_run(r, r->route->handler);
	else
		r->route->handler(r, r->server->arg);
	ASSERT(http_is_replied(r) != r->is_parking);
}

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *n_upload,
	void **con_cls)
{
	struct http_request *r = *con_cls;

	(void)cls, (void)url;
	if (!r->method) {
		if (!begin_request(r, method, version))
			return MHD_YES;
		/* With a body still to come the connection ends with the reply; without one it
		 * stays. */
		if (!expects_body(r))
			return MHD_YES;
		r->state = HTTP_REPLIED;
		return send_reply(r);
	}
	if (*n_upload) {
		take_body(r, upload, *n_upload);
		*n_upload = 0;
		return MHD_YES;
	}
	if (r->state == HTTP_REPLIED)
		return send_reply(r);
	if (r->state != HTTP_READING)
		return MHD_YES;
	if (!http_is_replied(r))
		dispatch(r);
	if (!r->is_parking) {
		r->state = HTTP_REPLIED;
		return send_reply(r);
	}
	MHD_suspend_connection(mhd);
	http_job_publish(r, false);
	return MHD_YES;
}

/* Bytes of TCP payload received so far; UINT64_MAX when the kernel does not say (Unix sockets). */
static uint64_t received_bytes(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_received) + 8)
		return UINT64_MAX;
	return info.tcpi_bytes_received;
}

/* Since when this idle connection has been writing an unfinished request line or header; 0: it has
 * not. */
static int64_t partial_since(struct http_conn *c, int64_t now_ns)
{
	uint64_t n;

	if (c->is_fresh)
		return c->idle_since_ns;
	if (c->partial_since_ns)
		return c->partial_since_ns;
	n = received_bytes(c->fd);
	if (c->idle_bytes == UINT64_MAX)
		c->idle_bytes = n;
	else if (n != c->idle_bytes)
		c->partial_since_ns = now_ns;
	return c->partial_since_ns;
}

static void cut(struct http_server *s, struct http_conn *c, const char *what)
{
	metric_inc(metric_cell(s->m_cut, what));
	c->is_cut = true;
	shutdown(c->fd, SHUT_RDWR);
}

bool http_conn_make_room_locked(struct http_server *s)
{
	struct http_conn *longest = NULL;
	int64_t longest_since_ns = INT64_MAX;

	ASSERT_HELD(&s->lock);
	for (struct http_conn *c = s->conn_list; c; c = c->next) {
		const struct http_request *r = c->request;
		int64_t since_ns = r ? r->start_ns : c->idle_since_ns;

		if (c->is_cut || (r && r->state != HTTP_READING) || since_ns >= longest_since_ns)
			continue;
		longest = c;
		longest_since_ns = since_ns;
	}
	if (!longest)
		return false;
	metric_inc(s->m_displaced);
	longest->is_cut = true;
	shutdown(longest->fd, SHUT_RDWR);
	return true;
}

void http_conn_sweep_locked(struct http_server *s, int64_t now_ns)
{
	int64_t read_ns = s->o.read_timeout_ms * NS_PER_MS;

	ASSERT_HELD(&s->lock);
	for (struct http_conn *c = s->conn_list; c; c = c->next) {
		const struct http_request *r = c->request;
		int64_t since_ns = r ? 0 : partial_since(c, now_ns);

		if (c->is_cut)
			continue;
		if (r && r->state == HTTP_SENDING && now_ns > r->write_deadline_ns)
			cut(s, c, "write");
		else if (r && r->state == HTTP_READING && now_ns - r->start_ns > read_ns)
			cut(s, c, "read");
		else if (since_ns && now_ns - since_ns > read_ns)
			cut(s, c, "read");
	}
}
