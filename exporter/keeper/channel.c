/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and replies by sequence number.
 */
#include "exporter/keeper/channel.h"
#include "lib/base/clock.h"
#include "lib/base/fd_message.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

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

/* One message that has come: 1 when it is the reply to the last request, with its descriptors; 0 when it was another, or
 * none was there, and was dropped. */
static int take_message(struct channel *c, struct keeper_reply *ret, int fds[KEEPER_MAX_FDS])
{
	uint8_t buf[KEEPER_REPLY_BYTES + KEEPER_MAX_TEXT];
	size_t n_fds;
	int r = fd_message_receive(
		c->sock, buf, sizeof(buf), fds, KEEPER_MAX_FDS, &n_fds, MSG_DONTWAIT);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	r = protocol_get_reply(buf, (size_t)r, ret);
	if (r == 0 && ret->seq == c->seq && n_fds == ret->n_fds)
		return 1;
	close_fds(fds);
	return r < 0 || ret->seq == c->seq ? -EPROTO : 0;
}

int channel_call(struct channel *c, struct keeper_request *q, int fd, int timeout_ms,
	int ret_fds[KEEPER_MAX_FDS], struct keeper_reply *ret)
{
	int64_t deadline_ns = clock_monotonic_ns(&clock_system) + timeout_ms * NS_PER_MS;
	uint8_t buf[KEEPER_MAX_MESSAGE];
	int r;

	for (int i = 0; i < KEEPER_MAX_FDS; i++)
		ret_fds[i] = -1;
	memset(ret, 0, sizeof(*ret));
	q->seq = ++c->seq;
	r = protocol_put_request(q, buf);
	if (r >= 0)
		r = fd_message_send(c->sock, buf, (size_t)r, &fd, fd >= 0, MSG_DONTWAIT);
	while (r == 0) {
		r = wait_readable(c->sock, deadline_ns);
		if (r == 0)
			r = take_message(c, ret, ret_fds);
	}
	if (r > 0 && ret->result < 0) {
		close_fds(ret_fds);
		return ret->result;
	}
	return MIN(r, 0);
}

int channel_take_late(struct channel *c)
{
	struct pollfd p = {.fd = c->sock, .events = POLLIN};
	struct keeper_reply reply;
	int fds[KEEPER_MAX_FDS], r = 0;

	while (r == 0 && poll(&p, 1, 0) > 0)
		r = take_message(c, &reply, fds);
	if (r > 0)
		close_fds(fds);
	return r;
}

int channel_only_fd(int r, int fds[KEEPER_MAX_FDS])
{
	if (r < 0)
		return r;
	if (fds[0] < 0 || fds[1] >= 0) {
		close_fds(fds);
		return -EPROTO;
	}
	return fds[0];
}
