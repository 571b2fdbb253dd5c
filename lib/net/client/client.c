/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's loop: curl says which sockets and which timer it wants, an epoll set and a wake-up descriptor deliver them.
 */
#include "lib/net/client/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { EVENTS_PER_WAIT = 64, DEFAULT_CONNECTIONS = 4096, DEFAULT_IDLE_S = 300 };
enum { CONNECTIONS_PER_SHARD = 256, MAX_SHARDS = 256 };
/* What epoll reports: a shard's number above its descriptor, or one of the client's own descriptors. */
enum { EVENT_SHARD_SHIFT = 32 };
static const uint64_t EVENT_OWN = UINT32_MAX;

struct dialer dialer_system;

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct http_shard *shard = arg;
	struct http_client *c = shard->client;
	struct epoll_event ev = {
		.data.u64 = (uint64_t)shard->idx << EVENT_SHARD_SHIFT | (uint32_t)fd};
	int op = socket_arg ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		curl_multi_assign(shard->multi, fd, NULL);
		return 0;
	}
	ev.events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
	if (epoll_ctl(c->epoll_fd, op, fd, &ev) < 0 && errno == ENOENT)
		(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
	curl_multi_assign(shard->multi, fd, shard);
	return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct http_shard *shard = arg;

	(void)multi;
	shard->timer_at_ns =
		timeout_ms < 0 ? -1 : clock_monotonic_ns(&clock_system) + timeout_ms * NS_PER_MS;
	return 0;
}

static int open_descriptors(struct http_client *c, struct errbuf *eb)
{
	struct epoll_event wake = {.events = EPOLLIN};

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	wake.data.u64 = EVENT_OWN << EVENT_SHARD_SHIFT | (uint32_t)c->wake_fd;
	if (c->epoll_fd < 0 || c->wake_fd < 0 ||
		epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &wake) < 0)
		return err_set(eb, -errno, "epoll or eventfd: %s", strerror(errno));
	return 0;
}

