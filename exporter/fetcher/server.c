/* SPDX-License-Identifier: Apache-2.0
 *
 * The role: one request after the other, each server asked in turn. A body goes straight to the
 * file; nothing of it is held or looked at here. Pods are followed on a thread of their own.
 */
#include "exporter/fetcher/pods.h"
#include "exporter/fetcher/protocol.h"
#include "lib/base/alloc.h"
#include "lib/base/fd_message.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include "lib/net/client/client.h"
#include <string.h>
#include <sys/socket.h>

/* URL/buildid/HEX/debuginfo (debuginfod(8)) */
static char *url_of(const char *base, const struct fetcher_request *q)
{
	char hex[2 * FETCHER_MAX_ID + 1] = "";
	size_t n = strlen(base);

	for (uint32_t i = 0; i < q->id_len; i++)
		snprintf(hex + (size_t)i * 2, 3, "%02x", q->id[i]);
	return xasprintf(
		"%.*s/buildid/%s/debuginfo", (int)(n - (n && base[n - 1] == '/')), base, hex);
}

static enum fetcher_status status_of(int error, unsigned http_status)
{
	if (error == -EFBIG)
		return FETCHER_TOO_LARGE;
	if (error == -ETIMEDOUT)
		return FETCHER_TIMEOUT;
	if (error < 0)
		return FETCHER_ERROR;
	if (http_status == 404)
		return FETCHER_NOT_FOUND;
	return http_status == 200 ? FETCHER_OK : FETCHER_ERROR;
}

static enum fetcher_status fetch_from(const struct fetcher_options *o, const char *base,
	const struct fetcher_request *q, int out_fd, struct fetcher_reply *reply)
{
	_cleanup_free_ char *url = url_of(base, q),
			    *agent = xasprintf("sonde-exporter/%s", version_number());
	_cleanup_http_response_ struct http_response response = {0};
	struct errbuf eb = {.text = ""};
	enum fetcher_status status;
	int r;

	if (ftruncate(out_fd, 0) < 0 || lseek(out_fd, 0, SEEK_SET) < 0)
		return FETCHER_FAILED;
	r = http_client_fetch(&(struct http_fetch) {.url = url,
				      .timeout_ms = o->timeout_ms,
				      .max_body_bytes = o->max_bytes,
				      .body_fd = &out_fd},
		agent, &response, &eb);
	status = status_of(r, response.status);
	if (status == FETCHER_ERROR && r == 0)
		snprintf(reply->text, sizeof(reply->text), "%s: HTTP status %u", base,
			response.status);
	else if (status != FETCHER_OK && status != FETCHER_NOT_FOUND)
		snprintf(reply->text, sizeof(reply->text), "%s: %s", base, err_text(&eb, r));
	return status;
}

/* The first server that has it; when none does, what went wrong counts more than "not found". */
static void serve(const struct fetcher_options *o, const struct fetcher_request *q, int out_fd,
	struct fetcher_reply *reply)
{
	off_t bytes;

	reply->status = FETCHER_NOT_FOUND;
	for (size_t i = 0; i < o->n_debuginfod; i++) {
		enum fetcher_status status = fetch_from(o, o->debuginfod[i], q, out_fd, reply);

		if (status == FETCHER_OK || status != FETCHER_NOT_FOUND)
			reply->status = status;
		if (status == FETCHER_OK)
			break;
	}
	bytes = lseek(out_fd, 0, SEEK_END);
	reply->bytes = reply->status == FETCHER_OK && bytes > 0 ? (uint64_t)bytes : 0;
	if (reply->status == FETCHER_OK)
		reply->text[0] = '\0';
}

static bool is_valid(const struct fetcher_request *q)
{
	if (q->magic != FETCHER_MAGIC || q->reserved)
		return false;
	if (q->op == FETCHER_PODS)
		return !q->id_len;
	return q->op == FETCHER_DEBUGINFO && q->id_len && q->id_len <= FETCHER_MAX_ID;
}

/* 0; -EPIPE when main is gone. */
static int answer_one(const struct fetcher_options *o, int fd)
{
	struct fetcher_request q;
	struct fetcher_reply reply = {.magic = FETCHER_MAGIC};
	_cleanup_close_ int reply_fd = -1, out_fd = -1;
	int fds[2];
	size_t n_fds;
	int n = fd_message_receive(fd, &q, sizeof(q), fds, ARRAY_SIZE(fds), &n_fds, 0);

	reply_fd = fds[0];
	out_fd = fds[1];
	if (n == 0)
		return -EPIPE;
	if (n < 0)
		return n == -EINTR || n == -EPROTO ? 0 : n;
	if (n != (int)sizeof(q) || !is_valid(&q))
		return 0;
	if (q.op == FETCHER_PODS) {
		if (o->pods && reply_fd >= 0)
			pods_follow(o->pods, TAKE_FD(reply_fd));
		return 0;
	}
	if (out_fd < 0)
		return 0;
	serve(o, &q, out_fd, &reply);
	/* Who asked may have given up: nothing to do then. */
	(void)!send(reply_fd, &reply, sizeof(reply), MSG_NOSIGNAL);
	return 0;
}

int fetcher_run(const struct fetcher_options *o, int fd)
{
	int r;

	do
		r = answer_one(o, fd);
	while (r == 0);
	return r == -EPIPE ? 0 : 1;
}
