/* SPDX-License-Identifier: Apache-2.0
 *
 * main's side of the keeper protocol: one request at a time, under one mutex.
 */
#include "exporter/keeper/client.h"
#include "exporter/keeper/protocol.h"
#include "lib/base/fd_message.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <poll.h>
#include <pthread.h>
#include <string.h>

struct keeper_client {
	struct keeper keeper;
	pthread_mutex_t mutex; /* leaf lock: nothing else is taken under it */
	int sock, timeout_ms;
	uint32_t seq;
	uint8_t buf[KEEPER_MAX_MESSAGE];
};

static void close_fds(int fds[KEEPER_MAX_FDS])
{
	for (int i = 0; i < KEEPER_MAX_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static int wait_readable(int sock, int64_t deadline_ns)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	for (;;) {
		int64_t left = deadline_ns - clock_monotonic_ns(&clock_system);
		int r = left <= 0 ? 0 : poll(&p, 1, (int)(left / NS_PER_MS) + 1);

		if (r > 0)
			return 0;
		if (r == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

/* The reply to request `seq`; replies to requests that were given up are dropped. */
static int receive_reply(
	struct keeper_client *c, uint32_t seq, struct keeper_reply *ret, int fds[KEEPER_MAX_FDS])
{
	int64_t deadline = clock_monotonic_ns(&clock_system) + c->timeout_ms * NS_PER_MS;

	for (;;) {
		size_t n_fds;
		int r = wait_readable(c->sock, deadline);

		if (r < 0)
			return r;
		r = fd_message_receive(
			c->sock, c->buf, sizeof(c->buf), fds, KEEPER_MAX_FDS, &n_fds, MSG_DONTWAIT);
		if (r == -EAGAIN || r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? r : -EPIPE;
		r = protocol_get_reply(c->buf, (size_t)r, ret);
		if (r == 0 && ret->seq == seq && n_fds == ret->n_fds)
			return 0;
		close_fds(fds);
		if (r < 0 || ret->seq == seq)
			return -EPROTO;
	}
}

/* Sends q (and fd when ≥ 0); ≥ 0 when the keeper granted it, with its descriptors in fds. */
static int call(struct keeper_client *c, struct keeper_request *q, int fd, int fds[KEEPER_MAX_FDS],
	struct keeper_reply *ret)
{
	int r;

	for (int i = 0; i < KEEPER_MAX_FDS; i++)
		fds[i] = -1;
	ret->text[0] = 0;
	pthread_mutex_lock(&c->mutex);
	q->seq = ++c->seq;
	r = protocol_put_request(q, c->buf);
	if (r >= 0)
		r = fd_message_send(c->sock, c->buf, (size_t)r, &fd, fd >= 0, MSG_DONTWAIT);
	if (r >= 0)
		r = receive_reply(c, q->seq, ret, fds);
	pthread_mutex_unlock(&c->mutex);
	if (r >= 0 && ret->result < 0) {
		close_fds(fds);
		r = ret->result;
	}
	return r;
}

/* The one descriptor of a reply. */
static int only_fd(int r, int fds[KEEPER_MAX_FDS])
{
	if (r < 0)
		return r;
	if (fds[0] < 0 || fds[1] >= 0) {
		close_fds(fds);
		return -EPROTO;
	}
	return fds[0];
}

static int client_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	struct keeper_request q = {.op = KEEPER_OP_OPEN,
		.what = what,
		.id = pid,
		.start_ns = start_ns,
		.start = start,
		.end = end};
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS];

	return only_fd(call((struct keeper_client *)k, &q, -1, fds, &reply), fds);
}

static int client_open_at(struct keeper *k, int root_fd, const char *path, int flags)
{
	struct keeper_request q = {.op = KEEPER_OP_OPEN_AT,
		.what = (uint16_t)flags,
		.payload = (const uint8_t *)path,
		.payload_len = (uint32_t)strlen(path)};
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS];

	if (root_fd < 0)
		return -EBADF;
	return only_fd(call((struct keeper_client *)k, &q, root_fd, fds, &reply), fds);
}

static int client_attach_cpu(
	struct keeper *k, uint32_t cpu, struct keeper_cpu *ret, struct errbuf *eb)
{
	struct keeper_request q = {.op = KEEPER_OP_ATTACH_CPU, .id = cpu};
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS];
	int r = call((struct keeper_client *)k, &q, -1, fds, &reply);

	if (r < 0)
		return err_set(eb, r, "%s", reply.text[0] ? reply.text : strerror(-r));
	if (fds[1] < 0) {
		close_fds(fds);
		return err_set(eb, -EPROTO, "keeper answered with too few descriptors");
	}
	*ret = (struct keeper_cpu) {.clock_fd = fds[0], .sideband_fd = fds[1]};
	return 0;
}

static void client_close(struct keeper *k)
{
	struct keeper_client *c = (struct keeper_client *)k;

	close(c->sock);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}

struct keeper *keeper_client_new(int sock, int timeout_ms)
{
	struct keeper_client *c = xcalloc(1, sizeof(*c));

	c->keeper = (struct keeper) {.open = client_open,
		.open_at = client_open_at,
		.attach_cpu = client_attach_cpu,
		.close = client_close};
	c->sock = sock;
	c->timeout_ms = timeout_ms;
	pthread_mutex_init(&c->mutex, NULL);
	return &c->keeper;
}