static void open_shard(struct http_shard *shard)
{
	shard->multi = curl_multi_init();
	if (!shard->multi)
		err_panic("out of memory for the HTTP client");
	shard->timer_at_ns = -1;
	curl_multi_setopt(shard->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(shard->multi, CURLMOPT_SOCKETDATA, shard);
	curl_multi_setopt(shard->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(shard->multi, CURLMOPT_TIMERDATA, shard);
	curl_multi_setopt(
		shard->multi, CURLMOPT_MAXCONNECTS, (long)shard->client->connections_per_shard);
}

struct http_shard *http_shard_get(struct http_client *c, const char *host, uint16_t port)
{
	struct http_shard *shard =
		&c->shards[hash_xxh3_seed(host, strlen(host), port) % c->n_shards];

	if (!shard->multi)
		open_shard(shard);
	return shard;
}

int http_client_load(struct errbuf *eb)
{
	return curl_load(eb);
}

int http_client_new(
	const struct http_client_options *o, struct http_client **ret, struct errbuf *eb)
{
	_cleanup_(http_client_freep)
	struct http_client *c = NULL;
	unsigned n_connections = o->max_connections ? o->max_connections : DEFAULT_CONNECTIONS;
	int r = curl_load(eb);

	if (r < 0)
		return r;
	c = xcalloc(1, sizeof(*c));
	c->epoll_fd = c->wake_fd = -1;
	c->dialer = o->dialer ? o->dialer : &dialer_system;
	c->idle_timeout_s = o->idle_timeout_s ? o->idle_timeout_s : DEFAULT_IDLE_S;
	c->user_agent = xstrdup(o->user_agent);
	table_init(&c->transfers, NULL);
	r = open_descriptors(c, eb);
	if (r < 0)
		return r;
	c->n_shards = MIN(1 + n_connections / CONNECTIONS_PER_SHARD, (unsigned)MAX_SHARDS);
	/* hosts do not fall evenly */
	c->connections_per_shard =
		c->n_shards > 1 ? n_connections / c->n_shards * 3 / 2 : n_connections;
	c->shards = xcalloc(c->n_shards, sizeof(*c->shards));
	for (uint32_t i = 0; i < c->n_shards; i++)
		c->shards[i] = (struct http_shard) {.client = c, .idx = i, .timer_at_ns = -1};
	*ret = TAKE(c);
	return 0;
}

/* Takes the transfer out of the client and calls its owner. */
static void complete(struct http_client *c, struct http_transfer *t)
{
	http_token_forget(t);
	curl_multi_remove_handle(t->shard->multi, t->easy);
	table_remove(&c->transfers, t->id);
	c->n_active--;
	t->done(&t->response, t->arg);
	http_transfer_freep(&t);
}

void http_client_cancel(struct http_client *c, uint64_t id)
{
	uint64_t *slot = table_find(&c->transfers, id);
	struct http_transfer *t;

	if (!slot)
		return;
	t = (struct http_transfer *)(uintptr_t)*slot;
	t->response.error = err_set(&t->response.text, -ECANCELED, "cancelled");
	complete(c, t);
}

void http_client_cancel_all(struct http_client *c)
{
	uint64_t id, ignored;

	/* a callback may start another one */
	while (c->n_active)
		for (size_t pos = 0; table_next(&c->transfers, &pos, &id, &ignored);)
			http_client_cancel(c, id);
}

void http_client_freep(struct http_client **cp)
{
	struct http_client *c = *cp;

	if (!c)
		return;
	http_client_cancel_all(c);
	http_tokens_free(c);
	while (c->n_spare)
		curl_easy_cleanup(c->spare[--c->n_spare]);
	for (uint32_t i = 0; c->shards && i < c->n_shards; i++)
		if (c->shards[i].multi)
			curl_multi_cleanup(c->shards[i].multi);
	free(c->shards);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	table_done(&c->transfers);
	free(c->user_agent);
	free(c);
	*cp = NULL;
}

int http_client_start(
	struct http_client *c, const struct http_fetch *f, uint64_t *ret_id, struct errbuf *eb)
{
	struct http_transfer *t = NULL;
	uint64_t *slot;
	int r = http_transfer_new(c, f, &t, eb);

	if (r < 0)
		return r;
	t->id = ++c->last_id;
	slot = table_insert(&c->transfers, t->id, NULL);
	if (!slot ||
		(!t->waits_for && curl_multi_add_handle(t->shard->multi, t->easy) != CURLM_OK)) {
		http_token_forget(t);
		table_remove(&c->transfers, t->id);
		http_transfer_freep(&t);
		return err_set(eb, -ENOMEM, "no memory for another transfer");
	}
	*slot = (uint64_t)(uintptr_t)t;
	c->n_active++;
	*ret_id = t->id;
	return 0;
}

void http_client_go_on(struct http_transfer *t, int error, const char *why)
{
	if (error == 0 && curl_multi_add_handle(t->shard->multi, t->easy) == CURLM_OK)
		return;
	t->response.error = err_set(&t->response.text, error < 0 ? error : -ENOMEM, "%s",
		error < 0 ? why : "no memory for another transfer");
	complete(t->client, t);
}

static void drain_messages(struct http_shard *shard)
{
	const CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(shard->multi, &left))) {
		char *private = NULL;
		struct http_transfer *t;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private);
		t = (struct http_transfer *)(void *)private;
		http_transfer_finish(t, msg->data.result);
		complete(shard->client, t);
	}
}

static int wait_ms(const struct http_client *c, int timeout_ms)
{
	int64_t first_ns = INT64_MAX, left_ms;

	for (uint32_t i = 0; i < c->n_shards; i++)
		if (c->shards[i].timer_at_ns >= 0)
			first_ns = MIN(first_ns, c->shards[i].timer_at_ns);
	if (first_ns == INT64_MAX)
		return timeout_ms;
	left_ms = (first_ns - clock_monotonic_ns(&clock_system) + NS_PER_MS - 1) / NS_PER_MS;
	left_ms = MAX(left_ms, 0);
	return timeout_ms < 0 || left_ms < timeout_ms ? (int)left_ms : timeout_ms;
}

