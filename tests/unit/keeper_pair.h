/* SPDX-License-Identifier: Apache-2.0
 *
 * A keeper and its client for tests: the server in a thread of this process, openers in others. Included behind cmocka.h.
 */
#pragma once
#include "exporter/keeper/client.h"
#include "exporter/keeper/protocol.h"
#include "exporter/keeper/server.h"
#include "lib/base/fs.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>

enum { MAX_OPENERS = 16 };

struct opener {
	pthread_t thread;
	int sock;
	struct copy_limit *copies;
};

/* A server in a thread, a client of it; openers are threads too, the first n_dead of which never answer. */
struct pair {
	int sock[2];
	struct server server;
	struct opener openers[MAX_OPENERS];
	struct copy_limit copies;
	unsigned n_openers, n_dead;
	pthread_t thread;
	struct keeper *keeper;
	char dir[64];
};

/* The side-band event can be read from, those of programs have nothing. */
static int fake_attach(void *ctx, uint32_t event, uint32_t cpu, struct errbuf *eb)
{
	(void)ctx;
	if (cpu == 5)
		return err_set(eb, -ENODEV, "CPU 5 sleeps");
	return open(event == KEEPER_SIDEBAND ? "/dev/zero" : "/dev/null", O_RDONLY | O_CLOEXEC);
}

/* The link is the file itself. */
static int fake_attach_file(
	void *ctx, uint32_t event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	(void)ctx;
	if (event != 3 || offset != 0x1234567890)
		return err_set(
			eb, -ENOENT, "event %u, offset %#llx", event, (unsigned long long)offset);
	return fcntl(file_fd, F_DUPFD_CLOEXEC, 0);
}

static void *serve(void *arg)
{
	struct pair *p = arg;

	for (;;) {
		fd_set set;

		FD_ZERO(&set);
		FD_SET(p->sock[0], &set);
		if (select(p->sock[0] + 1, &set, NULL, NULL, NULL) < 0 ||
			server_answer(&p->server, p->sock[0]) < 0)
			return NULL;
	}
}

static void *serve_opener(void *arg)
{
	struct opener *o = arg;
	const struct server server = {.procfs = "/proc", .opens_files = true, .copies = o->copies};
	int *sock = &o->sock;

	while (server_wait(*sock) == 0 && server_answer(&server, *sock) == 0)
		;
	return NULL;
}

static int fake_opener(void *ctx, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb)
{
	struct pair *p = ctx;
	unsigned i = p->n_openers;
	int sock[2];

	if (i == MAX_OPENERS)
		return err_set(eb, -EBUSY, "all hang");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return -errno;
	p->openers[i].sock = sock[0];
	p->openers[i].copies = &p->copies;
	*ret_sock = sock[1];
	*ret_pid = (uint32_t)getpid();
	p->n_openers++;
	return i < p->n_dead
		       ? 0
		       : -pthread_create(&p->openers[i].thread, NULL, serve_opener, &p->openers[i]);
}

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->server = (struct server) {.procfs = "/proc",
		.attach = fake_attach,
		.attach_file = fake_attach_file,
		.opener_ctx = p,
		.start_opener = fake_opener};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->sock) ||
		pthread_create(&p->thread, NULL, serve, p))
		return -1;
	p->keeper = keeper_client_new(p->sock[1], 5000);
	snprintf(p->dir, sizeof(p->dir), "/tmp/test_keeper.XXXXXX");
	*state = p;
	return mkdtemp(p->dir) ? 0 : -1;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	p->keeper->close(p->keeper);
	pthread_join(p->thread, NULL);
	close(p->sock[0]);
	for (unsigned i = 0; i < p->n_openers; i++) {
		if (i >= p->n_dead)
			pthread_join(p->openers[i].thread, NULL);
		close(p->openers[i].sock);
	}
	if (fs_remove_all(&fs_system, p->dir) < 0)
		return -1;
	free(p);
	return 0;
}

/* Field 22 of a process's stat, in ns of CLOCK_BOOTTIME; no name with blanks here. */
static uint64_t started_ns(pid_t pid)
{
	char path[64], buf[1024], *s;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(buf, sizeof(buf), f));
	fclose(f);
	s = strrchr(buf, ')');
	for (int i = 2; i < 22; i++)
		s = strchr(s + 1, ' ');
	return strtoull(s, NULL, 10) * 10000000ULL;
}
