/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies that are taken as they arrive: pieces come before the transfer ends, other answers stay whole, and lines are cut
 * out of pieces however they fall.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <pthread.h>
#include "lib/base/alloc.h"
#include "lib/net/client/client.h"
#include "lib/net/client/lines.h"
#include <string.h>
#include <sys/socket.h>

/* ── lines ── */

static int join(void *arg, const char *line, size_t n)
{
	bytes_printf(arg, "%.*s|", (int)n, line);
	return n == 4 && !memcmp(line, "stop", 4) ? -ESTALE : 0;
}

static void test_lines(void **state)
{
	static const struct {
		const char *body, *lines;
		int error;
	} cases[] = {
		{"a\nbc\n\r\n\nd\r\n", "a|bc|d|", 0},
		{"unended", "", 0},
		{"12345678\n", "12345678|", 0},
		{"ok\n123456789\nmore\n", "ok|", -EFBIG},
		{"ok\n123456789", "ok|", -EFBIG},
		{"a\nstop\nb\n", "a|stop|", -ESTALE},
		{"", "", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (size_t step = 1; step <= 12; step++) {
			_cleanup_bytes_ struct bytes got = {0};
			struct errbuf eb = {0};
			struct http_lines l;
			size_t n = strlen(cases[i].body);
			int r = 0;

			http_lines_init(&l, 8);
			for (size_t at = 0; at < n && r == 0; at += step)
				r = http_lines_put(
					&l, cases[i].body + at, MIN(step, n - at), join, &got, &eb);
			bytes_put_u8(&got, 0);
			assert_int_equal(r, cases[i].error);
			assert_string_equal((char *)got.data, cases[i].lines);
			if (r == -EFBIG)
				assert_string_equal(eb.text, "a line of more than 8 bytes");
			http_lines_reset(&l);
			assert_int_equal(http_lines_put(&l, "x\n", 2, join, &got, &eb), 0);
			http_lines_done(&l);
		}
	}
}

/* ── pieces ── */

/* Answers one request; what follows the first part of the body waits until the client has that. */
struct server {
	int fd, seen[2];
	uint16_t port;
	const char *first, *second;
	pthread_t thread;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	_cleanup_close_ int fd = accept(s->fd, NULL, NULL);
	char buf[4096];

	if (fd < 0 || read(fd, buf, sizeof(buf)) <= 0)
		return NULL;
	(void)!write(fd, s->first, strlen(s->first));
	if (s->second && read(s->seen[0], buf, 1) == 1)
		(void)!write(fd, s->second, strlen(s->second));
	return NULL;
}

static void server_start(struct server *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s->fd, 1), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(pipe(s->seen), 0);
	s->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
	close(s->seen[1]);
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->seen[0]);
	close(s->fd);
}

struct stream {
	struct server *server;
	struct bytes log; /* "head;" and each piece in brackets */
	int answer;	  /* of the callback, once a body has come */
	int error;
	unsigned status;
	char body[64];
	bool is_done;
};

static int on_piece(const void *p, size_t n, void *arg)
{
	struct stream *s = arg;

	if (!n) {
		bytes_put_str(&s->log, "head;");
		return 0;
	}
	bytes_printf(&s->log, "[%.*s]", (int)n, (const char *)p);
	assert_false(s->is_done);
	(void)!write(s->server->seen[1], "x", 1);
	return s->answer;
}

static void on_done(struct http_response *r, void *arg)
{
	struct stream *s = arg;

	s->error = r->error;
	s->status = r->status;
	s->is_done = true;
	snprintf(s->body, sizeof(s->body), "%.*s", (int)r->body.len,
		r->body.len ? (const char *)r->body.data : "");
}

static void test_pieces(void **state)
{
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	static const struct {
		const char *first, *second, *log, *body;
		int answer, error;
		unsigned status;
	} cases[] = {
		{CHUNKED "3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n", "head;[one][two]", "", 0, 0, 200},
		{CHUNKED "3\r\none\r\n", NULL, "head;[one]", "", -ESTALE, -ESTALE, 200},
		/* not the end that was announced */
		{CHUNKED "3\r\none\r\n", "", "head;[one]", "", 0, -EPROTO, 200},
		{"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone", NULL, "", "gone", 0, 0, 410},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(http_client_freep)
		struct http_client *c = NULL;
		struct server server = {.first = cases[i].first, .second = cases[i].second};
		struct stream s = {.server = &server, .answer = cases[i].answer};
		_cleanup_free_ char *url = NULL;
		uint64_t id;

		server_start(&server);
		url = xasprintf("http://127.0.0.1:%u/", server.port);
		assert_int_equal(http_client_new(&(struct http_client_options) {.user_agent = "t"},
					 &c, NULL),
			0);
		assert_int_equal(http_client_start(c,
					 &(struct http_fetch) {.url = url,
						 .timeout_ms = 20000,
						 .piece = on_piece,
						 .done = on_done,
						 .arg = &s},
					 &id, NULL),
			0);
		while (!s.is_done)
			assert_int_equal(http_client_run(c, -1), 0);
		bytes_put_u8(&s.log, 0);
		assert_string_equal((char *)s.log.data, cases[i].log);
		assert_string_equal(s.body, cases[i].body);
		assert_int_equal(s.error, cases[i].error);
		assert_int_equal(s.status, cases[i].status);
		bytes_done(&s.log);
		server_stop(&server);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