int http_client_fd(const struct http_client *c)
{
	return c->epoll_fd;
}

int http_client_next_ms(const struct http_client *c)
{
	return wait_ms(c, -1);
}

static void on_event(struct http_client *c, const struct epoll_event *ev)
{
	uint64_t shard = ev->data.u64 >> EVENT_SHARD_SHIFT, ignored;
	int fd = (int)(ev->data.u64 & UINT32_MAX), running;
	int what = (ev->events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
		   (ev->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		   (ev->events & EPOLLERR ? CURL_CSELECT_ERR : 0);

	if (shard != EVENT_OWN) {
		curl_multi_socket_action(c->shards[shard].multi, fd, what, &running);
		drain_messages(&c->shards[shard]);
	} else if (fd == c->wake_fd) {
		(void)!read(c->wake_fd, &ignored, sizeof(ignored));
	}
}

static void run_timers(struct http_client *c)
{
	int64_t now_ns = clock_monotonic_ns(&clock_system);
	int running;

	for (uint32_t i = 0; i < c->n_shards; i++) {
		struct http_shard *shard = &c->shards[i];

		if (shard->timer_at_ns < 0 || shard->timer_at_ns > now_ns)
			continue;
		shard->timer_at_ns = -1;
		curl_multi_socket_action(shard->multi, CURL_SOCKET_TIMEOUT, 0, &running);
		drain_messages(shard);
	}
}

int http_client_run(struct http_client *c, int timeout_ms)
{
	struct epoll_event events[EVENTS_PER_WAIT];
	int n = epoll_wait(c->epoll_fd, events, EVENTS_PER_WAIT, wait_ms(c, timeout_ms));

	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++)
		on_event(c, &events[i]);
	run_timers(c);
	return 0;
}

void http_client_wake(struct http_client *c)
{
	uint64_t one = 1;

	if (write(c->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_printf(LOG_DEBUG, "eventfd: %d", errno);
}

int http_client_watch(struct http_client *c, int fd)
{
	struct epoll_event ev = {
		.events = EPOLLIN, .data.u64 = EVENT_OWN << EVENT_SHARD_SHIFT | (uint32_t)fd};

	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

struct blocking {
	const struct http_fetch *fetch;
	struct http_response *ret;
	bool done;
};

static int hand_on_piece(const void *p, size_t n, void *arg)
{
	const struct blocking *b = arg;

	return b->fetch->piece(p, n, b->fetch->arg);
}

static void take_response(struct http_response *r, void *arg)
{
	struct blocking *b = arg;

	*b->ret = *r;
	*r = (struct http_response) {0};
	b->done = true;
}

int http_client_fetch(const struct http_fetch *f, const char *user_agent, struct http_response *ret,
	struct errbuf *eb)
{
	struct http_client_options o = {.user_agent = user_agent, .max_connections = 8};
	_cleanup_(http_client_freep)
	struct http_client *c = NULL;
	struct blocking b = {.fetch = f, .ret = ret};
	struct http_fetch fetch = *f;
	uint64_t id;
	int r = http_client_new(&o, &c, eb);

	*ret = (struct http_response) {0};
	fetch.done = take_response;
	fetch.piece = f->piece ? hand_on_piece : NULL;
	fetch.arg = &b;
	if (r == 0)
		r = http_client_start(c, &fetch, &id, eb);
	while (r == 0 && !b.done)
		r = http_client_run(c, -1);
	if (r < 0) {
		ret->error = r;
		return r;
	}
	return ret->error < 0 ? err_set(eb, ret->error, "%s", err_text(&ret->text, ret->error)) : 0;
}
