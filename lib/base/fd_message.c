/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors in and out of control messages; surplus descriptors are closed, never leaked.
 */
#include "lib/base/fd_message.h"
#include "lib/base/err.h"
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char bytes[CMSG_SPACE(FD_MESSAGE_MAX_FDS * sizeof(int))];
	struct cmsghdr header;
};

int fd_message_send(int sock, const void *p, size_t len, const int *fds, size_t n_fds, int flags)
{
	union control control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	ASSERT(n_fds <= FD_MESSAGE_MAX_FDS);
	if (n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
	}
	n = sendmsg(sock, &msg, MSG_NOSIGNAL | flags);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

/* Takes the descriptors out of a received message; what does not fit is closed. */
static int take_fds(struct msghdr *msg, int *ret_fds, size_t max_fds, size_t *ret_n)
{
	int r = msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC) ? -EPROTO : 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*ret_n < max_fds) {
				ret_fds[(*ret_n)++] = fd;
				continue;
			}
			close(fd);
			r = -EPROTO;
		}
	}
	for (size_t i = 0; r < 0 && i < *ret_n; i++) {
		close(ret_fds[i]);
		ret_fds[i] = -1;
	}
	if (r < 0)
		*ret_n = 0;
	return r;
}

int fd_message_receive(
	int sock, void *buf, size_t cap, int *ret_fds, size_t max_fds, size_t *ret_n_fds, int flags)
{
	union control control;
	struct iovec iov = {.iov_base = buf, .iov_len = cap};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
	int r;

	*ret_n_fds = 0;
	for (size_t i = 0; i < max_fds; i++)
		ret_fds[i] = -1;
	if (n < 0)
		return -errno;
	r = take_fds(&msg, ret_fds, max_fds, ret_n_fds);
	return r < 0 ? r : (int)n;
}
