/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of processes, binaries and names share: a keeper that opens /proc itself (or
 * answers with given text), a parser zygote, temporary directories, the symbol thread.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/keeper/keeper.h"
#include "exporter/parser/parser.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* map_file, when set, is what every KEEPER_MAP_FILE answers; maps_text, when set, is what KEEPER_MAPS answers; refuse: nothing can be opened; hang: nothing answers in time. */
struct fake_keeper {
	struct keeper keeper;
	const void *map_file;
	size_t map_file_bytes;
	const char *maps_text, *kallsyms_text, *modules_text, *exe_text;
	bool refuse, refuse_map_files, hang;
	unsigned n_opens, n_maps;
	unsigned n_returned; /* requests that hung and have ended */
};

static int fake_data(const void *data, size_t n)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	if (write(fd, data, n) != (ssize_t)n)
		abort();
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static int fake_text(const char *text)
{
	return fake_data(text, strlen(text));
}

static int fake_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	struct fake_keeper *f = (struct fake_keeper *)k;
	char path[128], exe[4096] = "";
	int flags = O_RDONLY | O_CLOEXEC, fd;

	(void)start_ns;
	f->n_opens++;
	f->n_maps += what == KEEPER_MAPS;
	if (f->hang)
		return -ETIMEDOUT;
	if (f->refuse)
		return -ESRCH;
	if (what == KEEPER_MAPS && f->maps_text)
		return fake_text(f->maps_text);
	if (what == KEEPER_KALLSYMS && f->kallsyms_text)
		return fake_text(f->kallsyms_text);
	if (what == KEEPER_MODULES && f->modules_text)
		return fake_text(f->modules_text);
	if (what == KEEPER_MAP_FILE && f->refuse_map_files)
		return -EPERM;
	if (what == KEEPER_MAP_FILE && f->map_file)
		return fake_data(f->map_file, f->map_file_bytes);
	if (what == KEEPER_EXE && !f->exe_text) {
		snprintf(path, sizeof(path), "/proc/%u/exe", pid);
		return readlink(path, exe, sizeof(exe) - 1) < 0 ? -errno : fake_text(exe);
	}
	if (what == KEEPER_EXE)
		return fake_text(f->exe_text);
	switch (what) {
	case KEEPER_MAPS: snprintf(path, sizeof(path), "/proc/%u/maps", pid); break;
	case KEEPER_MAP_FILE:
		snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", pid,
			(unsigned long long)start, (unsigned long long)end);
		break;
	case KEEPER_ROOT:
		snprintf(path, sizeof(path), "/proc/%u/root", pid);
		flags |= O_PATH;
		break;
	case KEEPER_MNT_NS: snprintf(path, sizeof(path), "/proc/%u/ns/mnt", pid); break;
	case KEEPER_KALLSYMS: snprintf(path, sizeof(path), "/proc/kallsyms"); break;
	case KEEPER_MODULES: snprintf(path, sizeof(path), "/proc/modules"); break;
	default: return -EINVAL;
	}
	fd = open(path, flags);
	return fd < 0 ? -errno : fd;
}

static int fake_open_at(struct keeper *k, int root_fd, const char *path, int flags)
{
	struct fake_keeper *f = (struct fake_keeper *)k;
	int fd;

	f->n_opens++;
	while (*path == '/')
		path++;
	fd = openat(
		root_fd, path, O_RDONLY | O_CLOEXEC | (flags & KEEPER_NO_LINK ? O_NOFOLLOW : 0));
	return fd < 0 ? -errno : fd;
}

static void fake_stats(struct keeper *k, struct keeper_stats *ret)
{
	ret->returned = ((struct fake_keeper *)k)->n_returned;
}

_unused_ static void fake_keeper_init(struct fake_keeper *f)
{
	*f = (struct fake_keeper) {
		.keeper = {.open = fake_open, .open_at = fake_open_at, .stats = fake_stats}};
}

/* A parser zygote; its pid and our end of the socket. */
struct fake_parser {
	pid_t pid;
	int fd;
};

_unused_ static struct fake_parser fake_parser_start(void)
{
	struct fake_parser p;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	p.pid = fork();
	if (p.pid == 0) {
		static const int signals[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGABRT};

		/* cmocka's handlers would go on with the test in the child. */
		for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
			sigaction(signals[i], &(struct sigaction) {.sa_handler = SIG_DFL}, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		_exit(parser_zygote_run(pair[1]));
	}
	close(pair[1]);
	p.fd = pair[0];
	return p;
}

/* Returns the zygote's exit status. */
_unused_ static int fake_parser_stop(struct fake_parser *p)
{
	int status = -1;

	close(p->fd);
	waitpid(p->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The symbol thread. */
struct worker {
	struct binary_registry *registry;
	atomic_bool stop;
	pthread_t thread;
};

static void *worker_main(void *p)
{
	struct worker *w = p;

	while (!atomic_load(&w->stop))
		binary_work(w->registry, 20 * NS_PER_MS);
	return NULL;
}

_unused_ static void worker_start(struct worker *w, struct binary_registry *r)
{
	*w = (struct worker) {.registry = r};
	pthread_create(&w->thread, NULL, worker_main, w);
}

_unused_ static void worker_stop(struct worker *w)
{
	atomic_store(&w->stop, true);
	pthread_join(w->thread, NULL);
}

_unused_ static char *temp_dir(void)
{
	char *path = xstrdup("/tmp/sonde-names-XXXXXX");

	if (!mkdtemp(path))
		abort();
	return path;
}

_unused_ static void temp_dir_done(char **path)
{
	if (*path)
		(void)!fs_remove_all(&fs_system, *path);
	free(*path);
}
