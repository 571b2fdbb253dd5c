/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's protocol: messages, the server's answers over a socket pair on this test's own process, and the client's
 * timeouts. Needs no privilege.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "exporter/keeper/attach.h"
#include "exporter/keeper/programs.h"
#include "exporter/keeper/protocol.h"
#include "lib/base/fd_message.h"
#include "exporter/keeper/server.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "tests/unit/keeper_pair.h"

static void messages(void **state)
{
	uint8_t buf[KEEPER_MAX_MESSAGE];
	const struct keeper_request q = {.seq = 0x01020304,
		.op = KEEPER_OP_OPEN,
		.what = KEEPER_MAP_FILE,
		.id = 77,
		.start_ns = 1ULL << 60,
		.start = 0x1000,
		.end = 0x2000,
		.payload = (const uint8_t *)"abc",
		.payload_len = 3};
	const struct keeper_reply p = {
		.seq = 9, .result = -13, .n_fds = 2, .pid = 0x0a0b0c, .text = "no"};
	struct keeper_request q2;
	struct keeper_reply p2;
	static const int32_t results[] = {
		-ERR_MAX_ERRNO, 1, INT32_MAX, -ERR_MAX_ERRNO - 1, INT32_MIN};
	int n = protocol_put_request(&q, buf);

	(void)state;
	assert_int_equal(n, KEEPER_REQUEST_BYTES + 3);
	assert_memory_equal(buf, "\4\3\2\1\1\0\2\0", 8);
	assert_int_equal(protocol_get_request(buf, (size_t)n, &q2), 0);
	assert_int_equal(q2.seq, q.seq);
	assert_int_equal(q2.op, q.op);
	assert_int_equal(q2.what, q.what);
	assert_int_equal(q2.id, q.id);
	assert_int_equal(q2.start_ns, q.start_ns);
	assert_int_equal(q2.start, q.start);
	assert_int_equal(q2.end, q.end);
	assert_memory_equal(q2.payload, "abc", 3);
	for (int cut = 0; cut < n; cut++)
		assert_int_equal(protocol_get_request(buf, (size_t)cut, &q2), -EBADMSG);
	assert_int_equal(protocol_get_request(buf, (size_t)n + 1, &q2), -EBADMSG);

	n = protocol_put_reply(&p, buf);
	assert_int_equal(protocol_get_reply(buf, (size_t)n, &p2), 0);
	assert_int_equal(p2.result, -13);
	assert_int_equal(p2.n_fds, 2);
	assert_int_equal(p2.pid, 0x0a0b0c);
	assert_string_equal(p2.text, "no");
	for (int cut = 0; cut < n; cut++)
		assert_int_equal(protocol_get_reply(buf, (size_t)cut, &p2), -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		memcpy(buf + 4, &results[i], 4);
		assert_int_equal(protocol_get_reply(buf, (size_t)n, &p2), i ? -EBADMSG : 0);
	}
}

