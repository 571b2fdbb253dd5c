/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners: TCP over IPv4 and IPv6, and Unix sockets.
 */
#include "lib/net/server/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BACKLOG = 512, UNIX_MODE = 0660 };

bool http_addr_is_loopback(const struct sockaddr *a)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (a->sa_family == AF_INET) {
		memcpy(&v4, a, sizeof(v4));
		return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
	}
	if (a->sa_family != AF_INET6)
		return false;
	memcpy(&v6, a, sizeof(v6));
	return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
}

void http_peer_text(const struct sockaddr *a, char *ret, size_t n)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (a->sa_family == AF_INET) {
		memcpy(&v4, a, sizeof(v4));
		inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
		snprintf(ret, n, "%s:%u", text, ntohs(v4.sin_port));
	} else if (a->sa_family == AF_INET6) {
		memcpy(&v6, a, sizeof(v6));
		inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
		snprintf(ret, n, "[%s]:%u", text, ntohs(v6.sin6_port));
	} else {
		snprintf(ret, n, "unix");
	}
}

static struct http_listener *add_listener(struct http_server *s, int fd, char *address)
{
	struct http_listener *l;

	s->listeners = xrealloc(s->listeners, (s->n_listeners + 1) * sizeof(*s->listeners));
	l = &s->listeners[s->n_listeners++];
	*l = (struct http_listener) {.fd = fd, .address = address};
	return l;
}

/* A socket file that nobody listens on is left over from a run that was killed. */
static bool unix_is_stale(const struct sockaddr_un *a)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0 || lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	return connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED;
}

static int open_unix(struct http_server *s, const char *path, struct errbuf *eb)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	struct http_listener *l;

	if (!*path || strlen(path) >= sizeof(a.sun_path))
		return err_set(eb, -EINVAL, "unix socket path must have 1 to %zu bytes",
			sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(eb, -errno, "socket: %s", strerror(errno));
	if (unix_is_stale(&a))
		unlink(path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_set(eb, -errno, "%s%s",
			errno == EADDRINUSE
				? "in use, another program listens there or the file is no socket"
				: strerror(errno),
			errno == ENOENT ? ": the socket's directory must exist"
			: errno == EACCES
				? ": this user must be able to write to the socket's directory"
				: "");
	if (chmod(path, UNIX_MODE) < 0 || listen(fd, BACKLOG) < 0) {
		int error = errno;

		unlink(path);
		return err_set(eb, -error, "%s", strerror(error));
	}
	l = add_listener(s, TAKE_FD(fd), xasprintf("unix:%s", path));
	l->is_unix = true;
	l->unix_path = xstrdup(path);
	return 0;
}

static int bind_one(
	struct http_server *s, const struct addrinfo *ai, bool is_wildcard, struct errbuf *eb)
{
	_cleanup_close_ int fd =
		socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0;
	struct sockaddr_storage bound = {0};
	socklen_t len = sizeof(bound);
	char text[INET6_ADDRSTRLEN + 8];
	struct http_listener *l;

	if (fd < 0)
		return err_set(eb, -errno, "socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_wildcard ? &off : &on, sizeof(on));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
		return err_set(eb, -errno, "%s%s",
			errno == EADDRINUSE ? "the port is in use, stop the other program or "
					      "choose another port"
					    : strerror(errno),
			errno == EACCES
				? ": ports below net.ipv4.ip_unprivileged_port_start need root"
				: "");
	http_peer_text((const struct sockaddr *)&bound, text, sizeof(text));
	l = add_listener(s, TAKE_FD(fd), xstrdup(text));
	l->is_loopback = http_addr_is_loopback((const struct sockaddr *)&bound);
	l->port = bound.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&bound)->sin_port)
					     : ntohs(((struct sockaddr_in6 *)&bound)->sin6_port);
	return 0;
}

static void addrinfo_freep(struct addrinfo **ai)
{
	if (*ai)
		freeaddrinfo(*ai);
}

/* A name with several addresses ("localhost") is bound on each; one that works is enough. A
 * wildcard takes IPv6 with IPv4, else IPv4. */
static int open_tcp(struct http_server *s, const char *text, struct errbuf *eb)
{
	_cleanup_free_ char *host = NULL;
	_cleanup_(addrinfo_freep)
	struct addrinfo *list = NULL;
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	size_t before = s->n_listeners;
	char port_text[8];
	uint16_t port = 0;
	int r = url_split_host_port(text, &host, &port, eb);

	if (r < 0)
		return r;
	snprintf(port_text, sizeof(port_text), "%u", port);
	if (!*host) {
		struct sockaddr_in6 any = {.sin6_family = AF_INET6,
			.sin6_port = htons(port),
			.sin6_addr = in6addr_any};
		struct addrinfo ai = {.ai_family = AF_INET6,
			.ai_addr = (struct sockaddr *)&any,
			.ai_addrlen = sizeof(any)};

		r = bind_one(s, &ai, true, eb);
		if (r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL)
			return r;
		hints.ai_family = AF_INET;
	}
	r = getaddrinfo(*host ? host : NULL, port_text, &hints, &list);
	if (r)
		return err_set(eb, -EINVAL, "cannot resolve: %s", gai_strerror(r));
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		r = bind_one(s, ai, false, eb);
		if (r < 0 && r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL)
			return r;
		/* Port 0 of a second address would be another port: the first is enough. */
		if (r == 0 && port == 0)
			break;
	}
	return s->n_listeners > before ? 0 : r;
}

int http_listen_open(struct http_server *s, const char *text, struct errbuf *eb)
{
	int r = str_starts_with(text, "unix:") ? open_unix(s, text + strlen("unix:"), eb)
					       : open_tcp(s, text, eb);

	return r < 0 ? err_prefix(eb, r, "cannot listen on \"%s\"", text) : 0;
}

void http_listen_close(struct http_server *s)
{
	for (size_t i = 0; i < s->n_listeners; i++) {
		struct http_listener *l = &s->listeners[i];

		if (l->fd < 0)
			continue;
		close(TAKE_FD(l->fd));
		if (l->unix_path)
			unlink(l->unix_path);
	}
}
