/* SPDX-License-Identifier: Apache-2.0
 *
 * The net thread: accepts on all listeners, runs due timers, notices clients that left while their
 * request was parked, and cuts connections that are too slow.
 */
#include "lib/net/server/impl.h"
#include "lib/base/log.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { EVENTS_PER_WAIT = 64, ACCEPTS_PER_WAKE = 64, ACCEPT_PAUSE_MS = 100 };
static const uint64_t TAG_LISTENER = 1ULL << 63, TAG_WAKE = 1ULL << 62;

static void refuse(struct http_server *s, int fd, const char *reason)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: "
				   "close\r\nContent-Type: text/plain\r\n"
				   "Content-Length: 21\r\n\r\ntoo many connections\n";

	metric_inc(metric_cell(s->m_refused, reason));
	(void)!send(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/* False when nothing more waits. */
static bool accept_one(struct http_server *s, const struct http_listener *l)
{
	struct sockaddr_storage a = {0};
	socklen_t len = sizeof(a);
	int fd = accept4(l->fd, (struct sockaddr *)&a, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool full;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
		metric_inc(metric_cell(s->m_refused, "descriptors"));
		s->accept_paused_until_ns =
			clock_monotonic_ns(s->o.clock) + ACCEPT_PAUSE_MS * NS_PER_MS;
		return false;
	}
	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED;
	lock_take(&s->lock);
	full = s->n_conns >= s->o.max_connections &&
	       (s->n_conns >= s->o.max_connections + HTTP_SPARE_CONNECTIONS ||
		       !http_conn_make_room_locked(s));
	if (!full)
		s->n_conns++;
	metric_set(s->m_conns, (double)s->n_conns);
	lock_release(&s->lock);
	if (full) {
		refuse(s, fd, "connections");
		return true;
	}
	if (l->is_unix)
		a.ss_family = AF_UNIX;
	if (MHD_add_connection(s->daemon, fd, (struct sockaddr *)&a, len) == MHD_YES)
		return true;
	/* libmicrohttpd has closed the descriptor: the client's own cap. */
	metric_inc(metric_cell(s->m_refused, "connections_per_ip"));
	lock_take(&s->lock);
	s->n_conns--;
	metric_set(s->m_conns, (double)s->n_conns);
	lock_release(&s->lock);
	return true;
}

static void arm_listeners(struct http_server *s, bool on)
{
	for (size_t i = 0; i < s->n_listeners; i++) {
		struct http_listener *l = &s->listeners[i];
		struct epoll_event ev = {.events = EPOLLIN, .data.u64 = TAG_LISTENER | i};

		if (l->fd < 0 || l->is_armed == on)
			continue;
		if (epoll_ctl(s->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &ev) < 0)
			log_printf(LOG_DEBUG, "epoll_ctl of a listener: %d", errno);
		l->is_armed = on;
	}
}

static void client_left(struct http_server *s, uint64_t conn_id)
{
	uint64_t *slot;
	struct http_request *r;

	lock_take(&s->lock);
	slot = table_find(&s->conns, conn_id);
	r = slot ? ((struct http_conn *)(uintptr_t)*slot)->request : NULL;
	if (r && r->state >= HTTP_WAITING && r->state <= HTTP_RUNNING) {
		metric_inc(s->m_gone);
		r->is_left = true;
	}
	if (r && (r->state == HTTP_WAITING || r->state == HTTP_QUEUED))
		http_job_end_locked(r, 499, "client closed the request");
	else if (r && r->state == HTTP_RUNNING)
		atomic_store(&r->cancelled, true);
	lock_release(&s->lock);
}

static void handle_event(struct http_server *s, uint64_t tag)
{
	uint64_t ignored;

	if (tag & TAG_LISTENER) {
		const struct http_listener *l = &s->listeners[tag & ~TAG_LISTENER];

		for (int i = 0; i < ACCEPTS_PER_WAKE && l->fd >= 0 && accept_one(s, l); i++)
			;
	} else if (tag == TAG_WAKE) {
		(void)!read(s->wake_fd, &ignored, sizeof(ignored));
	} else {
		client_left(s, tag);
	}
}

/* Nothing that a sweep would look at: no connection, no file that may change. */
static bool is_idle_locked(const struct http_server *s)
{
	ASSERT_HELD(&s->lock);
	return !s->n_conns && !s->web_config_file;
}

/* Runs what is due and returns how long to sleep, in milliseconds, -1: until something happens; *ret_quit when the server has ended. */
static int run_timers(
	struct http_server *s, int64_t *next_sweep_ns, bool *ret_stopping, bool *ret_quit)
{
	int64_t now_ns = clock_monotonic_ns(s->o.clock);
	bool is_sweep = now_ns >= *next_sweep_ns;
	int64_t next_ns, wait_ms;
	bool is_idle;

	lock_take(&s->lock);
	next_ns = http_job_run_due_locked(s, now_ns);
	if (is_sweep) {
		http_conn_sweep_locked(s, now_ns);
		*next_sweep_ns = now_ns + HTTP_SWEEP_MS * NS_PER_MS;
	}
	is_idle = is_idle_locked(s);
	*ret_stopping = s->stopping;
	*ret_quit = s->quit;
	lock_release(&s->lock);
	if (is_sweep)
		http_guard_refresh(s);
	if (is_idle && next_ns == HTTP_NEVER && !s->accept_paused_until_ns)
		return -1;
	if (next_ns == HTTP_NEVER || next_ns > *next_sweep_ns)
		next_ns = *next_sweep_ns;
	if (s->accept_paused_until_ns)
		next_ns = MIN(next_ns, s->accept_paused_until_ns);
	wait_ms = (next_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return (int)MAX(0, MIN(wait_ms, HTTP_SWEEP_MS));
}

void *http_net_main(void *arg)
{
	struct http_server *s = arg;
	struct epoll_event events[EVENTS_PER_WAIT];
	struct epoll_event wake = {.events = EPOLLIN, .data.u64 = TAG_WAKE};
	int64_t next_sweep_ns = 0;
	bool quit = false, stopping = false, closed = false;

	pthread_setname_np(pthread_self(), "net");
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &wake) < 0)
		err_panic("epoll_ctl: %d", errno);
	arm_listeners(s, true);
	while (!quit) {
		int wait_ms = run_timers(s, &next_sweep_ns, &stopping, &quit);
		int n = quit ? 0 : epoll_wait(s->epoll_fd, events, EVENTS_PER_WAIT, wait_ms);

		if (stopping && !closed) {
			http_listen_close(s);
			closed = true;
		}
		for (int i = 0; i < n; i++)
			handle_event(s, events[i].data.u64);
		if (closed)
			continue;
		if (s->accept_paused_until_ns &&
			clock_monotonic_ns(s->o.clock) >= s->accept_paused_until_ns)
			s->accept_paused_until_ns = 0;
		arm_listeners(s, !s->accept_paused_until_ns);
	}
	return NULL;
}
