/* SPDX-License-Identifier: Apache-2.0
 *
 * Forking openers, and what each does.
 */
#include "exporter/keeper/opener.h"
#include "exporter/keeper/server.h"
#include "lib/base/cleanup.h"
#include "lib/base/log.h"
#include "lib/base/sandbox.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of those that the keeper has: CAP_SYS_ADMIN where it was kept for /proc/PID/map_files. */
static const int opener_caps[] = {
	CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_CHECKPOINT_RESTORE, CAP_SYS_ADMIN};

static int give_up_privilege(int sock, struct errbuf *eb)
{
	int r = sandbox_close_others(&sock, 1);

	if (r == 0)
		r = sandbox_limit_caps(opener_caps, ARRAY_SIZE(opener_caps), eb);
	if (r == 0)
		r = sandbox_enter(SANDBOX_OPENER, eb);
	return r;
}

static _Noreturn void run(const struct openers *o, int sock)
{
	struct copy_limit copies = {0};
	const struct server server = {
		.procfs = o->procfs, .opens_files = true, .copies = o->copies ? &copies : NULL};
	struct errbuf eb = {0};
	int r;

	prctl(PR_SET_NAME, "sonde-opener");
	log_set_component("opener");
	r = give_up_privilege(sock, &eb);
	if (r < 0) {
		log_printf(LOG_ERROR, "cannot give up privilege: %s", err_text(&eb, r));
		_exit(1);
	}
	while (server_wait(sock) == 0 && server_answer(&server, sock) == 0)
		;
	_exit(0);
}

static pid_t *free_slot(struct openers *o)
{
	for (size_t i = 0; i < OPENER_MAX; i++)
		if (!o->pids[i])
			return &o->pids[i];
	return NULL;
}

int opener_fork(struct openers *o, struct errbuf *eb)
{
	pid_t *slot = free_slot(o), pid;

	if (!slot)
		return err_set(eb, -EBUSY, "%d openers hang in file systems that do not answer",
			OPENER_MAX);
	pid = fork();
	if (pid < 0)
		return err_set(eb, -errno, "fork: %s", strerror(errno));
	if (pid > 0)
		*slot = pid;
	else if (sandbox_die_with(o->keeper) < 0)
		_exit(1);
	return pid;
}

int opener_start(struct openers *o, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb)
{
	int sock[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return err_set(eb, -errno, "socketpair: %s", strerror(errno));
	r = opener_fork(o, eb);
	if (r == 0)
		run(o, sock[0]);
	close(sock[0]);
	if (r < 0) {
		close(sock[1]);
		return r;
	}
	*ret_sock = sock[1];
	*ret_pid = (uint32_t)r;
	return 0;
}

bool opener_reaped(struct openers *o, pid_t pid)
{
	for (size_t i = 0; i < OPENER_MAX; i++)
		if (o->pids[i] == pid) {
			o->pids[i] = 0;
			return true;
		}
	return false;
}

void opener_kill(const struct openers *o)
{
	for (size_t i = 0; i < OPENER_MAX; i++)
		if (o->pids[i])
			kill(o->pids[i], SIGKILL);
}
