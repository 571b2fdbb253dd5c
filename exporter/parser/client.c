/* SPDX-License-Identifier: Apache-2.0
 *
 * main's side of the parser's protocol.
 */
#include "exporter/parser/parser.h"
#include "lib/base/clock.h"
#include "lib/base/fd_message.h"
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { GRACE_MS = 1000, MAX_LINKS_ASKED = 1 << 17 };

const char *parser_status_name(enum parser_status status)
{
	static const char *const names[PARSER_N_STATUS] = {
		[PARSER_OK] = "ok",
		[PARSER_REFUSED] = "refused",
		[PARSER_NO_MEMORY] = "no_memory",
		[PARSER_TIMEOUT] = "timeout",
		[PARSER_CRASHED] = "crashed",
		[PARSER_FAILED] = "failed",
	};

	return names[status];
}

static int send_request(int parser_fd, enum parser_op op, uint32_t timeout_ms, int reply_fd,
	const int *inputs, size_t n_inputs, int links_fd)
{
	const struct parser_request request = {
		.magic = PARSER_MAGIC, .op = op, .timeout_ms = timeout_ms, .links = links_fd >= 0};
	int fds[1 + PARSER_MAX_INPUTS] = {reply_fd};

	ASSERT(n_inputs >= 1 && n_inputs + request.links <= PARSER_MAX_INPUTS);
	memcpy(fds + 1, inputs, n_inputs * sizeof(*inputs));
	if (links_fd >= 0)
		fds[1 + n_inputs++] = links_fd;
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

/* One question of the child, who may be anybody by now. False when there are to be no more. */
static bool answer_link(int fd, const struct parser_finder *finder)
{
	struct parser_link_answer answer = {.magic = PARSER_MAGIC};
	_cleanup_close_ int found = -1;
	struct parser_link link;
	size_t n_fds;
	int none;

	if (fd_message_receive(fd, &link, sizeof(link), &none, 0, &n_fds, MSG_DONTWAIT) !=
			(int)sizeof(link) ||
		link.magic != PARSER_MAGIC || link.id_len > sizeof(link.id) ||
		!memchr(link.path, 0, sizeof(link.path)))
		return false;
	found = finder->find(finder->ctx, &link, &answer.next);
	return fd_message_send(fd, &answer, sizeof(answer), &found, found >= 0, MSG_DONTWAIT) == 0;
}

/* Answers questions until there is a reply; false when the time is over. */
static bool await_reply(
	int reply_fd, int links_fd, const struct parser_finder *finder, uint32_t timeout_ms)
{
	int64_t until =
		clock_monotonic_ns(&clock_system) + (int64_t)(timeout_ms + GRACE_MS) * NS_PER_MS;
	struct pollfd pfds[2] = {
		{.fd = reply_fd, .events = POLLIN}, {.fd = links_fd, .events = POLLIN}};

	for (int asked = 0; !pfds[0].revents;) {
		int64_t left = until - clock_monotonic_ns(&clock_system);
		int r = left > 0 ? poll(pfds, 2, (int)(left / NS_PER_MS) + 1) : 0;

		if (r == 0)
			return false;
		if (r < 0 || !pfds[1].revents)
			continue;
		if (asked++ == MAX_LINKS_ASKED || !answer_link(links_fd, finder)) {
			shutdown(links_fd, SHUT_RDWR);
			pfds[1] = (struct pollfd) {.fd = -1};
		}
	}
	return true;
}

static int make_pair(int *ret_ours, int *ret_theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

static int ask(int parser_fd, enum parser_op op, const int *inputs, size_t n_inputs,
	const struct parser_finder *finder, uint32_t timeout_ms, struct parser_reply *reply)
{
	_cleanup_close_ int ours = -1, theirs = -1, links = -1, their_links = -1;

	*reply = (struct parser_reply) {.magic = PARSER_MAGIC, .status = PARSER_FAILED};
	if (make_pair(&ours, &theirs) < 0 || (finder && make_pair(&links, &their_links) < 0) ||
		send_request(parser_fd, op, timeout_ms, theirs, inputs, n_inputs, their_links) < 0)
		return -1;
	/* With our copies gone, a zygote that dies ends the wait. */
	close(TAKE_FD(theirs));
	if (their_links >= 0)
		close(TAKE_FD(their_links));
	if (await_reply(ours, links, finder, timeout_ms))
		return receive_reply(ours, reply);
	reply->status = PARSER_TIMEOUT;
	return -1;
}

void parser_stop(int parser_fd)
{
	shutdown(parser_fd, SHUT_WR);
}

int parser_ask(int parser_fd, enum parser_op op, int input_fd, uint32_t timeout_ms,
	struct parser_reply *reply)
{
	return parser_ask_with(parser_fd, op, &input_fd, 1, timeout_ms, reply);
}

int parser_ask_with(int parser_fd, enum parser_op op, const int *inputs, size_t n_inputs,
	uint32_t timeout_ms, struct parser_reply *reply)
{
	return ask(parser_fd, op, inputs, n_inputs, NULL, timeout_ms, reply);
}

int parser_ask_compile(int parser_fd, const struct parser_inputs *in, uint32_t timeout_ms,
	struct parser_reply *reply)
{
	const int inputs[] = {in->fd, in->debug_fd};

	return ask(parser_fd, PARSER_COMPILE, inputs, in->debug_fd >= 0 ? 2 : 1, in->finder,
		timeout_ms, reply);
}
