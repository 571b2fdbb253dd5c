/* SPDX-License-Identifier: Apache-2.0
 *
 * main's side of the parser's protocol.
 */
#include "exporter/parser/parser.h"
#include "lib/base/fd_message.h"
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { GRACE_MS = 1000 };

static int send_request(int parser_fd, enum parser_op op, uint32_t timeout_ms, int reply_fd,
	const int *inputs, size_t n_inputs)
{
	const struct parser_request request = {
		.magic = PARSER_MAGIC, .op = op, .timeout_ms = timeout_ms};
	int fds[1 + PARSER_MAX_INPUTS] = {reply_fd};

	ASSERT(n_inputs >= 1 && n_inputs <= PARSER_MAX_INPUTS);
	memcpy(fds + 1, inputs, n_inputs * sizeof(*inputs));
	return fd_message_send(parser_fd, &request, sizeof(request), fds, 1 + n_inputs, 0);
}

/* The descriptor that came with the reply, or -1. */
static int receive_reply(int fd, struct parser_reply *ret)
{
	struct parser_reply reply;
	int memfd;
	size_t n_fds;
	int n = fd_message_receive(fd, &reply, sizeof(reply), &memfd, 1, &n_fds, MSG_DONTWAIT);

	if (n != (int)sizeof(reply) || reply.magic != PARSER_MAGIC ||
		reply.status >= PARSER_N_STATUS) {
		if (memfd >= 0)
			close(memfd);
		return -1;
	}
	reply.text[sizeof(reply.text) - 1] = '\0';
	*ret = reply;
	return memfd;
}

int parser_ask(int parser_fd, enum parser_op op, int input_fd, uint32_t timeout_ms,
	struct parser_reply *reply)
{
	return parser_ask_with(parser_fd, op, &input_fd, 1, timeout_ms, reply);
}

int parser_ask_with(int parser_fd, enum parser_op op, const int *inputs, size_t n_inputs,
	uint32_t timeout_ms, struct parser_reply *reply)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	struct pollfd pfd;
	int pair[2], r;

	*reply = (struct parser_reply) {.magic = PARSER_MAGIC, .status = PARSER_FAILED};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	ours = pair[0];
	theirs = pair[1];
	r = send_request(parser_fd, op, timeout_ms, theirs, inputs, n_inputs);
	if (r < 0)
		return -1;
	/* With our copy gone, a zygote that dies ends the wait. */
	close(TAKE_FD(theirs));
	pfd = (struct pollfd) {.fd = ours, .events = POLLIN};
	do
		r = poll(&pfd, 1, (int)timeout_ms + GRACE_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		reply->status = PARSER_TIMEOUT;
	return r > 0 ? receive_reply(ours, reply) : -1;
}
