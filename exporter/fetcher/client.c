/* SPDX-License-Identifier: Apache-2.0
 *
 * main's side of the fetcher's protocol.
 */
#include "exporter/fetcher/protocol.h"
#include "lib/base/cleanup.h"
#include "lib/base/fd_message.h"
#include <string.h>
#include <poll.h>
#include <sys/socket.h>

void fetcher_stop(int fetcher_fd)
{
	shutdown(fetcher_fd, SHUT_RDWR);
}

/* True when there is an answer, or nobody who would give one; false when none is wanted any more. */
static bool await_answer(int reply_fd, int fetcher_fd)
{
	struct pollfd p[] = {
		{.fd = reply_fd, .events = POLLIN}, {.fd = fetcher_fd, .events = POLLRDHUP}};

	while (!p[0].revents && !p[1].revents)
		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return false;
	return p[0].revents;
}

enum fetcher_status fetcher_debuginfo(int fetcher_fd, const uint8_t *build_id,
	uint32_t build_id_len, int out_fd, struct fetcher_reply *ret)
{
	struct fetcher_request q = {
		.magic = FETCHER_MAGIC, .op = FETCHER_DEBUGINFO, .id_len = build_id_len};
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2];
	ssize_t n;

	*ret = (struct fetcher_reply) {.status = FETCHER_FAILED};
	if (build_id_len > FETCHER_MAX_ID ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return FETCHER_FAILED;
	ours = pair[0];
	theirs = pair[1];
	memcpy(q.id, build_id, build_id_len);
	if (fd_message_send(fetcher_fd, &q, sizeof(q), (const int[]) {theirs, out_fd}, 2, 0) < 0)
		return FETCHER_FAILED;
	/* With our copy gone, a role that ends ends the wait. */
	close(TAKE_FD(theirs));
	if (!await_answer(ours, fetcher_fd))
		return FETCHER_FAILED;
	n = recv(ours, ret, sizeof(*ret), MSG_DONTWAIT);
	if (n != (ssize_t)sizeof(*ret) || ret->magic != FETCHER_MAGIC ||
		ret->status >= FETCHER_N_STATUS) {
		*ret = (struct fetcher_reply) {.status = FETCHER_FAILED};
		return FETCHER_FAILED;
	}
	ret->text[sizeof(ret->text) - 1] = '\0';
	return (enum fetcher_status)ret->status;
}

int fetcher_pods_subscribe(int fetcher_fd)
{
	const struct fetcher_request q = {.magic = FETCHER_MAGIC, .op = FETCHER_PODS};
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	r = fd_message_send(fetcher_fd, &q, sizeof(q), &theirs, 1, 0);
	return r < 0 ? r : TAKE_FD(ours);
}

int fetcher_pods_next(int sock, int timeout_ms, struct fetcher_pods_update *ret, int *ret_fd)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	_cleanup_close_ int fd = -1;
	size_t n_fds;
	int n;

	n = poll(&p, 1, timeout_ms);
	if (n <= 0)
		return n == 0 || errno == EINTR ? 0 : -errno;
	n = fd_message_receive(sock, ret, sizeof(*ret), &fd, 1, &n_fds, 0);
	if (n < 0)
		return n == -EINTR ? 0 : n;
	if (n == 0)
		return -EPIPE;
	if (n != (int)sizeof(*ret) || ret->magic != FETCHER_MAGIC ||
		ret->status >= FETCHER_N_PODS_STATUS ||
		(ret->status == FETCHER_PODS_OK) != (fd >= 0))
		return -EPROTO;
	ret->text[sizeof(ret->text) - 1] = '\0';
	*ret_fd = TAKE_FD(fd);
	return 1;
}
