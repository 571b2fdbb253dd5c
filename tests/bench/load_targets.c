/* SPDX-License-Identifier: Apache-2.0
 *
 * The load generator of bench_targets.py, which compiles it: thousands of targets in one process. Target i is the address
 * 127.1.0.0 + i; every request on its kept-alive connections is answered at once with the next of the given files, or, for those
 * that --broken makes fail, with status 500 or never, in turn. What came when is written as records of struct arrival.
 *
 * usage: load_targets LOG BROKEN FILE…
 *	LOG	file for the arrivals
 *	BROKEN	every BROKENth target is broken; 0: none
 * It prints its port, serves until its standard input ends, and then prints its CPU seconds. A control timer of 1 ms writes the
 * machine's stalls into the same log, with target STALL.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FDS = 65536, MAX_FILES = 64, REQUEST_BYTES = 2048, EVENTS = 256, STALL_NS = 5000000 };
static const uint32_t STALL = UINT32_MAX, FIRST_ADDRESS = 0x7f010000;

struct arrival {
	uint32_t target, length_us; /* of a stall */
	int64_t time_ns;	    /* monotonic; of a stall its end */
};

struct answer {
	uint8_t *bytes; /* with the header */
	size_t len;
};

struct connection {
	uint32_t target;
	size_t n_request;	     /* bytes so far */
	const struct answer *answer; /* being sent */
	size_t sent;
	char request[REQUEST_BYTES];
};

struct load {
	int epoll_fd, listen_fd;
	uint32_t broken;
	struct answer answers[MAX_FILES], failure;
	size_t n_answers, n_served;
	struct connection *by_fd[MAX_FDS];
	FILE *log;
	pthread_mutex_t log_lock;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void record(struct load *l, struct arrival a)
{
	pthread_mutex_lock(&l->log_lock);
	if (fwrite(&a, sizeof(a), 1, l->log) != 1)
		die("log");
	pthread_mutex_unlock(&l->log_lock);
}

static void *control_main(void *arg)
{
	struct load *l = arg;

	for (int64_t due = now_ns() + 1000000;; due += 1000000) {
		const struct timespec t = {due / 1000000000, due % 1000000000};
		int64_t now;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		now = now_ns();
		if (now - due < STALL_NS)
			continue;
		record(l, (struct arrival) {STALL, (uint32_t)((now - due) / 1000), now});
		due = now;
	}
	return NULL;
}

static struct answer make_answer(const char *status, const void *body, size_t n)
{
	struct answer a = {.bytes = malloc(n + 256)};
	int header;

	if (!a.bytes)
		die("malloc");
	header = snprintf((char *)a.bytes, 256,
		"HTTP/1.1 %s\r\nContent-Type: application/octet-stream\r\nContent-Length: "
		"%zu\r\n\r\n",
		status, n);
	memcpy(a.bytes + header, body, n);
	a.len = (size_t)header + n;
	return a;
}

static void load_file(struct load *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *body;

	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	body = malloc((size_t)st.st_size);
	if (!body || read(fd, body, (size_t)st.st_size) != st.st_size)
		die(path);
	l->answers[l->n_answers++] = make_answer("200 OK", body, (size_t)st.st_size);
	free(body);
	close(fd);
}

static void drop(struct load *l, int fd)
{
	free(l->by_fd[fd]);
	l->by_fd[fd] = NULL;
	close(fd);
}

/* Sends what it can; false when the connection is gone. */
static bool send_answer(struct load *l, int fd, struct connection *c)
{
	struct epoll_event ev = {.events = EPOLLOUT, .data.fd = fd};

	while (c->sent < c->answer->len) {
		ssize_t n = send(
			fd, c->answer->bytes + c->sent, c->answer->len - c->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &ev) == 0;
		if (n < 0)
			return false;
		c->sent += (size_t)n;
	}
	c->answer = NULL;
	ev.events = EPOLLIN;
	return epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &ev) == 0;
}

static bool on_request(struct load *l, int fd, struct connection *c)
{
	bool is_broken = l->broken && c->target % l->broken == 0;

	record(l, (struct arrival) {c->target, 0, now_ns()});
	c->n_request = c->sent = 0;
	if (is_broken && c->target / l->broken % 2)
		return true; /* never answered */
	c->answer = is_broken ? &l->failure : &l->answers[l->n_served++ % l->n_answers];
	return send_answer(l, fd, c);
}

static bool on_readable(struct load *l, int fd, struct connection *c)
{
	ssize_t n = recv(fd, c->request + c->n_request, REQUEST_BYTES - c->n_request, 0);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	c->n_request += (size_t)n;
	if (c->n_request >= 4 && !memcmp(c->request + c->n_request - 4, "\r\n\r\n", 4))
		return on_request(l, fd, c);
	return c->n_request < REQUEST_BYTES;
}

static void accept_all(struct load *l)
{
	int fd;

	while ((fd = accept4(l->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
		struct sockaddr_in a = {.sin_port = 0};
		socklen_t len = sizeof(a);

		if (fd >= MAX_FDS || getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
			close(fd);
			continue;
		}
		l->by_fd[fd] = calloc(1, sizeof(struct connection));
		if (!l->by_fd[fd])
			die("calloc");
		l->by_fd[fd]->target = ntohl(a.sin_addr.s_addr) - FIRST_ADDRESS;
		if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
			die("epoll");
	}
}

static void listen_on(struct load *l)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct epoll_event ev = {.events = EPOLLIN}, end = {.events = EPOLLIN, .data.fd = 0};
	socklen_t len = sizeof(a);

	l->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ev.data.fd = l->listen_fd;
	if (bind(l->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(l->listen_fd, 16384) < 0 ||
		getsockname(l->listen_fd, (struct sockaddr *)&a, &len) < 0 ||
		epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->listen_fd, &ev) < 0 ||
		epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, 0, &end) < 0)
		die("listen");
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
}

static void serve(struct load *l)
{
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(l->epoll_fd, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			struct connection *c = l->by_fd[fd];

			if (fd == 0)
				return;
			if (fd == l->listen_fd)
				accept_all(l);
			else if (!(c->answer ? send_answer(l, fd, c) : on_readable(l, fd, c)))
				drop(l, fd);
		}
	}
}

int main(int argc, char **argv)
{
	static struct load l = {.log_lock = PTHREAD_MUTEX_INITIALIZER};
	struct rusage u;
	pthread_t control;

	if (argc < 4 || argc - 3 > MAX_FILES)
		return 2;
	l.log = fopen(argv[1], "wb");
	if (!l.log)
		die(argv[1]);
	l.broken = (uint32_t)strtoul(argv[2], NULL, 10);
	for (int i = 3; i < argc; i++)
		load_file(&l, argv[i]);
	l.failure = make_answer("500 Internal Server Error", "broken\n", 7);
	listen_on(&l);
	if (pthread_create(&control, NULL, control_main, &l))
		die("pthread_create");
	serve(&l);
	fflush(l.log);
	getrusage(RUSAGE_SELF, &u);
	printf("%f\n", (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
			       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	return 0;
}