/* Main has given many requests up, and their replies fill its socket: the keeper goes on answering. */
static void replies_that_nobody_reads(void **state)
{
	const struct keeper_request q = {.op = KEEPER_OP_ATTACH, .id = 5};
	const struct server server = {.procfs = "/proc", .attach = fake_attach};
	uint8_t buf[KEEPER_MAX_MESSAGE];
	int n = protocol_put_request(&q, buf), sock[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(fd_message_send(sock[1], buf, (size_t)n, NULL, 0, 0), 0);
		assert_int_equal(server_answer(&server, sock[0]), 0);
	}
	while (recv(sock[1], buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(fd_message_send(sock[1], buf, (size_t)n, NULL, 0, 0), 0);
	assert_int_equal(server_answer(&server, sock[0]), 0);
	assert_true(recv(sock[1], buf, sizeof(buf), MSG_DONTWAIT) > 0);
	close(sock[1]);
	assert_int_equal(server_answer(&server, sock[0]), -EPIPE);
	close(sock[0]);
}

static void expect_file(int fd, const char *start)
{
	char buf[4096] = "";

	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(read(fd, buf, strlen(start)) == (ssize_t)strlen(start));
	assert_string_equal(buf, start);
	close(fd);
}

static void open_checks_the_start_time(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	uint32_t me = (uint32_t)getpid();
	/* CLOCK_MONOTONIC as the kernel half reports it: what was spent in suspend is not in it */
	int64_t suspended = clock_boottime_ns(&clock_system) - clock_monotonic_ns(&clock_system);
	uint64_t boot = started_ns(getpid()), mono = boot - (uint64_t)suspended;
	int fd = k->open(k, me, mono + 3000000, KEEPER_MAPS, 0, 0);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(k->open(k, me, mono + 10000000, KEEPER_MAPS, 0, 0), -ESRCH);
	assert_int_equal(k->open(k, me, mono - 5000000000, KEEPER_MAPS, 0, 0), -ESRCH);
	fd = k->open(k, me, 0, KEEPER_MAPS, 0, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(k->open(k, 0x7ffffff0, 0, KEEPER_MAPS, 0, 0), -ESRCH);
}

static void a_dead_process_is_gone(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_int_equal(k->open(k, (uint32_t)pid, 0, KEEPER_MAPS, 0, 0), -ESRCH);
}

static void open_kinds(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	uint32_t me = (uint32_t)getpid();
	char exe[4096] = "";
	struct stat a, b;
	int fd;

	expect_file(k->open(k, 0, 0, KEEPER_KALLSYMS, 0, 0), "");
	fd = k->open(k, me, 0, KEEPER_ROOT, 0, 0);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFL) & O_PATH);
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(stat("/", &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	close(fd);
	fd = k->open(k, me, 0, KEEPER_MNT_NS, 0, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	expect_file(k->open(k, me, 0, KEEPER_EXE, 0, 0), exe);
	for (int what = 0; what < 100; what++) /* neither memory nor anything else of a process */
		if (what == 0 || what == 5 || what == 7 || what > KEEPER_EXE)
			assert_int_equal(k->open(k, me, 0, (enum keeper_what)what, 0, 0), -EINVAL);
	assert_true(k->open(k, me, 0, KEEPER_MAP_FILE, 0x1000, 0x2000) < 0);
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void link_to(const char *dir, const char *name, const char *target)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(symlink(target, path), 0);
}

static void open_at_stays_below_the_root(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	char path[256];
	int root;

	write_file(p->dir, "file", "content");
	link_to(p->dir, "absolute", "/file");
	link_to(p->dir, "up", "../../../../../file");
	link_to(p->dir, "outside", "/etc/hostname");
	link_to(p->dir, "magic", "/proc/self/exe");
	snprintf(path, sizeof(path), "%s/fifo", p->dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	root = open(p->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);

	expect_file(k->open_at(k, root, "/file", 0), "content");
	expect_file(k->open_at(k, root, "file", 0), "content");
	expect_file(k->open_at(k, root, "/absolute", 0), "content");
	expect_file(k->open_at(k, root, "/up", 0), "content");
	expect_file(k->open_at(k, root, "/../file", 0), "content");
	assert_int_equal(k->open_at(k, root, "/outside", 0), -ENOENT);
	assert_int_equal(k->open_at(k, root, "/magic", 0), -ENOENT);
	expect_file(k->open_at(k, root, "/file", KEEPER_NO_LINK), "content");
	assert_int_equal(k->open_at(k, root, "/absolute", KEEPER_NO_LINK), -EINVAL);
	assert_int_equal(k->open_at(k, root, "/fifo", 0), -EINVAL);
	assert_int_equal(k->open_at(k, root, "/", 0), -EINVAL);
	assert_int_equal(k->open_at(k, root, "", 0), -EINVAL);
	assert_int_equal(k->open_at(k, -1, "/file", 0), -EBADF);
	close(root);
	root = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(k->open_at(k, root, "/null", 0), -EINVAL);
	close(root);
}

static void attaching(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	struct errbuf eb = {0};
	char byte = 1;
	int fd = k->attach(k, ABI_EVENT_CPU, 0, &eb);

	assert_true(fd >= 0 && read(fd, &byte, 1) == 0); /* /dev/null */
	close(fd);
	fd = k->attach_sideband(k, 0, &eb);
	assert_true(fd >= 0 && read(fd, &byte, 1) == 1);
	close(fd);
	assert_int_equal(k->attach(k, ABI_EVENT_CPU, 5, &eb), -ENODEV);
	assert_string_equal(eb.text, "CPU 5 sleeps");
	assert_int_equal(k->attach(k, ABI_EVENT_CPU, 4000000, &eb), -EINVAL);
}

static void attaching_to_files(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	struct errbuf eb = {0};
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;

	expect_file(k->attach_file(k, 3, file, 0x1234567890, &eb), "\177ELF");
	assert_int_equal(k->attach_file(k, 3, file, 1, &eb), -ENOENT);
	assert_string_equal(eb.text, "event 3, offset 0x1");
	fd = k->attach_file(k, 3, -1, 0x1234567890, &eb);
	assert_int_equal(fd, -EBADF);
	close(file);
}

/* Off, of another target, of no row: none is attached, and what only those off have is left out. */
static void the_table_of_programs(void **state)
{
	const struct keeper_programs p = {.n = 3,
		.rows = {{.event = "cpu", .target = EVENT_PER_CPU, .is_on = true},
			{.event = "page", .target = EVENT_PER_CPU},
			{.event = "probe", .target = EVENT_PER_FILE, .is_on = true}}};
	struct keeper_programs of_events;

	(void)state;
	assert_ptr_equal(programs_find(&p, 0, EVENT_PER_CPU), &p.rows[0]);
	assert_ptr_equal(programs_find(&p, 2, EVENT_PER_FILE), &p.rows[2]);
	assert_null(programs_find(&p, 0, EVENT_PER_FILE));
	assert_null(programs_find(&p, 1, EVENT_PER_CPU));
	assert_null(programs_find(&p, 3, EVENT_PER_CPU));
	assert_null(programs_find(&p, UINT32_MAX, EVENT_PER_CPU));
	assert_true(programs_leave_out(&p, "page_since"));
	assert_false(programs_leave_out(&p, "pages"));
	assert_false(programs_leave_out(&p, "probe_since"));
	assert_false(programs_leave_out(&p, "counters"));
	/* Scratch that outlives a preemption: for what is on, however it is attached. */
	assert_false(programs_are_preemptible(&p));
	for (int target = EVENT_PER_CPU; target <= EVENT_AT_LOAD; target++) {
		struct keeper_programs q = {
			.n = 1, .rows = {{.event = "x", .target = target, .is_preemptible = true}}};

		assert_false(programs_are_preemptible(&q));
		q.rows[0].is_on = true;
		assert_true(programs_are_preemptible(&q));
	}
	programs_of_events(EVENT_BIT(ABI_EVENT_CPU), 50, &of_events);
	assert_false(programs_are_preemptible(&of_events));
	assert_int_equal(of_events.n, ABI_N_EVENTS);
	assert_true(of_events.rows[ABI_EVENT_CPU].is_on);
	assert_int_equal(of_events.rows[ABI_EVENT_CPU].period, 20000000);
	for (unsigned i = ABI_EVENT_CPU + 1; i < ABI_N_EVENTS; i++)
		assert_false(of_events.rows[i].is_on);
}

static int raw_call(const struct pair *p, const void *msg, size_t len, const int *fds, size_t n_fds,
	struct keeper_reply *ret)
{
	uint8_t buf[KEEPER_MAX_MESSAGE];
	struct timeval wait = {.tv_sec = 5};
	int got[KEEPER_MAX_FDS], n;
	size_t n_got;
	fd_set set;

	assert_int_equal(fd_message_send(p->sock[1], msg, len, fds, n_fds, MSG_DONTWAIT), 0);
	FD_ZERO(&set);
	FD_SET(p->sock[1], &set);
	assert_int_equal(select(p->sock[1] + 1, &set, NULL, NULL, &wait), 1);
	n = fd_message_receive(
		p->sock[1], buf, sizeof(buf), got, KEEPER_MAX_FDS, &n_got, MSG_DONTWAIT);
	assert_true(n > 0);
	assert_int_equal(n_got, 0);
	return protocol_get_reply(buf, (size_t)n, ret);
}

static void malformed_requests_are_answered(void **state)
{
	struct pair *p = *state;
	uint8_t buf[KEEPER_MAX_MESSAGE];
	struct keeper_request q = {.seq = 7};
	struct keeper_reply reply;
	int fds[] = {0, 0}, n = 0;

	assert_int_equal(raw_call(p, "x", 1, NULL, 0, &reply), 0);
	assert_int_equal(reply.result, -EBADMSG);
	/* Opening is for openers. */
	for (q.op = 0; q.op < 100; q.op++) {
		if (q.op == KEEPER_OP_ATTACH || q.op == KEEPER_OP_ATTACH_FILE ||
			q.op == KEEPER_OP_OPENER)
			continue;
		n = protocol_put_request(&q, buf);
		assert_int_equal(raw_call(p, buf, (size_t)n, NULL, 0, &reply), 0);
		assert_int_equal(reply.result, -ENOTSUP);
		assert_int_equal(reply.seq, 7);
	}
	assert_int_equal(raw_call(p, buf, (size_t)n - 1, fds, 2, &reply), 0);
	assert_int_equal(reply.result, -EBADMSG);
}

static void an_opener_refuses_malformed_paths(void **state)
{
	const struct server server = {.procfs = "/proc", .opens_files = true};
	struct keeper_request q = {.seq = 7};
	struct keeper_reply reply;
	uint8_t buf[KEEPER_MAX_MESSAGE];
	int sock[2], fds[] = {0, 0}, n;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	q.op = KEEPER_OP_OPEN_AT; /* a NUL inside a path */
	q.payload = (const uint8_t *)"a\0b";
	q.payload_len = 3;
	n = protocol_put_request(&q, buf);
	assert_int_equal(fd_message_send(sock[1], buf, (size_t)n, fds, 1, MSG_DONTWAIT), 0);
	assert_int_equal(server_wait(sock[0]), 0);
	assert_int_equal(server_answer(&server, sock[0]), 0);
	n = (int)recv(sock[1], buf, sizeof(buf), MSG_DONTWAIT);
	assert_int_equal(protocol_get_reply(buf, (size_t)n, &reply), 0);
	assert_int_equal(reply.result, -EINVAL);
	close(sock[0]);
	close(sock[1]);
}

/* The keeper does not answer; then the answer to the first request comes during the second one. */
static void late_answers_are_dropped(void **state)
{
	int sock[2], fds[KEEPER_MAX_FDS];
	uint8_t buf[KEEPER_MAX_MESSAGE];
	struct keeper_reply late = {.seq = 1, .n_fds = 1};
	struct errbuf eb;
	struct keeper *k;
	size_t n_fds;
	int n, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	k = keeper_client_new(sock[1], 50);
	assert_int_equal(k->attach(k, ABI_EVENT_CPU, 1, &eb), -ETIMEDOUT);
	assert_true(fd_message_receive(sock[0], buf, sizeof(buf), fds, KEEPER_MAX_FDS, &n_fds,
			    MSG_DONTWAIT) > 0);
	n = protocol_put_reply(&late, buf);
	assert_int_equal(fd_message_send(sock[0], buf, (size_t)n, &fd, 1, MSG_DONTWAIT), 0);
	assert_int_equal(k->attach(k, ABI_EVENT_CPU, 1, &eb), -ETIMEDOUT);
	assert_true(fd_message_receive(sock[0], buf, sizeof(buf), fds, KEEPER_MAX_FDS, &n_fds,
			    MSG_DONTWAIT) > 0);
	close(sock[0]);
	assert_int_equal(k->attach(k, ABI_EVENT_CPU, 1, &eb), -EPIPE);
	assert_true(k->open(k, 1, 0, KEEPER_MAPS, 0, 0) < 0);
	k->close(k);
	close(fd);
}

static void *open_maps(void *keeper)
{
	struct keeper *k = keeper;

	assert_int_equal(k->open(k, (uint32_t)getpid(), 0, KEEPER_MAPS, 0, 0), -ETIMEDOUT);
	return NULL;
}

/* Until the keeper has named it, an opener has used nothing; without an id it would be this process that is measured. A request counts
 * once it has ended, or those that were answered, the rest of them, would be fewer later. */
static void an_opener_that_never_starts(void **state)
{
	struct keeper_stats stats = {};
	struct keeper *k;
	pthread_t thread;
	int sock[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	k = keeper_client_new(sock[1], 500);
	assert_int_equal(pthread_create(&thread, NULL, open_maps, k), 0);
	while (!stats.openers)
		keeper_stats(k, &stats);
	assert_int_equal(stats.requests, 0);
	assert_int_equal(stats.cpu_ns, 0);
	pthread_join(thread, NULL);
	keeper_stats(k, &stats);
	assert_int_equal(stats.requests, 1);
	assert_int_equal(stats.timeouts, 1);
	assert_int_equal(stats.cpu_ns, 0);
	k->close(k);
	close(sock[0]);
}

/* One request waits for a keeper that is silent; all others fail at once until its answer comes. */
static void a_silent_keeper(void **state)
{
	struct pair *p = *state;
	uint32_t me = (uint32_t)getpid();
	struct keeper_stats stats;
	struct errbuf eb = {{0}};
	struct keeper *k;
	int64_t began_ns;
	int fd;

	p->keeper->close(p->keeper);
	pthread_join(p->thread, NULL);
	close(p->sock[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->sock), 0);
	k = p->keeper = keeper_client_new(p->sock[1], 500);
	assert_int_equal(keeper_silent_since_ns(k), 0);
	began_ns = clock_monotonic_ns(&clock_system);
	assert_int_equal(k->open(k, me, 0, KEEPER_MAPS, 0, 0), -ETIMEDOUT);
	assert_true(clock_monotonic_ns(&clock_system) - began_ns >= NS_PER_S / 2);
	assert_true(keeper_silent_since_ns(k) >= began_ns);
	began_ns = clock_monotonic_ns(&clock_system);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(k->open(k, me, 0, KEEPER_MAPS, 0, 0), -EBUSY);
		assert_int_equal(k->attach(k, ABI_EVENT_CPU, 1, &eb), -EBUSY);
	}
	assert_string_equal(eb.text, "the keeper does not answer");
	assert_true(clock_monotonic_ns(&clock_system) - began_ns < NS_PER_S / 2);
	keeper_stats(k, &stats);
	assert_int_equal(stats.requests, 21);
	assert_int_equal(stats.timeouts, 1);
	assert_int_equal(stats.silent, 20);
	assert_int_equal(stats.busy, 0);
	assert_int_equal(stats.returned, 0);
	assert_int_equal(stats.silent_since_ns, keeper_silent_since_ns(k));
	/* It goes on. */
	assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
	while (stats.silent_since_ns) {
		usleep(1000);
		keeper_stats(k, &stats);
	}
	assert_int_equal(keeper_silent_since_ns(k), 0);
	assert_int_equal(stats.returned, 1);
	fd = k->open(k, me, 0, KEEPER_MAPS, 0, 0);
	assert_true(fd >= 0);
	close(fd);
}

/* Openers that do not answer cost the requests that they have, as many of a kind as may hang, and no others. */
static void openers_that_hang(void **state)
{
	struct pair *p = *state;
	uint32_t me = (uint32_t)getpid();
	struct keeper_reply late = {.seq = 1};
	uint8_t buf[KEEPER_MAX_MESSAGE];
	struct keeper_stats stats;
	struct keeper *k;
	int fd;

	p->n_dead = 3;
	p->keeper->close(p->keeper);
	pthread_join(p->thread, NULL);
	close(p->sock[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->sock), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
	k = p->keeper = keeper_client_new(p->sock[1], 100);
	assert_int_equal(k->open(k, me, 0, KEEPER_ROOT, 0, 0), -ETIMEDOUT);
	assert_int_equal(k->open(k, me, 0, KEEPER_ROOT, 0, 0), -ETIMEDOUT);
	assert_int_equal(k->open(k, me, 0, KEEPER_ROOT, 0, 0), -EBUSY);
	assert_int_equal(k->open(k, me, 0, KEEPER_MAPS, 0, 0), -ETIMEDOUT);
	/* The fourth is alive. */
	for (int i = 0; i < 3; i++) {
		fd = k->open(k, me, 0, KEEPER_MAPS, 0, 0);
		assert_true(fd >= 0);
		close(fd);
	}
	assert_int_equal(p->n_openers, 4);
	keeper_stats(k, &stats);
	assert_int_equal(stats.requests, 7);
	assert_int_equal(stats.timeouts, 3);
	assert_int_equal(stats.busy, 1);
	assert_int_equal(stats.openers, 4);
	assert_int_equal(stats.n_hanging, 3);
	assert_int_equal(stats.hanging[0].what, KEEPER_ROOT);
	assert_int_equal(stats.hanging[0].pid, me);
	assert_true(stats.cpu_ns > 0);
	/* One answers after all, another ends: their places are free again. */
	late.result = -EIO;
	assert_int_equal(fd_message_send(p->openers[0].sock, buf,
				 (size_t)protocol_put_reply(&late, buf), NULL, 0, MSG_DONTWAIT),
		0);
	shutdown(p->openers[1].sock, SHUT_RDWR);
	keeper_stats(k, &stats);
	assert_int_equal(stats.n_hanging, 1);
	assert_int_equal(stats.returned, 2);
	assert_int_equal(stats.openers, 3);
}

/* What was asked of it is asked of another. */
static void openers_that_end(void **state)
{
	struct pair *p = *state;
	struct keeper *k = p->keeper;
	struct keeper_stats stats;

	for (unsigned n = 1; n <= 3; n++) {
		int fd = k->open(k, (uint32_t)getpid(), 0, KEEPER_MAPS, 0, 0);

		assert_true(fd >= 0);
		close(fd);
		assert_int_equal(p->n_openers, n);
		shutdown(p->openers[n - 1].sock, SHUT_RDWR);
	}
	keeper_stats(k, &stats);
	assert_int_equal(stats.requests, 5);
	assert_int_equal(stats.timeouts, 0);
	assert_int_equal(stats.openers, 1);
}

static void on_quit(int number)
{
	(void)number;
}

/* Whether it catches SIGQUIT or would die of it: a process that is no JVM gets none. */
static void attaches_to_jvms_only(void **state)
{
	(void)state;
	for (int catches = 0; catches < 2; catches++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			if (catches)
				(void)sigaction(
					SIGQUIT, &(struct sigaction) {.sa_handler = on_quit}, NULL);
			pause(); /* ends by a signal that is caught */
			_exit(1);
		}
		assert_true(child > 0);
		assert_int_equal(attach_perfmap("/proc", (uint32_t)child, 0), ATTACH_NO_JVM);
		assert_int_equal(attach_perfmap("/proc", (uint32_t)child, 1), ATTACH_GONE);
		usleep(20000);
		assert_int_equal(waitpid(child, &status, WNOHANG), 0);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		assert_int_equal(attach_perfmap("/proc", (uint32_t)child, 0), ATTACH_GONE);
	}
}

static void attacher_answers(void **state)
{
	int pair[2], status;
	pid_t role;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	role = fork();
	if (role == 0) {
		close(pair[1]);
		_exit(attach_serve("/proc", pair[0]));
	}
	close(pair[0]);
	assert_int_equal(attach_next_status(pair[1]), -EAGAIN);
	assert_int_equal(attach_ask(pair[1], (uint32_t)getpid(), 1), 0);
	assert_int_equal(attach_ask(pair[1], (uint32_t)getpid(), 0), 0);
	while ((status = attach_next_status(pair[1])) < 0)
		usleep(1000);
	assert_int_equal(status, ATTACH_GONE);
	while ((status = attach_next_status(pair[1])) < 0)
		usleep(1000);
	assert_int_equal(status, ATTACH_NO_JVM);
	close(pair[1]);
	assert_int_equal(waitpid(role, &status, 0), role);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test_setup_teardown(open_checks_the_start_time, setup, teardown),
		cmocka_unit_test_setup_teardown(a_dead_process_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(open_kinds, setup, teardown),
		cmocka_unit_test_setup_teardown(open_at_stays_below_the_root, setup, teardown),
		cmocka_unit_test_setup_teardown(attaching, setup, teardown),
		cmocka_unit_test_setup_teardown(attaching_to_files, setup, teardown),
		cmocka_unit_test(the_table_of_programs),
		cmocka_unit_test_setup_teardown(malformed_requests_are_answered, setup, teardown),
		cmocka_unit_test(an_opener_refuses_malformed_paths),
		cmocka_unit_test(late_answers_are_dropped),
		cmocka_unit_test(an_opener_that_never_starts),
		cmocka_unit_test_setup_teardown(a_silent_keeper, setup, teardown),
		cmocka_unit_test_setup_teardown(openers_that_hang, setup, teardown),
		cmocka_unit_test_setup_teardown(openers_that_end, setup, teardown),
		cmocka_unit_test(replies_that_nobody_reads),
		cmocka_unit_test(attaches_to_jvms_only),
		cmocka_unit_test(attacher_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
